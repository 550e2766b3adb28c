import math
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from esrally.config import ConfigFile
from esrally.utils.process import find_all_other_rally_processes

from _tools.elasticsearch.install import DEFAULT_VERSION
from _tools.race import rally
from _tools.race.rally import Store, StoreOf
from _tools.race.variables import RaceError
from _tools.report.store import connect
from cluster_metrics.core.challenge import challenges


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Rally's home is a folder of the test's own."""
    monkeypatch.setattr(rally, "INI", tmp_path / ".rally" / "rally.ini")
    monkeypatch.setenv("RALLY_HOME", str(tmp_path))
    return tmp_path / ".rally"


def test_rally_reads_the_derived_configuration_as_it_was_meant(home):
    home.mkdir()
    rally.INI.touch(0o644)
    with open(rally.INI) as opened_before:
        rally.write_configuration(Store("https://me:p%24%25ss@store.example:9201"))
        assert not opened_before.read(), "who had it open reads the password"
    config = ConfigFile().load()
    assert config["node"]["root.dir"] == f"{home}/benchmarks"
    assert config["benchmarks"]["local.dataset.cache"] == f"{home}/benchmarks/data"
    reporting = config["reporting"]
    assert reporting["datastore.host"] == "store.example"
    assert reporting["datastore.port"] == "9201"
    assert reporting["datastore.secure"] == "True"
    assert reporting["datastore.user"] == "me"
    assert reporting["datastore.password"] == "p$%ss"
    assert rally.INI.stat().st_mode & 0o077 == 0, "others can read the password"


def test_make_races_what_runs_and_plain_rally_provisions_what_make_would(home):
    example = (rally.TRACK / "rally.ini.example").read_text()
    rally.INI.parent.mkdir()
    rally.INI.write_text(example)
    assert ConfigFile().load()["mechanic"]["distribution.version"] == DEFAULT_VERSION
    rally.write_configuration(Store("http://store.example"))
    assert not ConfigFile().load().has_section("mechanic")


def test_a_certificate_to_trust(home):
    rally.write_configuration(Store("https://store.example", ca_certs="/my certificates/ca.pem"))
    assert ConfigFile().load()["reporting"]["datastore.ssl.certificate_authorities"] == "/my certificates/ca.pem"


def test_the_report_reads_the_same_configuration(home):
    rally.write_configuration(Store("https://me:p%24%25ss@store.example:9201"))
    client = connect(rally.INI)
    assert [node.base_url for node in client.transport.node_pool.all()] == ["https://store.example:9201"]
    assert client._headers["authorization"] == "Basic bWU6cCQlc3M="


def test_the_store_of_a_rally_ini_is_taken_over_with_all_that_it_takes(home, tmp_path):
    ini = tmp_path / "mine.ini"
    lines = ["datastore.type = elasticsearch", "datastore.host = store.example", "datastore.port = 9201"]
    lines += ["datastore.secure = True", "datastore.api_key = a%%$$b", "datastore.number_of_shards = 3"]
    lines += ["datastore.ssl.certificate_authorities = ${CONFIG_DIR}/ca.pem"]
    ini.write_text("\n".join(["[reporting]", *lines]))
    rally.write_configuration(StoreOf(ini))
    reporting = ConfigFile().load()["reporting"]
    assert reporting["datastore.host"] == "store.example" and reporting["datastore.number_of_shards"] == "3"
    assert reporting["datastore.api_key"] == "a%$b" and reporting["datastore.user"] == ""
    assert reporting["datastore.ssl.certificate_authorities"] == f"{tmp_path}/ca.pem"


def test_the_report_takes_credentials_from_where_rally_does(home, monkeypatch):
    rally.write_configuration(Store("http://store.example:9201"))
    monkeypatch.setenv("RALLY_REPORTING_DATASTORE_API_KEY", "secret")
    assert connect(rally.INI)._headers["authorization"] == "ApiKey secret"


@pytest.mark.parametrize("url", ["store.example", "ftp://store.example", "https://"])
def test_a_store_that_is_no_url(url):
    with pytest.raises(RaceError, match=r"allowed is http\(s\)://"):
        Store(url).settings()


@pytest.mark.parametrize("name", ["my.track", "elasticsearch"])
def test_folder_names_that_rally_cannot_import(tmp_path, monkeypatch, name):
    monkeypatch.setattr(rally, "TRACK", tmp_path / name)
    with pytest.raises(RaceError, match=f"folder name \\[{name}\\]"):
        rally.check_folder_name()


def test_a_folder_name_that_can_work(tmp_path, monkeypatch):
    monkeypatch.setattr(rally, "TRACK", tmp_path / "my rally-track")
    rally.check_folder_name()


def test_rally_leaves_nothing_in_the_folder_for_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr(rally, "TEMPORARY", tmp_path / "tmp")
    code = "import tempfile; f = tempfile.NamedTemporaryFile(delete=False); print(f.name); "
    assert rally.run([sys.executable, "-c", code + f"assert f.name.startswith({str(tmp_path)!r})"]) == 0
    assert not any(tmp_path.iterdir())


def test_a_line_of_progress_that_was_cut_off_is_ended(capsys):
    rally._copy_without_repeats(["Running x\n", "Running x\n", "Running y [ 50% done]"])
    assert capsys.readouterr().out == "Running x\nRunning y [ 50% done]\n"


@pytest.mark.parametrize("routed, given", [(True, {}), (False, {"THESPIAN_BASE_IPADDR": "127.0.0.1"})])
def test_an_address_is_given_to_rallys_actors_only_where_they_would_find_none(monkeypatch, routed, given):
    monkeypatch.setattr(rally, "_has_default_route", lambda: routed)
    assert rally.network() == given


def test_who_ends_what_it_started_does_not_end_itself(monkeypatch):
    def process(pid, mark):
        return SimpleNamespace(pid=pid, environ=lambda: {rally.MARK: mark})

    there = {pid: process(pid, mark) for pid, mark in ((os.getpid(), "ours"), (7, "ours"), (8, "another's"))}
    ended = []

    def end(found, seconds):
        ended.extend(process.pid for process in found)
        for process in found:
            del there[process.pid]

    monkeypatch.setattr(psutil, "process_iter", lambda: list(there.values()))
    monkeypatch.setattr(rally.processes, "end", end)
    rally.end_processes(lambda mark: mark == "ours")
    assert ended == [7] and set(there) == {os.getpid(), 8}


def test_a_rally_that_has_ended_and_whose_parent_does_not_ask_for_it_is_no_other_rally():
    started = subprocess.Popen(rally.esrally("--version"), stdout=subprocess.DEVNULL)
    while psutil.Process(started.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
    others = [process.pid for process in find_all_other_rally_processes()]
    started.wait()
    assert started.pid not in others


def test_a_disk_that_is_too_small_is_told_in_gigabytes(home, monkeypatch):
    monkeypatch.setattr(rally.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_234_000_000))
    with pytest.raises(RaceError, match=r"need about [\d,]+ MB in \[.*\], free are 1,234 MB; race a smaller corpus"):
        rally.check_disk("query-decomp", "epochs:50", False, home)
    rally.check_disk("query-decomp", "", True, home)


def test_a_corpus_that_is_there_takes_no_more_of_the_disk(home, monkeypatch):
    monkeypatch.setattr(rally.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    (corpus,) = rally.used_corpora(challenges()["query-decomp"], rally.resolved("seed:7"))
    files = [home / "benchmarks" / "data" / corpus.name / part.file for part in corpus.parts()]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    rally.check_disk("query-decomp", "seed:7", False, None)
    files[-1].unlink()
    with pytest.raises(RaceError, match="^the corpus needs about [1-9][0-9]* MB in"):
        rally.check_disk("query-decomp", "seed:7", False, None)


def test_indices_on_another_disk_take_room_there_and_none_beside_the_corpus(home, monkeypatch):
    elsewhere = Path("/dev/shm")
    if not elsewhere.exists() or elsewhere.stat().st_dev == home.parent.stat().st_dev:
        pytest.skip("there is one disk alone")
    (corpus,) = rally.used_corpora(challenges()["query-decomp"], rally.resolved("seed:7"))
    free = {elsewhere: 10**12}
    of_corpus = sum(part.size for part in corpus.parts())
    monkeypatch.setattr(rally.shutil, "disk_usage", lambda place: SimpleNamespace(free=free.get(place, of_corpus)))
    rally.check_disk("query-decomp", "seed:7", False, elsewhere / "of-the-target")
    free[elsewhere] = 10**6
    with pytest.raises(RaceError, match=r"^the indices need about [\d,]+ MB in \[/dev/shm\], free are 1 MB"):
        rally.check_disk("query-decomp", "seed:7", False, elsewhere / "of-the-target")


@pytest.mark.parametrize("test_mode", [False, True])
def test_the_disk_takes_the_corpus_and_of_an_embedded_target_its_indices_too(home, monkeypatch, test_mode):
    record = challenges()["query-decomp"]
    corpora = rally.used_corpora(record, rally.resolved("seed:7"), test_mode)
    corpus = sum(part.size for of in corpora for part in of.parts())
    for target, needed in ((None, corpus), (home, math.ceil(corpus * (1 + record.disk_factor)))):
        monkeypatch.setattr(rally.shutil, "disk_usage", lambda _, free=needed: SimpleNamespace(free=free))
        rally.check_disk("query-decomp", "seed:7", test_mode, target)
        monkeypatch.setattr(rally.shutil, "disk_usage", lambda _, free=needed - 1: SimpleNamespace(free=free))
        with pytest.raises(RaceError, match="^the corpus and its indices need" if target else "^the corpus needs"):
            rally.check_disk("query-decomp", "seed:7", test_mode, target)


@pytest.mark.parametrize(
    "url, port, secure",
    [
        ("http://store", "9200", "False"),
        ("https://store/", "443", "True"),
        ("http://store:80", "80", "False"),
        ("https://store:9200", "9200", "True"),
    ],
)
def test_a_store_without_a_port_is_at_that_of_its_scheme(url, port, secure):
    assert Store(url).settings() == {
        "datastore.host": "store",
        "datastore.port": port,
        "datastore.secure": secure,
        "datastore.user": "",
        "datastore.password": "",
    }


@pytest.mark.parametrize(
    "said, told",
    [
        ("a banner\n\n[ERROR] Cannot info. rounds is [x]\nGetting further help: …", "rounds is [x]"),
        ("a traceback\n  what it says\n", "what it says"),
        ("", "it says nothing"),
    ],
)
def test_of_a_track_that_rally_does_not_load_its_error_is_told(monkeypatch, tmp_path, said, told):
    monkeypatch.setattr(rally, "TEMPORARY", tmp_path / "tmp")
    monkeypatch.setattr(rally, "RALLY", tmp_path / "esrally")
    rally.RALLY.write_text(
        f"import sys\nprint({said!r})\nassert sys.argv[-1] == '--track-params=rounds:x'\nsys.exit(1)"
    )
    with pytest.raises(RaceError) as raised:
        rally.check_track("ingest", "rounds:x")
    assert str(raised.value) == told and not rally.TEMPORARY.exists()
    rally.RALLY.write_text("")
    rally.check_track("ingest", "rounds:x")
