from dataclasses import replace

import numpy as np
import pytest
from fakes import rows
from hypothesis import given
from hypothesis import strategies as st

from _tools.report.answer import RaceWarning, answer_of
from _tools.report.race import Race, Sample
from _tools.report.stats import median, widening
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import number, percent
from cluster_metrics.query._report.query_decomp import changes, drift_check, headline, reference, sections

samples = st.lists(st.floats(0.1, 1e6), min_size=15, max_size=40).map(np.array)


@given(samples)
def test_interval_holds_the_median_and_lies_within_the_samples(values):
    estimate = median(values)
    assert estimate.low <= estimate.value <= estimate.high
    resembling = widening(values) > 1  # which widens an interval beyond what was seen
    assert resembling or values.min() <= estimate.low and estimate.high <= values.max()
    assert estimate == median(values) or np.isnan(estimate.cv)


@given(samples, st.floats(0.01, 100))
def test_median_and_interval_scale_with_the_samples(values, factor):
    one, scaled = median(values), median(values * factor)
    assert [scaled.value, scaled.low, scaled.high] == pytest.approx(
        [factor * x for x in (one.value, one.low, one.high)]
    )


def test_interval_covers_the_true_median_in_about_95_of_100_cases():
    rng = np.random.default_rng(1)
    covered = [(e := median(rng.exponential(1, 20))).low <= np.log(2) <= e.high for _ in range(400)]
    assert 0.90 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (1234.5, "1,234"), (123.4, "123"), (12.34, "12.3"), (0.01234, "0.0123"), (-5.5, "−5.50")]
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_percent_of_nothing_is_a_dash():
    assert percent(float("nan")) == "–"


def test_table_is_aligned():
    table = Table("t", [Words("a", "a"), Column("b", "bb")], [{"a": "x", "b": 1}, {"a": "yyy", "b": 22222}])
    lines = table.markdown().splitlines()
    assert len({len(line) for line in lines}) == 1


def test_table_puts_numbers_to_the_right_and_words_to_the_left():
    columns = [Words("a", "a"), Words("b", "b"), Column("c", "c", "ms"), share("d", "d"), Column("e", "e")]
    row = {"a": "x", "b": "3 sums", "c": 1.5, "d": median(np.array([0.5])), "e": False}
    lines = Table("t", columns, [row]).markdown().splitlines()
    assert lines[1] == "|:--|:-------|-----:|---------------:|---:|"
    assert lines[2] == "| x | 3 sums | 1.50 | 50.0 % (n = 1) | no |"


def race(costs, rounds=10, drift=0.0):
    """A race whose plan measured exactly these costs, all slowed down alike by a drift from round to round."""
    found = []
    for r in range(rounds):
        for cell, ms in costs.items():
            variant, transport = cell.rsplit("-", 1)
            value = ms * (1 + drift * r)
            meta = {"variant": variant, "transport": transport, "took_ms": value, "wall_ms": value, "parallelism": 1.0}
            meta |= {"round": r, "max_percentile_error": 0.0}
            found.append(Sample("coverage", r, cell, value, meta))
    return Race({"race-id": "x", "challenge": "query-decomp"}, found, {})


COSTS = {"A-serial": 20.0, "B-serial": 120.0, "C_td-serial": 820.0, "D_td-serial": 1000.0}


def test_attribution_adds_up_and_shows_the_rest():
    found = rows(sections(race(COSTS)), "attribution")
    expected = {
        "filter, framework, client (A)": (20, 0.02),
        "3 sums (B − A)": (100, 0.1),
        "3 percentiles, t-digest (C_td − A)": (800, 0.8),
        "unexplained (D_td − B − C_td + A)": (80, 0.08),
    }
    for name, (ms, part) in expected.items():
        assert (found[name]["wall_ms"].value, found[name]["share"].value) == pytest.approx((ms, part)), name
    whole = found["whole: production (D_td)"]
    assert whole["wall_ms"].value == sum(ms for ms, _ in expected.values()) and whole["share"] == 1
    shares = next(b for b in reference(race(COSTS)) if getattr(b, "key", "") == "reference shares")
    assert [row["reference"] for row in shares.rows][-1] == pytest.approx(-0.037, abs=5e-4), "the rest, too"
    assert list(found) == [*expected, "whole: production (D_td)"]


