"""How numbers, counts and settings are written."""

import math

import pytest

from _tools.report.stats import LEAST, Estimate
from _tools.report.text import ROUNDING, count, error_text, interval, number, percent, plural, setting, with_interval

NAN = math.nan


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (0.001234, "0.00123"),
        (0.1, "0.100"),
        (1.0, "1.00"),
        (12.34, "12.3"),
        (123.4, "123"),
        (99.96, "100"),
        (0.09996, "0.100"),
        (-0.05, "−0.0500"),
        (1234567.8, "1,234,568"),
        (-1234.4, "−1,234"),
        (NAN, "–"),
        (-math.inf, "–"),
    ],
)
def test_a_number_has_three_digits_and_no_fraction_from_100_on(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    "value, text", [(0.0, "0.0 %"), (0.1234, "12.3 %"), (-0.05, "−5.0 %"), (21.0, "2100.0 %"), (NAN, "–")]
)
def test_a_share_is_written_as_a_percentage(value, text):
    assert percent(value) == text


def test_an_error_that_floats_of_32_bits_make_is_none():
    assert [error_text(error) for error in (ROUNDING, 1e-5, 0.01234)] == ["0", "0.001 %", "1.2 %"]


@pytest.mark.parametrize(
    "estimate, text",
    [
        (Estimate(20, 2.0, 1.5, 2.5, NAN), "[1.50, 2.50]"),
        (Estimate(3, 2.0, 1.5, 2.5, NAN), "[1.50, 2.50]"),
        (Estimate(LEAST - 1, 2.0, NAN, NAN, NAN), f"(n = {LEAST - 1})"),
        (Estimate(LEAST, 2.0, NAN, NAN, NAN), "[–, –]"),
    ],
)
def test_an_interval_is_written_by_its_bounds_and_a_lack_of_one_by_how_few_there_are(estimate, text):
    assert interval(estimate) == text and with_interval(estimate) == f"2.00 {text}"


@pytest.mark.parametrize(
    "one, many",
    [("node", "nodes"), ("pass", "passes"), ("query", "queries"), ("search", "searches"), ("race", "races")],
)
def test_a_count_has_its_unit_in_the_plural_but_for_one(one, many):
    assert plural(one) == many
    assert [count(n, one) for n in (0, 0.4, 1, 2, 12345)] == [
        f"0 {many}",
        f"0.4 {many}",
        f"1 {one}",
        f"2 {many}",
        f"12,345 {many}",
    ]


@pytest.mark.parametrize(
    "value, text",
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        ("even", "even"),
        ([1, "a"], "1, a"),
        (list(range(6)), "0, 1, 2, 3, 4, 5"),
        (list(range(7)), "7 of them"),
        ([], ""),
        ({"1s-0r": 2}, '{"1s-0r": 2}'),
    ],
)
def test_a_setting_is_written_as_it_is_given_and_a_long_list_by_its_length(value, text):
    assert setting(value) == text
