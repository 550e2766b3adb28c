"""Holds any number of races side by side: what they have in common, what differs, and a verdict per cell."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from cluster_metrics.core.challenge import Compared

from . import plots
from .cells import Cells, check_comparable, common_cells, compared_in
from .noise import Floor, differences, moment
from .race import MACHINE, Race, ReportError, machine_of
from .section import Figure, Section
from .stats import (
    ENOUGH_RACES,
    THRESHOLD,
    Estimate,
    cv,
    geometric_mean_ratio,
    log_level,
    median,
    race_ratio,
    ratio,
    widened,
)
from .table import Column, Table, Words, share
from .text import interval, number, percent, setting
from .verdicts import Judged, gate_of, judge

LAYOUT = ("documents", "segments")
VERSIONS = ("Elasticsearch", "JVM", "Rally", "track", "track revision")
TARGET = ("load driver", "nodes", "cores", "heap MB", "JVM flags")
LOAD = "load at the start"
"""Of the machine, which differs from race to race."""
SIDES = 5
"""Races that are advised for each side where a race is one sample."""
APART = 2
"""Compared races may lie further apart by this factor than those of the noise floor."""
COLUMNS = ("cell", "figure", "side", "race", "n", "median", "low", "high", "cv", "ratio", "ratio_low", "ratio_high")
"""Columns of ``compare.csv`` before the verdict: a row per cell, figure and race. The ratio is that of its side to the
first side, with the interval that the verdict went by; only the judged figure has one."""
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


def sections(found: Comparison) -> list[Section]:
    """The sections of a comparison."""
    warnings = warnings_of(found)
    parts = [Section("What differs", [_differing(found)])]
    if warnings:
        parts.append(Section("Warnings", ["".join(f"- {line}\n" for line in warnings)]))
    parts.append(Section(f"Against {found.sides[0].name}", [*_against_first(found), _figure(found)]))
    for key in found.compared.figures:
        title = found.figure(key)
        if blocks := _medians(found, key):
            parts.append(Section(title[:1].upper() + title[1:], blocks))
    return [*parts, Section("In common", [_in_common(found)])]


def record(found: Comparison) -> dict[str, Any]:
    """The comparison as it goes into ``report.json``: of each side the races and what they were run with, the noise
    floor, and the rows of the CSV file."""
    sides = [{"name": s.name, "races": [r.id for r in s.races], "facts": s.facts()} for s in found.sides]
    return {
        "sides": sides,
        "noise_floor": asdict(found.floor) if found.floor else None,
        "figures": {key: found.figure(key) for key in found.compared.figures},
        "rows": sheet(found).rows,
    }


def sheet(found: Comparison) -> Table:
    """The comparison as a CSV file."""
    rows = []
    for cell in found.shared:
        for key in found.compared.figures:
            for side in found.sides:
                judged: dict[str, Any] = {}
                if key == found.judged and side is not found.sides[0]:
                    said = found.judged_cells[cell][side.name]
                    of = said.estimate
                    judged = {"ratio": of.value, "ratio_low": known(of.low), "ratio_high": known(of.high)}
                    judged |= {"found": known(said.found), "verdict": said.verdict.value}
                for race, cells in zip(side.races, side.cells):
                    if len(samples := cells.known(key, cell)):
                        one = median(samples)
                        bounds = known(one.low), known(one.high), known(one.cv)
                        figures = (cell, key, side.name, race.id, one.n, one.value, *bounds)
                        rows.append(dict(zip(COLUMNS, figures)) | judged)
    return Table("compare.csv", [Column(key, key) for key in (*COLUMNS, "found", "verdict")], rows)


def known(value: float) -> float | str:
    """A number for a file; empty where there is none."""
    return value if math.isfinite(value) else ""


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
        "cores": _each(race, "cores"),
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


def warnings_of(found: Comparison) -> list[str]:
    """What speaks against taking the ratios as they are; each says what to do."""
    races, known = found.races, [facts(race) for race in found.races]
    lines = []
    for keys, advice in (
        (LAYOUT, "times of different layouts differ for that reason; load both alike"),
        (VERSIONS, "a ratio holds for all of these changes together; change one at a time"),
        (
            (*TARGET, *(k for k in MACHINE.values() if k != LOAD)),
            "ratios of different machines say nothing about a change of software",
        ),
    ):
        if differing := [k for k in keys if len({f.get(k) for f in known}) > 1]:
            lines.append(f"the races differ in {', '.join(differing)}: {advice}")
    parameters = sorted({k for f in known for k in f if k.startswith("parameter ")})
    if differing := [k.removeprefix("parameter ") for k in parameters if len({f.get(k) for f in known}) > 1]:
        lines.append(f"the races differ in parameters {', '.join(differing)}: a ratio is that of the parameters, too")
    lines += _missing_cells(found)
    for race in races:
        if race.failed:
            failed = ", ".join(f"{cell} {n}" for cell, n in race.failed.items())
            lines.append(f"race {race.id} has failed samples, which are left out: {failed}; find out why first")
        if not race.target:
            lines.append(f"race {race.id} does not say what it ran on; do not exclude the task check-index")
    lines += _few(found)
    if found.floor is None and not all(map(found.replicated, found.sides[1:])):
        why = found.refused or "nobody measured how much races of this configuration differ by themselves"
        lines.append(
            f"no noise floor: {why}, so the intervals know the noise within races alone and verdicts are too bold; run "
            "'make noise' with these settings, or race each side several times under a tag of its own and compare the "
            "tags"
        )
    elif found.floor and not all(map(found.replicated, found.sides[1:])):
        apart, within = (span_of([moment(r.started) for r in races]), span_of(list(map(moment, found.floor.started))))
        if apart > APART * within:
            lines.append(
                f"the races lie {hours(apart)} apart, those of the noise floor {hours(within)}: what changes between "
                "such times is not in the floor, and differences are found too often; measure it over as long, or race "
                "each side several times in turn"
            )
    return lines


def span_of(times: list[datetime]) -> float:
    """Hours from the first to the last."""
    return (max(times) - min(times)).total_seconds() / 3600


def hours(span: float) -> str:
    return f"{span:.1f} h" if span < 48 else f"{span / 24:.1f} days"


def _each(race: Race, key: str) -> str | None:
    """A property of the target's nodes: once when all have the same."""
    found = [str(node.get(key)) for node in race.target]
    return ", ".join(sorted(set(found))) or None


