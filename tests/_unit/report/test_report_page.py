"""The figures, the HTML page, the limits and the record of a race."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tools.report import limits, plots, scatter, svg, timelines, write
from _tools.report.cells import cells_of
from _tools.report.page import html
from _tools.report.race import Race, Sample
from _tools.report.runs import by_round, timeline
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate
from _tools.report.table import Column, Table, Words
from _tools.report.write import record_of
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
    scatter.Point("exact & slow", 0.0, 900, 850, 950, True),
    scatter.Point("<fast>", 0.05, 30, 28, 33, True),
    scatter.Point("neither", 0.06, 500, 480, 520, False),
]
DRAWINGS = {
    "cells": lambda: plots.cells({"A<": {"x": estimate(3), "y": estimate(40)}, "B&": {"x": estimate(900)}}, "wall ms"),
    "stack": lambda: plots.stack([plots.Part("a<b", 90, 0.9), plots.Part("rest", 10, 0.1)], plots.Part("all", 100, 1)),
    "timeline": lambda: timelines.timeline(*timeline(race().samples, ["serial", "msearch"], list(MS)), "wall ms"),
    "ratios": lambda: plots.cells({"A": {"side:baseline (5 races)": estimate(1), "b": estimate(2)}}, "ratio", 1.0),
    "rounds": lambda: timelines.timeline(
        *by_round(cells_of(race(), "coverage"), {"A-serial": "A", "B-serial": "B<"}, "wall_ms"), "wall ms"
    ),
    "frontier": lambda: scatter.frontier(FRONT, "wall ms", 0.01),
    "bars": lambda: timelines.bars([timelines.Bar("a<b", 0, 0.001, False), timelines.Bar("c", 9, 70, True)], "s"),
}


def texts(drawing):
    return ["".join(e.itertext()).strip() for e in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_is_the_same_each_time_and_names_only_what_it_uses(name):
    drawing = DRAWINGS[name]()
    assert drawing == DRAWINGS[name]()
    ids = [e.get("id") for e in ElementTree.fromstring(drawing).iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert set(ids) == set(re.findall(r'(?:href="|url\()#([\w-]+)', drawing))


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_takes_its_ink_from_the_page_and_leaves_no_style_to_it(name):
    drawing = DRAWINGS[name]()
    assert "currentColor" in drawing
    found = set(re.findall(r"#[0-9a-f]{6}\b", drawing.lower()))
    assert found <= set(svg.PALETTE)
    assert not {e.tag for e in ElementTree.fromstring(drawing).iter()} & {f"{SVG}style", f"{SVG}metadata"}


@pytest.mark.parametrize("name", DRAWINGS)
def test_text_of_a_drawing_is_never_smaller_than_twelve_pixels(name):
    root = ElementTree.fromstring(DRAWINGS[name]())
    smallest = float(re.search(r"clamp\((\d+)px", root.get("style"))[1])
    width = float(root.get("viewBox").split()[2])
    sizes = [float(s) for s in re.findall(r"font(?:-size)?:[^;\"]*?([\d.]+)px", ElementTree.tostring(root, "unicode"))]
    assert len(sizes) >= 5
    assert min(sizes) * smallest / width >= 12


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("paper", ["#ffffff", "#14171a"])
def test_colours_have_contrast_on_both_papers(paper):
    assert f"--paper: {paper}" in html("", [], [], "")
    for colour in set(svg.PALETTE) - {svg.INK}:
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def test_cells_show_a_decade_on_a_logarithmic_axis_only():
    wide = texts(plots.cells({"a": {"x": estimate(3)}, "b": {"x": estimate(250)}}, "ms"))
    near = texts(plots.cells({"a": {"x": estimate(30)}, "b": {"x": estimate(50)}}, "ms"))
    assert {"10", "100"} <= set(wide) and "0" not in wide
    assert "0" in near


def test_series_beyond_the_palette_are_drawn():
    found = texts(plots.cells({"a": {f"series {i}": estimate(10 + i) for i in range(8)}}, "ms"))
    assert {"10.0", "17.0", "series 7"} <= set(found)


def test_stack_shows_a_negative_rest_with_its_sign_and_hatched():
    parts = [plots.Part("one", 80, 0.8), plots.Part("two", 40, 0.4), plots.Part("unexplained", -20, -0.2)]
    drawing = plots.stack(parts, plots.Part("whole", 100, 1))
    assert {"unexplained", "−20.0 ms", "−20.0 %", "80.0 ms", "40.0 %", "whole 100 ms"} <= set(texts(drawing))
    assert "<pattern" in drawing


def test_timeline_places_passes_one_after_the_other_and_then_the_plan():
    traces, spans = timeline(race(rounds=4).samples, ["serial", "msearch"], list(MS))
    assert [(s.name, s.start, s.end) for s in spans] == [("pass 1", 0, 2), ("2", 4, 6), ("plan", 8, 11)]
    assert [(t.panel, t.name) for t in traces] == [(p, v) for p in ("serial", "msearch") for v in MS]
    assert [[x for x, _ in run] for run in traces[0].runs] == [[0, 1, 2], [4, 5, 6], [8, 9, 10, 11]]


def test_timeline_keeps_a_round_in_its_place_when_another_failed():
    samples = [s for s in race(rounds=4).samples if s.meta.get("round") != 2]
    assert [x for x, _ in timeline(samples, ["serial"], ["A"])[0][0].runs[-1]] == [8, 10, 11]


def test_frontier_names_its_points_and_gives_the_exact_one_a_place():
    found = texts(scatter.frontier(FRONT, "wall ms", 0.01))
    assert {"exact & slow", "<fast>", "neither", "0", "max_error 1 %"} <= set(found)
    assert "0" not in texts(scatter.frontier([p for p in FRONT if p.error], "ms"))


spot = st.tuples(st.floats(0, 500), st.floats(0, 300))


@given(st.lists(spot, min_size=1, max_size=12))
def test_labels_never_cover_each_other_nor_a_mark_nor_leave_the_area(anchors):
    marks = [scatter.around(a, 5) for a in anchors]
    found = scatter.place(anchors, [(80, 16)] * len(anchors), (0, 0, 500, 300), marks)
    places = [p for p in found if p]
    for i, (left, bottom, right, top) in enumerate(places):
        assert left >= 0 and bottom >= 0 and right <= 500 and top <= 300
        for a, b, c, d in [*marks, *places[:i]]:
            assert right <= a or c <= left or top <= b or d <= bottom


def test_a_label_with_room_stands_beside_its_point():
    assert scatter.place([(100, 100)], [(80, 16)], (0, 0, 500, 300), []) == [(112, 92, 192, 108)]


def test_a_label_without_room_is_left_out():
    assert scatter.place([(100, 100)], [(80, 16)], (0, 0, 500, 300), [(0, 0, 500, 300)]) == [None]


HOSTILE = '<script src="http://x/a.js"></script> ![i](http://x/i.png) [l](http://x) <http://x>'


def whole_page():
    figures = [Figure(DRAWINGS["cells"](), "A <caption>."), Figure(DRAWINGS["cells"](), "Again.")]
    table = Table("t", [Words("word", HOSTILE), Column("figure", "b")], [{"word": HOSTILE, "figure": 2}])
    sections = [*decomp.sections(race()), Section("T <& x", [HOSTILE, table, *figures])]
    return html("Race <x> & y", [f"tags: note={HOSTILE}"], sections, "Race <x>; Elasticsearch")


def test_page_is_well_formed_and_asks_for_nothing():
    root = ElementTree.fromstring(whole_page())
    loading = ("src", "srcset", "href", "action", "data", "poster", "background")
    found = [e.get(name) for e in root.iter() for name in loading if e.get(name) is not None]
    assert found and all(target.startswith("#") for target in found)
    assert not re.search(r"url\((?!#)|@import", whole_page())
    tags = {e.tag.split("}")[1] for e in root.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}


def test_page_is_the_same_each_time():
    assert whole_page() == whole_page()


def test_names_of_one_page_are_unique_and_all_references_lead_somewhere():
    page = whole_page()
    ids = [e.get("id") for e in ElementTree.fromstring(page).iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    referred = re.findall(r'(?:href="#|url\(#|aria-labelledby=")([\w-]+)', page)
    assert len(referred) > len(ids) / 2 and set(referred) <= set(ids)


def test_what_users_typed_is_text():
    root = ElementTree.fromstring(whole_page())
    assert root.find(f".//{XHTML}h1").text == "Race <x> & y"
    assert "T <& x" in [e.text for e in root.iter(f"{XHTML}h2")]
    last = list(root.iter(f"{XHTML}section"))[-1]
    for shown in (root.find(f".//{XHTML}li"), *(last.find(f".//{XHTML}{tag}") for tag in ("p", "th", "td"))):
        assert '<script src="http://x/a.js"></script>' in "".join(shown.itertext())


def test_words_of_a_table_stand_apart_from_its_figures():
    last = list(ElementTree.fromstring(whole_page()).iter(f"{XHTML}section"))[-1]
    for tag in ("th", "td"):
        assert [e.get("class") for e in last.iter(f"{XHTML}{tag}")] == ["words", "figures"]


def test_every_figure_has_a_caption_that_names_its_source():
    figures = list(ElementTree.fromstring(whole_page()).iter(f"{XHTML}figure"))
    assert len(figures) == 5
    for figure in figures:
        caption = figure.find(f"{XHTML}figcaption")
        assert caption.text.strip().endswith(".")
        assert caption.find(f"{XHTML}small").text == "Race <x>; Elasticsearch"
        assert figure.find(f".//{SVG}svg").get("aria-labelledby") == caption.get("id")


def test_tables_scroll_within_their_own_box():
    root = ElementTree.fromstring(whole_page())
    boxes = [e for e in root.iter(f"{XHTML}div") if e.get("class") == "scroll" and e.find(f"{XHTML}table") is not None]
    assert len(boxes) == len(list(root.iter(f"{XHTML}table"))) >= 2


def test_sections_of_a_race_have_their_figures():
    figures = {s.title: len(s.figures) for s in decomp.sections(race()) if s.figures}
    assert figures == {
        "Where the production query's time goes": 1,
        "Serial against msearch": 1,
        "Headline cells against the plan": 1,
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


def test_limits_of_another_race_differ():
    text = limits.section(race(rounds=5, number_of_shards=1, warmup_iterations=10)).text
    assert "One primary shard:" in text and "10 coverages of each cell ran uncounted" in text
    assert "5 rounds" in text and "fewer than 10 rounds" in text
    assert "segment" not in text and "heap" not in text


def test_record_holds_all_samples_and_no_credentials():
    found = race(number_of_shards=1)
    sections = decomp.sections(found)
    record = json.loads(json.dumps(record_of(found, sections), allow_nan=False))
    assert len(record["samples"]) == len(found.samples)
    assert record["samples"][0] == {"kind": "query-cell", "at": 0, "cell": "A-serial", "value": 20.0} | {
        "meta": found.samples[0].meta
    }
    assert record["parameters"] == {"number_of_shards": 1}
    assert record["document"] == {"race-id": "x", "challenge": "query-decomp"}
    assert [section["title"] for section in record["sections"]] == [section.title for section in sections]
    (variants,) = record["sections"][0]["tables"]
    assert [(row["variant"], row["took_ms"]["value"]) for row in variants["rows"]] == list(MS.items())


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


def test_report_is_written_in_all_its_forms_and_ends_with_the_limits(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write, "connect", lambda ini: None)
    monkeypatch.setattr(write, "load", lambda store, race_id: race())
    write.write_report(tmp_path / "rally.ini", "x", tmp_path)
    files = {f.name: f.read_text() for f in (tmp_path / "x").iterdir()}
    assert set(files) == {"report.md", "report.html", "report.json", "es_profile_decomp.csv"}
    assert re.findall("^## (.*)", files["report.md"], re.M)[-1] == "Limits"
    assert [e.text for e in ElementTree.fromstring(files["report.html"]).iter(f"{XHTML}h2")][-1] == "Limits"
    assert len(json.loads(files["report.json"])["samples"]) == len(race().samples)
    assert "secret" not in "".join([*files.values(), capsys.readouterr().out])
