"""How ``make noise`` repeats a race."""

import contextlib
import types

import pytest

from _tools.race import __main__ as command
from _tools.race import clusters, rally
from _tools.race.variables import VARIABLES, RaceError


@pytest.fixture
def raced(monkeypatch):
    """Replaces nodes and Rally; returns what was done. A race fails when its id is in ``fail``."""
    done = types.SimpleNamespace(ids=[], noise=[], waits=0, fail=())

    def run(line):
        done.ids.append(next(a for a in line if a.startswith("--race-id=")).removeprefix("--race-id="))
        return 64 if done.ids[-1] in done.fail else 0

    def wait():
        done.waits += 1

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "prepare", lambda: None)
    monkeypatch.setattr(clusters, "target_hosts", lambda launcher: contextlib.nullcontext(("localhost:1", "")))
    monkeypatch.setattr(clusters, "metrics_store", lambda launcher: contextlib.nullcontext("store"))
    monkeypatch.setattr(command, "Launcher", lambda *args: None)
    monkeypatch.setattr(command, "watch", lambda *args: types.SimpleNamespace(run=run))
    monkeypatch.setattr(command, "write_noise", lambda ini, ids, file, challenge="": done.noise.append(ids))
    monkeypatch.setattr(rally, "write_configuration", lambda store: None)
    monkeypatch.setattr(rally, "check_no_other_rally", wait)
    return done


def test_five_races_of_one_configuration_make_the_noise(raced):
    assert command.noise() == 0
    assert len(set(raced.ids)) == raced.waits == 5
    assert raced.noise == [raced.ids]


def test_a_race_that_fails_ends_it(raced, monkeypatch):
    monkeypatch.setenv("RACES", "3")
    monkeypatch.setenv("RACE_ID", "x")
    raced.fail = ("x-2",)
    assert command.noise() == 64
    assert raced.ids == ["x-1", "x-2"] and raced.noise == []


def test_races_of_before_are_not_raced_again(raced, monkeypatch):
    monkeypatch.setenv("RACES", "a b last")
    assert command.noise() == 0
    assert raced.ids == [] and raced.noise == [["a", "b", "last"]]


def test_two_races_are_too_few(raced, monkeypatch):
    monkeypatch.setenv("RACES", "2")
    with pytest.raises(RaceError, match=r"RACES is \[2\], noise between races takes 3 or more"):
        command.noise()
    assert raced.ids == []


def test_changes_are_ranked_like_the_race_that_is_kept(raced, monkeypatch):
    ranked = []
    monkeypatch.setenv("RACE", "kept")
    for name, does in {
        "keep": lambda reports, race_id, noise_file: [],
        "with_store": lambda write: write("rally.ini"),
        "write_changes": lambda ini, race_id, reports: ranked.append(race_id),
        "keep_changes": lambda reports: [],
        "write_pages": list,
    }.items():
        monkeypatch.setattr(command, name, does)
    assert command.results() == 0
    assert ranked == ["kept"]
