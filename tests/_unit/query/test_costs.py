"""What the parts of the production query cost a document, from coverages that take what is known."""

from dataclasses import replace

import numpy as np
import pytest

from _tools.report.costs import Loop
from _tools.report.race import Race, Sample
from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.query._report import query_decomp
from cluster_metrics.query._report.attribution import START, TERMS, WHOLE
from cluster_metrics.query._report.costs import FILTER, HDR_LOOPS, SUMS, TDIGEST, aggregator, costs
from cluster_metrics.query.configurations import FITTED, PARTS, VARIANTS
from cluster_metrics.query.query_decomp import PART

SUM, HDR = (VARIANTS[name].by("serial").name for name in ("B", "D_hdr"))
MS = {START.name: 20.0, SUM: 100.0, HDR: 200.0, WHOLE.name: 400.0}
SLOW = (3, 11)
"""Rounds that are slow, of which as many are left out at either end."""


def race(walls, rounds=20, slow=1.0, rows=500_000):
    """A race whose coverages take this long in every round, and so many times as long in the slow ones."""
    samples = []
    for r in range(rounds):
        for name, ms in walls.items():
            variant, _, transport = name.rpartition("-")
            meta = {"round": r, "wall_ms": ms * (slow if r in SLOW else 1.0), "took_ms": ms, "parallelism": 1.0}
            meta |= {"variant": variant, "transport": transport, "max_percentile_error": 0.01}
            kind = PART if variant in PARTS else "coverage"
            samples.append(Sample(kind, r, name, meta["wall_ms"], meta))
    return Race({"race-id": "x", "challenge": "query-decomp"}, samples, {}, {"rows_per_epoch": rows})


@pytest.mark.parametrize("slow", [1.0, 5.0])
def test_differences_are_told_per_document_without_the_slowest_rounds(slow):
    """Half a million documents, so that one ms of a coverage is 2 ns a document."""
    found = {cost.name: cost for cost in costs(race(MS, slow=slow))}
    each = {name: (cost.each.low, cost.each.value, cost.each.high) for name, cost in found.items()}
    known = {
        "3 percentiles by t-digest": 600,
        "3 percentiles by HDR": 200,
        "production query": 760,
        "production query, with the aggregators": 760,
        "the same by HDR": 360,
        "the same by HDR, with the aggregators": 360,
    }
    assert each.keys() == known.keys()
    for name, ns in known.items():
        assert each[name] == pytest.approx((ns, ns, ns)), name
    assert {name: list(cost.loops) for name, cost in found.items()} == {
        "3 percentiles by t-digest": TDIGEST,
        "3 percentiles by HDR": HDR_LOOPS,
        "production query": [FILTER, *SUMS, *TDIGEST],
        "production query, with the aggregators": aggregator("sums+tdigest"),
        "the same by HDR": [FILTER, *SUMS, *HDR_LOOPS],
        "the same by HDR, with the aggregators": aggregator("sums+hdr"),
    }
    assert [cost.whole for cost in found.values()] == [False, False, True, True, True, True]


def test_what_a_race_left_out_has_no_cost():
    without = {name: ms for name, ms in MS.items() if name not in (HDR, START.name)}
    assert [cost.name for cost in costs(race(without))] == ["3 percentiles by t-digest"]
    assert costs(race({})) == []


def test_terms_that_were_fitted_are_told_each_by_itself():
    terms = dict(zip([term.name for term in TERMS], [60.0, 40.0, 9.0, 25.0, 70.0, 75.0, 150.0, -8.0, -5.0]))
    times = np.array([[term.times(cell) for term in TERMS] for cell in (WHOLE, *FITTED)])
    walls = dict(zip([cell.name for cell in (WHOLE, *FITTED)], (times @ list(terms.values())).tolist()))
    of = costs(race(walls, rows=1_000_000))
    found = {cost.name: cost.each.value for cost in of}
    parts = (
        "filter and visit of the documents",
        "sum",
        "percentiles of cpu",
        "percentiles of mem",
        "percentiles of net",
    )
    assert {name: found[name] for name in parts} == pytest.approx({name: terms[name] for name in parts})
    assert "start of the searches" not in found
    loops = {cost.name: list(cost.loops) for cost in of}
    assert loops["filter and visit of the documents"] == [Loop("FilterBenchmark.visit", {"filter": "conjunction"})]
    digest = {"compression": "100", "digest": "hybrid"}
    for name, field, benchmark, more in (
        ("sum", "cpu", "SumBenchmark", {}),
        *((f"percentiles of {field}", field, "TDigestBenchmark", digest) for field in FIELDS),
    ):
        own = Loop(f"{benchmark}.coverage", {**more, "documents": "0", "field": field})
        assert loops[name] == [Loop("DocValuesBenchmark.oneInNodes", {"field": field}), own]
    assert [loop.parameters["digits"] for loop in HDR_LOOPS[1::2]] == ["3"] * 3


def test_what_percentiles_are_of_the_production_query_is_answered_by_the_fit_and_judged_if_all_was_steady():
    terms = [60.0, 40.0, 9.0, 25.0, 70.0, 75.0, 150.0, -8.0, -5.0]
    times = np.array([[term.times(cell) for term in TERMS] for cell in (WHOLE, *FITTED)]) @ terms
    of = race(dict(zip([cell.name for cell in (WHOLE, *FITTED)], times.tolist())))
    finding = next(iter(query_decomp.answer(of)))
    percentiles, whole = 70 + 75 + 150 - 3 * 8, times[0]
    assert (finding.name, finding.figures["wall_ms"].value) == ("percentiles by t-digest", pytest.approx(whole))
    assert finding.figures["share"].value == pytest.approx(percentiles / whole)
    for left, judged in (([], True), ([FITTED[0].name], False)):
        warm_up = Sample("query-warm-up", 0, "warm-up", 1.0, {"rounds": 40, "unsteady": left})
        texts = [section.text for section in query_decomp.sections(replace(of, samples=[warm_up, *of.samples]))]
        assert any("No verdict on it" in text for text in texts) is not judged
