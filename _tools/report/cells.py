"""The samples of a race by cell and round."""

import numpy as np

from .race import Race, ReportError, Sample
from .stats import Samples


def rounds_by_cell(race: Race) -> dict[str, dict[int, Sample]]:
    """The samples of every plan task of a race: by cell, then by round."""
    found: dict[str, dict[int, Sample]] = {}
    for sample in race.samples:
        # the round's own sample has no wall time of a cell
        if "round" in sample.meta and "wall_ms" in sample.meta:
            found.setdefault(sample.cell, {})[sample.meta["round"]] = sample
    return {cell: dict(sorted(rounds.items())) for cell, rounds in sorted(found.items())}


def values(rounds: dict[int, Sample], key: str) -> Samples:
    """One cell's metadata of that key in order of round; rounds that lack it are left out."""
    return np.array([float(s.meta[key]) for s in rounds.values() if key in s.meta])


def matrix(by_cell: dict[str, dict[int, Sample]], cells: list[str], key: str = "wall_ms") -> Samples:
    """A row per cell and a column per round, of the rounds that all these cells have."""
    common = sorted(set.intersection(*(set(by_cell[cell]) for cell in cells)))
    return np.array([[float(by_cell[cell][r].meta[key]) for r in common] for cell in cells])


def check_comparable(races: list[Race], least: int) -> None:
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
        if not rounds_by_cell(race):
            raise ReportError(f"race [{race.id}] has no rounds of a plan task, so there is nothing to compare")
    cells = common_cells(races)
    if not cells:
        raise ReportError("the races have no cell in common")
    for race in races:
        if not matrix(rounds_by_cell(race), cells).size:
            raise ReportError(f"race [{race.id}] has no round in which all cells succeeded")


def common_cells(races: list[Race]) -> list[str]:
    """The cells that all these races have in some round, in order of name."""
    return sorted(set.intersection(*(set(rounds_by_cell(race)) for race in races)))
