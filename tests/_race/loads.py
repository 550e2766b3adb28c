"""What the ingest challenges have in common."""

import csv

import requests
from conftest import WORK, make

INDEX = "cluster-metrics"


def assert_all_is_accounted_for(loaded, challenge, params, rows, epochs):
    """Races the challenge and holds target and report against each other."""
    race = make("race", TEST_MODE=1, CHALLENGE=challenge, RACE_ID=challenge, PARAMS=params, TAGS="intention:test")
    assert race.returncode == 0, race.stdout[-5000:]
    assert requests.get(f"{loaded['target']}/{INDEX}/_count", timeout=30).json()["count"] == rows
    with open(WORK / "reports" / challenge / "es_profile_ingest_epoch.csv") as f:
        loads = list(csv.DictReader(f))
    with open(WORK / "reports" / challenge / "es_profile_ingest_batches.csv") as f:
        batches = list(csv.DictReader(f))
    assert sum(int(row["rows"]) for row in loads) == sum(int(row["rows"]) for row in batches) == rows
    assert [row["epoch"] for row in loads] == epochs
    assert sum(float(row["took_sum_ms"]) for row in loads) == sum(float(row["took_ms"]) for row in batches)
    assert all(float(row["target_cpu_ms"]) > 0 and float(row["index_ms"]) > 0 for row in loads)
    left = requests.get(f"{loaded['target']}/_cat/indices/{INDEX}*?h=index", timeout=30).text.split()
    assert left == [INDEX]
