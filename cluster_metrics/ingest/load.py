"""The load of the ingest challenges: layout, runner, param source and scheduler of its bulk requests."""

import contextlib
import copy
import math
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from esrally.driver.runner import BulkIndex
from esrally.track.params import BulkIndexParamSource

from ..core.challenge import Values
from ..core.rounds import Params, Runner
from ..corpus.encoded import Bodies, metrics_bodies
from ..corpus.metrics import NAME, Metrics
from ..corpus.prepared import Prepared
from ..wire.bulk import FILTER, REASON_CHARS, Backoff, BulkCounts, send_bulk
from ..wire.requests import once
from .account import REPEATED, put_note, tally_id

BULK, EPOCH = "ingest-bulk", "ingest-epoch"
"""Operation types of a load and of the account that follows it."""
FIGURES = ("send_ms", "parse_ms", "encode_ms", "bytes_out", "bytes_in", *REPEATED)
"""What a bulk request records of what is counted, see :class:`..wire.bulk.BulkCounts`."""
Bulks = Iterator[tuple[dict[str, Any], float]]


class IngestParams(Params):
    """Param source of the load: the rows of some epochs, divided among the clients; ends when all are handed out.

    Track parameters: ``bulk_runner`` (``slices`` of the encoded file, or ``native``: Rally's own reader and runner),
    ``bulk_size``, ``bulk_response``, ``compress_requests``, ``ingest_pipeline`` and ``ingest_percentage`` (of each
    client's bulk requests, rounded up); :func:`lay_out_epochs` adds ``epochs`` to the operation.
    """

    infinite = False

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._native = self.values["bulk_runner"] == "native"
        if self._native:
            # for which Rally then writes tables of offsets
            self.corpora = _native_source(track, params["epochs"], self.values).corpora

    def partition(self, partition_index: int, total_partitions: int) -> "ClientParams":  # type: ignore[override]
        bulks = native_bulks if self._native else sliced_bulks
        epochs = self.operation["epochs"]
        own = bulks(self.track, epochs, self.values, partition_index, total_partitions)
        return ClientParams(own, epochs, self.values, partition_index, total_partitions)


def sliced_bulks(track: Any, epochs: list[int], values: Values, client: int, clients: int) -> Bulks:
    """The bulk requests of one client, by slices of the encoded epochs: each a body with its ``documents``, and the
    part of all that is done with it."""
    prepared = Prepared(track, Metrics)
    rows, percentage = prepared.corpus.rows_per_epoch, values["ingest_percentage"]
    due = list(slices(rows, epochs, values["bulk_size"], client, clients, percentage))
    opened: dict[int, Bodies] = {}
    for done, (epoch, first, count) in enumerate(due, 1):
        if epoch not in opened:
            opened = {epoch: metrics_bodies(prepared.corpus, epoch, prepared.file(epoch - 1))}
        bodies = opened[epoch]
        body = {"body": bodies.body(first, count), "documents": count, "content-type": bodies.content_type}
        yield body, done / len(due)


def native_bulks(track: Any, epochs: list[int], values: Values, client: int, clients: int) -> Bulks:
    """The same by Rally's own reader, with the parameters of Rally's runner as ``native``."""
    source = _native_source(track, epochs, values).partition(client, clients)
    with contextlib.suppress(StopIteration):
        while True:
            native = source.params()
            body = {"native": native, "documents": native["bulk-size"], "body": native["body"]}
            yield body, source.percent_completed


def _pipeline(values: Values) -> str:
    """The pipeline to be named; empty for that of the index."""
    return "" if values["ingest_pipeline"] == "default" else values["ingest_pipeline"]


def _native_source(track: Any, epochs: list[int], values: Values) -> BulkIndexParamSource:
    corpus = next(c for c in track.corpora if c.name == NAME).filter()
    corpus.documents = [d for d in corpus.documents if d.meta_data["epoch"] in epochs]
    params = {"bulk-size": values["bulk_size"], "ingest-percentage": values["ingest_percentage"]}
    params |= {"pipeline": _pipeline(values)} if _pipeline(values) else {}
    return BulkIndexParamSource(SimpleNamespace(corpora=[corpus]), params)


