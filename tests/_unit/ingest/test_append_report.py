"""The report of a load that has a target or a pace, from samples whose rates are known."""

import numpy as np
import pytest
from fakes import rows
from ingests import bulk, epoch_sample, load, look, of_append, race

from _tools.report import gate
from _tools.report.answer import answer_of
from _tools.report.text import percent
from _tools.report.write import page_of
from cluster_metrics.ingest._report import append_no_conflicts_index_only as append
from cluster_metrics.ingest._report import rates
from cluster_metrics.ingest._report.bottleneck import RATE


def page(module, of):
    return page_of("", module.sections(of))


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
    paced = "epochs:2,paced:true,bulk_size:100,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:"
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
        asked = f"epochs:2,{paced},bulk_size:1,target_docs_per_second:80,spike_minutes:1,spike_docs_per_second:"
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


def test_the_time_in_which_clients_catch_up_after_a_spike_does_not_hide_that_the_load_falls_behind():
    before, spike, after = (np.arange(0.0, 60, 2), np.arange(60.0, 120, 1), np.arange(120.0, 900, 2))
    late = np.where(after < 180, (180 - after) / 3, 0.01 * (after - 180))  # by 20 s at the end of the spike
    at = [*before, *spike, *(after + late)]
    samples = [bulk(1, i % 2, s, **{"success-count": 10_000}) for i, s in enumerate(at)] + [epoch_sample(1)]
    asked = "epochs:2,paced:true,target_docs_per_second:5000,spike_minutes:1,spike_docs_per_second:10000"
    assert "**Not reached:** the load was paced" in page(append, race(asked, samples))


def test_the_time_in_which_clients_catch_up_after_a_spike_is_no_part_of_the_rate_that_was_kept():
    before, spike, caught_up, after = ((0, 60, 0.1), (60, 120, 0.1), (120, 180, 0.04), (180, 400, 0.1))
    at = np.concatenate([np.arange(*when) for when in (before, spike, caught_up, after)])
    samples = [bulk(1, i % 2, s) for i, s in enumerate(at)] + [epoch_sample(1)]
    asked = "epochs:2,paced:true,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:2500"
    assert "kept 100.0 % of the target's rate" in page(append, race(asked, samples))


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


def test_a_spike_that_a_load_is_too_short_for_is_a_target_that_is_missed():
    asked = "epochs:2,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:4000"
    of = of_append(race(asked))
    answer = answer_of(of)
    assert dict(answer.lines())["spike"] == "not shown: the load is too short"
    (missed,) = answer.warnings
    assert missed.seen == "the load is too short for its spike of 1 min, which is not shown"
    assert gate.of_race(of, answer, ["target-missed"]).failed


def test_a_paced_load_that_missed_its_spike_was_not_held_back_by_what_was_asked_for():
    of = evenly(lambda s: 2000, seconds=180)
    asked = "epochs:2,paced:true,bulk_size:1,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:4000"
    missed = of_append(race(asked, [*of, *(look(at) for at in range(180))]))
    lines = dict(answer_of(missed).lines())
    assert lines["spike"].startswith("not reached: 2,000 of 4,000") and "asked for" not in lines["held back by"]
    assert append.held_back(missed, append._on_time(missed)).name != "the rate that was asked for"


@pytest.mark.parametrize("goal, on_time", [(2000, True), (2100, False)])
def test_a_load_that_was_on_time_was_held_back_by_its_rate_alone(goal, on_time):
    samples = [*evenly(lambda s: 2000), *(look(at) for at in range(60))]
    found = of_append(race(f"epochs:2,paced:true,target_docs_per_second:{goal}", samples))
    first, told = append.sections(found)[0].text.split("**")[1], dict(answer_of(found).lines())["held back by"]
    assert [text.startswith(RATE) for text in (first, told)] == [on_time] * 2
    free = of_append(race(f"epochs:2,target_docs_per_second:{goal}", samples))
    assert RATE not in dict(answer_of(free).lines())["held back by"]


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
    room = 1 if goal == 900 else 0  # which is told beyond the target
    bounds = ", ".join(percent(bound / goal - room) for bound in (average.low, average.high))
    assert f"[{bounds}]" in page(append, of)
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
    asked = "epochs:2,bulk_size:1,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:4000"
    paced, free = race(f"{asked},paced:true", of), race(asked, of)
    found = rows(append.sections(paced), "target")  # of buckets of 5 s from 30 s to 60 s, and from 180 s to 295 s
    assert found["steady rate, mean"]["rate"].value == pytest.approx((18 * 2000 + 11 * 5000) / 29)
    assert found["steady rate, median"]["rate"].value == pytest.approx(2000)
    told = [dict(answer_of(of_append(r)).lines())["spike"] for r in (paced, free)]
    assert all(text.startswith("reached: ") and text.endswith(" of 4,000 documents/s") for text in told)
    assert [float(text.split()[1].replace(",", "")) for text in told] == pytest.approx([4000, 5000], rel=0.002)
    short = evenly(lambda s: 2000, seconds=119)
    assert "too short for a spike" in page(append, race(f"{asked},paced:true", short))
    assert "too short for a spike" not in page(append, race(asked, short))


def test_the_spike_of_a_paced_load_is_due_as_long_before_as_its_first_request_is_after_the_start():
    """The first request is due when its 20,000 documents are, after 10 s."""
    of = evenly(lambda s: 4000 if 50 <= s < 110 else 2000, seconds=200)
    asked = "epochs:2,paced:true,bulk_size:20000,target_docs_per_second:2000,spike_minutes:1,spike_docs_per_second:4000"
    assert dict(answer_of(of_append(race(asked, of))).lines())["spike"].startswith("reached: ")


@pytest.mark.parametrize("part, verdict", [(0.985, "not reached"), (0.995, "reached")])
def test_a_spike_is_reached_at_99_percent_of_its_rate(part, verdict):
    asked = f"epochs:2,target_docs_per_second:1000,spike_minutes:1,spike_docs_per_second:{round(2000 / part)}"
    of = race(asked, evenly(lambda s: 2000, seconds=130))
    assert dict(answer_of(of_append(of)).lines())["spike"].startswith(f"{verdict}: ")


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
