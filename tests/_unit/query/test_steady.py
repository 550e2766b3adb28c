"""The warm-up goes on while a configuration gets faster, ends when none does, and names those left at its bound."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import FakeEs, track_of, values
from scipy import stats

from _tools.report.race import Race, Sample
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query._report import server
from cluster_metrics.query.query_decomp import WarmUpParams, WarmUpRunner
from cluster_metrics.query.steady import WINDOW, trend, unsteady


def rounds(level, spread, cells, seed):
    """Times of some cells that follow a level and vary by a share of it."""
    noise = np.exp(spread * np.random.default_rng(seed).standard_normal((cells, len(level))))
    return {f"c{i}": list(100 * level * row) for i, row in enumerate(noise)}


def share(level, spread, cells=20, trials=100):
    """Share of trials in which one looks once and some cell is found not steady."""
    return sum(bool(unsteady(rounds(level, spread, cells, seed))) for seed in range(trials)) / trials


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
def test_steady_cells_are_seldom_taken_for_others_whatever_their_spread(spread):
    assert share(np.ones(WINDOW), spread) <= 0.1


@pytest.mark.parametrize("spread, fall", [(0.02, 1.2), (0.05, 1.5), (0.2, 3.0)])
def test_cells_that_still_get_faster_are_found(spread, fall):
    assert share(np.geomspace(fall, 1, WINDOW), spread) >= 0.9


def test_a_fall_that_every_cell_hides_in_its_noise_shows_in_their_mean():
    level, trials = np.geomspace(1.3, 1, WINDOW), 100
    alone = sum(bool(unsteady({"c": rounds(level, 0.2, 1, seed)["c0"]})) for seed in range(trials))
    assert alone <= 60 and share(level, 0.2) >= 0.9
    assert unsteady(rounds(level, 0.2, 20, 1)) == [f"c{i}" for i in range(20)]


def test_a_fall_within_the_bound_counts_as_steady_however_sure_it_is():
    assert unsteady({"a": list(np.geomspace(1.04, 1, WINDOW))}) == []
    assert unsteady({"a": list(np.geomspace(1.07, 1, WINDOW))}) == ["a"]
    assert unsteady({"a": list(np.geomspace(1, 1.07, WINDOW))}) == ["a"]


def test_too_few_rounds_show_nothing():
    assert unsteady({"a": [1.0] * (WINDOW - 1), "b": [1.0] * WINDOW}) == ["a"]


def test_the_trend_is_scipys():
    rng = np.random.default_rng(3)
    for _ in range(20):
        times = np.exp(0.1 * rng.standard_normal(WINDOW) - 0.02 * np.arange(WINDOW))
        p, change = trend(list(times))
        score = stats.kendalltau(range(WINDOW), times).statistic * WINDOW * (WINDOW - 1) / 2
        z = max(0, abs(score) - 1) / np.sqrt(WINDOW * (WINDOW - 1) * (2 * WINDOW + 5) / 18)
        assert p == pytest.approx(2 * stats.norm.sf(z)), "with the correction for continuity"
        assert p == pytest.approx(stats.kendalltau(range(WINDOW), times, method="asymptotic").pvalue, abs=0.05)
        slope = stats.theilslopes(np.log(times), range(WINDOW)).slope
        assert change == pytest.approx(np.expm1(slope * (WINDOW - 1)))


class Walk:
    """In place of the plan: each round of it takes what it is told, cell by cell."""

    def __init__(self, times, wrong=()):
        self._times = {name: iter(found) for name, found in times.items()}
        self._wrong = wrong

    async def __call__(self, es, made):
        timings = [
            {"success": name not in self._wrong, "wall_ms": next(found), "dependent_timing": {"operation": name}}
            for name, found in self._times.items()
        ]
        return {"success": not self._wrong, "error-description": "a wrong answer", "dependent_timing": timings}


@pytest.mark.parametrize(
    "times, walked, left",
    [
        ({"a": [100.0] * 40}, WINDOW, []),
        ({"a": [100.0 * 0.7**i for i in range(10)] + [3.0] * 30}, 20, []),
        ({"a": [100.0 * 0.9**i for i in range(40)], "b": [5.0] * 40}, 40, ["a"]),
    ],
)
def test_the_warm_up_ends_when_all_are_steady_or_at_its_bound(monkeypatch, times, walked, left):
    monkeypatch.setattr("cluster_metrics.query.query_decomp.PlanRunner", lambda: Walk(times))
    cells = [{"coverage": SimpleNamespace(configuration=SimpleNamespace(name=name))} for name in times]
    params = {"rounds": [{"round": number, "coverages": cells} for number in range(-39, 1)]}
    found = asyncio.run(WarmUpRunner()(None, params))
    assert found["unsteady"] == left and found["success"]
    assert abs(found["rounds"] - walked) <= 4 if not left and walked > WINDOW else found["rounds"] == walked


def test_a_cell_whose_answers_are_wrong_is_never_steady(monkeypatch):
    times = {name: [100.0] * (WINDOW + 2) for name in ("right", "wrong")}
    monkeypatch.setattr("cluster_metrics.query.query_decomp.PlanRunner", lambda: Walk(times, ["wrong"]))
    cells = [{"coverage": SimpleNamespace(configuration=SimpleNamespace(name=name))} for name in times]
    params = {"rounds": [{"round": number, "coverages": cells} for number in range(-1 - WINDOW, 1)]}
    found = asyncio.run(WarmUpRunner()(None, params))
    assert (found["rounds"], found["unsteady"], found["success"]) == (WINDOW + 2, ["wrong"], False)
    assert found["error-count"] == WINDOW + 2


def test_the_warm_up_walks_rounds_of_the_plan_and_says_what_failed(tmp_path):
    track = track_of(Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=2), root=tmp_path)
    found = values(variants=["A"], warmup_rounds=3)
    params = WarmUpParams(track, {"parameters": found}).params()
    assert [made["round"] for made in params["rounds"]] == [-2, -1, 0]
    assert {len(made["coverages"]) for made in params["rounds"]} == {2}

    def answer(method, path, body):
        if method == "GET":
            cpu = {"timestamp": 1, "process": {"timestamp": 1, "cpu": {"total_in_millis": 1}}}
            cpu["jvm"] = {"timestamp": 1, "uptime_in_millis": 1}
            lookups = {"query_cache": {"hit_count": 0, "miss_count": 0}}
            stats = {"_all": {"primaries": {"segments": {"count": 1}}, "total": lookups}, "nodes": {"a": cpu}}
            return {"cluster-metrics": {"settings": {}}} if "_settings" in path else stats
        return {"responses": [{"took": 1, "timed_out": True}] * 2} if "_msearch" in path else {"took": 1}

    result = asyncio.run(WarmUpRunner()(FakeEs(answer), params))
    assert result["rounds"] == 3 and sorted(result["unsteady"]) == ["A-msearch", "A-serial"]
    assert not result["success"] and "timed_out" in result["error-description"]


@pytest.mark.parametrize(
    "walked, left, said",
    [
        (14, [], "Every configuration was steady before anything counted, after 14 rounds"),
        (WINDOW, [], f"Every configuration was steady before anything counted, after {WINDOW} rounds"),
        (WINDOW - 1, ["A-serial"], f"nothing is known to have been steady: the warm-up had {WINDOW - 1} rounds"),
        (
            40,
            ["A-serial", "B-serial"],
            "**Warning:** not steady after 40 rounds of warm-up, hence without a verdict: A-serial, B-serial; raise",
        ),
        (1, ["A-serial"], "**Warning:** nothing is known to have been steady: the warm-up had 1 round"),
    ],
)
def test_the_report_says_how_the_warm_up_ended(walked, left, said):
    cache = {"round": 1, "query_cache_on": [], "query_cache_hits": 0.0, "query_cache_misses": 0.0}
    warm_up = Sample("query-warm-up", 0, "warm-up", 1.0, {"rounds": walked, "unsteady": left})
    race = Race({}, [warm_up, Sample("query-plan", 1, "plan", 1.0, cache)], {})
    assert said in server.sections(race, "query-plan")[0].text
    assert server.unsteady(race) == set(left)
