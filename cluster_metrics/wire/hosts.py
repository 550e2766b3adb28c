"""The hosts that Rally was given, in the order of their addresses, and requests to some of them alone."""

from collections.abc import Sequence
from typing import Any, TypeVar

from .requests import get

Of = TypeVar("Of")


def some(hosts: Sequence[Of], first: int, number: int) -> list[Of]:
    """So many of the hosts, from one of them on and in turn; all for 0.

    :param first: place of that one, counted on from the end.
    """
    start = first % len(hosts)
    return [*hosts[start:], *hosts[:start]][: number or None]


def keep_to(es: Any, first: int, number: int) -> None:
    """Has a client send to some of the hosts alone, see :func:`some`. Rally makes one client for each task and client
    of it, so no other request is meant."""
    if number and getattr(es, "kept_to", None) != (first, number):
        es.kept_to = first, number
        _send_to(es, some(_hosts(es), first, number))


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
