"""A ranking of changes as it is read: its answer, its sections, and its record."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.change import PARTS

from . import plots
from .answer import Answer, Finding, RaceWarning, in_test_mode, times_as_fast, warnings_of
from .noise import moment
from .race import MACHINE, machine_of
from .ranking import Ranked, Ranking, versions_of
from .section import Figure, Section
from .table import Column, Table, Words, times
from .text import count, error_text
from .verdicts import Verdict

COSTS: tuple[Column, ...] = (
    times("target_cpu", "target CPU"),
    times("client_cpu", "client CPU"),
    times("bytes", "bytes on the wire"),
    times("store", "store size"),
    Column("error_before", "error before", form=error_text),
    Column("error", "error with it", form=error_text),
)
"""What a change may cost, as far as races record it."""
MOST_DRAWN = 15
SINGLE, COMBINED = 2, 1
"""Changes of each part of the workload that the answer names: by themselves, and combinations."""


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
        "The newest usable race of each challenge, one that raced all of it before one that did not, on one machine "
        f"({machine or 'not recorded'}) and Elasticsearch "
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
        *([f"Not in this store: {', '.join(never)}."] if never else []),
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
