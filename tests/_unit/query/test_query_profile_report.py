import csv

import pytest
from fakes import rows, table

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from cluster_metrics.query._report import query_profile as report
from cluster_metrics.query.profile_tree import add_up, times
from cluster_metrics.query.query_profile import aggregation_kinds

KINDS = aggregation_kinds()
NODES = 3


def race(rounds=10, inflation=2.0, drift=0.0):
    """A race in which one search without the profiler takes 10 ms at the server and 12.4 ms at the client.

    With it, of 10 ms times the inflation are 5 % rewrite and preparation, 10 % innermost queries, 70 % the collector
    that feeds the aggregations (of which 3 to 1 percentiles), 5 % collectors besides and 2 % building.
    """
    samples = []
    for r in range(rounds):
        slow = 1 + drift * r
        for probe, factor in (("on", slow * inflation), ("off", slow)):
            meta = {"round": r, "epoch": 1, "segments": 1, "success": True, "response_bytes": 600}
            meta |= {"took_ms": 10 * factor, "wall_ms": 10 * factor + 2.4 * slow}
            meta["parse_ms"] = (0.3 if probe == "on" else 0.1) * slow
            tree = dict.fromkeys(times({"shards": []}, KINDS), 0.0)
            tree |= {"rewrite_ms": 0.1 * factor, "query_create_weight_ms": 0.05 * factor}
            tree |= {"query_build_scorer_ms": 0.2 * factor, "query_count_weight_ms": 0.15 * factor}
            tree |= {"query_ms": 3 * factor, "query_leaves_ms": 1 * factor}
            tree |= {"collector_ms": 7.5 * factor, "collector_aggregations_ms": 7 * factor}
            for name, kind in KINDS.items():
                tree[f"{name}_collect_ms"] = factor * (2.0 if kind == "percentiles" else 1.0)
                tree[f"{name}_build_leaf_collector_ms"] = factor * (1.0 if kind == "percentiles" else 0.0)
                tree[f"{name}_build_aggregation_ms"] = factor * 0.2 / len(KINDS)
            call = meta | {"docs_matched": 100, "request_bytes": 50} | (tree if probe == "on" else {})
            calls = [call | {"asked_node": f"N{n:03}"} for n in range(1, NODES + 1)]
            numbers = {k: NODES * v for k, v in meta.items() if k.endswith(("_ms", "_bytes"))}
            coverage = meta | numbers | {"searches": NODES} | (add_up([tree] * NODES, KINDS) if probe == "on" else {})
            samples.append(Sample("profiled-coverage", r, f"profile-{probe}", 1.0, coverage))
            samples += [Sample("profiled-call", r, f"profile-{probe}-call", 1.0, c) for c in calls]
    return Race({"race-id": "x", "challenge": "query-profile"}, samples, {})


def of(race, key):
    """The rows of a table of its report by their first column."""
    return rows(report.sections(race), key)


def exactly(value):
    """Bounds and value of an estimate that all rounds agree on."""
    return pytest.approx((value, value, value))


def bounds(estimate):
    return estimate.low, estimate.value, estimate.high


def test_inflation_is_the_ratio_within_each_round():
    row = of(race(inflation=1.5, drift=0.1), "inflation")["took ms"]
    assert row["n"] == 10 and bounds(row["ratio"]) == exactly(1.5)
    _, ms, shares = report.reference(race(inflation=1.5))
    assert {row["what"]: (row["here"].value, row["reference"]) for row in ms.rows} == {
        "took, profiler on": pytest.approx((15, 74.8)),
        "took, profiler off": pytest.approx((10, 40.8)),
        "network and JSON parse": pytest.approx((2.5, 5)),
        "filter": pytest.approx((1.5, 7)),
        "collect: 3 percentiles": pytest.approx((5.25, 22)),
        "collect: 3 sums": pytest.approx((1.75, 6)),
        "build and reduce": pytest.approx((1.5, 5)),
        "whole": pytest.approx((12.5, 45.7)),
    }
    assert {row["what"]: (row["here"].value, row["reference"]) for row in shares.rows} == {
        "network and JSON parse": pytest.approx((0.2, 0.11)),
        "filter": pytest.approx((0.15, 0.17)),
        "collect: 3 percentiles": pytest.approx((0.525, 0.54)),
        "collect: 3 sums": pytest.approx((0.175, 0.15)),
        "build and reduce": pytest.approx((0.15, 0.12)),
        "whole": (1, 1),
    }


