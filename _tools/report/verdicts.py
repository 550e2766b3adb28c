"""Verdicts on the ratios of a table, which are judged together, and the words for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control

from cluster_metrics.core.challenge import Compared

from ..race.variables import variable
from .stats import DELTA, ENOUGH, LEVEL, THRESHOLD, Estimate, Verdict, detectable, equivalent, p_value, verdict
from .text import percent


@dataclass(frozen=True)
class Gate:
    """What a verdict takes.

    :param enough: units on each side.
    :param delta: greatest change that does not matter, as a share.
    :param threshold: least change that counts, as a share.
    """

    enough: int = ENOUGH
    delta: float = DELTA
    threshold: float = THRESHOLD


@dataclass(frozen=True)
class Judged:
    """What may be said of a ratio.

    :param estimate: new over old.
    :param gate: that it was judged by.
    :param low: least ratio that it could be, allowing for all that were judged together; nan without an interval.
    :param high: greatest.
    :param found: the change that would have been called one in 80 % of cases, as a share; nan without an interval.
    """

    verdict: Verdict
    estimate: Estimate
    gate: Gate
    low: float
    high: float
    found: float

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.verdict is Verdict.EQUIVALENT:
            return f"equivalent within {percent(self.gate.delta)}"
        if self.verdict is Verdict.NOT_SHOWN:
            return f"not shown (could be {change(self.low)} to {change(self.high)})"
        return self.verdict.value


def gate_of(compared: Compared, enough: int = 0) -> Gate:
    """The gate of a challenge, with the make variable ``DELTA``.

    :param enough: units, where not those of the record.
    """
    given = variable("DELTA")
    return Gate(enough or compared.enough, float(given) / 100 if given else DELTA)


def change(ratio: float) -> str:
    """A ratio as a change."""
    return percent(ratio - 1) if ratio < 1 else f"+{percent(ratio - 1)}"


def holm(p: Sequence[float]) -> list[bool]:
    """Which of several hypotheses are rejected so that one true one or more is in 5 % of cases (Holm 1979)."""
    rejected, order = [False] * len(p), np.argsort(p)
    for left, i in zip(range(len(p), 0, -1), order):
        if p[i] * left >= LEVEL:
            break
        rejected[i] = True
    return rejected


def benjamini_hochberg(p: Sequence[float]) -> list[bool]:
    """Which of several hypotheses are rejected so that of those 5 % are true ones (Benjamini and Hochberg 1995)."""
    return [bool(q < LEVEL) for q in false_discovery_control(p)] if len(p) else []


def judge(
    estimates: Sequence[Estimate],
    gate: Gate | Sequence[Gate],
    rejected: Callable[[Sequence[float]], list[bool]] = holm,
) -> list[Judged]:
    """Judges the ratios of a table together. A change takes both bounds clear of the threshold and a p that counts
    among all of them; equivalence is judged one by one.

    :param estimates: new over old, all above 0; what lacks an interval or units is left out of the count.
    :param gate: of all of them, or one for each.
    :param rejected: which of several p mean a change: :func:`holm` or :func:`benjamini_hochberg`.
    """
    gates = [gate] * len(estimates) if isinstance(gate, Gate) else gate
    alone = [verdict(e, g.threshold, g.enough, g.delta) for e, g in zip(estimates, gates)]
    among = [i for i, said in enumerate(alone) if said is not Verdict.NOT_ENOUGH]
    kept = dict(zip(among, rejected([p_value(estimates[i], gates[i].threshold) for i in among])))
    tests, found = max(1, len(among)), []
    for i, (e, g, said) in enumerate(zip(estimates, gates, alone)):
        if said in (Verdict.IMPROVED, Verdict.REGRESSED) and not kept[i]:
            said = Verdict.EQUIVALENT if equivalent(e, g.delta) else Verdict.NOT_SHOWN
        low, high = e.bounds(1 - LEVEL / tests) if e.known else (math.nan, math.nan)
        found.append(Judged(said, e, g, low, high, detectable(e, g.threshold, tests) if e.known else math.nan))
    return found
