"""Samples are sorted into cells and rounds."""

import random

from races import COSTS, made

from _tools.report.cells import common_cells, matrix, values
from _tools.report.decomp import PLAN


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
