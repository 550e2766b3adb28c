"""How the noise between races is measured, kept and found again."""

import json
import math
import re
from dataclasses import asdict, replace

import capacities
import numpy as np
import pytest
from fakes import rows, values
from hypothesis import given
from hypothesis import strategies as st
from races import COSTS, MACHINE, TARGET, made
from scipy import stats

from _tools.report import noise
from _tools.report.cells import compared_in
from _tools.report.race import ReportError
from _tools.report.stats import log_level

levels = st.lists(st.floats(-1, 1), min_size=3, max_size=9)


def aa(between, count=5, **changes):
    return [made(f"aa-{i}", factor=1 + between * (i - 2), seed=i, **changes) for i in range(count)]


@given(levels, st.floats(0, 0.2))
def test_noise_between_races_is_what_the_rounds_leave_over(found, error):
    errors = [3 * error, *([0.0] * (len(found) - 1))]
    spread = np.var(found, ddof=1) - 9 * error**2 / len(found)
    expected = stats.t.ppf(0.975, len(found) - 1) * math.sqrt(2 * max(0, spread))
    assert noise.half_width(found, errors) == pytest.approx(expected, abs=1e-6)


@given(levels, st.floats(-5, 5))
def test_a_speed_common_to_all_races_is_no_noise(found, shift):
    errors = [0.01] * len(found)
    assert noise.half_width([x + shift for x in found], errors) == pytest.approx(
        noise.half_width(found, errors), abs=1e-4
    )


def test_two_more_races_lie_within_the_floor_in_about_95_of_100_cases():
    rng = np.random.default_rng(6)
    within = []
    for _ in range(3000):
        floor = noise.half_width(rng.normal(0, 0.02, 5), [0.0] * 5)
        within.append(abs(rng.normal(0, 0.02) - rng.normal(0, 0.02)) <= floor)
    assert np.mean(within) == pytest.approx(0.95, abs=0.015)


def test_races_that_differ_more_have_a_higher_floor():
    quiet, loud = noise.measure(aa(0.0)), noise.measure(aa(0.05))
    assert set(quiet.cells) == set(COSTS)
    for cell in COSTS:
        assert loud.cells[cell] > 0.2 > 0.05 > quiet.cells[cell]
    assert loud.all_cells > 0.2 > 0.05 > quiet.all_cells


def test_what_the_rounds_explain_is_subtracted_from_the_geometric_mean_too():
    races = aa(0.05, spread=0.3)
    levels = [log_level(compared_in(race).matrix("wall_ms", sorted(COSTS))) for race in races]
    assert 0 < noise.measure(races).all_cells < 0.97 * noise.half_width(levels, [0.0] * len(levels))


def test_a_floor_is_kept_and_found_by_configuration(tmp_path):
    file = tmp_path / "deep" / "noise.json"
    assert noise.read(file) == []
    old, new = noise.measure(aa(0.05)), noise.measure(aa(0.01))
    other = noise.measure(aa(0.02, parameters={"nodes": 10}))
    for floor in (old, other):
        noise.keep(floor, file)
    with open(file) as opened:
        noise.keep(new, file)
        assert len(json.load(opened)) == 2, "who reads it meanwhile finds all of what was kept before"
    assert noise.read(file) == [other, new] and list(file.parent.iterdir()) == [file]
    named = made("x", target=[TARGET | {"node": "another name"}], parameters={"nodes": 30, "rounds": 99})
    assert noise.fitting(noise.read(file), named) == (new, "")
    stored = json.loads(file.read_text())[1]
    assert stored["races"] == [f"aa-{i}" for i in range(5)]
    assert stored["started"][0] == "20260101T000000Z" and stored["machine"] == MACHINE


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"target": [TARGET | {"cores": 8}]}, "version, JVM, its flags, cores or heap of the target differ"),
        ({"target": [TARGET, TARGET | {"node": "target-2"}]}, "version, .* cores or heap of the target differ"),
        ({"target": [TARGET | {"version": "9.0.0"}]}, "version, JVM, its flags, cores or heap of the target differ"),
        ({"target": [TARGET | {"jvm_flags": "-Xint"}]}, "version, JVM, its flags, cores or heap of the target differ"),
        ({"parameters": {"nodes": 31}}, r"nodes is \[31\], not \[30\]"),
        ({"machine": MACHINE | {"cpu": "another"}}, r"which ran on another machine \(CPU\)"),
        ({"machine": {}}, r"ran on another machine \(CPU, cores of the machine, disk, .*memory"),
        (
            {"document": {"race-timestamp": "20260109T000500Z"}},
            r"which lies 8 days away; a floor holds for 7 \(NOISE_DAYS\)",
        ),
        ({"document": {"race-timestamp": "20251224T000000Z"}}, "which lies 8 days away"),
    ],
)
def test_a_floor_is_refused_for_what_it_does_not_speak_of(changes, why):
    found, refused = noise.fitting([noise.measure(aa(0.01))], made("x", **changes))
    assert found is None and re.search(why, refused) and "20260101T000000Z" in refused


