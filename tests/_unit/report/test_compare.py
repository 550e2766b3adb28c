"""What a comparison says about races made of known costs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from races import COSTS, MACHINE, TARGET, made

from _tools.race.variables import Exit
from _tools.report import compare, noise, sides
from _tools.report.cautions import warnings_of
from _tools.report.race import Race, ReportError
from _tools.report.verdicts import Verdict
from _tools.report.write import page_of, write_comparison, write_noise


def compared(*races, floor=None):
    """Each race as a side of its own."""
    return sides.comparison({str(n): [race] for n, race in enumerate(races)}, floor)


def page(comparison):
    return page_of("Comparison", compare.sections(comparison))


def told(races, floor=None):
    return page(compared(*races, floor=floor))


def row(text, section, start):
    part = text[text.index(f"## {section}") :]
    return next(line for line in part.splitlines() if line.startswith(f"| {start} "))


def quiet_floor():
    return noise.measure([made(f"aa-{i}", seed=20 + i) for i in range(5)])


def test_each_race_is_held_against_the_first():
    text = told([made("base", seed=1), made("slow", 1.3, seed=2), made("fast", 0.7, seed=3)], quiet_floor())
    for cell in [*COSTS, "geometric mean"]:
        found = row(text, "Against base", cell)
        assert " regressed |" in found and " improved |" in found
        assert found.index("regressed") < found.index("improved")
    assert row(text, "Wall time", "D_td-serial").count("%") == 3
    assert "no noise floor" not in text and "widened by the noise between races that 5 races" in text


def test_equal_races_do_not_differ():
    text = told([made("base", seed=1), made("same", seed=2)], quiet_floor())
    for cell in [*COSTS, "geometric mean"]:
        found = row(text, "Against base", cell)
        assert "equivalent within 3.0 %" in found or "not shown (could be −" in found
    assert "## Warnings" not in text


def test_a_high_floor_takes_a_verdict_back():
    races = [made("base", seed=1), made("slow", 1.1, seed=2)]
    assert " regressed |" in row(told(races), "Against base", "D_td-serial")
    floor = noise.measure([made(f"aa-{i}", 1 + 0.05 * i, seed=20 + i) for i in range(5)])
    for cell in [*COSTS, "geometric mean"]:
        assert "not shown (could be −" in row(told(races, floor), "Against base", cell)


def test_the_mean_over_a_part_of_the_cells_of_a_floor_is_widened_too():
    few = {"D_td-serial": COSTS["D_td-serial"]}
    races = [made("base", seed=1, costs=few), made("slow", 1.1, seed=2, costs=few)]
    floor = noise.measure([made(f"aa-{i}", 1 + 0.05 * i, seed=20 + i) for i in range(5)])
    floor = replace(floor, all_cells=0.001)  # of all three together, which these races lack
    for cell in ("D_td-serial", "geometric mean"):
        assert "not shown (could be −" in row(told(races, floor), "Against base", cell)


def test_a_cell_that_a_floor_lacks_has_none_of_its_own():
    floor = noise.measure([made(f"aa-{i}", seed=20 + i, costs={"A-serial": 20.0}) for i in range(5)])
    found = told([made("base", seed=1), made("slow", 1.3, seed=2)], floor)
    assert " – |" in row(found, "Against base", "D_td-serial") and " – |" not in row(found, "Against base", "A-serial")


def test_too_few_rounds_get_no_verdict():
    text = told([made("base", rounds=19), made("slow", 2, rounds=40)], quiet_floor())
    assert " not enough samples |" in row(text, "Against base", "D_td-serial")
    assert "race base has 19 rounds, a verdict takes 20; race with rounds:20" in text
    assert "race slow has" not in text


def test_what_is_common_stands_once_and_what_differs_is_set_out():
    one = made("base", document={"user-tags": {"side": "old"}})
    two = made("new", seed=2, target=[TARGET | {"version": "8.19.4"}], document={"user-tags": {"side": "new"}})
    text = told([one, two])
    assert text.count("JVM: OpenJDK 21") == 1 and "- Elasticsearch" not in text
    assert row(text, "What differs", "Elasticsearch").split()[3::2] == ["8.17.2", "8.19.4"]
    assert row(text, "What differs", "tag side").split()[4::2] == ["old", "new"]
    assert "- **Warning:** the races differ in Elasticsearch; " in text
    common = {"nodes": 31, "rounds": 25}
    few, many = (made(str(tasks), parameters=common | {"tasks": tasks}) for tasks in (100, 300))
    text = told([few, many])
    assert "- parameters beside the defaults: nodes=31, rounds=25\n" in text
    assert row(text, "What differs", "parameter tasks").split()[4::2] == ["100", "300"]


@pytest.mark.parametrize(
    "changes, kind, seen",
    [
        ({"index": {"docs": 5000, "segments": 7, "store_bytes": 10**6}}, "layout", "differ in segments"),
        ({"index": {"docs": 4000, "segments": 1, "store_bytes": 10**6}}, "layout", "differ in documents"),
        ({"target": [TARGET | {"cores": 8}]}, "machine", "differ in cores"),
        ({"target": [TARGET, TARGET]}, "machine", "differ in nodes"),
        ({"target": []}, "unknown-target", "race new does not say what it ran on"),
        ({"parameters": {"nodes": 31, "rounds": 20}}, "parameters", "differ in parameters nodes"),
        ({"document": {"track-revision": "abc"}}, "versions", "differ in track revision"),
        ({"failed": {"A-serial": 3}}, "failed", "race new has failed samples, which are left out: A-serial 3"),
        ({"costs": COSTS | {"B-serial": 9.0}}, "cells", "only some races have the cells B-serial"),
    ],
)
def test_warnings(changes, kind, seen):
    found = compared(made("base"), made("new", seed=2, **changes))
    warnings = {warning.kind: warning for warning in warnings_of(found)}
    assert seen in warnings[kind].seen and warnings[kind].option
    assert set(warnings) - {kind} <= {"no-noise-floor"} or kind == "unknown-target"  # which differs in all it lacks
    text = page(found)
    assert f"- **Warning:** {warnings[kind].text}\n" in text[text.index("## Warnings") :]
    assert kind not in {warning.kind for warning in warnings_of(compared(made("base"), made("new", seed=2)))}


@pytest.mark.parametrize(
    "races, message",
    [
        ([made("a")], "1 races are too few, it takes 2 or more"),
        ([], "0 races are too few"),
        ([made("a"), made("a")], r"race \[a\] is named twice"),
        ([made("a"), made("b", document={"results": None})], r"race \[b\] was not finished"),
        ([made("a"), made("b", document={"results": {}})], r"race \[b\] was not finished"),
        (
            [made("a"), made("b", document={"challenge": "query-profile"})],
            r"\[b\] ran challenge \[query-profile\].*\[query-decomp\]",
        ),
        ([made("a"), made("b", rounds=0)], r"race \[b\] has no rounds of a plan task"),
        ([made("a"), made("b", costs={"X": 1.0})], "the races have no configuration in common"),
    ],
)
def test_races_that_cannot_be_compared(races, message):
    with pytest.raises(ReportError, match=message):
        compared(*races)


def test_a_round_without_all_cells_is_no_round_of_the_mean():
    races = [made("a"), made("b")]
    lacking = [s for s in races[1].samples if (s.meta["round"] % 2 == 0) == (s.cell == "A-serial")]
    with pytest.raises(ReportError, match=r"race \[b\] has no round in which all configurations succeeded"):
        compared(races[0], Race(races[1].document, lacking, {}))


@given(st.lists(st.text("abc-", min_size=1, max_size=20), min_size=2, max_size=6, unique=True))
def test_short_ids_tell_races_apart(ids):
    races = [Race({"race-id": i}, [], {}) for i in ids]
    short = sides.short_ids(races)
    assert len(set(short)) == len(ids)
    assert all(i.startswith(s) and len(s) >= min(8, len(i)) for i, s in zip(ids, short))


def test_a_figure_that_the_samples_lack_is_left_out():
    def figures(found):
        tables = [table.key for section in compare.sections(found) for table in section.tables]
        return tables, {row["figure"] for row in compare.sheet(found).rows}

    races = [made("base"), made("new", seed=2)]
    common = ["differences", "ratios", "medians wall_ms"]
    assert figures(compared(*races)) == ([*common, "medians took_ms", "parameters"], {"wall_ms", "took_ms"})
    for sample in (s for race in races for s in race.samples):
        sample.meta.pop("took_ms", None)
    assert figures(compared(*races)) == ([*common, "parameters"], {"wall_ms"})


def test_the_sheet_has_a_row_per_cell_and_race():
    found = compared(made("base", seed=1), made("slow", 1.5, seed=2))
    sheet = compare.sheet(found)
    ratio = found.ratio(found.sides[1], "A-serial")
    (row,) = [r for r in sheet.rows if "ratio" in r and r["cell"] == "A-serial"]
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (ratio.value, ratio.low, ratio.high)
    expected = [(c, f, r) for c in sorted(COSTS) for f in ("wall_ms", "took_ms") for r in ("base", "slow")]
    assert [(r["cell"], r["figure"], r["race"]) for r in sheet.rows] == expected
    assert all(set(r) <= {column.key for column in sheet.columns} for r in sheet.rows)
    assert [r.get("verdict") for r in sheet.rows] == [None, Verdict.REGRESSED.value, None, None] * len(COSTS)


def test_noise_is_written_and_used_by_a_comparison_of_its_configuration(tmp_path, monkeypatch, capsys):
    races = {i: made(i, seed=n) for n, i in enumerate(["first-of-all", "last", "aa-1", "aa-2", "aa-3"])}
    monkeypatch.setattr("_tools.report.write.connect", lambda ini: None)
    monkeypatch.setattr("_tools.report.write.load_all", lambda store, name, challenge: [races[name]])
    file = tmp_path / "noise.json"
    write_comparison(tmp_path, ["first-of-all", "last"], tmp_path, file)
    assert "no noise floor" in capsys.readouterr().out
    write_noise(tmp_path, ["aa-1", "aa-2", "aa-3"], file)
    assert "## Noise between races" in capsys.readouterr().out
    write_comparison(tmp_path, ["first-of-all", "last"], tmp_path, file)
    printed = capsys.readouterr().out
    folder = tmp_path / "compare-first-of-last"
    text = (folder / "report.md").read_text()
    assert "that 3 races of the first one's configuration" in text and "no noise floor" not in text + printed
    assert "Against first-of" in (folder / "report.html").read_text()
    assert len((folder / "compare.csv").read_text().splitlines()) == 1 + 2 * 2 * len(COSTS)


def replicates(name, factor=1.0, races=3, spread=0.01, rounds=5):
    """Races of one configuration that differ among themselves by this standard deviation, whatever their rounds."""
    rng = np.random.default_rng(len(name))
    factors = factor * np.exp(spread * rng.standard_normal(races))
    return [made(f"{name}-{n}", f, seed=n, spread=1e-9, rounds=rounds) for n, f in enumerate(factors)]


def test_races_of_one_name_are_replicates_and_need_no_floor_and_no_20_rounds():
    named = {"side:old": replicates("old"), "side:new": replicates("newer", 1.2)}
    found = sides.comparison(named, None)
    text = page(found)
    for cell in [*COSTS, "geometric mean"]:
        assert " regressed |" in row(text, "Against side:old", cell)
    assert "| side:new (3 races) |" in text and "the race is what is replicated" in text
    assert "## Warnings" not in text and "noise floor" not in text
    assert row(text, "What differs", "race").count("old-") == row(text, "What differs", "race").count("newer-") == 3
    sheet = compare.sheet(found)
    assert [r["side"] for r in sheet.rows[:6]] == ["side:old"] * 3 + ["side:new"] * 3


def test_where_one_of_several_sides_has_several_races_it_is_said_what_is_replicated():
    alone = {"side:old": replicates("old", races=1), "side:same": replicates("same", races=1)}
    assert "With several races on a side" not in page(sides.comparison(alone, None))
    text = page(sides.comparison(alone | {"side:new": replicates("newer", races=3)}, None))
    assert "With several races on a side" in text and "Between single races: medians over rounds" in text


def test_a_comparison_says_within_what_it_calls_sides_equivalent(monkeypatch):
    monkeypatch.setenv("DELTA", "7")
    assert "equivalent when its 90 % interval lies within 7.0 % (`DELTA`)" in page(compared(made("a"), made("b")))


def test_a_round_that_something_hit_moves_no_ratio_of_races():
    found = []
    for times in (1, 1000):
        old, (first, *more) = replicates("old"), replicates("newer", 1.2)
        at = next(i for i, sample in enumerate(first.samples) if sample.cell == "A-serial")
        hit = first.samples[at]
        first.samples[at] = replace(hit, meta=hit.meta | {"wall_ms": times * hit.meta["wall_ms"]})
        comparison = sides.comparison({"side:old": old, "side:new": [first, *more]}, None)
        found.append(comparison.ratio(comparison.sides[1], "A-serial").value)
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_of_a_single_race_the_noise_is_unknown_though_another_side_is_replicated():
    single = {"a": replicates("one", races=1), "b": replicates("other", 1.2, races=1)}
    for more in ({}, {"c": replicates("three", 1.2)}):
        assert "no-noise-floor" in {warning.kind for warning in warnings_of(sides.comparison(single | more, None))}


def test_what_races_of_a_side_differ_by_takes_a_verdict_back():
    named = {"side:old": replicates("old", spread=0.2), "side:new": replicates("newer", 1.2, spread=0.2)}
    assert " not shown (could be −" in row(page(sides.comparison(named, None)), "Against side:old", "D_td-serial")


def test_one_race_may_stand_against_several_but_not_against_two():
    found = page(sides.comparison({"a": replicates("one", races=1), "b": replicates("three", 1.2)}, None))
    assert " regressed |" in row(found, "Against one-0", "D_td-serial")
    assert "races together" not in found
    few = page(sides.comparison({"a": replicates("one", races=1), "b": replicates("two", 1.2, 2)}, None))
    assert " not enough samples |" in row(few, "Against one-0", "D_td-serial")
    alone = sides.comparison({"a": replicates("one", races=1), "b": replicates("two", races=1, rounds=1)}, None)
    assert "NaN" not in json.dumps(compare.record(alone))
    assert "one-0 and b (2 races) are 3 races together, a verdict takes 4" in few


def test_a_race_that_is_one_sample_is_raced_several_times():
    """Rounds within an ingest are no replicates of it, whatever their number."""
    alone = {"document": {"challenge": "ingest"}}
    few = told(list(map(ingest, [made("old", **alone), made("new", 1.5, **alone)])))
    assert "old and new are 2 races together, a verdict takes 4; race each side 5 times, " in few
    assert "'make noise CHALLENGE=ingest RACES=5 TAGS=side:old'" in few and "not enough samples |" in few
    named = {
        f"side:{n}": [ingest(made(f"{n}-{i}", f + i / 100, **alone)) for i in range(3)]
        for n, f in (("a", 1), ("b", 1.5))
    }
    text = page(sides.comparison(named, None))
    assert " regressed |" in row(text, "Against side:a", "A-serial")


def ingest(race):
    """The same as an ingest, with its rounds as epochs."""
    samples = [replace(s, kind="ingest-epoch", meta=s.meta | {"target_cpu_ms": 1.0}) for s in race.of("coverage")]
    return replace(race, samples=samples)


def test_another_machine_is_warned_of_and_another_load_is_shown():
    text = told([made("base"), made("new", seed=1, machine=MACHINE | {"cpu": "D", "load": 7.0})], quiet_floor())
    assert "the races differ in CPU; ratios of different machines" in text
    assert row(text, "What differs", "load at the start").split()[-4:] == ["0.50", "|", "7.00", "|"]


def test_a_floor_that_is_refused_is_said_to_be():
    races = [made("base"), made("new", seed=1)]
    for race in races:
        race.document["race-timestamp"] = "20260201T000000Z"
    floor, refused = noise.fitting([quiet_floor()], races[0])
    text = page(sides.comparison({race.id: [race] for race in races}, floor, refused))
    assert "no noise floor: that of the races from 20260101T002000Z on is not of this race, which lies 31 days" in text


def test_races_further_apart_than_those_of_the_floor_are_warned_of():
    races = [made("base"), made("new", seed=1)]
    assert "of the noise floor" not in told(races, quiet_floor()).split("## Warnings")[-1].split("## Against")[0]
    races[1].document["race-timestamp"] = "20260104T000000Z"
    assert "the races lie 3.0 days apart, those of the noise floor 0.1 h" in told(races, quiet_floor())


def test_races_of_one_name_are_of_one_configuration():
    mixed = [made("a-1"), made("a-2", parameters={"nodes": 31, "rounds": 20})]
    with pytest.raises(ReportError, match=r"the races of \[side:a\] are no replicates: race \[a-2\]: nodes is \[31\]"):
        sides.comparison({"side:a": mixed, "b": [made("b")]}, None)
    with pytest.raises(ReportError, match=r"\[side:a\] names one side, it takes two or more"):
        sides.comparison({"side:a": replicates("a")}, None)


def test_replicates_have_the_name_that_they_were_given_and_a_single_race_its_id():
    found = sides.comparison({"side:a": replicates("a"), "side:b": [made("single", seed=9)]}, None)
    assert [side.name for side in found.sides] == ["side:a", "single"]


def test_the_size_of_the_index_is_a_fact_where_it_is_known():
    assert sides.facts(made("x", index={"store_bytes": 2_500_000}))["index MB"] == "2.50"
    assert "index MB" not in sides.facts(made("x", index={"docs": 5000}))


def test_floors_do_not_matter_between_replicates():
    named = {"side:old": replicates("old"), "side:new": replicates("newer", 1.2)}
    with_floor, without = (sides.comparison(named, floor) for floor in (quiet_floor(), None))
    ratios = [repr(found.ratio(found.sides[1], "A-serial")) for found in (with_floor, without)]
    assert ratios[0] == ratios[1]  # as text, since a CV that is not known is no number


@pytest.mark.parametrize(
    "days, later, fits", [("", 8, False), ("8", 8, False), ("9", 8, True), ("", 3, True), ("3", 3, False)]
)
def test_a_floor_holds_for_as_many_days_as_noise_days_says(tmp_path, monkeypatch, days, later, fits):
    late = {"race-timestamp": f"2026010{1 + later}T120000Z"}
    races = {name: made(name, seed=n, document=late) for n, name in enumerate(["old", "new"])}
    monkeypatch.setattr("_tools.report.write.connect", lambda ini: None)
    monkeypatch.setattr("_tools.report.write.load_all", lambda store, name, challenge: [races[name]])
    monkeypatch.setenv("NOISE_DAYS", days)
    noise.keep(quiet_floor(), tmp_path / "noise.json")
    write_comparison(tmp_path, ["old", "new"], tmp_path, tmp_path / "noise.json")
    record = json.loads((tmp_path / "compare-old-new" / "report.json").read_text())
    assert (record["noise_floor"] is not None) is fits


def test_the_sheet_has_each_figure_of_each_race_and_the_ratio_of_the_judged_one():
    found = compared(made("base", spread=0.0), made("slow", 1.5, seed=1, spread=0.0))
    rows = {(row["cell"], row["figure"], row["race"]): row for row in compare.sheet(found).rows}
    for cell, ms in COSTS.items():
        for figure, part in (("wall_ms", 1), ("took_ms", 0.5)):
            for race, factor in (("base", 1), ("slow", 1.5)):
                row = rows[cell, figure, race]
                expected = part * factor * ms
                assert [row[key] for key in ("median", "low", "high")] == pytest.approx([expected] * 3)
                assert (row["n"], row["cv"], row["side"]) == (20, pytest.approx(0), race)
                judged = {key: row.get(key) for key in ("ratio", "ratio_low", "ratio_high", "verdict")}
                if (figure, race) == ("wall_ms", "slow"):
                    *bounds, verdict = judged.values()
                    assert bounds == pytest.approx([1.5] * 3) and verdict == "regressed"
                    assert row["found"] == pytest.approx(0.01)
                else:
                    assert set(judged.values()) == {None}
    record = compare.record(found)
    assert [(side["name"], side["races"]) for side in record["sides"]] == [("base", ["base"]), ("slow", ["slow"])]
    assert record["noise_floor"] is None and list(record["figures"]) == ["wall_ms", "took_ms"]
    assert record["rows"] == compare.sheet(found).rows


def test_the_method_says_what_a_ratio_is_when_it_is_a_change_and_that_no_floor_is_known():
    text = told([made("base"), made("new", seed=1)])
    said = ("Ratio to base of the ", "rounds resampled in each race by itself. A cell improved or ", "it is equivalent")
    at = [text.index(part) for part in (*said, "Differences are found too often here, since no noise floor is known.")]
    assert at == sorted(at)


@pytest.mark.parametrize("broken, code", [(None, Exit.DONE), (0, Exit.INCOMPLETE), (2, Exit.INCOMPLETE)])
def test_a_comparison_is_incomplete_if_any_of_its_races_is(tmp_path, monkeypatch, broken, code):
    races = {"side:old": replicates("old"), "side:new": replicates("newer", 1.2)}
    if broken is not None:
        of = races["side:new"]
        of[broken] = replace(of[broken], failed={"A-serial": 3})
    monkeypatch.setattr("_tools.report.write.connect", lambda ini: None)
    monkeypatch.setattr("_tools.report.write.load_all", lambda store, name, challenge: races[name])
    assert write_comparison(tmp_path, [*races], tmp_path, tmp_path / "noise.json") == code


def test_a_cell_that_a_floor_lacks_is_warned_of():
    floor = replace(quiet_floor(), cells={"A-serial": 0.1})
    found = compared(made("old", spread=0.0), made("new", 1.1, seed=1, spread=0.0), floor=floor)
    (warning,) = [w for w in warnings_of(found) if w.kind == "no-noise-floor"]
    assert warning.seen.startswith("the noise floor has none of ") and "A-serial" not in warning.seen
    assert warning.value == len(COSTS) - 1
