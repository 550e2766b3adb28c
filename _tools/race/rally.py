"""Runs ``esrally`` with a home and a configuration of its own, and leaves nothing running."""

import configparser
import contextlib
import importlib.util
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jinja2
import psutil
from esrally.rally import create_arg_parser
from esrally.utils import opts
from esrally.utils.process import find_all_other_rally_processes

from cluster_metrics.core.challenge import Challenge, challenges
from cluster_metrics.core.experiment import corpora_of
from cluster_metrics.corpus.prepared import TRACK

from ..elasticsearch import processes
from ..elasticsearch.security import write_private
from ..report.store import reporting_of
from .variables import VARIABLES, RaceError, escaped, shown

WORK = Path(os.environ.get("WORK") or TRACK / "_work").resolve()
DOWNLOADS = TRACK / "_work" / "downloads"
PROFILES = WORK / "profiles"
"""Samples of CPU time, a folder for each race."""
RALLY_HOME = WORK / "rally"
INI = RALLY_HOME / ".rally" / "rally.ini"
TEMPORARY = RALLY_HOME / "tmp"
"""Rally leaves each track that it reads in the folder for temporary files."""
RALLY = Path(sys.executable).with_name("esrally")
INSTEAD = {
    "--client-options": ", for which CLIENT_OPTIONS is",
    "--track-params": ", for which PARAMS is",
    "--user-tags": ", for which TAGS is",
    "--test-mode": ", for which TEST_MODE is",
    "--configuration-name": ", for which INI is",
    "--load-driver-hosts": ": make has one load driver, and several race by esrally, as docs/your-cluster.md says",
}
"""Options of Rally that make takes otherwise or not at all, and what instead of them."""
MARK = "CLUSTER_METRICS_RACE"
END_SECONDS = 5
END_TRIES = 5
"""Times that Rally's processes are looked for; one that is being ended may have started another."""


@dataclass(frozen=True)
class Store:
    """Where the metrics store is.

    :param url: ``http://`` or ``https://``, with user and password if it needs them.
    :param ca_certs: file with the certificate to trust; empty for those that the machine trusts.
    """

    url: str
    ca_certs: str = ""

    def settings(self) -> dict[str, str]:
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname or "", parts.port
        except ValueError:  # brackets that do not close, a port that is none
            host = ""
        if not is_host(host) or parts.scheme not in ("http", "https") or self.url.rstrip("/").count("/") > 2:
            raise VARIABLES["STORE"].wrong(self.url, "http(s)://[user:password@]host[:port]")
        settings = {
            "datastore.host": host,
            "datastore.port": str(port or (443 if parts.scheme == "https" else 9200)),
            "datastore.secure": str(parts.scheme == "https"),
            "datastore.user": unquote(parts.username or ""),
            "datastore.password": unquote(parts.password or ""),
        }
        return settings | ({"datastore.ssl.certificate_authorities": self.ca_certs} if self.ca_certs else {})


@dataclass(frozen=True)
class StoreOf:
    """The metrics store that a ``rally.ini`` names.

    :param ini: the file.
    """

    ini: Path

    def settings(self) -> dict[str, str]:
        return reporting_of(self.ini)


def is_host(name: object) -> bool:
    """Whether this looks like the name or the address of a host."""
    return isinstance(name, str) and bool(re.fullmatch(r"[\w.:-]{1,253}", name, re.ASCII))


def write_configuration(
    store: Store | StoreOf | None, path: Path | None = None, mechanic: dict[str, str] | None = None
) -> None:
    """Derives Rally's configuration from ``rally.ini.example``.

    :param store: the metrics store; None keeps no samples.
    :param path: of the configuration; default is that of ``make race``.
    :param mechanic: what Rally provisions; default is nothing.
    """
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(TRACK / "rally.ini.example")
    reporting = store.settings() if store else {"datastore.type": "in-memory"}
    ini["reporting"].update({key: value.replace("$", "$$").replace("%", "%%") for key, value in reporting.items()})
    ini.remove_section("mechanic")
    if mechanic:
        ini["mechanic"] = mechanic
    ini.write(text := io.StringIO())
    write_private(path or INI, text.getvalue().encode())  # it may hold a password


