"""The ranking of all changes: which races are in it, in which order, and that all its forms say the same."""

import json
import math
import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from races import MACHINE, TARGET, made
from stores import Store, documents_of, recorded

from _tools.report import changes, write
from _tools.report.answer import times_as_fast
from _tools.report.cells import Cells
from _tools.report.changes import COSTS, answer_of, sections
from _tools.report.gains import inverse, over_base, summed
from _tools.report.race import ReportError, Sample
from _tools.report.ranking import has_less, ranked, ranking
from _tools.report.stats import Estimate
from cluster_metrics.capacity.challenge import INDEX, change_of
from cluster_metrics.core.challenge import SCHEMA
from cluster_metrics.core.change import KINDS, PARTS
from cluster_metrics.core.index import CHECKS
from cluster_metrics.ingest.steps import STEPS
from cluster_metrics.query import configurations
from cluster_metrics.sketch.sketch_floor import INGESTS

ENDS = {"report.md": (r"^\| ", r"\|"), "report.html": (r"^<th[^>]*>", "</th>")}
"""What stands around the first cell of a row."""
NOW = datetime(2026, 1, 3, tzinfo=timezone.utc)
COSTS_OF = {"D_td-serial": 300.0, "D_td-msearch": 100.0, "D_hdr-serial": 300.0, "D_hdr-msearch": 50.0}
RECORDED = ("query-decomp", "query-frontier", "ingest-decomp", "sketch-floor", "query-profile")


def race(race_id, day=1, costs=COSTS_OF, **changes):
    document = {"race-timestamp": f"202601{day:02d}T000000Z"} | changes.pop("document", {})
    return made(race_id, costs=costs, document=document, **changes)


def of(*races, name="last", test_mode=False):
    return ranking(Store(*map(documents_of, races)), name, test_mode, NOW)


def test_changes_are_ranked_by_verdict_and_gain_and_judged_together():
    found = of(race("a"))
    said = [(r.gain.change.text, r.judged.verdict.value) for r in found.changes]
    assert said == [("by msearch and HDR", "improved"), ("by msearch", "improved"), ("HDR, serial", "not shown")]
    assert [r.gain.times.value for r in found.changes] == pytest.approx([6, 3, 1], rel=0.05)
    assert all(r.gain.times.low < r.gain.times.value < r.gain.times.high for r in found.changes)


def test_those_that_improve_come_first_and_those_that_regress_last():
    fewest, most = ({"D_td-serial": 300.0, "D_hdr-serial": ms, "D_td-msearch": 300.0} for ms in (100.0, 500.0))
    uneven = race("uneven", costs=most, spread=0.001)
    for sample in uneven.of("coverage"):
        if sample.cell == "D_hdr-serial":
            sample.meta["wall_ms"] = 200.0 + 10 * sample.meta["round"]
    races = [race("slower", costs=most, spread=0.001), race("few", costs=fewest, rounds=3), uneven]
    found = ranked([*races, race("faster", costs=fewest, spread=0.001)])
    said = [(r.race.id, r.gain.change.text, r.judged.verdict.value) for r in found]
    assert [said[0], said[-1]] == [("faster", "HDR, serial", "improved"), ("slower", "HDR, serial", "regressed")]
    assert [verdict for *_, verdict in said[1:-1]] == ["equivalent"] * 3 + ["not shown"] + ["not enough samples"] * 2
    few = [r.gain.times.value for r in found if r.race.id == "few"]
    assert few == sorted(few, reverse=True) and few[0] == pytest.approx(3, rel=0.1)


def test_costs_that_are_not_known_are_left_out():
    first = of(race("a")).changes[0]
    known = {"target_cpu": Estimate(20, 0.5, 0.4, 0.6, 0.1), "error": 0.0}
    costs = known | {"error_before": math.nan}
    assert replace(first, gain=replace(first.gain, costs=costs)).costs == known


def test_a_combination_stands_there_only_where_it_was_raced():
    costs = {name: ms for name, ms in COSTS_OF.items() if name != "D_hdr-msearch"}
    found = of(race("a", costs=costs))
    assert [r.gain.change.combined for r in found.changes] == [False, False]
    assert [r.gain.change.combined for r in of(race("a")).changes] == [True, False, False]


