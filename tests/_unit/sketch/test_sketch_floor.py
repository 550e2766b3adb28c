"""The challenge sketch-floor: its rounds, its bodies and its checks. The race is in tests/_race."""

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
import schedules
from aiohttp.test_utils import TestServer
from esrally import exceptions
from esrally.track import loader
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script, track_of, values

from _tools.sketch_server.server import application
from cluster_metrics.core.index import MARK
from cluster_metrics.corpus.metrics import FIELDS, NAME, Metrics
from cluster_metrics.sketch._report import sketch_floor as explained
from cluster_metrics.sketch.sketch_floor import (
    BEST,
    INGESTS,
    FloorIngestParams,
    FloorIngestRunner,
    FloorQuestionsParams,
    FloorQuestionsRunner,
    Ingest,
    SketchServer,
    batches,
    encode,
    index_of,
)

CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=2)


@pytest.fixture(scope="module")
def track(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    return track_of(CORPUS, root=root, encodings=["json"], indices={NAME: {"settings": {}, "mappings": {}}})


def rounds_of(track, rounds, warmup=2, seed=1):
    params = {"parameters": values(seed=seed, bulk_size=4), "iterations": rounds, "warmup-iterations": warmup}
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
    assert found[3]["ways"] == rounds_of(track, 5)[3]["ways"] != rounds_of(track, 5, seed=2)[3]["ways"]
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


def test_questions_ask_both_about_the_same_epoch(track):
    def drawn(seed):
        source = FloorQuestionsParams(track, {"parameters": values(seed=seed), "warmup-iterations": 0})
        return [source.params() for _ in range(4)]

    for params in drawn(1):
        assert {name for name, _ in params["asks"]} == set(explained.QUESTIONS)
        assert {coverage.epoch for _, coverage in params["asks"] if coverage} == {params["epoch"]}
    assert [params["epoch"] for params in drawn(1)] == [2, 1, 2, 1]
    one, same, other = ([[name for name, _ in params["asks"]] for params in drawn(seed)] for seed in (1, 1, 2))
    assert one == same != other and len(set(map(tuple, one))) > 1


def test_without_a_server_the_race_ends_with_one_line():
    async def connect():
        async with SketchServer("127.0.0.1:1"):
            pass

    with pytest.raises(exceptions.RallyAssertionError, match=r"sketch server \[127.0.0.1:1\].*make up SKETCH=1"):
        asyncio.run(connect())


@pytest.mark.parametrize("failure", [asyncio.TimeoutError(), aiohttp.ClientConnectionError("reset")])
def test_a_server_that_takes_too_long_ends_the_race_as_one_that_is_not_there(monkeypatch, failure):
    def request(*_, **__):
        raise failure

    async def connect():
        async with SketchServer("127.0.0.1:1"):
            pass

    monkeypatch.setattr(aiohttp.ClientSession, "request", request)
    with pytest.raises(exceptions.RallyAssertionError, match="does not answer"):
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
    asked = {t["dependent_timing"]["operation"]: t["searches"] for t in result["dependent_timing"] if t["success"]}
    assert asked == {"sketch-serial": len(CORPUS.node_names()), "sketch-all": 1}
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


def test_a_question_that_timed_out_is_wrong_and_the_sketch_servers_answers_are_measured(track):
    params = FloorQuestionsParams(track, {"parameters": values(seed=1), "warmup-iterations": 0}).params()
    late = {"took": 1, "timed_out": True}
    es = FakeEs(lambda method, path, _: {"responses": [late] * 2} if "_msearch" in path else late)
    result = asyncio.run(with_server(FloorQuestionsRunner(), es, params | {"track": track}))
    found = {t["dependent_timing"]["operation"]: t for t in result["dependent_timing"]}
    assert {name: t.get("error-type") for name, t in found.items()} == {
        name: None if name.startswith("sketch") else "wrong-answer" for name in explained.QUESTIONS
    }
    for name in ("sketch-serial", "sketch-all"):
        timing = found[name]["dependent_timing"]
        assert found[name]["wall_ms"] == pytest.approx(1000 * timing["service_time"], rel=1e-3)
        assert 0 < found[name]["max_percentile_error"] < 1
    whole, parts = (found[name]["response_bytes"] for name in ("sketch-all", "sketch-serial"))
    assert parts == whole + len("}{") - len(","), "an object a node, instead of a comma between them"
    expected = {
        node: {field: of | {"count": 99} for field, of in fields.items()} for node, fields in params["answers"].items()
    }
    result = asyncio.run(with_server(FloorQuestionsRunner(), es, params | {"track": track, "answers": expected}))
    assert {t.get("error-type") for t in result["dependent_timing"]} == {"wrong-answer"}


SKETCHES = [name for name, way in INGESTS.items() if not way.elasticsearch]


COUNT = {"count": CORPUS.rows_per_epoch * CORPUS.epochs}
COUNTERS = {key: Counter() for key in ("indexing", "refresh", "merges", "flush")}
MERGED = {"merges": {"current": 0}}


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


@pytest.mark.parametrize("mark", [MARK, "somebody"])
def test_after_the_last_round_the_best_index_alone_is_left_and_what_is_not_the_tracks_own(track, mark):
    own = {name: {"mappings": {"_meta": {"created_by": mark}}} for name in map(index_of, INGESTS)}

    def answer(method, path, body):
        name = path.strip("/").split("/")[0]
        return COUNT if "_count" in path else {name: own[name]} if "_mapping" in path else {}

    es = FakeEs(answer)
    with contextlib.nullcontext() if mark == MARK else pytest.raises(exceptions.RallyAssertionError, match=NAME):
        hand_in(track, *SKETCHES, last=True, es=es)
    others = [name for name, way in INGESTS.items() if way.elasticsearch and name != BEST]
    assert others and [sent for sent in es.sent if sent.startswith("DELETE")] == [
        f"DELETE /{index_of(n)}" for n in others if mark == MARK
    ]


@pytest.mark.parametrize("items, answer", [(False, b'{"inserted": 2}'), (True, b'{"items": [{}, {}]}')])
def test_rows_that_the_sketch_server_does_not_tell_of_are_not_acknowledged(monkeypatch, items, answer):
    async def send(*_):
        return answer

    monkeypatch.setattr(SketchServer, "send", send)
    counts = asyncio.run(SketchServer("x:1").insert("some", b"12345", 3, True, items))
    assert (counts.sent, counts.acknowledged, counts.errors) == (3, 2, 1)
    assert (counts.bytes_out, counts.bytes_in) == (5, len(answer))


def test_one_row_that_was_not_taken_ends_the_race(track, monkeypatch):
    insert, lost = SketchServer.insert, iter([1])

    async def losing(self, table, body, *of):
        counts = await insert(self, table, body, *of)
        counts.acknowledged -= next(lost, 0) if table == "sketch-best" and len(body) > 200 else 0
        return counts

    monkeypatch.setattr(SketchServer, "insert", losing)
    with pytest.raises(exceptions.RallyAssertionError, match="^sketch-best: 1 "):
        hand_in(track, "sketch-best")


def test_the_time_of_rows_is_encoding_sending_and_decoding(track):
    (sample,) = hand_in(track, "sketch-rows-items")
    parts = [sample[key] for key in ("encode_ms", "send_ms", "parse_ms")]
    assert sample["wall_ms"] == pytest.approx(sum(parts)) and min(parts) > 0
    assert sample["rows"] == sample["success-count"] == 50


def test_the_clients_cpu_time_is_that_of_all_requests(track, monkeypatch):
    counts = {name: itertools.count().__next__ for name in ("process_time", "perf_counter")}
    monkeypatch.setattr("cluster_metrics.sketch.sketch_floor.time", SimpleNamespace(**counts, time=time.time))
    (sample,) = hand_in(track, "sketch-columns")
    assert (sample["requests"], sample["client_cpu_ms"]) == (14, 14_000)
    parts = [sample[f"{part}_ms"] for part in ("encode", "send", "parse", "wall")]
    assert parts == [14_000, 14_000, 14_000, 42_000], "each of them a second a request"


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
    looked = [sent for sent in es.sent if sent.startswith(merging)]
    assert looked == [f"{merging}filter_path=_all.total.merges.current"] * 3, "those of replicas, too"
    assert [timeout for sent, timeout in zip(es.sent, es.timeouts) if sent.endswith("/_refresh")] == [1800]
    assert sample["settle_ms"] > 100


@pytest.mark.parametrize("epoch", [1, 2])
def test_after_the_last_round_the_answers_of_every_epoch_are_checked(track, epoch):
    assert len(hand_in(track, *SKETCHES, last=True)) == len(SKETCHES)
    wrong = f"{SKETCHES[0]}, epoch {epoch}: N001: cpu has 14 rows, exact 13"
    with pytest.raises(exceptions.RallyAssertionError, match=wrong):
        hand_in(track, *SKETCHES, last=True, more=epoch)


def test_every_node_takes_a_row(tmp_path):
    given = {"parameters": values(), "warmup-iterations": 0, "iterations": 2}
    FloorIngestParams(track_of(Metrics(nodes=25, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path), given)
    track = track_of(Metrics(nodes=30, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path)
    with pytest.raises(exceptions.TrackConfigError, match=r"\[nodes\] is \[30\], allowed are up to"):
        FloorIngestParams(track, given)


def test_only_the_way_with_the_whole_response_asks_for_all_of_it(track):
    es = FakeEs(lambda *_: {"took": 1, "errors": False} | {"_all": {"primaries": COUNTERS, "total": MERGED}})
    hand_in(track, "elasticsearch-full", "elasticsearch-filtered", es=es)
    asked = {path.split("?")[0]: "filter_path" in path for _, path, _ in es.requests if "_bulk" in path}
    assert asked == {"/cluster-metrics-full/_bulk": False, "/cluster-metrics-filtered/_bulk": True}


def test_each_way_begins_with_an_index_of_the_shards_asked_for_and_the_best_without_refreshes(track):
    (params,) = rounds_of(track, 1, warmup=0)
    missing = Refused(404, "index_not_found_exception", "no such index")
    es = FakeEs(lambda method, path, body: missing if path.endswith("/_mapping") else {})

    async def begun():
        async with TestServer(application()) as server:
            host = f"{server.host}:{server.port}"
            of = values(sketch_server=host, number_of_shards=3, number_of_replicas=1)
            found = await FloorIngestRunner()(es, params | {"parameters": of, "ways": [], "last": False})
            assert found["round"] == params["round"]
            async with SketchServer(host) as client:
                return json.loads(await client.send("GET", "/"))["tables"]

    with es.new_request_context():
        assert asyncio.run(begun()) == SKETCHES
    made = {path: body["settings"] for method, path, body in es.requests if method == "PUT"}
    common = {"index.number_of_shards": 3, "index.number_of_replicas": 1}
    assert made == {
        "/cluster-metrics-full": common,
        "/cluster-metrics-filtered": common,
        "/cluster-metrics": common | {"index.refresh_interval": "-1"},
    }


@pytest.mark.parametrize("off, said", [(-1, "the index has 49: -1$"), (2, r"the index has 52: \+2$")])
def test_after_the_last_round_documents_that_are_not_there_or_too_many_end_the_race(track, off, said):
    other = {"count": COUNT["count"] + off}
    es = FakeEs(lambda _, path, body: other if "_count" in path else {})
    said = f"elasticsearch-full: 50 documents were acknowledged, {said}"
    with pytest.raises(exceptions.RallyAssertionError, match=said):
        hand_in(track, *SKETCHES, last=True, es=es)
