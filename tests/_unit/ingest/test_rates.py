"""The rate of a load over time, from requests and looks whose times are known."""

from dataclasses import replace

import numpy as np
import pytest
from ingests import bulk, look

from _tools.report.race import Race
from cluster_metrics.ingest._report import rates


def race(samples):
    return Race({"race-id": "x", "challenge": "ingest"}, samples, {})


def loaded(samples):
    (found,) = rates.loads(race(samples))
    return found


def every(step_s, number, client=0, epoch=1, begin_s=0.0, **meta):
    """Requests of one client, each sent so long after the one before; each takes 10 ms."""
    return [bulk(epoch, client, begin_s + i * step_s, **meta) for i in range(number)]


def paced(lateness, seconds=60, **meta):
    """Ten requests of 100 documents a second by two clients in turn, each as late as its time when it is due says."""
    due = np.arange(10 * seconds) / 10
    return race([bulk(1, i % 2, at, **meta) for i, at in enumerate(due + lateness(due))])


def bounds(estimate):
    return estimate.low, estimate.value, estimate.high


UNEVEN = [*every(0.1, 254), *every(0.1, 206, client=1)]
"""Two clients for 25.31 s, of which the second is done after 20.51 s."""


def test_buckets_hold_what_was_acknowledged_in_them_and_the_last_covers_the_rest_of_the_load():
    found = loaded(UNEVEN)
    assert (found.width, found.seconds, found.documents) == (1.0, pytest.approx(25.31), 46_000)
    assert found.rates.tolist() == pytest.approx([2000] * 20 + [1600] + [1000] * 3 + [1400 / 1.31])
    assert [len(requests) for requests in found.requests] == [20] * 20 + [16, 10, 10, 10, 14]


def test_the_steady_window_has_no_bucket_of_the_first_tenth_and_none_in_which_a_client_ends():
    found = loaded(UNEVEN)
    assert (found.first, found.end) == (3, 20)
    assert found.steady.tolist() == pytest.approx([2000] * 17)


@pytest.mark.parametrize("seconds, buckets", [(6, 0), (7, 5)])
def test_a_steady_window_has_five_buckets_or_none(seconds, buckets):
    found = loaded([bulk(1, 0, i / 10) for i in range(10 * seconds)])
    assert (found.width, len(found.steady)) == (1.0, buckets)


def test_merges_are_of_the_buckets_in_which_the_monitor_saw_them_while_the_load_ran():
    looks = [look(at, merges) for at, merges in ((-1, 1), (2.5, 1), (7, 2), (10, 0), (25.2, 1), (26, 1))]
    assert loaded([*UNEVEN, *looks]).merging == {2, 7, 24}


def test_a_bucket_is_slow_below_80_percent_of_the_median_of_the_steady_window_that_it_is_in():
    acknowledged = {1: 10, 6: 80, 7: 79, 29: 10}  # of 100 in each request of a second
    evenly = [bulk(1, 0, i / 10, **{"success-count": acknowledged.get(i // 10, 100)}) for i in range(300)]
    found = loaded(evenly)
    assert (found.width, found.first, found.end) == (1.0, 3, 29)
    assert found.rates[[1, 6, 7]].tolist() == pytest.approx([100, 800, 790]) and found.slow == [7]


@pytest.mark.parametrize(
    "number, step_s, width",
    [
        (1000, 0.01, 0.1),  # 10.0 s
        (1100, 0.01, 0.2),  # more than 100 buckets of 0.1 s
        (100, 0.1, 1.0),  # fewer than 10 requests in half a second
        (40, 1.0, 10.0),
        (1000, 1.0, 10.0),  # 999.01 s
        (1001, 1.0, 30.0),  # 1,000.01 s
        (2, 5000.0, 600.0),
    ],
)
def test_a_bucket_is_as_narrow_as_a_hundred_of_them_with_ten_requests_each_may_be(number, step_s, width):
    assert loaded(every(step_s, number)).width == width


def test_loads_are_told_apart_and_have_the_buckets_of_the_one_that_needs_the_widest():
    first, second = rates.loads(race([*every(0.01, 1000), *every(0.1, 100, epoch=2, begin_s=100)]))
    assert (first.epoch, first.at, first.width) == (1, 1_000_000, 1.0)
    assert (second.epoch, second.at, second.width) == (2, 1_100_000, 1.0)
    assert (first.documents, second.documents) == (100_000, 10_000)
    assert rates.steady([first, second]).tolist() == pytest.approx([*first.steady, *second.steady])


def test_documents_by_time_rise_when_requests_are_answered_whichever_was_sent_first():
    slow = replace(bulk(1, 1, 0.0), value=250.0)
    at, documents = loaded([slow, *every(0.1, 5)]).course
    assert at.tolist() == pytest.approx([0, 0.01, 0.11, 0.21, 0.25, 0.31, 0.41])
    assert documents.tolist() == [0, 100, 200, 300, 400, 500, 600]


def test_a_load_that_is_late_by_as_much_throughout_falls_behind_by_nothing_though_it_began_on_time():
    found = rates.falling_behind(paced(lambda due: np.minimum(due, 3)), 1000)
    assert bounds(found) == pytest.approx((0, 0, 0), abs=1e-9)


@pytest.mark.parametrize("meta", [{}, {"success-count": 60, "error-count": 40}])
def test_how_far_a_load_falls_behind_is_told_per_second_by_all_that_it_sent(meta):
    found = rates.falling_behind(paced(lambda due: 0.01 * due, **meta), 1000)
    assert bounds(found) == pytest.approx((0.01 / 1.01,) * 3, rel=1e-6)


def test_how_far_a_load_falls_behind_has_students_interval_over_ten_stretches():
    late = 0.05 * (np.arange(10) % 2)  # of each second from the tenth on
    found = rates.falling_behind(paced(lambda due: 0.05 * (np.floor(due) % 2)), 1000, 10, 20)
    at = np.arange(10) + late
    line = np.polyfit(at, late, 1)
    half = 2.306 * np.sqrt(np.sum((late - np.polyval(line, at)) ** 2) / 8 / np.sum((at - at.mean()) ** 2))
    assert bounds(found) == pytest.approx((line[0] - half, line[0], line[0] + half), rel=1e-3)


def test_a_part_of_a_load_falls_behind_by_itself():
    of = paced(lambda due: 0.1 * np.clip(due - 20, 0, 20))
    assert rates.falling_behind(of, 1000, 0.5, 20).value == pytest.approx(0, abs=1e-9)
    assert rates.falling_behind(of, 1000, 20, 42).value == pytest.approx(0.1 / 1.1, rel=1e-6)
    assert rates.falling_behind(of, 1000, 42, 60).value == pytest.approx(0, abs=1e-9)


def test_what_one_client_sends_alone_once_the_other_is_done_is_not_held_against_the_rate():
    both = [bulk(1, i % 2, i / 10) for i in range(300)]
    alone = [bulk(1, 0, 30 + i / 5) for i in range(150)]
    assert bounds(rates.falling_behind(race([*both, *alone]), 1000)) == pytest.approx((0, 0, 0), abs=1e-9)


def test_a_hundred_requests_tell_whether_a_load_falls_behind_and_one_less_does_not():
    of = paced(lambda due: 0 * due)
    assert rates.falling_behind(of, 1000, 10, 20) is not None
    assert rates.falling_behind(of, 1000, 10, 19.9) is None