def test_a_floor_holds_for_as_long_as_is_said_and_whatever_the_load():
    floor = noise.measure(aa(0.01))
    late = made("x", document={"race-timestamp": "20260111T000000Z"}, machine=MACHINE | {"load": 9.0})
    assert noise.fitting([floor], late, 10)[0] == floor
    assert noise.fitting([floor], made("x", document={"challenge": "ingest"})) == (None, "")
    spread = replace(floor, started=["20260101T000000Z", "20260120T000000Z"])
    for day, held in ((3, True), (10, True), (27, True), (28, False)):
        of_day = made("x", document={"race-timestamp": f"202601{day:02}T000000Z"})
        assert bool(noise.fitting([spread], of_day)[0]) is held


def test_a_floor_holds_whatever_the_order_in_which_a_store_tells_the_circumstances():
    target = [TARGET, TARGET | {"node": "target-2", "cores": 8}]
    floor = noise.measure(aa(0.01, parameters=values(), target=target))
    reordered = [dict(reversed(node.items())) for node in reversed(target)]
    back = made("x", parameters=dict(reversed(values().items())), target=reordered)
    assert noise.fitting([floor], back) == (floor, "")


@pytest.mark.parametrize("rounds, given", [(20, ""), (99, " with rounds:20")])
def test_a_floor_by_itself_tells_its_races_and_what_they_were_given_otherwise(rounds, given):
    floor = noise.measure(aa(0.05)[::-1])
    section = noise.floor_section(floor, made("x", parameters={"nodes": 30, "rounds": rounds}))
    when = "20260101T000000Z to 20260101T000400Z"
    assert section.text.startswith(f"5 races of this configuration{given}, {when} on this machine: ")
    shares = {row["cell"]: row["floor"] for row in section.tables[0].rows}
    assert shares == {name: math.expm1(x) for name, x in (floor.cells | {"geometric mean": floor.all_cells}).items()}


def test_the_age_of_a_floor_is_that_of_its_last_race():
    floor = noise.measure([made("last", seed=9, document={"race-timestamp": "20260106T000000Z"}), *aa(0.01)])
    for day, fits in ((12, True), (14, False)):
        late = made("x", document={"race-timestamp": f"202601{day}T000000Z"})
        assert noise.fitting([floor], late)[0] == (floor if fits else None)


@pytest.mark.parametrize(
    "changes, fits",
    [
        ({"rounds": 99}, True),
        ({"esql_rounds": 99}, True),
        ({"ingest_rounds": 99}, True),
        ({"design": "one-at-a-time"}, True),  # which query-decomp does not read
        ({"bulk_size": 99}, False),
        ({"rounds": 99, "bulk_size": 99}, False),
    ],
)
def test_a_floor_fits_whatever_only_selects(changes, fits):
    floor = noise.measure(aa(0.01, parameters=values()))
    other = made("x", parameters=values(**changes))
    assert noise.fitting([floor], other)[0] == (floor if fits else None)


def test_the_floor_of_a_mean_over_other_cells_is_that_of_the_one_that_varies_most():
    floor = noise.measure(aa(0.01))
    assert floor.of(sorted(COSTS)) == floor.all_cells
    assert floor.of(["A-serial", "D_td-serial"]) == max(floor.cells["A-serial"], floor.cells["D_td-serial"])
    assert floor.of(["a cell of its own"]) is None


def test_a_file_that_is_no_noise_is_said_to_be_none(tmp_path):
    file = tmp_path / "noise.json"
    for text in ("{", '[{"cells": {}}]', "7"):
        file.write_text(text)
        with pytest.raises(ReportError, match="remove it and run 'make noise' again"):
            noise.read(file)


@pytest.mark.parametrize(
    "races, message",
    [
        (aa(0)[:2], "2 races are too few, it takes 3 or more"),
        ([*aa(0), made("odd", parameters={"nodes": 31})], r"\[odd\] is of another .* nodes is \[31\], not \[30\]"),
        ([*aa(0), made("odd", seed=9, parameters={"nodes": 30, "rounds": 99})], r"rounds is \[99\], not \[20\]"),
        (
            [aa(0)[0], made("odd", seed=9, target=[TARGET | {"cores": 8}]), aa(0)[1]],
            "version, JVM, its flags, cores or heap of the target differ",
        ),
    ],
)
def test_races_that_make_no_floor(races, message):
    with pytest.raises(ReportError, match=message):
        noise.measure(races)


def test_the_section_counts_the_pairs_called_different():
    races = aa(0.05)
    [section] = noise.sections(races, noise.measure(races))
    [table] = section.tables
    row = next(row for row in table.rows if row["cell"] == "D_td-serial")
    assert int(row["different"].removesuffix(" of 10")) >= 6
    assert row["different_floored"] == "0 of 10"


