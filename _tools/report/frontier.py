"""Explains a query-frontier race: what each way to answer costs, how wrong it is, and which one to take."""

from dataclasses import dataclass

import numpy as np

from cluster_metrics.configurations import BASE, CONFIGURATIONS

from . import runs, scatter, stability, timelines
from .cells import COVERAGE, Plan
from .race import Race, Sample
from .section import Figure, Section, Sheet
from .stats import Estimate, Samples, median
from .text import ROUNDING, error_text, interval, number, percent, started, table, with_interval

COLUMNS = (
    "configuration",
    "round",
    "epoch",
    "searches",
    "took_ms",
    "wall_ms",
    "parallelism",
    "request_bytes",
    "response_bytes",
    "percentile_error",
    "extreme_error",
    "sum_error",
)
"""Columns of ``es_profile_frontier.csv`` after the start (UTC): the metadata of each sample."""

PLAN = Plan("frontier-coverage", COVERAGE | {"percentile_error": "relative error of p50 and p90"}, BASE)


@dataclass(frozen=True)
class Point:
    """A configuration as measured.

    :param wall_ms: per coverage, median over rounds.
    :param speedup: wall time of production over this one's, formed within each round.
    :param cpu_ms: CPU time of the target per coverage; nan when it was not measured.
    :param error: greatest relative error of p50 and p90 in any round, node and field.
    :param extreme_error: the same of p0 and p100.
    :param sum_error: the same of the sums.
    """

    name: str
    wall_ms: Estimate
    took_ms: Estimate
    speedup: Estimate
    cpu_ms: float
    error: float
    extreme_error: float
    sum_error: float


def points(race: Race) -> list[Point]:
    """The configurations of a race, the fastest first; those that lack rounds in common with production left out."""
    by_name: dict[str, dict[int, Sample]] = {}
    for sample in race.of("frontier-coverage"):
        by_name.setdefault(sample.cell, {})[sample.meta["round"]] = sample
    cpu = {s.meta["configuration"]: s.meta["target_cpu_ms"] for s in race.of("frontier-cpu") if s.meta["coverages"]}
    found = []
    for name, samples in by_name.items():
        common = sorted(set(samples) & set(by_name.get(BASE, {})))
        if not common:
            continue

        def values(of: str, key: str, rounds: list[int] = common) -> Samples:
            return np.array([float(by_name[of][r].meta[key]) for r in rounds])

        wall = values(name, "wall_ms")
        found.append(
            Point(
                name,
                median(wall),
                median(values(name, "took_ms")),
                median(values(BASE, "wall_ms") / wall),
                cpu.get(name, float("nan")),
                *(float(values(name, key).max()) for key in ("percentile_error", "extreme_error", "sum_error")),
            )
        )
    return sorted(found, key=lambda p: p.wall_ms.value)


def front(found: list[Point]) -> list[Point]:
    """The Pareto front: the points that no other beats in both wall time and error, from fast to exact."""
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.wall_ms.value, p.error)):
        if not best or point.error < best[-1].error:
            best.append(point)
    return best


def within(found: list[Point], max_error: float) -> list[Point]:
    """The points whose p50, p90 and sums keep to an error, the fastest first."""
    return [p for p in found if p.error <= max_error and p.sum_error <= max_error]


def advice(found: list[Point], max_error: float) -> str:
    """One sentence: the fastest configuration within the error, its gain with interval, and its price."""
    allowed = within(found, max_error)
    if not allowed:
        return f"No configuration keeps the error of p50, p90 and the sums within {percent(max_error)}."
    best = allowed[0]
    if best.name == BASE:
        return f"Within an error of {percent(max_error)} nothing is faster than the production query as it is."
    configuration = CONFIGURATIONS[best.name]
    ties = [p.name for p in allowed[1:] if p.speedup.high >= best.speedup.low and p.name != BASE]
    also = f" Its interval overlaps with that of {', '.join(ties)}." if ties else ""
    return (
        f"Within an error of {percent(max_error)} take **{best.name}** ({configuration.change}): "
        f"{number(best.speedup.value)} × {interval(best.speedup)} as fast as production at an error of "
        f"{error_text(best.error)}; p0 and p100 are off by up to {error_text(best.extreme_error)}; "
        f"price: {configuration.price}.{also}"
    )


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    found = points(race)
    if not found:
        return []
    bound = race.parameters.get("max_error_permille", 10) / 1000
    to_query = [p for p in found if CONFIGURATIONS[p.name].form != "rollup"]  # a rollup answers what was asked before
    on_front = front(to_query)
    layout_costs = race.of("build-layouts")
    parts = [
        Section("Which way to take", f"{advice(to_query, bound)}{_limit(found)}{_left_out(race)}\n"),
        Section("Cost against accuracy", _all(found, on_front)),
        Section("The Pareto front", _front(on_front), [_figure(found, on_front, bound)]),
    ]
    if layout_costs and "rollup_cpu_s" in layout_costs[0].meta:
        parts.append(Section("What the rollup costs at ingest", _rollup(layout_costs[0])))
    return [
        *parts,
        Section("How far to trust this", stability.text(race, PLAN), [_rounds_figure(race, within(to_query, bound))]),
    ]


