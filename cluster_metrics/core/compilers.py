"""The CPU time in which the JVMs of nodes compile, for nodes that run beside the load driver: a cold node compiles."""

import os
from pathlib import Path
from typing import Any

import psutil

from ..wire.requests import request

NAMES = ("C1 Compiler", "C2 Compiler")
"""With which the names of HotSpot's compiler threads begin."""
STARTS_S = 60.0
"""Within which of its process a JVM begins, in seconds, on a small share of the CPU as well: else it is another
machine's id."""
APART_S = 5.0
"""By which the clocks of both may differ, in seconds."""
PROC = Path("/proc")
ASKED = "/_nodes/jvm?filter_path=nodes.*.name,nodes.*.jvm.pid,nodes.*.jvm.start_time_in_millis"


class Compilers:
    """Reads the compiler threads of the nodes of this machine; ``_nodes/stats`` does not tell of them."""

    def __init__(self) -> None:
        self._pids: dict[str, int] | None = None
        self._spent: dict[tuple[int, int], float] = {}
        self._others: set[tuple[int, int]] = set()

    async def spent_ms(self, es: Any) -> dict[str, float]:
        """Of each node that runs here, in ms since its start, of the threads that were there at some reading; none
        where threads cannot be read, as on a system without ``/proc``.

        :param es: Rally's client of the target; asked for the nodes' processes once, and again when one has gone.
        """
        if not PROC.is_dir():
            return {}
        if self._pids is None or not all((PROC / str(pid)).exists() for pid in self._pids.values()):
            told = await request(es, "GET", ASKED)
            jvms = {node["name"]: node["jvm"] for node in told.get("nodes", {}).values() if "jvm" in node}
            self._pids = {name: jvm["pid"] for name, jvm in jvms.items() if _is_here(jvm)}
        found = {name: self._of(pid) for name, pid in self._pids.items()}
        return {name: ms for name, ms in found.items() if ms is not None}

    def _of(self, pid: int) -> float | None:
        try:
            threads = [(pid, int(name)) for name in os.listdir(PROC / str(pid) / "task")]
        except OSError:
            return None
        for thread in threads:
            if thread not in self._others:
                self._read(thread)
        return sum(ms for (of, _), ms in self._spent.items() if of == pid)

    def _read(self, thread: tuple[int, int]) -> None:
        pid, number = thread
        try:
            stat = (PROC / str(pid) / "task" / str(number) / "stat").read_text()
        except OSError:
            return  # it has ended
        name, _, fields = stat.partition("(")[2].rpartition(")")
        if not name.startswith(NAMES):
            self._others.add(thread)
            return
        user, system = fields.split()[11:13]
        self._spent[thread] = 1000 * (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _is_here(jvm: dict[str, Any]) -> bool:
    """Whether a node's JVM is a process of this machine."""
    try:
        began = psutil.Process(jvm["pid"]).create_time()
    except psutil.Error:
        return False
    return -APART_S < jvm["start_time_in_millis"] / 1000 - began < STARTS_S
