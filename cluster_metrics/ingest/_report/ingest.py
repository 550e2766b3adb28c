"""Explains an ingest race: where the time of each epoch goes, and the true rate over time."""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from _tools.report import plots, stability
from _tools.report.answer import Finding
from _tools.report.race import Race, Sample
from _tools.report.references import PROFILING, beside
from _tools.report.sample import columns
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, Samples, mean, median
from _tools.report.table import Column, Made, Table, Words
from _tools.report.text import count, interval, number, percent, started
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.ingest.account import REPEATED
from cluster_metrics.ingest.load import BULK, EPOCH, FIGURES

from . import rates
from .bottleneck import Bottleneck, bottleneck, explained, finding, table
from .course import over_time
from .usage import Usage, of_load, of_processes, pooled

REFERENCE_SHARES = {"client": 0.47, "indexing": 0.42, "other": 0.11}
"""Section 3 of PROFILING: of one epoch of a million rows, by one client in bulk requests of 1,000 rows."""
REFERENCE_EPOCHS_MS = {
    "wall_ms": (75_651, 78_071, 80_588, 73_398, 76_628),
    "took_ms": (39_803, 40_425, 41_820, 39_001, 38_241),
    "index_ms": (32_622, 34_701, 35_397, 32_698, 34_344),
    "refresh_ms": (2_892, 1_347, 3_028, 408, 1_168),
    "merge_ms": (2_575, 0, 0, 0, 565),
    "flush_ms": (1_626, 2_296, 1_307, 3_318, 2_629),
}
"""The same section, by epoch; its merges moved 31.6 and 16.3 MB in the first epoch and the last."""
COUNTED = {
    "took_ms": "took, sum",
    "index_ms": "index",
    "refresh_ms": "refresh",
    "merge_ms": "merge",
    "flush_ms": "flush",
}
"""What the target counts of an epoch, in ms, beside its wall time."""
PERCENTILES = {"50_0": "50", "90_0": "90", "99_0": "99", "99_9": "99.9", "99_99": "99.99", "100_0": "100"}
"""As Rally's results call them."""
BATCHES = ("epoch", "batch", "client", "rows", "wall_ms", "took_ms", *FIGURES, "errors")
"""Columns of ``es_profile_ingest_batches.csv`` after the start (UTC): one row per bulk request."""
EPOCHS = (
    *("epoch", "rows", "wall_ms", "took_sum_ms", "index_ms", "refresh_ms", "merge_ms", "flush_ms", "merge_mb"),
    *("translog_mb", "target_cpu_ms", "gc_young_ms", "gc_old_ms", *REPEATED),
)
"""Columns of ``es_profile_ingest_epoch.csv``: one row per epoch."""


FEW_TOOKS = 10
"""Fewer than so many ``took`` may have a common divisor by chance: so many have one in a case of a thousand."""
SUMMARY = "throughput is a mean since the task began, so it lags behind the rate; cumulative times are of all indices"


def answer(race: Race) -> Iterator[Finding]:
    """The rate, where the time goes, what the target spends, and what became of the documents."""
    epochs = race.of(EPOCH)
    if not epochs:
        return
    found = parts(epochs)
    yield finding(held_back(race))
    yield steady_rate(race)
    shares = {NAMES[key][0]: mean(found[key] / found["whole"]) for key in NAMES}
    told = "; ".join(f"{name} {percent(e.value)} {interval(e, percent)}" for name, e in shares.items())
    yield Finding("client time", told, shares)
    cpu = target_cpu(epochs)
    yield Finding("target's CPU", f"{number(cpu.value)} s {interval(cpu)} per million rows", {"cpu_s": cpu})
    yield arrived(race)


def held_back(race: Race, on_time: bool = False) -> Bottleneck:
    """What held the loads of a race back.

    :param on_time: whether they were paced and did not fall behind.
    """
    return bottleneck(pooled([*_used(race, on_time).values()]))


def held_back_section(race: Race, on_time: bool = False) -> Section:
    """What held each load back, with the figures that say so and the rules."""
    used = _used(race, on_time)
    told = [of_processes(pooled([*used.values()]))]
    text = f"**{held_back(race, on_time).text}.**"
    return Section("What held it back", [text, table(used, "epoch"), *filter(None, told), explained()])


def _used(race: Race, on_time: bool) -> dict[str, Usage]:
    """What each load used up, by epoch; see :func:`held_back`."""
    return {epoch: replace(usage, on_time=on_time) for epoch, usage in race.once(_usages).items()}


