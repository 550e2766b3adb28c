"""The load of the ingest challenges: runner, param source and scheduler of its bulk requests."""

import gzip
import math
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from esrally.driver.runner import BulkIndex
from esrally.track.params import BulkIndexParamSource

from .bulk import FILTER, REASON_CHARS, BulkCounts, send_bulk
from .corpus import NAME
from .coverage import Coverages
from .encoded import EncodedRows
from .ingest_account import put_note, tally_id
from .requests import get

WATCH_S = 1.0
"""How often the first client asks for merges."""
GZIP_LEVEL = 1


class IngestParams:
    """Param source of the load: the rows of some epochs, divided among the clients; ends when all are handed out.

    Mandatory keys of the operation: ``bulk-runner`` (``slices`` of the encoded file, or ``native``: Rally's own reader
    and runner), ``bulk-size``, ``bulk-response`` (``filtered`` or ``full``), ``compress-requests`` and
    ``ingest-percentage`` (of each client's bulk requests, rounded up); the track processor adds ``epochs``.
    """

    infinite = False

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._track, self._params = track, params
        if params["bulk-runner"] == "native":
            self.corpora = _native_source(track, params).corpora  # for which Rally then writes tables of offsets

    def partition(self, partition_index: int, total_partitions: int) -> "ClientParams":
        bulks = NativeBulks if self._params["bulk-runner"] == "native" else SlicedBulks
        return ClientParams(
            bulks(self._track, self._params, partition_index, total_partitions), self._params, partition_index
        )


class SlicedBulks:
    """The bulk requests of one client, by slices of the encoded epochs."""

    def __init__(self, track: Any, params: dict[str, Any], client: int, clients: int):
        self._coverages = Coverages(track, 0)
        self._slices = list(
            slices(
                self._coverages.corpus.rows_per_epoch,
                params["epochs"],
                params["bulk-size"],
                client,
                clients,
                params["ingest-percentage"],
            )
        )
        self._rows: dict[int, EncodedRows] = {}
        self._next = 0

    def next(self) -> dict[str, Any]:
        """The next body with its ``documents``.

        :raises StopIteration: when there is none.
        """
        if self._next == len(self._slices):
            raise StopIteration
        epoch, first, count = self._slices[self._next]
        self._next += 1
        if epoch not in self._rows:  # Rally makes param sources before the corpus is prepared
            self._rows = {epoch: EncodedRows(self._coverages.corpus, epoch, self._coverages.rows_file(epoch))}
        rows = self._rows[epoch]
        return {"body": rows.body(first, count), "documents": count, "content-type": rows.content_type}

    @property
    def completed(self) -> float:
        return self._next / len(self._slices) if self._slices else 1.0


class NativeBulks:
    """The bulk requests of one client, by Rally's own reader."""

    def __init__(self, track: Any, params: dict[str, Any], client: int, clients: int):
        self._source = _native_source(track, params).partition(client, clients)

    def next(self) -> dict[str, Any]:
        """As :meth:`SlicedBulks.next`, with the parameters of Rally's runner as ``native``."""
        native = self._source.params()
        return {"native": native, "documents": native["bulk-size"], "body": native["body"]}

    @property
    def completed(self) -> float:
        return self._source.percent_completed


def _native_source(track: Any, params: dict[str, Any]) -> BulkIndexParamSource:
    corpus = next(c for c in track.corpora if c.name == NAME).filter()
    corpus.documents = [d for d in corpus.documents if d.meta_data["epoch"] in params["epochs"]]
    keys = ("bulk-size", "ingest-percentage")
    return BulkIndexParamSource(SimpleNamespace(corpora=[corpus]), {key: params[key] for key in keys})


