"""The sections that the reports of the capacity challenges share: throughput by shards and replicas, and limits."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from _tools.report import plots
from _tools.report.answer import Finding, RaceWarning, times_as_fast
from _tools.report.looks import BUSY
from _tools.report.race import Race, Sample
from _tools.report.references import CAPACITY
from _tools.report.section import Block, Figure, Section
from _tools.report.stability import signed, told, too_few
from _tools.report.stats import Estimate, geometric_mean
from _tools.report.steady import PART
from _tools.report.table import Column, Words, share
from _tools.report.table import Table as Sheet
from _tools.report.text import count, interval, number, percent, started
from cluster_metrics.capacity.challenge import CLIENTS, INDEX, MONITOR, PREPARE, QUERY
from cluster_metrics.capacity.indices import is_even
from cluster_metrics.core.parameters import OTHER, of_cell

from . import model
from .cells import (
    Cell,
    Pass,
    bottleneck,
    cells_of,
    client_limited,
    clients_of,
    clients_wanted,
    compared,
    first_of,
    gone,
    idle,
    is_full,
    kinds_of,
    main_cells,
    passes_of,
    steady_of,
    waits_of,
)
from .claims import claims, holds, seen

UNITS = {INDEX: "documents/s", QUERY: "searches/s"}
SUMMARY = "throughput is a mean since a task began, the time between its passes included: lower than the rates here"
ARTICLE_DOCUMENTS = 10_000_000
DRIFT = 0.05
"""Change of throughput from the first pass to the last that is no drift."""
LATENCY_DRIFT = 0.5
"""The same of the median of latency: near saturation a few per cent of load change it as much."""
COLUMNS = ("cell", "clients", "pass", "kind", "shards", "replicas", "rate", "documents", "requests", "per_s", "ms",
           "p50_ms", "p99_ms", "rejected", "queue", "cut_s", "steady", "compiling", "bottleneck",
           "shard_table")  # fmt: skip
"""Columns of ``es_profile_capacity.csv`` after the start (UTC)."""


def framed(race: Race, kind: str, more: Callable[[Mapping[str, Cell]], list[Section]]) -> list[Section]:
    """A report: what the race can show, the throughput of the cells of a kind, further sections that are made of those
    of which a pass counts, and what limited each; none without a cell."""
    cells = cells_of(race, kind)
    if not cells:
        return []
    title = f"{'Searches' if kind == QUERY else 'Indexing'}: throughput"
    counted = steady_of(cells)
    throughput = Section(title, [*_throughput(race, cells, kind), *_heat(counted, kind)])
    return around(race, [throughput, *(more(counted) if counted else ())])


def around(race: Race, sections: list[Section]) -> list[Section]:
    """A report of these sections: what the race can show before them, what limited each cell behind."""
    frame, limits = Section("What this can show", [_frame(race)]), Section("Bottleneck and shards", _limits(race))
    return [frame, *sections, limits]


def held_against(
    race: Race, cells: Mapping[str, Cell], kind: str, meaning: str, article: Mapping[str, float]
) -> list[Section]:
    """What was measured beside what the articles claim, and beside what models expect of it.

    :param cells: of which a pass counts.
    :param meaning: of the models of this kind.
    :param article: throughput over that of 1s-0r in the articles, as far as their text says.
    """
    return [
        Section("Do the published statements hold?", claims(cells_of(race, kind), kind)),
        Section("Expected and measured", _expected(cells, kind, meaning, article)),
    ]


def reference(race: Race) -> list[str | Sheet]:
    """The source of the claims."""
    return [CAPACITY.cited]


def sheets(race: Race) -> list[Sheet]:
    """A row per cell, pass and kind as a CSV file."""
    rows = []
    for kind in kinds_of(race):
        for cell, number_of, one in passes_of(cells_of(race, kind)):
            meta = one.prepared.meta
            rows.append(
                {key: meta[key] for key in ("shards", "replicas", "rate", "documents", "shard_table")}
                | _times([one])
                | {
                    "started": started(one.requests[0].at),
                    "cell": cell.name,
                    "clients": clients_of(cell, race),
                    "pass": number_of,
                    "kind": kind,
                    "per_s": one.rate,
                    "ms": 1000 / one.rate,
                    "rejected": one.rejected(),
                    "queue": one.queue(),
                    "cut_s": one.cut_s,
                    "steady": one.steady,
                    "compiling": _compiling(one),
                    "bottleneck": bottleneck(one, race),
                }
            )
    return [Sheet("es_profile_capacity.csv", [Column(key, key) for key in ("started", *COLUMNS)], rows)]


def _times(passes: Iterable[Pass]) -> dict[str, float]:
    """How many requests passes have, and what these took in ms."""
    times = [s.value for one in passes for s in one.requests]
    low, high = (float(np.percentile(times, percent)) for percent in (50, 99))
    return {"requests": len(times), "p50_ms": low, "p99_ms": high}


def _frame(race: Race) -> str:
    held = [n for n in race.target if "cpu_held_by" in n]
    lines = []
    if held and all(n["cpu_held_by"] != "nothing" for n in held):
        shares = ", ".join(sorted({str(n["cpu_cores"]) for n in held}))
        lines.append(
            f"**A simulation:** {len(held)} nodes on one machine, each held to {shares} cores of CPU by "
            f"{held[0]['cpu_held_by']}. It shows the shape, how cells stand to each other, and no absolute "
            "figures; disk, memory and its bandwidth are shared, there is no network, and the load driver has the rest."
        )
    holding = {node for sample in race.of(PREPARE)[:1] for node in json.loads(sample.meta["shard_table"])}
    roles = [n["node"] for n in race.target if n["node"] not in holding]
    if roles:
        lines.append(f"{', '.join(roles)} holds no data and takes all requests.")
    elif len(race.target) > 1:
        lines.append("Requests went to all hosts that Rally was given, in turn.")
    drift = drift_check(race, steady_of(main_cells(race)).values())
    lines += [drift] if drift and isinstance(drift, str) else []
    wanted = race.parameters.get("passes", 0)
    short = [cell.name for cell in main_cells(race).values() if len(cell.passes) < wanted]
    if not race.document.get("results"):
        lines.append("**Incomplete: the race was not finished.** What follows is of the cells raced until then.")
    elif short:
        lines.append(f"**Incomplete:** cells without all of their {wanted} passes: {', '.join(short)}.")
    lines.append(
        "Throughput is counted here, from the starts of requests that succeeded; Rally's own rows are means since a "
        "task began, the time between its passes included, so they are lower."
    )
    found = warnings(race)
    return "".join([*(told(found) if found else ()), *(f"- {line}\n" for line in lines)])


def warnings(race: Race) -> list[RaceWarning]:
    """What speaks against the figures: nodes that add no capacity or left, few passes, a drift."""
    cells, found = main_cells(race), [*_sharing(race), *_left(race)]
    unsaturated, drift = _unsaturated(race, cells.values()), drift_check(race, steady_of(cells).values())
    drifting = [drift] if isinstance(drift, RaceWarning) else []
    return [*found, *_unsteady(cells.values()), *_few(race, cells.values()), *unsaturated, *drifting]


def _few(race: Race, cells: Iterable[Cell]) -> list[RaceWarning]:
    """Whether a cell has fewer passes that count than a verdict takes; what were not steady have to be raced again."""
    of = race.record.compared
    counted, raced = min(((len(cell.steady), len(cell.passes)) for cell in cells), default=(of.enough, 0))
    option = f"race with {of.parameter}:{raced + of.enough - counted} or more"
    return [replace(warning, option=option) for warning in too_few(of, counted)]


def _left(race: Race) -> Iterator[RaceWarning]:
    """Nodes that had left in a cell of a pass, the part of it that does not count included."""
    looks: dict[tuple[str, int], list[Sample]] = {}
    for look in race.of(MONITOR):
        looks.setdefault((look.meta["cell"], look.meta["pass"]), []).append(look)
    for prepared in race.of(PREPARE):
        cell, number_of = prepared.meta["cell"], prepared.meta["pass"]
        if number_of > 0 and (left := gone(prepared, looks.get((cell, number_of), []))):
            seen = f"{', '.join(left)} had left in {cell} of pass {number_of}, which counts for no verdict"
            yield RaceWarning("node-left", seen, "look into the log of that node", value=len(left))


def _unsteady(cells: Iterable[Cell]) -> Iterator[RaceWarning]:
    """Cells with passes in which the rate was never steady."""
    unsteady = {cell.name: [one for one in cell.passes.values() if not one.steady] for cell in cells}
    all_of = {cell.name: len(cell.passes) for cell in cells}
    passes = [one for of in unsteady.values() for one in of]
    if not passes:
        return
    named = ", ".join(f"{name} ({len(of)} of {all_of[name]} passes)" for name, of in unsteady.items() if of)
    rising = sum(late > early for early, late in (one.halves for one in passes)) > len(passes) / 2
    option = "raise first_pass_seconds and cell_warmup_seconds" if rising else "raise cell_seconds"
    why = (
        f"it takes {PART:.0%} of a pass at one level, by the change points of its rate; what is not "
        "steady counts for no verdict; other work on the machine makes rates change, too"
    )
    yield RaceWarning("not-steady", f"the rate was not steady in {named}", option, why, len(passes))


def _sharing(race: Race) -> Iterator[RaceWarning]:
    held = [n for n in race.target if "cpu_held_by" in n]
    why = "a further node adds no capacity, so the shape is not that of a cluster"
    nodes = f"{count(len(race.target), 'node')} {'shares' if len(race.target) == 1 else 'share'} the CPU freely"
    if any(n["cpu_held_by"] == "nothing" for n in held):
        seen = f"{nodes}: this machine has no cgroup to hold them to a share"
        yield RaceWarning("shared-cores", seen, "race as root on a machine with cgroups", why, len(race.target))
    elif not held and race.local and len(race.target) > 1:
        yield RaceWarning("shared-cores", f"{nodes} (no NODE_CORES)", "set NODE_CORES", why, len(race.target))


def _unsaturated(race: Race, cells: Collection[Cell]) -> Iterator[RaceWarning]:
    """Cells that were limited by the client, and those that were limited by nothing."""
    why = "what such a cell carries is more than its throughput"
    if of_client := client_limited(cells, race):
        names = ", ".join(cell.name for cell in of_client)
        seen = f"the client or its machine was at its limit, and no node, in most passes of {names}"
        option = "lower NODE_CORES, or run the load driver" if race.shares() and race.local else "run the load driver"
        option += " on a machine of its own or on several"
        yield RaceWarning("client-limited", seen, option, why, len(of_client))
    if idle_cells := idle(cells, race):
        names = ", ".join(cell.name for cell in idle_cells)
        seen = f"no node used {BUSY:.0%} of its CPU in most passes of {names}, and the client had room"
        others = of_cell(race.parameters.get(CLIENTS.name), OTHER)
        option = f"raise {CLIENTS.name}, to {json.dumps(clients_wanted(race) | {OTHER: others})} or more"
        option += ", or race with CALIBRATE=1"
        yield RaceWarning("not-saturated", seen, option, why, len(idle_cells))


def _warming(cells: Iterable[Cell]) -> str:
    """How much of their CPU time nodes compiled in the first pass of each cell and in the last, in words; empty where
    that is not known."""
    ends = [[cell.steady[end(cell.steady)] for cell in cells if cell.steady] for end in (min, max)]
    told = [[part for one in passes if (part := _compiling(one)) is not None] for passes in ends]
    if not all(told):
        return ""
    first, last = (percent(float(np.median(parts))) for parts in told)
    return f" (in the median they compiled for {first} of their CPU time in the first pass, {last} in the last)"


def drift_check(race: Race, cells: Collection[Cell]) -> RaceWarning | str:
    """Whether the last pass differs from the first, by the geometric mean over cells: of an open
    loop, whose throughput is what is due, by the median of latency, of the rates at which no node was at its limit:
    beyond, latency says how long the load lasted.

    :return: a warning if it does by more than a bound, else what was found; empty where no cell has two passes.
    """
    if race.record.latencies:
        what, most = "the median of latency", LATENCY_DRIFT
        below = {cell.name for cell in main_cells(race).values() if not is_full(cell, race)}
        levels = [
            {number_of: float(np.median(waits)) for number_of, waits in of.items()}
            for name, of in waits_of(race).items()
            if name in below
        ]
    else:
        what, most = "throughput", DRIFT
        levels = [{number_of: one.rate for number_of, one in cell.steady.items()} for cell in cells]
    changes = [of[max(of)] / of[min(of)] for of in levels if len(of) > 1]
    if not changes:
        return ""
    of = geometric_mean(changes)
    change = replace(of, value=of.value - 1, low=of.low - 1, high=of.high - 1)
    found = (
        f"from the first pass to the last {what} changed by {signed(change.value)} {interval(change, percent)}, the "
        f"geometric mean over {count(change.n, 'configuration')}"
    )
    bound = f"the bound is ±{percent(most)}"
    if abs(change.value) <= most:
        return f"Drift check: {found}; {bound}."
    cause = f"the nodes were not warm{_warming(cells)}, or the machine had other work"
    why = f"{bound}: {cause}; ratios within passes suffer less"
    return RaceWarning("drift", f"drift: {found}", "raise first_pass_seconds", why, change.value)


def answer_of_grid(race: Race, kind: str) -> Iterator[Finding]:
    """The cells with least and most throughput, what limits the latter, and which published statements hold.

    :param kind: ``capacity-query`` or ``capacity-index``.
    """
    cells = cells_of(race, kind)
    if not cells:
        return
    first = first_of(cells, next(iter(cells.values())))
    top = max((steady_of(cells) or cells).values(), key=lambda c: c.throughput().value)
    for name, cell in (("one shard", first), ("most", top)):
        if cell:
            rate = cell.throughput()
            text = f"{cell.name}: {number(rate.value)} {UNITS[kind]} {interval(rate)}"
            text += "" if cell.steady else ", never steady"
            figures = {"rate": rate}
            if first and cell is not first and (ratio := compared(cell, first)).n:
                figures["ratio"] = ratio
                text += f", {times_as_fast(ratio)} that of {first.name}"
            yield Finding(name, text, figures)
    yield Finding("limited by", f"{bottleneck(top.last, race)} in {top.name}")
    if found := [holds(ratio, claim) for claim, ratio in seen(cells, kind)]:
        told = ", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(found))
        yield Finding("published", f"of {count(len(found), 'statement')} of the articles: {told}")


def over(own: Cell, base: Cell | None) -> Estimate | str | None:
    """Throughput over that of another cell."""
    return None if base is None else "1" if own is base else compared(own, base)


def _throughput(race: Race, cells: Mapping[str, Cell], kind: str) -> list[str | Sheet]:
    rows = []
    for cell in cells.values():
        same = (c for c in cells.values() if (c.shards, c.replicas, c.rate) == (cell.shards, 0, cell.rate))
        rows.append(
            {
                "cell": cell.name,
                "clients": clients_of(cell, race),
                "n": len(cell.steady),
                "rate": cell.throughput(),
                "over_no_replicas": over(cell, next(same, None)),
                "over_first": over(cell, first_of(cells, cell)),
                "trend": cell.trend(),
            }
            | _times(cell.passes.values())
        )
    columns = [Words("cell", "configuration"), Column("clients", "clients"), Column("n", "passes")]
    columns += [
        Column("rate", UNITS[kind]),
        Column("over_no_replicas", "over no replicas"),
        Column("over_first", "over 1s-0r"),
    ]
    columns += [Column("trend", "second half over first")] if kind == INDEX else []
    columns += [Column("p50_ms", "p50", "ms"), Column("p99_ms", "p99", "ms"), Column("requests", "requests")]
    text = (
        "Closed loop: each client sends as soon as it is answered, so times are service times of a loaded target. A "
        "cell is named by its primary shards and replicas; the pass is the unit of replication, ratios are formed "
        "within passes."
    )
    if kind == INDEX:
        text += (
            " Whether the rate falls as the index grows shows between the halves of a cell's time, in which it grows "
            "by what is sent in `cell_seconds`; the articles' cells took an hour."
        )
    return [text, Sheet(f"throughput {kind}", columns, rows)]


def _heat(cells: Mapping[str, Cell], kind: str) -> list[Figure]:
    shown = {(c.shards, c.replicas): c for c in cells.values() if not c.rate}
    first = shown.get((1, 0))
    if not first or len(shown) < 4:
        return []
    values = {place: ratio for place, cell in shown.items() if (ratio := compared(cell, first)).n}
    caption = f"{UNITS[kind].capitalize()} over those of one shard without replicas."
    return [Figure(plots.heat(values, "replicas", "shards"), caption)]


def expectations(cells: Mapping[str, Cell], kind: str) -> dict[str, dict[str, float]]:
    """Throughput over that of 1s-0r, by cell and model; none without that cell."""
    first = first_of(cells, next(iter(cells.values())))
    if not first:
        return {}
    measured = [cell.measured() for cell in cells.values()]
    fitted = dict(zip(cells, model.held_out(measured, model.QueryModel if kind == QUERY else model.IndexModel)))
    found = {}
    for cell in cells.values():
        held = cell.last.table
        if kind == QUERY:
            by = {
                "nodes": float(sum(map(bool, held.values()))),
                "in turn": cell.shards / model.visits_in_turn(held),
                "balanced": cell.shards / model.visits_balanced(held),
            }
        else:
            by = {
                "nodes": 1 / max(p for p, _ in model.copies(held)),
                "copies": 1 / max(p + r for p, r in model.copies(held)),
            }
        by["held out"] = fitted[cell.name] / float(np.median(first.rates()))
        if kind == QUERY and all(map(np.isfinite, fitted.values())):
            costs = model.QueryModel.fitted(measured)
            alone, own = (costs.seconds(c.last.table, c.shards, ARTICLE_DOCUMENTS) for c in (first, cell))
            by["at 10 million"] = alone / own
        found[cell.name] = by
    return found


def _expected(cells: Mapping[str, Cell], kind: str, meaning: str, article: Mapping[str, float]) -> list[Block]:
    found, first = expectations(cells, kind), first_of(cells, next(iter(cells.values())))
    if not found or not first:
        return ["There is no cell of one shard without replicas to hold the others against."]
    names = list(next(iter(found.values())))
    rows = [
        {"cell": name, "measured": over(cells[name], first), "article": article.get(name), **by}
        for name, by in found.items()
    ]
    columns = [Words("cell", "configuration"), Column("measured", "measured"), *(Column(name, name) for name in names)]
    columns += [Column("article", "articles")] if article else []
    alone = float(np.median(first.rates()))
    errors = [abs(alone * by["held out"] / float(np.median(cells[name].rates())) - 1) for name, by in found.items()]
    text = (
        f"Throughput over that of 1s-0r. {meaning}. *held out* is the fitted model with this very cell left out; its "
        f"error is {percent(float(np.median(errors)))} in the median and {percent(max(errors))} at most."
    )
    shown: dict[str, dict[str, Estimate]] = {}
    for name, cell in cells.items():
        shown[name] = {"measured": ratio} if (ratio := compared(cell, first)).n else {}
        if np.isfinite(found[name]["held out"]):
            shown[name]["model, cell held out"] = _point(found[name]["held out"])
        if name in article:
            shown[name]["articles"] = _point(article[name])
    caption = f"{UNITS[kind].capitalize()} over those of 1s-0r, with their intervals, beside model and articles."
    figure = Figure(plots.cells(shown, "times 1s-0r", 1.0), caption)
    return [text, Sheet(f"expected {kind}", columns, rows), figure]


def _point(value: float) -> Estimate:
    return Estimate(1, value, value, value, float("nan"))


def _compiling(one: Pass) -> float | None:
    """The part of its CPU time in which the node that compiled most did so; None where that is not known."""
    return max(one.compiling().values(), default=None)


def _limits(race: Race) -> list[str | Sheet]:
    def held(one: Pass) -> str:
        shards = "; ".join(f"{node}: {' '.join(shards) or '–'}" for node, shards in one.table.items())
        return shards if is_even(one.table) else f"{shards} (uneven)"

    columns = [
        Words("cell", "configuration", of=lambda of: of[0].name),
        Column("pass", "pass", of=lambda of: str(of[1])),
        Words("shards", "shards (p primary, r replica)", of=lambda of: held(of[2])),
        Words("bottleneck", "bottleneck", of=lambda of: bottleneck(of[2], race)),
        Column("from", "steady from", of=lambda of: f"{of[2].cut_s:.1f} s" if of[2].steady else "never"),
        Words("cores", "CPU cores used", of=lambda of: ", ".join(f"{n} {c:.2f}" for n, c in of[2].cores().items())),
        share("compiling", "compiling", of=lambda of: _compiling(of[2])),
        Column("client", "client", of=lambda of: f"{client[0]:.2f}" if (client := of[2].client()) else None),
        Column("queue", "queue", of=lambda of: of[2].queue()),
        Column("rejected", "rejected", of=lambda of: of[2].rejected()),
    ]
    text = (
        f"A node that used {BUSY:.0%} of its share of the CPU is the bottleneck, or else a process of the client that "
        "used so much of a core, or its machine; the queue is the longest that was seen, at one look a second. "
        "*Compiling* is the part of its CPU time in which the node that compiled most did so: a cold one does. What "
        "lies before the last change of a pass's rate, by which this became steady, counts for nothing."
    )
    return [text, Sheet.of("limits", columns, passes_of(main_cells(race)))]
