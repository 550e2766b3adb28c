"""The indices of the capacity challenges: from the corpus to the shards and replicas of a cell."""

import asyncio
import copy
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm
from typing import Any

from esrally import exceptions

from ..core.challenge import Values
from ..core.index import create_own_index, delete_own_index, unlike
from ..core.index import index_body as body_of
from ..core.rounds import Guard, Params
from ..corpus.prepared import Prepared
from ..wire.bulk import load_all, with_actions
from ..wire.requests import aside, get, request, touch
from .words import FIELDS, Words

BULK_DOCUMENTS = 1000
LOADERS = 4
"""Bulk requests on their way at once while the corpus is loaded."""
INDEX = "cluster-metrics-words"
"""Begin of the names of indices, and the name of their body in ``track.json``."""
GREEN_SECONDS = 600
PLACED_SECONDS = 60
WATERMARK = 0.9
"""Share of a disk in use above which Elasticsearch moves shards away (its high watermark's default)."""


def index_of(shards: int | str) -> str:
    """The index of the grid with so many shards; ``*`` stands for any number."""
    return f"{INDEX}-{shards}"


def index_body(track: Any, analyzer: str, shards: int, replicas: int, routing_shards: int) -> dict[str, Any]:
    """The body of ``index-words.json`` with this analyzer for both fields, and these shards."""
    body = body_of(track, INDEX)
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


async def check_nodes(es: Any, wanted: Sequence[str]) -> None:
    """Whether all these nodes, which hold data, are still there.

    :raises esrally.exceptions.RallyAssertionError: naming those that have left; this ends the race.
    """
    if left := sorted(set(wanted) - set(await data_nodes(es))):
        raise exceptions.RallyAssertionError(
            f"node {', '.join(left)} left the target; the cells raced before are in the metrics store, and "
            "'make report' marks the race as incomplete"
        )


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


async def settle(
    es: Any,
    index: str,
    copies: int,
    nodes: Sequence[str],
    placed: Callable[[Mapping[str, Sequence[str]]], bool] = is_even,
) -> dict[str, list[str]]:
    """Waits until all shards of an index are started and none is on the move, and a minute more for their places.

    :param copies: shards times copies of each.
    :param nodes: that hold data, and have to stay.
    :param placed: whether shards are where they should be; default is evenly spread.
    :return: which node holds what; not as they should where Elasticsearch leaves it so.
    :raises esrally.exceptions.RallyAssertionError: when that is not so after ten minutes, or one of the nodes has left.
    """
    deadline = time.monotonic() + GREEN_SECONDS
    health: dict[str, Any] = {}
    settled = 0.0
    await check_disks(es)
    while time.monotonic() < deadline:
        await check_nodes(es, nodes)
        health = await get(es, f"/_cluster/health/{index}")
        if health["status"] == "green" and not health["relocating_shards"]:
            table = await shard_table(es, index)
            settled = settled or time.monotonic()
            waited = time.monotonic() - settled >= PLACED_SECONDS
            if sum(map(len, table.values())) == copies and (placed(table) or waited):
                return table
        await asyncio.sleep(0.2)
    raise exceptions.RallyAssertionError(
        f"index [{index}] is not green after {GREEN_SECONDS} s: {health.get('status')}, "
        f"{health.get('unassigned_shards')} shards unassigned, {health.get('relocating_shards')} on the move"
    )


