"""Explains an ingest-decomp race: where the seconds of an ingest go, and what each change to the client buys."""

import numpy as np

from cluster_metrics.ingest_steps import NAIVE, NATIVE, SLICES, STEPS, Step

from . import plots, runs, stability, timelines
from .cells import Plan
from .race import Race
from .section import Figure, Section, Sheet
from .stats import Estimate, Samples, Verdict, median, paired_difference, paired_ratio, verdict
from .text import interval, number, percent, started, table, with_interval

COLUMNS = (
    "round",
    "cell",
    "clients",
    "bulk_size",
    "rows",
    "rows_per_second",
    "wall_ms",
    "encode_ms",
    "parse_ms",
    "send_ms",
    "took_ms",
    "least_took_ms",
    "bytes_out",
    "bytes_in",
    "requests",
    "retries",
    "connections",
    "client_cpu_ms",
    "target_cpu_ms",
    "index_ms",
    "refresh_ms",
    "merge_ms",
    "flush_ms",
    "refresh_wall_ms",
)
"""Columns of ``es_profile_ingest_decomp.csv`` after the start (UTC): the metadata of each sample."""
SEED_WALL_S = 76.9
"""Seed 000, section 3: average of 5 epochs of a million rows, on 8 cores."""
SEED_CLIENT_SHARE = 0.47
"""Of the wall time, client and network; same place."""
PLAN = Plan(
    "ingest-cell",
    {"wall_ms": "wall time of a cell, ms", "target_cpu_ms": "CPU time of the target for a cell, ms"},
    NAIVE,
    "ingest_rounds",
)
COARSE_MS = 100
"""A shortest ``took`` this long tells of a cached clock, which Elasticsearch reads every 200 ms by default."""


class Cells:
    """The samples of a race by cell, paired by round.

    :param race: of ingest-decomp.
    """

    def __init__(self, race: Race):
        self._by_cell = PLAN.cells(race)

    def __contains__(self, cell: str) -> bool:
        return cell in self._by_cell

    def values(self, key: str, *cells: str) -> list[Samples]:
        """The values of each cell in the rounds that all of them have."""
        common = sorted(set.intersection(*(set(self._by_cell[c]) for c in cells)))
        return [np.array([float(self._by_cell[c][r].meta[key]) for r in common]) for c in cells]

    def one(self, key: str, cell: str) -> Estimate:
        return median(self.values(key, cell)[0])

    def per_million(self, key: str, cell: str) -> Estimate:
        """Per million rows, in thousands: of a time in ms seconds, of bytes kB."""
        return median(self.values(key, cell)[0] / self.values("rows", cell)[0] * 1000)

    def saved(self, base: str, cell: str) -> Estimate:
        """Wall time that a cell saves against another, in seconds per million rows, each round by itself."""
        before, after = self.values("wall_ms", base, cell)
        rows, _ = self.values("rows", base, cell)
        return paired_difference(after / rows * 1000, before / rows * 1000)

    def share_saved(self, base: str, cell: str) -> Estimate:
        """The same as a share of the naive client's wall time."""
        whole, before, after = self.values("wall_ms", NAIVE, base, cell)
        return median((before - after) / whole)

    def times_as_fast(self, base: str, cell: str) -> Estimate:
        """Wall time of ``base`` over that of the cell, formed within each round."""
        after, before = self.values("wall_ms", cell, base)
        return paired_ratio(after, before)

    def judged(self, base: str, cell: str) -> Verdict:
        before, after = self.values("wall_ms", base, cell)
        return verdict(paired_ratio(before, after))


def taken(race: Race, cells: Cells) -> list[tuple[Step, str]]:
    """The steps that the race has, each with the cell that it is held against."""
    found: list[tuple[Step, str]] = []
    for step in STEPS:
        if step.name in cells:
            cumulative = race.parameters.get("design") != "one-at-a-time"
            found.append((step, found[-1][0].name if found and cumulative else NAIVE))
    return found


