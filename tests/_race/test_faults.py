"""Races that are hit while they measure: each ends or goes on as ``--on-error`` says, and no report calls it complete.

A relay between Rally and the target counts the requests of a kind, and strikes at one of them that a seed draws.
"""

import asyncio
import random
import re
import shutil
import signal
import threading
from dataclasses import dataclass, field, replace

import pytest
import requests
import schedules
from conftest import DOWNLOADS, ROOT, fill
from esrally import exceptions
from esrally.client import EsClientFactory
from esrally.utils.error_behavior import OnErrorBehavior
from stores import reported

from _tools.elasticsearch.nodes import Cluster, Launcher
from _tools.race.delay import delayed

WORK = ROOT / "_work" / "test-faults"
HANGS_SECONDS = 240
"""A race that takes so long hangs."""
CLIENT_SECONDS = 5
REQUEST = re.compile(rb"[A-Z]+ (\S+) HTTP/1\.1\r\n")


@dataclass(frozen=True)
class Load:
    """What is raced.

    :param name: of the case.
    :param hit: pattern of the requests that may be hit, all of which are timed.
    :param tag: of the tasks that are run, after those of a set-up that nothing hits; None for all.
    """

    name: str
    challenge: str
    hit: bytes
    params: dict
    tag: str | None = None


SEARCHES = Load("searches", "query-decomp", rb"/_m?search", {"variants": ["D_td"], "rounds": 2}, "query")
BULK = Load("bulk", "ingest", rb"/cluster-metrics/_bulk", {"epochs": 2, "bulk_size": 50})
ONCE = replace(BULK, name="bulk once", params=BULK.params | {"bulk_retries": 0})
"""What is refused is not sent again, which would heal a fault of a second."""
CELLS = Load("cells", "ingest-decomp", rb"/cluster-metrics-cell/_bulk", {"epochs": 1, "ingest_rounds": 1})


def of_three(load):
    """A load on an index that spreads over three nodes, with a replica of each shard."""
    params = load.params | {"number_of_shards": 3, "number_of_replicas": 1}
    return replace(load, name=f"{load.name} of three", params=params)


def name_of(value):
    """How a case is named in the list of tests."""
    return getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)


@dataclass
class Stage:
    """A target.

    :param target: cluster, whose first node takes the requests.
    :param started: how the launcher started it.
    :param requests: that may be hit, by name of the load.
    """

    target: Cluster
    launcher: Launcher
    started: dict
    requests: dict = field(default_factory=dict)

    def start(self):
        """Starts the target anew on its data and ports."""
        name, (port, *_) = self.target.name, self.target.http_ports
        self.target = self.launcher.start(name, port=port, port_is_fixed=True, **self.started)

    def processes(self, number=0):
        """Those of a node."""
        own = self.target.processes()[number]
        return [*own.children(recursive=True), own]

    def settings(self, **settings):
        url = f"{self.target.url}/_cluster/settings"
        requests.put(url, json={"persistent": settings}, timeout=30).raise_for_status()


class Fault:
    """Strikes at one request of a race, in the thread of the relay.

    :param number: of the request, counted from 1; 0 for none.
    """

    def __init__(self, stage, load, number):
        self.stage, self.load, self.number = stage, load, number
        self.passed = 0
        self.threads: list[threading.Thread] = []

    def connection(self):
        """The tap of a connection."""
        hit = False

        def tap(chunk, out):
            nonlocal hit
            if out and (found := REQUEST.match(chunk)) and re.search(self.load.hit, found[1]):
                self.passed += 1
                if self.passed == self.number:
                    hit = True
                    self.strike()
            return self.pass_on(chunk, out) if hit else None

        return tap

    def strike(self):
        """What happens once, as the request arrives."""

    def pass_on(self, chunk, out):
        """The last bytes of that connection, as of a tap."""

    def later(self, seconds, function):
        self.threads.append(threading.Timer(seconds, function))
        self.threads[-1].start()


class Truncated(Fault):
    """A response lacks its end."""

    def pass_on(self, chunk, out):
        return None if out else chunk[:-1]


class Breaker(Fault):
    """A circuit breaker of the target refuses all bodies for a while."""

    def strike(self):
        self.stage.settings(**{"network.breaker.inflight_requests.limit": "1b"})
        self.later(1, lambda: self.stage.settings(**{"network.breaker.inflight_requests.limit": None}))


