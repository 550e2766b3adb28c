"""Races of ingest-formats made of known times and sizes."""

from dataclasses import replace

import numpy as np

from _tools.report.race import Race, Sample
from cluster_metrics.ingest.samples import CELL

SIZES = (100, 1000, 10000, 50000)
WALL_S = dict(zip(SIZES, (20.0, 10.0, 8.0, 9.0)))
BYTES = {"json": 96.0, "smile-32": 79.0}


def race(factors=None, rounds=20, gc_s=0.0, cpu=None, batches=None, read=None):
    """A race in which all cells of a round are slowed down alike, by up to half.

    :param factors: wall time of SMILE over that of JSON, by bulk size.
    :param gc_s: of JSON, of the seconds per million documents, in pauses that SMILE has none of.
    :param cpu: cores of the target at work, by format (default 2).
    :param batches: bytes of a document in SMILE and its wall time, both over those of JSON, by its lines.
    :param read: time of reading back, over that of JSON; not recorded by default.
    """
    factors = factors or dict.fromkeys(SIZES, 0.9)
    samples = []
    for r, slow in enumerate(np.random.default_rng(1).uniform(1, 1.5, rounds)):
        for encoding in BYTES:
            for size in SIZES:
                wall_ms = 100 * slow * WALL_S[size] * (factors[size] if encoding != "json" else 1)  # of 100,000 rows
                meta = dict.fromkeys((key.name for key in CELL), 1.0)
                meta |= {"round": r, "rows": 100_000, "wall_ms": wall_ms, "clients": 1}
                meta |= {"target_cpu_ms": (cpu or {}).get(encoding, 2.0) * wall_ms}
                meta |= {
                    "corpus": "metrics",
                    "lines": 0,
                    "encoding": encoding,
                    "bulk_size": size,
                    "requests": 100_000 / size,
                }
                meta |= {"bytes_out": BYTES[encoding] * 1e5, "gc_ms": 100 * slow * gc_s if encoding == "json" else 0.0}
                if read:
                    meta |= {"read_ms": slow * (1 if encoding == "json" else read)}
                    meta |= {"store_bytes": 1e6 * (70 if encoding == "json" else 63)}
                samples.append(Sample("ingest-cell", r, f"metrics-{encoding}-{size}-by-1", wall_ms, meta))
            for lines, (size, time) in (batches or {}).items():
                wall_ms = 1000 * slow * (time if encoding != "json" else 1)
                meta = samples[-1].meta | {"corpus": "batches", "lines": lines, "bulk_size": 1000 // lines}
                meta |= {"rows": 1000, "wall_ms": wall_ms, "target_cpu_ms": wall_ms}
                meta |= {"bytes_out": 1000 * 350 * lines * (size if encoding != "json" else 1)}
                samples.append(Sample("ingest-cell", r, f"batches-of-{lines}-{encoding}", wall_ms, meta))
        for encoder, s in (("json", 6.0), ("smile-32", 9.0)):
            meta = {"round": r, "corpus": "metrics", "encoder": encoder, "documents": 1000, "bytes": 93_656}
            meta["client_cpu_ms"] = s * slow
            samples.append(Sample("encode-documents", r, f"metrics-{encoder}", s, meta))
    return Race({"race-id": "x", "challenge": "ingest-formats"}, samples, {})


MORE = {1: (0.9, 1.0), 4: (0.8, 0.9), 64: (0.7, 0.8)}


def in_json(of, walls=None, clients=2):
    """A race in JSON alone, by one and by several clients.

    :param walls: wall time of several clients over that of one, by bulk size (default 0.6).
    """
    one = [s for s in of.samples if "json" in s.cell]
    two = []
    for s in (s for s in one if s.kind == "ingest-cell"):
        factor = (walls or {}).get(s.meta["bulk_size"], 0.6)
        meta = s.meta | {"clients": clients, "wall_ms": factor * s.meta["wall_ms"]}
        two.append(replace(s, cell=s.cell.replace("by-1", f"by-{clients}"), meta=meta))
    return replace(of, samples=[*one, *two])


def of_pauses(*seconds):
    """A race whose rounds are alike but for the pauses of JSON, in s per million documents, one round after another."""
    of = race()
    for sample in of.samples:
        if sample.kind == "ingest-cell":
            json = sample.meta["encoding"] == "json"
            sample.meta["wall_ms"] = 100 * WALL_S[sample.meta["bulk_size"]] * (1 if json else 0.9)
            sample.meta["gc_ms"] = 100 * seconds[sample.meta["round"] % len(seconds)] if json else 0.0
    return of
