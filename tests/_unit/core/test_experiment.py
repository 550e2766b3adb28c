import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from esrally import exceptions
from fakes import track_of, values

from cluster_metrics.core.challenge import challenges, operations
from cluster_metrics.core.experiment import lay_out_passes, rounds_of
from cluster_metrics.core.rounds import shuffled
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.query_decomp import PlanParams

ROOT = Path(__file__).parents[3]


class Element(SimpleNamespace):
    """A task, or tasks in parallel, as Rally has them: either gives its tasks one by one."""

    def __iter__(self):
        return iter(getattr(self, "tasks", [self]))


def task(name, kind="query-cell"):
    of = SimpleNamespace(type=kind, params={})
    return Element(name=name, operation=of, params={}, warmup_iterations=5, iterations=5, time_period=None)


SCHEDULE = [task("load", "bulk"), *(task(f"cell-{i}") for i in range(6)), task("plan", "query-plan")]


def test_each_pass_has_every_cell_once_and_a_part_of_the_plan_after_them():
    schedule = lay_out_passes(SCHEDULE, values(seed=42, passes=3))
    assert schedule[0].name == "load" and len(schedule) == 1 + 3 * 7
    assert [schedule[7 * p].name for p in (1, 2, 3)] == ["plan"] * 3
    orders = [[t.name for t in schedule[1 + 7 * p : 7 + 7 * p]] for p in range(3)]
    assert all(sorted(order) == [f"cell-{i}" for i in range(6)] for order in orders)
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize(
    "anew, first, uncounted, seconds", [(False, 1, 1, 34), (True, 1, 2, 17), (False, 3, 3, 12), (True, 3, 3, 12)]
)
def test_cells_that_are_loaded_for_a_time_begin_uncounted_and_each_pass_is_prepared(anew, first, uncounted, seconds):
    schedule = [task("build", "capacity-build"), task("prepare", "capacity-pass")]
    schedule[-1].operation.params["anew"] = anew
    for i in range(3):
        loads = [task(f"query-{i}", "capacity-query"), task(f"monitor-{i}", "capacity-monitor")]
        for load in loads:
            load.time_period = 8
        schedule.append(Element(tasks=loads))
    schedule.append(task("drop", "capacity-drop"))
    laid_out = lay_out_passes(schedule, values(seed=42, passes=2, first_passes=first, first_pass_seconds=100))
    assert [laid_out[0].name, laid_out[-1].name] == ["build", "drop"]
    passes = [laid_out[1 + 4 * i : 5 + 4 * i] for i in range(uncounted + 2)]
    assert len(laid_out) == 2 + sum(map(len, passes))
    for i, (prepare, *loads) in enumerate(passes):
        number = i + 1 - uncounted
        assert prepare.name == "prepare" and not prepare.time_period
        assert sorted([t.name for t in load] for load in loads) == [[f"query-{i}", f"monitor-{i}"] for i in range(3)]
        of = [t for element in (prepare, *loads) for t in element]
        assert {t.operation.params["pass"] for t in of} == {number}
        assert {t.time_period for load in loads for t in load} == {8 if number > 0 else seconds}
        assert {t.operation.params.get("include-in-reporting", True) for t in of} == {not i}


def test_cells_share_the_time_that_warms_up_by_their_work():
    schedule = [
        Element(tasks=[task(f"query-{i}", "capacity-query"), task(f"m-{i}", "capacity-monitor")]) for i in (1, 3)
    ]
    for load in (task for element in schedule for task in element):
        load.time_period = 8
    schedule[1].tasks[0].operation.params["work"] = 3
    schedule[1].tasks[1].time_period = None  # which ends with the other
    laid_out = lay_out_passes(schedule, values(seed=42, passes=1, first_pass_seconds=90))
    periods = {(t.name, t.operation.params["pass"]): t.time_period for element in laid_out for t in element}
    first, counted = {"query-1": 23, "m-1": 23, "query-3": 68}, {"query-1": 8, "m-1": 8, "query-3": 8}
    assert periods == {
        (name, number): of.get(name) for number, of in enumerate((first, counted)) for name in (*first, "m-3")
    }


def test_without_cells_no_pass_is_prepared():
    schedule = [task("build", "capacity-build"), task("prepare", "capacity-pass"), task("drop", "capacity-drop")]
    assert [t.name for t in lay_out_passes(schedule, values())] == ["build", "drop"]