class CheckGrid(Guard):
    """Holds the grid against the cluster before anything is loaded. Track parameter: ``capacity_replicas``.

    :raises esrally.exceptions.RallyAssertionError: when there are too few data nodes for the replicas, or a disk is so
        full that Elasticsearch would move shards away; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        nodes, most = await data_nodes(es), max(params["parameters"]["capacity_replicas"])
        if most >= len(nodes):
            raise exceptions.RallyAssertionError(
                f"track parameter [capacity_replicas] asks for {most} replicas, which takes {most + 1} data nodes; the "
                f"target has {len(nodes)}: race without HOSTS, or with capacity_replicas of {len(nodes) - 1} at most"
            )
        await check_disks(es)
        return {}


class BuildWords(Guard):
    """Loads the corpus into the index of most shards, so that all nodes take part, and makes the others of the grid
    from that: it is shrunk to one shard, and this split into the others, which keeps documents and takes no analysis.

    With ``keep_words`` nothing is loaded where the indices stand as another race with these parameters left them.

    Mandatory keys: ``parameters``, ``body`` of the index of most shards, ``documents_file``, ``documents``, ``counts``
    (of :class:`..corpus.files.Count`).

    :raises esrally.exceptions.RallyAssertionError: when documents were rejected, or documents or hits differ from
        the corpus; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        grid = params["parameters"]["capacity_shards"]
        source, load_s = index_of(max(grid)), 0.0
        with aside(es):
            kept = params["parameters"]["keep_words"]
            if not (kept and all([await self._stands(es, shards, params) for shards in grid])):
                load_s = await self._build(es, params)
        stats = await get(es, f"/{source}/_stats/store?filter_path=_all.primaries.store.size_in_bytes")
        return {
            "weight": params["documents"],
            "unit": "docs",
            "documents": params["documents"],
            "store_bytes": stats["_all"]["primaries"]["store"]["size_in_bytes"],
            "load_s": load_s,
        }

    async def _stands(self, es: Any, shards: int, params: dict[str, Any]) -> bool:
        """Whether the index of so many shards is there as these parameters make it, merged and with all documents."""
        import elasticsearch

        index, body = index_of(shards), params["body"]
        try:
            found = (await request(es, "GET", f"/{index}"))[index]
        except elasticsearch.NotFoundError:
            return False
        stats = await request(es, "GET", f"/{index}/_stats/segments")
        mapping, wanted = found["mappings"], body["mappings"]
        fields = [of.get("properties", {}).get(field, {}) for of in (mapping, wanted) for field in FIELDS]
        return (
            not unlike(index, mapping.get("_meta", {}), wanted["_meta"], created=False)
            and len({field.get("analyzer") for field in fields}) == 1
            and found["settings"]["index"]["number_of_shards"] == str(shards)
            and stats["_all"]["primaries"]["segments"]["count"] == shards
            and not await self._miscount(es, index, params)
        )

    async def _build(self, es: Any, params: dict[str, Any]) -> float:
        """Makes the indices of the grid; returns the seconds that the one of most shards took to load."""
        grid = params["parameters"]["capacity_shards"]
        first, source, nodes = index_of(1), index_of(max(grid)), await data_nodes(es)
        await _drop(es, [1, *grid], params["parameters"])
        await create_own_index(es, source, params["body"])
        started = time.perf_counter()
        await load_all(es, source, self._bodies(params["documents_file"]), LOADERS)
        load_s = time.perf_counter() - started
        await request(es, "POST", f"/{source}/_refresh")
        await request(es, "PUT", f"/{source}/_settings", {"index.blocks.write": True})
        if set(grid) > {max(grid)}:
            await self._shrink(es, source, first, max(grid), nodes)
        for shards in grid:
            index = index_of(shards)
            if index not in (first, source):
                settings = {"index.number_of_shards": shards, "index.number_of_replicas": 0}
                await request(es, "POST", f"/{first}/_split/{index}", {"settings": settings})
            await settle(es, index, shards, nodes)
        if 1 not in grid:
            await delete_own_index(es, first)
        await asyncio.gather(*(self._finish(es, index_of(shards), params) for shards in grid))
        return load_s

    def _bodies(self, documents_file: str) -> Iterator[tuple[bytes, int]]:
        with open(documents_file, "rb") as f:
            while lines := list(itertools.islice(f, BULK_DOCUMENTS)):
                yield with_actions(lines), len(lines)

    async def _shrink(self, es: Any, source: str, first: str, shards: int, nodes: Sequence[str]) -> None:
        """Makes the index of one shard, for which one node must hold all that it is made from."""
        node = nodes[0]
        place = "index.routing.allocation.require._name"
        await request(es, "PUT", f"/{source}/_settings", {place: node})
        await settle(es, source, shards, nodes, lambda table: len(table[node]) == shards)
        settings = {"index.number_of_shards": 1, "index.number_of_replicas": 0, place: None}
        await request(es, "POST", f"/{source}/_shrink/{first}", {"settings": settings})
        await settle(es, first, 1, nodes)
        await request(es, "PUT", f"/{source}/_settings", {place: None})

    async def _finish(self, es: Any, index: str, params: dict[str, Any]) -> None:
        """Merges an index to one segment per shard and holds its documents and hits against the corpus."""
        await request(es, "POST", f"/{index}/_forcemerge?max_num_segments=1", timeout=7200)
        await request(es, "POST", f"/{index}/_refresh")
        if problem := await self._miscount(es, index, params):
            raise exceptions.RallyAssertionError(problem)

    async def _miscount(self, es: Any, index: str, params: dict[str, Any]) -> str:
        """How an index differs from the corpus; empty when it does not."""
        for count in params["counts"]:
            found = (await request(es, "POST", f"/{index}/_count", {"query": count.query}))["count"]
            if found != count.documents:
                return f"index [{index}] has {found:,} documents{count.what}, the corpus {count.documents:,}"
        return ""


