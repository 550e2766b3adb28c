"""Guards around the indices of this track: delete only what it created, and check what was loaded."""

import ipaddress
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import psutil
from esrally import exceptions
from esrally.driver import runner

from ..corpus.prepared import Prepared
from ..wire.bulk import load
from ..wire.requests import aside, get, guarding, request, touch
from .challenge import SCHEMA, Key, Operation, Sample, corpora
from .machine import jvm_flags, machine, revision
from .parameters import SHAPE
from .rounds import Guard, Params

MARK = "cluster-metrics track"
"""Value of ``_meta.created_by`` in the mapping of an index that this track created."""
OLDEST_ELASTICSEARCH = (8, 0)


def marks_of(values: Mapping[str, Any], corpus: Any, race: str) -> dict[str, Any]:
    """``_meta`` of the mapping of an index that a race creates and loads.

    :param values: the track parameters.
    :param corpus: that is loaded.
    :param race: what tells the race from all others.
    """
    names = (*(parameter.name for parameter in corpus.parameters.values()), *(p.name for p in SHAPE))
    return {"created_by": MARK, "race": race, "loaded": {name: values[name] for name in dict.fromkeys(names)}}


def index_body(track: Any, name: str) -> dict[str, Any]:
    """A copy of the body that ``track.json`` gives to an index."""
    return json.loads(json.dumps(next(index.body for index in track.indices if index.name == name)))


async def delete_own_index(es: Any, name: str, foreign: bool = False) -> int:
    """Deletes an index if it is there and carries the track's mark; returns how many were deleted.

    :param foreign: delete it without the mark, too.
    :raises esrally.exceptions.RallyAssertionError: when the index has no mark, or that cannot be seen, or it cannot be
        deleted; this ends the race.
    """
    import elasticsearch

    with guarding(f"index [{name}] cannot be deleted"):
        try:
            found = await request(es, "GET", f"/{name}/_mapping")
        except elasticsearch.NotFoundError:
            return 0
        for index, body in found.items():
            if index != name:
                raise exceptions.RallyAssertionError(
                    f"[{name}] is an alias of index [{index}], which will not be deleted; remove the alias yourself"
                )
            own = body["mappings"].get("_meta", {}).get("created_by") == MARK
            if not (own or foreign):
                raise exceptions.RallyAssertionError(
                    f"index [{index}] was not created by this track and will not be deleted; "
                    f"remove it yourself or set the track parameter [delete_foreign_index] to true"
                )
            await request(es, "DELETE", f"/{index}")
    return len(found)


async def create_own_index(es: Any, name: str, body: dict[str, Any], foreign: bool = False) -> None:
    """Creates an index, in the place of an earlier one, see :func:`delete_own_index`.

    :param body: with the track's mark.
    :raises esrally.exceptions.RallyAssertionError: when that fails; this ends the race.
    """
    await delete_own_index(es, name, foreign)
    with guarding(f"index [{name}] cannot be created"):
        await request(es, "PUT", f"/{name}", body)


async def target_nodes(es: Any) -> list[dict[str, Any]]:
    """Version, JVM with its flags, cores and heap of each node of the target, asked outside the timed section.

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
            "jvm_flags": jvm_flags(node["jvm"].get("input_arguments", ())),
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
        "machine": json.dumps(machine()),
        "revision": revision(),
    }


CIRCUMSTANCES = (
    Key("schema", "", "version of the samples of this race"),
    Key("local", "", "whether Rally connects to this machine alone"),
    Key("parameters", "", "all track parameters as resolved, and in Rally's test mode `test_mode`, as JSON text"),
    Key("target", "", "version, JVM with its flags, cores and heap of each node, as JSON text"),
    Key(
        "machine",
        "",
        "of the load driver: CPU model, cores, memory, disk, kernel, virtualisation, governor and load, as JSON text",
        optional=True,
    ),
    Key(
        "revision",
        "",
        "commit of the track, with a plus where its files were changed; empty where it is no clone",
        optional=True,
    ),
)


class Guarded(Guard):
    """One of Rally's own runners, whose failure ends the race: no task after it would find what it needs.

    :param of: class of the runner.
    """

    def __init__(self, of: Callable[[], Any]):
        self._runner = of()

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        result = await self._runner(es, params) or {"weight": 1, "unit": "ops"}
        if not result.get("success", True):
            raise exceptions.RallyAssertionError(f"{self._runner!r} did not succeed: {result}")
        return result

    def __repr__(self) -> str:
        return f"guarded {self._runner!r}"


class DeleteOwnIndex(Guard):
    """Deletes the index if it is there and carries the track's mark.

    Mandatory key: ``index``. Optional key: ``delete-foreign-index`` (default false) deletes it without the mark, too.

    :raises esrally.exceptions.RallyAssertionError: when the index has no mark; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        deleted = await delete_own_index(es, params["index"], params.get("delete-foreign-index", False))
        return {"weight": deleted, "unit": "ops"}


