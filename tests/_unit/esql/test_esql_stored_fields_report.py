"""The report of esql-stored-fields on samples made of known costs."""

import numpy as np
import pytest

from _tools.report import sides
from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.stats import Estimate, crossing
from _tools.report.write import sheets
from cluster_metrics.esql._report import esql_stored_fields as esql
from cluster_metrics.esql.esql_stored_fields import QUERY

SHARES = (1000, 200, 100, 50, 10, 1)


def cost(share, sequential):
    """In ms: reading in sequence costs 4 ms whatever the share, and an eighth per document; even at 0.57 %."""
    return 4 + 0.1 * share if sequential else 0.8 * share


def took(share, sequential):
    """What Elasticsearch says, which here is 20 ms more, so that no ratio of it is that of wall times."""
    return 20 + cost(share, sequential)


def race(race_id, settings=("as is", "0", "1"), own=0.2, rounds=20, seed=0, version="8.19.4", **parameters):
    rng = np.random.default_rng(seed)
    samples = []
    for kind, n in (("esql-query", rounds), ("esql-profiled", 3)):
        for r in range(1, n + 1):
            for setting in settings:
                proportion = own if setting == "as is" else float(setting)
                for share in SHARES:
                    sequential = share == 1000 or share / 1000 >= proportion
                    wall = cost(share, sequential) * float(np.exp(0.02 * rng.standard_normal()))
                    meta = {"round": r, "share_permille": share, "setting": setting, "wall_ms": wall}
                    meta["took_ms"] = 20 + wall
                    meta |= {"documents": share * 100, "chars": share * 900}
                    if own <= 1:
                        meta |= {"sequential_proportion": proportion, "values_loaded": share * 100}
                    if kind == "esql-profiled":
                        pages = {"pages_sequential": 9 * sequential, "pages_other": 9 * (not sequential)}
                        meta |= {"process_ms": 0.9 * wall, **pages}
                    cell = f"{share / 10:g}%" + ("" if setting == "as is" else f" at {setting}")
                    samples.append(Sample(kind, r, cell, wall, meta))
    samples.append(Sample("esql-stored-fields", 1, "stored-fields", 1.0, {"round": 1, "settings_missing": 2}))
    document = {"race-id": race_id, "challenge": "esql-stored-fields", "results": {"any": 1}}
    index = {"docs": 100_000, "segments": 1, "store_bytes": 2_600_000}
    target = [{"node": "target-1", "version": version, "jvm": "J", "cores": 2, "heap_mb": 1024}]
    return Race(document, samples, {}, {"text_form": "value", "text_order": "even"} | parameters, target, index)


def section(race, title):
    return next(s for s in esql.sections(race) if s.title == title)


def rows_of(section):
    """The rows of its one table by share."""
    (table,) = section.tables
    return {row["share"]: row for row in table.rows}


def test_the_best_setting_is_the_break_even_point_with_its_interval():
    of = section(race("a"), "Reading in sequence or not")
    text = of.text
    assert all({"as is", "0", "1", "gain"} < row.keys() for row in rows_of(of).values())
    assert text.startswith("Reading in sequence is faster from a share of 0.")
    assert "for texts of 9 characters (26 bytes a document in the index)" in text
    point = esql.break_even(esql.Shares(race("a")), "0", "1", [1, 10, 50, 100, 200])
    # between 0.1 % and 1 % the truth, 0.57 %, is met as well as a straight line through the logarithms meets it
    assert point.low <= point.value <= point.high
    assert point.value == pytest.approx(0.0057, rel=0.1)
    assert "times as long as at that, at a share of 10.0 %" in text
    worst = float(text.split("takes up to ")[1].split()[0])
    assert worst == pytest.approx(cost(100, False) / cost(100, True), rel=0.03)


def test_a_document_takes_its_part_of_took_in_microseconds():
    found = rows_of(section(race("a"), "What loading text costs, by share of the documents"))
    each_us = {row["documents"]: row["each_us"] for row in found.values()}
    assert each_us[100_000] == pytest.approx(1000 * took(1000, True) / 100_000, rel=0.03)
    assert each_us[1000] == pytest.approx(1000 * took(10, False) / 1000, rel=0.03)


