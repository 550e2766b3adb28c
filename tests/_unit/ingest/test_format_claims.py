"""Which published statements a race of formats bears out."""

import pytest
from fakes import rows, table
from formats import MORE, SIZES, of_pauses, race

from _tools.report.stats import Estimate
from cluster_metrics.ingest._report import ingest_formats as explained
from cluster_metrics.ingest._report.format_claims import holds_by


def claims(**options):
    """What holds, by claim."""
    return {claim: row["holds"] for claim, row in rows(explained.sections(race(**options)), "claims").items()}


GAIN = "5 % more throughput or better at all bulk sizes"
SMALL, LARGE = "larger gains at small sizes", "larger gains at large sizes"
NETWORK = "10 to 20 % less over the network"
FLAT = "less sensitive to bulk size"
GC = "most of what is saved is garbage collection"
USED, BEST = "the target's CPU is used more", "at better bulk sizes the target's CPU is used more"
LARGER = "the larger the documents, the less over the network"


def test_claims_follow_the_measured_ratios():
    nothing = dict.fromkeys((SMALL, LARGE, FLAT, GC, USED, BEST), "no")
    assert claims() == nothing | {GAIN: "yes", NETWORK: "yes"}
    ends = claims(factors=dict(zip(SIZES, (0.8, 0.98, 0.98, 0.9))))
    assert (ends[GAIN], ends[SMALL], ends[LARGE], ends[FLAT]) == ("no", "yes", "yes", "yes")
    middle = claims(factors=dict(zip(SIZES, (1.0, 0.9, 0.8, 1.0))))
    assert (middle[GAIN], middle[SMALL], middle[LARGE], middle[FLAT]) == ("no", "no", "no", "no")


def test_differences_below_1_percent_are_none():
    first, last = (claims(factors=dict(zip(SIZES, factors))) for factors in ((0.995, 1, 1, 1), (1, 1, 1, 0.995)))
    assert (first[SMALL], first[FLAT], last[LARGE]) == ("no", "no", "no")
    assert claims(cpu={"json": 2.0, "smile-32": 2.01})[USED] == "no"
    more = race()
    for sample in more.samples:
        if sample.kind == "ingest-cell":
            part = 1.005 if sample.meta["bulk_size"] == 10_000 else 1
            sample.meta.update(target_cpu_ms=part * sample.meta["wall_ms"], refresh_wall_ms=0.0)
    assert rows(explained.sections(more), "claims")[BEST]["holds"] == "no"


@pytest.mark.parametrize("other, holds", [(0.9, "undecided"), (1.0, "no")])
def test_a_gain_at_all_sizes_is_as_sure_as_the_least_sure_of_them_unless_one_has_none(other, holds):
    of = race(factors={100: 0.9, 1000: 1.0, 10_000: other, 50_000: 0.9})
    for sample in of.samples:
        if sample.meta.get("bulk_size") == 1000 and sample.meta["encoding"] != "json":
            sample.meta["wall_ms"] *= 0.85 if sample.meta["round"] % 2 else 1.1
    assert rows(explained.sections(of), "claims")[GAIN]["holds"] == holds


def test_garbage_collection_is_held_against_what_is_saved():
    assert claims(gc_s=1.1)[GC] == "yes"
    assert claims(gc_s=0.1)[GC] == "no"
    assert claims(factors=dict.fromkeys(SIZES, 1.1))[GC] == "undecided"


ROUGHLY = dict.fromkeys(SIZES, 0.9)  # saves 1.4 s [0.94, 1.8]
NOTHING = dict.fromkeys(SIZES, 1.0)
HARDLY = dict.fromkeys(SIZES, 0.98)  # saves 0.26 s [−0.27, 0.80]


@pytest.mark.parametrize(
    "factors, gc_s, holds",
    [(ROUGHLY, 0.3, "no"), (ROUGHLY, 0.4, "undecided"), (ROUGHLY, 0.7, "undecided"), (ROUGHLY, 0.8, "yes")]
    + [(NOTHING, 1.1, "undecided"), (HARDLY, 1.1, "undecided")],
)
def test_pauses_are_most_of_what_is_saved_if_both_whole_intervals_say_so(factors, gc_s, holds):
    varying = race(factors=factors, gc_s=gc_s)
    for sample in varying.samples:
        if sample.kind == "ingest-cell" and sample.meta["encoding"] != "json":
            sample.meta["wall_ms"] *= 1.04 if sample.meta["round"] % 2 else 0.96
    assert rows(explained.sections(varying), "claims")[GC]["holds"] == holds


