"""The challenge sketch-floor: its rounds, its bodies, its checks and its report. The race is in tests/_race."""

import asyncio
import itertools
import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import schedules
from aiohttp.test_utils import TestServer
from esrally import exceptions
from esrally.track import loader
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script, rows, track_of, values

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.stats import median
from _tools.sketch_server.server import application
from cluster_metrics.core.index import MARK
from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import FIELDS, NAME, Metrics
from cluster_metrics.sketch._report import sketch_floor as explained
from cluster_metrics.sketch.sketch_floor import (
    INGESTED,
    INGESTS,
    FloorIngestParams,
    FloorIngestRunner,
    FloorQuestionsParams,
    FloorQuestionsRunner,
    Ingest,
    SketchServer,
    batches,
    check_answers,
    encode,
    index_of,
)

CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=2)


@pytest.fixture(scope="module")
def track(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    return track_of(CORPUS, root=root, encodings=["json"], indices={NAME: {"settings": {}, "mappings": {}}})


def rounds_of(track, rounds, warmup=2):
    params = {"parameters": values(seed=1, bulk_size=4), "iterations": rounds, "warmup-iterations": warmup}
    source = FloorIngestParams(track, params)
    return [source.params() for _ in range(warmup + rounds)]


def test_all_that_it_hands_in_is_made_before_the_race(tmp_path):
    sizes = {"nodes": 2, "tasks": 2, "rows_per_epoch": 30, "epochs": 1, "rounds": 1, "warmup_iterations": 0}
    track, tasks = schedules.read(tmp_path, "sketch-floor", **sizes)
    params = loader.operation_parameters(track, tasks[0]).params()
    for ingest in INGESTS.values():
        assert sum(rows for _, rows in batches(ingest, params)) == 30


@pytest.mark.parametrize("rounds", [1, 2, 7, 25])
def test_all_rounds_together_hand_in_the_corpus_once(track, rounds):
    counted = [r for r in rounds_of(track, rounds) if r["round"] > 0]
    assert [i for r in counted for i in r["rows"]] == list(range(25))
    assert [r["last"] for r in counted] == [False] * (rounds - 1) + [True]


def test_every_round_has_every_way_in_an_order_of_its_own_and_only_two_start_anew(track):
    found = rounds_of(track, 5)
    assert all(sorted(r["ways"]) == sorted(INGESTS) for r in found)
    assert len({tuple(r["ways"]) for r in found}) > 1
    assert found[3]["ways"] == rounds_of(track, 5)[3]["ways"]
    assert [r["round"] for r in found if r["fresh"]] == [-1, 1]


def test_more_rounds_than_rows_are_refused(track):
    with pytest.raises(exceptions.TrackConfigError, match=r"\[rounds\] is \[26\]"):
        rounds_of(track, 26)


@pytest.mark.parametrize("name", INGESTS)
def test_every_way_hands_in_the_same_rows(track, name):
    ingest = INGESTS[name]
    lines = []
    for params in rounds_of(track, 3, warmup=0):
        for held, count in batches(ingest, params):
            body = held if ingest.encoded else encode(ingest, held)
            if ingest.columnar:
                columns = json.loads(body)
                found = [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]
            else:
                actions, found = body.splitlines()[0::2], [json.loads(line) for line in body.splitlines()[1::2]]
                assert {json.loads(a)["index"] == {} for a in actions} == {True}
            assert len(found) == count <= (ingest.batch or 4)
            lines += found
    paths = [Path(d.document_file) for d in track.corpora[0].documents]
    corpus = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert sorted(map(json.dumps, lines)) == sorted(map(json.dumps, corpus))


def test_a_way_with_a_batch_of_its_own_sends_fewer_requests(track):
    (params,) = rounds_of(track, 1, warmup=0)
    for ingest in INGESTS.values():
        sent = [rows for _, rows in batches(ingest, params)]
        assert sent == ([25] if ingest.batch else [4, 4, 4, 4, 4, 4, 1]) * 2


def test_the_steps_differ_in_one_thing_each():
    def differ(one, other):
        a, b = INGESTS[one], INGESTS[other]
        return {key for key in vars(a) if key not in ("text", "kinds", "price") and vars(a)[key] != vars(b)[key]}

    assert differ(explained.ROWS, explained.FLOOR) == {"columnar"}
    assert differ(explained.FULL, explained.FILTERED) == {"items"}
    assert differ(explained.FILTERED, explained.ROWS) == {"elasticsearch"}
    assert differ(explained.ROWS_ITEMS, explained.FLOOR_ITEMS) == {"columnar"}
    assert differ(explained.ROWS_ITEMS, explained.ROWS) == {"items"}


def test_naive_bodies_are_dumped_row_by_row():
    held = [{"epoch": 1, "cpu": 0.5}, {"epoch": 1, "cpu": 1.5}]
    assert (
        encode(Ingest(""), held)
        == b'{"index": {}}\n{"epoch": 1, "cpu": 0.5}\n{"index": {}}\n{"epoch": 1, "cpu": 1.5}\n'
    )
    assert encode(Ingest("", columnar=True), {"cpu": [0.5, 1.5]}) == b'{"cpu": [0.5, 1.5]}'


def right(expected):
    """The exact answers as the sketch server gives them."""
    return {
        node: {
            field: {
                "count": exact["count"],
                "sum": exact["sum"],
                "percentiles": {p: values[0] for p, values in exact["percentiles"].items()},
            }
            for field, exact in fields.items()
        }
        for node, fields in expected.items()
    }


def test_right_answers_pass_and_each_wrong_one_is_named(track):
    expected = load_answers(track.corpora[0].documents[0].document_file)
    assert check_answers(right(expected), expected) == (0.0, [])
    for key, value, problem in (("count", 7, "N001: cpu has 7 rows, exact 13"), ("sum", 1.0, "N001: cpu_sum is 1.0")):
        answers = right(expected)
        answers["N001"]["cpu"][key] = value
        assert check_answers(answers, expected)[1][0].startswith(problem)
    answers = right(expected)
    answers["N002"]["net"]["percentiles"]["50"] *= 100
    error, problems = check_answers(answers, expected)
    assert problems[0].startswith("N002: net p50")
    missing = {"N001": right(expected)["N001"]}
    assert check_answers(missing, expected)[1] == ["answers are of 1 nodes, asked was about 2"]


@pytest.mark.parametrize("node", CORPUS.node_names())
@pytest.mark.parametrize("percent, counts", [("0", False), ("50", True), ("90", True), ("100", False)])
def test_the_error_of_answers_is_the_greatest_of_the_middle_over_all_nodes(track, node, percent, counts):
    expected = load_answers(track.corpora[0].documents[0].document_file)
    answers = right(expected)
    exact, *_, above = expected[node]["mem"]["percentiles"][percent]
    answers[node]["mem"]["percentiles"][percent] = above if counts else exact * (1 + 5e-8)
    assert check_answers(answers, expected) == (pytest.approx(above / exact - 1) if counts else 0, [])


def test_questions_ask_both_about_the_same_epoch(track):
    source = FloorQuestionsParams(track, {"parameters": values(seed=1), "warmup-iterations": 0})
    for _ in range(4):
        params = source.params()
        assert {name for name, _ in params["asks"]} == set(explained.QUESTIONS)
        assert {coverage.epoch for _, coverage in params["asks"] if coverage} == {params["epoch"]}


def test_without_a_server_the_race_ends_with_one_line():
    async def connect():
        async with SketchServer("127.0.0.1:1"):
            pass

    with pytest.raises(exceptions.RallyAssertionError, match=r"sketch server \[127.0.0.1:1\].*make up SKETCH=1"):
        asyncio.run(connect())


async def with_server(runner, es, params):
    """Runs a round beside a sketch server that has the first epochs' rows."""
    async with TestServer(application()) as server:
        host = f"{server.host}:{server.port}"
        async with SketchServer(host) as client:
            await client.send("PUT", "/sketch-columns", json.dumps({"nodes": CORPUS.node_names()}).encode())
            for epoch in (1, 2):
                with open(params["track"].corpora[0].documents[epoch - 1].document_file, "rb") as f:
                    rows = [json.loads(line) for line in f]
                columns = {key: [row[key] for row in rows] for key in rows[0]}
                await client.insert("sketch-columns", json.dumps(columns).encode(), len(rows), True, False)
        with es.new_request_context():
            return await runner(es, params | {"sketch-server": host})


@pytest.mark.parametrize("failure", [TIMEOUT, LOST, Refused(503)])
def test_a_question_without_an_answer_is_lost_alone(track, failure):
    params = FloorQuestionsParams(track, {"parameters": values(seed=1), "warmup-iterations": 0}).params()
    es = FakeEs(lambda *_: failure)
    result = asyncio.run(with_server(FloorQuestionsRunner(), es, params | {"track": track}))
    assert len(es.sent) == 2, "one request of each question, sent once"
    good = {t["dependent_timing"]["operation"]: t["success"] for t in result["dependent_timing"]}
    assert good == {name: name.startswith("sketch") for name in explained.QUESTIONS}
    assert result["error-count"] == 2 and {t["epoch"] for t in result["dependent_timing"]} == {params["epoch"]}


@pytest.mark.parametrize("failure", [TIMEOUT, Refused(403, "security_exception", "granted by the privileges [index]")])
def test_rows_that_were_not_handed_in_end_the_race(track, failure):
    (params,) = rounds_of(track, 1, warmup=0)
    params = params | {
        "index": {"settings": {}, "mappings": {"_meta": {"created_by": MARK}}},
        "ways": ["elasticsearch-full"],
        "track": track,
    }
    missing = Refused(404, "index_not_found_exception", "no such index")
    stats = {"_all": {"primaries": {key: Counter() for key in ("indexing", "refresh", "merges", "flush")}}}
    made = {f"GET /{index_of(name)}/_mapping": missing for name, way in INGESTS.items() if way.elasticsearch}
    es = FakeEs(Script(made | {"POST": failure, "PUT": {}, "GET": stats}))

    async def handed_in():
        async with TestServer(application()) as server:
            of_server = {"sketch_server": f"{server.host}:{server.port}"}
            await FloorIngestRunner()(es, params | {"parameters": params["parameters"] | of_server})

    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=r"no answer|\[index\]"):
        asyncio.run(handed_in())


