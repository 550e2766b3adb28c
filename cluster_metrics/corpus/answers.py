"""Exact answers to the production query, and how an Elasticsearch response is held against them."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import fsum
from typing import Any

PERCENTS = (0, 50, 90, 100)
SUM_TOLERANCE = 1e-6
"""Greatest relative error of a sum: fields are 32-bit floats (relative rounding 6e-8), added as 64-bit ones."""
FLOAT32_TOLERANCE = 1e-7
"""A 32-bit float is within 6e-8 (relative) of the decimal number in the row."""
TDIGEST_SPAN_PERCENT = 2
"""How far, in percent of the rows, t-digest may be off: at a compression of 100 a centroid in the middle spans up to
pi/100 of the rows (Dunning and Ertl, Computing Extremely Accurate Quantiles Using t-Digests, scale function k1), and
the answer lies within half of it."""
HDR_TOLERANCE = 1e-3
"""HDR with 3 significant digits keeps a value to one part in a thousand."""


def field_answers(weighted: Iterable[tuple[float, int]]) -> dict[str, Any]:
    """The exact answers for one (node, epoch, field).

    :param weighted: pairs of value and number of rows with it, in ascending order of values.
    :return: ``count``, ``sum``, ``min``, ``max`` and, per percent, a list of five values: the exact percentile (linear
             between the two nearest ranks, as numpy does by default), the values one rank around those two, and the
             values 2 % of the rows and one rank around them. The last four bound what a correct algorithm may say.
    """
    pairs = list(weighted)
    if not pairs:
        return {"count": 0, "sum": 0.0, "min": None, "max": None, "percentiles": {}}
    values = [value for value, _ in pairs]
    ends = list(accumulate(count for _, count in pairs))
    n = ends[-1]

    def at(rank: int) -> float:
        return values[bisect_right(ends, min(max(rank, 0), n - 1))]

    percentiles = {}
    for percent in PERCENTS:
        below, remainder = divmod((n - 1) * percent, 100)
        above = below + (remainder > 0)
        span = TDIGEST_SPAN_PERCENT * n // 100
        low, high = at(below), at(above)
        around = [at(below - 1), at(above + 1), at(below - 1 - span), at(above + 1 + span)]
        percentiles[str(percent)] = [low + (high - low) * remainder / 100, *around]
    total = fsum(value * count for value, count in pairs)
    return {"count": n, "sum": total, "min": values[0], "max": values[-1], "percentiles": percentiles}


def percentile_bounds(answer: list[float], percent: float, algorithm: str) -> tuple[float, float]:
    """What an algorithm may answer for a percentile.

    t-digest (Elasticsearch's default compression of 100): within 2 % of the rows and one rank of the exact position, p0
    and p100 exactly. HDR with 3 significant digits: between the values one rank around the exact position, widened by
    one part in a thousand.

    :param answer: the five values of :func:`field_answers`.
    :param algorithm: ``tdigest`` or ``hdr``.
    """
    exact, one_below, one_above, below, above = answer
    if algorithm == "hdr":
        return one_below * (1 - HDR_TOLERANCE), one_above * (1 + HDR_TOLERANCE)
    if percent in (0, 100):
        below = above = exact
    return below * (1 - FLOAT32_TOLERANCE), above * (1 + FLOAT32_TOLERANCE)


def response_problems(response: dict) -> list[str]:
    """What keeps a search response, or an item of ``_msearch``, from being an answer at all."""
    if "error" in response:
        error = response["error"]
        return [f"item error {response.get('status')} {error.get('type') if isinstance(error, dict) else error}"]
    problems = ["timed_out"] if response.get("timed_out") else []
    if failed := response.get("_shards", {}).get("failed", 0):
        problems.append(f"{failed} failed shards")
    return problems


def check_response(response: dict, expected: dict, sums: bool, algorithm: str | None) -> tuple[float, list[str]]:
    """Holds one search response against the exact answers of its node and epoch.

    :param response: the body of a ``_search`` response, or one item of ``_msearch``.
    :param expected: the answers per field, see :func:`field_answers`.
    :param sums: whether the query asks for sums.
    :param algorithm: ``tdigest``, ``hdr`` or None when the query asks for no percentiles.
    :return: the greatest relative error of p50 and p90 over all fields (0.0 without percentiles), and what is wrong.
    """
    if problems := response_problems(response):
        return 0.0, problems
    worst = 0.0
    aggregations = response.get("aggregations", {})
    for field, answer in expected.items():
        if sums:
            got = aggregations[f"{field}_sum"]["value"]
            if abs(got - answer["sum"]) > SUM_TOLERANCE * abs(answer["sum"]):
                problems.append(f"{field}_sum is {got}, exact {answer['sum']}")
        if algorithm:
            for key, got in aggregations[f"{field}_pct"]["values"].items():
                percent = float(key)
                if not answer["count"]:
                    problems += [f"{field} p{key} is {got}, exact none"] if got is not None else []
                    continue
                exact = answer["percentiles"][f"{percent:g}"]
                low, high = percentile_bounds(exact, percent, algorithm)
                if got is None or not low <= got <= high:
                    problems.append(f"{field} p{percent:g} is {got}, allowed {low} to {high}")
                elif percent in (50, 90):
                    worst = max(worst, abs(got - exact[0]) / exact[0])
    return worst, problems
