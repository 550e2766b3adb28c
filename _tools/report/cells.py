"""The samples of a race by cell and round, for all that holds cells against each other."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .race import Race, ReportError, Sample
from .stats import Samples

Rounds = dict[int, Sample]
"""The samples of a cell by round, in order."""
COVERAGE = {"wall_ms": "wall time of a coverage, ms", "took_ms": "took of a coverage, summed over its searches, ms"}
"""The figures of plans whose samples are coverages."""


@dataclass(frozen=True)
class Plan:
    """What of a challenge is compared between races, and judged for stability. Its report module offers it as ``PLAN``.

    The samples are one per cell and round; the sample's operation is the cell, its metadata have ``round`` and the
    figures. That is all that ``make compare``, ``make aa`` and the section on stability need to know of a challenge.

    :param kind: ``operation-type`` of these samples.
    :param figures: what is compared, the less the better: the key of the metadata and what it is, with its unit. The
        first is what ratios, verdicts, noise floors and the spread are about, so every sample has it, above 0; the
        others are shown where samples have them.
    :param base: the cell that the others of a race are held against.
    :param rounds: the track parameter that says how many rounds it walks (default ``rounds``).
    """

    kind: str
    figures: Mapping[str, str]
    base: str
    rounds: str = "rounds"

    @property
    def judged(self) -> str:
        """The key of the figure that is judged."""
        return next(iter(self.figures))

    def cells(self, race: Race) -> dict[str, Rounds]:
        """The samples of a race by cell, in order of name, then by round."""
        found: dict[str, Rounds] = {}
        for sample in race.of(self.kind):
            found.setdefault(sample.cell, {})[sample.meta["round"]] = sample
        return {cell: dict(sorted(rounds.items())) for cell, rounds in sorted(found.items())}


def values(rounds: Rounds, key: str) -> Samples:
    """One cell's metadata of that key in order of round; rounds that lack it are left out."""
    return np.array([float(s.meta[key]) for s in rounds.values() if key in s.meta])


def matrix(by_cell: Mapping[str, Rounds], cells: list[str], key: str) -> Samples:
    """A row per cell and a column per round, of the rounds that all these cells have."""
    common = sorted(set.intersection(*(set(by_cell[cell]) for cell in cells)))
    return np.array([[float(by_cell[cell][r].meta[key]) for r in common] for cell in cells])


def check_comparable(races: list[Race], least: int, plan: Plan) -> None:
    """Whether races can be held against each other.

    :param least: how many races it takes.
    :raises ReportError: with the first thing that is wrong.
    """
    ids = [race.id for race in races]
    if len(ids) < least:
        raise ReportError(f"{len(ids)} races are too few, it takes {least} or more")
    if double := next((i for i in ids if ids.count(i) > 1), None):
        raise ReportError(f"race [{double}] is named twice")
    for race in races:
        if not race.document.get("results"):
            raise ReportError(f"race [{race.id}] was not finished")
        if race.challenge != races[0].challenge:
            ran = f"ran challenge [{race.challenge}], race [{races[0].id}] ran [{races[0].challenge}]"
            raise ReportError(f"race [{race.id}] {ran}")
        if not plan.cells(race):
            raise ReportError(f"race [{race.id}] has no rounds of a plan task, so there is nothing to compare")
    cells = common_cells(races, plan)
    if not cells:
        raise ReportError("the races have no cell in common")
    for race in races:
        if not matrix(plan.cells(race), cells, plan.judged).size:
            raise ReportError(f"race [{race.id}] has no round in which all cells succeeded")


def common_cells(races: list[Race], plan: Plan) -> list[str]:
    """The cells that all these races have in some round, in order of name."""
    return sorted(set.intersection(*(set(plan.cells(race)) for race in races)))
