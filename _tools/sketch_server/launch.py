"""Starts the sketch server as the launcher starts nodes; the launcher stops it."""

import contextlib
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import requests

from ..elasticsearch.nodes import Cluster, Launcher, NodeError, end_with_parent, free_port

NAME = "sketch-server"
PORT = 9210
START_SECONDS = 30


def start(launcher: Launcher, outlive: bool = False, port: int = PORT) -> Cluster:
    """Starts the sketch server and waits until it answers.

    :param launcher: keeps its state and its log, and stops it by :data:`NAME`.
    :param outlive: whether it keeps running after this process; otherwise it ends with it, however it ends.
    :param port: to listen on (default 9210); one that is taken is replaced by a free one.
    :raises NodeError: when it ends at start, or does not answer in time.
    """
    launcher.stop(NAME)
    server = Cluster(NAME, version("datasketches"), [free_port(port)], product="datasketches")
    log = launcher.root / f"{NAME}.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "_tools.sketch_server", f"--port={server.http_ports[0]}"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if outlive else end_with_parent,
        )
    launcher.keep(server, process)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(requests.RequestException):
            requests.get(server.url, timeout=5).raise_for_status()
            return server
        time.sleep(0.1)
    launcher.stop(NAME)
    raise NodeError(f"the sketch server does not answer, its log:\n{log.read_text(errors='replace')[-2000:]}")
