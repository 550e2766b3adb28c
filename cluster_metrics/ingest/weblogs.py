"""The corpus weblogs: the log of a web server as documents with a field for each part of a line.

Documents are some four times as long as the rows of cluster-metrics, most of them text.
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
"""Of a document with its action."""
MAPPINGS = {
    "dynamic": "strict",
    "_meta": {"created_by": MARK},
    "properties": {
        "@timestamp": {"type": "date", "format": "epoch_second"},
        "client": {"type": "ip"},
        "request": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "status": {"type": "integer"},
        "bytes": {"type": "integer"},
        "referrer": {"type": "keyword"},
        "agent": {"type": "text"},
        "duration": {"type": "float"},
        "id": {"type": "keyword"},
    },
}


BATCH = 10_000


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json": _json,
    "smile-32": lambda value: smile.encode(value, 32),
    "smile-64": smile.encode,
}
"""Ways to encode an action or a document, by wire format."""


@dataclass(frozen=True)
class WebLogs(Corpus):
    """What the corpus depends on.

    :param documents: how many, as a cell of ingest-formats has rows (default 100,000).
    :param seed: of all draws (default 42).
    """

    name: ClassVar[str] = NAME
    parameters: ClassVar[dict[str, Parameter]] = {
        "documents": Integer(
            "format_rows",
            "Rows that each cell of ingest-formats ingests, half as many of the web log, "
            "and more where each client could not send a whole request else.",
            "documents",
            low=4,
            high=10_000_000,
        ),
        "seed": SEED,
    }
    documents: int = 100_000
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

    def parts(self) -> list[Part]:
        """One file."""
        file = f"{self.folder(FORMAT_VERSION, self.documents, self.seed)}/documents.json"
        return [Part(file, self.documents, self.documents * MOST_BYTES, exact=False)]

    def made(self, number: int) -> tuple[Iterable[bytes], Callable[[], None]]:
        """The documents; no questions are asked about them."""
        return self._lines(lambda document: _json(document) + b"\n"), lambda: None

    def bodies(self, number: int, encoding: str) -> Iterator[bytes]:
        encode, end = ENCODERS[encoding], ENCODINGS[encoding].separator
        action = encode(ACTION) + end
        return self._lines(lambda document: action + encode(document) + end)

    def body_bytes(self, number: int, encoding: str) -> int:
        return MOST_BYTES * self.documents

    def _lines(self, line: Callable[[dict[str, Any]], bytes]) -> Iterator[bytes]:
        documents = self.rows()
        while batch := list(itertools.islice(documents, BATCH)):
            yield b"".join(map(line, batch))

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        yield Count("", {"match_all": {}}, self.documents)