def test_the_cpu_at_work_is_that_of_the_target_while_a_cell_runs():
    assert claims(cpu={"json": 1.5, "smile-32": 1.6})[USED] == "yes"
    assert claims(cpu={"json": 1.6, "smile-32": 1.5})[USED] == "no"
    varying = race()
    for sample in varying.samples:
        if sample.kind == "ingest-cell":  # the better a size, the more is used
            sample.meta["target_cpu_ms"] = 1000.0
    found = rows(explained.sections(varying), "claims")
    assert found[BEST]["holds"] == "yes" and "at 10,000, the fastest, over that at 100" in found[BEST]["seen"]


def test_the_refresh_after_a_cell_is_in_both_its_cpu_time_and_its_time():
    refreshed = race()
    for sample in refreshed.samples:
        if sample.kind == "ingest-cell":
            sample.meta.update(refresh_wall_ms=500.0, target_cpu_ms=sample.meta["wall_ms"] + 500)
    assert rows(explained.sections(refreshed), "claims")[BEST]["holds"] == "no"


@pytest.mark.parametrize(
    "batches, holds",
    [
        (MORE, "yes"),
        (MORE | {4: (0.95, 0.9)}, "no"),
        (MORE | {4: (0.6, 0.9)}, "no"),
        (dict.fromkeys(MORE, (0.9, 1.0)), "no"),
        ({1: (0.9, 1.0)}, "no"),
    ],
)
def test_larger_documents_are_held_against_smaller_ones(batches, holds):
    found = explained.sections(race(batches=batches))
    assert rows(found, "claims")[LARGER]["holds"] == holds
    assert [row["lines"] for row in table(found, "batches").rows] == list(batches)


def test_few_rounds_answer_nothing_but_sizes():
    few = claims(rounds=19)
    assert few.pop(NETWORK) == "yes"
    assert set(few.values()) == {"not enough samples"}


@pytest.mark.parametrize(
    "low, high, n, expected",
    [
        (1.06, 1.2, 20, "yes"),
        (1.04, 1.2, 20, "undecided"),
        (0.9, 1.04, 20, "no"),
        (1.06, 1.2, 19, "not enough samples"),
    ],
)
def test_an_answer_takes_the_whole_interval(low, high, n, expected):
    assert holds_by(Estimate(n, 1.0, low, high, 0.0), 1.05) == expected


@pytest.mark.parametrize(
    "seconds, holds",
    [((0.9,), "yes"), ((0.3,), "no"), ((0.2, 1.0), "undecided"), ((0.0, 1.0), "undecided")],
)
def test_pauses_are_most_of_the_1_2_s_that_are_saved_if_all_of_their_interval_says_so(seconds, holds):
    found = rows(explained.sections(of_pauses(*seconds)), "claims")[GC]
    assert found["holds"] == holds and found["seen"].startswith("of 1.18 [1.18, 1.18] s saved per million, ")


@pytest.mark.parametrize("size, holds", [(88, "no"), (86, "yes"), (77, "yes"), (76, "no")])
def test_10_to_20_percent_less_over_the_network_are_neither_less_nor_more(size, holds):
    of = race()
    for sample in of.samples:
        if sample.meta.get("encoding") == "smile-32":
            sample.meta["bytes_out"] = size * 1e5
    found = rows(explained.sections(of), "claims")[NETWORK]
    assert found["holds"] == holds and found["seen"] == f"{100 * (1 - size / 96):.1f} % less in requests"


def test_savings_over_the_network_that_are_too_great_at_some_size_are_shown_where_they_decide():
    of = race()
    for sample in of.samples:
        if sample.meta.get("encoding") == "smile-32" and sample.meta["bulk_size"] == 50_000:
            sample.meta["bytes_out"] = 72 * 1e5
    found = rows(explained.sections(of), "claims")[NETWORK]
    assert (found["holds"], found["seen"]) == ("no", "17.7 % to 25.0 % less in requests")
