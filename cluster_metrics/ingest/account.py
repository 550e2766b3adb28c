"""The account of an ingest: what the clients sent, and how each epoch found the target."""

import asyncio
from collections import Counter, defaultdict
from typing import Any

from esrally import exceptions

from ..core.index import MARK, create_own_index, delete_own_index
from ..core.rounds import Guard
from ..corpus.metrics import NAME
from ..wire.bulk import FIRST_BACKOFF_S, MOST_RETRIES, BulkCounts
from ..wire.requests import aside, get, request
from ..wire.stats import changed, garbage_collections, target_cpu_ms

ACCOUNT = f"{NAME}-account"
"""A small index in which the clients, on whatever host, note what they sent, and each epoch how it found the target."""
REPEATED = ("retries", "repeated_docs", "retry_wait_ms")
"""What a load counts of requests that were repeated."""
LONG_S = 1800
"""Time that a refresh may take."""


def tally_id(epoch: int, client: int) -> str:
    """Where a client's tally of an epoch (0 for all of them) stands in the account."""
    return f"{epoch}-{client}"


async def put_note(es: Any, name: str, note: dict[str, Any]) -> None:
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


async def snapshot(es: Any) -> dict[str, float]:
    """What the target has counted so far, see ``COUNTED`` of the record, and ``found``, the documents that a search
    finds; the differences of two snapshots are what happened between."""
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


class IngestBegin(Guard):
    """Opens the account, and notes how clean the target is before the load.

    Track parameter: ``delete_foreign_index``.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        before = await _others(es, "indexing,refresh,merge,flush")
        indexing, refresh, merges, flush = (before[key] for key in ("indexing", "refresh", "merges", "flush"))
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        mappings = {"dynamic": False, "_meta": {"created_by": MARK}}
        body = {"settings": settings, "mappings": mappings}
        await create_own_index(es, ACCOUNT, body, params["parameters"]["delete_foreign_index"])
        await put_note(es, "snapshot", await snapshot(es) | {"nodes": es.nodes_started})
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


class IngestEpoch(Guard):
    """Refreshes the index after a load, and holds documents sent, acknowledged and found against each other.

    The service time is that of the refresh. Mandatory keys: ``epochs``, ``clients``, ``expected`` (documents that the
    clients together have to send; 0 when that is left to Rally's reader) and ``final`` (whether this load is the last);
    all are set by :func:`.load.lay_out_epochs`.

    :raises esrally.exceptions.RallyAssertionError: when the numbers differ, by how much and why, or a node has left or
        was restarted since the load before; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        epochs, clients = params["epochs"], params["clients"]
        epoch = epochs[0] if len(epochs) == 1 else 0
        await request(es, "POST", f"/{NAME}/_refresh", timeout=LONG_S)
        with aside(es):
            ids = ["snapshot", *(tally_id(epoch, client) for client in range(clients))]
            try:
                noted = (await request(es, "POST", f"/{ACCOUNT}/_mget", {"ids": ids}))["docs"]
            except elasticsearch.NotFoundError:
                noted = [{}]
            if not noted[0].get("found"):
                raise exceptions.RallyAssertionError(
                    "what the target had counted before this load is not recorded, since the task ingest-begin did not "
                    "run; race without --include-tasks and --exclude-tasks, or add it"
                )
            tallies = [note["_source"] for note in noted[1:] if note.get("found")]  # of clients that had rows
            total = BulkCounts()
            for tally in tallies:
                total.add(BulkCounts(**tally["tally"] | {"rejected": Counter(tally["tally"]["rejected"])}))
            now = await snapshot(es)
            delta = {key: value - noted[0]["_source"][key] for key, value in now.items()}
            found = round(delta.pop("found"))
            _agree(epochs, params["expected"], total, found)
            if problem := changed(noted[0]["_source"]["nodes"], es.nodes_started):
                raise exceptions.RallyAssertionError(problem)
            if params["final"]:
                await delete_own_index(es, ACCOUNT)
            else:
                await put_note(es, "snapshot", now | {"nodes": es.nodes_started})
            stats = (await request(es, "GET", f"/{NAME}/_stats/store,segments,translog"))["_all"]
        spans = [tally["span"] for tally in tallies]
        sums = ("requests", *REPEATED, "took_ms", "send_ms", "parse_ms", "bytes_out", "bytes_in")
        return {
            "weight": 1,
            "unit": "ops",
            "epoch": epoch,
            "round": epochs[0],
            "clients": clients,
            "wall_ms": 1000 * (max(s["ended"] for s in spans) - min(s["started"] for s in spans)),
            "clients_ms": 1000 * sum(s["ended"] - s["started"] for s in spans),
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


def _agree(epochs: list[int], expected: int, total: BulkCounts, found: int) -> None:
    """Documents sent, acknowledged and found agree.

    :param expected: documents that had to be sent; 0 when that is not known.
    """
    expected = expected or total.sent
    of = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    if not expected:
        raise exceptions.RallyAssertionError(f"{of}: no client sent a document; raise ingest_percentage")
    if expected == total.sent == total.acknowledged == found:
        return
    parts = [
        f"{of}: {total.sent:,} documents sent",
        f"{total.acknowledged:,} acknowledged ({total.acknowledged - total.sent:+,})",
        f"{found:,} found after the refresh ({found - total.sent:+,})",
    ]
    if expected != total.sent:
        parts.insert(1, f"{expected:,} had to be ({total.sent - expected:+,})")
    raise exceptions.RallyAssertionError(", ".join(parts) + (f"; {total.problem()}" if total.errors else ""))
