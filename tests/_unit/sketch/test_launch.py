"""How long a sketch server runs that was started for a race, and one that was started to stay."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from _tools.elasticsearch.nodes import NodeError
from _tools.sketch_server import launch

ROOT = Path(__file__).parents[3]
STARTER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from _tools.sketch_server import launch

def keep(server, process):
    print(process.pid, server.http_ports[0])

launcher = SimpleNamespace(root=Path(sys.argv[1]), stop=lambda name: None, keep=keep)
launch.start(launcher, port=int(sys.argv[3]), **({"outlive": True} if sys.argv[2] == "outlives" else {}))
"""


def answers(port):
    with suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/", timeout=5).json() == {"tables": []}
    return False


@pytest.mark.parametrize("outlives", [True, False])
def test_a_sketch_server_outlives_who_started_it_only_where_it_shall(tmp_path, outlives):
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it takes another port
        given = [str(tmp_path), "outlives" if outlives else "ends", str(taken.getsockname()[1])]
        done = subprocess.run(
            [sys.executable, "-c", STARTER, *given], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    pid, port = map(int, done.stdout.split())
    try:
        for _ in range(100):
            if answers(port) == outlives:
                break
            time.sleep(0.1)
        assert answers(port) == outlives
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_sketch_server_that_ends_at_its_start_is_stopped_and_its_log_is_told(tmp_path, monkeypatch):
    (python := tmp_path / "python").write_text("#!/bin/sh\necho no module named datasketches\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(launch.sys, "executable", str(python))
    stopped, began = [], time.monotonic()
    launcher = SimpleNamespace(root=tmp_path, stop=stopped.append, keep=lambda server, process: process.wait())
    with pytest.raises(NodeError, match="does not answer, its log:\nno module named datasketches\n$"):
        launch.start(launcher)
    assert stopped == [launch.NAME, launch.NAME]
    assert time.monotonic() - began < launch.START_SECONDS / 2, "it was not waited for any longer"
