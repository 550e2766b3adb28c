"""What root does where the user of its nodes has put links, files and folders in its way: nothing outside."""

import contextlib
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from planted import NAMES, as_nobody, make_decoy, plant, state

from _tools.elasticsearch import folders
from _tools.elasticsearch.install import PLUGINS
from _tools.elasticsearch.nodes import COMMON_SETTINGS, Launcher, NodeError
from _tools.race import offline
from _tools.race.rally import Store

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to another user")


@pytest.fixture
def place():
    """A folder that the user nobody can enter, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def launcher(place):
    """A launcher with as much of an Elasticsearch as nodes are prepared from."""
    launcher = Launcher(place / "_work", place / "downloads")
    home = launcher.root / "elasticsearch-8.0.0"
    for folder in ("config/jvm.options.d", "lib", *(f"modules/{plugin}" for plugin in PLUGINS)):
        (home / folder).mkdir(parents=True)
    for name in ("jvm.options", "log4j2.properties", "users"):
        (home / "config" / name).write_text("-Xlog:gc:file=logs/gc.log\n")
    return launcher


@pytest.fixture
def decoy(place):
    """A folder of root's with all that the launcher writes, by name; fails where any of it was changed."""
    decoy = make_decoy(place / "decoy")
    before = state(decoy)
    yield decoy
    assert state(decoy) == before


