"""A small grid for the capacity challenges."""

import json

GRID = {
    "capacity_shards": [1, 2],
    "capacity_replicas": [0],
    "capacity_clients": 2,
    "cell_seconds": 2,
    "cell_warmup_seconds": 0,
    "words_mapping": "heavy",
}


def params(path, **changes):
    """A file of track parameters: the grid with these changes."""
    path.write_text(json.dumps(GRID | changes))
    return str(path)
