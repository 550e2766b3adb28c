"""What the monitor's looks at nodes and load driver add up to, by hand."""

import json

import pytest

from _tools.report.looks import Looks
from _tools.report.sample import Sample

FIRST = {
    "a": {"at": 10_000, "cpu_ms": 500, "queue": 2, "rejected": 1},
    "b": {"at": 500, "cpu_ms": 100, "queue": 0, "rejected": 0},
}
BETWEEN = {
    "a": {"at": 11_000, "cpu_ms": 2400, "queue": 3, "rejected": 9},
    "b": {"at": 600, "cpu_ms": 100, "queue": 7, "rejected": 0},
}
LAST = {
    "a": {"at": 14_000, "cpu_ms": 2500, "queue": 1, "rejected": 4},
    "b": {"at": 2500, "cpu_ms": 1600, "queue": 0, "rejected": 2},
    "late": {"at": 2500, "cpu_ms": 9999, "queue": 0, "rejected": 5},
}


def look(at, nodes, **meta):
    return Sample("monitor", at, "monitor", 1.0, {"nodes": json.dumps(nodes)} | meta)


def of_client(used, busy, idle, **processes):
    told = {"client_cpu_ms": used, "host_busy_ms": busy, "host_idle_ms": idle}
    return told | {"processes": json.dumps(processes)}


LOOKS = Looks(
    [
        look(1000, FIRST, **of_client(100, 1000, 500, p6=9, p7=10, p8=20)),
        look(2000, BETWEEN, **of_client(500, 1100, 510, p7=11, p8=21)),
        look(5000, LAST, **of_client(900, 4000, 1500, p7=410, p8=3020, p9=5)),
    ]
)


def test_a_counter_grows_from_the_first_look_to_the_last_by_the_clock_of_its_node():
    assert LOOKS.cores() == {"a": 0.5, "b": 0.75}
    assert LOOKS.growth("rejected") == {"a": 3 / 4000, "b": 2 / 2000}


def test_what_a_node_does_not_tell_does_not_grow():
    without = {"a": {key: value for key, value in LAST["a"].items() if key != "cpu_ms"}, "b": LAST["b"]}
    assert Looks([look(0, FIRST), look(9, without)]).cores() == {"b": 0.75}
    assert Looks([look(0, without), look(9, LAST)]).cores() == {}  # the clock of b stands still
    assert LOOKS.growth("disk_busy_ms") == {}


def test_the_client_uses_cores_of_its_own_clock_and_a_part_of_the_time_of_its_machine_is_busy():
    assert LOOKS.client() == (pytest.approx(800 / 4000), pytest.approx(3000 / 4000))
    assert LOOKS.processes() == {"p7": pytest.approx(0.1), "p8": pytest.approx(0.75)}


def test_requests_turned_away_are_summed_over_nodes_and_the_longest_queue_of_all_looks_counts():
    assert (LOOKS.rejected(), LOOKS.queue()) == (3 + 2, 7)


def test_a_node_that_was_started_anew_has_counted_from_0_since():
    anew = Looks([look(1000, FIRST), look(5000, LAST | {"a": LAST["a"] | {"rejected": 0, "cpu_ms": 100}})])
    assert anew.rejected() == 2 and anew.cores() == {"a": 100 / 4000, "b": 0.75}


@pytest.mark.parametrize("looks, queue", [([], 0), ([look(1000, FIRST, **of_client(1, 1, 1, p7=1))], 2)])
def test_fewer_than_two_looks_tell_no_use(looks, queue):
    found = Looks(looks)
    assert (found.cores(), found.client(), found.processes()) == ({}, None, {})
    assert (found.rejected(), found.queue()) == (0, queue)


def test_a_load_driver_that_was_not_looked_at_tells_nothing_of_itself():
    found = Looks([look(0, FIRST), look(4000, LAST)])
    assert (found.client(), found.processes()) == (None, {}) and found.cores() == LOOKS.cores()
