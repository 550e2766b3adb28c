"""Explains a query-profile race: what the profiler costs, and where the time of one search goes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability, timelines
from _tools.report.answer import Finding, times_as_fast
from _tools.report.cells import Cells, cells_of
from _tools.report.race import Race, Sample
from _tools.report.references import PROFILING, beside
from _tools.report.section import Figure, Section
from _tools.report.stats import Samples, median
from _tools.report.table import Column, Table, Words, share, times
from _tools.report.text import interval, number, percent, started
from cluster_metrics.query._report import server
from cluster_metrics.query.profile_tree import AGGREGATION_PARTS, ONCE, PARTS, add_up
from cluster_metrics.query.profile_tree import times as times_of
from cluster_metrics.query.query_profile import CALL, CALLS, COVERAGE, OFF, ON, aggregation_kinds

REFERENCE_TOOK_MS = {ON: 74.8, OFF: 40.8}
"""Section 2 of PROFILING: averages per search."""
PROBES = {OFF: "profiler off", ON: "profiler on"}

SHOWN_MS = 0.0005
"""Least time of a part that is shown."""

Values = Mapping[str, Samples]


def paired(race: Race) -> tuple[Values, Values]:
    """The numbers per search with the profiler and without, by key, aligned by round.

    They are means over the searches of a coverage; only what the profiler scales up from a sample of its calls is the
    median over them, since a pause that falls into a timed call is scaled up with it: with 33,000 documents up to 130
    times.
    """
    cells, calls = cells_of(race, COVERAGE), profiled_calls(race)
    if not cells.has(ON, OFF):
        return {}, {}
    rounds = [number for number in cells.rounds(ON, OFF) if number in calls]

    def means(name: str) -> dict[str, Samples]:
        metas = [cells.samples(name)[number].meta for number in rounds]
        keys = [k for k in metas[0] if k.endswith(("_ms", "_bytes"))] if metas else []
        return {k: np.array([float(m[k]) / m["searches"] for m in metas]) for k in keys}

    on, off = means(ON), means(OFF)
    by_call = [[add_up([tree_of(s)], aggregation_kinds()) for s in calls[number]] for number in rounds]
    for key in by_call[0][0] if rounds else ():
        if not key.startswith("collector"):
            on[key] = np.array([np.median([call[key] for call in found]) for found in by_call])
    return on, off


def profiled_calls(race: Race) -> dict[int, list[Sample]]:
    """The searches with the profiler by round."""
    found: dict[int, list[Sample]] = {}
    for sample in race.of(CALL):
        if sample.cell == CALLS[ON]:
            found.setdefault(sample.meta["round"], []).append(sample)
    return found


def tree_of(call: Sample) -> dict[str, float]:
    """The times of a call's profile, see :func:`cluster_metrics.query.profile_tree.times`."""
    return {key: call.meta[key] for key in times_of({"shards": []}, aggregation_kinds())}


def collect_ms(on: Values, kind: str) -> Samples:
    """Collecting of one kind of aggregations: its part, by the tree, of the time of the collector that feeds them.

    Collectors are timed on every call, the aggregations on few: so the amount is from the collector, only the
    proportion from the aggregations.
    """
    kinds = {k: sum_of(on, [f"{k}_collect_ms", f"{k}_build_leaf_collector_ms"]) for k in ("percentiles", "sums")}
    return on["collector_aggregations_ms"] * over(kinds[kind], sum_of(kinds, list(kinds)))


def filter_ms(on: Values) -> Samples:
    """Rewriting and preparing the query, and stepping through the postings and points of its innermost queries."""
    return sum_of(on, ["rewrite_ms", *(f"query_{p}_ms" for p in ONCE), "query_leaves_ms"])


def build_ms(on: Values) -> Samples:
    """What the aggregations do outside collecting: initialise, post-collect, build and reduce."""
    parts = [p for p in AGGREGATION_PARTS if p not in ("collect", "build_leaf_collector")]
    return sum_of(on, [f"{kind}_{p}_ms" for kind in ("percentiles", "sums") for p in parts])


def sum_of(values: Values, keys: list[str]) -> Samples:
    return np.sum([values[key] for key in keys], axis=0)


