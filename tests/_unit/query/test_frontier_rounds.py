"""Rounds of query-frontier: what they ask, in which order, and what is recorded of answers that are off."""

import asyncio
import json

import pytest
from fakes import FakeEs, Refused, Script, track_of, values

from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.query_frontier import (
    REPEATED,
    FrontierCpuParams,
    FrontierCpuRunner,
    FrontierParams,
    FrontierRunner,
)

NAMES = ["production", "cached", "esql", "msearch"]
NODES = ["N001", "N002"]


@pytest.fixture
def track(tmp_path):
    return track_of(Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=3), root=tmp_path)


def rounds(track, names=NAMES, seed=42, number=6):
    task = {"parameters": values(configurations=names, seed=seed), "warmup-iterations": 0, "iterations": number}
    source = FrontierParams(track, task)
    return [source.params() for _ in range(number)]


def test_rounds_go_through_the_epochs_and_ask_in_an_order_by_seed_and_round(track):
    def drawn(**seed):
        found = [made["coverages"] for made in rounds(track, **seed)]
        return [[coverage.configuration.name for coverage, _ in made] for made in found]

    epochs = [{coverage.epoch for coverage, _ in made["coverages"]} for made in rounds(track)]
    assert epochs == [{2}, {3}, {1}] * 2
    assert drawn() == drawn() != drawn(seed=7) and len(set(map(tuple, drawn()))) > 1
    assert all(sorted(made) == sorted(NAMES) for made in drawn())


def test_the_filters_that_are_asked_beforehand_are_those_of_the_same_epoch(track):
    for made in rounds(track, ["cached"]):
        ((coverage, priming),) = made["coverages"]
        asked = [json.loads(request.body)["query"] for request in priming]
        assert asked[::REPEATED] == [json.loads(request.body)["query"] for request in coverage.requests]
        assert len(asked) == REPEATED * len(NODES)


def answered(coverage, off):
    """The answers to the searches of a coverage, those in ``off`` so many times too great, by node and name."""
    for node, expected in coverage.expected.items():
        found = {}
        for field, exact in expected.items():
            of = {float(p): v[0] * off.get((node, field, p), 1) for p, v in exact["percentiles"].items()}
            found[f"{field}_pct"] = {"values": {str(p): value for p, value in of.items()}}
            found[f"{field}_sum"] = {"value": exact["sum"] * off.get((node, field, "sum"), 1)}
        yield {"took": 1, "aggregations": found}


def run(track, names, answer_to):
    """The result of a round, and what was asked.

    :param answer_to: answers a search by its path and body.
    """
    (made,) = rounds(track, names, number=1)
    made["coverages"].sort(key=lambda of: names.index(of[0].configuration.name))
    counts = {"_all": {"total": {"query_cache": {"hit_count": 3, "miss_count": 4}}}}

    def answer(method, path, body):
        if method == "GET":
            return {} if "_settings" in path else counts
        return answer_to(path, json.loads(body))

    es = FakeEs(answer)
    with es.new_request_context():
        return asyncio.run(FrontierRunner()(es, made)), es


def production(track, **off):
    """Answers as production would have them."""
    (made,) = rounds(track, ["production"], number=1)
    ((coverage, _),) = made["coverages"]
    answers = dict(
        zip([json.dumps(json.loads(r.body)) for r in coverage.requests], answered(coverage, off.get("off", {})))
    )
    return lambda path, body: answers.get(json.dumps(body), {"took": 1})


def test_errors_are_the_greatest_of_any_node_and_field_each_of_its_own(track):
    off = {
        ("N001", "cpu", "50"): 1.1,
        ("N002", "net", "90"): 1.05,
        ("N002", "mem", "0"): 0.8,
        ("N001", "mem", "sum"): 1.01,
    }
    result, _ = run(track, ["production"], production(track, off=off))
    (sample,) = result["dependent_timing"]
    errors = [sample[f"{of}_error"] for of in ("percentile", "extreme", "sum")]
    assert errors == pytest.approx([0.1, 0.2, 0.01]) and sample["success"]
    assert (result["query_cache_hits"], result["query_cache_misses"]) == (0, 0), "of this round alone"


def test_a_coverage_that_timed_out_is_wrong_and_has_no_error(track):
    result, _ = run(track, ["production"], lambda path, body: {"took": 1, "timed_out": True})
    (sample,) = result["dependent_timing"]
    assert (sample["success"], sample["error-type"]) == (False, "wrong-answer") and "percentile_error" not in sample


def test_a_target_without_esql_is_asked_all_else(track):
    right = production(track)
    missing = Refused(400, "invalid_index_name_exception", "no handler")
    result, es = run(
        track, ["esql", "production", "cached"], lambda path, body: missing if path == "/_query" else right(path, body)
    )
    assert [sample["configuration"] for sample in result["dependent_timing"]] == ["production", "cached"]
    assert result["success"] and result["left_out"].startswith("esql: the target has no ES|QL, /_query answers")
    assert len([path for _, path, _ in es.requests if "-cached/_search" in path]) == len(NODES) * (REPEATED + 1)


def test_cpu_time_is_measured_of_every_configuration_and_of_none_that_the_target_lacks(track):
    source = FrontierCpuParams(track, {"parameters": values(configurations=NAMES, frontier_cpu_seconds=1)})
    asked = [source.params() for _ in NAMES]
    assert [params["coverage"].configuration.name for params in asked] == NAMES
    with pytest.raises(StopIteration):
        source.params()
    es = FakeEs(Script({"GET /": {}, "POST /_query": Refused(400, "invalid_index_name_exception", "no handler")}))
    with es.new_request_context():
        result = asyncio.run(FrontierCpuRunner()(es, asked[2]))
    assert result == {"unit": "coverages", "configuration": "esql", "weight": 0, "coverages": 0}