def test_the_newest_race_decides_and_what_differs_is_named():
    other = [TARGET | {"version": "8.19.4"}]
    machine = MACHINE | {"cpu": "D"}
    races = [race("old", 1), race("new", 2), race("otherwise", 3, target=other), race("elsewhere", 4, machine=machine)]
    assert [r.id for r in of(*races[:2]).races] == ["new"]
    assert [(r.id, found.left_out) for found in [of(*races)] for r in found.races] == [("elsewhere", [])]
    found = of(*races, name="old")
    assert [r.id for r in found.races] == ["new"]
    assert [(left.race.id, left.why) for left in found.left_out] == [
        ("elsewhere", "ran on another machine (CPU)"),
        ("otherwise", "ran on Elasticsearch 8.19.4, not 8.17.2"),
    ]


def test_a_race_of_all_configurations_comes_before_a_newer_one_of_some():
    some, less = ({"parameters": {"variants": of}} for of in (["D_td", "D_hdr"], ["D_td"]))
    older = race("oldest", 1, **some), race("all", 2)
    why = "leaves out some of what an older race has"
    for newer, newest, races in ((["some"], "some", 1), (["some", "less"], "less", 2)):
        found = of(*older, *(race(name, 3 + i, **less) for i, name in enumerate(newer)))
        assert [r.id for r in found.races] == ["all"]
        assert [left.record() for left in found.left_out] == [
            {"challenge": "query-decomp", "races": races, "newest": newest, "why": why}
        ]
    assert not of(race("some", 1, **some), race("all", 2)).left_out
    found = of(race("older", 1, **less), race("newer", 2, **some))
    assert [r.id for r in found.races] == ["newer"] and not found.left_out


@pytest.mark.parametrize(
    "parameters, less",
    [
        ({}, False),
        ({"nodes": 30}, False),
        ({"nodes": [30]}, False),
        ({"transports": ["serial", "msearch"]}, False),
        ({"transports": ["msearch", "serial", "more"]}, False),
        ({"transports": ["serial", "more"]}, False),
        ({"transports": ["serial"]}, True),
        ({"variants": ["A", "B", "C_td", "C_hdr", "D_td", "D_hdr"], "transports": ["serial"]}, True),
    ],
)
def test_a_race_has_less_if_any_of_its_lists_lacks_some_of_the_default_and_adds_nothing(parameters, less):
    assert has_less(race("a", parameters=parameters)) is less


def test_a_race_that_leaves_out_some_passes_for_no_race_of_another_challenge():
    document, documents = documents_of(race("other", 3, parameters={"configurations": ["production"]}))
    found = ranking(
        Store(documents_of(race("a")), (document | {"challenge": "query-frontier"}, documents)), "a", False, NOW
    )
    assert [(left.race.challenge, left.race.id, left.races) for left in found.left_out] == [
        ("query-frontier", "other", 1)
    ]


def test_load_at_the_start_does_not_make_another_machine():
    found = of(race("a", 1), race("b", 2, machine=MACHINE | {"load": 1.5}), name="a")
    assert [r.id for r in found.races] == ["b"]


def test_a_load_driver_elsewhere_makes_another_machine():
    for one, other in ((True, False), (False, True), (True, None), (None, True)):
        found = of(replace(race("a", 1), local=one), replace(race("b", 2), local=other), name="a")
        assert [r.id for r in found.races] == ["a"]
        assert [left.why for left in found.left_out] == ["ran on another machine (where the load driver runs)"]
    assert [r.id for r in of(race("a", 1), race("b", 2), name="a").races] == ["b"]


def test_a_machine_of_which_more_is_known_is_another():
    few, more = race("a", 1), race("b", 2, machine=MACHINE | {"governor": "powersave", "time": 1})
    assert [left.why for left in of(few, more, name="a").left_out] == ["ran on another machine (governor)"]
    assert of(few, more, name="b").races[0].id == "b"
    timed = race("c", 3, machine=MACHINE | {"time": 1})
    assert [r.id for r in of(few, timed, name="a").races] == ["c"]


