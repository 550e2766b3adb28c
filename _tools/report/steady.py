"""From when on a rate is steady: by the change points of its course, which a library finds."""

import numpy as np
from ruptures import KernelCPD

from .stats import Samples

PENALTY = 5.0
"""What a change point costs, times ln n, in variances of the noise. Chosen by simulation: of flat rates 1 % are called
unsteady at most, 4 % where spans resemble their neighbours; see docs/statistics.md."""
SHORTEST = 2
"""Spans that a stretch has at least: a single one that stands out is noise."""
NEAR = 0.05
"""Part by which the level of a stretch may differ from that of another and still be the same."""
PART = 2 / 3
"""Part of its time that a rate has one level for at least; one that keeps rising has not."""
SPANS = 16, 60
"""Spans that a course is told by, at least and at most: a second each where these bounds let it be. Of fewer, noise
cannot be told from changes; in longer ones merges and collections of garbage even out."""
FINEST_S = 0.25
"""Seconds of a span at least, a few periods of the quota that holds a node to its share."""


def course(at: Samples, done: Samples, seconds: float) -> Samples:
    """How much was done in each of equal spans of a time; empty where that is too short to tell anything (4 s).

    :param at: times in ms, ascending; the first is the begin.
    :param done: how much at each.
    """
    spans = int(min(max(seconds, SPANS[0]), SPANS[1], seconds / FINEST_S))
    if spans < SPANS[0]:
        return np.array([])
    return np.histogram(at, spans, (at[0], at[0] + 1000 * seconds), weights=done)[0]


def stretches(rates: Samples) -> list[int]:
    """Where the stretches of a course begin, each of a level of its own: those that fit it with the least squares, at a
    price for each. The noise is told by neighbours, which levels hardly touch."""
    noise = np.sqrt(np.mean(np.diff(rates) ** 2) / 2) if len(rates) >= 2 * SHORTEST else 0.0
    if not noise:
        return [0]
    found = KernelCPD(kernel="linear", min_size=SHORTEST).fit((rates / noise).reshape(-1, 1))
    return [0, *map(int, found.predict(pen=PENALTY * np.log(len(rates)))[:-1])]


def steady_from(rates: Samples) -> int | None:
    """The span from which on a course is steady; None where too small a part of it has one level, or nothing is done in
    its end any more. Stretches of another level after the first of this one are disturbances and belong to it. A course
    that is too short to tell is taken for steady."""
    starts = stretches(rates)
    parts = np.split(rates, starts[1:])
    if len(parts) == 1:
        return 0
    if not np.any(parts[-1]):
        return None
    alike = [[abs(np.mean(other) - np.mean(part)) <= NEAR * np.mean(part) for other in parts] for part in parts]
    level = max(alike, key=lambda of: sum(len(part) for part, so in zip(parts, of) if so))
    steady = sum(len(part) for part, so in zip(parts, level) if so)
    return starts[level.index(True)] if steady >= PART * len(rates) else None
