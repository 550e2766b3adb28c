"""Explains a race of a capacity challenge: throughput by shards and replicas, limits, and what articles claim."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cluster_metrics.capacity import is_even

from ..planner import model
from ..planner.model import Measured, Table
from . import plots
from .cells import Plan, Rounds
from .race import Race, Sample
from .section import Figure, Section, Sheet
from .stats import Estimate, Samples, median, paired_ratio
from .text import interval, number, percent, started, table

INDEX, QUERY = "capacity-index", "capacity-query"
PREPARE, MONITOR = "capacity-prepare", "capacity-monitor"
UNITS = {INDEX: "documents/s", QUERY: "searches/s"}
BUSY = 0.9
"""Part of its CPU share from which on a node, or the load driver's machine, is named as the bottleneck."""
FEW_PASSES = 5
"""Below so many passes an interval is little more than the range that was seen."""
ARTICLE_QUERY = {"1s-0r": 80.0, "2s-0r": 150.0, "1s-1r": 150.0} | dict.fromkeys(
    ("3s-0r", "3s-1r", "1s-2r", "2s-2r", "3s-2r"), 250.0
)
"""Seed 004: queries/s of its cells; of [2 shards, 1 replica] it says no more than slightly below 250."""
ARTICLE_DOCUMENTS = 10_000_000
ARTICLE_INDEX = {"3s-2r": 0.4}
"""Seed 004: documents/s over those of the same shards without replicas."""
ARTICLE_LOSS = (0.2, 0.6)
"""Seed 004: part of the throughput of indexing that replicas take in most cases."""
SMALL_LOSS = 0.2
"""What is taken here for the articles' slight decrease."""
NEAR = 0.15
"""Part by which figures may differ that are taken for basically the same here."""
COLUMNS = ("cell", "pass", "kind", "shards", "replicas", "rate", "documents", "requests", "per_s", "ms", "p50_ms",
           "p99_ms", "rejected", "queue", "bottleneck", "shard_table")  # fmt: skip
"""Columns of ``es_profile_capacity.csv`` after the start (UTC)."""


@dataclass(frozen=True)
class Pass:
    """One cell in one pass.

    :param prepared: the sample of its preparation.
    :param requests: searches or documents that succeeded, in order of time.
    :param looks: of the monitor, in order of time.
    """

    prepared: Sample
    requests: Sequence[Sample]
    looks: Sequence[Sample]

    @property
    def table(self) -> Table:
        return json.loads(self.prepared.meta["shard_table"])

    @cached_property
    def rate(self) -> float:
        """Searches or acknowledged documents per second, from the first start of a request to the last."""
        if len(self.requests) < 2:
            return 0.0
        done = sum(s.meta.get("success-count", 1) for s in self.requests[1:])
        return 1000 * done / max(1, self.requests[-1].at - self.requests[0].at)

    def nodes(self) -> list[dict[str, dict[str, float]]]:
        return [json.loads(look.meta["nodes"]) for look in self.looks]

    def cores(self) -> dict[str, float]:
        """CPU cores that each node used."""
        found = self.nodes()
        if len(found) < 2:
            return {}
        first, last = found[0], found[-1]
        return {
            node: (last[node]["cpu_ms"] - first[node]["cpu_ms"]) / max(1, last[node]["at"] - first[node]["at"])
            for node in sorted(set(first) & set(last))
        }

    def client(self) -> tuple[float, float]:
        """CPU cores that Rally used, and the part of its machine that was busy."""
        if len(self.looks) < 2:
            return 0.0, 0.0
        first, last = (look.meta for look in (self.looks[0], self.looks[-1]))
        used, busy, idle = (last[k] - first[k] for k in ("client_cpu_ms", "host_busy_ms", "host_idle_ms"))
        return used / max(1, self.looks[-1].at - self.looks[0].at), busy / max(1, busy + idle)

    def rejected(self) -> int:
        """Requests that thread pools of the nodes turned away."""
        found = self.nodes()
        first, last = (found[0], found[-1]) if found else ({}, {})
        return int(sum(last[node]["rejected"] - first[node]["rejected"] for node in set(first) & set(last)))

    def queue(self) -> int:
        """The longest queue of a node that was seen."""
        return max((int(node["queue"]) for look in self.nodes() for node in look.values()), default=0)

    def left(self) -> list[str]:
        """Nodes that were there at the start of the cell and not at its end."""
        found = self.nodes()
        return sorted(set(found[0]) - set(found[-1])) if found else []


