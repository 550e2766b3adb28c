"""Param source and runner of ingest-formats: the same documents as JSON and as SMILE, in requests of many sizes."""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..core.challenge import Values
from ..core.index import index_body
from ..core.rounds import RoundParams, Runner, outcome, round_result, shuffled, timed
from ..corpus.encoded import ACTION, Bodies, metrics_bodies
from ..corpus.metrics import NAME, Metrics
from ..corpus.prepared import Prepared
from ..wire.bulk import Backoff, send_bulk
from . import weblogs
from .cell import IngestCell, index_settings, run_cells
from .ingest_decomp import has_orjson
from .weblogs import WebLogs

CORPORA = ("metrics", "weblogs", "batches")
"""What is ingested: rows of the corpus, lines of the web log, and these in documents of 1 to 64 lines."""
BASE = "json"
"""The format that all others are held against."""
PRICES = {
    "format": "a client that writes the format; what that costs it stands under 'What encoding costs' of its report",
    "bulk size": "requests of another size on both sides; a refused one holds as many documents",
    "clients": "documents arrive in no order",
}
"""What one pays for a change to a cell."""
LOG_PART = 2
"""A cell ingests one document of the web log where it would ingest so many rows: one costs about twice as much."""
BATCHED = 1000
"""Lines of a request of batches, whatever their size."""
READ = 10_000
"""Documents that a cell reads back at most: as many as a search returns unless told otherwise."""
ENCODED = 2000
"""Documents that each encoder encodes in a round."""
ENCODING = "encode-documents"
"""``operation-type`` of the sample that an encoder leaves."""


def encoders() -> dict[str, Callable[[Any], bytes]]:
    """Ways to encode an action or a document, by name; orjson where it is installed."""
    found = dict(weblogs.ENCODERS)
    if has_orjson():
        import orjson

        found["orjson"] = orjson.dumps
    return found


