"""Whether the two designs agree: the tasks of Rally's that go by pass, and the plan that interleaves all cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from _tools.report.stats import Estimate, Samples, log_error

EQUIVALENT = 0.05
"""Two designs are equivalent in a cell when the 95 % interval of their ratio lies within this, up and down."""
MOST_PASSES = 100
"""Most passes that a race may have."""
LEAST_PASSES = 2
"""Passes below which there is no interval: the pass is the unit of replication, its coverages are none."""


@dataclass(frozen=True)
class Agreement:
    """How the passes of a cell compare with the plan.

    :param ratio: median of a pass over that of the plan's rounds, as the geometric mean over passes; ``n`` are passes,
        the bounds nan below :data:`LEAST_PASSES`.
    :param verdict: ``equivalent within 5 %``, ``different``, ``not shown`` or ``not steady``.
    :param decided_by: passes that would decide it; 0 where it is decided, nan where :data:`MOST_PASSES` would not do.
    """

    ratio: Estimate
    verdict: str
    decided_by: float = 0


def passes_of(samples: Mapping[int, list[float]]) -> Samples:
    """The level of each pass: the median of its coverages, in ms, by pass."""
    return np.array([float(np.median(values)) for values in samples.values()])


def agreement(passes: Samples, plan: Samples, steady: bool = True) -> Agreement:
    """Holds passes against the plan, Student's interval of the logarithms.

    What counts is the passes' spread among each other, with the error of the plan's median (by bootstrap of its
    rounds); degrees of freedom by Welch and Satterthwaite.

    :param passes: the level of each pass, in ms.
    :param plan: the same cell, a value per round.
    :param steady: whether the cell was steady before anything counted; there is no verdict of one that was not.
    """
    n, centre = len(passes), float(np.mean(np.log(passes)) - np.log(np.median(plan)))
    if n < LEAST_PASSES or len(plan) < LEAST_PASSES:
        ratio = Estimate(n, math.exp(centre), math.nan, math.nan, math.nan)
        return Agreement(ratio, "not shown", math.nan)
    spread, rounds = float(np.var(np.log(passes), ddof=1)), log_error(plan) ** 2
    half = _half(spread, n, rounds, len(plan))
    ratio = Estimate(n, math.exp(centre), math.exp(centre - half), math.exp(centre + half), math.nan)
    if not steady:
        return Agreement(ratio, "not steady")
    if verdict := _verdict(centre, half):
        return Agreement(ratio, verdict)
    enough = (k for k in range(n + 1, MOST_PASSES + 1) if _verdict(centre, _half(spread, k, rounds, len(plan))))
    return Agreement(ratio, "not shown", next(enough, math.nan))


def _verdict(centre: float, half: float) -> str:
    if abs(centre) + half <= math.log(1 + EQUIVALENT):
        return f"equivalent within {100 * EQUIVALENT:.0f} %"
    return "different" if abs(centre) > half else ""


def _half(spread: float, passes: int, rounds: float, number: int) -> float:
    """Half of the 95 % interval of the logarithm of the ratio.

    :param spread: variance between passes.
    :param rounds: variance of the plan's level.
    :param number: of the plan's rounds.
    """
    parts = ((spread / passes, passes - 1), (rounds, number - 1))
    variance = sum(part for part, _ in parts)
    if not variance:
        return 0.0
    freedom = variance**2 / sum(part**2 / of for part, of in parts)
    return float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)


def summary(found: Mapping[str, Agreement]) -> str:
    """One sentence on all cells, those that differ by name."""
    kinds: dict[str, list[str]] = {}
    for cell, one in found.items():
        kinds.setdefault(one.verdict, []).append(cell)
    counts = [
        f"{len(cells)} of {len(found)} cells {'is' if len(cells) == 1 else 'are'} {verdict}"
        + ("" if verdict.startswith("equivalent") else f" ({', '.join(cells)})")
        for verdict, cells in sorted(kinds.items(), key=lambda item: -len(item[1]))
    ]
    return f"Headline cells against the plan: {'; '.join(counts)}."
