"""Many races one after the other, and many rows: what grows that should not."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
import requests
from conftest import ROOT, WORK, make
from elasticsearch import Elasticsearch, helpers
from scipy import stats

from _tools.elasticsearch.install import JRE_HOME
from cluster_metrics.ingest.load import BULK

pytestmark = pytest.mark.long
APPEND = "append-no-conflicts-index-only"
RACES = 60
WARM = 10
"""Races after which nodes have settled."""
LEVEL = 0.999
"""Of the intervals of slopes: a dozen are held against zero."""
LISTENING, WAITING = "LISTEN", "TIME_WAIT"
KEPT = ("rally/.rally/benchmarks/races", "rally/.rally/logs", "reports", "elasticsearch")
"""Below the work folder, what keeps a file for each race on purpose, or is the nodes'."""


def node_figures(cluster):
    """Of each node: heap after a full collection, open files and threads."""
    for pid, _ in cluster.pids:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        server = next(p for p in family if "org.elasticsearch.server" in " ".join(p.cmdline()))
        subprocess.run([JRE_HOME / "bin" / "jcmd", str(server.pid), "GC.run"], check=True, capture_output=True)
    found = {}
    url = f"{cluster.url}/_nodes/stats/process,jvm"
    for node in requests.get(url, timeout=30).json()["nodes"].values():
        found[f"heap of {node['name']}, MB"] = node["jvm"]["mem"]["heap_used_in_bytes"] / 1e6
        found[f"open files of {node['name']}"] = node["process"]["open_file_descriptors"]
        found[f"threads of {node['name']}"] = node["jvm"]["threads"]["count"]
    return found


def machine_figures():
    """Processes, ports and sockets of the machine, and files in the work folder that no race keeps."""
    sockets = psutil.net_connections()
    kept = [str(WORK / folder) for folder in KEPT]
    files = [f for folder, _, files in os.walk(WORK) if not folder.startswith(tuple(kept)) for f in files]
    return {
        "processes": sum(p.status() != psutil.STATUS_ZOMBIE for p in psutil.process_iter()),
        "ports": sum(s.status == LISTENING for s in sockets),
        "sockets": sum(s.status != WAITING for s in sockets),
        "files": len(files),
    }


def slope(values):
    """Least slope of a straight line through values that one after the other took, by its interval, and the slope."""
    fit = stats.linregress(np.arange(len(values)), values)
    return fit.slope - stats.t.ppf((1 + LEVEL) / 2, len(values) - 2) * fit.stderr, fit.slope


def of_rally(process):
    try:
        return process.environ().get("RALLY_HOME") == f"{WORK}/rally" and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def wait_for_rally():
    """Until Rally's processes have ended, which they do after the race."""
    for _ in range(30):
        if not any(map(of_rally, psutil.process_iter())):
            return
        time.sleep(0.5)


def test_nothing_grows_from_race_to_race(loaded, launcher):
    params = "variants:D_td,transports:serial,passes:1,rounds:2,warmup_iterations:0,warmup_rounds:1"
    seen = []
    for number in range(RACES):
        race = make("race", TEST_MODE=1, PARAMS=params, RACE_ID=f"endurance-{number}", VERBOSE=0)
        assert race.returncode == 0, race.stdout[-3000:]
        wait_for_rally()
        found = machine_figures()
        for name in ("target", "metrics-store"):
            found |= node_figures(launcher.running(name))
        seen.append(found)
    slopes = {name: slope([found[name] for found in seen[WARM:]]) for name in seen[0]}
    for name, (least, middle) in slopes.items():
        print(f"{name}: {seen[WARM][name]:.6g} to {seen[-1][name]:.6g}, {middle:+.3g} a race, at least {least:+.3g}")
    assert {name for name, (least, _) in slopes.items() if least > 0} == set()


