"""Samples are sorted into configurations and rounds, and held against each other within the rounds they share."""

import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from races import COSTS, made

from _tools.report.cells import Cells, cells_of, common_cells, compared_in
from _tools.report.explained import report_of
from _tools.report.race import Race, Sample
from _tools.report.stats import LEAST
from cluster_metrics.core.challenge import challenges

times = st.floats(0.1, 1e4)
tables = st.dictionaries(
    st.sampled_from("ABCD"), st.dictionaries(st.integers(1, 12), times, min_size=1), min_size=2, max_size=4
)


def samples_of(table, seed=0, **more):
    """A sample per configuration and round, in any order."""
    found = [
        Sample("kind", 0, name, ms, {"round": number, "ms": ms} | more)
        for name, rounds in table.items()
        for number, ms in rounds.items()
    ]
    random.Random(seed).shuffle(found)
    return found


@given(tables, st.integers(0, 99))
def test_samples_stand_in_order_of_round_whatever_their_order_in_the_store(table, seed):
    cells = Cells(samples_of(table, seed))
    assert sorted(cells.names) == sorted(table)
    for name, rounds in table.items():
        assert [(number, s.meta["ms"]) for number, s in cells.samples(name).items()] == sorted(rounds.items())


def test_configurations_stand_in_the_order_of_their_first_samples():
    samples = [Sample("kind", 0, name, 1.0, {"round": 1}) for name in ("b", "a", "b", "c")]
    assert Cells(samples).names == ["b", "a", "c"]


def test_of_several_samples_of_a_round_the_last_counts():
    samples = [Sample("kind", 0, "a", 1.0, {"round": 1, "ms": ms}) for ms in (1.0, 2.0)]
    assert Cells(samples).known("ms", "a").tolist() == [2.0]


@given(tables)
def test_values_are_of_the_rounds_that_all_configurations_have(table):
    cells, (one, other) = Cells(samples_of(table)), list(table)[:2]
    common = sorted(table[one].keys() & table[other].keys())
    assert cells.rounds(one, other) == common
    found = cells.values("ms", one, other)
    assert [of.tolist() for of in found] == [[table[name][number] for number in common] for name in (one, other)]
    assert np.array_equal(cells.matrix("ms", [one, other]), found)
    assert cells.values("ms", other)[0].tolist() == [ms for _, ms in sorted(table[other].items())]


@given(tables)
def test_configurations_are_there_when_some_round_has_all_of_them(table):
    cells = Cells(samples_of(table))
    for name in table:
        assert cells.has(name)
        assert not cells.has(name, "Z")
        for other in table:
            assert cells.has(name, other) == bool(table[name].keys() & table[other].keys())


@given(tables)
def test_known_values_are_those_of_the_rounds_that_have_the_figure(table):
    samples = samples_of(table)
    for sample in samples:
        if sample.meta["round"] % 2 == 0:
            del sample.meta["ms"]
    cells = Cells(samples)
    for name, rounds in table.items():
        assert cells.known("ms", name).tolist() == [ms for number, ms in sorted(rounds.items()) if number % 2]
        assert cells.known("other", name).tolist() == []


@given(tables, st.lists(st.floats(0.5, 2), min_size=12, max_size=12))
def test_a_ratio_is_formed_within_rounds(table, factors):
    one, other = list(table)[:2]
    common = table[one].keys() & table[other].keys()
    assume(common)
    found = Cells(samples_of(table)).ratio("ms", one, other)
    assert found.n == len(common)
    assert found.value == pytest.approx(np.median([table[other][r] / table[one][r] for r in common]))
    assert found.known is (len(common) >= LEAST)
    assert not found.known or found.low <= found.value <= found.high
    disturbed = {
        name: {number: ms * factors[number - 1] for number, ms in rounds.items()} for name, rounds in table.items()
    }
    again = Cells(samples_of(disturbed)).ratio("ms", one, other)
    assert [again.value, again.low, again.high] == pytest.approx([found.value, found.low, found.high], nan_ok=True)


@given(tables)
def test_a_formula_is_taken_of_each_round_by_itself(table):
    one, other = list(table)[:2]
    common = table[one].keys() & table[other].keys()
    assume(common)
    found = Cells(samples_of(table)).of(lambda a, b: a - b, "ms", one, other)
    assert found.value == pytest.approx(np.median([table[one][r] - table[other][r] for r in common]))


@given(tables)
def test_a_figure_may_be_made_of_the_metadata(table):
    cells = Cells(samples_of(table, documents=4))
    for name, rounds in table.items():
        each = cells.one(lambda meta: meta["ms"] / meta["documents"], name)
        assert each.value == np.median(list(rounds.values())) / 4
        assert each.n == len(rounds) and cells.one("ms", name).value == np.median(list(rounds.values()))


def test_unit_and_configuration_are_what_the_caller_says():
    samples = [Sample("kind", 0, "x", 1.0, {"pass": p, "share": s, "ms": s * p}) for p in (2, 1) for s in (10, 20)]
    cells = Cells(samples, "pass", lambda sample: sample.meta["share"])
    assert cells.names == [10, 20] and cells.rounds(10, 20) == [1, 2]
    assert cells.ratio("ms", 10, 20).value == 2


def test_cells_of_a_race_are_of_one_kind_of_its_samples():
    race = made("x", rounds=3)
    assert set(cells_of(race, "coverage").names) == set(COSTS)
    assert cells_of(race, "query-plan").rounds("plan") == [1, 2, 3]
    assert cells_of(race, "other").names == []


def test_what_is_compared_stands_in_order_of_name():
    race = made("x", rounds=2, costs=dict(sorted(COSTS.items(), reverse=True)))
    assert compared_in(race).names == sorted(COSTS)


def test_cells_that_a_race_lacks_are_not_common():
    assert common_cells([made("a"), made("b", costs={"A-serial": 1.0, "Z": 1.0})]) == ["A-serial"]


@pytest.mark.parametrize("record", challenges().values(), ids=lambda record: record.name)
def test_every_challenge_says_what_of_it_is_compared(record):
    race, compared = Race({"race-id": "x", "challenge": record.name}, [], {}), record.compared
    keys = {key.name: key for key in record.samples[compared.sample].keys}
    assert all(race.figure(figure) for figure in compared.figures)
    assert compared.unit in keys and not keys[compared.unit].optional
    judged = compared.figures[0]
    assert judged in {key.name for key in compared.derived} or not keys[judged].optional
    assert compared.parameter in {parameter.name for parameter in record.parameters}
    assert compared_in(race).names == [] and report_of(race).sections(race) == []


def test_a_figure_of_0_is_known():
    samples = samples_of({"a": {1: 0.0, 2: 2.0, 3: 0.0, 4: 4.0}})
    assert Cells(samples).known("ms", "a").tolist() == [0, 2, 0, 4]
    assert Cells(samples).one("ms", "a").value == 1