def over(part: Samples, whole: Samples) -> Samples:
    """The quotient; nan where the whole is 0, as ``took`` may be for tiny searches."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def fine(ms: float) -> str:
    """Milliseconds to the microsecond, which is as much as the small parts of a profile are good for."""
    return f"{ms:.3f}".replace("-", "−") if abs(ms) < 1 else number(ms)


def answer(race: Race) -> Iterator[Finding]:
    """What a search takes, its greatest parts, and what the profiler costs."""
    on, off = paired(race)
    if not on or not off:
        return
    *parts, whole = phases(on, off)
    wall = median(whole.ms)
    yield Finding("one search", f"{number(wall.value)} ms {interval(wall)}, network and parsing included", {"ms": wall})
    shares = {p.name: median(over(p.ms, whole.ms)) for p in parts if not p.part_of_rest}
    for name, share_ in sorted(shares.items(), key=lambda item: -item[1].value)[:2]:
        yield Finding(name, f"{percent(share_.value)} {interval(share_, percent)} of it", {"share": share_})
    ratio = median(over(on["took_ms"], off["took_ms"]))
    yield Finding("the profiler", f"a search takes {times_as_fast(ratio)} as long with it", {"ratio": ratio})
    yield answers.checked(race, len(race.of(CALL)), "search")


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a round in which both coverages succeeded."""
    on, off = paired(race)
    if not on or not off:
        return []
    return [
        Section("What the profiler costs", _inflation(on, off)),
        Section("Where the time of one search goes", _phases(on, off)),
        Section("The profile tree", _tree(on)),
        Section("The aggregations in the profile tree", [*_aggregations(race), _aggregations_figure(race)]),
        *server.sections(race, "query-profile"),
        *stability.sections(race, _rounds_figure(cells_of(race, COVERAGE))),
    ]


def reference(race: Race) -> list[str | Table]:
    """The phases of a search with 8 cores, and what the profiler cost there."""
    on, off = paired(race)
    if not on or not off:
        return []
    took = {probe: median(values["took_ms"]) for probe, values in ((ON, on), (OFF, off))}
    ms = [(f"took, {PROBES[probe]}", took[probe], REFERENCE_TOOK_MS[probe]) for probe in took]
    found = [p for p in phases(on, off) if p.reference]
    ms += [(p.name, median(p.ms), float(p.reference[0])) for p in found if p.reference]
    shares = [
        (p.name, median(over(p.ms, off["took_ms"] if p.of_took else found[-1].ms)), float(p.reference[1]))
        for p in found
        if p.reference
    ]
    text = f"{PROFILING.cited} Shares of the first phase and the whole are of wall time, the others of `took`."
    return [text, beside("reference ms", ms, "ms"), beside("reference shares", shares, form=percent)]


def sheets(race: Race) -> list[Table]:
    """The searches as CSV files: one row each, and with the profiler one row per aggregation."""
    probes = {CALLS[ON]: "on", CALLS[OFF]: "off"}
    calls = [dict(s.meta) | {"probe": probes[s.cell], "started": started(s.at)} for s in race.of(CALL)]
    by_aggregation = [
        dict(s.meta)
        | {part: s.meta[f"{name}_{part}"] for part in (f"{p}_ms" for p in AGGREGATION_PARTS)}
        | {"aggregation": name, "kind": kind, "started": started(s.at)}
        for found in profiled_calls(race).values()
        for s in found
        for name, kind in aggregation_kinds().items()
    ]
    keys = [k.name for k in race.record.samples[CALL].keys]
    own = [k for k in keys if not k.startswith(tuple(aggregation_kinds()))]
    of_aggregations = ["round", "epoch", "asked_node", "aggregation", "kind"]
    of_aggregations += [*(f"{part}_ms" for part in AGGREGATION_PARTS), "docs_matched"]
    return [
        Table("es_profile_query_calls.csv", [Column(k, k) for k in ("started", "probe", *own)], calls),
        Table("es_profile_query_aggs.csv", [Column(k, k) for k in ("started", *of_aggregations)], by_aggregation),
    ]


