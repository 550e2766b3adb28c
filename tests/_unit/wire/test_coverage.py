"""Answers of a coverage are held against the exact ones as far as it asks for them."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes import FakeEs, Script, track_of, values

from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.configurations import CONFIGURATIONS, PARTS, VARIANTS
from cluster_metrics.query.query_decomp import PART, PlanParams
from cluster_metrics.wire.coverage import TYPE, Asked, Coverages, ask, send_all
from cluster_metrics.wire.questions import Configuration
from cluster_metrics.wire.requests import request


@pytest.fixture
def track(tmp_path):
    return track_of(Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path)


def checked(track, part, change):
    """The sample of a coverage of a part whose answers are right but for a change to those of the first node."""
    coverage = Coverages(track).make(PARTS[part], 1)
    searches = []
    for expected in coverage.expected.values():
        found = {f"{f}_sum": {"value": expected[f]["sum"]} for f in coverage.configuration.summed}
        if coverage.configuration.percentiles is not None:
            for f in coverage.configuration.ranked:
                exact = {f"{float(p)}": answer[0] for p, answer in expected[f]["percentiles"].items()}
                found[f"{f}_pct"] = {"values": exact}
        if part == "visit":
            found["visited"] = {"doc_count": expected["cpu"]["count"]}
        searches.append({"took": 1, "aggregations": found})
    change(searches[0]["aggregations"])
    return Asked(coverage, searches, {}, {}).checked()


@pytest.mark.parametrize("part", PARTS)
def test_a_right_answer_of_a_part_is_no_error(track, part):
    assert checked(track, part, lambda found: None)["success"]


@pytest.mark.parametrize(
    "part, change, said",
    [
        ("visit", lambda found: found["visited"].update(doc_count=1), "N001: 1 documents visited, exact "),
        ("visit", lambda found: found["visited"].update(doc_count=0), "N001: 0 documents visited, exact "),
        ("sum-cpu", lambda found: found["cpu_sum"].update(value=0.0), "N001: cpu_sum is 0.0"),
        ("pct-net", lambda found: found["net_pct"]["values"].update({"50.0": 1e9}), "N001: net p50 is"),
        ("sum-cpu-pct-mem", lambda found: found["mem_pct"]["values"].update({"0.0": 1e9}), "N001: mem p0 is"),
    ],
)
def test_a_wrong_answer_of_a_part_is_an_error(track, part, change, said):
    found = checked(track, part, change)
    assert not found["success"] and said in found["error-description"]


def test_the_error_of_a_coverage_is_that_of_the_node_which_errs_most(track):
    def change(found):
        found["cpu_pct"]["values"]["50.0"] *= 1 + 1e-5

    found = checked(track, "pct-cpu", change)
    assert found["success"] and found["max_percentile_error"] == pytest.approx(1e-5)


def test_concurrent_responses_stand_in_the_order_of_their_requests(track, monkeypatch):
    coverage = Coverages(track).make(replace(CONFIGURATIONS["production"], form="concurrent", parallel=2), 1)
    second_is_answered = asyncio.Event()

    async def send(es, request):
        if request is coverage.requests[0]:
            await second_is_answered.wait()
        second_is_answered.set()
        return request.body

    monkeypatch.setattr("cluster_metrics.wire.coverage.send", send)
    assert asyncio.run(send_all(None, coverage)) == [request.body for request in coverage.requests]


@pytest.mark.parametrize(
    "changes, parts",
    [({}, True), ({"variants": ["D_td"]}, False), ({"transports": ["msearch"]}, False)],
)
def test_a_round_of_the_plan_has_the_parts_where_the_attribution_is_complete(track, changes, parts):
    params = PlanParams(track, {"parameters": values(**changes), "warmup-iterations": 0}).params()
    kinds = {}
    for one in params["coverages"]:
        kinds.setdefault(one["kind"], set()).add(one["coverage"].configuration.name)
    assert kinds.get(PART, set()) == ({part.name for part in PARTS.values()} if parts else set())
    assert {name.rsplit("-", 1)[0] for name in kinds[TYPE]} <= set(VARIANTS)


def test_a_sample_tells_how_long_a_coverage_took_and_how_much_went_out_and_came_back(track, monkeypatch):
    decoded, searches = [], Configuration.searches
    monkeypatch.setattr(Configuration, "searches", lambda self, of: decoded.append(of) or searches(self, of))
    clocks = SimpleNamespace(time=lambda: 0.0, process_time=lambda: 0.5 * len(es.requests) + 8 * len(decoded))
    monkeypatch.setattr("cluster_metrics.wire.coverage.time", clocks)
    coverage = Coverages(track).make(CONFIGURATIONS["production"], 1)
    answers = [{"took": 700, "hits": {}}, {"took": 50}]
    es = FakeEs(Script({"POST": list(answers), "GET": {}}))
    with es.new_request_context():
        asyncio.run(request(es, "GET", "/"))
        asked = asyncio.run(ask(es, coverage, "kind"))
    assert asked.searches == answers
    assert asked.sample == {
        "epoch": 1,
        "searches": 2,
        "took_ms": 750.0,
        "wall_ms": 3000.0,
        "parallelism": 0.25,
        "client_ms": 1000,
        "request_bytes": sum(len(request.body) for request in coverage.requests),
        "response_bytes": sum(len(json.dumps(answer)) for answer in answers),
    }
    timing = {"operation": "production", "operation-type": "kind", "service_time": 3, "request_start": 2}
    assert timing.items() <= asked.timing.items()


def answered(track, name, searches):
    coverage = Coverages(track).make(CONFIGURATIONS[name], 1)
    return Asked(coverage, searches, {}, {}).problems()


def test_searches_that_failed_or_leave_nodes_out_are_no_answers(track):
    buckets = [{"key": "N001"}, {"key": "N002"}]
    of = [{"aggregations": {"by_node": {"buckets": found}}} for found in (buckets, buckets[1:])]
    assert answered(track, "terms", of[:1]) == []
    assert answered(track, "terms", of[1:]) == ["no answer for 1 of 2 nodes: N001"]
    assert answered(track, "production", [{"timed_out": True}, {"_shards": {"failed": 2}}]) == [
        "timed_out",
        "2 failed shards",
    ]
    assert answered(track, "production", [{"is_partial": True}, {}]) == ["is_partial: some shards did not answer"]


def test_a_node_without_a_response_is_no_right_answer(track):
    coverage = Coverages(track).make(PARTS["start"], 1)
    with pytest.raises(ValueError):
        Asked(coverage, [{"took": 1}], {}, {}).checked()


def test_each_epoch_and_each_way_to_ask_is_a_coverage_with_the_answers_of_its_epoch(tmp_path):
    coverages = Coverages(track_of(Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=2), root=tmp_path))
    asked = CONFIGURATIONS["production"]
    made = [coverages.make(asked, 1), coverages.make(asked, 2), coverages.make(asked, 2, profile=True)]
    assert coverages.epochs == [1, 2]
    assert [coverage.epoch for coverage in made] == [1, 2, 2]
    assert [coverage.expected for coverage in made] == [coverages.prepared.answers(number) for number in (0, 1, 1)]
    assert made[0].expected != made[1].expected
    profiled = [json.loads(coverage.requests[0].body).get("profile") for coverage in made]
    assert profiled == [None, None, True]


def test_documents_that_a_coverage_matches_are_all_of_the_epoch(track):
    coverages = Coverages(track)
    assert coverages.epochs == [1]
    coverage = coverages.make(CONFIGURATIONS["production"], 1)
    assert coverage.docs_matched == 25 and coverages.make(CONFIGURATIONS["production"], 1) is coverage
