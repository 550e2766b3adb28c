import json
import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from schedules import ROOT

from _tools.elasticsearch.install import DEFAULT_VERSION
from _tools.race import matrix
from _tools.race.variables import RaceError
from cluster_metrics.core.challenge import challenges

OUTPUT = "starting\n[ERROR] the first reason\nmake: *** [race] Error 1\n"


def trial(**changes):
    of = {"of": "Python", "version": "3.12", "what": "unit tests", "passed": True, "why": "", "seconds": 3}
    return of | {"commit": "abc", "date": "2026-11-23"} | changes


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path / "versions.json")
    monkeypatch.setattr(matrix, "FOLDER", tmp_path / "matrix")
    return lambda *trials: matrix.KEPT.write_text(json.dumps(trials))


def test_what_is_the_default_is_what_is_pinned():
    pinned = (ROOT / "requirements.txt").read_text()
    assert re.search(rf"^esrally=={matrix.DEFAULT_ESRALLY} ", pinned, re.MULTILINE)
    assert DEFAULT_VERSION in matrix.VERSIONS["Elasticsearch"]
    sums = (ROOT / "_tools" / "elasticsearch" / "checksums.txt").read_text()
    assert all(f"elasticsearch:zip:{version}" in sums for version in matrix.VERSIONS["Elasticsearch"])


@pytest.mark.parametrize(
    "output, why",
    [
        (OUTPUT, "the first reason"),
        ("E   assert 1 == 2\nFAILED tests/x.py::test_y - assert\n3 failed", "FAILED tests/x.py::test_y - assert"),
        ("one\ntwo\n", "two"),
        ("", "it said nothing"),
    ],
)
def test_a_trial_that_failed_says_why(output, why):
    assert matrix._why(output).startswith(why)


def test_the_page_says_what_passed_what_did_not_and_what_was_not_tried(kept):
    kept(trial(), trial(what="query-decomp", passed=False, why="a | b"), trial(version="3.13", passed=None, why="none"))
    rows = {line.split(" | ")[0].strip("| "): line for line in matrix.page().splitlines() if line.startswith("| ")}
    assert "| unit tests | query-decomp: a \\| b | 2026-11-23 at abc |" in rows["Python 3.12"]
    assert "| – | unit tests: none |" in rows["Python 3.13"]
    assert rows["Python 3.10"].endswith("| – | – | not tried |")
    assert f"Elasticsearch {DEFAULT_VERSION} (default)" in rows


def test_a_version_tried_again_takes_the_place_of_before(kept, monkeypatch):
    kept(trial(), trial(what="query-decomp"), trial(version="3.13"), trial(version="3.8"))
    monkeypatch.setenv("VERSIONS", "Python 3.12")
    new = [trial(passed=False, why="broken", commit="def")]
    monkeypatch.setattr(matrix, "tried", lambda of, version: (matrix.Trial(**t) for t in new))
    (matrix.FOLDER / "a clone of before").mkdir(parents=True)
    assert matrix.matrix() == 1 and not matrix.FOLDER.exists()
    assert [(t.version, t.commit) for t in matrix.kept()] == [("3.12", "def"), ("3.13", "abc")], "none tries 3.8 now"


@pytest.mark.parametrize("versions", ["Python 2", "("])
def test_a_version_that_is_none_is_refused(kept, monkeypatch, versions):
    monkeypatch.setenv("VERSIONS", versions)
    with pytest.raises(RaceError, match="allowed is a regular expression of one of Elasticsearch 8.14.3"):
        matrix.matrix()


