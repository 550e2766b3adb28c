"""Explains a query-frontier race: what each way to answer costs, how wrong it is, and which one to take."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability, timelines
from _tools.report.answer import Finding, times_as_fast
from _tools.report.cells import cells_of
from _tools.report.gains import Gain, inverse, over_base, summed
from _tools.report.race import Race, Sample
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, median, optimism, paired_ratio
from _tools.report.table import Column, Table, Words, times
from _tools.report.text import ROUNDING, count, error_text, interval, number, percent
from _tools.report.verdicts import Gate, Verdict, gate_of, judge, verdict
from cluster_metrics.query._report import server
from cluster_metrics.query.configurations import BASE, CACHED, CONFIGURATIONS, change_of
from cluster_metrics.query.query_frontier import COVERAGE, REPEATED
from cluster_metrics.wire.questions import Configuration


@dataclass(frozen=True)
class Point:
    """A configuration as measured.

    :param wall_ms: per coverage, median over rounds.
    :param speedup: wall time of production over this one's, formed within each round.
    :param rounds: wall time over that of production by round.
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
    rounds: Mapping[int, float] = field(default_factory=dict)

    @property
    def configuration(self) -> Configuration:
        return CONFIGURATIONS[self.name]


def points(race: Race) -> list[Point]:
    """The configurations of a race, the fastest first; those that lack rounds in common with production left out."""
    cells = cells_of(race, COVERAGE)
    cpu = {s.meta["configuration"]: s.meta["target_cpu_ms"] for s in race.of("frontier-cpu") if s.meta["coverages"]}
    found = []
    for name in cells.names:
        if cells.has(BASE, name):
            errors = {"error": "percentile_error", "extreme_error": "extreme_error", "sum_error": "sum_error"}
            base, own = cells.values("wall_ms", BASE, name)
            found.append(
                Point(
                    name,
                    cells.of(lambda base, own: own, "wall_ms", BASE, name),
                    cells.of(lambda base, own: own, "took_ms", BASE, name),
                    cells.ratio("wall_ms", name, BASE),
                    cpu.get(name, math.nan),
                    **{key: float(cells.values(meta, BASE, name)[1].max()) for key, meta in errors.items()},
                    rounds=dict(zip(cells.rounds(BASE, name), own / base)),
                )
            )
    return sorted(found, key=lambda p: -p.speedup.value)


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


def shown(found: list[Point], gate: Gate) -> list[Point]:
    """The points that are shown to be faster than the production query, the fastest first."""
    others = [point for point in found if point.name != BASE]
    return [p for p in others if verdict(inverse(p.speedup), enough=gate.enough) is Verdict.IMPROVED]


def ties(allowed: list[Point], gate: Gate) -> list[str]:
    """The points that are not shown to be slower than the first, by their ratio to it within rounds."""
    best = allowed[0]
    others = [p for p in allowed[1:] if p.name != BASE and p.rounds.keys() & best.rounds.keys()]
    ratios = []
    for point in others:
        common = sorted(point.rounds.keys() & best.rounds.keys())
        base, own = (np.array([p.rounds[r] for r in common]) for p in (best, point))
        ratios.append(paired_ratio(base, own))
    return [p.name for p, of in zip(others, judge(ratios, gate)) if of.verdict.is_tie]


def advice(found: list[Point], max_error: float, gate: Gate) -> str:
    """The fastest configuration within the error, its gain with interval, what choosing makes of it, what ties with it,
    and its price; nothing from fewer rounds than a verdict takes."""
    allowed = within(found, max_error)
    if not allowed:
        return f"No configuration keeps the error of p50, p90 and the sums within {percent(max_error)}."
    if (most := max(p.speedup.n for p in allowed)) < gate.enough:
        return f"{most} rounds are too few to advise a way, it takes {gate.enough}."
    faster = shown(allowed, gate)
    if not faster:
        return (
            f"Within an error of {percent(max_error)} nothing is shown to be faster than the production query as it is."
        )
    best = faster[0]
    tied = ties([best, *(p for p in allowed if p is not best)], gate)
    also = f" Ties with it, by the ratio within rounds: {', '.join(tied)}." if tied else ""
    common = sorted(set.intersection(*(set(p.rounds) for p in faster)))
    if len(faster) > 1 and common:
        lucky = optimism(np.array([[p.rounds[r] for r in common] for p in faster]))
        also += (
            f" It is the fastest of {len(faster)} that are shown to be faster: choosing it for that overstates its "
            f"gain by {percent(lucky)} on average."
        )
    return (
        f"Within an error of {percent(max_error)} take **{best.name}** ({best.configuration.text}): "
        f"{number(best.speedup.value)} × {interval(best.speedup)} as fast as production at an error of "
        f"{error_text(best.error)}; p0 and p100 are off by up to {error_text(best.extreme_error)}; "
        f"trade-off: {best.configuration.price}.{also}"
    )


