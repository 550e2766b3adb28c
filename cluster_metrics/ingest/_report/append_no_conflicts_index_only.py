"""Explains a race of append-no-conflicts-index-only: whether the cluster reaches its target."""

import math
from dataclasses import replace

import numpy as np

from _tools.report.race import Race
from _tools.report.section import Section
from _tools.report.stats import Estimate, Samples, mean, median
from _tools.report.table import Column, Table, Words
from _tools.report.text import interval, number, percent
from cluster_metrics.ingest.load import EPOCH, pace_of

from . import rates
from .ingest import documents, rate_section, row_bytes, sheets, times

__all__ = ["sections", "sheets"]

CLOSE = 0.05
"""Median and mean of the rate are close when they differ by no more than this."""
ON_TIME = 0.99
"""Part of the rate of a spike that counts as reached."""
BEHIND = 0.001
"""Seconds per second that a paced load may fall behind: 0.6 s in ten minutes."""
UNCLEAN = {
    "merge_ms": "merges_total_time",
    "merge_throttle_ms": "merges_total_throttled_time",
    "index_ms": "indexing_total_time",
    "refresh_ms": "refresh_total_time",
    "flush_ms": "flush_total_time",
}
"""What Rally calls the times that should be 0 before a race."""
LEFT_OUT = {
    "Max Throughput": "mostly that of the first seconds, before queues and merges fill up",
    "Min, mean and median Throughput": "means since the task began; the rate over time takes their place",
    "Min, median and max cumulative … across primary shards": "with one shard they repeat the sum",
    "Translog size": "what is left of it after the flushes of the force-merge",
    "Heap used for …": "0 since Elasticsearch 8, which no longer counts it",
    "Segment count": "over all indices of the cluster",
    "Ingest Pipeline …": "no pipeline takes part",
    "Throughput, latency of all other tasks": "each runs once, so they are no distribution",
}
"""Rows of Rally's summary that mean nothing in this kind of race, and why."""
FIRST_TIME = (
    "A *race* loads the corpus once; its *tasks* run one after the other, and index-append is the one that counts. "
    "Look first at whether all documents arrived (Documents), then at the steady rate (Target), then at how "
    "even it was (Rate over time), and last at single requests (Service time and latency).\n\n"
    "- The *mean* rate is what a long load lasts for; the *median* is the rate of a typical moment.\n"
    "- A *percentile* says how many requests were faster: 90 of 100 took no longer than the 90th.\n"
    "- *Service time* is what a request took; *latency* adds what it waited for its turn.\n"
    "- One race is one sample: race again, and compare with `make compare`, before you act on a small difference.\n"
    "- The rate of one shard is no unit to multiply: ten shards on a node share its cores and its disk.\n"
)


def sections(race: Race) -> list[Section]:
    """The sections of the report; none when the load was not finished."""
    if not race.of(EPOCH):
        return []
    return [
        Section("How to read this", [FIRST_TIME]),
        Section("Target", [*_clean(race), *_target(race)]),
        rate_section(race),
        Section("Service time and latency", times(race)),
        Section("Documents", [documents(race)]),
        Section(
            "Rows of Rally's summary to leave out",
            [
                Table(
                    "left out",
                    [Words("row", "row"), Words("why", "why")],
                    [{"row": row, "why": why} for row, why in LEFT_OUT.items()],
                )
            ],
        ),
    ]


def _clean(race: Race) -> list[str]:
    before = next((s.meta for s in race.of("ingest-begin")), {})
    lines = [
        f"{name} was {before[key]:,.0f} ms before the load, so the cluster was not in a defined clean state; Rally's "
        "cumulative times hold that, the figures of this report do not"
        for key, name in UNCLEAN.items()
        if before.get(key)
    ]
    for key, what in (("merges_current", "merges"), ("index_current", "indexing requests")):
        if before.get(key):
            lines.append(
                f"{before[key]:,.0f} {what} were under way when the load began, and shared the cluster with it"
            )
    if others := sum(s.meta["foreign_docs"] for s in race.of(EPOCH)):
        lines.append(f"{others:,.0f} documents were indexed into other indices meanwhile; race on a quiet cluster")
    return ["".join(f"- **Warning:** {line}.\n" for line in lines)] if lines else []


