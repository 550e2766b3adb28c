"""Holds any number of races side by side: what they have in common, what differs, and a verdict per cell."""

import json
import math
from collections.abc import Sequence
from typing import Any

from .cells import check_comparable, common_cells, matrix, rounds_by_cell, values
from .noise import Floor
from .race import Race
from .section import Section, Sheet
from .stats import ENOUGH, THRESHOLD, Estimate, geometric_mean_ratio, median, ratio, verdict, widened
from .text import interval, number, percent, table

LAYOUT = ("documents", "segments")
VERSIONS = ("Elasticsearch", "JVM", "Rally", "track", "track revision")
MACHINE = ("nodes", "cores", "heap MB")
COLUMNS = ("cell", "race", "n", "wall_ms", "wall_low_ms", "wall_high_ms", "wall_cv", "took_ms")
RATIO_COLUMNS = ("ratio", "ratio_low", "ratio_high", "verdict")
"""Columns of ``compare.csv``; the ratio is to the first race, with the interval that the verdict went by."""


def sections(races: list[Race], floor: Floor | None) -> list[Section]:
    """The sections of a comparison.

    :param races: two or more; the first is what the others are held against.
    :param floor: noise between races of the first one's configuration, if it was measured.
    :raises ReportError: when they cannot be compared; see :func:`.cells.check_comparable`.
    """
    check_comparable(races, 2)
    names = short_ids(races)
    rounds = [rounds_by_cell(race) for race in races]
    cells = common_cells(races)
    warnings = "".join(f"- {line}\n" for line in warnings_of(races, floor))
    parts = {
        "In common": _in_common(races),
        "What differs": _differing(races, names),
        "Warnings": warnings,
        "Wall time": _medians(rounds, cells, names, "wall_ms"),
        "Time that Elasticsearch reports": _medians(rounds, cells, names, "took_ms"),
        f"Against {names[0]}": _against_first(rounds, cells, names, floor),
    }
    return [Section(title, text) for title, text in parts.items() if text]


def sheets(races: list[Race], floor: Floor | None) -> list[Sheet]:
    """The comparison as a CSV file."""
    rounds, rows = [rounds_by_cell(race) for race in races], []
    for cell in common_cells(races):
        for i, race in enumerate(races):
            wall, took = (values(rounds[i][cell], key) for key in ("wall_ms", "took_ms"))
            of_wall = median(wall)
            figures: list[Any] = [cell, race.id, of_wall.n, of_wall.value, of_wall.low, of_wall.high, of_wall.cv]
            row = dict(zip(COLUMNS, [*figures, median(took).value if len(took) else ""]))
            if i:
                judged = cell_ratio(rounds[0], rounds[i], cell, floor)
                row |= zip(RATIO_COLUMNS, [judged.value, judged.low, judged.high, verdict(judged).value])
            rows.append(row)
    return [Sheet("compare.csv", (*COLUMNS, *RATIO_COLUMNS), rows)]


def short_ids(races: Sequence[Race]) -> list[str]:
    """The shortest beginnings of the races' ids, of 8 characters or more, that tell them apart."""
    ids = [race.id for race in races]
    length = next(n for n in range(8, max(8, *map(len, ids)) + 1) if len({i[:n] for i in ids}) == len(ids))
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
        "nodes": len(race.target) or None,
        "cores": _each(race, "cores"),
        "heap MB": _each(race, "heap_mb"),
        "documents": race.index.get("docs"),
        "segments": race.index.get("segments"),
        "index MB": number(race.index["store_bytes"] / 1e6) if "store_bytes" in race.index else None,
    }
    found |= {f"parameter {k}": v if isinstance(v, str) else json.dumps(v) for k, v in race.parameters.items()}
    found |= {f"tag {k}": v for k, v in (document.get("user-tags") or {}).items()}
    return {k: f"{v:,}" if isinstance(v, int) else str(v) for k, v in found.items() if v is not None}


def warnings_of(races: list[Race], floor: Floor | None) -> list[str]:
    """What speaks against taking the ratios as they are; each says what to do."""
    found = [facts(race) for race in races]
    lines = []
    for keys, advice in (
        (LAYOUT, "times of different layouts differ for that reason; load both alike"),
        (VERSIONS, "a ratio holds for all of these changes together; change one at a time"),
        (MACHINE, "ratios of different machines say nothing about a change of software"),
    ):
        if differing := [k for k in keys if len({f.get(k) for f in found}) > 1]:
            lines.append(f"the races differ in {', '.join(differing)}: {advice}")
    parameters = sorted({k for f in found for k in f if k.startswith("parameter ")})
    if differing := [k.removeprefix("parameter ") for k in parameters if len({f.get(k) for f in found}) > 1]:
        lines.append(f"the races differ in parameters {', '.join(differing)}: a ratio is that of the parameters, too")
    lines += _missing_cells(races)
    for race in races:
        if race.failed:
            failed = ", ".join(f"{cell} {n}" for cell, n in race.failed.items())
            lines.append(f"race {race.id} has failed samples, which are left out: {failed}; find out why first")
        if not race.target:
            lines.append(f"race {race.id} does not say what it ran on; do not exclude the task check-index")
    lines += _few_rounds(races)
    if floor is None:
        lines.append(
            "no noise floor: nobody measured how much races of this configuration differ by themselves, so the "
            "intervals know the noise within races alone and verdicts are too bold; run 'make aa' with these settings"
        )
    return lines


