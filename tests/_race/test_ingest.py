"""The ingest challenges on a real node: what they load is accounted for, and what is lost ends the race."""

import csv
import json

import pytest
import requests
from conftest import ROOT, WORK, make

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


@pytest.mark.parametrize(
    "challenge, params, rows",
    [
        (
            "append-no-conflicts-index-only",
            "epochs:2,bulk_runner:native,bulk_size:10,ingest_percentage:50,target_docs_per_second:1,source_mode:synthetic",
            1000,
        ),
        ("ingest", "bulk_size:100,bulk_indexing_clients:2", 5000),  # leaves the index as other tests want it
    ],
)
def test_a_load_is_recorded_request_by_request_and_epoch_by_epoch(loaded, challenge, params, rows):
    tags = "intention:test"
    race = make("race", TEST_MODE=1, CHALLENGE=challenge, RACE_ID=challenge, PARAMS=params, TAGS=tags)
    assert race.returncode == 0, race.stdout[-5000:]
    assert requests.get(f"{loaded['target']}/{INDEX}/_count", timeout=30).json()["count"] == rows
    with open(WORK / "reports" / challenge / "es_profile_ingest_epoch.csv") as f:
        epochs = list(csv.DictReader(f))
    with open(WORK / "reports" / challenge / "es_profile_ingest_batches.csv") as f:
        batches = list(csv.DictReader(f))
    assert sum(int(row["rows"]) for row in epochs) == sum(int(row["rows"]) for row in batches) == rows
    assert [row["epoch"] for row in epochs] == ([*"12345"] if challenge == "ingest" else ["0"])
    assert sum(float(row["took_sum_ms"]) for row in epochs) == sum(float(row["took_ms"]) for row in batches)
    assert all(float(row["target_cpu_ms"]) > 0 and float(row["index_ms"]) > 0 for row in epochs)
    left = requests.get(f"{loaded['target']}/_cat/indices/{INDEX}*?h=index", timeout=30).text.split()
    assert left == [INDEX]