SKETCHES = [name for name, way in INGESTS.items() if not way.elasticsearch]


COUNT = {"count": CORPUS.rows_per_epoch * CORPUS.epochs}


def hand_in(track, *ways, last=False, more=None, es=None):
    """The samples of a round that hands in all rows by these ways.

    :param more: epoch of which each table of the sketch server has a row already.
    """
    (params,) = rounds_of(track, 1, warmup=0)
    es = es or FakeEs(lambda _, path, body: COUNT if "_count" in path else {})

    async def handed_in():
        async with TestServer(application()) as server:
            host = f"{server.host}:{server.port}"
            async with SketchServer(host) as client:
                for name in SKETCHES:
                    await client.send("PUT", f"/{name}", json.dumps({"nodes": CORPUS.node_names()}).encode())
                    if more:
                        row = {"epoch": [more], "node": ["N001"], "task": ["T001"]} | dict.fromkeys(FIELDS, [0.5])
                        await client.insert(name, json.dumps(row).encode(), 1, True, False)
            given = {"fresh": False, "last": last, "ways": ways, "parameters": params["parameters"]}
            given["parameters"] = given["parameters"] | {"sketch_server": host}
            return (await FloorIngestRunner()(es, params | given))["dependent_timing"]

    with es.new_request_context():
        return asyncio.run(handed_in())


