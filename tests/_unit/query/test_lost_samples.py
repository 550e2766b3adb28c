"""Rounds of the query plans of which one request got no answer: they lose that sample, and say so."""

import asyncio
import json
from dataclasses import replace

import pytest
from fakes import LOST, TIMEOUT, FakeEs, Refused, track_of, values

from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.configurations import CONFIGURATIONS
from cluster_metrics.query.query_decomp import CellParams, CellRunner, PlanParams, PlanRunner, run_up
from cluster_metrics.query.query_frontier import FrontierParams, FrontierRunner
from cluster_metrics.query.query_profile import ProfileParams, ProfileRunner
from cluster_metrics.wire.coverage import Coverages, send_all

FAILURES = [TIMEOUT, LOST, Refused(429, "circuit_breaking_exception", "Data too large"), Refused(503)]
CHANGES = {"variants": ["B", "D_td"], "transports": ["serial"], "configurations": ["production", "hdr-3"]}
SEGMENTS = {"_all": {"primaries": {"segments": {"count": 1}}}}
CACHE = {"_all": {"total": {"query_cache": {"hit_count": 0, "miss_count": 0}}}}
CPU = {"timestamp": 0, "process": {"timestamp": 0, "cpu": {"total_in_millis": 5}}}
CPU["jvm"] = {"timestamp": 1, "uptime_in_millis": 1}

ASIDE = {"segments": SEGMENTS, "query_cache": CACHE, "_settings": {}, "_nodes": {"nodes": {"n": CPU}}}
"""What a round asks beside its searches, by words of the path."""


@pytest.fixture
def track(tmp_path):
    return track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=1), root=tmp_path)


def answer(expected):
    """The exact answer about a node as Elasticsearch gives it."""
    found = {}
    for field, exact in expected.items():
        found[f"{field}_sum"] = {"value": exact["sum"]}
        found[f"{field}_pct"] = {"values": {f"{float(p)}": v[0] for p, v in exact["percentiles"].items()}}
    hits = {"total": {"value": expected["cpu"]["count"], "relation": "eq"}, "hits": []}
    return {"took": 7, "timed_out": False, "_shards": {"failed": 0}, "hits": hits, "aggregations": found}


def target(coverage, failure, at):
    """A target that answers all searches but the one of this number exactly."""
    numbers = iter(range(10**6))

    def respond(method, path, body):
        if method == "GET":
            return ASIDE[next(words for words in ASIDE if words in path)]
        if next(numbers) == at:
            return failure
        node = json.loads(body)["query"]["bool"]["filter"]
        return answer(coverage.expected[next(n for n in coverage.expected if n in json.dumps(node))])

    return FakeEs(respond)


PLANS = {
    "decomp": (PlanParams, PlanRunner, lambda one: one["coverage"]),
    "frontier": (FrontierParams, FrontierRunner, lambda one: one[0]),
    "profile": (ProfileParams, ProfileRunner, lambda one: one[1]),
}


def run_round(track, plan, failure, at):
    source, runner, coverage_of = PLANS[plan]
    params = source(track, {"parameters": values(**CHANGES), "warmup-iterations": 0, "iterations": 1}).params()
    coverages = [coverage_of(one) for one in params["coverages"]]
    es = target(coverages[0], failure, at)
    with es.new_request_context():
        return coverages, es, asyncio.run(runner()(es, params))


@pytest.fixture(autouse=True)
def run_ups_of_one_request(monkeypatch):
    monkeypatch.setattr("cluster_metrics.query.query_decomp.RUN_UP_S", 0)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(
    "plan, at, sent, number",
    [
        *((plan, *of) for plan in ("frontier", "profile") for of in [(0, 3, 0), (1, 4, 0), (2, 3, 1)]),
        *(("decomp", *of) for of in [(0, 4, 0), (1, 5, 0), (2, 6, 0), (3, 4, 1), (4, 5, 1)]),  # with a run-up each
    ],
)
def test_a_request_without_an_answer_loses_one_sample_and_nothing_else(track, plan, failure, at, sent, number):
    coverages, es, result = run_round(track, plan, failure, at)
    assert len([s for s in es.sent if s.startswith("POST")]) == sent, "nothing was sent twice"
    of_coverages = [t for t in result["dependent_timing"] if not t["dependent_timing"]["operation"].endswith("-call")]
    lost, kept = of_coverages if not number else of_coverages[::-1]
    assert (lost["success"], lost["error-type"]) == (False, "no-answer")
    assert kept["success"], kept
    assert lost["round"] == kept["round"] == result["round"]
    assert lost["dependent_timing"]["operation-type"] == kept["dependent_timing"]["operation-type"]
    assert lost["dependent_timing"]["service_time"] >= 0
    assert not result["success"] and result["error-count"] == 1
    assert result["error-description"].startswith(lost["dependent_timing"]["operation"])