def test_where_no_share_is_known_to_decide_no_setting_is_recommended(monkeypatch):
    undecided, nowhere = race("a"), Estimate(20, 0.05, 0.0, np.inf, np.nan)
    monkeypatch.setattr(esql.Shares, "point", nowhere)
    assert dict(answer_of(undecided).lines())["recommended"].startswith("nothing")
    assert "Best setting" not in section(undecided, "Reading in sequence or not").text


def test_published_figures_of_short_texts_stand_beside_no_others():
    def titles(*forms):
        races = {name: [race(name, text_form=form, seed=seed)] for seed, (name, form) in enumerate(zip("ab", forms))}
        return [s.title for s in esql.compared(sides.comparison(races, None))]

    assert "References" in titles("value", "value")
    assert "References" not in titles("log-line", "log-line") + titles("value", "log-line")


@pytest.mark.parametrize(
    "logs, place", [([-1, -1, 1], 2.0), ([1, 1, 1], 0.0), ([-1, -1, -1], np.inf), ([1, -1, 3], 1.25)]
)
def test_the_last_crossing_counts(logs, place):
    at = np.log([0.5, 1.0, 4.0]) if place == 2.0 else np.log([0.25, 1.0, 1.0 * 1.25**4])
    found = crossing(at, np.repeat(np.array(logs, float)[:, None], 6, axis=1))
    assert found.value == found.low == found.high == pytest.approx(place)


def test_too_few_rounds_advise_nothing():
    text = section(race("a", rounds=19), "Reading in sequence or not").text
    assert "19 rounds are too few to advise a setting, it takes 20." in text and "**" not in text
    assert "interval" not in section(race("a", rounds=5), "Reading in sequence or not").text.split("All in one race")[0]


def test_a_target_without_the_setting_has_no_sweep():
    old = race("old", settings=("as is",), own=2.0, version="8.16.0")
    assert "so 2 settings were left out" in section(old, "Reading in sequence or not").text
    assert dict(answer_of(old).lines())["recommended"] == "nothing: no other setting was tried"
    alone = dict(answer_of(race("alone", settings=("as is", "0"))).lines())["recommended"]
    assert alone == "nothing: no two shares were read in sequence at one setting and not at another"
    for settings, told in ((("as is", "0"), False), (("as is", "0", "1"), True)):
        text = section(race("of some", settings=settings), "Reading in sequence or not").text
        assert ("The last column is how many times as long" in text) is told
    by_share = section(old, "What loading text costs, by share of the documents")
    assert "this version does not tell how many documents" in by_share.text
    found = rows_of(by_share)
    assert found.pop("100.0 %")["readers"] == "yes"
    assert [row["readers"] for row in found.values()] == ["no"] * (len(SHARES) - 1)


def test_before_and_after_stand_apart_from_what_was_published():
    old, new = race("old", settings=("as is",), own=2.0, version="8.16.0"), race("new", seed=1)
    both = sides.comparison({"old": [old], "new": [new]}, None)
    own, published = esql.compared(both)
    found = rows_of(own)
    assert (found["20.0 %"]["readers"], found["10.0 %"]["readers"]) == ("no → yes", "no → no")
    beside = rows_of(published)["20.0 %"]
    assert (beside["before"], beside["after"]) == (766, 104)
    assert beside[f"own {both.sides[0].title}"].value > beside[f"own {both.sides[1].title}"].value > 0
    assert all(f"{side.title} ms" in published.text for side in both.sides), "each column names its side"
    assert found["100.0 %"]["readers"] == "yes → yes"
    assert found["20.0 %"]["ratio"].value == pytest.approx(took(200, True) / took(200, False), rel=0.05)
    assert "cut-off of 10 %; shipped was one of 20.0 %" in own.text
    same, _ = esql.compared(sides.comparison({"old": [race("a", seed=2)], "new": [new]}, None))
    assert "turn sequential" not in same.text, "nothing has turned"


