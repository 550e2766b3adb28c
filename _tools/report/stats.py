"""Statistics of samples. The unit of replication is the round: what is resampled is always whole rounds.

The bootstrap is ours, since scipy's resamples single samples, not the rounds that all cells of a matrix share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt
from scipy import stats

RESAMPLES = 10_000
SEED = 42
ENOUGH = 20
"""Rounds below which there is no verdict; ``make bench-statistics`` shows what is found at this size."""
ENOUGH_RACES = 4
"""Races on two sides together below which there is no verdict from races alone: their differences then have fewer than
2 degrees of freedom."""
THRESHOLD = 0.01
"""Noise threshold: a change that may be smaller than this is no difference. The default of criterion.rs."""
Samples = npt.NDArray[np.float64]
Statistic = Callable[[Samples], Samples]
"""Takes samples along the last axis."""


@dataclass(frozen=True)
class Estimate:
    """A statistic of samples, e.g. their median, with its 95 % interval.

    :param n: samples behind it; of two sides, the smaller number.
    :param value: the statistic.
    :param low: lower bound of its 95 % percentile-bootstrap interval.
    :param high: upper bound.
    :param cv: coefficient of variation of the samples; nan when it means nothing.
    """

    n: int
    value: float
    low: float
    high: float
    cv: float


class Verdict(Enum):
    """What may be said of a ratio of two times."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    NO_DIFFERENCE = "no difference"
    NOT_ENOUGH = "not enough samples"


@dataclass(frozen=True)
class Outliers:
    """How many samples lie beyond Tukey's fences; they are shown, never dropped.

    :param low_severe: more than 3 interquartile ranges below the first quartile.
    :param low_mild: more than 1.5, but not severe.
    :param high_mild: more than 1.5 above the third quartile, but not severe.
    :param high_severe: more than 3 above it.
    """

    low_severe: int
    low_mild: int
    high_mild: int
    high_severe: int

    @property
    def count(self) -> int:
        return self.low_severe + self.low_mild + self.high_mild + self.high_severe


@dataclass(frozen=True)
class Drift:
    """A trend over rounds.

    :param p: probability of a rank correlation with the round this strong or stronger if the order meant nothing.
    :param change: of the samples' level from the first round to the last, as a share of the first.
    """

    p: float
    change: float


def cv(samples: Samples) -> float:
    """Standard deviation over mean; nan for a single sample or a mean that is not positive."""
    mean_ = float(np.mean(samples))
    return float(np.std(samples, ddof=1) / mean_) if len(samples) > 1 and mean_ > 0 else float("nan")


def median(samples: Samples) -> Estimate:
    """The median of samples with its interval (seeded, so the same samples give the same interval).

    :raises ValueError: without samples.
    """
    return _estimate(samples, _median)


def mean(samples: Samples) -> Estimate:
    """The mean of samples with its interval; see :func:`median`."""
    return _estimate(samples, lambda x: np.mean(x, axis=-1))


def log_error(samples: Samples, resamples: int = RESAMPLES) -> float:
    """Standard error of the logarithm of the median: about the relative error of the median. By bootstrap.

    :param samples: all above 0.
    """
    return float(np.std(np.log(_resampled(samples, _median, np.random.default_rng(SEED), resamples)), ddof=1))