def test_passes_of_a_headline_cell_are_its_samples_not_the_coverages_in_them():
    """Five coverages in each of three passes: one pass, slowed down as a whole, is one sample of three."""
    walls = {1: 100.0, 2: 101.0, 3: 150.0}
    made = [Sample("query-cell", n, "D_td-serial", ms, {"pass": n, "wall_ms": ms}) for n, ms in walls.items()]
    slow = Sample("query-cell", 1, "D_td-serial", 9000.0, {"pass": 1, "wall_ms": 9000.0})
    found = headline(Race({"challenge": "query-decomp"}, [*5 * made, slow], {}), "D_td-serial", "wall_ms")
    assert (found.n, found.value, found.known) == (3, 101.0, False)


def test_times_beside_a_speed_up_are_of_the_rounds_it_is_made_of():
    made = race(COSTS | {"D_td-msearch": 250.0}, drift=0.2)
    kept = [s for s in made.samples if s.cell != "D_td-serial" or s.meta["round"] < 3]
    row = rows(sections(Race(made.document, kept, {})), "changes")["by msearch (D_td-msearch)"]
    assert (row["n"], row["wall_ms"]) == (3, 300.0)
    assert row["speedup"].value == pytest.approx(4)


def test_a_drift_that_all_cells_share_changes_no_share():
    found = rows(sections(race(COSTS, drift=0.2)), "attribution")["3 percentiles, t-digest (C_td − A)"]["share"]
    assert (found.low, found.value, found.high) == pytest.approx((0.8, 0.8, 0.8))


def test_parts_are_of_the_rounds_that_all_of_them_have_and_hdr_of_those_of_its_own():
    """Rounds get slower; three of ten are whole, in which all takes 1.2 times as long on average, in all ten 1.9."""
    made = race(COSTS | {"C_hdr-serial": 420.0}, drift=0.2)
    for sample in made.samples:
        sample.meta["took_ms"] = {"A": 5, "B": 15, "C_td": 300, "C_hdr": 200, "D_td": 700}[sample.meta["variant"]]
    made.samples[:] = [s for s in made.samples if s.cell != "B-serial" or s.meta["round"] < 3]
    found = rows(sections(made), "attribution")
    parts = {name: (row["wall_ms"].value, row["took_ms"], row.get("share")) for name, row in found.items()}
    shares = {name: getattr(part, "value", part) for name, (_, _, part) in parts.items()}
    assert {name: of[:2] for name, of in parts.items()} == {
        "filter, framework, client (A)": pytest.approx((24, 5)),
        "3 sums (B − A)": pytest.approx((120, 10)),
        "3 percentiles, t-digest (C_td − A)": pytest.approx((960, 295)),
        "unexplained (D_td − B − C_td + A)": pytest.approx((96, 390)),
        "whole: production (D_td)": pytest.approx((1200, 700)),
        "instead: 3 percentiles, HDR (C_hdr − A)": pytest.approx((400 * 1.9, 195)),
    }
    assert list(shares.values()) == [*(pytest.approx(share) for share in (0.02, 0.1, 0.8, 0.08)), 1.0, None]
    assert {part.n for _, _, part in list(parts.values())[:4]} == {3}


def test_sections_without_their_cells_are_left_out():
    made = race({"D_td-serial": 1000.0, "D_td-msearch": 250.0})
    for sample in made.samples:
        sample.meta |= {"took_ms": 900.0, "parallelism": {"serial": 0.9, "msearch": 3.6}[sample.meta["transport"]]}
    found = sections(made)
    assert "Where the production query's time goes" not in [section.title for section in found]
    assert rows(found, "changes")["by msearch (D_td-msearch)"]["speedup"].value == pytest.approx(4)
    row = rows(found, "transports")["D_td"]
    assert (row["saved"].value, row["parallelism"], row["n"]) == pytest.approx((0.75, 3.6, 10))
    assert (row["serial"].value, row["msearch"].value) == (1000, 250)


def passes(cell, levels, each=5, **of_last):
    """Samples of a headline cell: each pass has coverages alike, and its last one what was counted over the pass.

    :param levels: wall time by pass.
    :param of_last: likewise a figure by pass.
    """
    variant, _, transport = cell.rpartition("-")
    about = {"variant": variant, "transport": transport, "max_percentile_error": 0.0, "parallelism": 1.0}
    for which, ms in levels.items():
        meta = about | {"pass": which, "wall_ms": ms, "took_ms": ms}
        for i in range(each):
            counted = {key: of[which] for key, of in of_last.items()} if i == each - 1 else {}
            yield Sample("query-cell", which, cell, ms, meta | counted)


