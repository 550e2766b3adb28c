"""The corpus text-values: documents of which a query can select exact shares, in an order that says how they lie.

Every document has one of the values ``text 0001``, ``text 0002`` …, all equally often, so the first ``m`` values select
``m / values`` of the documents to the document. Documents are made in blocks that hold every value equally often; the
order within a block decides where the selected ones lie, whatever their share:

- ``even``: blocks of one document a value, in steps through the values that spread any number of them as the golden
  ratio would: the distances between selected documents differ little.
- ``clustered``: blocks of 10 documents a value, sorted by value: runs of selected documents, then none.
- ``random``: blocks of 100 documents a value, shuffled with SHAKE-128.

The form ``value`` is that published, ``{"text": "text 0001"}``. In the form ``log-line`` the text is a line of
:mod:`..corpus.loglines`, and the value stands beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any, ClassVar

from ..core.parameters import SEED, Choice, Integer, Parameter
from ..corpus import loglines
from ..corpus.draws import numbers, shake
from ..corpus.files import TEST_MODE_DOCUMENTS, Corpus, CorpusError, Count, Part

FORMAT_VERSION = 1
NAME = "text-values"
INDEX = "cluster-metrics-text"
FORMS = {"value": "text.keyword", "log-line": "value.keyword"}
"""Forms of the documents, and the field that selects by value."""
BLOCKS = {"even": 1, "clustered": 10, "random": 100}
"""Orders of the documents, and documents of each value in a block."""
LONGEST_LINE = 400
BATCH = 20_000


@dataclass(frozen=True)
class TextValues(Corpus):
    """What the corpus depends on.

    :param documents: a multiple of ``values`` (default 1,000,000).
    :param values: distinct values (default 1,000).
    :param form: of the documents, one of ``FORMS`` (default value).
    :param order: of the documents, one of ``BLOCKS`` (default even).
    :param seed: of the random order and the log lines (default 42).
    """

    name: ClassVar[str] = NAME
    parameters: ClassVar[dict[str, Parameter]] = {
        "documents": Integer(
            "text_documents",
            "Documents of the corpus text-values, a multiple of its values.",
            "documents",
            low=1,
            high=1_000_000_000,
        ),
        "values": Integer(
            "text_distinct_values",
            "Distinct values of these documents, by which shares are selected.",
            "values",
            low=1,
            high=9999,
        ),
        "form": Choice(
            "text_form", "Text of these documents: the value itself, or a web log line.", choices=tuple(FORMS)
        ),
        "order": Choice("text_order", "How the documents of a share lie in the index.", choices=tuple(BLOCKS)),
        "seed": SEED,
    }
    documents: int = 1_000_000
    values: int = 1_000
    form: str = "value"
    order: str = "even"
    seed: int = 42

    @classmethod
    def of(cls, values: Mapping[str, Any], test_mode: bool) -> "TextValues":
        """See there; in test mode one document a value, 1000 at most."""
        if test_mode:
            least = min(values["text_distinct_values"], TEST_MODE_DOCUMENTS)
            values = {**values, "text_documents": least, "text_distinct_values": least}
        return super().of(values, test_mode)

    def check(self) -> "TextValues":
        super().check()
        if self.documents % self.values:
            raise CorpusError(
                f"text_documents is [{self.documents:,}], allowed is a multiple of text_distinct_values, "
                f"which is {self.values:,}"
            )
        return self

    def parts(self) -> list[Part]:
        """One file."""
        folder = self.folder(FORMAT_VERSION, loglines.FORMAT_VERSION, *astuple(self))
        exact = self.form == "value"
        width = len(self._document(1, text_of(1))) if exact else LONGEST_LINE
        return [Part(f"{folder}/documents.json", self.documents, self.documents * width, exact)]

    def made(self, number: int) -> tuple[Iterable[bytes], Callable[[], list[int]]]:
        """The documents, and for each value in order the number of characters of its documents' texts."""
        chars = [0] * self.values
        return self.blocks(chars), lambda: chars

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        """All documents, and those of each share."""
        yield Count("", {"match_all": {}}, self.documents)
        for share in values["shares_permille"]:
            selected = share * self.values // 1000
            query = {"range": {FORMS[self.form]: {"lte": text_of(selected)}}}
            yield Count(f" of the first {selected:,} values", query, selected * self.documents // self.values)

    def blocks(self, chars: list[int]) -> Iterator[bytes]:
        """The documents in order, some 20,000 or a block of the order at a time.

        :param chars: a number per value, to which the characters of its documents' texts are added.
        """
        lines = self._lines()
        for values in _batches(self):
            texts = [text_of(v) for v in values] if self.form == "value" else list(islice(lines, len(values)))
            for value, text in zip(values, texts):
                chars[value - 1] += len(text)
            yield "".join(map(self._document, values, texts)).encode()

    def _document(self, value: int, text: str) -> str:
        escaped = text.replace('"', '\\"')
        of_value = "" if self.form == "value" else f'"value":"{text_of(value)}",'
        return f'{{{of_value}"text":"{escaped}"}}\n'

    def _lines(self) -> Iterator[str]:
        for block in range(-(-self.documents // loglines.BLOCK_LINES)):
            yield from loglines.lines(self.seed, block)


def text_of(value: int) -> str:
    """A value, counted from 1, as it stands in the documents."""
    return f"text {value:04d}"


def order_of(corpus: TextValues, block: int) -> list[int]:
    """The values of the documents of a block of the order, each equally often; the last block may be shorter."""
    done = block * BLOCKS[corpus.order] * corpus.values
    repeats = min(BLOCKS[corpus.order], (corpus.documents - done) // corpus.values)
    if corpus.order == "even":
        step = _spreading_step(corpus.values)
        return [i * step % corpus.values + 1 for i in range(corpus.values)]
    in_order = [value for value in range(1, corpus.values + 1) for _ in range(repeats)]
    if corpus.order == "clustered":
        return in_order
    draws = numbers(shake(NAME, FORMAT_VERSION, corpus.seed, block, size=8 * len(in_order)), "Q")
    return [in_order[i] for i in sorted(range(len(in_order)), key=draws.__getitem__)]


def _spreading_step(n: int) -> int:
    """The step whose multiples modulo n are spread best: the continued fraction of step / n has the least greatest
    quotient, as that of the golden ratio does (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""

    def greatest_quotient(step: int) -> int:
        quotients, a, b = [], n, step
        while b:
            quotients.append(a // b)
            a, b = b, a % b
        return max(quotients) if a == 1 else n + 1  # a common divisor would leave values out

    return min(range(1, n + 1), key=greatest_quotient)


def _batches(corpus: TextValues) -> Iterator[list[int]]:
    """The values of all documents in order, whole blocks at a time."""
    batch: list[int] = []
    for block in range(-(-corpus.documents // (BLOCKS[corpus.order] * corpus.values))):
        batch += order_of(corpus, block)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
