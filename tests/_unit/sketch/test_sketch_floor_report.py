"""The report of sketch-floor, on races made of known costs."""

import numpy as np
import pytest
from fakes import rows

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.stats import median
from cluster_metrics.core.challenge import challenges
from cluster_metrics.sketch._report import sketch_floor as explained
from cluster_metrics.sketch.sketch_floor import INGESTED, INGESTS

COSTS = {
    "elasticsearch-full": 76.0,
    "elasticsearch-filtered": 66.0,
    "sketch-rows-items": 34.0,
    "sketch-rows": 28.0,
    "sketch-columns-items": 16.0,
    "sketch-columns": 10.0,
    "elasticsearch-best": 8.0,
    "sketch-best": 2.0,
}


def race(rounds=20, spread=0.05):
    """A race in which 1,000 rows cost these ms, all ways slowed down alike from round to round."""
    rng = np.random.default_rng(1)
    samples = []
    for r in range(1, rounds + 1):
        slow = float(np.exp(spread * rng.standard_normal()))
        for name, ms in COSTS.items():
            meta = {"round": r, "rows": 500, "wall_ms": ms * slow / 2, "bytes_out": 500}
            meta["bytes_in"] = 1500 if INGESTS[name].items else 500
            meta |= {"encode_ms": ms / 20, "send_ms": ms / 4, "parse_ms": ms / 10, "client_cpu_ms": ms / 4 + 1}
            if INGESTS[name].elasticsearch:
                meta |= {"took_ms": 20.0 * slow, "index_ms": 15.0 * slow, "settle_ms": 1.0}
            samples.append(Sample(INGESTED, r, name, ms, meta))
        for name, ms in (("D_td-serial", 300.0), ("D_td-msearch", 150.0), ("sketch-serial", 30.0), ("sketch-all", 1.0)):
            meta = {"round": r, "wall_ms": ms, "client_ms": 5 + ms / 10, "max_percentile_error": 0.01}
            samples.append(Sample("coverage", r, name, ms, meta))
    return Race({"race-id": "x", "challenge": "sketch-floor"}, samples, {})


def test_the_steps_add_up_to_the_whole():
    *steps, whole = explained.steps(explained.Ways(race().of(INGESTED)))
    assert sum(step.ms for step in steps if not step.part_of) == pytest.approx(whole.ms)
    exact = explained.steps(explained.Ways(race(spread=0).of(INGESTED)))
    found = {step.name: median(step.ms).value for step in exact}
    known = {"the sketch server": 10, "wire format": 18, "response": 10, "per-document work": 38}
    known["whole: Elasticsearch"] = 76
    parts = {"indexing": 30, "the rest of took": 10, "unexplained": -2}
    parts |= {"the client's encoding": 1.8, "the client's decoding": 2}
    assert found == pytest.approx(known | parts)
    assert [step.name for step in exact if not step.part_of] == list(known)


def test_the_figure_draws_either_a_step_or_its_parts():
    *steps, whole = explained.steps(explained.Ways(race().of(INGESTED)))
    assert sum(step.ms for step in steps if step.drawn) == pytest.approx(whole.ms)


def test_the_report_shows_the_gap_its_steps_and_the_question():
    sections = explained.sections(race(spread=0))
    (text,) = (s.text for s in sections if s.title == "From the floor to Elasticsearch")
    assert "66.0 ms [66.0, 66.0] more than the sketch server, 7.60 times as long [7.60, 7.60]" in text
    work = rows(sections, "gap")["per-document work (elasticsearch-filtered − sketch-rows)"]
    assert (work["ms"].value, work["share"].value) == pytest.approx((38, 38 / 66))
    assert "57.6 %" in text
    (first, *between, whole) = rows(sections, "gap").values()
    assert first["share"] is whole["share"] is None and all(row["share"] for row in between), "the gap is between them"
    elsewhere = rows(sections, "elsewhere")
    assert elsewhere["response, on the sketch server from rows"]["ms"].value == pytest.approx(6)
    best = {row["source"]: row["ratio"].value for row in rows(sections, "best").values()}
    assert best["elasticsearch-best / sketch-best"] == pytest.approx(4)
    asked = {row["what"]: row["speedup"].value for row in rows(sections, "questions").values()}
    assert asked["sketch server, a request per node"] == pytest.approx(10)


