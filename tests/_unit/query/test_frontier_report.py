"""The figures of query-frontier's report, each from samples that tell it from the others."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import rows

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from cluster_metrics.query._report import query_frontier as explained

CACHE = {"query_cache_on": [], "query_cache_hits": 0.0, "query_cache_misses": 1.0}


def race(rounds=20, **walls):
    """A race of these wall times, whose ``took`` is a tenth of them and whose errors are 1, 2 and 3 ‰."""
    samples = [Sample("frontier", r, "frontier", 1.0, CACHE | {"round": r}) for r in range(rounds)]
    for name, wall in walls.items():
        for r in range(rounds):
            meta = {"round": r, "wall_ms": wall, "took_ms": wall / 10, "client_ms": wall / 20}
            meta |= {"percentile_error": 0.001, "extreme_error": 0.002, "sum_error": 0.003}
            meta |= {"request_bytes": 100, "response_bytes": 300}
            samples.append(Sample("frontier-coverage", r, name.replace("_", "-"), wall, meta))
    return Race({"race-id": "x", "challenge": "query-frontier"}, samples, {})


def of(made, name):
    return [sample for sample in made.samples if sample.cell == name]


def test_every_figure_of_a_configuration_stands_in_its_own_column():
    made = race(production=400.0, msearch=100.0)
    for name, cpu_ms in (("production", 200.0), ("msearch", 250.0)):
        meta = {"configuration": name, "coverages": 3, "target_cpu_ms": cpu_ms}
        made.samples.append(Sample("frontier-cpu", 30, "frontier-cpu", 1.0, meta))
    made.samples.append(
        Sample("frontier-cpu", 31, "frontier-cpu", 1.0, {"configuration": "esql", "weight": 0, "coverages": 0})
    )
    row = rows(explained.sections(made), "configurations")["msearch ◆"]
    assert (row["n"], row["wall_ms"].value, row["took_ms"], row["cpu_ms"]) == (20, 100, 10, 250)
    assert (row["speedup"].value, row["error"], row["extreme_error"], row["sum_error"]) == (4, 0.001, 0.002, 0.003)
    front = rows(explained.sections(made), "front")["msearch"]
    assert (front["wall_ms"], front["error"], front["extreme_error"]) == (100, 0.001, 0.002)


def test_points_are_drawn_at_the_error_of_their_percentiles():
    made = race(production=400.0, msearch=100.0)
    (figure,) = next(s for s in explained.sections(made) if s.title == "The Pareto front").figures
    drawn = str(figure.spec)
    assert "0.001" in drawn and "0.002" not in drawn and "0.003" not in drawn


def test_a_change_costs_bytes_both_ways_and_cpu_time_of_the_client():
    made = race(production=400.0, msearch=100.0)
    for sample in of(made, "msearch"):
        sample.meta |= {"request_bytes": 100, "response_bytes": 700, "client_ms": 5}
    (gain,) = explained.changes(made)
    assert (gain.costs["bytes"].value, gain.costs["client_cpu"].value) == pytest.approx((2, 0.25))


@pytest.mark.parametrize("error, recommended", [(0.01, "msearch: "), (0.0101, "nothing: no gain is shown")])
def test_without_a_parameter_the_error_may_be_one_percent(error, recommended):
    made = race(production=400.0, msearch=100.0)
    for sample in of(made, "msearch"):
        sample.meta["percentile_error"] = error
    assert dict(answer_of(made).lines())["recommended"].startswith(recommended)


def test_a_configuration_with_few_rounds_does_not_make_the_race_too_short():
    made = race(production=400.0, msearch=400.0, hdr_3=400.0)
    made.samples[:] = [s for s in made.samples if s.cell != "hdr-3" or s.meta["round"] < 5]
    assert dict(answer_of(made).lines())["recommended"] == "nothing: no gain is shown beyond noise"
    assert "nothing is shown to be faster" in explained.sections(made)[0].text


def test_what_a_filled_cache_saves_is_wall_time_within_rounds():
    made = race(production=400.0, cached=300.0)
    for sample in [*of(made, "production"), *of(made, "cached")]:
        sample.meta["wall_ms"] *= 1 + sample.meta["round"]
    row = rows(explained.sections(made), "cached")["production"]
    assert (row["off_ms"].value, row["on_ms"].value, row["saved_ms"].value) == (400 * 10.5, 300 * 10.5, 100 * 10.5)
    assert (row["speedup"].value, row["n"]) == (pytest.approx(4 / 3), 20)


def test_what_a_rollup_costs_at_ingest_is_cpu_time_of_the_client_and_time_to_index():
    made = race(production=400.0, rollup=10.0)
    costs = {"layouts": 1, "rollup_cpu_s": 12.0, "rollup_bulk_ms": 345.0}
    made.samples.append(Sample("build-layouts", 0, "build-layouts", 1.0, costs))
    found = {section.title: section.text for section in explained.sections(made)}
    text = found["What the rollup costs at ingest"]
    assert "took the client 12.0 s of CPU per million rows" in text and "the documents 345 ms in all" in text
    assert "It counted 0 hits and 20 misses in 20 rounds" in found["What the server had at hand"]
    assert "What the rollup costs at ingest" not in {s.title for s in explained.sections(race(production=400.0))}


def test_points_are_in_the_order_of_their_gain_within_rounds():
    """Of rounds that get slower the second has the first five: its times are less, its gain is not."""
    made = race(production=400.0, msearch=100.0, hdr_3=110.0)
    for sample in made.samples:
        if "wall_ms" in sample.meta:
            sample.meta["wall_ms"] *= 1 + sample.meta["round"]
    made = replace(made, samples=[s for s in made.samples if s.cell != "hdr-3" or s.meta["round"] < 5])
    found = explained.points(made)
    assert [point.name for point in found] == ["msearch", "hdr-3", "production"]
    assert found[1].wall_ms.value < found[0].wall_ms.value and np.isnan(found[0].cpu_ms)
