from dataclasses import replace

import numpy as np
import pytest
from fakes import table
from formats import BYTES, MORE, SIZES, WALL_S, in_json, of_pauses, race

from _tools.report.answer import answer_of
from _tools.report.text import number
from _tools.report.verdicts import benjamini_hochberg
from _tools.report.write import sheets
from cluster_metrics.ingest._report import ingest_formats as explained
from cluster_metrics.ingest._report.format_cells import Cells, overall, saved, sensitivity, shape


def test_the_gain_of_larger_documents_stands_beside_their_bytes():
    found = explained.sections(race(batches=MORE))
    row = table(found, "batches").rows[-1]
    assert (row["plain"], row["own"], row["less"]) == pytest.approx((64 * 350, 64 * 245, 0.3))
    assert (row["gain"].value, row["cpu"].value) == pytest.approx((1 / 0.8, 0.8))
    assert "the gain at 64 lines over that at 1 is 1.25" in {s.title: s.text for s in found}["Larger documents"]
    assert {row["documents"] for row in table(found, "throughput").rows} == {"metrics, 1 client"}


def test_what_is_kept_and_read_back_is_told_where_it_was_recorded():
    of = race(read=1.25)
    for sample in of.samples:
        if sample.meta.get("bulk_size") == 100:  # of the other sizes the store is half as large
            sample.meta["store_bytes"] *= 2
    (row,) = table(explained.sections(of), "kept").rows
    assert (row["plain"], row["own"]) == pytest.approx((700, 630))
    assert (row["store"].value, row["read"].value) == pytest.approx((0.9, 1.25))
    assert (row["store_verdict"], row["read_verdict"]) == ("improved", "regressed")
    for encoding in BYTES:
        of = race(read=1.25)
        del next(sample for sample in of.samples if encoding in sample.cell).meta["read_ms"]
        (row,) = table(explained.sections(of), "kept").rows
        assert "read" not in row and "store" in row, "of what not all samples have nothing is said"
    (gain,) = [g for g in explained.changes(race(read=1.25)) if g.change.kinds == ("format",)]
    assert gain.costs["store"].value == pytest.approx(0.9)


def test_ratios_are_formed_within_rounds():
    cells = Cells(race())
    (series,) = cells.compared
    gain = cells.gain(1000, series)
    assert (gain.low, gain.value, gain.high) == pytest.approx((1 / 0.9,) * 3)
    assert cells.against("target_cpu_ms", 1000, series).value == pytest.approx(0.9)
    (row, *_) = table(explained.sections(race()), "throughput").rows
    assert row["cheaper"] == row["faster"] == "improved"
    assert shape(cells, series, 0).value == pytest.approx(1)
    assert overall(cells, series, "wall_ms").value == pytest.approx(0.9)
    mixed = Cells(race(factors=dict(zip(SIZES, (0.8, 1.25, 1.0, 1.0)))))
    assert overall(mixed, series, "wall_ms").value == pytest.approx(1)


def test_encoding_is_told_beside_json_and_beside_what_is_saved():
    sections = explained.sections(race())
    encoders = {row["encoder"]: row for row in table(sections, "encoders").rows if row["documents"] == "metrics"}
    ratio = encoders["smile-32"]["ratio"]
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.5,) * 3)
    slow = np.median(np.random.default_rng(1).uniform(1, 1.5, 20))
    assert [encoders[name]["cpu_s"].value for name in ("json", "smile-32")] == pytest.approx([6 * slow, 9 * slow])
    assert (encoders["json"]["bytes"], encoders["json"]["n"]) == (93.656, 20)
    even = of_pauses(0.0)
    for sample in even.samples:
        if sample.kind == "ingest-cell":
            sample.meta["target_cpu_ms"] = 4 * sample.meta["wall_ms"]
    told = {s.title: s.text for s in explained.sections(even)}["What encoding costs"]
    assert f"metrics, 1 client, smile-32: saves {number(4 * 0.1 * sum(WALL_S.values()) / 4)} [" in told


def test_an_encoder_is_held_against_json_of_the_same_corpus():
    of = race()
    for sample in [s for s in of.samples if s.kind == "encode-documents"]:
        meta = sample.meta | {"corpus": "weblogs", "bytes": 350_000}
        meta["client_cpu_ms"] *= 2 if sample.meta["encoder"] == "json" else 5
        of.samples.append(replace(sample, cell=f"weblogs {sample.cell}", meta=meta))
    found = table(explained.sections(of), "encoders").rows
    assert [(row["documents"], row["encoder"], row["bytes"]) for row in found] == [
        *(("metrics", encoder, 93.656) for encoder in BYTES),
        *(("weblogs", encoder, 350) for encoder in BYTES),
    ]
    assert [row["ratio"].value for row in found] == pytest.approx([1, 1.5, 1, 3.75])


