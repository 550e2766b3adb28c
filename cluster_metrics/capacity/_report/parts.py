"""The sections that the reports of the capacity challenges share: throughput by shards and replicas, and limits."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from _tools.report import plots
from _tools.report.answer import Finding, times_as_fast
from _tools.report.looks import BUSY
from _tools.report.race import Race
from _tools.report.references import CAPACITY
from _tools.report.section import Figure, Section
from _tools.report.stability import told
from _tools.report.stats import Estimate
from _tools.report.table import Column, Words, share
from _tools.report.table import Table as Sheet
from _tools.report.text import count, interval, number, started
from cluster_metrics.capacity.challenge import INDEX, PREPARE, QUERY
from cluster_metrics.capacity.nodes import is_even

from .cells import (
    Cell,
    bottleneck,
    cells_of,
    clients_of,
    first_of,
    kinds_of,
    main_cells,
    passes_of,
    rate_ratio,
    steady_of,
)
from .claims import holds, seen
from .passes import Pass
from .warnings import drift_check, warnings

UNITS = {INDEX: "documents/s", QUERY: "searches/s"}
SUMMARY = "throughput is a mean since a task began, the time between its passes included: lower than the rates here"


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


def reference(race: Race) -> list[str | Sheet]:
    """The source of the claims."""
    return [CAPACITY.cited]


def sheets(race: Race) -> list[Sheet]:
    """A row per cell, pass and kind as a CSV file; none without a pass."""
    rows = [_pass_row(race, kind, *of) for kind in kinds_of(race) for of in passes_of(cells_of(race, kind))]
    return [Sheet("es_profile_capacity.csv", [Column(key, key) for key in rows[0]], rows)] if rows else []


def _pass_row(race: Race, kind: str, cell: Cell, number_of: int, one: Pass) -> dict[str, Any]:
    meta, times, client = one.prepared.meta, _times([one]), one.client()
    return {
        "started": started(one.requests[0].at),
        "cell": cell.name,
        "clients": clients_of(cell, race),
        "pass": number_of,
        "kind": kind,
        **{key: meta[key] for key in ("shards", "replicas", "rate", "documents")},
        "requests": times.pop("requests"),
        "per_s": one.rate,
        "ms": 1000 / one.rate,
        **times,
        "rejected": one.rejected(),
        "queue": one.queue(),
        "cut_s": one.cut_s,
        "steady": one.steady,
        "compiling": one.compiling(),
        "node_cores": one.target_cores or None,
        "client_cores": client[0] if client else None,
        "worker_cores": sum(one.processes().values()) or None,
        "bottleneck": bottleneck(one, race),
        "shard_table": meta["shard_table"],
    }


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
    holding = {node for sample in race.of(PREPARE) for node in json.loads(sample.meta["shard_table"])}
    roles = [n["node"] for n in race.target if n["node"] not in holding]
    if len(roles) == 1 and race.local:  # make's own coordinator
        lines.append(f"{roles[0]} holds no data and takes all requests.")
    elif len(race.target) > 1:
        without = f" No data are held by {', '.join(roles)}." if roles else ""
        some = any(cell.nodes for cell in main_cells(race).values())
        kept = ", those of cells on some of the nodes to the hosts of these alone" if some else ""
        lines.append(f"Requests went to all hosts that Rally was given, in turn{kept}.{without}")
    drift = drift_check(race)
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
            if first and cell is not first and (ratio := rate_ratio(cell, first)).n:
                figures["ratio"] = ratio
                text += f", {times_as_fast(ratio)} that of {first.name}"
            yield Finding(name, text, figures)
    yield Finding("limited by", f"{bottleneck(top.last, race)} in {top.name}")
    if found := [holds(ratio, claim) for claim, ratio in seen(cells, kind)]:
        told = ", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(found))
        yield Finding("published", f"of {count(len(found), 'statement')} of the articles: {told}")


def over(own: Cell, base: Cell | None) -> Estimate | str | None:
    """Throughput over that of another cell."""
    return None if base is None else "1" if own is base else rate_ratio(own, base)


def _throughput(race: Race, cells: Mapping[str, Cell], kind: str) -> list[str | Sheet]:
    rows = []
    for cell in cells.values():
        same = (c for c in cells.values() if c.alike(cell, shards=cell.shards, replicas=0))
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
    shown = {(c.shards, c.replicas): c for c in cells.values() if not c.rate and not c.nodes}
    first = shown.get((1, 0))
    if not first or len(shown) < 4:
        return []
    values = {place: ratio for place, cell in shown.items() if (ratio := rate_ratio(cell, first)).n}
    caption = f"{UNITS[kind].capitalize()} over those of one shard without replicas."
    return [Figure(plots.heat(values, "replicas", "shards"), caption)]


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
        share("compiling", "compiling", of=lambda of: of[2].compiling()),
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
