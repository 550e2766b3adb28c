"""The speed of the machine that load driver and target share, told by what a document took of the load driver's CPU.

Such a machine may be shared with others: the same cell differs from pass to pass, and one race from the next. Where the
load driver takes more CPU time for a document the machine is taken to be slower, and the nodes with it: a control
variate (Lavenberg and Welch 1981, doi:10.1287/mnsc.27.3.322) whose slope is assumed, not fitted. A rate times the CPU
time of one document is the CPU that the load driver used, so a rate at one speed is that, over a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from _tools.report.text import number, percent

from .model import Measured

MOST_LEFT = 0.5
"""Part of the variance of passes that one speed leaves at most where it counts."""


@dataclass(frozen=True)
class Speed:
    """The speed that rates are put to.

    :param driver_s: CPU seconds that a document takes of the load driver there, the median of passes.
    :param raced: standard deviation of the logarithm of the rates of a cell, as they were raced.
    :param left: the same of those at this speed.
    """

    driver_s: float
    raced: float
    left: float

    @property
    def told(self) -> str:
        """What was done by it, as a sentence."""
        return (
            f"Documents a second are put to one speed of the machine, at which one takes {number(1e3 * self.driver_s)} "
            f"ms of the load driver's CPU: passes of a cell then differ by {percent(self.left)} (standard deviation), "
            f"as raced by {percent(self.raced)}. That is the CPU which the load driver used, over a constant: it tells "
            "of documents only as far as each takes as much of it in every cell, and is no rate that was raced. "
            "Slowness that a cell itself brings upon its machine is left out, too."
        )


def speed_of(cells: Sequence[Measured]) -> Speed | None:
    """The speed of the median pass; None where the CPU time of the load driver was not told, or leaves passes of a cell
    more than half of their variance. A load driver that uses as much whatever it sends is not found out by this."""
    driver_s = [one.driver_s for cell in cells for one in cell.passes]
    if not driver_s or not np.isfinite(driver_s).all() or min(driver_s) <= 0:
        return None
    speed = Speed(float(np.median(driver_s)), _spread(cells), 0.0)
    speed = replace(speed, left=_spread([at(cell, speed) for cell in cells]))
    return speed if speed.left**2 < MOST_LEFT * speed.raced**2 else None


def at(cell: Measured, speed: Speed | None) -> Measured:
    """A cell by the rates that it would have had at a speed; as it was raced where one of both was not told."""
    if not speed or not all(np.isfinite(one.driver_s) for one in cell.passes):
        return cell
    return replace(cell, passes=[replace(p, rate=p.rate * p.driver_s / speed.driver_s) for p in cell.passes])


def _spread(cells: Sequence[Measured]) -> float:
    """The standard deviation of the logarithm of rates within cells; 0 where each has one."""
    logs = [np.log(cell.rates) for cell in cells]
    free = sum(len(of) - 1 for of in logs)
    return float(np.sqrt(sum(((of - of.mean()) ** 2).sum() for of in logs) / free)) if free else 0.0
