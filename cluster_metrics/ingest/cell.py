"""Ingests rows in one way or another, each time into a fresh index, and says what it cost."""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from esrally import exceptions

from ..core.challenge import Values
from ..core.index import create_own_index, delete_own_index
from ..core.rounds import losing_one, outcome, timed
from ..corpus.metrics import NAME
from ..wire.bulk import BulkCounts
from ..wire.requests import Request, aside, at_once, get, request, send
from ..wire.stats import garbage_collections, index_times, target_cpu_ms

INDEX = f"{NAME}-cell"
"""The index that every cell creates and deletes."""
SAMPLE = "ingest-cell"
"""``operation-type`` of the sample that a cell leaves, where nothing else is said."""


@dataclass(frozen=True)
class IngestCell:
    """One way to ingest.

    :param name: the ``operation`` of its sample.
    :param body: makes the bulk body of ``count`` rows from row ``first`` on, counted from 0; its time is that of
        encoding. One client alone asks for the rows in order.
    :param send: sends a body: client, index, body and number of its documents in, what became of them out. It counts
        the time of sending and parsing itself, see :class:`..wire.bulk.BulkCounts`.
    :param clients: coroutines that share the bodies still to be sent (default 1). They share one process, hence one
        CPU.
    :param bulk_size: documents of a request (default 1000).
    :param settings: of the index, beside those of all cells.
    :param keep_alive: whether connections stay open between requests (default true).
    :param shaped: makes the body of its index of that of all cells with its settings (by default this one).
    :param asks: queries, each of whose documents are counted after the refresh; every row is found by one of them.
    :param reads: documents whose source is read back as JSON after that, at most (default none).
    :param meta: further keys of its sample.
    :param kind: ``operation-type`` of its sample.
    """

    name: str
    body: Callable[[int, int], bytes]
    send: Callable[[Any, str, bytes, int], Awaitable[BulkCounts]]
    clients: int = 1
    bulk_size: int = 1000
    settings: dict[str, Any] = field(default_factory=dict)
    keep_alive: bool = True
    shaped: Callable[[dict[str, Any]], dict[str, Any]] = dict
    asks: Sequence[dict[str, Any]] = ()
    reads: int = 0
    meta: dict[str, Any] = field(default_factory=dict)
    kind: str = SAMPLE


def index_settings(values: Values) -> dict[str, Any]:
    """The settings of the index in all cells."""
    return {
        "index.number_of_shards": values["number_of_shards"],
        "index.number_of_replicas": values["number_of_replicas"],
        "index.queries.cache.enabled": False,
        "index.store.stats_refresh_interval": "0s",
    }


async def run_cell(
    es: Any, cell: IngestCell, rows: int, settings: dict[str, Any], mappings: dict[str, Any], foreign: bool = False
) -> dict[str, Any]:
    """Creates the index, sends the rows, refreshes, counts, and deletes the index; only the sending is timed.

    Each cell begins without an open connection, and with rows that are in memory already.

    :param rows: how many, from row 0 on.
    :param settings: of the index in all cells.
    :param mappings: of the index, with the track's mark.
    :param foreign: delete an index of that name even if this track did not create it.
    :return: what the sample records, see ``CELL`` of the record, with ``dependent_timing``.
    :raises esrally.exceptions.RallyAssertionError: when the documents sent, acknowledged and found differ, or a request
        was refused; this ends the race.
    """
    with aside(es):
        body = cell.shaped({"settings": settings | cell.settings, "mappings": mappings})
        await create_own_index(es, INDEX, body, foreign)
    try:
        before, cpu_ms, started_s = await _counters(es), await target_cpu_ms(es), time.time()
        await _reconnect(es, cell.keep_alive)
        sample, counts = await _ingest(es, cell, rows)
        sample |= {name: value - before[name] for name, value in (await _counters(es)).items()}
        refreshed = time.perf_counter()
        with aside(es):
            await request(es, "POST", f"/{INDEX}/_refresh")
        sample["refresh_wall_ms"] = 1000 * (time.perf_counter() - refreshed)
        sample["target_cpu_ms"] = await target_cpu_ms(es) - cpu_ms
        sample |= {"started_s": started_s, "window_ms": 1000 * (time.time() - started_s)}
        found = (await get(es, f"/{INDEX}/_count"))["count"]
        if not rows == counts.sent == counts.acknowledged == found:
            raise exceptions.RallyAssertionError(
                f"{cell.name}: of {rows:,} rows {counts.sent:,} were sent, {counts.acknowledged:,} acknowledged and "
                f"{found:,} found; {counts.problem() or 'no document was rejected'}"
            )
        kept = await _asked(es, cell, rows) | await _read(es, cell, rows)
        return sample | kept | await index_times(es, INDEX)
    finally:
        await _reconnect(es)
        with aside(es):
            await delete_own_index(es, INDEX)


