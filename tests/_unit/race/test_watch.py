"""A race ends soon after what it needs is lost; processes, ports and an answering store are real."""

import http.server
import inspect
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from urllib.parse import unquote

import elasticsearch
import pytest
from esrally.driver import driver
from planted import remove_outside

from _tools.elasticsearch import processes
from _tools.elasticsearch.nodes import Cluster, Launcher
from _tools.race import rally as rally_module
from _tools.race import watch as module
from _tools.race.variables import VARIABLES
from _tools.race.watch import LostError, Watch, knock, takes_samples
from _tools.report.race import IncompleteError


@contextmanager
def python(code):
    process = subprocess.Popen([sys.executable, "-c", code])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def node():
    with python("import time; time.sleep(60)") as process:
        yield process


@pytest.fixture
def rally():
    with python("import time; time.sleep(60)") as process:
        yield process


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(module, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.6)


def cluster(process, name="metrics-store"):
    return Cluster(name, "8.17.2", [9200], [(process.pid, processes.started(process.pid))])


class Store:
    """An HTTP server that answers as it is told: with a status, or not at all."""

    def __init__(self):
        self.status, self.health, store = 200, "green", self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked_of = {"/": "green", "/_cluster/health/rally-*": store.health}
                health = asked_of.get(unquote(self.path), "red")  # of an index of somebody else
                answer = {"version": {"number": "8.17.2"}, "status": health, "unassigned_shards": 2}
                body = json.dumps(answer).encode()
                if not store.status:
                    time.sleep(1)
                    return
                self.send_response(store.status)
                self.send_header("content-type", "application/json")
                self.send_header("x-elastic-product", "Elasticsearch")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def asked(self):
        client = elasticsearch.Elasticsearch(f"http://127.0.0.1:{self.port}", request_timeout=0.1, max_retries=0)
        return {"metrics store": lambda: takes_samples(client)}


@pytest.fixture
def store():
    store = Store()
    yield store
    store.server.shutdown()
    store.server.server_close()


def later(seconds, function, *arguments):
    threading.Timer(seconds, function, arguments).start()


def refused(watch, rally):
    started = time.monotonic()
    with pytest.raises(LostError) as lost:
        watch.wait(rally)
    return str(lost.value), time.monotonic() - started


@pytest.mark.parametrize("code", [0, 3])
def test_a_race_that_loses_nothing_ends_with_rallys_exit_code(tmp_path, node, store, code):
    with python(f"import time; time.sleep(1); raise SystemExit({code})") as rally:
        assert Watch("r", [cluster(node)], store.asked(), tmp_path / "log").wait(rally) == code


def test_a_process_that_has_ended_ends_the_race_at_once(tmp_path, node, rally):
    later(0.3, node.kill)
    line, seconds = refused(Watch("r", [cluster(node)], {}, tmp_path / "log"), rally)
    assert line == f"the metrics-store is lost, its process {node.pid} has ended"
    assert seconds < 5 and rally.poll() is None, "whoever runs Rally ends it"


def test_one_of_several_nodes_is_named(tmp_path, node, rally):
    with python("import time; time.sleep(60)") as second:
        both = cluster(node, "target")
        both.pids += cluster(second).pids
        second.kill()
        assert (
            f"the target is lost, its process {second.pid} has ended"
            in refused(Watch("r", [both], {}, tmp_path / "log"), rally)[0]
        )


def test_what_was_lost_is_named_where_rally_notices_first(tmp_path, node):
    with python("raise SystemExit(64)") as rally:
        rally.wait()
        node.kill()
        node.wait()
        assert "the metrics-store is lost" in refused(Watch("r", [cluster(node)], {}, tmp_path / "log"), rally)[0]


def test_a_race_that_was_over_is_none_that_was_lost(tmp_path, node):
    with python("pass") as rally:
        rally.wait()
        node.kill()
        node.wait()
        assert Watch("r", [cluster(node)], {}, tmp_path / "log").wait(rally) == 0


@pytest.mark.parametrize("status", [0, 429, 502, 503, 504])
def test_a_store_that_does_not_answer_in_time_is_lost(tmp_path, store, rally, status):
    later(0.2, setattr, store, "status", status)
    line, seconds = refused(Watch("r", [], store.asked(), tmp_path / "log"), rally)
    assert "the metrics store is lost, it has not answered for 1 s (" in line and "\n" not in line
    assert 0.6 <= seconds < 6


