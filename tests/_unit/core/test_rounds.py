"""Races that fit a time: whole rounds, as many as there is time for."""

import asyncio
import itertools
import math
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import esrally
import pytest
from esrally import exceptions
from esrally.driver import driver
from esrally.track import loader
from fakes import values
from hypothesis import example, given
from hypothesis import strategies as st

from cluster_metrics.core import rounds
from cluster_metrics.core.challenge import challenges, operations
from cluster_metrics.core.experiment import Experiment, corpora_of, prepare_part
from cluster_metrics.core.rounds import ENDING_S, RoundParams, TimeLeft, outcome, round_result, timed
from cluster_metrics.esql.esql_stored_fields import PROFILED_ROUNDS, StoredFieldsParams
from cluster_metrics.query.query_decomp import READING_S, PlanParams
from cluster_metrics.query.query_frontier import FrontierParams

ROOT = Path(__file__).parents[3]


def walked(times, deadline, warm_up=0, plans=1, afterwards=0.0, start=0.0):
    """When the rounds ended that were walked, those that warm up left out.

    :param times: of the rounds in seconds, those of warm-up first.
    """
    left, now, ends = TimeLeft(deadline, plans), start, []
    for number, seconds in enumerate(times, 1 - warm_up):
        if not left.is_enough(now, number > 0, lambda round_s: afterwards):
            break
        now += seconds
        ends += [now] if number > 0 else []
    return ends


def test_rounds_are_walked_as_long_as_they_end_in_time():
    assert len(walked([10.0] * 50, 115)) == 10, "15 s are kept for Rally's own end"
    assert len(walked([10.0] * 50, 114)) == 9
    assert len(walked([10.0] * 50, 100 + ENDING_S, warm_up=3)) == 7
    assert len(walked([10.0] * 50, math.inf)) == 50


def test_the_first_counted_round_is_walked_however_late_it_is():
    assert walked([10.0] * 50, 5.0, warm_up=2) == [30.0]


def test_what_comes_after_the_rounds_is_kept_free():
    assert len(walked([10.0] * 50, 100 + ENDING_S, afterwards=35.0)) == 6


def test_plans_share_the_time_that_is_left():
    first = walked([10.0] * 50, 200 + ENDING_S, plans=2)
    second = walked([10.0] * 50, 200 + ENDING_S, plans=1, start=first[-1])
    assert (len(first), len(second)) == (10, 10)
    late = walked([10.0] * 3, 200 + ENDING_S, plans=2)
    assert len(walked([10.0] * 50, 200 + ENDING_S, start=late[-1])) == 17


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=60), st.floats(20, 2000))
@example([1.0, 1.0], 20.0)
def test_a_round_is_begun_only_if_the_mean_of_those_before_ends_in_time(times, deadline):
    ends = walked(times, deadline)
    assert ends
    for done, end in enumerate(ends[:-1], 1):
        assert end + end / done <= deadline - ENDING_S + 1e-6
    if len(ends) < len(times):
        assert ends[-1] + ends[-1] / len(ends) > deadline - ENDING_S - 1e-6


class Counted(RoundParams):
    def round(self, number):
        return {}


def scheduled(monkeypatch, deadline, warm_up, iterations, round_s):
    """The numbers of the rounds that Rally's own schedule of a task walks, each of so many seconds."""
    clock = itertools.count(1000.0, round_s)
    monkeypatch.setattr(rounds, "time", SimpleNamespace(time=lambda: next(clock)))
    params = {"parameters": {}, "warmup-iterations": warm_up, "iterations": iterations}
    source = Counted(None, params | ({"deadline": deadline, "plans": 1} if deadline else {}))
    control = driver.IterationBased(warm_up, iterations)
    allocation = SimpleNamespace(task=SimpleNamespace(operation=SimpleNamespace(type="x")))
    handle = driver.ScheduleHandle(allocation, SimpleNamespace(next=lambda now: 0), control, None, source)

    async def walk():
        handle.start()
        return [params["round"] async for *_, params in handle()]

    return asyncio.run(walk())


def test_a_task_of_rallys_ends_with_the_last_round_that_fits(monkeypatch):
    assert scheduled(monkeypatch, 0, 2, 5, 10) == [-1, 0, 1, 2, 3, 4, 5]
    assert scheduled(monkeypatch, 1000 + 50 + ENDING_S, 2, 5, 10) == [-1, 0, 1, 2, 3]
    assert scheduled(monkeypatch, 1000 + ENDING_S, 2, 5, 10) == [-1, 0, 1], "one counts, however late it is"