def _inflation(on: Values, off: Values) -> list[str | Table]:
    keys = {"took_ms": "took ms", "wall_ms": "wall ms", "response_bytes": "response bytes"}
    columns = [
        Words("figure", "per search", of=keys.get),
        Column("n", "n", of=lambda key: len(on[key])),
        Column(ON, PROBES[ON], of=lambda key: median(on[key])),
        Column(OFF, PROBES[OFF], of=lambda key: median(off[key])),
        times("ratio", "ratio", of=lambda key: median(over(on[key], off[key]))),
    ]
    text = (
        "The production query (D_td, serial) with `profile: true` and without, averaged over the searches of a "
        "coverage: median over rounds, the ratio formed within each round. Elasticsearch cuts `took` to whole "
        "milliseconds, so each search shows half a millisecond too little on average."
    )
    return [text, Table.of("inflation", columns, keys)]


@dataclass(frozen=True)
class Phase:
    """A phase of one search without profiler.

    :param name: in a figure.
    :param text: what stands behind the name in a table.
    :param ms: by round.
    :param part_of_rest: whether it is a part of the phase before the ones like it, not of the whole.
    :param of_took: whether it is a part of ``took``.
    :param reference: of PROFILING, table 4.1: ms and share per search. Its shares are of took, the first of wall.
    """

    name: str
    text: str
    ms: Samples
    part_of_rest: bool = False
    of_took: bool = True
    reference: tuple[float, float] | None = None


def phases(on: Values, off: Values) -> list[Phase]:
    """The phases of one search. The last is the whole, those that are no part of the rest add up to it, and the three
    others to the rest."""
    scale = over(off["took_ms"], on["took_ms"])
    filtering = filter_ms(on) * scale
    percentiles, sums = (collect_ms(on, kind) * scale for kind in ("percentiles", "sums"))
    rest = off["took_ms"] - filtering - percentiles - sums
    building = build_ms(on) * scale
    collectors = (on["collector_ms"] - on["collector_aggregations_ms"]) * scale
    whole = off["wall_ms"] + off["parse_ms"]
    return [
        Phase("network and JSON parse", "(wall − took + parse)", whole - off["took_ms"], False, False, (5, 0.11)),
        Phase("filter", "", filtering, reference=(7, 0.17)),
        Phase("collect: 3 percentiles", "t-digest", percentiles, reference=(22, 0.54)),
        Phase("collect: 3 sums", "", sums, reference=(6, 0.15)),
        Phase("build and reduce", "the rest of took", rest, reference=(5, 0.12)),
        Phase("aggregations building", "in the tree", building, True),
        Phase("other collectors", "", collectors, True),
        Phase("unexplained", "", rest - building - collectors, True),
        Phase("whole", "(wall + parse)", whole, False, False, (45.7, 1)),
    ]


def _phases(on: Values, off: Values) -> list[str | Table | Figure]:
    found = phases(on, off)
    whole = found[-1]
    columns = [
        Words("phase", "phase, per search", of=lambda p: f"{'… of it ' * p.part_of_rest}{p.name} {p.text}".strip()),
        Column("ms", "ms", form=fine, of=lambda p: median(p.ms)),
        share("share", "share", of=lambda p: median(over(p.ms, whole.ms))),
        share("of_took", "of took", of=lambda p: median(over(p.ms, off["took_ms"])).value if p.of_took else None),
    ]
    text = (
        "Each phase's time in the profile tree, as a fraction of the same coverage's `took` with the profiler on, is "
        "multiplied by the `took` of the coverage without profiler of the same round; network and parse are measured "
        "without profiler. The filter is preparing the query plus its innermost queries' stepping through documents, "
        "and the time of the collector that feeds the aggregations is divided between percentiles and sums in "
        "proportion to their own."
    )
    after = (
        "This supposes that the profiler slows all phases down alike. It does not: it weighs most on short steps, so "
        "filter and sums come out too high and the percentiles too low; the challenge query-decomp measures without "
        "profiler, by subtraction. `took` ends before the response is written as JSON, so writing it counts with the "
        "network, as does the part of a millisecond that `took` cuts off. Parsing alone takes "
        f"{fine(median(off['parse_ms']).value)} ms."
    )
    rest = next(i for i, phase in enumerate(found) if phase.part_of_rest) - 1
    parts = [
        plots.Part(phase.name, median(phase.ms), median(over(phase.ms, whole.ms)).value)
        for i, phase in enumerate(found[:-1])
        if i != rest
    ]
    caption = (
        "Parts of one search of the production query without profiler, network and parse included. Each is a median of "
        "its own, so they need not add up to the whole to the last digit."
    )
    figure = Figure(plots.parts(parts, plots.Part(whole.name, median(whole.ms), 1.0)), caption)
    return [text, Table.of("phases", columns, found), after, figure]