def _usages(race: Race) -> dict[str, Usage]:
    of = ((str(load.epoch or "all"), of_load(race, load)) for load in rates.loads(race))
    return {epoch: usage for epoch, usage in of if usage}


def steady_rate(race: Race) -> Finding:
    """The rate at which documents were acknowledged, without the beginning and the end of each load."""
    steady = rates.steady(rates.loads(race))
    if not len(steady):
        return Finding("steady rate", f"none: a load is too short for a window of {rates.LEAST_BUCKETS} buckets")
    rate = mean(steady)
    shown = interval(rate, "{:,.0f}".format)
    return Finding("steady rate", f"{rate.value:,.0f} documents/s {shown}", {"rate": rate})


def target_cpu(epochs: Sequence[Sample]) -> Estimate:
    """CPU time of the target in s per million rows."""
    return median(np.array([s.meta["target_cpu_ms"] / 1000 / (s.meta["acknowledged"] / 1e6) for s in epochs]))


def arrived(race: Race) -> Finding:
    """What became of the documents, in one line."""
    sent, acknowledged, found = (sum(s.meta[k] for s in race.of(EPOCH)) for k in ("sent", "acknowledged", "found"))
    text = f"{sent:,} sent, {acknowledged:,} acknowledged, {found:,} found; {repeated(race)}"
    return Finding("documents", text)


def repeated(race: Race) -> str:
    """How often documents were sent again that a full queue rejected, and how long the clients paused before; races
    before that was recorded have the requests alone."""
    epochs = race.of(EPOCH)
    retries, docs, wait_ms = (sum(s.meta.get(key, 0) for s in epochs) for key in REPEATED)
    if not retries:
        return "no request repeated"
    clients_ms = sum(_at_work_ms(s) for s in epochs)
    if "repeated_docs" not in epochs[0].meta:
        return f"{retries:,.0f} requests repeated after status 429"
    return (
        f"{docs:,} documents sent again by {count(retries, 'request')} after status 429, after pauses of "
        f"{number(wait_ms / 1000)} s ({percent(wait_ms / clients_ms)} of the clients' time)"
    )


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without an epoch."""
    if not race.of(EPOCH):
        return []
    return [
        held_back_section(race),
        Section("Where the time goes", [*_shares(race), _shares_figure(race)]),
        Section("What the target did", _target(race)),
        rate_section(race),
        Section("Service time and latency", times(race)),
        Section("Documents", [documents(race)]),
        *stability.sections(race),
    ]


def reference(race: Race) -> list[str | Table]:
    """The figures of one client with 8 cores beside those of this race."""
    epochs = race.of(EPOCH)
    if not epochs:
        return []
    found = parts(epochs)
    shares = [(NAMES[k][0], mean(found[k] / found["whole"]), part) for k, part in REFERENCE_SHARES.items()]
    rows = [s.meta["acknowledged"] / 1e6 for s in epochs]
    counted = [
        (name, float(np.mean([s.meta[k] / r for s, r in zip(epochs, rows)])), sum(REFERENCE_EPOCHS_MS[k]) / 5)
        for k, name in ({"wall_ms": "wall"} | COUNTED).items()
    ]
    return [
        f"{PROFILING.cited} One client sent 1,000 rows a request.",
        beside("reference shares", shares, form=percent),
        "ms per million rows, means over epochs:",
        beside("reference epochs", counted),
    ]


def sheets(race: Race) -> list[Table]:
    """The epochs and the bulk requests, as CSV files."""
    epochs = [
        dict(s.meta)
        | {
            "rows": s.meta["acknowledged"],
            "took_sum_ms": s.meta["took_ms"],
            "merge_mb": s.meta["merge_bytes"] / 1e6,
            "translog_mb": s.meta["translog_bytes"] / 1e6,
        }
        for s in race.of(EPOCH)
    ]
    of_epochs: dict[int, list[Sample]] = {}
    for s in race.of(BULK):
        of_epochs.setdefault(s.meta["epoch"], []).append(s)
    bulks = [*chain(*of_epochs.values())]
    numbers = array("L", chain(*(range(1, 1 + len(of)) for of in of_epochs.values())))

    def batches(part: slice) -> dict[str, Sequence[Any]]:
        return _batches(bulks[part]) | {"batch": numbers[part]}

    heads = [Column(k, k) for k in ("started", *BATCHES)]
    return [
        Table("es_profile_ingest_epoch.csv", [Column(k, k) for k in EPOCHS], epochs),
        Table("es_profile_ingest_batches.csv", heads, Made(len(bulks), batches)),
    ]


def _batches(bulks: Sequence[Sample]) -> dict[str, Sequence[Any]]:
    """Columns of bulk requests."""
    found = columns([s.meta for s in bulks], ("epoch", "client", "took", "success-count", "error-count", *FIGURES))
    rows = [done + errors for done, errors in zip(found["success-count"], found["error-count"])]
    found |= {"started": [started(s.at) for s in bulks], "wall_ms": [s.value for s in bulks], "rows": rows}
    return found | {"took_ms": found["took"], "errors": found["error-count"]}


def parts(epochs: Sequence[Sample]) -> dict[str, Samples]:
    """Client time in s per million rows, by epoch: ``whole``, and the parts that add up to it.

    Client time is wall time times clients, since each client waits for its own requests. ``idle`` is what of it a
    client did not work, since it began later or was done earlier than others, ``client`` (client and network) what of
    the rest is no ``took``, ``indexing`` the target's time for indexing, ``other`` the rest of ``took``.
    """
    rows = np.array([s.meta["acknowledged"] / 1e6 for s in epochs])
    whole = np.array([s.meta["wall_ms"] * s.meta["clients"] / 1000 for s in epochs]) / rows
    at_work = np.array([_at_work_ms(s) / 1000 for s in epochs]) / rows
    took = np.array([s.meta["took_ms"] / 1000 for s in epochs]) / rows
    index = np.array([s.meta["index_ms"] / 1000 for s in epochs]) / rows
    shares = {"client": at_work - took, "indexing": index, "other": took - index, "idle": whole - at_work}
    return shares | {"whole": whole}


def _at_work_ms(epoch: Sample) -> float:
    """Time that clients were at work; races before it was recorded had them at work to the end."""
    return float(epoch.meta.get("clients_ms", epoch.meta["wall_ms"] * epoch.meta["clients"]))


NAMES = {
    "client": ("client and network", "(at work − took)"),
    "indexing": ("indexing", ""),
    "other": ("other in Elasticsearch", "(took − indexing)"),
    "idle": ("idle", "(begun later or done earlier than other clients)"),
}
"""The parts, and what stands behind their names in a table."""


def _shares(race: Race) -> list[str | Table]:
    epochs = race.of(EPOCH)
    found = parts(epochs)
    whole = found["whole"]
    rows: list[dict] = []
    for i, epoch in enumerate(epochs):
        of_parts = {k: f"{number(found[k][i])} ({percent(found[k][i] / whole[i])})" for k in NAMES}
        rows.append({"epoch": str(epoch.meta["epoch"]), "wall_s": epoch.meta["wall_ms"] / 1000, "whole": whole[i]})
        rows[-1] |= of_parts
    middle = {k: mean(v) for k, v in found.items()}
    shares = {k: mean(found[k] / whole) for k in NAMES}
    wall = float(np.mean([s.meta["wall_ms"] / 1000 for s in epochs]))
    rows.append({"epoch": "mean", "wall_s": wall, "whole": middle["whole"].value})
    rows[-1] |= {k: f"{number(middle[k].value)} ({percent(shares[k].value)})" for k in NAMES}
    rows.append({"epoch": "95 %", "wall_s": "", "whole": interval(middle["whole"])})
    rows[-1] |= {k: f"{interval(middle[k])} ({interval(shares[k], percent)})" for k in NAMES}
    clients = epochs[0].meta["clients"]
    send, parse = (sum(s.meta[k] for s in epochs) for k in ("send_ms", "parse_ms"))
    took, total = sum(s.meta["took_ms"] for s in epochs), sum(s.meta["wall_ms"] * clients for s in epochs)
    columns = [Words("epoch", "epoch"), Column("wall_s", "wall", "s"), Column("whole", "s per million rows")]
    columns += [Column(key, " ".join(filter(None, name))) for key, name in NAMES.items()]
    between = sum(_at_work_ms(s) for s in epochs) - send - parse
    before = (
        f"Client time (wall time × {clients} client(s)) in s per million rows, with its share. Indexing is what the "
        "shards count themselves, so with several of them, or replicas, it can exceed `took`."
    )
    after = (
        f"Of the whole, {percent((send - took) / total)} is what requests took beyond `took` (network, queueing, "
        f"reading and writing), {percent(parse / total)} decoding responses, and {percent(between / total)} "
        f"what the clients did between requests, Rally's own work included. {_resolution(race)}"
    )
    return [before, Table("shares", columns, rows), after]


def _resolution(race: Race) -> str:
    """Says how fine ``took`` is, which on a node with default settings is no finer than 200 ms."""
    seen = [took for s in race.of(BULK) if (took := s.meta["took"])]
    if len(seen) < FEW_TOOKS:
        return f"`took` was above 0 in {count(len(seen), 'request')}, too few to tell how fine the node's clock is."
    step = math.gcd(*seen)
    if step > 1:
        return (
            f"**All `took` are multiples of {step} ms: the node's clock is that coarse, so shares are right only over "
            "many requests** (`thread_pool.estimated_time_interval`)."
        )
    return "`took` was seen in whole milliseconds."


def _shares_figure(race: Race) -> Figure:
    found = parts(race.of(EPOCH))
    shown = [plots.Part(NAMES[k][0], mean(found[k]), float(np.mean(found[k] / found["whole"]))) for k in NAMES]
    spec = plots.parts(shown, plots.Part("whole", mean(found["whole"]), 1.0), "s")
    return Figure(spec, "Client time per million rows, means over the epochs with their 95 % intervals.")


def _target(race: Race) -> list[str | Table]:
    epochs = race.of(EPOCH)
    keys = {"wall_ms": "wall"} | COUNTED
    rows: list[dict] = []
    for s in epochs:
        rows.append({"epoch": str(s.meta["epoch"]), **{k: float(s.meta[k]) for k in (*keys, "target_cpu_ms")}})
        rows[-1] |= {"merge_mb": s.meta["merge_bytes"] / 1e6, "translog_mb": s.meta["translog_bytes"] / 1e6}
        rows[-1] |= {"gc_ms": float(s.meta["gc_young_ms"] + s.meta["gc_old_ms"])}
    cpu = target_cpu(epochs)
    columns = [Words("epoch", "epoch"), *(Column(k, text, form="{:,.0f}".format) for k, text in keys.items())]
    columns += [
        Column("merge_mb", "merge", "MB", "{:,.1f}".format),
        Column("translog_mb", "translog", "MB", "{:,.1f}".format),
    ]
    columns += [Column("target_cpu_ms", "CPU", form="{:,.0f}".format), Column("gc_ms", "GC", form="{:,.0f}".format)]
    before = (
        "In ms unless it says otherwise; what the target counted since the end of the epoch before, with the refresh "
        "that ends an epoch. Merges may run on while Rally idles between tasks."
    )
    after = f"The target used {number(cpu.value)} s {interval(cpu)} of CPU time per million rows.\n" + _foreign(epochs)
    return [before, Table("target", columns, rows), after]


def _foreign(epochs: Sequence[Sample]) -> str:
    others = sum(s.meta["foreign_docs"] for s in epochs)
    if not others:
        return ""
    if others < 0:
        return "\n**Warning: other indices were deleted or moved meanwhile; times and CPU may hold work on them.**\n"
    return (
        f"\n**Warning: {others:,.0f} documents were indexed into other indices meanwhile; times and CPU hold that "
        "work, too.**\n"
    )


def rate_section(race: Race) -> Section:
    """The true rate over time, with the windows, merges and slow buckets."""
    found = rates.loads(race)
    rows, slow, slow_merging, merging = [], 0, 0, 0
    for load in found:
        row = {"epoch": str(load.epoch) if load.epoch else "all", "seconds": load.seconds, "window": "too short"}
        row["rate"] = load.documents / load.seconds
        if len(load.steady):
            row["window"] = f"{number(load.first * load.width)} to {number(load.end * load.width)}"
            row |= {"mean": mean(load.steady), "median": median(load.steady)}
            row["slow"] = f"{len(load.slow)} of {len(load.steady)}"
        rows.append(row)
        slow += len(load.slow)
        slow_merging += len(load.merging.intersection(load.slow))
        merging += len([b for b in load.merging if load.first <= b < load.end]) if len(load.steady) else 0
    whole = "{:,.0f}".format
    columns = [Words("epoch", "epoch"), Column("seconds", "s"), Column("rate", "documents/s", form=whole)]
    columns += [Column("window", "steady window, s"), Column("mean", "its mean", form=whole)]
    columns += [Column("median", "its median", form=whole), Column("slow", "slow buckets")]
    steady = rates.steady(found)
    before = (
        f"Documents acknowledged per second, in buckets of {found[0].width:g} s. {rates.RULE} A bucket is slow below "
        f"{100 * rates.SLOW:.0f} % of the median. Intervals allow for buckets that resemble their "
        "neighbours. Rally's own throughput is a mean since the task began, so it lags behind."
    )
    if len(steady):
        after = (
            f"A merge was under way in {merging} of the {len(steady)} buckets of steady windows, and in "
            f"{slow_merging} of the {slow} slow ones."
        )
    else:
        after = f"No load is long enough for a steady window of {rates.LEAST_BUCKETS} buckets: load more rows."
    return Section("Rate over time", [before, Table("rates", columns, rows), after, *over_time(race, found)])


def times(race: Race) -> list[str | Table]:
    """Percentiles of service time and latency, and where they jump."""
    metrics = (race.document.get("results") or {}).get("op_metrics", [])
    found = next((m for m in metrics if m["task"] == "index-append"), None)
    if not found:
        return ["Rally's results of this race are missing."]
    shown = {k: text for k, text in PERCENTILES.items() if k in found["service_time"]}
    service, latency = ([found[name][k] for k in shown] for name in ("service_time", "latency"))
    jumps = [1.0, *(after / before for before, after in pairwise(service))]
    rows = [
        {"percentile": text, "service_time": of_service, "latency": of_latency, "step": step if i else None}
        for i, (text, of_service, of_latency, step) in enumerate(zip(shown.values(), service, latency, jumps))
    ]
    paced = race.parameters.get("paced", False)
    what = "Service time is from the start of sending to the end of the response. " + (
        "The load was paced, so latency is "
        "counted from when a request was due: what it has beyond service time is the time that requests waited because "
        "the ones before were late."
        if paced
        else "The load was not paced: each client "
        "sends its next request when the one before is answered, so there is no time at which a request was due, and "
        "Rally shows service time as latency, too. It says nothing about what users would wait for; `paced` does."
    )
    worst = int(np.argmax(jumps))
    names = list(shown.values())
    jump = (
        f"The greatest jump is from the {names[worst - 1]}th to the {names[worst]}th percentile, "
        f"{jumps[worst]:.1f} times. Beyond such a jump lie requests that met something: a merge, a refresh, a flush or "
        "a garbage collection; the rate over time shows when."
        if worst and jumps[worst] >= 1.5
        else "No percentile is 1.5 times the one before: the requests are alike."
    )
    columns = [Column("percentile", "percentile"), Column("service_time", "service time, ms")]
    columns += [
        Column("latency", "latency, ms"),
        Column("step", "service time over the row above", form="{:.2f} ×".format),
    ]
    return [what, Table("times", columns, rows), jump]


def documents(race: Race) -> str:
    """What became of the documents; the race has failed if this does not add up."""
    epochs, bulks = race.of(EPOCH), race.of(BULK)
    totals = {k: sum(s.meta[k] for s in epochs) for k in ("sent", "acknowledged", "found", "bytes_out")}
    totals["bytes_in"] = sum(s.meta["bytes_in"] for s in epochs)
    errors = totals["sent"] - totals["acknowledged"]
    failed = sum(1 for s in bulks if s.meta["error-count"])
    lines = [
        f"{totals['sent']:,} documents sent, {totals['acknowledged']:,} acknowledged, {totals['found']:,} found after "
        "the refresh",
        f"error rate: {percent(errors / totals['sent'])} of documents ({errors:,}); {failed:,} of {len(bulks):,} bulk "
        "requests had one",
        repeated(race),
        f"{totals['bytes_out'] / totals['sent']:.1f} bytes sent per document"
        + (f", {totals['bytes_in'] / totals['sent']:.2f} received" if totals["bytes_in"] else ""),
    ]
    if race.index:
        raw = row_bytes(race)
        stored = race.index["store_bytes"] / race.index["docs"]
        lines.append(
            f"store: {stored:.1f} bytes per document in the primary shards; as JSON a row has {raw:.1f}, so "
            f"{raw / stored:.2f} times that"
        )
    return "".join(f"- {line}\n" for line in lines)


def row_bytes(race: Race) -> float:
    """Mean size of a row of the corpus as JSON."""
    return Metrics.of(race.parameters, False).mean_row_bytes
