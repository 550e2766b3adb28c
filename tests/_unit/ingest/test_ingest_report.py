"""The reports of the ingest challenges, from samples whose rates and shares are known."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from fakes import rows
from ingests import bulk, epoch_sample, load, look, of_append, race

from _tools.report import timelines
from _tools.report.answer import answer_of
from _tools.report.write import page_of, sheets
from cluster_metrics.ingest._report import append_no_conflicts_index_only as append
from cluster_metrics.ingest._report import ingest, rates
from cluster_metrics.ingest.account import REPEATED


def page(module, of):
    return page_of("", module.sections(of))


def test_the_rate_counts_what_is_acknowledged_in_each_bucket():
    first, second = rates.loads(race())
    assert first.width == second.width == 0.5
    assert np.allclose(first.rates[1:-3], 4000, rtol=0.06)
    assert first.documents == 100 * len(load(1, 0))


@pytest.mark.parametrize("seconds", [10.25, 10.3, 10.35, 10.4])
def test_the_last_bucket_is_divided_by_the_time_that_it_covers(seconds):
    evenly = [bulk(1, 0, i * 0.01) for i in range(int(seconds / 0.01))]
    (found,) = rates.loads(race(samples=[*evenly, epoch_sample(1)]))
    assert found.seconds % found.width != pytest.approx(0, abs=1e-6)
    assert np.allclose(found.rates, 10_000, rtol=0.11)


@pytest.mark.parametrize("requests, figures", [(80, 2), (30, 0)])
def test_fewer_than_five_buckets_are_not_drawn(requests, figures):
    found = race(samples=[*(bulk(1, 0, i * 0.05) for i in range(requests)), epoch_sample(1)])
    assert (len(rates.loads(found)[0].rates) >= 5) is bool(figures)
    assert len(ingest.rate_section(found).figures) == figures


def test_requests_rejections_and_merges_are_drawn_beside_the_rate():
    slow = [bulk(1, 0, 9.0, **{"error-count": 7, "took": 500}) for _ in range(200)]
    looks = [look(at, merges=int(at == 9)) for at in range(20)]
    samples = [*load(1, 0), *slow, *looks, epoch_sample(1)]
    rate, beside = (f.spec for f in ingest.rate_section(race(samples=samples)).figures)
    kinds = rate["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert {timelines.REJECTED, timelines.MERGE} < set(kinds)
    buckets = next(v["values"] for v in (layer["data"] for layer in rate["layer"]) if len(v["values"]) > 5)
    assert [(b["errors"], b["merging"]) for b in buckets if b["errors"]] == [(1400, True)]
    times = next(v["values"] for v in (layer["data"] for layer in beside["layer"]) if "series" in v["values"][0])
    assert max(row["value"] for row in times if row["series"] == "took, median") == 500
    assert {row["value"] for row in times if row["series"].startswith("service time")} == {10.0}
    seen = {series: [r["value"] for r in times if r["series"] == series] for series in {r["series"] for r in times}}
    assert seen["target, its busiest node"] == pytest.approx([50.0] * 19)
    assert seen["client, its busiest process"] == pytest.approx([20.0] * 19)
    assert seen["machine of both"] == pytest.approx([60.0] * 19) and seen["young collections"] == pytest.approx(
        [10.0] * 19
    )
    assert (sum(seen["merges"]), len(seen["merges"])) == (1, 20)
    assert "throttled, ms per s" not in {r["strip"] for r in times}, "what did not happen is left out"
    assert all(-len(seen) < r["y"] < 1 for r in times)


def test_requests_of_a_bucket_are_told_by_their_median_and_their_99th_percentile():
    """Ten requests a second, which take 1 to 10 ms."""
    requests = [replace(bulk(1, 0, i / 10, took=i % 10), value=1.0 + i % 10) for i in range(200)]
    rate, beside = (f.spec for f in ingest.rate_section(race(samples=[*requests, epoch_sample(1)])).figures)
    times = next(v["values"] for v in (layer["data"] for layer in beside["layer"]) if "series" in v["values"][0])
    told = {"service time, median": 5.5, "service time, 99th percentile": 9.91, "took, median": 4.5}
    assert [row["value"] for row in times if row["series"] in told] == pytest.approx([*told.values()] * 20)
    buckets = next(v["values"] for v in (layer["data"] for layer in rate["layer"]) if len(v["values"]) > 5)
    assert [b["end"] for b in buckets] == pytest.approx([*range(1, 20), 19.91])
    assert [b["kind"] == timelines.STEADY for b in buckets] == [2 <= i < 19 for i in range(20)]


def test_the_steady_window_leaves_out_the_start_and_clients_that_have_ended():
    found = rates.loads(race())[0]
    assert (found.first * found.width, found.end * found.width) == pytest.approx((2.0, 19.0), abs=0.5)
    assert not found.slow


def test_a_stall_is_seen_as_slow_and_with_its_merge():
    samples = [s for s in load(1, 0) if not 8 <= (s.at - 1_000_000) / 1000 < 10] + [
        look(9.0, merges=1),
        epoch_sample(1),
    ]
    found = rates.loads(race(samples=samples))[0]
    assert len(found.slow) == pytest.approx(4, abs=1)
    assert found.merging <= set(found.slow) and found.merging


def test_a_short_load_has_no_steady_window():
    found = rates.loads(race(samples=[*load(1, 0, seconds=2, per_second=3), epoch_sample(1)]))
    assert not len(rates.steady(found))
    of = race(samples=[*load(1, 0, seconds=2, per_second=3), epoch_sample(1)])
    assert "too short" in page(ingest, of) and "too short" in page(append, of)


def test_parts_add_up_to_client_time():
    found = ingest.parts(race().of("ingest-epoch"))
    assert np.allclose(found["client"] + found["indexing"] + found["other"], found["whole"])
    assert np.allclose(found["whole"], 2 * 20 / 0.08)
    assert np.allclose(found["indexing"], 12 / 0.08)
    uneven = ingest.parts([epoch_sample(1), epoch_sample(2, acknowledged=40_000, clients=4)])
    assert uneven["whole"] == pytest.approx([2 * 20 / 0.08, 4 * 20 / 0.04])
    assert uneven["indexing"] == pytest.approx([12 / 0.08, 12 / 0.04])


def test_shares_stand_apart_from_those_of_the_reference():
    shares = rows(ingest.sections(race()), "shares")
    assert (shares["1"]["wall_s"], shares["1"]["whole"]) == pytest.approx((20, 500))
    assert [shares[epoch]["client"] for epoch in ("1", "2", "mean")] == ["300 (60.0 %)", "250 (50.0 %)", "275 (55.0 %)"]
    assert (shares["mean"]["wall_s"], shares["mean"]["whole"]) == pytest.approx((20, 500))
    _, beside, _, counted = ingest.reference(race())
    assert [row["reference"] for row in beside.rows] == [0.47, 0.42, 0.11]
    assert [row["here"].value for row in beside.rows] == pytest.approx([0.55, 0.3, 0.15])
    assert counted.rows[0]["here"] == pytest.approx(250_000) and counted.rows[0]["reference"] == pytest.approx(76_867.2)
    *_, uneven = ingest.reference(race(samples=[epoch_sample(1), epoch_sample(2, acknowledged=40_000)]))
    assert uneven.rows[0]["here"] == pytest.approx((20_000 / 0.08 + 20_000 / 0.04) / 2)


def test_what_requests_take_beyond_took_and_what_clients_do_beside_them_are_parts_of_the_whole():
    spent = epoch_sample(1, clients_ms=36_000.0, send_ms=18_000.0, parse_ms=1000.0)
    text = page(ingest, race(samples=[*load(1, 0), spent]))
    assert "Of the whole, 5.0 % is what requests took beyond `took`" in text
    assert "2.5 % decoding responses, and 42.5 % what the clients did between requests" in text


def test_a_coarse_clock_is_told():
    samples = [*load(1, 0), epoch_sample(1)]
    assert "All `took` are multiples of 7 ms" in page(ingest, race(samples=samples))
    samples.append(bulk(1, 0, 1.0, took=8))
    assert "whole milliseconds" in page(ingest, race(samples=samples))


@pytest.mark.parametrize("tooks, number", [((40, 60), "2 requests"), ((0,) * 20, "0 requests")])
def test_of_few_requests_that_took_time_nothing_is_said_of_the_clock(tooks, number):
    samples = [*(bulk(1, i % 2, i / 10, took=took) for i, took in enumerate(tooks)), epoch_sample(1)]
    text = page(ingest, race(samples=samples))
    assert f"`took` was above 0 in {number}, too few to tell" in text and "multiples" not in text


def test_the_greatest_jump_of_percentiles_is_named():
    assert "from the 90th to the 99th percentile, 5.0 times" in page(ingest, race())


@pytest.mark.parametrize(
    "last, said",
    [
        (15.0, "The greatest jump is from the 50th to the 100th percentile, 1.5 times."),
        (14.9, "No percentile is 1.5 times the one before"),
        (10.0, "No percentile is 1.5 times the one before"),
    ],
)
def test_a_jump_of_percentiles_is_one_to_half_as_much_again(last, said):
    of = {"50_0": 10.0, "100_0": last}
    other = {"50_0": 1.0, "100_0": 9.0}
    rows = {"refresh-after-index": (other, other), "index-append": (of, {"50_0": 30.0, "100_0": 90.0})}
    results = [{"task": task, "service_time": ms, "latency": late} for task, (ms, late) in rows.items()]
    *_, found, told = ingest.times(replace(race(), document={"results": {"op_metrics": results}}))
    assert told.startswith(said) and [row["step"] for row in found.rows] == [None, last / 10]
    assert [(row["service_time"], row["latency"]) for row in found.rows] == [(10, 30), (last, 90)]


def test_every_percentile_that_rally_told_is_shown():
    told = dict(zip(("50_0", "90_0", "99_0", "99_9", "99_99", "100_0"), range(1, 7)))
    results = {"op_metrics": [{"task": "index-append", "service_time": told, "latency": told}]}
    _, found, _ = ingest.times(replace(race(), document={"results": results}))
    shown = {row["percentile"]: row["latency"] for row in found.rows}
    assert shown == dict(zip(("50", "90", "99", "99.9", "99.99", "100"), range(1, 7)))


@pytest.mark.parametrize("asked, said", [("", "was not paced"), (",paced:true,target_docs_per_second:9", "was paced")])
def test_what_latency_means_is_said_by_whether_the_load_was_paced(asked, said):
    assert f"The load {said}" in ingest.times(race(f"epochs:2{asked}"))[0]


def test_a_cluster_that_is_not_clean_is_warned_of():
    begin = {"merge_ms": 12, "merge_throttle_ms": 3, "index_ms": 0, "refresh_ms": 5, "flush_ms": 6}
    begin |= {"merges_current": 2, "index_current": 7}
    seen = {
        "merges_total_time was 12 ms before the load": 12,
        "merges_total_throttled_time was 3 ms before the load": 3,
        "refresh_total_time was 5 ms before the load": 5,
        "flush_total_time was 6 ms before the load": 6,
        "2 merges were under way when the load began": 2,
        "7 indexing requests were under way when the load began": 7,
    }
    for target in ("", ",target_docs_per_second:8000"):
        found = append.warnings(race(f"epochs:2,bulk_indexing_clients:2{target}", begin=begin))
        assert {w.seen: w.value for w in found if w.kind != "target-missed"} == seen
        assert [w.kind for w in found] == ["target-missed"] * bool(target) + ["not-clean"] * 4 + ["not-alone"] * 2
    used = append.warnings(race(begin=dict.fromkeys(begin, 0) | {"index_ms": 4}))
    assert [(w.seen, w.value) for w in used] == [("indexing_total_time was 4 ms before the load", 4)]
    assert "Warning" not in page(append, race())


def test_errors_are_counted_by_documents():
    samples = [*load(1, 0), bulk(1, 0, 5.0, **{"success-count": 60, "error-count": 40})]
    samples.append(epoch_sample(1, sent=80_000, acknowledged=79_960, found=79_950))
    of = race(samples=samples)
    assert "0.1 % of documents (40); 1 of" in page(ingest, of)
    assert ingest.arrived(of).text.startswith("80,000 sent, 79,960 acknowledged, 79,950 found; ")


def test_documents_that_were_sent_again_are_told_with_how_often_and_how_long():
    again = {"retries": 3, "repeated_docs": 250, "retry_wait_ms": 3500.0}
    of = race(samples=[*load(1, 0), epoch_sample(1, **again)])
    told = "250 documents sent again by 3 requests after status 429, after pauses of 3.50 s (8.8 % of the clients"
    assert told in page(ingest, of) and told in ingest.arrived(of).text
    assert "no request repeated" in page(ingest, race())


def test_epochs_of_one_load_are_never_too_few_since_a_race_is_one_sample():
    for of in (race(), of_append(race())):
        assert of.record.compared.alone
        assert "too-few" not in {warning.kind for warning in answer_of(of).warnings}


def test_sheets_have_all_columns(tmp_path):
    times = {"send_ms": 9.0, "parse_ms": 0.1, "encode_ms": 0.2, "bytes_out": 9}
    samples = [bulk(1, 0, 0.0, **times, **dict.fromkeys(REPEATED, 0)), epoch_sample(1)]
    for sheet in sheets(race(samples=samples)):
        sheet.write_csv(tmp_path)
        with open(tmp_path / sheet.key) as f:
            (row,) = csv.DictReader(f)
        assert all(row.values()), sheet.key
    assert {path.name for path in tmp_path.iterdir()} == {
        "es_profile_ingest_epoch.csv",
        "es_profile_ingest_batches.csv",
    }


def test_clients_that_are_done_before_the_last_idle_and_do_not_work():
    of = race(samples=[*load(1, 0), epoch_sample(1, clients_ms=36_000.0)])
    found = {key: value[0] for key, value in ingest.parts(of.of("ingest-epoch")).items()}
    whole = found.pop("whole")
    assert whole == pytest.approx(2 * 20 / 0.08)
    assert sum(found.values()) == pytest.approx(whole)
    assert found["idle"] == pytest.approx(0.1 * whole)
    assert found["client"] == pytest.approx((36 - 16) / 0.08)
    assert "(10.0 %)" in rows(ingest.sections(of), "shares")["1"]["idle"]


def test_the_answer_to_an_ingest_is_its_rate_and_where_the_time_goes():
    lines = dict(answer_of(race()).lines())
    assert lines["steady rate"] == "4,000 documents/s [4,000, 4,000]"
    assert lines["client time"].startswith("client and network 55.0 % (n = 2); indexing 30.0 %")
    assert lines["target's CPU"] == "112 s (n = 2) per million rows"
    assert lines["documents"].startswith("160,000 sent, 160,000 acknowledged, 160,000 found")


def test_rates_are_told_as_json_per_day_by_the_bytes_of_a_row():
    found = rows(append.sections(race("epochs:2,target_gb_per_day:10")), "target")
    goal, average = found["target"], found["steady rate, mean"]
    assert goal["gb"] == pytest.approx(10)
    assert average["gb"] == pytest.approx(10 * average["rate"].value / goal["rate"])


def test_documents_of_others_are_those_of_all_epochs():
    samples = [*load(1, 0), epoch_sample(1, foreign_docs=5.0), *load(2, 100), epoch_sample(2, foreign_docs=7.0)]
    (warning,) = append.warnings(race(samples=samples))
    assert (warning.kind, warning.value) == ("not-alone", 12)
    assert "Warning: 12 documents were indexed into other indices meanwhile" in page(ingest, race(samples=samples))
    assert "other indices meanwhile" not in page(ingest, race())
    gone = race(samples=[*load(1, 0), epoch_sample(1, foreign_docs=-12_000.0)])
    (warning,) = append.warnings(gone)
    assert warning.seen.startswith("other indices were deleted or moved") and "-12,000" not in page(ingest, gone)


def test_merges_and_slow_buckets_are_counted_within_steady_windows():
    """The second of two clients is done in bucket 20 of 25, so that the window is from 3 to 20."""
    rate, samples = {1: 10, 7: 10, 24: 10}, []
    for epoch, begin in ((1, 0), (2, 100)):
        for client, number in ((0, 250), (1, 205)):
            acknowledged = [{"success-count": rate.get(i // 10, 100)} for i in range(number)]
            samples += [bulk(epoch, client, begin + i / 10, **of) for i, of in enumerate(acknowledged)]
        samples += [look(begin + at, merges=int(at in (1, 5, 7, 23))) for at in range(25)]
    section = ingest.rate_section(race(samples=[*samples, epoch_sample(1), epoch_sample(2)]))
    assert (
        "A merge was under way in 4 of the 34 buckets of steady windows, and in 2 of the 2 slow ones." in section.text
    )
    row, other = rows([section], "rates").values()
    assert (row["window"], row["slow"], other["slow"]) == ("3.00 to 20.0", "1 of 17", "1 of 17")
    assert (row["mean"].value, row["median"].value) == pytest.approx(((16 * 2000 + 200) / 17, 2000))
    acknowledged = sum(s.meta["success-count"] for s in samples if s.kind == "ingest-bulk") / 2
    assert (row["seconds"], row["rate"]) == pytest.approx((24.91, acknowledged / 24.91))


def test_merges_of_a_load_without_a_steady_window_are_in_none():
    merging = [look(101.0, merges=1), look(102.0, merges=1)]
    samples = [*load(1, 0), *load(2, 100, seconds=3), *merging, epoch_sample(1), epoch_sample(2)]
    steady = rates.steady(rates.loads(race(samples=samples)))
    assert f"A merge was under way in 0 of the {len(steady)} buckets" in ingest.rate_section(race(samples=samples)).text


def test_what_the_target_did_stands_by_epoch_in_ms_and_megabytes():
    did = {"gc_young_ms": 30.0, "gc_old_ms": 4.0, "merge_bytes": 3e6, "translog_bytes": 5e5, "refresh_ms": 70.0}
    found = rows(ingest.sections(race(samples=[*load(1, 0), epoch_sample(1, **did)])), "target")["1"]
    known = {"wall_ms": 20_000, "took_ms": 16_000, "index_ms": 12_000, "refresh_ms": 70, "target_cpu_ms": 9000}
    known |= {"merge_mb": 3, "translog_mb": 0.5, "gc_ms": 34}
    assert {key: found[key] for key in known} == pytest.approx(known)


def test_what_each_load_used_up_stands_by_its_epoch():
    looks = [look(at) for at in (*range(20), *range(100, 120))]
    of = race(samples=[*load(1, 0), *load(2, 100), *looks, epoch_sample(1), epoch_sample(2)])
    used = rows(ingest.sections(of), "usage by epoch")
    assert used.keys() == {"1", "2"}
    known = {"target": 0.5, "client": 0.2, "process": 0.2, "machine": 0.6, "pauses": 0, "throttled": 0, "disk": 0.1}
    assert {key: used["2"][key] for key in known} == pytest.approx(known)
    assert rows(ingest.sections(race(samples=[*load(0, 0), *looks, epoch_sample(0)])), "usage by epoch").keys() == {
        "all"
    }


def node(at_s, **per_s):
    """What a node tells at a time whose counters grow by so much a second."""
    levels = {"merges": 0, "active": 0, "queue": 0, "rejected": 0} | per_s.pop("levels", {})
    return {"at": 1000 * at_s} | levels | {key: value * at_s for key, value in ({"cpu_ms": 500.0} | per_s).items()}


def test_what_happened_beside_the_rate_is_the_sum_over_nodes_in_the_units_of_its_strip():
    grown = {"gc_old_ms": 4.0, "index_throttle_ms": 30.0, "merge_throttle_ms": 50.0, "held_ns": 2e7}
    grown |= {"disk_read_kb": 1000.0, "disk_write_kb": 3000.0, "disk_ops": 40.0}
    levels = {"active": 3, "queue": 5}

    def seen(at):
        nodes = {"target-1": node(at, **grown, levels=levels), "other": node(at, **grown, levels=levels, cpu_ms=1500.0)}
        return replace(look(at), meta=look(at).meta | {"nodes": json.dumps(nodes)})

    again = [bulk(2, 0, 109.0, repeated_docs=40)]
    samples = [*load(1, 0), epoch_sample(1), *load(2, 100), *again, epoch_sample(2), seen(103), seen(104)]
    of = replace(race(samples=samples), target=[{"node": "target-1", "cores": 2}, {"node": "other", "cores": 2}])
    _, beside = (f.spec for f in ingest.rate_section(of).figures)
    drawn = next(v["values"] for v in (layer["data"] for layer in beside["layer"]) if "series" in v["values"][0])
    second = rates.loads(of)[0].seconds + rates.loads(of)[0].width
    known = {
        "old collections": 8.0,
        "indexing throttled": 60.0,
        "merges throttled": 100.0,
        "held by a cgroup": 40.0,
        "disk, read": 2.048,
        "disk, written": 6.144,
        "disk, operations": 80.0,
        "target, its busiest node": 75.0,
        "write threads at work": 6.0,
        "write queue": 10.0,
    }
    found = {name: [row for row in drawn if row["series"] == name] for name in known}
    assert {name: shown[0]["value"] for name, shown in found.items()} == pytest.approx(known)
    assert found["old collections"][0]["at"] == pytest.approx(second + 3.5)
    assert [row["at"] for row in found["write queue"]] == pytest.approx([second + 3, second + 4])
    assert {row["run"] for row in drawn if row["series"] in known} == {2}
    (repeated,) = [row for row in drawn if row["series"] == "sent again" and row["value"]]
    assert (repeated["value"], repeated["run"]) == (pytest.approx(40 / 0.5), 2)
    assert repeated["at"] == pytest.approx(second + 9.25)


def test_sheets_count_requests_by_epoch_and_bytes_in_megabytes(tmp_path):
    figures = {"send_ms": 9.0, "parse_ms": 0.1, "encode_ms": 0.2, "bytes_out": 9, **dict.fromkeys(REPEATED, 0)}
    refused = {"success-count": 60, "error-count": 40}
    samples = [bulk(1, 0, 0.0, **figures), bulk(2, 1, 100.0, **figures), bulk(1, 1, 0.5, **figures | refused)]
    samples += [epoch_sample(1, merge_bytes=3e6, translog_bytes=5e5, acknowledged=79_960), epoch_sample(2)]
    for sheet in sheets(race(samples=samples)):
        sheet.write_csv(tmp_path)
    with open(tmp_path / "es_profile_ingest_batches.csv") as f:
        keys = ("epoch", "batch", "client", "rows", "errors", "wall_ms", "took_ms")
        found = [[float(r[k]) for k in keys] for r in csv.DictReader(f)]
    assert found == [[1, 1, 0, 100, 0, 10, 7], [1, 2, 1, 100, 40, 10, 7], [2, 1, 1, 100, 0, 10, 7]]
    with open(tmp_path / "es_profile_ingest_epoch.csv") as f:
        first = next(csv.DictReader(f))
    assert [float(first[key]) for key in ("rows", "merge_mb", "translog_mb", "took_sum_ms")] == [79_960, 3, 0.5, 16_000]


def test_documents_and_requests_of_older_races_are_told_as_far_as_they_were_recorded():
    sizes = [{"bytes_out": 960_000.0, "bytes_in": 40_000.0}, {"bytes_out": 1_600_000.0, "bytes_in": 120_000.0}]
    text = ingest.documents(race(samples=[*load(1, 0), *(epoch_sample(i, **of) for i, of in enumerate(sizes))]))
    assert "16.0 bytes sent per document, 1.00 received" in text and "store: 50.0 bytes per document" in text
    assert "as JSON a row has 83.0, so 1.66 times that" in text
    assert "received" not in ingest.documents(race(samples=[*load(1, 0), epoch_sample(1, bytes_out=960_000.0)]))
    old = epoch_sample(1, retries=3)
    for key in ("repeated_docs", "retry_wait_ms"):
        del old.meta[key]
    assert ingest.repeated(race(samples=[*load(1, 0), old])) == "3 requests repeated after status 429"
