"""capacity-indexing by its plain command, on the target that it needs."""

import csv
import json
import shutil
import time
from pathlib import Path

import conftest
import pytest
from conftest import DOWNLOADS, ROOT, make
from grids import params

from _tools.elasticsearch.nodes import Launcher
from _tools.race.delay import delayed

WORK = ROOT / "_work" / "test-indexing"
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
"""Where the machine has cgroup v2 alone."""


def test_the_plain_command_starts_the_three_nodes_that_it_needs(tmp_path):
    changes = {"capacity_shards": [1], "capacity_replicas": [0, 2], "capacity_bulk_size": 2, "cell_seconds": 6}
    changes |= {"capacity_nodes": [1, 0], "cell_clients": {"1s-2r": 3}}
    grid = params(tmp_path / "params.json", **changes)
    try:
        race = make("race", TEST_MODE=1, CHALLENGE="capacity-indexing", RACE_ID="i", PARAMS=grid, WORK=WORK)
        assert race.returncode == 0, race.stdout[-5000:]
        assert Launcher(WORK, DOWNLOADS).running("target") is None
        assert "3 nodes on one machine, each held to 0.4 cores of CPU" in race.stdout
        record = json.loads((WORK / "reports" / "i" / "report.json").read_text())
        assert [node["cpu_held_by"] for node in record["target"]] == 3 * [
            "cgroup v2" if UNIFIED.exists() else "cgroup v1"
        ]
        with open(WORK / "reports" / "i" / "es_profile_capacity.csv") as f:
            rows = list(csv.DictReader(f))
        assert {(row["cell"], row["pass"]) for row in rows} == {
            (c, n) for c in ("1s-0r", "1s-0r-1n", "1s-2r") for n in "12"
        }
        assert {(row["cell"], row["clients"]) for row in rows} == {("1s-0r", "2"), ("1s-0r-1n", "2"), ("1s-2r", "3")}
        held = {row["cell"]: json.loads(row["shard_table"]) for row in rows}
        assert list(held["1s-0r-1n"].values()) == [["0p"]] and len(held["1s-0r"]) == 3
        idle = set(held["1s-0r"]) - set(held["1s-0r-1n"])
        limits = [row["bottleneck"] for row in rows if row["cell"] == "1s-0r-1n"]
        assert len(idle) == 2 and not any(node in limit for node in idle for limit in limits), limits
        assert all(int(row["requests"]) > 5 for row in rows)
        assert {row["steady"] for row in rows} <= {"True", "False"}
        assert all(0 <= float(row["cut_s"]) <= (row["steady"] == "True") * 2 for row in rows), rows
        unsteady = {row["cell"] for row in rows if row["steady"] == "False"}
        named = [warning["seen"] for warning in record["answer"]["warnings"] if warning["kind"] == "not-steady"]
        assert len(named) == bool(unsteady) and all(cell in named[0] for cell in unsteady), rows
    finally:
        shutil.rmtree(Launcher(WORK, DOWNLOADS).root)
        shutil.rmtree(WORK)


@pytest.mark.long
def test_a_pass_in_which_nothing_was_answered_for_half_its_time_counts_for_no_verdict(loaded, tmp_path):
    created = 0

    def tap(chunk, out):
        nonlocal created
        created += out and chunk.startswith(b"PUT /cluster-metrics-words-1s-0r ")
        if created == 3 and out and chunk.startswith(b"POST /cluster-metrics-words-1s-0r/_doc"):  # in pass 1
            created += 1
            time.sleep(5)  # the relay has one thread

    changes = {"cell_seconds": 10, "first_pass_seconds": 2, "passes": 2}
    grid = params(tmp_path / "params.json", capacity_shards=[1], **changes)
    with delayed(loaded["target"].removeprefix("http://"), 0, lambda: tap) as host:
        race = make("race", TEST_MODE=1, CHALLENGE="capacity-indexing", HOSTS=host, RACE_ID="unsteady", PARAMS=grid)
    assert race.returncode == 0, race.stdout[-5000:]
    with open(conftest.WORK / "reports" / "unsteady" / "es_profile_capacity.csv") as f:
        steady = {row["pass"]: (row["steady"], row["cut_s"]) for row in csv.DictReader(f)}
    assert set(steady) == {"1", "2"} and steady["1"] == ("False", "0.0"), steady
    record = json.loads((conftest.WORK / "reports" / "unsteady" / "report.json").read_text())
    (named,) = (w for w in record["answer"]["warnings"] if w["kind"] == "not-steady")
    assert named["seen"].startswith("the rate was not steady in 1s-0r (") and "raise " in named["option"]
    rows = {t["key"]: t["rows"] for section in record["sections"] for t in section["tables"]}
    assert rows["throughput capacity-index"][0]["n"] == [one for one, _ in steady.values()].count("True")