@pytest.mark.parametrize("inflation", [1.0, 2.0])
def test_phases_are_scaled_to_the_search_without_profiler_and_add_up(inflation):
    sections = report.sections(race(inflation=inflation))
    assert any("Parsing alone takes 0.100 ms." in section.text for section in sections)
    found = table(sections, "phases")
    assert found.cells() == [
        ["network and JSON parse (wall − took + parse)", *twice("2.50", "20.0 %"), "–"],
        ["filter", *twice("1.50", "12.0 %"), "15.0 %"],
        ["collect: 3 percentiles t-digest", *twice("5.25", "42.0 %"), "52.5 %"],
        ["collect: 3 sums", *twice("1.75", "14.0 %"), "17.5 %"],
        ["build and reduce the rest of took", *twice("1.50", "12.0 %"), "15.0 %"],
        ["… of it aggregations building in the tree", *twice("0.200", "1.6 %"), "2.0 %"],
        ["… of it other collectors", *twice("0.500", "4.0 %"), "5.0 %"],
        ["… of it unexplained", *twice("0.800", "6.4 %"), "8.0 %"],
        ["whole (wall + parse)", *twice("12.5", "100.0 %"), "–"],
    ]


def twice(*numbers):
    """Numbers with the interval that they have where all rounds agree."""
    return [f"{number} [{number}, {number}]" for number in numbers]


def test_a_drift_that_both_coverages_share_changes_no_share():
    row = of(race(drift=0.3), "phases")["collect: 3 percentiles t-digest"]
    assert bounds(row["share"]) == exactly(0.42)


def test_the_tree_leaves_out_parts_without_time_and_may_exceed_took():
    found = of(race(), "tree")
    assert "query: score" not in found and "fetch" not in found
    prepared = [found[f"query: {part}"]["of_took"] for part in ("create_weight", "build_scorer", "count_weight")]
    assert prepared == pytest.approx([0.005, 0.02, 0.015])
    whole = "tree: rewrite, query, collectors, building, fetch"
    assert found[whole]["of_took"] == pytest.approx(1.08)
    fetching = race()
    for sample in fetching.samples:
        if sample.cell == "profile-on-call":
            sample.meta["fetch_ms"] = 1.0
    found = of(fetching, "tree")
    assert (found["fetch"]["of_took"], found[whole]["of_took"]) == pytest.approx((0.05, 1.13))


def test_a_tree_that_exceeds_took_leaves_a_negative_rest():
    whole = race()
    for sample in whole.samples:
        if sample.cell == "profile-on-call":
            sample.meta["query_leaves_ms"] += 2.0
    found = table(report.sections(whole), "phases")
    assert ["… of it unexplained", *twice("−0.200")] in [row[:2] for row in found.cells()]


def test_aggregations_are_listed_by_name():
    found = of(race(), "aggregations")
    assert list(found) == list(KINDS)
    row = found["mem_pct"]
    assert row["kind"] == "percentiles" and row["n"] == 10 and bounds(row["collect"]) == exactly(4)
    assert row["build_leaf_collector"] == 2 and found["mem_sum"]["build_leaf_collector"] == 0
    assert "initialize" not in row
    slower = of(race(drift=0.1), "aggregations")["mem_pct"]
    assert (slower["build_leaf_collector"], slower["collect"].value) == pytest.approx((2 * 1.45, 4 * 1.45))


def test_the_figure_of_aggregations_tells_collecting_from_all_else_and_leaves_out_what_is_tiny():
    whole = race()
    for sample in whole.samples:
        if sample.cell == "profile-on-call":
            sample.meta.update({f"{name}_build_aggregation_ms": 0.02 for name in KINDS})
            sample.meta["net_sum_build_aggregation_ms"] = 0.1
    (section,) = (s for s in report.sections(whole) if s.title == "The aggregations in the profile tree")
    shown = {(row["name"], row["series"]): row["value"] for row in section.figures[0].spec["data"]["values"]}
    assert shown["mem_pct", "collect"] == pytest.approx(4)
    assert shown["mem_pct", "all else"] == pytest.approx(2.02)
    assert ("mem_sum", "collect") in shown and ("mem_sum", "all else") not in shown
    assert shown["net_sum", "all else"] == pytest.approx(0.1), "a fortieth of the longest"


def test_a_pause_that_the_profiler_scaled_up_changes_no_phase():
    whole = race()
    before, listed = of(whole, "phases")["collect: 3 percentiles t-digest"], of(whole, "aggregations")
    for sample in whole.samples:
        if sample.meta.get("asked_node") == "N001" and sample.cell == "profile-on-call":
            sample.meta["cpu_pct_collect_ms"] = 1000.0
        if sample.cell == "profile-on":
            sample.meta["percentiles_collect_ms"] += 1000.0
    assert of(whole, "phases")["collect: 3 percentiles t-digest"] == before
    assert of(whole, "aggregations") == listed


