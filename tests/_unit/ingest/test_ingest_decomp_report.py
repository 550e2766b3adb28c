import json
import re
from dataclasses import replace

import numpy as np
import pytest
from fakes import rows

from _tools.report import sides
from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.write import sheets
from cluster_metrics.ingest._report import ingest_decomp as explained
from cluster_metrics.ingest._report.decomp_cells import enough
from cluster_metrics.ingest.samples import CELL
from cluster_metrics.ingest.steps import NAIVE, NATIVE, REQUESTS, SLICES, STEPS

WALL_S = {NAIVE: 20.0, "keep-alive": 19.0, "orjson": 13.0, "constant-action": 13.0, "filter-path": 11.0}
WALL_S |= {"bulk-10000": 9.0, "slices": 8.0, "clients-2": 5.0, "clients-4": 5.0, "clients-8": 6.0}
WALL_S |= {"refresh-off": 6.0, "translog-async": 5.5, SLICES: 10.0, NATIVE: 15.0, REQUESTS: 25.0}
WALL_S |= dict.fromkeys(("values-unindexed", "epoch-unindexed", "smile", "no-source"), 5.5)


def race(walls=WALL_S, rounds=20, took_ms=5.0, longer=(), **parameters):
    """A race in which all cells of a round are slowed down alike, by up to half.

    :param longer: cells that have eight times the rows, which take eight times as long.
    """
    samples = []
    for r, slow in enumerate(np.random.default_rng(1).uniform(1, 1.5, rounds)):
        for i, (cell, s) in enumerate(walls.items()):
            size = 8 if cell in longer else 1
            wall_ms = s * slow * size * 100
            meta = dict.fromkeys((key.name for key in CELL), float(size)) | {"round": r, "wall_ms": wall_ms}
            meta |= {"rows": size * 100_000, "rows_per_second": 1e8 * size / wall_ms}
            meta |= {"least_took_ms": took_ms, "client_cpu_ms": wall_ms / 20}
            samples.append(Sample("ingest-cell", r * 100 + i, cell, wall_ms, meta))
    return Race({"race-id": "x", "challenge": "ingest-decomp"}, samples, {}, parameters)


def texts(race):
    return {s.title: s.text for s in explained.sections(race)}


def test_savings_are_formed_within_rounds_against_the_step_before():
    cells = explained.Clients(race())
    assert {s.name: b for s, b in explained.taken(race(), cells)}["filter-path"] == "constant-action"
    ratio = cells.times_as_fast("keep-alive", "orjson")
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((19 / 13,) * 3)
    share = cells.share_saved("keep-alive", "orjson")
    assert (share.low, share.high) == pytest.approx((6 / 20,) * 2)
    saved = cells.saved("keep-alive", "orjson")
    assert 6 <= saved.low <= saved.value <= saved.high <= 9


def test_cells_of_more_rows_are_held_against_others_by_the_row():
    longer, same = race(longer=("clients-2", "clients-4", "clients-8", "no-source")), race()
    found, expected = texts(longer), texts(same)
    for title in ("What to do", "What each change buys", "How fast it gets", "Where the seconds go"):
        assert found[title] == expected[title]
    gains, usual = ({gain.change.text: gain for gain in explained.changes(of)} for of in (longer, same))
    assert gains.keys() == usual.keys()
    for name, gain in gains.items():
        assert gain.times.value == pytest.approx(usual[name].times.value)
    for cost in ("target_cpu", "client_cpu", "store"):
        assert gains["2 clients"].costs[cost].value == pytest.approx(usual["2 clients"].costs[cost].value)
    (row,) = (line for line in found["What it costs"].splitlines() if line.startswith("| clients-2 "))
    assert "800,000" in row