def slices(
    rows: int, epochs: list[int], bulk_size: int, client: int, clients: int, percentage: int
) -> Iterator[tuple[int, int, int]]:
    """The bulk requests of one client: epoch, first row, number of rows.

    :param rows: of one epoch; its bulk requests are divided evenly, a stretch for each client.
    :param client: counted from 0.
    :param percentage: of the client's bulk requests in each epoch, rounded up.
    """
    bulks = -(-rows // bulk_size)
    first, end = bulks * client // clients, bulks * (client + 1) // clients
    for epoch in epochs:
        for bulk in range(first, first + math.ceil((end - first) * percentage / 100)):
            yield epoch, bulk * bulk_size, min(bulk_size, rows - bulk * bulk_size)


class ClientParams:
    """The bulk requests of one client, with the tally that its requests add to."""

    infinite = False

    def __init__(self, bulks: SlicedBulks | NativeBulks, params: dict[str, Any], client: int):
        self._bulks, self._client = bulks, client
        self._common = {
            "client": client,
            "epoch": params["epochs"][0] if len(params["epochs"]) == 1 else 0,
            "filter-path": FILTER if params["bulk-response"] == "filtered" else "",
            "compress-requests": params["compress-requests"],
            "tally": BulkCounts(),
            "span": {},
        }
        self._watched = 0.0

    def params(self) -> dict[str, Any]:
        bulk = self._bulks.next() | self._common
        now = time.monotonic()
        watch = self._client == 0 and now >= self._watched + WATCH_S
        if watch:
            self._watched = now
        return bulk | {"watch": watch, "last": self._bulks.completed == 1}

    @property
    def percent_completed(self) -> float:
        return self._bulks.completed


class IngestBulk:
    """Sends one bulk request and counts what became of its documents.

    Goes to the metrics store as ``ingest-bulk`` with Rally's keys ``success``, ``success-count`` (documents
    acknowledged), ``error-count`` (documents that were not) and ``took`` (ms; its resolution is that of the node's
    clock), and

    - ``epoch``: that the task loads; 0 when it loads all of them.
    - ``client``: counted from 0.
    - ``send_ms``: from the start of sending to the end of the response, retries included, pauses before them not; with
      Rally's own runner the whole of its call.
    - ``parse_ms``: decoding the response; 0 with Rally's own runner, in whose call it is.
    - ``encode_ms``: compressing the body.
    - ``bytes_out``, ``bytes_in``: bodies as sent and received; bytes_in is 0 with Rally's own runner, which does not
      tell.
    - ``retries``: requests repeated after status 429.
    - ``error-type``, ``error-description``: when documents were rejected, how many by which error, and first reasons.
    - ``merges_current``, ``merge_bytes_current``: merges under way, asked for about once a second by the first client.

    ``weight`` is the number of documents sent. At the end of its rows each client notes its tally in the account.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        documents = params["documents"]
        counts = BulkCounts(sent=documents)
        params["span"].setdefault("started", time.time())
        try:
            counts, encode_ms = await (_native if "native" in params else _slice)(es, params)
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
            "send_ms": counts.send_ms,
            "parse_ms": counts.parse_ms,
            "encode_ms": encode_ms,
            "bytes_out": counts.bytes_out,
            "bytes_in": counts.bytes_in,
            "retries": counts.retries,
        }
        if counts.errors:
            meta |= {"error-type": "rejected-documents", "error-description": counts.problem()}
        if params["watch"]:
            merges = (await get(es, f"/{NAME}/_stats/merge"))["_all"]["total"]["merges"]
            meta |= {"merges_current": merges["current"], "merge_bytes_current": merges["current_size_in_bytes"]}
        return meta

    def __repr__(self) -> str:
        return "ingest-bulk"


async def _slice(es: Any, params: dict[str, Any]) -> tuple[BulkCounts, float]:
    body, headers, encode_ms = params["body"], {}, 0.0
    if params["compress-requests"]:
        started = time.perf_counter()
        body, headers = gzip.compress(body, GZIP_LEVEL), {"content-encoding": "gzip"}
        encode_ms = 1000 * (time.perf_counter() - started)
    filter_path = params["filter-path"]
    return (
        await send_bulk(es, NAME, body, params["documents"], params["content-type"], filter_path, headers),
        encode_ms,
    )


async def _native(es: Any, params: dict[str, Any]) -> tuple[BulkCounts, float]:
    started = time.perf_counter()
    result = await BulkIndex()(es, params["native"])
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
    return counts, 0.0


class IngestPace:
    """Scheduler of a paced load: a steady rate, or one with a spike.

    The processor sets ``pace`` of the operation: ``docs_per_second``, and ``spike_docs_per_second`` for
    ``spike_seconds``, which begins when the load has been steady for as long.
    """

    def __init__(self, task: Any):
        self._pace = task.operation.params["pace"]
        self._documents = task.operation.params["bulk-size"] * task.clients

    def before_request(self, now: float) -> None:
        pass

    def after_request(self, now: float, weight: int, unit: str, request_meta_data: dict[str, Any]) -> None:
        pass

    def next(self, current: float) -> float:
        spike = self._pace["spike_seconds"] <= current < 2 * self._pace["spike_seconds"]
        return current + self._documents / self._pace["spike_docs_per_second" if spike else "docs_per_second"]
