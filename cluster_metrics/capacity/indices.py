"""The indices of the capacity challenges: from the corpus to the shards and replicas of a cell."""

import asyncio
import copy
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import Any, NamedTuple

from esrally import exceptions

from ..core.challenge import Values
from ..core.index import create_own_index, delete_own_index, unlike
from ..core.index import index_body as body_of
from ..core.rounds import Guard, Params, outcome, round_result, timed
from ..corpus.prepared import Prepared
from ..wire.bulk import load_all, with_actions
from ..wire.hosts import node_names, some
from ..wire.requests import all_shards, aside, get, request, touch
from .nodes import check_nodes, data_nodes, hold, settle
from .words import FIELDS, Words

BULK_DOCUMENTS = 1000
LOADERS = 4
"""Bulk requests on their way at once while the corpus is loaded."""
INDEX = "cluster-metrics-words"
"""Begin of the names of indices, and the name of their body in ``track.json``."""
PREPARE = "capacity-prepare"
"""``operation-type`` of what is noted of a cell before a pass."""
WITHIN = "index.routing.allocation.include._name"
"""Setting of an index that names the nodes which may hold its shards."""


class Shape(NamedTuple):
    """What an index of the grid is to be.

    :param shards: primary ones.
    :param replicas: of each.
    :param nodes: that hold them; 0 for all that hold data.
    :param first: the place of the first of these among the hosts, in order of address.
    """

    shards: int
    replicas: int
    nodes: int = 0
    first: int = 0

    @property
    def copies(self) -> int:
        """Of all its shards."""
        return self.shards * (1 + self.replicas)

    def within(self, hosts: Sequence[str]) -> list[str]:
        """The names of the nodes that hold them; none where all do.

        :param hosts: the names of the nodes behind the hosts.
        """
        return some(hosts, self.first, self.nodes) if self.nodes else []


def index_of(place: str) -> str:
    """The index of a place of the grid, such as ``2s-1r``; ``*`` stands for all that a race makes."""
    return f"{INDEX}-{place}"


def base_of(shards: int) -> str:
    """The index without replicas that those with so many shards are cloned from."""
    return index_of(f"base-{shards}")


def index_body(track: Any, values: Values, shards: int, replicas: int) -> dict[str, Any]:
    """The body of ``index-words.json`` with these shards; what is made of an index inherits its settings.

    Track parameters: ``words_mapping`` (analyzer of both fields) and ``refresh_interval``.
    """
    body = body_of(track, INDEX)
    for field in FIELDS:
        body["mappings"]["properties"][field]["analyzer"] = values["words_mapping"]
    if (refreshed := values["refresh_interval"]) != "default":
        body["settings"]["index.refresh_interval"] = refreshed
    body["settings"] |= {
        "index.number_of_shards": shards,
        "index.number_of_replicas": replicas,
        "index.number_of_routing_shards": shards,
    }
    return body