def test_a_format_without_json_beside_it_is_held_against_none():
    whole = race(batches=MORE)
    alone = replace(whole, samples=[s for s in whole.samples if s.kind != "ingest-cell" or "json" not in s.cell])
    titles = {section.title for section in explained.sections(alone)}
    assert not {"Do the published statements hold?", "Larger documents", "What is kept, and reading it back"} & titles
    assert "What a configuration costs" in titles and not {gain.change.kinds for gain in explained.changes(alone)}


def test_all_verdicts_on_formats_are_judged_by_benjamini_and_hochberg(monkeypatch):
    taken, judge = [], explained.judge
    monkeypatch.setattr(explained, "judge", lambda *about: taken.append(about[2:]) or judge(*about))
    assert explained.sections(race(batches={1: (0.9, 0.9), 16: (0.8, 0.8)}, read=0.9)) and answer_of(race())
    assert len(taken) > 2 and set(taken) == {(benjamini_hochberg,)}


def test_a_cell_with_more_rows_is_judged_and_costed_by_the_row():
    found = in_json(race())
    for sample in found.samples:
        if sample.meta.get("clients") == 2:  # of two, each with as many rows as one alone
            for key in ("rows", "wall_ms", "target_cpu_ms", "client_cpu_ms", "bytes_out", "requests"):
                sample.meta[key] *= 2
    usual = in_json(race())
    tables = [table(explained.sections(of), "loads of metrics").rows for of in (found, usual)]
    judged = [[(row["verdict"], row["ratio"].value) for row in loads if "ratio" in row] for loads in tables]
    gains = [
        [figure.value for gain in explained.changes(of) for figure in (gain.times, *gain.costs.values())]
        for of in (found, usual)
    ]
    assert judged[0] == judged[1] and gains[0] == pytest.approx(gains[1])


def test_rates_of_a_format_stand_beside_those_of_json():
    for row in table(explained.sections(race()), "throughput").rows:
        if row["bulk_size"] != "all":
            assert row["gain"].value == pytest.approx(1 / 0.9)
            assert row["rate"].value / row["base_rate"].value == pytest.approx(1 / 0.9, rel=0.02)


def test_a_race_of_larger_documents_alone_says_what_holds_of_them():
    whole = race(batches={1: (0.9, 0.95), 10: (0.7, 0.9)})
    alone = replace(whole, samples=[s for s in whole.samples if s.meta["corpus"] == "batches"])
    titles = {s.title for s in explained.sections(alone)}
    assert {
        "Do the published statements hold?",
        "Larger documents",
    } <= titles and "Throughput over bulk size" not in titles


def test_sheets_have_all_samples():
    cells, encoders = sheets(race(rounds=3, read=1.0))
    assert (cells.key, encoders.key) == ("es_profile_ingest_formats.csv", "es_profile_encoders.csv")
    assert (len(cells.rows), len(encoders.rows)) == (24, 6)
    for sheet in (cells, encoders):
        assert {column.key for column in sheet.columns} <= set(sheet.rows[0])


def test_the_answer_is_the_gain_over_all_sizes():
    lines = dict(answer_of(race()).lines())
    assert (
        lines["smile-32, metrics, 1 client"]
        == "1.11 × [1.11, 1.11] the throughput of JSON over all bulk sizes: improved"
    )
    assert lines["published"] == "of 8 statements: 2 yes, 6 no"


def test_the_answer_names_the_two_greatest_gains_and_what_takes_least_of_the_targets_cpu():
    of = race()
    cells = [s for s in of.samples if s.kind == "ingest-cell"]
    for clients, wall, cpu in ((2, 0.8, 0.7), (4, 1.2, 1.5)):  # of SMILE, over those of JSON; by one client 0.9
        for s in cells:
            of_wall, of_cpu = (wall / 0.9, cpu / 0.9) if s.meta["encoding"] == "smile-32" else (1, 1)
            meta = {"wall_ms": s.meta["wall_ms"] * of_wall, "target_cpu_ms": s.meta["target_cpu_ms"] * of_cpu}
            of.samples.append(replace(s, cell=f"{s.cell}{clients}", meta=s.meta | meta | {"clients": clients}))
    lines = dict(answer_of(of).lines())
    gains = [name for name in lines if name.startswith("smile-32, ")]
    assert gains == ["smile-32, metrics, 2 clients", "smile-32, metrics, 1 client"]
    assert lines["target's CPU"] == "0.700 × [0.700, 0.700] that of JSON at best (smile-32, metrics, 2 clients)"


