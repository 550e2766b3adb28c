"""esql-stored-fields, and the production question in ES|QL, on a node that has it."""

import csv
import json

import pytest
import requests
from conftest import DOWNLOADS, ROOT, WORK, make

from _tools.elasticsearch.nodes import Launcher
from cluster_metrics.corpus.encoded import JSON
from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import NAME, Metrics
from cluster_metrics.query.configurations import CONFIGURATIONS
from cluster_metrics.query.layouts import bulk_bodies
from cluster_metrics.query.query_frontier import errors_of


@pytest.fixture(scope="module")
def target():
    launcher = Launcher(WORK, DOWNLOADS)
    yield launcher.start("esql", "8.19.4", heap="512m", port=0)
    launcher.stop("esql")


def test_every_share_is_asked_at_every_setting_and_read_as_the_setting_says(loaded, recorded, target, tmp_path):
    hosts = target.hosts[0]
    params = tmp_path / "params.json"
    params.write_text(json.dumps({"shares_permille": [1000, 300, 100], "text_order": "random", "esql_rounds": 2}))
    race = make("race", TEST_MODE=1, CHALLENGE="esql-stored-fields", HOSTS=hosts, RACE_ID="esql", PARAMS=str(params))
    assert race.returncode == 0, race.stdout[-5000:]
    assert "INCOMPLETE" not in race.stdout
    recorded("esql")
    with open(WORK / "reports" / "esql" / "es_profile_esql.csv") as f:
        rows = list(csv.DictReader(f))
    cells = {(row["setting"], row["share_permille"]) for row in rows}
    assert cells == {(setting, share) for setting in ("as is", "1", "0") for share in ("1000", "300", "100")}
    for row in rows:
        assert row["documents_found"] == row["documents"] == row["share_permille"]
        in_force = {"as is": 0.2, "1": 1.0, "0": 0.0}[row["setting"]]
        assert float(row["sequential_proportion"]) == in_force
        if row["operation_type"] == "esql-stored-fields-profiled":
            dense = int(row["share_permille"]) / 1000 >= in_force
            assert (row["pages_sequential"] != "0", row["pages_other"] != "0") == (dense, not dense)


def test_the_production_question_is_answered_nearly_exactly(target, tmp_path):
    corpus = Metrics(nodes=5, rows_per_epoch=1000, epochs=1)
    path, nodes, configuration = corpus.generate(0, tmp_path), corpus.node_names(), CONFIGURATIONS["esql"]
    url = f"{target.url}/{NAME}"
    requests.put(url, json=json.loads((ROOT / "index.json").read_text()), timeout=30).raise_for_status()
    headers = {"content-type": "application/x-ndjson"}
    for body, _ in bulk_bodies(JSON.row_bytes(1), str(path)):
        assert not requests.post(f"{url}/_bulk?refresh=true", data=body, headers=headers, timeout=30).json()["errors"]
    (asked,) = configuration.requests(nodes, 1)
    headers = {"content-type": asked.content_type}
    response = requests.post(f"{target.url}{asked.path}", data=asked.body, headers=headers, timeout=30)
    found = configuration.answers(nodes, configuration.searches([response.content]))
    for node, expected in load_answers(path).items():
        assert max(errors_of(found[node], expected)) < 1e-6
