"""Runners and param sources of the capacity challenges: throughput by shards and replicas."""

import asyncio
import copy
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import Any

import psutil
from esrally import exceptions
from esrally.utils import process

from .bulk import send_bulk
from .corpora import corpus_in
from .files import load_answers
from .index import delete_own_index
from .requests import aside, get, request
from .words import CHECKED_QUERIES, FIELDS, NAME

BULK_DOCUMENTS = 1000
INDEX = "cluster-metrics-words"
"""Begin of the names of indices, and the name of their body in ``track.json``."""
GREEN_SECONDS = 600
EVEN_SECONDS = 60
QUERIES = 10_000
"""Different queries; clients walk through them in turn."""
MONITOR_SECONDS = 1.0
HOST_TIMES = 8
"""Of the CPU times that Linux counts, those that are no part of another: all but the ones of guests."""
WATERMARK = 0.9
"""Share of a disk in use above which Elasticsearch moves shards away (its high watermark's default)."""


def index_of(shards: int) -> str:
    """The index of the grid with so many shards."""
    return f"{INDEX}-{shards}"


def index_body(track: Any, analyzer: str, shards: int, replicas: int, routing_shards: int) -> dict[str, Any]:
    """The body of ``index-words.json`` with this analyzer for both fields, and these shards."""
    body = json.loads(json.dumps(next(i for i in track.indices if i.name == INDEX).body))
    for field in FIELDS:
        body["mappings"]["properties"][field]["analyzer"] = analyzer
    body["settings"] |= {
        "index.number_of_shards": shards,
        "index.number_of_replicas": replicas,
        "index.number_of_routing_shards": routing_shards,
    }
    return body


async def data_nodes(es: Any) -> list[str]:
    """Names of the nodes that hold data."""
    nodes = await get(es, "/_nodes/_all/none?filter_path=nodes.*.name,nodes.*.roles")
    return sorted(n["name"] for n in nodes["nodes"].values() if any(r.startswith("data") for r in n["roles"]))


async def check_disks(es: Any) -> None:
    """Whether all nodes have room.

    :raises esrally.exceptions.RallyAssertionError: when a disk is so full that by default shards are moved away.
    """
    for node in (await get(es, "/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.fs.total"))["nodes"].values():
        total = node["fs"]["total"]
        if total["available_in_bytes"] < (1 - WATERMARK) * total["total_in_bytes"]:
            raise exceptions.RallyAssertionError(
                f"the disk of node {node['name']} is more than {WATERMARK:.0%} full ({total['available_in_bytes']:,} "
                f"of {total['total_in_bytes']:,} bytes free), where Elasticsearch by default moves shards away"
            )


async def shard_table(es: Any, index: str) -> dict[str, list[str]]:
    """Which node holds what: node to shards, a primary as ``0p``, a replica as ``0r``."""
    table: dict[str, list[str]] = {node: [] for node in await data_nodes(es)}
    for shard in await get(es, f"/_cat/shards/{index}?format=json&h=shard,prirep,node,state"):
        if shard["state"] == "STARTED":
            table.setdefault(shard["node"], []).append(shard["shard"] + shard["prirep"])
    return {node: sorted(shards) for node, shards in table.items()}


def is_even(table: Mapping[str, Sequence[str]]) -> bool:
    """Whether no node holds two shards more than another."""
    held = [len(shards) for shards in table.values()]
    return max(held) - min(held) <= 1


async def settle(es: Any, index: str, copies: int) -> dict[str, list[str]]:
    """Waits until all shards of an index are started and none is on the move, and a minute more for an even spread.

    :param copies: shards times copies of each.
    :return: which node holds what; not evenly where Elasticsearch leaves it so.
    :raises esrally.exceptions.RallyAssertionError: when that is not so after ten minutes.
    """
    deadline = time.monotonic() + GREEN_SECONDS
    health: dict[str, Any] = {}
    settled = 0.0
    await check_disks(es)
    while time.monotonic() < deadline:
        health = await get(es, f"/_cluster/health/{index}")
        if health["status"] == "green" and not health["relocating_shards"]:
            table = await shard_table(es, index)
            settled = settled or time.monotonic()
            waited = time.monotonic() - settled >= EVEN_SECONDS
            if sum(map(len, table.values())) == copies and (is_even(table) or waited):
                return table
        await asyncio.sleep(0.2)
    raise exceptions.RallyAssertionError(
        f"index [{index}] is not green after {GREEN_SECONDS} s: {health.get('status')}, "
        f"{health.get('unassigned_shards')} shards unassigned, {health.get('relocating_shards')} on the move"
    )