def test_a_race_without_a_whole_round_has_no_gap():
    whole = race(rounds=2)
    few = Race(whole.document, [s for s in whole.samples if s.cell != "sketch-rows"], {})
    titles = [section.title for section in explained.sections(few)]
    assert "From the floor to Elasticsearch" not in titles and "The production question" in titles
    assert explained.sections(Race(whole.document, [], {})) == []


def test_the_answer_is_the_gap_and_its_greatest_step():
    lines = dict(answer_of(race(spread=0.0)).lines())
    assert lines["Elasticsearch"] == (
        "takes 7.60 × [7.60, 7.60] as long as the sketch server, 66.0 ms more per 1,000 rows"
    )
    assert lines["answers checked"] == "80 coverages, none wrong"
    assert lines["greatest step"].startswith("per-document work, 57.6 %")
    assert lines["production query"] == "300 × [300, 300] as fast from the sketch server (sketch-all)"


def test_a_part_of_a_step_that_is_more_than_the_whole_of_it_is_not_the_greatest_step():
    of = race(spread=0.0)
    for sample in of.samples:
        if "index_ms" in sample.meta:
            sample.meta["index_ms"] = 50.0
    assert dict(answer_of(of).lines())["greatest step"].startswith("per-document work, 57.6 %")


def test_a_change_of_the_response_costs_bytes_and_cpu_time_of_the_client_in_proportion_to_the_whole_response():
    filtered, *_ = explained.changes(race(spread=0))
    assert filtered.times.value == pytest.approx(76 / 66)
    assert {key: ratio.value for key, ratio in filtered.costs.items()} == pytest.approx(
        {"client_cpu": (66 / 2 + 2) / (76 / 2 + 2), "bytes": 1000 / 2000}
    )


def test_a_round_that_lacks_a_way_counts_for_no_step():
    whole = race()
    lost = {("elasticsearch-full", 3), ("sketch-rows", 9), ("sketch-best", 14)}
    of = Race(whole.document, [s for s in whole.samples if (s.cell, s.meta["round"]) not in lost], {})
    *steps, last = explained.steps(explained.Ways(of.of(INGESTED)))
    assert len(last.ms) == 17 and sum(step.ms for step in steps if not step.part_of) == pytest.approx(last.ms)
    lines = dict(answer_of(of).lines())
    assert lines["Elasticsearch"].startswith("takes 7.60 × [7.60, 7.60] as long as the sketch server")
    best = rows(explained.sections(of), "best")
    ratios = {row["source"]: (row["ratio"].low, row["ratio"].value, row["ratio"].high) for row in best.values()}
    assert ratios == {
        "elasticsearch-full / elasticsearch-best": pytest.approx((76 / 8,) * 3),
        "elasticsearch-filtered / elasticsearch-best": pytest.approx((66 / 8,) * 3),
        "sketch-columns / sketch-best": pytest.approx((5, 5, 5)),
        "elasticsearch-full / sketch-columns": pytest.approx((7.6,) * 3),
        "elasticsearch-best / sketch-best": pytest.approx((4, 4, 4)),
    }


def test_both_at_their_best_are_told_by_each_other_and_by_what_they_were():
    text = dict(answer_of(race()).lines())["both at their best"]
    assert text == "4.00 × [4.00, 4.00] as long; Elasticsearch is then 9.50 × [9.50, 9.50] as fast as before"


