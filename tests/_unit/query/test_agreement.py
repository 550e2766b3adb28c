"""Passes and plan agree only where the data show it; what they do not show is called not shown."""

import math

import numpy as np
import pytest
from fakes import rows
from hypothesis import given
from hypothesis import strategies as st

from _tools.report.race import Race, Sample
from cluster_metrics.query._report.agreement import EQUIVALENT, agreement
from cluster_metrics.query._report.query_decomp import sections

PLAN = np.linspace(99, 101, 40)


def verdicts(true, spread, passes, trials=60):
    """Verdicts over simulated races whose passes take ``true`` times as long as the plan and vary by ``spread``."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(trials):
        found.append(agreement(true * np.exp(spread * rng.standard_normal(passes))).verdict)
    return {kind: found.count(kind) / trials for kind in ("equivalent within 5 %", "different", "not shown")}


def test_a_cell_that_takes_a_fifth_longer_is_hardly_ever_called_equivalent():
    assert verdicts(1.2, 0.22, passes=3)["equivalent within 5 %"] <= 0.05
    assert verdicts(1.2, 0.05, passes=10)["different"] >= 0.95


def test_of_twelve_cells_that_agree_one_is_seldom_called_different():
    rng, trials = np.random.default_rng(1), 60

    def any_different(cells):
        ratios = np.exp(0.1 * rng.standard_normal((12, 3)))
        return any(agreement(of, cells=cells).verdict == "different" for of in ratios)

    assert sum(any_different(12) for _ in range(trials)) / trials <= 0.09
    assert sum(any_different(1) for _ in range(trials)) / trials >= 0.3


def test_two_designs_that_agree_are_shown_to_with_enough_passes_and_seldom_called_different():
    assert verdicts(1.0, 0.02, passes=10)["equivalent within 5 %"] >= 0.9
    for passes in (3, 10):
        assert verdicts(1.0, 0.1, passes)["different"] <= 0.1


@pytest.mark.parametrize(
    "passes, verdict",
    [
        ([100, 101, 99], "equivalent within 5 %"),
        ([120, 121, 122], "different"),
        ([106, 106.5, 107], "different"),
        ([100, 130, 90], "not shown"),
        ([100], "not shown"),
    ],
)
def test_verdicts_at_hand(passes, verdict):
    assert agreement(np.array(passes) / 100).verdict == verdict


def test_beside_others_a_cell_is_called_different_less_easily_and_equivalent_as_easily():
    """By Student's quantiles for 2 degrees of freedom, 4.3 and of 12 together 15.4."""
    differs, agrees = np.array([1.10, 1.12, 1.15]), np.array([0.985, 1.0, 1.015])
    assert [agreement(differs, cells=cells).verdict for cells in (1, 12)] == ["different", "not shown"]
    assert {agreement(agrees, cells=cells).verdict for cells in (1, 12)} == {"equivalent within 5 %"}


@pytest.mark.parametrize(
    "levels, cells, decided",
    [
        ([1.0, 1.04, 0.96], 1, "equivalent within 5 %"),
        ([1.05, 1.15, 1.25], 1, "different"),
        ([1.05, 1.15, 1.25], 12, "different"),
    ],
)
def test_passes_that_would_decide_are_those_at_which_the_same_spread_decides(levels, cells, decided):
    levels = np.array(levels)
    found = agreement(levels, cells=cells)
    assert found.verdict == "not shown" and 3 < found.decided_by < 20
    centred = np.log(levels) - np.log(levels).mean()
    for k, verdict in ((int(found.decided_by), decided), (int(found.decided_by) - 1, "not shown")):
        scaled = np.resize([1.0, -1.0, 0.0][: 3 if k % 2 else 2], k)
        scaled = (scaled - scaled.mean()) / scaled.std(ddof=1) * centred.std(ddof=1) + np.log(levels).mean()
        assert agreement(np.exp(scaled), cells=cells).verdict == verdict


def test_no_number_of_passes_decides_a_spread_that_is_too_great():
    assert math.isnan(agreement(np.array([1.0, 4.0, 0.25])).decided_by)
    assert agreement(np.array([1.0])).decided_by == 0


def test_the_interval_of_a_ratio_is_student_s_over_passes():
    ratio = agreement(np.exp([-0.1, 0.0, 0.1])).ratio
    half = 4.303 * 0.1 / math.sqrt(3)
    assert np.log([ratio.low, ratio.value, ratio.high]) == pytest.approx([-half, 0, half], rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("spread, passes", [(0.0141, 3), (0.2453, 100), (0.2465, math.nan)])
def test_passes_that_would_decide_are_one_more_at_least_and_100_at_most(spread, passes):
    found = agreement(np.exp(np.array([1, -1]) * spread / math.sqrt(2)))
    assert found.decided_by == pytest.approx(passes, nan_ok=True)


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=12), st.floats(0.5, 2))
def test_equivalent_means_that_the_interval_lies_within_the_bound_and_different_that_it_lacks_1(levels, scale):
    found = agreement(np.array(levels) * scale)
    ratio, bound = found.ratio, 1 + EQUIVALENT
    assert ratio.low <= ratio.value <= ratio.high
    inside = 1 / bound <= ratio.low and ratio.high <= bound
    if found.verdict.startswith("equivalent"):
        assert inside or ratio.high == pytest.approx(bound) or ratio.low == pytest.approx(1 / bound)
    elif found.verdict == "different":
        assert not ratio.low <= 1 <= ratio.high
    else:
        assert ratio.low <= 1 <= ratio.high and not inside


