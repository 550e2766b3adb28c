"""The reports of the ingest challenges, from samples whose rates and shares are known."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from fakes import rows
from ingests import bulk, epoch_sample, load, look, of_append, race

from _tools.report import gate, timelines
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


def test_shares_stand_apart_from_those_of_the_reference():
    shares = rows(ingest.sections(race()), "shares")
    assert (shares["1"]["wall_s"], shares["1"]["whole"]) == pytest.approx((20, 500))
    assert [shares[epoch]["client"] for epoch in ("1", "2")] == ["300 (60.0 %)", "250 (50.0 %)"]
    _, beside, _, counted = ingest.reference(race())
    assert [row["reference"] for row in beside.rows] == [0.47, 0.42, 0.11]
    assert [row["here"].value for row in beside.rows] == pytest.approx([0.55, 0.3, 0.15])
    assert counted.rows[0]["here"] == pytest.approx(250_000) and counted.rows[0]["reference"] == pytest.approx(76_867.2)


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


def test_the_greatest_jump_of_percentiles_is_named():
    assert "from the 90th to the 99th percentile, 5.0 times" in page(ingest, race())


@pytest.mark.parametrize(
    "target, verdict",
    [
        (",target_docs_per_second:2000", "**Reached, with a headroom of 100"),
        (",target_docs_per_second:8000", "**Not reached:** the steady rate is 50."),
        (",target_gb_per_day:10", "**Reached, with a headroom of"),
        ("", "No target was set"),
    ],
)
def test_the_target_is_answered(target, verdict):
    text = page(append, race(f"epochs:2{target}"))
    assert verdict in text.replace("99.9 %", "100.0 %").replace("49.9 %", "50.0 %")


def test_a_spike_is_answered():
    target = "epochs:2,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:"
    long = [*load(1, 0, seconds=130), epoch_sample(1)]
    assert "was **reached**" in page(append, race(target + "3900", long))
    assert "was **not reached**" in page(append, race(target + "5000", long))
    assert "too short for a spike" in page(append, race(target + "5000"))


def test_a_paced_load_is_held_against_its_rate_and_its_spike():
    paced = "epochs:2,paced:true,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:"
    samples = [*load(1, 0, 60, 20), *load(1, 60, 60, 40), *load(1, 120, 60, 20), epoch_sample(1)]
    text = page(append, race(paced.replace("2000", "2500") + "4000", samples))
    assert "**Not reached:** the load was paced and kept" in text
    text = page(append, race(paced + "4000", samples))
    assert "**Reached:** the load was paced and kept" in text and "was **reached**" in text
    assert "was **not reached**" in page(append, race(paced + "5000", samples))
    told = {spike: dict(answer_of(of_append(race(f"{paced}{spike}", samples))).lines()) for spike in (4000, 5000)}
    assert told[4000]["spike"].startswith("reached: ") and told[4000]["spike"].endswith(" of 4,000 documents/s")
    assert told[5000]["spike"].startswith("not reached: ") and "steady rate" not in told[4000]


def test_a_spike_is_read_of_its_own_time_however_wide_the_buckets_are():
    """The load is long and its requests are few, so a bucket of the rate is longer than the spike."""
    steady, spike = (
        [bulk(1, i % 2, at, **{"success-count": 1000}) for i, at in enumerate(np.arange(*when))]
        for when in ((0.0, 1200.0, 12.0), (60.0, 120.0, 3.0))
    )
    samples = [*(s for s in steady if not 60 <= (s.at / 1000 - 1000) < 120), *spike, epoch_sample(1)]
    for paced in ("paced:true", "paced:false"):
        asked = f"epochs:2,{paced},target_docs_per_second:80,spike_minutes:1,spike_docs_per_second:"
        told = {
            goal: dict(answer_of(of_append(race(f"{asked}{goal}", samples))).lines())["spike"] for goal in (320, 400)
        }
        assert told[320].startswith("reached: 3") and told[400].startswith("not reached: 3")
    assert rates.loads(race(samples=samples))[0].width > 60


def test_a_paced_load_whose_spike_comes_too_soon_is_read_after_it():
    """One request in two seconds: 30 come before the spike, which tells nothing."""
    before, spike, after = (np.arange(0.0, 60, 2), np.arange(60.0, 120, 1), np.arange(120.0, 900, 2))
    for late, said in ((0.0, "Reached"), (0.01, "Not reached")):
        at = [*before, *spike, *(after + late * (after - 120))]
        samples = [bulk(1, i % 2, s, **{"success-count": 10_000}) for i, s in enumerate(at)] + [epoch_sample(1)]
        asked = "epochs:2,paced:true,target_docs_per_second:5000,spike_minutes:1,spike_docs_per_second:10000"
        assert f"**{said}:** the load was paced" in page(append, race(asked, samples))


@pytest.mark.parametrize("short, said", [(0.0, "Reached"), (0.01, "Not reached")])
def test_a_paced_load_that_falls_behind_by_1_percent_is_late(short, said):
    """Requests are late by 50 ms here and there, but only one of the loads falls further behind."""
    rng = np.random.default_rng(1)
    at = np.arange(0, 60, 0.1 * (1 + max(short, 0))) + 0.05 * rng.random(
        len(np.arange(0, 60, 0.1 * (1 + max(short, 0))))
    )
    samples = [bulk(0, i % 2, s) for i, s in enumerate(at)] + [epoch_sample(0)]
    text = page(append, race("epochs:2,paced:true,target_docs_per_second:1000", samples))
    assert f"**{said}:** the load was paced" in text
    assert ("by 5.9" in text or "by 6.0" in text) is (short > 0)


def test_a_load_of_few_requests_does_not_tell_whether_it_falls_behind():
    samples = [*load(1, 0, 49, 2), epoch_sample(1)]
    text = page(append, race("epochs:2,paced:true,target_docs_per_second:200", samples))
    assert "**Too few requests to tell:**" in text


def test_a_cluster_that_is_not_clean_is_warned_of():
    begin = {"merge_ms": 12, "index_ms": 0, "merges_current": 2, "index_current": 0}
    text = page(append, race(begin=begin))
    assert "merges_total_time was 12 ms before the load" in text and "2 merges were under way" in text
    assert "indexing_total_time" not in text
    assert "Warning" not in page(append, race())


def test_errors_are_counted_by_documents():
    samples = [*load(1, 0), bulk(1, 0, 5.0, **{"success-count": 60, "error-count": 40})]
    samples.append(epoch_sample(1, sent=80_000, acknowledged=79_960))
    assert "0.1 % of documents (40); 1 of" in page(ingest, race(samples=samples))


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


@pytest.mark.parametrize(
    "target, verdict, missed",
    [
        (2000, "reached: 200.0 % [200.0 %, 200.0 %] of 2,000 documents/s", False),
        (8000, "not reached: 50.0 % [50.0 %, 50.0 %] of 8,000 documents/s", True),
    ],
)
def test_the_answer_to_a_load_is_whether_its_target_is_reached(target, verdict, missed):
    answer = answer_of(of_append(race(f"epochs:2,target_docs_per_second:{target}")))
    assert dict(answer.lines())["target"] == verdict
    assert ["target-missed" in w.kind for w in answer.warnings] == [True] * missed
    assert bool(gate.of_race(race(), answer, ["target-missed"]).failed) is missed


def test_a_spike_that_is_missed_is_a_target_that_is_missed():
    target = "epochs:2,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:"
    long = [*load(1, 0, seconds=130), epoch_sample(1)]
    for spike, missed in ((3900, []), (5000, ["target not reached in the spike: the rate is 80.0 % of it"])):
        assert [w.seen for w in answer_of(of_append(race(f"{target}{spike}", long))).warnings] == missed


def test_the_answer_to_an_ingest_is_its_rate_and_where_the_time_goes():
    lines = dict(answer_of(race()).lines())
    assert lines["steady rate"] == "4,000 documents/s [4,000, 4,000]"
    assert lines["client time"].startswith("client and network 55.0 % (n = 2); indexing 30.0 %")
    assert lines["documents"].startswith("160,000 sent, 160,000 acknowledged, 160,000 found")


def evenly(rate, seconds=60):
    """Two clients in turn send ten requests a second; what is acknowledged of a second is its rate.

    :param rate: documents per second, by the second.
    """
    return [bulk(1, i % 2, i / 10, **{"success-count": rate(i // 10) // 10}) for i in range(10 * seconds)] + [
        epoch_sample(1)
    ]


@pytest.mark.parametrize(
    "goal, verdict",
    [
        (900, "**Reached, with a headroom of 11.3 %**"),
        (1000, "**Too close to call:** the steady rate is 100.2 %"),
        (1100, "**Not reached:** the steady rate is 91.1 %"),
    ],
)
def test_a_verdict_on_a_target_takes_the_whole_interval_of_the_steady_rate(goal, verdict):
    of = race(f"epochs:2,target_docs_per_second:{goal}", evenly(lambda second: 900 if second % 2 else 1100))
    assert verdict in page(append, of)
    average = rows(append.sections(of), "target")["steady rate, mean"]["rate"]
    assert average.low < 1000 < average.high and average.value == pytest.approx(1000, rel=0.02)
    missed = [w.seen.split(":")[0] for w in append.warnings(of)]
    assert missed == {900: [], 1000: ["target too close to call"], 1100: ["target not reached"]}[goal]


@pytest.mark.parametrize("first", [0, 1])
def test_a_paced_load_is_on_time_or_late_only_if_the_whole_interval_says_so(first):
    """It is late by 0 s and 0.3 s in turn, and so by up to 2 ms a second more or less in the end."""
    at = [i / 10 + 0.3 * ((i // 54 + first) % 2) for i in range(600)]
    samples = [bulk(1, i % 2, s) for i, s in enumerate(sorted(at))] + [epoch_sample(1)]
    of = race("epochs:2,paced:true,target_docs_per_second:1000", samples)
    late = rates.falling_behind(of, 1000)
    assert late.low < append.BEHIND < late.high and (late.value < append.BEHIND) is (first == 0)
    assert "**Too close to call:** the load was paced and kept" in page(append, of)
    assert [w.kind for w in append.warnings(of)] == ["target-missed"]
    assert dict(answer_of(of_append(of)).lines())["target"].startswith("too close to call: ")


def test_the_rate_of_a_paced_load_is_that_outside_of_its_spike_and_a_spike_that_of_its_own_time():
    """2,000 documents a second, 4,000 in the spike of a minute after one, and 5,000 in the last minute."""
    of = evenly(lambda s: 4000 if 60 <= s < 120 else 5000 if s >= 240 else 2000, seconds=300)
    asked = "epochs:2,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:4000"
    paced, free = race(f"{asked},paced:true", of), race(asked, of)
    found = rows(append.sections(paced), "target")  # of buckets of 5 s from 30 s to 295 s
    assert found["steady rate, mean"]["rate"].value == pytest.approx((30 * 2000 + 11 * 5000) / 41)
    assert found["steady rate, median"]["rate"].value == pytest.approx(2000)
    told = [dict(answer_of(of_append(r)).lines())["spike"] for r in (paced, free)]
    assert all(text.startswith("reached: ") and text.endswith(" of 4,000 documents/s") for text in told)
    assert [float(text.split()[1].replace(",", "")) for text in told] == pytest.approx([4000, 5000], rel=0.002)
    short = evenly(lambda s: 2000, seconds=119)
    assert "too short for a spike" in page(append, race(f"{asked},paced:true", short))
    assert "too short for a spike" not in page(append, race(asked, short))


@pytest.mark.parametrize("part, verdict", [(0.985, "not reached"), (0.995, "reached")])
def test_a_spike_is_reached_at_99_percent_of_its_rate(part, verdict):
    asked = f"epochs:2,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:{round(2000 / part)}"
    of = race(asked, evenly(lambda s: 2000, seconds=130))
    assert dict(answer_of(of_append(of)).lines())["spike"].startswith(f"{verdict}: ")


def test_rates_are_told_as_json_per_day_by_the_bytes_of_a_row():
    found = rows(append.sections(race("epochs:2,target_gb_per_day:10")), "target")
    goal, average = found["target"], found["steady rate, mean"]
    assert goal["gb"] == pytest.approx(10)
    assert average["gb"] == pytest.approx(10 * average["rate"].value / goal["rate"])


@pytest.mark.parametrize(
    "rate, said, even",
    [
        (lambda s: 200 if s % 10 == 5 else 1000, "% above the mean: most of the time the rate is higher", "uneven"),
        (lambda s: 2000 if s % 10 == 5 else 1000, "% below the mean: bursts pull the mean up", "uneven"),
        (lambda s: 800 if s % 10 == 5 else 1000, "Median and mean differ by", "even"),
    ],
)
def test_stalls_and_bursts_are_told_by_median_and_mean(rate, said, even):
    of = race("epochs:2", evenly(rate))
    assert said in page(append, of)
    assert dict(answer_of(of_append(of)).lines())["its median"].endswith(f": the rate is {even}")


def test_documents_of_others_are_those_of_all_epochs():
    samples = [*load(1, 0), epoch_sample(1, foreign_docs=5.0), *load(2, 100), epoch_sample(2, foreign_docs=7.0)]
    (warning,) = append.warnings(race(samples=samples))
    assert (warning.kind, warning.value) == ("not-alone", 12)
    assert "Warning: 12 documents were indexed into other indices meanwhile" in page(ingest, race(samples=samples))
    assert "other indices meanwhile" not in page(ingest, race())


def test_merges_and_slow_buckets_are_counted_within_steady_windows():
    """The second of two clients is done in bucket 20 of 25, so that the window is from 3 to 20."""
    rate = {1: 10, 7: 10, 24: 10}
    samples = [bulk(1, 0, i / 10, **{"success-count": rate.get(i // 10, 100)}) for i in range(250)]
    samples += [bulk(1, 1, i / 10, **{"success-count": rate.get(i // 10, 100)}) for i in range(205)]
    samples += [look(at, merges=int(at in (1, 5, 7, 23))) for at in range(25)]
    section = ingest.rate_section(race(samples=[*samples, epoch_sample(1)]))
    assert (
        "A merge was under way in 2 of the 17 buckets of steady windows, and in 1 of the 1 slow ones." in section.text
    )
    (row,) = rows([section], "rates").values()
    assert (row["window"], row["slow"]) == ("3.00 to 20.0", "1 of 17")
    assert (row["mean"].value, row["median"].value) == pytest.approx(((16 * 2000 + 200) / 17, 2000))
    acknowledged = sum(s.meta["success-count"] for s in samples if s.kind == "ingest-bulk")
    assert (row["seconds"], row["rate"]) == pytest.approx((24.91, acknowledged / 24.91))


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
        found = [[float(r[k]) for k in ("epoch", "batch", "client", "rows", "errors")] for r in csv.DictReader(f)]
    assert found == [[1, 1, 0, 100, 0], [1, 2, 1, 100, 40], [2, 1, 1, 100, 0]]
    with open(tmp_path / "es_profile_ingest_epoch.csv") as f:
        first = next(csv.DictReader(f))
    assert [float(first[key]) for key in ("rows", "merge_mb", "translog_mb", "took_sum_ms")] == [79_960, 3, 0.5, 16_000]


def test_documents_and_requests_of_older_races_are_told_as_far_as_they_were_recorded():
    sizes = {"bytes_out": 960_000.0, "bytes_in": 40_000.0}
    text = ingest.documents(race(samples=[*load(1, 0), epoch_sample(1, **sizes)]))
    assert "12.0 bytes sent per document, 0.50 received" in text and "store: 50.0 bytes per document" in text
    assert "received" not in ingest.documents(race(samples=[*load(1, 0), epoch_sample(1, bytes_out=960_000.0)]))
    old = epoch_sample(1, retries=3)
    for key in ("repeated_docs", "retry_wait_ms"):
        del old.meta[key]
    assert ingest.repeated(race(samples=[*load(1, 0), old])) == "3 requests repeated after status 429"
