"""How fast the corpus is generated, against the naive way, numpy's byte templates, and copying the same bytes.

The table is written into docs/method.md.

The four are interleaved in rounds on one core; figures are medians over rounds with their 95 % intervals.
"""

import datetime
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cluster_metrics.core.machine import machine
from cluster_metrics.corpus.encoded import JSON
from cluster_metrics.corpus.metrics import FIELDS, Metrics, _template, quantiles, rows

from ..docs.marked import put
from ..report.stats import median
from ..report.table import Column, Table, Words

ROWS = 166 * 6_000  # nearly the default epoch, in whole sweeps
ROUNDS = 11
PAGE = Path(__file__).parents[2] / "docs/method.md"
CORPUS = Metrics(rows_per_epoch=ROWS)


def ours() -> int:
    return sum(map(len, rows(CORPUS, 1, JSON)))


def naive(count: int = ROWS // 10) -> int:
    """What one writes first: random values and json.dumps per row. A tenth of the rows, for patience."""
    size = 0
    for i in range(count):
        row = {
            "epoch": 1,
            "node": f"N{i % 30 + 1:03d}",
            "task": f"T{i // 30 % 200 + 1:03d}",
            "cpu": round(random.triangular(20, 80), 4),
            "mem": round(random.triangular(40, 90), 4),
            "net": round(random.paretovariate(1), 5),
        }
        size += len((json.dumps(row) + "\n").encode())
    return size


def numpy_template() -> int:
    """The same rows' shape by numpy: a template of one sweep and digits gathered from tables of bytes."""
    sweep, offsets = _template(CORPUS, 1, JSON)
    width = JSON.row_bytes(1)
    pairs = CORPUS.nodes * CORPUS.tasks
    tables = [
        np.array(JSON.values(values, JSON.widths[field])).view(np.uint8).reshape(len(values), -1)
        for node in range(1, CORPUS.nodes + 1)
        for field, values in quantiles(CORPUS, node).items()
    ]
    rng = np.random.default_rng(1)
    size = 0
    for _ in range(ROWS // pairs):
        block = np.frombuffer(bytearray(sweep), dtype=np.uint8).reshape(CORPUS.tasks, CORPUS.nodes, width)
        draws = rng.integers(0, 4096, (CORPUS.tasks, CORPUS.nodes, len(FIELDS)))
        for column, cells in enumerate(tables):
            node, field = divmod(column, len(FIELDS))
            first = offsets[FIELDS[field]]
            block[:, node, first : first + cells.shape[1]] = cells[draws[:, node, field]]
        size += len(block.tobytes())
    return size


def copying() -> int:
    return sum(len(bytes(block)) for block in BLOCKS)


BLOCKS = list(rows(CORPUS, 1, JSON))
WAYS: dict[str, tuple[Callable[[], int], int]] = {
    "ours (standard library)": (ours, ROWS),
    "naive (random, json.dumps)": (naive, ROWS // 10),
    "numpy byte template": (numpy_template, ROWS),
    "copying the bytes": (copying, ROWS),
}


def main() -> None:
    base, *_ = WAYS
    of = machine()
    where = f"On {of['cpu']}, {of['cores']} cores, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}:"
    text = f"{where}\n\n{compared(WAYS, base).markdown()}"
    print(text)
    put(PAGE, "generating", "bench", text)


def compared(ways: dict[str, tuple[Callable[[], int], int]], base: str) -> Table:
    """Runs all ways in rounds, each in an order of its own: their speeds, also relative to one of them.

    :param ways: by name, what is run and how many rows that makes.
    """
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (way, count) in random.sample(sorted(ways.items()), len(ways)):
            started = time.process_time()
            way()
            speeds[name].append(count / (time.process_time() - started) / 1e6)
    rows = [
        {
            "way": name,
            "n": len(values),
            "speed": median(np.array(values)),
            "ratio": median(np.array(speeds[base]) / np.array(values)),
        }
        for name, values in speeds.items()
    ]
    columns = [Words("way", "way"), Column("n", "rounds"), Column("speed", "million rows/s")]
    columns += [Column("ratio", "first is … times as fast")]
    return Table("bench", columns, rows)


if __name__ == "__main__":
    main()
