"""What is said of ratios that are judged together, and how often it is wrong."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats as reference

from _tools.report import stats, verdicts
from _tools.report.stats import Estimate
from _tools.report.verdicts import Gate, Verdict, benjamini_hochberg, gate_of, holm, judge
from cluster_metrics.core.challenge import Compared

ps = st.lists(st.floats(0, 1), max_size=20)


def about(value, half, n=20, freedom=math.inf):
    return Estimate(n, value, value * math.exp(-half), value * math.exp(half), math.nan, freedom)


@given(ps)
def test_holm_rejects_no_less_than_bonferroni_and_no_more_than_benjamini_and_hochberg(p):
    alone, found, false = ([x < 0.05 / len(p) for x in p], holm(p), benjamini_hochberg(p))
    assert len(found) == len(false) == len(p) and all(a <= b <= c for a, b, c in zip(alone, found, false))
    assert all(p[j] >= p[i] or found[j] for i in range(len(p)) for j in range(len(p)) if found[i])


def test_holm_as_in_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]  # Wikipedia's example of the method


def test_benjamini_and_hochberg_as_by_hand():
    # the k-th least of 4 counts when it, or one that is greater, is below k / 4 of 5 %
    assert benjamini_hochberg([0.01, 0.036, 0.037, 0.06]) == [True, True, True, False]
    assert benjamini_hochberg([0.01, 0.036, 0.038, 0.06]) == [True, False, False, False]


def test_a_table_of_equal_ways_has_a_false_alarm_in_about_one_case_in_20():
    """Without correction it has one in two fifths of cases: 11 steps whose rounds do not differ."""
    rng, alarms, bare = np.random.default_rng(1), 0, 0
    changes = (Verdict.IMPROVED, Verdict.REGRESSED)
    for _ in range(80):
        found = [stats.median(np.exp(0.1 * rng.standard_normal(20)), 2000) for _ in range(11)]
        gate = Gate(threshold=0.0)
        alarms += any(j.verdict in changes for j in judge(found, gate))
        bare += any(verdicts.verdict(e, 0.0) in changes for e in found)
    assert alarms / 80 <= 0.09 and bare / 80 > 0.25


def test_a_change_that_is_only_one_of_many_is_not_shown_and_its_bounds_say_so():
    lone, others = about(1.08, 0.06), [about(1.0, 0.06)] * 10
    assert judge([lone], Gate())[0].verdict is Verdict.REGRESSED
    found = judge([lone, *others], Gate())[0]
    assert found.verdict is Verdict.NOT_SHOWN and found.low < 1.01
    assert found.text == "not shown (could be −1.0 % to +17.8 %)"
    assert judge([lone, *others], Gate())[0].found > judge([lone], Gate())[0].found


@pytest.mark.parametrize("delta, text", [(0.03, "equivalent within 3.0 %"), (0.02, "not shown (could be ")])
def test_a_change_that_is_only_one_of_many_is_equivalent_within_the_bound_that_was_asked_for(delta, text):
    lone = about(1.018, 0.0075)
    assert judge([lone], Gate(delta=delta))[0].verdict is Verdict.REGRESSED
    assert judge([lone, *[about(1.0, 0.0075)] * 10], Gate(delta=delta))[0].text.startswith(text)


def test_what_has_too_few_units_is_no_test():
    few = [about(1.0, 0.06, n=19)] * 10
    assert judge([about(1.08, 0.06), *few], Gate())[0].verdict is Verdict.REGRESSED
    assert judge(few, Gate())[0].text == "not enough samples"
    assert math.isnan(judge([Estimate(3, 1.0, math.nan, math.nan, math.nan)], Gate())[0].found)


def test_each_ratio_may_have_a_gate_of_its_own():
    both = judge([about(1.5, 0.1, n=4)] * 2, [Gate(enough=4), Gate()])
    assert [j.verdict for j in both] == [Verdict.REGRESSED, Verdict.NOT_ENOUGH]
    strict, none = judge([about(1.02, 0.015)] * 2, [Gate(), Gate(threshold=0.0)])
    assert [strict.verdict, none.verdict] == [Verdict.NOT_SHOWN, Verdict.REGRESSED]
    assert strict.found == pytest.approx((1 + none.found) * 1.01 - 1)


@pytest.mark.parametrize(
    "half, text", [(0.03, "equivalent within 3.0 %"), (0.04, "not shown (could be −3.9 % to +4.1 %)")]
)
def test_no_difference_is_said_only_where_it_is_shown(half, text):
    assert judge([about(1.0, half)], Gate())[0].text == text


@pytest.mark.parametrize("low, high, said", [(0.9705, 1.0, False), (0.9712, 1.0, True), (1.0, 1.0295, True)])
def test_a_change_down_is_as_far_from_equivalent_as_its_reverse_up(low, high, said):
    class Known(Estimate):
        def bounds(self, part):
            return (self.low, self.high)

    assert verdicts.equivalent(Known(20, 1.0, low, high, np.nan), 0.03) is said


def test_what_is_called_equivalent_is_so_in_95_of_100_cases():
    """Two sides that differ by the whole of what does not matter."""
    rng = np.random.default_rng(3)
    found = [stats.median(1.03 * np.exp(0.04 * rng.standard_normal(40)), 2000) for _ in range(400)]
    assert np.mean([verdicts.equivalent(e) for e in found]) <= 0.08


@pytest.mark.parametrize("n, spread", [(20, 0.05), (40, 0.1)])
def test_a_change_as_large_as_is_named_is_found_in_80_of_100_cases(n, spread):
    rng = np.random.default_rng(2)
    found = [stats.median(np.exp(spread * rng.standard_normal(n)), 2000) for _ in range(400)]
    change = np.median([verdicts.detectable(e) for e in found])
    slower = [Estimate(n, *((1 + change) * x for x in (e.value, e.low, e.high)), math.nan) for e in found]
    assert np.mean([verdicts.verdict(e) is Verdict.REGRESSED for e in slower]) == pytest.approx(0.8, abs=0.07)


@given(st.floats(0.5, 2), st.floats(0.001, 0.5), st.sampled_from([2, 4, 19, math.inf]))
@example(1.0, 0.1, math.inf)
def test_a_p_is_below_5_percent_just_when_both_bounds_clear_the_threshold(value, half, freedom):
    found = about(value, half, freedom=freedom)
    clear = abs(math.log(value)) - half - math.log(1.01)
    p = verdicts.p_value(found)
    assert 0 <= p <= 1 and (abs(clear) < 1e-9 or (p < 0.05) == (clear > 0))


@pytest.mark.parametrize(
    "value, low, high, p", [(2.0, math.nan, math.nan, 1), (1.009, 1.009, 1.009, 1), (2.0, 2.0, 2.0, 0)]
)
def test_what_varies_not_at_all_is_certain_and_what_has_no_interval_is_open(value, low, high, p):
    assert verdicts.p_value(Estimate(20, value, low, high, math.nan)) == p


@pytest.mark.parametrize("ratio, text", [(0.5, "−50.0 %"), (1.0, "+0.0 %"), (1.25, "+25.0 %")])
def test_a_ratio_is_told_as_a_change_of_what_was_before(ratio, text):
    assert verdicts.change(ratio) == text


def test_the_inner_interval_of_few_races_is_students():
    low, high = about(1.0, 0.1, freedom=2).bounds(0.9)
    assert math.log(high) == pytest.approx(0.1 * 2.920 / 4.303, rel=1e-3) and low * high == pytest.approx(1)


def test_delta_is_a_variable_of_make(monkeypatch):
    monkeypatch.delenv("DELTA", raising=False)
    record = Compared("x", ("y",), "z", "rounds", enough=7)
    assert gate_of(record) == Gate(7, 0.03)
    monkeypatch.setenv("DELTA", "5")
    assert gate_of(record, 4) == Gate(4, 0.05)
    assert judge([about(1.0, 0.05)], gate_of(record))[0].text == "equivalent within 5.0 %"


@pytest.mark.parametrize("n", [6, 7, 10, 14, 15, 40])
@pytest.mark.parametrize("draw", ["standard_normal", "standard_exponential"])
def test_the_interval_of_a_median_holds_it_in_95_of_100_cases(n, draw):
    """The bootstrap's percentiles do in 87 to 94 of 100 below 15 samples."""
    rng = np.random.default_rng(n)
    true = 10 + getattr(reference, {"standard_normal": "norm", "standard_exponential": "expon"}[draw]).median()
    found = [stats.median(10 + getattr(rng, draw)(n), 2000) for _ in range(300)]
    assert np.mean([e.low <= true <= e.high for e in found]) >= 0.915


