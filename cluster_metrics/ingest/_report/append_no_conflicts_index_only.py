"""Explains a race of append-no-conflicts-index-only: whether the cluster reaches its target."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from _tools.report import stability
from _tools.report.answer import Finding, RaceWarning
from _tools.report.race import Race
from _tools.report.references import INGEST_ONLY
from _tools.report.section import Section
from _tools.report.stats import Estimate, Samples, mean, median
from _tools.report.table import Column, Table, Words
from _tools.report.text import interval, number, percent
from cluster_metrics.ingest.load import EPOCH, pace_of

from . import rates
from .bottleneck import finding
from .ingest import (
    SUMMARY,
    arrived,
    documents,
    held_back,
    held_back_section,
    rate_section,
    row_bytes,
    sheets,
    steady_rate,
    times,
)

__all__ = ["SUMMARY", "answer", "sections", "sheets", "warnings"]

CLOSE = 0.05
"""Median and mean of the rate are close when they differ by no more than this."""
ON_TIME = 0.99
"""Part of the rate of a spike that counts as reached."""
BEHIND = 0.001
"""Seconds per second that a paced load may fall behind: 0.6 s in ten minutes."""
CAUGHT_UP = 3
"""Times the length of a spike after which a paced load is read again: it begins after one and lasts one, and clients
that fell behind have one to catch up in."""
REACHED = "reached"
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
    "Look first at what held it back, then at whether all documents arrived (Documents), then at the steady rate "
    "(Target), then at how even it was (Rate over time), and last at single requests (Service time and latency).\n\n"
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
    columns = [Words("row", "row", of=str), Words("why", "why", of=LEFT_OUT.get)]
    return [
        held_back_section(race, _on_time(race)),
        Section("How to read this", [FIRST_TIME]),
        Section("Target", _target(race)),
        rate_section(race),
        Section("Service time and latency", times(race)),
        Section("Documents", [documents(race)]),
        Section("How far to trust this", ["".join(stability.told(warnings(race)))]),
        Section("Rows of Rally's summary to leave out", [Table.of("left out", columns, LEFT_OUT)]),
    ]


def warnings(race: Race) -> list[RaceWarning]:
    """What speaks against the figures: a target that was missed, a cluster that was not clean or not alone."""
    if not race.of(EPOCH):
        return []
    before = next((s.meta for s in race.of("ingest-begin")), {})
    found = [
        RaceWarning(
            "not-clean",
            f"{name} was {before[key]:,.0f} ms before the load",
            "race on a cluster that was just started",
            "so the cluster was not in a defined clean state; Rally's cumulative times hold that, the figures of this "
            "report do not",
            before[key],
        )
        for key, name in UNCLEAN.items()
        if before.get(key)
    ]
    for key, what in (("merges_current", "merges"), ("index_current", "indexing requests")):
        if before.get(key):
            seen = f"{before[key]:,.0f} {what} were under way when the load began"
            found.append(RaceWarning("not-alone", seen, "wait until they end", "they shared the cluster", before[key]))
    if others := sum(s.meta["foreign_docs"] for s in race.of(EPOCH)):
        seen = f"{others:,.0f} documents were indexed into other indices meanwhile"
        if others < 0:
            seen = "other indices were deleted or moved meanwhile, what was indexed into them is not known"
        found.append(RaceWarning("not-alone", seen, "race on a quiet cluster", "figures hold that work", others))
    missed = _missed(race)
    return [missed, *found] if missed else found


def reference(race: Race) -> list[str | Table]:
    """The source of what to look at."""
    return [INGEST_ONLY.cited]


def _missed(race: Race) -> RaceWarning | None:
    """The warning where the steady rate is below the target, or that of a spike."""
    pace, steady = pace_of(race.parameters), _steady(race)
    goal, spike, best = pace["docs_per_second"], pace["spike_docs_per_second"], _best_in_spike(race)
    if goal and len(steady) and (verdict := _verdict(race, goal, mean(steady))) != REACHED:
        seen, part = f"target {verdict}: the steady rate is", mean(steady).value / goal
    elif spike and best is None:
        seen = f"the load is too short for its spike of {pace['spike_seconds'] / 60:,.0f} min, which is not shown"
        return RaceWarning("target-missed", seen, "load more rows", "this cluster is not shown to carry it")
    elif spike and best is not None and best < ON_TIME * spike:
        seen, part = "target not reached in the spike: the rate is", best / spike
    else:
        return None
    found = held_back(race, _on_time(race))
    why = "this cluster is not shown to carry the load"
    if found.of_client:
        why = f"what held it back was {found.name}, so the cluster may carry more"
    advice = found.option or "lower the target"
    return RaceWarning("target-missed", f"{seen} {percent(part)} of it", advice, why, part)


def _on_time(race: Race) -> bool:
    """Whether the load was paced and did not fall behind, nor in its spike."""
    pace, steady, best = pace_of(race.parameters), _steady(race), _best_in_spike(race)
    if best is not None and best < ON_TIME * pace["spike_docs_per_second"]:
        return False
    return bool(
        race.parameters["paced"] and len(steady) and _verdict(race, pace["docs_per_second"], mean(steady)) == REACHED
    )


def answer(race: Race) -> Iterator[Finding]:
    """Whether the target is reached, the rate, and what became of the documents."""
    if not race.of(EPOCH):
        return
    goal, steady, found = pace_of(race.parameters)["docs_per_second"], _steady(race), held_back(race, _on_time(race))
    yield finding(found)
    if goal and len(steady):
        average = mean(steady)
        part = f"{percent(average.value / goal)} {interval(average, lambda x: percent(x / goal))}"
        verdict = _verdict(race, goal, average)
        unknown = verdict != REACHED and found.of_client
        by = " by these clients, what the cluster can take is not shown" if unknown else ""
        text = f"{verdict}{by}: {part} of {goal:,.0f} documents/s"
        yield Finding("target", text, {"rate": average})
    if spike := pace_of(race.parameters)["spike_docs_per_second"]:
        best = _best_in_spike(race)
        told = "not shown: the load is too short" if best is None else _of_spike(best, spike)
        rate = "" if best is None else f": {best:,.0f} of {spike:,.0f} documents/s"
        yield Finding("spike", f"{told}{rate}")
    if not race.parameters["paced"]:  # else it is the rate that was asked for
        yield steady_rate(race)
    if len(steady):
        gap = median(steady).value / mean(steady).value - 1
        text = f"{stability.signed(gap)} off its mean: the rate is {'even' if abs(gap) <= CLOSE else 'uneven'}"
        yield Finding("its median", text)
    yield arrived(race)


def _steady(race: Race) -> Samples:
    """The rates that are held against the target; none for a load that is too short."""
    found, pace = rates.loads(race), pace_of(race.parameters)
    return _outside_spike(found[0], pace) if race.parameters["paced"] else rates.steady(found)


def _target(race: Race) -> list[str | Table]:
    pace, steady = pace_of(race.parameters), _steady(race)
    if not len(steady):
        return [f"The load is too short for a steady window of {rates.LEAST_BUCKETS} buckets: load more rows."]
    average, middle, goal = mean(steady), median(steady), pace["docs_per_second"]
    to_gb = row_bytes(race) * 86_400 / 1e9
    rows = [
        {"what": name, "rate": e, "gb": e.value * to_gb}
        for name, e in (("steady rate, mean", average), ("steady rate, median", middle))
    ]
    if goal:
        rows.insert(0, {"what": "target", "rate": float(goal), "gb": goal * to_gb})
    columns = [Words("what", ""), Column("rate", "documents/s", form="{:,.0f}".format)]
    columns += [Column("gb", "GB of JSON per day")]
    verdicts = [_told(race, goal, average)]
    if pace["spike_docs_per_second"]:
        verdicts.append(_spike(race, pace["spike_docs_per_second"], pace["spike_seconds"]))
    return [Table("target", columns, rows), *verdicts, _gap(average, middle)]


def _outside_spike(load: rates.Load, pace: dict[str, float]) -> Samples:
    """The rates of the steady window of a paced load without its spike, and without as much time after it, in which
    clients that fell behind catch up."""
    seconds = load.width * np.arange(load.first, load.first + len(load.steady))
    spike = (seconds + load.width > pace["spike_seconds"]) & (seconds < CAUGHT_UP * pace["spike_seconds"])
    return load.steady[~spike]


def _verdict(race: Race, goal: float, average: Estimate) -> str:
    """Whether a steady rate reaches the target."""
    if race.parameters["paced"]:
        late = _behind(race)
        if late is None:
            return "too few requests to tell"
        return REACHED if late.high < BEHIND else "not reached" if late.low > BEHIND else "too close to call"
    if average.low >= goal:
        return REACHED
    return "not reached" if average.high < goal else "too close to call"


def _told(race: Race, goal: float, average: Estimate) -> str:
    """The verdict in a paragraph."""
    if not goal:
        return "No target was set (`target_docs_per_second` or `target_gb_per_day`), so there is nothing to reach.\n"
    verdict = _verdict(race, goal, average).capitalize()
    if race.parameters["paced"]:
        return (
            f"**{verdict}:** the load was paced and kept {percent(average.value / goal)} of the target's rate, leaving "
            f"out a spike and as much time after it.{_late(race)} Pacing hides headroom; race without `paced` to see "
            "it.\n"
        )
    if average.low >= goal:
        room = interval(average, lambda x: percent(x / goal - 1))
        return f"**{verdict}, with a headroom of {percent(average.value / goal - 1)}** {room} at full load.\n"
    part = f"{percent(average.value / goal)} of the target {interval(average, lambda x: percent(x / goal))}"
    found = held_back(race, _on_time(race))
    by = " by these clients" if found.of_client else ""
    so = " What it can take is not shown." if found.of_client else ""
    return f"**{verdict}{by}:** the steady rate is {part}. Held back by {found.text}.{so}\n"


def _behind(race: Race) -> Estimate | None:
    """How far a paced load fell behind its target, see :func:`.rates.falling_behind`: before its spike or, where that
    is too short to tell, once as much time as the spike took has passed since."""
    pace = pace_of(race.parameters)
    goal, seconds = pace["docs_per_second"], pace["spike_seconds"]
    if not pace["spike_docs_per_second"]:
        return rates.falling_behind(race, goal)
    return rates.falling_behind(race, goal, 0, seconds) or rates.falling_behind(race, goal, CAUGHT_UP * seconds)


def _late(race: Race) -> str:
    """How far a paced load fell behind, in a sentence."""
    found = _behind(race)
    if found is None:
        return ""
    late = replace(found, value=600 * found.value, low=600 * found.low, high=600 * found.high)
    return (
        f" The time at which requests were sent fell behind that at which they were due by {number(late.value)} s "
        f"{interval(late)} in ten minutes; up to {600 * BEHIND:g} s count as none."
    )


def _best_in_spike(race: Race) -> float | None:
    """Documents/s during the spike of a paced load, or in the best stretch as long; None for a load that is too short,
    or that has no spike."""
    load, pace = rates.loads(race)[0], pace_of(race.parameters)
    seconds, paced = pace["spike_seconds"], race.parameters["paced"]
    if not pace["spike_docs_per_second"] or load.seconds < (2 if paced else 1) * seconds:
        return None
    at, documents = load.course
    # a paced load's first request is due when its documents are
    first = race.parameters["bulk_size"] / pace["docs_per_second"] if paced else 0.0
    begins = np.array([seconds - first]) if paced else at[at <= load.seconds - seconds]
    done = np.interp([begins, begins + seconds], at, documents)
    return float(np.max(done[1] - done[0]) / seconds)


def _spike(race: Race, goal: float, seconds: float) -> str:
    spike, best = f"spike of {goal:,.0f} documents/s for {seconds / 60:,.0f} min", _best_in_spike(race)
    if best is None:
        return f"The load lasted {number(rates.loads(race)[0].seconds)} s, too short for a {spike}.\n"
    verdict = _of_spike(best, goal)
    where = "during it" if race.parameters["paced"] else "in the best stretch as long"
    return f"The {spike} was **{verdict}**: {best:,.0f} documents/s {where}.\n"


def _of_spike(best: float, goal: float) -> str:
    """Whether a rate reaches that of a spike."""
    return REACHED if best >= ON_TIME * goal else "not reached"


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
