"""Tries the track on versions of Elasticsearch, Python and esrally, and keeps what came of it for docs/versions.md.

Each trial is a command of the README, in test mode, in a clone of the commit: on each Elasticsearch each challenge by
the default Python and esrally, its cells short; on each Python, and each other esrally, the unit tests, and one race on
the default Elasticsearch.
"""

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster_metrics.core.challenge import Challenge, challenges
from cluster_metrics.core.machine import revision

from ..elasticsearch.install import DEFAULT_VERSION
from . import rally
from .variables import VARIABLES, RaceError, variable

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "results" / "versions.json"
FOLDER = rally.WORK / "matrix"
DEFAULT_ESRALLY = "2.13.0"
VERSIONS = {
    "Elasticsearch": ("8.14.3", "8.17.2", "8.19.4", "9.0.8", "9.2.4"),
    "Python": ("3.10", "3.11", "3.12", "3.13"),
    "esrally": ("2.12.0",),
}
"""What is tried; the default esrally by each Python."""
SHORT = {"cell_seconds": "2", "format_corpora": "metrics"}
"""Of the challenges that have them: Rally's test mode bounds rounds and passes, but not what one of them does."""
SET_UP, TESTS = "set-up", "unit tests"
LONGEST_S = 1800
"""Of a trial."""
ENDING_S = 120
"""In which one that took longer has stopped its nodes."""
WHY = re.compile(r"\[ERROR\] (.*)|^(E {3}.*|FAILED .*|ERROR: .*)")
"""A line that says why a trial failed."""


@dataclass(frozen=True)
class Trial:
    """One thing done with one version.

    :param of: a key of :data:`VERSIONS`.
    :param what: a challenge, :data:`TESTS`, or :data:`SET_UP` where that failed.
    :param passed: None where the version has not got what it takes.
    :param why: what it said last, where it did not pass.
    :param commit: of the track.
    """

    of: str
    version: str
    what: str
    passed: bool | None
    why: str
    seconds: int
    commit: str
    date: str


def kept() -> list[Trial]:
    """What was tried last of each."""
    return [Trial(**trial) for trial in json.loads(KEPT.read_text())] if KEPT.exists() else []


def matrix() -> int:
    """Tries all versions, or those that match VERSIONS, and keeps what came of each as soon as it is known."""
    chosen = []
    with contextlib.suppress(re.error):
        wanted = re.compile(variable("VERSIONS", "."))
        chosen = [(of, v) for of, versions in VERSIONS.items() for v in versions if wanted.search(f"{of} {v}")]
    if not chosen:
        names = ", ".join(f"{of} {v}" for of, versions in VERSIONS.items() for v in versions)
        raise VARIABLES["VERSIONS"].wrong(variable("VERSIONS"), f"a regular expression of one of {names}")
    failed = 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    for of, version in chosen:
        others = [t for t in kept() if (t.of, t.version) != (of, version)]
        for trial in tried(of, version):
            others.append(trial)
            KEPT.write_text(json.dumps([asdict(t) for t in ordered(others)], indent=1) + "\n")
            said = {True: "passed", None: "left out"}.get(trial.passed, "failed")
            print(f"{of} {version}, {trial.what}: {said} in {trial.seconds} s {trial.why}".rstrip(), flush=True)
            failed += trial.passed is False
    return int(failed > 0)


def ordered(trials: list[Trial]) -> list[Trial]:
    """In the order in which they are tried."""
    kinds = [(of, version) for of, versions in VERSIONS.items() for version in versions]
    found = [t for t in trials if (t.of, t.version) in kinds]
    return sorted(found, key=lambda t: (kinds.index((t.of, t.version)), t.what))


