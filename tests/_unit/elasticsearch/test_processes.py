"""Marks of processes, and the end of processes, on real ones."""

import itertools
import os
import subprocess
import sys
import time

import psutil
import pytest

from _tools.elasticsearch import processes
from _tools.race import rally

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def start():
    """Starts processes that sleep, with this mark in their environment."""
    sleeping = []

    def start(mark):
        sleeping.append(subprocess.Popen(SLEEP, env=os.environ | {rally.MARK: mark}))
        deadline = time.monotonic() + 10
        while psutil.Process(sleeping[-1].pid).environ().get(rally.MARK) != mark and time.monotonic() < deadline:
            time.sleep(0.01)  # it has not become another program yet
        return sleeping[-1]

    yield start
    for process in sleeping:
        process.kill()
        process.wait()


def marked(pid, started, namespace=None):
    return f"{pid}-{started}-{processes.mark().rsplit('-', 1)[1] if namespace is None else namespace}"


def test_what_a_process_that_ended_left_behind_is_ended(start):
    of_this_process = processes.started(os.getpid())
    left = [start(marked(os.getpid(), of_this_process - 1))]  # the id was given to this process later
    starter = subprocess.Popen([sys.executable, "-c", "pass"])
    starter.wait()
    left.append(start(marked(starter.pid, of_this_process)))
    rally.end_processes(processes.has_ended)
    assert [process.wait(5) for process in left] == [-15, -15]


@pytest.mark.parametrize(
    "mark", ["", "x", "1", "-1", "1-2", "99999999999999999999999", "٣-١-١", "4194399-1-0", "a-b-c"]
)
def test_marks_that_say_nothing_of_this_machine_end_nothing(start, mark):
    other = start(mark)
    rally.end_processes(processes.has_ended)
    assert other.poll() is None


def test_what_runs_and_what_another_namespace_started_is_left_alone(start):
    mine, foreign = start(processes.mark()), start(marked(4194399, 1, namespace=4026530000))
    rally.end_processes(processes.has_ended)
    assert mine.poll() is None and foreign.poll() is None
    rally.end_processes(lambda mark: mark == processes.mark())
    assert mine.wait(5) == -15 and foreign.poll() is None


def test_a_zombie_whose_parent_does_not_ask_for_it_has_ended():
    code = f"import subprocess, time; print(subprocess.Popen({SLEEP!r}).pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        try:
            child = psutil.Process(int(parent.stdout.readline()))
            mark = marked(child.pid, processes.started(child.pid))
            assert not processes.has_ended(mark)
            began = time.monotonic()
            processes.end([child], seconds=20)
            assert time.monotonic() - began < 10
            assert child.status() == psutil.STATUS_ZOMBIE and not processes.running([child])
            assert processes.started(child.pid) is None and processes.has_ended(mark)
        finally:
            parent.kill()


def test_a_process_that_does_not_heed_is_killed():
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as stubborn:
        stubborn.stdout.readline()
        processes.end([psutil.Process(stubborn.pid)], seconds=0.2)
        assert stubborn.wait(5) == -9


def test_a_process_that_is_killed_is_waited_for():
    class Dying:
        looks = 0

        def terminate(self):
            """It does not heed."""

        def kill(self):
            self.looks = 3

        def is_running(self):
            self.looks -= 1
            return self.looks != 0

        def status(self):
            return psutil.STATUS_RUNNING

    processes.end([process := Dying()], seconds=0)
    assert process.looks == 0, "it was there for some looks more"


def test_a_process_that_the_one_asked_should_have_ended_is_killed():
    with subprocess.Popen(SLEEP) as launcher, subprocess.Popen(SLEEP) as hangs:
        processes.end([psutil.Process(p.pid) for p in (launcher, hangs)], 0.2, first=[psutil.Process(launcher.pid)])
        assert (launcher.wait(5), hangs.wait(5)) == (-15, -9)


def test_a_clock_that_is_set_meanwhile_moves_no_mark_and_no_deadline(monkeypatch):
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(1), sys.exit(7))); print(1, flush=True); "
    )
    mine, true, hours = processes.mark(), time.time, itertools.count()
    with subprocess.Popen([sys.executable, "-c", f"{code}time.sleep(60)"], stdout=subprocess.PIPE) as slow:
        slow.stdout.readline()
        monkeypatch.setattr(time, "time", lambda: true() + 3600 * next(hours))  # forward, each time that it is read
        assert processes.mark() == mine and not processes.has_ended(mine)
        processes.end([psutil.Process(slow.pid)], seconds=20)
        assert slow.wait(5) == 7, "it was given its time"
