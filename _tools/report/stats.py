"""Statistics of samples. The unit of replication is the round: what is resampled is always whole rounds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
SEED = 42
Samples = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval.

    :param n: samples behind it.
    :param value: the median.
    :param low: lower bound of the 95 % percentile-bootstrap interval of the median.
    :param high: upper bound.
    :param cv: coefficient of variation of the samples (standard deviation over mean); nan when it means nothing.
    """

    n: int
    value: float
    low: float
    high: float
    cv: float


def median(samples: Samples) -> Estimate:
    """The median of samples with its interval (seeded, so the same samples give the same interval).

    :raises ValueError: without samples.
    """
    if not len(samples):
        raise ValueError("no samples")
    rng = np.random.default_rng(SEED)
    picks = rng.integers(0, len(samples), (RESAMPLES, len(samples)))
    low, high = np.percentile(np.median(samples[picks], axis=1), (2.5, 97.5))
    mean = float(np.mean(samples))
    cv = float(np.std(samples, ddof=1) / mean) if len(samples) > 1 and mean > 0 else float("nan")
    return Estimate(len(samples), float(np.median(samples)), float(low), float(high), cv)
