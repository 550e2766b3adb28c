"""Param source and runner of ingest-formats: the same documents as JSON and as SMILE, in requests of many sizes."""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

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

CORPORA = ("metrics", "weblogs")
"""What is ingested: rows of the corpus, documents of the web log."""
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

    :param encoded: bulk bodies by format.
    :param least: documents of a cell, unless its clients need more to have a request each.
    :param most: documents that there are.
    :param mappings: of the index.
    :param decoded: some documents as Python objects.
    """

    encoded: dict[str, Bodies]
    least: int
    most: int
    mappings: dict[str, Any]
    decoded: list[dict[str, Any]]

    def cells(self, corpus: str, bulk_sizes: list[int], clients: list[int], backoff: Backoff) -> Iterator[tuple]:
        """Each cell with its number of documents and the mappings of its index."""
        for encoding, encoded in self.encoded.items():
            send = partial(send_bulk, content_type=encoded.content_type, backoff=backoff)
            for bulk_size, count in itertools.product(bulk_sizes, clients):
                name = f"{corpus}-{encoding}-{bulk_size}-by-{count}"
                meta = {"corpus": corpus, "encoding": encoding}
                cell = IngestCell(name, encoded.body, send, count, bulk_size, meta=meta)
                yield cell, min(self.most, max(self.least, bulk_size * count)), self.mappings


class IngestFormatsParams(RoundParams):
    """Param source of the rounds: every corpus in every format, bulk size and number of clients, in seeded order.

    Track parameters: ``format_corpora``, ``formats``, ``bulk_sizes``, ``client_counts`` (0 is as many as this load
    driver has cores), ``format_rows``, ``number_of_shards``, ``number_of_replicas``, ``seed``,
    ``bulk_retries``, ``bulk_retry_pause_ms``, ``delete_foreign_index``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._metrics, self._weblogs = (Prepared(track, kind) for kind in (Metrics, WebLogs))
        self._documents: dict[str, _Documents] = {}
        self._cells: dict[str, tuple] = {}

    def round(self, number: int) -> dict[str, Any]:
        if not self._cells:  # no sooner, for Rally makes param sources before the corpus is there
            made = {"metrics": self._of_metrics, "weblogs": self._of_weblogs}
            self._documents = {name: made[name]() for name in self.values["format_corpora"]}
            clients = list(dict.fromkeys(n or os.cpu_count() or 1 for n in self.values["client_counts"]))
            self._cells = {
                cell[0].name: cell
                for name, documents in self._documents.items()
                for cell in documents.cells(name, self.values["bulk_sizes"], clients, Backoff.of(self.values))
            }
        order = shuffled(list(self._cells), self.values["seed"], "formats", number)
        return {
            "cells": [self._cells[name] for name in order],
            "documents": {name: documents.decoded for name, documents in self._documents.items()},
            "settings": index_settings(self.values),
            "foreign": self.values["delete_foreign_index"],
        }

    def _of_metrics(self) -> _Documents:
        path = self._metrics.file()
        encoded = {name: metrics_bodies(self._metrics.corpus, 1, path, name) for name in self.values["formats"]}
        rows, mappings = self.values["format_rows"], index_body(self.track, NAME)["mappings"]
        return _Documents(encoded, rows, self._metrics.corpus.rows_per_epoch, mappings, _first_of(path))

    def _of_weblogs(self) -> _Documents:
        path = self._weblogs.file()
        encoded = {name: Bodies(path, name) for name in self.values["formats"]}
        least = max(1, self.values["format_rows"] // LOG_PART)
        return _Documents(encoded, least, self._weblogs.corpus.documents, weblogs.MAPPINGS, _first_of(path))


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