def best(race: Race, cells: Cells) -> str:
    """The fastest cell among the naive client and the steps."""
    return min([NAIVE, *(s.name for s, _ in taken(race, cells))], key=lambda c: cells.one("wall_ms", c).value)


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    cells = Cells(race)
    if NAIVE not in cells:
        return []
    steps = taken(race, cells)
    names = [NAIVE, *(s.name for s, _ in steps), *(c for c in (SLICES, NATIVE) if c in cells)]
    parts = [Section("What to do", _advice(race, cells, steps))]
    if steps:
        parts.append(Section("What each change buys", _changes(race, cells, steps), [_waterfall(cells, steps)]))
    return [
        *parts,
        Section("How fast it gets", _performance(race, cells)),
        Section("Where the seconds go", _times(cells, names)),
        Section("What it costs", _costs(cells, names)),
        Section("How far to trust this", stability.text(race, PLAN), [_rounds_figure(race)]),
    ]


def sheets(race: Race) -> list[Sheet]:
    """The samples as a CSV file."""
    rows = [s.meta | {"started": started(s)} for s in race.of("ingest-cell")]
    return [Sheet("es_profile_ingest_decomp.csv", ("started", *COLUMNS), rows)]


def _rounds_figure(race: Race) -> Figure:
    cells = PLAN.cells(race)
    shown = dict.fromkeys([NAIVE, best(race, Cells(race))])
    traces, spans = runs.by_round({name: cells[name] for name in shown}, "wall_ms")
    return Figure(timelines.timeline(traces, spans, "wall ms per cell"), runs.ROUNDS_CAPTION)


def _advice(race: Race, cells: Cells, steps: list[tuple[Step, str]]) -> str:
    judged = {step.name: cells.judged(base, step.name) for step, base in steps}
    lines = []
    if gains := [(s, b) for s, b in steps if judged[s.name] == Verdict.IMPROVED]:
        gains.sort(key=lambda g: -cells.saved(g[1], g[0].name).value)
        texts = []
        for step, base in gains:
            saved = cells.saved(base, step.name)
            gain = f"saves {number(saved.value)} s {interval(saved)}"
            texts.append(f"**{step.name}** ({step.text}: {gain}; price: {step.price})")
        lines.append("Take, the largest gain per million rows first: " + "; ".join(texts) + ".")
    if losses := [s.name for s, _ in steps if judged[s.name] == Verdict.REGRESSED]:
        lines.append(f"Slower here: {', '.join(losses)}.")
    if same := [s.name for s, _ in steps if judged[s.name] == Verdict.NO_DIFFERENCE]:
        lines.append(f"No difference beyond the noise: {', '.join(same)}.")
    if unknown := [s.name for s, _ in steps if judged[s.name] == Verdict.NOT_ENOUGH]:
        lines.append(f"Too few rounds to judge: {', '.join(unknown)}.")
    left_out = [s.name for s in STEPS if s.name not in cells]
    if "orjson" in left_out:
        lines.append("The step orjson was left out: the load driver has no package of that name.")
    if others := [name for name in left_out if name != "orjson"]:
        lines.append(f"**No samples of {', '.join(others)}.**")
    return " ".join(lines) + "\n"


def _against(race: Race) -> str:
    if race.parameters.get("design") == "one-at-a-time":
        return "Each change alone, against the naive client"
    return "Each change on top of those before it, against the step before"


def _changes(race: Race, cells: Cells, steps: list[tuple[Step, str]]) -> str:
    rows = []
    for step, base in steps:
        saved, share = cells.saved(base, step.name), cells.share_saved(base, step.name)
        ratio = cells.times_as_fast(base, step.name)
        rows.append(
            [
                step.name,
                with_interval(saved),
                f"{percent(share.value)} {interval(share, percent)}",
                _expected(step),
                with_interval(ratio),
                cells.judged(base, step.name).value,
            ]
        )
    head = ["step", "saves s", "of naive", "seed expected", "times as fast", "verdict"]
    return (
        f"{_against(race)}, per million rows, formed within each round; medians over rounds. The seed expected its "
        f"savings of an ingest of {SEED_WALL_S} s: as shares the two can be held together. Rows are decoded, and "
        "files in memory, before the clock runs: so slices show what encoding costs a client that must do it while it "
        "sends. All clients of a cell are coroutines of one process and share its CPU. A cell is short, so it sees "
        "few refreshes and merges.\n\n" + table(head, rows)
    )


def _expected(step: Step) -> str:
    """What the seed expected of a step, with its share of the seed's ingest where it gave a figure."""
    shares = [f"{100 * s / SEED_WALL_S:.0f}" for s in step.seed_s or ()]
    return f"{step.seed} ({'–'.join(shares)} %)" if shares else step.seed or "–"