def test_cpu_time_is_counted_over_a_pass_and_told_per_coverage():
    serial = passes("D_td-serial", {1: 400.0, 2: 410.0, 3: 420.0}, target_cpu_ms={1: 1500.0, 2: 2500.0, 3: 2000.0})
    msearch = passes("D_td-msearch", {1: 100.0}, each=10, target_cpu_ms={1: 2000.0})
    planned = race({"D_td-serial": 400.0, "D_td-msearch": 100.0})
    for sample in planned.samples:
        sent, received, used = {"serial": (100, 300, 10), "msearch": (100, 700, 5)}[sample.meta["transport"]]
        sample.meta |= {"request_bytes": sent, "response_bytes": received, "client_ms": used}
    of = Race(planned.document, [*serial, *msearch, *planned.samples], {})
    found = rows(sections(of), "cpu")
    assert {cell: (row["n"], row["cpu_ms"]) for cell, row in found.items()} == {
        "D_td-msearch": (1, 200),
        "D_td-serial": (3, 400),
    }
    (gain,) = changes(of)
    assert gain.costs["target_cpu"].value == pytest.approx(0.5) and gain.times.value == pytest.approx(4)
    assert (gain.costs["bytes"].value, gain.costs["client_cpu"].value) == pytest.approx((2, 0.5))
    lost = replace(of, failed={"D_td-serial": 1})
    (gain,) = changes(lost)
    assert rows(sections(lost), "cpu").keys() == {"D_td-msearch"} and "target_cpu" not in gain.costs


def test_coverages_are_drawn_over_time_by_transport():
    made = race({"D_td-serial": 400.0, "D_td-msearch": 100.0}, rounds=3)
    samples = [*passes("D_td-serial", {1: 410.0}), *passes("D_td-msearch", {1: 110.0}), *made.samples]
    found = sections(Race(made.document, samples, {}))
    figures = next(of for of in found if of.title == "Headline cells against the plan").figures
    drawn = [{ms for ms in (100, 110, 400, 410) if f"'value': {ms}.0" in str(figure.spec)} for figure in figures]
    assert drawn == [{400, 410}, {100, 110}]


@pytest.mark.parametrize("last, warned", [(100.0, False), (104.9, False), (105.1, True), (94.9, True), (95.1, False)])
def test_the_last_pass_may_differ_from_the_first_by_5_percent(last, warned):
    levels = {2: 500.0, 3: last, 1: 100.0}
    slow = passes("D_td-serial", {1: 9000.0, 3: 9000.0}, each=1)
    of = Race({"race-id": "x", "challenge": "query-decomp"}, [*passes("D_td-serial", levels), *slow], {})
    found = drift_check(of)
    assert isinstance(found, RaceWarning) is warned
    if warned:
        assert found.value == pytest.approx(last / 100 - 1)
    else:
        assert f"took {number(last)} ms in the last pass, 100 ms in the first" in found
    assert drift_check(Race(of.document, list(passes("D_td-serial", {1: 100.0})), {})) == ""


@pytest.mark.parametrize(
    "msearch, hdr, recommended",
    [
        (250.0, 600.0, "by msearch: 250 ms a coverage; p50 and p90 off by at most 1 % (production 2 %)"),
        (600.0, 250.0, "HDR, serial: 250 ms a coverage; p50 and p90 off by at most 5 % (production 2 %)"),
        (995.0, 1200.0, "nothing: no gain is shown beyond noise"),
    ],
)
def test_the_fastest_change_that_is_shown_is_recommended_with_its_greatest_error(msearch, hdr, recommended):
    of = race({"D_td-serial": 1000.0, "D_td-msearch": msearch, "D_hdr-serial": hdr}, rounds=20)
    for sample in of.samples:
        greatest = {"D_hdr-serial": 0.05, "D_td-msearch": 0.01, "D_td-serial": 0.02}[sample.cell]
        sample.meta["max_percentile_error"] = greatest if sample.meta["round"] == 7 else greatest / 10
        sample.meta["took_ms"] = 700.0  # which says nothing of a gain
    assert dict(answer_of(of).lines())["recommended"] == recommended
    found = rows(sections(of), "accuracy")
    assert {name: (row["n"], row["error"]) for name, row in found.items()} == {"D_td": (40, 0.02), "D_hdr": (20, 0.05)}