def test_every_way_is_told_by_its_rate_and_its_times_of_a_thousand_rows_and_bytes_of_a_row():
    sections = explained.sections(race(spread=0))
    found, costs = rows(sections, "ways"), rows(sections, "costs")
    assert {name: row["rate"] for name, row in found.items()} == pytest.approx(
        {name: 1e6 / ms for name, ms in COSTS.items()}
    )
    assert {name: row["wall_ms"].value for name, row in found.items()} == pytest.approx(COSTS)
    full, columns = costs["elasticsearch-full"], costs["sketch-columns"]
    known = {"encode_ms": 7.6, "send_ms": 38, "parse_ms": 15.2, "client_cpu_ms": 40, "took_ms": 40, "settle_ms": 2}
    assert {key: full[key] for key in known} == pytest.approx(known)
    assert (full["bytes_out"], full["bytes_in"], columns["bytes_in"]) == pytest.approx((1, 3, 1))
    assert "took_ms" not in columns and "settle_ms" not in columns


def test_the_greatest_error_of_any_round_and_the_fastest_answer_are_told():
    of = race(spread=0)
    for sample in of.samples:
        if sample.cell == "sketch-serial" and sample.meta["round"] == 5:
            sample.meta["max_percentile_error"] = 0.03
    errors = {row["way"]: row["error"] for row in rows(explained.sections(of), "questions").values()}
    assert errors == {"D_td-serial": 0.01, "D_td-msearch": 0.01, "sketch-serial": 0.03, "sketch-all": 0.01}
    for sample in of.samples:
        if sample.cell == "sketch-all":
            sample.meta["wall_ms"] = 60.0
    told = dict(answer_of(of).lines())["production query"]
    assert told == "10.0 × [10.0, 10.0] as fast from the sketch server (sketch-serial)"


def test_the_steps_are_told_at_every_place_where_they_can_be_taken():
    found = rows(explained.sections(race(spread=0)), "elsewhere")
    assert {row["source"]: row["ms"].value for row in found.values()} == pytest.approx(
        {
            "sketch-rows − sketch-columns": 18,
            "sketch-rows-items − sketch-columns-items": 18,
            "elasticsearch-full − elasticsearch-filtered": 10,
            "sketch-rows-items − sketch-rows": 6,
            "sketch-columns-items − sketch-columns": 6,
            "elasticsearch-filtered − sketch-rows": 38,
            "elasticsearch-full − sketch-rows-items": 42,
        }
    )


def test_changes_are_the_ways_of_elasticsearch_and_its_transport():
    of = race(spread=0)
    *_, asked = explained.changes(of)
    assert asked.costs["client_cpu"].value == pytest.approx((5 + 15) / (5 + 30))
    gains = [(gain.change.part, gain.against, gain.times.value) for gain in explained.changes(of)]
    assert gains == [
        ("ingest", "elasticsearch-full", pytest.approx(76 / 66)),
        ("ingest", "elasticsearch-full", pytest.approx(76 / 8)),
        ("query", "D_td-serial", pytest.approx(2)),
    ]


def test_races_are_judged_by_the_wall_time_of_rows_and_held_against_the_whole_response():
    challenge = challenges()["sketch-floor"]
    compared = challenge.compared
    assert (compared.sample, compared.base, compared.parameter) == (INGESTED, "elasticsearch-full", "rounds")
    assert compared.figures == ("wall_ms", "client_cpu_ms", "took_ms")
    assert challenge.drops == ("cluster-metrics-full", "cluster-metrics-filtered")


def test_the_floor_itself_is_no_step_however_long_it_takes():
    of = race(spread=0.0)
    for sample in of.samples:
        if sample.cell == "sketch-columns":
            sample.meta["wall_ms"] = 35.0
    assert dict(answer_of(of).lines())["greatest step"].startswith("per-document work, ")


def test_what_was_measured_elsewhere_stands_beside_each_step():
    _, beside = explained.reference(race(spread=0))
    assert {row["what"]: (row["here"].value, row["reference"]) for row in beside.rows} == {
        "the sketch server": (pytest.approx(10), "about 10"),
        "wire format": (pytest.approx(18), "10 to 20"),
        "response": (pytest.approx(10), "5 to 10"),
        "per-document work": (pytest.approx(38), "15 to 20"),
        "whole: Elasticsearch": (pytest.approx(76), "76.9"),
    }
