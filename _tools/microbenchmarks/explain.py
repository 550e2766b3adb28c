"""Holds what a race says its parts cost against the bare loops that they consist of, as micro-benchmarks measured them.

What the loops do not explain is the framework around them: no change to a loop can buy it. Intervals of sums,
differences and quotients combine those of their parts as independent ones (MOVER; Zou and Donner, Statistics in
Medicine 27, 2008).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from ..race.variables import RaceError
from ..report import page, plots
from ..report.answer import MEANINGLESS, in_test_mode
from ..report.costs import BreakEven, Cost, Loop
from ..report.explained import report_of
from ..report.race import Race
from ..report.section import Figure, Section
from ..report.stats import Estimate, crossing
from ..report.table import Column, Table, Words, share
from ..report.text import interval, number, percent
from ..report.write import page_of, source_of
from .results import WIDEST, Result, hours_between

HOURS = 1.0
"""Between race and micro-benchmarks, beyond which the table says so."""


@dataclass(frozen=True)
class Found:
    """The results that a race can be explained with.

    :param results: the one to take of each loop.
    :param notes: of those that were not measured as the race was, how they differ.
    """

    results: Mapping[Loop, Result] = field(default_factory=dict)
    notes: Mapping[Loop, str] = field(default_factory=dict)

    @classmethod
    def of(cls, race: Race, results: Iterable[Result]) -> "Found":
        """Of several results of a loop the one that was measured most like the race; of equals the latest."""
        best: dict[Loop, tuple[int, str, Result]] = {}
        for result in results:
            rank = (-len(differences(race, result)), result.about["started"], result)
            if result.loop not in best or rank[:2] >= best[result.loop][:2]:
                best[result.loop] = rank
        notes = {loop: "; ".join(differences(race, result)) for loop, (_, _, result) in best.items()}
        return cls({loop: result for loop, (_, _, result) in best.items()}, {k: v for k, v in notes.items() if v})

    def quoted(self, loops: Iterable[Loop]) -> list[Result]:
        """Those of these loops that may be quoted."""
        return [self.results[loop] for loop in loops if loop in self.results and self.results[loop].quotable]

    def why_not(self, loops: Iterable[Loop]) -> list[str]:
        """Why any of these loops is not quoted, a sentence each."""
        found = []
        for loop in dict.fromkeys(loops):
            if loop not in self.results:
                bench = loop.benchmark.partition(".")[0] if "." in loop.benchmark else "client"
                found.append(f"no result of {loop}; 'make micro BENCH={bench}' measures it")
            elif not (result := self.results[loop]).quotable:
                known = math.isfinite(result.error)
                error = f"its error is {percent(result.error)}" if known else "it has too few forks for an interval"
                found.append(f"{loop} is not quoted: {error}, allowed is {percent(WIDEST)}; measure it again")
        return found


def differences(race: Race, result: Result) -> list[str]:
    """How a result was measured unlike a race, version, machine, input, hour, or unlike others, by ARGS."""
    about, found = result.about, []
    versions = {node["version"] for node in race.target}
    if (version := about["versions"].get("elasticsearch")) and versions and {version} != versions:
        found.append(f"Elasticsearch {version}, the race {', '.join(sorted(versions))}")
    own, its = about["machine"], race.machine
    if not its:
        found.append("on a machine that the race did not record")
    elif other := [k for k in ("cpu", "cores", "memory_mb", "kernel", "virtualisation") if own.get(k) != its.get(k)]:
        found.append("another machine: " + ", ".join(f"{k} {own.get(k)}, the race {its.get(k)}" for k in other))
    if version and race.local is not True:
        where = "on another" if race.local is False else "on one that is not recorded"
        found.append(f"on the load driver's machine, the race's target {where}")
    if version:
        for name in INPUT.get(result.loop.benchmark.partition(".")[0], METRICS):
            if name in race.parameters and race.parameters[name] != about["input"].get(name):
                found.append(f"{name} {about['input'].get(name)}, the race {race.parameters[name]}")
    if (hours := hours_between(about, *span(race))) > HOURS:
        found.append(f"{hours:.1f} hours apart")
    if arguments := NO_MATTER.sub("", " ".join(about.get("arguments", ()))).split():
        found.append(f"with ARGS {' '.join(arguments)}")
    return found


NO_MATTER = re.compile(r"(?<!\S)(-f ?\d+|-p \S+|--processes[= ]\d+|--only[= ]\S+)(?!\S)")
"""Arguments that change how many forks or which loops are measured, and not what one takes."""


METRICS = ("nodes", "tasks", "rows_per_epoch", "epochs", "seed")
INPUT = {"StoredFieldsBenchmark": ("text_distinct_values", "text_order", "seed"), "BulkParsingBenchmark": ()}
"""The parameters on which the input of a benchmark depends, by class; of all others these of the metrics."""


def span(race: Race) -> tuple[datetime, datetime]:
    """When a race began, and when its last sample did."""
    start = datetime.strptime(race.started, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    last = max((sample.at for sample in race.samples), default=0) / 1000
    return start, max(start, datetime.fromtimestamp(last, timezone.utc))


def times(estimate: Estimate, factor: float) -> Estimate:
    """An estimate as often as it is counted."""
    value, low, high = (factor * x for x in (estimate.value, estimate.low, estimate.high))
    return Estimate(estimate.n, value, low, high, estimate.cv, estimate.freedom)


def summed(results: Sequence[Result]) -> Estimate:
    """What loops take one after the other; one that is there twice is no independent one."""
    counts = Counter(result.loop for result in results)
    known = {result.loop: result.estimate for result in results}
    return total([times(known[loop], count) for loop, count in counts.items()])


def total(parts: Sequence[Estimate]) -> Estimate:
    """The sum of independent estimates."""
    value = sum(part.value for part in parts)
    down, up = (math.hypot(*(abs(p.value - getattr(p, side)) for p in parts)) for side in ("low", "high"))
    return Estimate(min(p.n for p in parts), value, value - down, value + up, math.nan)


def less(whole: Estimate, part: Estimate) -> Estimate:
    """The difference of two independent estimates."""
    value = whole.value - part.value
    down = math.hypot(whole.value - whole.low, part.high - part.value)
    up = math.hypot(whole.high - whole.value, part.value - part.low)
    return Estimate(min(whole.n, part.n), value, value - down, value + up, math.nan)


def quotient(part: Estimate, whole: Estimate) -> Estimate:
    """The ratio of two independent estimates; without an interval where a bound is not above 0."""
    n = min(part.n, whole.n)
    if not min(part.low, whole.low) > 0:
        return Estimate(n, part.value / whole.value if whole.value else math.nan, math.nan, math.nan, math.nan)
    value = part.value / whole.value
    down = math.hypot(math.log(part.value / part.low), math.log(whole.high / whole.value))
    up = math.hypot(math.log(part.high / part.value), math.log(whole.value / whole.low))
    return Estimate(n, value, value * math.exp(-down), value * math.exp(up), math.nan)


def explained(race: Race, results: Iterable[Result]) -> list[Section]:
    """What of a race's costs bare loops explain, and what is left.

    :raises RaceError: when the race has no costs that bare loops could explain.
    """
    report = report_of(race)
    if not hasattr(report, "costs"):
        raise RaceError(f"race [{race.id}] is of {race.challenge}, whose costs are not held against bare loops")
    costs: list[Cost] = report.costs(race)
    if not costs:
        raise RaceError(f"race [{race.id}] lacks the configurations by which costs are told apart; race it with all")
    found = Found.of(race, results)
    loops = list(dict.fromkeys(loop for cost in costs for loop in cost.loops))
    table = _costs(costs, found)
    drawn = [cost for cost in costs if cost.whole and len(found.quoted(cost.loops)) == len(cost.loops) > 1]
    blocks: list[str | Table | Figure] = [_first(costs, table), *_lines(race, found, costs), table]
    blocks += [_bar(cost, found) for cost in drawn]
    sections = [Section("What bare loops explain", blocks)]
    sections += [_break_even(one, found) for one in getattr(report, "break_evens", lambda race: [])(race)]
    return [*sections, Section("The bare loops", [_loops(loops, found)])]


def _lines(race: Race, found: Found, costs: Sequence[Cost]) -> Iterator[str]:
    loops = [loop for cost in costs for loop in cost.loops]
    lines = [f"**{MEANINGLESS}**"] if in_test_mode(race) else []
    told: dict[str, list[str]] = {}
    for loop in dict.fromkeys(loops):
        if note := found.notes.get(loop):
            told.setdefault(note, []).append(str(loop))
    for note, of in told.items():
        lines.append(f"**measured unlike the race ({note}): {len(of)} of {len(set(loops))} loops, such as {of[0]}**")
    lines += [f"**{why}**" for why in found.why_not(loops)]
    if (segments := race.index.get("segments", 1)) > 1 and any(cost.searched for cost in costs):
        lines.append(
            f"**the index has {segments} segments, which a search reads in parallel: its wall time is less than the "
            "work of its loops**"
        )
    if lines:
        yield "".join(f"- {line}\n" for line in lines)
    yield (
        "What a part costs in the race, in ns per document or row, against the sum of the bare loops that it consists "
        "of. What is left is the framework around them, which no change to a loop can buy; below 0, the loops cost "
        "less within the race than alone. Intervals are of 95 %, those of the loops over forks."
    )


def _first(costs: Sequence[Cost], table: Table) -> str:
    """The answer: of the whole where there is one, of the greatest part otherwise."""
    named = dict(zip((cost.name for cost in costs), table.rows))
    wanted = [cost for cost in costs if cost.whole] or [max(costs, key=lambda cost: cost.each.value)]
    lines = []
    for cost in wanted:
        if explained := named[cost.name].get("share"):
            of = f"{percent(explained.value)} {interval(explained, percent)} of {number(cost.each.value)} ns"
            lines.append(f"- **{cost.name}:** bare loops explain {of} a {cost.unit}\n")
        else:
            lines.append(f"- **{cost.name}:** not shown, as not all of its loops are measured well enough\n")
    return "".join(lines)


def _costs(costs: Sequence[Cost], found: Found) -> Table:
    rows = []
    for cost in costs:
        row: dict[str, Any] = {"cost": f"{cost.name}, a {cost.unit}", "race_ns": cost.each, "loops": len(cost.loops)}
        quoted = found.quoted(cost.loops)
        if len(quoted) == len(cost.loops):
            bare = summed(quoted)
            row |= {"bare_ns": bare, "share": quotient(bare, cost.each), "left_ns": less(cost.each, bare)}
        rows.append(row)
    columns = [Words("cost", "cost"), Column("race_ns", "race", "ns"), Column("loops", "loops")]
    columns += [Column("bare_ns", "bare loops", "ns"), share("share", "explained"), Column("left_ns", "left", "ns")]
    return Table("explained", columns, rows)


def _bar(cost: Cost, found: Found) -> Figure:
    """A bar from loop to loop up to the whole, loops of one benchmark as one."""
    of: dict[str, list[Result]] = {}
    for result in found.quoted(cost.loops):
        of.setdefault(result.loop.benchmark.partition(".")[0].removesuffix("Benchmark"), []).append(result)
    sums = {name: summed(results) for name, results in of.items()}
    left = less(cost.each, summed(found.quoted(cost.loops)))
    parts = [plots.Part(n, e, e.value / cost.each.value) for n, e in {**sums, "left: the framework": left}.items()]
    caption = f"{cost.name}, ns a {cost.unit}: its bare loops, and what is left."
    return Figure(plots.parts(parts, plots.Part(cost.name, cost.each, 1.0), "ns"), caption)


def _break_even(one: BreakEven, found: Found) -> Section:
    """Where the loops cross, by ratios of forks, whose interval says how well that is known; it quotes no loop, so it
    takes those as well that are too wide for that."""
    pairs = {at: [found.results[loop] for loop in of if loop in found.results] for at, of in sorted(one.loops.items())}
    pairs = {at: of for at, of in pairs.items() if len(of) == 2}
    forks = min((len(result.each) for of in pairs.values() for result in of), default=0)
    seen = f"In the race: {percent(one.seen.value)} {interval(one.seen, percent)}."
    if len(pairs) < 2:
        return Section("Break-even point", [f"{one.name.capitalize()}. {seen} Of bare loops too few were measured.\n"])
    logs = np.array([np.log(low.each[:forks] / high.each[:forks]) for high, low in pairs.values()])
    bare = crossing(np.log(list(pairs)), logs)
    text = f"By bare loops: {percent(bare.value)} {interval(bare, percent)}, over {forks} forks."
    agree = bare.known and one.seen.known and bare.low <= one.seen.high and one.seen.low <= bare.high
    verdict = "The intervals overlap." if agree else "The intervals do not overlap, or one is not known."
    return Section("Break-even point", [f"{one.name.capitalize()}. {seen} {text} {verdict}\n"])


def _loops(loops: Sequence[Loop], found: Found) -> Table:
    rows: list[dict[str, Any]] = []
    for loop in loops:
        if result := found.results.get(loop):
            row = result.row() if result.quotable else {k: v for k, v in result.row().items() if k != "each_ns"}
            at = datetime.fromisoformat(result.about["started"]).strftime("%Y-%m-%d %H:%M")
            rows.append(row | {"started": at})
        else:
            rows.append({"benchmark": str(loop), "flag": "missing"})
    columns = [Words("benchmark", "loop"), Column("n", "forks"), Column("each_ns", "each", "ns"), share("error", "±")]
    columns += [share("drift", "drift"), Words("flag", ""), Words("started", "measured, UTC")]
    return Table("loops", columns, rows)


def write(race: Race, results: Sequence[Result], reports: Path) -> Path:
    """Writes the explanation of a race beside its report, prints it, and returns the page."""
    sections = explained(race, results)
    title = f"Race {race.id} against its bare loops"
    problems = [f"**INCOMPLETE: {problem}**" for problem in race.problems]
    out = reports / race.id
    out.mkdir(parents=True, exist_ok=True)
    text = page_of(title, sections, problems)
    (out / "explain.md").write_text(text)
    record = {"race": race.id, "sections": [section.record() for section in sections]}
    (out / "explain.json").write_text(json.dumps(record, indent=1) + "\n")
    path = out / "explain.html"
    path.write_text(page.html(title, problems, sections, source_of(race), ["explain.md", "explain.json"]))
    print(f"\n{text}\nwritten to {path}", flush=True)
    return path
