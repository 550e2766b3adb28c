"""What held a load back, on real nodes: each is made the limit on purpose, and is named."""

import re

import pytest
from conftest import DOWNLOADS, WORK, make

from _tools.elasticsearch.nodes import Launcher

APPEND = "append-no-conflicts-index-only"


def held_back(race_id, params, **variables):
    """The bottleneck that a race names."""
    done = make("race", TEST_MODE=1, CHALLENGE=APPEND, RACE_ID=race_id, PARAMS=params, **variables)
    assert done.returncode == 0, done.stdout[-5000:]
    return re.search(r"^  held back by +(.*)", done.stdout, re.MULTILINE)[1]


@pytest.mark.long
def test_one_client_far_away_is_not_taken_for_a_slow_cluster(loaded):
    params = "epochs:60,bulk_size:100,bulk_indexing_clients:1,target_docs_per_second:10000000"
    told = held_back("one-client", params, DELAY_MS=10)
    assert told.startswith("the clients: 1 client had ") and "try bulk_indexing_clients:" in told


@pytest.mark.long
def test_a_load_driver_with_too_much_to_do_is_named(loaded):
    params = "epochs:10,bulk_size:1,bulk_indexing_clients:8,bulk_runner:native"
    assert held_back("busy-client", params).startswith("client's CPU: ")


@pytest.mark.long
def test_a_node_that_is_held_to_a_share_of_the_cpu_is_named(loaded):
    launcher = Launcher(WORK, DOWNLOADS)
    held = launcher.start("held", port=9250, cores=0.2)
    try:
        told = held_back("held", "epochs:100,bulk_indexing_clients:4,bulk_size:1000", HOSTS=held.hosts[0])
    finally:
        launcher.stop("held")
    assert told.startswith("target's CPU: held-1 used "), told