def test_bytes_are_a_cost_by_the_row_however_many_requests_they_come_in():
    of = race()
    for sample in of.samples:
        sample.meta.update(requests=10 if sample.cell == NAIVE else 1, bytes_out=3.0)
        sample.meta["bytes_in"] = 3.0 if sample.cell == "filter-path" else 9.0
    costs = {gain.change.text: gain.costs["bytes"].value for gain in explained.changes(of)}
    assert costs["only took and errors in the response"] == 0.5, "of what is sent and what is received"
    assert costs["10,000 documents a request"] == 2 and costs["connections kept open"] == costs["2 clients"] == 1


def test_races_whose_cells_have_other_numbers_of_rows_are_compared_by_the_row():
    same, longer = race(), race(longer=("clients-8",))
    races = [
        replace(of, document=of.document | {"race-id": name, "results": {"a": 1}})
        for name, of in (("same", same), ("longer", longer))
    ]
    found = sides.comparison({of.id: [of] for of in races}, None)
    assert found.ratio(found.sides[1], "clients-8").value == pytest.approx(1)
    assert found.figure("wall_ms") == "wall time per million rows, s"


def test_what_encoding_and_parsing_cost_a_row_is_in_ns():
    found = {cost.name: cost.each.value for cost in explained.costs(race())}
    assert found[f"encoding, {NAIVE}"] == found[f"parsing, {NAIVE}"] == pytest.approx(10)


def test_what_a_cell_costs_is_told_per_million_rows_of_bytes_and_cpu_and_per_row_of_the_store():
    """Bytes are in megabytes, CPU is in seconds; all else is as each cell counted it."""
    of = race()
    counted = {"requests": 100, "connections": 2, "retries": 3, "refresh_wall_ms": 40, "segments": 5, "asks_ms": 6}
    for sample in of.samples:
        size = sample.meta["rows"]
        sample.meta.update(bytes_out=96 * size, bytes_in=0.5 * size, store_bytes=70 * size, **counted)
        sample.meta.update(target_cpu_ms=0.008 * size, client_cpu_ms=0.002 * size)
    row = rows(explained.sections(of), "costs")[NAIVE]
    found = {key: getattr(value, "value", value) for key, value in row.items() if key != "cell"}
    costs = {"rows": 100_000, "target_cpu_ms": 8, "client_cpu_ms": 2, "bytes_out": 96, "bytes_in": 0.5}
    assert found == pytest.approx(costs | counted | {"store_bytes": 70})


def test_alone_each_step_is_held_against_naive():
    alone = race(design="one-at-a-time")
    assert {base for _, base in explained.taken(alone, explained.Clients(alone))} == {NAIVE}


def test_advice_tells_gains_losses_and_what_makes_no_difference():
    text = texts(race())["What to do"]
    gains, others = text.split("Slower here: ")
    assert gains.index("**orjson**") < gains.index("**clients-2**") < gains.index("**translog-async**")
    assert others.startswith("clients-8.")
    same = others.split("wall time, ")[1]
    ties = ["constant-action", "clients-4", "refresh-off", "values-unindexed", "epoch-unindexed", "smile", "no-source"]
    assert [part.split(":")[0] for part in same.split("; ")] == ties
    assert same.count("equivalent within 3.0 %") + same.count("not shown (could be −") == len(ties)


def test_steps_without_samples_are_named():
    def without(*names):
        return texts(race({k: v for k, v in WALL_S.items() if k not in names}))["What to do"]

    assert "step orjson was left out" in without("orjson") and "No samples" not in without("orjson")
    failed = replace(race({k: v for k, v in WALL_S.items() if k != "orjson"}), failed={"orjson": 20})
    text = texts(failed)["What to do"]
    assert "No samples of orjson" in text and "step orjson was left out" not in text
    assert "No round of constant-action has what it is held against" in text, "which is orjson, not json"
    assert "**No samples of slices.**" in without("slices")
    timed = texts(race(timestamps=True))["What to do"]
    assert "**No samples of time-series, logsdb.**" in timed and "left out" not in timed
    assert explained.sections(race({"orjson": 1.0})) == []


