"""Runners, param source and scheduler of the ingest challenges: bulk requests, and the account of each epoch."""

import asyncio
import gzip
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from esrally import exceptions
from esrally.driver.runner import BulkIndex
from esrally.track.params import BulkIndexParamSource

from .bulk import FILTER, FIRST_BACKOFF_S, MOST_RETRIES, REASON_CHARS, BulkCounts, send_bulk
from .corpus import NAME
from .coverage import Coverages
from .encoded import EncodedRows
from .index import MARK, delete_own_index
from .requests import aside, garbage_collections, get, request, target_cpu_ms

ACCOUNT = f"{NAME}-account"
"""A small index in which the clients, on whatever host, note what they sent, and each epoch how it found the target."""
WATCH_S = 1.0
"""How often the first client asks for merges."""
GZIP_LEVEL = 1
LONG_S = 1800
"""Time that a refresh may take."""


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


def _tally_id(epoch: int, client: int) -> str:
    """Where a client's tally of an epoch (0 for all of them) stands in the account."""
    return f"{epoch}-{client}"


async def _note(es: Any, name: str, note: dict[str, Any]) -> None:
    """Puts a document into the account, outside the timed section; repeated while the load fills the write queue."""
    import elasticsearch

    with aside(es):
        for attempt in range(MOST_RETRIES + 1):
            try:
                await request(es, "PUT", f"/{ACCOUNT}/_doc/{name}", note)
                return
            except elasticsearch.ApiError as e:
                if e.status_code != 429 or attempt == MOST_RETRIES:
                    raise
                await asyncio.sleep(FIRST_BACKOFF_S * 2**attempt)


async def _others(es: Any, metrics: str) -> dict[str, dict[str, int]]:
    """``_stats`` of all primary shards but those of the track; a missing number is 0, as when there are none."""
    stats = (await get(es, f"/*,-{NAME},-{ACCOUNT}/_stats/{metrics}"))["_all"]["primaries"]
    return defaultdict(Counter, {key: Counter(value) for key, value in stats.items()})


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
                await _note(es, _tally_id(params["epoch"], params["client"]), note)
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


async def snapshot(es: Any) -> dict[str, float]:
    """What the target has counted so far; the differences of two snapshots are what happened between.

    Of the index, replicas included (``_stats``, totals): ``index_ms``, ``index_docs``, ``index_failed``,
    ``index_throttle_ms``, ``refresh_ms``, ``refreshes``, ``merge_ms``, ``merges``, ``merge_bytes``,
    ``merge_throttle_ms``, ``flush_ms``, ``flushes``; of all other indices ``foreign_docs`` (documents indexed); of all
    nodes ``target_cpu_ms``, ``gc_young_ms``, ``gc_young``, ``gc_old_ms``, ``gc_old``; and ``found``, the documents that
    a search finds in the index.
    """
    stats = (await get(es, f"/{NAME}/_stats/indexing,refresh,merge,flush"))["_all"]["total"]
    indexing, refresh, merges, flush = (stats[key] for key in ("indexing", "refresh", "merges", "flush"))
    counted = {
        "index_ms": indexing["index_time_in_millis"],
        "index_docs": indexing["index_total"],
        "index_failed": indexing["index_failed"],
        "index_throttle_ms": indexing["throttle_time_in_millis"],
        "refresh_ms": refresh["total_time_in_millis"],
        "refreshes": refresh["total"],
        "merge_ms": merges["total_time_in_millis"],
        "merges": merges["total"],
        "merge_bytes": merges["total_size_in_bytes"],
        "merge_throttle_ms": merges["total_throttled_time_in_millis"],
        "flush_ms": flush["total_time_in_millis"],
        "flushes": flush["total"],
        "foreign_docs": (await _others(es, "indexing"))["indexing"]["index_total"],
        "found": (await get(es, f"/{NAME}/_count"))["count"],
        "target_cpu_ms": await target_cpu_ms(es),
    }
    return {key: float(value) for key, value in counted.items()} | await garbage_collections(es)


