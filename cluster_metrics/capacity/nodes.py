"""The data nodes of the target: whether they are there and have room, and which of them holds which shards."""

import asyncio
import http.client
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from esrally import exceptions

from ..core.limits import counted
from ..core.rounds import Guard
from ..core.served import NONE, ask
from ..wire.hosts import node_names
from ..wire.requests import get, touch

GREEN_SECONDS = 600
PLACED_SECONDS = 60
HELD_SECONDS = 10
"""Until a node tells that it is held: Elasticsearch looks once a second."""
WATERMARK = 0.9
"""Share of a disk in use above which Elasticsearch moves shards away (its high watermark's default)."""


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
    within: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Waits until all shards of an index are started and none is on the move, and until none has moved for a minute or
    they are where they should be.

    :param copies: shards times copies of each.
    :param nodes: that hold data, and have to stay.
    :param placed: whether shards are where they should be; default is evenly spread.
    :param within: nodes that are to hold all shards; default is any.
    :return: which of these nodes holds what; not as they should where Elasticsearch leaves it so.
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
            table = {node: held for node, held in (await shard_table(es, index)).items() if node in (within or nodes)}
            settled = settled or time.monotonic()
            waited = time.monotonic() - settled >= PLACED_SECONDS
            if sum(map(len, table.values())) == copies and (placed(table) or waited):
                return table
        else:
            settled = 0.0
        await asyncio.sleep(0.2)
    raise exceptions.RallyAssertionError(
        f"index [{index}] is not green after {GREEN_SECONDS} s: {health.get('status')}, "
        f"{health.get('unassigned_shards')} shards unassigned, {health.get('relocating_shards')} on the move"
    )


async def hold(es: Any, address: str) -> None:
    """Has nodes held to their shares of the CPU, and waits until each that has one and tells its quota is.

    :param address: of what holds them, see the track parameter ``cpu_shares``; with ``none`` they should be.
    :raises esrally.exceptions.RallyAssertionError: when that does not answer, or a node is not held; this ends the
        race.
    """
    if address != NONE:
        try:
            await asyncio.to_thread(ask, address, "hold")
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise exceptions.RallyAssertionError(
                f"what holds the nodes to their shares of the CPU, at {address}, does not answer: {type(e).__name__}; "
                "race by 'make race'"
            ) from None
    deadline = time.monotonic() + HELD_SECONDS
    while free := await _free(es):
        if time.monotonic() > deadline:
            raise exceptions.RallyAssertionError(
                f"node {', '.join(free)}, is not held to its share of the CPU; start the target anew"
            )
        await asyncio.sleep(0.2)


async def _free(es: Any) -> list[str]:
    """The nodes that tell of another quota than their share, with both."""
    told = "name", "attributes", "os.cgroup.cpu"
    stats = await get(es, f"/_nodes/stats/os?filter_path={','.join(f'nodes.*.{path}' for path in told)}")
    found = []
    for node in stats["nodes"].values():
        of, attributes = node.get("os", {}).get("cgroup", {}).get("cpu", {}), node.get("attributes", {})
        if attributes.get("cpu_held_by", "nothing") != "nothing":
            quota, period = (of.get(f"cfs_{name}_micros") for name in ("quota", "period"))
            if period and quota != round(float(attributes["cpu_cores"]) * period):
                found.append(f"{node['name']}, which has {quota} of {period} us, not {attributes['cpu_cores']} cores")
    return sorted(found)


class CheckGrid(Guard):
    """Holds the grid against the cluster before anything is loaded. Track parameters: ``capacity_replicas``,
    ``capacity_nodes``.

    :raises esrally.exceptions.RallyAssertionError: when there are too few data nodes for the replicas, or behind the
        hosts, or a disk is so full that Elasticsearch would move shards away; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        nodes, most = await data_nodes(es), max(params["parameters"]["capacity_replicas"])
        if most >= len(nodes):
            raise exceptions.RallyAssertionError(
                f"track parameter [capacity_replicas] asks for {most} replicas, which takes {most + 1} data nodes; the "
                f"target has {len(nodes)}: race without HOSTS, or with capacity_replicas of {len(nodes) - 1} at most"
            )
        if numbers := [number for number in params["parameters"]["capacity_nodes"] if number]:
            await self._check_sizes(es, numbers, min(params["parameters"]["capacity_replicas"]), nodes)
        await check_disks(es)
        return {}

    async def _check_sizes(self, es: Any, numbers: Sequence[int], replicas: int, data: Sequence[str]) -> None:
        """Whether all hosts are data nodes, and enough of them, and each number holds the fewest replicas."""
        names = await node_names(es)
        if max(numbers) > len(names) or not set(names) <= set(data):
            raise exceptions.RallyAssertionError(
                f"track parameter [capacity_nodes] asks for {counted(max(numbers), 'data node')} that take requests; "
                f"the hosts are of {', '.join(names)}: give Rally those of data nodes alone, of as many, and race "
                "without COORDINATOR"
            )
        if replicas >= min(numbers):
            raise exceptions.RallyAssertionError(
                f"track parameter [capacity_nodes] asks for {counted(min(numbers), 'data node')}, which cannot hold "
                f"{counted(replicas, 'replica')}: race with fewer in capacity_replicas, too"
            )
