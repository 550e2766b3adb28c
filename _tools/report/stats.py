"""Statistics of samples. The unit of replication is the round: what is resampled is always whole rounds.

The bootstrap is ours, since scipy's resamples single samples, not the rounds that all cells of a matrix share.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from cluster_metrics.core.challenge import Compared

RESAMPLES = 10_000
SEED = 42
LEAST = Compared.least
"""Samples below which a median has no interval."""
ENOUGH = Compared.enough
"""Rounds below which there is no verdict, unless the record says otherwise; see docs/statistics.md."""
FEW = 15
"""Samples below which an interval is Student's: of a mean by its standard error, of all else by that of the bootstrap,
whose percentiles hold the truth in 87 to 94 % of cases there."""
ENOUGH_RACES = 4
"""Races on two sides together below which there is no verdict from races alone: their differences then have fewer than
2 degrees of freedom."""
LEVEL = 0.05
"""At which tests are made; intervals are those of 95 %."""
RESEMBLING = 0.2
"""Autocorrelation above which intervals are widened."""
Samples = npt.NDArray[np.float64]
Draws = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Estimate:
    """A statistic of samples, e.g. their median, with its 95 % interval.

    :param n: samples behind it; of two sides, the smaller number; of races on two sides, all of them.
    :param value: the statistic.
    :param low: lower bound of its 95 % interval; nan when there are too few samples for one.
    :param high: upper bound.
    :param cv: coefficient of variation of the samples; nan when it means nothing.
    :param freedom: degrees of freedom of Student's t, by which bounds at other levels follow: those of the interval, or
        for percentiles of the bootstrap a third of n, with which 11 equal ways give a false alarm in 5 to 9 % of cases
        (13 % with the normal distribution).
    """

    n: int
    value: float
    low: float
    high: float
    cv: float
    freedom: float = math.inf

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not (math.isnan(self.low) and math.isnan(self.high))

    @property
    def span(self) -> tuple[float, float]:
        """The bounds to draw: the value itself without an interval."""
        return (self.low, self.high) if self.known else (self.value, self.value)

    def bounds(self, level: float) -> tuple[float, float]:
        """The bounds of a ratio's interval at another level, e.g. 0.9: distances on the logarithm grow with the
        quantiles of Student's t."""
        wider = float(stats.t.ppf((1 + level) / 2, self.freedom) / stats.t.ppf(1 - LEVEL / 2, self.freedom))
        down, up = (math.log(self.value / self.low), math.log(self.high / self.value))
        return self.value * math.exp(-wider * down), self.value * math.exp(wider * up)


def cv(samples: Samples) -> float:
    """Standard deviation over mean; nan for a single sample or a mean that is not positive."""
    mean_ = float(np.mean(samples))
    return float(np.std(samples, ddof=1) / mean_) if len(samples) > 1 and mean_ > 0 else float("nan")


def autocorrelation(samples: Samples) -> float:
    """Correlation of samples with the next, less its bias for so few of them (Marriott and Pope 1954); 0 for fewer than
    6 samples or equal ones.

    :param samples: in order of time.
    """
    n = len(samples)
    if n < LEAST or np.ptp(samples) == 0:
        return 0.0
    off = samples - np.mean(samples)
    found = float(np.sum(off[1:] * off[:-1]) / np.sum(off**2))
    return float(np.clip(found + (1 + 4 * found) / n, -0.9, 0.9)) if found > -0.25 else found


def widening(samples: Samples) -> float:
    """Factor on the width of an interval of samples that resemble their neighbours: as if there were fewer of them,
    n (1 − r) / (1 + r), with Student's t for these. 1 up to an autocorrelation of 0.2. This holds the truth more often
    than blocks resampled; see docs/statistics.md.

    :param samples: in order of time.
    """
    n, r = len(samples), autocorrelation(samples)
    if r <= RESEMBLING:
        return 1.0
    effective = max(3.0, n * (1 - r) / (1 + r))
    return math.sqrt(n / effective) * float(stats.t.ppf(0.975, effective - 1) / stats.t.ppf(0.975, n - 1))


