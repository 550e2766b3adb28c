"""Three ways to the same answer: subtraction as in query-decomp, the profile API as in query-profile, and stacks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from _tools.report.cells import cells_of
from _tools.report.race import Race
from _tools.report.sampled import Sampled
from _tools.report.section import Section
from _tools.report.stacks import Stack, frames
from _tools.report.stats import Samples, mean
from _tools.report.table import Table, Words, share
from cluster_metrics.query._report.query_profile import collect_ms, filter_ms
from cluster_metrics.query.cpu_profile import PLAIN
from cluster_metrics.query.query_profile import COVERAGE, ON
from cluster_metrics.wire.questions import PRODUCTION

WHOLE = PRODUCTION.by("serial").name
NEEDED = ("A-serial", "B-serial", WHOLE)
PARTS = ("percentiles", "sums", "filter and visit", "the rest")
PERCENTILES = re.compile(r"org\.elasticsearch\.(tdigest\.|\S*TDigest)")
SUMS = re.compile(r"org\.elasticsearch\.\S*(SumAggregator|CompensatedSum)")
SEARCH = re.compile(r"org\.elasticsearch\.search\.internal\.ContextIndexSearcher\.")


def part(stack: Stack) -> str:
    """The part of the production query that a stack belongs to, whoever it calls."""
    for name, pattern in zip(PARTS, (PERCENTILES, SUMS, SEARCH)):
        if any(pattern.match(frame) for frame in stack):
            return name
    return PARTS[-1]


def by_subtraction(values: Mapping[str, Samples]) -> dict[str, Samples]:
    """Shares of the production query by what is taken away from it: its percentiles, its sums, all aggregations.

    :param values: time or CPU time of :data:`NEEDED` by round.
    """
    a, b, whole = (values[name] for name in NEEDED)
    return {"percentiles": (whole - b) / whole, "sums": (b - a) / whole, "filter and visit": a / whole}


def sections(race: Race, found: Sampled) -> list[Section]:
    """The shares of the production query's parts three ways; none where the race lacks a configuration."""
    cells, api = cells_of(race, PLAIN), cells_of(race, COVERAGE)
    if WHOLE not in found.names or not cells.has(*NEEDED):
        return []
    ways: dict[str, dict[str, Samples]] = {
        "wall": by_subtraction(dict(zip(NEEDED, cells.values("wall_ms", *NEEDED)))),
        "stacks": _stacks(found),
    }
    if all("target_cpu_ms" in s.meta for name in NEEDED for s in cells.samples(name).values()):
        ways["cpu"] = by_subtraction(dict(zip(NEEDED, cells.values("target_cpu_ms", *NEEDED))))
    if api.has(ON):
        ways["api"] = _api([s.meta for s in api.samples(ON).values()])
    rows = []
    for name in PARTS:
        known = {way: mean(shares[name]) for way, shares in ways.items() if name in shares}
        rows.append({"part": name} | known)
    columns = [
        Words("part", f"part of {WHOLE}"),
        share("wall", "subtraction, wall"),
        share("cpu", "subtraction, target CPU"),
        share("api", "profile API"),
        share("stacks", "stacks"),
    ]
    text = (
        "The same question three ways, as shares of the production query: what is left of time and of the target's CPU "
        "time when aggregations are taken away (A: filter, B: with sums); the times of Elasticsearch's own profiler "
        '(`"profile": true`) as shares of its `took`; and the samples whose stacks have the aggregator in them, '
        "whoever it calls, as shares of all samples."
    )
    after = (
        "They measure different things. Subtraction charges a part with whatever goes when it goes: what A and B leave "
        "out also frees caches and lets code be compiled otherwise, and A counts its hits without visiting them, so "
        "visiting is charged to the sums. Wall time has network, client and decoding in it, on which the target spends "
        "no CPU time. The profile API reads a clock around short steps, which makes filter and sums look dearer and "
        "percentiles cheaper than they are; its rest is building and reducing the answers, and what `took` has beyond "
        "its tree. Stacks miss nothing that uses "
        "CPU, garbage collector and compiler included, and charge inlined code to the method that it was written in; "
        "they see no waiting."
    )
    largest = _largest(rows)
    return [Section("Three ways to the same answer", [text, Table("three ways", columns, rows), f"{largest} {after}"])]


def _largest(rows: list[dict]) -> str:
    """Where the ways differ most, in words."""
    spans = {r["part"]: {w: e.value for w, e in r.items() if w != "part"} for r in rows}
    worst = max(spans, key=lambda name: max(spans[name].values()) - min(spans[name].values()))
    low, high = (f(spans[worst], key=lambda w: spans[worst][w]) for f in (min, max))
    words = {"wall": "subtraction of wall times", "cpu": "subtraction of CPU times", "api": "the profile API"}
    return (
        f"They differ most on {worst}: {100 * spans[worst][low]:.1f} % by {words.get(low, low)}, "
        f"{100 * spans[worst][high]:.1f} % by {words.get(high, high)}."
    )


def _stacks(found: Sampled) -> dict[str, Samples]:
    parts = frames(found.profile, lambda stack: [(part(stack),)])
    times = parts.times(found.counted[WHOLE], found.period_ms(WHOLE))
    level = np.maximum(found.whole[WHOLE], found.period_ms(WHOLE))
    return {name: times[:, parts.names.index((name,))] / level for name in PARTS if (name,) in parts.names}


def _api(metas: Sequence[Mapping[str, Any]]) -> dict[str, Samples]:
    on = {key: np.array([float(m[key]) for m in metas]) for key in metas[0] if key.endswith("_ms")}
    took = np.maximum(on["took_ms"], 1.0)
    shares = {
        "percentiles": collect_ms(on, "percentiles") / took,
        "sums": collect_ms(on, "sums") / took,
        "filter and visit": (filter_ms(on) + on["collector_ms"] - on["collector_aggregations_ms"]) / took,
    }
    return shares | {"the rest": 1 - sum(shares.values(), np.zeros_like(took))}
