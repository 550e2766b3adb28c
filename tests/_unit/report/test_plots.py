"""What charts draw where."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tools.report import plots, timelines
from _tools.report.sample import Sample
from _tools.report.stats import Estimate


def estimate(value, down, up):
    return Estimate(20, value, value - down, value + up, 0.1)


def data(spec):
    """The rows of each layer of a chart that has data of its own, those of the whole chart first."""
    named = spec.get("datasets", {})
    found = [part["data"] for part in (spec, *spec["layer"]) if "data" in part]
    return [named[of["name"]] if "name" in of else of["values"] for of in found]


def encoding(spec, channel, field):
    """The first encoding of a field by a channel."""
    found = (layer["encoding"].get(channel, {}) for layer in spec["layer"])
    return next(of for of in found if of.get("field") == field)


numbers = st.integers(-(10**6), 10**6).map(lambda n: n / 1000)


@given(st.lists(numbers, min_size=1))
def test_an_axis_holds_all_its_values_and_is_logarithmic_just_from_a_decade_on(values):
    axis = plots.quantity([*values, math.nan, math.inf], "ms")
    scale = axis["scale"].to_dict()
    low, high = scale["domain"]
    decade = min(values) > 0 and max(values) >= 10 * min(values)
    assert low <= min(values) and max(values) <= high and low < high
    assert (scale.get("type") == "log") == decade == axis["title"].endswith(" (log scale)")
    assert low > 0 if decade else low <= 0 <= high
    assert decade or (low == 0) == (min(values) >= 0)


def test_texts_behind_the_values_get_room():
    assert "range" not in plots.quantity([1.0, 2.0], "ms")["scale"].to_dict()
    wide = plots.quantity([1.0, 2.0], "ms", ["a", "four", "bb"])["scale"].to_dict()
    assert wide["range"] == [0, {"expr": f"width - {8 * 4 + 12}"}]


@pytest.mark.parametrize(
    "low, high, ticks",
    [
        (0.9, 80, [1, 2, 5, 10, 20, 50]),
        (1.9, 150, [2, 5, 10, 20, 50, 100]),
        (0.9, 2500, [1, 3, 10, 30, 100, 300, 1000]),
        (0.9, 5000, [1, 10, 100, 1000]),
        (0.04, 0.6, [0.05, 0.1, 0.2, 0.5]),
    ],
)
def test_the_fewer_decades_the_more_ticks_stand_between_them(low, high, ticks):
    assert plots.log_ticks(low, high) == pytest.approx(ticks)


def bars(spec):
    [rows] = data(spec)
    return [tuple(row[key] for key in ("kind", "start", "end", "low", "high", "edge")) for row in rows]


def test_each_part_begins_where_the_one_before_ended_with_its_interval_about_its_end():
    shown = [("one", 80, 0.8), ("two", 40, 0.4), ("unexplained", -20, -0.2)]
    shown = [plots.Part(name, estimate(value, 6, 2), part) for name, value, part in shown]
    spec = plots.parts(shown, plots.Part("whole", estimate(100, 10, 30), 1.0))
    assert bars(spec) == [
        ("part", 0, 80, 74, 82, 82),
        ("part", 80, 120, 114, 122, 122),
        ("below zero", 120, 100, 94, 102, 120),
        ("whole", 0, 100, 90, 130, 130),
    ]
    [rows] = data(spec)
    texts = [("80.0 ms, 80.0 %", "80.0"), ("40.0 ms, 40.0 %", "40.0"), ("−20.0 ms, −20.0 %", "−20.0")]
    assert [(row["label"], row["text"]) for row in rows] == [*texts, ("100 ms, 100.0 %", "100")]
    low, high = encoding(spec, "x", "start")["scale"]["domain"]
    assert low <= 0 and high >= 130


def test_a_step_runs_from_what_it_is_held_against_and_says_whether_it_is_faster():
    then = [("half", 100, estimate(50, 5, 5)), ("slower", 50, estimate(70, 7, 7))]
    spec = plots.steps(("first", estimate(100, 10, 10)), then, "s")
    assert bars(spec) == [
        ("begins with", 0, 100, 90, 110, 110),
        ("faster", 100, 50, 45, 55, 100),
        ("slower", 50, 70, 63, 77, 77),
    ]


def test_a_point_of_a_frontier_stands_at_its_error_and_an_exact_one_at_the_edge():
    points = [
        plots.Point("near", 0.05, estimate(30, 3, 3), True),
        plots.Point("off", 0.06, estimate(500, 5, 5), False),
        plots.Point("exact", 0.0, estimate(900, 9, 9), True),
    ]
    spec = plots.frontier(points, "ms", 0.01)
    every = [row for rows in data(spec) for row in rows]
    places = {row["label"]: (row["at"], row["series"], row["error"]) for row in every if "error" in row}
    assert places == {
        "near": (0.05, plots.ON_FRONT, "5 %"),
        "off": (0.06, plots.OFF_FRONT, "6 %"),
        "exact": (pytest.approx(1e-3), plots.ON_FRONT, "0"),
    }
    line = next(rows for rows in data(spec) if {row.get("label") for row in rows} == {"exact", "near"})
    assert [row["label"] for row in line] == ["exact", "near"]
    assert {"at": 0.01, "text": "max_error 1 %"} in every
    axis = encoding(spec, "x", "at")
    assert axis["axis"]["values"] == pytest.approx([0.001, 0.01, 0.1])
    assert axis["scale"]["domain"] == pytest.approx([0.001 / 1.5, 0.06 * 3])


@pytest.mark.parametrize("marked, greatest", [(None, 0.8), (1.0, 1.0), (0.5, 0.8)])
def test_the_axis_of_configurations_holds_the_value_that_is_marked(marked, greatest):
    spec = plots.cells({"a": {"": estimate(0.6, 0.1, 0.2)}}, "times as many", marked)
    low, high = encoding(spec, "x", "value")["scale"]["domain"]
    assert low == 0 and greatest <= high <= 1.05 * greatest
    assert [rows for rows in data(spec) if "at" in rows[0]] == ([] if marked is None else [[{"at": marked}]])


def test_lines_run_in_order_of_what_they_run_over():
    curve = [(100, estimate(30, 1, 2)), (1, estimate(2, 1, 1)), (10, estimate(5, 1, 1))]
    [rows] = data(plots.lines({"x": curve}, "share, %", "ms"))
    assert [(row["at"], row["low"], row["value"], row["high"]) for row in rows] == [
        (1, 1, 2, 3),
        (10, 4, 5, 6),
        (100, 29, 30, 32),
    ]


def test_the_greatest_of_a_grid_is_the_darkest():
    spec = plots.heat({(1, 0): estimate(3, 1, 1), (2, 1): estimate(7, 1, 1), (1, 1): estimate(5, 1, 1)}, "x", "y")
    [rows] = data(spec)
    assert {(row["row"], row["column"]): row["value"] for row in rows} == {(1, 0): 3, (2, 1): 7, (1, 1): 5}
    assert encoding(spec, "opacity", "value")["scale"] == {"domain": [0, 7], "range": [0, 0.5]}


def test_a_bucket_of_a_rate_is_as_wide_as_its_time_and_marked_for_what_went_on():
    made = [
        {"load": 1, "start": 0, "end": 4, "rate": 80.0, "kind": timelines.OTHER, "merging": False, "errors": 0},
        {"load": 1, "start": 4, "end": 5, "rate": 1200.4, "kind": timelines.STEADY, "merging": True, "errors": 2},
    ]
    spec = timelines.rates(made, 0, "documents/s")
    steps, merging, rejected = data(spec)
    assert [(row["start"], row["end"], row["rate"], row["text"], row["where"]) for row in steps] == [
        (0, 4, 80.0, "80", "0 to 4.00 s"),
        (4, 5, 1200.4, "1,200", "4.00 to 5.00 s"),
    ]
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] >= 5
    for marks, kind in ((merging, timelines.MERGE), (rejected, timelines.REJECTED)):
        assert [(row["start"], row["end"], row["kind"]) for row in marks] == [(4, 5, kind)]
    spec = timelines.rates(made, 900.0, "documents/s")
    assert data(spec)[-1] == [{"goal": 900.0, "text": "target 900"}]
    goals = [layer["mark"]["type"] for layer in spec["layer"] if layer["encoding"]["y"].get("field") == "goal"]
    assert goals == ["rule", "text"]


def test_samples_over_time_begin_at_the_first_and_say_what_they_are_of():
    later = [Sample("x", 5000, "b", 1.0, {"pass": 2, "round": 3, "ms": 7})]
    first = [Sample("x", at, "a", 1.0, {"round": r, "ms": r}) for r, at in ((2, 4500), (1, 3000))]
    [rows] = data(timelines.over_time({"b": later, "a": first}, "ms", "time, ms").spec)
    assert [(row["series"], row["run"], row["at"], row["value"], row["where"]) for row in rows] == [
        ("b", 2, 2.0, 7, "pass 2, round 3"),
        ("a", 0, 1.5, 2, "round 2"),
        ("a", 0, 0.0, 1, "round 1"),
    ]


def test_each_strip_is_as_high_as_its_greatest_value_and_one_of_zeros_is_flat():
    values = [("CPU", 1.0), ("CPU", 4.0), ("errors", 0.0), ("errors", 0.0)]
    made = [{"strip": s, "series": "x", "run": 1, "at": float(i), "value": v} for i, (s, v) in enumerate(values)]
    spec = timelines.strips(made, "s")
    shown, titles = sorted(data(spec)[:2], key=len, reverse=True)
    floor = {row["title"].partition(",")[0]: row["y"] for row in titles}
    assert [row["title"] for row in titles] == ["CPU, up to 4.00", "errors, up to 0"]
    high = [row["y"] - floor[row["strip"]] for row in shown]
    assert high[0] == pytest.approx(high[1] / 4) and 0 < high[1] < floor["CPU"] - floor["errors"]
    assert high[2:] == [0, 0]
    bottom, top = encoding(spec, "y", "y")["scale"]["domain"]
    assert bottom <= min(floor.values()) and top >= max(row["y"] for row in shown)


def test_an_axis_of_time_has_a_width_even_for_a_single_sample():
    sample = Sample("x", 5000, "a", 1.0, {"ms": 7})
    low, high = encoding(timelines.over_time({"a": [sample]}, "ms", "ms").spec, "x", "at")["scale"]["domain"]
    assert low <= 0 < high


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_an_axis_has_room_for_all_values_and_is_logarithmic_from_a_decade_on(values):
    axis = plots.quantity(values, "ms")
    scale = axis["scale"].to_dict()
    low, high = scale["domain"]
    assert (scale.get("type") == "log") == ("log scale" in axis["title"]) == (max(values) >= 10 * min(values))
    assert low <= min(values) and max(values) < high
    assert high <= 1.05 * max(values) or scale.get("type") == "log" and high / max(values) < (high / low) ** 0.04