def test_the_time_of_rows_is_encoding_sending_and_decoding(track):
    (sample,) = hand_in(track, "sketch-rows-items")
    parts = [sample[key] for key in ("encode_ms", "send_ms", "parse_ms")]
    assert sample["wall_ms"] == pytest.approx(sum(parts)) and min(parts) > 0
    assert sample["rows"] == sample["success-count"] == 50


def test_the_clients_cpu_time_is_that_of_all_requests(track, monkeypatch):
    seconds = SimpleNamespace(process_time=itertools.count().__next__, perf_counter=time.perf_counter, time=time.time)
    monkeypatch.setattr("cluster_metrics.sketch.sketch_floor.time", seconds)
    (sample,) = hand_in(track, "sketch-columns")
    assert (sample["requests"], sample["client_cpu_ms"]) == (14, 14_000)


def test_the_work_of_an_index_is_what_its_counters_grew_by_and_ends_with_its_merges(track):
    def counted(ms):
        of = {"index_time_in_millis": ms, "total_time_in_millis": 2 * ms}
        return {"_all": {"primaries": dict.fromkeys(("indexing", "refresh", "merges", "flush"), of)}}

    work, merging = (f"GET /{index_of('elasticsearch-filtered')}/_stats/{of}" for of in ("indexing,", "merge?"))
    looks = [{"_all": {"total": {"merges": {"current": merges}}}} for merges in (2, 1, 0)]
    taken = {"took": 7, "errors": False}
    es = FakeEs(Script({merging: looks, work: [counted(100), counted(130)], "GET": {}, "POST": taken}))
    (sample,) = hand_in(track, "elasticsearch-filtered", es=es)
    assert [sample[f"{part}_ms"] for part in ("index", "refresh", "merge", "flush", "took")] == [30, 60, 60, 60, 98]
    assert len([sent for sent in es.sent if sent.startswith(merging)]) == 3
    assert sample["settle_ms"] > 100


