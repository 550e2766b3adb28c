"""Param source and runner of ingest-formats: the same documents as JSON and as SMILE, in requests of many sizes."""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from . import weblogs
from .bulk import send_bulk
from .corpora import corpus_in
from .corpus import NAME
from .coverage import Coverages, shuffled
from .encoded import ACTION, EncodedRows
from .ingest_cell import IngestCell, run_cells
from .ingest_decomp import has_orjson
from .rounds import round_result, timed
from .weblogs import EncodedLog, WebLog

CORPORA = ("metrics", "weblogs")
"""What is ingested: rows of the corpus, documents of the web log."""
BASE = "json"
"""The format that all others are held against."""
LOG_PART = 2
"""A cell ingests one document of the web log where it would ingest so many rows: one costs about twice as much."""
ENCODED = 2000
"""Documents that each encoder encodes in a round."""
ENCODING = "encode-documents"
"""``operation-type`` of the sample that an encoder leaves."""


def log_of(params: dict[str, Any], rows_per_epoch: int) -> WebLog:
    """The web log of an operation: as many documents as a cell has rows."""
    return WebLog(min(params["format-rows"], rows_per_epoch), params["seed"])


def encoders() -> dict[str, Callable[[Any], bytes]]:
    """Ways to encode an action or a document, by name; orjson where it is installed."""
    found = {name: encoding.encode for name, encoding in weblogs.ENCODINGS.items()}
    if has_orjson():
        import orjson

        found["orjson"] = orjson.dumps
    return found


class _Documents:
    """The documents of one corpus in all formats.

    :param encoded: bulk bodies by format.
    :param least: documents of a cell, unless its clients need more to have a request each.
    :param most: documents that there are.
    :param mappings: of the index.
    :param decoded: some documents as Python objects.
    """

    def __init__(
        self,
        encoded: dict[str, EncodedRows] | dict[str, EncodedLog],
        least: int,
        most: int,
        mappings: dict[str, Any],
        decoded: list[dict[str, Any]],
    ):
        self.encoded, self.least, self.most, self.mappings, self.decoded = encoded, least, most, mappings, decoded

    def cells(self, corpus: str, bulk_sizes: list[int], clients: list[int]) -> Iterator[tuple]:
        """Each cell with its number of documents and the mappings of its index."""
        for encoding, encoded in self.encoded.items():
            send = partial(send_bulk, content_type=encoded.content_type)
            for bulk_size, count in itertools.product(bulk_sizes, clients):
                name = f"{corpus}-{encoding}-{bulk_size}-by-{count}"
                meta = {"corpus": corpus, "encoding": encoding}
                cell = IngestCell(name, encoded.body, send, count, bulk_size, meta=meta)
                yield cell, min(self.most, max(self.least, bulk_size * count)), self.mappings


class IngestFormatsParams:
    """Param source of the rounds: every corpus in every format, bulk size and number of clients, in seeded order.

    Mandatory keys: ``corpora``, ``encodings``, ``bulk-sizes``, ``client-counts`` (0 is as many as this load driver has
    cores), ``format-rows``, ``settings``, ``seed``, ``delete-foreign-index``; the track processor adds
    ``warmup-iterations``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._params = params
        self._coverages = Coverages(track, 0)
        self._corpus = corpus_in(track)
        self._mappings = next(i for i in track.indices if i.name == NAME).body["mappings"]
        self._rounds = itertools.count(1 - params["warmup-iterations"])
        self._documents: dict[str, _Documents] = {}
        self._cells: dict[str, tuple] = {}

    def partition(self, partition_index: int, total_partitions: int) -> "IngestFormatsParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._rounds)
        if not self._cells:  # no sooner, for Rally makes param sources before the corpus is there
            self._documents = {name: getattr(self, f"_{name}")() for name in self._params["corpora"]}
            clients = list(dict.fromkeys(n or os.cpu_count() or 1 for n in self._params["client-counts"]))
            self._cells = {
                cell[0].name: cell
                for name, documents in self._documents.items()
                for cell in documents.cells(name, self._params["bulk-sizes"], clients)
            }
        order = shuffled(list(self._cells), self._params["seed"], "formats", number)
        return {
            "round": number,
            "cells": [self._cells[name] for name in order],
            "documents": {name: documents.decoded for name, documents in self._documents.items()},
            "settings": self._params["settings"],
            "delete-foreign-index": self._params["delete-foreign-index"],
        }

    def _metrics(self) -> _Documents:
        corpus, path = self._corpus, self._coverages.rows_file(1)
        encoded = {name: EncodedRows(corpus, 1, path, name) for name in self._params["encodings"]}
        with open(path, "rb") as f:
            decoded = [json.loads(line) for line in itertools.islice(f, ENCODED)]
        return _Documents(encoded, self._params["format-rows"], corpus.rows_per_epoch, self._mappings, decoded)

    def _weblogs(self) -> _Documents:
        log = log_of(self._params, self._corpus.rows_per_epoch)
        folder = Path(self._coverages.rows_file(1)).parents[1]
        encoded = {name: EncodedLog(log, name, folder) for name in self._params["encodings"]}
        least = max(1, self._params["format-rows"] // LOG_PART)
        return _Documents(encoded, least, log.documents, weblogs.MAPPINGS, list(itertools.islice(log.rows(), ENCODED)))


def encode_all(corpus: str, name: str, encode: Callable[[Any], bytes], documents: list[dict[str, Any]]) -> dict:
    """Encodes documents with their actions, one by one as a client would that sends them.

    :return: a sample with ``corpus``, ``encoder``, ``documents``, ``client_cpu_ms`` and ``bytes``.
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
        "success": True,
        "dependent_timing": timed(f"{corpus}-{name}", ENCODING, absolute_time, started, ended),
    }


class IngestFormatsRunner:
    """Runs one round: every cell once, each into a fresh index, and every encoder once.

    Each cell goes to the metrics store as a ``service_time`` document of its own (``operation-type: ingest-cell``) with
    the keys of :func:`cluster_metrics.ingest_cell.run_cell`, ``corpus``, ``encoding`` and ``round``; each encoder as
    one with ``operation-type: encode-documents`` and the keys of :func:`encode_all` and ``round``.

    :raises esrally.exceptions.RallyAssertionError: when documents were lost or refused; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        number = params["round"]
        timings, errors = await run_cells(
            es, number, params["cells"], params["settings"], params["delete-foreign-index"]
        )
        for corpus, documents in params["documents"].items():
            for name, encode in encoders().items():
                timings.append(encode_all(corpus, name, encode, documents) | {"round": number})
        return round_result(timings, errors, round=number)

    def __repr__(self) -> str:
        return "ingest-formats"
