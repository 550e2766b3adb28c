"""Races whose documents were damaged in the store: a report that says what is missing, or one line."""

import copy
import json
from functools import partial

import pytest
from capacities import curve, made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import RECORDED, Store, documents_of, recorded, reported, written

from _tools.report import write
from _tools.report.race import Race
from _tools.report.sound import Clock
from _tools.report.store import load
from cluster_metrics.core.challenge import challenges

ODD = st.sampled_from(
    [None, "", "x", "12", "# x\n", -1, 0, 1e308, 2**70, True, [], {}, {"a": 1}, [None], "[]", "{}", "[{}]", '{"a":']
)
MADE = ("capacity-curve", "capacity-indexing", "capacity-mixed", "capacity-query")
"""Challenges whose races are made up: recorded ones are large."""
CHALLENGES = sorted((*MADE, *(path.name.removesuffix(".json.gz") for path in RECORDED.iterdir())))
WHERE = st.floats(0, 1, exclude_max=True)
HOW = st.sampled_from(
    ["drop key", "set key", "drop document", "set document", "drop kind", "drop race key", "set race key"]
)
CHANGES = st.lists(st.tuples(HOW, WHERE, WHERE, ODD), min_size=1, max_size=4)
SLOWLY = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


def stored(challenge, every=50):
    """A race as it lies in the store; of one that is made up a part of its requests."""
    if challenge not in MADE:
        return recorded(challenge)
    make = curve if challenge == "capacity-curve" else partial(made, challenge=challenge)
    race, documents = documents_of(make("recorded", passes=1))
    kinds = ("capacity-index", "capacity-query")
    return race, [d for i, d in enumerate(documents) if d["operation-type"] not in kinds or i % every == 0]


def paths(value, at=()):
    """Paths to all values within a document, those within JSON texts left to themselves."""
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))


def damage(race, documents, how, where, which, odd):
    """Changes a race in one way.

    :param where: which document, as a part of all of them.
    :param which: which of its values, likewise.
    """
    if "race" in how or not documents:
        found = [key for key in race if key != "race-id"]
        change(race, (found[int(which * len(found))],), how, odd)
        return
    one = documents[int(where * len(documents))]
    if how == "drop kind":
        documents[:] = [d for d in documents if d.get("operation-type") != one.get("operation-type")]
    elif how == "drop document":
        documents.remove(one)
    elif how == "set document":
        one["meta"] = odd
    elif found := list(paths(one))[1:]:
        change(one, found[int(which * len(found))], how, odd)


def change(document, path, how, odd):
    *to, last = path
    for key in to:
        document = document[key]
    if how.startswith("drop"):
        del document[last]
    else:
        document[last] = odd


@pytest.mark.parametrize("challenge", CHALLENGES)
def test_a_race_as_recorded_is_complete_but_for_keys_that_came_later(challenge, tmp_path):
    assert all("an older version of this track" in problem for problem in reported(*stored(challenge), tmp_path))


@pytest.mark.parametrize("challenge", [name for name in CHALLENGES if challenges()[name].compared])
def test_a_race_is_compared_with_one_like_it(challenge, tmp_path):
    race, documents = stored(challenge, every=1)
    store = Store((race | {"race-id": "other"}, documents), (race, documents))
    names = ["other", race["race-id"]]
    assert written(store, lambda ini: write.write_comparison(ini, names, tmp_path, tmp_path / "noise.json")) is not None


def test_what_a_part_of_a_report_lacks_is_a_fault_that_tells_where():
    race, found = write.attempted(Race({}, [], {}), lambda race: json.loads("{"))
    (fault,) = race.faults
    assert found == [] and fault.startswith("Its samples do not suffice for all of the report: JSONDecodeError (")
    assert " in decoder.py, line " in fault