def test_a_race_of_some_steps_holds_each_against_the_step_before_and_misses_no_other():
    walls = {name: WALL_S[name] for name in (NAIVE, "orjson", "constant-action", "slices", "clients-2")}
    some = race(walls, ingest_steps=["constant-action", "clients-2"])
    assert [(s.name, base) for s, base in explained.taken(some, explained.Clients(some))] == [
        ("constant-action", "orjson"),
        ("clients-2", "slices"),
    ]
    told = texts(some)
    assert "No samples" not in told["What to do"] and "left out" not in told["What to do"]
    assert "| orjson " in told["Where the seconds go"] and "| orjson " not in told["What each change buys"]
    assert {gain.change.text: gain.against for gain in explained.changes(some)} == {
        "the action line is a constant": "orjson",
        "2 clients": "slices",
        "all steps up to clients-2": NAIVE,
    }
    assert not any("encoding, constant-action" in cost.name for cost in explained.costs(some))
    assert "**No samples of smile.**" in texts(race(walls, ingest_steps=["clients-2", "smile"]))["What to do"]


def test_what_is_not_shown_is_named_as_the_steps_of_a_race_of_its_own():
    of = race()
    noise = np.random.default_rng(2)
    for sample in of.samples:
        if sample.cell == "clients-4":
            sample.meta["wall_ms"] *= noise.uniform(0.8, 1.25)
    (asked,) = re.findall(r'add `"ingest_steps": (.*?)`', texts(of)["What to do"])
    assert json.loads(asked)[0] == "clients-4" and set(json.loads(asked)) <= {"clients-4", "clients-8"}
    assert "ingest_steps" not in texts(race(WALL_S | {"constant-action": 12.0, "clients-4": 4.0}))["What to do"]


def test_the_fastest_of_a_race_of_some_steps_may_be_what_one_is_held_against():
    walls = {NAIVE: 20.0, "clients-8": 5.0, "refresh-off": 6.0}
    some = race(walls, ingest_steps=["refresh-off"])
    assert dict(answer_of(some).lines())["recommended"].startswith("clients-8: ")
    assert "the fastest of 3;" in texts(some)["How fast it gets"]
    assert "Slower here: refresh-off." in texts(some)["What to do"]


def test_a_step_is_held_against_no_other_than_the_one_before():
    lost = race({name: s for name, s in WALL_S.items() if name != "slices"})
    assert "clients-2" not in {step.name for step, _ in explained.taken(lost, explained.Clients(lost))}
    text = texts(lost)["What to do"]
    assert "**No samples of slices.**" in text and "**No round of clients-2 has what it is held against.**" in text
    apart = race(rounds=2)
    gone = {("keep-alive", 0), ("orjson", 1)}
    apart.samples[:] = [s for s in apart.samples if (s.cell, s.meta["round"]) not in gone]
    assert "No round of orjson has" in texts(apart)["What to do"]


def test_few_rounds_give_no_verdict():
    assert "Too few rounds to judge: keep-alive" in texts(race(rounds=19))["What to do"]


def test_the_first_step_that_ties_with_the_fastest_is_a_step_and_never_the_naive_client():
    of = race(walls=WALL_S | {NAIVE: 5.0, "keep-alive": 5.0})
    assert enough(of, explained.Clients(of), "keep-alive") == "keep-alive"
    assert enough(of, explained.Clients(of), "clients-2") == "keep-alive"


