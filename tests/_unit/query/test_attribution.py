"""Costs are recovered from cells that were made of them, add up to the whole, and leave a rest where there is one."""

import numpy as np
import pytest
from fakes import rows

from _tools.report.cells import Cells
from _tools.report.race import Sample
from _tools.report.stats import Estimate
from _tools.report.text import number
from cluster_metrics.query._report.attribution import (
    COUNTING,
    HALF_WIDTH,
    TERMS,
    WHOLE,
    Fit,
    Part,
    fitted,
    half,
    kept,
    of_rest,
    sections,
    share_of,
)
from cluster_metrics.query.configurations import FITTED

COSTS = dict(zip([term.name for term in TERMS], [60.0, 40.0, 9.0, 25.0, 70.0, 75.0, 150.0, -8.0, -5.0]))
PARTS = {name: ms for name, ms in COSTS.items() if name != COUNTING.name}
CELLS = (WHOLE, *FITTED)


def made(rounds=60, spread=0.02, common=0.1, interaction=0.0, seed=0, lost=(), restless=(), **costs):
    """Cells of a race that cost the sum of their terms, with noise of their own and some that a round's cells share.

    :param interaction: ms that the production query takes beyond its parts.
    :param lost: pairs of cell and round.
    :param restless: cells whose own noise is 20 times that of the others.
    """
    rng = np.random.default_rng(seed)
    of = COSTS | costs
    samples = []
    for r in range(rounds):
        slow = np.exp(common * rng.standard_normal())
        for cell in CELLS:
            ms = sum(cost * term.times(cell) for term, cost in zip(TERMS, of.values()))
            ms = (ms + interaction * (cell is WHOLE)) * slow
            ms *= np.exp((20 if cell.name in restless else 1) * spread * rng.standard_normal())
            if (cell.name, r) not in lost:
                samples.append(Sample("coverage", r, cell.name, ms, {"round": r, "wall_ms": ms}))
    return Cells(samples)


def test_the_terms_can_be_told_apart_and_the_production_query_is_held_out():
    design = np.array([[term.times(cell) for term in TERMS] for cell in FITTED])
    assert np.linalg.matrix_rank(design) == len(TERMS) and len(FITTED) == 13
    assert WHOLE.name not in {cell.name for cell in FITTED}
    assert [term.times(WHOLE) for term in TERMS] == [1, 1, 0, 3, 1, 1, 1, 3, 3]
    of = {cell.name.removesuffix("-serial"): times for cell, times in zip(FITTED, design.tolist())}
    assert (of["start"], of["visit"]) == ([1, *[0] * 8], [1, 1, 1, *[0] * 6])
    assert of["B"] == [1, 1, 0, 3, 0, 0, 0, 0, 0] and of["C_td"] == [1, 1, 0, 0, 1, 1, 1, 3, 0]
    assert of["sum-cpu-pct-mem"] == [1, 1, 0, 1, 0, 1, 0, 0, 0]
    assert of["sum-cpu-mem-pct-cpu-mem"] == [1, 1, 0, 2, 1, 1, 0, 1, 2]


