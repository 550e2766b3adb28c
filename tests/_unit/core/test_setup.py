"""The tasks of a set-up, by Rally's own reading of the track, param sources, client and execution."""

import asyncio

import pytest
import schedules
from aiohttp import web
from aiohttp.test_utils import TestServer
from esrally import exceptions
from esrally.client import EsClientFactory

from cluster_metrics.corpus.metrics import NAME

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
    """Reads query-decomp as one of Rally's processes does: the track, and the tasks of its set-up."""

    def read(race_id, **parameters):
        track, tasks = schedules.read(tmp_path, "query-decomp", race_id, **PARAMETERS | parameters)
        return track, [task for task in tasks if task.name in SETUP]

    return read


def run(found, target, only=None):
    """Runs the tasks of a set-up one by one, as Rally does with ``--on-error=continue``.

    :return: what Rally records of each, by name of the task.
    """
    track, tasks = found

    async def every():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", target.answer)
        async with TestServer(app) as server:
            hosts = [{"host": server.host, "port": server.port}]
            es = EsClientFactory(hosts, {"timeout": 5}, "8.17.2").create_async(client_id=0)
            try:
                return {t.name: await schedules.run(es, track, t) for t in tasks if only is None or t.name in only}
            finally:
                await es.close()

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
