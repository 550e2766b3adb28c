"""sketch-floor on a real node and a real sketch server, which make starts and stops."""

import csv

import pytest
import requests
from conftest import WORK, make

from _tools.sketch_server import launch
from cluster_metrics.sketch.sketch_floor import INGESTS


def test_a_race_starts_its_sketch_server_and_stops_it(loaded, recorded, launcher):
    race = make("race", TEST_MODE=1, CHALLENGE="sketch-floor", RACE_ID="floor", PARAMS="bulk_size:200,epochs:2")
    assert race.returncode == 0, race.stdout[-5000:]
    assert "the sketch-server is datasketches " in race.stdout
    assert launcher.running(launch.NAME) is None
    assert "INCOMPLETE" not in race.stdout
    recorded("floor")
    for section in ("From the floor to Elasticsearch", "Elasticsearch at its best", "The production question"):
        assert f"## {section}" in race.stdout
    with open(WORK / "reports" / "floor" / "es_profile_sketch_floor.csv") as f:
        rows = list(csv.DictReader(f))
    assert {(row["operation"], row["round"]) for row in rows} == {(way, r) for way in INGESTS for r in ("1", "2")}
    for row in rows:
        ingest = INGESTS[row["operation"]]
        assert row["rows"] == "1000"
        assert row["requests"] == ("2" if ingest.batch else "6")
        assert bool(row["took_ms"]) == ingest.elasticsearch
        parts = sum(float(row[key]) for key in ("encode_ms", "send_ms", "parse_ms"))
        assert float(row["wall_ms"]) == pytest.approx(parts)
    left = requests.get(f"{loaded['target']}/_cat/indices/cluster-metrics*?h=index,docs.count", timeout=30).text
    assert left.split() == ["cluster-metrics", "2000"]


def test_a_sketch_server_is_kept_between_races_on_request(loaded, launcher):
    up = make("up", SKETCH=1)
    try:
        assert up.returncode == 0, up.stdout
        server = launcher.running(launch.NAME)
        assert f"the sketch-server is datasketches {server.version} at {server.hosts[0]}" in up.stdout
        assert requests.get(server.url, timeout=10).json() == {"tables": []}
    finally:
        assert launcher.stop(launch.NAME)
    with pytest.raises(requests.ConnectionError):
        requests.get(server.url, timeout=10)
