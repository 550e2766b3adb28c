"""What speaks against the ratios of a comparison: of any of its races, and nothing more."""

from dataclasses import replace

import pytest
from races import COSTS, MACHINE, TARGET, made

from _tools.report import noise, sides
from _tools.report.cautions import warnings_of

INDEX = {"docs": 5000, "segments": 1, "store_bytes": 10**6}


def told(named, kind, floor=None):
    """What is seen, and its value, of the warnings of a kind."""
    found = warnings_of(sides.comparison(named, floor))
    return [(warning.seen, warning.value) for warning in found if warning.kind == kind]


def alone(*races):
    return {str(n): [race] for n, race in enumerate(races)}


def several(name, count=3, factor=1.0, rounds=5):
    return [made(f"{name}-{n}", factor, seed=n, rounds=rounds) for n in range(count)]


@pytest.mark.parametrize(
    "changes, kind, fact",
    [
        ({"index": INDEX | {"segments": 7}}, "layout", "segments"),
        ({"index": INDEX | {"docs": 4000}}, "layout", "documents"),
        ({"target": [TARGET | {"version": "9.0.0"}]}, "versions", "Elasticsearch"),
        ({"target": [TARGET | {"jvm": "OpenJDK 22"}]}, "versions", "JVM"),
        ({"document": {"rally-version": "2.12.0"}}, "versions", "Rally"),
        ({"document": {"track": "another"}}, "versions", "track"),
        ({"document": {"track-revision": "abc"}}, "versions", "track revision"),
        ({"target": [TARGET, TARGET]}, "machine", "nodes"),
        ({"target": [TARGET | {"cores": 8}]}, "machine", "cores"),
        ({"target": [TARGET | {"cpu_cores": "0.5", "cpu_held_by": "cgroup v2"}]}, "machine", "cores"),
        ({"target": [TARGET | {"heap_mb": 512}]}, "machine", "heap MB"),
        ({"target": [TARGET | {"jvm_flags": "-Xint"}]}, "machine", "JVM flags"),
        ({"machine": MACHINE | {"cpu": "D"}}, "machine", "CPU"),
        ({"machine": MACHINE | {"cores": 9}}, "machine", "cores of the machine"),
        ({"machine": MACHINE | {"memory_mb": 9}}, "machine", "memory MB"),
        ({"machine": MACHINE | {"disk": "xfs"}}, "machine", "disk"),
        ({"machine": MACHINE | {"kernel": "M"}}, "machine", "kernel"),
        ({"machine": MACHINE | {"virtualisation": "kvm"}}, "machine", "virtualisation"),
        ({"machine": MACHINE | {"governor": "powersave"}}, "machine", "governor"),
        ({"parameters": {"nodes": 31, "rounds": 20}}, "parameters", "parameters nodes"),
    ],
)
def test_what_only_the_last_race_differs_in_is_named(changes, kind, fact):
    races = alone(made("a"), made("b", seed=1), made("c", seed=2, **changes))
    assert told(races, kind) == [(f"the races differ in {fact}", 1)]


def test_a_load_driver_elsewhere_is_named():
    here, there = replace(made("a"), local=True), replace(made("b"), local=False)
    assert told(alone(here, there), "machine") == [("the races differ in load driver", 1)]
    assert sides.facts(here)["load driver"] == "on the target's machine"
    assert sides.facts(there)["load driver"] == "elsewhere" and "load driver" not in sides.facts(made("c"))


@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_cell_that_any_one_race_alone_has_is_named(more):
    costs = [COSTS | ({"B-serial": 9.0, "Z": 1.0} if n == more else {}) for n in range(3)]
    races = alone(*(made(str(n), seed=n, costs=of) for n, of in enumerate(costs)))
    assert told(races, "cells") == [("only some races have the cells B-serial, Z, which are left out", 2)]


def test_failures_are_told_of_each_race_and_added_up():
    races = alone(made("a", failed={"A-serial": 3, "bulk": 2}), made("b", failed={"A-serial": 1}), made("c"))
    seen = "race {} has failed samples, which are left out: {}"
    assert told(races, "failed") == [(seen.format("a", "A-serial 3, bulk 2"), 5), (seen.format("b", "A-serial 1"), 1)]


def test_a_race_has_as_many_rounds_as_its_cell_that_has_fewest():
    few = made("few", seed=1)
    few.samples[:] = [s for s in few.samples if s.cell != "A-serial" or s.meta["round"] > 1]
    assert told(alone(made("a"), few), "too-few") == [("race few has 19 rounds, a verdict takes 20", 19)]


def test_only_of_single_races_that_are_compared_with_one_another_the_rounds_count():
    named = {"a": [made("a")], "b": [made("b", rounds=5, seed=1)], "c": several("c")}
    assert told(named, "too-few") == [("race b has 5 rounds, a verdict takes 20", 5)]
    assert told({"a": [made("a", rounds=5)], "c": several("c")}, "too-few") == []


def test_races_are_counted_on_two_sides_together():
    named = {"a": [made("a")], "b": several("b", 2), "c": several("c", 2), "d": several("d", 3)}
    seen = "a and {} (2 races) are 3 races together, a verdict takes 4"
    assert told(named, "too-few") == [(seen.format(name), 3) for name in "bc"]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("minute, warned", [(8, False), (9, True)])
def test_races_may_lie_twice_as_far_apart_as_those_of_the_floor(minute, warned, swapped):
    floor = noise.measure([made(f"aa-{n}", seed=20 + n) for n in range(5)])  # within four minutes
    races = [made("a", seed=0), made("b", seed=minute)]
    seen = "the races lie 0.1 h apart, those of the noise floor 0.1 h"
    found = told(alone(*(races[::-1] if swapped else races)), "far-apart", floor)
    assert found == ([(seen, pytest.approx(minute / 60))] if warned else [])
