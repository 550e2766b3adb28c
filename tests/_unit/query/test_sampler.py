"""How a sampler is attached to the nodes of a target: what is put where, for whom, and that it was seen to work."""

import contextlib
import os
import platform
import socket
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from _tools.profile import sampler
from _tools.profile.sampler import LIBRARY, PLATFORMS, Sampler, SamplerError, attached


@pytest.fixture
def attach(tmp_path, monkeypatch):
    """Attaches a sampler to this process as a node; notes what it is told."""
    told = []

    def tell(self, node, what):
        told.append(what.partition(",")[0])
        if what.startswith("start"):
            Path(what.partition("file=")[2]).touch()

    archive = tmp_path / "async-profiler.jar"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr(f"{PLATFORMS[platform.machine()]}/{LIBRARY}", "this machine's")
        z.writestr(f"another/{LIBRARY}", "another's")
    monkeypatch.setattr(Sampler, "_tell", tell)
    monkeypatch.setattr(sampler, "fetch", lambda what, downloads: archive)
    launcher = SimpleNamespace(root=tmp_path / "work", downloads=tmp_path, java_home=tmp_path / "java")

    def attach():
        with socket.create_server(("127.0.0.1", 0)) as server:
            at = f"127.0.0.1:{server.getsockname()[1]}"
            about = {"name": "a", "process": {"id": os.getpid()}, "http": {"publish_address": at}}
            return attached(lambda path: {"nodes": {"x": about}}, launcher, tmp_path / "kept" / "x"), told

    return attach


def test_a_sampler_is_seen_to_work_once_and_leaves_nothing_of_a_race_before(attach, tmp_path):
    stale = tmp_path / "work" / "sampler" / f"user-{os.geteuid()}" / "0-00009.jfr"
    stale.parent.mkdir(parents=True)
    stale.touch()
    found, told = attach()
    assert told == ["start", "stop"] and [f.name for f in (tmp_path / "kept/x").iterdir()] == ["a-00001.jfr"]
    assert not list(stale.parent.iterdir()), "neither the recording of before nor the one just made"
    (node,) = found.nodes
    assert (node.folder, node.library) == (stale.parent, tmp_path / "work" / "sampler" / LIBRARY)
    assert (found.java_home, found.kept, found.pids) == (tmp_path / "java", tmp_path / "kept" / "x", [os.getpid()])


def test_the_library_is_that_of_this_machine_and_stays_while_it_is_the_same(attach, tmp_path):
    library = tmp_path / "work" / "sampler" / LIBRARY
    attach()
    assert library.read_text() == "this machine's" and library.stat().st_mode & 0o777 == 0o755
    before = library.stat().st_ino
    attach()
    assert library.stat().st_ino == before
    library.write_text("an older one")
    attach()
    assert library.read_text() == "this machine's"


def test_folders_are_of_the_user_that_runs_the_node(attach, monkeypatch, tmp_path):
    made = []

    @contextlib.contextmanager
    def own(path, run_as):
        path.mkdir(parents=True)
        made.append((path.name, run_as))
        yield 7

    def leaf(parent, path, run_as):
        path.mkdir()
        made.append((parent, path.name, run_as))

    monkeypatch.setattr(sampler.folders, "own", own)
    monkeypatch.setattr(sampler.folders, "leaf", leaf)
    user, group = os.geteuid(), os.getegid()
    monkeypatch.setattr(sampler.os, "geteuid", lambda: user + 1)
    attach()
    run_as = {"user": user, "group": group}
    assert made == [("sampler", run_as), (7, f"user-{user}", run_as)]


@pytest.mark.parametrize("of, found", [("system", "Darwin"), ("machine", "riscv64")])
def test_a_machine_without_a_library_is_named(attach, monkeypatch, of, found):
    monkeypatch.setattr(platform, of, lambda: found)
    with pytest.raises(SamplerError, match="^CPU is sampled on Linux on x86_64 and aarch64 alone$"):
        attach()


def test_a_folder_that_cannot_be_written_is_told_in_one_line(attach, tmp_path):
    (tmp_path / "kept").write_text("no folder")
    with pytest.raises(SamplerError, match="^recordings cannot be written: .*Not a directory"):
        attach()
