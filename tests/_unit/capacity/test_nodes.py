"""What the data nodes of a target hold, and waiting for it."""

import asyncio
import contextlib

import pytest
from esrally import exceptions
from fakes import FakeEs, Script

from _tools.race.served import served
from cluster_metrics.capacity.nodes import GREEN_SECONDS, PLACED_SECONDS, CheckGrid, check_nodes, hold, is_even, settle

DISK = {"total": {"available_in_bytes": 9, "total_in_bytes": 10}}


def test_a_node_that_left_before_the_wait_began_ends_it():
    stays = {"name": "target-1", "roles": ["data"], "fs": DISK}
    red = {"status": "red", "relocating_shards": 0, "unassigned_shards": 2}
    es = FakeEs(Script({"GET /_nodes": {"nodes": {"n": stays}}, "GET /_cluster/health": red}))
    with (
        es.new_request_context(),
        pytest.raises(exceptions.RallyAssertionError, match="^node target-2 left the target"),
    ):
        asyncio.run(settle(es, "cluster-metrics-words-2", 2, ["target-1", "target-2"]))


def test_a_disk_that_is_too_full_for_shards_to_stay_where_they_are_ends_the_wait():
    full = {"total": {"available_in_bytes": 9, "total_in_bytes": 100}}
    nodes = [{"name": f"target-{n}", "roles": ["data"], "fs": fs} for n, fs in ((1, DISK), (2, full))]
    es = FakeEs(Script({"GET /_nodes": {"nodes": dict(enumerate(nodes))}}))
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match="^the disk of node target-2 is"):
        asyncio.run(settle(es, "cluster-metrics-words-2", 2, ["target-1", "target-2"]))


def test_a_node_that_came_is_none_that_left():
    nodes = [{"name": node, "roles": ["data_hot"]} for node in ("a", "b", "new")] + [{"name": "m", "roles": ["master"]}]
    es = FakeEs(Script({"GET /_nodes": {"nodes": dict(enumerate(nodes))}}))
    with es.new_request_context():
        asyncio.run(check_nodes(es, ["a", "b"]))
        with pytest.raises(exceptions.RallyAssertionError, match="^node c, m left the target"):
            asyncio.run(check_nodes(es, ["a", "c", "m"]))


def test_the_wait_ends_when_all_copies_are_started_none_moves_and_they_are_evenly_spread(monkeypatch):
    def shards(*nodes, state="STARTED"):
        of = zip("01", nodes, (state, "STARTED"))
        return [{"shard": number, "prirep": "p", "node": node, "state": state} for number, node, state in of]

    async def sleep(seconds):
        pass

    green, even = {"status": "green", "relocating_shards": 0}, shards("target-1", "target-2")
    looks = iter(
        [
            (green | {"status": "yellow"}, even),
            (green | {"relocating_shards": 1}, even),
            (green, shards("target-1", "target-2", state="INITIALIZING")),
            (green, shards("target-1", "target-1")),
            (green, even),
        ]
    )
    nodes = [{"name": name, "roles": ["data"], "fs": DISK} for name in ("target-1", "target-2")]

    def respond(method, path, body):
        nonlocal table
        if path.startswith("/_cluster/health"):
            health, table = next(looks)
            return health
        return table if path.startswith("/_cat/shards") else {"nodes": dict(enumerate(nodes))}

    table = []
    monkeypatch.setattr("cluster_metrics.capacity.nodes.asyncio.sleep", sleep)
    found = asyncio.run(settle(FakeEs(respond), "cluster-metrics-words-2", 2, ["target-1", "target-2"]))
    assert found == {"target-1": ["0p"], "target-2": ["1p"]} and next(looks, None) is None


NODES = ["target-1", "target-2", "target-3"]


class Clock:
    """A clock that goes on by what is slept alone."""

    to_thread = staticmethod(asyncio.to_thread)

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("cluster_metrics.capacity.nodes.time", clock)
    monkeypatch.setattr("cluster_metrics.capacity.nodes.asyncio", clock)
    return clock


