"""What the monitor saw of the target's nodes and of the load driver, see :mod:`cluster_metrics.core.monitor`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .race import Sample

BUSY = 0.9
"""Part of its CPU share from which on a node, or the load driver's machine, is named as the bottleneck."""


@dataclass(frozen=True)
class Looks:
    """Some looks.

    :param looks: samples of the monitor, in order of time.
    """

    looks: Sequence[Sample]

    @cached_property
    def nodes(self) -> list[dict[str, dict[str, float]]]:
        """What the nodes told of themselves at each look; at least once."""
        return [json.loads(look.meta["nodes"]) for look in self.looks] or [{}]

    def growth(self, key: str) -> dict[str, float]:
        """By how much a counter of each node rose from the first look to the last, per ms of the node's own clock; none
        for a node that does not tell, or has no two looks."""
        first, last = self.nodes[0], self.nodes[-1]
        return {
            node: _risen(first[node], last[node], key) / ms
            for node in sorted(set(first) & set(last))
            if key in first[node] and key in last[node] and (ms := last[node]["at"] - first[node]["at"]) > 0
        }

    def cores(self) -> dict[str, float]:
        """CPU cores that each node used."""
        return self.growth("cpu_ms")

    def compiling(self) -> float | None:
        """The part of its CPU time in which the node that compiled most did so; None where that is not known."""
        used = self.cores()
        compiled = self.growth("compiler_ms")
        return max((cores / used[node] for node, cores in compiled.items() if used.get(node)), default=None)

    def client(self) -> tuple[float, float] | None:
        """CPU cores that Rally used, and the part of its machine that was busy; None where that was not told twice."""
        if len(self.looks) < 2 or "client_cpu_ms" not in self.looks[0].meta:
            return None
        first, last = (look.meta for look in (self.looks[0], self.looks[-1]))
        used, busy, idle = (last[k] - first[k] for k in ("client_cpu_ms", "host_busy_ms", "host_idle_ms"))
        return used / max(1, self.looks[-1].at - self.looks[0].at), busy / max(1, busy + idle)

    def processes(self) -> Mapping[str, float]:
        """CPU cores that each process of Rally used that runs clients, by its id; none where that was not recorded."""
        if len(self.looks) < 2 or "processes" not in self.looks[0].meta:
            return {}
        first, last = (json.loads(look.meta["processes"]) for look in (self.looks[0], self.looks[-1]))
        ms = max(1, self.looks[-1].at - self.looks[0].at)
        return {pid: (last[pid] - first[pid]) / ms for pid in first if pid in last}

    def rejected(self) -> int:
        """Requests that thread pools of the nodes turned away."""
        first, last = self.nodes[0], self.nodes[-1]
        return int(sum(_risen(first[node], last[node], "rejected") for node in set(first) & set(last)))

    def queue(self) -> int:
        """The longest queue of a node that was seen."""
        return max((int(node["queue"]) for look in self.nodes for node in look.values()), default=0)


def _risen(first: Mapping[str, float], last: Mapping[str, float], key: str) -> float:
    """By how much a counter rose; of one that began anew what it has counted since."""
    return last[key] - first[key] if last[key] >= first[key] else last[key]