async def run_cells(
    es: Any,
    number: int,
    cells: Iterable[tuple[IngestCell, int, dict[str, Any]]],
    settings: dict[str, Any],
    foreign: bool = False,
) -> list[dict[str, Any]]:
    """Runs the cells of a round, see :func:`run_cell`.

    :param number: of the round.
    :param cells: each with its rows and the mappings of its index.
    :return: samples, with their ``round``; one that failed for each cell that got no answer.
    """
    timings: list[dict[str, Any]] = []
    for cell, rows, mappings in cells:
        about = {"round": number, "cell": cell.name}
        with losing_one(cell.name, cell.kind, timings, **cell.meta, **about):
            timings.append(await run_cell(es, cell, rows, settings, mappings, foreign) | about)
    return timings


async def _ingest(es: Any, cell: IngestCell, rows: int) -> tuple[dict[str, Any], BulkCounts]:
    counts, encode_s, tooks = BulkCounts(), 0.0, []
    bodies = iter(range(0, rows, cell.bulk_size))

    async def client() -> None:
        nonlocal encode_s
        for first in bodies:
            count = min(cell.bulk_size, rows - first)
            started = time.perf_counter()
            body = cell.body(first, count)
            encode_s += time.perf_counter() - started
            one = await cell.send(es, INDEX, body, count)
            counts.add(one)
            tooks.append(one.took_ms)

    absolute_time, cpu_s, started = time.time(), time.process_time(), time.perf_counter()
    with es.new_request_context() as context:
        await at_once([client() for _ in range(cell.clients)])
    wall_s = time.perf_counter() - started
    cpu_s = time.process_time() - cpu_s
    sample = cell.meta | {
        "cell": cell.name,
        "clients": cell.clients,
        "bulk_size": cell.bulk_size,
        "rows": counts.sent,
        "rows_per_second": counts.acknowledged / wall_s,
        "wall_ms": 1000 * wall_s,
        "encode_ms": 1000 * encode_s,
        "send_ms": counts.send_ms,
        "parse_ms": counts.parse_ms,
        "took_ms": counts.took_ms,
        "least_took_ms": min(filter(None, tooks), default=0.0),
        "bytes_out": counts.bytes_out,
        "bytes_in": counts.bytes_in,
        "requests": counts.requests,
        "retries": counts.retries,
        "repeated_docs": counts.repeated_docs,
        "retry_wait_ms": counts.retry_wait_ms,
        "client_cpu_ms": 1000 * cpu_s,
        "success-count": counts.acknowledged,
        **outcome([], ""),
        "dependent_timing": timed(cell.name, cell.kind, absolute_time, context.request_start, context.request_end),
    }
    return sample, counts


async def _asked(es: Any, cell: IngestCell, rows: int) -> dict[str, Any]:
    """What the index takes once it is loaded: its size, its segments, and the time of the cell's queries.

    :raises esrally.exceptions.RallyAssertionError: when they do not find all rows; this ends the race.
    """
    primaries = (await get(es, f"/{INDEX}/_stats/store,segments"))["_all"]["primaries"]
    found, started = 0, time.perf_counter()
    for query in cell.asks:
        found += (await request(es, "POST", f"/{INDEX}/_count", {"query": query}))["count"]
    elapsed_ms = 1000 * (time.perf_counter() - started)
    if cell.asks and found != rows:
        raise exceptions.RallyAssertionError(f"{cell.name}: of {rows:,} rows its queries find {found:,}")
    kept = {"store_bytes": primaries["store"]["size_in_bytes"], "segments": primaries["segments"]["count"]}
    return kept | ({"asks_ms": elapsed_ms} if cell.asks else {})


async def _read(es: Any, cell: IngestCell, rows: int) -> dict[str, Any]:
    """The wall time of reading documents back: stored as they were sent, they are turned into JSON for the response.

    :raises esrally.exceptions.RallyAssertionError: when not all are in it; this ends the race.
    """
    count = min(cell.reads, rows)
    if not count:
        return {}
    body = json.dumps({"size": count, "sort": ["_doc"], "track_total_hits": False}).encode()
    started = time.perf_counter()
    with aside(es):
        response = await send(es, Request(f"/{INDEX}/_search", "application/json", body))
    elapsed_ms = 1000 * (time.perf_counter() - started)
    if (found := response.count(b'"_source"')) != count:
        raise exceptions.RallyAssertionError(f"{cell.name}: of {count:,} documents {found:,} were read back")
    return {"read_ms": elapsed_ms}


async def _reconnect(es: Any, keep_alive: bool = True) -> None:
    """Closes all connections and has new ones opened when they are needed, without ``keep_alive`` for each request.

    The header ``connection: close`` would not do: Elasticsearch closes, but does not announce it, and the client would
    send the next request into the closed connection and repeat it.
    """
    for node in es.transport.node_pool.all():
        await node.close()
        if not keep_alive:
            node._create_aiohttp_session()
            node.session.connector._force_close = True


async def _counters(es: Any) -> dict[str, Any]:
    """What all nodes of the target have counted since they started: HTTP connections and garbage collections."""
    nodes = (await get(es, "/_nodes/stats/http?filter_path=nodes.*.http.total_opened"))["nodes"].values()
    collections = await garbage_collections(es)
    return {
        "connections": sum(node["http"]["total_opened"] for node in nodes),
        "gc_ms": collections["gc_young_ms"] + collections["gc_old_ms"],
        "gc_count": int(collections["gc_young"] + collections["gc_old"]),
    }
