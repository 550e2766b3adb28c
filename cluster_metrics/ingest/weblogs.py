"""The corpus weblogs: the log of a web server, with a field for each part of a line.

A document of one line is some four times as long as a row of cluster-metrics, most of it text. The same lines also come
in batches, documents of many lines.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.index import MARK
from ..core.parameters import SEED, Integer, Parameter
from ..corpus.encoded import ACTION, ENCODINGS
from ..corpus.files import Corpus, Count, Part
from ..corpus.loglines import BLOCK_LINES, FORMAT_VERSION, LINES_PER_SECOND, START, records
from ..wire import smile

NAME = "weblogs"
MOST_BYTES = 500
"""Of a line, with an action."""
FORMS = 2
"""Counts how documents and bodies are written; raised when their bytes change."""
BATCHES = (1, 4, 16, 64)
"""Lines of a document in each file of batches; the part of that number has them, the first one of none."""
MOST_BATCHED = 48_000
"""Lines of a file of batches, at most."""
FIELDS = {
    "@timestamp": {"type": "date", "format": "epoch_second"},
    "client": {"type": "ip"},
    "request": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
    "status": {"type": "integer"},
    "bytes": {"type": "integer"},
    "referrer": {"type": "keyword"},
    "agent": {"type": "text"},
    "duration": {"type": "float"},
    "id": {"type": "keyword"},
}
MAPPINGS = {"dynamic": "strict", "_meta": {"created_by": MARK}, "properties": FIELDS}
BATCH_MAPPINGS = MAPPINGS | {"properties": {"lines": {"properties": FIELDS}}}
BLOCK = 10_000
"""Documents that are written at once."""


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json": _json,
    "smile-32": lambda value: smile.encode(value, 32, share_names=True),
    "smile-64": lambda value: smile.encode(value, share_names=True),
}
"""Ways to encode an action or a document, by wire format; SMILE as Jackson writes it unless told otherwise."""


@dataclass(frozen=True)
class WebLogs(Corpus):
    """What the corpus depends on.

    :param documents: of one line, how many (default 1,000,000).
    :param seed: of all draws (default 42).
    """

    name: ClassVar[str] = NAME
    parameters: ClassVar[dict[str, Parameter]] = {
        "documents": Integer(
            "weblog_documents",
            "Lines of the web log that ingest-formats ingests, about 350 bytes each; a cell has no more.",
            "documents",
            low=64,
            high=100_000_000,
        ),
        "seed": SEED,
    }
    documents: int = 1_000_000
    seed: int = 42

    def rows(self) -> Iterator[dict[str, Any]]:
        """The documents in order."""
        first = int(START.timestamp())
        for number in range(self.documents):
            at, line = divmod(number, BLOCK_LINES)
            if not line:
                block = records(self.seed, at)
            client, _, request, of, ending, status, size, referrer, agent, millis, key = next(block)
            yield {
                "@timestamp": first + number // LINES_PER_SECOND,
                "client": client,
                "request": f"{request}{of}{ending} HTTP/1.1",
                "status": int(status),
                "bytes": size,
                "referrer": referrer,
                "agent": agent,
                "duration": millis / 1000,
                "id": key,
            }

    def batches(self, lines: int) -> Iterator[dict[str, Any]]:
        """Documents of so many lines each, whole ones only."""
        rows = itertools.islice(self.rows(), MOST_BATCHED)
        while len(batch := list(itertools.islice(rows, lines))) == lines:
            yield {"lines": batch}

    def parts(self) -> list[Part]:
        """One file of a line a document, and one for each size of batch."""
        folder = self.folder(FORMAT_VERSION, FORMS, self.documents, self.seed)
        parts = [Part(f"{folder}/documents.json", self.documents, self.documents * MOST_BYTES, exact=False)]
        for lines in BATCHES:
            count = min(self.documents, MOST_BATCHED) // lines
            parts.append(Part(f"{folder}/batches-{lines}.json", count, count * lines * MOST_BYTES, exact=False))
        return parts

    def made(self, number: int) -> tuple[Iterable[bytes], Callable[[], None]]:
        """The documents of a part; no questions are asked about them."""
        return self._blocks(number, lambda document: _json(document) + b"\n"), lambda: None

    def bodies(self, number: int, encoding: str) -> Iterator[bytes]:
        encode, end = ENCODERS[encoding], ENCODINGS[encoding].separator
        action = encode(ACTION) + end
        return self._blocks(number, lambda document: action + encode(document) + end)

    def body_bytes(self, number: int, encoding: str) -> int:
        return self.parts()[number].size

    def _blocks(self, number: int, line: Callable[[dict[str, Any]], bytes]) -> Iterator[bytes]:
        documents = self.batches(BATCHES[number - 1]) if number else self.rows()
        while block := list(itertools.islice(documents, BLOCK)):
            yield b"".join(map(line, block))

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        yield Count("", {"match_all": {}}, self.documents)
