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