class CheckGrid:
    """Holds the grid against the cluster before anything is loaded.

    Mandatory key: ``replicas`` (a list).

    :raises esrally.exceptions.RallyAssertionError: when there are too few data nodes for the replicas, or a disk is so
        full that Elasticsearch would move shards away; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")  # a sample needs one request in the timed section
        nodes, most = await data_nodes(es), max(params["replicas"])
        if most >= len(nodes):
            raise exceptions.RallyAssertionError(
                f"track parameter [capacity_replicas] asks for {most} replicas, which takes {most + 1} data nodes; the "
                f"target has {len(nodes)}"
            )
        await check_disks(es)
        return {"weight": 1, "unit": "ops"}

    def __repr__(self) -> str:
        return "capacity-check"


class BuildWords:
    """Loads the corpus into an index of one shard and splits that into the others of the grid.

    Splitting keeps documents and segments and takes seconds, where loading each index takes minutes.

    Mandatory keys: ``shards`` (a list), ``body`` of the index of one shard, ``documents_file``, ``documents``,
    ``queries`` (those whose hits are known), ``delete-foreign-index``. Returns ``documents`` and ``store_bytes``.

    :raises esrally.exceptions.RallyAssertionError: when documents were rejected, or documents or hits differ from
        the corpus; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")
        first, foreign = index_of(1), params["delete-foreign-index"]
        with aside(es):
            await _drop(es, [1, *params["shards"]], foreign)
            await request(es, "PUT", f"/{first}", params["body"])
            await self._load(es, first, params["documents_file"])
            await request(es, "POST", f"/{first}/_refresh")
            await request(es, "PUT", f"/{first}/_settings", {"index.blocks.write": True})
            for shards in params["shards"]:
                index = index_of(shards)
                if shards > 1:
                    settings = {"index.number_of_shards": shards, "index.number_of_replicas": 0}
                    await request(es, "POST", f"/{first}/_split/{index}", {"settings": settings})
                await settle(es, index, shards)
                await request(es, "POST", f"/{index}/_forcemerge?max_num_segments=1", timeout=7200)
                await request(es, "POST", f"/{index}/_refresh")
                await self._check(es, index, params)
            if 1 not in params["shards"]:
                await delete_own_index(es, first)
        stats = await get(es, f"/{index}/_stats/store?filter_path=_all.primaries.store.size_in_bytes")
        return {
            "weight": params["documents"],
            "unit": "docs",
            "documents": params["documents"],
            "store_bytes": stats["_all"]["primaries"]["store"]["size_in_bytes"],
        }

    async def _load(self, es: Any, index: str, documents_file: str) -> None:
        with open(documents_file, "rb") as f:
            while lines := list(itertools.islice(f, BULK_DOCUMENTS)):
                body = b"".join(b'{"index":{}}\n' + line for line in lines)
                with aside(es):  # responses of the context are undecoded from here on
                    counts = await send_bulk(es, index, body, len(lines))
                if counts.errors:
                    raise exceptions.RallyAssertionError(f"bulk to [{index}]: {counts.problem()}")

    async def _check(self, es: Any, index: str, params: dict[str, Any]) -> None:
        hits = load_answers(params["documents_file"])
        expected: list[tuple[dict[str, Any], int]] = [({"match_all": {}}, params["documents"])]
        expected += [({"match": {FIELDS[0]: query}}, n) for query, n in zip(params["queries"], hits)]
        for query, documents in expected:
            found = (await request(es, "POST", f"/{index}/_count", {"query": query}))["count"]
            if found != documents:
                raise exceptions.RallyAssertionError(
                    f"index [{index}] has {found:,} documents for {json.dumps(query)}, the corpus {documents:,}"
                )

    def __repr__(self) -> str:
        return "capacity-build"


class PrepareCell:
    """Brings the index to the cell's shards and replicas, and waits until they are started and evenly spread.

    For queries the number of replicas is changed on the index as it is; for indexing all indices of the grid are
    deleted and the cell's made anew.

    Mandatory keys: ``cell``, ``shards``, ``replicas``, ``rate``, ``pass``, ``all-shards``, ``body`` (None to keep the
    index), ``delete-foreign-index``. Returns ``cell``, ``shards``, ``replicas``, ``rate``, ``pass``, ``documents`` that
    the index holds and, as JSON text, ``shard_table``.

    :raises esrally.exceptions.RallyAssertionError: when that takes more than ten minutes, or a node has left since the
        first cell; this ends the race.
    """

    def __init__(self) -> None:
        self._nodes: list[str] = []

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")
        nodes = await data_nodes(es)
        if left := sorted(set(self._nodes) - set(nodes)):
            raise exceptions.RallyAssertionError(
                f"node {', '.join(left)} left the target before cell {params['cell']} of pass {params['pass']}; the "
                "cells before are in the metrics store, and the report marks the race as incomplete"
            )
        self._nodes = self._nodes or nodes
        shards, replicas, index = params["shards"], params["replicas"], index_of(params["shards"])
        with aside(es):
            if params["body"]:
                await _drop(es, params["all-shards"], params["delete-foreign-index"])
                await request(es, "PUT", f"/{index}", params["body"])
            else:
                settings = {"index.number_of_replicas": replicas, "index.blocks.write": False}
                await request(es, "PUT", f"/{index}/_settings", settings)
        table = await settle(es, index, shards * (1 + replicas))
        return {
            "weight": 1,
            "unit": "ops",
            **{key: params[key] for key in ("cell", "shards", "replicas", "rate", "pass")},
            "documents": (await get(es, f"/{index}/_count"))["count"],
            "shard_table": json.dumps(table),
        }

    def __repr__(self) -> str:
        return "capacity-prepare"


