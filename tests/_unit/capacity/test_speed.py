"""One speed of the machine, told by the load driver's CPU time for a document."""

import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import made

from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.plan import Goal, plan
from cluster_metrics.capacity._report.speed import at, speed_of

TABLE = {"a": ["0p"]}
OF_PASS = {1: 0.7, 2: 1.0, 3: 1.4}
SLOW = {f"{s}s-{r}r": 0.5 for s in (1, 2, 3) for r in (0, 1, 2)}


def cell(rates, driver_s):
    passes = [model.Counted(rate, TABLE, {}, of) for rate, of in zip(rates, driver_s, strict=True)]
    return model.Measured(TABLE, 1, 0, passes)


def test_cells_of_a_machine_of_changing_speed_are_put_to_that_of_the_median_pass():
    cells = [cell([70, 100, 140], [1 / 70, 1 / 100, 1 / 140]), cell([35, 50, 80], [1 / 70, 1 / 100, 1 / 160])]
    speed = speed_of(cells)
    assert speed.driver_s == pytest.approx(1 / 100) and speed.left == pytest.approx(0, abs=1e-9)
    logs = np.log([[0.7, 1, 1.4], [0.7, 1, 1.6]])
    assert speed.raced == pytest.approx(np.sqrt(logs.var(axis=1, ddof=1).mean()))
    for one, rate in zip(cells, (100, 50)):
        assert at(one, speed).rates == pytest.approx([rate] * 3)


@pytest.mark.parametrize(
    "driver_s",
    [
        [np.nan, 1 / 100, 1 / 140],  # not told of one pass
        [0.0, 1 / 100, 1 / 140],
        [1 / 100, 1 / 100, 1 / 100],  # tells no other speed
        [1 / 140, 1 / 100, 1 / 70],  # nor the speed of this machine
    ],
)
@pytest.mark.filterwarnings("error")
def test_rates_stay_as_raced_where_the_load_driver_tells_nothing_of_their_differences(driver_s):
    raced = cell([70, 100, 140], driver_s)
    assert speed_of([raced]) is None and at(raced, None) is raced


@pytest.mark.parametrize("part, counts", [(0.25, False), (0.35, True)])
def test_a_speed_that_leaves_more_than_half_of_the_variance_does_not_count(part, counts):
    rates = np.exp([-0.1, 0, 0.1])  # what is left of their logarithms is 1 - part of it, so of the variance its square
    assert (speed_of([cell(list(rates), list(rates**-part))]) is not None) is counts


def test_no_race_and_single_passes_tell_no_speed():
    assert speed_of([]) is None and speed_of([cell([100], [0.01])]) is None


def test_a_cell_whose_load_driver_was_not_told_stays_as_raced():
    speed = speed_of([cell([70, 100, 140], [1 / 70, 1 / 100, 1 / 140])])
    other = cell([50, 60], [np.nan, 0.01])
    assert speed and at(other, speed) is other


def raced(on, **changes):
    return made(f"i-{on}", "capacity-indexing", passes=3, on=on, of_pass=OF_PASS, spread=0.0, **changes)


def test_a_plan_says_at_what_speed_its_documents_are_and_holds_for_a_slower_race_of_more_nodes():
    races = [raced(1, driver_s=1e-4), raced(2, driver_s=1e-4), raced(3, driver_s=1e-4, shape=SLOW)]
    text = plan(races, Goal(docs=30, searches=0, replicas=0))
    assert "- Documents a second are put to one speed of the machine, at which one takes 0.1" in text
    held = text.split("## More nodes than it was fitted to\n")[1]
    assert "at one speed" in held and "ms of the load driver's CPU: passes of a cell then differ by 0.0 %" in held
    errors = [float(of) for of in re.findall(r"Error, documents: .+ % in the median, (.+) % at most", held)]
    assert errors[0] < 5
    assert float(re.search(r"against what was seen as raced: (.+) % in the median", held)[1]) == pytest.approx(100, 0.1)


@pytest.mark.parametrize("driver_s, local", [(None, True), (1e-4, False), (1e-4, None)])
def test_a_plan_without_the_speed_of_the_targets_machine_takes_documents_as_raced(driver_s, local):
    told = {"driver_s": driver_s} if driver_s else {}
    races = [replace(raced(on, **told), local=local) for on in (1, 2, 3)]
    text = plan(races, Goal(docs=30, searches=0, replicas=0))
    assert "one speed" not in text and "as raced" not in text


def test_a_race_of_more_nodes_on_another_machine_is_held_against_as_raced():
    races = [
        raced(1, driver_s=1e-4),
        raced(2, driver_s=1e-4),
        replace(raced(3, driver_s=1e-4, shape=SLOW), local=False),
    ]
    text = plan(races, Goal(docs=30, searches=0, replicas=0)).split("## More nodes than it was fitted to\n")[1]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| documents")]
    assert len(rows) == 9 and all(row[4].strip() == row[5].strip() for row in rows)