@pytest.mark.parametrize("n", [3, 5, 14])
def test_the_interval_of_a_mean_of_few_is_students(n):
    rng = np.random.default_rng(n)
    values = 10 + rng.standard_normal(n)
    found, expected = stats.mean(values), reference.t.interval(0.95, n - 1, values.mean(), reference.sem(values))
    if stats.widening(values) == 1:
        assert (found.low, found.high) == pytest.approx(expected)
    covered = [(e := stats.mean(10 + rng.standard_normal(n))).low <= 10 <= e.high for _ in range(300)]
    assert np.mean(covered) >= 0.91  # percentiles of the bootstrap: 0.75 for 3


def test_too_few_samples_have_no_interval():
    assert not stats.median(np.ones(5)).known and stats.median(np.ones(6)).known
    assert not stats.mean(np.ones(2)).known and stats.mean(np.ones(3)).known
    assert stats.median(np.arange(1.0, 6)).span == (3.0, 3.0)


def test_what_choosing_the_fastest_of_many_overstates_is_known():
    """37 equal ways with rounds of a CV of 10 %: the fastest of them seems to be 4 to 5 % faster than it is."""
    rng, true, told = np.random.default_rng(7), [], []
    for _ in range(30):
        ways = np.exp(0.1 * rng.standard_normal((37, 40)))
        true.append(-np.log(np.median(ways, axis=1).min()))
        told.append(stats.optimism(ways, 200))
    assert np.mean(told) == pytest.approx(np.mean(true), rel=0.35) and np.mean(true) == pytest.approx(0.045, abs=0.01)
    apart = np.exp(0.02 * rng.standard_normal((3, 40))) * np.array([[1.0], [2.0], [3.0]])
    assert stats.optimism(apart) < 0.002


