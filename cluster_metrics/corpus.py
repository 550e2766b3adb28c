"""The corpus: metrics of a cluster as newline-delimited JSON, a pure function of five parameters.

Rows are made in *sweeps*. In one sweep every node reports each of its tasks once, and all nodes report a task before
any reports the next one, so row ``i`` of an epoch belongs to node ``i % nodes`` and task ``(i // nodes) % tasks``.
A value is one of 4096 quantiles of its node's distribution, drawn with 12 bits of SHAKE-128 over the seed, the epoch
and the number of the sweep. Everything is integer arithmetic on a standardised hash, so the same parameters give the
same bytes on every host and Python version, and any sweep can be made without those before it. Rows have a fixed width
per epoch: row ``i`` starts at byte ``i * row_bytes``.
"""

import hashlib
import json
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any, ClassVar

from .answers import field_answers
from .files import CorpusError, Part, is_whole, write_whole

FORMAT_VERSION = 1
"""Of the rows: another one, other rows."""
ANSWERS_VERSION = 2
"""Of the answers that stand beside them."""
NAME = "cluster-metrics"
FIELDS = ("cpu", "mem", "net")
MICRO = 10**6
QUANTILES = 4096
BLOCK_ROWS = 200_000
LIMITS = {
    "nodes": (1, 999),
    "tasks": (1, 999),
    "rows_per_epoch": (1, 1_000_000_000),
    "epochs": (1, 999),
    "seed": (0, 2**63 - 1),
}
MOST_PAIRS = 200_000
_LOW_NIBBLE = bytes(b & 0x0F for b in range(256))
_VALUE_CHARS = {"cpu": 7, "mem": 7, "net": 8}


@dataclass(frozen=True)
class Corpus:
    """The parameters of a corpus; their limits are in ``LIMITS``.

    :param nodes: nodes of the cluster, named N001, N002, … (default 30).
    :param tasks: tasks of each node, named T001, T002, … (default 200).
    :param rows_per_epoch: rows, hence documents, of one epoch (default 1,000,000).
    :param epochs: epochs, one file each, counted from 1 (default 5).
    :param seed: of all draws (default 42).
    """

    name: ClassVar[str] = NAME
    nodes: int = 30
    tasks: int = 200
    rows_per_epoch: int = 1_000_000
    epochs: int = 5
    seed: int = 42

    def check(self) -> "Corpus":
        """Returns itself.

        :raises CorpusError: with one line that names the parameter, the value and what is allowed.
        """
        for name, value in asdict(self).items():
            low, high = LIMITS[name]
            if not low <= value <= high:
                raise CorpusError(f"{name} is [{value}], allowed is an integer from {low:,} to {high:,}")
        if self.nodes * self.tasks > MOST_PAIRS:
            raise CorpusError(f"nodes times tasks are [{self.nodes * self.tasks:,}], allowed is up to {MOST_PAIRS:,}")
        return self

    @property
    def directory(self) -> str:
        """The folder of this corpus: its name ends in a hash over the parameters and the version of the format.

        The number of epochs is no part of the hash, since an epoch's rows do not depend on how many there are.
        """
        key = json.dumps([FORMAT_VERSION, ANSWERS_VERSION, self.nodes, self.tasks, self.rows_per_epoch, self.seed])
        return f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    def file_name(self, epoch: int) -> str:
        """The path of an epoch's rows below the data folder, always with forward slashes."""
        return f"{self.directory}/epoch-{epoch}.json"

    def row_bytes(self, epoch: int) -> int:
        """The size of one row of an epoch in bytes, with its newline."""
        return JSON.row_bytes(epoch)

    def epoch_bytes(self, epoch: int) -> int:
        """The size of an epoch's file in bytes."""
        return self.rows_per_epoch * self.row_bytes(epoch)

    @classmethod
    def of(cls, values: dict[str, Any], test_mode: bool) -> "Corpus":
        """The corpus that track parameters ask for; in Rally's test mode with at most 1000 rows per epoch.

        Without ``rows_per_epoch`` the ``corpus_bytes`` decide.
        """
        corpus = cls(values["nodes"], values["tasks"], values["rows_per_epoch"], values["epochs"], values["seed"])
        if not corpus.rows_per_epoch:
            corpus = replace(
                corpus, rows_per_epoch=max(1, int(values["corpus_bytes"] / corpus.mean_row_bytes / corpus.epochs))
            )
        return replace(corpus, rows_per_epoch=min(corpus.rows_per_epoch, 1000)) if test_mode else corpus

    @property
    def mean_row_bytes(self) -> float:
        """The size of a row in bytes, on average over the epochs."""
        return sum(map(self.row_bytes, range(1, self.epochs + 1))) / self.epochs

    def sizes(self) -> dict[str, int]:
        """The track parameters that test mode may have changed, as they are."""
        return {"rows_per_epoch": self.rows_per_epoch}

    def parts(self) -> list[Part]:
        """A file per epoch."""
        return [self.part(epoch) for epoch in range(1, self.epochs + 1)]

    def part(self, epoch: int) -> Part:
        """The file of an epoch."""
        return Part(self.file_name(epoch), self.rows_per_epoch, self.epoch_bytes(epoch), meta={"epoch": epoch})

    def generate(self, part: int, data_root: Path, progress: Callable[[str], None]) -> Path:
        """Makes sure that the part of that number, counted from 0, is there; see :func:`generate_epoch`."""
        return generate_epoch(self, part + 1, data_root, progress)

    def node_names(self) -> list[str]:
        return [f"N{node:03d}" for node in range(1, self.nodes + 1)]


