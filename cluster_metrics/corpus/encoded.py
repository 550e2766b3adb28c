"""Rows on the wire: how a row of metrics is written, and bulk bodies that are encoded before the race.

A body of any number of rows is a slice of a file of encoded rows with their actions, so sending it costs a client next
to nothing.
"""

import mmap
import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..wire import smile
from .files import Progress, write_whole

ACTION: dict[str, dict] = {"index": {}}
JSON_ACTION = b'{"index":{}}\n'
TIMESTAMP = "@timestamp"
FIRST_MS = 1_735_689_600_000
"""The first timestamp: the beginning of 2025."""


@dataclass(frozen=True)
class RowFormat:
    """How a row is written: fixed bytes around values that have one width per field.

    :param prefix: of an epoch, a node and a task (counted from 1), what stands before the first value; its length
        depends on the epoch alone.
    :param widths: bytes of each field's values.
    :param suffixes: what follows the value of each field.
    :param values: of millionths and their width, the bytes of each.
    :param named: what stands before a timestamp.
    :param stamp: of the milliseconds of a timestamp, which have 13 digits, the bytes; all have one width.
    """

    prefix: Callable[[int, int, int], bytes]
    widths: dict[str, int]
    suffixes: dict[str, bytes]
    values: Callable[[list[int], int], list[bytes]]
    named: bytes
    stamp: Callable[[int], bytes]

    def row_bytes(self, epoch: int) -> int:
        """The size of one row of an epoch in bytes."""
        return len(self.prefix(epoch, 1, 1)) + sum(self.widths.values()) + sum(map(len, self.suffixes.values()))

    def stamped(self) -> "RowFormat":
        """The same with a timestamp after the last value."""
        last, end = list(self.suffixes.items())[-1]
        return replace(
            self,
            widths=self.widths | {TIMESTAMP: len(self.stamp(FIRST_MS))},
            suffixes=self.suffixes | {last: self.named, TIMESTAMP: end},
        )


def json_prefix(epoch: int, node: int, task: int) -> bytes:
    """A row as JSON up to the value of cpu."""
    return b'{"epoch":%d,"node":"N%03d","task":"T%03d","cpu":' % (epoch, node, task)


def json_values(micros: list[int], chars: int) -> list[bytes]:
    """Millionths as decimal numbers of that many characters."""
    return [(b"%d.%06d" % divmod(v, 1_000_000))[:chars] for v in micros]


JSON = RowFormat(
    json_prefix,
    {"cpu": 7, "mem": 7, "net": 8},
    {"cpu": b',"mem":', "mem": b',"net":', "net": b"}\n"},
    json_values,
    b',"%b":' % TIMESTAMP.encode(),
    lambda ms: b"%d" % ms,
)
"""Newline-delimited JSON, the format of the corpus' files."""


@dataclass(frozen=True)
class Encoding:
    """A wire format of bulk bodies.

    :param content_type: of a request with such a body.
    :param row_format: of a row of metrics with its action before it.
    :param separator: ends each action and each document.
    """

    content_type: str
    row_format: RowFormat
    separator: bytes


def _json_prefix(epoch: int, node: int, task: int) -> bytes:
    return JSON_ACTION + JSON.prefix(epoch, node, task)


def _smile_rows(bits: int) -> RowFormat:
    precision = smile.FLOATS[bits]
    action = smile.body([smile.encode(ACTION)])
    cpu, mem, net = (smile.name_token(field) + precision.token for field in JSON.widths)

    def prefix(epoch: int, node: int, task: int) -> bytes:
        of_row = smile.encode({"epoch": epoch, "node": f"N{node:03d}", "task": f"T{task:03d}"})
        return action + of_row.removesuffix(smile.END_OF_OBJECT) + cpu

    def values(micros: list[int], width: int) -> list[bytes]:
        return precision.encode_all([v / 1_000_000 for v in micros])

    suffixes = {"cpu": mem, "mem": net, "net": smile.END_OF_OBJECT + smile.SEPARATOR}
    widths = dict.fromkeys(JSON.widths, precision.size)
    return RowFormat(prefix, widths, suffixes, values, smile.name_token(TIMESTAMP), smile.integer_token)


ENCODINGS = {
    "json": Encoding("application/x-ndjson", replace(JSON, prefix=_json_prefix), b"\n"),
    "smile-32": Encoding(smile.CONTENT_TYPE, _smile_rows(32), smile.SEPARATOR),
    "smile-64": Encoding(smile.CONTENT_TYPE, _smile_rows(64), smile.SEPARATOR),
}


def encoded_file(rows_file: str | os.PathLike, encoding: str) -> Path:
    """Where the bulk bodies of a file of rows stand: beside it."""
    return Path(rows_file).with_suffix(f".bulk-{encoding}")


def generate_bodies(
    corpus: Any, number: int, encoding: str, rows_file: Path, progress: Progress = lambda line: None
) -> None:
    """Makes sure that the bulk bodies of a part of a corpus stand beside its rows, whole.

    :param number: of the part, counted from 0.
    :param encoding: a key of ``ENCODINGS``.
    :param progress: see :func:`.files.write_whole`.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    path = encoded_file(rows_file, encoding)
    name = f"bulk bodies ({encoding}) of {rows_file.name} of corpus {corpus.name}"
    write_whole(path, corpus.body_bytes(number, encoding), corpus.bodies(number, encoding), name, progress)


class Bodies:
    """Bulk bodies read by slices of documents.

    :param rows_file: the rows that they were made of.
    :param encoding: a key of ``ENCODINGS``.
    :param row_bytes: of a document with its action; 0 where they vary, and are found by the bytes that end them.
    """

    def __init__(self, rows_file: str | os.PathLike, encoding: str, row_bytes: int = 0):
        form = ENCODINGS[encoding]
        self.content_type = form.content_type
        with open(encoded_file(rows_file, encoding), "rb") as f:
            self._bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self._row_bytes = row_bytes
        self._starts, end = array("Q", [0]), 0
        while not row_bytes and end < len(self._bytes):
            for _ in ("action", "document"):
                end = self._bytes.find(form.separator, end) + 1
            self._starts.append(end)

    def body(self, first: int, count: int) -> bytes:
        """The bulk body of ``count`` documents from document ``first`` on, counted from 0."""
        start, end = (n * self._row_bytes if self._row_bytes else self._starts[n] for n in (first, first + count))
        return self._bytes[start:end]


def metrics_bodies(corpus: Any, epoch: int, rows_file: str | os.PathLike, encoding: str = "json") -> Bodies:
    """The bulk bodies of an epoch of the corpus cluster-metrics, whose rows have one width."""
    return Bodies(rows_file, encoding, corpus.row_format(encoding).row_bytes(epoch))
