"""Which documents count, what a check tells of a race, and what a race lacks."""

import json

import pytest
from races import MACHINE, TARGET, made

from _tools.report.sample import Sample
from _tools.report.sound import SHOWN, Clock, Sound, gaps, listed, odd_figure, odd_key, printable, read_check
from cluster_metrics.core.challenge import Key, challenges
from cluster_metrics.core.index import CHECKS

CELLS = "A-serial, D_td-msearch, D_td-serial"
CHECK = {
    "success": True,
    "parameters": json.dumps({"rounds": 3}),
    "target": json.dumps([TARGET]),
    "machine": json.dumps(MACHINE),
    "local": False,
    "docs": 5000,
    "segments": 2,
    "store_bytes": 10**6,
}
KNOWN = {
    "parameters": {"rounds": 3},
    "target": [TARGET],
    "machine": MACHINE,
    "local": False,
    "index": {"docs": 5000, "segments": 2, "store_bytes": 10**6},
}


def checked(check):
    faults = []
    return read_check(check, faults), faults


@pytest.mark.parametrize("document", [None, "took", ["took"], 7])
def test_what_is_no_document_is_odd_as_a_whole(document):
    assert odd_key(document, {"took": float}) == "document" and odd_key({"took": 7}, {"took": float}) == ""


def test_a_check_tells_all_circumstances_of_a_race():
    assert checked(CHECK) == (KNOWN, [])
    held = [TARGET | {"cpu_cores": "0.5"}]
    assert checked(CHECK | {"target": json.dumps(held)}) == (KNOWN | {"target": held}, [])


@pytest.mark.parametrize(
    "change, lost, fault",
    [
        ({"docs": "5"}, {"index": {}}, "Its check has no sound figures of the index."),
        ({"docs": None}, {"index": {}}, "Its check has no sound figures of the index."),
        ({"store_bytes": 1e301}, {"index": {}}, "Its check has no sound figures of the index."),
        ({"parameters": "[]"}, {"parameters": {}}, "Its check has no sound [parameters]."),
        ({"parameters": "{"}, {"parameters": {}}, "Its check has no sound [parameters]."),
        ({"target": "{}"}, {"target": []}, "Its check has no sound [target]."),
        ({"target": json.dumps([TARGET, TARGET | {"heap_mb": "1"}])}, {"target": []}, "no sound [target]"),
        ({"target": json.dumps([TARGET | {"cpu_cores": "0"}])}, {"target": []}, "no sound [target]"),
        ({"target": json.dumps([TARGET | {"cpu_cores": "x"}])}, {"target": []}, "no sound [target]"),
        ({"machine": "7"}, {"machine": {}}, "Its check has no sound [machine]."),
        ({"local": "yes"}, {"local": None}, ""),
    ],
)
def test_what_a_check_does_not_tell_soundly_is_unknown_and_named_and_the_rest_holds(change, lost, fault):
    found, faults = checked(CHECK | change)
    assert found == KNOWN | lost
    assert len(faults) == bool(fault) and fault in "".join(faults)


@pytest.mark.parametrize("key", ["docs", "segments", "store_bytes"])
def test_figures_of_the_index_count_all_together_or_not_at_all(key):
    found, faults = checked({name: value for name, value in CHECK.items() if name != key})
    assert found == KNOWN | {"index": {}} and faults == ["Its check has no sound figures of the index."]


def test_races_without_a_machine_or_an_index_lack_nothing_and_one_without_a_check_all():
    few = {key: CHECK[key] for key in ("success", "parameters", "target")}
    nothing = {"machine": {}, "local": None, "index": {}}
    assert checked(few) == (KNOWN | nothing, [])
    found, faults = checked(None)
    assert found == {"parameters": {}, "target": []} | nothing
    assert len(faults) == 1 and all(name in faults[0] for name in CHECKS)


def lacks(race, kept, **parameters):
    return list(gaps(race.record, race.parameters | parameters, kept))


@pytest.mark.parametrize("number", [1, 7, 20])
def test_a_round_that_no_cell_has_is_named_unless_the_time_may_have_cut_it(number):
    race = made("x")
    assert lacks(race, race.samples) == []
    kept = [s for s in race.samples if s.meta["round"] != number]
    assert lacks(race, kept) == [
        f"Samples query-plan of plan lack round {number}.",
        f"Samples coverage of {CELLS} lack round {number}.",
    ]
    assert lacks(race, kept, race_minutes=10) == []


