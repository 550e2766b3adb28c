"""Loads as Rally reads and runs them: defaults of a challenge's own, and the monitor beside the load."""

import asyncio
import contextlib
import itertools
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import schedules
from aiohttp import web
from aiohttp.test_utils import TestServer
from esrally.client import EsClientFactory
from esrally.driver import driver
from esrally.track import loader

from cluster_metrics.corpus.encoded import generate_bodies
from cluster_metrics.corpus.metrics import NAME, Metrics

ROWS = 30
PARAMETERS = {"nodes": 2, "tasks": 2, "rows_per_epoch": ROWS, "epochs": 1}
POOL = {"queue": 0, "rejected": 0, "active": 1}


@pytest.fixture
def read(tmp_path):
    """Reads the track as one of Rally's processes does."""
    return lambda name, **parameters: schedules.read(tmp_path, name, **PARAMETERS | parameters)[0]


APPEND = "append-no-conflicts-index-only"


def loads(track, name):
    """The elements of a challenge's schedule whose task ends them, in order."""
    challenge = next(c for c in track.challenges if c.name == name)
    return [element for element in challenge.schedule if any(task.completes_parent for task in element)]


@pytest.mark.parametrize("given", [{}, {"bulk_size": 700}, {"bulk_indexing_clients": 3}])
def test_a_challenge_has_defaults_of_its_own_for_what_is_not_given(read, given):
    track = read(APPEND, **given)
    own = {APPEND: {"bulk_size": 10_000, "bulk_indexing_clients": 4}}
    for name in ("ingest", APPEND):
        wanted = {"bulk_size": 1000, "bulk_indexing_clients": 1} | own.get(name, {}) | given
        [*_, (_, task)] = loads(track, name)
        assert {key: task.operation.params["parameters"][key] for key in wanted} == wanted
        assert task.clients == wanted["bulk_indexing_clients"]
        schedule = next(c for c in track.challenges if c.name == name).schedule
        epoch = next(task for element in schedule for task in element if task.operation.type == "ingest-epoch")
        assert epoch.operation.params["clients"] == wanted["bulk_indexing_clients"]


def test_the_monitor_is_the_first_of_the_tasks_that_run_at_once(read):
    track = read("ingest", epochs=2)
    for name, times in (("ingest", 2), (APPEND, 1), ("ingest-decomp", 1), ("ingest-formats", 1)):
        elements = loads(track, name)
        assert len(elements) == times
        for monitor, load in elements:
            assert monitor.operation.type == "monitor" and load.completes_parent and not monitor.completes_parent


class Watched:
    """A server that takes rows, the first of them once it was looked at again."""

    def __init__(self):
        self.rows, self.asked = [], []

    async def answer(self, request):
        asked, looks = f"{request.method} {request.path}", self.looks
        self.asked.append(asked)
        body = {}
        if asked.startswith("GET /_nodes/stats/"):
            node = {"name": "n", "process": {"timestamp": looks, "cpu": {"total_in_millis": 1}}}
            body = {"nodes": {"n": node | {"thread_pool": {"search": POOL, "write": POOL}}}}
        elif asked == f"POST /{NAME}/_bulk":
            while not self.rows and self.looks in (looks, 0):
                await asyncio.sleep(0.005)
            self.rows += (await request.text()).splitlines()[1::2]
            body = {"took": 1, "errors": False}
        return web.json_response(body, headers={"x-elastic-product": "Elasticsearch"})

    @property
    def looks(self):
        return sum(asked.startswith("GET /_nodes/stats/") for asked in self.asked)


def test_a_monitor_looks_until_the_load_beside_it_is_done(read, monkeypatch):
    monkeypatch.setattr("cluster_metrics.core.monitor.MONITOR_SECONDS", 0.01)
    track, target, sampler = read("ingest", bulk_indexing_clients=2, bulk_size=10), Watched(), driver.Sampler(0.0)
    [element] = loads(track, "ingest")
    corpus = next(c for c in track.corpora if c.name == NAME)
    generate_bodies(Metrics(**corpus.meta_data), 0, "json", Path(corpus.documents[0].document_file))
    cancel, complete = threading.Event(), threading.Event()

    async def every():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", target.answer)
        async with TestServer(app) as server:
            hosts = [{"host": server.host, "port": server.port}]
            clients = [EsClientFactory(hosts, {"timeout": 5}, "8.17.2").create_async(client_id=i) for i in range(3)]
            sources = {task: loader.operation_parameters(track, task) for task in element}
            executors = []
            for number, (_, of, _) in enumerate(driver.Allocator([element]).allocations):
                schedule, es = driver.schedule_for(of, sources[of.task]), {"default": clients[number]}
                common = sampler, cancel, complete, schedules.OnErrorBehavior.ABORT
                executors.append(driver.AsyncExecutor(number, of.task, schedule, es, *common)())
            try:
                await asyncio.wait_for(asyncio.gather(*executors), 20)
            finally:
                for es in clients:
                    await es.close()

    asyncio.run(every())
    samples = sampler.samples
    looks = [s for s in samples if s.operation_type == "monitor"]
    bulks = [s for s in samples if s.operation_type == "ingest-bulk"]
    assert len(looks) >= 2 and len(bulks) == 3 and len(target.rows) == ROWS
    assert all(s.request_meta_data["success"] for s in samples)
    assert {"n"} == set(json.loads(looks[0].request_meta_data["nodes"]))