def test_cores_tell_machines_apart_only_where_the_target_is_elsewhere():
    held = [TARGET, TARGET | {"cores": 1}]
    for local, chosen in ((True, ["b"]), (False, ["a"]), (None, ["a"])):
        races = [replace(race("a", 1), local=local), replace(race("b", 2, target=held), local=local)]
        found = of(*races, name="a")
        assert [r.id for r in found.races] == chosen
        assert [left.why for left in found.left_out] == [
            "ran on another machine (cores of the target)" for race_id in chosen if race_id == "a"
        ]


def test_a_version_of_any_node_tells_targets_apart():
    mixed = race("b", 2, target=[TARGET, TARGET | {"version": "8.19.4"}])
    [left] = of(race("a", 1), mixed, name="a").left_out
    assert left.why == "ran on Elasticsearch 8.17.2, 8.19.4, not 8.17.2"


@pytest.mark.parametrize(
    "why, changes",
    [
        ("ran in test mode", {"parameters": {"test_mode": True}}),
        ("was not finished", {"document": {"results": {}}}),
        ("does not say what it ran on", {"target": []}),
        ("has none of the configurations that changes are held against", {"costs": {"A-serial": 20.0}}),
    ],
)
def test_a_race_that_cannot_be_ranked_gives_way_to_an_older_one_and_alone_is_refused(why, changes):
    newer = race("new", 2, **changes), race("newer", 3, **changes)
    found = of(race("a"), *newer)
    assert [r.id for r in found.races] == ["a"]
    assert [(left.race.id, left.why, left.races) for left in found.left_out] == [("newer", why, 2)]
    with pytest.raises(ReportError, match=rf"no race whose changes could be ranked: race \[newer\] {why}; race at"):
        of(*newer)


def test_where_no_race_can_be_ranked_the_newest_for_each_reason_is_named():
    test, unfinished = {"parameters": {"test_mode": True}}, {"document": {"results": {}}}
    races = [race(name, 1 + i, **how) for i, (name, how) in enumerate({"a": test, "b": unfinished, "c": test}.items())]
    with pytest.raises(ReportError, match=r"ranked: race \[b\] was not finished; race \[c\] ran in test mode; race at"):
        of(*races)
    with pytest.raises(ReportError, match=r"ranked: race \[a\] ran in test mode; race at"):
        of(*races, name="a")
    with pytest.raises(ReportError, match=r"ranked: race \[d\] did not run in test mode; race at"):
        of(race("d"), test_mode=True)


def test_a_race_of_samples_that_this_track_does_not_read_gives_way_to_an_older_one():
    document, documents = documents_of(race("newer", 2))
    next(d for d in documents if d["operation-type"] in CHECKS)["meta"]["schema"] = SCHEMA + 1
    found = ranking(Store(documents_of(race("a")), (document, documents)), "last", False, NOW)
    assert [r.id for r in found.races] == ["a"]
    [left] = found.left_out
    assert left.race.id == "newer" and left.why.startswith(f"has samples of version {SCHEMA + 1}, this")


def test_of_a_tag_or_an_id_the_newest_race_decides_and_none_that_is_older():
    tag = {"user-tags": {"k": "v"}}
    races = [race("a", 1, document=tag), race("b", 2, machine=MACHINE | {"cpu": "D"}, document=tag), race("c", 3)]
    assert [r.id for r in of(*races, name="k:v").races] == ["b"]
    again = race("a", 4, parameters={"test_mode": True})
    with pytest.raises(ReportError, match=r"ranked: race \[a\] ran in test mode"):
        of(*races, again, name="a")


def test_races_in_test_mode_are_ranked_on_request_alone_and_say_that_they_mean_nothing():
    test = race("t", 2, parameters={"test_mode": True})
    found = of(race("a"), test, test_mode=True)
    assert [r.id for r in found.races] == ["t"]
    assert dict(answer_of(found).lines())["test mode"].endswith("none of its figures means anything")


def test_a_race_that_is_named_decides_and_may_say_of_which_commit_it_is():
    older, newer = documents_of(race("a")), documents_of(race("b", 2, machine=MACHINE | {"cpu": "another"}))
    for _, documents in (older, newer):
        next(d for d in documents if d["operation-type"] in CHECKS)["meta"]["revision"] = "abc"
    found = ranking(Store(older, newer), "a", False, NOW)
    assert [r.id for r in found.races] == ["a"] and found.races[0].document["track-revision"] == "abc"


