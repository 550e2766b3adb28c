"""The noise between races of one configuration: how it is measured (A/A), kept and found again."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from cluster_metrics.core.challenge import challenges, parameters

from .cells import check_comparable, common_cells, compared_in
from .race import MACHINE, Race, ReportError
from .section import Section
from .stats import log_error, log_level, log_level_error, median, ratio
from .table import Column, Table, Words, share
from .text import plural
from .verdicts import Verdict, verdict, widened

LEAST_RACES = 3
DAYS = 7.0
"""Days for which a floor holds."""


@dataclass(frozen=True)
class Floor:
    """The noise between races of one configuration.

    :param challenge: that was raced.
    :param races: their ids.
    :param started: when they started, UTC.
    :param machine: what they ran on, see :func:`cluster_metrics.core.machine.machine`.
    :param target: version, JVM, cores and heap of each node of the target.
    :param parameters: track parameters as resolved.
    :param cells: half of the 95 % interval of what two races of this configuration differ by beside what their rounds
        show, as a logarithm, by cell.
    :param all_cells: the same for the geometric mean over all these cells.
    """

    challenge: str
    races: list[str]
    started: list[str]
    machine: dict[str, Any]
    target: list[dict[str, Any]]
    parameters: dict[str, Any]
    cells: dict[str, float]
    all_cells: float

    def of(self, cells: Sequence[str]) -> float | None:
        """The floor of the geometric mean over these cells: as it was measured over exactly these, or that of the cell
        of them that varies most, by which a mean cannot vary more; None where none was measured."""
        known = [self.cells[cell] for cell in cells if cell in self.cells]
        return self.all_cells if set(cells) == set(self.cells) else max(known, default=None)


def half_width(levels: Sequence[float], errors: Sequence[float]) -> float:
    """The noise between races that their rounds do not show, as half of a 95 % interval of a log ratio of two races.

    The variance of the races' log medians holds the noise between races and that within; the second is what the rounds
    of each race show, so it is subtracted (moments estimator of a random-effects model, DerSimonian and Laird 1986; 0
    when the rounds explain it all). Two races differ by √2 times its root, and Student's t with one degree less than
    there are races allows for so few of them.

    :param levels: logarithm of the median of each race.
    :param errors: its standard error, from the rounds of that race.
    """
    between = float(np.var(levels, ddof=1) - np.mean(np.square(errors)))
    return float(stats.t.ppf(0.975, len(levels) - 1)) * math.sqrt(2 * max(0.0, between))


def measure(races: list[Race]) -> Floor:
    """The noise floor from races of one configuration.

    :raises ReportError: with fewer than 3 races, or races that are not of one configuration.
    """
    check_comparable(races, LEAST_RACES)
    for race in races[1:]:
        if problems := differences(races[0], race):
            raise ReportError(f"race [{race.id}] is of another configuration than [{races[0].id}]: {problems[0]}")
    judged, found, names = races[0].record.compared.figures[0], list(map(compared_in, races)), common_cells(races)
    floors = {}
    for name in names:
        samples = [cells.known(judged, name) for cells in found]
        floors[name] = half_width([math.log(np.median(v)) for v in samples], [log_error(v) for v in samples])
    together = [cells.matrix(judged, names) for cells in found]
    return Floor(
        races[0].challenge,
        [race.id for race in races],
        sorted(race.started for race in races),
        races[0].machine,
        races[0].target,
        races[0].parameters,
        floors,
        half_width([log_level(m) for m in together], [log_level_error(m) for m in together]),
    )


def keep(floor: Floor, file: Path) -> None:
    """Adds a floor to the file; it takes the place of an older one of the same configuration."""

    def same(other: Floor) -> bool:
        return other.challenge == floor.challenge and _configuration(other) == _configuration(floor)

    others = [other for other in read(file) if not same(other)]
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_suffix(".tmp")
    scratch.write_text(json.dumps([asdict(f) for f in [*others, floor]], indent=1))
    scratch.replace(file)


def read(file: Path) -> list[Floor]:
    """The floors kept so far, oldest first.

    :raises ReportError: when the file cannot be read as such.
    """
    if not file.exists():
        return []
    try:
        return [Floor(**floor) for floor in json.loads(file.read_text())]
    except (ValueError, TypeError):
        raise ReportError(f"[{file}] is not what 'make noise' writes; remove it and run 'make noise' again") from None


def fitting(floors: list[Floor], race: Race, days: float = DAYS) -> tuple[Floor | None, str]:
    """The floor of a race's configuration, or else why the newest of its challenge is refused; both empty when there is
    none of its challenge.

    :param days: that the race may lie before or after those of the floor.
    """
    refused = ""
    for floor in (floor for floor in reversed(floors) if floor.challenge == race.challenge):
        if not (problems := _unfit(floor, race, days)):
            return floor, ""
        refused = refused or f"that of the races from {floor.started[0]} on is not of this race, {problems[0]}"
    return None, refused


def _unfit(floor: Floor, race: Race, days: float) -> list[str]:
    """Why a floor of the same challenge does not hold for a race."""
    found = differences(floor, race)
    if machine := [k for k in floor.machine.keys() | race.machine.keys() if not _same(k, floor, race)]:
        found.append(f"which ran on another machine ({', '.join(sorted(MACHINE.get(k, k) for k in machine))})")
    first, last = moment(min(floor.started)), moment(max(floor.started))
    away = max(first - moment(race.started), moment(race.started) - last).total_seconds() / 86_400
    if away > days:
        found.append(f"which lies {away:.0f} days away; a floor holds for {days:g} (NOISE_DAYS)")
    return found


def _same(key: str, floor: Floor, race: Race) -> bool:
    return key == "load" or floor.machine.get(key) == race.machine.get(key)


def moment(started: str) -> datetime:
    """A time as Rally writes it."""
    return datetime.strptime(started, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)


def sections(races: list[Race], floor: Floor) -> list[Section]:
    """What the races showed: per cell the spread of their medians, the floor, and the verdicts on all pairs."""
    compared = races[0].record.compared
    judged, enough = compared.figures[0], compared.enough

    def different(pairs: list) -> str | None:
        said = [verdict(pair, enough=enough) for pair in pairs]
        told = [of in (Verdict.IMPROVED, Verdict.REGRESSED) for of in said if of is not Verdict.NOT_ENOUGH]
        return f"{sum(told)} of {len(told)}" if told and not compared.alone else None

    rows: list[dict[str, Any]] = []
    for name in floor.cells:
        found = [compared_in(race).known(judged, name) for race in races]
        medians = [median(v) for v in found]
        pairs = [ratio(a, b) for i, a in enumerate(found) for b in found[i + 1 :]]
        rows.append(
            {
                "cell": name,
                "least": min(m.value for m in medians),
                "greatest": max(m.value for m in medians),
                "cv": float(np.median([m.cv for m in medians])),
                "floor": math.expm1(floor.cells[name]),
                "different": different(pairs),
                "different_floored": different([widened(pair, floor.cells[name]) for pair in pairs]),
            }
        )
    rows.append({"cell": "geometric mean", "floor": math.expm1(floor.all_cells)})
    unit = races[0].record.compared.unit
    columns = [Words("cell", "cell"), Column("least", "least median"), Column("greatest", "greatest")]
    columns += [share("cv", f"CV of {plural(unit)}"), share("floor", "noise floor")]
    columns += [Column("different", "pairs called different"), Column("different_floored", "with floor")]
    text = (
        f"{len(races)} races of one configuration; {races[0].figure(judged)}. The noise floor is half of the 95 % "
        "interval of what two races differ by beside what their rounds show; "
        + (
            "a race is one sample here, so a comparison takes several on each side in its place."
            if compared.alone
            else "a comparison of single races widens its intervals by it. The last column uses the races that the "
            "floor comes from, so it flatters; without a number no pair has rounds enough for a verdict."
        )
        + " It is 0 where the rounds explain all."
    )
    return [Section("Noise between races", [text, Table("noise", columns, rows)])]


def floor_section(floor: Floor, race: Race) -> Section:
    """A floor by itself, for what is said of another race of its configuration."""
    rows = [{"cell": name, "floor": math.expm1(found)} for name, found in floor.cells.items()]
    rows.append({"cell": "geometric mean", "floor": math.expm1(floor.all_cells)})
    columns: list[Column] = [Words("cell", "cell"), share("floor", "noise floor")]
    both = ((p.name, floor.parameters.get(p.name), race.parameters.get(p.name)) for p in race.record.parameters)
    other = [f"{name}:{own}" for name, own, of_race in both if own != of_race]
    given = f" with {', '.join(other)}" if other else ""
    text = (
        f"{len(floor.races)} races of this configuration{given}, "
        f"{floor.started[0]} to {floor.started[-1]} on this machine: half of the 95 % interval of what two such races "
        "differ by beside what their rounds show; 0 where the rounds explain all. `make compare` widens the intervals "
        "of single races by it."
    )
    return Section("Noise between races", [text, Table("noise", columns, rows)])


def differences(one: Race | Floor, other: Race) -> list[str]:
    """What two races of one configuration must not differ in, in words; what selects rounds may differ from a floor."""
    mine, its = (_parameters(of, selecting=isinstance(one, Race)) for of in (one, other))
    found = [
        f"{key} is [{its.get(key)}], not [{mine.get(key)}]"
        for key in sorted(mine.keys() | its.keys())
        if mine.get(key) != its.get(key)
    ]
    if not found and _configuration(one) != _configuration(other):
        found.append("version, JVM, its flags, cores or heap of the target differ")
    return found


def _parameters(of: Race | Floor, selecting: bool) -> dict[str, Any]:
    """The track parameters that its challenge reads, of all that a race records.

    :param selecting: those that select rounds, too.
    """
    read = {p.name for p in challenges()[of.challenge].parameters if selecting or not p.selects}
    free = parameters().keys() - read
    return {name: value for name, value in of.parameters.items() if name not in free}


def _configuration(of: Race | Floor) -> tuple[Any, ...]:
    """What has to be equal for a floor to speak of a race; names of nodes do not matter."""
    nodes = [json.dumps({k: v for k, v in node.items() if k != "node"}, sort_keys=True) for node in of.target]
    return of.challenge, sorted(nodes), json.dumps(_parameters(of, selecting=False), sort_keys=True)
