"""The challenge ingest on a real node: what it loads is accounted for, and what is lost ends the race."""

import json

import requests
from conftest import ROOT, make
from loads import assert_all_is_accounted_for

INDEX = "cluster-metrics"


def test_documents_that_the_mapping_rejects_end_the_race(loaded):
    body = json.loads((ROOT / "index.json").read_text())
    body["mappings"]["properties"]["net"] = {"type": "byte"}
    body["settings"] = {"number_of_replicas": 0}
    requests.delete(f"{loaded['target']}/{INDEX}", timeout=30).raise_for_status()
    requests.put(f"{loaded['target']}/{INDEX}", json=body, timeout=30).raise_for_status()
    tasks = "--include-tasks=ingest-begin,index-append,refresh-after-index"
    race = make(
        "race", TEST_MODE=1, CHALLENGE="ingest", RALLY_ARGS=tasks, PARAMS="bulk_size:100,bulk_indexing_clients:2"
    )
    found = requests.get(f"{loaded['target']}/{INDEX}/_count", timeout=30).json()["count"]
    assert race.returncode != 0
    assert 0 < found < 1000
    message = f"{found} acknowledged ({found - 1000:+}), {found} found after the refresh ({found - 1000:+})"
    assert message in race.stdout, race.stdout[-3000:]
    assert f"{1000 - found} of 1,000 documents rejected: {1000 - found} by document_parsing_exception" in race.stdout
    requests.delete(f"{loaded['target']}/{INDEX}", timeout=30).raise_for_status()


def test_a_load_is_recorded_request_by_request_and_epoch_by_epoch(loaded, recorded):
    params = "bulk_size:100,bulk_indexing_clients:2"
    assert_all_is_accounted_for(loaded, "ingest", params, 5000, [*"12345"])
    recorded("ingest")
