"""What a comparison holds side by side: races, or several of one configuration as replicates, and their ratios."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cluster_metrics.core.challenge import Compared

from .cells import Cells, check_comparable, common_cells, compared_in
from .noise import Floor, differences
from .race import Race, ReportError, machine_of
from .stats import ENOUGH_RACES, Estimate, geometric_mean_ratio, log_level, race_ratio, ratio
from .text import number, setting
from .verdicts import Judged, gate_of, judge, widened

TOGETHER = "geometric mean"
"""The row of all cells together."""


@dataclass(frozen=True)
class Side:
    """What stands in one column: a race, or several races of one configuration as replicates.

    :param name: short, of its own among the sides.
    :param races: one or more.
    :param cells: what of each race is compared.
    """

    name: str
    races: list[Race]
    cells: list[Cells]

    @property
    def pooled(self) -> bool:
        return len(self.races) > 1

    @property
    def title(self) -> str:
        return f"{self.name} ({len(self.races)} races)" if self.pooled else self.name

    def facts(self) -> dict[str, str]:
        """What its races were run with; where they differ, each value once."""
        found = [facts(race) for race in self.races]
        keys = dict.fromkeys(k for f in found for k in f)
        return {k: ", ".join(dict.fromkeys(f[k] for f in found if k in f)) for k in keys}


@dataclass(frozen=True)
class Comparison:
    """Sides that can be compared.

    :param sides: two or more; the first is what the others are held against.
    :param shared: the cells that all their races have.
    :param floor: noise between races of the first side's configuration, if it was measured.
    :param refused: why a floor that was measured does not hold for it.
    """

    sides: list[Side]
    shared: list[str]
    floor: Floor | None
    refused: str = ""

    @property
    def compared(self) -> Compared:
        return self.races[0].record.compared

    @property
    def judged(self) -> str:
        """The key of the figure that is judged."""
        return self.compared.figures[0]

    def figure(self, key: str) -> str:
        """What a figure is, with its unit."""
        return self.races[0].figure(key)

    @property
    def races(self) -> list[Race]:
        return [race for side in self.sides for race in side.races]

    def replicated(self, other: Side) -> bool:
        """Whether races are the unit of replication between the first side and another, not rounds."""
        return self.sides[0].pooled or other.pooled or self.compared.alone

    def ratio(self, other: Side, cell: str) -> Estimate:
        """The judged figure of a cell, other / first side."""
        found = [[cells.known(self.judged, cell) for cells in side.cells] for side in (self.sides[0], other)]
        if self.replicated(other):
            return race_ratio(*([math.log(np.median(v)) for v in of] for of in found))
        estimate = ratio(found[0][0], found[1][0])
        return widened(estimate, self.floor.cells[cell]) if self.floor and cell in self.floor.cells else estimate

    def mean_ratio(self, other: Side) -> Estimate:
        """The geometric mean over the cells of :meth:`ratio`."""
        found = [[cells.matrix(self.judged, self.shared) for cells in side.cells] for side in (self.sides[0], other)]
        if self.replicated(other):
            return race_ratio(*([log_level(m) for m in of] for of in found))
        estimate = geometric_mean_ratio(found[0][0], found[1][0])
        overall = self.floor.of(self.shared) if self.floor else None
        return estimate if overall is None else widened(estimate, overall)

    @cached_property
    def judged_cells(self) -> dict[str, dict[str, Judged]]:
        """What is said of each cell by name of the side; all cells of all sides are judged together. That of all cells
        together is judged beside them."""
        others = self.sides[1:]
        gates = [gate_of(self.compared, ENOUGH_RACES if self.replicated(side) else 0) for side in others]
        said = judge([self.ratio(s, cell) for cell in self.shared for s in others], gates * len(self.shared))
        said += judge([self.mean_ratio(side) for side in others], gates)
        found = iter(said)
        return {cell: {side.name: next(found) for side in others} for cell in [*self.shared, TOGETHER]}


def comparison(named: dict[str, list[Race]], floor: Floor | None, refused: str = "") -> Comparison:
    """Checks races and lines them up.

    :param named: one or more races for each name that the user gave; those of one name are replicates.
    :raises ReportError: when they cannot be compared; see :func:`.cells.check_comparable`.
    """
    races = [race for of in named.values() for race in of]
    check_comparable(races, 2)
    if len(named) < 2:
        raise ReportError(f"[{next(iter(named))}] names one side, it takes two or more")
    for name, of in named.items():
        if problems := [f"race [{race.id}]: {p}" for race in of[1:] for p in differences(of[0], race)]:
            raise ReportError(f"the races of [{name}] are no replicates: {problems[0]}")
    short = iter(short_ids([of[0] for of in named.values() if len(of) == 1]))
    sides = [Side(name if len(of) > 1 else next(short), of, list(map(compared_in, of))) for name, of in named.items()]
    return Comparison(sides, common_cells(races), floor, refused)


def short_ids(races: Sequence[Race]) -> list[str]:
    """The shortest beginnings of the races' ids, of 8 characters or more, that tell them apart."""
    ids = [race.id for race in races]
    length = next(n for n in range(8, max([8, *map(len, ids)]) + 1) if len({i[:n] for i in ids}) == len(ids))
    return [i[:length] for i in ids]


def facts(race: Race) -> dict[str, str]:
    """What a race was run with, by name; the node's own names and times are left out."""
    document = race.document
    found: dict[str, Any] = {
        "challenge": race.challenge,
        "track": document.get("track"),
        "track revision": document.get("track-revision"),
        "Rally": document.get("rally-version"),
        "started": document.get("race-timestamp"),
        "Elasticsearch": _each(race, "version"),
        "JVM": _each(race, "jvm"),
        "load driver": None if race.local is None else "on the target's machine" if race.local else "elsewhere",
        "nodes": len(race.target) or None,
        "cores": _told(f"{race.cores(node):g}" for node in race.target),
        "heap MB": _each(race, "heap_mb"),
        "JVM flags": _each(race, "jvm_flags"),
        **machine_of(race),
        "documents": race.index.get("docs"),
        "segments": race.index.get("segments"),
        "index MB": number(race.index["store_bytes"] / 1e6) if "store_bytes" in race.index else None,
    }
    found |= {
        f"parameter {k}": json.dumps(v) if isinstance(v, list) else setting(v) for k, v in race.parameters.items()
    }
    found |= {f"tag {k}": v for k, v in (document.get("user-tags") or {}).items()}
    return {k: f"{v:,}" if isinstance(v, int) else str(v) for k, v in found.items() if v is not None}


def _each(race: Race, key: str) -> str | None:
    """A property of the target's nodes."""
    return _told(str(node.get(key)) for node in race.target)


def _told(of_nodes: Iterable[str]) -> str | None:
    """What nodes have: once when all have the same."""
    return ", ".join(sorted(set(of_nodes))) or None
