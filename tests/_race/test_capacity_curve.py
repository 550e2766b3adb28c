"""capacity-curve on a real node: what is due is sent, and latency counts from when it was."""

import json

import pytest
from conftest import WORK, make
from grids import params


@pytest.mark.parametrize(
    "of, unit, never",
    [
        ("searches", "searches/s", ["capacity-index"]),
        pytest.param("documents", "documents/s", ["capacity-build", "capacity-query"], marks=pytest.mark.long),
    ],
)
def test_what_is_due_is_sent_and_latency_is_read(loaded, recorded, tmp_path, of, unit, never):
    grid = params(
        tmp_path / "params.json",
        capacity_shards=1,
        capacity_clients=4,
        cell_seconds=6,
        curve_per_second=100,
        curve_of=of,
        slo_ms=10_000,
    )
    host, race_id = loaded["target"].removeprefix("http://"), f"curve-{of}"
    race = make("race", TEST_MODE=1, CHALLENGE="capacity-curve", HOSTS=host, RACE_ID=race_id, PARAMS=grid)
    assert race.returncode == 0, race.stdout[-5000:]
    assert "incomplete" not in race.stdout.lower()
    assert f"at 100 {unit}: p50" in race.stdout, race.stdout[-2000:]
    recorded(race_id, never)
    report = json.loads((WORK / "reports" / race_id / "report.json").read_text())
    tables = {table["key"]: table["rows"] for section in report["sections"] for table in section["tables"]}
    (row,) = tables["curve 1s-0r"]
    assert row["rate"] == 100 and row["n"] == 2 and row["done"]["value"] == pytest.approx(1, abs=0.25)
    assert row["p50"]["value"] >= row["service"] > 0 and row["rejected"] == 0
