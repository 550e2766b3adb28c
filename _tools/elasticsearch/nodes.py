"""Starts and stops embedded Elasticsearch clusters: 1 to N nodes on this machine, listening on loopback only."""

import contextlib
import ctypes
import hashlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

from . import cpu, folders, processes, security
from .folders import NodeError
from .install import DEFAULT_VERSION, JRE_HOME, install

HOST = "127.0.0.1"
START_SECONDS = 180
STOP_SECONDS = 60


COMMON_SETTINGS = {
    "thread_pool.estimated_time_interval": "0ms",
    "cluster.routing.allocation.disk.threshold_enabled": "false",
    "indices.recovery.max_bytes_per_sec": "0",
}
"""What each embedded node is set to: a ``took`` of bulk requests in real ms, no eye on how full the disk is, and copies
of shards made as fast as the node can (by default at 40 MB/s, and races wait for them)."""


@dataclass
class Cluster:
    """A running embedded cluster, as kept in its state file.

    :param name: of the cluster; its nodes are NAME-1, NAME-2, …
    :param http_ports: one per node.
    :param pids: one per node, with the start of each process, so that no other process is taken for it.
    :param client_options_file: client options as Rally reads them, with certificate, user and password; empty without
        security.
    :param product: what the version is one of.
    :param coordinator: whether the last node holds no data and takes all requests.
    :param variables: what it was started with, for whoever finds it running.
    """

    name: str
    version: str
    http_ports: list[int] = field(default_factory=list)
    pids: list[tuple[int, int | None]] = field(default_factory=list)
    client_options_file: str = ""
    product: str = "Elasticsearch"
    coordinator: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        """Where clients send their requests."""
        return [f"{HOST}:{port}" for port in self.http_ports[-1 if self.coordinator else 0 :]]

    @property
    def groups(self) -> list[str]:
        """The names of the groups that hold its data nodes to a share of the CPU, where something does."""
        return [f"{self.name}-{port}" for port in self.http_ports[: len(self.http_ports) - self.coordinator]]

    @property
    def url(self) -> str:
        return f"{'https' if self.client_options_file else 'http'}://{self.hosts[0]}"

    @property
    def client_options(self) -> dict[str, Any]:
        """Rally's client options for this cluster."""
        return json.loads(Path(self.client_options_file).read_text())["default"] if self.client_options_file else {}

    def session(self) -> requests.Session:
        """A session that this cluster lets in."""
        session = requests.Session()
        session.trust_env = False
        if options := self.client_options:
            session.verify = options["ca_certs"]
            session.auth = (options["basic_auth_user"], options["basic_auth_password"])
        return session

    def processes(self) -> list[psutil.Process]:
        """The processes of this cluster that are still running."""
        found = []
        for pid, started in self.pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if started and processes.started(pid) == started:
                    found.append(process)
        return found