def _waterfall(cells: Cells, steps: list[tuple[Step, str]]) -> Figure:
    bars = [plots.Fall(NAIVE, None, cells.per_million("wall_ms", NAIVE))]
    for step, base in steps:
        before = cells.per_million("wall_ms", base).value
        bars.append(plots.Fall(step.name, before, cells.per_million("wall_ms", step.name)))
    caption = (
        "Seconds per million rows: each bar runs from what the change is held against to what it leads to; the line "
        "is the 95 % interval of the latter."
    )
    return Figure(plots.waterfall(bars, "s per million rows"), caption)


def _performance(race: Race, cells: Cells) -> str:
    top = best(race, cells)
    fast, rate = cells.times_as_fast(NAIVE, top), cells.one("rows_per_second", top)
    lines = [
        f"The fastest cell is **{top}** with {number(rate.value)} rows/s {interval(rate)}: {number(fast.value)} × "
        f"{interval(fast)} the naive client."
    ]
    cpu, wall = (cells.values(key, top)[0] for key in ("client_cpu_ms", "wall_ms"))
    share = median(cpu / wall)
    own = median((cells.values("encode_ms", top)[0] + cells.values("parse_ms", top)[0]) / wall)
    lines.append(
        f"In it the client uses {percent(share.value)} {interval(share, percent)} of the wall time as CPU (aim: under "
        f"10 %; the seed had {SEED_CLIENT_SHARE:.0%}, the network included); encoding and parsing are "
        f"{percent(own.value)} {interval(own, percent)}."
    )
    if SLICES in cells and NATIVE in cells:
        ours = cells.times_as_fast(NATIVE, SLICES)
        lines.append(
            f"At 1,000 documents a request and one client, slices sent by `perform_request` with a filtered response "
            f"reach {number(ours.value)} × {interval(ours)} the rows/s of Rally's own bulk runner with its own reader "
            f"(aim: at least 1.3 ×); both start from a file."
        )
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _times(cells: Cells, names: list[str]) -> str:
    keys = ("wall_ms", "encode_ms", "parse_ms", "send_ms", "took_ms")
    rows = []
    for name in names:
        rate = cells.one("rows_per_second", name)
        times = [cells.per_million(key, name) for key in keys]
        rows.append([name, *(with_interval(e) for e in (rate, *times))])
    head = ["cell", "rows/s", "wall s", "encode s", "parse s", "send and wait s", "took s"]
    least = min((s for n in names for s in cells.values("least_took_ms", n)[0] if s > 0), default=0.0)
    return (
        "Per million rows, medians over rounds. All but wall are summed over requests, so with several clients they "
        f"exceed it. {_resolution(least)}\n\n" + table(head, rows)
    )


def _resolution(least_ms: float) -> str:
    if 0 < least_ms < COARSE_MS:
        return f"The shortest `took` above zero was {least_ms:.0f} ms, so its clock is at least that fine."
    seen = f"The shortest `took` above zero was {least_ms:.0f} ms" if least_ms else "No `took` was above zero"
    return (
        f"{seen}: the target reads its clock only now and then (`thread_pool.estimated_time_interval`, 200 ms by "
        "default), so `took` means little here."
    )


def _costs(cells: Cells, names: list[str]) -> str:
    rows = []
    for name in names:
        cpus = [cells.per_million(key, name) for key in ("target_cpu_ms", "client_cpu_ms")]
        counts = [cells.one(key, name).value for key in ("requests", "connections", "retries", "refresh_wall_ms")]
        sizes = [cells.per_million(key, name).value / 1000 for key in ("bytes_out", "bytes_in")]
        rows.append(
            [
                name,
                *(with_interval(e) for e in cpus),
                *(number(s) for s in sizes),
                *(f"{c:,.0f}" for c in counts),
            ]
        )
    head = ["cell", "target CPU s", "client CPU s", "MB out", "MB in"]
    head += ["requests", "connections", "retries", "refresh at the end ms"]
    return (
        "CPU and bytes per million rows, the others per cell and round; medians over rounds. The target's CPU holds "
        "the refresh at the end, and some more of what it does when idle. Connections are those that the nodes "
        "accepted, one of them to ask for their number where none is kept open.\n\n" + table(head, rows)
    )