class Cut(Fault):
    """A connection ends in the middle of a request."""

    def pass_on(self, chunk, out):
        return chunk[: len(chunk) // 2] if out else b""


class Paused(Fault):
    """The target stands still for longer than a client waits."""

    def strike(self):
        stopped = self.stage.processes()
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        self.later(1.5 * CLIENT_SECONDS, lambda: [process.send_signal(signal.SIGCONT) for process in stopped])


class Killed(Fault):
    """The target is killed, and started anew on what its disk holds."""

    def strike(self):
        for process in self.stage.processes():
            process.kill()
        self.later(0, self.stage.start)


class Left(Fault):
    """One of three nodes is killed."""

    def strike(self):
        for process in self.stage.processes(2):
            process.kill()


class Full(Fault):
    """The disk of the target is full for a while."""

    def strike(self):
        self.later(2, fill(self.stage.started["data"]).unlink)


@dataclass(frozen=True)
class Raced:
    """A race as it ended.

    :param ended: the line that ended it; empty where it went on to its end.
    :param problems: of its report, whose operations that failed are ``failed``; None where one line refuses it.
    """

    ended: str
    problems: list | None
    failed: set


def race(stage, fault, folder, on_error=OnErrorBehavior.CONTINUE, tag=None):
    """Runs what a fault hits by Rally's own client and execution, see :mod:`schedules`, and reports it."""
    load, documents, ended = fault.load, [], ""
    track, tasks = schedules.read(folder, load.challenge, **load.params)

    async def every(host):
        address, port = host.split(":")
        options = {"timeout": CLIENT_SECONDS}
        es = EsClientFactory([{"host": address, "port": int(port)}], options).create_async(client_id=0)
        try:
            for task in tasks:
                if not tag or tag in task.tags:
                    await schedules.run(es, track, task, on_error, documents)
        finally:
            await es.close()

    with delayed(stage.target.hosts[0], 0, fault.connection) as host:
        try:
            asyncio.run(asyncio.wait_for(every(host), HANGS_SECONDS))
        except exceptions.RallyError as e:
            ended = e.message
        for thread in fault.threads:
            thread.join()
    document = {"race-id": "hit", "race-timestamp": "20260101T000000Z", "challenge": load.challenge}
    document |= {"track": "cluster-metrics", "rally-version": "2.13.0"}
    if not ended:
        document["results"] = {"op_metrics": []}
    problems = reported(document, documents, folder / "reports")
    return Raced(ended, problems, {d["operation"] for d in documents if not d["meta"]["success"]})


def assert_not_clean(raced, fault):
    """The race was hit, and its report names every configuration of which a request failed; what ended it is a line."""
    assert fault.passed >= fault.number > 0, f"{fault.passed} requests, none hit"
    assert raced.ended or raced.failed
    assert raced.problems is None or raced.problems
    assert raced.ended.isprintable() and "NoneType" not in raced.ended
    for name in raced.failed if raced.problems else ():
        assert any(p.startswith(f"Of {name} ") and p.endswith(" failed.") for p in raced.problems), raced


def moment(stage, load, folder, seed):
    """The request to be hit; a race that is not hit tells how many there are, and is complete."""
    if not stage.launcher.running(stage.target.name):
        stage.start()
    if load.name not in stage.requests:
        if load.tag:
            assert not race(stage, Fault(stage, load, 0), folder / "setup", tag="setup").ended
        fault = Fault(stage, load, 0)
        raced = race(stage, fault, folder / "untouched", tag=load.tag)
        assert raced == Raced("", [], set()), "what is not hit is complete"
        stage.requests[load.name] = fault.passed
    return random.Random(f"{load.name} {seed}").randint(1, stage.requests[load.name])


@pytest.fixture(scope="module")
def stages():
    """Stages of nodes that may be killed, by their number; each is made once."""
    shutil.rmtree(WORK, ignore_errors=True)
    launcher, made = Launcher(WORK, DOWNLOADS), {}

    def stage(nodes=1, **more):
        if (key := (nodes, *more)) not in made:
            started = {"nodes": nodes, "heap": "512m", "outlive": True, **more}
            made[key] = Stage(launcher.start(f"hit-{len(made)}", port=9230, **started), launcher, started)
        return made[key]

    yield stage
    for stage in made.values():
        launcher.stop(stage.target.name)
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "kind, load",
    [
        *((kind, SEARCHES) for kind in (Truncated, Breaker, Paused, Killed)),
        *((kind, BULK) for kind in (Truncated, Cut, Paused, Killed)),
        *((kind, CELLS) for kind in (Cut, Paused, Killed)),
    ],
    ids=name_of,
)
def test_a_race_that_is_hit_anywhere_is_called_incomplete(stages, tmp_path, kind, load, seed):
    stage = stages()
    fault = kind(stage, load, moment(stage, load, tmp_path, seed))
    raced = race(stage, fault, tmp_path, tag=load.tag)
    assert_not_clean(raced, fault)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, load", [*((kind, SEARCHES) for kind in (Truncated, Breaker, Paused, Killed)), (Cut, BULK)], ids=name_of
)
def test_a_race_that_is_to_abort_ends_with_a_line(stages, tmp_path, kind, load):
    stage = stages()
    fault = kind(stage, load, moment(stage, load, tmp_path, 1))
    raced = race(stage, fault, tmp_path, OnErrorBehavior.ABORT, load.tag)
    assert_not_clean(raced, fault)
    assert raced.ended


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_breaker_that_fires_during_a_load_is_named(stages, tmp_path, seed):
    stage = stages()
    fault = Breaker(stage, ONCE, moment(stage, ONCE, tmp_path, seed))
    raced = race(stage, fault, tmp_path)
    assert_not_clean(raced, fault)
    assert "circuit_breaking" in " ".join([raced.ended, *(raced.problems or ())])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [of_three(SEARCHES), of_three(BULK)], ids=name_of)
def test_a_race_that_loses_one_of_three_nodes_is_called_incomplete(stages, tmp_path, load, seed):
    stage = stages(nodes=3)
    fault = Left(stage, load, moment(stage, load, tmp_path, seed))
    assert_not_clean(race(stage, fault, tmp_path, tag=load.tag), fault)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [BULK, CELLS], ids=name_of)
def test_a_race_whose_target_has_a_full_disk_for_a_while_is_called_incomplete(stages, small_disk, tmp_path, load, seed):
    stage = stages(data=small_disk)
    fault = Full(stage, load, moment(stage, load, tmp_path, seed))
    assert_not_clean(race(stage, fault, tmp_path), fault)