def test_performance_names_the_best_and_the_shares():
    of = race()
    for sample in of.samples:
        sample.meta.update(encode_ms=sample.meta["wall_ms"] / 50, parse_ms=sample.meta["wall_ms"] / 100)
    text = texts(of)["How fast it gets"]
    assert "encoding and parsing are 3.0 % [3.0 %, 3.0 %]" in text
    assert dict(answer_of(of).lines())["documents"].startswith(f"{20 * len(WALL_S) * 100_000:,} sent, ")
    assert "**clients-2**" in text or "**clients-4**" in text
    assert "4.00 × [4.00, 4.00] the naive client" in text
    assert "5.0 % [5.0 %, 5.0 %] of the wall time" in text
    assert "It is 5.00 × [5.00, 5.00] as fast as `requests.post` without a session" in text
    assert re.search(r"It is the fastest of 16; choosing it for that overstates it by [01]\.\d % on average\.", text)
    assert "**" not in texts(race(rounds=19))["How fast it gets"]
    assert "1.50 × [1.50, 1.50] the rows/s of Rally's own" in text
    assert "cores always at work" not in text


def test_what_choosing_overstates_is_not_moved_by_rounds_that_were_slow_as_a_whole():
    def told(of):
        return re.search(r"overstates it by (\S+) % on average", texts(of)["How fast it gets"]).group(1)

    even, odd = race(), race()
    for sample in odd.samples:
        sample.meta["wall_ms"] *= 1 + sample.meta["round"] % 5
    assert told(odd) == told(even)


@pytest.mark.filterwarnings("error")
def test_without_a_round_in_common_there_is_no_word_on_what_choosing_overstates():
    of = race(rounds=2)
    left = [s for s in of.samples if (s.cell, s.meta["round"]) not in {("orjson", 0), ("slices", 1)}]
    text = texts(replace(of, samples=left))["How fast it gets"]
    assert "It is the fastest of 16, which have no round in common." in text and "nan" not in text


def test_the_ceiling_is_what_the_targets_cpu_takes_of_all_its_cores():
    of = race()
    for sample in of.samples:
        sample.meta["target_cpu_ms"] = sample.meta["wall_ms"] * 1.6
    held = [{"node": "a", "cores": 8, "cpu_cores": 1.5, "cpu_held_by": "cgroup"}, {"node": "b", "cores": 0.5}]
    text = texts(replace(of, target=held))["How fast it gets"]
    assert "target's 2.00 cores always at work, it would be 5.00 × [5.00, 5.00] the naive client" in text


@pytest.mark.parametrize(
    "took_ms, said",
    [(1.0, "at least that fine"), (99.0, "at least that fine"), (100.0, "means little"), (0.0, "means little")],
)
def test_the_resolution_of_took_is_said(took_ms, said):
    of = race(took_ms=took_ms)
    for sample in of.samples[1::2]:  # the least of all counts
        sample.meta["least_took_ms"] *= 60
    assert said in texts(of)["Where the seconds go"]


def test_a_cell_in_which_no_took_was_above_zero_does_not_hide_how_fine_that_of_others_is():
    of = race(took_ms=5.0)
    for sample in of.samples:
        sample.meta["least_took_ms"] *= sample.cell != NATIVE
    assert "The shortest `took` above zero was 5 ms" in texts(of)["Where the seconds go"]


def test_a_step_stands_with_what_it_takes_of_the_targets_cpu_and_what_would_have_been_found():
    of = race()
    for sample in of.samples:
        sample.meta["target_cpu_ms"] = 0.5 if sample.cell == "orjson" else 1.0
        if sample.cell == "clients-8" and sample.meta["round"] % 2:
            sample.meta["wall_ms"] *= 1.1
    found = rows(explained.sections(of), "changes")
    assert [found[name]["target_cpu"].value for name in ("keep-alive", "orjson", "constant-action")] == [1, 0.5, 2]
    assert found["clients-8"]["found"] > 2 * found["keep-alive"]["found"]


