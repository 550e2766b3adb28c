"""Runners around the index: delete only what the track created, and check what was loaded."""

import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil
from esrally import exceptions

from .corpus import NAME
from .coverage import Coverages
from .requests import get, request

MARK = "cluster-metrics track"
"""Value of ``_meta.created_by`` in the mapping of an index that this track created."""
OLDEST_ELASTICSEARCH = (8, 0)
CHECKS = ("check-index", "check-target")
"""Operation types of tasks that record parameters and target; the track processor gives them the parameters."""


async def delete_own_index(es: Any, name: str, foreign: bool = False) -> int:
    """Deletes an index if it is there and carries the track's mark; returns how many were deleted.

    :param foreign: delete it without the mark, too.
    :raises esrally.exceptions.RallyAssertionError: when the index has no mark.
    """
    import elasticsearch

    try:
        found = await request(es, "GET", f"/{name}/_mapping")
    except elasticsearch.NotFoundError:
        return 0
    for index, body in found.items():
        own = body["mappings"].get("_meta", {}).get("created_by") == MARK
        if index != name or not (own or foreign):
            raise exceptions.RallyAssertionError(
                f"index [{index}] was not created by this track and will not be deleted; "
                f"remove it yourself or set the track parameter [delete_foreign_index] to true"
            )
        await request(es, "DELETE", f"/{index}")
    return len(found)


async def target_nodes(es: Any) -> list[dict[str, Any]]:
    """Version, JVM, cores and heap of each node of the target, asked outside the timed section.

    Where the node has these attributes, ``cpu_cores`` is the share of the CPU that it is held to, in cores, and
    ``cpu_held_by`` what holds it.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old; this ends the race.
    """
    nodes = (await get(es, "/_nodes/jvm,os"))["nodes"].values()
    for node in nodes:
        if tuple(map(int, node["version"].split(".")[:2])) < OLDEST_ELASTICSEARCH:
            raise exceptions.RallyAssertionError(
                f"Elasticsearch {node['version']} is too old, this track needs {OLDEST_ELASTICSEARCH[0]}.0 or newer"
            )
    return [
        {
            "node": node["name"],
            "version": node["version"],
            "jvm": f"{node['jvm']['vm_name']} {node['jvm']['vm_version']}",
            "cores": node["os"]["allocated_processors"],
            "heap_mb": node["jvm"]["mem"]["heap_max_in_bytes"] >> 20,
            **{key: node["attributes"][key] for key in ("cpu_cores", "cpu_held_by") if key in node["attributes"]},
        }
        for node in nodes
    ]


class DeleteOwnIndex:
    """Deletes the index if it is there and carries the track's mark.

    Mandatory key: ``index``. Optional key: ``delete-foreign-index`` (default false) deletes it without the mark, too.

    :raises esrally.exceptions.RallyAssertionError: when the index has no mark; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        deleted = await delete_own_index(es, params["index"], params.get("delete-foreign-index", False))
        return {"weight": deleted, "unit": "ops"}

    def __repr__(self) -> str:
        return "delete-own-index"


@dataclass(frozen=True)
class IndexCheck:
    """A number of documents that is known.

    :param what: which ones, as it follows the word documents in a message; empty for all.
    :param query: that selects them.
    :param documents: how many there must be.
    """

    what: str
    query: dict[str, Any]
    documents: int


def is_local(hosts: Iterable[str]) -> bool:
    """Whether all these hosts are this machine, reached over loopback or by an address of its own."""
    own = {address.address for of in psutil.net_if_addrs().values() for address in of}
    try:
        found = [str(entry[4][0]) for host in hosts for entry in socket.getaddrinfo(host, None)]
        return all(address in own or ipaddress.ip_address(address).is_loopback for address in found)
    except socket.gaierror:
        return False


class CheckIndex:
    """Holds numbers of documents of an index against its corpus by ``_count``.

    Mandatory keys: ``index``, ``checks`` (of :class:`IndexCheck`) and ``parameters``.

    Returns ``docs``, ``segments``, ``store_bytes`` of the primary shards, ``local`` (whether Rally connects to this
    machine alone) and, as JSON text, ``parameters`` (all track parameters as resolved) and ``target`` (version, JVM,
    cores and heap of each node).

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old, the index is missing or a count
        differs; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        target = await target_nodes(es)
        index, checks = params["index"], params["checks"]
        docs = await self._count(es, index, {"match_all": {}})
        for check in checks:
            if (found := await self._count(es, index, check.query)) != check.documents:
                by = "" if check.what else f": {found - check.documents:+,}"
                raise exceptions.RallyAssertionError(
                    f"index [{index}] has {found:,} documents{check.what} but the corpus {check.documents:,}{by}"
                )
        stats = await get(es, f"/{index}/_stats/segments,store")
        primaries = stats["_all"]["primaries"]
        return {
            "weight": 1 + len(checks),
            "unit": "counts",
            "docs": docs,
            "segments": primaries["segments"]["count"],
            "store_bytes": primaries["store"]["size_in_bytes"],
            "local": is_local(node.config.host for node in es.transport.node_pool.all()),
            "parameters": params["parameters"],
            "target": json.dumps(target),
        }

    async def _count(self, es: Any, index: str, query: dict[str, Any]) -> int:
        import elasticsearch

        try:
            response = await request(es, "POST", f"/{index}/_count", {"query": query})
        except elasticsearch.NotFoundError:
            raise exceptions.RallyAssertionError(
                f"index [{index}] is missing; run the tasks tagged setup first"
            ) from None
        if response["_shards"]["failed"]:
            raise exceptions.RallyAssertionError(f"_count on index [{index}] failed on some shards")
        return response["count"]

    def __repr__(self) -> str:
        return "check-index"


class CheckIndexParams:
    """Param source of check-index: the exact number of documents per epoch and node, and all parameters.

    Optional key of the operation: ``partial`` (default false) for an index with a part of the corpus, whose numbers are
    not checked.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._parameters = json.dumps(params["parameters"])
        self._partial = params.get("partial", False)
        self._coverages = Coverages(track, 0)

    def partition(self, partition_index: int, total_partitions: int) -> "CheckIndexParams":
        return self

    def params(self) -> dict[str, Any]:
        # Rally makes param sources before the corpus is prepared, so the answers are read no sooner than here
        expected = {
            epoch: {node: fields["cpu"]["count"] for node, fields in self._coverages.answers(epoch).items()}
            for epoch in range(1, self._coverages.corpus.epochs + 1)
            if not self._partial
        }
        total = sum(n for nodes in expected.values() for n in nodes.values())
        checks = [IndexCheck("", {"match_all": {}}, total)] if expected else []
        for epoch, nodes in expected.items():
            for node, count in nodes.items():
                query = {"bool": {"filter": [{"term": {"node": node}}, {"term": {"epoch": epoch}}]}}
                checks.append(IndexCheck(f" of node {node} in epoch {epoch}", query, count))
        return {"parameters": self._parameters, "index": NAME, "checks": checks}


class CheckTarget:
    """Records what is raced against, where no index is loaded before.

    Returns ``local``, ``parameters`` and ``target`` as :class:`CheckIndex` does.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")  # a sample needs one request in the timed section
        return {
            "weight": 1,
            "unit": "ops",
            "local": is_local(node.config.host for node in es.transport.node_pool.all()),
            "parameters": json.dumps(params["parameters"]),
            "target": json.dumps(await target_nodes(es)),
        }

    def __repr__(self) -> str:
        return "check-target"
