"""A share of the CPU, on a process that would take a whole core."""

import subprocess
import sys
import time

import psutil
import pytest

from _tools.elasticsearch import cpu

NAME = "unit-test"


def test_a_group_holds_a_process_to_its_share():
    held_by = cpu.make_group(NAME, 0.2)
    if not held_by:
        pytest.skip("no cgroup that may be written here")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        cpu.hold(NAME, [busy.pid])
        process = psutil.Process(busy.pid)
        before, started = process.cpu_times(), time.monotonic()
        time.sleep(2)
        after, seconds = process.cpu_times(), time.monotonic() - started
        used = (after.user + after.system - before.user - before.system) / seconds
        assert 0.05 < used < 0.28
    finally:
        busy.kill()
        busy.wait()
        cpu.remove_group(NAME)
    assert cpu.make_group(NAME, 1.0) == held_by  # it was removed, and can be made anew
    cpu.remove_group(NAME)


def test_without_a_controller_nothing_is_held(monkeypatch):
    monkeypatch.setattr(cpu, "_controller", lambda: None)
    assert cpu.make_group(NAME, 0.2) == ""
    cpu.hold(NAME, [1])
    cpu.remove_group(NAME)
