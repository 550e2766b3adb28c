"""The track processor: checks the parameters, lays out the corpus and the passes, and has the corpus generated."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from esrally.track import loader
from esrally.utils import console

from . import parameters
from .corpora import CORPORA, corpus_in, name_of
from .coverage import shuffled
from .encoded import generate_encoded
from .files import CorpusError
from .index import CHECKS
from .ingest import slices
from .ingest_formats import log_of
from .weblogs import WebLog

CELL_STARTS = {"query-cell": 1, "capacity-prepare": 2}
"""Operation types that a headline cell begins with, and of how many elements of the schedule it is made."""
FORMATS = "ingest-formats"
LOADS = ("ingest-bulk", "ingest-epoch")
PLANS = (
    "query-plan",
    "query-profile",
    "frontier",
    "esql-stored-fields",
    "ingest-decomp",
    "sketch-ingest",
    "sketch-questions",
    FORMATS,
)
"""Operation types of tasks whose runner walks a plan in rounds."""


class Experiment(loader.TrackProcessor):
    """Turns the track as its JSON has it into the experiment that the parameters describe.

    Rally runs ``on_after_load_track`` in every process that loads the track, so it is cheap and depends on nothing but
    the parameters.
    """

    def __init__(self) -> None:
        self.cfg: Any = None  # set by Rally when the processor is registered

    def on_after_load_track(self, track: Any) -> None:
        test_mode = self.cfg.opts("track", "test.mode.enabled", mandatory=False, default_value=False)
        values = parameters.check(track.meta_data.pop("parameters"))
        if test_mode:
            # Rally itself makes it one warm-up and one counted iteration per task
            most = {"passes": 2, "rounds": 2, "esql_rounds": 2, "ingest_rounds": 2, "warmup_iterations": 1}
            values |= {name: min(values[name], limit) for name, limit in most.items()}
        for corpus in parameters.corpora_of(values, test_mode).values():
            values |= corpus.sizes()
            _lay_out_corpus(track, corpus)
        for name in ("cell_rows", "format_rows"):
            values[name] = min(values[name], values["rows_per_epoch"])
        for challenge in track.challenges:
            challenge.schedule = _lay_out_passes(challenge.schedule, values["seed"], values["passes"])
            epochs = list(range(1, values["epochs"] + 1))
            groups = [[epoch] for epoch in epochs] if challenge.meta_data.pop("epoch-by-epoch", False) else [epochs]
            challenge.schedule = _lay_out_epochs(challenge.schedule, groups, values)
            for task in (leaf for element in challenge.schedule for leaf in element):
                if task.operation.type in CHECKS:
                    task.operation.params["parameters"] = values
                if task.operation.type in PLANS:
                    task.iterations = values[task.operation.params.get("rounds-parameter", "rounds")]
                    task.operation.params |= {
                        "warmup-iterations": task.warmup_iterations,
                        "iterations": task.iterations,
                    }

    def on_prepare_track(self, track: Any, data_root_dir: str) -> Iterator[tuple[Callable, dict]]:
        challenge = track.selected_challenge_or_default
        name = name_of(challenge.name)
        corpus = corpus_in(track, name)
        common = {
            "name": name,
            "corpus": asdict(corpus),
            "encodings": _encodings(challenge),
            "data_root": data_root_dir,
        }
        for part in range(len(corpus.parts())):
            yield prepare_part, {"part": part, **common}
        for task in (leaf for element in challenge.schedule for leaf in element):
            if task.operation.type == FORMATS and "weblogs" in task.operation.params["corpora"]:
                log = log_of(task.operation.params, corpus.rows_per_epoch)
                for encoding in task.operation.params["encodings"]:
                    yield prepare_log, {"log": asdict(log), "encoding": encoding, "folder": f"{data_root_dir}/{name}"}


def prepare_part(name: str, corpus: dict[str, Any], part: int, encodings: list[str], data_root: str) -> None:
    """Generates one file of a corpus on a load-driver host, unless it is there. Rally runs one per core.

    :param corpus: its parameters.
    :param part: its number, counted from 0.
    :param encodings: of the bulk bodies to be made besides.
    """
    folder, made = Path(data_root) / name, CORPORA[name](**corpus)
    try:
        made.generate(part, folder, lambda line: console.info(line, flush=True))
        for encoding in encodings:
            generate_encoded(made, part + 1, encoding, folder)
    except CorpusError as e:
        raise loader.exceptions.DataError(str(e)) from None


def prepare_log(log: dict[str, int], encoding: str, folder: str) -> None:
    """Encodes a web log on a load-driver host, unless it is there.

    :param log: its parameters.
    """
    try:
        WebLog(**log).generate(encoding, Path(folder))
    except CorpusError as e:
        raise loader.exceptions.DataError(str(e)) from None


def _encodings(challenge: Any) -> list[str]:
    """The encodings of bulk bodies that the operations of a challenge name under ``encodings``."""
    tasks = (task for element in challenge.schedule for task in element)
    return sorted({encoding for task in tasks for encoding in task.operation.params.get("encodings", [])})


def _lay_out_corpus(track: Any, corpus: Any) -> None:
    """Replaces the one document set of ``track.json`` by one per file, with names and sizes as generated."""
    documents = next(c for c in track.corpora if c.name == corpus.name)
    documents.meta_data = asdict(corpus)
    pattern = documents.documents[0]
    documents.documents = []
    for part in corpus.parts():
        document_set = copy.copy(pattern)
        document_set.document_file = part.file
        document_set.number_of_documents = part.docs
        document_set.uncompressed_size_in_bytes = part.size if part.exact else None
        document_set.meta_data = part.meta
        documents.documents.append(document_set)


def _lay_out_epochs(schedule: list, groups: list[list[int]], values: dict[str, Any]) -> list:
    """Repeats the load of a schedule, with the account that follows it, once per group of epochs.

    As with passes all copies keep their names, and only the first is marked for reporting.
    """
    loads = [task for task in schedule if getattr(getattr(task, "operation", None), "type", None) in LOADS]
    if not loads:
        return schedule
    copies = []
    for epochs in groups:
        for load in loads:
            task = copy.deepcopy(load)
            task.operation.params |= {"epochs": epochs, "final": epochs is groups[-1]}
            if epochs is not groups[0]:
                task.operation.params["include-in-reporting"] = False
            if task.operation.type == "ingest-epoch":
                task.operation.params |= {
                    "clients": values["bulk_indexing_clients"],
                    "expected": _documents_to_send(values) * len(epochs),
                }
            elif values["paced"]:
                task.operation.params["pace"] = parameters.pace_of(values)
                task.schedule = "ingest-pace"
            copies.append(task)
    first = schedule.index(loads[0])
    return schedule[:first] + copies + [task for task in schedule[first:] if task not in loads]


def _documents_to_send(values: dict[str, Any]) -> int:
    """Of one epoch by all clients; 0 when Rally's own reader decides."""
    rows, percentage, clients = (values[k] for k in ("rows_per_epoch", "ingest_percentage", "bulk_indexing_clients"))
    if percentage == 100:
        return rows
    if values["bulk_runner"] == "native":
        return 0
    of_clients = (slices(rows, [1], values["bulk_size"], client, clients, percentage) for client in range(clients))
    return sum(count for of_client in of_clients for _, _, count in of_client)


