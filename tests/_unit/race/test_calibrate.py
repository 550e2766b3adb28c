"""How short races find the clients of each cell: what they are raced with, when they end, and what comes of it."""

import json

import capacities
import pytest

from _tools.race import calibrate
from _tools.race.variables import RaceError
from _tools.report.race import IncompleteError, Race

SHORT = {
    "keep_words": True,
    "cell_clients": {},
    "passes": 1,
    "first_passes": 1,
    "first_pass_seconds": 5,
    "cell_warmup_seconds": 0,
    "cell_seconds": 5,
}
"""Parameters of a short race, those that were given aside."""


@pytest.fixture
def calibrated(monkeypatch, tmp_path):
    """Finds the clients of capacity-query's cells, on a target that is as busy as is said of each race in turn; returns
    the parameters of these races by id, and those of the race that follows."""

    def run(params="", busy=(), challenge="capacity-query", code=0):
        raced = {}

        def race(of, race_id):
            raced[race_id] = json.loads(of)
            return code

        def loaded(store, race_id):
            of, number = raced[race_id], len(raced) - 1
            return capacities.made(race_id, challenge, of["passes"], busy=busy[number], parameters=of)

        monkeypatch.setattr(calibrate, "connect", lambda ini: None)
        monkeypatch.setattr(calibrate, "load", loaded)
        return raced, json.loads(calibrate.calibrated(challenge, params, "x", race, tmp_path))

    return run


def test_a_target_that_is_busy_keeps_its_clients_after_one_short_race(calibrated):
    raced, left = calibrated("seed:7", busy=[0.97])
    assert list(raced) == ["x-clients-1"]
    assert raced["x-clients-1"] == SHORT | {"seed": 7}
    assert left == {"seed": 7, "keep_words": True, "cell_clients": {}}


def test_clients_of_idle_cells_grow_until_a_node_is_at_its_limit(calibrated):
    raced, left = calibrated('{"cell_clients": {"1s-0r": 2}, "capacity_clients": 10}', busy=[0.5, 0.85, 0.97])
    assert [of["cell_clients"]["1s-0r"] for of in raced.values()] == [2, 4, 6]  # 2 x 0.95 / 0.5; then by half
    assert [of["cell_clients"].get("2s-1r") for of in raced.values()] == [None, 19, 29]
    assert left["cell_clients"] == raced["x-clients-3"]["cell_clients"]
    assert left["capacity_clients"] == 10


def test_it_ends_after_three_races_and_takes_what_the_last_one_advises(calibrated):
    raced, left = calibrated(busy=[0.8] * 3)
    assert len(raced) == 3
    assert left["cell_clients"]["1s-0r"] == 54  # 16, 24, 36


def test_there_are_no_more_clients_than_a_cell_may_have(calibrated):
    raced, left = calibrated("capacity_clients:200", busy=[0.1] * 3)
    assert len(raced) == 2 and left["cell_clients"]["1s-0r"] == 256


def test_of_nodes_that_are_held_to_no_share_it_is_said_that_nothing_can_be_told(calibrated, monkeypatch, capsys):
    monkeypatch.setattr(Race, "shares", lambda race: {})
    raced, left = calibrated(busy=[0.1])
    assert len(raced) == 1 and left["cell_clients"] == {}
    assert "held to no share of the CPU, so it cannot be told" in capsys.readouterr().out


def test_indexing_has_no_words_to_keep(calibrated):
    raced, left = calibrated(busy=[0.97], challenge="capacity-indexing")
    assert "keep_words" not in raced["x-clients-1"] and "keep_words" not in left


def test_a_short_race_that_fails_ends_it(calibrated):
    with pytest.raises(IncompleteError, match="race x-clients-1 is INCOMPLETE .Rally ended with 64"):
        calibrated(code=64)


def test_challenges_without_such_clients_and_ids_without_room_are_refused():
    calibrate.check("capacity-mixed", "x" * 118)
    for challenge in ("query-decomp", "capacity-curve"):
        with pytest.raises(
            RaceError, match=f"CALIBRATE is .1., but {challenge} has no .*; capacity-query and capacity-"
        ):
            calibrate.check(challenge, "")
    with pytest.raises(RaceError, match="RACE_ID is"):
        calibrate.check("capacity-query", "x" * 119)


def test_a_short_race_is_short_whatever_the_race_after_it_takes(calibrated):
    raced, left = calibrated("passes:9,cell_seconds:60,cell_warmup_seconds:30", busy=[0.97])
    assert raced["x-clients-1"] == SHORT
    assert (left["passes"], left["cell_seconds"], left["cell_warmup_seconds"]) == (9, 60, 30)
