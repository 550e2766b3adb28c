"""The second corpus of ingest-formats: the log of a web server as documents with a field for each part of a line.

Documents are some four times as long as the rows of the corpus, most of them text. They are encoded before the race as
bulk bodies, see :mod:`.encoded`; having no fixed width, they are found in the file by the bytes that separate them.
"""

import hashlib
import json
import mmap
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import smile
from .encoded import ACTION
from .files import part_of
from .index import MARK
from .loglines import BLOCK_LINES, FORMAT_VERSION, LINES_PER_SECOND, START, records

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


@dataclass(frozen=True)
class LogEncoding:
    """A wire format of bulk bodies of log lines.

    :param content_type: of a request with such a body.
    :param separator: ends each action and each document, and is in none.
    :param encode: an action or a document.
    """

    content_type: str
    separator: bytes
    encode: Callable[[Any], bytes]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


ENCODINGS = {
    "json": LogEncoding("application/x-ndjson", b"\n", _json),
    "smile-32": LogEncoding(smile.CONTENT_TYPE, smile.SEPARATOR, lambda value: smile.encode(value, 32)),
    "smile-64": LogEncoding(smile.CONTENT_TYPE, smile.SEPARATOR, smile.encode),
}


@dataclass(frozen=True)
class WebLog:
    """The parameters of a log.

    :param documents: how many.
    :param seed: of all draws.
    """

    documents: int
    seed: int

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

    def file(self, encoding: str, data_root: Path) -> Path:
        """Where its bulk bodies stand below the data folder."""
        key = hashlib.sha256(json.dumps([FORMAT_VERSION, self.documents, self.seed]).encode()).hexdigest()[:12]
        return data_root / f"{NAME}-{key}" / f"log.bulk-{encoding}"

    def generate(self, encoding: str, data_root: Path) -> Path:
        """Makes sure that its bulk bodies are below ``data_root``; does nothing when they already are.

        :raises CorpusError: when the folder cannot be written or the disk is too small.
        """
        path = self.file(encoding, data_root)
        if path.exists():
            return path
        form = ENCODINGS[encoding]
        action = form.encode(ACTION) + form.separator
        with part_of(path, MOST_BYTES * self.documents, f"bulk bodies ({encoding}) of the web log") as part:
            with open(part, "wb") as out:
                for document in self.rows():
                    out.write(action + form.encode(document) + form.separator)
            os.replace(part, path)
        return path


class EncodedLog:
    """The bulk bodies of a log, read by slices of documents."""

    def __init__(self, log: WebLog, encoding: str, data_root: Path):
        form = ENCODINGS[encoding]
        self.content_type = form.content_type
        with open(log.file(encoding, data_root), "rb") as f:
            self._bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        action = len(form.encode(ACTION) + form.separator)
        self._starts, end = array("Q", [0]), 0
        while end < len(self._bytes):
            end = self._bytes.find(form.separator, end + action) + 1
            self._starts.append(end)

    def body(self, first: int, count: int) -> bytes:
        """The bulk body of ``count`` documents from document ``first`` on, counted from 0."""
        return self._bytes[self._starts[first] : self._starts[first + count]]
