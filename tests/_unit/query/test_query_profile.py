import asyncio
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import FakeEs, track_of, values

from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.profile_tree import AGGREGATION_PARTS, PARTS, add_up, times
from cluster_metrics.query.query_profile import (
    OFF,
    ON,
    Call,
    ProfileParams,
    ProfileRunner,
    aggregation_kinds,
    read_call,
)
from cluster_metrics.wire.questions import PRODUCTION

RECORDED = (Path(__file__).parent / "data" / "profile-8.17.2.json").read_bytes()
"""What Elasticsearch 8.17.2 answered to the production query about 100 documents on two shards."""
KINDS = aggregation_kinds()


@pytest.fixture
def recorded():
    return json.loads(RECORDED)["profile"]


def test_times_of_a_recorded_profile_are_summed_over_its_shards(recorded):
    found = times(recorded, KINDS)
    assert found["rewrite_ms"] == pytest.approx(0.026209 + 0.013550)
    assert found["query_ms"] == pytest.approx(0.200167 + 0.086648)
    assert found["collector_ms"] == pytest.approx(0.267591 + 12.331775)
    assert found["collector_aggregations_ms"] == pytest.approx(0.151170 + 0.146780)
    assert found["cpu_pct_collect_ms"] == pytest.approx(0.020212 + 0.022825)
    assert found["net_sum_collect_ms"] == pytest.approx(0.015053 + 0.013718)
    assert found["fetch_ms"] == 0


def test_parts_of_a_query_add_up_to_its_time_and_hold_the_innermost_queries(recorded):
    roots = [shard["searches"][0]["query"][0] for shard in recorded["shards"]]
    breakdowns = [leaf["breakdown"] for root in roots for leaf in root["children"][0]["children"]]
    assert len(breakdowns) == 4
    for number, breakdown in enumerate(breakdowns):
        breakdown["match"] = 1000 * number
    found = times(recorded, KINDS)
    assert sum(found[f"query_{part}_ms"] for part in (*PARTS, "other")) == pytest.approx(found["query_ms"])
    for part in ("create_weight", "build_scorer", "count_weight", "next_doc", "advance", "match", "score"):
        assert found[f"query_{part}_ms"] == pytest.approx(sum(root["breakdown"][part] for root in roots) / 1e6)
    expected = sum(b["next_doc"] + b["advance"] + b["match"] for b in breakdowns) / 1e6
    assert 0 < found["query_leaves_ms"] == pytest.approx(expected)
    assert found["query_leaves_ms"] < found["query_ms"]


def test_parts_of_an_aggregation_are_all_that_the_profiler_times(recorded):
    breakdown = recorded["shards"][0]["aggregations"][0]["breakdown"]
    assert set(AGGREGATION_PARTS) == {part for part in breakdown if not part.endswith("_count")}


def test_all_searches_queries_and_collectors_of_a_shard_count(recorded):
    one = times(recorded, KINDS)
    for shard in recorded["shards"]:
        (search,) = shard["searches"]
        search["query"] *= 3
        search["collector"][0]["children"] *= 5
        search["collector"] *= 7
        shard["searches"] *= 2
    found, parts = times(recorded, KINDS), ("rewrite", "query", "query_leaves", "collector", "collector_aggregations")
    more = {part: found[f"{part}_ms"] / one[f"{part}_ms"] for part in parts}
    assert more == pytest.approx(dict(zip(parts, (2, 2 * 3, 2 * 3, 2 * 7, 2 * 7 * 5))))


def test_a_collector_within_an_aggregation_collector_is_not_counted_twice(recorded):
    before = times(recorded, KINDS)["collector_aggregations_ms"]
    outer = recorded["shards"][0]["searches"][0]["collector"][0]["children"][1]
    assert outer["reason"] == "aggregation"
    outer["children"] = [dict(outer)]
    assert times(recorded, KINDS)["collector_aggregations_ms"] == before


def test_fetch_counts_where_there_is_one(recorded):
    recorded["shards"][1]["fetch"] = {"time_in_nanos": 2_500_000}
    assert times(recorded, KINDS)["fetch_ms"] == 2.5


def test_a_profile_without_shards_has_the_same_keys_and_no_time(recorded):
    empty = times({"shards": []}, KINDS)
    assert list(empty) == list(times(recorded, KINDS))
    assert set(empty.values()) == {0.0} and all(type(v) is float for v in empty.values())


def test_profiles_add_up_by_kind_of_aggregation(recorded):
    one = times(recorded, KINDS)
    total = add_up([one, one], KINDS)
    for part in AGGREGATION_PARTS:
        names = [f"{field}_pct_{part}_ms" for field in ("cpu", "mem", "net")]
        assert total[f"percentiles_{part}_ms"] == pytest.approx(2 * sum(one[name] for name in names))
    assert total["query_next_doc_ms"] == pytest.approx(2 * one["query_next_doc_ms"])
    assert not any(key.startswith(tuple(KINDS)) for key in total)


@pytest.fixture
def source_by(tmp_path):
    track = track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=3), root=tmp_path)

    def source(seed):
        return ProfileParams(track, {"parameters": values(seed=seed), "warmup-iterations": 1, "iterations": 12})

    return source


