"""Bulk bodies encoded before the race: the rows of an epoch with their actions, each of one width, in one file.

A body of any number of rows is a slice of that file, so sending it costs a client next to nothing.
"""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from . import smile
from .corpus import FIELDS, JSON, MICRO, Corpus, RowFormat, rows
from .files import part_of

ACTION: dict[str, dict] = {"index": {}}
JSON_ACTION = b'{"index":{}}\n'


@dataclass(frozen=True)
class Encoding:
    """A wire format of bulk bodies.

    :param content_type: of a request with such a body.
    :param row_format: of a row with its action before it.
    """

    content_type: str
    row_format: RowFormat


def _json_prefix(epoch: int, node: int, task: int) -> bytes:
    return JSON_ACTION + JSON.prefix(epoch, node, task)


def _smile_rows(bits: int) -> RowFormat:
    precision = smile.FLOATS[bits]
    action = smile.body([smile.encode(ACTION)])
    cpu, mem, net = (smile.name_token(field) + precision.token for field in FIELDS)

    def prefix(epoch: int, node: int, task: int) -> bytes:
        of_row = smile.encode({"epoch": epoch, "node": f"N{node:03d}", "task": f"T{task:03d}"})
        return action + of_row.removesuffix(smile.END_OF_OBJECT) + cpu

    def values(micros: list[int], width: int) -> list[bytes]:
        return precision.encode_all([v / MICRO for v in micros])

    suffixes = {"cpu": mem, "mem": net, "net": smile.END_OF_OBJECT + smile.SEPARATOR}
    return RowFormat(prefix, dict.fromkeys(FIELDS, precision.size), suffixes, values)


ENCODINGS = {
    "json": Encoding("application/x-ndjson", RowFormat(_json_prefix, JSON.widths, JSON.suffixes, JSON.values)),
    "smile-32": Encoding(smile.CONTENT_TYPE, _smile_rows(32)),
    "smile-64": Encoding(smile.CONTENT_TYPE, _smile_rows(64)),
}


def encoded_file(rows_file: str | os.PathLike, encoding: str) -> Path:
    """Where the bulk bodies of an epoch stand: beside its rows."""
    return Path(rows_file).with_suffix(f".bulk-{encoding}")


def generate_encoded(corpus: Corpus, epoch: int, encoding: str, data_root: Path) -> Path:
    """Makes sure that an epoch's bulk bodies are below ``data_root``; does nothing when the file has its size already.

    :param encoding: a key of ``ENCODINGS``.
    :return: the path of the file.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    path = encoded_file(data_root / corpus.file_name(epoch), encoding)
    size = corpus.rows_per_epoch * ENCODINGS[encoding].row_format.row_bytes(epoch)
    if path.exists() and path.stat().st_size == size:
        return path
    with part_of(path, size, f"bulk bodies ({encoding}) of corpus epoch {epoch}") as part:
        with open(part, "wb") as out:
            for block in rows(corpus, epoch, ENCODINGS[encoding].row_format):
                out.write(block)
        os.replace(part, path)
    return path


class EncodedRows:
    """The bulk bodies of an epoch, read by slices of rows.

    :param rows_file: path of the epoch's rows.
    :param encoding: a key of ``ENCODINGS``.
    """

    def __init__(self, corpus: Corpus, epoch: int, rows_file: str | os.PathLike, encoding: str = "json"):
        self.content_type = ENCODINGS[encoding].content_type
        self._row_bytes = ENCODINGS[encoding].row_format.row_bytes(epoch)
        with open(encoded_file(rows_file, encoding), "rb") as f:
            self._bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)

    def body(self, first: int, count: int) -> bytes:
        """The bulk body of ``count`` rows from row ``first`` on, counted from 0."""
        return self._bytes[first * self._row_bytes : (first + count) * self._row_bytes]