class DropWords:
    """Deletes the indices of the grid. Mandatory keys: ``shards``, ``delete-foreign-index``."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")
        with aside(es):
            await _drop(es, params["shards"], params["delete-foreign-index"])
        return {"weight": 1, "unit": "ops"}

    def __repr__(self) -> str:
        return "capacity-drop"


async def _drop(es: Any, shards: list[int], foreign: bool) -> None:
    for number in shards:
        await delete_own_index(es, index_of(number), foreign)


class QueryRunner:
    """One search by one client. The response is filtered to what is checked; the target still fetches the hits.

    Mandatory keys: ``cell``, ``pass``, ``path``, ``body``. Returns ``cell``, ``pass``, ``took`` and ``hits``.

    A search of which shards failed, or that timed out, counts as an error.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        response = await request(es, "POST", params["path"], params["body"])
        shards = response["_shards"]
        result = {
            "weight": 1,
            "unit": "ops",
            **{key: params[key] for key in ("cell", "pass")},
            "success": not shards["failed"] and not response["timed_out"],
            "took": response["took"],
            "hits": response["hits"]["total"]["value"],
        }
        if not result["success"]:
            result["error-type"] = "search"
            result["error-description"] = f"{shards['failed']} of {shards['total']} shards failed, or it timed out"
        return result

    def __repr__(self) -> str:
        return "capacity-query"


class IndexRunner:
    """Indexes one document by a request of its own, or several by ``_bulk``.

    Mandatory keys: ``cell``, ``pass``, ``index``, ``documents`` (lines of JSON). Returns ``cell``, ``pass`` and Rally's
    own keys; a document that a replica failed to take counts as an error.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        index, documents = params["index"], params["documents"]
        if len(documents) > 1:
            body = b"".join(b'{"index":{}}\n' + line for line in documents)
            counts = await send_bulk(es, index, body, len(documents))
            errors, what = counts.errors, counts.problem()
        else:
            once = es.options(max_retries=0)  # repeated by the transport, a document could be indexed twice
            response = await once.perform_request(
                method="POST",
                path=f"/{index}/_doc?filter_path=_shards",
                headers={"content-type": "application/json", "accept": "application/json"},
                body=documents[0],
            )
            errors = min(1, response.body["_shards"]["failed"])
            what = "a replica failed" if errors else ""
        result = {
            "weight": len(documents),
            "unit": "docs",
            **{key: params[key] for key in ("cell", "pass")},
            "success": not errors,
            "success-count": len(documents) - errors,
            "error-count": errors,
        }
        return result | ({"error-type": "bulk", "error-description": what} if errors else {})

    def __repr__(self) -> str:
        return "capacity-index"


class Monitor:
    """Looks at all nodes, and at Rally itself, once a second while a cell is under load.

    Returns as JSON text ``nodes``: per node, ``at`` (ms) by its clock, ``cpu_ms`` since its start, ``queue`` and
    ``rejected`` of the thread pools ``search`` and ``write``; ``client_cpu_ms`` of all of Rally's processes on this
    host since their start; ``host_busy_ms`` and ``host_idle_ms`` of all cores of this host since its start.

    Mandatory keys: ``cell``, ``pass``.
    """

    def __init__(self) -> None:
        self._rally: list[psutil.Process] = []

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        path = "/_nodes/stats/process,thread_pool"
        wanted = "name", "process.timestamp", "process.cpu.total_in_millis", "thread_pool.search", "thread_pool.write"
        stats = await request(es, "GET", f"{path}?filter_path={','.join(f'nodes.*.{w}' for w in wanted)}")
        nodes = {}
        for node in stats["nodes"].values():
            pools = [node["thread_pool"][pool] for pool in ("search", "write")]
            nodes[node["name"]] = {
                "at": node["process"]["timestamp"],
                "cpu_ms": node["process"]["cpu"]["total_in_millis"],
                "queue": sum(pool["queue"] for pool in pools),
                "rejected": sum(pool["rejected"] for pool in pools),
            }
        # looking for them takes tens of ms, in which other clients of this process stand still; they stay the same
        self._rally = self._rally or [psutil.Process(), *process.find_all_other_rally_processes()]
        host = psutil.cpu_times()
        idle = host.idle + getattr(host, "iowait", 0.0)
        result = {
            "weight": 1,
            "unit": "ops",
            "cell": params["cell"],
            "pass": params["pass"],
            "nodes": json.dumps(nodes),
            "client_cpu_ms": float(1000 * sum(map(_cpu_seconds, self._rally))),
            "host_busy_ms": float(1000 * (sum(host[:HOST_TIMES]) - idle)),
            "host_idle_ms": float(1000 * idle),
        }
        await asyncio.sleep(MONITOR_SECONDS)  # no pace of Rally's, which test mode takes away
        return result

    def __repr__(self) -> str:
        return "capacity-monitor"


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


class CapacityParams:
    """What the param sources of the capacity challenges share.

    :param track: the Rally track, after its track processor.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._track = track
        self._params = params
        self._client, self._clients = 0, 1
        self._corpus = corpus_in(track, NAME)
        self._document_set = next(c for c in track.corpora if c.name == NAME).documents[0]

    @property
    def _documents_file(self) -> str:
        return self._document_set.document_file

    def partition(self, partition_index: int, total_partitions: int) -> "CapacityParams":
        part = copy.copy(self)
        part._client, part._clients = partition_index, total_partitions
        return part


