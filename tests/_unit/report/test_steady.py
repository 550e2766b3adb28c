"""From when on a rate is steady: little is lost of flat ones, what is lower at the begin is cut, the rest is named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tools.bench.statistics import resembling, starts, steadiness
from _tools.report.steady import FINEST_S, PART, SPANS, course, steady_from, stretches

TRIALS = 200


def spans_of(number):
    return st.lists(st.floats(0, 1000), min_size=number, max_size=number).map(np.array)


@given(st.integers(0, 70).flatmap(spans_of), st.sampled_from([0.25, 8.0, 1024.0]))
def test_the_steady_end_is_most_of_the_time_and_no_matter_of_units(rates, factor):
    start = steady_from(rates)
    assert start is None or 0 <= start <= (1 - PART) * len(rates)
    assert steady_from(factor * rates) == start


@given(st.integers(0, 100), st.floats(0, 1e6))
def test_a_rate_without_noise_is_steady_from_the_first_on(spans, rate):
    assert steady_from(np.full(spans, rate)) == 0


def test_a_rate_that_ends_at_nothing_is_never_steady():
    parts = [np.full(6, 50.0), np.full(50, 100.0), np.zeros(6)]
    assert len(stretches(np.concatenate(parts))) == 3
    assert steady_from(np.concatenate(parts)) is None and steady_from(np.concatenate(parts[:2])) == 6


@pytest.mark.parametrize("n", [*SPANS, 30])
@pytest.mark.parametrize("spread", [0.05, 0.1, 0.2])
def test_flat_rates_lose_little(n, spread):
    found = starts(np.ones(n), spread, 0.0, TRIALS)
    assert found.count(None) <= 0.02 * TRIALS
    assert np.mean([(start or 0) / n for start in found]) < 0.01
    assert starts(np.ones(n), spread, 0.3, TRIALS).count(None) < 0.1 * TRIALS


@pytest.mark.parametrize("n", [*SPANS, 30])
@pytest.mark.parametrize("level", [0.2, 0.6, 1.5])
def test_another_level_at_the_begin_is_cut(n, level):
    at = np.arange(n)
    found = starts(np.where(at < n // 5, level, 1.0), 0.05, 0.0, TRIALS)
    assert np.mean([start is not None and abs(start - n // 5) <= 1 for start in found]) > 0.97


@pytest.mark.parametrize("n", [*SPANS, 30])
def test_a_ramp_at_the_begin_hardly_lowers_the_mean(n):
    ramp = 1 - 0.6 * np.exp(-(np.arange(n) + 0.5) / (n / 12))
    left = [np.mean(ramp[start or 0 :]) for start in starts(ramp, 0.05, 0.0, TRIALS)]
    assert 1 - np.mean(ramp) > 0.045 and 1 - np.mean(left) < 0.015


@pytest.mark.parametrize("n", [*SPANS, 30])
@pytest.mark.parametrize("to", [1.5, 0.6])
def test_a_rate_that_keeps_rising_or_falling_is_not_steady(n, to):
    assert starts(np.linspace(1, to, n), 0.05, 0.0, TRIALS).count(None) > 0.9 * TRIALS


@pytest.mark.parametrize("n", [*SPANS, 30])
def test_a_late_change_is_not_steady(n):
    assert starts(np.where(np.arange(n) < 0.6 * n, 1.0, 0.7), 0.05, 0.0, TRIALS).count(None) > 0.97 * TRIALS


@pytest.mark.parametrize("n", [*SPANS, 30])
@pytest.mark.parametrize("level", [0.2, 0.6, 1.5])
@pytest.mark.parametrize("after", [0.5, 0.8])
def test_a_disturbance_belongs_to_a_steady_rate_and_one_of_half_its_time_does_not(n, level, after):
    at = np.arange(n)
    brief = np.where((at >= after * n) & (at < (after + 0.2) * n), level, 1.0)
    found = starts(brief, 0.05, 0.0, TRIALS)
    assert np.mean([start == 0 for start in found]) > 0.85  # of 16 spans, 0.97 of more: few tell a level badly
    long = np.where((at >= 0.2 * n) & (at < 0.7 * n), level, 1.0)
    assert starts(long, 0.05, 0.0, TRIALS).count(None) > 0.97 * TRIALS


def test_what_is_slower_at_the_begin_is_cut_though_a_disturbance_follows():
    rates = np.exp(resembling(np.random.default_rng(1), 0.02, 30, 0.0))
    rates[:6], rates[15:19] = 0.5 * rates[:6], 0.7 * rates[15:19]
    assert steady_from(rates) == 6


def test_changes_of_a_few_per_cent_belong_to_a_steady_rate():
    rates = np.where(np.arange(60) < 45, 1.0, 1.03) * np.exp(resembling(np.random.default_rng(1), 0.001, 60, 0.0))
    assert len(stretches(rates)) > 1 and steady_from(rates) == 0


def test_a_single_span_is_no_stretch():
    rates = np.exp(resembling(np.random.default_rng(1), 0.05, 30, 0.0))
    rates[20] = 0.5
    assert steady_from(rates) == 0


@pytest.mark.parametrize("at", [3, 20])
def test_a_rate_that_stops_is_not_steady(at):
    assert steady_from(np.array([10.0] * at + [0.0] * (30 - at))) is None


@pytest.mark.parametrize("seconds, spans", [(0, 0), (3.9, 0), (4, 16), (10, 16), (30, 30), (3600, 60)])
def test_a_course_is_told_by_spans_of_a_second_within_bounds(seconds, spans):
    at = np.linspace(5000, 5000 + 1000 * seconds, 4000)
    found = course(at, np.full(len(at), 3.0), seconds)
    assert len(found) == spans and np.sum(found) == (12_000 if spans else 0)
    assert not spans or seconds / spans >= FINEST_S


def test_a_course_that_ends_before_its_time_ends_in_nothing():
    assert list(course(np.array([0.0, 1, 2]), np.ones(3), 10)) == [3] + 15 * [0]


def test_the_table_of_the_docs_is_of_what_it_says():
    rows = {(row["n"], row["cv"]): row for row in steadiness(20).rows}
    assert set(rows) == {(n, cv) for n in (16, 30, 60) for cv in ("5.0 %", "10.0 %", "20.0 %")}
    quiet = rows[60, "5.0 %"]
    assert (quiet["flat"], quiet["step"], quiet["rise"], quiet["late"]) == ("0.0 %", "100.0 %", "100.0 %", "100.0 %")
