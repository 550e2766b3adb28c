"""What ``make`` says and refuses before it starts anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from _tools.race import clean
from _tools.race.variables import TARGETS, VARIABLES
from cluster_metrics.core.challenge import challenges

ROOT = Path(__file__).parents[3]


def make(*arguments, cwd=ROOT, **given):
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES} | {"COLUMNS": "1000"} | given
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def fresh(tmp_path):
    """A clone before set-up: what ``make`` needs to help and to clean, and no virtual environment."""
    for name in ("Makefile", "requirements.txt", "_tools/race", "challenges", "corpora"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    return tmp_path


def test_make_alone_lists_targets_variables_and_challenges():
    lines = make().stdout.splitlines()
    for names in (TARGETS, VARIABLES, challenges()):
        for name in names:
            assert any(line.split()[:1] == [name] for line in lines), name
    for record in challenges().values():
        assert any(record.question in line and f"({record.minutes} min, " in line for line in lines)


def test_targets_are_those_of_the_makefile():
    [listed] = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY")]
    assert set(listed.split()[1:]) - {"variables"} == set(TARGETS)


def test_a_fresh_clone_helps_without_setting_anything_up(fresh):
    helped = make(cwd=fresh)
    assert helped.returncode == 0 and "CHALLENGE" in helped.stdout
    assert all(name in helped.stdout for name in challenges())
    assert not (fresh / "_venv").exists()


@pytest.mark.parametrize(
    "given, message",
    [
        ("CHALENGE=ingest", "make has no variable 'CHALENGE'; did you mean CHALLENGE?"),
        ("challenge=ingest", "make has no variable 'challenge'; did you mean CHALLENGE?"),
        ("XQZ=1", "make has no variable 'XQZ'; 'make' lists them all"),
    ],
)
def test_an_unknown_variable_is_refused_before_anything_starts(fresh, given, message):
    for target in ("race", "help", "clean"):
        refused = make(target, given, cwd=fresh)
        assert refused.returncode != 0 and message in refused.stderr
    assert not (fresh / "_venv").exists()


@pytest.mark.parametrize("value", ["$(shell touch expanded)", "$word", "$$x", 'a b\'s "c"'])
def test_values_are_taken_as_they_are(value):
    refused = make("race", f"CHALLENGE={value}")
    assert f"[ERROR] CHALLENGE is [{value}], allowed is" in refused.stderr
    assert not (ROOT / "expanded").exists()


def test_clean_asks_where_results_lie_and_leaves_what_is_not_its_own(fresh):
    own = [fresh / name for name in ("_work/reports/r", "_venv/lib", "corpora/weblogs/hash", "_tools/race/__pycache__")]
    for folder in own:
        folder.mkdir(parents=True, exist_ok=True)
    (fresh / "_work/reports/r/report.json").write_text("{}")
    assert make("clean", cwd=fresh, YES="no").returncode != 0
    refused = make("clean", cwd=fresh)
    assert refused.returncode != 0 and "holds 1 report." in refused.stdout
    assert "nothing was removed; 'make clean YES=1' does not ask" in refused.stderr
    assert all(folder.is_dir() for folder in own)
    cleaned = make("clean", "YES=1", cwd=fresh)
    assert cleaned.returncode == 0, cleaned.stderr
    assert not any(folder.exists() for folder in (*own, fresh / "_work", fresh / "_venv"))
    assert (fresh / "corpora/weblogs.json").is_file() and (fresh / "Makefile").is_file()


@pytest.mark.parametrize(
    "file, holds",
    [
        ("elasticsearch/metrics-store-1/data/x", "a metrics store with the samples of all races"),
        ("noise.json", "measured noise floors"),
        ("reports/r/report.json", "1 report"),
    ],
)
def test_clean_asks_for_all_that_nobody_could_make_again(fresh, file, holds):
    (fresh / "_work" / file).parent.mkdir(parents=True)
    (fresh / "_work" / file).touch()
    refused = make("clean", cwd=fresh)
    assert refused.returncode != 0 and f"holds {holds}." in refused.stdout and (fresh / "_work" / file).exists()


@pytest.mark.parametrize(
    "said, yes", [("y", True), (" YES ", True), ("", False), ("n", False), ("maybe", False), (EOFError, False)]
)
def test_only_a_yes_is_one(monkeypatch, said, yes):
    def answer(question):
        if said is EOFError:
            raise EOFError
        return said

    monkeypatch.setattr("builtins.input", answer)
    assert clean.confirmed() is yes


def test_clean_leaves_what_somebody_else_has_in_the_work_folder(fresh):
    shared, outside = fresh / "shared", fresh / "outside"
    for name in ("downloads", "look", "matrix", "micro", "profiles", "rally", "reports"):
        (shared / name).mkdir(parents=True)
    (outside / "data").mkdir(parents=True)
    (shared / "elasticsearch").symlink_to(outside)
    (shared / "thesis.txt").write_text("mine")
    assert make("clean", f"WORK={shared}", cwd=fresh).returncode == 0
    assert [path.name for path in shared.iterdir()] == ["thesis.txt"] and not outside.exists()


def test_clean_removes_at_once_what_is_made_again_in_minutes(fresh):
    (fresh / "_work/rally").mkdir(parents=True)
    assert make("clean", cwd=fresh).returncode == 0
    assert not (fresh / "_work").exists()