def test_every_step_has_its_bar_and_its_row():
    advice, section = explained.sections(race())[:2]
    for step in (step for step in STEPS if not step.timed):
        assert f"| {step.name} " in section.text and step.name in str(section.figures[0].spec)
    bars = {row["name"]: row for row in section.figures[0].spec["data"]["values"]}
    assert bars["orjson"]["start"] == bars["keep-alive"]["end"] != bars[NAIVE]["end"]
    alone = {
        row["name"]: row
        for row in explained.sections(race(design="one-at-a-time"))[1].figures[0].spec["data"]["values"]
    }
    assert {row["start"] for name, row in alone.items() if name != NAIVE} == {alone[NAIVE]["end"]}
    assert "The steps time-series, logsdb were left out: they take timestamps:true." in advice.text
    _, beside = explained.reference(race())
    assert {row["what"]: row["reference"] for row in beside.rows}["orjson"] == "10–15 s (13–20 %)"


def test_what_of_the_rest_of_took_is_the_translog_is_told_by_a_pair_of_durabilities():
    of = race()
    for sample in of.samples:
        other_s = 1.5 if sample.cell == "translog-async" else 2.25
        sample.meta.update(took_ms=800.0 + 100 * other_s, index_ms=800.0)  # of 100,000 rows
    found = {row["cell"]: row for row in rows(explained.sections(of), "times").values()}
    assert found["refresh-off"]["other"].value == pytest.approx(2.25)
    assert found["refresh-off"]["index_ms"].value == pytest.approx(8)
    told = (
        "Writing the translog to disk with each request is 0.750 [0.750, 0.750] s of the 2.25 s other than indexing in"
    )
    assert f"{told} refresh-off: " in texts(of)["Where the seconds go"]
    assert f"{told} naive: " in texts(replace(of, parameters={"design": "one-at-a-time"}))["Where the seconds go"]
    without = replace(of, samples=[s for s in of.samples if s.cell != "translog-async"])
    assert "Writing the translog" not in texts(without)["Where the seconds go"]


def test_the_sheet_has_a_row_per_sample():
    (sheet,) = sheets(race(rounds=3))
    assert sheet.key == "es_profile_ingest_decomp.csv"
    assert len(sheet.rows) == 3 * len(WALL_S)
    assert {column.key for column in sheet.columns} <= set(sheet.rows[0])
    assert {row["operation"] for row in sheet.rows} == set(WALL_S)


def test_the_answer_is_the_fastest_client_once_a_verdict_is_carried():
    lines = dict(answer_of(race()).lines())
    assert (
        lines["recommended"].startswith("clients-2: ")
        and "4.00 × [4.00, 4.00] as fast as naive" in lines["recommended"]
    )
    assert lines["saves most"].startswith("orjson ")
    late = WALL_S | {"no-source": 4.999}
    of = race(late)
    recommended = dict(answer_of(of).lines())["recommended"]
    found = next(finding for finding in explained.answer(of) if finding.name == "recommended").figures
    assert found["rows_per_second"].value == explained.Clients(of).one("rows_per_second", "clients-2").value
    assert recommended.startswith("clients-2: ")
    assert recommended.endswith("; no-source, the fastest, is not shown to be faster")
    alone = dict(answer_of(race(late, design="one-at-a-time")).lines())["recommended"]
    assert alone.startswith("no-source: ")
    assert dict(answer_of(race(rounds=5)).lines())["recommended"] == "nothing: a verdict takes ingest_rounds:20"


def test_a_step_of_too_few_rounds_in_common_with_the_fastest_is_not_recommended():
    of = race(rounds=40)
    few = [s for s in of.samples if s.cell != "keep-alive" or s.meta["round"] < 10]
    assert dict(answer_of(replace(of, samples=few)).lines())["recommended"].startswith("clients-2: ")


@pytest.mark.parametrize("factors, chosen", [((0.9, 1.15), "clients-2"), ((1.2, 1.2), "clients-4")])
def test_the_first_step_that_is_not_shown_to_be_slower_than_the_fastest_is_recommended(factors, chosen):
    of = race(WALL_S | {"no-source": 4.999})
    for sample in of.samples:
        if sample.cell == "clients-2":
            sample.meta["wall_ms"] *= factors[sample.meta["round"] % 2]
    recommended = dict(answer_of(of).lines())["recommended"]
    assert recommended.startswith(f"{chosen}: ")
    assert recommended.endswith("; no-source, the fastest, is not shown to be faster")


