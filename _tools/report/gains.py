"""What the changes of a race gain and cost, as its report says it: what rankings are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cluster_metrics.core.change import Change

from .cells import Cells, Figure
from .stats import Estimate

Cost = Estimate | float


@dataclass(frozen=True)
class Gain:
    """What a change gains over what it is held against, and what it costs.

    :param change: what is changed.
    :param against: the configuration that it is held against.
    :param times: times as fast, formed within each round.
    :param costs: by :data:`.changes.COSTS`, as far as the race recorded them: ratios to those of what it is held
        against, new over old, and the greatest relative error of the answers before and with it.
    """

    change: Change
    against: str
    times: Estimate
    costs: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def slower(self) -> Estimate:
        """The same as a ratio of times, new over old."""
        return inverse(self.times)


def inverse(ratio: Estimate) -> Estimate:
    """A ratio the other way round, with its interval."""
    return replace(ratio, value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low)


def summed(*keys: str) -> Figure:
    """The sum of these keys of a sample."""
    return lambda meta: sum(meta[key] for key in keys)


def over_base(cells: Cells, base: object, name: object, **figures: Figure) -> dict[str, Cost]:
    """Of each figure the ratio to that of the base within rounds; those that samples lack, or have as 0, are left
    out."""
    found: dict[str, Cost] = {}
    for key, figure in figures.items():
        try:
            values = cells.values(figure, base, name)
        except KeyError:
            continue
        if all(len(of) and np.all(of > 0) for of in values):
            found[key] = cells.ratio(figure, base, name)
    return found
