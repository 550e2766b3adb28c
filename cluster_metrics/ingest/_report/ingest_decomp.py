"""Explains an ingest-decomp race: where the seconds of an ingest go, and what each change to the client buys."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from _tools.report import answer as answers
from _tools.report import cpu, plots, sampling_cost, stability, timelines
from _tools.report.answer import Finding, RaceWarning, times_as_fast
from _tools.report.gains import Gain, over_base
from _tools.report.race import Race, Sample
from _tools.report.references import PROFILING, beside
from _tools.report.sampled import sampled
from _tools.report.section import Figure, Section
from _tools.report.stats import optimism
from _tools.report.table import Column, Table, Words, share, times
from _tools.report.text import interval, number, percent
from _tools.report.verdicts import Verdict, decided_by
from cluster_metrics.core.change import KINDS, Change
from cluster_metrics.core.sampler import NONE, SAMPLER
from cluster_metrics.ingest._report import costs as bare
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.steps import NAIVE, NATIVE, REQUESTS, SLICES, STEP_NAMES, STEPS, Step

from . import decomp_times
from .bottleneck import bottleneck, finding, section_of_cells
from .course import over_rounds
from .decomp_cells import Clients, best, enough, had_orjson, judged, taken, wanted, ways
from .format_cells import per_million
from .profiled import HOW
from .usage import of_cells, target_cores

REFERENCE_WALL_S = 76.9
"""Section 3 of PROFILING: average of 5 epochs of a million rows."""
REFERENCE_CLIENT_SHARE = 0.47
"""Of the wall time, client and network; same place."""
KNOBS = ("clients", "documents of a request")


costs = bare.costs
"""What ``make explain`` holds against bare loops."""


def warnings(race: Race) -> Iterator[RaceWarning]:
    """What is missing of the profile comes first, where one was asked for."""
    if _is_profiled(race):
        yield from cpu.warnings(race, HOW)
    yield from stability.warnings(race)


def _is_profiled(race: Race) -> bool:
    return race.parameters.get(SAMPLER.name, NONE) != NONE


def answer(race: Race) -> Iterator[Finding]:
    """The first client that nothing is shown to beat, the greatest gains, and what the fastest itself takes."""
    cells = Clients(race)
    if not cells.has(NAIVE):
        return
    naive, top, steps = cells.per_million("wall_ms", NAIVE), best(race, cells), taken(race, cells)
    yield finding(bottleneck(of_cells(race, KNOBS).get(top)), f"{top}, the fastest")
    yield Finding(NAIVE, f"{number(naive.value)} s {interval(naive)} per million rows", {"wall_s": naive})
    if top == NAIVE or not answers.is_shown(race, cells.ratio("wall_ms", NAIVE, top)):
        yield answers.undecided(race, None if top == NAIVE else cells.ratio("wall_ms", NAIVE, top).n)
    else:
        chosen = enough(race, cells, top)
        rate, fast = cells.one("rows_per_second", chosen), cells.times_as_fast(NAIVE, chosen)
        text = f"{chosen}: {number(rate.value)} rows/s, {times_as_fast(fast)} as fast as {NAIVE}"
        also = "" if chosen == top else f"; {top}, the fastest, is not shown to be faster"
        yield Finding("recommended", text + also, {"rows_per_second": rate, "speedup": fast})
    said = judged(race, cells, steps)
    gains = {s.name: cells.saved(b, s.name) for s, b in steps if said[s.name].verdict is Verdict.IMPROVED}
    if first := sorted(gains.items(), key=lambda item: -item[1].value)[:3]:
        told = "; ".join(f"{name} {number(gain.value)} s {interval(gain)}" for name, gain in first)
        yield Finding("saves most", told, dict(first))
    if said:
        of = {verdict: [name for name, judged in said.items() if judged.verdict is verdict] for verdict in Verdict}
        told = "; ".join(f"{verdict.value}: {', '.join(names)}" for verdict, names in of.items() if names)
        yield Finding("steps", told)
    if _is_profiled(race):
        yield from cpu.findings(race, HOW)
    yield Finding("documents", f"{sum(s.meta['rows'] for s in race.of(SAMPLE)):,} sent, each checked as acknowledged")


def changes(race: Race) -> Iterator[Gain]:
    """What each step gains and costs; where each comes on top of those before, all of them together as well."""
    cells = Clients(race)
    steps = taken(race, cells)

    def gain(change: Change, base: str, name: str) -> Gain:
        figures = {"target_cpu": "target_cpu_ms", "client_cpu": "client_cpu_ms", "store": "store_bytes"}
        paid = over_base(cells, base, name, **figures, bytes=_bytes)
        return Gain(change, base, cells.times_as_fast(base, name), paid)

    yield from (gain(step.as_change, base, step.name) for step, base in steps)
    if len(steps) > 1 and steps[-1][1] != NAIVE:
        last = steps[-1][0]
        every = [step.as_change for step in STEPS[: STEPS.index(last)] if not step.alone] + [last.as_change]
        kinds = tuple(kind for kind in KINDS if any(kind in change.kinds for change in every))
        change = Change(f"all steps up to {last.name}", kinds, "ingest", "those of all its steps")
        yield gain(change, NAIVE, last.name)


def _bytes(meta: Mapping[str, Any]) -> float:
    return (meta["bytes_out"] + meta["bytes_in"]) / meta["rows"]


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    cells = Clients(race)
    if not cells.has(NAIVE):
        return []
    steps = taken(race, cells)
    names = [c for c in (NAIVE, *STEP_NAMES, SLICES, REQUESTS, NATIVE) if cells.has(NAIVE, c)]
    parts = [Section("What to do", [_advice(race, cells, steps)])]
    if steps:
        parts.append(Section("What each change buys", [*_changes(race, cells, steps), _waterfall(cells, steps)]))
    return [
        *parts,
        Section("How fast it gets", [_performance(race, cells)]),
        section_of_cells(of_cells(race, KNOBS), over_rounds(race, KNOBS)),
        Section("Where the seconds go", decomp_times.times(cells, names, {step.name: base for step, base in steps})),
        Section("What it costs", decomp_times.costs(cells, names)),
        *(_profile(race) if _is_profiled(race) else []),
        *stability.sections(race, _rounds_figure(race, cells)),
    ]


def _profile(race: Race) -> list[Section]:
    parts, found = cpu.problems(race, HOW), sampled(race, HOW)
    if found:
        parts += [*cpu.sections(race, found), cpu.sums(found)]
    return parts + sampling_cost.sections(race, HOW)


def sheets(race: Race) -> list[Table]:
    """Components and methods of what was sampled, a row each."""
    return cpu.sheets(race, HOW) if _is_profiled(race) else []


def files(race: Race) -> Iterator[tuple[str, str]]:
    """The page of flame graphs and the stacks for other viewers, where a profile was asked for."""
    if _is_profiled(race):
        yield from cpu.files(race, HOW)


def compared_in(race: Race) -> list[Sample]:
    """The samples, with what is compared per million rows, in thousands: how many a cell has may differ."""
    figures = [key.name for key in race.record.compared.derived]
    samples = sorted(race.of(SAMPLE), key=lambda sample: sample.cell)
    return [replace(s, meta=dict(s.meta) | {key: per_million(key)(s.meta) for key in figures}) for s in samples]


def _rounds_figure(race: Race, cells: Clients) -> Figure:
    shown = {NAIVE, best(race, cells)}
    of = {name: [s for s in compared_in(race) if s.cell == name] for name in shown}
    return timelines.over_time(of, "wall_ms", "wall s per million rows")


def _advice(race: Race, cells: Clients, steps: list[tuple[Step, str]]) -> str:
    found = judged(race, cells, steps)
    said = {name: of.verdict for name, of in found.items()}
    lines = []
    if gains := [(s, b) for s, b in steps if said[s.name] == Verdict.IMPROVED]:
        gains.sort(key=lambda g: -cells.saved(g[1], g[0].name).value)
        texts = []
        for step, base in gains:
            saved = cells.saved(base, step.name)
            gain = f"saves {number(saved.value)} s {interval(saved)}"
            texts.append(f"**{step.name}** ({step.text}: {gain}; trade-off: {step.price})")
        lines.append("Take, the largest gain per million rows first: " + "; ".join(texts) + ".")
    if losses := [name for name, verdict in said.items() if verdict is Verdict.REGRESSED]:
        lines.append(f"Slower here: {', '.join(losses)}.")
    if same := [
        f"{name}: {found[name].text}" for name in said if said[name] in (Verdict.EQUIVALENT, Verdict.NOT_SHOWN)
    ]:
        lines.append(f"As changes of wall time, {'; '.join(same)}.")
    if undecided := [name for name, verdict in said.items() if verdict is Verdict.NOT_SHOWN]:
        lines.append(
            f'What is not shown takes more rounds, which are shorter without the other steps: add `"ingest_steps": '
            f"{json.dumps(undecided)}` to the parameters of this race, and `ingest_rounds` as the table has them."
        )
    if unknown := [name for name, verdict in said.items() if verdict is Verdict.NOT_ENOUGH]:
        lines.append(f"Too few rounds to judge: {', '.join(unknown)}.")
    held = {step.name for step, _ in steps}
    left_out = [name for name in wanted(race) if name not in held]
    if "orjson" in left_out and not had_orjson(race, cells):
        left_out.remove("orjson")
        lines.append("The step orjson was left out: the load driver has no package of that name.")
    timed = [step.name for step in STEPS if step.timed and step.name in left_out]
    if timed and not race.parameters.get("timestamps"):
        lines.append(f"The steps {', '.join(timed)} were left out: they take timestamps:true.")
        left_out = [name for name in left_out if name not in timed]
    if alone := [name for name in left_out if cells.has(name)]:
        lines.append(f"**No round of {', '.join(alone)} has what it is held against.**")
    if others := [name for name in left_out if name not in alone]:
        lines.append(f"**No samples of {', '.join(others)}.**")
    return " ".join(lines) + "\n"


def _against(race: Race) -> str:
    if race.parameters.get("design") == "one-at-a-time":
        return "Each change alone, against the naive client"
    return "Each change on top of those before it, against the step before"


def _changes(race: Race, cells: Clients, steps: list[tuple[Step, str]]) -> list[str | Table]:
    found = judged(race, cells, steps)
    rows = [
        {
            "step": step.name,
            "saved_s": cells.saved(base, step.name),
            "share": cells.share_saved(base, step.name),
            "speedup": cells.times_as_fast(base, step.name),
            "verdict": found[step.name].text,
            "found": found[step.name].found,
            "decided_by": decided_by(of) if (of := found[step.name]).verdict is Verdict.NOT_SHOWN else None,
            "target_cpu": cells.ratio("target_cpu_ms", base, step.name),
        }
        for step, base in steps
    ]
    columns = [Words("step", "step"), Column("saved_s", "saves", "s"), share("share", "of naive")]
    columns += [Column("speedup", "times as fast"), Words("verdict", "verdict")]
    columns += [share("found", "change found in 80 %"), Column("decided_by", "rounds to decide", form="{:,.0f}".format)]
    columns += [times("target_cpu", "target's CPU")]
    text = (
        f"{_against(race)}, per million rows, formed within each round; medians over rounds. Rows are decoded, and "
        "files in memory, before the clock runs: so slices show what encoding costs a client that must do it while it "
        "sends. All clients are coroutines of one process and share its CPU. Each cell is short, so it sees "
        "few refreshes and merges; of several clients that send slices each has as many rows as one alone. What is not "
        "shown would be decided by so many rounds, were it as it is now."
    )
    return [text, Table("changes", columns, rows)]


def reference(race: Race) -> list[str | Table]:
    """What was expected of the steps, beside what they saved."""
    cells = Clients(race)
    rows = [(s.name, cells.share_saved(b, s.name), _expected(s)) for s, b in taken(race, cells) if s.reference]
    text = (
        f"{PROFILING.cited} It expected savings of an ingest of {REFERENCE_WALL_S} s, {REFERENCE_CLIENT_SHARE:.0%} of "
        "which were client and network; as shares of the naive client's time the two can be held together."
    )
    return [text, beside("reference", rows, form=percent)] if rows else []


def _expected(step: Step) -> str:
    """What was expected of a step, with its share of the whole where there was a figure."""
    shares = [f"{100 * s / REFERENCE_WALL_S:.0f}" for s in step.reference_s or ()]
    return f"{step.reference} ({'–'.join(shares)} %)" if shares else step.reference or "–"


def _waterfall(cells: Clients, steps: list[tuple[Step, str]]) -> Figure:
    first, *then = [(name, cells.per_million("wall_ms", name)) for name in (NAIVE, *(step.name for step, _ in steps))]
    held = [cells.per_million("wall_ms", base).value for _, base in steps]
    changes = [(name, before, now) for (name, now), before in zip(then, held)]
    caption = (
        "Seconds per million rows: each bar runs from what the change is held against to what it leads to; the line "
        "is the 95 % interval of the latter."
    )
    return Figure(plots.steps(first, changes, "s per million rows"), caption)


def _performance(race: Race, cells: Clients) -> str:
    top = best(race, cells)
    fast, rate = cells.times_as_fast(NAIVE, top), cells.one("rows_per_second", top)
    walls = cells.matrix("wall_ms", names := ways(cells))
    name = f"**{top}**" if fast.n >= race.record.compared.enough else top
    lines = [
        f"The fastest configuration is {name} with {number(rate.value)} rows/s {interval(rate)}: "
        f"{times_as_fast(fast)} the naive client, the median of the ratios within rounds. It is the fastest of "
        f"{len(names)}"
        + (
            f"; choosing it for that overstates it by {percent(optimism(walls / walls[0]))} on average."
            if walls.size
            else ", which have no round in common."
        )
    ]
    if cores := target_cores(race):
        most = cells.ceiling(NAIVE, top, cores)
        lines.append(
            f"Were the client free and the target's {number(cores)} cores always at work, it would be "
            f"{times_as_fast(most)} the naive client (aim: 8 ×): what is beyond that takes less work for the target. "
            "Its CPU time holds the refresh at the end, so a load without one may come out above."
        )
    part = cells.one(lambda meta: meta["client_cpu_ms"] / meta["wall_ms"], top)
    own = cells.one(lambda meta: (meta["encode_ms"] + meta["parse_ms"]) / meta["wall_ms"], top)
    lines.append(
        f"In it the client uses {percent(part.value)} {interval(part, percent)} of the wall time as CPU (aim: at "
        f"most 5 %); encoding and parsing are {percent(own.value)} {interval(own, percent)}."
    )
    if cells.has(REQUESTS):
        fast = cells.times_as_fast(REQUESTS, top)
        lines.append(
            f"It is {times_as_fast(fast)} as fast as `requests.post` without a session, which sends what naive sends."
        )
    if cells.has(SLICES, NATIVE):
        ours = cells.times_as_fast(NATIVE, SLICES)
        lines.append(
            f"At 1,000 documents a request and one client, slices sent by `perform_request` with a filtered response "
            f"reach {number(ours.value)} × {interval(ours)} the rows/s of Rally's own bulk runner with its own reader "
            f"(aim: at least 1.5 ×); both start from a file."
        )
    return "\n".join(f"- {line}" for line in lines) + "\n"