def test_the_three_steps_that_save_most_are_named_with_what_they_save():
    """Each of 20 rounds is as slow, so that seconds are the same in all of them."""
    of = race()
    for sample in of.samples:
        wall_ms = 100 * WALL_S[sample.cell]
        sample.meta.update(wall_ms=wall_ms, client_cpu_ms=wall_ms / 20)
    lines = dict(answer_of(of).lines())
    assert lines["naive"] == "20.0 s [20.0, 20.0] per million rows"
    saved = {"orjson": 6, "clients-2": 3, "filter-path": 2}
    assert lines["saves most"] == "; ".join(f"{name} {s:.2f} s [{s:.2f}, {s:.2f}]" for name, s in saved.items())
    assert "the client's busiest process 5.0 % of a core" in lines["held back by"]
    assert lines["steps"] == (
        "improved: keep-alive, orjson, filter-path, bulk-10000, slices, clients-2, translog-async; "
        "regressed: clients-8; equivalent: constant-action, clients-4, refresh-off, values-unindexed, "
        "epoch-unindexed, smile, no-source"
    )
    assert "steps" not in dict(answer_of(replace(of, samples=[s for s in of.samples if s.cell == NAIVE])).lines())


def test_a_step_that_is_not_shown_to_gain_saves_nothing():
    lines = dict(answer_of(race({NAIVE: 20.0, "keep-alive": 13.0, "orjson": 12.99})).lines())
    assert lines["saves most"].startswith("keep-alive ") and "orjson" not in lines["saves most"]
    assert "orjson" in lines["steps"]


def test_costs_are_those_of_one_client_with_requests_of_a_thousand_rows_each_loop_once():
    of = race()
    for i, name in enumerate(WALL_S, 1):
        for sample in of.samples:
            if sample.cell == name:
                sample.meta.update(
                    encode_ms=i * sample.meta["rows"] / 1e6, parse_ms=100 * i * sample.meta["rows"] / 1e6
                )
    found = {cost.name: (str(cost.loops[0]), round(cost.each.value, 6)) for cost in explained.costs(of)}
    at = {name: i for i, name in enumerate(WALL_S, 1)}
    assert found == {
        "encoding, naive": ("encode json", 1 * at[NAIVE]),
        "parsing, naive": ("decode full, json", 100 * at[NAIVE]),
        "encoding, orjson": ("encode orjson", at["orjson"]),
        "encoding, constant-action": ("encode orjson, constant action", at["constant-action"]),
        "parsing, filter-path": ("decode filtered, json", 100 * at["filter-path"]),
        f"encoding, {SLICES}": ("encode slices", at[SLICES]),
        f"parsing, {NATIVE}": ("decode full, Rally's partial parser", 100 * at[NATIVE]),
    }


@pytest.mark.parametrize("design, dumps", [("cumulative", "orjson"), ("one-at-a-time", "json")])
def test_costs_are_held_against_the_loop_of_the_design(design, dumps):
    alone = {cost.name: str(cost.loops[0]) for cost in explained.costs(race(design=design))}
    assert alone["encoding, constant-action"] == f"encode {dumps}, constant action"


def test_a_client_that_encodes_nothing_needs_no_package_to_be_held_against_a_loop():
    """Whether there was orjson is not told by a race without the step."""
    walls = {name: WALL_S[name] for name in (NAIVE, "constant-action", "slices")}
    some = race(walls, design="one-at-a-time", ingest_steps=["constant-action", "slices"])
    assert [cost.name for cost in explained.costs(some)] == ["encoding, naive", "parsing, naive", "encoding, slices"]
