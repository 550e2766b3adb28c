"""What a race runs on and of: the machine of the load driver, the flags of the target's JVMs, the track's revision."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
from esrally.utils import sysstats

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
PRODUCT = Path("/sys/class/dmi/id/product_name")
CPU_INFO = Path("/proc/cpuinfo")
CONTAINER = Path("/.dockerenv"), Path("/run/.containerenv")
TRACK = Path(__file__).resolve().parents[2]
RACED = ("cluster_metrics", "challenges", "operations", "corpora", ":(glob)*.py", ":(glob)*.json")
"""What Rally loads of the track; of files by their ending those at the top."""
FILES = ("/", "Path", "File", "-Xlog")
"""In flags that name files, which differ from node to node and say nothing of speed."""


def machine() -> dict[str, Any]:
    """CPU model, cores, MB of memory, disk, kernel and virtualisation of this machine, the governor of its first core
    where there is one, and its load (of a minute) now."""
    found = {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "memory_mb": psutil.virtual_memory().total >> 20,
        "disk": _disk(Path(__file__).resolve()),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtualisation": _virtualisation(),
        "load": os.getloadavg()[0],
    }
    return found | ({"governor": governor} if (governor := _read(GOVERNOR)) else {})


def revision(folder: Path = TRACK) -> str:
    """The commit of the track, with a plus where what Rally loads of it was changed since; empty where it is no clone
    of git, or git may not look at it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (
            "+" if git("--no-optional-locks", "status", "--porcelain", "--", *RACED) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return ""


def jvm_flags(arguments: Iterable[str]) -> str:
    """Those of a JVM's arguments that may matter for its speed."""
    return " ".join(a for a in arguments if a.startswith("-X") and not any(part in a for part in FILES))


def cpu_ms(pids: Iterable[int]) -> float:
    """CPU time that processes of this machine have used since they started, in ms, by the clocks that Linux keeps of
    them: to the nanosecond, where ``/proc`` counts in hundredths of a second.

    :raises OSError: when there is no such process, or no such clock.
    """
    # the clock of a process as clock_getcpuclockid(3) makes it; time.clock_gettime takes its number
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids) / 1e6


def _cpu() -> str:
    """The model as Linux names it, or else by its numbers; elsewhere as Rally finds it, which takes a second."""
    found = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in _read(CPU_INFO).splitlines() if ":" in line)
    if (model := found.get("model name", "unknown")) != "unknown":
        return model
    numbers = [f"{k} {found[k]}" for k in ("vendor_id", "cpu family", "model") if found.get(k)]
    return ", ".join(numbers) or sysstats.cpu_model()


def _disk(path: Path) -> str:
    """File system, device and size of the disk that holds a path."""
    mounts = [p for p in psutil.disk_partitions(all=True) if path.is_relative_to(p.mountpoint)]
    of = max(mounts, key=lambda p: len(p.mountpoint), default=None)
    size = f"{psutil.disk_usage(str(path)).total / 1e9:,.0f} GB"
    return f"{of.fstype} on {of.device}, {size}" if of else size


def _virtualisation() -> str:
    """What is known of a hypervisor and a container around this process."""
    found = []
    if any(line.startswith("flags") and " hypervisor" in line for line in _read(CPU_INFO).splitlines()):
        found.append(" ".join(["virtual machine", *([f"({product})"] if (product := _read(PRODUCT)) else [])]))
    if any(path.exists() for path in CONTAINER):
        found.append("container")
    return ", ".join(found) or "none seen"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
