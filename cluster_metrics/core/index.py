"""Guards around the indices of this track: delete only what it created, and check what was loaded."""

import ipaddress
import json
import socket
from collections.abc import Iterable
from typing import Any

import psutil
from esrally import exceptions

from ..corpus.prepared import Prepared
from ..wire.requests import get, request, touch
from .challenge import SCHEMA, Key, Operation, Sample, corpora
from .rounds import Params, Runner

MARK = "cluster-metrics track"
"""Value of ``_meta.created_by`` in the mapping of an index that this track created."""
OLDEST_ELASTICSEARCH = (8, 0)


def index_body(track: Any, name: str) -> dict[str, Any]:
    """A copy of the body that ``track.json`` gives to an index."""
    return json.loads(json.dumps(next(index.body for index in track.indices if index.name == name)))


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


def is_local(hosts: Iterable[str]) -> bool:
    """Whether all these hosts are this machine, reached over loopback or by an address of its own."""
    own = {address.address for of in psutil.net_if_addrs().values() for address in of}
    try:
        found = [str(entry[4][0]) for host in hosts for entry in socket.getaddrinfo(host, None)]
        return all(address in own or ipaddress.ip_address(address).is_loopback for address in found)
    except socket.gaierror:
        return False


async def circumstances(es: Any, values: Any) -> dict[str, Any]:
    """What a race records of itself and its target, see ``CIRCUMSTANCES``.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old; this ends the race.
    """
    return {
        "schema": SCHEMA,
        "local": is_local(node.config.host for node in es.transport.node_pool.all()),
        "parameters": json.dumps(values),
        "target": json.dumps(await target_nodes(es)),
    }


CIRCUMSTANCES = (
    Key("schema", "", "version of the samples of this race"),
    Key("local", "", "whether Rally connects to this machine alone"),
    Key("parameters", "", "all track parameters as resolved, as JSON text"),
    Key("target", "", "version, JVM, cores and heap of each node, as JSON text"),
)


class DeleteOwnIndex(Runner):
    """Deletes the index if it is there and carries the track's mark.

    Mandatory key: ``index``. Optional key: ``delete-foreign-index`` (default false) deletes it without the mark, too.

    :raises esrally.exceptions.RallyAssertionError: when the index has no mark; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        deleted = await delete_own_index(es, params["index"], params.get("delete-foreign-index", False))
        return {"weight": deleted, "unit": "ops"}


class CheckIndex(Runner):
    """Holds numbers of documents of an index against its corpus by ``_count``, and records the circumstances.

    Mandatory keys: ``index``, ``counts`` (of :class:`..corpus.files.Count`) and ``parameters``.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old, the index is missing or a count
        differs; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        recorded = await circumstances(es, params["parameters"])
        index, counts = params["index"], params["counts"]
        docs = await self._count(es, index, {"match_all": {}})
        for count in counts:
            if (found := await self._count(es, index, count.query)) != count.documents:
                by = "" if count.what else f": {found - count.documents:+,}"
                raise exceptions.RallyAssertionError(
                    f"index [{index}] has {found:,} documents{count.what} but the corpus {count.documents:,}{by}"
                )
        primaries = (await get(es, f"/{index}/_stats/segments,store"))["_all"]["primaries"]
        return {
            "weight": 1 + len(counts),
            "unit": "counts",
            "docs": docs,
            "segments": primaries["segments"]["count"],
            "store_bytes": primaries["store"]["size_in_bytes"],
            **recorded,
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


class CheckIndexParams(Params):
    """Param source of check-index: the numbers of documents that the index of a corpus must have.

    Mandatory keys of the operation: ``index``, ``corpus``. Optional key: ``partial`` (default false) for an index with
    a part of the corpus, whose numbers are not checked.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, corpora()[params["corpus"]])

    def params(self) -> dict[str, Any]:
        counts = [] if self.operation.get("partial") else self._prepared.counts(self.values)
        return {"parameters": self.values, "index": self.operation["index"], "counts": counts}


class CheckTarget(Runner):
    """Records the circumstances of a race, where no index is loaded before.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        return {"weight": 1, "unit": "ops"} | await circumstances(es, params["parameters"])


DELETE = Operation("delete-own-index", DeleteOwnIndex)
CHECK_INDEX = Operation(
    "check-index",
    CheckIndex,
    CheckIndexParams,
    samples=(
        Sample(
            "check-index",
            "race",
            (
                Key("docs", "documents", "documents of the index"),
                Key("segments", "segments", "segments of its primary shards"),
                Key("store_bytes", "bytes", "size of these"),
                *CIRCUMSTANCES,
            ),
        ),
    ),
)
CHECK_TARGET = Operation("check-target", CheckTarget, samples=(Sample("check-target", "race", CIRCUMSTANCES),))
CHECKS = tuple(sample.type for operation in (CHECK_INDEX, CHECK_TARGET) for sample in operation.samples)
"""Types of the samples that tell the circumstances of a race."""
