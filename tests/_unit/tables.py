"""Rows for tables of the sketch server, and what a table keeps of them."""

from _tools.sketch_server.sketches import COLUMNS

NODES = ["N001", "N002"]
ROWS = [
    {"epoch": 1, "node": NODES[i % 2], "task": "T001", "cpu": i + 0.5, "mem": 2 * i, "net": 1000.25 * i}
    for i in range(6)
]


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in COLUMNS}


def state(table):
    """All that a table keeps, sketches as the library writes them."""
    return {key: (group.count, group.sums.tolist(), group.sketches.serialize()) for key, group in table.groups.items()}
