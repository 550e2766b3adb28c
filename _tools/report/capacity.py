"""Explains a race of a capacity challenge: throughput by shards and replicas, limits, and what articles claim."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from cluster_metrics.capacity_indices import is_even

from ..planner import model
from ..planner.model import Table
from . import plots
from .capacity_cells import (
    BUSY,
    INDEX,
    PREPARE,
    QUERY,
    Cell,
    bottleneck,
    cells_of,
    compared,
    kinds_of,
)
from .capacity_claims import NEAR, claims
from .cells import Plan, Rounds
from .race import Race
from .section import Figure, Section, Sheet
from .stats import Estimate, median
from .text import number, percent, started, table, with_interval

UNITS = {INDEX: "documents/s", QUERY: "searches/s"}
FEW_PASSES = 5
"""Below so many passes an interval is little more than the range that was seen."""
ARTICLE_QUERY = {"1s-0r": 80.0, "2s-0r": 150.0, "1s-1r": 150.0} | dict.fromkeys(
    ("3s-0r", "3s-1r", "1s-2r", "2s-2r", "3s-2r"), 250.0
)
"""Seed 004: queries/s of its cells; of [2 shards, 1 replica] it says no more than slightly below 250."""
ARTICLE_DOCUMENTS = 10_000_000
COLUMNS = ("cell", "pass", "kind", "shards", "replicas", "rate", "documents", "requests", "per_s", "ms", "p50_ms",
           "p99_ms", "rejected", "queue", "bottleneck", "shard_table")  # fmt: skip
"""Columns of ``es_profile_capacity.csv`` after the start (UTC)."""


class Passes(Plan):
    """Passes as rounds: what a search, or else a document, takes at the throughput of a cell."""

    def cells(self, race: Race) -> dict[str, Rounds]:
        kind = next(iter(kinds_of(race)), QUERY)
        return {
            name: {
                n: replace(one.prepared, cell=name, meta={"round": n, "ms": 1000 / one.rate})
                for n, one in cell.passes.items()
            }
            for name, cell in sorted(cells_of(race, kind).items())
        }


PLAN = Passes(PREPARE, {"ms": "time per search or document at full load, ms"}, "1s-0r")


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    parts = []
    for kind in kinds_of(race):
        cells, mixed = cells_of(race, kind), race.challenge == "capacity-mixed"
        if not cells or mixed and kind == INDEX:
            continue
        what = "Searches" if kind == QUERY else "Indexing"
        parts.append(Section(f"{what}: throughput", _throughput(race, cells, kind), _heat(cells, kind)))
        if mixed:
            parts.append(Section("Searches while documents are indexed", _mixed(race)))
            continue
        parts.append(Section("Do the articles hold?", claims(cells, kind)))
        parts.append(Section("Expected and measured", _expected(cells, kind), _shapes(cells, kind)))
        if kind == QUERY:
            parts.append(Section("Cost per document scanned", _scanned(cells)))
    if not parts:
        return []
    return [Section("What this can show", _frame(race)), *parts, Section("Bottleneck and shards", _limits(race))]


def sheets(race: Race) -> list[Sheet]:
    """A row per cell, pass and kind as a CSV file."""
    rows = []
    for kind in kinds_of(race):
        for cell in cells_of(race, kind).values():
            for number_of, one in cell.passes.items():
                times = [s.value for s in one.requests]
                meta = one.prepared.meta
                rows.append(
                    {key: meta[key] for key in ("shards", "replicas", "rate", "documents", "shard_table")}
                    | {
                        "started": started(one.requests[0]),
                        "cell": cell.name,
                        "pass": number_of,
                        "kind": kind,
                        "requests": len(times),
                        "per_s": one.rate,
                        "ms": 1000 / one.rate,
                        "p50_ms": float(np.percentile(times, 50)),
                        "p99_ms": float(np.percentile(times, 99)),
                        "rejected": one.rejected(),
                        "queue": one.queue(),
                        "bottleneck": bottleneck(one, race),
                    }
                )
    return [Sheet("es_profile_capacity.csv", ("started", *COLUMNS), rows)]


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
    elif held:
        lines.append(
            "**Warning:** the nodes were to be held to a share of the CPU, but this machine has no cgroup for it: they "
            "shared the cores freely, so shards and replicas on further nodes add no capacity, and the shape is not "
            "that of a cluster."
        )
    elif race.local and len(race.target) > 1:
        lines.append(
            f"**Warning:** {len(race.target)} nodes share this machine freely (no `NODE_CORES`): a further one adds "
            "no capacity, so the shape is not that of a cluster."
        )
    roles = [n["node"] for n in race.target if n["node"] not in _first_table(race)]
    if roles:
        lines.append(f"{', '.join(roles)} holds no data and takes all requests.")
    elif len(race.target) > 1:
        lines.append("Requests went to all hosts that Rally was given, in turn.")
    wanted = race.parameters.get("passes", 0)
    if not race.document.get("results"):
        lines.append("**Incomplete: the race was not finished.** What follows is of the cells raced until then.")
    kinds = kinds_of(race)
    cells = list(cells_of(race, kinds[0]).values()) if kinds else []
    short = [cell.name for cell in cells if len(cell.passes) < wanted]
    if short and race.document.get("results"):
        lines.append(f"**Incomplete:** cells without all of their {wanted} passes: {', '.join(short)}.")
    for cell in cells:
        for number_of, one in cell.passes.items():
            if one.left():
                lines.append(f"**Warning:** {', '.join(one.left())} left during cell {cell.name} of pass {number_of}.")
    least = min((len(cell.passes) for cell in cells), default=0)
    if least < FEW_PASSES:
        lines.append(
            f"With {least} {'pass' if least == 1 else 'passes'} an interval is the range that was seen, no more; race "
            f"with passes:{FEW_PASSES} or more before small differences count."
        )
    if change := _drift(cells):
        lines.append(change)
    lines.append(
        "Throughput is counted here, from the starts of requests that succeeded; Rally's own rows are means since a "
        "task began, preparation of later passes included, so they are lower."
    )
    return "".join(f"- {line}\n" for line in lines)


def _drift(cells: Iterable[Cell]) -> str:
    """Whether the last pass was faster or slower than the first."""
    changes = [c.passes[max(c.passes)].rate / c.passes[min(c.passes)].rate for c in cells if len(c.passes) > 1]
    change = float(np.exp(np.mean(np.log(changes)))) if changes else 1.0
    if abs(change - 1) < NEAR:
        return ""
    return (
        f"**Warning:** from the first pass to the last throughput changed {number(change)} times (geometric mean over "
        "cells): the nodes were not warm, or the machine had other work. Ratios within passes suffer less; raise "
        "cell_warmup_seconds."
    )


def _first_table(race: Race) -> Table:
    prepared = race.of(PREPARE)
    return json.loads(prepared[0].meta["shard_table"]) if prepared else {}


def _base(cells: Mapping[str, Cell], cell: Cell) -> Cell | None:
    """The cell of the same shards without replicas."""
    return next((c for c in cells.values() if (c.shards, c.replicas, c.rate) == (cell.shards, 0, cell.rate)), None)


def _first(cells: Mapping[str, Cell], cell: Cell) -> Cell | None:
    """The cell of one shard without replicas."""
    return next((c for c in cells.values() if (c.shards, c.replicas, c.rate) == (1, 0, cell.rate)), None)


def _ratio(own: Cell, base: Cell | None) -> str:
    if base is None:
        return "–"
    return "1" if own is base else with_interval(compared(own, base))


def _throughput(race: Race, cells: Mapping[str, Cell], kind: str) -> str:
    rows = []
    for cell in cells.values():
        times = np.array([s.value for p in cell.passes.values() for s in p.requests])
        row = [cell.name, len(cell.passes), with_interval(median(cell.rates()))]
        row += [_ratio(cell, _base(cells, cell)), _ratio(cell, _first(cells, cell))]
        row += [number(float(np.percentile(times, q))) for q in (50, 99)]
        rows.append([*row, len(times)])
    head = ["cell", "passes", UNITS[kind], "over no replicas", "over 1s-0r", "p50 ms", "p99 ms", "requests"]
    clients = race.parameters.get("capacity_clients")
    return (
        f"Closed loop: {clients} clients, each sends as soon as it is answered, so times are service times of a loaded "
        "target. A cell is named by its primary shards and replicas; the pass is the unit of replication, ratios are "
        "formed within passes.\n\n" + table(head, rows)
    )


def _heat(cells: Mapping[str, Cell], kind: str) -> list[Figure]:
    shown = {(c.shards, c.replicas): c for c in cells.values() if not c.rate}
    first = shown.get((1, 0))
    if not first or len(shown) < 4:
        return []
    values = {place: compared(cell, first).value for place, cell in shown.items()}
    caption = f"{UNITS[kind].capitalize()} over those of one shard without replicas."
    return [Figure(plots.heat(values, "replicas", "shards"), caption)]


def _expectations(cells: Mapping[str, Cell], kind: str) -> dict[str, dict[str, float]]:
    """Throughput over that of 1s-0r, by cell and model; none without that cell."""
    first = _first(cells, next(iter(cells.values())))
    if not first:
        return {}
    measured = [cell.measured() for cell in cells.values()]
    fitted = dict(zip(cells, model.held_out(measured, model.fit_queries if kind == QUERY else model.fit_indexing)))
    found = {}
    for cell in cells.values():
        held = cell.last.table
        nodes = sum(bool(shards) for shards in held.values())
        by: dict[str, float] = {}
        if kind == QUERY:
            by["nodes"] = float(nodes)
            by["in turn"] = cell.shards / model.visits_in_turn(held)
            by["balanced"] = cell.shards / model.visits_balanced(held)
        else:
            by["nodes"] = 1 / max(p for p, _ in model.copies(held))
            by["copies"] = 1 / max(p + r for p, r in model.copies(held))
        by["held out"] = fitted[cell.name] / float(np.median(first.rates()))
        if kind == QUERY and all(map(np.isfinite, fitted.values())):
            costs = model.fit_queries(measured)
            alone, own = (costs.seconds(c.last.table, c.shards, ARTICLE_DOCUMENTS) for c in (first, cell))
            by["at 10 million"] = alone / own
        found[cell.name] = by
    return found


def _expected(cells: Mapping[str, Cell], kind: str) -> str:
    expected = _expectations(cells, kind)
    if not expected:
        return "There is no cell of one shard without replicas to hold the others against.\n"
    first = _first(cells, next(iter(cells.values())))
    assert first
    article = _article(cells, kind)
    names = list(next(iter(expected.values())))
    rows = []
    for name, by in expected.items():
        seen = compared(cells[name], first)
        row = [name, with_interval(seen) if cells[name] is not first else "1", *(number(v) for v in by.values())]
        rows.append(row + ([number(article[name]) if name in article else "–"] if article else []))
    alone = float(np.median(first.rates()))
    errors = [abs(alone * by["held out"] / float(np.median(cells[name].rates())) - 1) for name, by in expected.items()]
    text = {
        QUERY: "*nodes* is one times per node that holds a shard; *in turn* lets the copies of a shard answer in turn, "
        "so the node with most to do limits the cell; *balanced* has each search go where least is to do, as adaptive "
        "replica selection strives for; *at 10 million* is the fitted model at the articles' number of documents, an "
        "extrapolation",
        INDEX: "*nodes* lets primary shards cost and replicas nothing; *copies* lets a replica cost as much as its "
        "primary",
    }[kind]
    return (
        f"Throughput over that of 1s-0r. {text}. *held out* is the fitted model with this very cell left out; its "
        f"error is {percent(float(np.median(errors)))} in the median and {percent(max(errors))} at most.\n\n"
        + table(["cell", "measured", *names, *(["articles"] if article else [])], rows)
    )


def _article(cells: Mapping[str, Cell], kind: str) -> dict[str, float]:
    """Throughput over that of 1s-0r in the articles, as far as their text says."""
    if kind == QUERY:
        return {name: rate / ARTICLE_QUERY["1s-0r"] for name, rate in ARTICLE_QUERY.items() if name in cells}
    return {}


def _shapes(cells: Mapping[str, Cell], kind: str) -> list[Figure]:
    first, expected = _first(cells, next(iter(cells.values()))), _expectations(cells, kind)
    if not first or not expected:
        return []
    article = _article(cells, kind)
    shown: dict[str, dict[str, Estimate]] = {}
    for name, cell in cells.items():
        shown[name] = {"measured": compared(cell, first)}
        if np.isfinite(expected[name]["held out"]):
            shown[name]["model, cell held out"] = _point(expected[name]["held out"])
        if name in article:
            shown[name]["articles"] = _point(article[name])
    caption = f"{UNITS[kind].capitalize()} over those of 1s-0r, with their intervals, beside model and articles."
    return [Figure(plots.cells(shown, "times 1s-0r", 1.0), caption)]


def _point(value: float) -> Estimate:
    return Estimate(1, value, value, value, float("nan"))


def _scanned(cells: Mapping[str, Cell]) -> str:
    rows = []
    for cell in cells.values():
        documents = cell.measured().documents
        nodes = sum(bool(shards) for shards in cell.last.table.values())
        ms = median(1000 / cell.rates())
        each = median(1e9 / cell.rates() / documents)
        per_node = median(1e9 * nodes / cell.rates() / documents)
        rows.append([cell.name, with_interval(ms), with_interval(each), with_interval(per_node)])
    return (
        "The articles' arithmetic: time per request, divided by the documents of the index; and that times the nodes "
        "that hold shards, which stays the same where throughput is linear in them. Seed 004 has 12.5 ms for 10 "
        "million documents, 1.25 ns each.\n\n"
        + table(["cell", "ms per request", "ns per document", "ns per document and node"], rows)
        + _fixed(cells)
    )


def _fixed(cells: Mapping[str, Cell]) -> str:
    """Why throughput is not linear in nodes: what a shard costs before its first document."""
    measured = [cell.measured() for cell in cells.values()]
    if len(measured) <= model.COSTS:
        return ""
    costs = model.fit_queries(measured)
    text = (
        f"\nFitted to all cells, a search takes {number(1e3 * costs.visit_s)} ms of a node for a shard, whatever it "
        f"holds, {number(1e9 * costs.document_s)} ms per million documents in it, and {number(1e3 * costs.request_s)} "
        "ms that spread over all nodes."
    )
    if costs.document_s:
        text += (
            f" So from {costs.visit_s / costs.document_s:,.0f} documents in a shard on, scanning them takes "
            "longer than asking the shard at all; with far fewer, more shards bring little. The articles leave it out."
        )
    return text + "\n"


def _mixed(race: Race) -> str:
    queries, indexed = cells_of(race, QUERY), cells_of(race, INDEX)
    rows = []
    for name, cell in queries.items():
        if name in indexed:
            got = median(indexed[name].rates())
            same = [c for c in queries.values() if c.grid == cell.grid]
            slowest = min(same, key=lambda c: c.rate)
            row = [name, number(cell.rate), with_interval(got), percent(got.value / cell.rate)]
            rows.append([*row, with_interval(median(cell.rates())), _ratio(cell, slowest)])
    head = ["cell", "documents/s wanted", "documents/s", "reached", "searches/s", "over the least rate"]
    return (
        "Searches as fast as they are answered while documents are indexed at a fixed rate. Where the rate is not "
        "reached, the cell had no room for it. `make plan` holds its model against these cells.\n\n" + table(head, rows)
    )


def _limits(race: Race) -> str:
    kind = kinds_of(race)[0]
    rows = []
    for cell in cells_of(race, kind).values():
        for number_of, one in cell.passes.items():
            held = "; ".join(f"{node}: {' '.join(shards) or '–'}" for node, shards in one.table.items())
            if not is_even(one.table):
                held += " (uneven)"
            used = one.cores()
            cpu = ", ".join(f"{node} {cores:.2f}" for node, cores in used.items())
            row = [cell.name, number_of, held, bottleneck(one, race), cpu, f"{one.client()[0]:.2f}"]
            rows.append([*row, one.queue(), one.rejected()])
    head = [
        "cell",
        "pass",
        "shards (p primary, r replica)",
        "bottleneck",
        "CPU cores used",
        "client",
        "queue",
        "rejected",
    ]
    return (
        f"A node that used {BUSY:.0%} of its share of the CPU is the bottleneck, or else the load driver's machine; "
        "the queue is the longest that was seen, at one look a second.\n\n" + table(head, rows)
    )