def environment() -> dict[str, str]:
    """The environment in which Rally finds its home and shows its progress and summary even when piped."""
    TEMPORARY.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"RALLY_HOME": str(RALLY_HOME), "TMPDIR": str(TEMPORARY), MARK: processes.mark()}
    if not sys.stdout.isatty():
        env |= {"RALLY_RUNNING_IN_DOCKER": "TRUE", "TERM": "dumb", "COLUMNS": "120"}
    return env | network()


def network() -> dict[str, str]:
    """What Rally needs in its environment to run without a default route."""
    return {} if _has_default_route() else {"THESPIAN_BASE_IPADDR": "127.0.0.1"}


def _has_default_route() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # documentation address; connecting a datagram socket sends nothing
        except OSError:
            return False
    return True


def esrally(*arguments: str) -> list[str]:
    """The command line of Rally, by the interpreter's name: a process that is named esrally and has ended keeps Rally
    from the next race until its parent asks for it."""
    return [sys.executable, str(RALLY), *arguments]


def check_folder_name() -> None:
    """Rally imports a track by the name of its folder, so some names cannot work.

    :raises RaceError: when the folder has such a name.
    """
    if "." in TRACK.name:
        raise RaceError(f"folder name [{TRACK.name}] has a dot, which Rally cannot import; rename the folder")
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(TRACK.name)
        if spec and spec.origin and not Path(spec.origin).is_relative_to(TRACK):
            raise RaceError(f"folder name [{TRACK.name}] is that of an installed package; rename the folder")


def check_no_other_rally() -> None:
    """Rally allows one race per machine. What a killed race of ours left behind is ended first.

    :raises RaceError: when another one runs.
    """
    end_processes(processes.has_ended)
    if others := wait_for_rally_to_end():
        raise RaceError(f"Rally runs already (process {others[0].pid}) and allows one race per machine")


def wait_for_rally_to_end(seconds: float = 15) -> list[psutil.Process]:
    """Rally's processes may outlive the command by a few seconds; returns those that still run after that time."""
    deadline = time.monotonic() + seconds
    while (others := processes.running(find_all_other_rally_processes())) and time.monotonic() < deadline:
        time.sleep(0.5)
    return others


def check_disk(challenge: str, track_params: str, test_mode: bool, target: Path | None) -> None:
    """The folder that a challenge's corpora are generated in, and the disk that the race needs.

    :param target: where the embedded target keeps its indices; None for another target.
    :raises RaceError: when the folder cannot be written, or the disk has too little room for what is not there yet.
    """
    record, values = challenges()[challenge], resolved(track_params, challenge)
    data = INI.parent / "benchmarks" / "data"
    missing = 0
    for corpus in used_corpora(record, values, test_mode):
        folder = data / corpus.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as e:
            raise RaceError(f"cannot write the corpus to [{folder}]: {e.strerror}") from None
        roots = (TRACK, folder)
        missing += sum(part.size for part in corpus.parts() if not any((root / part.file).exists() for root in roots))
    needs: list[tuple[Path, str, float]] = [(data, "the corpus needs", missing)]
    if target:
        indices = disk_bytes(record, values, test_mode)
        place = next(folder for folder in (target, *target.parents) if folder.exists())
        if place.stat().st_dev == data.stat().st_dev:
            needs = [(data, "the corpus and its indices need", missing + indices)]
        else:
            needs.append((place, "the indices need", indices))
    for place, what, needed in needs:
        if needed > (free := shutil.disk_usage(place).free):
            raise RaceError(
                f"{what} about {-(-needed // 10**6):,.0f} MB in [{place}], free are {free // 10**6:,} MB; "
                "race a smaller corpus"
            )


def params_of(track_params: str) -> dict[str, Any]:
    """The track parameters that are given, as Rally reads them.

    :raises RaceError: when they cannot be read.
    """
    try:
        found = opts.to_dict(track_params)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise VARIABLES["PARAMS"].wrong(track_params, "k:v,k:v, or a JSON object, or the name of a file of it.json")
    return found