def test_races_of_one_tag_are_replicates_of_one_side():
    named = {"old": [race("a", own=1.0, seed=1), race("b", own=1.0, seed=2)], "new": [race("c", seed=3)]}
    own, _ = esql.compared(sides.comparison(named, None))
    ratio = rows_of(own)["20.0 %"]["ratio"]
    assert ratio.n == 3
    assert rows_of(own)["20.0 %"]["first"].n == 2  # races, not the rounds of both
    assert ratio.value == pytest.approx(took(200, True) / took(200, False), rel=0.05)
    assert own.figures[0].spec["layer"]


def test_the_sheet_has_a_row_per_sample():
    (sheet,) = sheets(race("a", rounds=2))
    assert len(sheet.rows) == (2 + 3) * 3 * len(SHARES)
    assert {row["operation_type"] for row in sheet.rows} == {"esql-query", "esql-profiled"}


def test_the_answer_is_the_setting_and_what_the_targets_own_costs():
    lines = dict(answer_of(race("x")).lines())
    assert lines["recommended"].startswith("index.esql.stored_fields_sequential_proportion: 0.006, since reading")
    assert lines["its own 0.2"].endswith("as long, at 10.0 % of the documents")
    assert lines["answers checked"] == f"{20 * 3 * len(SHARES)} queries, none wrong"
    few = dict(answer_of(race("x", rounds=5)).lines())
    assert few["recommended"] == "nothing: a verdict takes esql_rounds:20" and "its own 0.2" not in few


def test_where_reading_in_sequence_is_always_faster_the_least_share_tried_is_the_setting():
    of = race("x")
    for sample in of.samples:
        share, proportion = (sample.meta.get(key, 0) for key in ("share_permille", "sequential_proportion"))
        if share < 1000 * proportion and share < 1000:
            sample.meta["wall_ms"] += 100
    recommended = dict(answer_of(of).lines())["recommended"]
    assert recommended == f"{esql.SETTING}: 0.001, since reading in sequence is faster from below 0.1 % on"


def test_a_value_of_the_setting_is_a_change_of_the_mean_over_shares():
    gains = {gain.change.text.split(": ")[1].split(",")[0]: gain for gain in esql.changes(race("a"))}
    assert gains.keys() == {"0", "1"} and {gain.against for gain in gains.values()} == {"the target's own 0.2"}
    for setting, gain in gains.items():
        expected = [
            np.log(cost(share, share == 1000 or share / 1000 >= 0.2) / cost(share, share / 1000 >= float(setting)))
            for share in SHARES
        ]
        assert gain.times.value == pytest.approx(float(np.exp(np.mean(expected))), rel=0.02)
    assert list(esql.changes(race("a", settings=("0", "1")))) == []


def test_a_setting_without_a_share_is_a_mean_over_the_others():
    of = race("a")
    of.samples[:] = [s for s in of.samples if (s.cell, s.kind) != ("5% at 1", QUERY)]
    assert [gain.change.text for gain in esql.changes(of)] == [
        f"{esql.SETTING}: {setting}, mean over {shares} shares of the documents" for setting, shares in ((0, 6), (1, 5))
    ]


def slowed(of, ms):
    """The race with what is read in sequence slower by so much, but for the share of all documents."""
    for sample in of.samples:
        share = sample.meta.get("share_permille", 1000)
        if share < 1000 and share / 1000 >= sample.meta["sequential_proportion"]:
            sample.meta["wall_ms"] += ms
    return of


def test_where_reading_in_sequence_is_never_faster_no_share_but_all_documents_is_read_so():
    of = slowed(race("x"), 1000)
    lines = dict(answer_of(of).lines())
    assert lines["recommended"] == f"{esql.SETTING}: 1, since reading in sequence is faster from above 20.0 % on"
    text = section(of, "Reading in sequence or not").text
    assert text.startswith("Reading in sequence is not faster at the greatest share that was read both ways, for texts")
    assert "**Best setting: 1.**" in text
    worst = (cost(200, True) + 1000) / cost(200, False)
    assert lines["its own 0.2"].endswith("as long, at 20.0 % of the documents")
    assert float(lines["its own 0.2"].removeprefix("takes up to ").split()[0]) == pytest.approx(worst, rel=0.03)


