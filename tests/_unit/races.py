"""Races as the metrics store would give them, made of known costs and noise."""

import numpy as np

from _tools.report.race import Race, Sample

TARGET = {"node": "target-1", "version": "8.17.2", "jvm": "OpenJDK 21", "cores": 2, "heap_mb": 1024}
MACHINE = {
    "cpu": "C",
    "cores": 2,
    "memory_mb": 8000,
    "disk": "ext4",
    "kernel": "L",
    "virtualisation": "none",
    "load": 0.5,
}
COSTS = {"A-serial": 20.0, "D_td-msearch": 150.0, "D_td-serial": 350.0}


def made(race_id, factor=1.0, seed=0, spread=0.03, rounds=20, costs=COSTS, **changes):
    """A finished race of query-decomp whose rounds vary by ``spread`` about the costs times a factor.

    :param changes: of its properties, e.g. ``failed``, ``target``, ``parameters``, ``index`` or ``document``.
    """
    rng = np.random.default_rng(seed)
    samples = []
    for r in range(1, rounds + 1):
        for cell, ms in costs.items():
            wall = ms * factor * float(np.exp(spread * rng.standard_normal()))
            variant, _, transport = cell.rpartition("-")
            meta = {"round": r, "wall_ms": wall, "took_ms": wall / 2, "segments": 1, "searches": 30}
            meta |= {"variant": variant, "transport": transport, "parallelism": 1.0, "max_percentile_error": 0.05}
            meta |= {"epoch": 1, "docs_matched": 1000, "client_ms": wall / 10}
            meta |= {"request_bytes": 9000, "response_bytes": 20_000}
            samples.append(Sample("coverage", r, cell, wall, meta))
        samples.append(Sample("query-plan", r, "plan", 1.0, {"round": r, "segments": 1, "target_cpu_ms": 1.0}))
    document = {"race-id": race_id, "challenge": "query-decomp", "track": "cluster-metrics", "results": {"any": 1}}
    document |= {"rally-version": "2.13.0", "race-timestamp": f"20260101T00{seed:02d}00Z"}
    return Race(
        document | changes.get("document", {}),
        samples,
        changes.get("failed", {}),
        changes.get("parameters", {"nodes": 30, "rounds": rounds}),
        changes.get("target", [TARGET]),
        changes.get("index", {"docs": 5000, "segments": 1, "store_bytes": 10**6}),
        machine=changes.get("machine", MACHINE),
    )
