"""The track processor: checks the parameters, lays out the corpus and the passes, and has the corpus generated."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from esrally.track import loader
from esrally.utils import console

from . import parameters
from .corpus import NAME, Corpus, CorpusError, generate_epoch
from .coverage import shuffled
from .encoded import generate_encoded

CELL = "query-cell"
PLANS = ("query-plan", "query-profile", "frontier")
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
            most = {"passes": 2, "rounds": 2, "warmup_iterations": 1}
            values |= {name: min(values[name], limit) for name, limit in most.items()}
        corpus = parameters.corpus_of(values, test_mode)
        values["rows_per_epoch"] = corpus.rows_per_epoch
        _lay_out_corpus(track, corpus)
        for challenge in track.challenges:
            challenge.schedule = _lay_out_passes(challenge.schedule, values["seed"], values["passes"])
            for task in (leaf for element in challenge.schedule for leaf in element):
                if task.operation.type == "check-index":
                    task.operation.params["parameters"] = values
                if task.operation.type in PLANS:
                    task.iterations = values["rounds"]
                    task.operation.params["warmup-iterations"] = task.warmup_iterations

    def on_prepare_track(self, track: Any, data_root_dir: str) -> Iterator[tuple[Callable, dict]]:
        documents = next(c for c in track.corpora if c.name == NAME)
        corpus = Corpus(**documents.meta_data)
        for epoch in range(1, corpus.epochs + 1):
            yield (
                prepare_epoch,
                {
                    "corpus": asdict(corpus),
                    "epoch": epoch,
                    "encodings": _encodings(track.selected_challenge_or_default),
                    "data_root": f"{data_root_dir}/{NAME}",
                },
            )


def prepare_epoch(corpus: dict[str, int], epoch: int, encodings: list[str], data_root: str) -> None:
    """Generates one epoch of the corpus on a load-driver host, unless it is there. Rally runs one per core."""
    try:
        generate_epoch(Corpus(**corpus), epoch, Path(data_root), lambda line: console.info(line, flush=True))
        for encoding in encodings:
            generate_encoded(Corpus(**corpus), epoch, encoding, Path(data_root))
    except CorpusError as e:
        raise loader.exceptions.DataError(str(e)) from None


def _encodings(challenge: Any) -> list[str]:
    """The encodings of bulk bodies that the operations of a challenge name under ``encodings``."""
    tasks = (task for element in challenge.schedule for task in element)
    return sorted({encoding for task in tasks for encoding in task.operation.params.get("encodings", [])})


def _lay_out_corpus(track: Any, corpus: Corpus) -> None:
    """Replaces the one document set of ``track.json`` by one per epoch, with names and sizes as generated."""
    documents = next(c for c in track.corpora if c.name == NAME)
    documents.meta_data = asdict(corpus)
    pattern = documents.documents[0]
    documents.documents = []
    for epoch in range(1, corpus.epochs + 1):
        epoch_documents = copy.copy(pattern)
        epoch_documents.document_file = corpus.file_name(epoch)
        epoch_documents.number_of_documents = corpus.rows_per_epoch
        epoch_documents.uncompressed_size_in_bytes = corpus.epoch_bytes(epoch)
        epoch_documents.meta_data = {"epoch": epoch}
        documents.documents.append(epoch_documents)


def _lay_out_passes(schedule: list, seed: int, passes: int) -> list:
    """Repeats the cells of a schedule once per pass, each pass in an order of its own.

    All copies keep the name of the task, so Rally's summary and ``compare`` show one row per cell over all passes; only
    the first is marked for reporting, and only it has warm-up iterations.
    """
    cells = [task for task in schedule if getattr(getattr(task, "operation", None), "type", None) == CELL]
    if not cells:
        return schedule
    by_name = {cell.name: cell for cell in cells}
    copies = []
    for number in range(1, passes + 1):
        for name in shuffled(sorted(by_name), seed, "pass", number):
            cell = copy.deepcopy(by_name[name])
            if number > 1:
                cell.warmup_iterations = 0
                cell.operation.params["include-in-reporting"] = False
            cell.operation.params |= {
                "pass": number,
                "warmup-iterations": cell.warmup_iterations,
                "iterations": cell.iterations,
            }
            copies.append(cell)
    first = schedule.index(cells[0])
    return schedule[:first] + copies + [task for task in schedule[first:] if task not in cells]