class BuildWords(Guard):
    """Loads the corpus into an index of as many shards as there are data nodes or more, so that all take part, and
    makes all others from that: it is shrunk to one shard, this is split into the other numbers, and of each the indices
    of the grid are clones with replicas, which share its files. So documents are analysed once.

    Mandatory keys: ``parameters``, ``body`` (of an index of one shard), ``documents_file``, ``documents``, ``counts``,
    and ``indices``: by the place of each in the grid its :class:`Shape`. With the track parameter ``keep_words``
    indices that stand as these parameters make them are taken as they are, and those that do not stand are cloned from
    them where that is enough.

    :raises esrally.exceptions.RallyAssertionError: when an index is not as it should be; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        indices, values, load_s = params["indices"], params["parameters"], 0.0
        with aside(es):
            nodes, hosts = await data_nodes(es), await _hosts(es, indices.values())
            stand = [
                place for place in indices if values["keep_words"] and await self._stands(es, place, params, hosts)
            ]
            missing = {place: shape for place, shape in indices.items() if place not in stand}
            sources = {indices[place].shards: index_of(place) for place in stand}
            if any(shape.shards not in sources for shape in missing.values()):
                missing = indices
                sources, load_s = await self._load(es, params, nodes)
            else:
                for place in missing:
                    await delete_own_index(es, index_of(place), values["delete_foreign_index"])
            await self._clone(es, missing, sources, nodes, hosts)
            await _drop(es, values, "base-*")
            for place, shape in missing.items():
                await settle(es, index_of(place), shape.copies, nodes, within=shape.within(hosts))
                if problem := await self._miscount(es, index_of(place), params):
                    raise exceptions.RallyAssertionError(problem)
        largest = index_of(max(indices, key=lambda place: indices[place]))
        stats = await get(es, f"/{largest}/_stats/store?filter_path=_all.primaries.store.size_in_bytes")
        return {
            "weight": params["documents"],
            "unit": "docs",
            "documents": params["documents"],
            "store_bytes": stats["_all"]["primaries"]["store"]["size_in_bytes"],
            "load_s": load_s,
        }

    async def _stands(self, es: Any, place: str, params: dict[str, Any], hosts: Sequence[str]) -> bool:
        """Whether an index is there as these parameters make it, merged and with all documents.

        :param hosts: see :func:`_hosts`.
        """
        import elasticsearch

        index, body, shape = index_of(place), params["body"], params["indices"][place]
        try:
            found = (await request(es, "GET", f"/{index}"))[index]
        except elasticsearch.NotFoundError:
            return False
        stats = await request(es, "GET", f"/{index}/_stats/segments")
        mapping, wanted, settings = found["mappings"], body["mappings"], found["settings"]["index"]
        fields = [of.get("properties", {}).get(field, {}) for of in (mapping, wanted) for field in FIELDS]
        included = settings.get("routing", {}).get("allocation", {}).get("include", {})
        return (
            not unlike(index, mapping.get("_meta", {}), wanted["_meta"], created=False)
            and len({field.get("analyzer") for field in fields}) == 1
            and (settings["number_of_shards"], settings["number_of_replicas"])
            == (str(shape.shards), str(shape.replicas))
            and (included.get("_name") or "") == ",".join(shape.within(hosts))  # a clone keeps it as null
            and settings.get("refresh_interval") == body["settings"].get("index.refresh_interval")
            and stats["_all"]["primaries"]["segments"]["count"] == shape.shards
            and not await self._miscount(es, index, params)
        )

    async def _load(self, es: Any, params: dict[str, Any], nodes: list[str]) -> tuple[dict[int, str], float]:
        """Makes an index of each number of shards without replicas, merged; returns these by that number, and the
        seconds that the one of most shards took to load."""
        numbers = {shape.shards for shape in params["indices"].values()}
        most = max(*numbers, len(nodes))
        first, source, bases = base_of(1), base_of(most), {shards: base_of(shards) for shards in numbers}
        await _drop(es, params["parameters"])
        settings = {"index.number_of_shards": most, "index.number_of_routing_shards": lcm(most, *numbers)}
        await create_own_index(es, source, params["body"] | {"settings": params["body"]["settings"] | settings})
        started = time.perf_counter()
        await load_all(es, source, self._bodies(params["documents_file"]), LOADERS)
        load_s = time.perf_counter() - started
        await request(es, "PUT", f"/{source}/_settings", {"index.blocks.write": True})
        # or a shard that moves has its last documents analysed once more
        all_shards(source, await request(es, "POST", f"/{source}/_flush"), "flushed")
        if numbers != {most}:
            await self._shrink(es, source, first, most, nodes)
        for shards, base in bases.items():
            if base not in (first, source):
                settings = {"index.number_of_shards": shards, "index.number_of_replicas": 0}
                await request(es, "POST", f"/{first}/_split/{base}", {"settings": settings})
            await settle(es, base, shards, nodes)
        await asyncio.gather(*(self._finish(es, base) for base in bases.values()))
        return bases, load_s

    async def _clone(
        self, es: Any, shapes: Mapping[str, Shape], sources: Mapping[int, str], nodes: list[str], hosts: Sequence[str]
    ) -> None:
        """Makes indices from others, which no longer need to be there then, and take no writes meanwhile.

        :param shapes: of the indices, by their places.
        :param sources: the others, by their number of shards.
        :param hosts: see :func:`_hosts`.
        """
        used = {sources[shape.shards] for shape in shapes.values()}
        for index in used:
            await request(es, "PUT", f"/{index}/_settings", {"index.blocks.write": True})
        for place, shape in shapes.items():
            settings = {"index.number_of_replicas": shape.replicas, "index.blocks.write": None, WITHIN: None}
            await request(es, "POST", f"/{sources[shape.shards]}/_clone/{index_of(place)}", {"settings": settings})
        for place, shape in shapes.items():  # until it is started, a clone needs what it is made of
            await settle(es, index_of(place), shape.copies, nodes, lambda table: True)
            if within := _within(shape, hosts):
                await request(es, "PUT", f"/{index_of(place)}/_settings", within)
        for index in used:
            await request(es, "PUT", f"/{index}/_settings", {"index.blocks.write": None})

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

    async def _finish(self, es: Any, index: str) -> None:
        """Merges an index to one segment per shard."""
        merged = await request(es, "POST", f"/{index}/_forcemerge?max_num_segments=1", timeout=7200)
        all_shards(index, merged, "merged")
        all_shards(index, await request(es, "POST", f"/{index}/_refresh"), "refreshed")

    async def _miscount(self, es: Any, index: str, params: dict[str, Any]) -> str:
        """How an index differs from the corpus; empty when it does not."""
        for count in params["counts"]:
            found = (await request(es, "POST", f"/{index}/_count", {"query": count.query}))["count"]
            if found != count.documents:
                return f"index [{index}] has {found:,} documents{count.what}, the corpus {count.documents:,}"
        return ""


class PreparePass(Guard):
    """Goes ahead of a pass: has the indices of all its cells stand, started and evenly spread, and notes which node
    holds what; the nodes are held to their shares of the CPU. Where documents are indexed and nothing is searched, the
    indices are made anew.

    Mandatory keys: ``cells`` (each with ``cell``, ``index``, ``shards``, ``replicas``, ``nodes``, ``first`` and
    ``rate``), ``pass``, ``parameters`` (with ``cpu_shares``), and ``bodies``: of the indices to be made anew, by their
    place; none to leave them.

    :raises esrally.exceptions.RallyAssertionError: when that takes more than ten minutes, a node has left since the
        first pass, or is not held to its share; this ends the race.
    """

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._hosts: list[str] = []

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        self._nodes = self._nodes or await data_nodes(es)
        await check_nodes(es, self._nodes)
        await hold(es, params["parameters"]["cpu_shares"])
        shapes = {of["index"]: _shape(of) for of in params["cells"]}
        with aside(es):
            self._hosts = self._hosts or await _hosts(es, shapes.values())
            if params["bodies"]:
                await _drop(es, params["parameters"])
            for place, body in params["bodies"].items():
                settings = body["settings"] | _within(shapes[place], self._hosts)
                await create_own_index(es, index_of(place), body | {"settings": settings})
        for of in params["cells"]:
            await self._settled(es, of)
        # once more: shards of one may have moved while others were waited for
        prepared = [await self._prepared(es, of, params["pass"]) for of in params["cells"]]
        return round_result(prepared, **{"pass": params["pass"]})

    async def _settled(self, es: Any, of: Mapping[str, Any]) -> dict[str, list[str]]:
        shape = _shape(of)
        return await settle(es, index_of(of["index"]), shape.copies, self._nodes, within=shape.within(self._hosts))

    async def _prepared(self, es: Any, of: Mapping[str, Any], number: int) -> dict[str, Any]:
        table, absolute_time = await self._settled(es, of), time.time()
        with es.new_request_context() as context:
            documents = (await request(es, "GET", f"/{index_of(of['index'])}/_count"))["count"]
        return {
            **{key: of[key] for key in ("cell", "shards", "replicas", "rate")},
            "data_nodes": of["nodes"],
            "pass": number,
            "documents": documents,
            "shard_table": json.dumps(table),
            **outcome([], ""),
            "dependent_timing": timed(of["cell"], PREPARE, absolute_time, context.request_start, context.request_end),
        }


class DropWords(Guard):
    """Deletes the indices of the grid. Track parameters: ``keep_words``, ``delete_foreign_index``.

    Mandatory key: ``written``, the places of those to which documents were added. With ``keep_words`` the others stay.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        values = params["parameters"]
        with aside(es):
            if values["keep_words"]:
                for place in params["written"]:
                    await delete_own_index(es, index_of(place), values["delete_foreign_index"])
            else:
                await _drop(es, values)
        return {}


