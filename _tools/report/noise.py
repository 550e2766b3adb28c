"""The noise between races of one configuration: how it is measured (A/A), kept and found again."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from .cells import Plan, check_comparable, common_cells, matrix, values
from .race import Race, ReportError
from .section import Section
from .stats import Verdict, log_error, log_level, log_level_error, median, ratio, t_quantile, verdict, widened
from .text import number, percent, table

LEAST_RACES = 3
FREE = {
    *("passes", "rounds", "warmup_iterations", "variants", "transports", "configurations"),
    *("max_error_permille", "delete_foreign_index"),
}
"""Parameters that may differ between the races and the A/A races: they change which cells run, how often, and what is
said of them."""


@dataclass(frozen=True)
class Floor:
    """The noise between races of one configuration.

    :param challenge: that was raced.
    :param races: their ids.
    :param measured: when it was computed, UTC.
    :param host: name, system and processor of the machine it was computed on.
    :param target: version, JVM, cores and heap of each node of the target.
    :param parameters: track parameters as resolved.
    :param cells: half of the 95 % interval of what two races of this configuration differ by beside what their rounds
        show, as a logarithm, by cell.
    :param all_cells: the same for the geometric mean over all these cells.
    """

    challenge: str
    races: list[str]
    measured: str
    host: dict[str, str]
    target: list[dict[str, Any]]
    parameters: dict[str, Any]
    cells: dict[str, float]
    all_cells: float

    def of(self, cells: Sequence[str]) -> float | None:
        """The floor of the geometric mean over these cells; None unless it was measured over exactly these."""
        return self.all_cells if set(cells) == set(self.cells) else None


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
    return t_quantile(len(levels) - 1) * math.sqrt(2 * max(0.0, between))


def measure(races: list[Race], plan: Plan) -> Floor:
    """The noise floor from races of one configuration.

    :param plan: of their challenge.
    :raises ReportError: with fewer than 3 races, or races that are not of one configuration.
    """
    check_comparable(races, LEAST_RACES, plan)
    for race in races[1:]:
        if problems := differences(races[0], race):
            raise ReportError(f"race [{race.id}] is of another configuration than [{races[0].id}]: {problems[0]}")
    rounds, cells = [plan.cells(race) for race in races], common_cells(races, plan)
    floors = {}
    for cell in cells:
        found = [values(by_cell[cell], plan.judged) for by_cell in rounds]
        floors[cell] = half_width([math.log(np.median(v)) for v in found], [log_error(v) for v in found])
    together = [matrix(by_cell, cells, plan.judged) for by_cell in rounds]
    return Floor(
        races[0].challenge,
        [race.id for race in races],
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        {"name": platform.node(), "system": platform.platform(), "machine": platform.machine()},
        races[0].target,
        races[0].parameters,
        floors,
        half_width([log_level(m) for m in together], [log_level_error(m) for m in together]),
    )


def keep(floor: Floor, file: Path) -> None:
    """Adds a floor to the file; it takes the place of an older one of the same configuration."""
    others = [other for other in read(file) if _configuration(other) != _configuration(floor)]
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
        raise ReportError(f"[{file}] is not what 'make aa' writes; remove it and run 'make aa' again") from None


def fitting(floors: list[Floor], race: Race) -> Floor | None:
    """The floor of a race's configuration; None when there is none."""
    wanted = _configuration(race)
    return next((floor for floor in floors if _configuration(floor) == wanted), None)


def sections(races: list[Race], floor: Floor, plan: Plan) -> list[Section]:
    """What the A/A races showed: per cell the spread of their medians, the floor, and the verdicts on all pairs."""
    rounds = [plan.cells(race) for race in races]
    rows = []
    for cell in floor.cells:
        found = [values(by_cell[cell], plan.judged) for by_cell in rounds]
        medians = [median(v) for v in found]
        pairs = [ratio(a, b) for i, a in enumerate(found) for b in found[i + 1 :]]
        rows.append(
            [cell, number(min(m.value for m in medians)), number(max(m.value for m in medians))]
            + [percent(float(np.median([m.cv for m in medians]))), percent(math.expm1(floor.cells[cell]))]
            + [f"{sum(map(_differs, of))} of {len(pairs)}" for of in (pairs, _widen(pairs, floor.cells[cell]))]
        )
    rows.append(["geometric mean", "", "", "", percent(math.expm1(floor.all_cells)), "", ""])
    head = [
        "cell",
        "least median",
        "greatest",
        "CV of rounds",
        "noise floor",
        "pairs called different",
        "with floor",
    ]
    text = (
        f"{len(races)} races of one configuration; {plan.figures[plan.judged]}. The noise floor is half of the 95 % "
        "interval of what two races differ by beside what their rounds show; a comparison widens its intervals by "
        "it. It is 0 where the rounds explain all. The last column uses the races that the floor comes from, so it "
        "flatters.\n\n"
    )
    return [Section("Noise between races", text + table(head, rows))]


def differences(one: Race, other: Race) -> list[str]:
    """What two races of one configuration must not differ in, in words."""
    keys = sorted(one.parameters.keys() | other.parameters.keys())
    found = [
        f"{key} is [{other.parameters.get(key)}], not [{one.parameters.get(key)}]"
        for key in keys
        if one.parameters.get(key) != other.parameters.get(key)
    ]
    if not found and _configuration(one) != _configuration(other):
        found.append("version, JVM, cores or heap of the target differ")
    return found


def _widen(pairs: list, floor: float) -> list:
    return [widened(pair, floor) for pair in pairs]


def _differs(pair: Any) -> bool:
    return verdict(pair) in (Verdict.IMPROVED, Verdict.REGRESSED)


def _configuration(of: Race | Floor) -> tuple[Any, ...]:
    """What has to be equal for a floor to speak of a race; names of nodes do not matter."""
    nodes = [json.dumps({k: v for k, v in node.items() if k != "node"}, sort_keys=True) for node in of.target]
    fixed = {k: v for k, v in of.parameters.items() if k not in FREE}
    return of.challenge, sorted(nodes), json.dumps(fixed, sort_keys=True)
