"""Holds the processes of a node to a share of the CPU, by a cgroup of their own."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

PERIOD_US = 100_000
FOLDER = "cluster-metrics-{name}"
COMPILERS = "C1 CompilerThre", "C2 CompilerThre"
"""Threads of a JVM that compile, by what Linux keeps of their names."""
FIRST = -20
"""The nice value that goes before all others."""


def _controller() -> tuple[Path, bool] | None:
    """Where groups of the CPU controller are made, and whether it is that of cgroup v2; none when there is none."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(folder), False
        if kind == "cgroup2":
            with contextlib.suppress(OSError):
                if "cpu" in (Path(folder) / "cgroup.controllers").read_text().split():
                    return Path(folder), True
    return None


def make_group(name: str, cores: float) -> str:
    """Makes a group whose processes get ``cores`` seconds of CPU time per second, all together, or changes that of the
    one that there is.

    :param cores: 0 leaves them free.
    :return: what the group is, ``cgroup v1`` or ``cgroup v2``; empty when the host allows neither.
    """
    if not (found := _controller()):
        return ""
    root, second = found
    group = root / FOLDER.format(name=name)
    quota = round(cores * PERIOD_US) or ("max" if second else -1)
    try:
        if second:
            (root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir(exist_ok=True)
        if second:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError:
        return ""
    return "cgroup v2" if second else "cgroup v1"


def hold(name: str, pids: Iterable[int]) -> None:
    """Puts processes, and all that they start from now on, into the group of that name; a JVM's compilers go first
    within it.

    Beside requests that use up a share of 0.4 cores, C2 waited for the CPU three to four times as long as it had it,
    and nodes were cold for minutes more; on a server compilers have idle cores.
    """
    group = (_controller() or (Path(), False))[0] / FOLDER.format(name=name)
    if group.is_dir():
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
            _compile_first(pid)


def _compile_first(pid: int) -> None:
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # it ended, or the host does not let us
            if (thread / "comm").read_text().strip() in COMPILERS:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), FIRST)


def remove_group(name: str) -> None:
    """Removes the group of that name once its processes have ended; does nothing when there is none."""
    if found := _controller():
        with contextlib.suppress(OSError):
            (found[0] / FOLDER.format(name=name)).rmdir()
