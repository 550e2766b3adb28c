"""Param source and runner of ingest-decomp: from a naive client to the best one, a change at a time."""

import asyncio
import contextlib
import functools
import importlib.util
import inspect
import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from esrally import exceptions
from esrally.driver import runner
from esrally.track.params import GenerateActionMetaData, MetadataIndexDataReader, Slice
from esrally.utils import io

from ..core.index import index_body
from ..core.rounds import RoundParams, Runner, round_result, shuffled
from ..core.sampler import NONE, Sampler
from ..corpus.encoded import metrics_bodies
from ..corpus.metrics import NAME, Metrics
from ..corpus.prepared import Prepared
from ..wire.bulk import USUAL, Backoff, BulkCounts, failures_in, send_bulk
from ..wire.requests import once
from .cell import INDEX, IngestCell, index_settings, run_cells
from .steps import NATIVE, REQUESTS, SLICES, STEP_NAMES, Client, clients

SAMPLED = "sampled-ingest-cell"
"""``operation-type`` of the sample of a cell that ran while the sampler recorded."""
TIMEOUT_S = 60
"""Of a request that Rally's client does not send; its own default."""


def has_orjson() -> bool:
    """Whether the optional package is there."""
    return importlib.util.find_spec("orjson") is not None


def encoder(dumps: str, constant_action: bool) -> Callable[[list[dict[str, Any]]], bytes]:
    """Makes bulk bodies of decoded rows with the package ``dumps``, the action line a constant or encoded per row."""
    encode: Any = json.dumps
    newline: Any = "\n"
    if dumps == "orjson":
        import orjson

        encode, newline = orjson.dumps, b"\n"
    constant = encode({"index": {}})

    def body(rows: list[dict[str, Any]]) -> bytes:
        if constant_action:
            lines = [line for row in rows for line in (constant, encode(row))]
        else:
            lines = [line for row in rows for line in (encode({"index": {}}), encode(row))]
        joined = newline.join([*lines, newline[:0]])
        return joined.encode() if isinstance(joined, str) else joined

    return body


class _TimedBulk(runner.BulkIndex):
    """Rally's own bulk runner, which also says how long it parses and how much."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_s = 0.0
        self.bytes_in = 0

    def simple_stats(self, bulk_size: int, unit: str, response: Any, params: dict[str, Any]) -> Any:
        started = time.perf_counter()
        stats = super().simple_stats(bulk_size, unit, response, params)
        self.parse_s += time.perf_counter() - started
        self.bytes_in += len(response.getvalue())
        return stats


async def send_by_rally(es: Any, index: str, body: bytes, documents: int) -> BulkCounts:
    """Sends a bulk body, whose action lines name the index, by Rally's own runner; what is not parsing is sending."""
    bulk = _TimedBulk()
    params = {"action-metadata-present": True, "bulk-size": documents, "unit": "docs", "body": body}
    started = time.perf_counter()
    result = await bulk(once(es), params)
    elapsed_s = time.perf_counter() - started
    counts = BulkCounts(
        sent=documents,
        acknowledged=result["success-count"],
        requests=1,
        took_ms=float(result["took"]),
        send_ms=1000 * (elapsed_s - bulk.parse_s),
        parse_ms=1000 * bulk.parse_s,
        bytes_out=len(body),
        bytes_in=bulk.bytes_in,
    )
    if counts.errors:
        counts.rejected["error"] = counts.errors
        counts.reasons = [result.get("error-description", "")]
    return counts


def _post(url: str, config: Any, **options: Any) -> Any:
    """What ``requests.post`` does, by the certificates of Rally's client and, as that, by no proxy of the environment.

    :param config: of a node of that client.
    """
    import requests

    class Trusting(requests.adapters.HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=config.ssl_context, **kwargs)

        def cert_verify(self, *args: Any) -> None:
            """The context does."""

    with requests.Session() as session:
        session.trust_env = False
        if config.ssl_context:
            session.mount("https://", Trusting())
        return session.post(url, verify=config.verify_certs, timeout=TIMEOUT_S, **options)


async def send_by_requests(es: Any, index: str, body: bytes, documents: int) -> BulkCounts:
    """Sends a bulk body by ``requests.post``, a connection for each, and decodes all of the response.

    It runs in a thread, since it would hold up the monitor. A response that is lost loses the cell, as with others.
    """
    import elasticsearch
    import requests

    node = es.transport.node_pool.get()
    url, headers = f"{node.base_url}/{index}/_bulk", {**es._headers, "content-type": "application/x-ndjson"}
    started = time.perf_counter()
    es.on_request_start()
    try:
        answer = await asyncio.to_thread(_post, url, node.config, data=body, headers=headers)
    except requests.RequestException as e:
        raise elasticsearch.ConnectionError(str(e), errors=(e,)) from None
    finally:
        es.on_request_end()
    received = time.perf_counter()
    if answer.status_code >= 300:
        raise exceptions.RallyAssertionError(f"bulk to [{index}] was refused: {answer.status_code} {answer.text[:200]}")
    response = answer.json()
    counts = BulkCounts(
        sent=documents,
        requests=1,
        took_ms=float(response["took"]),
        send_ms=1000 * (received - started),
        parse_ms=1000 * (time.perf_counter() - received),
        bytes_out=len(body),
        bytes_in=len(answer.content),
    )
    counts.lose(failures_in(response, documents))
    return counts


def asked(epoch: int, node: str) -> dict[str, Any]:
    """The filter of the production query: one node and one epoch."""
    return {"bool": {"filter": [{"term": {"node": node}}, {"term": {"epoch": epoch}}]}}


