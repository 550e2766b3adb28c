"""What a node that is killed keeps of the documents that it acknowledged, by the durability of its translog."""

import json
import random
import shutil
import threading
import time

import pytest
import requests
from conftest import DOWNLOADS, ROOT

from _tools.elasticsearch.nodes import Launcher

WORK = ROOT / "_work" / "test-killed"
INDEX = "killed"
BULK = 100
SYNCED_SECONDS = 5
"""``index.translog.sync_interval`` by default."""


@pytest.fixture(scope="module")
def launcher():
    shutil.rmtree(WORK, ignore_errors=True)
    launcher = Launcher(WORK, DOWNLOADS)
    yield launcher
    launcher.stop("killed")
    shutil.rmtree(WORK, ignore_errors=True)


def start(launcher):
    return launcher.start("killed", port=9240, heap="512m", outlive=True)


def killed_while_loaded(launcher, durability, seconds):
    """Loads documents one bulk request after the other until the node is killed.

    :param seconds: after the first of them was acknowledged.
    :return: when each was acknowledged, by its id, and when the node was killed.
    """
    target = launcher.running("killed") or start(launcher)
    index, acknowledged, killed = f"{target.url}/{INDEX}", {}, []
    requests.delete(index, timeout=30)
    settings = {"number_of_replicas": 0, "translog.durability": durability}
    requests.put(index, json={"settings": settings}, timeout=30).raise_for_status()

    def kill():
        own = target.processes()[0]
        killed.append(time.monotonic())
        for process in (*own.children(recursive=True), own):
            process.kill()

    timer = threading.Timer(seconds, kill)
    for first in range(0, 10_000_000, BULK):
        actions = ({"index": {"_id": str(i)}} for i in range(first, first + BULK))
        body = "".join(f'{json.dumps(action)}\n{{"value":{first}}}\n' for action in actions)
        try:
            response = requests.post(
                f"{index}/_bulk", data=body, headers={"Content-Type": "application/x-ndjson"}, timeout=30
            ).json()
        except requests.RequestException:
            break
        now = time.monotonic()
        if not acknowledged:
            timer.start()
        acknowledged |= {item["index"]["_id"]: now for item in response["items"] if item["index"]["status"] == 201}
    timer.join()
    return acknowledged, killed[0]


def lost(launcher, acknowledged):
    """Those that are not found by their id once the node runs again."""
    target, ids, missing = start(launcher), list(acknowledged), set()
    for first in range(0, len(ids), 10_000):
        body = {"ids": ids[first : first + 10_000]}
        answer = requests.post(f"{target.url}/{INDEX}/_mget?_source=false", json=body, timeout=60).json()
        missing |= {document["_id"] for document in answer["docs"] if not document["found"]}
    return missing


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_acknowledged_is_found_after_a_kill_if_each_request_is_synced(launcher, seed):
    acknowledged, _ = killed_while_loaded(launcher, "request", random.Random(seed).uniform(3, 10))
    assert len(acknowledged) > 10 * BULK
    assert not lost(launcher, acknowledged)


@pytest.mark.long
def test_of_what_was_acknowledged_a_kill_loses_but_the_last_seconds_if_the_translog_is_synced_now_and_then(launcher):
    found = []
    for seed in (1, 2, 3):
        acknowledged, killed = killed_while_loaded(launcher, "async", random.Random(seed).uniform(6, 12))
        missing = lost(launcher, acknowledged)
        oldest = killed - min((acknowledged[i] for i in missing), default=killed)
        found.append((len(missing), oldest))
        print(f"{len(missing):,} of {len(acknowledged):,} documents lost, acknowledged up to {oldest:.1f} s before")
    assert all(oldest <= SYNCED_SECONDS + 1 for _, oldest in found)
    assert any(count for count, _ in found)
