"""capacity-mixed on a real node: every cell in every pass, what is sent is counted, and a grid that is too big."""

import csv
import json

import requests
from conftest import WORK, make

GRID = {
    "capacity_shards": [1, 2],
    "capacity_replicas": [0],
    "mixed_docs_per_second": [100],
    "capacity_clients": 2,
    "capacity_bulk_size": 2,
    "cell_seconds": 2,
    "cell_warmup_seconds": 0,
    "words_mapping": "heavy",
}


def params(path, **changes):
    path.write_text(json.dumps(GRID | changes))
    return str(path)


def test_searches_and_documents_are_counted_by_cell_and_pass(loaded, tmp_path):
    race = make(
        "race", TEST_MODE=1, CHALLENGE="capacity-mixed", RACE_ID="capacity", PARAMS=params(tmp_path / "params.json")
    )
    assert race.returncode == 0, race.stdout[-5000:]
    assert "failed samples" not in race.stdout and "Incomplete" not in race.stdout
    with open(WORK / "reports" / "capacity" / "es_profile_capacity.csv") as f:
        rows = list(csv.DictReader(f))
    expected = {
        (f"{s}s-0r-100", n, kind) for s in (1, 2) for n in "12" for kind in ("capacity-index", "capacity-query")
    }
    assert {(r["cell"], r["pass"], r["kind"]) for r in rows} == expected and len(rows) == len(expected)
    for row in rows:
        assert json.loads(row["shard_table"]) == {"target-1": [f"{shard}p" for shard in range(int(row["shards"]))]}
        assert int(row["documents"]) >= 1000 and int(row["requests"]) > 5 and float(row["per_s"]) > 2
        assert row["bottleneck"] != "not recorded" and row["rejected"] == "0"
    left = requests.get(f"{loaded['target']}/_cat/indices/cluster-metrics-words*?h=index", timeout=30).text
    assert not left.split()
    plan = make("plan", RACES="capacity", TARGET_QPS=10)
    assert plan.returncode != 0
    assert "[ERROR] TARGET_QPS takes a race of capacity-query with more than 3 cells among RACES" in plan.stdout


def test_a_grid_that_the_target_cannot_hold_ends_the_race_with_one_line(loaded, tmp_path):
    grid = params(tmp_path / "params.json", capacity_replicas=[0, 1])
    race = make("race", TEST_MODE=1, CHALLENGE="capacity-query", PARAMS=grid)
    assert race.returncode != 0
    line = "[capacity_replicas] asks for 1 replicas, which takes 2 data nodes; the target has 1"
    assert line in race.stdout.replace("\n", " ")
