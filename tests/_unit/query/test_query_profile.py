import asyncio
import contextlib
import itertools
import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster_metrics.corpus import NAME, Corpus, generate_epoch
from cluster_metrics.profile import ProfileParams, ProfileRunner, aggregation_kinds
from cluster_metrics.profile_tree import AGGREGATION_PARTS, PARTS, add_up, times

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
    found = times(recorded, KINDS)
    assert sum(found[f"query_{part}_ms"] for part in (*PARTS, "other")) == pytest.approx(found["query_ms"])
    breakdowns = [
        leaf["breakdown"]
        for shard in recorded["shards"]
        for leaf in shard["searches"][0]["query"][0]["children"][0]["children"]
    ]
    assert len(breakdowns) == 4
    expected = sum(b["next_doc"] + b["advance"] + b["match"] for b in breakdowns) / 1e6
    assert 0 < found["query_leaves_ms"] == pytest.approx(expected)
    assert found["query_leaves_ms"] < found["query_ms"]


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
def source(tmp_path):
    corpus = Corpus(nodes=2, tasks=2, rows_per_epoch=10, epochs=3)
    documents = [
        SimpleNamespace(document_file=str(generate_epoch(corpus, e, tmp_path)), meta_data={"epoch": e})
        for e in range(1, 4)
    ]
    track = SimpleNamespace(corpora=[SimpleNamespace(name=NAME, meta_data=asdict(corpus), documents=documents)])
    return ProfileParams(track, {"seed": 42, "warmup-iterations": 1})


def test_a_round_asks_the_same_with_the_profiler_and_without(source):
    rounds = [source.params() for _ in range(13)]
    assert [r["round"] for r in rounds] == list(range(13))
    for r in rounds:
        by_probe = {c["probe"]: c for c in r["coverages"]}
        assert set(by_probe) == {"on", "off"}
        on, off = (by_probe[probe]["requests"] for probe in ("on", "off"))
        assert len(on) == len(off) == 2
        for profiled, plain in zip(on, off):
            assert json.loads(profiled.body) == json.loads(plain.body) | {"profile": True}
            assert profiled.path == plain.path and "request_cache=false" in plain.path
    assert {r["coverages"][0]["probe"] for r in rounds} == {"on", "off"}
    assert {r["coverages"][0]["epoch"] for r in rounds[1:4]} == {1, 2, 3}


class FakeEs:
    """Answers every search with the same response; each request takes one second of a clock of its own."""

    def __init__(self, response):
        self.response = response
        self.clock = itertools.count()
        self.contexts = []

    @contextlib.contextmanager
    def new_request_context(self):
        context = SimpleNamespace(request_start=None, request_end=None)
        self.contexts.append(context)
        yield context
        self.contexts.pop()

    def init_request_context(self):
        return None, None

    def restore_context(self, token):
        pass

    def return_raw_response(self):
        pass

    async def perform_request(self, method, path, headers=None, body=None):
        if method == "GET":
            return SimpleNamespace(body={"_all": {"primaries": {"segments": {"count": 1}}}})
        start, end = next(self.clock), next(self.clock)
        for context in self.contexts:
            context.request_start = start if context.request_start is None else context.request_start
            context.request_end = end
        return SimpleNamespace(body=SimpleNamespace(getvalue=lambda: self.response))


def answer(took, answers, profile):
    """A right response about a node."""
    aggregations = {f"{field}_sum": {"value": a["sum"]} for field, a in answers.items()}
    for field, a in answers.items():
        values = {f"{float(p)}": exact[0] for p, exact in a["percentiles"].items()}
        aggregations[f"{field}_pct"] = {"values": values}
    return json.dumps({"took": took, "aggregations": aggregations, "profile": profile}).encode()


def test_a_round_records_both_coverages_and_each_of_their_calls(source, recorded):
    params = source.params()
    for coverage in params["coverages"]:
        coverage["answers"] = dict.fromkeys(coverage["answers"], coverage["answers"]["N001"])
    answers = params["coverages"][0]["answers"]["N001"]
    result = asyncio.run(ProfileRunner()(FakeEs(answer(7, answers, recorded)), params))
    assert result["success"] and result["error-count"] == 0
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
    assert coverage["sums_collect_ms"] == pytest.approx(
        sum(c[f"{field}_sum_collect_ms"] for c in calls for field in ("cpu", "mem", "net"))
    )


def test_a_wrong_answer_makes_the_coverage_an_error_without_calls(source):
    result = asyncio.run(ProfileRunner()(FakeEs(RECORDED), source.params()))
    assert not result["success"] and result["error-count"] == 2
    assert "cpu_sum is" in result["error-description"]
    assert [e["success"] for e in result["dependent_timing"]] == [False, False]
