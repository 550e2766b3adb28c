"""The challenge ingest on a real node: what it loads is accounted for, and what is lost ends the race."""

import json

import pytest
import requests
from conftest import ROOT, WORK, make
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


@pytest.fixture
def pipeline(loaded):
    """The name of an ingest pipeline that does nothing."""
    url = f"{loaded['target']}/_ingest/pipeline/empty"
    requests.put(url, json={"processors": []}, timeout=30).raise_for_status()
    yield "empty"
    requests.delete(url, timeout=30).raise_for_status()


@pytest.mark.long
@pytest.mark.parametrize(
    "params, settings",
    [
        (
            "compress_requests:true,codec:best_compression,translog_flush_threshold:16mb",
            {"codec": "best_compression", "translog": {"durability": "request", "flush_threshold_size": "16mb"}},
        ),
        ("bulk_runner:native,bulk_indexing_clients:3,bulk_size:70", {}),
        ("timestamps:true,index_mode:time_series", {"mode": "time_series", "routing_path": ["node", "task"]}),
        ("timestamps:true,index_mode:logsdb,bulk_runner:native", {"mode": "logsdb"}),
    ],
)
def test_a_load_by_what_a_user_may_set_is_accounted_for(loaded, pipeline, params, settings):
    params += f",epochs:2,ingest_pipeline:{pipeline}"
    assert_all_is_accounted_for(loaded, "ingest", params, 2000, ["1", "2"])
    found = requests.get(f"{loaded['target']}/{INDEX}/_settings", timeout=30).json()[INDEX]["settings"]["index"]
    assert {key: found.get(key) for key in settings} == settings
    sent = json.loads((WORK / "reports" / "ingest" / "report.json").read_text())["parameters"]
    assert sent["ingest_pipeline"] == pipeline


@pytest.mark.long
@pytest.mark.parametrize("bulk_runner", ["slices", "native"])
def test_a_pipeline_that_is_not_there_ends_the_race(loaded, bulk_runner):
    params = f"ingest_pipeline:none-such,bulk_runner:{bulk_runner}"
    race = make("race", TEST_MODE=1, CHALLENGE="ingest", RACE_ID="no-pipeline", PARAMS=params)
    assert race.returncode != 0
    assert "1,000 of 1,000 documents rejected" in race.stdout and "none-such" in race.stdout, race.stdout[-3000:]