def cell_ratio(
    base: dict[str, dict[int, Any]], other: dict[str, dict[int, Any]], cell: str, floor: Floor | None
) -> Estimate:
    """The ratio of a cell's median wall times, other / base, widened by the floor if it knows the cell."""
    estimate = ratio(values(base[cell], "wall_ms"), values(other[cell], "wall_ms"))
    return widened(estimate, floor.cells[cell]) if floor and cell in floor.cells else estimate


def _each(race: Race, key: str) -> str | None:
    """A property of the target's nodes: once when all have the same."""
    found = [str(node.get(key)) for node in race.target]
    return ", ".join(sorted(set(found))) or None


def _missing_cells(races: list[Race]) -> list[str]:
    missing = sorted({cell for race in races for cell in rounds_by_cell(race)} - set(common_cells(races)))
    return [f"only some races have the cells {', '.join(missing)}, which are left out"] if missing else []


def _few_rounds(races: list[Race]) -> list[str]:
    lines = []
    for race in races:
        least = min(len(rounds) for rounds in rounds_by_cell(race).values())
        if least < ENOUGH:
            lines.append(f"race {race.id} has {least} rounds, a verdict takes {ENOUGH}: race with rounds:{ENOUGH}")
    return lines


def _in_common(races: list[Race]) -> str:
    found = [facts(race) for race in races]
    return "".join(f"- {k}: {v}\n" for k, v in found[0].items() if all(f.get(k) == v for f in found))


def _differing(races: list[Race], names: list[str]) -> str:
    found = [facts(race) for race in races]
    keys = dict.fromkeys(k for f in found for k in f)
    rows = [[k, *(f.get(k, "–") for f in found)] for k in keys if len({f.get(k) for f in found}) > 1]
    rows.insert(0, ["race", *(race.id for race in races)])
    return table(["", *names], rows)


def _medians(rounds: list[dict], cells: list[str], names: list[str], key: str) -> str:
    rows = []
    for cell in cells:
        found = [values(by_cell[cell], key) for by_cell in rounds]
        if all(map(len, found)):
            rows.append([cell, *(f"{number(e.value)} ({percent(e.cv)})" for e in map(median, found))])
    if not rows:
        return ""
    what = {"wall_ms": "Wall time of a coverage at the client", "took_ms": "`took` of a coverage, over its searches"}
    return f"{what[key]}, in ms: median over rounds (CV of the rounds).\n\n" + table(["cell", *names], rows)


def _against_first(rounds: list[dict], cells: list[str], names: list[str], floor: Floor | None) -> str:
    rows = []
    for cell in cells:
        width = percent(math.expm1(floor.cells[cell])) if floor and cell in floor.cells else "–"
        ratios = [cell_ratio(rounds[0], by_cell, cell, floor) for by_cell in rounds[1:]]
        rows.append([cell, width, *(f"{_judged(r)}" for r in ratios)])
    together = [matrix(by_cell, cells) for by_cell in rounds]
    overall = floor.of(cells) if floor else None
    ratios = [geometric_mean_ratio(together[0], other) for other in together[1:]]
    ratios = [widened(r, overall) for r in ratios] if overall is not None else ratios
    width = percent(math.expm1(overall)) if overall is not None else "–"
    rows.append(["geometric mean", width, *map(_judged, ratios)])
    return _method(floor, len(cells), len(rounds) - 1) + table(["cell", "noise floor", *names[1:]], rows)


def _judged(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} {interval(estimate, lambda x: f'{x:.3f}')} {verdict(estimate).value}"


def _method(floor: Floor | None, cells: int, others: int) -> str:
    text = (
        "Ratio of median wall times to the first race (below 1 is faster) with its 95 % interval: rounds resampled in "
        "each race by itself"
    )
    alarms = "more often than in one case in 20, since no noise floor is known"
    if floor:
        alarms = "in about one case in 20 or fewer"
        text += (
            f", widened by the noise between races that {len(floor.races)} races of the first one's configuration "
            f"showed on {floor.host.get('name', 'this host')} at {floor.measured} (0: hidden by the noise of rounds)"
        )
    return (
        f"{text}. A cell improved or regressed when both bounds lie beyond {percent(THRESHOLD)}. A cell of equal races "
        f"is called different {alarms}; with {cells * others} ratios here, mistrust a lone one.\n\n"
    )
