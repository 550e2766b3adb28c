"""Explains a race of capacity-curve: what requests wait at which rate, and the greatest rate that keeps to a bound."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots
from _tools.report.answer import Finding
from _tools.report.race import Race, Sample
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, Samples, crossing, mean, median
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import interval, number

from . import parts
from .cells import Cell, bottleneck, clients_of, kinds_of, main_cells, waits_of
from .parts import UNITS, around
from .warnings import warnings

__all__ = ["answer", "compared_in", "sections", "sheets", "warnings"]

SUMMARY = "its latency counts from when a request was due, as the report does; its throughput is what was due"
BOUNDED = 99.0
"""The percentile of latency that a bound is set to."""
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": BOUNDED, "p99.9": 99.9}
BEYOND = 5
"""Requests of each pass that lie beyond a percentile on average, at least: fewer do not carry it."""
REACHED = 0.95
"""Part of the requests due that counts as all of them, as arrivals are random."""


@dataclass(frozen=True)
class Point:
    """What one number of shards and replicas does at one rate.

    :param waits: latency of each request in ms, by pass.
    """

    cell: Cell
    waits: Mapping[int, Samples]

    def each(self, percent: float) -> Samples:
        """A percentile of latency in each pass; empty where their requests are too few to carry it."""
        few = any(len(waits) * (1 - percent / 100) < BEYOND for waits in self.waits.values())
        return np.array([] if few else [np.percentile(waits, percent) for waits in self.waits.values()])

    def latency(self, percent: float) -> Estimate | None:
        """A percentile of latency: the geometric mean over passes, with Student's interval of the logarithms."""
        each = self.each(percent)
        if not len(each):
            return None
        found = mean(np.log(each))
        value, low, high = (math.exp(x) for x in (found.value, found.low, found.high))
        return Estimate(found.n, value, low, high, math.nan)

    def done(self) -> Estimate:
        """The part of what was due that was answered."""
        return median(np.array([self.cell.passes[number_of].rate for number_of in self.waits]) / self.cell.rate)


def curves(race: Race) -> dict[str, list[Point]]:
    """The points of each number of shards and replicas, in order of rate."""
    waits = waits_of(race)
    found: dict[str, list[Point]] = {}
    for name, cell in main_cells(race).items():
        of = {number_of: w for number_of, w in waits.get(name, {}).items() if number_of in cell.steady}
        if of:
            found.setdefault(cell.grid, []).append(Point(cell, of))
    return found


def greatest(points: Sequence[Point], bound_ms: float) -> Estimate | None:
    """The rate at which the curve of the 99th percentile last rises above a bound, between two of its points; 0 where
    it is above from the first on, infinite where it is not at the last; None where too few points carry it."""
    each = {point.cell.rate: point.each(BOUNDED) for point in points}
    known = {rate: values for rate, values in each.items() if len(values)}
    if len(known) < 2 or len({len(values) for values in known.values()}) > 1:
        return None
    return crossing(np.log(list(known)), np.log(np.array(list(known.values())) / bound_ms))


