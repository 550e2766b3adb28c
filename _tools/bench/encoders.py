"""What it costs to encode rows as bulk bodies: by our byte templates, and row by row from objects.

All on one core and interleaved in rounds; figures are medians of CPU time over rounds with their 95 % intervals.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from cluster_metrics.corpus.encoded import ACTION, ENCODINGS, JSON
from cluster_metrics.corpus.metrics import rows
from cluster_metrics.wire import smile

from .corpus import CORPUS, ROWS, compare

ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json.dumps": lambda value: json.dumps(value).encode(),
    "orjson.dumps": orjson.dumps,
    "our smile.encode, 32 bits": lambda value: smile.encode(value, 32),
    "our smile.encode, 64 bits": smile.encode,
}
OBJECTS = [json.loads(line) for block in rows(CORPUS, 1, JSON) for line in block.splitlines()][: ROWS // 10]


def by_template(encoding: str) -> int:
    return sum(map(len, rows(CORPUS, 1, ENCODINGS[encoding].row_format)))


def row_by_row(encode: Callable[[Any], bytes]) -> int:
    return sum(len(encode(item)) for row in OBJECTS for item in (ACTION, row))


def main() -> None:
    ways: dict[str, tuple[Callable[[], int], int]] = {
        f"generated as bulk bodies, {name}": (partial(by_template, name), ROWS) for name in ENCODINGS
    }
    for name, encode in ENCODERS.items():
        ways[f"{name} of action and row"] = (partial(row_by_row, encode), len(OBJECTS))
    base, *_ = ways
    compare(ways, base)


if __name__ == "__main__":
    main()
