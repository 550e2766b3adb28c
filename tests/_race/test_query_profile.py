"""What a user of the challenge query-profile sees."""

import csv

import pytest
from conftest import WORK, make

from cluster_metrics.query.profile_tree import AGGREGATION_PARTS
from cluster_metrics.query.query_profile import aggregation_kinds


@pytest.fixture(scope="module")
def race(loaded):
    args = "--on-error=abort"
    params = "warmup_iterations:1"
    result = make("race", TEST_MODE=1, CHALLENGE="query-profile", RACE_ID="profiled", PARAMS=params, RALLY_ARGS=args)
    assert result.returncode == 0, result.stdout[-3000:]
    return result.stdout


def documents(search, kind):
    terms = {"race-id": "profiled", "name": "service_time", "operation-type": kind, "sample-type": "normal"}
    body = {"size": 10_000, "query": {"bool": {"filter": [{"term": {k: v}} for k, v in terms.items()]}}}
    return [hit["_source"] for hit in search("rally-metrics-*", body)["hits"]["hits"]]


def test_report_explains_the_race(race):
    assert "Running profile" in race
    for section in ("What the profiler costs", "Where the time of one search goes", "The profile tree"):
        assert f"## {section}" in race
    whole = next(line for line in race.splitlines() if line.startswith("| whole (wall + parse)"))
    assert "| 100.0 % (n = 2) |" in whole
    assert "INCOMPLETE" not in race


def test_each_round_has_both_coverages_and_all_their_calls_in_the_metrics_store(race, search, recorded):
    recorded("profiled")
    coverages = documents(search, "profiled-coverage")
    found = sorted((c["operation"], c["meta"]["round"]) for c in coverages)
    assert found == [("profile-off", 1), ("profile-off", 2), ("profile-on", 1), ("profile-on", 2)]
    calls = documents(search, "profiled-call")
    assert len(calls) == 2 * 2 * 30
    for coverage in coverages:
        meta = coverage["meta"]
        own = [
            c["meta"]
            for c in calls
            if (c["operation"], c["meta"]["round"]) == (f"{coverage['operation']}-call", meta["round"])
        ]
        assert {c["asked_node"] for c in own} == {f"N{n:03}" for n in range(1, 31)}
        assert meta["searches"] == 30 and meta["success"] and meta["segments"] == 1
        for key in ("took_ms", "docs_matched", "request_bytes", "response_bytes"):
            assert meta[key] == sum(c[key] for c in own)
        assert meta["wall_ms"] == pytest.approx(coverage["value"], rel=1e-3)
        assert sum(c["wall_ms"] for c in own) <= meta["wall_ms"]
        assert ("query_ms" in meta) is (coverage["operation"] == "profile-on")


def test_elasticsearch_reports_every_part_that_is_read(race, search):
    """A part that Elasticsearch renames would read as 0 everywhere."""
    meta = next(c["meta"] for c in documents(search, "profiled-coverage") if c["operation"] == "profile-on")
    read = ["rewrite", "query_create_weight", "query_build_scorer", "query_next_doc", "query", "query_leaves"]
    read += ["collector", "collector_aggregations"]
    read += [f"{kind}_{part}" for kind in ("percentiles", "sums") for part in AGGREGATION_PARTS if part != "reduce"]
    assert [key for key in read if not meta[f"{key}_ms"] > 0] == []
    assert meta["collector_aggregations_ms"] < meta["collector_ms"]
    assert meta["query_leaves_ms"] < meta["query_ms"]


def test_sheets_have_a_row_per_call_and_aggregation(race):
    folder = WORK / "reports" / "profiled"
    with open(folder / "es_profile_query_calls.csv") as f:
        calls = list(csv.DictReader(f))
    with open(folder / "es_profile_query_aggs.csv") as f:
        aggregations = list(csv.DictReader(f))
    assert len(calls) == 2 * 2 * 30
    assert len(aggregations) == 2 * 30 * len(aggregation_kinds())
    assert {row["aggregation"] for row in aggregations} == set(aggregation_kinds())
    assert all(float(row["collect_ms"]) > 0 for row in aggregations)