def test_few_rounds_recommend_no_change():
    of = race({"D_td-serial": 1000.0, "D_td-msearch": 250.0}, rounds=19)
    assert dict(answer_of(of).lines())["recommended"] == f"nothing: a verdict takes {of.record.compared.parameter}:20"
    of = race({"D_td-serial": 1000.0, "D_td-msearch": 1000.0, "D_hdr-serial": 1000.0}, rounds=20)
    of.samples[:] = [s for s in of.samples if s.cell != "D_hdr-serial" or s.meta["round"] < 5]
    assert dict(answer_of(of).lines())["recommended"] == "nothing: no gain is shown beyond noise"


def test_the_greatest_part_by_subtraction_is_named_where_the_fit_lacks_its_cells():
    made = race(COSTS)
    for sample in made.samples:
        sample.meta["searches"] = 30
    lines = dict(answer_of(made).lines())
    assert lines["answers checked"] == "1,200 searches, none wrong"
    assert lines["3 percentiles, t-digest"] == "80.0 % [80.0 %, 80.0 %] of 1,000 ms a coverage"
    sums = dict(answer_of(race(COSTS | {"B-serial": 820.0, "C_td-serial": 120.0})).lines())
    assert sums["3 sums"] == "80.0 % [80.0 %, 80.0 %] of 1,000 ms a coverage"


BOTH = {"by msearch", "HDR, serial"}


@pytest.mark.parametrize(
    "left, recommended, ranked",
    [
        ([], "HDR", BOTH),
        (["D_hdr-serial"], "by msearch", {"by msearch"}),
        (["D_td-serial"], "nothing: what is compared was not steady", set()),
    ],
)
def test_what_was_not_steady_is_neither_recommended_nor_ranked(left, recommended, ranked):
    planned = race({"D_td-serial": 400.0, "D_td-msearch": 300.0, "D_hdr-serial": 200.0}, rounds=20)
    warm_up = Sample("query-warm-up", 0, "warm-up", 1.0, {"rounds": 40, "unsteady": left})
    of = replace(planned, samples=[warm_up, *planned.samples])
    found = answer_of(of)
    assert dict(found.lines())["recommended"].startswith(recommended)
    assert ("not-steady" in {warning.kind for warning in found.warnings}) is bool(left)
    assert {gain.change.text for gain in changes(of)} == ranked
    in_test_mode = replace(of, parameters=of.parameters | {"test_mode": True})
    assert {gain.change.text for gain in changes(in_test_mode)} == BOTH, "in which nothing can be steady"


def test_what_was_published_stands_beside_what_took_and_what_changes_gained():
    made = race(
        {"A-serial": 20.0, "D_td-serial": 1000.0, "D_td-msearch": 250.0, "D_hdr-serial": 500.0, "D_hdr-msearch": 100.0}
    )
    for sample in made.samples:
        sample.meta["took_ms"] *= 0.9 if sample.meta["variant"] == "A" else 0.5
    took, shares, gains = (block for block in reference(made) if isinstance(block, Table))
    assert [(row["what"], row["here"].value, row["reference"]) for row in took.rows] == [
        ("A", 18, 19),
        ("D_td", 500, 1199),
        ("D_hdr", 250, 712),
    ]
    assert [(row["what"], row["here"].value, row["reference"]) for row in shares.rows] == [
        ("filter, framework, client", pytest.approx(18 / 500), pytest.approx(19 / 1199))
    ]
    assert [(row["what"], row["here"].value, row["reference"]) for row in gains.rows] == [
        ("by msearch", pytest.approx(4), 8.8),
        ("HDR, serial", pytest.approx(2), pytest.approx(1.566, abs=1e-3)),
        ("by msearch and HDR", pytest.approx(10), 13.1),
    ]


def test_the_took_of_headline_cells_stands_beside_that_of_the_plan():
    headline_cells = list(passes("D_td-serial", {1: 400.0, 2: 410.0, 3: 490.0}))
    for sample in headline_cells:
        sample.meta["took_ms"] /= 2
    made = race({"D_td-serial": 400.0}, rounds=12)
    row = rows(sections(Race(made.document, [*headline_cells, *made.samples], {})), "variants")["D_td"]
    assert (row["headline"], row["took_ms"].value, row["n"], row["cv"]) == ("205 (3)", 400, 12, 0)