def test_an_incomplete_race_is_left_out_with_its_first_problem():
    document, documents = documents_of(race("broken", 2))
    documents[5]["meta"]["success"] = False
    store = Store(documents_of(race("a")), (document, documents))
    [left] = ranking(store, "last", False, NOW).left_out
    assert left.why.startswith("is INCOMPLETE: Of ")


def test_a_race_behind_a_network_delay_is_left_out():
    found = of(race("a"), race("far", 2, document={"user-tags": {"delay_ms": "0.8"}}))
    assert [r.id for r in found.races] == ["a"]
    assert [left.why for left in found.left_out] == ["ran behind a network delay of 0.8 ms"]


def test_a_challenge_whose_races_were_left_out_is_in_the_store_all_the_same():
    document, documents = documents_of(race("other", 2, document={"user-tags": {"delay_ms": "0.8"}}))
    store = Store(documents_of(race("a")), (document | {"challenge": "query-frontier"}, documents))
    text = "".join(section.text for section in sections(ranking(store, "last", False, NOW)))
    [never] = re.findall("Not in this store: (.*)", text)
    assert not {"query-decomp", "query-frontier"} & {*never.rstrip(".").split(", ")} and "ingest-decomp" in never


def test_ages_are_told_and_other_tracks_and_challenges_that_are_no_more_passed_over():
    other = documents_of(race("x", 2))[0] | {"challenge": "append-no-conflicts", "track": "geonames"}, []
    retired = documents_of(race("y", 2))[0] | {"challenge": "retired"}, []
    found = ranking(Store(documents_of(race("a")), other, retired), "last", False, NOW)
    assert [found.age(r) for r in found.races] == ["2 days"] and not found.left_out


def test_the_answer_names_the_best_of_each_kind():
    found = of(race("a"))
    both, msearch, _ = (times_as_fast(r.gain.times) for r in found.changes)
    assert answer_of(found).lines()[1:] == [
        ("query, client", f"by msearch (query-decomp): {msearch}"),
        ("query, client and query", f"by msearch and HDR (query-decomp): {both}; trade-off: no negative values"),
    ]
    few = of(race("a", rounds=10))
    assert all(r.gain.times.low > 1 for r in few.changes[:2]), "too few for a verdict"
    for nothing in (few, of(race("a", costs=dict.fromkeys(COSTS_OF, 300.0)))):
        assert dict(answer_of(nothing).lines())["recommended"].startswith("nothing: ")


def test_the_answer_names_two_changes_of_a_part_and_one_combination():
    both, msearch, _ = of(race("a")).changes
    named = [finding.name for finding in changes._best([both] * 2 + [msearch] * 3)]
    assert named == ["query, client"] * 2 + ["query, client and query"]


def test_recorded_races_are_ranked_with_what_their_changes_cost():
    found = ranking(Store(*map(recorded, RECORDED)), "last", False, NOW)
    assert [r.challenge for r in found.races] == ["ingest-decomp", "query-decomp", "sketch-floor"]
    whys = {left.race.challenge: left.why for left in found.left_out}
    assert whys.keys() == {"query-frontier", "query-profile"}
    assert whys["query-frontier"].startswith("is INCOMPLETE: No sample frontier-coverage has [client_ms]")
    assert whys["query-profile"].startswith("holds no changes against each other")
    assert {(r.gain.change.part, r.judged.verdict.value) for r in found.changes} == {
        ("ingest", "not enough samples"),
        ("query", "not enough samples"),
    }
    by_step = {r.gain.change.text: r for r in found.changes}
    filtered = by_step["only took and errors in the response"]
    assert set(filtered.costs) == {"target_cpu", "client_cpu", "bytes"} and filtered.gain.against == "constant-action"
    assert filtered.costs["bytes"].value < 0.5
    hdr = by_step["by msearch and HDR"]
    assert set(hdr.costs) == {cost.key for cost in COSTS} - {"store"} and hdr.gain.change.price == "no negative values"
    assert "all steps up to translog-async" in by_step