class Rows:
    """The first rows of an epoch in each form that a client starts from, made before anything is timed.

    :param count: how many one client sends, see :meth:`.steps.Client.rows`.
    :param backoff: how rows that a full queue rejected are sent again.
    """

    def __init__(self, corpus: Metrics, epoch: int, rows_file: str, count: int, backoff: Backoff = USUAL):
        self.count, self._corpus = count, corpus
        self._backoff = backoff
        self._file = rows_file
        self._encoded = functools.cache(partial(metrics_bodies, corpus, epoch, rows_file))
        with open(rows_file, "rb") as f:
            self._decoded = [json.loads(f.readline()) for _ in range(count)]
        self._asks = [asked(epoch, node) for node in corpus.node_names()]
        self._bodies: Iterator[tuple[int, bytes]] = iter(())

    def cells(self, design: str, wanted: Collection[str] = STEP_NAMES) -> list[tuple[IngestCell, int]]:
        """The cells of a design, each with how many rows it has, see :func:`.steps.clients`; where all steps are
        wanted, with Rally's own bulk runner as the last."""
        found = clients(design, has_orjson(), self._corpus.timestamps, wanted)
        most = self._corpus.rows_per_epoch
        cells = [(self._cell(name, client), client.rows(self.count, most)) for name, client in found.items()]
        if SLICES not in found:
            return cells
        return [
            *cells,
            (replace(cells[0][0], name=REQUESTS, send=send_by_requests), self.count),
            (IngestCell(NATIVE, self._by_rally, send_by_rally, asks=self._asks), self.count),
        ]

    def _cell(self, name: str, client: Client) -> IngestCell:
        send = partial(send_bulk, filter_path=client.filter_path, backoff=self._backoff)
        if client.sliced or client.encoding != "json":
            encoded = self._encoded(client.encoding)
            body, send = encoded.body, partial(send, content_type=encoded.content_type)
        else:
            encode = encoder(client.dumps, client.constant_action)

            def body(first: int, count: int) -> bytes:
                return encode(self._decoded[first : first + count])

        return IngestCell(
            name,
            body,
            send,
            client.clients,
            client.bulk_size,
            client.settings,
            client.keep_alive,
            partial(client.shaped, self._corpus.in_mode),
            self._asks,
        )

    def _by_rally(self, first: int, count: int) -> bytes:
        if first == 0:
            self._bodies = self._rally_bodies(count)
        documents, body = next(self._bodies)
        if documents != count:
            raise exceptions.RallyAssertionError(f"Rally read {documents:,} rows, {count:,} were due")
        return body

    def _rally_bodies(self, bulk_size: int) -> Iterator[tuple[int, bytes]]:
        """The bodies as the param source of Rally's bulk operation reads them from the rows."""
        index: dict[str, Any] = {"index_name": INDEX}
        if "type_name" in inspect.signature(GenerateActionMetaData).parameters:  # up to Rally 2.13
            index["type_name"] = None
        source, action = Slice(io.MmapSource, 0, self.count), GenerateActionMetaData(**index)
        with MetadataIndexDataReader(self._file, bulk_size, bulk_size, source, action, **index) as reader:
            for _, _, batch in reader:
                yield from batch


class IngestDecompParams(RoundParams):
    """Param source of the rounds: every cell of the design once in seeded order, with the first rows of epoch 1; where
    there is a sampler, some of them once more while it records.

    Track parameters: ``design``, ``ingest_steps``, ``cell_rows``, ``number_of_shards``, ``number_of_replicas``,
    ``seed``, ``bulk_retries``, ``bulk_retry_pause_ms``, ``delete_foreign_index``, ``sampler``, ``sampled_cells``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, Metrics)
        self._cells: dict[tuple[str, str], tuple[IngestCell, int]] = {}

    def round(self, number: int) -> dict[str, Any]:
        if not self._cells:  # no sooner, for Rally makes param sources before the corpus is there
            file, each = self._prepared.file(), self.values["cell_rows"]
            sent = Rows(self._prepared.corpus, 1, file, each, Backoff.of(self.values))
            cells = sent.cells(self.values["design"], self.values["ingest_steps"])
            if self.values["sampler"] != NONE:
                wanted = self.values["sampled_cells"]
                cells += [(replace(cell, kind=SAMPLED), rows) for cell, rows in cells if cell.name in wanted]
            self._cells = {(cell.name, cell.kind): (cell, rows) for cell, rows in cells}
        mappings = index_body(self.track, NAME)["mappings"]
        order = shuffled(list(self._cells), self.values["seed"], "ingest", number)
        return {
            "cells": [(*self._cells[key], mappings) for key in order],
            "settings": index_settings(self.values),
            "foreign": self.values["delete_foreign_index"],
            "sampler": self.values["sampler"],
        }


class IngestDecompRunner(Runner):
    """Runs one round: every cell once, each into a fresh index and a ``service_time`` document of its own.

    The sampler is started before a cell that it records and stopped after it. Where it cannot be, the round goes on
    without the cell, and its sample says why.

    :raises esrally.exceptions.RallyAssertionError: when rows were lost or refused; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        timings: list[dict[str, Any]] = []
        sampler = Sampler(params["sampler"])
        for one in params["cells"]:
            async with sampler.recording() if one[0].kind == SAMPLED else contextlib.nullcontext(True) as ready:
                if ready:
                    timings += await run_cells(es, params["round"], [one], params["settings"], params["foreign"])
        return round_result(timings, round=params["round"], **sampler.of_round)