@pytest.mark.parametrize(
    "of, version, commands",
    [
        ("esrally", "2.12.0", [["-m", "pip", "install", "--quiet", "esrally==2.12.0"], ["-m", "pytest"]]),
        ("Python", "3.12", [["-m", "pytest"]]),
    ],
)
def test_what_is_tried_is_in_the_environment_of_its_clone(kept, tmp_path, monkeypatch, of, version, commands):
    tried = []
    monkeypatch.setattr(matrix, "_clone", lambda name: tmp_path / name)
    monkeypatch.setattr(matrix, "_trial", lambda *about: tried.append(about[-1]) or matrix.Trial(**trial()))
    monkeypatch.setattr(matrix.shutil, "which", lambda name: name)
    monkeypatch.setattr(matrix.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    assert [found.passed for found in matrix.tried(of, version)] == [True, True]
    own = str(tmp_path / f"{of}-{version}" / "_venv" / "bin" / "python")
    assert [
        command[1 : 1 + len(known)] for command, known in zip((c for c in tried if c[0] == own), commands)
    ] == commands
    assert tried[0][-1] == "_venv/ready" and tried[-1][-2:] == ["race", "TEST_MODE=1"]


def test_each_challenge_is_tried_on_an_elasticsearch_with_short_cells(kept, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setenv("PYTHON", "python3.11")
    monkeypatch.setattr(matrix, "_clone", lambda name: tmp_path / name)
    monkeypatch.setattr(matrix, "_trial", lambda *about: tried.append(about) or matrix.Trial(**trial()))
    monkeypatch.setattr(matrix.shutil, "which", lambda name: name)
    monkeypatch.setattr(matrix.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    assert len(list(matrix.tried("Elasticsearch", "9.0.8"))) == len(challenges())
    make = ["make", "--no-print-directory", "PYTHON=python3.11"]
    clone = tmp_path / "elasticsearch"
    assert tried[0] == ("Elasticsearch", "9.0.8", "set-up", clone, [*make, "_venv/ready"])
    race = [*make, "race", "TEST_MODE=1"]
    assert tried[1:] == [
        ("Elasticsearch", "9.0.8", name, clone)
        + ([*race, f"CHALLENGE={name}", "ES_VERSION=9.0.8", f"PARAMS={matrix.shortened(record)}"],)
        for name, record in sorted(challenges().items())
    ]


@pytest.mark.parametrize("of, version", [("Elasticsearch", "9.0.8"), ("esrally", "2.12.0"), ("Python", "3.12")])
def test_where_the_set_up_fails_that_is_all_there_is(kept, tmp_path, monkeypatch, of, version):
    failed = matrix.Trial(**trial(passed=False))
    monkeypatch.setattr(matrix, "_clone", lambda name: tmp_path / name)
    monkeypatch.setattr(matrix, "_trial", lambda *about: failed)
    monkeypatch.setattr(matrix.shutil, "which", lambda name: name)
    monkeypatch.setattr(matrix.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    assert list(matrix.tried(of, version)) == [failed]
    monkeypatch.setattr(matrix.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=127))
    with pytest.raises(RaceError, match="on the PATH runs; install it, or leave it out by VERSIONS"):
        next(matrix.tried(of, version))


def test_a_clone_is_made_once_of_this_repository_with_what_was_downloaded(kept, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        matrix.subprocess, "run", lambda line, check: ran.append(line) or Path(line[-1]).mkdir(parents=True)
    )
    monkeypatch.setattr(matrix.rally, "DOWNLOADS", tmp_path / "downloads")
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "x.zip").touch()
    clone = matrix._clone("Python-3.12")
    assert matrix._clone("Python-3.12") == clone == matrix.FOLDER / "Python-3.12" / "track"
    assert ran == [["git", "clone", "--quiet", str(ROOT), str(clone)]]
    assert (clone / "_work" / "downloads" / "x.zip").exists()


def test_what_shortens_a_trial_is_a_parameter_of_some_challenge():
    by_name = {name: matrix.shortened(record) for name, record in challenges().items()}
    assert by_name["capacity-curve"] == "cell_seconds:2" and by_name["query-decomp"] == ""
    assert {pair.split(":")[0] for text in by_name.values() for pair in text.split(",") if pair} == set(matrix.SHORT)


def gone(pid):
    """Whether a process ends within seconds; one that dies closes its pipe a little before it is a zombie."""
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_trial_that_takes_too_long_ends_with_all_that_it_started(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "LONGEST_S", 1)
    found = matrix._trial("Python", "3.12", "x", tmp_path, ["sh", "-c", "sleep 60 & echo $! > pid; wait"])
    assert (found.passed, found.why) == (False, "it took more than 1 s")
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_interrupts_a_trial_ends_all_that_it_started(kept, tmp_path, monkeypatch):
    class Interrupted(subprocess.Popen):
        def communicate(self, *args, **kwargs):
            if not (tmp_path / "interrupted").exists():
                while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                    time.sleep(0.01)
                (tmp_path / "interrupted").touch()
                raise KeyboardInterrupt
            return super().communicate(*args, **kwargs)

    monkeypatch.setattr(matrix.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        matrix._trial("Python", "3.12", "x", tmp_path, ["sh", "-c", "sleep 60 & echo $! > pid; wait"])
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    "script, passed, why",
    [
        ("echo '[ERROR] of no account'", True, ""),
        ("echo '[ERROR] the reason'; exit 2", False, "the reason"),
        ("echo '[ERROR] 8.14.3, which comes without ES|QL'; exit 1", None, "8.14.3, which comes without ES|QL"),
        ('echo "of this race: $RACE_ID$MAKEFLAGS"; test -z "$RACE_ID$MAKEFLAGS"', True, ""),
    ],
)
def test_a_trial_passes_by_its_exit_code_and_takes_no_variable_of_this_run(tmp_path, monkeypatch, script, passed, why):
    monkeypatch.setenv("RACE_ID", "mine")
    monkeypatch.setenv("MAKEFLAGS", "-j")
    found = matrix._trial("Python", "3.12", "x", tmp_path, ["sh", "-c", script])
    assert (found.of, found.version, found.what) == ("Python", "3.12", "x")
    assert (found.passed, found.why) == (passed, why)


@pytest.mark.parametrize("passed, code", [((False, True), 1), ((True, False), 1), ((True, None), 0)])
def test_the_matrix_fails_when_any_of_its_trials_does(kept, monkeypatch, passed, code):
    kept()
    monkeypatch.setenv("VERSIONS", "Python 3.1[23]")
    ended = dict(zip(("3.12", "3.13"), passed))
    monkeypatch.setattr(
        matrix, "tried", lambda of, version: [matrix.Trial(**trial(version=version, passed=ended[version]))]
    )
    assert matrix.matrix() == code and {t.version: t.passed for t in matrix.kept()} == ended