def test_a_round_that_one_cell_has_is_named_of_the_others_whatever_the_time():
    race = made("x")
    kept = [s for s in race.samples if s.meta["round"] not in (4, 5) or s.cell == "A-serial"]
    for minutes in (0, 10):
        found = lacks(race, [s for s in kept if s.kind == "coverage"], race_minutes=minutes)
        assert found == ["Samples coverage of D_td-msearch, D_td-serial lack round 4, 5."]


def passes_of(*numbers):
    return [Sample("query-cell", n, "A-serial", 1.0, {"pass": n}) for n in numbers]


@pytest.mark.parametrize("numbers, lacking", [((1, 2, 3), []), ((1, 2), ["3"]), ((2, 3), ["1"]), ((0, 2), ["1, 3"])])
def test_passes_that_are_missing_altogether_are_named_whatever_the_time(numbers, lacking):
    expected = [f"Samples query-cell of A-serial lack pass {missing}." for missing in lacking]
    for minutes in (0, 10):
        assert lacks(made("x"), passes_of(*numbers), passes=3, race_minutes=minutes) == expected


def test_kinds_of_which_there_is_no_sample_were_not_asked_for():
    assert lacks(made("x"), [], passes=3) == []


def clock_steps(*offsets, ran=lambda i: 1000 * i):
    """Of a task whose samples the load driver's clock saw late by these offsets, in ms."""
    clock = Clock(challenges()["query-decomp"])
    for i, off in enumerate(offsets):
        meta = {"round": i, "success": True}
        document = {"task": "plan", "operation-type": "coverage", "meta": meta, "@timestamp": 10**6 + ran(i) + off}
        clock.look(document | {"relative-time": ran(i)})
    return list(clock.steps())


@pytest.mark.parametrize("step, seconds", [(2000, ""), (2001, "2"), (3000, "3"), (-2000, ""), (-3_600_000, "3,600")])
def test_a_clock_that_was_set_by_more_than_2_s_is_named_with_its_step(step, seconds):
    sentences = [
        f"While plan ran, the load driver's clock was set by {seconds} s: what is told by it, as rates and the order "
        "of samples, is wrong."
    ]
    assert clock_steps(0, 0, 0, step, step) == (sentences if seconds else [])


def test_a_single_sample_that_waited_or_too_few_are_no_step():
    assert clock_steps(0, 0, 9000, 0, 0, 0) == clock_steps(0, 0, 9000) == []


def test_documents_of_an_odd_time_are_left_out_and_counted():
    sound = Sound()
    documents = [{"value": 1.0, "@timestamp": at} for at in (3, -1, 2.5e14, 1, None)]
    assert [d["@timestamp"] for d in sound.ordered(documents, {"value": float, "@timestamp": float})] == [1, 3]
    assert sound.sentences() == ["3 documents have no sound [@timestamp] and are left out."]


def test_many_names_are_cut_with_how_many_more_there_are():
    assert listed(range(SHOWN)) == "0, 1, 2, 3, 4, 5"
    assert listed(range(SHOWN + 2)) == "0, 1, 2, 3, 4, 5 and 2 more"


def test_texts_are_escaped_however_deep_and_numbers_kept():
    odd = {"a\n": [1, {"b": "c\r", "d": None}], "e": 2.5}
    assert printable(odd) == {"a\\n": [1, {"b": "c\\r", "d": None}], "e": 2.5}


@pytest.mark.parametrize(
    "value, sound",
    [
        (["a", "b"], True),
        ([], True),
        (["a", 7], False),
        ([7, "a"], False),
        ("a", True),
        (True, True),
        (7, True),
        ({}, False),
        (None, False),
    ],
)
def test_a_key_without_a_unit_is_a_text_a_number_or_names_and_one_with_a_unit_a_number(value, sound):
    assert odd_figure([Key("names", "", "of something")], {"names": value}) == ("" if sound else "names")
    assert odd_figure([Key("took", "ms", "of something")], {"took": value}) == ("" if value == 7 else "took")
