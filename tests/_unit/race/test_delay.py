import asyncio
import contextlib
import http.server
import threading
import time

import pytest
import requests

from _tools.race.delay import delayed


@pytest.fixture
def server():
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def test_bytes_arrive_unchanged_and_late(server):
    body = bytes(range(256)) * 4096
    with delayed(server, 30) as host, requests.Session() as session:
        for _ in range(3):
            started = time.perf_counter()
            response = session.post(f"http://{host}", data=body, timeout=10)
            assert response.content == body
            assert time.perf_counter() - started >= 0.06


def test_a_target_that_is_gone_closes_the_connection():
    with delayed("127.0.0.1:9", 1) as host, pytest.raises(requests.ConnectionError):
        requests.get(f"http://{host}", timeout=10)


@pytest.mark.parametrize("outwards", [True, False])
def test_a_tap_cuts_a_connection_and_no_other(server, outwards):
    seen = []

    def tap(chunk, out):
        seen.append((len(chunk), out))
        return chunk[:-1] if out == outwards and cut else None

    with delayed(server, 0, lambda: tap) as host:
        for cut in (False, True, False):
            whole = False
            with requests.Session() as session, contextlib.suppress(requests.RequestException):
                whole = session.post(f"http://{host}", data=b"x" * 10, timeout=10).content == b"x" * 10
            assert whole is not cut
    assert {out for _, out in seen} == {True, False}


def test_no_chunk_is_held_back_for_longer_than_was_asked(server, monkeypatch):
    asked, sleep = [], asyncio.sleep

    async def noted(seconds):
        asked.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    with delayed(server, 30) as host:
        assert requests.post(f"http://{host}", data=b"x" * 10**6, timeout=10).content == b"x" * 10**6
    assert len(asked) >= 2 and max(asked) <= 0.03 + 1e-9
    assert min(asked) < 0.015, "those behind a chunk wait beside it"
