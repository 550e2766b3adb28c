"""Samples are sorted into cells and rounds."""

import random

import pytest
from races import COSTS, made

from _tools.report.cells import common_cells, matrix, values
from _tools.report.decomp import PLAN
from _tools.report.race import KINDS
from _tools.report.write import EXPLAINED_BY


def test_samples_stand_in_order_of_round_whatever_their_order_in_the_store():
    race = made("x", rounds=20)
    expected = PLAN.cells(race)
    random.Random(1).shuffle(race.samples)
    for cell in COSTS:
        found = PLAN.cells(race)[cell]
        assert list(found) == list(range(1, 21))
        assert list(values(found, "wall_ms")) == list(values(expected[cell], "wall_ms"))


def test_a_matrix_holds_the_rounds_that_all_cells_have():
    race = made("x", rounds=5)
    race.samples.remove(next(s for s in race.samples if s.cell == "A-serial" and s.meta["round"] == 2))
    cells = PLAN.cells(race)
    rows = matrix(cells, ["A-serial", "D_td-serial"], "wall_ms")
    assert list(rows[0]) == list(values(cells["A-serial"], "wall_ms"))
    assert list(rows[1]) == [cells["D_td-serial"][r].meta["wall_ms"] for r in (1, 3, 4, 5)]


def test_cells_that_a_race_lacks_are_not_common():
    assert common_cells([made("a"), made("b", costs={"A-serial": 1.0, "Z": 1.0})], PLAN) == ["A-serial"]


@pytest.mark.parametrize("challenge", EXPLAINED_BY)
def test_every_challenge_says_what_of_it_is_compared(challenge):
    plan = EXPLAINED_BY[challenge].PLAN
    assert plan.kind in KINDS
    assert plan.judged == next(iter(plan.figures)) and plan.base