def test_a_round_that_lacks_a_coverage_is_left_out():
    whole = race()
    whole.samples.remove(next(s for s in whole.samples if s.kind == "profiled-coverage"))
    assert of(whole, "inflation")["took ms"]["n"] == 9


def test_parts_aggregations_and_rounds_are_drawn_and_the_rounds_are_judged():
    sections = {s.title: s for s in report.sections(race(drift=0.1))}
    parts, aggregations, rounds = (
        str(sections[title].figures[0].spec).replace("\\n", " ")
        for title in (
            "Where the time of one search goes",
            "The aggregations in the profile tree",
            "How far to trust this",
        )
    )
    for name in ("network and JSON parse", "collect: 3 percentiles", "aggregations building", "unexplained"):
        assert name in parts
    assert "build and reduce" not in parts, "the rest stands beside its parts"
    assert all(name in aggregations for name in KINDS) and "profiler off" in rounds
    assert "- **Warning:** drift: configurations together change by +" in sections["How far to trust this"].text


def test_rounds_are_held_against_those_without_the_profiler():
    spread = of(race(inflation=3.0), "spread")
    assert "cv_ratio" not in spread["profile-off"] and spread["profile-on"]["cv_ratio"] == pytest.approx(0)


def test_no_round_and_no_time_are_no_error():
    assert report.sections(Race({"race-id": "x", "challenge": "query-profile"}, [], {})) == []
    whole = race()
    for sample in whole.samples:
        sample.meta["took_ms"] = 0.0
    found = table(report.sections(whole), "inflation")
    assert found.cells()[0][:5] == ["took ms", "10", *twice("0", "0"), "– × [–, –]"]


def test_sheets_have_a_row_per_call_and_a_row_per_call_and_aggregation(tmp_path):
    for sheet in report.sheets(race(rounds=3)):
        sheet.write_csv(tmp_path)
    files = {f.name: list(csv.DictReader(f.open())) for f in tmp_path.iterdir()}
    calls, aggregations = files["es_profile_query_calls.csv"], files["es_profile_query_aggs.csv"]
    assert len(calls) == 3 * 2 * NODES and len(aggregations) == 3 * NODES * 6
    on = next(r for r in calls if r["probe"] == "on")
    off = next(r for r in calls if r["probe"] == "off")
    assert on["asked_node"] == "N001" and on["query_ms"] == "6.0" and off["query_ms"] == ""
    assert all(on.values()), "a column of the calls has no value"
    found = next(r for r in aggregations if r["aggregation"] == "cpu_sum")
    assert (found["kind"], found["collect_ms"], found["docs_matched"]) == ("sums", "2.0", "100")
    assert all(found.values()), "a column of the aggregations has no value"


def test_the_answer_has_the_greatest_phases_and_what_the_profiler_costs():
    whole = race(rounds=20, inflation=2.0)
    for sample in whole.samples:
        if sample.cell == "profile-on-call":
            sample.meta.update({f"{name}_build_aggregation_ms": 1.0 for name in KINDS})
    lines = dict(answer_of(whole).lines())
    assert lines["the profiler"] == "a search takes 2.00 × [2.00, 2.00] as long with it"
    assert list(lines)[2:5] == ["one search", "collect: 3 percentiles", "network and JSON parse"], "and no part of one"
    assert lines["answers checked"] == f"{20 * 2 * NODES} searches, none wrong"


def test_collectors_are_timed_on_every_document_and_so_a_mean_over_searches():
    """One of three searches spends 30 ms more in collectors, 24 of them in aggregations."""
    whole = race()
    for sample in whole.samples:
        if sample.cell == "profile-on" or sample.meta.get("asked_node") == "N002" and sample.cell == "profile-on-call":
            sample.meta["collector_ms"] += 30.0
            sample.meta["collector_aggregations_ms"] += 24.0
    found = of(whole, "tree")
    assert bounds(found["collectors"]["ms"]) == exactly(15 + 10)
    assert bounds(found["… of it aggregations"]["ms"]) == exactly(14 + 8)
    shares = of(whole, "phases")
    assert bounds(shares["collect: 3 percentiles t-digest"]["ms"]) == exactly(0.75 * (14 + 8) / 2)
    assert bounds(shares["… of it other collectors"]["ms"]) == exactly((1 + 2) / 2)


def test_parts_of_the_query_are_those_of_the_median_search():
    whole = race()
    for sample in whole.samples:
        if sample.cell == "profile-on-call":
            sample.meta["rewrite_ms"] = {"N001": 1.0, "N002": 2.0, "N003": 9.0}[sample.meta["asked_node"]]
    assert bounds(of(whole, "tree")["query: rewrite"]["ms"]) == exactly(2)
