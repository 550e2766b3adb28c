"""capacity-mixed on a real node: every cell in every pass, and what is sent is counted."""

import csv
import json

import requests
from conftest import WORK, make
from grids import params


def test_searches_and_documents_are_counted_by_cell_and_pass(loaded, recorded, tmp_path):
    host = loaded["target"].removeprefix("http://")
    grid = params(tmp_path / "params.json", capacity_shards=[2], mixed_docs_per_second=[0, 100], refresh_interval="-1")
    race = make("race", TEST_MODE=1, CHALLENGE="capacity-mixed", HOSTS=host, RACE_ID="mixed", PARAMS=grid)
    assert race.returncode == 0, race.stdout[-5000:]
    assert "incomplete" not in race.stdout.lower()
    recorded("mixed")
    with open(WORK / "reports" / "mixed" / "es_profile_capacity.csv") as f:
        rows = list(csv.DictReader(f))
    cells = {"": ["capacity-query"], "-100": ["capacity-index", "capacity-query"]}
    expected = {(f"2s-0r{of}", n, kind) for n in "12" for of in cells for kind in cells[of]}
    assert {(r["cell"], r["pass"], r["kind"]) for r in rows} == expected and len(rows) == len(expected)
    for row in rows:
        assert json.loads(row["shard_table"]) == {"target-1": ["0p", "1p"]}
        assert row["documents"] == "1000", "what is indexed is never refreshed"
        assert int(row["requests"]) > 5 and float(row["per_s"]) > 2
        assert row["bottleneck"] != "not recorded" and row["rejected"] == "0"
        assert 0 <= float(row["compiling"]) <= 1
    assert any(float(row["compiling"]) for row in rows), "nodes that began to search and to index compile"
    left = requests.get(f"{loaded['target']}/_cat/indices/cluster-metrics-words*?h=index", timeout=30).text
    assert not left.split()
    plan = make("plan", RACES="mixed", TARGET_QPS=10)
    assert plan.returncode != 0
    line = "[ERROR] TARGET_QPS takes races of capacity-query among RACES with a node at its limit in more than 3 cells"
    assert line in plan.stdout