class PrepareCell(Guard):
    """Brings the index to the cell's shards and replicas, and waits until they are started and evenly spread.

    For queries the number of replicas is changed on the index as it is; for indexing all indices of the grid are
    deleted and the cell's made anew.

    Mandatory keys: ``cell``, ``shards``, ``replicas``, ``rate``, ``pass``, ``parameters``, ``body`` (None to keep the
    index).

    :raises esrally.exceptions.RallyAssertionError: when that takes more than ten minutes, or a node has left since the
        first cell; this ends the race.
    """

    def __init__(self) -> None:
        self._nodes: list[str] = []

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        self._nodes = self._nodes or await data_nodes(es)
        await check_nodes(es, self._nodes)
        shards, replicas, index = params["shards"], params["replicas"], index_of(params["shards"])
        with aside(es):
            if params["body"]:
                await _drop(es, params["parameters"]["capacity_shards"], params["parameters"])
                await create_own_index(es, index, params["body"])
            else:
                settings = {"index.number_of_replicas": replicas, "index.blocks.write": False}
                await request(es, "PUT", f"/{index}/_settings", settings)
        table = await settle(es, index, shards * (1 + replicas), self._nodes)
        return {
            **{key: params[key] for key in ("cell", "shards", "replicas", "rate", "pass")},
            "documents": (await get(es, f"/{index}/_count"))["count"],
            "shard_table": json.dumps(table),
        }


class DropWords(Guard):
    """Deletes the indices of the grid. Track parameters: ``capacity_shards``, ``delete_foreign_index``.

    Mandatory key: ``keep`` (leave them).
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        values = params["parameters"]
        with aside(es):
            if not params["keep"]:
                await _drop(es, values["capacity_shards"], values)
        return {}


async def _drop(es: Any, shards: list[int], values: Values) -> None:
    for number in shards:
        await delete_own_index(es, index_of(number), values["delete_foreign_index"])


class CapacityParams(Params):
    """What the param sources of the capacity challenges share: the corpus, and which client of how many this is."""

    client, clients = 0, 1

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, Words)

    def partition(self, partition_index: int, total_partitions: int) -> "CapacityParams":
        part = copy.copy(self)
        part.client, part.clients = partition_index, total_partitions
        return part


class BuildWordsParams(CapacityParams):
    """Track parameters: ``capacity_shards``, ``words_mapping``, ``delete_foreign_index``."""

    def params(self) -> dict[str, Any]:
        shards = self.values["capacity_shards"]
        return {
            "parameters": self.values,
            "body": index_body(self.track, self.values["words_mapping"], max(shards), 0, lcm(*shards)),
            "documents_file": self._prepared.file(),
            "documents": self._prepared.corpus.documents,
            "counts": self._prepared.counts(self.values),
        }


class PrepareCellParams(CapacityParams):
    """Mandatory keys: ``cell``, ``shards``, ``replicas``, ``rate`` (documents/s indexed meanwhile, 0 for none) and
    ``anew`` (whether to make the index). Track parameters as for :class:`BuildWordsParams`.
    """

    def params(self) -> dict[str, Any]:
        shards, replicas = self.operation["shards"], self.operation["replicas"]
        body = index_body(self.track, self.values["words_mapping"], shards, replicas, shards)
        return self.operation | {"body": body if self.operation["anew"] else None}