@dataclass(frozen=True)
class RowFormat:
    """How a row is written: fixed bytes around values that have one width per field.

    :param prefix: of an epoch, a node and a task (counted from 1), what stands before the first value; its length
        depends on the epoch alone.
    :param widths: bytes of each field's values.
    :param suffixes: what follows the value of each field.
    :param values: of millionths and their width, the bytes of each.
    """

    prefix: Callable[[int, int, int], bytes]
    widths: dict[str, int]
    suffixes: dict[str, bytes]
    values: Callable[[list[int], int], list[bytes]]

    def row_bytes(self, epoch: int) -> int:
        """The size of one row of an epoch in bytes."""
        return len(self.prefix(epoch, 1, 1)) + sum(self.widths.values()) + sum(map(len, self.suffixes.values()))


def json_prefix(epoch: int, node: int, task: int) -> bytes:
    """A row as JSON up to the value of cpu."""
    return b'{"epoch":%d,"node":"N%03d","task":"T%03d","cpu":' % (epoch, node, task)


def json_values(micros: list[int], chars: int) -> list[bytes]:
    """Millionths as decimal numbers of that many characters."""
    return [(b"%d.%06d" % divmod(v, MICRO))[:chars] for v in micros]


JSON = RowFormat(json_prefix, _VALUE_CHARS, {"cpu": b',"mem":', "mem": b',"net":', "net": b"}\n"}, json_values)
"""Newline-delimited JSON, the format of the corpus' files."""


def _shake(*key: object, size: int) -> bytes:
    return hashlib.shake_128("/".join(map(str, (NAME, FORMAT_VERSION, *key))).encode()).digest(size)


