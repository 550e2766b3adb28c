"""Headline cells of query-decomp: what they ask in a pass, and until when."""

import asyncio
import itertools
import math
from collections import Counter

import pytest
from esrally import metrics
from esrally.driver import driver
from fakes import TIMEOUT, FakeEs, track_of, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query import query_decomp
from cluster_metrics.query.configurations import PARTS
from cluster_metrics.query.query_decomp import PART, READING_S, TURN_S, VISITS, CellParams, PlanParams, PlanRunner

WARMUP = 2


@pytest.fixture(scope="module")
def track(tmp_path_factory):
    return track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=5), root=tmp_path_factory.mktemp("cells"))


def asked(track, coverage_s, **changes):
    """What a cell whose coverages take so long is asked, each with its sample type; and when its task ends."""
    params = {"parameters": values() | changes, "variant": "B", "transport": "serial", "pass": 1}
    now = [1000.0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(query_decomp.time, "perf_counter", lambda: now[0])
        source = CellParams(track, params | {"warmup-iterations": WARMUP})
        control = driver.IterationBased(WARMUP, None)
        assert control.infinite and not source.infinite
        control.start()
        found = []
        while True:
            try:
                found.append((control.sample_type, source.params()))
            except StopIteration:
                break
            control.next()
            now[0] += coverage_s
    return found, now[0] - 1000.0


@given(coverage_s=st.floats(0.004, 8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_cell_asks_on_while_rally_would_be_idle(track, coverage_s):
    found, ended = asked(track, coverage_s)
    counted = [params for kind, params in found if kind == metrics.SampleType.Normal]
    assert len(found) - len(counted) == WARMUP and len(counted) >= VISITS * 5
    turns = math.ceil((ended + READING_S) / TURN_S)
    assert ended + READING_S + coverage_s > turns * TURN_S - 1e-6
    fewest = (WARMUP + VISITS * 5) * coverage_s + READING_S
    assert turns <= math.ceil(fewest / TURN_S + 1e-6)
    visits = Counter(params["coverage"].epoch for params in counted)
    assert len(visits) == 5 and max(visits.values()) - min(visits.values()) <= 1
    assert [n for n, params in enumerate(counted) if params["first"]] == [0]
    assert [n for n, params in enumerate(counted) if params["last"]] == [len(counted) - 1]


def test_a_cell_of_test_mode_is_asked_once(track):
    found, _ = asked(track, 0.01, test_mode=True)
    assert [(params["first"], params["last"]) for _, params in found[WARMUP:]] == [(True, True)]


def test_a_cell_asks_about_epochs_in_an_order_of_its_own_by_seed_and_pass(track):
    def order(variant="B", seed=42, number=1):
        params = {"parameters": values(seed=seed), "variant": variant, "transport": "serial", "pass": number}
        source = CellParams(track, params | {"warmup-iterations": 0})
        return [source.params()["coverage"].epoch for _ in range(5)]

    assert sorted(order()) == [1, 2, 3, 4, 5] and order() == order()
    assert order() not in (order("A"), order(seed=7), order(number=2))


def plan(track, **changes):
    """The first rounds of a plan: its epochs, and the cells of each in their order."""
    source = PlanParams(track, {"parameters": values(**changes), "warmup-iterations": 0})
    rounds = [source.round(number)["coverages"] for number in range(5)]
    return [made[0]["coverage"].epoch for made in rounds], [
        [one["coverage"].configuration.name for one in made] for made in rounds
    ]


def test_the_plan_has_each_epoch_and_every_cell_in_an_order_by_seed_and_round(track):
    (epochs, cells), other = plan(track, seed=42), plan(track, seed=7)
    assert (epochs, cells) == plan(track, seed=42)
    assert sorted(epochs) == sorted(other[0]) and epochs != other[0]
    assert {tuple(sorted(made)) for made in cells} == {tuple(sorted(cells[0]))} and len(set(map(tuple, cells))) == 5
    assert cells[0] != other[1][0]


@pytest.mark.parametrize(
    "variants, transports, parts",
    [
        (["B", "C_td", "D_td"], ["serial", "msearch"], True),
        (["B", "C_td", "D_td"], ["msearch"], False),
        (["B", "C_td", "A"], ["serial"], False),
        (["B", "D_td"], ["serial"], False),
    ],
)
def test_the_parts_are_asked_where_the_attribution_has_the_variants_that_it_needs(track, variants, transports, parts):
    _, (cells, *_) = plan(track, variants=variants, transports=transports)
    own = [f"{variant}-{transport}" for variant in variants for transport in transports]
    assert sorted(cells) == sorted([*own, *(f"{part}-serial" for part in PARTS if parts)])


@pytest.mark.parametrize("answer", [TIMEOUT, {"took": 1, "timed_out": True}])
def test_cells_that_only_the_attribution_asks_are_of_a_kind_of_their_own(track, monkeypatch, answer):
    monkeypatch.setattr(query_decomp, "RUN_UP_S", 0)
    given = values(variants=["B", "C_td", "D_td"], transports=["serial"])
    source = PlanParams(track, {"parameters": given, "warmup-iterations": 0, "pass": 2, "passes": 3})
    cpu = {"timestamp": 1, "process": {"timestamp": 1, "cpu": {"total_in_millis": 1}}}
    stats = {"primaries": {"segments": {"count": 1}}, "total": {"query_cache": {"hit_count": 0, "miss_count": 0}}}
    asides = {"_all": stats, "nodes": {"a": cpu | {"jvm": {"timestamp": 1, "uptime_in_millis": 1}}}}
    es = FakeEs(lambda method, path, _: answer if method == "POST" else {} if "_settings" in path else asides)
    with es.new_request_context():
        result = asyncio.run(PlanRunner()(es, source.round(1) | {"round": 1}))
    timings = result["dependent_timing"]
    kinds = {t["variant"]: t["dependent_timing"]["operation-type"] for t in timings}
    assert kinds == dict.fromkeys(PARTS, PART) | dict.fromkeys(["B", "C_td", "D_td"], "coverage")
    assert {t["pass"] for t in timings} == {2}


def test_a_plan_keeps_the_passes_after_it_free_without_the_run_ups_that_only_it_has(track):
    """Of 15 coverages in a pass, 0.25 s each: with the reading of the CPU time less than one turn of 5 s."""
    given = values(variants=["B"], transports=["serial"], warmup_iterations=0, epochs=5)
    for number, left in ((1, 2), (3, 0)):
        task = {"parameters": given, "warmup-iterations": 0, "pass": number, "passes": 3}
        assert PlanParams(track, task).afterwards(0.35) == left * (5 + 1)


def test_as_many_searches_run_at_once_as_is_asked_for_in_headline_cells_and_in_the_plan(track):
    params = {"parameters": values(max_concurrent_searches=3, variants=["B"]), "warmup-iterations": 0}
    cell = CellParams(track, params | {"variant": "B", "transport": "msearch", "pass": 1}).params()["coverage"]
    plan = {c["transport"]: c["coverage"] for c in PlanParams(track, params).round(1)["coverages"]}
    for coverage in (cell, plan["msearch"]):
        assert [request.path for request in coverage.requests] == ["/_msearch?max_concurrent_searches=3"]


def test_the_cpu_time_of_a_cell_is_read_at_its_first_and_its_last_coverage(track, monkeypatch):
    read = itertools.count(100, 60)

    async def cpu_ms(es):
        return float(next(read))

    async def segments(es, index):
        return 1

    class Told:
        def checked(self):
            return {"searches": 2, "wall_ms": 1000.0}

    async def ask(es, coverage):
        return Told()

    for name, stand_in in (("target_cpu_ms", cpu_ms), ("segment_count", segments), ("ask", ask)):
        monkeypatch.setattr(query_decomp, name, stand_in)
    runner, (called, _) = query_decomp.CellRunner(), asked(track, 1.0)
    metas = [asyncio.run(runner(None, params)) for _, params in called]
    assert [meta.get("target_cpu_ms") for meta in metas] == [None] * (len(metas) - 1) + [60.0]
    assert {meta["throughput"] for meta in metas} == {2.0}, "searches a second"
