"""What the monitor notes of nodes and of Rally's processes, and that it stands where it costs the load no process."""

import asyncio
import json
import os
from collections import namedtuple
from types import SimpleNamespace

import psutil
import pytest
from esrally.driver.driver import calculate_worker_assignments
from fakes import FakeEs

from cluster_metrics.core import monitor
from cluster_metrics.core.experiment import without_idle_monitors

POOLS = {"search": {"queue": 2, "rejected": 3, "active": 5}, "write": {"queue": 4, "rejected": 16, "active": 1}}
NODE = {
    "name": "a",
    "process": {"timestamp": 5000, "cpu": {"total_in_millis": 70}},
    "thread_pool": POOLS,
    "jvm": {"gc": {"collectors": {"young": {"collection_time_in_millis": 11}}}},
    "indices": {
        "merges": {"current": 0, "total_throttled_time_in_millis": 9},
        "indexing": {"index_time_in_millis": 99},
    },
}
DISK = {"fs": {"io_stats": {"total": {"operations": 8, "write_kilobytes": 40, "io_time_in_millis": 6}}}}
HELD = {"os": {"cgroup": {"cpu": {"stat": {"time_throttled_nanos": 21, "number_of_times_throttled": 2}}}}}
THROTTLED = {"indices": {"indexing": {"index_time_in_millis": 99, "throttle_time_in_millis": 13}}}


def test_what_a_node_does_not_tell_is_left_out_and_what_is_0_is_not():
    other = NODE | DISK | HELD | {"name": "b", "indices": NODE["indices"] | THROTTLED["indices"]}
    told = monitor.counters({"nodes": {"x": NODE, "y": other}})
    assert told["a"] == {
        **{"at": 5000, "cpu_ms": 70, "active": 1, "gc_young_ms": 11, "merges": 0, "merge_throttle_ms": 9},
        **{"queue": 6, "rejected": 19},
    }
    more = {"disk_ops": 8, "disk_write_kb": 40, "disk_busy_ms": 6, "held_ns": 21, "index_throttle_ms": 13}
    assert told["b"] == told["a"] | more


def answers(method, path, body):
    """Of one node, whose JVM is this process, and to the question for JVMs of one that has joined since, too."""
    jvm = {"pid": os.getpid(), "start_time_in_millis": 1000 * psutil.Process().create_time()}
    jvms = {name: {"name": name, "jvm": jvm} for name in ("a", "joined")}
    return {"nodes": jvms if path.startswith("/_nodes/jvm") else {"x": NODE}}


