import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_metrics.corpus.answers import check_response, field_answers

VALUES = [float(v) for v in range(1, 1001)]
EXACT = field_answers((v, 1) for v in VALUES)
EXPECTED = {"cpu": EXACT}


def response(**percentiles):
    values = {"0.0": 1.0, "50.0": 500.5, "90.0": 900.1, "100.0": 1000.0} | percentiles
    return {
        "took": 1,
        "timed_out": False,
        "_shards": {"failed": 0},
        "aggregations": {"cpu_pct": {"values": values}, "cpu_sum": {"value": sum(VALUES)}},
    }


def problems(answer, algorithm="tdigest"):
    return check_response(answer, EXPECTED, sums=True, algorithm=algorithm)[1]


def test_exact_answer_passes_with_no_error():
    assert check_response(response(), EXPECTED, True, "tdigest") == (pytest.approx(0, abs=1e-12), [])


def test_error_of_p50_and_p90_is_the_greatest_relative_one():
    error, wrong = check_response(response(**{"50.0": 505.0, "90.0": 901.0}), EXPECTED, True, "tdigest")
    assert wrong == []
    assert error == pytest.approx(4.5 / 500.5)
    error, _ = check_response(response(**{"50.0": 500.5, "90.0": 909.1}), EXPECTED, True, "tdigest")
    assert error == pytest.approx(9 / 900.1)


def test_of_several_fields_the_one_that_errs_most_counts_and_each_wrong_one_is_named():
    answer, of_net = response(**{"90.0": 909.1}), response()["aggregations"]
    answer["aggregations"] |= {"net_pct": of_net["cpu_pct"], "net_sum": {"value": 1.0}}
    error, wrong = check_response(answer, EXPECTED | {"net": EXACT}, True, "tdigest")
    assert error == pytest.approx(9 / 900.1)
    assert wrong == ["net_sum is 1.0, exact 500500.0"]


def test_the_ends_are_held_to_their_bounds_and_are_no_part_of_the_error():
    ends = response(**{"0.0": 2.0, "100.0": 999.0})
    assert check_response(ends, EXPECTED, True, "hdr") == (pytest.approx(0, abs=1e-12), [])


@pytest.mark.parametrize(
    "algorithm, key, value",
    [
        ("tdigest", "50.0", 523.0),
        ("tdigest", "50.0", 478.0),
        ("tdigest", "0.0", 1.001),
        ("tdigest", "100.0", 999.0),
        ("hdr", "50.0", 503.0),
        ("hdr", "100.0", 1002.0),
        ("hdr", "90.0", None),
    ],
)
def test_percentile_out_of_bounds_is_found(algorithm, key, value):
    assert len(problems(response(**{key: value}), algorithm)) == 1


@pytest.mark.parametrize("algorithm, key, value", [("tdigest", "50.0", 516.0), ("hdr", "50.0", 501.4)])
def test_percentile_within_bounds_passes(algorithm, key, value):
    assert problems(response(**{key: value}), algorithm) == []


def test_wrong_sum_timeout_failed_shard_and_item_error_are_found():
    for factor in (1 - 2e-6, 1 + 2e-6):
        wrong = copy.deepcopy(response())
        wrong["aggregations"]["cpu_sum"]["value"] *= factor
        assert "cpu_sum" in problems(wrong)[0]
    assert problems(response() | {"timed_out": True}) == ["timed_out"]
    assert problems(response() | {"_shards": {"failed": 2}}) == ["2 failed shards"]
    item = {"error": {"type": "circuit_breaking_exception"}, "status": 429}
    assert problems(item) == ["item error 429 circuit_breaking_exception"]


@given(st.lists(st.floats(0.5, 1e6), min_size=1, max_size=300))
def test_grouping_equal_values_changes_nothing(values):
    values = sorted(round(v) for v in values)
    grouped = [(v, values.count(v)) for v in sorted(set(values))]
    assert field_answers(grouped) == field_answers((v, 1) for v in values)


def test_the_answers_of_1_to_1000_are_those_worked_out_by_hand():
    expected = {
        "0": [1, 1, 2, 1, 22],
        "50": [500.5, 499, 502, 479, 522],
        "90": [900.1, 899, 902, 879, 922],
        "100": [1000, 999, 1000, 979, 1000],
    }
    assert EXACT["percentiles"].keys() == expected.keys()
    for percent, values in expected.items():
        assert EXACT["percentiles"][percent] == pytest.approx(values)
    assert (EXACT["count"], EXACT["sum"], EXACT["min"], EXACT["max"]) == (1000, 500_500, 1, 1000)


@pytest.mark.parametrize(
    "algorithm, key, low, high",
    [
        ("tdigest", "0.0", 1, 1),
        ("tdigest", "50.0", 479, 522),
        ("tdigest", "90.0", 879, 922),
        ("tdigest", "100.0", 1000, 1000),
        ("hdr", "0.0", 1 - 1e-3, 2 * (1 + 1e-3)),
        ("hdr", "50.0", 499 * (1 - 1e-3), 502 * (1 + 1e-3)),
        ("hdr", "100.0", 999 * (1 - 1e-3), 1000 * (1 + 1e-3)),
    ],
)
def test_a_percentile_may_reach_its_bounds_and_no_further(algorithm, key, low, high):
    for value, wrong in ((low, 0), (high, 0), (low * (1 - 1e-6), 1), (high * (1 + 1e-6), 1)):
        assert len(problems(response(**{key: value}), algorithm)) == wrong, value
    if algorithm == "tdigest":  # whose values are 32-bit floats
        for value in (low * (1 - 6e-8), high * (1 + 6e-8)):
            assert not problems(response(**{key: value}), algorithm)


def test_a_sum_may_be_off_by_a_millionth_and_is_held_only_against_a_query_for_it():
    near, wrong = (copy.deepcopy(response()) for _ in range(2))
    near["aggregations"]["cpu_sum"]["value"] *= 1 + 9e-7
    del wrong["aggregations"]["cpu_sum"]
    assert problems(near) == []
    assert check_response(wrong, EXPECTED, sums=False, algorithm="tdigest")[1] == []


def test_no_rows_have_no_percentile():
    none = field_answers([])
    assert none == {"count": 0, "sum": 0.0, "min": None, "max": None, "percentiles": {}}
    for found, wrong in ((None, []), (7.0, ["cpu p90.0 is 7.0, exact none"])):
        answer = {"aggregations": {"cpu_pct": {"values": {"50.0": None, "90.0": found}}}}
        assert check_response(answer, {"cpu": none}, sums=False, algorithm="hdr") == (0.0, wrong)
