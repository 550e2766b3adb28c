"""Lets the runners of a race start and stop the sampler of make's process: HTTP on loopback, from nowhere else."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .sampler import Sampler, SamplerError

HOST = "127.0.0.1"


class Control:
    """What a runner may ask of a sampler, one request at a time.

    :param sampler: None where there is none.
    :param problem: why there is none.
    """

    def __init__(self, sampler: Sampler | None, problem: str = ""):
        self.sampler = sampler
        self.problem = problem
        self._one = threading.Lock()

    def answer(self, asked: str) -> dict[str, Any]:
        """What is answered to ``start``, ``stop`` or ``state``: ``pids`` of the target's nodes, ``recordings`` that a
        start began, and the ``problem`` if there is one, which then stays."""
        with self._one:
            found: dict[str, Any] = {"pids": self.sampler.pids if self.sampler else []}
            if self.sampler and not self.problem:
                try:
                    if asked == "start":
                        found["recordings"] = self.sampler.start()
                    elif asked == "stop":
                        self.sampler.stop()
                except SamplerError as e:
                    self.problem = str(e)
                    print(f"no CPU profile from here on, the race goes on without: {e}", flush=True)
            return found | {"problem": self.problem}


@contextlib.contextmanager
def served(control: Control) -> Iterator[str]:
    """Serves a control for as long as the context lasts.

    :return: ``host:port``.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps(control.answer(self.path.strip("/"))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{HOST}:{server.server_port}"
    finally:
        control.answer("stop")
        server.shutdown()
        server.server_close()
