"""One cell of a race of a capacity challenge in one pass: which part of it counts, and what was measured then."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from _tools.report.looks import Looks
from _tools.report.race import Sample
from _tools.report.steady import course, steady_from

from .model import Counted, Table


@dataclass(frozen=True)
class Pass(Looks):
    """One cell in one pass, with what the monitor saw: from when its rate was steady, or all of it where it never was.

    :param prepared: the sample of its preparation.
    :param requests: searches or documents that succeeded, in order of time.
    :param cut_s: seconds before, which do not count.
    :param steady: whether its rate came to be steady; if not, it carries no verdict.
    :param faster: the requests before, where their rate was higher: of them and the others the trend is told.
    :param gone: nodes that had left, see :func:`gone`; with fewer nodes it carries no verdict either.
    :param level: how fast all cells were in it, over other passes.
    :param paced_s: seconds that requests with a rate of their own count; 0 where they are sent as fast as they are
        answered. Rally takes what a client waits to send when its warm-up ends for warm-up, and what it waits to send
        when its time ends for measured, so as many come after that time as are missing at its begin.
    """

    prepared: Sample
    requests: Sequence[Sample]
    cut_s: float = 0.0
    steady: bool = True
    faster: Sequence[Sample] = ()
    gone: Sequence[str] = ()
    level: float = 1.0
    paced_s: float = 0.0

    @property
    def table(self) -> Table:
        return json.loads(self.prepared.meta["shard_table"])

    @property
    def measured(self) -> Counted:
        """What models are fitted to: as if all passes were as fast."""
        used = {node: cores for node, cores in self.cores().items() if node in self.table}
        most = max(used.values(), default=0.0)
        parts = {node: cores / most for node, cores in used.items() if most}
        at_once = int(np.median([request.meta.get("success-count", 1) for request in self.requests]))
        return Counted(self.rate / self.level, self.table, parts, at_once)

    @property
    def target_cores(self) -> float:
        """CPU cores that all nodes used; 0 where that was not told."""
        return sum(self.cores().values())

    def busiest_process(self) -> float:
        """CPU cores that the busiest of Rally's processes used; 0 where that was not told."""
        return max(self.processes().values(), default=0.0)

    @cached_property
    def rate(self) -> float:
        """Searches or acknowledged documents per second, from the first start of a request to the last where they are
        sent as fast as they are answered."""
        done = [s.meta.get("success-count", 1) for s in self.requests]
        if self.paced_s:
            return sum(done) / self.paced_s
        return 1000 * sum(done[1:]) / max(1, self.requests[-1].at - self.requests[0].at)

    @cached_property
    def halves(self) -> tuple[float, float]:
        """The same of the first and of the second half of its time, less a slower begin."""
        requests = [*self.faster, *self.requests]
        start, end = requests[0].at, requests[-1].at
        done = [0, 0]
        for sample in requests[1:]:
            done[2 * sample.at > start + end] += sample.meta.get("success-count", 1)
        early, late = (2000 * number / max(1, end - start) for number in done)
        return early, late


def gone(prepared: Sample, looks: Sequence[Sample]) -> list[str]:
    """Nodes that hold data and were not there at each look: they left, before the cell began or meanwhile."""
    holding = set(json.loads(prepared.meta["shard_table"]))
    return sorted(holding - holding.intersection(*Looks(looks).nodes)) if looks else []


def together(one: Pass, seconds: float) -> Pass:
    """A pass while all clients sent: each does for so many seconds, so the first that began is the first to stop."""
    end = one.requests[0].at + 1000 * seconds
    requests = [request for request in one.requests if request.at <= end]
    return replace(one, looks=[look for look in one.looks if look.at <= end], requests=requests)


def steadied(one: Pass, seconds: float) -> Pass:
    """A pass of so many seconds from when its rate is steady."""
    at = np.array([s.at for s in one.requests])
    rates = course(at, np.array([s.meta.get("success-count", 1) for s in one.requests]), seconds)
    start = steady_from(rates)
    if not start:
        return replace(one, steady=start is not None)
    cut = 1000 * seconds * start / len(rates)
    looks = [look for look in one.looks if look.at >= at[0] + cut]
    first = int(np.searchsorted(at, at[0] + cut))
    faster = one.requests[:first] if np.mean(rates[:start]) > np.mean(rates[start:]) else ()
    return replace(one, looks=looks, requests=one.requests[first:], cut_s=cut / 1000, faster=faster)