@pytest.mark.parametrize(
    "own, at",
    [(0.2, "10.0 %"), (0.1, "5.0 %"), (1.0, "20.0 %"), (0.01, None), (0.005, None), (0.001, "0.1 %"), (0.0, "0.1 %")],
)
def test_the_targets_own_setting_costs_most_where_it_reads_otherwise_than_the_best(own, at):
    """The best setting lies between 0.1 % and 1 %."""
    of = race("x", own=own)
    lines = dict(answer_of(of).lines())
    assert lines["recommended"].startswith(f"{esql.SETTING}: 0.006, since")
    text = section(of, "Reading in sequence or not").text
    if at:
        assert lines[f"its own {own:g}"].endswith(f"as long, at {at} of the documents")
        assert f" At its own {own:g} a query takes up to " in text and f"at a share of {at}." in text
    else:
        assert lines[f"its own {own:g}"] == "does as well at the shares tried"
        assert f" The target's own {own:g} does as well at the shares tried." in text


def test_shares_count_that_are_mostly_read_in_sequence_at_the_least_setting_and_not_at_the_greatest():
    of = race("x")
    for sample in of.samples:
        if sample.kind == "esql-profiled" and sample.meta["setting"] == "0":
            pages = {50: (6, 3), 10: (6, 6), 1: (3, 9)}.get(sample.meta["share_permille"])
            if pages:
                sample.meta.update(pages_sequential=pages[0], pages_other=pages[1])
    cells = esql.Shares(of)
    assert cells.switched == [200, 100, 50]
    assert [cells.profiled.readers("0", share) for share in SHARES] == ["yes"] * 3 + ["66.7 %", "50.0 %", "25.0 %"]
    assert cells.profiled.readers("0", 7) == "–"


def test_loading_is_told_by_the_operators_time_per_document_and_by_how_it_was_read():
    of = race("x")
    for sample in of.samples:
        if sample.kind == "esql-profiled":
            sample.meta["process_ms"] = 0.002 * sample.meta["documents"] * (1 if sample.meta["pages_other"] else 3)
    found = {cost.name: cost for cost in esql.costs(of)}
    in_sequence, at_random = ("100.0 %", "10.0 %", "5.0 %", "1.0 %"), ("10.0 %", "5.0 %", "1.0 %")
    names = {f"loading {share}, sequential": 6000 for share in in_sequence}
    names |= {f"loading {share}, random": 2000 for share in at_random}
    assert {name: cost.each.value for name, cost in found.items()} == pytest.approx(names)
    assert str(found["loading 1.0 %, random"].loops[0]) == str(esql.loading("random", 10, "value"))


def test_what_loading_is_of_took_is_told_beside_its_time():
    of = race("x", rounds=5)
    for sample in of.samples:
        if sample.kind == "esql-profiled":
            sample.meta.update(process_ms=30.0, took_ms=40.0)
    row = rows_of(section(of, "What loading text costs, by share of the documents"))["10.0 %"]
    assert (row["loading_ms"].value, row["part"].value, row["n"], row["documents"]) == (30, 0.75, 5, 10_000)


def test_the_slowest_query_is_named_with_its_share():
    lines = dict(answer_of(race("x")).lines())
    assert lines["slowest query"].endswith("at 100.0 % of the documents")
    assert float(lines["slowest query"].split()[0]) == pytest.approx(took(1000, True), rel=0.03)
    slow = dict(answer_of(race("x", own=1.0)).lines())["slowest query"]
    assert slow.endswith("at 20.0 % of the documents") and float(slow.split()[0]) == pytest.approx(20 + 160, rel=0.03)