def paired_ratio(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The median over rounds of other / base.

    :param base: one sample per round.
    :param other: samples of the same rounds in the same order.
    :raises ValueError: without samples, or when the sides differ in number.
    """
    _check_pairs(base, other)
    return replace(_estimate(other / base, _median, resamples), cv=float("nan"))


def paired_difference(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The median over rounds of other − base; see :func:`paired_ratio`."""
    _check_pairs(base, other)
    return replace(_estimate(other - base, _median, resamples), cv=float("nan"))


def ratio(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The ratio of two medians, other / base, of rounds that do not belong together; each side is resampled by itself.

    :param base: samples above 0.
    :raises ValueError: without samples on a side.
    """
    return _of_two(base, other, lambda b, o: o / b, resamples)


def difference(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The difference of two medians, other − base; see :func:`ratio`."""
    return _of_two(base, other, lambda b, o: o - b, resamples)


def geometric_mean_ratio(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The geometric mean over cells of the ratio of medians, other / base.

    Whole rounds are resampled, since the cells of a round share its disturbances.

    :param base: a row per cell, a column per round; all above 0.
    :param other: the same cells in the same order, any number of rounds.
    """
    rng = np.random.default_rng(SEED)
    sides = [_log_level(side, _picks(rng, side.shape[1], resamples)) for side in (base, other)]
    values = np.exp(sides[1] - sides[0])
    value = math.exp(log_level(other) - log_level(base))
    return _with_interval(min(base.shape[1], other.shape[1]), value, values)


def race_ratio(base: Sequence[float], other: Sequence[float]) -> Estimate:
    """The ratio of two sides of several races each, other / base: of the geometric means of the races' levels.

    The interval is Student's, with the variance that the races of both sides have within their sides: so one side may
    be a single race.

    :param base: logarithm of the level of each race, e.g. of its median.
    :return: ``n`` is the number of races; the bounds are nan below 3, where nothing was replicated.
    """
    sides = [np.asarray(side) for side in (base, other)]
    n = sum(map(len, sides))
    value = math.exp(sides[1].mean() - sides[0].mean())
    if n < 3:
        return Estimate(n, value, math.nan, math.nan, math.nan)
    variance = sum(float(np.sum((side - side.mean()) ** 2)) for side in sides) / (n - 2)
    half = float(stats.t.ppf(0.975, n - 2)) * math.sqrt(variance * sum(1 / len(side) for side in sides))
    return Estimate(n, value, value * math.exp(-half), value * math.exp(half), math.nan)


def crossing(at: Samples, logs: Samples, resamples: int = 2000) -> Estimate:
    """Where a curve known at a few places, by its median over rounds, last rises above zero.

    :param at: logarithms of the places, ascending.
    :param logs: a row per place, a column per round.
    :return: the place, linear between two neighbours; 0 when the curve is above zero from the first place on, infinite
        when it is not at the last. Whole rounds are resampled for the interval.
    """

    def cross(curve: Samples) -> float:
        below = np.flatnonzero(curve <= 0)
        if not len(below):
            return 0.0
        i = int(below[-1])
        if i == len(curve) - 1:
            return math.inf
        return math.exp(at[i] + (at[i + 1] - at[i]) * -curve[i] / (curve[i + 1] - curve[i]))

    n = logs.shape[1]
    picks = _picks(np.random.default_rng(SEED), n, resamples)
    found = np.sort([cross(np.median(logs[:, pick], axis=1)) for pick in picks])
    low, high = found[int(0.025 * resamples)], found[int(0.975 * resamples)]
    value = cross(np.median(logs, axis=1))
    return Estimate(n, value, min(float(low), value), max(float(high), value), math.nan)


def log_level(cells: Samples) -> float:
    """Mean over cells (rows) of the logarithm of the median over rounds (columns)."""
    return float(np.mean(np.log(np.median(cells, axis=1))))


def log_level_error(cells: Samples, resamples: int = RESAMPLES) -> float:
    """Standard error of :func:`log_level`, by resampling whole rounds."""
    rng = np.random.default_rng(SEED)
    return float(np.std(_log_level(cells, _picks(rng, cells.shape[1], resamples)), ddof=1))


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


def verdict(estimate: Estimate, threshold: float = THRESHOLD, enough: int = ENOUGH) -> Verdict:
    """Judges a ratio of times: a change only if both bounds of its interval clear the threshold.

    :param estimate: new over old; the interval of two races has to be :func:`widened` before.
    :param threshold: least change that counts, the same factor up and down (default 0.01: 1 %).
    :param enough: rounds on each side that a verdict takes (default 20).
    """
    if estimate.n < enough or not all(map(math.isfinite, (estimate.low, estimate.high))):
        return Verdict.NOT_ENOUGH
    if estimate.low > 1 + threshold:
        return Verdict.REGRESSED
    return Verdict.IMPROVED if estimate.high < 1 / (1 + threshold) else Verdict.NO_DIFFERENCE


def outliers(samples: Samples) -> Outliers:
    """Counts samples beyond Tukey's fences (Exploratory Data Analysis, 1977), as criterion.rs names them."""
    first, third = np.percentile(samples, (25, 75))
    mild, severe = 1.5 * (third - first), 3 * (third - first)
    below, above = first - samples, samples - third
    return Outliers(
        low_severe=int(np.sum(below > severe)),
        low_mild=int(np.sum((below > mild) & (below <= severe))),
        high_mild=int(np.sum((above > mild) & (above <= severe))),
        high_severe=int(np.sum(above > severe)),
    )


def drift(samples: Samples, permutations: int = RESAMPLES) -> Drift:
    """Whether samples rise or fall over the rounds: Spearman's rank correlation with the round, two-sided, its p by
    seeded permutations; how much: the Theil–Sen slope of the logarithms. Rounds that resemble their neighbours count
    as a drift, too.

    :param samples: above 0, in order of round.
    :return: p is 1 for fewer than 3 samples or equal ones.
    """
    n = len(samples)
    if n < 3 or np.all(samples == samples[0]):
        return Drift(1.0, 0.0)
    rounds = np.arange(n)
    ranks = stats.rankdata(samples)
    tested = stats.permutation_test(
        (ranks,),
        lambda permuted, axis: np.sum(permuted * (rounds - (n - 1) / 2), axis=axis),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=permutations - 1,
        rng=SEED,
    )
    slope = stats.theilslopes(np.log(samples), rounds).slope
    return Drift(float(tested.pvalue), math.expm1(slope * (n - 1)))


def _median(samples: Samples) -> Samples:
    return np.asarray(np.median(samples, axis=-1))


def _picks(rng: np.random.Generator, n: int, resamples: int) -> npt.NDArray[np.int64]:
    return rng.integers(0, n, (resamples, n))


def _resampled(samples: Samples, statistic: Statistic, rng: np.random.Generator, resamples: int) -> Samples:
    if not len(samples):
        raise ValueError("no samples")
    return statistic(samples[_picks(rng, len(samples), resamples)])


def _estimate(samples: Samples, statistic: Statistic, resamples: int = RESAMPLES) -> Estimate:
    values = _resampled(samples, statistic, np.random.default_rng(SEED), resamples)
    return replace(_with_interval(len(samples), float(statistic(samples)), values), cv=cv(samples))


def _of_two(base: Samples, other: Samples, formula: Callable[..., Samples], resamples: int) -> Estimate:
    rng = np.random.default_rng(SEED)  # one stream for both sides, or equal numbers of rounds would be resampled alike
    sides = [_resampled(side, _median, rng, resamples) for side in (base, other)]
    value = float(formula(_median(base), _median(other)))
    return _with_interval(min(len(base), len(other)), value, formula(*sides))


def _with_interval(n: int, value: float, resampled: Samples) -> Estimate:
    low, high = np.percentile(resampled, (2.5, 97.5))
    # rounding in the percentiles' interpolation must not leave the value outside
    return Estimate(n, value, min(float(low), value), max(float(high), value), float("nan"))


def _log_level(cells: Samples, picks: npt.NDArray[np.int64]) -> Samples:
    return np.asarray(np.mean([np.log(np.median(row[picks], axis=1)) for row in cells], axis=0))


def _check_pairs(base: Samples, other: Samples) -> None:
    if len(base) != len(other):
        raise ValueError(f"{len(base)} samples cannot be paired with {len(other)}")