def answer(race: Race) -> Iterator[Finding]:
    """The fastest configuration within the error, the limit, and what is most accurate."""
    found = points(race)
    if not found:
        return
    bound, to_query = _bound(race), _queries(found)
    base = next(p for p in found if p.name == BASE)
    text = f"{number(base.wall_ms.value)} ms {interval(base.wall_ms)} a coverage; p50 and p90 off by at most "
    yield Finding("production", text + error_text(base.error), {"wall_ms": base.wall_ms})
    allowed = within(to_query, bound)
    best = next(iter(shown(allowed, gate_of(race.record.compared))), None)
    if not allowed:
        yield Finding("recommended", f"nothing: no configuration keeps the error within {percent(bound)}")
    elif best:
        text = (
            f"{best.name}: {times_as_fast(best.speedup)} as fast at an error of {error_text(best.error)}; trade-off: "
            f"{best.configuration.price}"
        )
        yield Finding("recommended", text, {"speedup": best.speedup})
    else:
        yield answers.undecided(race, max(p.speedup.n for p in allowed))
    names = ", ".join(p.name for p in front(to_query))
    any_question = f"{len(to_query)} configurations that answer any question"
    yield Finding("not beaten", f"{names}, of {any_question}, by time and error")
    for p in found:
        if p.configuration.form == "rollup":
            yield Finding(f"limit: {p.name}", f"{times_as_fast(p.speedup)}, exact, but fixed at ingest")
    failed = sum(race.failed.values()) - race.rounds_failed
    text = f"{count(len(race.of(COVERAGE)), 'coverage')}, none held to a bound"
    yield Finding("errors measured", f"{text}; {count(failed, 'request')} failed" if failed else text)


def changes(race: Race) -> Iterator[Gain]:
    """What each way to ask gains and costs against production; of the target's CPU time there is one figure each."""
    cells, found = cells_of(race, COVERAGE), points(race)
    base = next((p for p in found if p.name == BASE), None)
    for p in found if base else ():
        if base and p is not base:
            paid = over_base(
                cells, BASE, p.name, client_cpu="client_ms", bytes=summed("request_bytes", "response_bytes")
            )
            paid |= {"target_cpu": p.cpu_ms / base.cpu_ms, "error_before": base.error, "error": p.error}
            yield Gain(change_of(p.configuration), BASE, p.speedup, paid)


def _bound(race: Race) -> float:
    """The greatest error of a configuration to be advised."""
    return race.parameters.get("max_error_permille", 10) / 1000


def _queries(found: list[Point]) -> list[Point]:
    """Without the rollup and a filled cache, which answer only what was asked before."""
    return [p for p in found if p.configuration.form != "rollup" and p.name not in CACHED.values()]


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    found = points(race)
    if not found:
        return []
    bound, to_query = _bound(race), _queries(found)
    gate = gate_of(race.record.compared)
    on_front = front(to_query)
    rollup = next((s for s in race.of("build-layouts") if "rollup_cpu_s" in s.meta), None)
    return [
        Section("Which way to take", [f"{advice(to_query, bound, gate)}{_limit(found)}{_left_out(race)}"]),
        Section("Cost against accuracy", _all(found, on_front)),
        Section("The Pareto front", [*_front(on_front), _figure(found, on_front, bound)]),
        *_cached(race),
        *([Section("What the rollup costs at ingest", [_rollup(rollup)])] if rollup else []),
        *server.sections(race, "frontier"),
        *stability.sections(race, _rounds_figure(race, within(to_query, bound))),
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
        if p.configuration.form == "rollup"
    )


