"""The cells of an ingest-decomp race: the steps that it has, what each is held against, and which is the fastest."""

from collections.abc import Hashable

from _tools.report.cells import Cells, Figure
from _tools.report.race import Race
from _tools.report.stats import Estimate, Samples, paired_ratio
from _tools.report.verdicts import Judged, gate_of, judge
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.steps import NAIVE, STEP_NAMES, STEPS, Step, bases

from .format_cells import per_million

SUMS = ("wall_ms", "target_cpu_ms", "client_cpu_ms", "store_bytes")
"""What grows with the rows of a cell, of which those of several clients have more."""


class Clients(Cells):
    """The samples of a race by way to ingest, paired by round.

    :param race: of ingest-decomp.
    """

    def __init__(self, race: Race):
        super().__init__(race.of(SAMPLE))

    def values(self, figure: Figure, *names: Hashable) -> list[Samples]:
        """See there; :data:`SUMS` are per million rows, in thousands: of a time in ms seconds, of bytes kB."""
        return super().values(per_million(figure) if isinstance(figure, str) and figure in SUMS else figure, *names)

    def per_million(self, key: str, cell: str) -> Estimate:
        """Per million rows, in thousands."""
        return self.one(per_million(key), cell)

    def saved(self, base: str, cell: str) -> Estimate:
        """Wall time that a cell saves against another, in seconds per million rows, each round by itself."""
        return self.of(lambda b, c: b - c, "wall_ms", base, cell)

    def share_saved(self, base: str, cell: str) -> Estimate:
        """The same as a share of the naive client's wall time."""
        return self.of(lambda whole, b, c: (b - c) / whole, "wall_ms", NAIVE, base, cell)

    def times_as_fast(self, base: str, cell: str) -> Estimate:
        """Wall time of ``base`` over that of the cell, formed within each round."""
        return self.ratio("wall_ms", cell, base)

    def ceiling(self, base: str, cell: str, cores: float) -> Estimate:
        """Wall time of ``base`` over that which the CPU time of the cell's target takes of so many cores."""
        (wall_s, _), (_, cpu_s) = (self.values(key, base, cell) for key in ("wall_ms", "target_cpu_ms"))
        return paired_ratio(cpu_s / cores, wall_s)


def wanted(race: Race) -> list[str]:
    """Names of the steps that the race was to have."""
    return list(race.parameters.get("ingest_steps", STEP_NAMES))


def had_orjson(race: Race, cells: Clients) -> bool:
    """Whether the load driver had the package, be it that all its cells failed."""
    return cells.has("orjson") or "orjson" in race.failed


def taken(race: Race, cells: Clients) -> list[tuple[Step, str]]:
    """The steps that the race has, each with the cell that it is held against."""
    held = bases(race.parameters.get("design", "cumulative"), had_orjson(race, cells), timestamps=True)
    found = [(step, held[step.name]) for step in STEPS if step.name in held and step.name in wanted(race)]
    return [(step, base) for step, base in found if cells.has(NAIVE, base, step.name)]


def ways(cells: Clients) -> list[str]:
    """The naive client and all steps with samples, those that others are held against included."""
    return [NAIVE, *(name for name in STEP_NAMES if cells.has(NAIVE, name))]


def judged(race: Race, cells: Clients, steps: list[tuple[Step, str]]) -> dict[str, Judged]:
    """What is said of each step, all of them together."""
    ratios = [cells.ratio("wall_ms", base, step.name) for step, base in steps]
    return dict(zip((step.name for step, _ in steps), judge(ratios, gate_of(race.record.compared))))


def best(race: Race, cells: Clients) -> str:
    """The fastest configuration among the naive client and the steps."""
    return max(ways(cells), key=lambda c: cells.times_as_fast(NAIVE, c).value)


def enough(race: Race, cells: Clients, top: str) -> str:
    """The first step that is not shown to be slower than the fastest: where steps come on top of each other, what lies
    beyond it costs and is not shown to gain."""
    if race.parameters.get("design") == "one-at-a-time":
        return top
    before = (names := ways(cells))[1 : names.index(top)]
    said = judge([cells.ratio("wall_ms", top, name) for name in before], gate_of(race.record.compared))
    return next((name for name, of in zip(before, said) if of.verdict.is_tie), top)