def resembling(rng, rho, n):
    found = rng.standard_normal(n)
    for i in range(1, n):
        found[i] = rho * found[i - 1] + math.sqrt(1 - rho**2) * found[i]
    return found


@pytest.mark.parametrize("statistic", [stats.median, stats.mean])
@pytest.mark.parametrize("rho, least", [(0.0, 0.92), (0.3, 0.88), (0.6, 0.88)])
def test_rounds_that_resemble_their_neighbours_widen_the_interval(statistic, rho, least):
    """Without that, intervals hold the truth in 85 of 100 cases at 0.3, and 65 to 74 at 0.6."""
    rng = np.random.default_rng(5)
    found = [statistic(10 + resembling(rng, rho, 40), 2000) for _ in range(300)]
    assert np.mean([e.low <= 10 <= e.high for e in found]) >= least


def test_autocorrelation_is_that_of_the_neighbours_without_bias():
    rng = np.random.default_rng(6)
    for rho in (0.0, 0.3, 0.6):
        assert np.mean([stats.autocorrelation(resembling(rng, rho, 40)) for _ in range(500)]) == pytest.approx(
            rho, abs=0.04
        )
    assert stats.autocorrelation(np.arange(40.0)) == 0.9
    assert stats.autocorrelation(np.ones(20)) == 0 and stats.autocorrelation(np.arange(5.0)) == 0
    assert stats.autocorrelation(np.array([0.0, 1, 0, 1, 0, 1])) == pytest.approx(-5 / 6)


@pytest.mark.parametrize("n, r", [(8, 0.5625), (20, 0.79 / 1.8 + (1 + 4 * 0.79 / 1.8) / 20)])
def test_an_interval_is_widened_as_if_there_were_fewer_samples_but_never_below_3(n, r):
    values = np.zeros(n)
    values[n // 2 - 1 : n // 2 + 1] = 1
    assert stats.autocorrelation(values) == pytest.approx(r)
    effective = max(3, n * (1 - r) / (1 + r))
    students = reference.t.ppf(0.975, effective - 1) / reference.t.ppf(0.975, n - 1)
    assert stats.widening(values) == pytest.approx(math.sqrt(n / effective) * students)


@pytest.mark.parametrize("value, half", [(1.0, 0.1), (1.005, 0.2), (1.015, 0.3), (1.05, 0.3), (0.9, 0.4), (0.7, 0.5)])
@pytest.mark.parametrize("gate", [Gate(), Gate(delta=0.08), Gate(threshold=0.002)])
def test_what_is_not_shown_would_be_decided_by_so_many_units(value, half, gate):
    def after(units):
        return judge([about(value, half * math.sqrt(20 / units), n=units)], gate)[0].verdict

    (found,) = judge([about(value, half)], gate)
    units = int(verdicts.decided_by(found))
    assert found.verdict is Verdict.NOT_SHOWN is after(units - 2)
    assert after(units + 1) is not Verdict.NOT_SHOWN
