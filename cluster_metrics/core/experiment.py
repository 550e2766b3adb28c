"""The track processor: checks the parameters, lays out the corpora and the passes, and has the corpora generated."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import timezone
from pathlib import Path
from typing import Any

from esrally import exceptions
from esrally.track import loader
from esrally.utils import console

from ..corpus import prepared
from ..corpus.files import CorpusError
from . import challenge as records
from .index import marks_of
from .monitor import MONITOR
from .parameters import RACE_MINUTES
from .rounds import Runner, shuffled
from .served import NONE, Served


class Experiment(loader.TrackProcessor):
    """Turns the track as its JSON has it into the experiment that the parameters describe.

    Rally runs ``on_after_load_track`` in every process that loads the track, so it is cheap and depends on nothing but
    the parameters.
    """

    def __init__(self) -> None:
        self.cfg: Any = None  # set by Rally when the processor is registered

    def on_after_load_track(self, track: Any) -> None:
        test_mode = self.cfg.opts("track", "test.mode.enabled", mandatory=False, default_value=False)
        given, own = track.meta_data.pop("parameters"), track.meta_data.pop("own")
        values = check(given)
        if test_mode:
            values["test_mode"] = True  # no parameter, but recorded with them
            # Rally itself makes it one warm-up and one counted iteration per task
            for record in records.challenges().values():
                values |= capped(values, record)
        if (drivers := len(self.cfg.opts("driver", "load_driver_hosts", mandatory=False, default_value=[]))) > 1:
            values["load_drivers"] = drivers  # likewise
            _check_load_drivers(records.challenges()[track.selected_challenge_or_default.name], values)
        values |= self._own_sizes(track, own, test_mode)
        for corpus in corpora_of(values, test_mode).values():
            values |= corpus.sizes()
            prepared.lay_out(track, corpus)
        for record in records.challenges().values():
            values |= record.derived(values)
        self._mark_indices(track, values, test_mode)
        operations = records.operations()
        for challenge in track.challenges:
            record = records.challenges()[challenge.name]
            schedule = copy.deepcopy(challenge.schedule)  # Rally shares an operation between challenges
            challenge.schedule = without_idle_monitors(schedule)
            of = {name: records.parameters()[name].check(value) for name, value in own.get(challenge.name, {}).items()}
            parameters = values | of | (capped(of, record) if test_mode else {})
            challenge.schedule = lay_out_passes(challenge.schedule, parameters)
            challenge.schedule = record.lay_out(challenge.schedule, parameters)
            leaves = (leaf for element in challenge.schedule for leaf in element)
            tasks = [(task, operations[task.operation.type]) for task in leaves if task.operation.type in operations]
            plans = [task for task, operation in tasks if operation.rounds]
            for left, task in zip(range(len(plans), 0, -1), plans if RACE_MINUTES in record.parameters else []):
                task.operation.params |= self._time_left(values, left)
            created = any(operation.creates for _, operation in tasks)
            for task, operation in tasks:
                task.operation.params |= {"parameters": parameters, "created": created}
                if operation.rounds:
                    rounds = rounds_of(task, parameters[operation.rounds])
                    task.iterations = len(rounds)
                    iterations = {"warmup-iterations": task.warmup_iterations, "iterations": task.iterations}
                    task.operation.params |= iterations | {"first-round": rounds.start}

    def _own_sizes(self, track: Any, own: Mapping[str, Any], test_mode: bool) -> dict[str, Any]:
        """Defaults of the challenge that is raced for what its corpora depend on: they are laid out once."""
        record = records.challenges()[track.selected_challenge_or_default.name]
        sized = {name for kind in record.corpora for name in kind.parameters}  # type: ignore[attr-defined]
        of = {n: records.parameters()[n].check(v) for n, v in own.get(record.name, {}).items() if n in sized}
        return of | (capped(of, record) if test_mode else {})

    def _time_left(self, values: dict[str, Any], plans: int) -> dict[str, Any]:
        """What a plan needs to know of the time that the race may take; nothing where it may take any."""
        started = self.cfg.opts("system", "time.start", mandatory=False)
        if not values["race_minutes"] or started is None:
            return {}
        return {
            "deadline": started.replace(tzinfo=timezone.utc).timestamp() + 60 * values["race_minutes"],
            "plans": plans,
        }

    def _mark_indices(self, track: Any, values: dict[str, Any], test_mode: bool) -> None:
        """Has each index be as its corpus shapes it, and carry the race that creates it, and what that loads."""
        race = " of ".join(str(self.cfg.opts("system", key, mandatory=False)) for key in ("race.id", "time.start"))
        for corpus in corpora_of(values, test_mode).values():
            target = prepared.index_of(track, corpus)
            for index in (index for index in track.indices if index.name == target):
                index.body = corpus.shape(index.body, values)
                index.body["mappings"]["_meta"] = marks_of(values, corpus, race)

    def on_prepare_track(self, track: Any, data_root_dir: str) -> Iterator[tuple[Callable, dict]]:
        challenge = track.selected_challenge_or_default
        record = records.challenges()[challenge.name]
        tasks = (task for element in challenge.schedule for task in element)
        # none where --include-tasks left operations of Rally's alone, which read rows
        values = next((t.operation.params["parameters"] for t in tasks if "parameters" in t.operation.params), None)
        encodings = list(record.encodings(values)) if values else []
        for kind in record.corpora:
            corpus = prepared.corpus_in(track, kind)
            common = {"name": corpus.name, "corpus": asdict(corpus), "encodings": encodings}
            for number in range(len(corpus.parts())):
                # Rally takes at least 5 s for each
                if not prepared.is_there(corpus, number, Path(data_root_dir) / corpus.name, encodings):
                    yield prepare_part, {"number": number, "data_root": data_root_dir, **common}


def prepare_part(name: str, corpus: dict[str, Any], number: int, encodings: list[str], data_root: str) -> None:
    """Generates one file of a corpus on a load-driver host, unless it is there. Rally runs one per core.

    :param corpus: what it depends on.
    :param number: of the file, counted from 0.
    :param encodings: of the bulk bodies to be made besides.
    """
    made = records.corpora()[name](**corpus)
    try:
        prepared.generate(made, number, Path(data_root) / name, encodings, lambda line: console.info(line, flush=True))
    except CorpusError as e:
        raise exceptions.DataError(str(e)) from None


def validate(given: Mapping[str, Any]) -> None:
    """Checks parameters as they were typed, each for itself, for versions of Rally that ask a track to; how they go
    together, :class:`Experiment` checks when the track is loaded.

    :raises esrally.exceptions.TrackConfigError: on the first value that is not allowed.
    """
    known = records.parameters()
    for name, value in given.items():
        if name in known and not (name == "rows_per_epoch" and not value):  # which corpus_bytes tells then
            known[name].check(value)


def check(values: dict[str, Any]) -> dict[str, Any]:
    """Checks the resolved values of all track parameters.

    :param values: name to value, as ``track.json`` resolved them.
    :return: name to value, lists always as lists.
    :raises esrally.exceptions.TrackConfigError: on the first value that is not allowed.
    """
    known = records.parameters()
    by_bytes = known["corpus_bytes"].check(values["corpus_bytes"]) and not values["rows_per_epoch"]
    checked = {
        name: value if name == "rows_per_epoch" and by_bytes else known[name].check(value)
        for name, value in values.items()
    }
    for record in records.challenges().values():
        if problem := next(record.check(checked), None):
            raise exceptions.TrackConfigError(problem)
    try:
        for corpus in corpora_of(checked).values():
            corpus.check()
    except CorpusError as e:
        raise exceptions.TrackConfigError(f"track parameters: {e}") from None
    return checked


def _check_load_drivers(record: records.Challenge, values: Mapping[str, Any]) -> None:
    """Refuses several load drivers where a server is needed that one of them alone has."""
    needed = {"the sketch server": record.needs.sketch_server, "the sampler": record.needs.sampler}
    needed |= {p.server: True for p in record.parameters if isinstance(p, Served) and values[p.name] != NONE}
    if server := next((name for name, wanted in needed.items() if wanted), ""):
        raise exceptions.TrackConfigError(
            f"challenge [{record.name}] must run from one load driver, since {server} serves one alone; "
            f"--load-driver-hosts names {values['load_drivers']}"
        )


def corpora_of(values: Mapping[str, Any], test_mode: bool = False) -> dict[str, Any]:
    """The corpora that checked parameters ask for, by name; in Rally's test mode with at most 1000 documents a file."""
    return {name: kind.of(values, test_mode) for name, kind in records.corpora().items()}


