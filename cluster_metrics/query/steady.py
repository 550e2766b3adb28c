"""Whether configurations are steady: a warm-up ends when none of them gets faster or slower any more."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist, geometric_mean, median

WINDOW = 12
"""Last rounds that are looked at."""
LEVEL = 0.05
"""Probability that any of several configurations that are steady is taken for one that is not, each time one looks."""
CHANGE = 0.05
"""Change over the window up to which a configuration counts as steady, however sure it is."""


def trend(times: Sequence[float]) -> tuple[float, float]:
    """Whether times rise or fall in their order.

    :param times: above 0, three or more.
    :return: p of Mann and Kendall's test, two-sided, by its normal approximation (Kendall, Rank Correlation Methods,
        1975); and the change from the first to the last, as a share of the first, by the Theil–Sen slope of logarithms.
    """
    n, logs = len(times), [math.log(time) for time in times]
    pairs = [(logs[j] - logs[i], j - i) for i, j in combinations(range(n), 2)]
    score = sum((rise > 0) - (rise < 0) for rise, _ in pairs)
    z = max(0, abs(score) - 1) / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return 2 * NormalDist().cdf(-z), math.expm1(median(rise / apart for rise, apart in pairs) * (n - 1))


def unsteady(times: Mapping[str, Sequence[float]]) -> list[str]:
    """The configurations that are not steady over the last :data:`WINDOW` rounds: those that have fewer, and those
    whose trend is more than chance (Bonferroni's bound over all configurations) and more than :data:`CHANGE`. Where
    there is none, all of them if their geometric mean has such a trend, which shows what each hides in its own noise.

    :param times: by configuration, in order of rounds.
    """

    def steady(found: Sequence[float], of: int) -> bool:
        if len(found) < WINDOW:
            return False
        p, change = trend(found[-WINDOW:])
        return p * of > LEVEL or abs(change) <= CHANGE

    alone = [name for name, found in times.items() if not steady(found, len(times))]
    together = [geometric_mean(of) for of in zip(*(found[-WINDOW:] for found in times.values()))]
    return alone or ([] if steady(together, 1) else list(times))
