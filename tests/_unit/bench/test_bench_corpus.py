"""The benchmark of the corpus tells speeds by CPU time, and by how much the first way is the fastest."""

import inspect
from types import SimpleNamespace

import pytest

from _tools.bench import corpus


def test_a_way_that_takes_twice_the_time_a_row_is_said_to_be_beaten_by_two(monkeypatch):
    now = [0.0]

    def way(seconds):
        return lambda: now.__setitem__(0, now[0] + seconds)

    monkeypatch.setattr(corpus, "time", SimpleNamespace(process_time=lambda: now[0]))
    table = corpus.compared({"first": (way(1.0), 10**6), "other": (way(0.5), 250_000)}, "first")
    found = {row["way"]: (row["n"], row["speed"].value, row["ratio"].value) for row in table.rows}
    assert found["first"] == pytest.approx((corpus.ROUNDS, 1.0, 1.0))
    assert found["other"] == pytest.approx((corpus.ROUNDS, 0.5, 2.0))


def test_a_speed_is_by_the_rows_that_a_way_makes():
    counts = dict(corpus.WAYS.values())
    assert counts.pop(corpus.naive) == inspect.signature(corpus.naive).parameters["count"].default
    assert len(counts) == 3 and set(counts.values()) == {corpus.copying() // corpus.JSON.row_bytes(1)}
