"""Bulk bodies encoded before the race: the rows of an epoch with their actions, each of one width, in one file.

A body of any number of rows is a slice of that file, so sending it costs a client next to nothing.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .corpus import Corpus, rows
from .files import part_of

JSON_ACTION = b'{"index":{}}\n'


@dataclass(frozen=True)
class Encoding:
    """A wire format of bulk bodies.

    :param content_type: of a request with such a body.
    :param row_bytes: of a corpus and an epoch, the size of one row with its action.
    :param blocks: of a corpus and an epoch, all rows with their actions in order, many at a time.
    """

    content_type: str
    row_bytes: Callable[[Corpus, int], int]
    blocks: Callable[[Corpus, int], Iterator[bytes]]


def _json_row_bytes(corpus: Corpus, epoch: int) -> int:
    return len(JSON_ACTION) + corpus.row_bytes(epoch)


def _json_blocks(corpus: Corpus, epoch: int) -> Iterator[bytes]:
    for block in rows(corpus, epoch):
        yield JSON_ACTION + bytes(block[:-1]).replace(b"\n", b"\n" + JSON_ACTION) + b"\n"


ENCODINGS = {"json": Encoding("application/x-ndjson", _json_row_bytes, _json_blocks)}


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
    size = corpus.rows_per_epoch * ENCODINGS[encoding].row_bytes(corpus, epoch)
    if path.exists() and path.stat().st_size == size:
        return path
    with part_of(path, size, f"bulk bodies ({encoding}) of corpus epoch {epoch}") as part:
        with open(part, "wb") as out:
            for block in ENCODINGS[encoding].blocks(corpus, epoch):
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
        self._row_bytes = ENCODINGS[encoding].row_bytes(corpus, epoch)
        with open(encoded_file(rows_file, encoding), "rb") as f:
            self._bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)

    def body(self, first: int, count: int) -> bytes:
        """The bulk body of ``count`` rows from row ``first`` on, counted from 0."""
        return self._bytes[first * self._row_bytes : (first + count) * self._row_bytes]