def test_the_deadline_counts_from_the_start_of_the_race():
    experiment = Experiment()
    experiment.cfg = SimpleNamespace(opts=lambda *_, **__: datetime(2026, 1, 1, 12))
    assert experiment._time_left(values(race_minutes=10), 2) == {"deadline": 1767269400.0, "plans": 2}
    assert experiment._time_left(values(), 2) == {}
    experiment.cfg = SimpleNamespace(opts=lambda *_, **__: None)  # as for 'esrally info' of other versions
    assert experiment._time_left(values(race_minutes=10), 2) == {}


@pytest.mark.parametrize("zone", ["UTC", "JST-9", "PST8"])
def test_the_deadline_is_the_same_in_every_time_zone(monkeypatch, zone):
    experiment = Experiment()
    experiment.cfg = SimpleNamespace(opts=lambda *_, **__: datetime(2026, 1, 1, 12))
    parameters = values(race_minutes=10)
    with monkeypatch.context() as here:
        here.setenv("TZ", zone)
        time.tzset()
        found = experiment._time_left(parameters, 2)
    time.tzset()
    assert found["deadline"] == 1767269400.0


def laid_out(params, left_out=lambda task: False, **options):
    """The track as Rally has it after the track processor.

    :param left_out: whether a task is, as by ``--include-tasks`` and ``--exclude-tasks``.
    """
    options |= {"params": params, "time.start": datetime(2026, 1, 1, 12), "race.id": "x"}
    options["rally.root"] = Path(esrally.__file__).parent
    cfg = SimpleNamespace(opts=lambda section, key, default_value=None, **_: options.get(key, default_value))
    track = loader.TrackFileReader(cfg).read("cluster-metrics", str(ROOT / "track.json"), str(ROOT))
    for challenge in track.challenges:
        for element in list(challenge.schedule):
            for task in [task for task in element if left_out(task)]:
                (challenge if task is element else element).remove_task(task)
    experiment = Experiment()
    experiment.cfg = cfg
    experiment.on_after_load_track(track)
    return track


def tasks_of(track, challenge):
    (found,) = (of.schedule for of in track.challenges if of.name == challenge)
    return [task for element in found for task in element]


@pytest.mark.parametrize(
    "challenge, params, lacks",
    [
        ("sketch-floor", {}, "the sketch server"),
        ("cpu-profile", {}, "the sampler"),
        ("ingest-decomp", {"sampler": "127.0.0.1:9"}, "the sampler"),
        ("capacity-query", {"cpu_shares": "127.0.0.1:9"}, "what holds the nodes to their shares of the CPU"),
        ("ingest-decomp", {}, ""),
        ("query-decomp", {"sampler": "127.0.0.1:9"}, ""),  # which takes none
    ],
)
def test_what_needs_a_server_of_one_load_driver_is_refused_from_several(challenge, params, lacks):
    for drivers in (["localhost"], ["a", "b"]):
        options = {"challenge.name": challenge, "load_driver_hosts": drivers}
        if len(drivers) == 1 or not lacks:
            laid_out(params, **options)
            continue
        with pytest.raises(exceptions.TrackConfigError) as e:
            laid_out(params, **options)
        assert str(e.value) == (
            f"challenge [{challenge}] must run from one load driver, since {lacks} serves one alone; "
            "--load-driver-hosts names 2"
        )


def test_test_mode_bounds_what_a_challenge_has_as_a_default_of_its_own():
    track = laid_out({}, **{"test.mode.enabled": True})
    tasks = {c.name: [task for element in c.schedule for task in element] for c in track.challenges}
    assert [task.iterations for task in tasks["query-decomp"] if task.name == "plan"] == [1, 1]
    passes = {task.operation.params["pass"] for task in tasks["capacity-curve"] if "pass" in task.operation.params}
    assert passes == {0, 1, 2}
    assert all(documents.number_of_documents <= 1000 for corpus in track.corpora for documents in corpus.documents)
    for name, of in tasks.items():
        for parameters in [task.operation.params["parameters"] for task in of if "parameters" in task.operation.params]:
            assert parameters["test_mode"] and parameters["rows_per_epoch"] == 1000
            assert all(parameters[n] <= most for n, most in challenges()[name].test_mode.items() if n in parameters)


def test_test_mode_leaves_what_is_less_than_its_bounds():
    track = laid_out({"passes": 1}, **{"test.mode.enabled": True})
    assert [task.name for task in tasks_of(track, "query-decomp")].count("plan") == 1


