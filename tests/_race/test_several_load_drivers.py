"""Races from three load drivers: hosts made of namespaces of their own for network, processes and mounts."""

import hashlib
import json
import os
import shutil
import subprocess
from contextlib import ExitStack

import psutil
import pytest
from conftest import DOWNLOADS, ESRALLY, ROOT, make

from _tools.elasticsearch import nodes
from _tools.elasticsearch.nodes import Launcher
from _tools.race import clusters
from cluster_metrics.corpus.metrics import FIELDS

pytestmark = pytest.mark.long
WORK = ROOT / "_work" / "test-drivers"
BRIDGE, NETWORK = "cm-bridge", "10.231.77"
DRIVERS = 3
AT_ONCE = {"challenge": "append-no-conflicts-index-only", "params": {"bulk_indexing_clients": 6, "bulk_size": 100}}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Driver:
    """A host: a shell of its own that runs what it is asked to."""

    def __init__(self, number, stack):
        self.address, self.home = f"{NETWORK}.{10 + number}", WORK / f"driver-{number}"
        self.home.mkdir(parents=True)
        name, veth = f"cm-{number}", f"cm-veth-{number}"
        run("ip", "netns", "add", name)
        stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", veth, "master", BRIDGE, "up")
        run("ip", "-n", name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")
        run("ip", "-n", name, "route", "add", "default", "via", f"{NETWORK}.1")
        unshare = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sleep", "infinity"]
        self._outer = subprocess.Popen(["ip", "netns", "exec", name, *unshare])
        stack.callback(self._end)
        while not (children := psutil.Process(self._outer.pid).children()):
            assert self._outer.poll() is None
        (self._first,) = children

    def _end(self):
        self._outer.kill()  # and with it the first process of its namespace, and so all of them
        self._outer.wait(timeout=30)

    def run(self, *command, timeout=600):
        """Runs a command on this host; returns its exit code and what it said."""
        env = os.environ | {"RALLY_HOME": str(self.home), "THESPIAN_BASE_IPADDR": self.address}
        if command[0] == ESRALLY:
            env["RALLY_RUNNING_IN_DOCKER"] = "TRUE"  # in which a daemon would stay in the foreground
        enter = ["nsenter", f"--target={self._first.pid}", "--net", "--pid", "--mount", "env", "-C", str(ROOT)]
        with open(self.home / "said", "w+b") as said:  # no pipe, which a daemon would keep open
            done = subprocess.run(
                [*enter, *command],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            )
            said.seek(0)
            return done.returncode, said.read().decode(errors="replace")


@pytest.fixture(scope="module")
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def bridge(stack):
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        pytest.skip("takes root, ip, unshare and nsenter")
    if subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("unshare is refused here")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    stack.callback(subprocess.run, ["ip", "link", "del", BRIDGE], check=False)
    run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    return f"{NETWORK}.1"


@pytest.fixture(scope="module")
def secured(bridge, stack):
    """Target and metrics store with TLS and a password, which listen on the bridge's address."""
    shutil.rmtree(WORK, ignore_errors=True)
    patch = pytest.MonkeyPatch()
    stack.callback(patch.undo)
    patch.setattr(nodes, "HOST", bridge)
    launcher = Launcher(WORK, DOWNLOADS)
    for name, port in (("target", 9200), ("metrics-store", 9209)):
        stack.callback(launcher.stop, name)
        launcher.start(name, port=port, heap="512m", secured=True)
    clusters.put_template(launcher.running("metrics-store"))
    return launcher


@pytest.fixture(scope="module")
def drivers(secured, stack):
    """Three hosts, each with a Rally of its own whose daemon runs."""
    store = secured.running("metrics-store")
    ini = (ROOT / "rally.ini.example").read_text()
    values = {
        "host": store.hosts[0].split(":")[0],
        "port": store.http_ports[0],
        "secure": True,
        "user": store.client_options["basic_auth_user"],
        "password": store.client_options["basic_auth_password"],
    }
    lines = [line for line in ini.splitlines() if not line.startswith(tuple(f"datastore.{key} " for key in values))]
    own = [f"datastore.{key} = {value}" for key, value in values.items()]
    own.append(f"datastore.ssl.certificate_authorities = {store.client_options['ca_certs']}")
    at = lines.index("[reporting]") + 1
    found = [Driver(number, stack) for number in range(1, DRIVERS + 1)]
    for driver in found:
        (driver.home / ".rally").mkdir()
        (driver.home / ".rally" / "rally.ini").write_text("\n".join([*lines[:at], *own, *lines[at:], ""]))
        coordinator = f"--coordinator-ip={found[0].address}"
        code, said = driver.run(f"{ESRALLY}d", "start", f"--node-ip={driver.address}", coordinator)
        assert code == 0, said
    return found


@pytest.fixture(scope="module")
def race(secured, drivers, tmp_path_factory):
    """Races from so many of the hosts, the first of them in charge."""
    target = secured.running("target")

    def race(race_id, challenge, params, count=DRIVERS):
        file = tmp_path_factory.mktemp("params") / "params.json"
        file.write_text(json.dumps(params))
        code, said = drivers[0].run(
            ESRALLY,
            "race",
            "--track-path=.",
            f"--challenge={challenge}",
            "--pipeline=benchmark-only",
            f"--target-hosts={target.hosts[0]}",
            f"--client-options={target.client_options_file}",
            f"--load-driver-hosts={','.join(driver.address for driver in drivers[:count])}",
            f"--track-params={file}",
            f"--race-id={race_id}",
            "--test-mode",
            "--on-error=abort",
        )
        assert code == 0, said[-5000:]
        report = make("report", WORK=WORK, RACE=race_id, INI=drivers[0].home / ".rally" / "rally.ini")
        assert report.returncode == 0 and "INCOMPLETE" not in report.stdout, report.stdout[-5000:]
        return report.stdout

    return race


def corpora(driver):
    """The sha256 of each generated file on a host, by its path."""
    root = driver.home / ".rally" / "benchmarks" / "data"
    files = [path for path in root.rglob("*") if path.is_file() and "corpora" in path.parts]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def samples(store, race_id):
    """How many requests of each task a race left, by task."""
    query = {"bool": {"filter": [{"term": {"race-id": race_id}}, {"term": {"name": "service_time"}}]}}
    body = {"size": 0, "query": query, "aggs": {"tasks": {"terms": {"field": "task", "size": 1000}}}}
    store.session().post(f"{store.url}/rally-metrics-*/_refresh", timeout=30).raise_for_status()
    found = store.session().post(f"{store.url}/rally-metrics-*/_search", json=body, timeout=30).json()
    return {b["key"]: b["doc_count"] for b in found["aggregations"]["tasks"]["buckets"] if b["key"] != "monitor"}


def sums(target):
    """How many documents the index has, and the sum of each field: a document that is there twice shows in both."""
    aggregations = {field: {"sum": {"field": field}} for field in FIELDS}
    body = {"size": 0, "track_total_hits": True, "aggs": aggregations}
    found = target.session().post(f"{target.url}/cluster-metrics/_search", json=body, timeout=30).json()
    return [found["hits"]["total"]["value"], *(of["value"] for of in found["aggregations"].values())]


def test_a_load_from_three_hosts_is_the_load_from_one(secured, drivers, race):
    target, store, found = secured.running("target"), secured.running("metrics-store"), []
    for race_id, count in (("load-by-one", 1), ("load-by-three", DRIVERS)):
        report = race(race_id, AT_ONCE["challenge"], AT_ONCE["params"], count)
        assert ("came from 3 load drivers, whose CPU is not told" in report) is (count == DRIVERS)
        found.append((sums(target), samples(store, race_id)))
    (by_one, samples_of_one), (by_three, samples_of_three) = found
    assert by_three == pytest.approx(by_one, rel=1e-9) and by_one[0] and samples_of_three == samples_of_one
    of = [corpora(driver) for driver in drivers]
    assert of[0] and of[0] == of[1] == of[2]


def test_searches_from_three_hosts_are_answered_as_from_one(secured, drivers, race):
    store, params = secured.running("metrics-store"), {"warmup_iterations": 0, "passes": 1, "rounds": 2}
    found = []
    for race_id, count in (("asked-by-one", 1), ("asked-by-three", DRIVERS)):
        race(race_id, "query-decomp", params, count)  # every answer is checked
        found.append(samples(store, race_id))
    assert found[0] == found[1] and found[0]


def test_capacity_from_three_hosts_has_the_tasks_of_one(secured, drivers, race):
    params = {"capacity_shards": [1], "capacity_replicas": [0], "capacity_clients": 6, "passes": 2}
    found = []
    for race_id, count in (("capacity-by-one", 1), ("capacity-by-three", DRIVERS)):
        report = race(race_id, "capacity-query", params, count)
        assert ("came from 3 load drivers" in report) is (count == DRIVERS)
        found.append(set(samples(secured.running("metrics-store"), race_id)))
    assert found[0] == found[1] and found[0]
