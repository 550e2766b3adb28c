"""Verdicts on ratios: on each by itself, on those of a table, which are judged together, and the words for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import optimize, stats

from cluster_metrics.core.challenge import Compared

from ..race.variables import variable
from .stats import ENOUGH, LEVEL, Estimate
from .text import percent

THRESHOLD = 0.01
"""Noise threshold: a change that may be smaller than this is not called one. The default of criterion.rs."""
DELTA = 0.03
"""Change within which two sides are called equivalent."""
POWER = 0.8
MANY = 1000.0
"""Degrees of freedom with which Student's t is as good as normal."""


class Verdict(Enum):
    """What may be said of a ratio of two times."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    EQUIVALENT = "equivalent"
    NOT_SHOWN = "not shown"
    NOT_ENOUGH = "not enough samples"

    @property
    def is_tie(self) -> bool:
        """Whether what is held against the fastest may be as fast: of samples enough, and not shown to be slower."""
        return self not in (Verdict.REGRESSED, Verdict.NOT_ENOUGH)


@dataclass(frozen=True)
class Gate:
    """What a verdict takes.

    :param enough: units on each side; races of both together.
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


def widened(estimate: Estimate, floor: float) -> Estimate:
    """The interval of a ratio with the noise between races added.

    The noise is a factor whose logarithm has the 95 % interval ±floor about 0, and the bounds of independent parts
    combine as the root of the sum of their squared distances (MOVER; Zou and Donner, Statistics in Medicine 27, 2008).

    :param estimate: a ratio above 0.
    :param floor: 0 or above, as a logarithm: 0.05 is about 5 %.
    """
    down = math.hypot(math.log(estimate.value / estimate.low), floor)
    up = math.hypot(math.log(estimate.high / estimate.value), floor)
    return replace(estimate, low=estimate.value * math.exp(-down), high=estimate.value * math.exp(up))


def verdict(estimate: Estimate, threshold: float = THRESHOLD, enough: int = ENOUGH, delta: float = DELTA) -> Verdict:
    """Judges a ratio of times by itself: a change only if both bounds of its interval clear the threshold, and
    equivalent only if its 90 % interval lies within delta (two one-sided tests at 5 %; Schuirmann 1987).

    :param estimate: new over old; the interval of two races has to be :func:`widened` before.
    :param threshold: least change that counts, the same factor up and down (default 0.01: 1 %).
    :param enough: units on each side, or races of both together, that a verdict takes (default 20).
    :param delta: greatest change that does not matter, the same factor up and down (default 0.03: 3 %).
    """
    if estimate.n < enough or not all(map(math.isfinite, (estimate.low, estimate.high))):
        return Verdict.NOT_ENOUGH
    if estimate.low > 1 + threshold:
        return Verdict.REGRESSED
    if estimate.high < 1 / (1 + threshold):
        return Verdict.IMPROVED
    return Verdict.EQUIVALENT if equivalent(estimate, delta) else Verdict.NOT_SHOWN


def equivalent(estimate: Estimate, delta: float = DELTA) -> bool:
    """Whether the 90 % interval of a ratio lies within a change of delta up or down."""
    low, high = estimate.bounds(1 - 2 * LEVEL)
    return low > 1 / (1 + delta) and high < 1 + delta


def p_value(estimate: Estimate, threshold: float = THRESHOLD) -> float:
    """Two-sided p that a ratio's change is no more than the threshold, by its interval: below 0.05 just when both
    bounds clear the threshold. 1 without an interval."""
    distance = abs(math.log(estimate.value)) - math.log1p(threshold)
    if not estimate.known or distance <= 0:
        return 1.0
    towards = math.log(estimate.value / estimate.low if estimate.value > 1 else estimate.high / estimate.value)
    quantile = stats.t.ppf(1 - LEVEL / 2, estimate.freedom)
    return float(2 * stats.t.sf(distance / towards * quantile, estimate.freedom)) if towards else 0.0


def detectable(estimate: Estimate, threshold: float = THRESHOLD, tests: int = 1) -> float:
    """The change that would have been called one in 80 % of cases, as a share; nan without an interval: that at which
    the noncentral t exceeds the bound so often.

    :param tests: that are made together, of which the strictest counts.
    """
    low, high = estimate.bounds(1 - LEVEL / tests)
    freedom = min(estimate.freedom, MANY)
    bound = float(stats.t.ppf(1 - LEVEL / tests / 2, freedom))
    away = optimize.brentq(lambda x: float(stats.nct.sf(bound, freedom, x)) - POWER, 0, 5 * bound)
    return math.expm1(math.log1p(threshold) + math.log(high / low) / 2 * away / bound)


def decided_by(of: Judged) -> float:
    """Units that would show a change or equivalence where neither is shown, were the ratio as it is and its interval
    narrower by the root of their number; nan where a change counts from more than the greatest that does not matter."""
    away, (low, high) = abs(math.log(of.estimate.value)), of.estimate.bounds(1 - 2 * LEVEL)
    rooms = (
        (math.log(of.high / of.low), away - math.log1p(of.gate.threshold)),
        (math.log(high / low), math.log1p(of.gate.delta) - away),
    )
    units = [of.estimate.n * (width / 2 / room) ** 2 for width, room in rooms if room > 0]
    return float(math.ceil(min(units))) if units else math.nan


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
    return [bool(q < LEVEL) for q in stats.false_discovery_control(p)] if len(p) else []


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