def test_monitors_are_left_out_with_all_that_they_look_at():
    track = laid_out({}, left_out=lambda task: task.operation.type not in ("monitor", "capacity-drop"))
    kinds = {task.operation.type for of in track.challenges for task in tasks_of(track, of.name)}
    assert kinds == {"capacity-drop"}


@pytest.mark.parametrize("loads", [True, False])
def test_a_check_knows_whether_this_race_makes_the_index(loads):
    track = laid_out({}, left_out=lambda task: not loads and "setup" in task.tags)
    of = [task.operation.params for task in tasks_of(track, "query-decomp")]
    created = [params["created"] for params in of if "created" in params]
    assert created and set(created) == {loads}


def test_the_parts_of_a_plan_are_numbered_through_and_share_its_rounds():
    found = tasks_of(laid_out({"rounds": 10, "passes": 3, "warmup_iterations": 7}), "query-decomp")
    parts = [task for task in found if task.name == "plan"]
    assert [task.iterations for task in parts] == [3, 3, 4]
    for task, first in zip(parts, (1, 4, 7)):
        told = {"first-round": first, "iterations": task.iterations, "warmup-iterations": task.warmup_iterations}
        assert told.items() <= task.operation.params.items() and task.warmup_iterations > 0


def test_the_index_of_a_corpus_is_shaped_by_it_and_no_other():
    track = laid_out({"timestamps": True, "index_mode": "logsdb"})
    modes = {index.name: index.body["settings"].get("index.mode") for index in track.indices}
    assert modes.pop("cluster-metrics") == "logsdb" and modes and set(modes.values()) == {None}


@pytest.mark.parametrize("challenge, encodings", [("ingest-formats", ["json", "smile-32"]), ("query-decomp", [])])
def test_each_file_of_each_corpus_of_a_challenge_is_prepared_with_its_bodies(challenge, encodings):
    track = laid_out({}, **{"challenge.name": challenge})
    prepared = [of for _, of in Experiment().on_prepare_track(track, "/data")]
    kinds = [
        corpora_of(tasks_of(track, challenge)[0].operation.params["parameters"])[kind.name]
        for kind in challenges()[challenge].corpora
    ]
    expected = [(corpus.name, number) for corpus in kinds for number in range(len(corpus.parts()))]
    assert [(of["name"], of["number"]) for of in prepared] == expected
    assert all(set(encodings) <= set(of["encodings"]) and of["data_root"] == "/data" for of in prepared)
    assert bool(prepared[0]["encodings"]) == bool(encodings)


def test_what_is_there_is_not_prepared_again(tmp_path):
    def unprepared():
        return list(Experiment().on_prepare_track(track, str(tmp_path)))

    track = laid_out({"rows_per_epoch": 20}, **{"challenge.name": "ingest-formats", "test.mode.enabled": True})
    first = unprepared()
    for prepare, of in first:
        prepare(**of)
    assert first and not unprepared()
    next(tmp_path.rglob("*.bulk-smile-32")).unlink()
    assert len(unprepared()) == 1


def test_without_operations_of_the_track_its_rows_are_prepared_alone():
    track = laid_out(
        {}, left_out=lambda task: task.operation.type in operations(), **{"challenge.name": "ingest-formats"}
    )
    assert {tuple(of["encodings"]) for _, of in Experiment().on_prepare_track(track, "/data")} == {()}


