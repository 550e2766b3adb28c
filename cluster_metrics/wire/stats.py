"""What a target counts of itself, asked outside the timed section."""

import asyncio
from collections.abc import Mapping
from typing import Any

from esrally import exceptions

from .requests import get

RESTART_MS = 1000
"""A node started so much later is another process, or its clock was set; less may be its clocks' resolution."""


async def segment_count(es: Any, index: str) -> int:
    """Segments of the primary shards of an index."""
    stats = await get(es, f"/{index}/_stats/segments?filter_path=_all.primaries.segments.count")
    return stats["_all"]["primaries"]["segments"]["count"]


async def target_cpu_ms(es: Any) -> float:
    """CPU time that all nodes of the target have used since they started, in ms.

    A node samples its process once a second at most, so this waits for samples taken after the call, up to 2 s. The
    client keeps when each node was started, as ``nodes_started``.

    :raises esrally.exceptions.RallyAssertionError: when a node has left or was restarted since the client asked before,
        see :func:`changed`; this ends the race.
    """
    timestamps = "nodes.*.timestamp,nodes.*.process.timestamp,nodes.*.jvm.timestamp,nodes.*.jvm.uptime_in_millis"
    path = f"/_nodes/stats/process,jvm?filter_path={timestamps},nodes.*.process.cpu.total_in_millis"

    async def read() -> dict[str, dict]:
        return (await get(es, path))["nodes"]

    first = latest = await read()
    for _ in range(20):
        # by the node's own clock, with 10 ms for making up the response
        if all(
            stats["process"]["timestamp"] >= first.get(node, {"timestamp": 0})["timestamp"] - 10
            for node, stats in latest.items()
        ):
            break
        await asyncio.sleep(0.1)
        latest = await read()
    before = getattr(es, "nodes_started", {})
    es.nodes_started = {n: s["jvm"]["timestamp"] - s["jvm"]["uptime_in_millis"] for n, s in latest.items()}
    if problem := changed(before, es.nodes_started):
        raise exceptions.RallyAssertionError(problem)
    return float(sum(stats["process"]["cpu"]["total_in_millis"] for stats in latest.values()))


def changed(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Which nodes are no more what they were, or were not there: their counters of before cannot be taken from those of
    now, and what is measured is another target.

    :param before: when each node was started, by its id, in ms since the epoch.
    :param now: the same, asked later.
    :return: one line; empty when nothing has changed.
    """
    left = sorted(set(before) - set(now))
    joined = sorted(set(now) - set(before)) if before else []
    again = sorted(node for node in now if now[node] - before.get(node, now[node]) > RESTART_MS)
    kinds = ((left, "left"), (joined, "joined"), (again, "was restarted"))
    said = [f"node {', '.join(nodes)} {what}" for nodes, what in kinds if nodes]
    return f"{' and '.join(said)} while the target was measured" if said else ""


async def garbage_collections(es: Any) -> dict[str, float]:
    """Garbage collections of all nodes of the target since they started: ``gc_young``, ``gc_old`` and their times
    ``gc_young_ms``, ``gc_old_ms``.

    Those are the generations whose collections stop all else. Concurrent ones are left out, and so are collectors
    without generations, which then count as 0.
    """
    nodes = (await get(es, "/_nodes/stats/jvm?filter_path=nodes.*.jvm.gc.collectors"))["nodes"].values()
    counted = {}
    for generation in ("young", "old"):
        collectors = [node["jvm"]["gc"]["collectors"].get(generation, {}) for node in nodes]
        counted[f"gc_{generation}"] = float(sum(c.get("collection_count", 0) for c in collectors))
        counted[f"gc_{generation}_ms"] = float(sum(c.get("collection_time_in_millis", 0) for c in collectors))
    return counted


async def index_times(es: Any, index: str) -> dict[str, float]:
    """What an index has spent since it was created, in ms; primary shards only."""
    stats = (await get(es, f"/{index}/_stats/indexing,refresh,merge,flush"))["_all"]["primaries"]
    return {
        "index_ms": float(stats["indexing"]["index_time_in_millis"]),
        "refresh_ms": float(stats["refresh"]["total_time_in_millis"]),
        "merge_ms": float(stats["merges"]["total_time_in_millis"]),
        "flush_ms": float(stats["flush"]["total_time_in_millis"]),
    }
