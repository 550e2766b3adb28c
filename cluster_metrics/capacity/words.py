"""The corpus of the capacity challenges: documents of a timestamp and two fields of 100 common English words.

A pure function of its parameters: every word is drawn with 16 bits of SHAKE-128 over the seed and the number of the
block, so the same parameters give the same bytes on every host. About 1.1 kB a document, as in the capacity articles
that the challenges follow (fields of 500 to 600 characters).
"""

import hashlib
import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..core.parameters import SEED, Choice, Integer, Parameter
from ..corpus.draws import numbers, shake, slots
from ..corpus.files import Corpus, Count, Part

FORMAT_VERSION = 1
NAME = "words"
FIELDS = ("field1", "field2")
WORDS_PER_FIELD = 100
BLOCK_DOCUMENTS = 10_000
START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z; each document is a second later than the one before."""
SLOTS = 1 << 16
FREQUENCIES = ("uniform", "natural")
CHECKED_QUERIES = 20
"""Queries whose number of matching documents is known exactly."""
LONGEST_DOCUMENT = 1500


def vocabulary() -> list[str]:
    """1024 common English words of two to six letters."""
    return Path(__file__).with_name("words.txt").read_text().split()


@dataclass(frozen=True)
class Words(Corpus):
    """What the corpus depends on.

    :param documents: how many (default 300,000).
    :param frequency: of the words: ``uniform`` (as in the articles) or ``natural`` (Zipf's law, in an order of the
        seed).
    :param seed: of all draws (default 42).
    """

    name: ClassVar[str] = NAME
    parameters: ClassVar[dict[str, Parameter]] = {
        "documents": Integer("word_documents", "Documents of the corpus words.", "documents", low=1, high=10**9),
        "frequency": Choice("word_frequency", "How often each of these words occurs.", choices=FREQUENCIES),
        "seed": SEED,
    }
    documents: int = 300_000
    frequency: str = "uniform"
    seed: int = 42

    def parts(self) -> list[Part]:
        """One file."""
        file = f"{self.folder(FORMAT_VERSION, *astuple(self))}/documents.json"
        return [Part(file, self.documents, self.documents * LONGEST_DOCUMENT, exact=False)]

    def made(self, number: int) -> tuple[Iterable[bytes], Callable[[], list[int]]]:
        """The documents, and for each of the first queries how many documents match it."""
        hits = [0] * CHECKED_QUERIES
        return self.blocks(hits), lambda: hits

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        """All documents, and those that match the first queries."""
        yield Count("", {"match_all": {}}, self.documents)
        for query, hits in zip(self.queries(CHECKED_QUERIES), answers[0]):
            yield Count(f" that match [{query}]", {"match": {FIELDS[0]: query}}, hits)

    def blocks(self, hits: list[int]) -> Iterator[bytes]:
        """The documents in order, 10,000 at a time.

        :param hits: a number per query, to which the documents that match it are added.
        """
        queries = [set(query.split()) for query in self.queries(len(hits))]
        number = itertools.count()
        texts = self.texts()
        while batch := list(itertools.islice(texts, BLOCK_DOCUMENTS)):
            for i, words in enumerate(queries):
                hits[i] += sum(not words.isdisjoint(found) for found in (text.split() for text, _ in batch))
            yield "".join(
                f'{{"timestamp":{START_MS + 1000 * next(number)},"field1":"{field1}","field2":"{field2}"}}\n'
                for field1, field2 in batch
            ).encode()

    def slots(self) -> list[str]:
        """65,536 words, each in as many slots as its frequency asks."""
        words = sorted(vocabulary(), key=lambda word: hashlib.sha256(f"{self.seed}/{word}".encode()).digest())
        return slots(words, SLOTS, self.frequency == "natural")

    def texts(self) -> Iterator[tuple[str, ...]]:
        """The fields of each document, in order."""
        slots, words = self.slots(), len(FIELDS) * WORDS_PER_FIELD
        for block, first in enumerate(range(0, self.documents, BLOCK_DOCUMENTS)):
            count = min(BLOCK_DOCUMENTS, self.documents - first)
            drawn = list(map(slots.__getitem__, self._draws("block", block, count * words)))
            for start in range(0, len(drawn), words):
                yield tuple(
                    " ".join(drawn[at : at + WORDS_PER_FIELD]) for at in range(start, start + words, WORDS_PER_FIELD)
                )

    def queries(self, count: int) -> list[str]:
        """Texts for ``match``: one to four words each, from the same list at the same frequency."""
        slots = self.slots()
        draws = iter(self._draws("queries", 0, 5 * count))
        return [" ".join(slots[draw] for draw in drawn[: 1 + length % 4]) for length, *drawn in zip(*[draws] * 5)]

    def _draws(self, kind: str, block: int, count: int) -> array:
        return numbers(shake(NAME, FORMAT_VERSION, self.seed, kind, block, size=2 * count))