def tried(of: str, version: str) -> Iterator[Trial]:
    """The trials of a version."""
    python = f"python{version}" if of == "Python" else variable("PYTHON", sys.executable)
    if not shutil.which(python) or subprocess.run([python, "--version"], capture_output=True).returncode:
        raise RaceError(f"no [{python}] on the PATH runs; install it, or leave it out by VERSIONS")
    clone = _clone("elasticsearch" if of == "Elasticsearch" else f"{of}-{version}")
    own, make = str(clone / "_venv" / "bin" / "python"), ["make", "--no-print-directory", f"PYTHON={python}"]
    setup = [[*make, "_venv/ready"]]
    if of == "esrally":
        setup.append([own, "-m", "pip", "install", "--quiet", f"esrally=={version}"])
    for command in setup:
        if not (trial := _trial(of, version, SET_UP, clone, command)).passed:
            yield trial
            return
    race = [*make, "race", "TEST_MODE=1"]
    if of == "Elasticsearch":
        for name, record in sorted(challenges().items()):
            of_challenge = [f"CHALLENGE={name}", f"ES_VERSION={version}", f"PARAMS={shortened(record)}"]
            yield _trial(of, version, name, clone, [*race, *of_challenge])
    else:
        yield _trial(of, version, TESTS, clone, [own, "-m", "pytest", "-q", "-n", "2", "tests/_unit"])
        yield _trial(of, version, "query-decomp", clone, race)


def shortened(record: Challenge) -> str:
    """PARAMS of a trial of a challenge."""
    return ",".join(f"{p.name}:{SHORT[p.name]}" for p in record.parameters if p.name in SHORT)


def _clone(name: str) -> Path:
    clone = FOLDER / name / "track"  # a name without a dot, which Rally would take for a package's
    if clone.exists():
        return clone
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    if rally.DOWNLOADS.exists():  # what was fetched before is checked again
        shutil.copytree(rally.DOWNLOADS, clone / "_work" / "downloads", symlinks=True)
    return clone


def _trial(of: str, version: str, what: str, clone: Path, command: list[str]) -> Trial:
    ours = {*VARIABLES, "GIVEN", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    started, date = time.monotonic(), datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    try:
        code, said = _ended(command, clone, env)
        passed, why = code == 0, "" if code == 0 else _why(said)
    except subprocess.TimeoutExpired:
        passed, why = False, f"it took more than {LONGEST_S} s"
    lacks = not passed and "comes without ES|QL" in why
    seconds = round(time.monotonic() - started)
    return Trial(of, version, what, None if lacks else passed, why, seconds, revision(), date)


def _ended(command: list[str], clone: Path, env: dict[str, str]) -> tuple[int, str]:
    """The exit code of a command and what it said. Whatever ends the wait ends the command and all that it started."""
    process = subprocess.Popen(
        command,
        cwd=clone,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LONGEST_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)  # by which make race stops its nodes
        try:
            process.communicate(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, said


def _why(output: str) -> str:
    found = [m[1] or m[2] for line in output.splitlines() if (m := WHY.search(line))]
    lines = output.strip().splitlines() or ["it said nothing"]
    return (found or lines)[-1].strip()[:300]


def page() -> str:
    """docs/versions.md."""
    trials, rows = kept(), []
    for of, versions in VERSIONS.items():
        for version in versions:
            found = [t for t in trials if (t.of, t.version) == (of, version)]
            default = " (default)" if version == DEFAULT_VERSION else ""
            passed = [t.what for t in found if t.passed]
            rest = [f"{t.what}: {t.why}" for t in found if not t.passed]
            when = "; ".join(sorted({f"{t.date} at {t.commit}" for t in found}))
            cells = [f"{of} {version}{default}", ", ".join(passed) or "–", "; ".join(rest) or "–", when or "not tried"]
            rows.append(" | ".join(cell.replace("|", "\\|") for cell in cells))
    lines = "".join(f"| {row} |\n" for row in rows)
    short = " and ".join(f"`{name}:{value}`" for name, value in SHORT.items())
    none = "" if trials else "It has not been run yet.\n\n"
    return (
        f"# Versions\n\nThis page is generated by `make matrix`.\n\n{none}"
        "What was tried, in test mode and in a clone of its own: on each Elasticsearch the challenges, by the default "
        f"Python;\non each Python, and on another esrally than the default {DEFAULT_ESRALLY}, the unit tests, and "
        f"query-decomp on\nElasticsearch {DEFAULT_VERSION}. Cells may be short: {short}.\n\n"
        f"| version | passed | did not, and what it said | tried |\n|---|---|---|---|\n{lines}"
    )
