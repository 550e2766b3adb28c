"""Which process is which, whether it still runs, and how it is ended."""

import contextlib
import os
import re
import sys
import time
from pathlib import Path

import psutil

KILL_SECONDS = 10
_MARK = re.compile(r"([0-9]{1,10})-([0-9]{1,20})-([0-9]{1,20})")


def started(pid: int) -> int | None:
    """When a process started, which tells it from another that got its id later.

    :return: on Linux in clock ticks since boot, which no step of the clock moves, elsewhere in seconds since 1970; None
        when there is no such process, or none but its zombie.
    """
    with contextlib.suppress(OSError, psutil.Error):
        if sys.platform == "linux":
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return None if fields[0] in (b"Z", b"X") else int(fields[19])
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time())
    return None


def _namespace() -> int:
    """The namespace in which ids of processes mean what they mean here; 0 where there are none."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0


def mark() -> str:
    """This process, for the environment of all that it starts: id, start and namespace."""
    return f"{os.getpid()}-{started(os.getpid())}-{_namespace()}"


def has_ended(marked: str) -> bool:
    """Whether the process of a mark has surely ended: not where it is of another namespace, or no mark of ours."""
    parts = _MARK.fullmatch(marked)
    if not parts or int(parts[3]) != _namespace():
        return False
    return started(int(parts[1])) != int(parts[2])


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run. A zombie does not, whether or not its parent ever asks for it."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end(processes: list[psutil.Process], seconds: float, first: list[psutil.Process] | None = None) -> None:
    """Asks processes to end, and kills those that still run after that many seconds.

    :param first: whom to ask, if these end the others; default is all.
    """
    for process in processes if first is None else first:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in (alive := _wait(processes, seconds)):
        with contextlib.suppress(psutil.Error):
            process.kill()
    _wait(alive, KILL_SECONDS)


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while (alive := running(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive
