"""The course of a load: its rate, and beside it requests, CPU, collections, merges, queues and disk on one axis; and
what the cells of a race use up, round by round."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from _tools.report import timelines
from _tools.report.looks import Looks
from _tools.report.plots import Spec
from _tools.report.race import Race, Sample
from _tools.report.section import Figure
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.load import pace_of

from .rates import LEAST_BUCKETS, Load
from .usage import Usage, of_cell, parts_of, shared

REQUESTS, REPEATED, CPU = "requests, ms", "documents sent again per s", "CPU, %"
THROTTLED, DISK, PAUSES = "throttled, %", "disk at work, %", "pauses after 429, %"
GROWTH = {
    "garbage collections, ms per s": {"gc_young_ms": "young collections", "gc_old_ms": "old collections"},
    "throttled, ms per s": {
        "index_throttle_ms": "indexing throttled",
        "merge_throttle_ms": "merges throttled",
        "held_ns": "held by a cgroup",
    },
    "disk, MB/s": {"disk_read_kb": "disk, read", "disk_write_kb": "disk, written"},
    "disk, operations per s": {"disk_ops": "disk, operations"},
}
"""What nodes count, by strip; summed over nodes."""
SCALES = {"disk_read_kb": 1024 / 1000, "disk_write_kb": 1024 / 1000, "held_ns": 1e-3}
"""Of a counter's growth per ms to the unit of its strip; that of others is per s."""
LEVELS = {
    "write threads and queue": {"active": "write threads at work", "queue": "write queue"},
    "merges under way": {"merges": "merges"},
}


def over_time(race: Race, found: Sequence[Load]) -> list[Figure]:
    """The rate, and what else happened, on one axis; none for less than five buckets, which are no course of time."""
    if max(len(load.rates) for load in found) < LEAST_BUCKETS:
        return []
    buckets, shown, start = [], [], 0.0
    for load in found:
        merging = load.merging
        for i, (rate, requests) in enumerate(zip(load.rates, load.requests)):
            at = start + i * load.width
            end = start + load.seconds if i == len(load.rates) - 1 else at + load.width
            kind = timelines.STEADY if len(load.steady) and load.first <= i < load.end else timelines.OTHER
            bucket = {"load": load.epoch, "start": at, "end": end, "rate": float(rate), "kind": kind}
            errors = sum(s.meta["error-count"] for s in requests)
            buckets.append(bucket | {"merging": i in merging, "errors": errors})
            again = sum(s.meta.get("repeated_docs", 0) for s in requests) / (end - at)
            shown.append(_row(REPEATED, "sent again", load, (at + end) / 2, again))
            shown += [_row(REQUESTS, name, load, (at + end) / 2, value) for name, value in _times_of(requests).items()]
        shown += [
            _row(strip, series, load, start + at, value) for at, strip, series, value in _seen(race, load.seen, load.at)
        ]
        start += load.seconds + load.width
    goal = pace_of(race.parameters)["docs_per_second"] if race.parameters else 0.0
    caption = (
        "Documents acknowledged per second, one load after the other, the pauses between them left out; marks at the "
        f"bottom show where a merge was under way, at the top where documents were rejected. {timelines.ZOOM}"
    )
    beside = (
        "What happened meanwhile, on the same axis: requests by the buckets of the rate above, all else as the monitor "
        f"saw it once a second; what did not happen is left out. {timelines.ZOOM}"
    )
    return [
        Figure(timelines.rates(buckets, goal, "documents/s"), caption),
        Figure(_strips(shown, [REQUESTS, CPU, *LEVELS, REPEATED, *GROWTH]), beside),
    ]


def over_rounds(race: Race, knobs: tuple[str, str]) -> list[Figure]:
    """What the cells of each round used up together, over the time of a race; none for fewer than two rounds.

    :param knobs: see :func:`.usage.of_cell`.
    """
    rounds: dict[int, list[Sample]] = {}
    for sample in race.of(SAMPLE):
        rounds.setdefault(sample.meta["round"], []).append(sample)
    if len(rounds) < 2:
        return []
    begins = {number: min(sample.at for sample in of) for number, of in rounds.items()}
    rows = [
        {"strip": strip, "series": series, "run": 0, "at": (begins[number] - min(begins.values())) / 1000}
        | {"value": v}
        for number, of in sorted(rounds.items())
        if (used := of_cell(race, of, knobs))
        for strip, series, v in _shares(used)
    ]
    caption = (
        "What the cells of a round used up together, weighted by their time, a point a round; what did not happen is "
        f"left out. {timelines.ZOOM}"
    )
    return [Figure(_strips(rows, [CPU, THROTTLED, DISK, PAUSES]), caption)]


def _shares(used: Usage) -> Iterator[tuple[str, str, float]]:
    """Strip, series and value in %, as far as they are known."""
    found = (
        (CPU, "target, its busiest node", max(used.parts.values(), default=None)),
        (CPU, "client, its busiest process", used.process),
        (CPU, "machine of both", used.machine),
        (THROTTLED, "indexing throttled", used.throttled),
        (THROTTLED, "merges throttled, all together", used.merge_throttled),
        (DISK, "disk", used.disk),
        (PAUSES, "pauses", used.pauses),
    )
    return ((strip, series, 100 * value) for strip, series, value in found if value is not None)


def _strips(rows: Sequence[dict[str, Any]], order: Sequence[str]) -> Spec:
    """What happened of these rows, in this order of the strips."""
    happened = {row["strip"] for row in rows if row["value"] > 0}
    kept = sorted((row for row in rows if row["strip"] in happened), key=lambda row: order.index(row["strip"]))
    return timelines.strips(kept, "s")


def _row(strip: str, series: str, load: Load, at: float, value: float) -> dict[str, Any]:
    return {"strip": strip, "series": series, "run": load.epoch, "at": at, "value": float(value)}


def _seen(race: Race, looks: Looks, origin: int) -> Iterator[tuple[float, str, str, float]]:
    """What the monitor saw: when, in s after the origin, strip, series and value."""
    for one, look in zip(looks.nodes, looks.looks):
        for strip, of in LEVELS.items():
            for key, series in of.items():
                if any(key in node for node in one.values()):
                    yield (look.at - origin) / 1000, strip, series, sum(node.get(key, 0) for node in one.values())
    for before, after in pairwise(looks.looks):
        two, at = Looks([before, after]), ((before.at + after.at) / 2 - origin) / 1000
        for strip, of in GROWTH.items():
            for key, series in of.items():
                if growth := two.growth(key):
                    yield at, strip, series, sum(growth.values()) * SCALES.get(key, 1000.0)
        if parts := parts_of(race, two.cores()):
            yield at, CPU, "target, its busiest node", 100 * max(parts.values())
        if processes := two.processes():
            yield at, CPU, "client, its busiest process", 100 * max(processes.values())
        if shared(race) and (client := two.client()):
            yield at, CPU, "machine of both", 100 * client[1]


def _times_of(requests: Sequence[Sample]) -> dict[str, float]:
    """In ms; nothing of a bucket without requests."""
    if not requests:
        return {}
    service, took = [s.value for s in requests], [s.meta["took"] for s in requests]
    middle, high = np.percentile(service, (50, 99))
    return {
        "service time, median": middle,
        "service time, 99th percentile": high,
        "took, median": float(np.median(took)),
    }