def test_a_cell_that_was_not_steady_gets_no_verdict():
    assert agreement(np.array([1.0, 1.001, 0.999]), steady=False).verdict == "not steady"


def made(by_pass, plan, not_steady=()):
    """The sections of a race whose cells have these wall times, each five times in a pass.

    :param plan: pass that the rounds of the plan follow, and what they take.
    :param not_steady: cells that were not steady after the warm-up.
    """
    samples = [Sample("query-warm-up", 0, "warm-up", 1.0, {"rounds": 40, "unsteady": list(not_steady)})]
    for variant, levels in by_pass.items():
        about = {"variant": variant, "transport": "serial", "max_percentile_error": 0.0, "parallelism": 1.0}
        cell = f"{variant}-serial"
        for number, ms in enumerate(levels, 1):
            meta = about | {"pass": number, "wall_ms": ms, "took_ms": ms}
            samples += [Sample("query-cell", 0, cell, ms, meta)] * 5
        for r, (after, ms) in enumerate(plan):
            meta = about | {"round": r, "wall_ms": ms, "took_ms": ms} | ({"pass": after} if after else {})
            samples.append(Sample("coverage", r, cell, ms, meta))
    return sections(Race({"race-id": "x", "challenge": "query-decomp"}, samples, {}))


BY_PASS = {"A": (100, 101, 99), "B": (130, 131, 132), "D_td": (100, 104, 96)}


@pytest.mark.parametrize(
    "plan",
    [
        [(0, ms) for ms in PLAN],
        [(number, ms) for number in (1, 2, 3) for ms in PLAN],
    ],
)
def test_the_report_states_ratio_verdict_and_passes_to_decide(plan):
    found = rows(made(BY_PASS, plan), "agreement")
    assert {cell: row["verdict"] for cell, row in found.items()} == {
        "geometric mean": "different",
        "A-serial": "equivalent within 5 %",
        "B-serial": "different",
        "D_td-serial": "not shown",
    }
    assert found.pop("geometric mean")["ratio"].value == pytest.approx(
        (1.31 * found["D_td-serial"]["ratio"].value) ** (1 / 3), rel=1e-3
    )
    assert found["B-serial"]["n"] == 3 and found["B-serial"]["ratio"].value == pytest.approx(1.31, rel=1e-3)
    assert (found["B-serial"]["headline"], found["B-serial"]["plan"]) == pytest.approx((131, 100), rel=1e-3)
    assert "decided_by" not in found["A-serial"] and int(found["D_td-serial"]["decided_by"]) > 3
    text = next(s for s in made(BY_PASS, plan) if s.title == "Headline cells against the plan").text
    assert "1 of 3 cells is different (B-serial)" in text and "1 of 3 cells is not shown (D_td-serial)" in text


def test_a_machine_that_gets_faster_does_so_for_passes_and_plan():
    """A cell that takes as long in both designs, while the machine gets twice as fast over the race."""
    plan = [(number, level * ms / 100) for number, level in enumerate((200, 150, 100), 1) for ms in PLAN]
    found = rows(made({"A": (200, 150, 100)}, plan), "agreement")["A-serial"]
    assert found["verdict"] == "equivalent within 5 %" and found["ratio"].value == pytest.approx(1, abs=1e-3)
    assert found["headline"] == pytest.approx(found["plan"], rel=1e-3)
    alone = rows(made({"A": (200, 150, 100)}, [(0, ms) for _, ms in plan]), "agreement")["A-serial"]
    assert alone["verdict"] == "not shown"


def test_a_pass_that_no_round_follows_tells_nothing():
    found = rows(made({"A": (100, 101, 500)}, [(number, ms) for number in (1, 2) for ms in PLAN]), "agreement")
    assert found["A-serial"]["n"] == 2


def test_of_a_cell_that_was_not_steady_and_of_all_with_it_nothing_is_concluded():
    found = rows(made(BY_PASS, [(0, ms) for ms in PLAN], ["A-serial"]), "agreement")
    verdicts = {cell: row["verdict"] for cell, row in found.items()}
    assert verdicts.pop("D_td-serial") == "not shown"
    assert verdicts == {"A-serial": "not steady", "geometric mean": "not steady", "B-serial": "different"}


def test_beside_eleven_others_passes_must_differ_by_more():
    """Passes that alone are 10, 12 and 15 % longer differ, and among twelve cells that is not shown."""
    plan, longer = [(0, ms) for ms in PLAN], (110, 112, 115)
    (alone,) = rows(made({"A": longer}, plan), "agreement").values()
    names = ["A", "B", "C_td", "C_hdr", "D_td", "D_hdr", *(f"more-{n}" for n in range(6))]
    among = rows(made(dict.fromkeys(names, longer), plan), "agreement")["A-serial"]
    assert (alone["verdict"], among["verdict"]) == ("different", "not shown")
    assert among["decided_by"] == "4"