def _target(race: Race) -> list[str | Table]:
    found = rates.loads(race)
    pace, paced = pace_of(race.parameters), race.parameters["paced"]
    steady = _outside_spike(found[0], pace) if paced else rates.steady(found)
    if not len(steady):
        return [f"The load is too short for a steady window of {rates.LEAST_BUCKETS} buckets: load more rows."]
    average, middle = mean(steady), median(steady)
    to_gb = row_bytes(race) * 86_400 / 1e9
    rows = [
        {"what": name, "rate": e, "gb": e.value * to_gb}
        for name, e in (("steady rate, mean", average), ("steady rate, median", middle))
    ]
    if goal := pace["docs_per_second"]:
        rows.insert(0, {"what": "target", "rate": float(goal), "gb": goal * to_gb})
    columns = [Words("what", ""), Column("rate", "documents/s", form="{:,.0f}".format)]
    columns += [Column("gb", "GB of JSON per day")]
    told = [_paced(race, pace, average) if paced else _unpaced(pace["docs_per_second"], average)]
    if pace["spike_docs_per_second"]:
        told.append(_spike(found[0], pace, paced))
    return [Table("target", columns, rows), *told, _gap(average, middle)]


def _outside_spike(load: rates.Load, pace: dict[str, float]) -> Samples:
    """The rates of the steady window of a paced load without its spike."""
    seconds = load.width * np.arange(load.first, load.first + len(load.steady))
    spike = (seconds + load.width > pace["spike_seconds"]) & (seconds < 2 * pace["spike_seconds"])
    return load.steady[~spike]


def _unpaced(goal: float, average: Estimate) -> str:
    if not goal:
        return "No target was set (`target_docs_per_second` or `target_gb_per_day`), so there is nothing to reach.\n"
    if average.low >= goal:
        room = interval(average, lambda x: percent(x / goal - 1))
        return f"**Reached, with a headroom of {percent(average.value / goal - 1)}** {room} at full load.\n"
    part = f"{percent(average.value / goal)} of the target {interval(average, lambda x: percent(x / goal))}"
    return f"**{'Not reached' if average.high < goal else 'Too close to call'}:** the steady rate is {part}.\n"


def _paced(race: Race, pace: dict[str, float], average: Estimate) -> str:
    goal = pace["docs_per_second"]
    before = pace["spike_seconds"] if pace["spike_docs_per_second"] else math.inf
    found = rates.falling_behind(race, goal, before)
    kept = f"the load was paced and kept {percent(average.value / goal)} of the target's rate, leaving out a spike"
    hidden = "Pacing hides headroom; race without `paced` to see it.\n"
    if found is None:
        return f"**Too few requests to tell:** {kept}. {hidden}"
    verdict = "Reached" if found.high < BEHIND else "Not reached" if found.low > BEHIND else "Too close to call"
    late = f"{number(600 * found.value)} s {interval(replace(found, low=600 * found.low, high=600 * found.high))}"
    return (
        f"**{verdict}:** {kept}. The time at which requests were sent fell behind that at which they were due by "
        f"{late} in ten minutes; up to {600 * BEHIND:g} s count as none. {hidden}"
    )


def _spike(load: rates.Load, pace: dict[str, float], paced: bool) -> str:
    goal, seconds = pace["spike_docs_per_second"], pace["spike_seconds"]
    spike = f"spike of {goal:,.0f} documents/s for {seconds / 60:,.0f} min"
    buckets = round(seconds / load.width)
    if load.seconds < seconds or buckets > len(load.rates):
        return f"The load lasted {number(load.seconds)} s, too short for a {spike}.\n"
    if paced:
        best = float(np.mean(load.rates[buckets : 2 * buckets]))
    else:
        best = float(np.max(np.convolve(load.rates, np.ones(buckets) / buckets, mode="valid")))
    verdict = "reached" if best >= ON_TIME * goal else "not reached"
    where = "during it" if paced else "in the best stretch as long"
    return f"The {spike} was **{verdict}**: {best:,.0f} documents/s {where}.\n"


def _gap(average: Estimate, middle: Estimate) -> str:
    gap = middle.value / average.value - 1
    if abs(gap) <= CLOSE:
        return f"Median and mean differ by {percent(gap)}: the rate is even, and either may be quoted.\n"
    if gap > 0:
        return (
            f"The median is {percent(gap)} above the mean: most of the time the rate is higher, but stalls pull the "
            "mean down. Plan with the mean, and look for the stalls in the rate over time.\n"
        )
    return (
        f"The median is {percent(-gap)} below the mean: bursts pull the mean up. Plan with the median, since bursts "
        "do not last.\n"
    )
