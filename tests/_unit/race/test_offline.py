"""The home of the bare ``esrally race``: what Rally provisions from it, and what of an earlier one is kept."""

import configparser
import shlex
import tarfile
from types import SimpleNamespace

import jinja2
import pytest

from _tools.elasticsearch import folders
from _tools.race import offline, rally
from _tools.race.rally import Store


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """A launcher with as much of an Elasticsearch as Rally is to provision."""
    installed = tmp_path / "work" / "elasticsearch-8.0.0"
    (installed / "config" / "jvm.options.d").mkdir(parents=True)
    (installed / "config" / "jvm.options").write_text("-Xlog:file=logs/gc.log\n-XX:HeapDumpPath=data\n{% {{braces}}\n")
    (installed / "config" / "users").write_text("logs/ {{as it is}}")
    monkeypatch.setattr(offline, "install", lambda version, root, downloads: root / f"elasticsearch-{version}")
    return SimpleNamespace(root=tmp_path / "work", downloads=tmp_path, run_as={}, java_home=tmp_path / "java")


def rendered(home, file, **variables):
    """A file of the node's configuration as Rally writes it."""
    text = (home / ".rally/team/cars/v1/vanilla/templates/config" / file).read_text()
    return jinja2.Environment(keep_trailing_newline=True).from_string(text).render(**variables)


def test_the_node_is_that_which_is_installed_with_the_settings_of_an_embedded_one(launcher, monkeypatch):
    given = []
    monkeypatch.setattr(folders, "give", lambda *of: given.append(of))
    home = offline.make_home(launcher, "8.0.0", "2g", Store("http://me:secret@store"))
    assert given == [(home / ".rally", launcher.run_as)]
    team = home / ".rally" / "team"
    assert "[variables]\nheap_size=2g\n" in (team / "cars/v1/defaults.ini").read_text()
    base = (team / "cars/v1/vanilla/config.ini").read_text()
    assert "runtime.jdk=21\n" in base and base.rstrip().endswith("/elasticsearch-{{VERSION}}.tar.gz")
    with tarfile.open(home / "benchmarks/distributions/elasticsearch-8.0.0.tar.gz") as archive:
        assert "elasticsearch-8.0.0/config/users" in archive.getnames()
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(home / ".rally" / "rally.ini")
    assert dict(ini["mechanic"]) == {"distribution.version": "8.0.0", "team.path": "${CONFIG_DIR}/team"}
    assert ini["reporting"]["datastore.host"] == "store" and (home / ".rally/rally.ini").stat().st_mode & 0o77 == 0
    places = {"log_path": "/log", "heap_dump_path": "/dump"}
    assert rendered(home, "jvm.options", **places) == "-Xlog:file=/log/gc.log\n-XX:HeapDumpPath=/dump\n{% {{braces}}\n"
    assert (team / "cars/v1/vanilla/templates/config/users").read_text() == "logs/ {{as it is}}"
    assert rendered(home, "jvm.options.d/heap.options", heap_size="2g") == "-Xms2g\n-Xmx2g\n"
    given = {"cluster_name": "c", "node_name": "n", "data_paths": ["/a", "/b"], "log_path": "/log"}
    given |= {"network_host": "127.0.0.1", "http_port": 19200, "transport_port": 19300}
    assert rendered(home, "elasticsearch.yml", **given).splitlines() == [
        "thread_pool.estimated_time_interval: 0ms",
        "cluster.routing.allocation.disk.threshold_enabled: false",
        "indices.recovery.max_bytes_per_sec: 0",
        "xpack.security.enabled: false",
        "discovery.type: single-node",
        'cluster.name: "c"',
        'node.name: "n"',
        'path.data: "/a"',
        'path.logs: "/log"',
        'network.host: "127.0.0.1"',
        'http.port: "19200"',
        'transport.port: "19300"',
    ]