def check_arguments(command: list[str], given: str) -> None:
    """Whether Rally takes a command line.

    :param given: the arguments at its end that the user gave.
    :raises RaceError: when they are none of Rally's, or would take the place of those that make sets.
    """
    own = [argument.partition("=")[0] for argument in command[: len(command) - len(given.split())]]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            create_arg_parser().parse_args(command[len(esrally()) :])
    except SystemExit:
        problem = said.getvalue().strip().rpartition("\n")[2].rpartition("error: ")[2]
        raise VARIABLES["RALLY_ARGS"].wrong(given, f"what esrally takes: {shown(problem)}") from None
    for argument in given.split():
        name = argument.partition("=")[0]
        if len(name) < 3 or not name.startswith("--"):
            continue
        if instead := next((how for option, how in INSTEAD.items() if option.startswith(name)), ""):
            raise VARIABLES["RALLY_ARGS"].wrong(given, f"no {shown(name)}{instead}")
        if any(o.startswith(name) for o in own):
            raise VARIABLES["RALLY_ARGS"].wrong(given, f"what make does not set itself, as it does {shown(name)}")


def used_corpora(record: Challenge, values: dict[str, Any], test_mode: bool = False) -> list[Any]:
    """The corpora of a challenge that track parameters ask for."""
    found = corpora_of(values, test_mode)
    return [found[kind.name] for kind in record.corpora]  # type: ignore[attr-defined]


def disk_bytes(record: Challenge, values: dict[str, Any], test_mode: bool = False) -> float:
    """What bulk bodies and indices of a challenge take of disk at most, with its corpora."""
    size = sum(part.size for corpus in used_corpora(record, values, test_mode) for part in corpus.parts())
    return record.disk_factor * size


def resolved(track_params: str, challenge: str = "") -> dict[str, Any]:
    """All track parameters, with the defaults that ``track.json`` gives to those not set.

    :param challenge: whose own defaults count; without one none of any challenge do.
    """
    definitions = re.findall(r"{% set p(?:_own)? = .*? %}", (TRACK / "track.json").read_text(), re.DOTALL)
    assert len(definitions) == 2, "track.json sets p and p_own"
    found = jinja2.Environment().from_string("".join(definitions)).make_module(params_of(track_params)).__dict__
    return found["p"] | found["p_own"].get(challenge, {})


def check_track(challenge: str, track_params: str) -> None:
    """Has Rally load the track with these parameters, which checks all of them in about 2 s.

    :raises RaceError: with the line that says what is wrong.
    """
    command = esrally("info", f"--track-path={TRACK}", f"--challenge={challenge}", "--offline")
    if track_params:
        command.append(f"--track-params={track_params}")
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    shutil.rmtree(TEMPORARY, ignore_errors=True)
    if result.returncode:
        lines = [line.strip() for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("[ERROR]")] or lines[-1:] or ["it says nothing"]
        raise RaceError(escaped(errors[0].removeprefix("[ERROR] Cannot info. ")))


def run(command: list[str], wait: Callable[[subprocess.Popen], int] = subprocess.Popen.wait) -> int:
    """Runs Rally and returns its exit code; however this ends, none of Rally's processes stays behind.

    :param wait: waits for it and returns its exit code; what it raises ends Rally.
    """
    env = environment()
    piped = not sys.stdout.isatty()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE if piped else None, text=True)
    copier = threading.Thread(target=_copy_without_repeats, args=(process.stdout,), daemon=True)
    if piped:
        copier.start()
    try:
        return wait(process)
    finally:
        end_processes(lambda mark: mark == env[MARK])
        wait_for_rally_to_end()
        shutil.rmtree(TEMPORARY, ignore_errors=True)
        if piped:
            copier.join(timeout=5)


def _copy_without_repeats(lines: Iterable[str]) -> None:
    """Rally repeats its line of progress every second; in a pipe one of a kind will do. A last one that was not ended
    is, so that what follows stands on a line of its own."""
    last = "\n"
    for line in lines:
        if line != last:
            print(line, end="", flush=True)
        last = line
    if not last.endswith("\n"):
        print(flush=True)


def end_processes(ours_by_mark: Callable[[str], bool]) -> None:
    """Ends all processes with our mark, the process that started them, in their environment, and those that they start
    meanwhile."""
    for _ in range(END_TRIES):
        ours = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mark = process.environ().get(MARK)
                if mark and process.pid != os.getpid() and ours_by_mark(mark):
                    ours.append(process)
        if not ours:
            break
        processes.end(ours, END_SECONDS)
