"""The statistics hold what they promise, for any samples and on average."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from _tools.report import scatter, stats
from _tools.report.stats import ENOUGH_RACES, Estimate, race_ratio
from _tools.report.verdicts import Verdict, verdict, widened
from cluster_metrics.core.challenge import Compared

NAN = float("nan")
times = st.floats(0.1, 1e4)
samples = st.lists(times, min_size=15, max_size=30).map(np.array)
few = {"resamples": 200}


def estimate(low, value, high, n=20):
    return Estimate(n, value, low, high, NAN)


@given(samples, st.floats(0.01, 100))
def test_mean_and_cv_scale_with_the_samples(values, factor):
    assume(len(values) > 2)
    one, scaled = stats.mean(values), stats.mean(values * factor)
    assert one.low <= one.value <= one.high
    assert one.value == pytest.approx(sum(values) / len(values))
    assert [scaled.value, scaled.low, scaled.high] == pytest.approx(
        [factor * x for x in (one.value, one.low, one.high)]
    )
    assert stats.cv(values * factor) == pytest.approx(stats.cv(values), abs=1e-9)


@given(samples, samples)
def test_a_ratio_and_a_difference_of_two_races_are_those_of_their_medians(base, other):
    found, gap = stats.ratio(base, other, **few), stats.difference(base, other, **few)
    assert found.value == np.median(other) / np.median(base)
    assert gap.value == np.median(other) - np.median(base)
    assert found.low <= found.value <= found.high and gap.low <= gap.value <= gap.high
    assert found.n == gap.n == min(len(base), len(other))
    if max(map(stats.widening, (base, other))) == 1:
        assert found.low >= other.min() / base.max() and found.high <= other.max() / base.min()


@given(st.lists(times, min_size=6, max_size=300).map(np.array), st.lists(times, min_size=6, max_size=30).map(np.array))
def test_medians_are_those_of_samples_drawn_with_replacement(base, other):
    assume(max(map(stats.widening, (base, other))) == 1)
    rng = np.random.default_rng(stats.SEED)
    drawn = [np.median(side[rng.integers(0, len(side), (200, len(side)))], axis=1) for side in (base, other)]
    assert stats.log_error(base, **few) == np.std(np.log(drawn[0]), ddof=1)
    if len(base) >= stats.FEW:
        found = stats.median(base, **few)
        low, high = np.percentile(drawn[0], (2.5, 97.5))
        assert (found.low, found.high) == (min(low, found.value), max(high, found.value))
    if min(len(base), len(other)) >= stats.FEW:
        found = stats.ratio(base, other, **few)
        low, high = np.percentile(drawn[1] / drawn[0], (2.5, 97.5))
        assert (found.low, found.high) == (min(low, found.value), max(high, found.value))


@given(samples, st.floats(0.5, 2))
def test_a_slower_race_scales_the_ratio(values, factor):
    plain, slower = stats.ratio(values, values, **few), stats.ratio(values, values * factor, **few)
    assert [slower.low, slower.value, slower.high] == pytest.approx(
        [factor * x for x in (plain.low, plain.value, plain.high)]
    )


@given(samples)
def test_the_two_sides_of_a_ratio_are_resampled_apart(values):
    assume(np.median(values) not in (values.min(), values.max()) and len(set(values)) > 4)
    assert stats.ratio(values, values).low < 1 < stats.ratio(values, values).high


@given(samples, st.floats(0.5, 2), st.integers(0, 99))
def test_what_a_round_shares_cancels_in_pairs_but_not_between_races(rounds, factor, seed):
    disturbed = np.random.default_rng(seed).uniform(1, 9, len(rounds))
    base, other = 10 * disturbed, 10 * factor * disturbed
    paired = stats.paired_ratio(base, other, **few)
    assert [paired.low, paired.value, paired.high] == pytest.approx([factor] * 3) and np.isnan(paired.cv)
    assert stats.ratio(base, other, **few).high > factor * (1 - 1e-9)


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [-1.0, -3.0]])
def test_a_single_sample_or_a_mean_that_is_not_positive_has_no_cv(values):
    assert np.isnan(stats.cv(np.array(values)))


def test_a_cv_is_the_standard_deviation_of_a_sample_over_its_mean():
    assert stats.cv(np.array([1.0, 2.0, 3.0])) == stats.mean(np.array([1.0, 2.0, 3.0])).cv == 0.5


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_a_geometric_mean_of_what_is_not_all_above_0_is_0_without_an_interval(least):
    found = stats.geometric_mean([4.0, least, 1.0])
    assert (found.n, found.value, found.known, found.freedom) == (3, 0.0, False, np.inf)


def test_a_geometric_mean_has_the_interval_of_student_about_the_mean_of_the_logarithms():
    found = stats.geometric_mean([1.0, 4.0, 16.0])
    factor = 4 ** (4.303 / np.sqrt(3))  # the logarithms' standard deviation is that of 4
    assert (found.n, found.freedom) == (3, 2)
    assert [found.low, found.value, found.high] == pytest.approx([4 / factor, 4, 4 * factor], rel=1e-3)


@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_the_interval_of_few_rounds_is_a_factor_where_all_is_above_0_and_else_a_difference(scale):
    few = scale * np.arange(1.0, 8)
    found = stats.median(few)
    assert (found.n, found.freedom) == (7, 6) and found.value / found.low == pytest.approx(found.high / found.value)
    assert found.value / found.low == pytest.approx(np.exp(2.447 * stats.log_error(few)), rel=1e-3)
    gap = stats.difference(few[::-1], few + scale)
    assert (gap.n, gap.freedom) == (7, 6) and gap.low < 0 < gap.value < gap.high
    assert gap.value - gap.low == pytest.approx(gap.high - gap.value)


@pytest.mark.parametrize("n, freedom", [(14, 13), (15, 5), (18, 6)])
@pytest.mark.parametrize("statistic", [stats.median, stats.mean])
def test_intervals_of_few_samples_are_students_and_those_of_more_count_as_a_third_of_them(statistic, n, freedom):
    found = statistic(np.random.default_rng(1).permutation(np.arange(1.0, n + 1)))
    assert (found.n, found.freedom) == (n, freedom)


def test_pairs_need_both_sides():
    with pytest.raises(ValueError, match="2 samples cannot be paired with 3"):
        stats.paired_ratio(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="no samples"):
        stats.ratio(np.ones(2), np.array([]))


def test_an_interval_of_a_ratio_covers_the_truth_in_about_95_of_100_cases():
    rng = np.random.default_rng(2)
    covered = []
    for _ in range(400):
        found = stats.ratio(rng.lognormal(0, 0.1, 20), rng.lognormal(0.2, 0.1, 20), **few)
        covered.append(found.low <= np.exp(0.2) <= found.high)
    assert 0.91 <= np.mean(covered) <= 0.995


def test_geometric_mean_weighs_cells_alike():
    base = np.outer([1.0, 1000.0], np.ones(6))
    other = np.outer([2.0, 500.0], np.ones(6))
    found = stats.geometric_mean_ratio(base, other)
    assert (found.low, found.value, found.high) == pytest.approx((1, 1, 1))
    assert stats.geometric_mean_ratio(base, 3 * base).value == pytest.approx(3)
    spiked = np.array([[1.0, 1, 1, 1, 1, 500], [1000.0] * 6])
    assert stats.geometric_mean_ratio(base, spiked).value == pytest.approx(1), "medians over rounds"


@pytest.mark.parametrize("rounds", [(4, 20), (20, 4)])
def test_a_geometric_mean_has_as_many_rounds_as_the_side_that_has_fewer(rounds):
    found = stats.geometric_mean_ratio(*(np.ones((2, n)) for n in rounds))
    assert (found.n, found.value, found.known) == (4, 1, False)


def test_geometric_mean_keeps_rounds_whole():
    rng = np.random.default_rng(3)
    disturbed = rng.lognormal(0, 0.3, 40)
    shared = np.array([disturbed] * 12)
    apart = rng.lognormal(0, 0.3, (12, 40))
    wide, narrow = (np.ptp([e.low, e.high]) for e in (stats.geometric_mean_ratio(x, x) for x in (shared, apart)))
    assert wide > 2 * narrow
    assert stats.log_level_error(np.outer([1, 5], disturbed)) == pytest.approx(stats.log_error(disturbed))


@given(samples)
def test_outliers_are_those_beyond_the_fences(values):
    found = scatter.outliers(values)
    low, high = np.percentile(values, (25, 75))
    span = 1.5 * (high - low)
    assert found.count == np.sum((low - values > span) | (values - high > span))
    assert found.count <= len(values) / 2


def test_outliers_are_classified():
    steady = [10.0, 11, 12, 13, 14] * 4  # with the five below, the quartiles are 11 and 14
    found = scatter.outliers(np.array([*steady, 1.0, 5.0, 19.0, 24.0, 30.0]))
    assert (found.low_severe, found.low_mild, found.high_mild, found.high_severe) == (1, 1, 1, 2)


@given(st.permutations(range(8)), st.floats(0.1, 10))
def test_drift_reversed_is_the_drift_backwards(order, factor):
    values = np.array(order) * factor + 1
    one, back = scatter.drift(values, 2000), scatter.drift(values[::-1], 2000)
    assert 1 + back.change == pytest.approx(1 / (1 + one.change))
    assert 0 < one.p <= 1 and back.p == pytest.approx(one.p, abs=0.08)


def test_equal_samples_share_their_rank():
    # of the 20 ways to part six rounds into three of each, two are as far apart as these
    assert scatter.drift(np.array([1.0, 1, 1, 2, 2, 2])).p == pytest.approx(2 / 20)
    assert scatter.drift(np.array([1.0, 2, 3, 4, 5, 6])).p == pytest.approx(2 / 720)


def test_drift_is_found_and_sized():
    found = scatter.drift(100 + 0.5 * np.arange(21) + np.random.default_rng(4).normal(0, 1, 21))
    assert found.p < 0.001
    assert found.change == pytest.approx(0.1, rel=0.25)
    assert scatter.drift(np.full(20, 7.0)) == scatter.Drift(1.0, 0.0)
    assert scatter.drift(np.array([7.0, 8.0])) == scatter.Drift(1.0, 0.0), "two samples have no trend"


def test_drift_is_reported_for_about_one_steady_race_of_20():
    rng = np.random.default_rng(5)
    alarms = np.mean([scatter.drift(rng.exponential(1, 20), 500).p < 0.05 for _ in range(600)])
    assert 0.025 <= alarms <= 0.08


@pytest.mark.parametrize(
    "freedom, of_95, of_90",
    [
        *((1, 12.706, 6.314), (2, 4.303, 2.920), (3, 3.182, 2.353), (4, 2.776, 2.132)),
        *((9, 2.262, 1.833), (30, 2.042, 1.697), (10**5, 1.960, 1.645)),
    ],
)
def test_intervals_of_races_are_as_wide_as_the_tables_of_student_have_them(freedom, of_95, of_90):
    several = np.arange(freedom + 1.0) / (freedom + 1)
    found = race_ratio([0.0], several)
    error = np.sqrt(np.var(several, ddof=1) * (1 + 1 / len(several)))
    assert np.log(found.high / found.value) == pytest.approx(of_95 * error, rel=5e-4)
    assert np.log(found.value / found.low) == pytest.approx(of_95 * error, rel=5e-4)
    assert np.log(np.array(found.bounds(0.9)) / found.value) == pytest.approx(
        np.array([-1, 1]) * of_90 * error, rel=5e-4
    )


@pytest.mark.parametrize("sizes", [(3, 3), (1, 3), (5, 5), (2, 6)])
def test_the_interval_of_races_holds_the_true_ratio_in_95_of_100_cases(sizes):
    rng = np.random.default_rng(1)
    found = [race_ratio(*(0.1 * rng.standard_normal(n) for n in sizes)) for _ in range(2000)]
    assert np.mean([e.low <= 1 <= e.high for e in found]) == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5), st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_the_ratio_of_races_is_that_of_their_geometric_means(base, other):
    found, back = race_ratio(base, other), race_ratio(other, base)
    assert found.n == len(base) + len(other)
    assert found.value == pytest.approx(np.exp(np.mean(other) - np.mean(base)))
    assert found.value * back.value == pytest.approx(1)
    if found.n < 3:
        assert np.isnan(found.low) and verdict(found, enough=ENOUGH_RACES) is Verdict.NOT_ENOUGH
    else:
        assert found.low <= found.value <= found.high
        assert found.low == pytest.approx(1 / back.high)


@given(st.floats(0.5, 2), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.3))
def test_widening_never_narrows(value, down, up, floor):
    plain = estimate(value * np.exp(-down), value, value * np.exp(up))
    wide = widened(plain, floor)
    assert wide.value == value
    assert wide.low <= plain.low * (1 + 1e-12) and wide.high >= plain.high * (1 - 1e-12)
    assert np.log(wide.high / value) == pytest.approx(np.hypot(up, floor), abs=1e-9)
    assert np.log(value / wide.low) == pytest.approx(np.hypot(down, floor), abs=1e-9)


@pytest.mark.parametrize(
    "low, value, high, n, said",
    [
        (1.02, 1.10, 1.18, 20, Verdict.REGRESSED),
        (0.80, 0.90, 0.98, 20, Verdict.IMPROVED),
        (1.0101, 1.10, 1.18, 20, Verdict.REGRESSED),
        (1.0099, 1.10, 1.18, 20, Verdict.NOT_SHOWN),
        (0.80, 0.90, 0.99005, 20, Verdict.IMPROVED),  # as far down as 1.0101 is up
        (0.80, 0.90, 0.9902, 20, Verdict.NOT_SHOWN),
        (0.95, 1.02, 1.10, 20, Verdict.NOT_SHOWN),
        (1.005, 1.10, 1.20, 20, Verdict.NOT_SHOWN),  # excludes 1, but not the threshold
        (0.80, 0.90, 0.995, 20, Verdict.NOT_SHOWN),
        (0.99, 1.0, 1.01, 20, Verdict.EQUIVALENT),
        (0.968, 1.0, 1.032, 20, Verdict.EQUIVALENT),  # the 90 % interval is 0.973 to 1.027
        (0.96, 1.0, 1.04, 20, Verdict.NOT_SHOWN),  # it is 0.966 to 1.034
        (1.011, 1.015, 1.019, 20, Verdict.REGRESSED),  # a change that is shown is told, however small
        (1.02, 1.10, 1.18, 19, Verdict.NOT_ENOUGH),
        (NAN, NAN, NAN, 20, Verdict.NOT_ENOUGH),
        (1.02, 1.10, float("inf"), 20, Verdict.NOT_ENOUGH),
    ],
)
def test_verdicts(low, value, high, n, said):
    assert verdict(estimate(low, value, high, n)) is said


@given(st.floats(0.5, 2), st.floats(0, 0.5), st.floats(0, 0.5))
def test_the_verdict_on_swapped_races_is_the_opposite(value, down, up):
    low, high = value * np.exp(-down), value * np.exp(up)
    assume(all(abs(x / bound - 1) > 1e-9 for x in (low, high) for bound in (1.01, 1 / 1.01)))
    inner = estimate(low, value, high).bounds(0.9)
    assume(all(abs(x / bound - 1) > 1e-9 for x in inner for bound in (1.03, 1 / 1.03)))
    opposite = {Verdict.IMPROVED: Verdict.REGRESSED, Verdict.REGRESSED: Verdict.IMPROVED}
    there, back = verdict(estimate(low, value, high)), verdict(estimate(1 / high, 1 / value, 1 / low))
    assert back is opposite.get(there, there)


@given(st.integers(3, 30), st.floats(-0.2, 0.2), st.floats(0.1, 1e4))
def test_a_drift_is_told_from_the_first_round_to_the_last(rounds, slope, first):
    assume(abs(slope) > 1e-6)
    values = first * np.exp(slope * np.arange(rounds))
    assert scatter.drift(values, 50).change == pytest.approx(values[-1] / values[0] - 1)


def test_an_interval_that_is_widened_keeps_its_shape():
    """Of the same samples, in an order in which they resemble their neighbours and in one in which they do not."""
    resembling = np.exp(3 * np.linspace(0, 1, 40) ** 4)
    apart = np.random.default_rng(1).permutation(resembling)
    factor = stats.widening(resembling)
    assert factor > 2 and stats.widening(apart) == 1
    for statistic in (stats.median, stats.mean):
        wide, plain = statistic(resembling), statistic(apart)
        up, down = math.log(wide.high / wide.value), math.log(wide.value / wide.low)
        assert up == pytest.approx(factor * math.log(plain.high / plain.value), rel=0.2)
        assert down == pytest.approx(factor * math.log(plain.value / plain.low), rel=0.2)


def test_the_least_units_of_an_interval_are_those_whose_range_holds_the_median_in_95_of_100_cases():
    """All of n lie on one side of it in two of 2 ** n cases."""
    held = [n for n in range(1, 20) if 1 - 2 / 2**n >= 0.95]
    assert Compared.least == held[0]
