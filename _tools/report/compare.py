"""Holds any number of races side by side: what they have in common, what differs, and a verdict per cell."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from . import plots
from .cautions import warnings_of
from .section import Figure, Section
from .settings import own_parameters, parameters_section
from .sides import TOGETHER, Comparison, Side
from .stability import told
from .stats import cv, median
from .table import Column, Table, Words, share
from .text import interval, number, percent, plural, setting
from .verdicts import THRESHOLD, gate_of

COLUMNS = ("cell", "figure", "side", "race", "n", "median", "low", "high", "cv", "ratio", "ratio_low", "ratio_high")
"""Columns of ``compare.csv`` before the verdict: a row per cell, figure and race. The ratio is that of its side to the
first side, with the interval that the verdict went by; only the judged figure has one."""


def sections(found: Comparison) -> list[Section]:
    """The sections of a comparison."""
    warnings = warnings_of(found)
    parts = [Section("What differs", [_differing(found)])]
    if warnings:
        parts.append(Section("Warnings", ["".join(told(warnings))]))
    parts.append(Section(f"Against {found.sides[0].name}", [*_against_first(found), _figure(found)]))
    for key in found.compared.figures:
        title = found.figure(key)
        if blocks := _medians(found, key):
            parts.append(Section(title[:1].upper() + title[1:], blocks))
    return [*parts, Section("In common", [_in_common(found)]), *parameters_section(*found.races)]


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


def _in_common(found: Comparison) -> str:
    known = [side.facts() for side in found.sides]
    common = {k: v for k, v in known[0].items() if all(f.get(k) == v for f in known)}
    lines = [f"{k}: {v}" for k, v in common.items() if not k.startswith("parameter ")]
    own = own_parameters(found.races[0])
    changed = [f"{k}={setting(v)}" for k, (v, default) in own.items() if v != default and f"parameter {k}" in common]
    lines += [f"parameters beside the defaults: {', '.join(changed) or 'none'}"] if own else []
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
    units = plural(found.compared.unit)
    races = "; of several races, the median over their medians (CV of these)"
    text = f"Median over {units} (CV of the {units}){races if any(s.pooled for s in found.sides) else ''}."
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
