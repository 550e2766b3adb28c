"""Reads results of micro-benchmarks back, in nanoseconds per document or row."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from cluster_metrics.corpus.encoded import ENCODINGS

from ..race.variables import RaceError, shown
from ..report.costs import Loop
from ..report.stats import Estimate, Samples, mean
from ..report.table import Column, Table, Words, share
from ..report.text import number

WIDEST, NARROW = 0.05, 0.045
"""Half-width of an interval, as a share of its value: beyond which a result is flagged and not quoted; up to which it
is known well enough to take no more forks."""
MOST_FORKS = 30
"""Of a benchmark, where what is measured does not settle before."""
CLIENT_ROWS = 1000
"""Rows that a client's loop handles at a time."""
ALLOCATED = "gc.alloc.rate.norm"


@dataclass(frozen=True)
class Result:
    """What one benchmark measured with one set of parameters.

    :param loop: which benchmark that is.
    :param each: ns per unit, the mean of each fork or process, in the order in which they ran: the unit of replication.
    :param drift: by how much the last iteration of a fork is slower than its first, as a share, on average.
    :param allocated: bytes per unit, of a client's loop those at its peak; nan where they were not measured.
    :param size: bytes of a unit on the wire; nan where there is no wire.
    :param about: when and on what it was measured: ``started``, ``ended``, ``versions``, ``machine``, ``input``.
    """

    loop: Loop
    each: Samples
    drift: float
    allocated: float
    size: float
    about: Mapping[str, Any]

    @property
    def estimate(self) -> Estimate:
        """The mean over forks with its 95 % interval."""
        return mean(self.each)

    @property
    def error(self) -> float:
        """Half of the interval as a share of the value; infinite below 3 forks, where there is none."""
        found = self.estimate
        return (found.high - found.low) / 2 / found.value if found.known else math.inf

    @property
    def quotable(self) -> bool:
        return self.error <= WIDEST

    def known_well(self, most: int) -> bool:
        """Whether no more forks are to be taken; nor are they beyond ``most``."""
        return self.error <= NARROW or len(self.each) >= most

    def row(self) -> dict[str, Any]:
        return {
            "benchmark": str(self.loop),
            "n": len(self.each),
            "each_ns": self.estimate,
            "error": self.error,
            "drift": self.drift,
            "allocated": self.allocated,
            "per_mb": self.estimate.value / self.size,  # ns a byte
            "flag": "" if self.quotable else "too wide" if math.isfinite(self.error) else "too few",
        }


def units(loop: Loop, sizes: Mapping[str, Any]) -> float:
    """Documents or rows that a benchmark handles in one operation.

    :param sizes: of its input, by track parameter.
    """
    name, given = loop.benchmark.partition(".")[0], loop.parameters
    if name == "StoredFieldsBenchmark":
        values = sizes["text_distinct_values"]
        return int(given["permille"]) * values // 1000 * (sizes["text_documents"] // values)
    if name == "BulkParsingBenchmark":
        return sizes["bulk_rows"]
    rows, nodes, most = sizes["rows_per_epoch"], sizes["nodes"], int(given.get("documents", 0))
    return sum(min(most or rows, (rows - node + nodes - 1) // nodes) for node in range(nodes))


def keep(path: Path, content: Mapping[str, Any]) -> Path:
    """Writes results with what they were measured on, whole or not at all."""
    part = path.with_suffix(".tmp")
    part.write_text(json.dumps(content, indent=1) + "\n")
    return part.rename(path)


def read(*paths: Path) -> list[Result]:
    """All results in files of ``make micro``, the oldest first.

    :raises RaceError: when a file is unreadable.
    """
    found: list[Result] = []
    for path in paths:
        try:
            content = json.loads(path.read_text())
            about = content["about"]
            if "pyperf" in content:
                found += of_client(content["pyperf"], about)
            else:
                found += [of_jmh(result, about) for result in content["results"]]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as e:
            why = shown(f"{type(e).__name__}: {e}")
            raise RaceError(f"[{path}] holds no results of 'make micro' ({why}); remove it, or measure again") from None
    return sorted(found, key=lambda result: result.about["started"])


def of_jmh(result: Mapping[str, Any], about: Mapping[str, Any]) -> Result:
    """A result of JMH's JSON, with what is known about it: at least the sizes of the ``input``."""
    name = ".".join(result["benchmark"].split(".")[-2:])
    loop = Loop(name, dict(sorted(result.get("params", {}).items())))
    per_unit = 1000 / units(loop, about["input"])
    forks = [np.array(fork, dtype=float) for fork in result["primaryMetric"]["rawData"]]
    allocated = result["secondaryMetrics"].get(ALLOCATED, {}).get("score", math.nan)
    return _result(loop, [per_unit * fork for fork in forks], float(allocated) * per_unit / 1000, _wire(loop), about)


def of_client(suite: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[Result]:
    """The results in pyperf's JSON, with what is known about them."""
    import pyperf  # takes a while

    for benchmark in pyperf.BenchmarkSuite.loads(json.dumps(suite)).get_benchmarks():
        processes = [1e9 * np.array(run.values) for run in benchmark.get_runs() if run.values]
        known = benchmark.get_metadata()
        peak, size = (known.get(key, math.nan) / CLIENT_ROWS for key in ("peak_bytes", "body_bytes"))
        yield _result(Loop(benchmark.get_name()), processes, peak, size, about)


def _wire(loop: Loop) -> float:
    """The bytes that a benchmark of JMH parses a row."""
    if not loop.benchmark.startswith("BulkParsing"):
        return math.nan
    return ENCODINGS[loop.parameters["encoding"]].row_format.row_bytes(1)


def _result(loop: Loop, forks: list[Samples], allocated: float, size: float, about: Mapping[str, Any]) -> Result:
    drift = float(np.mean([fork[-1] / fork[0] - 1 for fork in forks]))
    return Result(loop, np.array([np.mean(fork) for fork in forks]), drift, allocated, size, about)


def hours_between(about: Mapping[str, Any], start: datetime, end: datetime) -> float:
    """Hours between a run of benchmarks and something else; 0 when they overlap."""
    began, ended = (datetime.fromisoformat(about[key]) for key in ("started", "ended"))
    return max((began - end).total_seconds(), (start - ended).total_seconds(), 0.0) / 3600


def table(results: Sequence[Result]) -> Table:
    """Results as ``make micro`` prints them, by name."""
    columns = [Words("benchmark", "benchmark"), Column("n", "forks"), Column("each_ns", "each", "ns")]
    columns += [share("error", "±"), share("drift", "drift"), Column("allocated", "bytes", form=number)]
    if any(math.isfinite(result.size) for result in results):
        columns.append(Column("per_mb", "per MB", "ms"))
    columns.append(Words("flag", "flag"))
    return Table("micro", columns, [r.row() for r in sorted(results, key=lambda result: str(result.loop))])
