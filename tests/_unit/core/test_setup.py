"""The tasks of a set-up, by Rally's own reading of the track, param sources, client and execution."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import esrally
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from esrally import exceptions
from esrally.client import EsClientFactory
from esrally.driver import driver, runner
from esrally.track import loader, params
from esrally.utils.error_behavior import OnErrorBehavior

from cluster_metrics.core.challenge import operations
from cluster_metrics.core.experiment import Experiment
from cluster_metrics.corpus.metrics import NAME, Metrics

ROOT = Path(__file__).parents[3]
ROWS = 30
PARAMETERS = {"nodes": 2, "tasks": 2, "rows_per_epoch": ROWS, "epochs": 1, "bulk_size": 10, "codec": "best_compression"}
NODE = {
    "name": "n",
    "version": "8.17.2",
    "jvm": {"vm_name": "x", "vm_version": "21", "mem": {"heap_max_in_bytes": 1 << 30}},
    "os": {"allocated_processors": 2},
    "attributes": {},
}
PRIMARIES = {"segments": {"count": 1}, "store": {"size_in_bytes": 7}, "merges": {"current": 0}}
SETUP = {
    "delete-index": f"GET /{NAME}/_mapping",
    "create-index": f"PUT /{NAME}",
    "check-cluster-health": f"GET /_cluster/health/{NAME}",
    "index-append": f"POST /{NAME}/_bulk",
    "refresh-after-index": f"POST /{NAME}/_refresh",
    "force-merge": f"POST /{NAME}/_forcemerge",
    "wait-until-merges-finish": f"GET /{NAME}/_stats/_all",
    "check-index": f"POST /{NAME}/_count",
}
"""The tasks of a load by the request that each makes."""


class Target:
    """A server with one index that answers what a set-up asks.

    :param refused: a request, with the status that it is answered with.
    """

    def __init__(self, refused="", status=403):
        self.refused, self.status = refused, status
        self.created, self.rows, self.asked = None, [], []

    async def answer(self, request):
        asked = f"{request.method} {request.path}"
        self.asked.append(asked)
        status, body = self.status, {"error": {"type": "security_exception", "reason": "granted by the privilege x"}}
        if asked != self.refused:
            status, body = 200, await self.found(request, asked.replace(f"/{NAME}", ""))
        headers = {"x-elastic-product": "Elasticsearch"}
        return web.json_response(body or {}, status=status if body is not None else 404, headers=headers)

    async def found(self, request, asked):
        if asked == "PUT ":
            self.created = await request.json()
        if asked == "POST /_bulk":
            self.rows += (await request.text()).splitlines()[1::2]
        asked_of = await request.text()
        counted = [row for row in self.rows if all(node in row for node in ("N001", "N002") if node in asked_of)]
        return {
            "GET /_mapping": self.created and {NAME: {"mappings": self.created["mappings"]}},
            "GET /_cluster/health": {"status": "green", "relocating_shards": 0},
            "POST /_bulk": {"took": 1, "errors": False},
            "POST /_count": {"count": len(counted), "_shards": {"failed": 0}},
            "GET /_stats/_all": {"_all": {"total": PRIMARIES}},
            "GET /_stats/segments,store": {"_all": {"primaries": PRIMARIES}},
            "GET /_nodes/jvm,os": {"nodes": {"n": NODE}},
        }.get(asked, {})


@pytest.fixture
def read(tmp_path):
    """Reads the track as one of Rally's processes does."""

    def read(race_id, **parameters):
        options = {"rally.root": Path(esrally.__file__).parent, "params": PARAMETERS | parameters, "race.id": race_id}
        cfg = SimpleNamespace(opts=lambda section, key, default_value=None, **_: options.get(key, default_value))
        track = loader.TrackFileReader(cfg).read("cluster-metrics", str(ROOT / "track.json"), str(ROOT))
        experiment = Experiment()
        experiment.cfg = cfg
        experiment.on_after_load_track(track)
        corpus = next(c for c in track.corpora if c.name == NAME)
        for number, documents in enumerate(corpus.documents):
            documents.document_file = str(Metrics(**corpus.meta_data).generate(number, tmp_path))
        return track

    return read


def run(track, target, only=None):
    """Runs the tasks of a set-up one by one, as Rally does with ``--on-error=continue``.

    :return: what Rally records of each, by name of the task.
    """
    challenge = next(c for c in track.challenges if c.name == "query-decomp")
    tasks = [t for t in challenge.schedule if t.name in SETUP and (only is None or t.name in only)]

    async def one(task, es):
        source = loader.operation_parameters(track, task).partition(0, 1)
        found = []
        while not found or not getattr(source, "infinite", True):
            try:
                called = source.params()
            except StopIteration:
                break
            with es.new_request_context() as context:
                of = runner.runner_for(task.operation.type)
                found.append(await driver.execute_single(of, {"default": es}, called, OnErrorBehavior.CONTINUE))
                assert context.request_end > context.request_start
        return found

    async def every():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", target.answer)
        async with TestServer(app) as server:
            hosts = [{"host": server.host, "port": server.port}]
            es = EsClientFactory(hosts, {"timeout": 5}, "8.17.2").create_async(client_id=0)
            try:
                return {task.name: await one(task, es) for task in tasks}
            finally:
                await es.close()

    for operation in operations().values():
        runner.register_runner(operation.type, operation.runner(), async_runner=True)
        if operation.params:
            params.register_param_source_for_name(operation.type, operation.params)
    return asyncio.run(every())


def test_every_task_of_a_set_up_succeeds_and_the_index_carries_race_and_parameters(read):
    target = Target()
    recorded = run(read("this"), target)
    assert list(recorded) == list(SETUP) and all(found for found in recorded.values())
    assert [ops for ops, _, _ in recorded["index-append"]] == [10, 10, 10]
    for found in recorded.values():
        assert all(meta["success"] for _, _, meta in found)
    assert len(target.rows) == ROWS
    assert target.created["settings"]["index.codec"] == "best_compression"
    meta = target.created["mappings"]["_meta"]
    assert meta["race"].startswith("this of ") and meta["loaded"]["rows_per_epoch"] == ROWS
    assert recorded["check-index"][0][2]["docs"] == ROWS


@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize("task", SETUP)
def test_a_task_of_a_set_up_that_fails_ends_the_race_whatever_on_error_says(read, task, status):
    target = Target(SETUP[task], status)
    with pytest.raises(exceptions.RallyAssertionError, match=f"HTTP {status} security_exception: granted by the priv"):
        run(read("this"), target)
    assert target.asked[-1] == SETUP[task]


def test_an_index_made_anew_meanwhile_ends_the_race_that_loaded_it(read):
    target = Target()
    run(read("this"), target)
    with pytest.raises(exceptions.RallyAssertionError, match="not the one that this race created"):
        run(read("another"), target, only=["check-index"])
