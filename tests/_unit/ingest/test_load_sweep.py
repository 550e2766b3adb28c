"""Which load a race of several in JSON recommends."""

import re
from dataclasses import replace

import pytest
from fakes import table
from formats import SIZES, in_json, race

from _tools.report.answer import answer_of
from cluster_metrics.ingest._report import ingest_formats as explained


def test_a_race_in_json_alone_recommends_the_smallest_load_that_ties_with_the_fastest():
    walls = {100: 0.6, 1000: 0.482, 10_000: 0.6, 50_000: 0.6}  # of 20, 10, 8 and 9 s by one client
    of = in_json(race(), walls=walls)
    found = explained.sections(of)
    loads = table(found, "loads of metrics").rows
    assert [(row["clients"], row["bulk_size"]) for row in loads] == [
        (1, 100),
        (2, 100),
        (1, 1000),
        (2, 1000),
        (1, 10_000),
        (2, 10_000),
        (1, 50_000),
        (2, 50_000),
    ]
    by = {(row["clients"], row["bulk_size"]): row for row in loads}
    assert by[2, 10_000]["verdict"] == "the fastest" and "ratio" not in by[2, 10_000]
    assert by[2, 1000]["ratio"].value == pytest.approx(4.8 / 4.82)
    assert by[2, 1000]["verdict"] == "equivalent within 3.0 %"
    assert not any("decided_by" in row for row in loads)
    assert by[1, 1000]["verdict"] == by[2, 100]["verdict"] == "regressed"
    assert by[2, 1000]["rate"].value == pytest.approx(1e6 / 4.82 / 1.25, rel=0.05)
    text = {section.title: section.text for section in found}["Which load to take"]
    assert "metrics: **2 clients, 1,000 documents a request** is the smallest load that ties with the fastest." in text
    assert "CHALLENGE=append-no-conflicts-index-only PARAMS=bulk_size:1000,bulk_indexing_clients:2`" in text
    assert "2 clients, 10,000 documents a request is the fastest of 8; choosing it" in text
    assert {"Which load to take", "Throughput over bulk size", "What a configuration costs"} < {s.title for s in found}
    assert not {"Do the published statements hold?", "Larger documents"} & {s.title for s in found}
    lines = dict(answer_of(of).lines())
    assert lines["load"].startswith("metrics: 2 clients, 1,000 documents a request, ")
    assert "0.996 × [0.996, 0.996] the fastest (2 clients, 10,000 documents a request)" in lines["load"]
    assert not {"published", "target's CPU"} & lines.keys()


def test_loads_stand_in_the_order_of_the_documents_that_are_on_their_way_at_once():
    found = table(explained.sections(in_json(race(), clients=10)), "loads of metrics").rows
    assert [(row["clients"], row["bulk_size"]) for row in found] == [
        *((1, 100), (1, 1000), (10, 100), (1, 10_000), (10, 1000), (1, 50_000), (10, 10_000), (10, 50_000)),
    ]


def test_where_a_load_lost_its_rounds_none_is_recommended():
    of = in_json(race())
    few = [
        s for s in of.samples if s.meta.get("clients") == 1 or s.meta.get("bulk_size") != 1000 or s.meta["round"] < 10
    ]
    told = dict(answer_of(replace(of, samples=few)).lines())["load"]
    assert told == "metrics: nothing recommended, a verdict takes ingest_rounds:20"


def test_what_a_load_asks_of_both_sides_stands_beside_it():
    of = in_json(race())
    for sample in of.samples:
        if sample.kind == "ingest-cell":
            wall_ms = sample.meta["wall_ms"]
            sample.meta.update(client_cpu_ms=wall_ms / 4, send_ms=wall_ms * sample.meta["clients"])
            sample.meta.update(target_cpu_ms=1.5 * (wall_ms + 100), refresh_wall_ms=100.0)
    by = {(r["clients"], r["bulk_size"]): r for r in table(explained.sections(of), "loads of metrics").rows}
    one, two = by[1, 1000], by[2, 10_000]
    assert (one["documents"], two["documents"]) == (1000, 20_000)
    assert (one["mb"], two["mb"]) == pytest.approx((0.096, 1.92))
    for row in (one, two):
        assert (row["target_cpu_ms_used"], row["client_cpu_ms_used"]) == pytest.approx((1.5, 0.25))
    assert two["request_ms"] / one["request_ms"] == pytest.approx(2 * 0.6 * 8)
    assert one["client_cpu_ms"].value == pytest.approx(10 / 4 * 1.25, rel=0.05)


def test_loads_that_share_no_round_are_held_against_none():
    of = in_json(race())
    apart = [
        replace(s, meta=s.meta | {"round": s.meta["round"] + 100 * (s.meta.get("clients") == 2)}) for s in of.samples
    ]
    assert "Which load to take" not in {s.title for s in explained.sections(replace(of, samples=apart))}
    assert not [gain for gain in explained.changes(replace(of, samples=apart)) if "2 clients" in gain.change.text]


def test_what_choosing_a_load_overstates_is_not_moved_by_rounds_that_were_slow_as_a_whole():
    even, odd = in_json(race()), in_json(race())
    for sample in odd.samples:
        if sample.kind == "ingest-cell":
            sample.meta["wall_ms"] *= 1 + sample.meta["round"] % 5
    of = [{section.title: section.text for section in explained.sections(r)}["Which load to take"] for r in (even, odd)]
    told = [re.search(r"overstates it by (\S+) % on average", text).group(1) for text in of]
    assert told[0] == told[1]


def test_loads_in_another_format_are_none_to_take():
    of = race()
    more = [replace(s, cell=f"{s.cell[:-1]}2", meta=s.meta | {"clients": 2}) for s in of.samples if "smile" in s.cell]
    loads = table(explained.sections(replace(of, samples=[*of.samples, *more])), "loads of metrics").rows
    assert [(row["clients"], row["bulk_size"]) for row in loads] == [(1, size) for size in SIZES]


def test_every_smaller_load_that_is_slower_leaves_the_fastest():
    told = dict(answer_of(in_json(race())).lines())["load"]
    assert told.startswith("metrics: 2 clients, 10,000 documents a request, ")
    assert told.endswith(" documents/s, the fastest; every smaller one is shown to be slower")


def test_no_load_is_recommended_of_too_few_rounds_and_none_is_chosen_of_one():
    few = in_json(race(rounds=19))
    told = dict(answer_of(few).lines())["load"]
    assert told == "metrics: nothing recommended, a verdict takes ingest_rounds:20"
    text = {section.title: section.text for section in explained.sections(few)}["Which load to take"]
    assert "nothing is recommended, since a verdict takes ingest_rounds:20." in text and "**" not in text
    whole = race()
    one = [s for s in whole.samples if s.cell in ("metrics-json-1000-by-1", "metrics-json")]
    assert "Which load to take" not in {s.title for s in explained.sections(replace(whole, samples=one))}
    assert explained.sections(replace(whole, samples=[])) == []