@pytest.mark.parametrize("epoch", [1, 2])
def test_after_the_last_round_the_answers_of_every_epoch_are_checked(track, epoch):
    assert len(hand_in(track, *SKETCHES, last=True)) == len(SKETCHES)
    wrong = f"{SKETCHES[0]}, epoch {epoch}: N001: cpu has 14 rows, exact 13"
    with pytest.raises(exceptions.RallyAssertionError, match=wrong):
        hand_in(track, *SKETCHES, last=True, more=epoch)


COSTS = {
    "elasticsearch-full": 76.0,
    "elasticsearch-filtered": 66.0,
    "sketch-rows-items": 34.0,
    "sketch-rows": 28.0,
    "sketch-columns-items": 16.0,
    "sketch-columns": 10.0,
    "elasticsearch-best": 8.0,
    "sketch-best": 2.0,
}


def race(rounds=20, spread=0.05):
    """A race in which 1,000 rows cost these ms, all ways slowed down alike from round to round."""
    rng = np.random.default_rng(1)
    samples = []
    for r in range(1, rounds + 1):
        slow = float(np.exp(spread * rng.standard_normal()))
        for name, ms in COSTS.items():
            meta = {"round": r, "rows": 500, "wall_ms": ms * slow / 2, "bytes_out": 500}
            meta["bytes_in"] = 1500 if INGESTS[name].items else 500
            meta |= {"encode_ms": ms / 20, "send_ms": ms / 4, "parse_ms": ms / 20, "client_cpu_ms": ms / 4}
            if INGESTS[name].elasticsearch:
                meta |= {"took_ms": 20.0 * slow, "index_ms": 15.0 * slow, "settle_ms": 1.0}
            samples.append(Sample(INGESTED, r, name, ms, meta))
        for name, ms in (("D_td-serial", 300.0), ("D_td-msearch", 150.0), ("sketch-serial", 30.0), ("sketch-all", 1.0)):
            samples.append(Sample("coverage", r, name, ms, {"round": r, "wall_ms": ms, "max_percentile_error": 0.01}))
    return Race({"race-id": "x", "challenge": "sketch-floor"}, samples, {})


