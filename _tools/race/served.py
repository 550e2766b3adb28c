"""What the runners of a race may ask make's process for: HTTP on loopback, from nowhere else."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

HOST = "127.0.0.1"


class Answers(Protocol):
    """What answers them."""

    def answer(self, asked: str) -> dict[str, Any]:
        """What is answered to a word; ``stop`` is asked at the end."""


@contextlib.contextmanager
def served(answers: Answers) -> Iterator[str]:
    """Serves it for as long as the context lasts.

    :return: ``host:port``.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps(answers.answer(self.path.strip("/"))).encode()
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
        answers.answer("stop")
        server.shutdown()
        server.server_close()