def test_all_forms_hold_the_same_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write, "connect", lambda ini: Store(documents_of(race("a"))))
    write.write_changes(tmp_path / "rally.ini", "last", tmp_path)
    files = {f.name: f.read_text() for f in (tmp_path / "changes").iterdir()}
    assert sorted(files) == ["answer.svg", "report.html", "report.json", "report.md"]
    record = json.loads(files["report.json"])
    [table] = [t for s in record["sections"] for t in s["tables"] if t["key"] == "changes"]
    texts = [row["change"] for row in table["rows"]]
    assert texts == ["by msearch and HDR", "by msearch", "HDR, serial"]
    assert table["rows"][0]["times"]["n"] == 20 and record["elasticsearch"] == "8.17.2"
    for name, head in (("report.md", "| trade-off"), ("report.html", "trade-off</th>")):
        rows = files[name][files[name].index(head) :]
        before, after = ENDS[name]
        assert [text for text in re.findall(rf"{before}(.+?) *{after}", rows, re.M) if text in texts] == texts
    assert capsys.readouterr().out.strip().splitlines()[:-1] == record["answer"]["lines"]


def test_the_figure_shows_what_the_table_begins_with():
    [section, *_] = sections(of(race("a")))
    [figure] = section.figures
    drawn = json.dumps(figure.spec)
    assert all(text in drawn for text in ("query-decomp", "times as fast"))
    assert "all 3 in the order" in figure.caption


def test_the_inverse_of_a_ratio_keeps_its_interval_about_it():
    assert inverse(Estimate(20, 2.0, 1.6, 2.5, 0.1)) == Estimate(20, 0.5, 0.4, 0.625, 0.1)


def every_change():
    ways = [c for c in configurations.CONFIGURATIONS.values() if c.name != configurations.BASE]
    return [*map(configurations.change_of, ways), *(step.as_change for step in STEPS), change_of(3, 1, 0, 0, INDEX)]


@pytest.mark.parametrize("change", every_change(), ids=lambda change: change.text)
def test_every_change_is_of_a_known_kind_and_part(change):
    assert change.text and change.price
    assert change.part in PARTS
    assert change.kinds and list(change.kinds) == [kind for kind in KINDS if kind in change.kinds]


def test_kinds_follow_from_what_a_configuration_changes():
    kinds = {name: configurations.change_of(c).kinds for name, c in configurations.CONFIGURATIONS.items()}
    assert kinds[configurations.BASE] == ()
    assert kinds["hdr-3"] == kinds["sampler-0.1"] == kinds["terms"] == kinds["esql"] == ("query",)
    assert kinds["msearch"] == kinds["concurrent-4"] == ("client",)
    assert kinds["shards-2"] == kinds["unmerged"] == ("index",)
    assert kinds["cached"] == ("settings",) and kinds["smile"] == ("format",)
    assert kinds["msearch+sorted+hdr-3"] == ("client", "query", "index")
    assert all(set(ingest.kinds) <= set(KINDS) for ingest in INGESTS.values())


def test_costs_are_ratios_to_the_base_of_what_all_samples_have_above_0():
    samples = [
        Sample("x", n, name, 1.0, {"round": n, "cpu": cpu * n, "in": 3.0 * cpu, "out": cpu, "none": n % 2})
        for n in range(1, 8)
        for name, cpu in (("base", 4.0), ("new", 2.0))
    ]
    found = over_base(Cells(samples), "base", "new", cpu="cpu", both=summed("in", "out"), lost="lost", none="none")
    assert list(found) == ["cpu", "both"]
    for cost in found.values():
        assert (cost.n, cost.value, cost.low, cost.high) == pytest.approx((7, 0.5, 0.5, 0.5))


@pytest.mark.parametrize(
    "started, age", [("20260102T223000Z", "1.5 h"), ("20260101T003000Z", "47.5 h"), ("20251227T110000Z", "7 days")]
)
def test_the_age_of_a_race_is_told_in_hours_up_to_two_days(started, age):
    found = of(race("a", document={"race-timestamp": started}))
    assert [found.age(r) for r in found.races] == [age]
