"""The compiler threads of nodes of this machine are read, and those of no other."""

import asyncio
import os

import psutil
import pytest
from fakes import FakeEs

from cluster_metrics.core import compilers
from cluster_metrics.core.compilers import Compilers

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
NOBODY = 1 << 22
"""The id of no process: more than Linux gives."""


def thread(root, number, name, user=0, system=0, pid=None):
    """A thread in a tree like that of ``/proc``."""
    folder = root / str(pid or os.getpid()) / "task" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{number} ({name}) S 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0 20\n")
    return folder


def jvm(pid=None, later_s=0.0):
    began = psutil.Process(None if pid == NOBODY else pid).create_time() + later_s
    return {"pid": pid or os.getpid(), "start_time_in_millis": round(1000 * began)}


@pytest.fixture
def proc(tmp_path, monkeypatch):
    monkeypatch.setattr(compilers, "PROC", tmp_path)
    return tmp_path


def look(reading, **nodes):
    es = FakeEs(lambda *_: {"nodes": {name: {"name": name, "jvm": of} for name, of in nodes.items()}})
    with es.new_request_context():
        return asyncio.run(reading.spent_ms(es)), es.sent


def test_the_time_of_compiler_threads_counts_and_of_no_others(proc):
    thread(proc, 1, "java", user=1000)
    thread(proc, 2, "C2 CompilerThre", user=30, system=4)
    thread(proc, 3, "C1 CompilerThre", user=5)
    (proc / str(os.getpid()) / "task" / "4").mkdir()  # which ends while it is read
    found, (sent,) = look(Compilers(), a=jvm())
    assert found == {"a": pytest.approx(39 * TICK_MS)}
    of_nodes = ",".join(f"nodes.*.{key}" for key in ("name", "jvm.pid", "jvm.start_time_in_millis"))
    assert sent == f"GET /_nodes/jvm?filter_path={of_nodes}"


def test_a_thread_that_began_later_counts_and_so_does_one_that_has_ended(proc):
    reading, first = Compilers(), thread(proc, 2, "C2 CompilerThre", user=30)
    assert look(reading, a=jvm())[0]["a"] == pytest.approx(30 * TICK_MS)
    (first / "stat").unlink()
    first.rmdir()
    thread(proc, 7, "C2 CompilerThre) (x", user=2)
    found, sent = look(reading, a=jvm())
    assert found["a"] == pytest.approx(32 * TICK_MS)
    assert not sent, "where nodes run was asked before"
    thread(proc, 7, "C2 CompilerThre) (x", user=5)
    assert look(reading, a=jvm())[0]["a"] == pytest.approx(35 * TICK_MS)


def test_of_two_nodes_each_has_its_own_time_and_one_that_is_started_anew_is_asked_for(proc):
    reading, other = Compilers(), os.getppid()
    thread(proc, 2, "C2 CompilerThre", user=30)
    folder = thread(proc, 2, "C1 CompilerThre", user=7, pid=other)
    found, _ = look(reading, a=jvm(), b=jvm(pid=other))
    assert found == {"a": pytest.approx(30 * TICK_MS), "b": pytest.approx(7 * TICK_MS)}
    (folder / "stat").unlink()
    for gone in (folder, folder.parent, folder.parent.parent):
        gone.rmdir()
    found, sent = look(reading, a=jvm())
    assert len(sent) == 1 and found == {"a": pytest.approx(30 * TICK_MS)}


def test_a_node_of_another_machine_tells_nothing_by_what_has_its_id_here(proc):
    thread(proc, 2, "C2 CompilerThre", user=30)
    found, _ = look(Compilers(), a=jvm(later_s=61), b=jvm(later_s=-6), c=jvm(pid=NOBODY), own=jvm(later_s=4))
    assert found == {"own": pytest.approx(30 * TICK_MS)}


@pytest.mark.parametrize("later_s", [-4, 0, 6, 55])
def test_a_jvm_that_takes_its_time_to_begin_runs_here(proc, later_s):
    thread(proc, 2, "C2 CompilerThre", user=30)
    assert look(Compilers(), a=jvm(later_s=later_s))[0] == {"a": pytest.approx(30 * TICK_MS)}


def test_a_target_that_does_not_tell_of_processes_has_none_here(proc):
    for answer in ({}, {"nodes": {"x": {"name": "a"}}}):
        es = FakeEs(lambda *_, answer=answer: answer)
        with es.new_request_context():
            assert asyncio.run(Compilers().spent_ms(es)) == {}


def test_a_node_that_was_started_anew_is_asked_for_again(proc):
    reading, old = Compilers(), thread(proc, 2, "C2 CompilerThre", user=30)
    look(reading, a=jvm())
    (old / "stat").unlink()
    for folder in (old, old.parent, old.parent.parent):
        folder.rmdir()
    found, sent = look(reading, a=jvm(later_s=120))
    assert len(sent) == 1 and found == {}


def test_a_node_whose_threads_cannot_be_read_tells_none(proc):
    assert look(Compilers(), a=jvm())[0] == {}


def test_without_proc_nobody_is_asked(proc, monkeypatch):
    monkeypatch.setattr(compilers, "PROC", proc / "none")
    assert look(Compilers(), a=jvm()) == ({}, [])