def _left_out(race: Race) -> str:
    """Which configurations the target could not be asked, and why."""
    lines = sorted({s.meta["left_out"] for s in race.of("frontier") if "left_out" in s.meta})
    return f" Left out: {'; '.join(lines)}." if lines else ""


def _limit(found: list[Point]) -> str:
    """What no query can beat, if it was measured: answers computed at ingest."""
    return "".join(
        f" The limit is a {p.name}: {number(p.speedup.value)} × {interval(p.speedup)}, exact, but fixed at ingest."
        for p in found
        if CONFIGURATIONS[p.name].form == "rollup"
    )


def sheets(race: Race) -> list[Sheet]:
    """The samples as a CSV file."""
    rows = [s.meta | {"started": started(s)} for s in race.of("frontier-coverage")]
    return [Sheet("es_profile_frontier.csv", ("started", *COLUMNS), rows)]


def _figure(found: list[Point], on_front: list[Point], bound: float) -> Figure:
    drawn = [
        scatter.Point(
            p.name,
            p.error if p.error > ROUNDING else 0.0,
            p.wall_ms.value,
            p.wall_ms.low,
            p.wall_ms.high,
            p in on_front,
        )
        for p in sorted(found, key=lambda p: p.name != BASE)
    ]
    caption = (
        "Wall time of a coverage against the error of p50 and p90; the steps are the Pareto front, the line is the "
        "bound. Names that find no place are left out; the table has them all."
    )
    return Figure(scatter.frontier(drawn, "wall ms", bound), caption)


def _rounds_figure(race: Race, found: list[Point]) -> Figure:
    """Production and the first of some queries in order of time."""
    cells, shown = PLAN.cells(race), dict.fromkeys([BASE, *(p.name for p in found[:1])])
    traces, spans = runs.by_round({name: cells[name] for name in shown}, "wall_ms")
    return Figure(timelines.timeline(traces, spans, "wall ms per coverage"), runs.ROUNDS_CAPTION)


def _all(found: list[Point], on_front: list[Point]) -> str:
    rows = [
        [
            f"{p.name} ◆" if p in on_front else p.name,
            CONFIGURATIONS[p.name].change,
            p.wall_ms.n,
            with_interval(p.wall_ms),
            number(p.took_ms.value),
            number(p.cpu_ms),
            with_interval(p.speedup),
            error_text(p.error),
            error_text(p.extreme_error),
            error_text(p.sum_error),
        ]
        for p in found
    ]
    head = ["configuration", "change", "n", "wall ms", "took ms", "CPU ms", "times as fast"]
    head += ["error p50, p90", "error p0, p100", "error of sums"]
    return (
        "Per coverage of all nodes in one epoch, the fastest first; ◆ marks the Pareto front. Times as fast as "
        "production is formed within each round. CPU is the target's, over two seconds of this configuration alone. "
        "Errors are the greatest relative ones measured, over all nodes, fields and rounds.\n\n" + table(head, rows)
    )


def _front(on_front: list[Point]) -> str:
    rows = [
        [
            p.name,
            number(p.wall_ms.value),
            error_text(p.error),
            error_text(p.extreme_error),
            CONFIGURATIONS[p.name].price,
        ]
        for p in on_front
    ]
    return (
        "No other query is both faster and more accurate in p50 and p90. The rollup is no query and left out.\n\n"
        + table(["configuration", "wall ms", "error p50, p90", "error p0, p100", "price"], rows)
    )


def _rollup(sample: Sample) -> str:
    return (
        f"Decoding the rows and computing the answers by sorting took the client "
        f"{number(sample.meta['rollup_cpu_s'])} s of CPU per million rows in plain Python, indexing the documents "
        f"{number(sample.meta['rollup_bulk_ms'])} ms in all. A client that holds the values already saves decoding.\n"
    )
