import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tools.report import decomp
from _tools.report.race import Race, Sample
from _tools.report.stats import median
from _tools.report.text import number, percent, table
from _tools.report.write import markdown

samples = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40).map(np.array)


@given(samples)
def test_interval_holds_the_median_and_lies_within_the_samples(values):
    estimate = median(values)
    assert values.min() <= estimate.low <= estimate.value <= estimate.high <= values.max()
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
    lines = table(["a", "bb"], [["x", 1], ["yyy", 22222]]).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_table_puts_numbers_to_the_right_and_words_to_the_left():
    lines = table(["a", "b", "c", "d"], [["x", "3 sums", "1.5 ms", "no"], ["y", "none at all", "[−1, 2]", "yes"]])
    assert lines.splitlines()[1] == "|:--|:------------|--------:|----:|"


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


def page(race):
    return markdown(race, decomp.sections(race))


def row(text, start):
    return next(line for line in text.splitlines() if line.startswith(f"| {start}"))


def test_attribution_adds_up_and_shows_the_rest():
    text = page(race(COSTS))
    assert "20.0 |" in row(text, "filter, framework") and "2.0 %" in row(text, "filter, framework")
    assert "100 |" in row(text, "3 sums (B − A)") and "10.0 %" in row(text, "3 sums (B − A)")
    assert "800 |" in row(text, "3 percentiles, t-digest") and "80.0 %" in row(text, "3 percentiles, t-digest")
    assert "80.0 |" in row(text, "unexplained") and "8.0 %" in row(text, "unexplained")


def test_a_drift_that_all_cells_share_changes_no_share():
    assert "[80.0 %, 80.0 %]" in row(page(race(COSTS, drift=0.2)), "3 percentiles, t-digest")


def test_sections_without_their_cells_are_left_out():
    text = page(race({"D_td-serial": 1000.0, "D_td-msearch": 250.0}))
    assert "## Where the production query's time goes" not in text
    assert "4.00 ×" in row(text, "by msearch (D_td-msearch)")
    assert "75.0 %" in row(text[text.index("## Serial against msearch") :], "D_td")
