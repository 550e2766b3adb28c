"""A race whose target or metrics store is killed ends soon, with one line that names it."""

import os
import re
import shutil
import subprocess
import time

import pytest
import requests
from conftest import DOWNLOADS, ROOT, WORK, fill

from _tools.elasticsearch.nodes import Launcher
from _tools.race.clusters import put_template
from _tools.race.variables import VARIABLES, Exit

LOST = WORK.with_name("test-lost")
TASKS = 8
"""Tasks that Rally begins before something is lost, by when it has written samples."""


def start(target, **variables):
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES} | {"WORK": str(LOST), "TEST_MODE": "1"}
    command = ["make", "--no-print-directory", target, *(f"{k}={v}" for k, v in variables.items())]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill(cluster):
    for process in cluster.processes():
        for each in [*process.children(recursive=True), process]:
            each.kill()


def race_that_loses(strike, race_id, **variables):
    """Strikes amid a race; returns how long the race went on, the lines of error, and the code that make prints."""
    race, said, tasks = start("race", RACE_ID=race_id, **variables), [], set()
    for line in race.stdout:
        said.append(line)
        tasks |= set(re.findall(r"Running (\S+)", line))
        if len(tasks) >= TASKS:
            break
    assert len(tasks) == TASKS, "".join(said)
    strike()
    started = time.monotonic()
    said += race.communicate(timeout=240)[0].splitlines(keepends=True)
    seconds = time.monotonic() - started
    assert race.returncode, "".join(said)
    return seconds, [line.rstrip("\n") for line in said if line.startswith("[ERROR]")], code_of("".join(said))


def code_of(said):
    """The exit code of what stands behind make."""
    return int(re.findall(r"^make.* Error (\d+)$", said, re.MULTILINE)[-1])


def report_of(race_id):
    """What a report prints, and the code; it starts the store anew where that is lost."""
    said = start("report", RACE=race_id, VERBOSE="1").communicate(timeout=300)[0]
    return said, code_of(said)


@pytest.fixture(scope="module")
def up():
    shutil.rmtree(LOST, ignore_errors=True)
    assert start("up").wait(timeout=300) == 0
    yield Launcher(LOST, DOWNLOADS)
    start("down").wait(timeout=120)
    shutil.rmtree(LOST, ignore_errors=True)


@pytest.mark.parametrize("name", ["target", pytest.param("metrics-store", marks=pytest.mark.long)])
def test_a_race_ends_with_one_line_soon_after_its_target_or_store_is_killed(up, name):
    race_id = f"lost-{name}"
    seconds, errors, code = race_that_loses(lambda: kill(up.running(name)), race_id)
    assert seconds < 30, errors
    assert len(errors) == 1 and code == Exit.INCOMPLETE, (code, errors)
    assert errors[0].startswith(f"[ERROR] race {race_id} is INCOMPLETE: the {name} is lost, its process "), errors
    written = int(re.search(r"at least ([\d,]+) documents of samples", errors[0])[1].replace(",", ""))
    assert written
    if name == "target":
        store = up.running("metrics-store").url
        requests.post(f"{store}/rally-metrics-*/_refresh", timeout=30).raise_for_status()
        found = requests.get(f"{store}/rally-metrics-*/_count?q=race-id:{race_id}", timeout=30).json()["count"]
        assert written <= found
    report, code = report_of(race_id)
    assert code == Exit.INCOMPLETE, report
    first = re.search(r"^(# |\[ERROR\] ).*", report, re.MULTILINE)[0]  # the latter where no sample was written
    assert first in (
        f"# INCOMPLETE: Race {race_id}",
        f"[ERROR] race [{race_id}] is INCOMPLETE: it was not finished and has no samples of this track",
    ), report
    if first.startswith("#"):
        assert f"{first}\n\n- **The race was not finished.**" in report


@pytest.mark.long
def test_a_race_whose_metrics_store_has_a_full_disk_ends_with_a_line_that_says_so(up, small_disk):
    store = up.start("full", port=9240, data=small_disk, heap="512m")
    try:
        put_template(store)
        seconds, errors, _ = race_that_loses(lambda: fill(small_disk), "full-store", STORE=store.url)
    finally:
        up.stop("full")
        (small_disk / "full").unlink()
    assert seconds < 120, errors
    assert errors and all(line.isprintable() for line in errors)
    assert "race full-store is INCOMPLETE" in errors[-1], errors


@pytest.mark.long
def test_a_race_whose_load_driver_has_a_full_disk_does_not_end_as_complete(up, small_disk):
    assert start("up").wait(timeout=300) == 0  # those that were killed
    hosts, store = up.running("target").hosts[0], up.running("metrics-store").url
    elsewhere = {"WORK": small_disk / "_work", "HOSTS": hosts, "STORE": store}
    _, errors, code = race_that_loses(lambda: fill(small_disk), "full-driver", **elsewhere)
    assert code and errors and all(line.isprintable() for line in errors), errors
    assert "No space left" in errors[-1] or "INCOMPLETE" in errors[-1], errors
