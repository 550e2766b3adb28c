"""The report of a capacity race, on races made of known costs."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import COSTS, DOCUMENTS, INDEX_COSTS, SECONDS, made, parts, row, seconds, sections, text_of

from _tools.report import limits, plots
from _tools.report.answer import answer_of
from _tools.report.cells import compared_in
from _tools.report.text import started
from _tools.report.write import sheets
from cluster_metrics.capacity._report import cells as capacity_cells
from cluster_metrics.capacity._report import model
from cluster_metrics.capacity.challenge import MONITOR


@pytest.mark.parametrize(
    "challenge, kind", [("capacity-query", "capacity-query"), ("capacity-indexing", "capacity-index")]
)
def test_throughput_is_that_of_the_costs_and_pass_0_counts_for_nothing(challenge, kind):
    race = made("r", challenge, spread=0.0)
    cells = capacity_cells.cells_of(race, kind)
    assert list(cells) == [f"{s}s-{r}r" for s in (1, 2, 3) for r in (0, 1, 2)]
    for cell in cells.values():
        assert set(cell.passes) == {1, 2, 3}
        costs = COSTS if kind == "capacity-query" else INDEX_COSTS
        expected = 1 / costs.seconds(model.spread(3, cell.shards, cell.replicas), cell.shards, DOCUMENTS)
        assert cell.rates() == pytest.approx([expected] * 3, rel=2e-3)


def test_the_fixed_cost_of_a_shard_is_set_against_its_documents():
    text = text_of(made("r", "capacity-query", spread=0.0), "document scanned")
    documents = float(re.search(r"from ([\d,]+) documents in a shard on", text)[1].replace(",", ""))
    assert documents == pytest.approx(COSTS.visit_s / COSTS.document_s, rel=0.05)
    shard, million = map(float, re.search(r"takes ([\d.]+) ms of a node .* ([\d.]+) ms per million doc", text).groups())
    assert (shard, million) == (pytest.approx(1e3 * COSTS.visit_s, 0.05), pytest.approx(1e9 * COSTS.document_s, 0.05))


def test_the_bottleneck_is_named():
    race = made("r", "capacity-query")
    one = capacity_cells.cells_of(race, "capacity-query")["1s-0r"].passes[1]
    assert capacity_cells.bottleneck(one, race) == "node 1 (100%), node 2 (100%), node 3 (100%)"
    idle = made("r", "capacity-query", busy=0.5)
    one = capacity_cells.cells_of(idle, "capacity-query")["1s-0r"].passes[1]
    assert capacity_cells.bottleneck(one, idle) == "none (node 1: 50% of its share): more clients"
    free = made("r", "capacity-query", cores=0)
    assert not capacity_cells.full_nodes(capacity_cells.cells_of(free, "capacity-query")["1s-0r"].passes[1], free)


def test_a_simulation_its_fallback_and_free_nodes_are_told_apart():
    assert "**A simulation:** 3 nodes on one machine, each held to 0.4 cores" in text_of(made("r", "capacity-query"))
    fallback = made("r", "capacity-query", held_by="nothing")
    assert "3 nodes share the CPU freely: this machine has no cgroup" in text_of(fallback)
    held, *others = made("r", "capacity-query").target
    partly = replace(fallback, target=[held, *fallback.target[1:]])
    assert others and "this machine has no cgroup" in text_of(partly), "one that is held does not hold the others"
    assert "A simulation" not in text_of(fallback) and "A simulation" not in text_of(partly)
    assert not fallback.shares()
    assert "3 nodes share the CPU freely (no NODE_CORES)" in text_of(made("r", "capacity-query", cores=0))


def test_a_node_that_holds_no_data_is_named():
    race = made("r", "capacity-query")
    assert "takes all requests" not in text_of(race)
    text = text_of(replace(race, target=[*race.target, {"node": "node 4"}]))
    assert "- node 4 holds no data and takes all requests.\n" in text
    text = text_of(replace(race, target=[*race.target, {"node": "node 4"}], local=False))
    assert "takes all requests" not in text and "No data are held by node 4." in text
    text = text_of(replace(race, target=[*race.target, {"node": "node 4"}, {"node": "node 5"}]))
    assert "takes all requests" not in text and "No data are held by node 4, node 5." in text


def test_a_race_that_ended_early_is_marked():
    race = made("r", "capacity-query", document={"results": {}})
    assert "**Incomplete: the race was not finished.**" in text_of(race)
    short = made("r", "capacity-query", parameters={"passes": 4})
    assert "cells without all of their 4 passes: 1s-0r, " in text_of(short)


def test_a_mixed_race_sets_searches_beside_the_rate_of_documents():
    found = row(made("r", "capacity-mixed"), "while documents are indexed", "3s-0r-150")
    assert found["wanted"] == 150
    assert found["reached"] == pytest.approx(1, abs=0.0005)


def test_documents_due_at_a_rate_count_also_where_clients_begin_and_stop_late():
    """What a client waits to send when its warm-up ends is warm-up, and when its time ends it sends once more."""
    whole = made("r", "capacity-mixed", passes=1)
    begun = {(s.meta["cell"], s.meta["pass"]): s.at for s in reversed(whole.samples) if s.kind == "capacity-index"}

    def late(sample):
        if sample.kind != "capacity-index":
            return sample
        since = sample.at - begun[sample.meta["cell"], sample.meta["pass"]]
        return replace(sample, at=sample.at + 1000 * SECONDS) if 0 < since < 1000 else sample

    race = replace(whole, samples=sorted(map(late, whole.samples), key=lambda s: s.at))
    assert row(race, "while documents are indexed", "3s-0r-150")["got"].value == 150


def test_a_mixed_race_holds_searches_beside_documents_against_those_without():
    race = made("r", "capacity-mixed", docs=(0, 150))
    found = row(race, "while documents are indexed", "3s-0r")
    assert found["wanted"] == 0 and found.get("reached") is None and found.get("got") is None
    told = dict(answer_of(race).lines())
    assert re.fullmatch(r"1s-2r: .+ searches/s .+ without documents", told["most"])
    assert re.fullmatch(r"150 documents/s leave .+ the searches there", told["more documents"])
    assert told["documents"] == "indexed at the rate asked for in 9 of 9 configurations"
    assert "documents" not in dict(answer_of(made("r", "capacity-mixed", docs=(0,))).lines())


def test_a_mixed_race_says_where_documents_were_not_indexed_at_the_rate_asked_for():
    whole = made("r", "capacity-mixed")
    assert dict(answer_of(whole).lines())["documents"] == "indexed at the rate asked for in 18 of 18 configurations"
    of = [s for s in whole.samples if (s.kind, s.meta["cell"]) == ("capacity-index", "3s-0r-150")]
    lost = set(map(id, of[::2]))
    some = replace(whole, samples=[s for s in whole.samples if id(s) not in lost])
    expected = "indexed at the rate asked for in 17 of 18 configurations, not in 3s-0r-150"
    assert dict(answer_of(some).lines())["documents"] == expected
    lost = set(map(id, of))
    none = replace(whole, samples=[s for s in whole.samples if id(s) not in lost])
    assert dict(answer_of(none).lines())["documents"] == expected
    assert row(none, "while documents are indexed", "3s-0r-150")["reached"] == 0


def test_the_picture_of_a_mixed_race_is_of_its_searches():
    figure = next(figure for section in sections(made("r", "capacity-mixed")) for figure in section.figures)
    assert figure.caption.startswith("Searches")


def test_the_sheet_has_a_row_per_cell_and_pass_and_what_is_compared_is_the_time():
    race = made("r", "capacity-query", times={"1s-0r": lambda part: part * 0.6 if part < 1 / 3 else 1.2 * part - 0.2})
    samples = [replace(s, value=float(s.at % 97)) if s.kind == "capacity-query" else s for s in race.samples]
    race = replace(race, samples=samples)
    (sheet,) = sheets(race)
    assert len(sheet.rows) == 27 and set(sheet.rows[0]) == {column.key for column in sheet.columns}
    one = capacity_cells.main_cells(race)["1s-0r"].passes[2]
    (row,) = (r for r in sheet.rows if (r["cell"], r["pass"]) == ("1s-0r", 2))
    assert row["started"] == started(one.requests[0].at) < started(one.requests[-1].at)
    times = [request.value for request in one.requests]
    assert [row["p50_ms"], row["p99_ms"]] == pytest.approx([np.percentile(times, 50), np.percentile(times, 99)])
    assert (row["requests"], row["cut_s"], row["queue"], row["rejected"]) == (len(times), one.cut_s, 4, 0)
    assert one.cut_s > 0.5
    passes = capacity_cells.main_cells(race)["1s-0r"].passes.values()
    (table,) = (t for s in sections(race, "Searches: throughput") for t in s.tables)
    (shown,) = (r for r in table.rows if r["cell"] == "1s-0r")
    times = [request.value for one in passes for request in one.requests]
    assert [shown["p50_ms"], shown["p99_ms"]] == pytest.approx([np.percentile(times, 50), np.percentile(times, 99)])
    assert shown["requests"] == len(times)
    compared = compared_in(race)
    assert len(compared.names) == 9
    for name in compared.names:
        times = {r["pass"]: r["ms"] for r in sheet.rows if r["cell"] == name}
        assert dict(zip(compared.rounds(name), compared.known("ms", name))) == times and len(times) == 3


def test_figures_are_drawn():
    race = made("r", "capacity-query")
    figures = [f for s in sections(race) for f in s.figures]
    assert len(figures) == 2 and all(f.spec["layer"] for f in figures)
    heat = figures[0].spec["data"]["values"]
    cells = capacity_cells.main_cells(race)
    assert {(of["row"], of["column"]): of["value"] for of in heat} == {
        (cell.shards, cell.replicas): capacity_cells.rate_ratio(cell, cells["1s-0r"]).value for cell in cells.values()
    }


def test_shards_that_are_not_evenly_spread_are_named():
    race = made("r", "capacity-query")
    assert row(race, "Bottleneck", "1s-1r")["shards"] == "node 1: 0p; node 2: 0r; node 3: –"
    for sample in race.of("capacity-prepare"):
        if sample.meta["cell"] == "2s-0r":
            sample.meta["shard_table"] = json.dumps({"node 1": ["0p", "1p"], "node 2": [], "node 3": []})
    assert row(race, "Bottleneck", "2s-0r")["shards"] == "node 1: 0p 1p; node 2: –; node 3: – (uneven)"


def test_the_error_of_the_model_is_that_of_cells_held_out():
    race = made("r", "capacity-query", 6, spread=0.0, shape={"1s-1r": 0.8, "3s-0r": 1.2})
    (section,) = sections(race, "Expected and measured")
    rows = [r for table in section.tables for r in table.rows]
    errors = [abs(r["held out"] / (1 if r["measured"] == "1" else r["measured"].value) - 1) for r in rows]
    said = re.search(r"its error is ([\d.]+) % in the median and ([\d.]+) % at most", section.text).groups()
    assert [float(of) for of in said] == pytest.approx([100 * np.median(errors), 100 * max(errors)], rel=0.02)
    assert max(errors) > 2 * np.median(errors) > 4 * min(errors)


@pytest.mark.parametrize(
    "challenge, most",
    [("capacity-indexing", "3s-0r: "), ("capacity-query", "1s-2r: "), ("capacity-mixed", "1s-2r-50: ")],
)
def test_the_answer_is_the_layout_with_most_throughput_and_what_limits_it(challenge, most):
    answer = answer_of(made("r", challenge))
    lines = dict(answer.lines())
    assert lines["most"].startswith(most) and lines["limited by"].startswith("node 1 (100%)")
    assert [warning.kind for warning in answer.warnings] == ["too-few"]


@pytest.mark.parametrize("challenge, part", [("capacity-query", "query"), ("capacity-index", "ingest")])
def test_shards_and_replicas_are_changes_held_against_one_shard(challenge, part):
    name = {"capacity-index": "capacity-indexing"}.get(challenge, challenge)
    race = made("x", name, passes=6)
    gains = {gain.change.text: gain for gain in capacity_cells.changes(race)}
    assert len(gains) == 8 and "1 shard, 0 replicas" not in gains
    three = gains["3 shards, 0 replicas"]
    cells = capacity_cells.cells_of(race, challenge)
    ratio = capacity_cells.rate_ratio(cells["3s-0r"], cells["1s-0r"])
    assert (three.times.value, three.times.low, three.against) == (ratio.value, ratio.low, "1s-0r")
    assert (three.change.part, three.change.kinds, three.change.price) == (part, ("shape of the cluster",), "none")
    assert gains["1 shard, 2 replicas"].change.price == "3 times the disk, and each document is indexed 3 times"
    # of searches all nodes are made to use as much, of documents as much as they have to do
    used = [sum(parts(model.spread(3, shards, 0)).values()) if part == "ingest" else 1.0 for shards in (3, 1)]
    assert three.costs["target_cpu"].value == pytest.approx(used[0] / used[1] / three.times.value, rel=0.05)


def test_cells_on_some_of_the_nodes_are_held_against_those_on_as_many(monkeypatch):
    shown = []
    heat = plots.heat
    monkeypatch.setattr(plots, "heat", lambda values, *of: shown.append(values) or heat(values, *of))
    race = made("r", "capacity-indexing", passes=6, spread=0.0, nodes=(1, 2, 0))
    gains = {gain.change.text: gain for gain in capacity_cells.changes(race)}
    assert gains["3 shards, 0 replicas, on 2 nodes"].against == "1s-0r-2n"
    assert gains["3 shards, 0 replicas, on 1 node"].times.value == pytest.approx(1, rel=0.05)
    assert gains["3 shards, 0 replicas"].against == "1s-0r"
    assert row(race, "throughput", "2s-1r-2n")["over_no_replicas"].value < 1
    (expected,) = (t for s in sections(race, "Expected") for t in s.tables)
    assert [of["cell"] for of in expected.rows] == [f"{s}s-{r}r" for s in (1, 2, 3) for r in (0, 1, 2)]
    assert shown[-1][3, 0].value == pytest.approx(gains["3 shards, 0 replicas"].times.value)


def test_the_cpu_of_a_change_is_that_of_passes_which_know_it_of_both_sides():
    race = made("x", "capacity-query", passes=6)
    unseen = {"1s-0r": 2, "3s-0r": 5}
    seen = [s for s in race.samples if s.kind != MONITOR or unseen.get(s.meta["cell"]) != s.meta["pass"]]
    gains = {gain.change.text: gain for gain in capacity_cells.changes(replace(race, samples=seen))}
    three = gains["3 shards, 0 replicas"]
    assert three.costs["target_cpu"].n == 4
    assert three.costs["target_cpu"].value == pytest.approx(1 / three.times.value, rel=0.05)


def test_a_pass_of_a_race_that_does_not_say_its_time_lasts_from_its_first_request_to_the_last():
    race = made("r", "capacity-query")
    untold = replace(race, parameters={k: v for k, v in race.parameters.items() if k != "cell_seconds"})
    cells, others = (capacity_cells.cells_of(of, "capacity-query") for of in (race, untold))
    assert {name: list(cell.steady) for name, cell in others.items()} == dict.fromkeys(cells, [1, 2, 3])
    for name, cell in cells.items():
        assert others[name].rates() == pytest.approx(cell.rates(), rel=0.02)


def test_what_the_client_used_is_shown_where_it_is_known():
    race = made("r", "capacity-query")
    assert row(race, "Bottleneck", "1s-0r")["client"] == "0.20"
    blind = replace(race, samples=[s for s in race.samples if s.kind != MONITOR])
    assert row(blind, "Bottleneck", "1s-0r")["client"] is None


def test_the_rows_of_passes_tell_what_all_nodes_and_the_client_used_where_it_is_known():
    race = made("r", "capacity-query", process=0.15)
    blind = replace(race, samples=[s for s in race.samples if s.kind != MONITOR])
    for of, used in ((race, (1.2, 0.2, 0.15)), (blind, (None, None, None))):
        (sheet,) = sheets(of)
        told = [[r[key] for key in ("node_cores", "client_cores", "worker_cores")] for r in sheet.rows]
        assert {tuple(cores and round(cores, 3) for cores in row) for row in told} == {used}
    assert not sheets(replace(race, samples=[]))


def test_what_nodes_compiled_is_shown_by_pass_and_tells_why_a_race_drifts():
    compiling = {1: 0.4, 2: 0.2, 3: 0.1}
    race = made("r", "capacity-query", of_pass={1: 0.8}, compiling=compiling)
    (limits,) = (t for s in sections(race, "Bottleneck") for t in s.tables)
    assert {r["pass"]: round(r["compiling"], 3) for r in limits.rows} == {"1": 0.4, "2": 0.2, "3": 0.1}
    assert {r["pass"]: round(r["compiling"], 3) for r in sheets(race)[0].rows} == compiling
    (drift,) = (w for w in answer_of(race).warnings if w.kind == "drift")
    told = "they compiled for 40.0 % of their CPU time in the first pass, 10.0 % in the last"
    assert told in drift.why
    untold = made("r", "capacity-query", of_pass={1: 0.8})
    (drift,) = (w for w in answer_of(untold).warnings if w.kind == "drift")
    assert "compiled" not in drift.why and row(untold, "Bottleneck", "1s-0r")["compiling"] is None


def test_in_a_mixed_race_cells_are_held_against_one_at_the_same_rate():
    gains = list(capacity_cells.changes(made("x", "capacity-mixed")))
    assert len(gains) == 16 and {gain.against for gain in gains} == {"1s-0r-50", "1s-0r-150"}
    assert all(gain.against.endswith("150") == ("150 documents/s" in gain.change.text) for gain in gains)


def test_the_unit_of_replication_is_named_in_good_english():
    text = limits.section(made("a", "capacity-query")).text
    assert "Intervals come from 3 passes of one race" in text and "The median of fewer than 6 passes has none." in text


def test_a_mixed_race_says_what_more_documents_leave_of_the_searches_of_the_best_layout():
    race = made("r", "capacity-mixed", 6, spread=0.0)
    found = {finding.name: finding for finding in answer_of(race).findings}
    per_document = seconds(INDEX_COSTS, 1, 2)
    left = (1 - 150 * per_document) / (1 - 50 * per_document)
    assert found["most"].text.startswith("1s-2r-50: ")
    assert found["most"].text.endswith(" beside 50 documents/s")
    most = (1 - 50 * per_document) / seconds(COSTS, 1, 2)
    assert found["most"].figures["rate"].value == pytest.approx(most, rel=0.01)
    assert found["more documents"].text.startswith("150 documents/s leave ")
    assert found["more documents"].figures["ratio"].value == pytest.approx(left, rel=0.01)
    per_document = seconds(INDEX_COSTS, 3, 1)
    shown = {rate: row(race, "while documents are indexed", f"3s-1r-{rate}") for rate in (50, 150)}
    assert shown[50]["over_least"] == "1"
    expected = (1 - 150 * per_document) / (1 - 50 * per_document)
    assert shown[150]["over_least"].value == pytest.approx(expected, rel=0.01)
    assert shown[150]["got"].value == pytest.approx(150, rel=0.001)


@pytest.mark.parametrize("name, nodes", [("1s-0r", 1), ("2s-0r", 2), ("1s-1r", 2), ("3s-2r", 3)])
def test_the_cost_of_a_document_scanned_is_that_of_its_index_times_the_nodes_that_hold_shards(name, nodes):
    found = row(made("r", "capacity-query", 6, spread=0.0), "document scanned", name)
    per_search = seconds(COSTS, int(name[0]), int(name[3]))
    assert found["ms"].value == pytest.approx(1e3 * per_search, rel=0.01)
    assert found["ns"].value == pytest.approx(1e9 * per_search / DOCUMENTS, rel=0.01)
    assert found["ns_node"].value == pytest.approx(nodes * found["ns"].value)


@pytest.mark.parametrize(
    "challenge, name, expected",
    [
        ("capacity-query", "1s-0r", {"nodes": 1, "in turn": 1, "balanced": 1, "article": 1}),
        ("capacity-query", "1s-1r", {"nodes": 2, "in turn": 2, "balanced": 2, "article": 150 / 80}),
        ("capacity-query", "2s-1r", {"nodes": 3, "in turn": 2, "balanced": 3, "article": None}),
        ("capacity-query", "3s-2r", {"nodes": 3, "in turn": 3, "balanced": 3, "article": 250 / 80}),
        ("capacity-indexing", "1s-0r", {"nodes": 1, "copies": 1}),
        ("capacity-indexing", "2s-1r", {"nodes": 2, "copies": 1}),
        ("capacity-indexing", "3s-1r", {"nodes": 3, "copies": 3 / 2}),
        ("capacity-indexing", "3s-2r", {"nodes": 3, "copies": 1}),
    ],
)
def test_each_cell_stands_beside_what_models_and_articles_expect_of_it(challenge, name, expected):
    found = row(made("r", challenge, 6, spread=0.0), "Expected and measured", name)
    shards, replicas = int(name[0]), int(name[3])
    costs = COSTS if challenge == "capacity-query" else INDEX_COSTS
    times = seconds(costs, 1, 0) / seconds(costs, shards, replicas)
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert found["held out"] == pytest.approx(times, rel=0.01)
    assert found["measured"] == "1" or found["measured"].value == pytest.approx(times, rel=0.01)
    if challenge == "capacity-query":
        of_article = seconds(COSTS, 1, 0, 10**7) / seconds(COSTS, shards, replicas, 10**7)
        assert found["at 10 million"] == pytest.approx(of_article, rel=0.01)


@pytest.mark.parametrize("challenge", ["capacity-query", "capacity-indexing"])
def test_each_cell_is_held_against_its_shards_without_replicas_and_against_one_shard(challenge):
    race = made("r", challenge, 6, spread=0.0)
    costs = COSTS if challenge == "capacity-query" else INDEX_COSTS
    shown = {name: row(race, "throughput", name) for name in ("1s-0r", "3s-0r", "3s-2r")}
    alone, three, copied = (seconds(costs, *place) for place in ((1, 0), (3, 0), (3, 2)))
    assert shown["1s-0r"]["over_first"] == shown["1s-0r"]["over_no_replicas"] == "1"
    assert shown["3s-0r"]["over_no_replicas"] == "1"
    assert shown["3s-0r"]["over_first"].value == pytest.approx(alone / three, rel=0.01)
    assert shown["3s-2r"]["over_first"].value == pytest.approx(alone / copied, rel=0.01)
    assert shown["3s-2r"]["over_no_replicas"].value == pytest.approx(three / copied, rel=0.01)
    assert shown["3s-2r"]["rate"].value == pytest.approx(1 / copied, rel=0.01)


def test_beside_documents_a_cell_is_held_against_its_shards_without_replicas_beside_as_many():
    race = made("r", "capacity-mixed", 6, spread=0.0, docs=(0, 150))
    copied, none = (row(race, "Searches: throughput", name) for name in ("3s-2r-150", "3s-0r-150"))
    assert none["over_no_replicas"] == "1"
    assert copied["over_no_replicas"].value == pytest.approx(copied["rate"].value / none["rate"].value)


def test_the_answer_has_the_throughput_of_one_shard_and_of_the_best_layout_over_it():
    findings = {f.name: f for f in answer_of(made("r", "capacity-query", 6, spread=0.0)).findings}
    alone, best = seconds(COSTS, 1, 0), seconds(COSTS, 1, 2)
    assert findings["one shard"].figures.keys() == {"rate"} and findings["most"].figures.keys() == {"rate", "ratio"}
    assert findings["one shard"].figures["rate"].value == pytest.approx(1 / alone, rel=0.01)
    assert findings["most"].figures["rate"].value == pytest.approx(1 / best, rel=0.01)
    assert findings["most"].figures["ratio"].value == pytest.approx(alone / best, rel=0.01)


def test_what_is_no_node_that_limits_a_cell_is_named():
    def limited(race, local=True, **figures):
        for look in race.of(MONITOR):
            look.meta.update(figures)
        race = replace(race, local=local)
        return capacity_cells.bottleneck(capacity_cells.main_cells(race)["1s-0r"].passes[1], race)

    full = {"host_idle_ms": 0.0}
    assert limited(made("r", "capacity-query", busy=0.5), local=False, **full) == "the client's machine, 100% busy"
    seen = limited(made("r", "capacity-query", busy=0.5), **full)
    assert seen == "the machine, 100% busy (nodes 0.600, client 0.200 cores)"
    rejecting = made("r", "capacity-query", busy=0.5)
    for look in rejecting.of(MONITOR):
        nodes = json.loads(look.meta["nodes"])
        look.meta["nodes"] = json.dumps({name: of | {"rejected": look.at} for name, of in nodes.items()})
    assert limited(rejecting) == "queues: requests were rejected"
    assert limited(made("r", "capacity-query", cores=0)) == "none (node 1: 0.00 cores): more clients"
    free, idle = (replace(made("r", "capacity-query", cores=0), samples=made("r", "capacity-query", cores=c).samples)
                  for c in (0.99, 0.5))  # fmt: skip
    assert limited(free, local=False) == "node 1 (99% of its processors)"
    assert limited(idle, local=False) == "not told, as nodes are held to no share (node 1 used most: 0.50 cores)"
    unseen = made("r", "capacity-query")
    unseen = replace(unseen, samples=[s for s in unseen.samples if s.kind != MONITOR])
    assert limited(unseen) == "not recorded"


@pytest.mark.parametrize("lost, missed", [((), False), ((1, 3, 5), False), ((1, 2, 3, 4, 5, 6), True)])
def test_a_rate_of_documents_is_missed_where_the_whole_interval_lies_below_it(lost, missed):
    race = made("m", "capacity-mixed", 6, spread=0.0, docs=(0, 100))
    kept = [
        s
        for i, s in enumerate(race.samples)
        if s.kind != "capacity-index" or s.meta["cell"] != "1s-2r-100" or s.meta["pass"] not in lost or i % 5
    ]
    told = dict(answer_of(replace(race, samples=kept)).lines())["documents"]
    assert ("not in 1s-2r-100" in told) is missed
