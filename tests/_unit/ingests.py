"""Races of the ingest challenges as the metrics store would give them, made of requests and of looks."""

import json
from dataclasses import replace

from _tools.race.rally import resolved
from _tools.report.race import Race, Sample
from cluster_metrics.core.experiment import check
from cluster_metrics.ingest.account import REPEATED

NODE = {"node": "target-1", "version": "8.17.2", "cores": 2}
RESULTS = {"50_0": 10.0, "90_0": 12.0, "99_0": 60.0, "100_0": 70.0}


def bulk(epoch, client, at_s, **meta):
    meta = {"epoch": epoch, "client": client, "success-count": 100, "error-count": 0, "took": 7, "bytes_in": 25} | meta
    return Sample("ingest-bulk", round(1_000_000 + 1000 * at_s), "ingest-bulk", 10.0, meta)


def look(at_s, merges=0, **meta):
    """What the monitor sees of a node with two cores, of which target and client use some."""
    used = {"cores": 1.0, "client": 0.2, "process": 0.2, "busy": 0.6, "throttled": 0.0, "disk": 0.1} | meta
    ms = 1000 * at_s
    node = {"at": ms, "cpu_ms": used["cores"] * ms, "queue": 0, "rejected": 0, "active": 1, "merges": merges}
    node |= {"index_throttle_ms": used["throttled"] * ms, "disk_busy_ms": used["disk"] * ms, "gc_young_ms": 0.01 * ms}
    meta = {
        "nodes": json.dumps({"target-1": node}),
        "processes": json.dumps({"7": 0.01 * ms, "8": used["process"] * ms}),
        "client_cpu_ms": used["client"] * ms,
        "host_busy_ms": 2 * used["busy"] * ms,
        "host_idle_ms": 2 * (1 - used["busy"]) * ms,
    }
    return Sample("monitor", round(1_000_000 + ms), "monitor", 2.0, meta)


def load(epoch, start_s, seconds=20, per_second=40):
    """Two clients that send 100 documents each, evenly; the second ends a second earlier."""
    step = 2 / per_second
    return [bulk(epoch, client, start_s + i * step) for client in (0, 1) for i in range(int((seconds - client) / step))]


def epoch_sample(epoch, **meta):
    keys = [
        "requests",
        *REPEATED,
        "send_ms",
        "parse_ms",
        "bytes_out",
        "bytes_in",
        "refresh_ms",
        "merge_ms",
        "merge_bytes",
        "flush_ms",
        "foreign_docs",
        "translog_bytes",
        "gc_young_ms",
        "gc_old_ms",
    ]
    meta = (
        dict.fromkeys(keys, 0.0)
        | {
            "epoch": epoch,
            "round": epoch,
            "clients": 2,
            "wall_ms": 20_000.0,
            "took_ms": 16_000.0,
            "index_ms": 12_000.0,
            "target_cpu_ms": 9000.0,
            "sent": 80_000,
            "acknowledged": 80_000,
            "found": 80_000,
        }
        | meta
    )
    return Sample("ingest-epoch", 1_000_000 + 100_000 * epoch, "ingest-epoch", 5.0, meta)


def race(params="epochs:2,bulk_indexing_clients:2", samples=None, begin=None):
    samples = samples or [*load(1, 0), epoch_sample(1), *load(2, 100), epoch_sample(2, took_ms=20_000.0)]
    if begin:
        samples = [Sample("ingest-begin", 0, "ingest-begin", 1.0, begin), *samples]
    metrics = [{"task": "index-append", "service_time": RESULTS, "latency": RESULTS}]
    document = {"race-id": "x", "challenge": "ingest", "results": {"op_metrics": metrics}}
    index = {"docs": 160_000, "segments": 1, "store_bytes": 8_000_000}
    return Race(document, samples, {}, check(resolved(params)), [NODE], index, True, machine={"cores": 2})


def of_append(made):
    return replace(made, document=made.document | {"challenge": "append-no-conflicts-index-only"})