def without_idle_monitors(schedule: list) -> list:
    """A schedule without monitors that look at nothing, since tasks were left out; they would never end."""
    return [element for element in schedule if any(task.operation.type != MONITOR for task in element)]


def lay_out_passes(schedule: list, parameters: Mapping[str, Any]) -> list:
    """Repeats the cells of a schedule once per pass, each pass in an order of its own, what goes ahead of a pass before
    each, and has a part of the plan follow each pass, so that both see the same minutes of a machine.

    All copies keep the names of their tasks, so Rally's summary and ``compare`` show one row per cell over all passes;
    only the first is marked for reporting. Where cells are loaded for a time, passes up to 0 go first, which warm
    up the nodes and count for nothing: one or more, two at least where what goes ahead makes indices ``anew``, as the
    first pass in new indices is slower once more. They have a time of their own, that their cells share in proportion
    to the ``work`` of their operations (1 where none says), without the rates of the cells.

    :param parameters: track parameters as resolved.
    """
    cells, passes = {next(iter(e)).name: e for e in schedule if _operation(e).cell}, parameters["passes"]
    ahead, plans = [e for e in schedule if _operation(e).ahead], [e for e in schedule if _operation(e).rounds]
    if not cells:
        return [element for element in schedule if element not in ahead]
    copies: list = []
    timed = any(task.time_period for cell in cells.values() for task in cell)
    anew = any(task.operation.params.get("anew", False) for element in ahead for task in element)
    uncounted = max(parameters["first_passes"], 1 + anew) if timed else 0
    work = {name: max(task.operation.params.get("work", 1) for task in cell) for name, cell in cells.items()}
    seconds = parameters["first_pass_seconds"] / uncounted / sum(work.values()) if uncounted else 0
    for number in range(1 - uncounted, passes + 1):
        order = shuffled(sorted(cells), parameters["seed"], "pass", number)
        first = not copies
        for element in copy.deepcopy([*ahead, *map(cells.__getitem__, order)]):
            name = next(iter(element)).name
            for task in element:
                if not first:
                    task.operation.params["include-in-reporting"] = False
                if number < 1 and task.time_period:
                    task.time_period = math.ceil(seconds * work[name])
                task.operation.params |= {"pass": number, "warmup-iterations": task.warmup_iterations}
            copies.append(element)
        for part in copy.deepcopy(plans):
            part.operation.params |= {"pass": number, "passes": passes}
            part.warmup_iterations = math.ceil(part.warmup_iterations / passes)
            copies += [part] if rounds_of(part, parameters[_operation(part).rounds]) else []
    laid_out = [*ahead, *cells.values(), *plans]
    begin = schedule.index(laid_out[0])
    return schedule[:begin] + copies + [element for element in schedule[begin:] if element not in laid_out]


def capped(values: Mapping[str, Any], record: records.Challenge) -> dict[str, Any]:
    """Those of these parameters that test mode bounds in a challenge, bounded."""
    return {name: min(values[name], most) for name, most in record.test_mode.items() if name in values}


def rounds_of(task: Any, rounds: int) -> range:
    """The counted rounds of a task, of all that its plan walks: an even part where one follows each pass."""
    number, passes = (task.operation.params.get(key, 1) for key in ("pass", "passes"))
    return range(1 + rounds * (number - 1) // passes, 1 + rounds * number // passes)


def _operation(element: Any) -> records.Operation:
    """What the record says of the first operation of an element; of one of Rally's own, nothing."""
    kind = next(iter(element)).operation.type
    return records.operations().get(kind, records.Operation(kind, Runner))