def _missing_cells(found: Comparison) -> list[str]:
    every = {cell for side in found.sides for cells in side.cells for cell in cells.names}
    missing = sorted(every - set(found.shared))
    return [f"only some races have the cells {', '.join(missing)}, which are left out"] if missing else []


def _few(found: Comparison) -> list[str]:
    """Sides with too few rounds or races for a verdict."""
    lines, first = [], found.sides[0]
    for side in found.sides:
        cells, enough = side.cells[0], found.compared.enough
        least = min(len(cells.samples(name)) for name in cells.names)
        if least < enough and not all(map(found.replicated, found.sides[1:] if side is first else [side])):
            advice = f"race with {found.compared.parameter}:{enough}, or each side {SIDES} times: {_commands(found)}"
            lines.append(
                f"race {side.races[0].id} has {least} {found.compared.unit}s, a verdict takes {enough}: {advice}"
            )
    for side in found.sides[1:]:
        if found.replicated(side) and (n := len(first.races) + len(side.races)) < ENOUGH_RACES:
            lines.append(
                f"{first.title} and {side.title} are {n} races together, a verdict takes {ENOUGH_RACES}; race each "
                f"side {SIDES} times, {_commands(found)}"
            )
    return lines


def _commands(found: Comparison) -> str:
    """How to race each side several times and to compare them."""
    race = f"make noise CHALLENGE={found.races[0].challenge} RACES={SIDES} TAGS=side:"
    return f"'{race}old', then with the change '{race}new', then 'make compare RACES=\"side:old side:new\"'"


def _in_common(found: Comparison) -> str:
    known = [side.facts() for side in found.sides]
    common = {k: v for k, v in known[0].items() if all(f.get(k) == v for f in known)}
    parameters = {k: v for k, v in found.races[0].parameters.items() if f"parameter {k}" in common}
    lines = [f"{k}: {v}" for k, v in common.items() if not k.startswith("parameter ")]
    lines += ["parameters: " + ", ".join(f"{k}={setting(v)}" for k, v in parameters.items())] if parameters else []
    return "".join(f"- {line}\n" for line in lines)


def _differing(found: Comparison) -> Table:
    known = [side.facts() for side in found.sides]
    keys = dict.fromkeys(k for f in known for k in f)
    differing = {k: [f.get(k, "–") for f in known] for k in keys if len({f.get(k) for f in known}) > 1}
    facts = {"race": [", ".join(race.id for race in side.races) for side in found.sides]} | differing
    rows = [{"fact": k} | dict(zip(map(_key, found.sides), of)) for k, of in facts.items()]
    return Table("differences", [Words("fact", ""), *(Words(_key(s), s.title) for s in found.sides)], rows)


