"""The figures, the HTML page, the limits and the record of a race."""

import functools
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert

from _tools.report import limits, plots, timelines, write
from _tools.report.page import ESCAPES, folded, html
from _tools.report.race import Race, Sample
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate
from _tools.report.table import Column, Table, Words
from _tools.report.write import record_of, write_record
from cluster_metrics.query._report import query_decomp as decomp

XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
MS = {"A": 20.0, "B": 120.0, "C_td": 820.0, "C_hdr": 300.0, "D_td": 900.0, "D_hdr": 400.0}


def estimate(value, spread=0.1):
    return Estimate(20, value, value * (1 - spread), value * (1 + spread), 0.1)


def race(rounds=12, **parameters):
    """A race of all cells with two passes of three samples and a plan; msearch takes a tenth of serial."""
    samples = []
    for n in range(6 + rounds):
        for variant, ms in MS.items():
            for transport, part in (("serial", 1.0), ("msearch", 0.1)):
                where = {"pass": 1 + n // 3} if n < 6 else {"round": n - 5}
                meta = {"variant": variant, "transport": transport, "took_ms": ms, "wall_ms": ms * part} | where
                meta |= {"parallelism": 1.0, "max_percentile_error": 0.01}
                kind = "query-cell" if n < 6 else "coverage"
                samples.append(Sample(kind, 60_000 * n, f"{variant}-{transport}", ms * part, meta))
    document = {"race-id": "x", "challenge": "query-decomp", "track-params": {"a": "secret"}}
    return Race(document, samples, {}, parameters)


FRONT = [
    plots.Point("exact & slow", 0.0, estimate(900), True),
    plots.Point("<fast>", 0.05, estimate(30), True),
    plots.Point("neither", 0.06, estimate(500), False),
]
BUCKETS = [
    {"load": 1, "start": i, "end": i + 1, "rate": 100.0, "kind": timelines.STEADY, "merging": i == 2, "errors": 0}
    for i in range(6)
]
STRETCHES = [
    {"name": "a<b", "kind": timelines.WARM_UP, "start": 0, "end": 0.1},
    {"name": "c", "kind": timelines.MEASURED, "start": 9, "end": 70},
]
STRIPS = [
    {"strip": strip, "series": series, "run": 1, "at": at, "value": most * at / 3}
    for strip, series, most in (("CPU, %", "a<b", 97.0), ("CPU, %", "c", 40.0), ("disk, MB/s", "d", 3000.0))
    for at in range(4)
]
PARTS = [
    plots.Part("one", estimate(80), 0.8),
    plots.Part("two", estimate(40), 0.4),
    plots.Part("unexplained", estimate(-20, -0.1), -0.2),
]
STEPS = [("a<b", 100.0, estimate(50)), ("slower", 50.0, estimate(70))]
CHARTS = {
    "cells": lambda: plots.cells({"A<": {"x": estimate(3), "y": estimate(40)}, "B&": {"x": estimate(900)}}, "wall ms"),
    "ratios": lambda: plots.cells({"A": {"side:baseline (5 races)": estimate(1), "b": estimate(2)}}, "ratio", 1.0),
    "heat": lambda: plots.heat({(1, 0): estimate(1), (1, 1): estimate(2)}, "replicas", "shards"),
    "parts": lambda: plots.parts(PARTS, plots.Part("whole", estimate(100), 1)),
    "steps": lambda: plots.steps(("first", estimate(100)), STEPS, "s"),
    "lines": lambda: plots.lines({"x": [(1, estimate(2)), (100, estimate(30))]}, "share, %", "ms", "setting"),
    "frontier": lambda: plots.frontier(FRONT, "wall ms", 0.01),
    "over_time": lambda: over_time(race()).spec,
    "rates": lambda: timelines.rates(BUCKETS, 120.0, "documents/s"),
    "stretches": lambda: timelines.stretches(STRETCHES, "s"),
    "strips": lambda: timelines.strips(STRIPS, "s"),
}
TIME_LINES = ["over_time", "rates", "stretches", "strips"]


def over_time(found):
    serial = [s for s in found.samples if s.meta["transport"] == "serial"]
    series = {name: [s for s in serial if s.meta["variant"] == name] for name in MS}
    return timelines.over_time(series, "wall_ms", "wall ms")


def drawn(spec):
    """The texts of a chart, as the library of the page draws it."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.1")
    return {"".join(e.itertext()).strip() for e in ElementTree.fromstring(svg).iter(f"{SVG}text")}


def rows(spec):
    """All data of a chart."""
    found = [spec, *spec["layer"]]
    data = [layer["data"] for layer in found if "data" in layer]
    return [row for one in [*data, *spec.get("datasets", {}).values()] for row in one.get("values", [])]


def encodings(spec, channel):
    return [layer["encoding"][channel] for layer in spec["layer"] if channel in layer["encoding"]]


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_the_same_each_time_and_holds_its_data(name):
    spec = CHARTS[name]()
    assert json.dumps(spec) == json.dumps(CHARTS[name]())
    assert rows(spec) and not re.search(r'"url"|https?:', json.dumps(spec))
    assert drawn(spec)


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_as_wide_as_its_place_and_takes_its_ink_from_the_page(name):
    text = json.dumps(CHARTS[name]())
    assert CHARTS[name]()["width"] == "container" and "currentColor" in text
    assert set(re.findall(r"#[0-9a-f]{6}\b", text.lower())) <= set(plots.PALETTE)


@pytest.mark.parametrize("name", sorted(set(CHARTS) - set(TIME_LINES)))
def test_hovering_shows_how_many_samples_and_their_interval(name):
    fields = {tip["field"] for tips in encodings(CHARTS[name](), "tooltip") for tip in tips}
    assert {"text", "interval", "n"} <= fields
    own = [row for row in rows(CHARTS[name]()) if "n" in row]
    assert all(row["interval"].startswith("[") and row["n"] == 20 for row in own) and own


@pytest.mark.parametrize("name", TIME_LINES)
def test_time_lines_zoom(name):
    (zoom,) = CHARTS[name]()["params"]
    assert zoom["bind"] == "scales" and zoom["select"]["encodings"] == ["x"]


def test_strips_stand_one_below_the_other_each_as_high_as_its_greatest_value():
    spec = CHARTS["strips"]()
    drawn_at = {row["series"]: row["y"] for row in rows(spec) if row.get("at") == 3}
    assert drawn_at == pytest.approx(
        {"a<b": timelines.STRIP, "c": timelines.STRIP * 40 / 97, "d": -1 + timelines.STRIP}
    )
    assert {"CPU, %, up to 97.0", "disk, MB/s, up to 3,000"} <= drawn(spec)


def test_a_rate_to_reach_has_its_place_in_the_chart():
    for goal in (50.0, 400.0):
        scales = [y["scale"]["domain"] for y in encodings(timelines.rates(BUCKETS, goal, "/s"), "y") if "scale" in y]
        assert scales and all(high >= max(goal, 100.0) for _, high in scales)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("paper", ["#ffffff", "#14171a"])
def test_colours_have_contrast_on_both_papers(paper):
    assert f"--paper: {paper}" in html("", [], [], "")
    for colour in set(plots.PALETTE) - {plots.INK}:
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def test_a_decade_is_shown_on_a_logarithmic_axis_that_says_so():
    wide = drawn(plots.cells({"a": {"x": estimate(3)}, "b": {"x": estimate(250)}}, "ms"))
    near = drawn(plots.cells({"a": {"x": estimate(30)}, "b": {"x": estimate(50)}}, "ms"))
    assert {"10", "100", "ms (log scale)"} <= wide and "0" not in wide
    assert {"0", "ms"} <= near


def test_series_beyond_the_palette_are_told_apart():
    assert len({plots.look(i) for i in range(48)}) == 48
    spec = plots.cells({"a": {f"series {i}": estimate(10 + i) for i in range(8)}}, "ms")
    assert {"10.0", "17.0", "series 7"} <= drawn(spec)
    shape = next(e for e in encodings(spec, "shape"))
    colour = next(e for e in encodings(spec, "color") if "scale" in e)
    looks = list(zip(colour["scale"]["range"], shape["scale"]["range"]))
    assert len(looks) == len(set(looks)) == 8 and looks[6] != looks[0]


def test_a_part_below_zero_runs_back_in_a_colour_of_its_own():
    spec = CHARTS["parts"]()
    assert {"unexplained", "−20.0 ms, −20.0 %", "80.0 ms, 80.0 %", "below zero", "whole"} <= drawn(spec)
    bars = {row["name"]: (row["start"], row["end"]) for row in rows(spec)}
    assert bars == {"one": (0, 80), "two": (80, 120), "unexplained": (120, 100), "whole": (0, 100)}


def test_a_waterfall_has_a_key():
    assert {"begins with", "faster", "slower"} <= drawn(CHARTS["steps"]())


def test_a_bound_that_is_not_known_is_drawn_at_the_value():
    lone = plots.Estimate(1, 5.0, math.nan, math.nan, math.nan)
    spec = plots.cells({"a": {"x": lone}, "b": {"x": estimate(6)}}, "ms")
    assert [(row["low"], row["high"]) for row in rows(spec) if row["n"] == 1] == [(5.0, 5.0)]


def test_samples_stand_at_their_time_with_pass_or_round():
    samples = [s for s in race(rounds=4).samples if s.meta.get("round") != 2]
    own = [row for row in rows(over_time(replace(race(), samples=samples)).spec) if row.get("series") == "A"]
    assert [row["at"] for row in own] == [60 * n for n in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
    assert [row["run"] for row in own] == [1, 1, 1, 2, 2, 2, 0, 0, 0]
    assert [own[0]["where"], own[-1]["where"]] == ["pass 1", "round 4"]


def test_frontier_gives_all_points_a_name_and_the_exact_one_a_place():
    spec = CHARTS["frontier"]()
    (labelled,) = [layer for layer in spec["layer"] if layer.get("name") == plots.LABELLED]
    assert {row["label"] for row in rows(spec) if "n" in row} == {p.name for p in FRONT}
    assert "label" in {tip["field"] for tip in labelled["encoding"]["tooltip"]}
    assert {"0", "1 %", "max_error 1 %", plots.ON_FRONT, plots.OFF_FRONT} <= drawn(spec)
    assert "0" not in drawn(plots.frontier([p for p in FRONT if p.error], "ms"))
    (steps,) = [layer for layer in spec["layer"] if layer["mark"].get("interpolate")]
    assert steps["mark"]["interpolate"] == "step-after", "from an error on its cost is the least, to the next one"
    assert [row["at"] for row in steps["data"]["values"]] == sorted(row["at"] for row in steps["data"]["values"])
    assert f'"{plots.LABELLED}_marks"' in whole_page()


HOSTILE = '<script src="http://x/a.js"></script> ![i](http://x/i.png) [l](http://x) <http://x>'


@functools.cache
def whole_page():
    figures = [Figure(CHARTS["cells"](), "A <caption>."), Figure(CHARTS["cells"](), "Again.")]
    table = Table("t", [Words("word", HOSTILE), Column("figure", "b")], [{"word": HOSTILE, "figure": 2}])
    figures.append(Figure(plots.cells({HOSTILE: {HOSTILE: estimate(1)}}, HOSTILE), "Typed."))
    sections = [*decomp.sections(race()), Section("T <& x", [HOSTILE, table, *figures]), Section("T <& x", ["Twice."])]
    return html("Race <x> & y", [f"tags: note={HOSTILE}"], sections, "Elasticsearch <8>", ["report.json", "a.csv"])


def parsed(page):
    """The page as XML, without the script that is the library, which is none."""
    return ElementTree.fromstring(
        re.sub(r'<script id="library">.*?</script>|<script>.*?</script>', "", page, flags=re.S)
    )


def test_page_is_well_formed_and_asks_for_nothing():
    root = parsed(whole_page())
    loading = ("src", "srcset", "action", "data", "poster", "background")
    assert not [e for e in root.iter() for name in loading if e.get(name) is not None]
    links = [e.get("href") for e in root.iter() if e.get("href") is not None]
    assert [link for link in links if not link.startswith("#")] == ["report.json", "a.csv"]
    assert not re.search(r"url\(|@import", "".join(e.text for e in root.iter(f"{XHTML}style")))
    tags = {e.tag.split("}")[1] for e in root.iter()}
    assert not tags & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert {e.get("type") for e in root.iter(f"{XHTML}script")} == {"application/json"}


def test_page_forbids_to_load_anything():
    (policy,) = [e.get("content") for e in parsed(whole_page()).iter(f"{XHTML}meta") if e.get("http-equiv")]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def test_library_stands_once_on_a_page_with_charts_and_else_not():
    assert whole_page().count('<script id="library">') == 1 and len(whole_page()) > 500_000
    assert len(html("", [], [Section("T", ["x"])], "")) < 10_000


def test_data_of_charts_stand_in_the_page_as_they_are():
    scripts = list(parsed(whole_page()).iter(f"{XHTML}script"))
    places = [e for e in parsed(whole_page()).iter(f"{XHTML}div") if e.get("class") == "chart"]
    assert [s.get("id") for s in scripts] == [f"{place.get('id')}-data" for place in places]
    names = [row["name"] for row in rows(json.loads(scripts[-1].text)) if "name" in row]
    assert names and all("".join(name.split()) == "".join(HOSTILE.split()) for name in names)
    assert not set("<>&") & set(json.dumps("<script>&</script>").translate(ESCAPES))


def test_page_is_the_same_each_time():
    assert whole_page() == whole_page.__wrapped__()


def test_names_of_one_page_are_unique_and_all_references_lead_somewhere():
    root = parsed(whole_page())
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    anchors = [e.get("href")[1:] for e in root.iter(f"{XHTML}a") if e.get("href").startswith("#")]
    assert anchors == [e.get("id") for e in root.iter(f"{XHTML}h2")] and len(anchors) > 5
    referred = [e.get("aria-labelledby") for e in root.iter() if e.get("aria-labelledby")]
    assert referred and set(referred) <= set(ids)


def test_what_users_typed_is_text():
    root = parsed(whole_page())
    assert root.find(f".//{XHTML}h1").text == "Race <x> & y"
    assert root.find(f".//{XHTML}footer").text == "Elasticsearch <8>"
    assert "T <& x" in [e.text for e in root.iter(f"{XHTML}h2")]
    last = list(root.iter(f"{XHTML}section"))[-2]
    for shown in (root.find(f".//{XHTML}li"), *(last.find(f".//{XHTML}{tag}") for tag in ("p", "thead", "tbody"))):
        assert '<script src="http://x/a.js"></script>' in "".join(shown.itertext())


def test_words_of_a_table_stand_apart_from_its_figures():
    last = list(parsed(whole_page()).iter(f"{XHTML}section"))[-2]
    for row in last.iter(f"{XHTML}tr"):
        assert [cell.get("class") for cell in row] == ["words", "figures"]


def test_cells_of_tables_know_their_heads_and_tables_their_caption():
    for table in parsed(whole_page()).iter(f"{XHTML}table"):
        head, *body = table.iter(f"{XHTML}tr")
        assert {cell.get("scope") for cell in head} == {"col"}
        assert body and {row[0].get("scope") for row in body} == {"row"}
        assert re.match(r"Table \d+: ", table.find(f"{XHTML}caption").text)


def test_what_is_the_same_in_all_rows_is_told_once():
    columns = [Words("cell", "cell"), Column("n", "n"), Column("ms", "took", "ms"), Words("verdict", "verdict")]
    made = [{"cell": cell, "n": 5, "ms": ms, "verdict": "too few"} for cell, ms in (("a", 1.0), ("b", 2.0), ("c", 2.0))]
    shown, cells, told = folded(Table("t", columns, made))
    assert [column.key for column in shown] == ["cell", "ms"]
    assert cells == [["a", "1.00"], ["b", "2.00"], ["c", "2.00"]] and told == "n: 5; verdict: too few"
    assert folded(Table("t", columns, made[:2]))[2] == "" and folded(Table("t", columns, []))[1] == []
    assert "Table 1: t. In all rows: n: 5; verdict: too few<" in html(
        "", [], [Section("S", [Table("t", columns, made)])], ""
    )


def test_figures_stand_before_the_table_with_a_caption_each():
    root = parsed(whole_page())
    assert len(list(root.iter(f"{XHTML}figure"))) == 6
    for section in root.iter(f"{XHTML}section"):
        kinds = [e.tag for e in section if e.tag == f"{XHTML}figure" or e.find(f"{XHTML}table") is not None]
        assert kinds == sorted(kinds, key=lambda tag: tag != f"{XHTML}figure")
    for figure in root.iter(f"{XHTML}figure"):
        caption = figure.find(f"{XHTML}figcaption")
        assert re.match(r"Figure \d+: .*\.$", caption.text, re.S)
        assert figure.find(f"{XHTML}div").get("aria-labelledby") == caption.get("id")


def test_tables_scroll_within_their_own_box_that_the_keyboard_reaches():
    root = parsed(whole_page())
    boxes = [e for e in root.iter(f"{XHTML}div") if e.get("class") == "scroll" and e.find(f"{XHTML}table") is not None]
    assert len(boxes) == len(list(root.iter(f"{XHTML}table"))) >= 2
    assert {box.get("tabindex") for box in boxes} == {"0"}


def test_sections_of_a_race_have_their_figures():
    figures = {s.title: len(s.figures) for s in decomp.sections(race()) if s.figures}
    assert figures == {
        "Serial against msearch": 1,
        "Headline cells against the plan": 2,
    }


def test_limits_follow_from_the_race():
    node = {"node": "n", "version": "8", "jvm": "j", "cores": 4, "heap_mb": 2048}
    found = race(number_of_shards=3, warmup_iterations=0, force_merge_max_num_segments=0)
    index = {"docs": 10, "segments": 7, "store_bytes": 5_000_000}
    text = limits.section(Race(found.document, found.samples, {}, found.parameters, [node, node], index)).text
    for part in (
        "3 primary shards on 2 nodes",
        "7 segments, as the load left",
        "No warm-up",
        "8 cores",
        "2,048 MB each",
    ):
        assert part in text
    assert "12 rounds" in text and "17.0 minutes" in text and "fewer than" not in text
    held = [node | {"node": name, "cpu_cores": 0.5, "cpu_held_by": "cgroup"} for name in "nm"]
    text = limits.section(Race(found.document, found.samples, {}, found.parameters, held, index)).text
    assert "2 nodes with 1 core in all" in text


def test_limits_of_another_race_differ():
    text = limits.section(race(rounds=5, number_of_shards=1, warmup_iterations=10)).text
    assert "One primary shard:" in text and "10 coverages of each cell in each pass ran uncounted" in text
    assert "5 rounds" in text and "The median of fewer than 6 rounds has none." in text
    assert "segment" not in text and "heap" not in text


def test_record_holds_all_samples_and_no_credentials(tmp_path):
    found = race(number_of_shards=1)
    sections = decomp.sections(found)
    write_record(tmp_path / "report.json", record_of(found, sections))
    record = json.loads((tmp_path / "report.json").read_text())
    assert len(record["samples"]) == len(found.samples)
    assert record["samples"][0] == {"kind": "query-cell", "at": 0, "cell": "A-serial", "value": 20.0} | {
        "meta": found.samples[0].meta
    }
    assert record["parameters"] == {"number_of_shards": 1}
    assert record["document"] == {"race-id": "x", "challenge": "query-decomp"}
    secret = {"car-params": {"key": "x"}, "plugin-params": {"key": "x"}}
    kept = {"car": "defaults", "pipeline": "benchmark-only", "track-revision": "abc", "user-tags": {"a": "b"}}
    full = record_of(replace(found, document=found.document | kept | secret), sections)
    assert full["document"] == record["document"] | kept
    assert [section["title"] for section in record["sections"]] == [section.title for section in sections]
    (variants,) = record["sections"][0]["tables"]
    assert [(row["variant"], row["took_ms"]["value"]) for row in variants["rows"]] == list(MS.items())


def test_record_has_the_names_of_numbers_and_the_numbers_of_numpy(tmp_path):
    write_record(tmp_path / "report.json", {"of clients": {1: np.float64(0.5), 16: [np.int64(7)]}})
    assert json.loads((tmp_path / "report.json").read_text()) == {"of clients": {"1": 0.5, "16": [7]}}


def test_values_over_time_keep_the_order_of_their_series():
    rows = [{"series": name, "run": name, "at": 1.0, "value": 2.0, "where": ""} for name in ("b", "a", "b")]
    spec = json.dumps(timelines.drawn(rows, "ms", "s"))
    assert spec.index('"domain": ["b", "a"]') > 0


@pytest.mark.parametrize(
    "local, tags, said",
    [
        (None, {}, "Whether the load driver ran on the target's machine is not recorded"),
        (False, {}, "The load driver ran on another machine than the target"),
        (True, {}, "they share its cores, and wall times hold no network."),
        (True, {"delay_ms": "2"}, "no network but a relay that delays each direction by 2 ms"),
    ],
)
def test_limits_say_where_the_load_driver_ran(local, tags, said):
    found = race()
    assert said in limits.section(replace(found, local=local, document=found.document | {"user-tags": tags})).text


def test_limits_say_that_there_were_several_load_drivers():
    for parameters, said in (({}, False), ({"load_drivers": 3}, True)):
        text = limits.section(replace(race(), parameters=parameters)).text
        assert ("Requests came from 3 load drivers, whose CPU is not told" in text) is said
        assert ("hold as far as their clocks agree" in text) is said


def test_report_is_written_in_all_its_forms_from_the_answer_to_the_limits(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write, "connect", lambda ini: None)
    monkeypatch.setattr(write, "load", lambda store, race_id: race())
    write.write_report(tmp_path / "rally.ini", "x", tmp_path)
    files = {f.name: f.read_text() for f in (tmp_path / "x").iterdir()}
    written = {"report.md", "report.html", "report.json", "verdict.json", "answer.svg", "es_profile_decomp.csv"}
    assert set(files) == written
    assert "A" in {element.text for element in ElementTree.fromstring(files["answer.svg"]).iter()}
    for titles in (
        re.findall("^## (.*)", files["report.md"], re.M),
        [e.text for e in parsed(files["report.html"]).iter(f"{XHTML}h2")],
    ):
        assert titles[0] == "Answer" and "Limits" in titles[-4:]
    assert len(json.loads(files["report.json"])["samples"]) == len(race().samples)
    assert "secret" not in "".join([*files.values(), capsys.readouterr().out])
