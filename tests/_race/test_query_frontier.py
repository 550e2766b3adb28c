"""query-frontier on a real node: every configuration runs, and its error is measured."""

import csv
import json

import pytest
import requests
from conftest import WORK, make

from cluster_metrics.query.configurations import CONFIGURATIONS, TIMED


def test_every_configuration_is_measured_and_its_indices_are_gone(indexed, recorded):
    params = "warmup_iterations:0,rounds:2"
    race = make("race", TEST_MODE=1, CHALLENGE="query-frontier", RACE_ID="frontier", PARAMS=params)
    assert race.returncode == 0, race.stdout[-5000:]
    assert "INCOMPLETE" not in race.stdout
    recorded("frontier")
    advised = "2 rounds are too few to advise a way", "No configuration keeps"
    assert any(text in race.stdout for text in advised)
    with open(WORK / "reports" / "frontier" / "es_profile_frontier.csv") as f:
        rows = list(csv.DictReader(f))
    assert {row["configuration"] for row in rows} == (asked := set(CONFIGURATIONS) - {"esql", *TIMED})
    assert "Left out: esql: the target has no ES|QL" in race.stdout
    assert {row["round"] for row in rows} == {"1", "2"}
    errors = {c: max(float(r["percentile_error"]) for r in rows if r["configuration"] == c) for c in asked}
    assert errors["rollup"] < 1e-12
    assert errors["cached"] == errors["production"]
    assert "The node query cache was off for every index asked but cluster-metrics-cached" in race.stdout
    assert "## What the query cache saves" in race.stdout
    assert {errors[c] for c in CONFIGURATIONS if "smile" in c} == {errors["production"]}
    assert errors["sampler-0.01"] > errors["production"]
    assert all(float(r["sum_error"]) < 1e-6 for r in rows if "sampler" not in r["configuration"])
    left = requests.get(f"{indexed['target']}/_cat/indices/cluster-metrics*?h=index", timeout=30).text.split()
    assert left == ["cluster-metrics"]


@pytest.mark.long
def test_index_modes_give_the_same_answers(loaded, tmp_path):
    params = tmp_path / "params.json"
    params.write_text(
        json.dumps({"timestamps": True, "configurations": list(TIMED), "warmup_iterations": 0, "rounds": 2})
    )
    race = make("race", TEST_MODE=1, CHALLENGE="query-frontier", RACE_ID="modes", PARAMS=params)
    requests.delete(f"{loaded['target']}/cluster-metrics", timeout=30).raise_for_status()
    assert race.returncode == 0 and "INCOMPLETE" not in race.stdout, race.stdout[-5000:]
    with open(WORK / "reports" / "modes" / "es_profile_frontier.csv") as f:
        rows = list(csv.DictReader(f))
    assert {row["configuration"] for row in rows} == {"production", *TIMED}
    assert all(float(row["sum_error"]) < 1e-6 for row in rows)
    assert len({row["percentile_error"] for row in rows if row["round"] == "1"}) == 1
