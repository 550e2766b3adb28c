"""The bare command, ``esrally race`` without a pipeline, so that Rally provisions its own node, offline."""

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, make

CAN_READ_ALL = 1 << 2
"""The bit of CAP_DAC_READ_SEARCH."""


def may_pass_on_reading():
    bounds = re.search(r"CapBnd:\s*(\w+)", Path("/proc/self/status").read_text())
    return os.geteuid() != 0 or int(bounds.group(1), 16) & CAN_READ_ALL


@pytest.mark.skipif(not may_pass_on_reading(), reason="root cannot have another user read its Python here")
def test_bare_esrally_provisions_the_embedded_elasticsearch(loaded, search):
    prepared = make("offline", HEAP="512m")
    assert prepared.returncode == 0, prepared.stdout
    command = prepared.stdout.splitlines()[-1]
    assert command.endswith("esrally race --track-path=. --challenge=query-decomp --target-hosts=127.0.0.1:19200")
    more = "--test-mode --race-id=bare --include-tasks=tag:setup,check-index,D_td-serial --on-error=abort"
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # Rally's own port is taken, by this or by another connection
            taken.bind(("127.0.0.1", 39200))
        race = subprocess.run(f"{command} {more}", shell=True, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert race.returncode == 0, race.stdout[-3000:] + race.stderr[-3000:]
    assert "Traceback" not in race.stderr
    (document,) = search("rally-races-*", {"query": {"term": {"race-id": "bare"}}})["hits"]["hits"]
    assert document["_source"]["pipeline"] == "from-distribution"
    assert document["_source"]["car"] == ["defaults"]
    assert document["_source"]["cluster"]["distribution-version"] == "8.17.2"
    tasks = {row["task"] for row in document["_source"]["results"]["op_metrics"]}
    assert "D_td-serial" in tasks