@pytest.mark.parametrize("health, lost", [("yellow", False), ("red", True)])
def test_a_store_that_answers_and_has_lost_its_shards_is_lost(tmp_path, store, health, lost):
    store.health = health
    with python("import time; time.sleep(1)") as rally:
        watch = Watch("r", [], store.asked(), tmp_path / "log")
        if lost:
            said = "the metrics store is lost, it has not answered for 1 s (2 shards of its indices are lost)"
            assert said in refused(watch, rally)[0]
        else:
            assert watch.wait(rally) == 0


def test_a_store_that_is_gone_is_lost(tmp_path, store, rally):
    watch = Watch("r", [], store.asked(), tmp_path / "log")
    store.server.shutdown()
    store.server.server_close()
    line, _ = refused(watch, rally)
    assert "the metrics store is lost" in line and "Connection refused" in line


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_store_that_answers_no_is_not_lost(tmp_path, store, status):
    store.status = status
    with python("import time; time.sleep(1)") as rally:
        assert Watch("r", [], store.asked(), tmp_path / "log").wait(rally) == 0


def test_a_store_is_asked_at_times_alone_and_not_at_every_look(tmp_path, monkeypatch):
    asked, at = [], [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: at[0]))
    watch = Watch("r", [], {"store": lambda: asked.append(at[0])}, tmp_path / "log")
    for at[0] in (1000.0, 1000.01, 1000.0 + module.ASK_SECONDS - 0.01, 1000.0 + module.ASK_SECONDS + 0.01):
        assert watch._silent() == ""
    assert asked == [1000.0, 1000.0 + module.ASK_SECONDS + 0.01]


def test_a_store_that_answers_again_is_not_lost(tmp_path, store):
    for seconds, status in ((0.1, 503), (0.4, 200), (0.7, 503), (1, 200)):
        later(seconds, setattr, store, "status", status)
    with python("import time; time.sleep(1.5)") as rally:
        assert Watch("r", [], store.asked(), tmp_path / "log").wait(rally) == 0


def test_a_target_is_lost_where_none_of_its_hosts_takes_a_connection(store):
    here, closed = {"host": "127.0.0.1", "port": store.port}, {"host": "127.0.0.1", "port": 1}
    knock([here, closed])
    knock([closed, here])
    with pytest.raises(OSError):
        knock([closed, closed])


def test_all_hosts_that_are_silent_take_no_longer_than_one(monkeypatch):
    waits = []

    def silent(place, seconds):
        waits.append(seconds)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(OSError):
        knock([{"host": "127.0.0.1", "port": port} for port in (1, 2, 3)])
    assert len(waits) == 3 and sum(waits) == pytest.approx(module.ASK_SECONDS)


def written(number, ago):
    """A line of Rally's log."""
    at = datetime.now(timezone.utc) - timedelta(seconds=ago)
    text = f"esrally.metrics INFO Successfully added {number} metrics documents for race"
    return f"{at:%Y-%m-%d %H:%M:%S},123 ActorAddr-(T|:1)/PID:1 {text}\n"


