"""Explains a query-profile race: what the profiler costs, and where the time of one search goes."""

from collections.abc import Mapping

import numpy as np

from cluster_metrics.profile import aggregation_kinds
from cluster_metrics.profile_tree import AGGREGATION_PARTS, ONCE, PARTS, add_up, times

from . import plots, runs, stability, timelines
from .cells import COVERAGE, Plan
from .race import Race, Sample
from .section import Figure, Section, Sheet
from .stats import Samples, median
from .text import interval, number, percent, started, table, with_interval

ON, OFF = "profile-on", "profile-off"
PLAN = Plan("profiled-coverage", COVERAGE, OFF)
SEED_TOOK_MS = {ON: 74.8, OFF: 40.8}
"""Seed 000, section 2: averages per search on 8 cores."""
SEED_PHASES = {
    "network": (5, 0.11),
    "filter": (7, 0.17),
    "percentiles": (22, 0.54),
    "sums": (6, 0.15),
    "rest": (5, 0.12),
    "whole": (45.7, 1),
}
"""Seed 000, table 4.1: ms and share per search. Its shares are of took but the first, which is of wall."""
CALLS = (
    "round",
    "probe",
    "epoch",
    "asked_node",
    "took_ms",
    "wall_ms",
    "parse_ms",
    "request_bytes",
    "response_bytes",
    "docs_matched",
    "segments",
    "rewrite_ms",
    *(f"query_{part}_ms" for part in (*PARTS, "other")),
    "query_ms",
    "query_leaves_ms",
    "collector_ms",
    "collector_aggregations_ms",
    "fetch_ms",
)
"""Columns of ``es_profile_query_calls.csv`` after the start (UTC): one row per search."""
AGGREGATIONS = (
    "round",
    "epoch",
    "asked_node",
    "aggregation",
    "kind",
    *(f"{part}_ms" for part in AGGREGATION_PARTS),
    "docs_matched",
)
"""Columns of ``es_profile_query_aggs.csv`` after the start (UTC): one row per search with the profiler on and
aggregation."""

SHOWN_MS = 0.0005
"""Least time of a part that is shown."""

Values = Mapping[str, Samples]


def paired(race: Race) -> tuple[Values, Values]:
    """The numbers per search with the profiler and without, by key, aligned by round.

    They are means over the searches of a coverage; only what the profiler scales up from a sample of its calls is the
    median over them, since a pause that falls into a timed call is scaled up with it: with 33,000 documents up to 130
    times.
    """
    coverages = {operation: _by_round(race, "profiled-coverage", operation) for operation in (ON, OFF)}
    calls = _by_round(race, "profiled-call", f"{ON}-call")
    rounds = sorted(set(coverages[ON]) & set(coverages[OFF]) & set(calls))

    def means(operation: str) -> dict[str, Samples]:
        metas = [coverages[operation][r][0].meta for r in rounds]
        keys = [k for k in metas[0] if k.endswith(("_ms", "_bytes"))] if metas else []
        return {k: np.array([float(m[k]) / m["searches"] for m in metas]) for k in keys}

    on, off = means(ON), means(OFF)
    by_call = [[add_up([tree_of(s)], aggregation_kinds()) for s in calls[r]] for r in rounds]
    for key in by_call[0][0] if rounds else ():
        if not key.startswith("collector"):
            on[key] = np.array([np.median([call[key] for call in found]) for found in by_call])
    return on, off


def _by_round(race: Race, kind: str, operation: str) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for sample in race.of(kind):
        if sample.cell == operation:
            found.setdefault(sample.meta["round"], []).append(sample)
    return found