@pytest.fixture
def source(source_by):
    return source_by(42)


def test_epochs_and_which_comes_first_are_in_an_order_by_the_seed(source_by):
    def drawn(seed):
        of = source_by(seed)
        rounds = [of.params()["coverages"] for _ in range(13)]
        return [made[0][1].epoch for made in rounds], [made[0][0] for made in rounds]

    for one, same, other in zip(drawn(42), drawn(42), drawn(1)):
        assert one == same != other


def test_a_round_asks_the_same_with_the_profiler_and_without(source):
    rounds = [source.params() for _ in range(13)]
    assert [r["round"] for r in rounds] == list(range(13))
    for r in rounds:
        by_name = dict(r["coverages"])
        assert set(by_name) == {ON, OFF} and len(r["coverages"]) == 2
        on, off = (by_name[name].requests for name in (ON, OFF))
        assert len(on) == len(off) == 2
        for profiled, plain in zip(on, off):
            assert json.loads(profiled.body) == json.loads(plain.body) | {"profile": True}
            assert profiled.path == plain.path and "request_cache=false" in plain.path
    firsts = [r["coverages"][0] for r in rounds]
    assert {name for name, _ in firsts} == {ON, OFF}
    assert {coverage.epoch for _, coverage in firsts[1:4]} == {1, 2, 3}


def target(response):
    """A target with one segment and no query cache that answers every search with the same response."""
    lookups = {"query_cache": {"hit_count": 5, "miss_count": 6}}
    stats = {"_all": {"primaries": {"segments": {"count": 1}}, "total": lookups}}
    settings = {"cluster-metrics": {"settings": {"index.queries.cache.enabled": "false"}}}

    def answer(method, path, body):
        return response if method == "POST" else settings if "_settings" in path else stats

    return FakeEs(answer)


def answer(took, answers, profile):
    """A right response about a node."""
    aggregations = {f"{field}_sum": {"value": a["sum"]} for field, a in answers.items()}
    for field, a in answers.items():
        percentiles = {f"{float(p)}": exact[0] for p, exact in a["percentiles"].items()}
        aggregations[f"{field}_pct"] = {"values": percentiles}
    return {"took": took, "aggregations": aggregations, "profile": profile}


def test_a_round_records_both_coverages_and_each_of_their_calls(source, recorded, monkeypatch):
    clock = SimpleNamespace(time=itertools.count().__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr("cluster_metrics.query.query_profile.time", clock)
    params = source.params()
    answers = params["coverages"][0][1].expected["N001"]
    params["coverages"] = [
        (name, replace(coverage, expected=dict.fromkeys(coverage.expected, answers)))
        for name, coverage in params["coverages"]
    ]
    result = asyncio.run(ProfileRunner()(target(answer(7, answers, recorded)), params))
    assert result["success"] and result["error-count"] == 0 and result["query_cache_on"] == []
    assert (result["query_cache_hits"], result["query_cache_misses"]) == (0, 0), "of this round alone"
    by_operation = {}
    for entry in result["dependent_timing"]:
        by_operation.setdefault(entry["dependent_timing"]["operation"], []).append(entry)
    assert {k: len(v) for k, v in by_operation.items()} == {
        "profile-on": 1,
        "profile-off": 1,
        "profile-on-call": 2,
        "profile-off-call": 2,
    }
    coverage, calls = by_operation["profile-on"][0], by_operation["profile-on-call"]
    assert coverage["took_ms"] == 14 and [c["took_ms"] for c in calls] == [7, 7]
    assert coverage["wall_ms"] == 3000 and [c["wall_ms"] for c in calls] == [1000, 1000]
    assert [c["asked_node"] for c in calls] == ["N001", "N002"]
    assert [c["docs_matched"] for c in calls] == [answers["cpu"]["count"]] * 2
    began = [of["dependent_timing"]["absolute_time"] for of in (coverage, *calls)]
    assert [at - began[0] for at in began] == [0, 1, 2]
    assert coverage["parse_ms"] == sum(c["parse_ms"] for c in calls) > max(c["parse_ms"] for c in calls) > 0
    assert coverage["sums_collect_ms"] == pytest.approx(
        sum(c[f"{field}_sum_collect_ms"] for c in calls for field in ("cpu", "mem", "net"))
    )


def test_times_of_a_call_are_in_milliseconds(monkeypatch):
    seconds = SimpleNamespace(perf_counter=itertools.count(0, 3).__next__)
    monkeypatch.setattr("cluster_metrics.query.query_profile.time", seconds)
    (request,) = PRODUCTION.requests(["N001"], 1)
    found, profile = read_call(request, Call(0.0, 1.0, 3.0, b'{"took": 7}'), KINDS)
    assert (found["request_bytes"], found["response_bytes"]) == (len(request.body), 11)
    assert [found[f"{part}_ms"] for part in ("took", "wall", "parse")] == [7, 2000, 3000] and not profile


def test_a_wrong_answer_makes_the_coverage_an_error_without_calls(source):
    result = asyncio.run(ProfileRunner()(target(json.loads(RECORDED)), source.params()))
    assert not result["success"] and result["error-count"] == 2
    assert "cpu_sum is" in result["error-description"]
    assert [e["success"] for e in result["dependent_timing"]] == [False, False]
