"""Ranks all changes over the newest race of each challenge: of one machine and one version of Elasticsearch."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import elasticsearch

from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.change import PARTS

from . import plots
from .answer import Answer, Finding, RaceWarning, in_test_mode, times_as_fast, warnings_of
from .explained import report_of
from .gains import Cost, Gain
from .noise import moment
from .race import MACHINE, Race, ReportError, circumstances, find, machine_of, read
from .section import Figure, Section
from .stats import Estimate, Verdict
from .table import Column, Table, Words, times
from .text import count, error_text
from .verdicts import Judged, gate_of, judge

COSTS: tuple[Column, ...] = (
    times("target_cpu", "target CPU"),
    times("client_cpu", "client CPU"),
    times("bytes", "bytes on the wire"),
    Column("error_before", "error before", form=error_text),
    Column("error", "error with it", form=error_text),
)
"""What a change may cost, as far as races record it."""
ORDER = (Verdict.IMPROVED, Verdict.EQUIVALENT, Verdict.NOT_SHOWN, Verdict.NOT_ENOUGH, Verdict.REGRESSED)
"""Verdicts in the order in which changes are ranked; those of one verdict by their gain."""
MOST_DRAWN = 30
SINGLE, COMBINED = 2, 1
"""Changes of each part of the workload that the answer names: by themselves, and combinations."""


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
        named = [race for race in known if race.document == decides]
    first = next((race for race in named if isinstance(whole(race), Race)), None)
    if first is None:
        why = next((f": race [{race.id}] {whole(race)}" for race in named), "")
        raise ReportError(f"there is no race whose changes could be ranked{why}; race at full size by 'make race'")
    chosen: list[Race] = []
    left_out: list[LeftOut] = []
    for challenge in sorted({race.challenge for race in known}):
        passed: dict[str, LeftOut] = {}
        for race in (race for race in known if race.challenge == challenge):
            found = _elsewhere(race, first) or whole(race)
            if isinstance(found, Race):
                chosen.append(found)
                break
            before = passed.get(found, LeftOut(race, found, 0))
            passed[found] = replace(before, races=before.races + 1)
        left_out += passed.values()
    return Ranking(chosen, ranked(chosen), left_out, now)


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
    differing += ["cores of the target"] if _cores(race) != _cores(first) else []
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


def answer_of(found: Ranking) -> Answer:
    """What a ranking begins with: the best of each part of the workload, changes by themselves and combinations."""
    first = found.races[0]
    machine = machine_of(first)
    warnings = warnings_of_all(found)
    head = [
        "changes",
        f"Elasticsearch {versions_of(first)}",
        f"{machine['CPU']}, {machine['cores of the machine']} cores" if "CPU" in machine else "",
        count(len(found.races), "race"),
        count(len(found.changes), "change"),
        count(len(warnings), "warning") if warnings else "no warnings",
    ]
    best = [ranked for ranked in found.changes if ranked.judged.verdict is Verdict.IMPROVED]
    findings = list(_best(best)) or [Finding("recommended", "nothing: no change is shown to gain beyond noise")]
    return Answer(" · ".join(filter(None, head)), any(map(in_test_mode, found.races)), [], findings, warnings)


def _best(best: Sequence[Ranked]) -> Iterator[Finding]:
    for part in PARTS:
        for combined, most in ((False, SINGLE), (True, COMBINED)):
            of = [r for r in best if (r.gain.change.part, r.gain.change.combined) == (part, combined)]
            for ranked in of[:most]:
                change = ranked.gain.change
                price = f"; trade-off: {change.price}" if change.price != "none" else ""
                text = f"{ranked.name}: {times_as_fast(ranked.gain.times)}{price}"
                yield Finding(f"{part}, {' and '.join(change.kinds)}", text, {"times": ranked.gain.times})


def warnings_of_all(found: Ranking) -> list[RaceWarning]:
    """What speaks against the races, each with its challenge, and against holding them together."""
    every = [
        replace(warning, seen=f"{race.challenge}: {warning.seen}")
        for race in found.races
        for warning in warnings_of(race)
    ]
    revisions = {str(race.document.get("track-revision")) for race in found.races}
    if len(revisions) > 1:
        seen = f"the races are of {len(revisions)} revisions of the track"
        every.append(
            RaceWarning("versions", seen, "race all again", "what is measured may have changed", len(revisions))
        )
    return every


def sections(found: Ranking) -> list[Section]:
    """The ranking, the races that it is made of, and those that were left out."""
    rows = [
        {"change": r.gain.change.text, "kind": ", ".join(r.gain.change.kinds), "part": r.gain.change.part}
        | {"times": r.gain.times, "verdict": r.judged.text, "price": r.gain.change.price, "against": r.gain.against}
        | {"race": f"{r.race.challenge} {r.race.id[:8]}", "age": found.age(r.race)}
        | r.costs
        for r in found.changes
    ]
    columns = [Words("change", "change"), Words("kind", "of"), Words("part", "for"), times("times", "times as fast")]
    columns += [Words("verdict", "verdict, as a change of time"), *COSTS, Words("price", "trade-off")]
    columns += [Words("against", "against"), Words("race", "race"), Words("age", "age")]
    text = (
        "Times as fast is the median over rounds of the ratio within each round, with its 95 % interval, against the "
        "configuration that the race itself holds it against; gains against different ones cannot be multiplied. "
        f"Improved changes come first, then by gain; all {len(found.changes)} are judged together (Holm), so a verdict "
        "may be stricter than in the race's own report. Costs are ratios to what it is held against, as far as the "
        "race recorded them; errors are the greatest relative ones of the answers. A combination stands here only "
        "where it was raced as such."
    )
    drawn = found.changes[:MOST_DRAWN]
    caption = (
        f"Times as fast with 95 % intervals, {'the first ' if len(drawn) < len(found.changes) else 'all '}{len(drawn)} "
        "in the order of the table."
    )
    figure = Figure(plots.cells({r.name: {"": r.gain.times} for r in drawn}, "times as fast", 1.0), caption)
    return [
        Section("All changes, ranked", [text, figure, Table("changes", columns, rows)]),
        Section("The races", _races(found)),
        Section("Not in it", _left_out(found)),
    ]


def _races(found: Ranking) -> list[str | Table]:
    rows = [
        {"challenge": race.challenge, "race": race.id, "started": moment(race.started).isoformat()}
        | {"age": found.age(race), "documents": race.index.get("docs"), "warnings": len(warnings_of(race))}
        | {"revision": race.document.get("track-revision")}
        for race in found.races
    ]
    columns: list[Column] = [Words(key, key) for key in ("challenge", "race", "started")]
    columns += [Words("age", "age"), Column("documents", "documents"), Words("revision", "track revision")]
    columns += [Column("warnings", "warnings")]
    machine = ", ".join(f"{k} {v}" for k, v in machine_of(found.races[0]).items() if k != MACHINE["load"])
    text = (
        f"The newest usable race of each challenge on one machine ({machine or 'not recorded'}) and Elasticsearch "
        f"{versions_of(found.races[0])}; ages are those of {found.written.isoformat(timespec='minutes')}."
    )
    return [text, Table("races", columns, rows)]


def _left_out(found: Ranking) -> list[str | Table]:
    columns: list[Column] = [Words("challenge", "challenge"), Column("races", "races")]
    columns += [Words("newest", "the newest of them"), Words("why", "which")]
    rows = [of.record() for of in found.left_out]
    there = {race.challenge for race in found.races} | {of.race.challenge for of in found.left_out}
    never = sorted(name for name in challenges() if name not in there)
    return [
        *([Table("left out", columns, rows)] if rows else ["No race that is newer than these was left out."]),
        *([f"Never raced: {', '.join(never)}."] if never else []),
    ]


def record(found: Ranking) -> dict[str, Any]:
    """The ranking as it goes into ``report.json``, beside its sections and its answer."""
    return {
        "written": found.written.isoformat(),
        "machine": {k: v for k, v in found.races[0].machine.items() if k != "load"},
        "elasticsearch": versions_of(found.races[0]),
        "races": [{"challenge": r.challenge, "race-id": r.id, "started": r.started} for r in found.races],
        "left_out": [of.record() for of in found.left_out],
    }
