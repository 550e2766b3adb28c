"""The client of the sketch server, and the indices that sketch-floor begins with."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from esrally import exceptions
from fakes import FakeEs, track_of, values

from _tools.sketch_server.server import application
from cluster_metrics.corpus.metrics import NAME, Metrics
from cluster_metrics.sketch.sketch_floor import FloorIngestParams, FloorIngestRunner, SketchServer


@pytest.fixture
def closed(monkeypatch):
    """The sessions that were closed."""
    found, close = [], aiohttp.ClientSession.close

    async def closing(session):
        found.append(session)
        await close(session)

    monkeypatch.setattr(aiohttp.ClientSession, "close", closing)
    return found


def test_a_request_that_is_refused_ends_the_race_and_closes_the_session(closed):
    async def asked():
        async with TestServer(application()) as server, SketchServer(f"{server.host}:{server.port}") as client:
            await client.send("GET", "/some/answers?epoch=1&percents=50")

    refused = r"refuses GET /some/answers\?epoch=1&percents=50: .*table \[some\] was not declared"
    with pytest.raises(exceptions.RallyAssertionError, match=refused):
        asyncio.run(asked())
    assert len(closed) == 1


def test_a_session_is_closed_where_there_is_no_server(closed):
    async def connect():
        async with SketchServer("127.0.0.1:1"):
            pass

    with pytest.raises(exceptions.RallyAssertionError, match="does not answer"):
        asyncio.run(connect())
    assert len(closed) == 1


@pytest.mark.parametrize("foreign", [False, True])
def test_an_index_of_somebody_else_is_replaced_only_where_that_is_asked_for(tmp_path, foreign):
    corpus = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=1)
    track = track_of(corpus, root=tmp_path, encodings=["json"], indices={NAME: {"settings": {}, "mappings": {}}})
    other = {"mappings": {"_meta": {"created_by": "somebody"}}}
    es = FakeEs(lambda method, path, _: {path.split("/")[1]: other} if path.endswith("/_mapping") else {})

    async def begun():
        async with TestServer(application()) as server:
            of = values(sketch_server=f"{server.host}:{server.port}", delete_foreign_index=foreign)
            source = FloorIngestParams(track, {"parameters": of, "iterations": 1, "warmup-iterations": 0})
            await FloorIngestRunner()(es, source.params() | {"ways": [], "last": False})

    refused = pytest.raises(exceptions.RallyAssertionError, match=NAME)
    with es.new_request_context(), contextlib.nullcontext() if foreign else refused:
        asyncio.run(begun())
    assert (f"DELETE /{NAME}" in es.sent) is foreign
