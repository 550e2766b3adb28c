"""The hosts that Rally was given, in the order of their addresses, and requests to some of them alone."""

from typing import Any

from .requests import get


def keep_to(es: Any, first: int) -> None:
    """Has a client send to the first so many hosts alone; 0 for all. Rally makes one client for each task and client of
    it, so no other request is meant."""
    if getattr(es, "kept_to", 0) != first:
        es.kept_to = first
        _send_to(es, _hosts(es)[: first or None])


async def node_names(es: Any) -> list[str]:
    """The names of the nodes behind the hosts; those requests are outside the timed section."""
    names, hosts = [], _hosts(es)
    for host in hosts:
        _send_to(es, [host])
        names.append((await get(es, "/"))["name"])
    _send_to(es, hosts)
    return names


def _hosts(es: Any) -> list[Any]:
    hosts = [node.config for node in es.transport.node_pool.all()]
    return sorted(hosts, key=lambda host: (host.host, host.port))


def _send_to(es: Any, hosts: list[Any]) -> None:
    pool = es.transport.node_pool
    pool._removed_nodes = {host for host in _hosts(es) if host not in hosts}  # its remove() spares hosts given at first