@pytest.mark.parametrize("seconds", [-3600, 3])
@pytest.mark.parametrize(
    "challenge", [name for name in CHALLENGES if name != "ingest"]
)  # recorded with single requests
def test_a_step_of_the_load_drivers_clock_is_named(challenge, seconds, tmp_path):
    race, documents = copy.deepcopy(stored(challenge))
    for document in documents:
        document["relative-time"] = document["@timestamp"]
        document["@timestamp"] += 10**12  # those that are made up begin at 0
    compared = challenges()[challenge].compared.sample
    timed = (compared, "ingest-bulk", "capacity-index", "capacity-query")
    own = [d for d in documents if d.get("operation-type") in timed]
    step = sorted(d["@timestamp"] for d in own)[len(own) // 3]
    before = reported(race, documents, tmp_path / "before")
    for document in documents:
        if document["@timestamp"] >= step:
            document["@timestamp"] += 1000 * seconds
    problems = set(reported(race, documents, tmp_path / "after")) - set(before)
    assert any(f"the load driver's clock was set by {abs(seconds):,} s" in problem for problem in problems)


def clock_steps(challenge, documents):
    clock = Clock(challenges()[challenge])
    for document in documents:
        clock.look(document)
    return list(clock.steps())


def test_a_sample_that_waited_before_its_first_request_is_no_step_of_a_clock():
    task = {"task": "t", "operation-type": "k", "meta": {"pass": 1}}
    waited = [(0, 9_000), (9_100, 9_100), (9_200, 9_200), (9_300, 9_300)]
    found = (task | {"@timestamp": at, "relative-time": ran} for at, ran in waited)
    assert not clock_steps("query-decomp", found)


@pytest.mark.parametrize("kind, units", [("monitor", []), ("ingest-epoch", ["round", "epoch"])])
def test_tasks_of_one_name_that_follow_each_other_are_no_step_of_a_clock(kind, units):
    task = {"task": kind, "operation-type": kind}
    found = [
        task | {"meta": dict.fromkeys(units, i), "@timestamp": 2_100 * i + 4 + i, "relative-time": 4 + i}
        for i in range(1, 6)
    ]
    assert not clock_steps("ingest", found)


def alone(challenge, race, documents, folder):
    reported(race, documents, folder)


def beside_it_whole(challenge, race, documents):
    whole, of = stored(challenge)
    return Store((whole | {"race-id": "whole"}, of), (race, documents))


def ranked(challenge, race, documents, folder):
    store = beside_it_whole(challenge, race, documents)
    for test_mode in (False, True):  # not all recorded races tell it
        written(store, lambda ini, mode=test_mode: write.write_changes(ini, race["race-id"], folder, mode))


def compared(challenge, race, documents, folder):
    names = ["whole", race["race-id"]]
    store = beside_it_whole(challenge, race, documents)
    written(store, lambda ini: write.write_comparison(ini, names, folder, folder / "noise.json"))


ENDS = (alone, ranked, compared)
"""What a race may end in."""


def held(challenge, folder, changes, end):
    race, documents = copy.deepcopy(stored(challenge))
    for how, where, which, odd in map(copy.deepcopy, changes):
        damage(race, documents, how, where, which, odd)
    end(challenge, race, documents, folder)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("started", ["x", "20261341T000000Z"])
def test_a_race_that_does_not_say_when_it_started_is_refused(started, end, tmp_path):
    race, documents = stored("query-decomp")
    end("query-decomp", race | {"race-timestamp": started}, documents, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("challenge", CHALLENGES)
@given(changes=CHANGES, end=st.sampled_from(ENDS))
@settings(max_examples=2, **SLOWLY)
def test_a_damaged_race_is_reported_or_refused_in_one_line(challenge, tmp_path_factory, changes, end):
    held(challenge, tmp_path_factory.mktemp("reports"), changes, end)


@pytest.mark.long
@pytest.mark.parametrize("challenge", CHALLENGES)
@given(changes=CHANGES, end=st.sampled_from(ENDS))
@settings(max_examples=150, **SLOWLY)
def test_many_damaged_races_are_reported_or_refused_in_one_line(challenge, tmp_path_factory, changes, end):
    held(challenge, tmp_path_factory.mktemp("reports"), changes, end)


def test_a_round_that_failed_in_part_keeps_what_it_recorded():
    race, documents = copy.deepcopy(stored("query-decomp"))
    failed = [d for d in documents if d.get("operation-type") == "query-plan"]
    for document in failed:
        document["meta"] |= {"success": False, "error-type": "failed-samples"}
    found = load(Store((race, documents)), "recorded")
    assert len(found.of("query-plan")) == len([d for d in failed if d["name"] == "service_time"]) > 0