def test_a_corpus_that_cannot_be_prepared_is_told_as_rally_tells_of_data(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster_metrics.corpus.files.shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(exceptions.DataError, match="free are 10$"):
        prepare_part("cluster-metrics", {"rows_per_epoch": 10}, 0, [], str(tmp_path))


def test_all_tasks_of_a_challenge_take_its_own_defaults():
    """Also where challenges share an operation, as those of capacity share what loads the words."""
    track = laid_out({})
    found = {}
    for challenge in track.challenges:
        of = [task.operation.params for element in challenge.schedule for task in element]
        found[challenge.name] = [params["parameters"] for params in of if "parameters" in params]
    assert all(parameters == of[0] for of in found.values() for parameters in of)
    assert all(challenges()[name].derived(of[0]).items() <= of[0].items() for name, of in found.items())
    assert not any("test_mode" in of[0] or "load_drivers" in of[0] for of in found.values())
    loads = ("ingest", "append-no-conflicts-index-only")
    epochs = [[t.operation.params.get("epochs") for t in tasks_of(track, name)] for name in loads]
    load_and_account = [[[epoch] for epoch in range(1, 6) for _ in range(2)], [[1, 2, 3, 4, 5]] * 2]
    assert [[group for group in of if group] for of in epochs] == load_and_account
    assert found["capacity-curve"][0]["cell_seconds"] == 19 != found["capacity-query"][0]["cell_seconds"]
    assert found["query-decomp"][0]["rounds"] == 100 != found["query-profile"][0]["rounds"]


def test_corpora_are_laid_out_by_the_defaults_of_the_challenge_that_is_raced():
    for challenge, epochs in (("ingest-formats", 1), ("query-decomp", 5)):
        track = laid_out({}, **{"challenge.name": challenge})
        (metrics,) = (corpus for corpus in track.corpora if corpus.name == "cluster-metrics")
        assert len(metrics.documents) == epochs


def test_every_plan_of_a_challenge_knows_how_many_share_the_time():
    track = laid_out({"race_minutes": 5})
    found = {}
    for challenge in track.challenges:
        tasks = [task for element in challenge.schedule for task in element]
        found[challenge.name] = {}
        for task in (t for t in tasks if "deadline" in t.operation.params):
            found[challenge.name].setdefault(task.name, []).append(task.operation.params["plans"])
    assert {name: plans for name, plans in found.items() if plans} == {
        "query-decomp": {"plan": [3, 2, 1]},
        "cpu-profile": {"cpu-profile": [1]},
        "query-profile": {"profile": [1]},
        "query-frontier": {"frontier": [1]},
        "ingest-decomp": {"ingest-steps": [1]},
        "ingest-formats": {"formats": [1]},
        "esql-stored-fields": {"stored-fields": [1]},
    }


def test_a_part_of_the_plan_keeps_the_passes_to_come_free():
    """Of a round of 9 s with 12 of its 27 cells in a pass, each asked 10 + 3 * 5 times without a run-up of 0.1 s, until
    Rally looks whether its task has ended."""
    source = object.__new__(PlanParams)
    source.values = values(warmup_iterations=10, epochs=5)
    source._cells, source._passes_left = dict.fromkeys(range(27)), 2
    assert pytest.approx(7.03, abs=0.01) == 25 * (9 / 27 - 0.1) + READING_S
    assert source.afterwards(9.0) == 2 * 12 * (10 + 1)


@pytest.mark.parametrize("kind, seconds", [(FrontierParams, 2 * (3 + 2)), (StoredFieldsParams, PROFILED_ROUNDS * 7.0)])
def test_what_a_challenge_does_after_its_rounds_is_known(kind, seconds):
    source = object.__new__(kind)
    source.values = {"configurations": ["production", "msearch"], "frontier_cpu_seconds": 3}
    assert source.afterwards(7.0) == seconds


def test_a_round_counts_its_samples_and_fails_where_one_of_them_did():
    def sample(name, *problems):
        return outcome(list(problems), "kind") | {"dependent_timing": timed(name, "coverage", 5.0, 1.0, 1.5)}

    timings = [sample("a"), sample("b", "1", "2", "3", "4"), sample("c", "x")]
    assert timings[0] == {"success": True, "error-count": 0, "dependent_timing": timings[0]["dependent_timing"]}
    assert timings[1]["dependent_timing"] == {
        "operation": "b",
        "operation-type": "coverage",
        "absolute_time": 5.0,
        "request_start": 1.0,
        "request_end": 1.5,
        "service_time": 0.5,
    }
    assert round_result(timings, round=7) == {
        "weight": 3,
        "unit": "samples",
        "round": 7,
        "dependent_timing": timings,
        "success": False,
        "error-count": 2,
        "error-type": rounds.FAILED_SAMPLES,
        "error-description": "b: 1; 2; 3; c: x",
    }
    assert timings[1]["error-count"] == 4
    found = round_result(timings[:1])
    assert (found["weight"], found["success"], found["error-count"]) == (1, True, 0)


def test_a_task_without_iterations_runs_once():
    task = SimpleNamespace(warmup_time_period=None, time_period=None, warmup_iterations=None, iterations=None)
    source = rounds.Params(None, {"parameters": {}})
    assert not driver.requires_time_period_schedule(task, SimpleNamespace(completed=None), source)


def test_a_plan_without_a_deadline_counts_its_rounds_from_the_first_of_its_part():
    source = Counted(None, {"parameters": {}, "warmup-iterations": 2, "first-round": 8})
    assert [source.params()["round"] for _ in range(5)] == [-1, 0, 8, 9, 10]