def _triangular(centre: int, half_width: int) -> list[int]:
    lower = [isqrt(half_width * half_width * (2 * k + 1) // QUANTILES) for k in range(QUANTILES // 2)]
    return [centre - half_width + v for v in lower] + [centre + half_width - v for v in reversed(lower)]


def _pareto(scale: int) -> list[int]:
    """Quantiles of a Pareto distribution with tail index 1, cut off at 8192 times its scale."""
    return [scale * 2 * QUANTILES // (2 * QUANTILES - 2 * k - 1) for k in range(QUANTILES)]


def _cut(micros: list[int], chars: int) -> list[int]:
    """Ascending millionths, a million or more, cut to what a decimal number of that many characters can show."""
    cut: list[int] = []
    for digits in range(7, 13):
        unit = 10 ** max(0, digits + 1 - chars)
        ends = bisect_left(micros, 10**digits)
        cut += [v - v % unit for v in micros[len(cut) : ends]]
    return cut


def quantiles(corpus: Corpus, node: int) -> dict[str, list[int]]:
    """The 4096 quantiles of each field for a node (counted from 1), as millionths; these very numbers are in the rows.

    ``cpu`` and ``mem`` (percent) are triangular around a level of the node's own, ``net`` (kB/s) is a truncated Pareto
    distribution with a scale of the node's own.
    """
    r = _shake(corpus.seed, "node", node, size=5)
    micros = {
        "cpu": _triangular((20 + r[0] % 56) * MICRO, (5 + r[1] % 15) * MICRO),
        "mem": _triangular((40 + r[2] % 49) * MICRO, (3 + r[3] % 9) * MICRO),
        "net": _pareto((2 + r[4] % 39) * MICRO),
    }
    return {field: _cut(values, _VALUE_CHARS[field]) for field, values in micros.items()}


def _draws(corpus: Corpus, epoch: int) -> Iterator[array]:
    """The draws of an epoch, a block of whole sweeps at a time: a number below 4096 for each row and field.

    Blocks of about 200,000 rows let all values of one node be looked up at once, which is what the caches want.
    """
    sweep_rows = corpus.nodes * corpus.tasks
    block = array("H")
    for sweep, first in enumerate(range(0, corpus.rows_per_epoch, sweep_rows)):
        rows = min(sweep_rows, corpus.rows_per_epoch - first)
        raw = bytearray(_shake(corpus.seed, "epoch", epoch, sweep, size=2 * len(FIELDS) * rows))
        raw[1::2] = raw[1::2].translate(_LOW_NIBBLE)
        draws = array("H", raw)
        if sys.byteorder == "big":
            draws.byteswap()
        block.extend(draws)
        if len(block) >= BLOCK_ROWS * len(FIELDS) or first + rows == corpus.rows_per_epoch:
            yield block
            block = array("H")


def _tables(corpus: Corpus) -> list[list[int]]:
    """The quantiles of all (node, field) pairs, in the order in which their draws follow each other."""
    return [values for node in range(1, corpus.nodes + 1) for values in quantiles(corpus, node).values()]


def _template(corpus: Corpus, epoch: int, row_format: RowFormat) -> tuple[bytes, dict[str, int]]:
    """One sweep with blanks for the values, and where in a row each field's value starts."""
    blanks, offsets = b"", {}
    before = len(row_format.prefix(epoch, 1, 1))
    for field, suffix in row_format.suffixes.items():
        offsets[field] = before + len(blanks)
        blanks += b" " * row_format.widths[field] + suffix
    sweep = b"".join(
        row_format.prefix(epoch, node, task) + blanks
        for task in range(1, corpus.tasks + 1)
        for node in range(1, corpus.nodes + 1)
    )
    return sweep, offsets


def _write_rows(
    corpus: Corpus, epoch: int, tables: list[list[int]], blocks: Iterable[array], row_format: RowFormat = JSON
) -> Iterator[bytearray]:
    """The bytes of each block: the template of a sweep repeated, and the values set in, one byte column at a time."""
    sweep, offsets = _template(corpus, epoch, row_format)
    width = row_format.row_bytes(epoch)
    encoded = [row_format.values(t, row_format.widths[FIELDS[i % len(FIELDS)]]) for i, t in enumerate(tables)]
    columns = corpus.nodes * len(FIELDS)
    for draws in blocks:
        size = len(draws) // len(FIELDS) * width
        block = bytearray(sweep * -(-size // len(sweep)))
        del block[size:]
        for column, table in enumerate(encoded):
            node, field = divmod(column, len(FIELDS))
            values = b"".join(map(table.__getitem__, draws[column::columns]))
            first, chars = node * width + offsets[FIELDS[field]], row_format.widths[FIELDS[field]]
            for i in range(chars):
                block[first + i :: corpus.nodes * width] = values[i::chars]
        yield block


def _count(counts: list[Counter], blocks: Iterable[array]) -> Iterator[array]:
    """Counts, in passing, how often each quantile of each (node, field) was drawn."""
    for draws in blocks:
        for column, count in enumerate(counts):
            count.update(draws[column :: len(counts)])
        yield draws


def rows(corpus: Corpus, epoch: int, row_format: RowFormat = JSON) -> Iterator[bytearray]:
    """The rows of an epoch in order, a block of about 200,000 whole rows at a time."""
    return _write_rows(corpus, epoch, _tables(corpus), _draws(corpus, epoch), row_format)


def _answers(corpus: Corpus, tables: list[list[int]], counts: list[Counter]) -> dict:
    answers: dict[str, dict] = {name: {} for name in corpus.node_names()}
    for column, (table, count) in enumerate(zip(tables, counts)):
        node, field = divmod(column, len(FIELDS))
        weighted = ((table[draw] / MICRO, n) for draw, n in sorted(count.items()))
        answers[corpus.node_names()[node]][FIELDS[field]] = field_answers(weighted)
    return answers


def is_complete(corpus: Corpus, epoch: int, data_root: Path) -> bool:
    """Whether an epoch's rows and answers are there, and the rows have their size and sha256."""
    return is_whole(data_root / corpus.file_name(epoch), corpus.epoch_bytes(epoch))


def generate_epoch(
    corpus: Corpus, epoch: int, data_root: Path, progress: Callable[[str], None] = lambda _: None
) -> Path:
    """Makes sure that an epoch's rows and exact answers are below ``data_root``; does nothing when they already are.

    The answers are ``[node][field]`` as made by :func:`cluster_metrics.answers.field_answers`. Finished epochs are
    kept, an unfinished one is made anew.

    :param progress: see :func:`.files.write_whole`.
    :return: the path of the rows.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    path = data_root / corpus.file_name(epoch)
    if is_complete(corpus, epoch, data_root):
        return path
    tables = _tables(corpus)
    counts: list[Counter] = [Counter() for _ in tables]
    blocks = _write_rows(corpus, epoch, tables, _count(counts, _draws(corpus, epoch)))
    record = {"corpus": asdict(corpus), "epoch": epoch}
    name = f"corpus epoch {epoch}"
    return write_whole(
        path, corpus.part(epoch), blocks, lambda: _answers(corpus, tables, counts), record, name, progress
    )
