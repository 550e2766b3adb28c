"""Real nodes and a real Rally for the tests below. They keep to a work folder of their own."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests
from esrally.client import EsClientFactory
from xdist.scheduler import LoadScopeScheduling

from _tools.elasticsearch.nodes import Launcher
from _tools.race.variables import VARIABLES
from cluster_metrics.core.challenge import challenges

ROOT = Path(__file__).parents[2]
WORK = ROOT / "_work" / "test"
SECURED = ROOT / "_work" / "test-secured"
DOWNLOADS = ROOT / "_work" / "downloads"
ESRALLY = str(Path(sys.executable).with_name("esrally"))
RALLYS_OWN = re.compile(r"success|error-.*|weight|unit|tag_.*|attribute_.*|source_revision|distribution_.*|client_id")
"""Keys that Rally gives to samples of every operation."""


ONE_AT_A_TIME = ("tests/_race/", "tests/_unit/microbenchmarks/test_harness.py")
"""Rally allows one race on a machine, JMH one run."""


class OneRaceAtATime(LoadScopeScheduling):
    """Spreads tests over pytest's processes, but gives all that exclude each other to one."""

    def _split_scope(self, nodeid):
        return next((place for place in ONE_AT_A_TIME if nodeid.startswith(place)), nodeid)


def pytest_xdist_make_scheduler(config, log):
    return OneRaceAtATime(config, log)


def make(target, timeout=900, leaves=(), **variables):
    """Runs a make target as a user would, with its output piped and the whole report in it; a race leaves the indices
    that its record says, and these."""
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES} | {"WORK": str(WORK), "VERBOSE": "1"}
    command = ["make", "--no-print-directory", target, *(f"{k}={v}" for k, v in variables.items())]
    before = indices() if target == "race" else set()
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout
    )
    if target == "race" and done.returncode == 0:
        own = challenges()[variables.get("CHALLENGE", "query-decomp")].leaves
        assert indices() - before <= {*own, *leaves}, "a race leaves no other index than its record says"
    return done


def indices():
    """The names of the indices of the target that ``make up`` keeps up; none where it is down."""
    target = Launcher(WORK, DOWNLOADS).running("target")
    return set(target.session().get(f"{target.url}/_all/_settings", timeout=30).json()) if target else set()


def leftovers():
    """Command lines of nodes and Rally processes that still run from the tests' work folder."""
    found = []
    for process in psutil.process_iter():
        try:
            text = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and (
                f"{WORK.resolve()}/" in text
                and "java" in text
                or process.environ().get("RALLY_HOME") == f"{WORK}/rally"
            ):
                found.append(text)
        except psutil.Error:
            pass
    return found


@pytest.fixture(scope="module")
def small_disk():
    """A file system of 100 MB for the data of a node; not in pytest's own folder, which each run shuts for others."""
    WORK.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=WORK.parent, prefix="disk-"))
    folder.chmod(0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "none", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
    folder.rmdir()


def fill(folder):
    """Fills the file system of a folder, by a file whose path is returned."""
    file = folder / "full"
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as f:
        while True:
            f.write(bytes(1 << 16))
    return file


@pytest.fixture
def launcher():
    return Launcher(WORK, DOWNLOADS)


@pytest.fixture(scope="session")
def loaded():
    """Target and metrics store, kept up by ``make up``, after one race of query-decomp in test mode."""
    make("down")
    shutil.rmtree(WORK, ignore_errors=True)  # an interrupted test may have left an index of its own
    up = make("up")
    assert up.returncode == 0, up.stdout
    launcher = Launcher(WORK, DOWNLOADS)
    race = make("race", TEST_MODE=1, RACE_ID="first", TAGS="intention:test,run:1", PARAMS="warmup_iterations:1")
    assert race.returncode == 0, race.stdout[-5000:]
    yield {
        "target": launcher.running("target").url,
        "store": launcher.running("metrics-store").url,
        "output": race.stdout,
    }
    make("down")


@pytest.fixture(scope="session")
def secured():
    """Target and metrics store as ``make up SECURITY=1`` starts them, in a work folder of their own."""
    shutil.rmtree(SECURED, ignore_errors=True)
    try:
        up = make("up", WORK=SECURED, SECURITY=1, HEAP="512m")
        assert up.returncode == 0, up.stdout
        yield Launcher(SECURED, DOWNLOADS)
    finally:
        make("down", WORK=SECURED)


@pytest.fixture
def indexed(loaded):
    """The same, with the index that this race loaded, whatever other tests have left of it."""
    count = requests.get(f"{loaded['target']}/cluster-metrics/_count", timeout=30)
    if not count.ok or count.json()["count"] != 5000:
        setup = make("race", TEST_MODE=1, RALLY_ARGS="--include-tasks=tag:setup")
        assert setup.returncode == 0, setup.stdout[-5000:]
    return loaded


@pytest.fixture(scope="session")
def search(loaded):
    """Searches the metrics store."""

    def search(index, body):
        requests.post(f"{loaded['store']}/{index}/_refresh", timeout=30).raise_for_status()
        url = f"{loaded['store']}/{index}/_search?track_total_hits=true"  # as Kibana asks
        response = requests.post(url, json=body, timeout=30)
        response.raise_for_status()
        return response.json()

    return search


@pytest.fixture(scope="session")
def recorded(search):
    """Holds what a race left in the metrics store against the record of its challenge."""

    def recorded(race_id, never=()):
        filters = [{"term": {"race-id": race_id}}, {"term": {"name": "service_time"}}]

        def of(size, *more):
            body = {"size": size, "query": {"bool": {"filter": [*filters, *more]}}}
            return [hit["_source"] for hit in search("rally-metrics-*", body)["hits"]["hits"]]

        record = challenges()[of(1)[0]["challenge"]]
        documents = [found for kind in record.samples for found in of(5000, {"term": {"operation-type": kind}})]
        assert {d["operation-type"] for d in documents} & set(record.samples) == set(record.samples) - set(never)
        for operation in record.operations:
            shared = {key.name for sample in operation.samples for key in sample.keys}  # a round's reach its samples
            for sample in operation.samples:
                must = {key.name for key in sample.keys if not key.optional}
                for keys in [set(d["meta"]) for d in documents if d["operation-type"] == sample.type]:
                    keys = {key for key in keys if not RALLYS_OWN.fullmatch(key)}
                    assert must <= keys <= shared, (sample.type, must - keys, keys - shared)

    return recorded


@pytest.fixture
def with_client(loaded):
    """Runs a coroutine function that takes Rally's client of the target, and returns what it returns."""
    url = urlsplit(loaded["target"])

    async def call(function):
        es = EsClientFactory([{"host": url.hostname, "port": url.port}], {"timeout": 60}).create_async(client_id=0)
        es.init_request_context()
        try:
            return await function(es)
        finally:
            await es.close()

    return lambda function: asyncio.run(call(function))
