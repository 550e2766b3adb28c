"""How fast a pass was over others, which is taken out of what models are fitted to."""

from dataclasses import replace

import numpy as np
import pytest
from capacities import falling, made
from hypothesis import given
from hypothesis import strategies as st

from _tools.report.race import Sample
from cluster_metrics.capacity._report.cells import Cell, cells_of, levels
from cluster_metrics.capacity._report.fitted import cells_of as cells_of_races
from cluster_metrics.capacity._report.passes import Pass

FACTORS = st.floats(0.25, 4)


def cell(name, rates):
    """A cell with these rates by pass."""
    first = Sample("capacity-index", 0, "index", 5.0, {"success-count": 1})
    last = {n: replace(first, at=1000, meta={"success-count": rate}) for n, rate in rates.items()}
    return Cell(name, 1, 0, 0, 0.0, {n: Pass([], first, [first, of]) for n, of in last.items()})


@given(st.lists(FACTORS, min_size=2, max_size=5), st.lists(FACTORS, min_size=2, max_size=6), st.data())
def test_cells_keep_their_proportion_whichever_passes_they_counted_in(cells, passes, data):
    """The first cell has all passes, so all have one in common with it."""
    numbers = range(1, len(passes) + 1)
    seen = [set(numbers), *(data.draw(st.sets(st.sampled_from(numbers), min_size=1)) for _ in cells[1:])]
    made_of = [
        cell(str(i), {n: 1e6 * of * passes[n - 1] for n in counted}) for i, (of, counted) in enumerate(zip(cells, seen))
    ]
    mean = np.exp(np.mean(np.log(passes)))
    assert levels(made_of) == pytest.approx({n: of / mean for n, of in zip(numbers, passes)})


def test_of_passes_without_a_cell_in_common_with_others_nothing_is_told():
    cells = [cell("a", {1: 100.0, 2: 200.0}), cell("b", {3: 900.0})]
    assert levels(cells) == pytest.approx({1: 0.5**0.5, 2: 2**0.5, 3: 1})
    assert levels([]) == {}


@pytest.mark.parametrize("changes", [{"times": {"1s-0r": falling}}, {"busy": 0.5}])
def test_cells_that_do_not_count_tell_nothing_of_how_fast_a_pass_was(changes):
    whole = made("q", "capacity-query", 6, spread=0.0)
    other = made("q", "capacity-query", 6, spread=0.0, of_pass={3: 0.5}, **changes)

    def third(sample):
        return (sample.meta["cell"], sample.meta["pass"]) == ("1s-0r", 3)

    race = replace(whole, samples=[of for of in whole.samples if not third(of)] + list(filter(third, other.samples)))
    assert cells_of(race, "capacity-query")["1s-0r"].passes[3].level == pytest.approx(1, rel=0.01)


def test_costs_are_those_of_the_mean_pass_though_slow_passes_have_fewer_cells():
    of_pass = {1: 0.4, 2: 0.6, 3: 1.3, 4: 1.5, 5: 1.4, 6: 1 / (0.4 * 0.6 * 1.3 * 1.5 * 1.4)}
    even, uneven = (made("i", "capacity-indexing", 6, spread=0.0, nodes=(1, 2, 0), of_pass=of) for of in ({}, of_pass))
    fewer = [s for s in uneven.samples if s.meta["pass"] > 2 or s.meta["cell"] in ("1s-0r", "2s-1r", "1s-0r-1n")]
    known, found = (cells_of_races([race]).readings()[0].indexing for race in (even, replace(uneven, samples=fewer)))
    for of in ("primary_s", "replica_s", "request_s"):
        assert getattr(found, of) == pytest.approx(getattr(known, of), rel=0.02)
    throughput = cells_of(uneven, "capacity-index")["1s-0r"].rates()
    assert max(throughput) / min(throughput) > 3  # which is what was seen
