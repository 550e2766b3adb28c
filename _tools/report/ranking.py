"""Ranks all changes over the newest race of each challenge: of one machine and one version of Elasticsearch."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import elasticsearch

from cluster_metrics.core.challenge import challenges

from .answer import in_test_mode
from .explained import report_of
from .gains import Cost, Gain
from .noise import moment
from .race import MACHINE, Race, ReportError
from .settings import own_parameters
from .stats import Estimate
from .store import circumstances, find, read
from .verdicts import Judged, Verdict, gate_of, judge

ORDER = (Verdict.IMPROVED, Verdict.EQUIVALENT, Verdict.NOT_SHOWN, Verdict.NOT_ENOUGH, Verdict.REGRESSED)
"""Verdicts in the order in which changes are ranked; those of one verdict by their gain."""


@dataclass(frozen=True)
class LeftOut:
    """Races of a challenge that are not in a ranking, for one reason.

    :param race: the newest of them.
    :param races: how many.
    """

    race: Race
    why: str
    races: int

    def record(self) -> dict[str, Any]:
        return {"challenge": self.race.challenge, "races": self.races, "newest": self.race.id, "why": self.why}


@dataclass(frozen=True)
class Ranked:
    """A change in its place, and what may be said of it."""

    race: Race
    gain: Gain
    judged: Judged

    @property
    def name(self) -> str:
        return f"{self.gain.change.text} ({self.race.challenge})"

    @property
    def costs(self) -> dict[str, Cost]:
        """Those that are known."""
        return {k: v for k, v in self.gain.costs.items() if isinstance(v, Estimate) or math.isfinite(v)}


@dataclass(frozen=True)
class Ranking:
    """All changes over races of one machine and version.

    :param races: the newest usable one of each challenge.
    :param changes: the best first.
    :param written: when their age was told.
    """

    races: Sequence[Race]
    changes: Sequence[Ranked]
    left_out: Sequence[LeftOut]
    written: datetime

    def age(self, race: Race) -> str:
        hours = (self.written - moment(race.started)).total_seconds() / 3600
        return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def ranking(store: elasticsearch.Elasticsearch, name: str, test_mode: bool, now: datetime) -> Ranking:
    """Ranks the changes of the races in a metrics store.

    :param name: of the race whose machine and version decide: an id, a tag ``key:value`` for the newest that carries
        it, or ``last`` for the newest that can be ranked.
    :param test_mode: take races in test mode, whose figures mean nothing, and those alone.
    :raises ReportError: when there is none to rank.
    """
    known = [circumstances(store, d) for d in find(store) if d["challenge"] in challenges()]
    read_before: dict[tuple[str, str], Race | str] = {}

    def whole(race: Race) -> Race | str:
        """The race with its samples, or why it cannot be ranked."""
        key = race.id, race.started
        if key not in read_before:
            read_before[key] = _whole(race, test_mode, lambda: read(store, race.document))
        return read_before[key]

    named = known
    if name != "last":
        decides = find(store, name, 1)[0]
        named = [race for race in known if (race.id, race.started) == (decides["race-id"], decides["race-timestamp"])]
    first = next((race for race in named if isinstance(whole(race), Race)), None)
    if first is None:
        newest = {str(whole(race)): race.id for race in reversed(named)}
        why = "; ".join(f"race [{race_id}] {reason}" for reason, race_id in reversed(newest.items()))
        why = f": {why}" if why else ""
        raise ReportError(f"there is no race whose changes could be ranked{why}; race at full size by 'make race'")
    chosen: list[Race] = []
    left_out: list[LeftOut] = []
    for challenge in sorted({race.challenge for race in known}):
        passed: dict[str, LeftOut] = {}
        for race in sorted((race for race in known if race.challenge == challenge), key=has_less):
            found = _elsewhere(race, first) or whole(race)
            if isinstance(found, Race):
                chosen.append(found)
                if later := [r for r in known if r.challenge == challenge and r.started > race.started and has_less(r)]:
                    left_out.append(LeftOut(later[0], "leaves out some of what an older race has", len(later)))
                break
            before = passed.get(found, LeftOut(race, found, 0))
            passed[found] = replace(before, races=before.races + 1)
        left_out += passed.values()
    return Ranking(chosen, ranked(chosen), left_out, now)


def has_less(race: Race) -> bool:
    """Whether the user had it leave out some of what its challenge races, which others then have."""
    lists = (pair for pair in own_parameters(race).values() if all(isinstance(value, list) for value in pair))
    return any(set(value) < set(default) for value, default in lists)


def _whole(race: Race, test_mode: bool, read: Callable[[], Race]) -> Race | str:
    """A race with its samples, or why its changes cannot be ranked."""
    if not hasattr(report_of(race), "changes"):
        return "holds no changes against each other; race it with and without a change and use 'make compare'"
    if not race.document.get("results"):
        return "was not finished"
    if not race.target:
        return "does not say what it ran on"
    if in_test_mode(race) != test_mode:
        return "did not run in test mode" if test_mode else "ran in test mode"
    if delay := (race.document.get("user-tags") or {}).get("delay_ms"):
        return f"ran behind a network delay of {delay} ms"
    try:
        found = read()
    except ReportError as e:
        return str(e).partition("] ")[2] or str(e)
    if found.problems:
        return f"is INCOMPLETE: {found.problems[0]}"
    return found if gains_of(found) else "has none of the configurations that changes are held against"


def _elsewhere(race: Race, first: Race) -> str:
    """How the target or the machine of a race differs from those that decide; empty where they are the same."""
    if race.target and versions_of(race) != versions_of(first):
        return f"ran on Elasticsearch {versions_of(race)}, not {versions_of(first)}"
    one, other = ({k: v for k, v in r.machine.items() if k in MACHINE and k != "load"} for r in (race, first))
    differing = [text for k, text in MACHINE.items() if one.get(k) != other.get(k)]
    differing += ["where the load driver runs"] if race.local != first.local else []
    if race.local is not True and _cores(race) != _cores(first):  # all that is known of a machine elsewhere
        differing.append("cores of the target")
    return f"ran on another machine ({', '.join(differing)})" if race.target and differing else ""


def _cores(race: Race) -> set[int]:
    return {node["cores"] for node in race.target}


def versions_of(race: Race) -> str:
    return ", ".join(sorted({node["version"] for node in race.target}))


def gains_of(race: Race) -> list[Gain]:
    """What the changes of a race gain and cost, by ``changes(race)`` of its challenge's report."""
    return list(report_of(race).changes(race))


def ranked(races: Iterable[Race]) -> list[Ranked]:
    """All changes of these races in order, all judged together."""
    found = [(race, gain) for race in races for gain in gains_of(race)]
    said = judge([gain.slower for _, gain in found], [gate_of(race.record.compared) for race, _ in found])
    every = [Ranked(race, gain, judged) for (race, gain), judged in zip(found, said)]
    return sorted(every, key=lambda r: (ORDER.index(r.judged.verdict), -r.gain.times.value))
