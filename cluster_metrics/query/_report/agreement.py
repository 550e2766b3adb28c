"""Whether the two designs agree: the tasks of Rally's that go by pass, and the plan that interleaves all cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from _tools.report.stats import Estimate, Samples

EQUIVALENT = 0.05
"""Two designs are equivalent in a cell when the 95 % interval of their ratio lies within this, up and down."""
MOST_PASSES = 100
"""Most passes that a race may have."""
LEAST_PASSES = 2
"""Passes below which there is no interval: the pass is the unit of replication, its coverages are none."""


@dataclass(frozen=True)
class Agreement:
    """How the passes of a cell compare with the plan.

    :param ratio: median of a pass over that of the plan's rounds that follow it, as the geometric mean over passes;
        ``n`` are passes, the bounds nan below :data:`LEAST_PASSES`.
    :param verdict: ``equivalent within 5 %``, ``different``, ``not shown`` or ``not steady``.
    :param decided_by: passes that would decide it; 0 where it is decided, or where too few passes
        tell nothing of their spread, nan where :data:`MOST_PASSES` would not do.
    """

    ratio: Estimate
    verdict: str
    decided_by: float = 0


def agreement(ratios: Samples, steady: bool = True, cells: int = 1) -> Agreement:
    """Whether passes take as long as the plan, by Student's interval of the logarithms.

    :param ratios: of each pass, the level of its coverages over that of the plan's rounds that follow it: the two see
        the same minutes of the machine.
    :param steady: whether the cell was steady before anything counted; there is no verdict of one that was not.
    :param cells: that are judged together: in 5 % of races any of them is called different that is not (Bonferroni).
    """
    n, logs = len(ratios), np.log(ratios)
    centre = float(np.mean(logs))
    if n < LEAST_PASSES:
        return Agreement(Estimate(n, math.exp(centre), math.nan, math.nan, math.nan), "not shown")
    spread = float(np.std(logs, ddof=1))
    half = _half(spread, n)
    ratio = Estimate(n, math.exp(centre), math.exp(centre - half), math.exp(centre + half), math.nan)
    if not steady:
        return Agreement(ratio, "not steady")
    if verdict := _verdict(centre, spread, n, cells):
        return Agreement(ratio, verdict)
    enough = (k for k in range(n + 1, MOST_PASSES + 1) if _verdict(centre, spread, k, cells))
    return Agreement(ratio, "not shown", next(enough, math.nan))


def _verdict(centre: float, spread: float, passes: int, cells: int) -> str:
    if abs(centre) + _half(spread, passes) <= math.log(1 + EQUIVALENT):
        return f"equivalent within {100 * EQUIVALENT:.0f} %"
    return "different" if abs(centre) > _half(spread, passes, cells) else ""


def _half(spread: float, passes: int, cells: int = 1) -> float:
    """Half of the 95 % interval of the logarithm of the ratio; of several together, of an interval for all of them.

    :param spread: standard deviation between passes.
    """
    return float(stats.t.ppf(1 - 0.025 / cells, passes - 1)) * spread / math.sqrt(passes)


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