@pytest.mark.parametrize(
    "sent_by",
    [given | sent for given in ({}, {"ingest_pipeline": "some"}) for sent in ({}, {"bulk_runner": "native"})],
)
def test_clients_together_send_each_row_of_the_epochs_of_a_load_once(read, sent_by):
    given = {"epochs": 3, "bulk_size": 7, "bulk_indexing_clients": 2} | sent_by
    for name, epochs in (("ingest", [[1], [2], [3]]), (APPEND, [[1, 2, 3]])):
        track = read(name, **given)
        corpus = next(c for c in track.corpora if c.name == NAME)
        files = [Path(documents.document_file) for documents in corpus.documents]
        for number, file in enumerate(files):
            generate_bodies(Metrics(**corpus.meta_data), number, "json", file)
        for (*_, task), of in zip(loads(track, name), epochs, strict=True):
            source, rows = loader.operation_parameters(track, task), []
            for client in range(2):
                requests = list(requests_of(source.partition(client, 2)))
                assert [request["last"] for request in requests] == [False] * (len(requests) - 1) + [True]
                for request in requests:
                    lines = request["body"].splitlines()
                    assert (request["client"], request["documents"]) == (client, len(lines) / 2)
                    assert request["epoch"] == (of[0] if len(of) == 1 else 0)
                    pipeline = request.get("native", request["options"]).get("pipeline")
                    assert (pipeline or None) == sent_by.get("ingest_pipeline")
                    rows += lines[1::2]
            assert sorted(rows) == sorted(row for epoch in of for row in files[epoch - 1].read_bytes().splitlines())


def requests_of(source):
    with contextlib.suppress(StopIteration):
        while True:
            yield source.params()


REJECTED = {"status": 400, "error": {"type": "a_type", "reason": "no number"}}


def sent(read, sent_by, taken):
    """Rally's records of a load of 30 documents in three requests, with the notes of its client and the bodies sent.

    :param sent_by: track parameters.
    :param taken: makes status and body of the answer to a request of a number of documents.
    """
    track, notes, bodies = read("ingest", bulk_size=10, **sent_by), [], []
    [(*_, task)] = loads(track, "ingest")
    corpus = next(c for c in track.corpora if c.name == NAME)
    generate_bodies(Metrics(**corpus.meta_data), 0, "json", Path(corpus.documents[0].document_file))

    async def answer(request):
        status, body = 200, {}
        if request.path.endswith("/_bulk"):
            bodies.append(await request.read())
            status, body = taken(len(bodies[-1].splitlines()) // 2)
        else:
            notes.append((request.path, await request.json()))
        return web.json_response(body, status=status, headers={"x-elastic-product": "Elasticsearch"})

    async def load():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server:
            hosts = [{"host": server.host, "port": server.port}]
            es = EsClientFactory(hosts, {"timeout": 5}, "8.17.2").create_async(client_id=0)
            try:
                return await schedules.run(es, track, task)
            finally:
                await es.close()

    return asyncio.run(load()), notes, bodies


@pytest.mark.parametrize("sent_by, kind", [({}, "400 a_type"), ({"bulk_runner": "native"}, "400")])
def test_a_request_and_the_note_of_its_client_tell_what_the_target_took(read, monkeypatch, sent_by, kind):
    """Each look at the clock of the load, by which Rally's own runner is timed, finds it a second later."""
    ticks = itertools.count(100).__next__
    monkeypatch.setattr("cluster_metrics.ingest.load.time", SimpleNamespace(time=time.time, perf_counter=ticks))

    def taken(documents):
        items = [{"index": {"status": 201}}] * (documents - 2) + [{"index": REJECTED}] * 2
        return 200, {"took": 7, "errors": True, "items": items}

    found, notes, bodies = sent(read, sent_by, taken)
    assert [(weight, unit) for weight, unit, _ in found] == [(10, "docs")] * 3
    counted = {"epoch": 1, "client": 0, "success": False, "success-count": 8, "error-count": 2, "took": 7, "retries": 0}
    for _, _, meta in found:
        assert counted.items() <= meta.items() and "no number" in meta["error-description"]
        assert meta["send_ms"] == 1000 or not sent_by
    [(path, note)] = notes
    assert path.endswith("/_doc/1-0") and note["span"]["started"] <= note["span"]["ended"]
    tally = {"sent": 30, "acknowledged": 24, "rejected": {kind: 6}, "requests": 3, "took_ms": 21.0}
    tally["bytes_out"] = sum(map(len, bodies))
    assert tally.items() <= note["tally"].items() and len(note["tally"]["reasons"]) == 1


def test_a_request_that_the_target_has_no_room_for_is_sent_once_by_rallys_own_runner(read):
    found, [(_, note)], bodies = sent(read, {"bulk_runner": "native"}, lambda _: (503, {"error": "no room"}))
    assert len(bodies) == len(set(bodies)) == len(found) == 3
    assert not any(meta["success"] for _, _, meta in found)
    assert {"sent": 30, "acknowledged": 0, "rejected": {"HTTP 503": 30}}.items() <= note["tally"].items()


@pytest.mark.parametrize("sent_by", [{}, {"bulk_runner": "native"}])
def test_a_percentage_of_an_epoch_is_of_the_requests_of_a_client_whoever_reads_them(read, sent_by):
    _, [(_, note)], bodies = sent(
        read, sent_by | {"ingest_percentage": 60}, lambda _: (200, {"took": 1, "errors": False})
    )
    assert len(bodies) == 2 and note["tally"]["sent"] == 20
