"""The corpus: metrics of a cluster as newline-delimited JSON, a pure function of five parameters.

Rows are made in *sweeps*. In one sweep every node reports each of its tasks once, and all nodes report a task before
any reports the next one, so row ``i`` of an epoch belongs to node ``i % nodes`` and task ``(i // nodes) % tasks``.
A value is one of 4096 quantiles of its node's distribution, drawn with 12 bits of SHAKE-128 over the seed, the epoch
and the number of the sweep. Everything is integer arithmetic on a standardised hash, so the same parameters give the
same bytes on every host and Python version, and any sweep can be made without those before it. Rows have a fixed width
per epoch: row ``i`` starts at byte ``i * row_bytes``.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from math import isqrt
from typing import Any, ClassVar

from ..core.parameters import INDEX_MODE, SEED, Flag, Integer, Parameter
from .answers import field_answers
from .draws import numbers, shake
from .encoded import ENCODINGS, FIRST_MS, JSON, TIMESTAMP, RowFormat
from .files import TEST_MODE_DOCUMENTS, Corpus, CorpusError, Count, Part

FORMAT_VERSION = 1
"""Of the rows: another one, other rows."""
ANSWERS_VERSION = 2
"""Of the answers that stand beside them."""
NAME = "cluster-metrics"
FIELDS = ("cpu", "mem", "net")
DIMENSIONS = ("node", "task")
"""That have one row each at any time."""
SWEEP_MS = 1000
MOST_MS = 10**13
"""Timestamps have 13 digits."""
MICRO = 10**6
QUANTILES = 4096
BLOCK_ROWS = 200_000
MOST_PAIRS = 200_000
BYTES = Integer(
    "corpus_bytes",
    "Bytes of all rows, which decide rows_per_epoch; 0 leaves that to rows_per_epoch.",
    "bytes",
    low=0,
    high=10**15,
)
_LOW_NIBBLE = bytes(b & 0x0F for b in range(256))


@dataclass(frozen=True)
class Metrics(Corpus):
    """What the corpus depends on.

    :param nodes: nodes of the cluster, named N001, N002, … (default 30).
    :param tasks: tasks of each node, named T001, T002, … (default 200).
    :param rows_per_epoch: rows, hence documents, of one epoch (default 1,000,000).
    :param epochs: epochs, one file each, counted from 1 (default 5).
    :param seed: of all draws (default 42).
    :param timestamps: whether rows end with the time of their sweep (default false); sweeps follow each other every
        second, from the beginning of 2025 on.
    """

    name: ClassVar[str] = NAME
    parameters: ClassVar[dict[str, Parameter]] = {
        "nodes": Integer("nodes", "Nodes of the cluster that the corpus describes.", "nodes", low=1, high=999),
        "tasks": Integer("tasks", "Tasks on each of these nodes.", "tasks", low=1, high=999),
        "rows_per_epoch": Integer("rows_per_epoch", "Rows of one epoch.", "documents", low=1, high=1_000_000_000),
        "epochs": Integer("epochs", "Epochs, one corpus file each.", "epochs", low=1, high=999),
        "seed": SEED,
        "timestamps": Flag("timestamps", "Whether rows have a time, `@timestamp`, which index modes take."),
    }
    nodes: int = 30
    tasks: int = 200
    rows_per_epoch: int = 1_000_000
    epochs: int = 5
    seed: int = 42
    timestamps: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], test_mode: bool) -> "Metrics":
        """See there; without ``rows_per_epoch`` the ``corpus_bytes`` decide."""
        corpus = super().of(values, test_mode)
        if not corpus.rows_per_epoch:
            rows = max(1, int(values[BYTES.name] / corpus.mean_row_bytes / corpus.epochs))
            corpus = replace(corpus, rows_per_epoch=rows)
        return replace(corpus, rows_per_epoch=min(corpus.rows_per_epoch, TEST_MODE_DOCUMENTS)) if test_mode else corpus

    def check(self) -> "Metrics":
        super().check()
        if self.nodes * self.tasks > MOST_PAIRS:
            raise CorpusError(f"nodes times tasks are [{self.nodes * self.tasks:,}], allowed is up to {MOST_PAIRS:,}")
        if self.timestamps and self.time_ms(self.epochs, self.sweeps) > MOST_MS:
            most = (MOST_MS - FIRST_MS) // SWEEP_MS
            raise CorpusError(f"sweeps are [{self.epochs * self.sweeps:,}], with timestamps allowed is up to {most:,}")
        return self

    @property
    def sweeps(self) -> int:
        """The sweeps of an epoch, the last of which may be cut off."""
        return -(-self.rows_per_epoch // (self.nodes * self.tasks))

    def time_ms(self, epoch: int, sweep: int) -> int:
        """When a sweep (counted from 0) of an epoch (from 1) is, in milliseconds since 1970; no other is then."""
        return FIRST_MS + SWEEP_MS * ((epoch - 1) * self.sweeps + sweep)

    def row_format(self, encoding: str = "") -> RowFormat:
        """How a row is written: as in the corpus' files, or with its action before it in an encoding of bulk bodies."""
        found = ENCODINGS[encoding].row_format if encoding else JSON
        return found.stamped() if self.timestamps else found

    @property
    def mean_row_bytes(self) -> float:
        """The size of a row in bytes, on average over the epochs."""
        return sum(map(self.row_format().row_bytes, range(1, self.epochs + 1))) / self.epochs

    def parts(self) -> list[Part]:
        """A file per epoch. Their number is no part of the folder's hash, since an epoch's rows do not depend on it."""
        key = (FORMAT_VERSION, ANSWERS_VERSION, self.nodes, self.tasks, self.rows_per_epoch, self.seed)
        folder = self.folder(*key, *([TIMESTAMP] if self.timestamps else []))
        rows, width = self.rows_per_epoch, self.row_format().row_bytes
        return [
            Part(f"{folder}/epoch-{epoch}.json", rows, rows * width(epoch), meta={"epoch": epoch})
            for epoch in range(1, self.epochs + 1)
        ]

    def made(self, number: int) -> tuple[Iterable[bytearray], Callable[[], dict]]:
        """The rows of an epoch, and the answers ``[node][field]`` of :func:`.answers.field_answers`."""
        tables = _tables(self)
        counts: list[Counter] = [Counter() for _ in tables]
        draws = _count(counts, _draws(self, number + 1))
        blocks = _write_rows(self, number + 1, tables, draws, self.row_format())
        return blocks, lambda: _answers(self, tables, counts)

    def bodies(self, number: int, encoding: str) -> Iterator[bytearray]:
        return rows(self, number + 1, self.row_format(encoding))

    def body_bytes(self, number: int, encoding: str) -> int:
        return self.rows_per_epoch * self.row_format(encoding).row_bytes(number + 1)

    def shape(self, body: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return self.in_mode(body, values[INDEX_MODE.name])

    def in_mode(self, body: dict[str, Any], mode: str) -> dict[str, Any]:
        """The body of an index of this corpus in an index mode; in time_series documents of one node and task at one
        time would overwrite each other, in logsdb they are sorted by node and time.

        :param body: of the index in standard mode, without timestamps.
        """
        settings: dict[str, Any] = {}
        fields: dict[str, dict[str, Any]] = {TIMESTAMP: {"type": "date"}} if self.timestamps else {}
        if mode == "time_series":
            settings = {
                "index.mode": mode,
                "index.routing_path": list(DIMENSIONS),
                "index.time_series.start_time": _iso(self.time_ms(1, 0)),
                "index.time_series.end_time": _iso(self.time_ms(self.epochs, self.sweeps)),
            }
            fields |= {name: {"time_series_dimension": True} for name in DIMENSIONS}
            fields |= {name: {"time_series_metric": "gauge"} for name in FIELDS}
        elif mode == "logsdb":
            sort = {"index.sort.field": ["node", TIMESTAMP], "index.sort.order": ["asc", "desc"]}
            settings = {"index.mode": mode, **sort}
        properties = body["mappings"]["properties"]
        properties = properties | {name: properties.get(name, {}) | of for name, of in fields.items()}
        return body | {
            "settings": body.get("settings", {}) | settings,
            "mappings": body["mappings"] | {"properties": properties},
        }

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        """All documents, and those of each node and epoch."""
        yield Count("", {"match_all": {}}, self.rows_per_epoch * self.epochs)
        for epoch, nodes in enumerate(answers, 1):
            for node, fields in nodes.items():
                query = {"bool": {"filter": [{"term": {"node": node}}, {"term": {"epoch": epoch}}]}}
                yield Count(f" of node {node} in epoch {epoch}", query, fields["cpu"]["count"])

    def node_names(self) -> list[str]:
        return [f"N{node:03d}" for node in range(1, self.nodes + 1)]


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


def quantiles(corpus: Metrics, node: int) -> dict[str, list[int]]:
    """The 4096 quantiles of each field for a node (counted from 1), as millionths; these very numbers are in the rows.

    ``cpu`` and ``mem`` (percent) are triangular around a level of the node's own, ``net`` (kB/s) is a truncated Pareto
    distribution with a scale of the node's own.
    """
    r = shake(NAME, FORMAT_VERSION, corpus.seed, "node", node, size=5)
    micros = {
        "cpu": _triangular((20 + r[0] % 56) * MICRO, (5 + r[1] % 15) * MICRO),
        "mem": _triangular((40 + r[2] % 49) * MICRO, (3 + r[3] % 9) * MICRO),
        "net": _pareto((2 + r[4] % 39) * MICRO),
    }
    return {field: _cut(values, JSON.widths[field]) for field, values in micros.items()}


def _draws(corpus: Metrics, epoch: int) -> Iterator[array]:
    """The draws of an epoch, a block of whole sweeps at a time: a number below 4096 for each row and field.

    Blocks of about 200,000 rows let all values of one node be looked up at once, which is what the caches want.
    """
    sweep_rows = corpus.nodes * corpus.tasks
    block = array("H")
    for sweep, first in enumerate(range(0, corpus.rows_per_epoch, sweep_rows)):
        rows = min(sweep_rows, corpus.rows_per_epoch - first)
        raw = bytearray(shake(NAME, FORMAT_VERSION, corpus.seed, "epoch", epoch, sweep, size=2 * len(FIELDS) * rows))
        raw[1::2] = raw[1::2].translate(_LOW_NIBBLE)
        block.extend(numbers(raw))
        if len(block) >= BLOCK_ROWS * len(FIELDS) or first + rows == corpus.rows_per_epoch:
            yield block
            block = array("H")


def _tables(corpus: Metrics) -> list[list[int]]:
    """The quantiles of all (node, field) pairs, in the order in which their draws follow each other."""
    return [values for node in range(1, corpus.nodes + 1) for values in quantiles(corpus, node).values()]


def _template(corpus: Metrics, epoch: int, row_format: RowFormat) -> tuple[bytes, dict[str, int]]:
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
    corpus: Metrics, epoch: int, tables: list[list[int]], blocks: Iterable[array], row_format: RowFormat
) -> Iterator[bytearray]:
    """The bytes of each block: the template of a sweep repeated, and the values set in, one byte column at a time."""
    sweep, offsets = _template(corpus, epoch, row_format)
    width = row_format.row_bytes(epoch)
    encoded = [row_format.values(t, row_format.widths[FIELDS[i % len(FIELDS)]]) for i, t in enumerate(tables)]
    columns, done = corpus.nodes * len(FIELDS), 0
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
        if TIMESTAMP in row_format.widths:
            for first in range(0, size, len(sweep)):
                stamp, end = row_format.stamp(corpus.time_ms(epoch, done)), min(first + len(sweep), size)
                for i, byte in enumerate(stamp, first + offsets[TIMESTAMP]):
                    block[i:end:width] = bytes([byte]) * ((end - first) // width)
                done += 1
        yield block


def _iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def _count(counts: list[Counter], blocks: Iterable[array]) -> Iterator[array]:
    """Counts, in passing, how often each quantile of each (node, field) was drawn."""
    for draws in blocks:
        for column, count in enumerate(counts):
            count.update(draws[column :: len(counts)])
        yield draws


def rows(corpus: Metrics, epoch: int, row_format: RowFormat | None = None) -> Iterator[bytearray]:
    """The rows of an epoch in order, a block of about 200,000 whole rows at a time.

    :param row_format: by default that of the corpus' files.
    """
    return _write_rows(corpus, epoch, _tables(corpus), _draws(corpus, epoch), row_format or corpus.row_format())


def _answers(corpus: Metrics, tables: list[list[int]], counts: list[Counter]) -> dict:
    answers: dict[str, dict] = {name: {} for name in corpus.node_names()}
    for column, (table, count) in enumerate(zip(tables, counts)):
        node, field = divmod(column, len(FIELDS))
        weighted = ((table[draw] / MICRO, n) for draw, n in sorted(count.items()))
        answers[corpus.node_names()[node]][FIELDS[field]] = field_answers(weighted)
    return answers