@dataclass(frozen=True)
class Cell:
    """One cell of the grid, over its passes.

    :param name: such as ``2s-1r``, in a mixed race with the documents indexed per second behind.
    :param rate: documents per second that are indexed meanwhile; 0 for none.
    """

    name: str
    shards: int
    replicas: int
    rate: float
    passes: Mapping[int, Pass]

    @property
    def grid(self) -> str:
        return f"{self.shards}s-{self.replicas}r"

    @property
    def last(self) -> Pass:
        return self.passes[max(self.passes)]

    def rates(self) -> Samples:
        return np.array([p.rate for p in self.passes.values()])

    def measured(self) -> Measured:
        documents = int(np.median([p.prepared.meta["documents"] for p in self.passes.values()]))
        return Measured(self.last.table, self.shards, documents, list(self.rates()))


def cells_of(race: Race, kind: str) -> dict[str, Cell]:
    """The cells of a race by name, in order of shards, replicas and rate; pass 0, which warms up, and passes without
    requests are left out.

    :param kind: ``capacity-query`` or ``capacity-index``.
    """
    grouped: dict[tuple[str, int], dict[str, list[Sample]]] = {}
    for sample in race.samples:
        if sample.kind in (kind, PREPARE, MONITOR) and sample.meta["pass"]:
            one = grouped.setdefault((sample.meta["cell"], sample.meta["pass"]), {kind: [], PREPARE: [], MONITOR: []})
            one[sample.kind].append(sample)
    found: dict[str, dict[int, Pass]] = {}
    for (name, number_of), of in sorted(grouped.items()):
        if of[PREPARE] and len(of[kind]) > 1:
            found.setdefault(name, {})[number_of] = Pass(of[PREPARE][0], of[kind], of[MONITOR])
    cells = []
    for name, passes in found.items():
        meta = next(iter(passes.values())).prepared.meta
        cells.append(Cell(name, meta["shards"], meta["replicas"], float(meta["rate"]), passes))
    return {cell.name: cell for cell in sorted(cells, key=lambda c: (c.shards, c.replicas, c.rate))}


def kinds_of(race: Race) -> list[str]:
    """What a race measures, the first of it what its challenge is about."""
    return [kind for kind in (QUERY, INDEX) if race.of(kind)]


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


def compared(own: Cell, base: Cell) -> Estimate:
    """Throughput over that of another cell, within each pass that both have."""
    common = sorted(set(own.passes) & set(base.passes))
    slow, fast = (np.array([cell.passes[p].rate for p in common]) for cell in (base, own))
    return paired_ratio(slow, fast) if common else Estimate(0, np.nan, np.nan, np.nan, np.nan)


def shares(race: Race) -> dict[str, float]:
    """The CPU share of each node that is held to one, in cores."""
    return {n["node"]: float(n["cpu_cores"]) for n in race.target if n.get("cpu_held_by", "nothing") != "nothing"}


def full_nodes(one: Pass, race: Race) -> dict[str, float]:
    """Nodes that used up their share of the CPU, with the part that they used."""
    parts = {node: cores / shares(race)[node] for node, cores in one.cores().items() if node in shares(race)}
    return {node: part for node, part in parts.items() if part >= BUSY}


def bottleneck(one: Pass, race: Race) -> str:
    """What limits a cell, by the CPU that was used."""
    used, held = one.cores(), shares(race)
    if not used:
        return "not recorded"
    if full := full_nodes(one, race):
        return ", ".join(f"{node} ({part:.0%})" for node, part in full.items())
    client, busy = one.client()
    if busy >= BUSY and race.local is not False:
        rest = f"nodes {number(sum(used.values()))}, client {number(client)} cores"
        return f"the machine, {busy:.0%} busy ({rest})"
    if busy >= BUSY:
        return f"the client's machine, {busy:.0%} busy"
    if one.rejected():
        return "queues: requests were rejected"
    top = max(used, key=lambda node: used[node] / held.get(node, 1.0))
    most = f"{used[top] / held[top]:.0%} of its share" if top in held else f"{used[top]:.2f} cores"
    return f"none ({top}: {most}): more clients"


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
        parts.append(Section("Do the articles hold?", _claims(cells, kind)))
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
    return "1" if own is base else _with_interval(compared(own, base))


