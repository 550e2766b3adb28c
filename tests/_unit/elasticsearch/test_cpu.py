"""A share of the CPU, on a process that would take a whole core."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from _tools.elasticsearch import cpu

NAME = "unit-test"


def used(process, seconds):
    """The cores that a process takes."""
    before, started = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - started)


def test_a_group_holds_a_process_to_its_share_until_that_is_lifted_and_again():
    held_by = cpu.make_group(NAME, 0.2)
    if not held_by:
        pytest.skip("no cgroup that may be written here")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        cpu.hold(NAME, [busy.pid])
        process = psutil.Process(busy.pid)
        assert 0.05 < used(process, 2) < 0.28
        cpu.make_group(NAME, 0)
        assert used(process, 1) > 0.4
        cpu.make_group(NAME, 0.2)
        assert used(process, 2) < 0.28
    finally:
        busy.kill()
        busy.wait()
        cpu.remove_group(NAME)
    assert cpu.make_group(NAME, 1.0) == held_by  # it was removed, and can be made anew
    cpu.remove_group(NAME)


NAMED = """
import threading, time
def named(name):
    def run():
        open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(name)
        told.wait()
        time.sleep(60)
    return threading.Thread(target=run, daemon=True)
told = threading.Barrier(4)
for name in ("C1 CompilerThread0", "C2 CompilerThread0", "elasticsearch"):
    named(name).start()
told.wait()
print("named", flush=True)
time.sleep(60)
"""


def test_the_compilers_of_a_jvm_that_is_held_go_first_and_no_other_thread(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "_controller", lambda: (tmp_path, True))
    assert cpu.make_group(NAME, 0.2)
    jvm = subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE)
    try:
        assert jvm.stdout.readline() == b"named\n"
        cpu.hold(NAME, [jvm.pid])
        found = {
            (thread / "comm").read_text().strip(): os.getpriority(os.PRIO_PROCESS, int(thread.name))
            for thread in Path(f"/proc/{jvm.pid}/task").iterdir()
        }
    finally:
        jvm.kill()
        jvm.wait()
    if os.geteuid():
        pytest.skip("only root may let a thread go first")
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert found.pop("C1 CompilerThre") == found.pop("C2 CompilerThre") == -20
    assert len(found) == 2 and set(found.values()) == {own}


def test_without_a_controller_nothing_is_held(monkeypatch):
    monkeypatch.setattr(cpu, "_controller", lambda: None)
    assert cpu.make_group(NAME, 0.2) == ""
    cpu.hold(NAME, [1])
    cpu.remove_group(NAME)


@pytest.mark.parametrize(
    "second, kind, quota", [(True, "cgroup v2", "cpu.max"), (False, "cgroup v1", "cpu.cfs_quota_us")]
)
@pytest.mark.parametrize("cores, microseconds", [(0.2, "20000"), (1.0, "100000"), (2.5, "250000"), (0, "")])
def test_a_group_gets_its_share_of_each_period_to_the_part_of_a_core(
    monkeypatch, tmp_path, second, kind, quota, cores, microseconds
):
    monkeypatch.setattr(cpu, "_controller", lambda: (tmp_path, second))
    assert cpu.make_group(NAME, cores) == kind
    group = tmp_path / f"cluster-metrics-{NAME}"
    assert (group / quota).read_text().split()[0] == (microseconds or ("max" if second else "-1"))
    period = (group / ("cpu.max" if second else "cpu.cfs_period_us")).read_text().split()[-1]
    assert period == "100000"
    assert not second or (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    cpu.hold(NAME, [7])
    assert (group / "cgroup.procs").read_text() == "7"


@pytest.mark.parametrize(
    "mounts, controllers, kind, folder",
    [
        (("sets cgroup rw,cpuset", "acct cgroup rw,cpuacct", "cpu cgroup rw,cpu,cpuacct"), "", "cgroup v1", "cpu"),
        (("memory cgroup rw,memory", "all cgroup2 rw"), "cpu io", "cgroup v2", "all"),
        (("all cgroup2 rw",), "cpuset io", "", ""),
        (("cpu tmpfs rw,cpu",), "", "", ""),
    ],
)
def test_a_group_is_made_where_the_cpu_controller_is_whatever_a_killed_one_left(
    monkeypatch, tmp_path, mounts, controllers, kind, folder
):
    for mount in mounts:
        (tmp_path / mount.split()[0]).mkdir()
        (tmp_path / mount.split()[0] / "cgroup.controllers").write_text(controllers)
    (tmp_path / "mounts").write_text("".join(f"none {tmp_path}/{mount} 0 0\n" for mount in mounts))
    monkeypatch.setattr(cpu, "Path", lambda path="": tmp_path / "mounts" if path == "/proc/mounts" else Path(path))
    assert cpu.make_group(NAME, 0.5) == cpu.make_group(NAME, 0.5) == kind
    made = list(tmp_path.glob("*/cluster-metrics-*"))
    assert [group.parent.name for group in made] == ([folder] if folder else [])
    for file in (file for group in made for file in group.iterdir()):
        file.unlink()  # of a real one, these go with it
    cpu.remove_group(NAME)
    assert not list(tmp_path.glob("*/cluster-metrics-*"))


@pytest.mark.parametrize("second", [True, False])
def test_where_no_group_can_be_made_nothing_is_said_to_be_held(monkeypatch, tmp_path, second):
    monkeypatch.setattr(cpu, "_controller", lambda: (tmp_path / "none", second))
    assert cpu.make_group(NAME, 0.5) == ""