def _key(side: Side) -> str:
    """Of a side's column."""
    return f"side {side.name}"


def _medians(found: Comparison, key: str) -> list[str | Table]:
    rows = []
    for cell in found.shared:
        sides = {_key(side): [cells.known(key, cell) for cells in side.cells] for side in found.sides}
        if all(len(samples) for of in sides.values() for samples in of):
            levels = {k: [float(np.median(s)) for s in of] if len(of) > 1 else of[0] for k, of in sides.items()}
            rows.append({"cell": cell} | {k: _level(of) for k, of in levels.items()})
    if not rows:
        return []
    unit = found.compared.unit
    races = "; of several races, the median over their medians (CV of these)"
    text = f"Median over {unit}s (CV of the {unit}s){races if any(s.pooled for s in found.sides) else ''}."
    columns = [Words("cell", "cell"), *(Column(_key(s), s.title) for s in found.sides)]
    return [text, Table(f"medians {key}", columns, rows)]


def _level(samples: Any) -> str:
    return f"{number(float(np.median(samples)))} ({percent(cv(np.asarray(samples)))})"


def _against_first(found: Comparison) -> list[str | Table]:
    floor, others = found.floor, found.sides[1:]
    bare = not all(map(found.replicated, others))
    widths = {cell: floor.cells[cell] for cell in found.shared if cell in floor.cells} if floor else {}
    if floor and (overall := floor.of(found.shared)) is not None:
        widths[TOGETHER] = overall

    columns: list[Column] = [Words("cell", "cell"), *([share("floor", "noise floor")] if bare else [])]
    for side in others:
        columns += [Words(_key(side), side.title), share(f"{_key(side)} found", "change found in 80 %")]
    rows = []
    for cell, said in found.judged_cells.items():
        row: dict[str, Any] = {"cell": cell} | ({"floor": math.expm1(widths[cell])} if cell in widths else {})
        for side in others:
            of = said[side.name]
            shown = f"{of.estimate.value:.3f} {interval(of.estimate, lambda x: f'{x:.3f}')} {of.text}"
            row |= {_key(side): shown, f"{_key(side)} found": of.found}
        rows.append(row)
    return [_method(found, bare), Table("ratios", columns, rows)]


def _judged_figure(found: Comparison) -> str:
    """What is judged, without its unit."""
    return found.figure(found.judged).rsplit(", ", 1)[0]


def _figure(found: Comparison) -> Figure:
    others = found.sides[1:]
    ratios = {cell: {side.title: of[side.name].estimate for side in others} for cell, of in found.judged_cells.items()}
    caption = (
        f"Ratio to {found.sides[0].title} of the {_judged_figure(found)}, with its 95 % interval; below 1 is less."
    )
    return Figure(plots.cells(ratios, "ratio", 1.0), caption)


def _method(found: Comparison, bare: bool) -> str:
    first, floor, ratios = found.sides[0], found.floor, len(found.shared) * (len(found.sides) - 1)
    text = f"Ratio to {first.title} of the {_judged_figure(found)} (below 1 is less), with its 95 % interval. "
    if bare:
        text += "Between single races: medians over rounds, rounds resampled in each race by itself"
        if floor:
            text += (
                f", widened by the noise between races that {len(floor.races)} races of the first one's configuration "
                f"showed from {floor.started[0]} on (0: hidden by the noise of "
                "rounds)"
            )
        text += ". "
    if any(map(found.replicated, found.sides[1:])):
        text += (
            "With several races on a side the race is what is replicated: geometric means of the races' medians, the "
            "interval by Student's t from how much races of a side differ, supposed to be the same on all sides. "
        )
    gate = gate_of(found.compared)
    text += (
        f"A cell improved or regressed when both bounds lie beyond {percent(THRESHOLD)}, allowing for all {ratios} "
        f"ratios of the table (Holm); it is equivalent when its 90 % interval lies within {percent(gate.delta)} "
        "(`DELTA`); otherwise nothing is shown, and the change could be what is said. Beside it the change that would "
        "have been found in 80 % of cases."
    )
    if bare and not floor:
        text += " Differences are found too often here, since no noise floor is known."
    return text
