"""What a race says of the machine it ran on."""

import json
import os
import subprocess
import time
from types import SimpleNamespace

import psutil

from cluster_metrics.core import machine as of
from cluster_metrics.core.machine import cpu_ms, jvm_flags, machine


def test_this_machine_is_described(monkeypatch):
    monkeypatch.setattr(of.psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    found = machine()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] == 8 and found["load"] >= 0
    assert found["memory_mb"] == psutil.virtual_memory().total >> 20
    assert all(found[key] for key in ("cpu", "disk", "kernel", "virtualisation")) and "GB" in found["disk"]


def test_the_load_is_that_of_a_minute(monkeypatch):
    monkeypatch.setattr(of.os, "getloadavg", lambda: (1.5, 5.0, 15.0))
    assert machine()["load"] == 1.5


def test_a_cpu_without_a_name_is_told_by_its_numbers_and_a_hypervisor_is_seen(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(of, "CPU_INFO", info)
    monkeypatch.setattr(of, "PRODUCT", tmp_path / "none")
    monkeypatch.setattr(of, "CONTAINER", (tmp_path / "none",))
    monkeypatch.setattr(of, "GOVERNOR", tmp_path / "governor")
    info.write_text("vendor_id\t: V\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: unknown\nflags\t: fpu hypervisor\n")
    found = machine()
    assert (found["cpu"], found["virtualisation"]) == ("vendor_id V, cpu family 6, model 106", "virtual machine")
    assert "governor" not in found
    monkeypatch.setattr(of.sysstats, "cpu_model", lambda: "as Rally finds it")
    info.write_text("vendor_id\t:\n")
    assert machine()["cpu"] == "as Rally finds it"
    (tmp_path / "governor").write_text("powersave\n")
    info.write_text("model name\t: A CPU @ 2: fast\nflags\t: fpu\n")
    found = machine()
    assert (found["cpu"], found["virtualisation"], found["governor"]) == ("A CPU @ 2: fast", "none seen", "powersave")


def test_the_revision_is_that_of_the_commit_and_says_when_what_is_raced_was_changed(tmp_path):
    assert of.revision(tmp_path) == ""

    def git(*arguments):
        own = ["-c", "user.name=x", "-c", "user.email=x"]
        return subprocess.run(["git", *own, "-C", tmp_path, *arguments], check=True, capture_output=True, text=True)

    (tmp_path / "track.json").write_text("{}")
    results = tmp_path / "docs" / "results.json"
    results.parent.mkdir()
    results.write_text("{}")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD").stdout[:12]
    results.write_text("[]")
    assert of.revision(tmp_path) == commit
    (tmp_path / "track.json").write_text("[]")
    assert of.revision(tmp_path) == f"{commit}+"
    git("add", ".")
    assert of.revision(tmp_path) == f"{commit}+"
    git("commit", "-qm", "two")
    (tmp_path / "docs" / "mine.py").write_text("")
    assert of.revision(tmp_path) == git("rev-parse", "HEAD").stdout[:12]
    for name in ("challenges/a.json", "operations/a.json", "corpora/a.json", "cluster_metrics/a/b.py", "a.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        assert of.revision(tmp_path).endswith("+"), "Rally loads what git does not know yet, too"
        path.unlink()


def test_flags_that_name_files_are_left_out():
    given = ["-Xms1g", "-Djava.io.tmpdir=/tmp/x", "-XX:+UseG1GC", "-XX:ErrorFile=a.log", "-XX:HeapDumpPath=data"]
    given.append("-XX:AOTCache=/tmp/x")
    assert jvm_flags([*given, "-Xlog:gc*", "--add-opens=x"]) == "-Xms1g -XX:+UseG1GC"


def test_the_cpu_time_of_a_process_is_in_ms():
    before = 1000 * time.process_time()
    assert 0 < before <= cpu_ms([os.getpid()]) <= 1000 * time.process_time()
    both = cpu_ms([os.getpid()] * 2)
    assert 2 * before <= both <= 2000 * time.process_time()


def test_the_disk_is_that_of_the_innermost_mount_around_the_track(monkeypatch):
    mounts = {"/": "ext4", str(of.TRACK.parent): "xfs", str(of.TRACK): "btrfs", f"{of.TRACK}/docs": "zfs"}

    def disk_partitions(all):
        return [SimpleNamespace(mountpoint=m, fstype=kind, device=f"/dev/{kind}") for m, kind in mounts.items() if all]

    monkeypatch.setattr(of.psutil, "disk_partitions", disk_partitions)
    monkeypatch.setattr(of.psutil, "disk_usage", lambda path: SimpleNamespace(total=int(1.5e12)))
    assert machine()["disk"] == "btrfs on /dev/btrfs, 1,500 GB"
    mounts.clear()
    assert machine()["disk"] == "1,500 GB"


def test_a_virtual_machine_is_told_by_its_product_and_a_container_in_it_too(tmp_path, monkeypatch):
    info, product, container = (tmp_path / name for name in ("cpuinfo", "product", "container"))
    info.write_text("model name\t: A CPU\nflags\t: fpu hypervisor\n")
    product.write_text("A Box\n")
    assert set(map(str, of.CONTAINER)) == {"/.dockerenv", "/run/.containerenv"}, "Docker's and Podman's"
    monkeypatch.setattr(of, "CPU_INFO", info)
    monkeypatch.setattr(of, "PRODUCT", product)
    monkeypatch.setattr(of, "CONTAINER", (tmp_path / "none", container))
    assert machine()["virtualisation"] == "virtual machine (A Box)"
    container.write_text("")
    assert machine()["virtualisation"] == "virtual machine (A Box), container"
