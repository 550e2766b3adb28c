"""A look at all nodes of the target, and at Rally's own processes, once a second while a load is on its way."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import psutil
from esrally.utils import process

from ..wire.requests import request
from .challenge import Key, Operation, Sample
from .compilers import Compilers
from .rounds import Params, Runner

MONITOR = "monitor"
"""Name and operation type of the task that looks on. It stands first among the tasks that run at once: clients are
handed to Rally's processes in order, and so the load is spread over them as it is without it."""
MONITOR_SECONDS = 1.0
HOST_TIMES = 8
"""Of the CPU times that Linux counts, those that are no part of another: all but the ones of guests."""
COUNTERS = {
    "at": "process.timestamp",
    "cpu_ms": "process.cpu.total_in_millis",
    "active": "thread_pool.write.active",
    "gc_young_ms": "jvm.gc.collectors.young.collection_time_in_millis",
    "gc_old_ms": "jvm.gc.collectors.old.collection_time_in_millis",
    "merges": "indices.merges.current",
    "merge_ms": "indices.merges.total_time_in_millis",
    "merge_throttle_ms": "indices.merges.total_throttled_time_in_millis",
    "index_throttle_ms": "indices.indexing.throttle_time_in_millis",
    "disk_ops": "fs.io_stats.total.operations",
    "disk_read_kb": "fs.io_stats.total.read_kilobytes",
    "disk_write_kb": "fs.io_stats.total.write_kilobytes",
    "disk_busy_ms": "fs.io_stats.total.io_time_in_millis",
    "held_ns": "os.cgroup.cpu.stat.time_throttled_nanos",
}
"""What is noted of a node, by where ``_nodes/stats`` has it; what a node does not tell is left out. Elasticsearch takes
these figures once a second at most."""
POOLS = ("search", "write")
LOOKED = (
    Key(
        "nodes",
        "",
        "per node, since its start: its clock, CPU time, that of its compiler where it runs beside the load driver, "
        "garbage collections, merges, throttling, disk and time held by its cgroup, and its queues and rejections now, "
        "as JSON text",
    ),
    Key("client_cpu_ms", "ms", "CPU time of all of Rally's processes since their start", optional=True),
    Key("processes", "", "the same of each of them that runs clients, in ms, as JSON text", optional=True),
    Key("host_busy_ms", "ms", "of all cores of the load driver since its start", optional=True),
    Key("host_idle_ms", "ms", "the same", optional=True),
)


def counters(stats: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What is noted of each node, by its name; ``queue`` and ``rejected`` are those of searches and bulk requests.

    :param stats: the response of ``_nodes/stats``.
    """
    nodes: dict[str, dict[str, float]] = {}
    for node in stats["nodes"].values():
        pools = [node["thread_pool"][pool] for pool in POOLS]
        found = {name: value for name, path in COUNTERS.items() if (value := _at(node, path)) is not None}
        found |= {key: sum(pool[key] for pool in pools) for key in ("queue", "rejected")}
        nodes[node["name"]] = found
    return nodes


def _at(stats: Any, path: str) -> float | None:
    for name in path.split("."):
        stats = stats.get(name) if isinstance(stats, dict) else None
    return stats


class Monitor(Runner):
    """Looks once, and then waits for a second. Optional keys: ``cell``, ``pass``, ``parameters``. Of several load
    drivers it could tell one alone, on which the clients need not be, so it tells none.
    """

    def __init__(self) -> None:
        self._rally: list[psutil.Process] = []
        self._workers: set[int] = set()
        self._compilers = Compilers()

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        of_pools = (f"thread_pool.{pool}.{key}" for pool in POOLS for key in ("queue", "rejected"))
        wanted = ",".join(f"nodes.*.{path}" for path in ("name", *COUNTERS.values(), *of_pools))
        metrics = "indices,process,thread_pool,jvm,fs,os/merge,indexing"
        stats = await request(es, "GET", f"/_nodes/stats/{metrics}?filter_path={wanted}")
        result: dict[str, Any] = {key: params[key] for key in ("cell", "pass") if key in params}
        result |= {"weight": 1, "unit": "ops"}
        nodes = counters(stats)
        if "load_drivers" not in params.get("parameters", {}):
            result |= self._load_driver()
            for name, ms in (await self._compilers.spent_ms(es)).items():
                if name in nodes:
                    nodes[name]["compiler_ms"] = ms
        result["nodes"] = json.dumps(nodes)
        await asyncio.sleep(MONITOR_SECONDS)  # no pace of Rally's, which test mode takes away
        return result

    def _load_driver(self) -> dict[str, Any]:
        # looking for them takes tens of ms, in which other clients of this process stand still; they stay the same
        if not self._rally:
            own = psutil.Process()
            self._rally = [own, *process.find_all_other_rally_processes()]
            # those that run clients have one parent; the others keep samples, which no client waits for
            self._workers = {p.pid for p in self._rally if _told(p.ppid) == own.ppid()}
        times = {p.pid: _told(p.cpu_times) for p in self._rally}
        used = {pid: round(1000 * (of.user + of.system)) if of else 0 for pid, of in times.items()}
        host = psutil.cpu_times()
        idle = host.idle + getattr(host, "iowait", 0.0)
        return {
            "client_cpu_ms": float(sum(used.values())),
            "processes": json.dumps({str(pid): used[pid] for pid in sorted(self._workers)}),
            "host_busy_ms": float(1000 * (sum(host[:HOST_TIMES]) - idle)),
            "host_idle_ms": float(1000 * idle),
        }


class MonitorParams(Params):
    """Looks until the task that it stands beside is done, or the first of its clients in the same process of Rally."""

    infinite = False

    def params(self) -> dict[str, Any]:
        return {"parameters": self.values}


def _told(ask: Callable[[], Any]) -> Any:
    """What a process tells of itself; None where there is none any more, or it may not be asked."""
    try:
        return ask()
    except psutil.Error:
        return None


LOOK = Operation(MONITOR, Monitor, MonitorParams, samples=(Sample(MONITOR, "second", LOOKED),))