class BuildWordsParams(CapacityParams):
    """Mandatory keys: ``shards``, ``mapping``, ``delete-foreign-index``."""

    def params(self) -> dict[str, Any]:
        shards = self._params["shards"]
        return {
            "shards": shards,
            "body": index_body(self._track, self._params["mapping"], 1, 0, lcm(*shards)),
            "documents_file": self._documents_file,
            "documents": self._corpus.documents,
            "queries": self._corpus.queries(CHECKED_QUERIES),
            "delete-foreign-index": self._params["delete-foreign-index"],
        }


class PrepareCellParams(CapacityParams):
    """Mandatory keys: those of :class:`PrepareCell` less ``body``, and ``mapping``, ``anew`` (whether to make the
    index); the track processor adds ``pass``.
    """

    def params(self) -> dict[str, Any]:
        shards, replicas = self._params["shards"], self._params["replicas"]
        body = index_body(self._track, self._params["mapping"], shards, replicas, shards)
        return self._params | {"body": body if self._params["anew"] else None}


class QueryParams(CapacityParams):
    """The queries in turn, each client from a place of its own on. Mandatory keys: ``cell``, ``shards``,
    ``count-all-hits``; the track processor adds ``pass``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._queries: Iterator[str] | None = None

    def params(self) -> dict[str, Any]:
        if self._queries is None:
            texts = self._corpus.queries(QUERIES)
            first = self._client * QUERIES // self._clients
            self._queries = itertools.cycle(texts[first:] + texts[:first])
        body: dict[str, Any] = {"query": {"match": {FIELDS[0]: next(self._queries)}}}
        if self._params["count-all-hits"]:
            body["track_total_hits"] = True
        path = f"/{index_of(self._params['shards'])}/_search?filter_path=took,timed_out,_shards,hits.total"
        return {key: self._params[key] for key in ("cell", "pass")} | {"path": path, "body": body}


class DocumentParams(CapacityParams):
    """The documents in turn, each client those of a stretch of its own, again and again.

    Mandatory keys: ``cell``, ``shards``, ``bulk-size`` (1 for a request per document); the track processor adds
    ``pass``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._lines: Iterator[bytes] | None = None

    def params(self) -> dict[str, Any]:
        if self._lines is None:
            self._lines = self._stretch()
        documents = list(itertools.islice(self._lines, self._params["bulk-size"]))
        common = {key: self._params[key] for key in ("cell", "pass")}
        return common | {"index": index_of(self._params["shards"]), "documents": documents}

    def _stretch(self) -> Iterator[bytes]:
        size = os.path.getsize(self._documents_file)
        first, last = (size * client // self._clients for client in (self._client, self._client + 1))
        with open(self._documents_file, "rb") as f:
            while True:
                f.seek(max(0, first - 1))
                if first:
                    f.readline()  # the rest of a line that begins in the stretch before
                if f.tell() >= last:
                    f.seek(0)  # a stretch without the start of a line: more clients than documents
                while f.tell() < last:
                    yield f.readline()


class MonitorParams(CapacityParams):
    """Mandatory key: ``cell``; the track processor adds ``pass``."""

    def params(self) -> dict[str, Any]:
        return {key: self._params[key] for key in ("cell", "pass")}