@pytest.mark.parametrize("rounds, passes", [(60, 3), (40, 3), (7, 6), (2, 3), (1, 1)])
def test_the_parts_of_the_plan_have_every_round_once(rounds, passes):
    laid_out = lay_out_passes(SCHEDULE, values(seed=42, passes=passes, rounds=rounds))
    parts = [rounds_of(t, rounds) for t in laid_out if t.name == "plan"]
    assert [number for part in parts for number in part] == list(range(1, rounds + 1))
    assert min(map(len, parts)) >= 1 and max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [t.warmup_iterations for t in laid_out if t.name == "plan"] == [math.ceil(5 / passes)] * len(parts)


def test_every_copy_warms_up_and_the_first_is_reported():
    cells = [t for t in lay_out_passes(SCHEDULE, values(seed=42, passes=3)) if t.operation.type == "query-cell"]
    for cell in cells:
        first = cell.operation.params["pass"] == 1
        assert cell.warmup_iterations == cell.operation.params["warmup-iterations"] == 5
        assert cell.operation.params.get("include-in-reporting", True) is first


def test_another_seed_gives_another_order():
    orders = [[t.name for t in lay_out_passes(SCHEDULE, values(seed=seed, passes=1))] for seed in (1, 2)]
    assert orders[0] != orders[1]


def test_order_depends_on_nothing_but_the_key():
    code = "from cluster_metrics.core.rounds import shuffled; print(shuffled(list('abcdefgh'), 42, 'pass', 1))"
    outputs = set()
    for hash_seed in ("1", "2"):
        env = {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        outputs.add(subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout)
    assert outputs == {f"{shuffled(list('abcdefgh'), 42, 'pass', 1)}\n"}


@pytest.fixture
def track(tmp_path):
    return track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=3), root=tmp_path)


def test_a_round_visits_every_cell_once_about_one_epoch(track):
    parameters = values(variants=["A", "D_td"], transports=["serial", "msearch"], seed=42)
    part = {"warmup-iterations": 1, "iterations": 6, "first-round": 13, "pass": 3, "passes": 4}
    source = PlanParams(track, {"parameters": parameters} | part)
    rounds = [source.params() for _ in range(7)]
    assert [r["round"] for r in rounds] == [0, *range(13, 19)] and {r["pass"] for r in rounds} == {3}
    orders = set()
    for r in rounds:
        cells = [(c["variant"], c["transport"]) for c in r["coverages"]]
        assert sorted(cells) == sorted((v, t) for v in ("A", "D_td") for t in ("serial", "msearch"))
        assert [c["coverage"].configuration.name for c in r["coverages"]] == [f"{v}-{t}" for v, t in cells]
        assert len({c["coverage"].epoch for c in r["coverages"]}) == 1
        orders.add(tuple(cells))
    assert len(orders) > 1
    assert {r["coverages"][0]["coverage"].epoch for r in rounds[1:4]} == {1, 2, 3}


class Registry:
    """What Rally hands to a track's plugin."""

    def __init__(self):
        self.found = {"track_processor": [], "runner": [], "param_source": [], "scheduler": []}

    def __getattr__(self, name):
        of = self.__dict__["found"].get(name.removeprefix("register_"))
        if of is None:
            raise AttributeError(name)
        return lambda *what, **options: of.append((*what, *options.items()))


@pytest.fixture
def plugin(monkeypatch):
    """``track.py`` as Rally loads it: in a package of its folder."""
    package = ModuleType("of_track")
    package.__path__ = [str(ROOT)]
    monkeypatch.setitem(sys.modules, "of_track", package)
    yield importlib.import_module("of_track.track")
    for name in [name for name in sys.modules if name.startswith("of_track.")]:
        del sys.modules[name]


def test_a_rally_that_asks_for_validators_gets_one_of_each_challenge(plugin):
    registry = Registry()
    plugin.register(registry)
    assert "validator" not in registry.found
    for kind, attribute in (("param_source", "params"), ("scheduler", "scheduler")):
        named = {record.type for record in operations().values() if getattr(record, attribute)}
        assert {name for name, _ in registry.found[kind]} == named and named
    assert {name for name, *_ in registry.found["runner"]} == set(operations())
    assert all(("async_runner", True) in of for of in registry.found["runner"])
    processors = [type(processor).__name__ for (processor,) in registry.found["track_processor"]]
    assert processors == ["Experiment", "DefaultTrackPreparator"], "the corpora are laid out before they are prepared"
    registry.found["validator"] = []
    plugin.register(registry)
    assert {name for name, _ in registry.found["validator"]} == set(challenges())
    for _, validate in registry.found["validator"]:
        validate({"epochs": 3, "rows_per_epoch": 0, "corpus_bytes": 10**9, "of another plugin": "x"})
        for name, value in (("epochs", 0), ("rows_per_epoch", -1)):
            with pytest.raises(exceptions.TrackConfigError, match=rf"\[{name}\] is \[{value}\], allowed is"):
                validate({"seed": 1, name: value})