def test_why_the_newest_floor_of_the_challenge_is_refused_is_said():
    kept = [noise.measure(aa(0.01, parameters={"nodes": nodes})) for nodes in (10, 20)]
    found, refused = noise.fitting(kept, made("x"))
    assert found is None and refused.endswith("nodes is [30], not [20]")


def test_the_section_has_medians_floor_and_pairs_of_each_cell():
    factors = (1.0, 1.2, 1.1)
    races = [made(f"aa-{i}", factor, seed=i, spread=0.0) for i, factor in enumerate(factors)]
    [section] = noise.sections(races, noise.measure(races))
    [table] = section.tables
    floor = math.exp(stats.t.ppf(0.975, 2) * math.sqrt(2 * np.var(np.log(factors), ddof=1))) - 1
    *cells, mean = table.rows
    assert [row["cell"] for row in cells] == sorted(COSTS)
    for row in cells:
        ms = COSTS[row["cell"]]
        assert (row["least"], row["greatest"]) == pytest.approx((ms, 1.2 * ms))
        assert (row["cv"], row["floor"]) == pytest.approx((0, floor))
        assert (row["different"], row["different_floored"]) == ("3 of 3", "0 of 3")
    assert mean == {"cell": "geometric mean", "floor": pytest.approx(floor)}


@pytest.mark.parametrize(
    "rounds, told", [((10, 10, 10), {None}), ((20, 10, 20), {None, "1 of 1"}), ((19, 20, 20), {None, "1 of 1"})]
)
def test_pairs_that_cannot_be_judged_are_none_that_agree(rounds, told):
    given = {"nodes": 30, "rounds": 20}
    races = [made(f"r{n}", 1 + n / 5, rounds=of, seed=n, parameters=given) for n, of in enumerate(rounds)]
    (section,) = noise.sections(races, noise.measure(races))
    assert {row.get("different") for row in rows([section], "noise").values()} == told


def test_a_cell_of_the_section_has_the_medians_of_its_races_and_the_median_spread_of_their_rounds():
    races = [made(f"aa-{i}", seed=i, spread=spread) for i, spread in enumerate((0.01, 0.2, 0.04))]
    for sample in races[0].samples:  # two rounds that a mean would tell as noise
        if sample.meta["round"] in (4, 5) and sample.cell != "plan":
            sample.meta["wall_ms"] *= 100
    floor = noise.measure(races)
    found = rows(noise.sections(races, floor), "noise")
    for name in COSTS:
        walls = [np.array([s.meta["wall_ms"] for s in race.samples if s.cell == name]) for race in races]
        medians = [np.median(of) for of in walls]
        row = found[name]
        assert (row["least"], row["greatest"]) == pytest.approx((min(medians), max(medians)))
        assert row["cv"] == pytest.approx(np.median([np.std(of, ddof=1) / np.mean(of) for of in walls]), rel=0.01)
        assert floor.cells[name] < stats.t.ppf(0.975, 2) * math.sqrt(2 * np.var(np.log(medians), ddof=1)) + 1e-9


def test_pairs_are_judged_by_as_many_units_as_a_verdict_of_their_challenge_takes():
    races = []
    for i in range(3):
        about = {"of_pass": dict.fromkeys(range(7), 1 + i / 5), "document": {"race-timestamp": f"20260101T000{i}00Z"}}
        races.append(capacities.made(f"r{i}", "capacity-indexing", passes=6, on=1, **about))
    *cells, _ = rows(noise.sections(races, noise.measure(races)), "noise").values()
    assert [(row["different"], row["different_floored"]) for row in cells] == [("3 of 3", "0 of 3")] * 3


def test_pairs_of_races_that_are_one_sample_each_are_not_judged():
    def loads(race):
        rounds = race.of("coverage")
        return [replace(s, kind="ingest-epoch", meta=s.meta | {"epoch": s.meta["round"]}) for s in rounds]

    races = [replace(race, samples=loads(race)) for race in aa(0.05, document={"challenge": "ingest"})]
    (section,) = noise.sections(races, noise.measure(races))
    assert {row.get("different") for row in rows([section], "noise").values()} == {None}
    assert "a race is one sample here, so a comparison takes several on each side" in section.text
    (judged,) = noise.sections(aa(0.05), noise.measure(aa(0.05)))
    assert "a comparison of single races widens its intervals by it" in judged.text


def test_a_floor_of_a_challenge_that_is_not_known_stays_where_it_is(tmp_path):
    floor = noise.measure(aa(0.01))
    file = tmp_path / "noise.json"
    file.write_text(json.dumps([asdict(replace(floor, challenge="of-a-later-version"))]))
    noise.keep(floor, file)
    assert [f.challenge for f in noise.read(file)] == ["of-a-later-version", floor.challenge]
