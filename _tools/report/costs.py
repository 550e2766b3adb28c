"""What a race says a document or row costs, part by part, and the bare loops that each part consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .stats import Estimate

PER_DOCUMENT, PER_ROW = "document", "row"


@dataclass(frozen=True)
class Loop:
    """A micro-benchmark, as one part of a cost.

    :param benchmark: class and method of JMH, such as ``SumBenchmark.coverage``, or the name of a client's loop.
    :param parameters: of JMH.
    """

    benchmark: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.benchmark} {given}".strip()


@dataclass(frozen=True)
class Cost:
    """A part of what a race took.

    :param name: of the part.
    :param each: what it takes, in ns per unit.
    :param loops: what its bare work consists of; their times add up.
    :param unit: what it is counted by, ``document`` or ``row``.
    :param whole: whether it is the sum of parts that stand on their own, too.
    :param searched: whether it is wall time of searches, which read segments in parallel, and not the sum of what
        threads took.
    """

    name: str
    each: Estimate
    loops: Sequence[Loop]
    unit: str = PER_DOCUMENT
    whole: bool = False
    searched: bool = False


@dataclass(frozen=True)
class BreakEven:
    """Where one loop begins to beat another, seen by a race and asked of bare loops as well.

    :param name: of what is swept.
    :param seen: by the race, 1 being all.
    :param loops: by place in ascending order, the loop that wins above the break-even place and the one that wins
        below.
    """

    name: str
    seen: Estimate
    loops: Mapping[float, tuple[Loop, Loop]]
