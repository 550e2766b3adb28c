"""The capacity challenges on real nodes: every cell in every pass, what is sent is counted, and what ends a race."""

import csv
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests
from conftest import DOWNLOADS, ROOT, WORK, make

from _tools.elasticsearch.nodes import Launcher

GRID = {
    "capacity_shards": [1, 2],
    "capacity_replicas": [0],
    "mixed_docs_per_second": [100],
    "capacity_clients": 2,
    "capacity_bulk_size": 2,
    "cell_seconds": 2,
    "cell_warmup_seconds": 0,
    "words_mapping": "heavy",
}


def params(path, **changes):
    path.write_text(json.dumps(GRID | changes))
    return str(path)


def test_searches_and_documents_are_counted_by_cell_and_pass(loaded, tmp_path):
    race = make(
        "race", TEST_MODE=1, CHALLENGE="capacity-mixed", RACE_ID="capacity", PARAMS=params(tmp_path / "params.json")
    )
    assert race.returncode == 0, race.stdout[-5000:]
    assert "failed samples" not in race.stdout and "Incomplete" not in race.stdout
    with open(WORK / "reports" / "capacity" / "es_profile_capacity.csv") as f:
        rows = list(csv.DictReader(f))
    expected = {
        (f"{s}s-0r-100", n, kind) for s in (1, 2) for n in "12" for kind in ("capacity-index", "capacity-query")
    }
    assert {(r["cell"], r["pass"], r["kind"]) for r in rows} == expected and len(rows) == len(expected)
    for row in rows:
        assert json.loads(row["shard_table"]) == {"target-1": [f"{shard}p" for shard in range(int(row["shards"]))]}
        assert int(row["documents"]) >= 1000 and int(row["requests"]) > 5 and float(row["per_s"]) > 2
        assert row["bottleneck"] != "not recorded" and row["rejected"] == "0"
    left = requests.get(f"{loaded['target']}/_cat/indices/cluster-metrics-words*?h=index", timeout=30).text
    assert not left.split()
    plan = make("plan", RACES="capacity", TARGET_QPS=10)
    assert plan.returncode != 0
    assert "[ERROR] TARGET_QPS takes a race of capacity-query with more than 3 cells among RACES" in plan.stdout


def test_a_grid_that_the_target_cannot_hold_ends_the_race_with_one_line(loaded, tmp_path):
    grid = params(tmp_path / "params.json", capacity_replicas=[0, 1])
    race = make("race", TEST_MODE=1, CHALLENGE="capacity-query", PARAMS=grid)
    assert race.returncode != 0
    line = "[capacity_replicas] asks for 1 replicas, which takes 2 data nodes; the target has 1"
    assert line in race.stdout.replace("\n", " ")


@pytest.fixture
def three_nodes():
    """The work folder of three nodes that hold data and one that takes all requests."""
    work = ROOT / "_work" / "test-capacity"
    shutil.rmtree(work, ignore_errors=True)
    try:
        up = make("up", WORK=work, NODES=3, NODE_CORES=0.4, COORDINATOR=1, HEAP="512m")
        assert up.returncode == 0, up.stdout
        yield work
    finally:
        make("down", WORK=work)


def test_a_node_that_leaves_ends_the_race_and_what_was_raced_is_reported(three_nodes, tmp_path):
    target = Launcher(three_nodes, DOWNLOADS).running("target")
    assert len(target.http_ports) == 4 and len(target.hosts) == 1
    grid = params(tmp_path / "params.json", capacity_shards=[2], capacity_replicas=[0, 1], words_mapping="light")
    common = {"WORK": three_nodes, "RACE_ID": "left"}
    with ThreadPoolExecutor() as pool:
        race = pool.submit(make, "race", TEST_MODE=1, CHALLENGE="capacity-query", PARAMS=grid, **common)
        store = Launcher(three_nodes, DOWNLOADS).running("metrics-store").url
        first_pass = {"query": {"bool": {"filter": [{"term": {"task": "query-2s-0r"}}, {"term": {"meta.pass": 1}}]}}}
        while not race.done():
            found = requests.post(f"{store}/rally-metrics-*/_count", json=first_pass, timeout=30).json()
            if found.get("count"):
                break
            time.sleep(0.2)
        node = psutil.Process(target.pids[1][0])
        for process in [node, *node.children(recursive=True)]:
            process.kill()
        ended = race.result()
    assert ended.returncode != 0
    assert "node target-2 left the target; the cells raced before are in the metrics store" in ended.stdout
    assert "Traceback" not in ended.stdout
    report = make("report", WORK=three_nodes, RACE="left")
    assert report.returncode == 0, report.stdout
    assert "**Incomplete: the race was not finished.**" in report.stdout
    assert "target-4 holds no data and takes all requests" in report.stdout
    with open(three_nodes / "reports" / "left" / "es_profile_capacity.csv") as f:
        rows = list(csv.DictReader(f))
    assert ("2s-0r", "1") in {(row["cell"], row["pass"]) for row in rows}
    assert all(int(row["documents"]) == 1000 for row in rows)