def slices(
    rows: int, epochs: list[int], bulk_size: int, client: int, clients: int, percentage: int
) -> Iterator[tuple[int, int, int]]:
    """The bulk requests of one client: epoch, first row, number of rows.

    :param rows: of one epoch; its bulk requests are divided evenly, a stretch for each client. The stretches move on by
        a client from epoch to epoch, so that epochs of fewer requests than clients keep all of them at work, too.
    :param client: counted from 0.
    :param percentage: of the client's bulk requests in each epoch, rounded up.
    """
    bulks = -(-rows // bulk_size)
    for number, epoch in enumerate(epochs):
        stretch = (client + number) % clients
        first, end = bulks * stretch // clients, bulks * (stretch + 1) // clients
        for bulk in range(first, first + math.ceil((end - first) * percentage / 100)):
            yield epoch, bulk * bulk_size, min(bulk_size, rows - bulk * bulk_size)


class ClientParams:
    """The bulk requests of one client, with the tally that its requests add to.

    :ivar turn: the client's place among all of them, from above 0 to 1.
    """

    infinite = False

    def __init__(self, bulks: Bulks, epochs: list[int], values: Values, client: int, clients: int):
        self._bulks, self.percent_completed = bulks, 0.0
        self.turn = (client + 1) / clients
        self._common = {
            "client": client,
            "epoch": epochs[0] if len(epochs) == 1 else 0,
            "options": {
                "filter_path": FILTER if values["bulk_response"] == "filtered" else "",
                "compress": values["compress_requests"],
                "backoff": Backoff.of(values),
                "pipeline": _pipeline(values),
            },
            "tally": BulkCounts(),
            "span": {},
        }

    def params(self) -> dict[str, Any]:
        bulk, self.percent_completed = next(self._bulks)
        return bulk | self._common | {"last": self.percent_completed == 1}


class IngestBulk(Runner):
    """Sends one bulk request and counts what became of its documents; ``weight`` is the number of documents sent.

    At the end of its rows each client notes its tally in the account.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        documents = params["documents"]
        counts = BulkCounts(sent=documents)
        params["span"].setdefault("started", time.time())
        try:
            counts = await (_native if "native" in params else _slice)(es, params)
        except (elasticsearch.ApiError, elasticsearch.TransportError) as e:
            kind = f"HTTP {e.status_code}" if isinstance(e, elasticsearch.ApiError) else type(e).__name__
            counts.rejected[kind] = documents
            raise
        finally:
            params["tally"].add(counts)
            if params["last"]:
                note = {"span": params["span"] | {"ended": time.time()}, "tally": vars(params["tally"])}
                await put_note(es, tally_id(params["epoch"], params["client"]), note)
        meta = {
            "weight": documents,
            "unit": "docs",
            "epoch": params["epoch"],
            "client": params["client"],
            "success": not counts.errors,
            "success-count": counts.acknowledged,
            "error-count": counts.errors,
            "took": round(counts.took_ms),
            **{key: getattr(counts, key) for key in FIGURES},
        }
        if counts.errors:
            meta |= {"error-type": "rejected-documents", "error-description": counts.problem()}
        return meta


async def _slice(es: Any, params: dict[str, Any]) -> BulkCounts:
    return await send_bulk(es, NAME, params["body"], params["documents"], params["content-type"], **params["options"])


async def _native(es: Any, params: dict[str, Any]) -> BulkCounts:
    started = time.perf_counter()
    result = await BulkIndex()(once(es), params["native"])
    counts = BulkCounts(
        sent=params["documents"],
        acknowledged=result["success-count"],
        requests=1,
        took_ms=float(result["took"]),
        send_ms=1000 * (time.perf_counter() - started),
        bytes_out=len(params["body"]),
    )
    if counts.errors:
        counts.rejected[str(result["max-doc-status"])] = counts.errors
        counts.reasons.append(result.get("error-description", "")[:REASON_CHARS])
    return counts


def pace_of(values: Values) -> dict[str, float]:
    """What the cluster should reach, by checked parameters.

    :return: ``docs_per_second`` (0 for no target), ``spike_docs_per_second`` and ``spike_seconds`` (0 for no spike).
    """
    by_bytes = values["target_gb_per_day"] * 1e9 / 86_400 / Metrics.of(values, False).mean_row_bytes
    return {
        "docs_per_second": values["target_docs_per_second"] or by_bytes,
        "spike_docs_per_second": float(values["spike_docs_per_second"]),
        "spike_seconds": 60.0 * values["spike_minutes"],
    }


class IngestPace:
    """Scheduler of a paced load: a steady rate, or one with a spike. A request is due when the documents of the one
    before, times the clients, are.

    :func:`lay_out_epochs` sets ``pace`` of the operation, see :func:`pace_of`. A spike begins when the load has been
    steady for as long. Clients take turns, so that their requests are due evenly and not all at once.
    """

    def __init__(self, task: Any):
        self.parameter_source: Any = None  # Rally sets that of the client where there is such an attribute
        params = task.operation.params
        self._pace, self._clients = params["pace"], task.clients
        self._documents = params["parameters"]["bulk_size"] * task.clients
        begin, rate, in_spike = map(
            self._pace.__getitem__, ("spike_seconds", "docs_per_second", "spike_docs_per_second")
        )
        self._stretches = [(begin, rate), (2 * begin, in_spike), (math.inf, rate)] if in_spike else [(math.inf, rate)]

    def before_request(self, now: float) -> None:
        pass

    def after_request(self, now: float, weight: int, unit: str, request_meta_data: dict[str, Any]) -> None:
        if weight:  # else it failed
            self._documents = weight * self._clients

    def next(self, current: float) -> float:
        if not current:
            return self.parameter_source.turn * self._documents / self._pace["docs_per_second"]
        left = self._documents
        for until, rate in self._stretches:
            if current < until:
                if current + left / rate <= until:
                    break
                left -= (until - current) * rate
                current = until
        return current + left / rate


def lay_out_epochs(schedule: list, values: Values, each: bool) -> list:
    """Repeats the load of a schedule, with the account that follows it, once per group of epochs.

    As with passes all copies keep their names, and only the first is marked for reporting.

    :param each: whether each epoch is a load of its own, or all of them are one.
    """
    epochs = list(range(1, values["epochs"] + 1))
    groups = [[epoch] for epoch in epochs] if each else [epochs]
    loads = [element for element in schedule if any(task.operation.type in (BULK, EPOCH) for task in element)]
    if not loads:
        return schedule
    copies = []
    for group in groups:
        for element in copy.deepcopy(loads):
            for task in element:
                if group is not groups[0]:
                    task.operation.params["include-in-reporting"] = False
                if task.operation.type in (BULK, EPOCH):
                    task.operation.params |= {"epochs": group, "final": group is groups[-1]}
                if task.operation.type == EPOCH:
                    task.operation.params |= {
                        "clients": values["bulk_indexing_clients"],
                        "expected": _documents_to_send(values) * len(group),
                    }
                elif task.operation.type == BULK and values["paced"]:
                    task.operation.params["pace"] = pace_of(values)
                    task.schedule = BULK
            copies.append(element)
    first = schedule.index(loads[0])
    return schedule[:first] + copies + [element for element in schedule[first:] if element not in loads]


def _documents_to_send(values: Values) -> int:
    """Of one epoch by all clients; 0 when Rally's own reader decides."""
    rows, percentage, clients = (values[k] for k in ("rows_per_epoch", "ingest_percentage", "bulk_indexing_clients"))
    if percentage == 100:
        return rows
    if values["bulk_runner"] == "native":
        return 0
    of_clients = (slices(rows, [1], values["bulk_size"], client, clients, percentage) for client in range(clients))
    return sum(count for of_client in of_clients for _, _, count in of_client)
