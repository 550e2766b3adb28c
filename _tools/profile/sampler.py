"""Samples where the nodes of a target spend their CPU time, by async-profiler; docs/challenges/cpu-profile.md says why.

A node has to run on this machine, in a process that this user may attach to. Each recording is a file of its own, so
none grows with the race, and what was recorded before a node is lost is kept.
"""

import contextlib
import os
import platform
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ..elasticsearch import folders, processes
from ..elasticsearch.folders import NodeError
from ..elasticsearch.install import fetch
from ..elasticsearch.nodes import Launcher

ASYNC_PROFILER = "tools.profiler:async-profiler:4.4"
LIBRARY = "libasyncProfiler.so"
PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
"""Where the library of a machine is in the artefact."""
OPTIONS = "event=ctimer,interval=100000,jfr"
"""Of a recording: a timer per thread that counts its CPU time. Expired timers are seen at the kernel's next tick (4 ms
at 250 Hz), so a shorter interval makes each tick that hits a thread one sample, whatever else the thread did."""
COMMAND_SECONDS = 30
"""For which a command to a node may take."""
NODES = "/_nodes/process,http?filter_path=nodes.*.name,nodes.*.process.id,nodes.*.http.publish_address"


class SamplerError(Exception):
    """A node that cannot be sampled; the message is for the person at the terminal."""


@dataclass
class Node:
    """A node of the target whose process runs here.

    :param started: see :func:`..elasticsearch.processes.started`.
    :param library: that its user may read.
    :param folder: that its user may write.
    """

    name: str
    pid: int
    started: int
    library: Path = Path()
    folder: Path = Path()

    @property
    def runs(self) -> bool:
        return processes.started(self.pid) == self.started


@dataclass
class Sampler:
    """Samples the nodes of a target.

    :param nodes: all of them.
    :param java_home: whose ``jcmd`` attaches.
    :param kept: folder that recordings are kept in.
    """

    nodes: list[Node]
    java_home: Path
    kept: Path
    _number: int = 0
    _under_way: list[tuple[Node, Path, Path]] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes]

    def start(self) -> list[str]:
        """Starts a recording in every node.

        :return: the files that will be kept.
        :raises SamplerError: naming the node that cannot be attached to, or has ended; then none records.
        """
        self._number += 1
        try:
            for place, node in enumerate(self.nodes):  # which share a folder where one user runs them
                if not node.runs:
                    raise SamplerError(f"node {node.name}, process {node.pid}, has ended or was started anew")
                file = node.folder / f"{place}-{self._number:05}.jfr"
                self._tell(node, f"start,{OPTIONS},file={file}")
                self._under_way.append((node, file, self.kept / f"{node.name}-{self._number:05}.jfr"))
        except SamplerError:
            with contextlib.suppress(SamplerError):
                self.stop()
            raise
        return [str(kept) for _, _, kept in self._under_way]

    def stop(self) -> None:
        """Ends the recordings that are under way, and keeps them.

        :raises SamplerError: naming the node whose recording was cut off.
        """
        under_way, self._under_way = self._under_way, []
        problems = []
        for node, file, kept in under_way:
            try:
                if not node.runs:
                    raise SamplerError(f"node {node.name}, process {node.pid}, ended while it was recorded")
                self._tell(node, f"stop,file={file}")
                _keep(file, kept)
            except (SamplerError, OSError) as e:
                problems.append(f"the recording {kept.name} of node {node.name} was cut off: {e}")
        if problems:
            raise SamplerError("; ".join(problems))

    def _tell(self, node: Node, what: str) -> None:
        command = [str(self.java_home / "bin" / "jcmd"), str(node.pid), "JVMTI.agent_load", str(node.library)]
        try:
            done = subprocess.run(
                [*command, f'"{what}"'], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise SamplerError(f"node {node.name} did not answer jcmd within {COMMAND_SECONDS} s") from None
        if "return code: 0" not in done.stdout:
            said = (done.stderr + done.stdout).strip().splitlines()
            why = next((line for line in said if not line.rstrip(":").isdecimal()), "it says nothing")
            raise SamplerError(f"node {node.name}, process {node.pid}, cannot be attached to: {why}")


def _keep(file: Path, place: Path) -> None:
    """Moves a file of the node's user to our own folder; follows no link, and waits for no pipe."""
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as recording:
        if not stat.S_ISREG(os.fstat(recording.fileno()).st_mode):
            raise SamplerError(f"[{file}] is no file")
        with open(place, "wb") as out:
            shutil.copyfileobj(recording, out)
    file.unlink()


def local_nodes(ask: Callable[[str], dict[str, Any]]) -> list[Node]:
    """The nodes of a target, all of which must run on this machine.

    :param ask: the decoded response to a GET request.
    :raises SamplerError: naming the first that does not.
    """
    found = []
    for about in ask(NODES)["nodes"].values():
        name, pid, port = (
            about["name"],
            about["process"]["id"],
            int(about["http"]["publish_address"].rpartition(":")[2]),
        )
        started = processes.started(pid)
        try:
            listens = started is not None and _listens(pid, port)
        except psutil.AccessDenied:
            whose = f"process {pid}, if that is node {name}, is another user's"
            raise SamplerError(f"{whose}; race as that user or as root") from None
        if started is None or not listens:
            raise SamplerError(
                f"node {name} does not run on this machine: process {pid} here does not serve port {port}"
            )
        found.append(Node(name, pid, started))
    return found


def _listens(pid: int, port: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        connections = psutil.Process(pid).connections("inet")
        return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)
    return False


def attached(ask: Callable[[str], dict[str, Any]], launcher: Launcher, kept: Path) -> Sampler:
    """A sampler of a target's nodes, once it has been seen to work.

    :param ask: see :func:`local_nodes`.
    :param launcher: whose folder all nodes may read, and whose Java runtime attaches.
    :param kept: folder for the recordings.
    :raises SamplerError: when a node runs elsewhere or cannot be attached to.
    :raises InstallError: see :func:`..elasticsearch.install.fetch`.
    """
    if platform.system() != "Linux" or platform.machine() not in PLATFORMS:
        raise SamplerError(f"CPU is sampled on Linux on {' and '.join(PLATFORMS)} alone")
    nodes = local_nodes(ask)
    archive = fetch(ASYNC_PROFILER, launcher.downloads)
    root = launcher.root / "sampler"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        for node in nodes:
            uids, gids = (getattr(psutil.Process(node.pid), of)() for of in ("uids", "gids"))
            run_as = {} if uids.effective == os.geteuid() else {"user": uids.effective, "group": gids.effective}
            with folders.own(root, run_as) as own:
                node.library, node.folder = root / LIBRARY, root / f"user-{uids.effective}"
                folders.leaf(own, node.folder, run_as)
            for stale in node.folder.glob("*.jfr"):
                stale.unlink()
        _unpack(archive, root / LIBRARY)
    except (NodeError, OSError, psutil.Error) as e:
        raise SamplerError(f"recordings cannot be written: {e}") from None
    sampler = Sampler(nodes, launcher.java_home, kept)
    sampler.start()
    sampler.stop()
    return sampler


def _unpack(archive: Path, library: Path) -> None:
    with zipfile.ZipFile(archive) as z:
        found = z.read(f"{PLATFORMS[platform.machine()]}/{LIBRARY}")
    if not library.exists() or library.read_bytes() != found:
        part = library.with_suffix(".part")
        part.write_bytes(found)
        part.chmod(0o755)
        part.rename(library)  # a node may have the old one loaded