@pytest.mark.parametrize("plan", PLANS)
def test_a_round_without_failures_has_every_sample(track, plan):
    _, _, result = run_round(track, plan, None, -1)
    assert result["success"] and all(t["success"] for t in result["dependent_timing"]), result


@pytest.mark.parametrize("seconds, requests", [(0.0, 1), (2.5, 3), (6.5, 7)])
def test_a_cell_is_asked_uncounted_for_a_time_before_it_counts(track, monkeypatch, seconds, requests):
    monkeypatch.setattr("cluster_metrics.query.query_decomp.RUN_UP_S", seconds)
    monkeypatch.setattr("cluster_metrics.query.query_decomp.time.perf_counter", lambda: len(es.requests))
    coverage = Coverages(track).make(CONFIGURATIONS["production"], 1)
    es = target(coverage, None, -1)
    with es.new_request_context() as context:
        asyncio.run(run_up(es, coverage))
    bodies = [request.body for request in coverage.requests]
    assert [body for _, _, body in es.requests] == [bodies[i % len(bodies)] for i in range(requests)]
    assert context.request_end > context.request_start


def test_a_run_up_is_about_the_epoch_of_the_next_round(tmp_path):
    track = track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=3), root=tmp_path)
    source = PlanParams(track, {"parameters": values(**CHANGES), "warmup-iterations": 0, "iterations": 3})
    rounds = [source.params()["coverages"] for _ in range(3)]
    for one, following in zip(rounds, rounds[1:]):
        assert {of["run-up"].epoch for of in one} == {of["coverage"].epoch for of in following}
        assert not {of["run-up"].epoch for of in one} & {of["coverage"].epoch for of in one}
        assert all(of["run-up"].configuration is of["coverage"].configuration for of in one)


def test_a_plan_asks_for_the_run_up_before_each_coverage_that_counts(tmp_path):
    track = track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=3), root=tmp_path)
    source = PlanParams(track, {"parameters": values(**CHANGES), "warmup-iterations": 0, "iterations": 3})
    asked = (params := source.params())["coverages"]
    es = target(asked[0]["coverage"], None, -1)
    with es.new_request_context():
        asyncio.run(PlanRunner()(es, params))
    expected = [r.body for one in asked for r in (one["run-up"].requests[0], *one["coverage"].requests)]
    assert [body for method, _, body in es.requests if method == "POST"] == expected


def test_what_is_under_way_beside_a_request_that_fails_is_given_up(track):
    concurrent = replace(CONFIGURATIONS["production"], form="concurrent", parallel=2)
    coverage = Coverages(track).make(concurrent, 1)
    es = target(coverage, TIMEOUT, 0)
    with pytest.raises(type(TIMEOUT)):
        asyncio.run(send_all(es, coverage))
    assert len(es.requests) <= 2


def test_the_cpu_time_of_a_pass_is_never_that_of_an_earlier_cell(track):
    params = {"variant": "B", "transport": "serial", "parameters": values(**CHANGES)}
    call = CellParams(track, params | {"pass": 1, "warmup-iterations": 0}).params() | {"last": True}
    runner = CellRunner()
    es = target(call["coverage"], None, -1)
    with es.new_request_context():
        assert asyncio.run(runner(es, call))["target_cpu_ms"] == 0
        gone = FakeEs(lambda method, path, body: SEGMENTS if "segments" in path else TIMEOUT)
        with pytest.raises(type(TIMEOUT)), gone.new_request_context():
            asyncio.run(runner(gone, call | {"last": False}))
        assert "target_cpu_ms" not in asyncio.run(runner(es, call | {"first": False}))


@pytest.mark.parametrize("lost", ["query_cache", "segments"])
def test_the_cpu_time_of_a_round_that_failed_is_not_told_as_that_of_the_next(track, lost):
    params = PlanParams(track, {"parameters": values(**CHANGES), "warmup-iterations": 0, "iterations": 1}).params()
    used = iter(range(0, 1000, 10))

    def target(lost):
        def answer(method, path, body):
            if lost and lost in path:
                return TIMEOUT
            if "_nodes" in path:
                return {"nodes": {"n": CPU | {"process": {"timestamp": 0, "cpu": {"total_in_millis": next(used)}}}}}
            if "query_cache" in path:
                return CACHE
            return ASIDE[next(words for words in ASIDE if words in path)] if method == "GET" else TIMEOUT

        return FakeEs(answer)

    runner, there, gone = PlanRunner(), target(""), target(lost)

    async def rounds():
        first = await runner(there, params)
        with pytest.raises(type(TIMEOUT)):
            await runner(gone, params)
        next(used)
        return [first["target_cpu_ms"]] + [(await runner(there, params))["target_cpu_ms"] for _ in range(2)]

    assert asyncio.run(rounds()) == [10, 10, 10]