def test_a_look_is_one_request_after_the_first_and_asks_for_all_that_it_notes(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("cluster_metrics.core.monitor.asyncio.sleep", sleep)
    es, look = FakeEs(answers), monitor.Monitor()
    with es.new_request_context():
        found = asyncio.run(look(es, {"parameters": {}}))
        again = asyncio.run(look(es, {"parameters": {}}))
        of_several = asyncio.run(monitor.Monitor()(es, {"parameters": {"load_drivers": 3}}))
    sent, processes_asked, *others = es.sent
    assert "/_nodes/jvm" in processes_asked and others == [sent, sent]
    assert slept == 3 * [1.0]
    assert [json.loads(of["nodes"])["a"].get("compiler_ms") for of in (found, again, of_several)] == [0, 0, None]
    path, _, wanted = sent.partition("?filter_path=")
    of_pools = [f"thread_pool.{pool}.{key}" for pool in POOLS for key in ("queue", "rejected")]
    noted = ["name", *monitor.COUNTERS.values(), *of_pools]
    assert sorted(wanted.split(",")) == sorted(f"nodes.*.{name}" for name in noted)
    sections, _, of_indices = path.removeprefix("GET /_nodes/stats/").partition("/")
    assert {*sections.split(","), "name"} == {name.partition(".")[0] for name in noted}
    assert of_indices == "merge,indexing"
    processes = json.loads(found["processes"])
    assert 0 < processes[str(os.getpid())] <= found["client_cpu_ms"]
    assert {"nodes", "processes", "client_cpu_ms", "host_busy_ms", "host_idle_ms"} == set(found) - {"weight", "unit"}
    assert {"nodes"} == set(of_several) - {"weight", "unit"}


def test_waiting_for_a_disk_is_idle_and_time_of_guests_counts_once(monkeypatch):
    times = namedtuple("times", "user nice system idle iowait irq softirq steal guest guest_nice")
    monkeypatch.setattr(monitor.psutil, "cpu_times", lambda: times(1, 2, 4, 8, 16, 32, 64, 128, 1, 2))
    found = monitor.Monitor()._load_driver()
    assert (found["host_busy_ms"], found["host_idle_ms"]) == (231_000, 24_000)


def load_per_process(cores, clients, watched):
    """How many clients of the load each of Rally's processes has, the most first."""
    (host,) = calculate_worker_assignments([{"host": "h", "cores": cores}], clients + watched)
    return sorted((sum(client >= watched for client in worker) for worker in host["workers"]), reverse=True)


@pytest.mark.parametrize("cores", [1, 2, 4, 7])
def test_as_the_first_task_it_leaves_the_load_spread_over_processes_as_it_was(cores):
    for clients in range(1, 20):
        assert load_per_process(cores, clients, watched=1) == load_per_process(cores, clients, watched=0)


def test_a_monitor_that_is_left_with_nothing_to_look_at_is_left_out():
    def task(kind):
        return SimpleNamespace(operation=SimpleNamespace(type=kind))

    beside, alone, other = [task("monitor"), task("bulk")], [task("monitor")], [task("refresh")]
    assert without_idle_monitors([beside, alone, other]) == [beside, other]


def test_it_goes_on_until_what_it_stands_beside_is_done():
    assert not monitor.MonitorParams.infinite, "Rally would look just once"
    source = monitor.MonitorParams(None, {"parameters": {"load_drivers": 2}})
    assert source.params() == {"parameters": {"load_drivers": 2}}


class Process:
    """A process of this machine; one without CPU time has ended, or tells nothing for another reason."""

    def __init__(self, pid, parent, user=None, system=None, error=psutil.NoSuchProcess):
        self.pid, self._parent, self._times, self._error = pid, parent, (user, system), error

    def _told(self, found):
        if self._times[0] is None:
            raise self._error(self.pid)
        return found

    def ppid(self):
        return self._told(self._parent)

    def cpu_times(self):
        return self._told(SimpleNamespace(user=self._times[0], system=self._times[1]))


def test_the_cpu_time_of_all_processes_of_rally_is_told_and_by_process_that_of_those_with_clients(monkeypatch):
    asked = []

    def others():
        asked.append(1)
        silent = Process(14, 1), Process(15, 1, error=psutil.AccessDenied)
        return [Process(13, 1, 0.25, 0.5), Process(12, 5, 4.0, 8.0), *silent]

    monkeypatch.setattr(monitor.psutil, "Process", lambda: Process(11, 1, 1.5, 0.5))
    monkeypatch.setattr(monitor.process, "find_all_other_rally_processes", others)
    look = monitor.Monitor()
    for _ in range(2):
        found = look._load_driver()
        assert found["client_cpu_ms"] == 14_750
        assert json.loads(found["processes"]) == {"11": 2000, "13": 750}
    assert len(asked) == 1, "looking for them is expensive"


def test_a_look_carries_the_cell_and_pass_that_it_is_of(monkeypatch):
    monkeypatch.setattr(monitor, "MONITOR_SECONDS", 0)
    es = FakeEs(lambda *_: {"nodes": {"x": NODE}})
    about = {"cell": "2s-1r-50", "pass": 3}
    found = asyncio.run(monitor.Monitor()(es, about | {"index": "x", "parameters": {"load_drivers": 2}}))
    nodes = json.dumps(monitor.counters({"nodes": {"x": NODE}}))
    assert found == about | {"weight": 1, "unit": "ops", "nodes": nodes}
