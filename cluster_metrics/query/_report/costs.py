"""What the parts of the production query cost a document, each with the bare loops that it consists of."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from _tools.report.cells import Cells
from _tools.report.costs import Cost, Loop
from _tools.report.race import Race
from _tools.report.stats import Estimate, mean
from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.query._report.attribution import START, WHOLE, fitted, kept
from cluster_metrics.query.configurations import VARIANTS
from cluster_metrics.query.query_decomp import PART
from cluster_metrics.wire import coverage
from cluster_metrics.wire.questions import HDR

DIGITS = str(HDR["hdr"]["number_of_significant_value_digits"])
FILTER = Loop("FilterBenchmark.visit", {"filter": "conjunction"})
AGGREGATED = {
    "SumBenchmark": {},
    "TDigestBenchmark": {"compression": "100", "digest": "hybrid"},
    "HdrBenchmark": {"digits": DIGITS},
}
"""What is done with the values of a field, and its parameters."""


def loops(benchmark: str, field: str) -> list[Loop]:
    """Reading the values of a field, and what is done with them."""
    given = {**AGGREGATED[benchmark], "documents": "0", "field": field}
    return [Loop("DocValuesBenchmark.oneInNodes", {"field": field}), Loop(f"{benchmark}.coverage", given)]


def aggregator(aggregations: str) -> list[Loop]:
    return [Loop("AggregatorBenchmark.coverage", {"aggregations": aggregations})]


SUMS, TDIGEST, HDR_LOOPS = ([loop for f in FIELDS for loop in loops(name, f)] for name in AGGREGATED)


def costs(race: Race) -> list[Cost]:
    """The costs fitted, and by differences of serial cells what percentiles take beside sums, and the production query
    in all."""
    cells = Cells(race.of(coverage.TYPE) + race.of(PART))
    return [*_fitted(race, cells), *_differences(race, cells)]


def _per_document(race: Race, ms: Estimate) -> Estimate:
    """Of a coverage, which reads all documents of an epoch once: in ns a document."""
    factor = 1e6 / race.parameters["rows_per_epoch"]
    return replace(ms, value=factor * ms.value, low=factor * ms.low, high=factor * ms.high)


def _fitted(race: Race, cells: Cells) -> Iterator[Cost]:
    fit = fitted(cells)
    if not fit:
        return
    known = {"filter and visit of the documents": [FILTER], "sum": loops("SumBenchmark", FIELDS[0])}
    known |= {f"percentiles of {field}": loops("TDigestBenchmark", field) for field in FIELDS}
    for part in fit.parts:
        if part.name in known:
            yield Cost(part.name, _per_document(race, part.each), known[part.name], searched=True)


def _differences(race: Race, cells: Cells) -> Iterator[Cost]:
    sums = _serial("B")
    wanted = (
        ("3 percentiles by t-digest", WHOLE.name, sums, TDIGEST, False),
        ("3 percentiles by HDR", _serial("D_hdr"), sums, HDR_LOOPS, False),
        ("production query", WHOLE.name, START.name, [FILTER, *SUMS, *TDIGEST], True),
        ("production query, with the aggregators", WHOLE.name, START.name, aggregator("sums+tdigest"), True),
        ("the same by HDR", _serial("D_hdr"), START.name, [FILTER, *SUMS, *HDR_LOOPS], True),
        ("the same by HDR, with the aggregators", _serial("D_hdr"), START.name, aggregator("sums+hdr"), True),
    )
    for name, cell, base, of, whole in wanted:
        if cells.has(cell, base):
            yield Cost(name, _per_document(race, _difference(cells, cell, base)), of, whole=whole, searched=True)


def _serial(variant: str) -> str:
    return VARIANTS[variant].by("serial").name


def _difference(cells: Cells, cell: str, base: str) -> Estimate:
    """The mean over rounds of a difference, without the slowest rounds and the fastest, as attribution has it."""
    values = cells.matrix("wall_ms", [cell, base])
    rounds = kept(values)
    return mean(np.subtract(*values[:, rounds]))
