"""Waiting for the shards of an index of the grid."""

import asyncio

import pytest
from esrally import exceptions
from fakes import FakeEs, Script

from cluster_metrics.capacity.indices import settle


def test_a_node_that_left_before_the_wait_began_ends_it():
    stays = {"name": "target-1", "roles": ["data"], "fs": {"total": {"available_in_bytes": 9, "total_in_bytes": 10}}}
    red = {"status": "red", "relocating_shards": 0, "unassigned_shards": 2}
    es = FakeEs(Script({"GET /_nodes": {"nodes": {"n": stays}}, "GET /_cluster/health": red}))
    with (
        es.new_request_context(),
        pytest.raises(exceptions.RallyAssertionError, match="^node target-2 left the target"),
    ):
        asyncio.run(settle(es, "cluster-metrics-words-2", 2, ["target-1", "target-2"]))