def test_twenty_million_rows_take_no_more_memory_of_the_client(loaded):
    seen, done = [], threading.Event()

    def look():
        while not done.wait(1.0):
            own = [p for p in psutil.process_iter() if of_rally(p)]
            seen.append(max((p.memory_info().rss for p in own if p.is_running()), default=0) / 1e6)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        race = make("race", timeout=3000, CHALLENGE="ingest", PARAMS="epochs:20", RACE_ID="endurance-rows", VERBOSE=0)
    finally:
        done.set()
        looking.join()
    assert race.returncode == 0, race.stdout[-3000:]
    half = len(seen) // 2
    first, second = np.median(seen[half // 2 : half]), np.median(seen[half:])
    print(f"largest process of Rally: {first:.0f} MB in the second quarter, {second:.0f} MB in the second half")
    assert second < 1.1 * first


def generated(epochs, folder):
    """The memory of the largest process that generates so many million rows, in MB."""
    command = [sys.executable, "generate_corpus.py", f"--out={folder}", "cluster-metrics", f"--epochs={epochs}"]
    most = 0.0
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as generator:
        while generator.poll() is None:
            with contextlib.suppress(psutil.Error):
                family = psutil.Process(generator.pid).children(recursive=True)
                most = max([most, *(process.memory_info().rss / 1e6 for process in family)])
            time.sleep(0.05)
    assert generator.returncode == 0
    shutil.rmtree(folder)
    return most


def test_twenty_million_rows_are_generated_in_the_memory_of_two(tmp_path):
    two, twenty = (generated(epochs, tmp_path / str(epochs)) for epochs in (2, 20))
    print(f"largest process of the generator: {two:.0f} MB for 2 million rows, {twenty:.0f} MB for 20 million")
    assert twenty < 1.1 * two


SAMPLES = 1_000_000


def test_a_million_requests_are_reported_within_a_gigabyte(loaded):
    params = "epochs:10,bulk_size:1,bulk_indexing_clients:1"
    race = make("race", TEST_MODE=1, CHALLENGE=APPEND, PARAMS=params, RACE_ID="many", VERBOSE=0)
    assert race.returncode == 0, race.stdout[-3000:]
    store = Elasticsearch(loaded["store"], request_timeout=60)
    store.indices.refresh(index="rally-*")
    [document] = store.search(index="rally-races-*", query={"term": {"race-id": "many"}})["hits"]["hits"]
    store.index(index=document["_index"], document=document["_source"] | {"race-id": "copied"})
    helpers.bulk(store, copies(store, "many", "copied"), chunk_size=5000)
    store.indices.refresh(index="rally-*")
    of_copy = {"bool": {"filter": [{"term": {"race-id": "copied"}}, {"term": {"name": "service_time"}}]}}
    count = store.count(index="rally-metrics-*", query=of_copy)["count"]
    assert count >= SAMPLES
    started = time.monotonic()
    report = make("report", RACE="copied", VERBOSE=0)
    seconds, peak = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"{count:,} requests were reported in {seconds:.1f} s; no process took more than {peak:.2f} GB")
    assert report.returncode == 0, report.stdout[-3000:]
    assert peak < 1


def copies(store, race_id, name):
    """The documents of a race as those of another, its requests so often that there are a million; one copy comes after
    the other in time, and what came after the load after all of them."""
    query = {"query": {"bool": {"filter": [{"term": {"race-id": race_id}}]}}}
    hits = list(helpers.scan(store, index="rally-metrics-*", query=query, size=5000))
    found = [hit["_source"] for hit in hits]
    requests = [document for document in found if document.get("operation-type") == BULK]
    first, last = (edge(document["@timestamp"] for document in requests) for edge in (min, max))
    times, long = SAMPLES // sum(document["name"] == "service_time" for document in requests), last - first + 1000

    def moved(document, shift):
        at = {key: document[key] + shift for key in ("@timestamp", "relative-time") if key in document}
        return {"_index": hits[0]["_index"]} | document | at | {"race-id": name}

    yield from (moved(document, times * long if document["@timestamp"] > last else 0) for document in found)
    yield from (moved(document, number * long) for number in range(1, 1 + times) for document in requests)