def _rounds_figure(cells: Cells) -> Figure:
    shown = {text: cells.samples(name).values() for name, text in PROBES.items()}
    return timelines.over_time(shown, "wall_ms", "wall ms per coverage")


def _tree(on: Values) -> list[str | Table]:
    lines = [("query: rewrite", on["rewrite_ms"])]
    lines += [(f"query: {part}", on[f"query_{part}_ms"]) for part in (*PARTS, "other")]
    lines += [("query: all parts", on["query_ms"]), ("… of it documents in innermost queries", on["query_leaves_ms"])]
    lines += [("collectors", on["collector_ms"]), ("… of it aggregations", on["collector_aggregations_ms"])]
    for kind in ("percentiles", "sums"):
        lines += [(f"{kind}: {part}", on[f"{kind}_{part}_ms"]) for part in AGGREGATION_PARTS]
    tree = sum_of(on, ["rewrite_ms", "query_ms", "collector_ms", "fetch_ms"]) + build_ms(on)
    lines += [("fetch", on["fetch_ms"]), ("tree: rewrite, query, collectors, building, fetch", tree)]
    columns = [
        Words("part", "part", of=lambda line: line[0]),
        Column("ms", "ms", form=fine, of=lambda line: median(line[1])),
        share("of_took", "of took", of=lambda line: median(over(line[1], on["took_ms"])).value),
    ]
    shown = [line for line in lines if np.median(line[1]) >= SHOWN_MS]
    text = (
        "Per search with the profiler on; parts below half a microsecond are left out. A query's time includes that "
        "of the queries inside it, the collectors' time includes the aggregations' collect and build_leaf_collector. "
        "Collectors are timed on every document: means over the searches of a round. Queries and aggregations are "
        "timed on a sample that is scaled up, with the clock readings and pauses in it: the median search of each "
        "round, and the tree may still exceed `took`. With several slices in parallel the times are sums over them."
    )
    return [text, Table.of("tree", columns, shown)]


def _typical(race: Race, *keys: str) -> Samples:
    """The sum of these times of the profiled calls: the median search of each round."""
    calls = profiled_calls(race)
    return np.array([np.median([sum(s.meta[k] for k in keys) for s in calls[r]]) for r in sorted(calls)])


def _aggregations_figure(race: Race) -> Figure:
    parts_of = {"collect": ["collect"], "all else": [p for p in AGGREGATION_PARTS if p != "collect"]}
    found = {
        name: {what: median(_typical(race, *(f"{name}_{p}_ms" for p in parts))) for what, parts in parts_of.items()}
        for name in aggregation_kinds()
    }
    least = max(e.value for of in found.values() for e in of.values()) / 100
    found = {name: {what: e for what, e in of.items() if e.value >= least} for name, of in found.items()}
    caption = (
        "Time of each aggregation in one search with the profiler on: the median search of each round, median over "
        "rounds with its 95 % interval. What takes less than a hundredth of the longest is left out."
    )
    return Figure(plots.cells(found, "ms per search"), caption)


def _aggregations(race: Race) -> list[str | Table]:
    kinds = aggregation_kinds()
    others = [p for p in AGGREGATION_PARTS if p != "collect"]
    others = [p for p in others if any(np.median(_typical(race, f"{name}_{p}_ms")) >= SHOWN_MS for name in kinds)]
    rows = []
    for name, kind in kinds.items():
        collect = median(_typical(race, f"{name}_collect_ms"))
        row = {"aggregation": name, "kind": kind, "n": collect.n, "collect": collect, "cv": collect.cv}
        rows.append(row | {p: float(np.median(_typical(race, f"{name}_{p}_ms"))) for p in others})
    columns = [Words("aggregation", "aggregation"), Words("kind", "kind"), Column("n", "n")]
    columns += [Column("collect", "collect", "ms", form=fine), share("cv", "CV")]
    columns += [Column(p, p, "ms", form=fine) for p in others]
    text = "The median search of each round, median over rounds, with the profiler on."
    return [text, Table("aggregations", columns, rows)]