def test_the_steps_add_up_to_the_whole():
    *steps, whole = explained.steps(explained.Ways(race().of(INGESTED)))
    assert sum(step.ms for step in steps if not step.part_of) == pytest.approx(whole.ms)
    exact = explained.steps(explained.Ways(race(spread=0).of(INGESTED)))
    found = {step.name: median(step.ms).value for step in exact}
    known = {"the sketch server": 10, "wire format": 18, "response": 10, "per-document work": 38}
    known["whole: Elasticsearch"] = 76
    of_work = {"indexing": 30, "the rest of took": 10, "unexplained": -2}
    assert {name: found[name] for name in known | of_work} == pytest.approx(known | of_work)
    assert [step.name for step in exact if not step.part_of] == list(known)


def test_the_figure_draws_either_a_step_or_its_parts():
    *steps, whole = explained.steps(explained.Ways(race().of(INGESTED)))
    assert sum(step.ms for step in steps if step.drawn) == pytest.approx(whole.ms)


def test_the_report_shows_the_gap_its_steps_and_the_question():
    sections = explained.sections(race(spread=0))
    (text,) = (s.text for s in sections if s.title == "From the floor to Elasticsearch")
    assert "66.0 ms [66.0, 66.0] more than the sketch server, 7.60 times as long [7.60, 7.60]" in text
    work = rows(sections, "gap")["per-document work (elasticsearch-filtered − sketch-rows)"]
    assert (work["ms"].value, work["share"].value) == pytest.approx((38, 38 / 66))
    assert "57.6 %" in text
    elsewhere = rows(sections, "elsewhere")
    assert elsewhere["response, on the sketch server from rows"]["ms"].value == pytest.approx(6)
    best = {row["source"]: row["ratio"].value for row in rows(sections, "best").values()}
    assert best["elasticsearch-best / sketch-best"] == pytest.approx(4)
    asked = {row["what"]: row["speedup"].value for row in rows(sections, "questions").values()}
    assert asked["sketch server, a request per node"] == pytest.approx(10)


def test_a_race_without_a_whole_round_has_no_gap():
    whole = race(rounds=2)
    few = Race(whole.document, [s for s in whole.samples if s.cell != "sketch-rows"], {})
    titles = [section.title for section in explained.sections(few)]
    assert "From the floor to Elasticsearch" not in titles and "The production question" in titles
    assert explained.sections(Race(whole.document, [], {})) == []


def test_the_answer_is_the_gap_and_its_greatest_step():
    lines = dict(answer_of(race(spread=0.0)).lines())
    assert lines["Elasticsearch"].startswith("takes 7.60 × [7.60, 7.60] as long as the sketch server")
    assert lines["greatest step"].startswith("per-document work, 57.6 %")
    assert lines["production query"] == "300 × [300, 300] as fast from the sketch server (sketch-all)"


def test_a_part_of_a_step_that_is_more_than_the_whole_of_it_is_not_the_greatest_step():
    of = race(spread=0.0)
    for sample in of.samples:
        if "index_ms" in sample.meta:
            sample.meta["index_ms"] = 50.0
    assert dict(answer_of(of).lines())["greatest step"].startswith("per-document work, 57.6 %")


def test_a_change_of_the_response_costs_bytes_and_cpu_time_of_the_client_in_proportion_to_the_whole_response():
    filtered, *_ = explained.changes(race(spread=0))
    assert filtered.times.value == pytest.approx(76 / 66)
    assert {key: ratio.value for key, ratio in filtered.costs.items()} == pytest.approx(
        {"client_cpu": 66 / 76, "bytes": 1000 / 2000}
    )