def tree_of(call: Sample) -> dict[str, float]:
    """The times of a call's profile, see :func:`cluster_metrics.profile_tree.times`."""
    return {key: call.meta[key] for key in times({"shards": []}, aggregation_kinds())}


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


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a round in which both coverages succeeded."""
    on, off = paired(race)
    if not on or not off:
        return []
    return [
        Section("What the profiler costs", _inflation(on, off)),
        Section("Where the time of one search goes", _phases(on, off), [_phases_figure(on, off)]),
        Section("The profile tree", _tree(on)),
        Section("The aggregations in the profile tree", _aggregations(race), [_aggregations_figure(race)]),
        Section("How far to trust this", stability.text(race, PLAN), [_rounds_figure(race)]),
    ]


def sheets(race: Race) -> list[Sheet]:
    """The calls, and the profiled calls by aggregation, as CSV files."""
    calls = race.of("profiled-call")
    rows = [s.meta | {"probe": s.cell.split("-")[1], "started": started(s)} for s in calls]
    by_aggregation = [
        s.meta
        | {part: s.meta[f"{name}_{part}"] for part in (f"{p}_ms" for p in AGGREGATION_PARTS)}
        | {"aggregation": name, "kind": kind, "started": started(s)}
        for s in calls
        if s.cell == f"{ON}-call"
        for name, kind in aggregation_kinds().items()
    ]
    return [
        Sheet("es_profile_query_calls.csv", ("started", *CALLS), rows),
        Sheet("es_profile_query_aggs.csv", ("started", *AGGREGATIONS), by_aggregation),
    ]


def _inflation(on: Values, off: Values) -> str:
    seed = f"{SEED_TOOK_MS[ON]} / {SEED_TOOK_MS[OFF]} = {SEED_TOOK_MS[ON] / SEED_TOOK_MS[OFF]:.2f} ×"
    rows = []
    for key, text in (("took_ms", "took ms"), ("wall_ms", "wall ms"), ("response_bytes", "response bytes")):
        with_it, without, ratio = (median(values) for values in (on[key], off[key], over(on[key], off[key])))
        both = [with_interval(estimate) for estimate in (with_it, without)]
        rows.append([text, ratio.n, *both, f"{number(ratio.value)} ×", interval(ratio)])
        rows[-1].append(seed if key == "took_ms" else "–")
    head = ["per search", "n", "profiler on", "profiler off", "ratio", "95 % interval", "seed"]
    return (
        "The production query (D_td, serial) with `profile: true` and without, averaged over the searches of a "
        "coverage: median over rounds, the ratio formed within each round. Elasticsearch cuts `took` to whole "
        "milliseconds, so each search shows half a millisecond too little on average.\n\n" + table(head, rows)
    )


def phases(on: Values, off: Values) -> list[tuple[str, str, Samples]]:
    """The phases of one search without profiler.

    :return: of each its name, its key in :data:`SEED_PHASES` (or none), and its ms per round. The last is the whole,
        the first five add up to it, and the three before the whole to the fifth.
    """
    scale = over(off["took_ms"], on["took_ms"])
    filtering = filter_ms(on) * scale
    percentiles, sums = (collect_ms(on, kind) * scale for kind in ("percentiles", "sums"))
    rest = off["took_ms"] - filtering - percentiles - sums
    building = build_ms(on) * scale
    collectors = (on["collector_ms"] - on["collector_aggregations_ms"]) * scale
    whole = off["wall_ms"] + off["parse_ms"]
    return [
        ("network and JSON parse (wall − took + parse)", "network", whole - off["took_ms"]),
        ("filter", "filter", filtering),
        ("collect: 3 percentiles, t-digest", "percentiles", percentiles),
        ("collect: 3 sums", "sums", sums),
        ("build and reduce: the rest of took", "rest", rest),
        ("… of it aggregations building, in the tree", "", building),
        ("… of it other collectors", "", collectors),
        ("… of it unexplained", "", rest - building - collectors),
        ("whole (wall + parse)", "whole", whole),
    ]


def _phases(on: Values, off: Values) -> str:
    found = phases(on, off)
    whole = found[-1][2]
    rows = []
    for text, seed, values in found:
        ms, share, of_took = (median(v) for v in (values, over(values, whole), over(values, off["took_ms"])))
        row = [text, fine(ms.value), interval(ms, fine), percent(share.value), interval(share, percent)]
        row += [percent(of_took.value) if seed not in ("network", "whole") else "–", "–", "–"]
        if seed:
            row[-2:] = [f"{SEED_PHASES[seed][0]}", f"{100 * SEED_PHASES[seed][1]:.0f} %"]
        rows.append(row)
    head = ["phase, per search", "ms", "95 % interval", "share", "95 % interval", "of took", "seed ms", "seed share"]
    return (
        "Each phase's time in the profile tree, as a fraction of the same coverage's `took` with the profiler on, is "
        "multiplied by the `took` of the coverage without profiler of the same round; network and parse are measured "
        "without profiler. The filter is preparing the query plus its innermost queries' stepping through documents, "
        "and the time of the collector that feeds the aggregations is divided between percentiles and sums in "
        "proportion to their own.\n\n"
        + table(head, rows)
        + "\nThis supposes that the profiler slows all phases down alike. It does not: it weighs most on short steps, "
        "so filter and sums come out too high and the percentiles too low; the challenge query-decomp measures without "
        "profiler, by subtraction. `took` ends before the response is written as JSON, so writing it counts with the "
        "network, as does the part of a millisecond that `took` cuts off. Parsing alone takes "
        f"{fine(median(off['parse_ms']).value)} ms. The seed's first share is of its wall time, its others are of its "
        "`took`: compare them with that column.\n"
    )


def _phases_figure(on: Values, off: Values) -> Figure:
    """The parts of the table that add up; those of the rest in its place."""
    *found, (_, _, whole) = [p for p in phases(on, off) if p[1] != "rest"]
    names = [text.split(" (")[0].split(",")[0].removeprefix("… of it ") for text, _, _ in found]
    parts = [
        plots.Part(name, median(ms).value, median(over(ms, whole)).value) for name, (_, _, ms) in zip(names, found)
    ]
    caption = (
        "Parts of one search of the production query without profiler, network and parse included. Each is a median of "
        "its own, so they need not add up to the whole to the last digit."
    )
    return Figure(plots.stack(parts, plots.Part("whole", median(whole).value, 1.0)), caption)


def _rounds_figure(race: Race) -> Figure:
    cells = PLAN.cells(race)
    traces, spans = runs.by_round({f"profiler {cell.split('-')[1]}": cells[cell] for cell in (OFF, ON)}, "wall_ms")
    return Figure(timelines.timeline(traces, spans, "wall ms per coverage"), runs.ROUNDS_CAPTION)


def _tree(on: Values) -> str:
    query = [f"query_{part}_ms" for part in (*PARTS, "other")]
    lines = [("query: rewrite", on["rewrite_ms"])]
    lines += [(f"query: {key.removeprefix('query_').removesuffix('_ms')}", on[key]) for key in query]
    lines += [("query: all parts", on["query_ms"]), ("… of it documents in innermost queries", on["query_leaves_ms"])]
    lines += [("collectors", on["collector_ms"]), ("… of it aggregations", on["collector_aggregations_ms"])]
    for kind in ("percentiles", "sums"):
        lines += [(f"{kind}: {part}", on[f"{kind}_{part}_ms"]) for part in AGGREGATION_PARTS]
    tree = sum_of(on, ["rewrite_ms", "query_ms", "collector_ms", "fetch_ms"]) + build_ms(on)
    lines += [("fetch", on["fetch_ms"]), ("tree: rewrite, query, collectors, building, fetch", tree)]
    rows = []
    for text, values in lines:
        if np.median(values) >= SHOWN_MS:
            ms, share = median(values), median(over(values, on["took_ms"]))
            rows.append([text, fine(ms.value), interval(ms, fine), percent(share.value)])
    return (
        "Per search with the profiler on; parts below half a microsecond are left out. A query's time includes that "
        "of the queries inside it, the collectors' time includes the aggregations' collect and build_leaf_collector. "
        "Collectors are timed on every document: means over the searches of a round. Queries and aggregations are "
        "timed on a sample that is scaled up, with the clock readings and pauses in it: the median search of each "
        "round, and the tree may still exceed `took`. With several slices in parallel the times are sums over them."
        "\n\n" + table(["part", "ms", "95 % interval", "of took"], rows)
    )


def _typical(race: Race, *keys: str) -> Samples:
    """The sum of these times of the profiled calls: the median search of each round."""
    calls = _by_round(race, "profiled-call", f"{ON}-call")
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


def _aggregations(race: Race) -> str:
    kinds = aggregation_kinds()
    others = [p for p in AGGREGATION_PARTS if p != "collect"]
    others = [p for p in others if any(np.median(_typical(race, f"{name}_{p}_ms")) >= SHOWN_MS for name in kinds)]
    rows = []
    for name, kind in kinds.items():
        collect = median(_typical(race, f"{name}_collect_ms"))
        row = [name, kind, collect.n, fine(collect.value), interval(collect, fine), percent(collect.cv)]
        rows.append([*row, *(fine(float(np.median(_typical(race, f"{name}_{p}_ms")))) for p in others)])
    head = ["aggregation", "kind", "n", "collect ms", "95 % interval", "CV", *(f"{p} ms" for p in others)]
    return "The median search of each round, median over rounds, with the profiler on.\n\n" + table(head, rows)
