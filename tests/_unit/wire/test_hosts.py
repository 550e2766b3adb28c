"""Requests to some of the hosts alone."""

import asyncio
import contextlib
from types import SimpleNamespace

from elastic_transport import BaseNode, NodeConfig, NodePool

from cluster_metrics.wire.hosts import keep_to, node_names


class Es:
    """A client whose pool of hosts is the real one; a node is named after its port."""

    def __init__(self, *ports):
        pool = NodePool([NodeConfig("http", "127.0.0.1", port) for port in ports], BaseNode)
        self.transport = SimpleNamespace(node_pool=pool)

    def init_request_context(self):
        return None, None

    def restore_context(self, token):
        pass

    def options(self, **options):
        return self

    async def perform_request(self, **request):
        return SimpleNamespace(body={"name": f"node {self.transport.node_pool.get().config.port}"})

    def asked(self):
        """The ports of the hosts that the next requests go to."""
        return [self.transport.node_pool.get().config.port for _ in range(6)]


def test_requests_are_kept_to_so_many_hosts_by_address_in_turn():
    for first, number, ports in (
        (0, 0, {9200, 9201, 9202}),
        (7, 0, {9200, 9201, 9202}),
        (0, 2, {9200, 9201}),
        (2, 2, {9202, 9200}),
        (4, 1, {9201}),
        (5, 3, {9200, 9201, 9202}),
    ):
        es = Es(9202, 9200, 9201)
        keep_to(es, first, number)
        asked = es.asked()
        assert {asked.count(port) for port in ports} == {6 // len(ports)} and set(asked) == ports


def test_a_host_that_did_not_answer_is_asked_again_and_no_other():
    es = Es(9202, 9200, 9201)
    keep_to(es, 0, 1)
    es.transport.node_pool.mark_dead(es.transport.node_pool.get())
    assert set(es.asked()) == {9200}


def test_nodes_are_named_in_the_order_of_the_addresses_of_their_hosts_and_all_are_asked_after():
    es = Es(9202, 9200, 9201)
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        assert loop.run_until_complete(node_names(es)) == ["node 9200", "node 9201", "node 9202"]
    assert set(es.asked()) == {9200, 9201, 9202}
