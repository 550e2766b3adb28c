"""capacity-query on real nodes, and what ends a capacity race."""

import contextlib
import csv
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests
from conftest import DOWNLOADS, ROOT, make
from grids import params

from _tools.elasticsearch import cpu
from _tools.elasticsearch.nodes import Launcher


def test_a_grid_that_the_target_cannot_hold_ends_the_race_with_one_line(loaded, tmp_path):
    grid = params(tmp_path / "params.json", capacity_replicas=[0, 1])
    host = loaded["target"].removeprefix("http://")
    race = make("race", TEST_MODE=1, CHALLENGE="capacity-query", HOSTS=host, PARAMS=grid)
    assert race.returncode != 0
    line = "[capacity_replicas] asks for 1 replicas, which takes 2 data nodes; the target has 1"
    assert line in race.stdout.replace("\n", " ")


@pytest.mark.long
def test_a_disk_above_the_high_watermark_ends_the_race_with_one_line(launcher, small_disk, tmp_path):
    grid = params(tmp_path / "params.json", capacity_shards=[1])
    node = launcher.start("nearly-full", port=9250, data=small_disk, heap="512m")
    try:
        disk = shutil.disk_usage(small_disk)
        (small_disk / "much").write_bytes(bytes(disk.free - disk.total // 20))
        race = make("race", TEST_MODE=1, CHALLENGE="capacity-query", HOSTS=node.hosts[0], PARAMS=grid)
    finally:
        launcher.stop("nearly-full")
    assert race.returncode != 0
    line = "the disk of node nearly-full-1 is more than 90% full"
    assert line in race.stdout.replace("\n", " "), race.stdout[-3000:]


@pytest.mark.long
def test_words_that_were_kept_are_searched_and_cloned_and_not_loaded_again(loaded, search, tmp_path):
    left = [f"cluster-metrics-words-{shards}s-0r" for shards in (1, 2, 3)]
    grid = params(tmp_path / "params.json", capacity_shards=[1, 2, 3], keep_words=True, words_mapping="light")
    common = {"TEST_MODE": 1, "CHALLENGE": "capacity-query", "HOSTS": loaded["target"].removeprefix("http://")}
    try:
        for race_id in ("kept-1", "kept-2"):
            race = make("race", PARAMS=grid, RACE_ID=race_id, leaves=left, **common)
            assert race.returncode == 0, race.stdout[-5000:]
        grid = params(tmp_path / "params.json", capacity_shards=[2], keep_words=True, words_mapping="light")
        mixed = common | {"CHALLENGE": "capacity-mixed", "RACE_ID": "kept-3"}
        race = make("race", PARAMS=grid, leaves=left, **mixed)
        assert race.returncode == 0, race.stdout[-5000:]
        ids = ["kept-1", "kept-2", "kept-3"]
        filters = [{"term": {"operation-type": "capacity-build"}}, {"terms": {"race-id": ids}}]
        filters.append({"term": {"name": "service_time"}})
        found = search("rally-metrics-*", {"query": {"bool": {"filter": filters}}})["hits"]["hits"]
        seconds = {hit["_source"]["race-id"]: hit["_source"]["meta"]["load_s"] for hit in found}
        assert seconds["kept-1"] > 0 and seconds["kept-2"] == seconds["kept-3"] == 0
        settings = requests.get(f"{loaded['target']}/{left[1]}/_settings", timeout=30).json()[left[1]]["settings"]
        assert settings["index"]["number_of_shards"] == "2", "it is split from that of one shard"
        grid = params(tmp_path / "params.json", capacity_shards=[1, 2, 3], words_mapping="light")
        again = make("race", PARAMS=grid, **common)
        assert again.returncode == 0, again.stdout[-5000:]
        for index in left:
            assert requests.head(f"{loaded['target']}/{index}", timeout=30).status_code == 404
    finally:
        requests.delete(f"{loaded['target']}/{','.join(left)}?ignore_unavailable=true", timeout=30)


@pytest.mark.long
def test_a_short_race_goes_before_a_calibrated_one_which_searches_its_words(loaded, search, tmp_path):
    left = [f"cluster-metrics-words-{shards}s-0r" for shards in (1, 2)]
    host = loaded["target"].removeprefix("http://")
    common = {"TEST_MODE": 1, "CHALLENGE": "capacity-query", "HOSTS": host, "TAGS": "side:a"}
    try:
        grid = params(tmp_path / "params.json", words_mapping="light")
        race = make("race", CALIBRATE=1, PARAMS=grid, RACE_ID="found", leaves=left, **common)
        assert race.returncode == 0, race.stdout[-5000:]
    finally:
        requests.delete(f"{loaded['target']}/{','.join(left)}?ignore_unavailable=true", timeout=30)
    assert "cell_clients is {}" in race.stdout  # its nodes are held to no share
    ids = ["found-clients-1", "found"]
    races = search("rally-races-*", {"query": {"terms": {"race-id": ids}}})["hits"]["hits"]
    tags = {hit["_source"]["race-id"]: hit["_source"]["user-tags"] for hit in races}
    assert tags == {"found-clients-1": {"calibrates": "found"}, "found": {"side": "a"}}
    filters = [{"term": {"operation-type": "capacity-build"}}, {"terms": {"race-id": ids}}]
    found = search("rally-metrics-*", {"query": {"bool": {"filter": [*filters, {"term": {"name": "service_time"}}]}}})
    seconds = {hit["_source"]["race-id"]: hit["_source"]["meta"]["load_s"] for hit in found["hits"]["hits"]}
    assert seconds["found-clients-1"] > 0 and seconds["found"] == 0


def quotas(target):
    """What the groups of a cluster's data nodes are held to; empty where they are gone."""
    root, second = cpu._controller()
    file = "cpu.max" if second else "cpu.cfs_quota_us"
    with contextlib.suppress(OSError):
        return {(root / cpu.FOLDER.format(name=group) / file).read_text().split()[0] for group in target.groups}
    return set()


@pytest.mark.long
def test_nodes_are_free_while_words_are_loaded_and_held_while_they_are_searched(tmp_path):
    if not cpu._controller():
        pytest.skip("no cgroup here")
    work, seen = ROOT / "_work" / "test-shares", []
    grid = params(tmp_path / "params.json", capacity_shards=[1], words_mapping="light")
    try:
        with ThreadPoolExecutor() as pool:
            race = pool.submit(make, "race", TEST_MODE=1, CHALLENGE="capacity-query", PARAMS=grid, WORK=work)
            while not race.done():
                found = (target := Launcher(work, DOWNLOADS).running("target")) and quotas(target)
                if found and found not in seen[-1:]:
                    seen.append(found)
                time.sleep(0.05)
        assert race.result().returncode == 0, race.result().stdout[-5000:]
        assert "each held to 0.4 cores of CPU" in race.result().stdout
        changes = [found for found in seen if len(found) == 1]  # two while one node after the other is changed
        assert changes == [{"40000"}, {"max" if cpu._controller()[1] else "-1"}, {"40000"}], seen
    finally:
        shutil.rmtree(Launcher(work, DOWNLOADS).root)
        shutil.rmtree(work)


@pytest.fixture
def three_nodes():
    """The work folder of three nodes that hold data and one that takes all requests."""
    work = ROOT / "_work" / "test-capacity"
    shutil.rmtree(work, ignore_errors=True)
    try:
        up = make("up", WORK=work, NODES=3, COORDINATOR=1, HEAP="512m")
        assert up.returncode == 0, up.stdout
        yield work
    finally:
        make("down", WORK=work)


@pytest.mark.long
def test_a_node_that_leaves_ends_the_race_and_what_was_raced_is_reported(three_nodes, tmp_path):
    target = Launcher(three_nodes, DOWNLOADS).running("target")
    assert len(target.http_ports) == 4 and len(target.hosts) == 1
    grid = params(tmp_path / "params.json", capacity_shards=[2], capacity_replicas=[0, 1], words_mapping="light")
    # as a cluster of one's own: make ends a race at once when a process of the embedded target is gone
    common = {"WORK": three_nodes, "RACE_ID": "left", "HOSTS": target.hosts[0]}
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
    assert report.returncode == 2 and "Error 65" in report.stdout, report.stdout
    assert "# INCOMPLETE: Race left\n\n- **The race was not finished.**" in report.stdout
    assert "**Incomplete: the race was not finished.**" in report.stdout
    assert "target-4 holds no data and takes all requests" in report.stdout
    with open(three_nodes / "reports" / "left" / "es_profile_capacity.csv") as f:
        rows = list(csv.DictReader(f))
    assert ("2s-0r", "1") in {(row["cell"], row["pass"]) for row in rows}
    assert all(int(row["documents"]) == 1000 for row in rows)