def test_every_node_takes_a_row(tmp_path):
    track = track_of(Metrics(nodes=30, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path)
    given = {"parameters": values(), "warmup-iterations": 0, "iterations": 2}
    with pytest.raises(exceptions.TrackConfigError, match=r"\[nodes\] is \[30\], allowed are up to"):
        FloorIngestParams(track, given)


def test_a_round_that_lacks_a_way_counts_for_no_step():
    whole = race()
    lost = {("elasticsearch-full", 3), ("sketch-rows", 9), ("sketch-best", 14)}
    of = Race(whole.document, [s for s in whole.samples if (s.cell, s.meta["round"]) not in lost], {})
    *steps, last = explained.steps(explained.Ways(of.of(INGESTED)))
    assert len(last.ms) == 17 and sum(step.ms for step in steps if not step.part_of) == pytest.approx(last.ms)
    lines = dict(answer_of(of).lines())
    assert lines["Elasticsearch"].startswith("takes 7.60 × [7.60, 7.60] as long as the sketch server")
    best = rows(explained.sections(of), "best")
    ratios = {row["source"]: (row["ratio"].low, row["ratio"].value, row["ratio"].high) for row in best.values()}
    assert ratios == {
        "elasticsearch-full / elasticsearch-best": pytest.approx((76 / 8,) * 3),
        "elasticsearch-filtered / elasticsearch-best": pytest.approx((66 / 8,) * 3),
        "sketch-columns / sketch-best": pytest.approx((5, 5, 5)),
        "elasticsearch-full / sketch-columns": pytest.approx((7.6,) * 3),
        "elasticsearch-best / sketch-best": pytest.approx((4, 4, 4)),
    }


def test_both_at_their_best_are_told_by_each_other_and_by_what_they_were():
    text = dict(answer_of(race()).lines())["both at their best"]
    assert text == "4.00 × [4.00, 4.00] as long; Elasticsearch is then 9.50 × [9.50, 9.50] as fast as before"


def test_every_way_is_told_by_its_rate_and_its_times_of_a_thousand_rows_and_bytes_of_a_row():
    sections = explained.sections(race(spread=0))
    found, costs = rows(sections, "ways"), rows(sections, "costs")
    assert {name: row["rate"] for name, row in found.items()} == pytest.approx(
        {name: 1e6 / ms for name, ms in COSTS.items()}
    )
    assert {name: row["wall_ms"].value for name, row in found.items()} == pytest.approx(COSTS)
    full, columns = costs["elasticsearch-full"], costs["sketch-columns"]
    known = {"encode_ms": 7.6, "send_ms": 38, "parse_ms": 7.6, "client_cpu_ms": 38, "took_ms": 40, "settle_ms": 2}
    assert {key: full[key] for key in known} == pytest.approx(known)
    assert (full["bytes_out"], full["bytes_in"], columns["bytes_in"]) == pytest.approx((1, 3, 1))
    assert "took_ms" not in columns and "settle_ms" not in columns


def test_the_greatest_error_of_any_round_and_the_fastest_answer_are_told():
    of = race(spread=0)
    for sample in of.samples:
        if sample.cell == "sketch-serial" and sample.meta["round"] == 5:
            sample.meta["max_percentile_error"] = 0.03
    errors = {row["way"]: row["error"] for row in rows(explained.sections(of), "questions").values()}
    assert errors == {"D_td-serial": 0.01, "D_td-msearch": 0.01, "sketch-serial": 0.03, "sketch-all": 0.01}
    for sample in of.samples:
        if sample.cell == "sketch-all":
            sample.meta["wall_ms"] = 60.0
    told = dict(answer_of(of).lines())["production query"]
    assert told == "10.0 × [10.0, 10.0] as fast from the sketch server (sketch-serial)"


def test_the_steps_are_told_at_every_place_where_they_can_be_taken():
    found = rows(explained.sections(race(spread=0)), "elsewhere")
    assert {row["source"]: row["ms"].value for row in found.values()} == pytest.approx(
        {
            "sketch-rows − sketch-columns": 18,
            "sketch-rows-items − sketch-columns-items": 18,
            "elasticsearch-full − elasticsearch-filtered": 10,
            "sketch-rows-items − sketch-rows": 6,
            "sketch-columns-items − sketch-columns": 6,
            "elasticsearch-filtered − sketch-rows": 38,
            "elasticsearch-full − sketch-rows-items": 42,
        }
    )


def test_changes_are_the_ways_of_elasticsearch_and_its_transport():
    of = race(spread=0)
    gains = [(gain.change.part, gain.against, gain.times.value) for gain in explained.changes(of)]
    assert gains == [
        ("ingest", "elasticsearch-full", pytest.approx(76 / 66)),
        ("ingest", "elasticsearch-full", pytest.approx(76 / 8)),
        ("query", "D_td-serial", pytest.approx(2)),
    ]