def _shape(of: Mapping[str, Any]) -> Shape:
    return Shape(of["shards"], of["replicas"], of["nodes"], of["first"])


async def _hosts(es: Any, shapes: Iterable[Shape]) -> list[str]:
    """The names of the nodes behind the hosts, in order of address; none where all nodes hold every index."""
    return await node_names(es) if any(shape.nodes for shape in shapes) else []


def _within(shape: Shape, hosts: Sequence[str]) -> dict[str, str]:
    """The setting that keeps an index to some of the nodes; none where all may hold it."""
    return {WITHIN: ",".join(shape.within(hosts))} if shape.nodes else {}


async def _drop(es: Any, values: Values, places: str = "*") -> None:
    """Deletes what races of these challenges made; no index of another name, which an alias may lead to.

    :param places: of the grid, or what else an index is called after, with ``*``; default is all.
    """
    for index in await request(es, "GET", f"/{index_of(places)}/_settings?filter_path=*.settings.index.uuid"):
        if index.startswith(index_of("")):
            await delete_own_index(es, index, values["delete_foreign_index"])


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
    """Mandatory key: ``cells``, each with ``index``, ``shards``, ``replicas``, ``nodes`` and ``first``. Track
    parameters: ``words_mapping``, ``refresh_interval``, ``keep_words``, ``delete_foreign_index``."""

    def params(self) -> dict[str, Any]:
        indices = {of["index"]: _shape(of) for of in self.operation["cells"]}
        return {
            "parameters": self.values,
            "indices": indices,
            "body": index_body(self.track, self.values, 1, 0),
            "documents_file": self._prepared.file(),
            "documents": self._prepared.corpus.documents,
            "counts": self._prepared.counts(self.values),
        }


class PreparePassParams(CapacityParams):
    """Mandatory keys: ``cells``, see :class:`PreparePass`, and ``anew`` (whether to make their indices). The track
    processor adds ``pass``. Track parameters: ``words_mapping``, ``refresh_interval``, ``delete_foreign_index``,
    ``cpu_shares``.
    """

    def params(self) -> dict[str, Any]:
        made = self.operation["cells"] if self.operation["anew"] else []
        bodies = {of["index"]: index_body(self.track, self.values, of["shards"], of["replicas"]) for of in made}
        return self.operation | {"bodies": bodies}