class Load(Guard):
    """Sends one bulk request of Rally's own reader, whose documents must all be taken.

    Mandatory keys, which Rally's param source of ``bulk`` gives: ``index``, ``body``, ``bulk-size``.

    :raises esrally.exceptions.RallyAssertionError: when a document was rejected, or no answer came; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        counts = await load(es, params["index"], params["body"], params["bulk-size"])
        taken = {"success-count": counts.acknowledged, "error-count": 0}
        return {"weight": counts.sent, "unit": "docs", "took": round(counts.took_ms)} | taken


class CheckIndex(Guard):
    """Holds an index against what this race created, or an earlier one loaded, and its numbers of documents against its
    corpus by ``_count``; records the circumstances.

    Mandatory keys: ``index``, ``marks`` (``_meta`` of its mapping as this race gives it), ``created`` (whether a task
    of this race creates it), ``counts`` (of :class:`..corpus.files.Count`) and ``parameters``.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old, the index is missing, another than
        this race created or loaded by other parameters, or a count differs; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        recorded = await circumstances(es, params["parameters"])
        index, counts = params["index"], params["counts"]
        docs = await self._count(es, index, {"match_all": {}})
        with aside(es):
            mapping = (await request(es, "GET", f"/{index}/_mapping")).get(index, {"mappings": {}})["mappings"]
        if problem := unlike(index, mapping.get("_meta", {}), params["marks"], params["created"]):
            raise exceptions.RallyAssertionError(problem)
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
        response = await request(es, "POST", f"/{index}/_count", {"query": query})
        if response["_shards"]["failed"]:
            raise exceptions.RallyAssertionError(f"_count on index [{index}] failed on some shards")
        return response["count"]


def unlike(index: str, found: Mapping[str, Any], marks: Mapping[str, Any], created: bool) -> str:
    """What makes an index another than this race is to ask; empty when nothing does.

    :param found: ``_meta`` of its mapping.
    :param marks: the same as this race gives it, see :func:`marks_of`.
    :param created: whether this race created it.
    """
    if found.get("created_by") != MARK:
        return f"index [{index}] was not created by this track; run the tasks tagged setup first"
    if created and found.get("race") != marks["race"]:
        return f"index [{index}] is not the one that this race created, but one of race [{found.get('race')}]"
    loaded = found.get("loaded", {})
    for name, value in marks["loaded"].items():
        if loaded.get(name) != value:
            return (
                f"index [{index}] was loaded with {name} [{loaded.get(name)}], this race has [{value}]; run the tasks "
                "tagged setup, too, or race with the parameters that it was loaded with"
            )
    return ""


class CheckIndexParams(Params):
    """Param source of check-index: the numbers of documents that the index of a corpus must have.

    Mandatory keys of the operation: ``index``, ``corpus``, and ``created``, which the track processor adds. Optional
    key: ``partial`` (default false) for an index with a part of the corpus, whose numbers are not checked.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, corpora()[params["corpus"]])

    def params(self) -> dict[str, Any]:
        counts = [] if self.operation.get("partial") else self._prepared.counts(self.values)
        index = self.operation["index"]
        return {
            "parameters": self.values,
            "index": index,
            "marks": index_body(self.track, index)["mappings"]["_meta"],
            "created": self.operation["created"],
            "counts": counts,
        }


class CheckTarget(Guard):
    """Records the circumstances of a race, where no index is loaded before.

    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch is too old; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        return {"weight": 1, "unit": "ops"} | await circumstances(es, params["parameters"])


DELETE = Operation("delete-own-index", DeleteOwnIndex)
MERGING = (
    Operation("refresh", partial(Guarded, runner.Refresh)),
    Operation("force-merge", partial(Guarded, runner.ForceMerge)),
    Operation("index-stats", partial(Guarded, lambda: runner.Retry(runner.IndicesStats()))),
)
"""The tasks after a load. Types that Rally knows keep their names, so that its param sources serve them."""
SETUP = (
    DELETE,
    Operation("create-index", partial(Guarded, runner.CreateIndex), creates=True),
    Operation("cluster-health", partial(Guarded, runner.ClusterHealth)),
    *MERGING,
)
"""The tasks around a load."""
BULK = Operation("bulk", Load)
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