def placed(*nodes, state="STARTED"):
    """What ``_cat/shards`` tells of primaries on these nodes."""
    return [{"shard": str(n), "prirep": "p", "node": node, "state": state} for n, node in enumerate(nodes)]


def settled(clock, shards, health=lambda now: {"status": "green", "relocating_shards": 0}, copies=2):
    """What a wait for shards on two nodes found, and after how many seconds.

    :param health: of the index by the time since the wait began.
    """
    began = clock.now
    nodes = [{"name": name, "roles": ["data"], "fs": DISK} for name in NODES[:2]]

    def respond(method, path, body):
        if path.startswith("/_cluster/health"):
            return health(clock.now - began)
        return shards if path.startswith("/_cat/shards") else {"nodes": dict(enumerate(nodes))}

    return asyncio.run(settle(FakeEs(respond), "i", copies, NODES[:2])), clock.now - began


def test_shards_that_stay_uneven_are_taken_a_minute_after_all_were_started(clock):
    def health(now):
        return {"status": "yellow" if now < 30 else "green", "relocating_shards": 0}

    found, waited = settled(clock, placed("target-1", "target-1"), health)
    assert found == {"target-1": ["0p", "1p"], "target-2": []}
    assert waited == pytest.approx(30 + PLACED_SECONDS, abs=0.5)
    assert settled(clock, placed("target-1", "target-2"), health)[1] == pytest.approx(30, abs=0.5)


def test_shards_that_move_again_have_a_minute_from_then_on(clock):
    def health(now):
        return {"status": "green", "relocating_shards": int(5 <= now < 65)}

    found, waited = settled(clock, placed("target-1", "target-1"), health)
    assert found == {"target-1": ["0p", "1p"], "target-2": []}
    assert waited == pytest.approx(65 + PLACED_SECONDS, abs=0.5)


@pytest.mark.parametrize(
    "health, shards, said",
    [
        ({"status": "red", "relocating_shards": 0, "unassigned_shards": 2}, 2, "red, 2 shards unassigned, 0 on the m"),
        ({"status": "green", "relocating_shards": 1, "unassigned_shards": 0}, 2, "green, 0 shards unassigned, 1 on th"),
        ({"status": "green", "relocating_shards": 0, "unassigned_shards": 0}, 1, "green, 0 shards unassigned, 0 on th"),
    ],
)
def test_shards_that_are_not_there_after_ten_minutes_end_the_race(clock, health, shards, said):
    began = clock.now
    with pytest.raises(exceptions.RallyAssertionError, match=f"index .i. is not green after 600 s: {said}"):
        settled(clock, placed(*["target-1"] * shards), lambda now: health)
    assert clock.now - began == pytest.approx(GREEN_SECONDS, abs=0.5)


@pytest.mark.parametrize(
    "held, even", [([0, 0], True), ([1, 0], True), ([2, 0], False), ([3, 2, 2], True), ([3, 2, 1], False), ([4], True)]
)
def test_shards_are_even_while_no_node_holds_two_more_than_another(held, even):
    assert is_even({str(node): ["0p"] * shards for node, shards in enumerate(held)}) is even


def test_shards_that_are_kept_to_some_nodes_are_waited_for_there(clock):
    elsewhere = [placed("target-1", "target-2"), placed("target-1", "target-1")]
    nodes = [{"name": name, "roles": ["data"], "fs": DISK} for name in NODES[:2]]
    answers = {"GET /_cluster/health": {"status": "green", "relocating_shards": 0}, "GET /_cat/shards": elsewhere}
    es = FakeEs(Script(answers | {"GET /_nodes": {"nodes": dict(enumerate(nodes))}}))
    assert asyncio.run(settle(es, "i", 2, NODES[:2], within=["target-1"])) == {"target-1": ["0p", "1p"]}


