"""How samples scatter and whether they rise or fall over the rounds."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .stats import RESAMPLES, SEED, Samples


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
