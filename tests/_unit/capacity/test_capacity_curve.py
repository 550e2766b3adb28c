"""The load curve: arrivals are random and repeatable, and the rate that keeps to a bound is the one that is there."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from capacities import SERVICE_PER_S, curve
from fakes import values

from cluster_metrics.capacity._report.capacity_curve import (
    answer,
    compared_in,
    curves,
    greatest,
    sections,
    sheets,
    warnings,
)
from cluster_metrics.capacity.challenge import MONITOR
from cluster_metrics.capacity.load import Arrivals
from cluster_metrics.core.challenge import challenges

BOUND_MS = 200
TRUE = SERVICE_PER_S - 1000 * math.log(100) / BOUND_MS
"""The rate at which the 99th percentile of waiting in that queue (M/M/1: exponential) is the bound: 77 a second."""


def told(found):
    return {finding.name: finding.text for finding in answer(found)}


def test_the_greatest_rate_is_that_of_the_queue():
    found = curve()
    rate = greatest(curves(found)["1s-2r"], BOUND_MS)
    assert rate.low <= rate.value <= rate.high and rate.n == 6
    assert rate.value == pytest.approx(TRUE, rel=0.05)
    assert told(found)["greatest rate"].startswith(f"1s-2r: {rate.value:.1f} searches/s [")
    assert told(found)["greatest rate"].endswith("] with p99 up to 200 ms, interpolated between 60 and 80")
    p50 = float(told(found)["latency"].removeprefix("at 60 searches/s: p50 ").split(" ms ")[0])
    assert p50 == pytest.approx(1000 * math.log(2) / (SERVICE_PER_S - 60), rel=0.1)


def test_waiting_is_that_of_the_queue_and_none_of_the_pass_that_warms_up():
    for point in curves(curve())["1s-2r"]:
        for percent in (50, 99):
            true = -1000 * math.log(1 - percent / 100) / (SERVICE_PER_S - point.cell.rate)
            assert point.latency(percent).value == pytest.approx(true, rel=0.2), point.cell.name
        assert point.done().value == pytest.approx(1, rel=0.01)


def test_a_percentile_is_shown_only_where_enough_requests_lie_beyond_it():
    points = curves(curve(rates=(20, 60), seconds=10))["1s-2r"]
    assert [[p.latency(percent) is None for percent in (50, 90, 99, 99.9)] for p in points] == [
        [False, False, True, True],
        [False, False, False, True],
    ]
    assert greatest(points, BOUND_MS) is None
    assert "too few requests" in told(curve(rates=(20, 60), seconds=10))["greatest rate"]


def test_the_queue_is_the_longest_of_all_passes_and_all_that_were_rejected_are_told():
    found = curve(rates=(20, 40))
    found.samples[-3] = replace(found.samples[-3], value=500.0)  # one request of all that takes longer
    for look in found.of(MONITOR):
        (of,) = json.loads(look.meta["nodes"]).values()
        rejected = look.meta["pass"] * of["at"] / 60_000
        look.meta["nodes"] = json.dumps({"a": of | {"queue": look.meta["pass"], "rejected": rejected}})
    (section,) = (s for s in sections(found) if s.title == "Latency by rate: 1s-2r")
    (table,) = section.tables
    assert [row["queue"] for row in table.rows] == [6, 6]
    assert [row["rejected"] for row in table.rows] == [1 + 2 + 3 + 4 + 5 + 6] * 2
    assert [row["service"] for row in table.rows] == [10, 10]


def test_one_pass_of_too_few_requests_leaves_a_percentile_out():
    found = curve(rates=(20, 60))
    fewer = [w for w in found.latencies if w.meta["pass"] == 1][::3]
    others = [w for w in found.latencies if w.meta["pass"] != 1]
    points = curves(replace(found, latencies=[*fewer, *others]))["1s-2r"]
    assert [point.latency(99) is None for point in points] == [True, False]


@pytest.mark.parametrize(
    "bound, text",
    [(1, "1s-2r: none from 20 searches/s on keeps p99 to 1 ms"), (10**6, "1s-2r: 90 searches/s or more keep p99")],
)
def test_a_bound_beyond_the_rates_raced_is_said_to_be(bound, text):
    assert told(curve(slo_ms=bound))["greatest rate"].startswith(text)


def test_a_rate_of_too_few_requests_is_none_that_missed_the_bound():
    assert told(curve(rates=(5, 40, 60, 80, 90)))["limited by"].endswith(" at 80 searches/s")
    assert " none from 40 searches/s on " in told(curve(rates=(5, 40, 60), slo_ms=1))["greatest rate"]


def test_what_limits_is_told_of_the_rate_at_which_the_curve_last_leaves_the_bound():
    found = curve(rates=(20, 40, 60, 90))
    slow = [replace(w, value=w.value + 1000) if w.meta["cell"].endswith("-40") else w for w in found.latencies]
    lines = told(replace(found, latencies=slow))
    assert lines["latency"].startswith("at 60 ") and lines["limited by"].endswith(" at 90 searches/s")


def test_a_rate_that_lacks_a_pass_is_told_from_one_of_too_few_requests():
    found = curve()
    lost = [w for w in found.latencies if not (w.meta["pass"] == 1 and w.meta["cell"].endswith("-60"))]
    text = told(replace(found, latencies=lost))["greatest rate"]
    assert "not there in as many passes of each rate" in text and "cell_seconds" not in text


def test_too_few_passes_name_no_rate():
    found = told(curve(passes=3))
    assert "greatest rate" not in found and found["latency"]


def test_without_an_interval_a_bound_is_neither_kept_nor_missed():
    (table,) = (t for s in sections(curve(passes=2)) if s.title == "Latency by rate: 1s-2r" for t in s.tables)
    assert [row["kept"] for row in table.rows] == ["not shown"] * 5
    (table,) = (t for s in sections(curve(passes=3)) if s.title == "Latency by rate: 1s-2r" for t in s.tables)
    assert [row["kept"] for row in table.rows] == ["not shown"] * 5, "three passes carry no verdict"


def test_a_pass_in_which_a_node_had_left_counts_for_no_point():
    found = curve()
    for sample in found.samples:
        if sample.meta.get("pass") == 6 and sample.kind == "capacity-prepare":
            sample.meta["shard_table"] = json.dumps({"a": ["0p"], "b": ["0r"]})
    assert {tuple(point.waits) for point in curves(found)["1s-2r"]} == {(1, 2, 3, 4, 5)}
    assert told(found)["recommended"] == "nothing: a verdict takes passes:6"


def test_one_rate_is_no_curve():
    text = told(curve(rates=(60,)))["greatest rate"]
    assert text == "1s-2r: not shown, it takes two rates or more; set more of curve_per_second"


def test_the_report_says_of_each_rate_whether_the_bound_was_kept():
    (section,) = (s for s in sections(curve()) if s.title == "Latency by rate: 1s-2r")
    table = next(block for block in section.blocks if hasattr(block, "rows"))
    assert [row["kept"] for row in table.rows] == ["kept", "kept", "kept", "missed", "missed"]
    assert [row["queue"] for row in table.rows] == [3] * 5
    sheet = next(sheet for sheet in sheets(curve()) if sheet.key == "es_profile_curve.csv")
    assert [row["rate_due"] for row in sheet.rows[::6]] == [20, 40, 60, 80, 90] and len(sheet.rows) == 5 * 6
    of = curve()
    assert {s.cell for s in compared_in(of)} == {f"1s-2r-{rate}" for rate in (20, 40, 60, 80, 90)}
    found = {(s.cell, s.meta["pass"]): s.meta["p99_ms"] for s in compared_in(of)}
    for point in curves(of)["1s-2r"]:
        for number_of, waits in point.waits.items():
            assert found[point.cell.name, number_of] == pytest.approx(np.percentile(waits, 99))


@pytest.mark.parametrize("slower, kinds", [(1, []), (1.3, []), (2, ["drift"])])
def test_a_first_pass_that_waits_longer_is_warned_of(slower, kinds):
    found = curve()
    waits = [replace(w, value=w.value * (slower if w.meta["pass"] == 1 else 1)) for w in found.latencies]
    assert [warning.kind for warning in warnings(replace(found, latencies=waits))] == kinds


@pytest.mark.parametrize("used_ms, kinds", [(300, ["drift"]), (400, [])])
def test_what_waits_at_a_rate_that_fills_a_node_tells_of_no_drift(used_ms, kinds):
    found = replace(
        curve(), target=[{"node": "a", "version": "8.17.2", "cpu_cores": "0.4", "cpu_held_by": "cgroup v1"}]
    )
    for look in found.of(MONITOR):
        if look.meta["cell"] == "1s-2r-90":
            (of,) = json.loads(look.meta["nodes"]).values()
            look.meta["nodes"] = json.dumps({"a": of | {"cpu_ms": used_ms * of["at"] / 1000}})
    first = [w.meta["cell"] == "1s-2r-90" and w.meta["pass"] == 1 for w in found.latencies]
    waits = [replace(w, value=w.value * (100 if so else 1)) for w, so in zip(found.latencies, first)]
    assert [warning.kind for warning in warnings(replace(found, latencies=waits))] == kinds


def schedule(client=0, clients=1, kind="capacity-query", number=1, cell="1s-2r-50", **changes):
    """The scheduler of a client."""
    operation = {"cell": cell, "pass": number, "rate": 50, "parameters": values(**changes)}
    task = SimpleNamespace(operation=SimpleNamespace(params=operation, type=kind), clients=clients)
    scheduler = Arrivals(task)
    scheduler.parameter_source = SimpleNamespace(client=client)
    return scheduler


def arrivals(client=0, clients=1, seconds=1000, **of):
    """The times at which the requests of a client are due."""
    scheduler = schedule(client, clients, **of)
    found = [scheduler.next(0.0)]
    while found[-1] < seconds:
        found.append(scheduler.next(found[-1]))
    return np.array(found)


def test_arrivals_are_a_poisson_process_at_the_rate_that_all_clients_share():
    gaps = np.diff(np.sort(np.concatenate([arrivals(client, 4) for client in range(4)])))
    assert 1 / gaps.mean() == pytest.approx(50, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("number", [-1, 0])
def test_before_the_passes_that_count_requests_are_due_at_once(number):
    assert [schedule(number=number).next(current) for current in (0.0, 3.0)] == [0.0, 3.0]


def test_documents_sent_at_once_are_due_at_once():
    assert 1000 * 50 / len(arrivals(kind="capacity-index", capacity_bulk_size=10)) == pytest.approx(10, rel=0.1)
    assert len(arrivals(capacity_bulk_size=10)) == pytest.approx(50_000, rel=0.02)


def test_arrivals_are_the_same_in_each_race_of_a_seed_and_others_for_each_client_cell_and_pass():
    first = arrivals(seconds=10).tolist()
    assert arrivals(seconds=10).tolist() == first
    others = [arrivals(1, 2, 10), arrivals(seconds=10, number=2), arrivals(seconds=10, seed=7)]
    others.append(arrivals(seconds=10, cell="2s-1r-50"))
    assert all(first[0] != other[0] for other in others)


def test_a_bound_within_the_interval_of_a_rate_is_neither_kept_nor_missed_there():
    (points,) = curves(curve()).values()
    bound = points[2].latency(99).value
    (section,) = (s for s in sections(curve(slo_ms=bound)) if s.title == "Latency by rate: 1s-2r")
    (table,) = section.tables
    assert [row["kept"] for row in table.rows] == ["kept", "kept", "not shown", "missed", "missed"]


def test_a_row_of_the_sheet_has_the_percentiles_of_its_pass_and_what_was_answered_in_its_time():
    found = curve(rates=(20, 40))
    (sheet,) = (sheet for sheet in sheets(found) if sheet.key == "es_profile_curve.csv")
    assert len(sheet.rows) == 2 * 6
    for row in sheet.rows:
        waits = [w.value for w in found.latencies if (w.meta["cell"], w.meta["pass"]) == (row["cell"], row["pass"])]
        percentiles = [row[f"p{percent}_ms"] for percent in ("50", "90", "99", "99.9")]
        assert percentiles == pytest.approx([np.percentile(waits, p) for p in (50, 90, 99, 99.9)])
        assert (row["requests"], row["per_s"]) == (60 * row["rate_due"], row["rate_due"])


def test_documents_that_were_not_taken_are_no_part_of_what_was_answered():
    whole, part = curve(rates=(20,)), curve(rates=(20,))
    for sample in part.of("capacity-query"):
        sample.meta["success-count"] = 0.25
    assert [curves(race)["1s-2r"][0].done().value for race in (whole, part)] == [1, 0.25]


def test_latencies_are_read_of_all_that_may_be_due_at_a_rate():
    record = challenges()["capacity-curve"]
    assert set(record.latencies) == {operation.type for operation in record.operations if operation.scheduler}