def give_all(folder):
    """As versions before this one did it."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, *pwd.getpwnam("nobody")[2:4], follow_symlinks=False)


def prepare_node(launcher):
    node = launcher.root / "some-1"
    launcher.prepare_node(launcher.root / "elasticsearch-8.0.0", node, {"node.name": "some-1"})
    (node / "stdout.log").touch()


def prepare_offline(launcher):
    offline.make_home(launcher, "8.0.0", "1g", Store("http://me:secret@127.0.0.1"))


@pytest.mark.parametrize("given", [True, False], ids=["as versions before gave it", "as it is given now"])
@pytest.mark.parametrize("prepare, folder", [(prepare_node, "some-1"), (prepare_offline, "offline")])
def test_links_that_nobody_planted_are_not_followed(launcher, decoy, prepare, folder, given):
    prepare(launcher)
    if given:
        give_all(launcher.root / folder)
    planted = as_nobody(plant, launcher.root, decoy)
    assert len(planted) > (20 if given else 10)
    with contextlib.suppress(NodeError):
        prepare(launcher)
    as_nobody(plant, launcher.root, decoy)
    with contextlib.suppress(NodeError):
        prepare(launcher)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prepare, folder", [(prepare_node, "some-1"), (prepare_offline, "offline")])
def test_nor_is_a_link_of_any_one_name(launcher, decoy, prepare, folder, name):
    prepare(launcher)
    give_all(launcher.root / folder)
    assert as_nobody(plant, launcher.root, decoy, name)
    with contextlib.suppress(NodeError):
        prepare(launcher)


@pytest.mark.parametrize("link", ["config", "logs", "tmp", "stdout.log"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_stands_in_the_place_of_what_is_made_anew_is_removed(launcher, decoy, link, kind):
    prepare_node(launcher)
    node = launcher.root / "some-1"
    folders.remove(node / link)
    (node / link).symlink_to(decoy) if kind == "link" else (node / link).write_text("planted")
    give_all(node)
    prepare_node(launcher)
    assert (node.lstat().st_uid, stat.S_IMODE(node.lstat().st_mode)) == (0, 0o755)
    for leaf in ("config", "logs", "tmp", "data"):
        assert (node / leaf).is_dir() and not (node / leaf).is_symlink() and (node / leaf).owner() == "nobody"
        assert stat.S_IMODE((node / leaf).stat().st_mode) == 0o700
    assert stat.S_IMODE((node / "config" / "elasticsearch.yml").stat().st_mode) == 0o600
    assert (node / "config" / "jvm.options").read_text() == f"-Xlog:gc:file={node}/logs/gc.log\n"
    assert (node / "stdout.log").owner() == "root"


@pytest.mark.parametrize("path, prepare", [("some-1/data", prepare_node), ("offline/benchmarks", prepare_offline)])
@pytest.mark.parametrize("kind", ["link", "file", "dangling"])
def test_a_link_or_a_file_in_the_place_of_what_is_kept_is_refused(launcher, decoy, path, prepare, kind):
    prepare(launcher)
    kept = launcher.root / path
    folders.remove(kept)
    kept.write_text("planted") if kind == "file" else kept.symlink_to(decoy if kind == "link" else decoy / "none")
    give_all(kept.parent) if kind == "file" else shutil.chown(kept.parent, "nobody", "nogroup")
    with pytest.raises(NodeError, match=rf"{path}\] is a link or no folder; remove it$"):
        prepare(launcher)


@pytest.mark.parametrize("planted", ["data-8.0.0", "data-8.0.0/some-1"])
@pytest.mark.parametrize("kind", ["link", "folder", "file"])
def test_data_where_everybody_may_write(launcher, place, decoy, planted, kind):
    data = place / "data"
    data.mkdir()
    data.chmod(0o1777)

    def as_planted():
        path = data / planted
        path.parent.mkdir(exist_ok=True)
        {"link": lambda: path.symlink_to(decoy), "folder": path.mkdir, "file": path.touch}[kind]()

    as_nobody(as_planted)
    with pytest.raises(NodeError, match="is a link or no folder|belongs to somebody else"):
        launcher.prepare_node(launcher.root / "elasticsearch-8.0.0", launcher.root / "some-1", {}, data / "data-8.0.0")


def test_data_are_kept_and_nothing_in_them_is_touched(launcher, decoy):
    prepare_node(launcher)
    data = launcher.root / "some-1" / "data"
    (data / "link").symlink_to(decoy)
    (data / "of-root").write_text("kept")
    before = state(data / "of-root")
    prepare_node(launcher)
    assert state(data / "of-root") == before and (data / "link").is_symlink()


@pytest.mark.parametrize("owner, held", [("root", ["nodes"]), ("daemon", ["nodes"]), ("daemon", [])])
def test_data_of_another_user_are_refused(launcher, owner, held):
    prepare_node(launcher)
    data = launcher.root / "some-1" / "data"
    for name in held:
        (data / name).mkdir()
    shutil.chown(data, owner)  # of root: as a copy that it made
    with pytest.raises(NodeError, match="does not belong to the user nobody, as whom nodes run; give it to that user"):
        prepare_node(launcher)


def test_nodes_that_root_starts_have_no_group_but_that_of_nobody():
    nobody = pwd.getpwnam("nobody")
    assert folders.unprivileged_user() == {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def test_all_may_read_what_is_opened_and_run_what_root_may_run(place):
    modes = {"folder": 0o755, "folder/tool": 0o755, "folder/text": 0o644}
    (place / "folder").mkdir(0o700)
    for name, mode in (("folder/tool", 0o700), ("folder/text", 0o600)):
        (place / name).touch(mode)
    folders.open_to_all(place)
    assert {name: stat.S_IMODE((place / name).stat().st_mode) for name in modes} == modes


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_folder_for_nobody_that_is_planted_is_refused(tmp_path, decoy, kind):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    outside = Launcher(closed / "_work", tmp_path).root
    assert outside.is_relative_to("/var/tmp")
    (closed / "_work" / "elasticsearch").unlink()
    folders.remove(outside)
    plant = {"file": outside.touch, "link": lambda: outside.symlink_to(decoy), "folder": outside.mkdir}[kind]
    as_nobody(plant)
    try:
        with pytest.raises(
            NodeError, match=rf"\[{outside}\] (is a link or no folder|belongs to somebody else); remove"
        ):
            Launcher(closed / "_work", tmp_path)
    finally:
        folders.remove(outside)


@pytest.mark.parametrize("mode, owner", [(0o777, "root"), (0o755, "nobody")])
@pytest.mark.parametrize("changed", ["_work", "_work/elasticsearch", "."])
def test_a_work_folder_that_nobody_can_change_is_refused(place, changed, mode, owner):
    (place / "_work" / "elasticsearch").mkdir(parents=True)
    (place / changed).chmod(mode)
    shutil.chown(place / changed, owner)
    with pytest.raises(NodeError, match=rf"\[{(place / changed).resolve()}\] can be changed by the user nobody"):
        Launcher(place / "_work", place)


def test_a_work_folder_that_the_group_of_nobody_can_change_is_refused_and_that_of_another_is_not(place):
    (place / "_work").mkdir()
    (place / "_work").chmod(0o775)
    Launcher(place / "_work", place)
    os.chown(place / "_work", 0, pwd.getpwnam("nobody").pw_gid)
    with pytest.raises(NodeError, match=r"_work\] can be changed by the user nobody"):
        Launcher(place / "_work", place)


def test_a_folder_of_who_starts_nodes_as_himself_is_left_as_it_is(tmp_path):
    with folders.own(tmp_path, {}) as own:
        for _ in range(2):
            folders.leaf(own, tmp_path / "data", {})
    assert (tmp_path / "data").stat().st_uid == os.geteuid()


def test_a_work_folder_in_which_all_may_write_is_refused_though_none_may_replace_what_others_put_there(place):
    (place / "_work" / "elasticsearch").mkdir(parents=True)
    (place / "_work").chmod(0o1777)  # as /var/tmp, where the owner of a folder alone replaces it
    Launcher(place / "_work", place)
    (place / "_work" / "elasticsearch").chmod(0o1777)
    with pytest.raises(NodeError, match=r"_work/elasticsearch\] can be changed by the user nobody"):
        Launcher(place / "_work", place)


def test_a_work_folder_that_is_a_file(tmp_path):
    (tmp_path / "_work").touch()
    with pytest.raises(NodeError, match=r"_work\], of WORK, cannot be used: File exists"):
        Launcher(tmp_path / "_work", tmp_path)


def test_a_node_that_rally_provisions_has_the_heap_that_was_asked_for(tmp_path):
    (config := tmp_path / "config").mkdir()
    offline._write_team(tmp_path / "team", config, "3g")
    assert "\nheap_size=3g\n" in (tmp_path / "team" / "cars" / "v1" / "defaults.ini").read_text()


def test_a_node_that_rally_provisions_has_the_settings_of_all_others(tmp_path):
    (config := tmp_path / "config").mkdir()
    offline._write_team(tmp_path / "team", config, "3g")
    [file] = (tmp_path / "team").rglob("elasticsearch.yml")
    found = dict(line.split(": ", 1) for line in file.read_text().splitlines())
    assert {key: str(value) for key, value in COMMON_SETTINGS.items()}.items() <= found.items()