@pytest.mark.parametrize(
    "replicas, nodes, free, hosts, said",
    [
        ([0, 1], [0], 10, [], ""),
        ([2, 0], [0], 10, [], "asks for 2 replicas, which takes 3 data nodes; the target has 2: .* of 1 at most$"),
        ([1], [0], 9, [], "the disk of node target-2 is more than 90% full .9 of 100 bytes free."),
        ([0, 1], [1, 2, 0], 10, ["target-1", "target-2"], ""),
        ([0], [2], 10, ["target-1"], "asks for 2 data nodes that take requests; the hosts are of target-1: give"),
        ([0], [2], 10, ["target-1", "target-3", "target-2"], "the hosts are of target-1, target-3, target-2: "),
        ([0], [3, 1], 10, ["target-1", "target-2"], "asks for 3 data nodes"),
        ([1], [2, 1], 10, ["target-1", "target-2"], "asks for 1 data node, which cannot hold 1 replica: "),
    ],
)
def test_a_grid_that_the_target_cannot_hold_ends_the_race(monkeypatch, replicas, nodes, free, hosts, said):
    async def names(es):
        return hosts

    monkeypatch.setattr("cluster_metrics.capacity.nodes.node_names", names)
    there = [
        {"name": "target-1", "roles": ["data_content", "ingest"], "fs": DISK},
        {"name": "target-2", "roles": ["data"], "fs": {"total": {"available_in_bytes": free, "total_in_bytes": 100}}},
        {"name": "target-3", "roles": ["master"], "fs": DISK},
    ]
    es = FakeEs(Script({"GET /_nodes": {"nodes": dict(enumerate(there))}, "GET /": {}}))
    ends = pytest.raises(exceptions.RallyAssertionError, match=said) if said else contextlib.nullcontext()
    with es.new_request_context(), ends:
        assert (
            asyncio.run(CheckGrid()(es, {"parameters": {"capacity_replicas": replicas, "capacity_nodes": nodes}})) == {}
        )


def told(quota, held_by="cgroup v1", cores="0.4"):
    """What two nodes tell of their shares: one that is held to none, and one with this quota."""
    node = {"name": "target-1", "attributes": {"cpu_cores": cores, "cpu_held_by": held_by}}
    cpu = {} if quota is None else {"cfs_quota_micros": quota, "cfs_period_micros": 100_000}
    return {"nodes": {"a": {"name": "target-2"}, "b": node | {"os": {"cgroup": {"cpu": cpu}}}}}


class Holding:
    """What make's process serves."""

    def __init__(self):
        self.asked = []

    def answer(self, asked):
        self.asked.append(asked)
        return {}


def test_what_holds_the_nodes_is_asked_to_and_the_wait_ends_once_they_say_that_they_are_held(clock):
    es, holding = FakeEs(Script({"GET /_nodes/stats/os": [told(-1), told(-1), told(40_000)]})), Holding()
    with served(holding) as address, es.new_request_context():
        asyncio.run(hold(es, address))
        assert holding.asked == ["hold"] and len(es.sent) == 3


@pytest.mark.parametrize("quota, has", [(-1, "-1 of 100000"), (30_000, "30000 of 100000")])
def test_a_node_that_is_not_held_to_its_share_ends_the_race(clock, quota, has):
    es = FakeEs(Script({"GET /_nodes/stats/os": told(quota)}))
    line = f"^node target-1, which has {has} us, not 0.4 cores, is not held to its share of the CPU; start the target"
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=line):
        asyncio.run(hold(es, "none"))


@pytest.mark.parametrize("node", [told(-1, held_by="nothing"), told(None)])
def test_a_node_that_nothing_can_hold_or_that_tells_nothing_is_not_waited_for(node):
    es = FakeEs(Script({"GET /_nodes/stats/os": node}))
    with es.new_request_context():
        asyncio.run(hold(es, "none"))


def test_where_nothing_answers_that_could_hold_the_nodes_the_race_ends():
    with served(Holding()) as address:
        pass
    es = FakeEs(Script({"GET /": told(40_000)}))
    line = f"at {address}, does not answer: ConnectionRefusedError; race by 'make race'$"
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=line):
        asyncio.run(hold(es, address))