def test_costs_without_noise_are_recovered_exactly_and_leave_no_rest():
    fit = fitted(made(spread=0, common=0))
    assert {part.name: part.each.value for part in fit.parts} == pytest.approx(PARTS)
    assert fit.counting.value == pytest.approx(COSTS[COUNTING.name])
    assert fit.percentiles.ms.value == pytest.approx(70 + 75 + 150 - 3 * 8)
    assert fit.rest.ms.value == pytest.approx(0, abs=1e-9) and fit.worst[1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_the_cell_that_is_missed_by_most_is_named_whichever_way_it_is_off(factor):
    cells = made(spread=0, common=0)
    for sample in cells.samples("sum-cpu-mem-serial").values():
        sample.meta["wall_ms"] *= factor
    name, missed = fitted(cells).worst
    assert name == "sum-cpu-mem-serial" and (missed < 0) is (factor < 1)
    design = np.array([[term.times(cell) for term in TERMS] for cell in FITTED])
    times = np.array([cells.one("wall_ms", cell.name).value for cell in FITTED])
    left = times - design @ np.linalg.lstsq(design, times, rcond=None)[0]
    assert missed == pytest.approx(max(left / times, key=abs)), "a share of its time"


def test_an_interaction_is_a_rest_of_its_own_with_an_interval_that_lacks_0():
    fit = fitted(made(interaction=50.0))
    assert fit.rest.ms.low <= 50 * 1.02 and fit.rest.ms.high >= 50 * 0.98
    assert fit.rest.share.low > 0
    assert "together the parts cost more than apart" in sections(made(interaction=50.0))[0].text
    assert "together the parts cost less than apart" in sections(made(interaction=-50.0))[0].text


def test_shares_add_up_to_the_whole_whatever_the_noise_and_the_rounds_that_are_lost():
    for seed in range(5):
        fit = fitted(made(rounds=30, spread=0.2, seed=seed, lost={("pct-cpu-serial", 3), ("D_td-serial", 7)}))
        parts = (*fit.parts, fit.rest)
        assert sum(part.share.value for part in parts) == pytest.approx(1, abs=1e-9)
        assert sum(part.ms.value for part in parts) == pytest.approx(fit.whole.ms.value)
        assert fit.rounds == (24, 28)


def test_the_interval_of_the_rest_covers_what_is_there_in_about_95_of_100_races():
    covered = [
        (rest := fitted(made(interaction=20.0, seed=s)).rest.share).low <= 20 / 480 <= rest.high for s in range(30)
    ]
    assert np.mean(covered) >= 0.8


def test_what_slows_a_round_down_as_a_whole_costs_no_precision_of_shares():
    steady, shaken = (half(fitted(made(common=common)).rest.share) for common in (0.0, 0.3))
    assert shaken == pytest.approx(steady, rel=0.5)


def test_a_restless_cell_counts_for_little_and_costs_the_rest_no_precision():
    calm, restless = (half(fitted(made(restless=of)).rest.share) for of in ((), ("sum-cpu-mem-serial",)))
    assert restless == pytest.approx(calm, rel=0.5)


def test_a_cell_counts_in_the_fit_by_the_inverse_of_the_variance_of_its_rounds():
    """Of nine rounds none is left out."""
    cells = made(rounds=9, spread=0.05, common=0, restless=("sum-cpu-mem-serial", "pct-net-serial"))
    design = np.array([[term.times(cell) for term in TERMS] for cell in FITTED], dtype=float)
    times = cells.matrix("wall_ms", [cell.name for cell in FITTED])
    weighted = design.T / times.var(axis=1)
    expected = dict(zip(COSTS, np.linalg.solve(weighted @ design, weighted @ times.mean(axis=1))))
    fit = fitted(cells)
    assert {part.name: part.each.value for part in fit.parts} == pytest.approx({name: expected[name] for name in PARTS})


def test_the_slowest_and_fastest_rounds_are_left_out_of_all_cells_alike():
    cells = np.ones((3, 20)) * [[10.0], [20.0], [30.0]]
    cells[:, 4] *= 9
    cells[:, 11] /= 9
    left = kept(cells)
    assert len(left) == 16 and 4 not in left and 11 not in left
    assert list(kept(np.ones((2, 4)))) == [0, 1, 2, 3]
    cells = np.ones((2, 20)) * [[1.0], [1000.0]]
    cells[0, [4, 11]] = 9, 1 / 9
    cells[1, [5, 6, 7, 8]] = 1020, 1010, 990, 980
    assert {4, 11}.isdisjoint(kept(cells)), "a cell counts by its factor, not by its time"


@pytest.mark.filterwarnings("error")
def test_of_a_whole_of_nothing_no_share_is_known():
    found = share_of(np.array([1.0, 0.0, 2.0]), np.zeros(3))
    assert found.n == 3 and np.isnan(found.value) and not found.known


def test_a_share_is_the_ratio_of_means():
    part, whole = np.array([1.0, 2.0, 6.0]), np.array([10.0, 10.0, 25.0])
    found = share_of(part, whole)
    assert found.value == pytest.approx(9 / 45) and found.low <= found.value <= found.high
    assert (e := share_of(whole / 4, whole)).low == pytest.approx(e.high) == pytest.approx(0.25)


def test_the_report_shows_parts_rest_and_whole_and_the_rounds_that_are_missing():
    noisy = made(rounds=10, spread=0.2)
    assert half(fitted(noisy).rest.share) > HALF_WIDTH and "rounds would bring it to 2 %" in sections(noisy)[0].text
    (section,) = sections(made())
    found = rows([section], "parts")
    assert list(found) == [*PARTS, "rest", "whole: production (D_td)"]
    assert found["sum"]["count"] == 3 and found["sum"]["wall_ms"].value == pytest.approx(
        3 * found["sum"]["each_ms"].value
    )
    assert found["whole: production (D_td)"]["share"] == 1
    assert "no interaction of the parts is shown" in section.text
    assert f"visit-serial counts what it visits, for {number(fitted(made()).counting.value)} ms [" in section.text
    (section,) = sections(made(), {"pct-cpu-serial", "A-serial"})
    assert "No verdict on it, as pct-cpu-serial was not steady" in section.text
    (section,) = sections(made(), {"D_td-serial"})
    assert "No verdict on it, as D_td-serial was not steady" in section.text


@pytest.mark.parametrize(
    "low, high, half_width, told",
    [
        (-0.03, 0.03, "3.0 %", "; about 225 rounds would bring it to 2 %."),
        (0.03, 0.09, "3.0 %", "; about 225 rounds would bring it to 2 %."),
        (-0.02, 0.02, "2.0 %", ": no interaction of the parts is shown."),
        (0.0, 0.04, "2.0 %", ": no interaction of the parts is shown."),
        (-0.04, 0.0, "2.0 %", ": no interaction of the parts is shown."),
        (0.001, 0.031, "1.5 %", ": together the parts cost more than apart, an interaction that no term has."),
        (-0.031, -0.001, "1.5 %", ": together the parts cost less than apart, an interaction that no term has."),
    ],
)
def test_the_rest_is_told_by_the_half_of_its_interval(low, high, half_width, told):
    """Of 100 rounds, 80 of which count; three halves of the width take nine quarters of the rounds."""
    share, ms = (Estimate(80, (low + high) / 2 * of, low * of, high * of, 0.1) for of in (1, 500))
    whole = Part("whole", 1, Estimate(80, 500.0, 490.0, 510.0, 0.1), Estimate(80, 500.0, 490.0, 510.0, 0.1), share)
    text = of_rest(Fit([], ms, whole, Part("rest", 1, ms, ms, share), whole, ("x", 0.0), (80, 100)))
    assert text.endswith(f"half-width {half_width}{told}")
    assert f"takes 500 ms, its parts add up to {number(500 - ms.value)} ms" in text


def test_without_one_of_the_cells_there_is_no_attribution():
    cells = made(rounds=3)
    del cells._found["pct-net-serial"]
    assert fitted(cells) is None and sections(cells) == []