def _figure(found: list[Point], on_front: list[Point], bound: float) -> Figure:
    drawn = [
        plots.Point(p.name, p.error if p.error > ROUNDING else 0.0, p.wall_ms, p in on_front)
        for p in sorted(found, key=lambda p: p.name != BASE)
    ]
    caption = (
        "Wall time of a coverage against the error of p50 and p90, with 95 % intervals; the steps are the Pareto "
        "front, the dashed line is the bound. A name that finds no place shows on hovering."
    )
    return Figure(plots.frontier(drawn, "wall ms", bound), caption)


def _rounds_figure(race: Race, found: list[Point]) -> Figure:
    """Production and the first of some queries in order of time."""
    cells = cells_of(race, COVERAGE)
    shown = {name: cells.samples(name).values() for name in [BASE, *(p.name for p in found[:1])]}
    return timelines.over_time(shown, "wall_ms", "wall ms per coverage")


def _all(found: list[Point], on_front: list[Point]) -> list[str | Table]:
    columns = [
        Words("configuration", "configuration", of=lambda p: f"{p.name} ◆" if p in on_front else p.name),
        Words("change", "change", of=lambda p: p.configuration.text),
        Column("n", "n", of=lambda p: p.wall_ms.n),
        Column("wall_ms", "wall", "ms"),
        Column("took_ms", "took", "ms", of=lambda p: p.took_ms.value),
        Column("cpu_ms", "CPU", "ms"),
        Column("speedup", "times as fast"),
        Column("error", "error p50, p90", form=error_text),
        Column("extreme_error", "error p0, p100", form=error_text),
        Column("sum_error", "error of sums", form=error_text),
    ]
    text = (
        "Per coverage of all nodes in one epoch, the fastest first; ◆ marks the Pareto front. Times as fast as "
        "production is the median over rounds of the ratio within each, of the same rounds as the times beside it. CPU "
        "is the target's, over some seconds of this configuration alone (`frontier_cpu_seconds`). Errors are the "
        "greatest relative ones measured, over all nodes, fields and rounds."
    )
    return [text, Table.of("configurations", columns, found)]


def _front(on_front: list[Point]) -> list[str | Table]:
    columns = [
        Words("configuration", "configuration", of=lambda p: p.name),
        Column("wall_ms", "wall", "ms", of=lambda p: p.wall_ms.value),
        Column("error", "error p50, p90", form=error_text),
        Column("extreme_error", "error p0, p100", form=error_text),
        Words("price", "trade-off", of=lambda p: p.configuration.price),
    ]
    text = (
        "No other query is both faster and more accurate in p50 and p90. Rollup and filled caches are left out: they "
        "answer only what was asked before."
    )
    return [text, Table.of("front", columns, on_front)]


def _cached(race: Race) -> list[Section]:
    cells = cells_of(race, COVERAGE)
    pairs = [pair for pair in CACHED.items() if cells.has(*pair)]
    columns = [
        Words("configuration", "configuration", of=lambda pair: pair[0]),
        Column("n", "n", of=lambda pair: len(cells.rounds(*pair))),
        Column("off_ms", "cache off", "ms", of=lambda pair: median(cells.values("wall_ms", *pair)[0])),
        Column("on_ms", "cache on", "ms", of=lambda pair: median(cells.values("wall_ms", *pair)[1])),
        Column("saved_ms", "saved", "ms", of=lambda pair: cells.of(np.subtract, "wall_ms", *pair)),
        times("speedup", "times as fast", of=lambda pair: cells.ratio("wall_ms", *reversed(pair))),
    ]
    text = (
        "The same rows in an index with the node query cache, whose filters were asked "
        f"{REPEATED} times uncounted before each coverage, so that they are in it: what a question about an epoch "
        "saves when it was asked a moment ago. Differences and ratios are formed within each round."
    )
    return [Section("What the query cache saves", [text, Table.of("cached", columns, pairs)])] if pairs else []


def _rollup(sample: Sample) -> str:
    return (
        f"Decoding the rows and computing the answers by sorting took the client "
        f"{number(sample.meta['rollup_cpu_s'])} s of CPU per million rows in plain Python, indexing the documents "
        f"{number(sample.meta['rollup_bulk_ms'])} ms in all. A client that holds the values already saves decoding.\n"
    )
