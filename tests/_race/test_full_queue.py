"""A load of a node whose write queue holds one request: what it rejects is sent again, and found once."""

import csv
import json
import re
from collections import Counter

import pytest
import requests
from conftest import DOWNLOADS, WORK, make

from _tools.elasticsearch.nodes import Launcher
from cluster_metrics.corpus import metrics

NAME = "narrow"
BULK_SIZE = 50


@pytest.fixture
def narrow(loaded):
    """A target of its own, beside the metrics store of the others."""
    launcher = Launcher(WORK, DOWNLOADS)
    yield launcher.start(NAME, port=9240, settings={"thread_pool.write.queue_size": 1, "node.processors": 2})
    launcher.stop(NAME)


@pytest.mark.long
def test_every_document_that_a_full_queue_rejects_arrives_once(narrow):
    # of the parts of one request alone, one by shard, two threads and a queue of one take no more than three
    params = f"number_of_shards:4,bulk_size:{BULK_SIZE},bulk_indexing_clients:2,epochs:1"
    params += ",bulk_retries:12,bulk_retry_pause_ms:20"
    done = make("race", TEST_MODE=1, CHALLENGE="ingest", HOSTS=narrow.hosts[0], RACE_ID="full-queue", PARAMS=params)
    assert done.returncode == 0, done.stdout[-5000:]
    with open(WORK / "reports" / "full-queue" / "es_profile_ingest_batches.csv") as f:
        batches = list(csv.DictReader(f))
    repeated = [int(row["repeated_docs"]) for row in batches]
    assert sum(int(row["retries"]) for row in batches) > 0 and sum(float(row["retry_wait_ms"]) for row in batches) > 0
    assert any(documents % BULK_SIZE for documents in repeated), "requests were rejected in part"
    sent = b"".join(metrics.rows(metrics.Metrics(rows_per_epoch=1000), 1)).splitlines()
    query = {"size": 10_000, "query": {"match_all": {}}}
    found = requests.get(f"{narrow.url}/cluster-metrics/_search", json=query, timeout=30).json()["hits"]["hits"]
    assert Counter(json.dumps(hit["_source"]) for hit in found) == Counter(json.dumps(json.loads(row)) for row in sent)
    assert f"{sum(repeated):,} documents sent again" in done.stdout
    assert re.search(r"held back by\W+queue: clients paused for", done.stdout)