DROPPED = (
    "2026-01-01 00:00:00,123 ActorAddr-(T|:1)/PID:1 esrally.driver.driver WARNING "
    "Dropping sample for [search] due to a full sampling queue.\n"
)
LOSES_ITS_NODE = """
import os, signal, sys, time

def end(*_):
    with open({log!r}, "a") as out:
        out.write({lines!r})
    sys.exit(1)

signal.signal(signal.SIGTERM, end)
open({pid!r}, "w").write(str(os.getpid()))
os.kill({node}, signal.SIGKILL)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "writes, said",
    [
        ([], "no documents of samples were written"),
        (
            [(1200, 4000), (34, 10)],
            "at least 1,234 documents of samples were written, what came in the last [1-9][0-9] s may be lost",
        ),
        (
            [(7, -3600)],  # the clock was set back since
            "at least 7 documents of samples were written, what came in the last 0 s may be lost",
        ),
        (
            [(7, 90_000)],
            "at least 7 documents of samples were written, what came in the last 90,0[0-9]+ s may be lost",
        ),
    ],
)
def test_rally_is_ended_when_what_it_needs_is_lost_and_what_it_wrote_until_then_is_counted(
    tmp_path, node, writes, said
):
    log, pid = tmp_path / "log", tmp_path / "pid"
    log.write_text(written(5000, 90))
    watch = Watch("r", [cluster(node)], {}, log)
    code = LOSES_ITS_NODE.format(
        log=str(log), lines="another line\n".join(written(*w) for w in writes), pid=str(pid), node=node.pid
    )
    line = (
        f"race r is INCOMPLETE: the metrics-store is lost, its process {node.pid} has ended; {said}; "
        "'make report RACE=r' shows what there is of it"
    )
    with pytest.raises(IncompleteError, match=f"^{line}$"):
        watch.run([sys.executable, "-c", code])
    assert processes.started(int(pid.read_text())) is None


FULL = f"import sys; open(sys.argv[1], 'a').write({DROPPED!r} * int(sys.argv[2])); sys.exit(int(sys.argv[3]))"


@pytest.mark.parametrize(
    "number, code, said", [(0, 0, ""), (1, 0, "1 sample"), (12345, 0, "12,345 samples"), (9, 64, "")]
)
def test_samples_that_rally_drops_make_a_race_incomplete(tmp_path, monkeypatch, number, code, said):
    monkeypatch.setattr(rally_module, "wait_for_rally_to_end", lambda: [])
    log = tmp_path / "log"
    log.write_text(DROPPED)  # of a race before
    watch, command = Watch("r", [], {}, log), [sys.executable, "-c", FULL, str(log), str(number), str(code)]
    if not said:
        assert watch.run(command) == code  # one that Rally ends is incomplete anyway
        return
    line = (
        f"race r is INCOMPLETE: Rally dropped {said}, for which its queue had no room; "
        "'make report RACE=r' shows what there is of it"
    )
    with pytest.raises(IncompleteError, match=f"^{line}$"):
        watch.run(command)


def test_rally_says_so_when_it_drops_a_sample(caplog):
    """In the words that are looked for."""
    sampler = driver.Sampler(0, buffer_size=1)
    task = SimpleNamespace(operation=SimpleNamespace(name="search"))
    for _ in range(2):
        sampler.add(task, 0, *[None] * (len(inspect.signature(sampler.add).parameters) - 2))
    [record] = caplog.records
    assert len(DROPPED.splitlines()) == 1 and record.getMessage() in DROPPED


@pytest.fixture
def launcher(tmp_path, node, monkeypatch):
    """One that finds a target and a metrics store up."""
    monkeypatch.setattr(rally_module, "INI", tmp_path / "rally.ini")
    for name in (*VARIABLES, "CHALLENGE"):
        monkeypatch.delenv(name, raising=False)
    launcher = Launcher(tmp_path, tmp_path)
    for name in ("target", "metrics-store", "sketch-server"):
        found = cluster(node, name)
        found.pids = []
        launcher.keep(found, node)
    yield launcher
    remove_outside(tmp_path)


@pytest.mark.parametrize(
    "named, watched, asked",
    [
        ({}, ["target", "metrics-store"], ["metrics store"]),
        ({"CHALLENGE": "sketch-floor"}, ["target", "metrics-store", "sketch-server"], ["metrics store"]),
        ({"HOSTS": "127.0.0.1:{port}"}, ["metrics-store"], ["metrics store", "target [127.0.0.1:{port}]"]),
        ({"STORE": "http://127.0.0.1:{port}"}, ["target"], ["metrics store"]),
    ],
)
def test_what_a_race_needs_is_watched_and_nothing_else(launcher, store, monkeypatch, named, watched, asked):
    for name, value in named.items():
        monkeypatch.setenv(name, value.format(port=store.port))
    rally_module.write_configuration(rally_module.Store(f"http://127.0.0.1:{store.port}"), rally_module.INI)
    found = module.watch(launcher, f"127.0.0.1:{store.port}", "r")
    assert [cluster.name for cluster in found.embedded] == watched
    assert list(found.asked) == [name.format(port=store.port) for name in asked]
    for ask in found.asked.values():
        ask()
    store.server.shutdown()
    store.server.server_close()
    with pytest.raises((OSError, elasticsearch.TransportError)):
        list(found.asked.values())[-1]()