def _throughput(race: Race, cells: Mapping[str, Cell], kind: str) -> str:
    rows = []
    for cell in cells.values():
        times = np.array([s.value for p in cell.passes.values() for s in p.requests])
        row = [cell.name, len(cell.passes), _with_interval(median(cell.rates()))]
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
        row = [name, _with_interval(seen) if cells[name] is not first else "1", *(number(v) for v in by.values())]
        rows.append([*row, number(article[name]) if name in article else "–"])
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
        + table(["cell", "measured", *names, "articles"], rows)
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
        rows.append([cell.name, _with_interval(ms), _with_interval(each), _with_interval(per_node)])
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


@dataclass(frozen=True)
class Claim:
    """What the articles say.

    :param text: the claim.
    :param own: the cell it is about.
    :param base: the cell whose throughput it is held against.
    :param low: least ratio of the two that bears it out.
    :param high: greatest.
    """

    text: str
    own: str
    base: str
    low: float
    high: float


def _about(value: float) -> tuple[float, float]:
    return value * (1 - NEAR), value * (1 + NEAR)


CLAIMS = {
    QUERY: (
        Claim("a second shard on a second node doubles throughput", "2s-0r", "1s-0r", *_about(2)),
        Claim("a third shard on a third node triples it", "3s-0r", "1s-0r", *_about(3)),
        Claim("a replica does as much as a second shard", "1s-1r", "2s-0r", *_about(1)),
        Claim("2 shards with 1 replica on three nodes stay below three nodes", "2s-1r", "3s-0r", 0, 1),
        Claim("3 shards with 1 replica reach three nodes", "3s-1r", "3s-0r", *_about(1)),
        Claim("fully replicated, one shard reaches three nodes", "1s-2r", "3s-0r", *_about(1)),
        Claim("fully replicated, shards make no difference", "3s-2r", "1s-2r", *_about(1)),
    ),
    INDEX: (
        Claim("a second shard raises throughput", "2s-0r", "1s-0r", 1, np.inf),
        Claim("a third shard raises it further", "3s-0r", "2s-0r", 1, np.inf),
        Claim("a replica of the one shard costs little", "1s-1r", "1s-0r", 1 - SMALL_LOSS, 1),
        Claim("so do two replicas", "1s-2r", "1s-0r", 1 - SMALL_LOSS, 1),
        *(
            Claim("replicas cost 20 to 60 % where nodes hold several shards", f"{s}s-{r}r", f"{s}s-0r",
                  1 - ARTICLE_LOSS[1], 1 - ARTICLE_LOSS[0])
            for s, r in ((2, 1), (2, 2), (3, 1), (3, 2))
        ),
        Claim("full replication of 3 shards leaves 40 %", "3s-2r", "3s-0r", *_about(ARTICLE_INDEX["3s-2r"])),
    ),
}  # fmt: skip


def holds(found: Estimate, claim: Claim) -> str:
    """Yes or no if the whole interval says so; it takes two passes or more."""
    if found.n < 2:
        return "one pass is too few"
    if found.low >= claim.low and found.high <= claim.high:
        return "yes"
    return "no" if found.high < claim.low or found.low > claim.high else "undecided"


def _claims(cells: Mapping[str, Cell], kind: str) -> str:
    rows = []
    for claim in CLAIMS[kind]:
        if claim.own in cells and claim.base in cells:
            found = compared(cells[claim.own], cells[claim.base])
            bounds = (
                f"{number(claim.low)} to {number(claim.high)}" if np.isfinite(claim.high) else f"over {claim.low:g}"
            )
            seen = _with_interval(found)
            rows.append([claim.text, f"{claim.own} / {claim.base}", bounds, seen, found.n, holds(found, claim)])
    if not rows:
        return "The grid has none of the cells that the articles speak of.\n"
    return (
        f"Seed 004 gives rounded figures without spread; where it gives one, {percent(NEAR)} beside it still count, "
        f"and a slight decrease is taken for {percent(SMALL_LOSS)} at most. A claim holds, or not, if the whole "
        "interval says so.\n\n" + table(["claim", "cells", "bears it out", "seen", "passes", "holds"], rows)
    )


def _mixed(race: Race) -> str:
    queries, indexed = cells_of(race, QUERY), cells_of(race, INDEX)
    rows = []
    for name, cell in queries.items():
        if name in indexed:
            got = median(indexed[name].rates())
            same = [c for c in queries.values() if c.grid == cell.grid]
            slowest = min(same, key=lambda c: c.rate)
            row = [name, number(cell.rate), _with_interval(got), percent(got.value / cell.rate)]
            rows.append([*row, _with_interval(median(cell.rates())), _ratio(cell, slowest)])
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


def _with_interval(estimate: Estimate) -> str:
    return f"{number(estimate.value)} {interval(estimate)}"