def test_published_times_are_those_before_and_after_the_change():
    """By share in permille; from 10 % on what was read otherwise before is read in sequence."""
    before = {1000: 403, 999: 3990, 990: 4069, 900: 3468, 300: 1213, 200: 766, 100: 397, 90: 352, 80: 304, 70: 273}
    after = {1000: 401, 999: 436, 990: 440, 900: 421, 300: 152, 200: 104, 100: 55, 90: 375, 80: 317, 70: 287}
    before |= {50: 199, 10: 46}
    after |= {50: 204, 10: 46}
    assert {share: (ms, after[share]) for share, ms in before.items()} == esql.REFERENCE


def test_the_share_that_loses_most_is_not_just_the_greatest():
    of = race("x")
    for sample in of.samples:
        if (sample.meta.get("setting"), sample.meta.get("share_permille")) == ("0", 100):
            sample.meta["wall_ms"] *= 3
    worst = dict(answer_of(of).lines())["its own 0.2"]
    assert worst.endswith("as long, at 5.0 % of the documents")
    assert float(worst.split()[3]) == pytest.approx(cost(50, False) / cost(50, True), rel=0.03)


def drawn(figure):
    """The points of a figure by their line and share in percent."""
    return {(row["series"], row["at"]): row["value"] for row in figure.spec["data"]["values"]}


def test_settings_are_told_by_took_their_gain_and_their_figure_by_wall_times():
    of = section(race("a"), "Reading in sequence or not")
    row = rows_of(of)["10.0 %"]
    told = {setting: float(row[setting].split()[0]) for setting in ("0", "1")}
    assert told == pytest.approx({"0": took(100, True), "1": took(100, False)}, rel=0.03)
    assert row["gain"].value == pytest.approx(cost(100, False) / cost(100, True), rel=0.03)
    points = drawn(of.figures[0])
    assert (points["0", 10.0], points["1", 10.0]) == pytest.approx((cost(100, True), cost(100, False)), rel=0.03)


def test_sides_are_held_against_each_other_at_the_shares_that_all_of_their_races_have():
    old, new = race("old", own=1.0), race("new", own=0.5, seed=1)
    new.samples[:] = [s for s in new.samples if s.meta.get("share_permille") != 50]
    for sample in old.samples:
        if sample.meta.get("share_permille") == 1:
            sample.meta["took_ms"] = 0.0
    both = sides.comparison({"old": [old], "new": [new]}, None)
    own, _ = esql.compared(both)
    found = rows_of(own)
    assert list(found) == ["100.0 %", "20.0 %", "10.0 %", "1.0 %", "0.1 %"]
    assert found["0.1 %"]["ratio"] is None and found["1.0 %"]["ratio"].value == pytest.approx(1, rel=0.05)
    assert "turn sequential" not in own.text, "the cut-off is not the one that was shipped"
    points = drawn(own.figures[0])
    assert points[both.sides[0].title, 20.0] == pytest.approx(took(200, False), rel=0.03)


def test_the_break_even_point_is_asked_of_bare_loops_by_share():
    (found,) = esql.break_evens(race("a"))
    assert found.seen.value == pytest.approx(0.0057, rel=0.1) and list(found.loops) == [0.005, 0.01, 0.02, 0.05, 0.1]
    in_sequence, at_random = (loop.parameters for loop in found.loops[0.02])
    assert in_sequence == {"access": "sequential", "form": "value", "permille": "20"}
    assert at_random == in_sequence | {"access": "random"}
    assert esql.break_evens(race("old", settings=("as is",), own=2.0)) == []
    assert esql.break_even(esql.Shares(race("a")), "0", "1", [50]) is None, "one share tells no point between"


def test_published_figures_stand_beside_those_of_the_same_share_and_of_no_other_texts():
    _, table = esql.reference(race("a"))
    found = {row["share"]: (row["own here"].value, row["before"], row["after"]) for row in table.rows}
    assert list(found) == ["100.0 %", "20.0 %", "10.0 %", "5.0 %", "1.0 %"]
    assert found["20.0 %"] == (pytest.approx(took(200, True), rel=0.03), 766, 104)
    assert esql.reference(race("a", text_form="log-line")) == []
