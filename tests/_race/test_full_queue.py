"""Loads of a node whose write queue holds one request: what it rejects is sent again, and found once."""

import csv
import json
from collections import Counter

import pytest
import requests
from conftest import DOWNLOADS, WORK, make

from _tools.elasticsearch.nodes import Launcher

NAME = "narrow"
SHARDS, BULK_SIZE = 4, 20


@pytest.fixture(scope="module")
def narrow(loaded):
    """A target of its own, beside the metrics store of the others."""
    launcher = Launcher(WORK, DOWNLOADS)
    yield launcher.start(NAME, port=9240, settings={"thread_pool.write.queue_size": 1})
    launcher.stop(NAME)


def race(narrow, race_id, **params):
    params = {"number_of_shards": SHARDS, "bulk_size": BULK_SIZE, "bulk_indexing_clients": 8, "epochs": 1} | params
    given = ",".join(f"{name}:{value}" for name, value in params.items())
    return make("race", TEST_MODE=1, CHALLENGE="ingest", HOSTS=narrow.hosts[0], RACE_ID=race_id, PARAMS=given)


def test_every_document_that_a_full_queue_rejects_arrives_once(narrow):
    done = race(narrow, "full-queue", bulk_retries=12, bulk_retry_pause_ms=10)
    assert done.returncode == 0, done.stdout[-5000:]
    with open(WORK / "reports" / "full-queue" / "es_profile_ingest_batches.csv") as f:
        batches = list(csv.DictReader(f))
    repeated = [int(row["repeated_docs"]) for row in batches]
    assert sum(int(row["retries"]) for row in batches) > 0 and sum(float(row["retry_wait_ms"]) for row in batches) > 0
    assert any(documents % BULK_SIZE for documents in repeated), "requests were rejected in part"
    [rows] = (WORK / "rally" / ".rally" / "benchmarks" / "data" / "cluster-metrics").glob("*-epoch-1-1k.json")
    query = {"size": 10_000, "query": {"match_all": {}}}
    found = requests.get(f"{narrow.url}/cluster-metrics/_search", json=query, timeout=30).json()["hits"]["hits"]
    assert Counter(json.dumps(hit["_source"]) for hit in found) == Counter(
        json.dumps(json.loads(line)) for line in rows.read_text().splitlines()
    )
    assert f"{sum(repeated):,} documents sent again" in done.stdout


def test_a_bound_that_is_reached_ends_the_race_and_says_what_is_lost(narrow):
    done = race(narrow, "queue-stays-full", bulk_retries=0)
    assert done.returncode != 0
    assert "documents rejected: " in done.stdout and "by 429 es_rejected_execution_exception" in done.stdout