def test_formats_and_bulk_sizes_are_changes_with_what_they_cost():
    gains = {gain.change.text: gain for gain in explained.changes(race())}
    assert gains.keys() == {
        "smile-32 in place of JSON (metrics, 1 client)",
        *(f"{size:,} documents a request (metrics, 1 client)" for size in SIZES if size != 1000),
    }
    smile = gains["smile-32 in place of JSON (metrics, 1 client)"]
    assert smile.change.kinds == ("format",) and smile.times.value == pytest.approx(1 / 0.9)
    assert smile.costs["target_cpu"].value == pytest.approx(0.9)
    assert smile.costs["bytes"].value == pytest.approx(BYTES["smile-32"] / BYTES["json"])
    large = gains["10,000 documents a request (metrics, 1 client)"]
    assert large.change.kinds == ("client",) and large.against == "metrics, 1 client, 1,000 a request"
    assert large.times.value == pytest.approx(WALL_S[1000] / WALL_S[10_000])


def test_the_curves_of_each_corpus_are_drawn_by_themselves():
    of = race()
    few = [s for s in of.samples if s.meta.get("bulk_size", 0) in (100, 1000)]
    other = [replace(s, cell=f"weblogs {s.cell}", meta=s.meta | {"corpus": "weblogs"}) for s in few]
    cells = Cells(replace(of, samples=[*of.samples, *other]))
    drawn = {
        f.caption.split(", ")[1]: {row["at"] for row in f.spec["data"]["values"]} for f in explained._curves(cells)
    }
    assert drawn == {"metrics": set(SIZES), "weblogs": {100, 1000}}


def test_numbers_of_clients_are_changes_over_the_least():
    of = race()
    cells = [s for s in of.samples if s.kind == "ingest-cell"]
    four = [replace(s, meta=s.meta | {"clients": 4, "wall_ms": s.meta["wall_ms"] / 2}) for s in cells]
    gains = {gain.change.text: gain for gain in explained.changes(replace(of, samples=[*of.samples, *four]))}
    gain = gains["metrics, 4 clients, at 1,000 a request"]
    assert (gain.against, gain.times.value) == ("metrics, 1 client, 1,000 a request", pytest.approx(2))
    assert "10,000 documents a request (metrics, 1 client)" in gains


def test_verdicts_on_time_and_on_cpu_time_stand_beside_their_own_figures():
    of = race(cpu={"json": 2.0, "smile-32": 2.0 / 0.9 * 1.2})
    found = table(explained.sections(of), "throughput").rows
    assert [row["bulk_size"] for row in found] == ["100", "1,000", "10,000", "50,000", "all"]
    for row in found:
        assert (row["gain"].value, row["cpu"].value) == pytest.approx((1 / 0.9, 1.2))
        assert (row["faster"], row["cheaper"]) == ("improved", "regressed")
    lines = dict(answer_of(of).lines())
    assert lines["target's CPU"] == "1.20 × [1.20, 1.20] that of JSON at best (smile-32, metrics, 1 client)"


def test_the_ends_of_the_bulk_sizes_are_held_against_those_between_them():
    cells = Cells(race(factors=dict(zip(SIZES, (0.8, 0.98, 0.9, 0.7)))))
    (series,) = cells.compared
    between = (0.98 * 0.9) ** 0.5
    assert shape(cells, series, 0).value == pytest.approx(between / 0.8)
    assert shape(cells, series, -1).value == pytest.approx(between / 0.7)
    assert sensitivity(cells, series).value == pytest.approx((20 * 0.8 / (9 * 0.7)) / (20 / 8))


def test_what_is_saved_is_a_mean_over_bulk_sizes_and_of_pauses_over_rounds():
    of = of_pauses(0.0, 0.0, 0.0, 1.0)
    cells = Cells(of)
    (series,) = cells.compared
    assert saved(cells, series, "wall_ms").value == pytest.approx(0.1 * sum(WALL_S.values()) / 4)
    assert saved(cells, series, "gc_ms").value == pytest.approx(0.25)


def test_what_a_configuration_costs_is_per_million_documents_and_per_request():
    of = of_pauses(0.0, 0.0, 0.0, 1.0)
    for sample in of.samples:
        if sample.kind == "ingest-cell":
            sample.meta.update(send_ms=500.0, index_ms=700.0, client_cpu_ms=sample.meta["wall_ms"] / 4)
            sample.meta.update(target_cpu_ms=2 * (sample.meta["wall_ms"] + 100), refresh_wall_ms=100.0)
    found = {(row["format"], row["bulk_size"]): row for row in table(explained.sections(of), "costs").rows}
    row = found["json", "1,000"]
    known = {"wall_ms": 10, "target_cpu_ms": 22, "index_ms": 7, "client_cpu_ms": 2.5}
    assert {key: row[key].value for key in known} == pytest.approx(known)
    known = {"target_cpu_ms_used": 2, "client_cpu_ms_used": 0.25, "request_ms": 5, "mb": 96, "pauses_ms": 250}
    assert {key: row[key] for key in known} == pytest.approx(known)
    assert found["smile-32", "50,000"]["request_ms"] == pytest.approx(250)
    assert found["smile-32", "50,000"]["pauses_ms"] == 0