class Launcher:
    """Keeps embedded clusters below a folder.

    :param downloads: folder for what is fetched from the Java registry.
    :param work: the folder. Started by root, nodes run as the user ``nobody``; where that user cannot enter ``work``,
        everything stands in a folder below ``/var/tmp`` and ``work/elasticsearch`` is a link to it.
    :raises NodeError: when the folder cannot be used, or that user could put something else in its place.
    """

    def __init__(self, work: Path, downloads: Path):
        self.downloads = downloads
        self.run_as = folders.unprivileged_user()
        try:
            work.mkdir(parents=True, exist_ok=True)
            self.root = self._root(work.absolute())
        except OSError as e:
            raise NodeError(f"[{e.filename}], of WORK, cannot be used: {e.strerror}") from None
        folders.check_out_of_reach(self.root, self.run_as)
        self.java_home = self._java_home()

    def _root(self, work: Path) -> Path:
        link = work / "elasticsearch"
        if self.run_as and not folders.can_read(work, self.run_as):
            outside = Path("/var/tmp") / f"cluster-metrics-{hashlib.sha256(str(work).encode()).hexdigest()[:8]}"
            with folders.own(outside, self.run_as):
                pass
            if not link.is_symlink():
                if link.exists():
                    raise NodeError(f"[{link}] is where the user nobody cannot enter; move it away, or open the folder")
                link.symlink_to(outside)
        link.mkdir(exist_ok=True)
        return link.resolve()

    def _java_home(self) -> Path:
        if not self.run_as or folders.can_read(JRE_HOME / "lib" / "server", self.run_as):
            return JRE_HOME
        copy = self.root / f"jre-{hashlib.sha256(str(JRE_HOME).encode()).hexdigest()[:8]}"
        if not copy.exists():
            shutil.copytree(JRE_HOME, part := copy.with_suffix(f".{os.getpid()}"), symlinks=True)
            folders.open_to_all(part)
            part.rename(copy)
        return copy

    def state_file(self, name: str) -> Path:
        return self.root / f"{name}.state.json"

    def _kept(self, name: str) -> Cluster | None:
        """The cluster that was last started by that name and not stopped."""
        try:
            return Cluster(**json.loads(self.state_file(name).read_text()))
        except (OSError, ValueError):
            return None

    def running(self, name: str) -> Cluster | None:
        """The cluster of that name if all its nodes run."""
        cluster = self._kept(name)
        return cluster if cluster and len(cluster.processes()) == len(cluster.http_ports) else None

    def start(
        self,
        name: str,
        version: str = DEFAULT_VERSION,
        nodes: int = 1,
        heap: str = "1g",
        port: int = 9200,
        port_is_fixed: bool = False,
        data: Path | None = None,
        outlive: bool = False,
        settings: dict[str, Any] | None = None,
        secured: bool = False,
        cores: float = 0,
        coordinator: bool = False,
        variables: dict[str, str] | None = None,
    ) -> Cluster:
        """Starts a cluster and waits until its health is known to all its nodes.

        :param nodes: how many (default 1).
        :param heap: heap of each node, as Java's ``-Xmx`` takes it (default 1g).
        :param port: HTTP port of the first node (default 9200); further ones follow. A port that is taken is replaced
            by a free one unless ``port_is_fixed``.
        :param data: folder for the nodes' data; default is within the launcher's own folder.
        :param outlive: whether the nodes keep running after this process; otherwise they end with it, however it ends.
        :param settings: further lines for ``elasticsearch.yml``.
        :param secured: whether its HTTP port takes TLS and a password, as in the cluster's ``client_options_file``.
        :param cores: CPU share of each node once it is ready, in cores; 0 leaves all free (default). Where the host has
            no cgroup to hold it, the nodes run free; the node attributes ``cpu_cores`` and ``cpu_held_by`` tell.
        :param coordinator: whether there is one more node, which holds no data and takes all requests; it runs free.
        :param variables: kept with the cluster (default none).
        :raises NodeError: when a port is taken, a node dies at start (with the end of its log) or is not ready in time.
        :raises InstallError: see :mod:`.install`.
        """
        self.stop(name)
        data_nodes, nodes = nodes, nodes + coordinator
        names = [f"{name}-{i + 1}" for i in range(nodes)]
        http_ports = [free_port(port + i, port_is_fixed) for i in range(nodes)]
        transport_ports = [free_port(port + 100) for port in http_ports]
        home = install(version, self.root, self.downloads)
        if self.run_as and not folders.can_read(home / "lib", self.run_as):
            folders.open_to_all(home)
        secure = security.create(self.root, name, HOST) if secured else None
        cluster = Cluster(name, version, http_ports, coordinator=coordinator, variables=variables or {})
        if secure:
            cluster.client_options_file = str(self.root / f"{name}.client-options.json")
            security.write_private(Path(cluster.client_options_file), secure.client_options())
        common: dict[str, Any] = COMMON_SETTINGS | {"cluster.name": name, "network.host": HOST}
        common |= secure.settings() if secure else {"xpack.security.enabled": "false"}
        if nodes == 1:
            common["discovery.type"] = "single-node"
        else:
            common["discovery.seed_hosts"] = [f"{HOST}:{p}" for p in transport_ports]
            common["cluster.initial_master_nodes"] = names[:data_nodes]
        spawned = []
        try:
            for i in range(nodes):
                own: dict[str, Any] = {"node.name": names[i], "http.port": http_ports[i]}
                own["transport.port"] = transport_ports[i]
                if i == data_nodes:
                    own["node.roles"] = []
                elif cores:
                    own["node.processors"] = math.ceil(cores)
                    own["node.attr.cpu_cores"] = cores
                    own["node.attr.cpu_held_by"] = cpu.make_group(cluster.groups[i], cores) or "nothing"
                node = self.root / names[i]
                try:
                    self.prepare_node(home, node, common | own | (settings or {}), data, secure)
                    spawned.append(self._spawn(home, node, heap, outlive))
                except OSError as e:
                    raise NodeError(f"[{e.filename}], of node {node.name}, cannot be used: {e.strerror}") from None
                self.keep(cluster, spawned[-1])
            self._wait_until_ready(cluster, spawned)
            if cores:
                for group, process in zip(cluster.groups, spawned):
                    cpu.hold(group, [p.pid for p in _family(psutil.Process(process.pid))])
        except BaseException:
            self.stop(name)
            raise
        return cluster

    def prepare_node(
        self,
        home: Path,
        node: Path,
        settings: dict[str, Any],
        data: Path | None = None,
        secure: security.Security | None = None,
    ) -> None:
        """Makes all that a node needs in its folder, which stays ours; data stay, all else is made anew.

        :param home: of the Elasticsearch.
        :param settings: lines for ``elasticsearch.yml``.
        :param data: folder of the data of several nodes; default is within the node's.
        :raises NodeError: when what is there is a link, no folder, or somebody else's.
        """
        config, data = node / "config", (data or node) / (node.name if data else "data")
        with folders.own(node, self.run_as, given=True) as own:
            for stale in ("config", "logs", "tmp", "stdout.log"):
                folders.remove(node / stale)
            for leaf in ("logs", "tmp"):
                folders.leaf(own, node / leaf, self.run_as)
        with folders.own(data.parent, self.run_as) as own:
            folders.leaf(own, data, self.run_as)
        shutil.copytree(home / "config", config)
        config.chmod(0o700)
        options = config / "jvm.options"
        text = options.read_text().replace("=logs/", f"={node}/logs/").replace("=data", f"={node}/logs")
        options.write_text(text)
        # a text with commas would be several folders, a list is deprecated
        settings = settings | {"path.data": [data] if "," in str(data) else data, "path.logs": node / "logs"}
        # JSON is YAML, whatever characters a path has
        lines = (f"{key}: {json.dumps(value, default=str)}\n" for key, value in settings.items())
        security.write_private(config / "elasticsearch.yml", "".join(lines).encode())
        if secure:
            secure.write(config)
        folders.give(config, self.run_as)

    def _spawn(self, home: Path, node: Path, heap: str, outlive: bool) -> subprocess.Popen:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(node),
            "LC_ALL": "C.UTF-8",  # of the names of files
            "ES_JAVA_HOME": str(self.java_home),
            "ES_PATH_CONF": str(node / "config"),
            "ES_TMPDIR": str(node / "tmp"),
            "ES_JAVA_OPTS": f"-Xms{heap} -Xmx{heap}",
        }
        with open(node / "stdout.log", "xb") as log:
            return subprocess.Popen(
                [home / "bin" / "elasticsearch"],
                env=env,
                cwd=node,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=None if outlive else end_with_parent,
                **self.run_as,
            )

    def _wait_until_ready(self, cluster: Cluster, spawned: list[subprocess.Popen]) -> None:
        deadline = time.monotonic() + START_SECONDS
        session = cluster.session()
        health = f"{cluster.url}/_cluster/health?wait_for_nodes={len(spawned)}&wait_for_status=yellow&timeout=5s"
        while time.monotonic() < deadline:
            for i, process in enumerate(spawned):
                if process.poll() is not None:
                    end = self._end_of_log(f"{cluster.name}-{i + 1}")
                    raise NodeError(f"node {cluster.name}-{i + 1} ended at start, the end of its log:\n{end}")
            try:
                response = session.get(health, timeout=10)
                if response.ok and not response.json()["timed_out"] and self._is_own(cluster, session):
                    return
            except requests.RequestException:
                pass
            time.sleep(0.3)
        raise NodeError(
            f"cluster {cluster.name} was not ready after {START_SECONDS} s, the end of its log:\n"
            f"{self._end_of_log(f'{cluster.name}-1')}"
        )

    def _is_own(self, cluster: Cluster, session: requests.Session) -> bool:
        """Whether a node of this cluster answers, and not another that took its port meanwhile."""
        path = "/_nodes/_local/settings?filter_path=nodes.*.settings.path.logs"
        nodes = session.get(cluster.url + path, timeout=10).json()["nodes"].values()
        return all(Path(node["settings"]["path"]["logs"]).is_relative_to(self.root) for node in nodes)

    def _end_of_log(self, node: str, lines: int = 15) -> str:
        text = (self.root / node / "stdout.log").read_text(errors="replace")
        told = [line for line in text.splitlines() if not line.startswith("\tat ")]  # less the stack traces
        return "\n".join(told[-lines:])

    def keep(self, cluster: Cluster, process: subprocess.Popen) -> None:
        """Notes that a process belongs to a cluster, so that :meth:`stop` ends it."""
        cluster.pids.append((process.pid, processes.started(process.pid)))
        self.state_file(cluster.name).write_text(json.dumps(asdict(cluster)))

    def stop(self, name: str) -> bool:
        """Stops the cluster of that name, its own processes only; says whether there was something to stop."""
        if not (cluster := self._kept(name)):
            return False
        launchers = cluster.processes()
        processes.end([p for launcher in launchers for p in _family(launcher)], STOP_SECONDS, launchers)
        for group in cluster.groups:
            cpu.remove_group(group)
        if cluster.client_options_file:
            Path(cluster.client_options_file).unlink(missing_ok=True)
        self.state_file(name).unlink(missing_ok=True)
        return bool(launchers)


def _family(process: psutil.Process) -> list[psutil.Process]:
    """A process and all that it started; none once it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def free_port(wanted: int, fixed: bool = False) -> int:
    """The wanted port if there is one and it is free, otherwise another one.

    :raises NodeError: when the port is ``fixed`` and taken.
    """
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, wanted))
        except (OSError, OverflowError):
            if fixed:
                raise NodeError(f"port {wanted} is in use") from None
            s.bind((HOST, 0))
        return s.getsockname()[1]


def end_with_parent() -> None:
    """Has the kernel end this child when its parent is gone, even by SIGKILL (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
