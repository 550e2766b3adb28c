"""The true rate of a load over time: rows acknowledged in each bucket of time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from _tools.report.looks import Looks
from _tools.report.race import Race, Sample
from _tools.report.stats import Estimate, Samples
from cluster_metrics.core.monitor import MONITOR
from cluster_metrics.ingest.load import BULK

WIDTHS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
MOST_BUCKETS = 100
REQUESTS_PER_BUCKET = 10
RAMP_UP = 0.1
"""Part of a load, from its start, that is no part of its steady window."""
LEAST_BUCKETS = 5
STRETCHES = 10
SLOW = 0.8
"""A bucket is slow when its rate is below this part of the median."""
RULE = (
    "Rows count when they are acknowledged, not when they are sent. The steady window leaves out the first tenth of a "
    "load and ends when the first client has no rows left."
)


@dataclass(frozen=True)
class Load:
    """One load: the bulk requests of one task.

    :param epoch: that it loaded; 0 for all.
    :param width: of a bucket, in s.
    :param rates: acknowledged documents per second, by bucket; the last bucket ends with the load, so it covers half a
        width to one and a half.
    :param documents: acknowledged in all.
    :param seconds: from the start of the first request to the end of the last.
    :param first: first bucket of the steady window.
    :param end: the bucket behind its last; not above ``first`` when the load is too short for a window.
    :param requests: those answered, by bucket.
    :param at: when the first request was sent, in ms since the epoch.
    :param seen: what the monitor saw from then on to the last answer.
    """

    epoch: int
    width: float
    rates: Samples
    documents: float
    seconds: float
    first: int
    end: int
    requests: Sequence[Sequence[Sample]]
    at: int
    seen: Looks

    @property
    def merging(self) -> set[int]:
        """Buckets in which a merge was under way when the monitor looked."""
        merges = (sum(node.get("merges", 0) for node in look.values()) for look in self.seen.nodes)
        at = (int((look.at - self.at) / 1000 / self.width) for look in self.seen.looks)
        return {min(i, len(self.rates) - 1) for i, number in zip(at, merges) if number}

    @property
    def course(self) -> tuple[Samples, Samples]:
        """Seconds from the start at which requests were answered, 0 first, and the documents acknowledged by then."""
        answered = sorted((s.at - self.at + s.value, s.meta["success-count"]) for of in self.requests for s in of)
        at, documents = np.array([(0.0, 0.0), *answered]).T
        return at / 1000, np.cumsum(documents)

    @property
    def steady(self) -> Samples:
        """Rates of the buckets of the steady window; none when it has fewer than five."""
        window = self.rates[self.first : max(self.first, self.end)]
        return window if len(window) >= LEAST_BUCKETS else window[:0]

    @property
    def slow(self) -> list[int]:
        """Buckets of the steady window that are slow."""
        if not len(self.steady):
            return []
        bound = SLOW * float(np.median(self.steady))
        return [i for i in range(self.first, self.end) if self.rates[i] < bound]


def loads(race: Race) -> list[Load]:
    """The loads of a race in order, all with buckets of one width."""
    return race.once(_loads)


def _loads(race: Race) -> list[Load]:
    by_epoch: dict[int, list[Sample]] = {}
    for sample in race.of(BULK):
        by_epoch.setdefault(sample.meta["epoch"], []).append(sample)
    ends = {epoch: _ends(samples) for epoch, samples in by_epoch.items()}
    width = max(map(_width, ends.values()), default=0.0)
    looks = race.of(MONITOR)
    return [_load(epoch, samples, ends[epoch], width, looks) for epoch, samples in by_epoch.items()]


def _ends(samples: Sequence[Sample]) -> Samples:
    """When each request was answered, in s from the start of the first."""
    start = min(s.at for s in samples)
    return np.array([(s.at - start + s.value) / 1000 for s in samples])


def _width(ends: Samples) -> float:
    """The least width with up to 100 buckets, and 10 requests in each on average."""
    seconds = float(np.max(ends))
    least = max(seconds / MOST_BUCKETS, REQUESTS_PER_BUCKET * seconds / len(ends))
    return next((width for width in WIDTHS_S if width >= least), WIDTHS_S[-1])


def _load(epoch: int, samples: Sequence[Sample], ends: Samples, width: float, looks: Sequence[Sample]) -> Load:
    at = min(s.at for s in samples)
    seconds = float(np.max(ends))
    buckets = max(1, round(seconds / width))
    bucket = np.minimum((ends / width).astype(int), buckets - 1)
    documents = np.bincount(bucket, weights=[s.meta["success-count"] for s in samples], minlength=buckets)
    covered = np.full(buckets, width)
    covered[-1] = seconds - (buckets - 1) * width
    last: dict[int, float] = {}
    requests: list[list[Sample]] = [[] for _ in range(buckets)]
    for sample, end, place in zip(samples, ends.tolist(), bucket.tolist()):
        requests[place].append(sample)
        client = sample.meta["client"]
        if end > last.get(client, 0.0):
            last[client] = end
    return Load(
        epoch,
        width,
        documents / covered,
        float(documents.sum()),
        seconds,
        int(np.ceil(RAMP_UP * seconds / width)),
        min(int(min(last.values()) / width), buckets),
        requests,
        at,
        Looks([look for look in looks if at <= look.at <= at + 1000 * seconds]),
    )


def falling_behind(race: Race, goal: float, begin: float = 0, end: float = math.inf) -> Estimate | None:
    """Seconds that a paced load falls behind per second: the slope, over time, of how late requests were sent.

    :param goal: documents per second that were due.
    :param begin: of the time that is looked at, in seconds from the start; from 0 on without the ramp-up.
    :param end: of it.
    :return: with Student's interval over ten stretches of equal length; None for fewer than 10 requests in each.
    """
    found, samples = loads(race)[0], sorted(race.of(BULK), key=lambda s: s.at)
    sent = np.cumsum([s.meta["success-count"] + s.meta.get("error-count", 0) for s in samples])
    at = np.array([s.at - samples[0].at for s in samples]) / 1000
    late = at - np.concatenate([[0.0], sent[:-1]]) / goal
    end = min(end, found.end * found.width)
    window = (at >= (begin or RAMP_UP * end)) & (at < end)
    if np.sum(window) < STRETCHES * REQUESTS_PER_BUCKET:
        return None
    means = [[np.mean(part) for part in np.array_split(of[window], STRETCHES)] for of in (at, late)]
    line = stats.linregress(*means)
    half = float(stats.t.ppf(0.975, STRETCHES - 2) * line.stderr)
    slope = float(line.slope)
    return Estimate(STRETCHES, slope, slope - half, slope + half, math.nan, STRETCHES - 2)


def steady(found: Sequence[Load]) -> Samples:
    """Rates of all buckets of all steady windows."""
    return np.concatenate([load.steady for load in found]) if found else np.array([])
