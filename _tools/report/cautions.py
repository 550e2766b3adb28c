"""What speaks against the ratios of a comparison."""

from collections.abc import Iterator
from datetime import datetime

from .answer import RaceWarning
from .noise import moment
from .race import MACHINE
from .sides import Comparison, facts
from .stats import ENOUGH_RACES
from .text import count

LAYOUT = ("documents", "segments")
VERSIONS = ("Elasticsearch", "JVM", "Rally", "track", "track revision")
TARGET = ("load driver", "nodes", "cores", "heap MB", "JVM flags")
LOAD = "load at the start"
"""Of the machine, which differs from race to race."""
SIDES = 5
"""Races that are advised for each side where a race is one sample."""
APART = 2
"""Compared races may lie further apart by this factor than those of the noise floor."""


def warnings_of(found: Comparison) -> list[RaceWarning]:
    """What speaks against taking the ratios as they are."""
    return [*_differing(found), *_cells(found), *_races(found), *_few(found), *_floor(found)]


def _differing(found: Comparison) -> Iterator[RaceWarning]:
    known = [facts(race) for race in found.races]
    for kind, keys, why, option in (
        ("layout", LAYOUT, "times of different layouts differ for that reason", "load both alike"),
        ("versions", VERSIONS, "a ratio holds for all of these changes together", "change one at a time"),
        (
            "machine",
            (*TARGET, *(k for k in MACHINE.values() if k != LOAD)),
            "ratios of different machines say nothing about a change of software",
            "race both on one",
        ),
    ):
        if differing := [k for k in keys if len({f.get(k) for f in known}) > 1]:
            yield RaceWarning(kind, f"the races differ in {', '.join(differing)}", option, why, len(differing))
    parameters = sorted({k for f in known for k in f if k.startswith("parameter ")})
    if differing := [k.removeprefix("parameter ") for k in parameters if len({f.get(k) for f in known}) > 1]:
        seen, why = f"the races differ in parameters {', '.join(differing)}", "a ratio is that of the parameters, too"
        yield RaceWarning("parameters", seen, "change one at a time", why, len(differing))


def _cells(found: Comparison) -> Iterator[RaceWarning]:
    every = {cell for side in found.sides for cells in side.cells for cell in cells.names}
    if missing := sorted(every - set(found.shared)):
        seen = f"only some races have the cells {', '.join(missing)}, which are left out"
        option = "race all with the same lists of them in PARAMS"
        yield RaceWarning("cells", seen, option, "the mean is that of the others", len(missing))


def _races(found: Comparison) -> Iterator[RaceWarning]:
    for race in found.races:
        if race.failed:
            failed = ", ".join(f"{cell} {n}" for cell, n in race.failed.items())
            seen = f"race {race.id} has failed samples, which are left out: {failed}"
            yield RaceWarning("failed", seen, "find out why first", value=sum(race.failed.values()))
        if not race.target:
            seen = f"race {race.id} does not say what it ran on"
            yield RaceWarning("unknown-target", seen, "do not exclude the task check-index")


def _few(found: Comparison) -> Iterator[RaceWarning]:
    """Sides with too few rounds or races for a verdict."""
    first, enough = found.sides[0], found.compared.enough
    for side in found.sides:
        cells = side.cells[0]
        least = min(len(cells.samples(name)) for name in cells.names)
        if least < enough and not all(map(found.replicated, found.sides[1:] if side is first else [side])):
            seen = f"race {side.races[0].id} has {count(least, found.compared.unit)}, a verdict takes {enough}"
            option = f"race with {found.compared.parameter}:{enough}, or each side {SIDES} times: {_commands(found)}"
            yield RaceWarning("too-few", seen, option, value=least)
    for side in found.sides[1:]:
        if found.replicated(side) and (n := len(first.races) + len(side.races)) < ENOUGH_RACES:
            seen = f"{first.title} and {side.title} are {n} races together, a verdict takes {ENOUGH_RACES}"
            yield RaceWarning("too-few", seen, f"race each side {SIDES} times, {_commands(found)}", value=n)


def _floor(found: Comparison) -> Iterator[RaceWarning]:
    """Single races whose noise nobody knows, or not over the time that lies between them."""
    if all(map(found.replicated, found.sides[1:])):
        return
    if found.floor is None:
        none = found.refused or "nobody measured how much races of this configuration differ by themselves"
        why = "so the intervals know the noise within races alone and verdicts are too bold"
        option = (
            "run 'make noise' with these settings, or race each side several times under a tag of its own and compare "
            "the tags"
        )
        yield RaceWarning("no-noise-floor", f"no noise floor: {none}", option, why)
        return
    if lacking := [cell for cell in found.shared if cell not in found.floor.cells]:
        seen = f"the noise floor has none of {', '.join(lacking)}"
        why = (
            "so their intervals know the noise within races alone and their verdicts are too bold, as the mean's may be"
        )
        yield RaceWarning("no-noise-floor", seen, "run 'make noise' with what these races have", why, len(lacking))
    apart, within = (_span([moment(r.started) for r in found.races]), _span(list(map(moment, found.floor.started))))
    if apart > APART * within:
        seen = f"the races lie {_hours(apart)} apart, those of the noise floor {_hours(within)}"
        why = "what changes between such times is not in the floor, and differences are found too often"
        option = "measure it over as long, or race each side several times in turn"
        yield RaceWarning("far-apart", seen, option, why, apart)


def _span(times: list[datetime]) -> float:
    """Hours from the first to the last."""
    return (max(times) - min(times)).total_seconds() / 3600


def _hours(span: float) -> str:
    return f"{span:.1f} h" if span < 48 else f"{span / 24:.1f} days"


def _commands(found: Comparison) -> str:
    """How to race each side several times and to compare them."""
    race = f"make noise CHALLENGE={found.races[0].challenge} RACES={SIDES} TAGS=side:"
    return f"'{race}old', then with the change '{race}new', then 'make compare RACES=\"side:old side:new\"'"