def test_of_an_earlier_home_corpora_and_races_are_kept_and_nothing_else(launcher):
    home = offline.make_home(launcher, "8.0.0", "1g", None)
    kept = [home / ".rally" / "benchmarks" / name / "kept" for name in ("data", "races")]
    stale = [home / "benchmarks/distributions/stale", home / ".rally/stale", home / ".rally/tmp/stale"]
    for file in (*kept, *stale):
        file.touch()
    offline.make_home(launcher, "8.0.0", "1g", None)
    assert all(file.exists() for file in kept) and not any(file.exists() for file in stale)
    ini = (home / ".rally" / "rally.ini").read_text()
    assert "datastore.type = in-memory" in ini, "without a store no samples are kept"


def test_the_command_runs_rally_from_its_home_as_who_may(launcher, monkeypatch):
    monkeypatch.setattr(rally, "network", lambda: {"THESPIAN_BASE_IPADDR": "127.0.0.1"})
    home = launcher.root / "offline"
    command = ["env", f"RALLY_HOME={home}", f"TMPDIR={home}/.rally/tmp", f"JAVA_HOME={launcher.java_home}"]
    command += ["THESPIAN_BASE_IPADDR=127.0.0.1", str(rally.RALLY), "race", "--track-path=."]
    command += ["--challenge=query-decomp", "--target-hosts=127.0.0.1:19200"]
    assert shlex.split(offline.prepare(launcher, "8.0.0", "1g", None)) == command
    launcher.run_as = {"user": 1, "group": 1}
    monkeypatch.setattr(offline, "make_home", lambda *_: home)
    monkeypatch.setattr(folders, "can_run", lambda *_: True)
    nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs"]
    assert shlex.split(offline.prepare(launcher, "8.0.0", "1g", None)) == [*nobody, *command]


@pytest.mark.parametrize("venv", [True, False])
@pytest.mark.parametrize("python", [True, False])
@pytest.mark.parametrize("track", [True, False])
def test_what_another_user_cannot_read_is_copied_for_that_user(launcher, monkeypatch, tmp_path, venv, python, track):
    asked, copied = [], {}

    def can_run(line, run_as):
        asked.append(run_as)
        return venv if "import esrally" in line[-1] else python

    monkeypatch.setattr(folders, "can_run", can_run)
    monkeypatch.setattr(folders, "can_read", lambda path, run_as: asked.append(run_as) or track)
    monkeypatch.setattr(offline, "_copy", lambda of, to, ignore=None: copied.update({to.name: ignore}))
    launcher.run_as = {"user": 1, "group": 1}
    for stale in ("venv", "python", "track"):
        (tmp_path / stale).mkdir()
    variables, command, of = offline._rally(launcher, tmp_path)
    assert not any((tmp_path / stale).exists() for stale in ("venv", "python", "track"))
    assert set(copied) == {
        *(["venv"] if not venv else []),
        *(["python"] if not venv and not python else []),
        *(["track"] if not track else []),
    }
    assert all(run_as == launcher.run_as for run_as in asked)
    assert of == ("." if track else str(tmp_path / "track"))
    assert command[-1].startswith(str(tmp_path / "venv")) is not venv and len(command) == (1 if venv else 2)
    assert ("PYTHONPATH" in variables) is not venv
    assert ("LD_LIBRARY_PATH" in variables) is (not venv and not python)
    if not venv:
        assert command[0].startswith(str(tmp_path / "python")) is not python
    if not track:
        names = ["_work", "_venv", "_tools", ".git", "tests", "track.json", "cluster_metrics", "challenges"]
        assert set(names) - copied["track"]("", names) == {"track.json", "cluster_metrics", "challenges"}
    launcher.run_as = {}
    assert offline._rally(launcher, tmp_path) == ({}, [str(rally.RALLY)], ".")


def test_a_copy_can_be_read_by_all_and_keeps_links(tmp_path):
    (tmp_path / "of").mkdir(mode=0o700)
    (tmp_path / "of" / "file").write_text("x")
    (tmp_path / "of" / "file").chmod(0o600)
    (tmp_path / "of" / "link").symlink_to("file")
    offline._copy(tmp_path / "of", tmp_path / "to")
    assert (tmp_path / "to" / "file").stat().st_mode & 0o777 == 0o644 and (tmp_path / "to" / "link").is_symlink()
    assert (tmp_path / "to").stat().st_mode & 0o777 == 0o755
