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
    longer = race(longer=("clients-2", "clients-4", "clients-8", "no-source"))
    for title in ("What to do", "What each change buys", "How fast it gets", "Where the seconds go"):
        assert texts(longer)[title] == texts(race())[title]
    gains, usual = ({gain.change.text: gain for gain in explained.changes(of)} for of in (longer, race()))
    assert gains.keys() == usual.keys()
    for name, gain in gains.items():
        assert gain.times.value == pytest.approx(usual[name].times.value)
    for cost in ("target_cpu", "client_cpu", "store"):
        assert gains["2 clients"].costs[cost].value == pytest.approx(usual["2 clients"].costs[cost].value)
    (row,) = (line for line in texts(longer)["What it costs"].splitlines() if line.startswith("| clients-2 "))
    assert "800,000" in row


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


def test_what_is_sent_and_received_is_in_megabytes_per_million_rows():
    of = race()
    for sample in of.samples:
        sample.meta.update(bytes_out=96 * sample.meta["rows"], bytes_in=0.5 * sample.meta["rows"])
    row = rows(explained.sections(of), "costs")[NAIVE]
    assert (row["bytes_out"], row["bytes_in"]) == pytest.approx((96, 0.5))


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
    assert "**No samples of slices.**" in without("slices")
    assert explained.sections(race({"orjson": 1.0})) == []


def test_few_rounds_give_no_verdict():
    assert "Too few rounds to judge: keep-alive" in texts(race(rounds=19))["What to do"]


def test_performance_names_the_best_and_the_shares():
    text = texts(race())["How fast it gets"]
    assert "**clients-2**" in text or "**clients-4**" in text
    assert "4.00 × [4.00, 4.00] the naive client" in text
    assert "5.0 % [5.0 %, 5.0 %] of the wall time" in text
    assert "It is 5.00 × [5.00, 5.00] as fast as `requests.post` without a session" in text
    assert re.search(r"It is the fastest of 16; choosing it for that overstates it by [01]\.\d % on average\.", text)
    assert "**" not in texts(race(rounds=19))["How fast it gets"]
    assert "1.50 × [1.50, 1.50] the rows/s of Rally's own" in text


@pytest.mark.parametrize("took_ms, said", [(5.0, "at least that fine"), (199.0, "means little"), (0.0, "means little")])
def test_the_resolution_of_took_is_said(took_ms, said):
    assert said in texts(race(took_ms=took_ms))["Where the seconds go"]


def test_every_step_has_its_bar_and_its_row():
    advice, section = explained.sections(race())[:2]
    for step in (step for step in STEPS if not step.timed):
        assert f"| {step.name} " in section.text and step.name in str(section.figures[0].spec)
    assert "The steps time-series, logsdb were left out: they take timestamps:true." in advice.text
    _, beside = explained.reference(race())
    assert {row["what"]: row["reference"] for row in beside.rows}["orjson"] == "10–15 s (13–20 %)"


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
    recommended = dict(answer_of(race(late)).lines())["recommended"]
    assert recommended.startswith("clients-2: ")
    assert recommended.endswith("; no-source, the fastest, is not shown to be faster")
    alone = dict(answer_of(race(late, design="one-at-a-time")).lines())["recommended"]
    assert alone.startswith("no-source: ")
    assert dict(answer_of(race(rounds=5)).lines())["recommended"] == "nothing: a verdict takes ingest_rounds:20"