def answer(race: Race) -> Iterator[Finding]:
    """The greatest rate that keeps to the bound, what requests wait below it, and what limits it."""
    for grid, points in curves(race).items():
        bound, unit = race.parameters["slo_ms"], UNITS[kinds_of(race)[0]]
        rate, shown = greatest(points, bound), [point for point in points if len(point.each(BOUNDED))]
        if max(len(point.waits) for point in points) < race.record.compared.enough:
            yield answers.undecided(race)
        elif rate is None:
            why = "too few requests for a 99th percentile; raise cell_seconds"
            if len(points) < 2:
                why = "it takes two rates or more; set more of curve_per_second"
            elif len({len(point.each(BOUNDED)) for point in shown}) > 1:
                why = "a 99th percentile is not there in as many passes of each rate; race it again"
            yield Finding("greatest rate", f"{grid}: not shown, {why}")
        elif not rate.value:
            least = f"none from {shown[0].cell.rate:,.0f} {unit} on"
            doubt = f", as is not shown {interval(rate)}" if rate.high > 0 else ""
            yield Finding("greatest rate", f"{grid}: {least} keeps p99 to {bound:,} ms{doubt}; lower curve_per_second")
        elif math.isinf(rate.value):
            most = f"{shown[-1].cell.rate:,.0f} {unit} or more"
            doubt = f", as is not shown {interval(rate)}" if rate.low < shown[-1].cell.rate else ""
            yield Finding("greatest rate", f"{grid}: {most} keep p99 to {bound:,} ms{doubt}; raise curve_per_second")
        else:
            rates = [point.cell.rate for point in shown]
            below, above = max(r for r in rates if r <= rate.value), min(r for r in rates if r > rate.value)
            text = f"{grid}: {number(rate.value)} {unit} {interval(rate)} with p99 up to {bound:,} ms"
            text += f", interpolated between {below:,.0f} and {above:,.0f}"
            yield Finding("greatest rate", text, {"rate": rate})
        kept = [p for p in points if (p99 := p.latency(BOUNDED)) and p99.value <= bound]
        if kept:
            told = {name: kept[-1].latency(percent) for name, percent in PERCENTILES.items()}
            texts = [f"{name} {number(e.value)} ms {interval(e)}" for name, e in told.items() if e]
            yield Finding("latency", f"at {kept[-1].cell.rate:,.0f} {unit}: {', '.join(texts)}")
        beyond = next((p for p in shown if not kept or p.cell.rate > kept[-1].cell.rate), points[-1])
        yield Finding("limited by", f"{bottleneck(beyond.cell.last, race)} at {beyond.cell.rate:,.0f} {unit}")


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a point."""
    found = curves(race)
    return around(race, [_curve(race, grid, points) for grid, points in found.items()]) if found else []


def _curve(race: Race, grid: str, points: Sequence[Point]) -> Section:
    bound, unit = race.parameters["slo_ms"], UNITS[kinds_of(race)[0]]

    def kept(point: Point) -> str:
        p99 = point.latency(BOUNDED)
        if p99 is None or p99.n < race.record.compared.enough or not p99.known or p99.low <= bound < p99.high:
            return "not shown"
        return "kept" if p99.high <= bound else "missed"

    columns = [
        Column("rate", f"{unit} due", of=lambda p: p.cell.rate),
        Column("n", "passes", of=lambda p: len(p.waits)),
        share("done", "answered", of=lambda p: p.done()),
        *(Column(name, name, "ms", of=lambda p, q=q: p.latency(q)) for name, q in PERCENTILES.items()),  # type: ignore[misc]
        Column("service", "service time, p50", "ms", of=_service),
        Column("queue", "queue", of=lambda p: max(one.queue() for one in p.cell.passes.values())),
        Column("rejected", "rejected", of=lambda p: sum(one.rejected() for one in p.cell.passes.values())),
        Words("kept", f"p99 up to {bound:,} ms", of=kept),
        Words("limited", "limited by", of=lambda p: bottleneck(p.cell.last, race)),
    ]
    text = (
        f"Open loop: {unit.partition('/')[0]} are due at random, independent of each other and of their answers, and "
        "latency counts from when a request was due, so a target that falls behind cannot slow down what is asked of "
        f"it. {clients_of(points[0].cell, race)} clients share them; what is due while all are waiting, waits with "
        "them. Percentiles are taken in each pass: their geometric mean with Student's interval of the logarithms over "
        f"passes, where {BEYOND} requests of each pass or more lie beyond. Where less than {REACHED:.0%} are answered "
        "latency grows as long as the load lasts. The queue is the longest that was seen, at one look a second."
    )
    lines = {
        name: [(p.cell.rate, latency) for p in points if (latency := p.latency(percent))]
        for name, percent in PERCENTILES.items()
    }
    caption = f"Latency of {grid} by rate: geometric mean over passes and its 95 % interval."
    figure = Figure(plots.lines({n: of for n, of in lines.items() if of}, f"{unit} due", "latency, ms"), caption)
    return Section(f"Latency by rate: {grid}", [text, Table.of(f"curve {grid}", columns, points), figure])


def sheets(race: Race) -> list[Table]:
    """A row per point and pass as a CSV file, beside that of all capacity challenges."""
    names = ("cell", "pass", "rate_due", "requests", "per_s", *(f"{name}_ms" for name in PERCENTILES))
    rows = [
        {"cell": point.cell.name, "pass": number_of, "rate_due": point.cell.rate, "requests": len(waits)}
        | {"per_s": point.cell.passes[number_of].rate}
        | {f"{name}_ms": float(np.percentile(waits, percent)) for name, percent in PERCENTILES.items()}
        for points in curves(race).values()
        for point in points
        for number_of, waits in point.waits.items()
    ]
    return [*parts.sheets(race), Table("es_profile_curve.csv", [Column(name, name) for name in names], rows)]


def _service(point: Point) -> float:
    return float(np.median([s.value for one in point.cell.passes.values() for s in one.requests]))


def compared_in(race: Race) -> list[Sample]:
    """The 99th percentile of latency of each point and pass that carries it."""
    return [
        replace(point.cell.passes[number_of].prepared, cell=point.cell.name, meta={"pass": number_of, "p99_ms": p99})
        for points in curves(race).values()
        for point in points
        for number_of, p99 in zip(point.waits, point.each(BOUNDED))
    ]