def _lay_out_passes(schedule: list, seed: int, passes: int) -> list:
    """Repeats the cells of a schedule once per pass, each pass in an order of its own.

    All copies keep the names of their tasks, so Rally's summary and ``compare`` show one row per cell over all passes;
    only the first is marked for reporting, and only it has warm-up iterations. Where a cell is loaded for a time
    instead, pass 0 goes ahead, which warms up the nodes and counts for nothing.
    """
    cells = _cells(schedule)
    if not cells:
        return schedule
    copies = []
    first_pass = 0 if max(map(len, cells.values())) > 1 else 1
    for number in range(first_pass, passes + 1):
        for name in shuffled(sorted(cells), seed, "pass", number):
            for element in copy.deepcopy(cells[name]):
                for task in element:
                    if number > first_pass:
                        task.warmup_iterations = 0 if task.warmup_iterations else task.warmup_iterations
                        task.operation.params["include-in-reporting"] = False
                    task.operation.params |= {
                        "pass": number,
                        "warmup-iterations": task.warmup_iterations,
                        "iterations": task.iterations,
                    }
                copies.append(element)
    in_cells = [element for cell in cells.values() for element in cell]
    first = schedule.index(in_cells[0])
    return schedule[:first] + copies + [element for element in schedule[first:] if element not in in_cells]


def _cells(schedule: list) -> dict[str, list]:
    """The cells of a schedule by the name of their first task."""
    found = {}
    for i, element in enumerate(schedule):
        task = next(iter(element))
        if length := CELL_STARTS.get(task.operation.type, 0):
            found[task.name] = schedule[i : i + length]
    return found
