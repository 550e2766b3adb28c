"""What a user of the challenge cpu-profile sees."""

import csv
import json
import re
import subprocess

import pytest
from conftest import WORK, make

from _tools.profile.sampler import SamplerError, attached
from _tools.report.stacks import read_stacks
from cluster_metrics.query.cpu_profile import PLAIN, SAMPLED

NAMES = ["A-serial", "B-serial", "D_hdr-serial", "D_td-serial", "D_td-serial+cached"]


@pytest.fixture(scope="module")
def race(loaded, tmp_path_factory):
    params = tmp_path_factory.mktemp("cpu") / "params.json"
    params.write_text(json.dumps({"warmup_iterations": 1, "rounds": 2, "profiled": NAMES}))
    result = make(
        "race", TEST_MODE=1, CHALLENGE="cpu-profile", RACE_ID="cpu", PARAMS=params, RALLY_ARGS="--on-error=abort"
    )
    assert result.returncode == 0, result.stdout[-3000:]
    return result.stdout


def test_the_report_says_where_the_cpu_time_goes(race):
    for section in (
        "Where the target's CPU time goes",
        "The methods of D_td-serial",
        "What differs",
        "Three ways to the same answer",
        "Whether the samples add up",
        "What the sampler costs",
    ):
        assert f"## {section}" in race
    assert "INCOMPLETE" not in race and "no CPU profile" not in race


def test_each_round_has_both_blocks_in_the_metrics_store(race, search, recorded):
    recorded("cpu")
    terms = {"race-id": "cpu", "name": "service_time", "sample-type": "normal"}
    body = {"size": 1000, "query": {"bool": {"filter": [{"term": {k: v}} for k, v in terms.items()]}}}
    found = [hit["_source"] for hit in search("rally-metrics-*", body)["hits"]["hits"]]
    for kind in (PLAIN, SAMPLED):
        of = [d for d in found if d["operation-type"] == kind]
        assert sorted((d["operation"], d["meta"]["round"]) for d in of) == [(n, r) for n in NAMES for r in (1, 2)]
        assert all(d["meta"]["target_cpu_ms"] > 0 for d in of)
    recordings = [d["meta"]["recordings"] for d in found if d["operation-type"] == "cpu-profile"]
    assert [len(files) for files in recordings] == [1, 1], "a file a round and node"


def test_samples_are_of_elasticsearch_and_are_kept_beside_no_recording(race):
    folder = WORK / "profiles" / "cpu"
    profile = read_stacks(folder)
    assert profile.period_ms > 0 and not profile.problems
    frames = {frame for stack in profile.stacks for frame in stack}
    assert any(frame.startswith("org.elasticsearch.search.") for frame in frames)
    assert not list(folder.glob("*.jfr"))


def test_pages_and_stacks_stand_beside_the_report(race):
    folder = WORK / "reports" / "cpu"
    page = (folder / "flames.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page), "it loads nothing"
    scope = json.loads((folder / "cpu.speedscope.json").read_text())
    assert [p["name"] for p in scope["profiles"]] == NAMES
    collapsed = (folder / "cpu-D_td-serial.collapsed.txt").read_text().splitlines()
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in collapsed)
    with open(folder / "es_profile_cpu_components.csv") as f:
        parts = [row for row in csv.DictReader(f) if row["configuration"] == "D_td-serial"]
    whole = sum(float(row["cpu_ms"]) for row in parts)
    assert whole == pytest.approx(sum(scope["profiles"][3]["weights"]), rel=1e-3)


def test_a_node_that_cannot_be_sampled_is_named(loaded, launcher, tmp_path):
    target = launcher.running("target")

    def ask(path):
        return target.session().get(target.url + path, timeout=30).json()

    def moved(path):
        found = ask(path)
        for node in found["nodes"].values():
            node["http"]["publish_address"] = "10.0.0.1:1"
        return found

    with pytest.raises(SamplerError, match=r"node target-1 does not run on this machine"):
        attached(moved, launcher, tmp_path)
    sampler = attached(ask, launcher, tmp_path / "kept")
    (node,) = sampler.nodes
    node.started -= 1  # as if its id were that of another process by now
    with pytest.raises(SamplerError, match=r"node target-1, process \d+, has ended or was started anew"):
        sampler.start()


def test_a_process_that_serves_no_port_is_no_node_of_the_target(launcher, tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    try:
        ask = {"nodes": {"x": {"name": "es-1", "process": {"id": process.pid}, "http": {"publish_address": "[::1]:1"}}}}
        with pytest.raises(SamplerError, match="node es-1 does not run on this machine"):
            attached(lambda path: ask, launcher, tmp_path)
    finally:
        process.kill()
        process.wait()