@dataclass(frozen=True)
class _Documents:
    """The documents of one corpus in all formats.

    :param corpus: their name, see ``CORPORA``.
    :param encoded: bulk bodies by format.
    :param least: documents of a cell, unless it takes more to send its requests.
    :param most: documents that there are.
    :param mappings: of the index.
    :param decoded: some documents as Python objects; none where another corpus has the same.
    :param lines: of the web log in a document; 0 for rows.
    """

    corpus: str
    encoded: dict[str, Bodies]
    least: int
    most: int
    mappings: dict[str, Any]
    decoded: list[dict[str, Any]]
    lines: int = 0

    def cells(self, number: int, name: str, bulk_size: int, clients: int, values: Values) -> Iterator[tuple]:
        """A cell for each format, with its number of documents and the mappings of its index.

        :param number: of the round; each goes on where the one before it ended, and begins anew where too few are left.
        :param name: of the cells, with room for the format.
        """
        count = min(self.most, max(self.least, bulk_size * max(clients, values["cell_requests"])))
        start = (max(number, 1) - 1) % (self.most // count) * count
        for encoding, encoded in self.encoded.items():
            meta = {"corpus": self.corpus, "encoding": encoding, "lines": self.lines}
            send = partial(send_bulk, content_type=encoded.content_type, backoff=Backoff.of(values))
            body = _from(start, encoded.body)
            cell = IngestCell(name.format(encoding), body, send, clients, bulk_size, meta=meta, reads=READ)
            yield cell, count, self.mappings


class IngestFormatsParams(RoundParams):
    """Param source of the rounds: every corpus in every format, bulk size and number of clients, and batches of lines
    by one client, in seeded order.

    Track parameters: ``format_corpora``, ``formats``, ``bulk_sizes``, ``client_counts`` (0 is as many as this load
    driver has cores), ``format_rows``, ``cell_requests``, ``weblog_documents``, ``number_of_shards``,
    ``number_of_replicas``, ``seed``, ``bulk_retries``, ``bulk_retry_pause_ms``, ``delete_foreign_index``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._metrics, self._weblogs = (Prepared(track, kind) for kind in (Metrics, WebLogs))
        self._documents: list[_Documents] = []

    def round(self, number: int) -> dict[str, Any]:
        if not self._documents:  # no sooner, for Rally makes param sources before the corpus is there
            made = {"metrics": self._of_metrics, "weblogs": self._of_weblogs, "batches": self._of_batches}
            self._documents = [of for name in self.values["format_corpora"] for of in made[name]()]
        cells = {cell[0].name: cell for cell in self._cells(number)}
        return {
            "cells": [cells[name] for name in shuffled(list(cells), self.values["seed"], "formats", number)],
            "documents": {of.corpus: of.decoded for of in self._documents if of.decoded},
            "settings": index_settings(self.values),
            "foreign": self.values["delete_foreign_index"],
        }

    def _cells(self, number: int) -> Iterator[tuple]:
        clients = list(dict.fromkeys(n or os.cpu_count() or 1 for n in self.values["client_counts"]))
        for of in self._documents:
            if of.corpus == "batches":
                name = f"batches-of-{of.lines}-{{}}"
                yield from of.cells(number, name, max(1, BATCHED // of.lines), 1, self.values)
                continue
            for bulk_size, count in itertools.product(self.values["bulk_sizes"], clients):
                name = f"{of.corpus}-{{}}-{bulk_size}-by-{count}"
                yield from of.cells(number, name, bulk_size, count, self.values)

    def _of_metrics(self) -> Iterator[_Documents]:
        path = self._metrics.file()
        encoded = {name: metrics_bodies(self._metrics.corpus, 1, path, name) for name in self.values["formats"]}
        rows, mappings = self.values["format_rows"], index_body(self.track, NAME)["mappings"]
        yield _Documents("metrics", encoded, rows, self._metrics.corpus.rows_per_epoch, mappings, _first_of(path))

    def _of_weblogs(self) -> Iterator[_Documents]:
        path, most = self._weblogs.file(), self._weblogs.corpus.documents
        least = max(1, self.values["format_rows"] // LOG_PART)
        yield _Documents("weblogs", self._encoded(path), least, most, weblogs.MAPPINGS, _first_of(path), lines=1)

    def _of_batches(self) -> Iterator[_Documents]:
        for number, (part, lines) in enumerate(zip(self._weblogs.corpus.parts()[1:], weblogs.BATCHES), start=1):
            encoded = self._encoded(self._weblogs.file(number))
            yield _Documents("batches", encoded, part.docs, part.docs, weblogs.BATCH_MAPPINGS, [], lines)

    def _encoded(self, path: str) -> dict[str, Bodies]:
        return {name: Bodies(path, name) for name in self.values["formats"]}


def _from(start: int, body: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
    return lambda first, count: body(start + first, count)


def _first_of(path: str) -> list[dict[str, Any]]:
    with open(path, "rb") as f:
        return [json.loads(line) for line in itertools.islice(f, ENCODED)]


def encode_all(corpus: str, name: str, encode: Callable[[Any], bytes], documents: list[dict[str, Any]]) -> dict:
    """Encodes documents with their actions, one by one as a client would that sends them.

    :return: a sample, see ``ENCODED`` of the record.
    """
    absolute_time, started, cpu_s = time.time(), time.perf_counter(), time.process_time()
    size = 0
    for document in documents:
        size += len(encode(ACTION)) + len(encode(document))
    cpu_s, ended = time.process_time() - cpu_s, time.perf_counter()
    return {
        "corpus": corpus,
        "encoder": name,
        "documents": len(documents),
        "client_cpu_ms": 1000 * cpu_s,
        "bytes": size,
        **outcome([], ""),
        "dependent_timing": timed(f"{corpus}-{name}", ENCODING, absolute_time, started, ended),
    }


class IngestFormatsRunner(Runner):
    """Runs one round: every cell once, each into a fresh index, and every encoder once; each is a ``service_time``
    document of its own.

    :raises esrally.exceptions.RallyAssertionError: when documents were lost or refused; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        number = params["round"]
        timings = await run_cells(es, number, params["cells"], params["settings"], params["foreign"])
        for corpus, documents in params["documents"].items():
            for name, encode in encoders().items():
                timings.append(encode_all(corpus, name, encode, documents) | {"round": number})
        return round_result(timings, round=number)
