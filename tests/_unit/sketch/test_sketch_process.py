"""The sketch server as a process: what clients that would exhaust it meet, and its command line."""

import re
import select
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import requests

from cluster_metrics.corpus.metrics import FIELDS

ROOT = Path(__file__).parents[3]


def memory_of(process):
    """The greatest resident memory of a process so far, in MB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()).group(1)) / 1e3


@contextmanager
def running(*options):
    """The server as a process, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "_tools.sketch_server", f"--port={port}", *options], cwd=ROOT)
    try:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None
            time.sleep(0.05)
        yield process, port
    finally:
        process.kill()
        process.wait()


def test_many_epochs_in_a_small_body_take_little_memory():
    many = 100_000
    columns = {
        "epoch": list(range(many)),
        "node": ["N"] * many,
        "task": ["T"] * many,
        **dict.fromkeys(FIELDS, [1] * many),
    }
    with running() as (process, port):
        requests.put(f"http://127.0.0.1:{port}/t", json={"nodes": ["N"]}, timeout=10)
        before = memory_of(process)
        response = requests.post(f"http://127.0.0.1:{port}/t/rows", json=columns, timeout=60)
        assert response.status_code == 400
        assert response.json()["error"] == (
            "the batch has 100,000 new groups of epoch and node, there is room for 20,000"
        )
        assert memory_of(process) - before < 100


PUT = b"PUT /t HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SILENT = {
    "nothing": b"",
    "half a request line": b"PUT /t HT",
    "half of its headers": PUT,
    "after a whole request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "half of its body": PUT + b'Content-Length: 20\r\n\r\n{"nodes":',
    "a body of 100 GB": PUT + b"Content-Length: 100000000000\r\n\r\n{",
}


def test_a_client_that_keeps_the_server_waiting_is_cut_off():
    with running("--seconds=1") as (_, port), ExitStack() as stack:
        clients = {name: stack.enter_context(socket.create_connection(("127.0.0.1", port))) for name in SILENT}
        busy = stack.enter_context(requests.Session())
        for name, sent in SILENT.items():
            clients[name].sendall(sent)
            clients[name].settimeout(20)
        started = time.monotonic()
        while time.monotonic() - started < 3:  # one that asks again and again is served all the while
            assert busy.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200
            time.sleep(0.1)
        answers = {}
        for name, client in clients.items():
            with suppress(ConnectionResetError):
                while received := client.recv(65536):
                    answers[name] = answers.get(name, b"") + received
        assert time.monotonic() - started < 20
    assert answers["half of its body"].endswith(b'{"error":"the body did not arrive within 1 s"}')
    assert b" 413 " in answers["a body of 100 GB"] and b" 200 " in answers["after a whole request"]
    assert len(answers) == 3


def test_the_time_for_a_body_begins_with_its_request():
    with running("--seconds=1.5") as (_, port), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(SILENT["after a whole request"])
        time.sleep(1)
        client.sendall(PUT + b'Content-Length: 15\r\n\r\n{"nodes"')
        time.sleep(1)
        client.sendall(b':["a"]}')
        client.settimeout(20)
        received = b""
        while not received.endswith(b'{"nodes":1}'):
            assert (chunk := client.recv(65536)), received
            received += chunk


def test_a_client_that_takes_no_response_is_cut_off():
    with running("--seconds=1", "--most-groups=3000") as (_, port):
        nodes = [f"N{n:04d}" for n in range(3000)]
        columns = {"epoch": [1] * 3000, "node": nodes, "task": ["T"] * 3000, **dict.fromkeys(FIELDS, [1] * 3000)}
        requests.put(f"http://127.0.0.1:{port}/t", json={"nodes": nodes}, timeout=10)
        assert requests.post(f"http://127.0.0.1:{port}/t/rows", json=columns, timeout=60).status_code == 200
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            question = f"GET /t/answers?epoch=1&percents={','.join(map(str, range(100)))} HTTP/1.1\r\nHost: x\r\n\r\n"
            client.sendall(question.encode())
            select.select([client], [], [], 60)  # the response has begun, and waits to be taken
            time.sleep(3)
            client.settimeout(20)
            received = 0
            with suppress(ConnectionResetError):
                while chunk := client.recv(1 << 20):
                    received += len(chunk)
        assert 0 < received < 3000 * len(FIELDS) * 100 * 8, "the whole response was sent"


def test_what_the_command_line_refuses():
    command = [sys.executable, "-m", "_tools.sketch_server"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options, reason in (
            (["--seconds=0"], "--seconds is [0], allowed is a number above 0\n"),
            (["--most-groups=-1"], "--most-groups is [-1], allowed is a number above 0\n"),
            (["--port=99999"], "--port is [99999], allowed is a port from 0 to 65535\n"),
            ([f"--port={port}"], f"[ERROR] cannot listen on [127.0.0.1:{port}]: "),
        ):
            ended = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=30)
            assert ended.returncode and reason in ended.stderr and "Traceback" not in ended.stderr