def median(samples: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The median of samples with its interval (seeded, so the same samples give the same interval): by percentiles of
    the bootstrap; below 15 samples by its standard error and Student's t; none below 6.

    :raises ValueError: without samples.
    """
    return _estimate(samples, float(np.median(_checked(samples))), _resampled_median(samples, resamples))


def mean(samples: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The mean of samples with its interval: Student's below 15 samples, where the bootstrap's is too narrow, and none
    below 3; see :func:`median`."""
    if not 0 < (n := len(samples)) < FEW:
        return _estimate(samples, float(np.mean(_checked(samples))), _resampled_mean(samples, resamples))
    error = float(stats.sem(samples)) * widening(samples) if n > 2 else math.nan
    half = float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * error
    value = float(np.mean(samples))
    return Estimate(n, value, value - half, value + half, cv(samples), n - 1)


def log_error(samples: Samples, resamples: int = RESAMPLES) -> float:
    """Standard error of the logarithm of the median: about the relative error of the median. By bootstrap.

    :param samples: all above 0.
    """
    return float(np.std(np.log(_resampled_median(samples, resamples)), ddof=1))


def paired_ratio(base: Samples, other: Samples, resamples: int = RESAMPLES) -> Estimate:
    """The median over rounds of other / base.

    :param base: one sample per round.
    :param other: samples of the same rounds in the same order.
    :raises ValueError: without samples, or when the sides differ in number.
    """
    _check_pairs(base, other)
    return replace(median(other / base, resamples), cv=float("nan"))


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
    first, second = base.shape[1], other.shape[1]
    values = np.exp(_log_level(other, _draws(second, resamples, first)) - _log_level(base, _draws(first, resamples)))
    value = math.exp(log_level(other) - log_level(base))
    return _with_interval(min(first, second), value, values)


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
    return Estimate(n, value, value * math.exp(-half), value * math.exp(half), math.nan, n - 2)


def geometric_mean(levels: Sequence[float]) -> Estimate:
    """The geometric mean of several levels with its interval, see :func:`mean`.

    :param levels: e.g. the median of each race, or what of each cell changed; all above 0, or the mean is 0.
    :return: ``n`` is their number; the bounds are nan below 3.
    """
    if min(levels) <= 0:
        return Estimate(len(levels), 0.0, math.nan, math.nan, math.nan)
    found = mean(np.log(levels))
    value, low, high = (math.exp(x) for x in (found.value, found.low, found.high))
    return Estimate(found.n, value, low, high, math.nan, found.freedom)


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
    draws = _draws(n, resamples)
    found = np.sort([cross(curve) for curve in np.transpose([_medians(row, draws) for row in logs])])
    low, high = found[int(0.025 * resamples)], found[int(0.975 * resamples)]
    value = cross(np.median(logs, axis=1))
    if n < LEAST:
        return Estimate(n, value, math.nan, math.nan, math.nan)
    return Estimate(n, value, min(float(low), value), max(float(high), value), math.nan)


def optimism(ways: Samples, resamples: int = 2000) -> float:
    """By how much the least of the medians of several ways is too low since it was chosen for being the least, as a
    share, 0 or above: how much lower it is, in rounds resampled, than what the way that is least there takes in all.

    :param ways: a row per way, a column per round; all above 0.
    """
    draws = _draws(ways.shape[1], resamples)
    resampled = np.array([_medians(row, draws) for row in ways])
    chosen = np.argmin(resampled, axis=0)
    least = resampled[chosen, np.arange(resamples)]
    return max(0.0, math.expm1(float(np.mean(np.log(np.median(ways, axis=1)[chosen] / least)))))


def log_level(cells: Samples) -> float:
    """Mean over cells (rows) of the logarithm of the median over rounds (columns)."""
    return float(np.mean(np.log(np.median(cells, axis=1))))


def log_level_error(cells: Samples, resamples: int = RESAMPLES) -> float:
    """Standard error of :func:`log_level`, by resampling whole rounds."""
    return float(np.std(_log_level(cells, _draws(cells.shape[1], resamples)), ddof=1))


def _checked(samples: Samples) -> Samples:
    if not len(samples):
        raise ValueError("no samples")
    return samples


def _picks(rng: np.random.Generator, n: int, resamples: int) -> npt.NDArray[np.int64]:
    return rng.integers(0, n, (resamples, n))


@lru_cache(maxsize=8)
def _draws(n: int, resamples: int, after: int = 0) -> Draws:
    """How often each of n samples (rows) is in each resample (columns).

    :param after: samples of another side that was resampled before from the same stream.
    """
    rng = np.random.default_rng(SEED)
    if after:
        _picks(rng, after, resamples)
    places = _picks(rng, n, resamples)
    places += n * np.arange(resamples)[:, np.newaxis]
    counts = np.bincount(places.ravel(), minlength=n * resamples).reshape(resamples, n)
    return np.ascontiguousarray(counts.T, dtype=np.min_scalar_type(n))


def _medians(samples: Samples, draws: Draws) -> Samples:
    """The median of each resample: found by how many of its samples lie up to each of the ordered samples, so that
    these are ordered once for all resamples."""
    n, order = len(samples), np.argsort(samples)
    upto = draws[order]
    for before, row in itertools.pairwise(upto):  # whole rows: a cumulated sum goes down the columns
        row += before
    low, high = (samples[order][np.sum(upto <= place, axis=0, dtype=draws.dtype)] for place in ((n - 1) // 2, n // 2))
    return np.asarray((low + high) / 2)


def _resampled_median(samples: Samples, resamples: int, after: int = 0) -> Samples:
    return _widened(samples, float(np.median(samples)), _medians(samples, _draws(len(samples), resamples, after)))


def _resampled_mean(samples: Samples, resamples: int) -> Samples:
    drawn = samples[_picks(np.random.default_rng(SEED), len(samples), resamples)]
    return _widened(samples, float(np.mean(samples)), np.mean(drawn, axis=-1))


def _widened(samples: Samples, value: float, values: Samples) -> Samples:
    """A statistic of resampled samples, about its value as far as it varies with their autocorrelation."""
    factor = widening(samples)
    if factor == 1:
        return values
    return np.asarray(value * (values / value) ** factor if np.all(values > 0) else value + factor * (values - value))


def _estimate(samples: Samples, value: float, values: Samples) -> Estimate:
    return replace(_with_interval(len(samples), value, values), cv=cv(samples))


def _of_two(base: Samples, other: Samples, formula: Callable[..., Samples], resamples: int) -> Estimate:
    # one stream for both sides, or equal numbers of rounds would be resampled alike
    sides = _resampled_median(_checked(base), resamples), _resampled_median(_checked(other), resamples, len(base))
    value = float(formula(np.median(base), np.median(other)))
    return _with_interval(min(len(base), len(other)), value, formula(*sides))


def _with_interval(n: int, value: float, resampled: Samples) -> Estimate:
    if n < LEAST:
        return Estimate(n, value, math.nan, math.nan, math.nan)
    if n >= FEW:
        low, high = np.percentile(resampled, (2.5, 97.5))
        # rounding in the percentiles' interpolation must not leave the value outside
        return Estimate(n, value, min(float(low), value), max(float(high), value), math.nan, n / 3)
    quantile = float(stats.t.ppf(1 - LEVEL / 2, n - 1))
    if value > 0 and np.all(resampled > 0):
        factor = math.exp(quantile * float(np.std(np.log(resampled), ddof=1)))
        return Estimate(n, value, value / factor, value * factor, math.nan, n - 1)
    half = quantile * float(np.std(resampled, ddof=1))
    return Estimate(n, value, value - half, value + half, math.nan, n - 1)


def _log_level(cells: Samples, draws: Draws) -> Samples:
    return np.asarray(np.mean([np.log(_medians(row, draws)) for row in cells], axis=0))


def _check_pairs(base: Samples, other: Samples) -> None:
    if len(base) != len(other):
        raise ValueError(f"{len(base)} samples cannot be paired with {len(other)}")
