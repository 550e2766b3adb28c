"""The embedded Elasticsearch: versions, several nodes, and what it says when it cannot start."""

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest
import requests
from conftest import DOWNLOADS, ROOT, leftovers, make
from planted import as_nobody, make_decoy, plant, state

from _tools.elasticsearch import folders
from _tools.elasticsearch.nodes import Launcher, NodeError
from _tools.race import clusters


@pytest.mark.long  # 8.19.4 starts in the tests of esql-stored-fields, too
@pytest.mark.parametrize("version", ["8.14.3", "8.16.0", "8.19.4", "9.0.8", "9.2.4"])
def test_other_versions_start_answer_and_stop(launcher, version):
    cluster = launcher.start("versions", version, port=9300, data=launcher.root / f"versions-{version}")
    try:
        info = requests.get(cluster.url, timeout=10)
        assert info.headers["x-elastic-product"] == "Elasticsearch"
        assert info.json()["version"]["number"] == version
        assert requests.head(cluster.url, timeout=10).status_code == 200
    finally:
        assert launcher.stop("versions")
    assert launcher.running("versions") is None
    with pytest.raises(requests.ConnectionError):
        requests.get(cluster.url, timeout=10)


@pytest.mark.long  # three nodes start in the tests of capacity-indexing, too
def test_three_nodes_form_a_green_cluster_and_free_ports_are_chosen(launcher):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        odd = launcher.root / "data: #1, 'odd' \"é\" {x} [y] %20"
        cluster = launcher.start("three", nodes=3, heap="512m", port=port, data=odd)
        try:
            assert port not in cluster.http_ports
            assert len(set(cluster.http_ports)) == 3
            health = requests.get(f"{cluster.url}/_cluster/health", timeout=10).json()
            assert (health["status"], health["number_of_nodes"]) == ("green", 3)
            nodes = requests.get(f"{cluster.url}/_nodes/jvm", timeout=10).json()["nodes"].values()
            assert {n["jvm"]["mem"]["heap_max_in_bytes"] for n in nodes} == {512 << 20}
            assert all(any((odd / f"three-{number}").iterdir()) for number in (1, 2, 3)), "data are elsewhere"
        finally:
            launcher.stop("three")


def test_a_fixed_port_in_use(launcher):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NodeError, match=f"^port {port} is in use$"):
            launcher.start("busy", port=port, port_is_fixed=True)


def test_a_node_that_dies_at_start_shows_the_end_of_its_log(launcher):
    with pytest.raises(NodeError, match=r"(?s)node dead-1 ended at start.*unknown setting \[no.such.setting\]"):
        launcher.start("dead", settings={"no.such.setting": "1"})
    assert launcher.running("dead") is None
    assert not [text for text in leftovers() if "dead-1" in text]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts nodes as another user")
@pytest.mark.long
def test_a_clone_below_a_folder_that_nobody_cannot_enter(tmp_path):
    """Nor does root follow what nobody puts into its folders there."""
    decoy = make_decoy(tmp_path / "decoy")
    before = state(decoy)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    launcher = Launcher(closed / "_work", DOWNLOADS)
    try:
        assert launcher.root != closed / "_work" / "elasticsearch"
        assert (closed / "_work" / "elasticsearch").resolve() == launcher.root
        cluster = launcher.start("closed", port=9300)
        assert requests.get(cluster.url, timeout=10).ok
        assert cluster.processes()[0].username() == "nobody"
        planted = as_nobody(plant, launcher.root, decoy)  # while it runs
        assert any(path.startswith("closed-1/logs/") for path in planted)
        launcher.stop("closed")
        with pytest.raises(NodeError, match="closed-1 ended at start"):  # in data that are links
            launcher.start("closed", port=9300)
        folders.remove(launcher.root / "closed-1" / "data")
        launcher.start("closed", port=9300)
        launcher.stop("closed")
        assert state(decoy) == before
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        launcher.stop("closed")
        if launcher.root.is_relative_to(Path("/var/tmp")):
            shutil.rmtree(launcher.root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts nodes as another user")
def test_data_that_nobody_can_enter_no_more_is_kept(tmp_path):
    kept = tmp_path / "_work" / "elasticsearch" / "data"
    kept.mkdir(parents=True)
    tmp_path.chmod(0o700)
    with pytest.raises(NodeError, match="is where the user nobody cannot enter; move it away, or open the folder"):
        Launcher(tmp_path / "_work", DOWNLOADS)
    assert kept.is_dir()


@pytest.fixture
def nothing_up():
    """A work folder in which no cluster runs, whatever the tests before have left up."""
    work = ROOT / "_work" / "test-nothing-up"
    yield work
    shutil.rmtree(Launcher(work, DOWNLOADS).root)
    shutil.rmtree(work)


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"NODES": "many"}, "NODES is [many], allowed is an integer from 1 to 99"),
        ({"NODE_CORES": "half"}, "NODE_CORES is [half], allowed is CPU cores of each node, such as 0.4"),
        ({"HEAP": "1"}, "HEAP is [1], allowed is megabytes or gigabytes, such as 512m or 1g"),
        ({"PORT": "65000"}, "PORT is [65000], allowed is an integer from 1000 to 64999"),
        ({"ES_VERSION": "latest"}, "ES_VERSION is [latest], allowed is a version such as 8.17.2"),
        ({"ES_VERSION": "8.17.999"}, "the Java registry has no org.elasticsearch.distribution.integ-test-zip"),
        ({"PORT": None}, "port {port} is in use"),
        ({"DATA": "/dev/null"}, "[/dev/null/data-8.17.2], of node target-1, cannot be used: Not a directory"),
    ],
)
def test_variables_of_the_target_are_checked(nothing_up, variables, message):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = make("up", WORK=nothing_up, **{k: v or port for k, v in variables.items()})
    assert result.returncode != 0
    assert f"[ERROR] {message.format(port=port)}" in result.stdout
    assert "Traceback" not in result.stdout


@pytest.mark.long
def test_one_node_after_several(nothing_up, monkeypatch):
    monkeypatch.setenv("HEAP", "512m")
    launcher = Launcher(nothing_up, DOWNLOADS)
    for nodes in (2, 1):
        monkeypatch.setenv("NODES", str(nodes))
        try:
            target = clusters.start_target(launcher, outlive=False)
            assert len(requests.get(f"{target.url}/_cat/nodes?format=json", timeout=10).json()) == nodes
        finally:
            launcher.stop("target")


@pytest.mark.parametrize("target", ["up", "race"])
@pytest.mark.parametrize(
    "variables, message",
    [
        ({"NODES": "3"}, "NODES is [3] but the target that is up was started with [1]; run 'make down' first"),
        ({"NODES": "many"}, "NODES is [many], allowed is an integer from 1 to 99"),
        ({"SECURITY": "1"}, "SECURITY is [1] but the target that is up was started with [0]; run 'make down' first"),
    ],
)
def test_a_target_that_is_up_is_not_taken_for_another(loaded, target, variables, message):
    result = make(target, **variables)
    assert result.returncode != 0
    assert f"[ERROR] {message}" in result.stdout
    assert "Traceback" not in result.stdout


def test_up_again_with_what_is_up(loaded):
    up = make("up", NODES=1, HEAP="1g", SECURITY=0)
    assert up.returncode == 0 and f"127.0.0.1:{loaded['target'].rsplit(':', 1)[1]}" in up.stdout
