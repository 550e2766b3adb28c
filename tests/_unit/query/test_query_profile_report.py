import csv
from xml.etree import ElementTree

import pytest

from _tools.report import profile as report
from _tools.report.race import Race, Sample
from _tools.report.write import markdown, write_sheet
from cluster_metrics.profile import aggregation_kinds
from cluster_metrics.profile_tree import add_up, times

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
            meta |= {"took_ms": 10 * factor, "wall_ms": 10 * factor + 2.4 * slow, "parse_ms": 0.1 * slow}
            tree = dict.fromkeys(times({"shards": []}, KINDS), 0.0)
            tree |= {"rewrite_ms": 0.1 * factor, "query_build_scorer_ms": 0.4 * factor}
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


def cells(text, start):
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def page(race):
    return markdown(race, report.sections(race))


def test_inflation_is_the_ratio_within_each_round():
    row = cells(page(race(inflation=1.5, drift=0.1)), "took ms")
    assert row[1] == "10" and row[4:6] == ["1.50 ×", "[1.50, 1.50]"]
    assert row[6] == "74.8 / 40.8 = 1.83 ×"


@pytest.mark.parametrize("inflation", [1.0, 2.0])
def test_phases_are_scaled_to_the_search_without_profiler_and_add_up(inflation):
    text = page(race(inflation=inflation))
    expected = {
        "network and JSON parse": ("2.50", "20.0 %", "–", "5", "11 %"),
        "filter": ("1.50", "12.0 %", "15.0 %", "7", "17 %"),
        "collect: 3 percentiles": ("5.25", "42.0 %", "52.5 %", "22", "54 %"),
        "collect: 3 sums": ("1.75", "14.0 %", "17.5 %", "6", "15 %"),
        "build and reduce": ("1.50", "12.0 %", "15.0 %", "5", "12 %"),
        "… of it aggregations building": ("0.200", "1.6 %", "2.0 %", "–", "–"),
        "… of it other collectors": ("0.500", "4.0 %", "5.0 %", "–", "–"),
        "… of it unexplained": ("0.800", "6.4 %", "8.0 %", "–", "–"),
        "whole": ("12.5", "100.0 %", "–", "45.7", "100 %"),
    }
    for start, shown in expected.items():
        row = cells(text, start)
        assert (row[1], row[3], *row[5:]) == shown, start


def test_a_drift_that_both_coverages_share_changes_no_share():
    row = cells(page(race(drift=0.3)), "collect: 3 percentiles")
    assert row[4] == "[42.0 %, 42.0 %]"


def test_the_tree_leaves_out_parts_without_time_and_may_exceed_took():
    text = page(race())
    assert "| query: score" not in text and "| fetch " not in text
    assert cells(text, "query: build_scorer")[3] == "4.0 %"
    assert cells(text, "tree:")[3] == "108.0 %"


def test_a_tree_that_exceeds_took_leaves_a_negative_rest():
    whole = race()
    for sample in whole.samples:
        if sample.cell == "profile-on-call":
            sample.meta["query_leaves_ms"] += 2.0
    assert cells(page(whole), "… of it unexplained")[1] == "−0.200"


def test_aggregations_are_listed_by_name():
    row = cells(page(race()), "mem_pct")
    assert row[1:5] == ["percentiles", "10", "4.00", "[4.00, 4.00]"]


def test_a_pause_that_the_profiler_scaled_up_changes_no_phase():
    whole = race()
    before = cells(page(whole), "collect: 3 percentiles")
    for sample in whole.samples:
        if sample.meta.get("asked_node") == "N001" and sample.cell == "profile-on-call":
            sample.meta["cpu_pct_collect_ms"] = 1000.0
        if sample.cell == "profile-on":
            sample.meta["percentiles_collect_ms"] += 1000.0
    assert cells(page(whole), "collect: 3 percentiles") == before


def test_a_round_that_lacks_a_coverage_is_left_out():
    whole = race()
    whole.samples.remove(next(s for s in whole.samples if s.kind == "profiled-coverage"))
    assert cells(page(whole), "took ms")[1] == "9"


def test_parts_aggregations_and_rounds_are_drawn_and_the_rounds_are_judged():
    sections = {s.title: s for s in report.sections(race(drift=0.1))}
    parts, aggregations, rounds = (
        " ".join(ElementTree.fromstring(sections[title].figures[0].svg).itertext())
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
    assert "- **Warning:** drift: the cells together change by +" in sections["How far to trust this"].text


def test_no_round_and_no_time_are_no_error():
    assert report.sections(Race({"race-id": "x", "challenge": "query-profile"}, [], {})) == []
    whole = race()
    for sample in whole.samples:
        sample.meta["took_ms"] = 0.0
    assert cells(page(whole), "took ms")[4] == "– ×"


def test_sheets_have_a_row_per_call_and_a_row_per_call_and_aggregation(tmp_path):
    for sheet in report.sheets(race(rounds=3)):
        write_sheet(sheet, tmp_path)
    rows = {f.name: list(csv.DictReader(f.open())) for f in tmp_path.iterdir()}
    calls, aggregations = rows["es_profile_query_calls.csv"], rows["es_profile_query_aggs.csv"]
    assert len(calls) == 3 * 2 * NODES and len(aggregations) == 3 * NODES * 6
    on = next(r for r in calls if r["probe"] == "on")
    off = next(r for r in calls if r["probe"] == "off")
    assert on["asked_node"] == "N001" and on["query_ms"] == "6.0" and off["query_ms"] == ""
    assert all(on.values()), "a column of the calls has no value"
    found = next(r for r in aggregations if r["aggregation"] == "cpu_sum")
    assert (found["kind"], found["collect_ms"], found["docs_matched"]) == ("sums", "2.0", "100")
    assert all(found.values()), "a column of the aggregations has no value"