class IngestBegin:
    """Opens the account, and notes how clean the target is before the load.

    Goes to the metrics store as ``ingest-begin``. Of all primary shards but the track's, as Rally warns of them:
    ``merge_ms``, ``merge_throttle_ms``, ``index_ms``, ``refresh_ms``, ``flush_ms``, each a sum since the shards were
    opened, and ``merges_current``, ``index_current``, what goes on now.

    Optional key: ``delete-foreign-index`` (default false), as in delete-own-index.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        before = await _others(es, "indexing,refresh,merge,flush")
        indexing, refresh, merges, flush = (before[key] for key in ("indexing", "refresh", "merges", "flush"))
        await delete_own_index(es, ACCOUNT, params.get("delete-foreign-index", False))
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        mappings = {"dynamic": False, "_meta": {"created_by": MARK}}
        await request(es, "PUT", f"/{ACCOUNT}", {"settings": settings, "mappings": mappings})
        await _note(es, "snapshot", await snapshot(es))
        return {
            "weight": 1,
            "unit": "ops",
            "merge_ms": merges["total_time_in_millis"],
            "merge_throttle_ms": merges["total_throttled_time_in_millis"],
            "index_ms": indexing["index_time_in_millis"],
            "refresh_ms": refresh["total_time_in_millis"],
            "flush_ms": flush["total_time_in_millis"],
            "merges_current": merges["current"],
            "index_current": indexing["index_current"],
        }

    def __repr__(self) -> str:
        return "ingest-begin"


class IngestEpoch:
    """Refreshes the index after a load, and holds documents sent, acknowledged and found against each other.

    The service time is that of the refresh. Goes to the metrics store as ``ingest-epoch`` with

    - ``epoch``: that was loaded; 0 for all of them.
    - ``round``: the epoch, or the first of them.
    - ``clients``: of the load.
    - ``wall_ms``: from the start of the first bulk request to the end of the last, by the clients' clocks.
    - ``sent``, ``acknowledged``, ``found``: documents of this load, by the clients and after the refresh.
    - ``requests``, ``retries``, ``took_ms``, ``send_ms``, ``parse_ms``, ``bytes_out``, ``bytes_in``: sums over its
      bulk requests, as in :class:`IngestBulk`.
    - the differences of :func:`snapshot` since the load before (or ingest-begin): ``target_cpu_ms`` and all others.
      Rally idles some seconds in between, in which merges may go on.
    - as they are now: ``store_bytes`` and ``segments`` of the primary shards, ``translog_bytes`` and
      ``translog_uncommitted_bytes``.

    Mandatory keys: ``epochs``, ``clients``, ``expected`` (documents that the clients together have to send; 0 when that
    is left to Rally's reader) and ``final`` (whether this load is the last); all are set by the track processor.

    :raises esrally.exceptions.RallyAssertionError: when the numbers differ, by how much and why; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        epochs, clients = params["epochs"], params["clients"]
        epoch = epochs[0] if len(epochs) == 1 else 0
        await request(es, "POST", f"/{NAME}/_refresh", timeout=LONG_S)
        with aside(es):
            ids = ["snapshot", *(_tally_id(epoch, client) for client in range(clients))]
            try:
                noted = (await request(es, "POST", f"/{ACCOUNT}/_mget", {"ids": ids}))["docs"]
            except elasticsearch.NotFoundError:
                noted = [{}]
            if not noted[0].get("found"):
                raise exceptions.RallyAssertionError("the account of this load is missing; run the task ingest-begin")
            tallies = [note["_source"] for note in noted[1:] if note.get("found")]  # of clients that had rows
            total = BulkCounts()
            for tally in tallies:
                total.add(BulkCounts(**tally["tally"] | {"rejected": Counter(tally["tally"]["rejected"])}))
            now = await snapshot(es)
            delta = {key: value - noted[0]["_source"][key] for key, value in now.items()}
            found = round(delta.pop("found"))
            _agree(epochs, params["expected"], total, found)
            if params["final"]:
                await delete_own_index(es, ACCOUNT)
            else:
                await _note(es, "snapshot", now)
            stats = (await request(es, "GET", f"/{NAME}/_stats/store,segments,translog"))["_all"]
        spans = [tally["span"] for tally in tallies]
        sums = ("requests", "retries", "took_ms", "send_ms", "parse_ms", "bytes_out", "bytes_in")
        return {
            "weight": 1,
            "unit": "ops",
            "epoch": epoch,
            "round": epochs[0],
            "clients": clients,
            "wall_ms": 1000 * (max(s["ended"] for s in spans) - min(s["started"] for s in spans)),
            "sent": total.sent,
            "acknowledged": total.acknowledged,
            "found": found,
            **{key: getattr(total, key) for key in sums},
            **delta,
            "store_bytes": stats["primaries"]["store"]["size_in_bytes"],
            "segments": stats["primaries"]["segments"]["count"],
            "translog_bytes": stats["total"]["translog"]["size_in_bytes"],
            "translog_uncommitted_bytes": stats["total"]["translog"]["uncommitted_size_in_bytes"],
        }

    def __repr__(self) -> str:
        return "ingest-epoch"


def _agree(epochs: list[int], expected: int, total: BulkCounts, found: int) -> None:
    """Documents sent, acknowledged and found agree.

    :param expected: documents that had to be sent; 0 when that is not known.
    """
    expected = expected or total.sent
    if expected == total.sent == total.acknowledged == found:
        return
    of = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    parts = [
        f"{of}: {total.sent:,} documents sent",
        f"{total.acknowledged:,} acknowledged ({total.acknowledged - total.sent:+,})",
        f"{found:,} found after the refresh ({found - total.sent:+,})",
    ]
    if expected != total.sent:
        parts.insert(1, f"{expected:,} had to be ({total.sent - expected:+,})")
    raise exceptions.RallyAssertionError(", ".join(parts) + (f"; {total.problem()}" if total.errors else ""))
