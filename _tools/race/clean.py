"""What stands behind ``make clean``. It needs nothing but Python, as it removes the virtual environment, too."""

import contextlib
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = ("downloads", "elasticsearch", "look", "matrix", "micro", "noise.json", "profiles", "rally", "reports")
"""What make writes to WORK. Where that is no folder of this clone, whatever else lies in it is somebody's."""
CACHES = ("_venv", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")


def results(work: Path) -> list[str]:
    """What nobody could make again, in words."""
    found = []
    if reports := list((work / "reports").glob("*/report.json")):
        found.append(f"{len(reports)} report{'' if len(reports) == 1 else 's'}")
    if (work / "elasticsearch" / "metrics-store-1" / "data").exists():
        found.append("a metrics store with the samples of all races")
    if (work / "noise.json").exists():
        found.append("measured noise floors")
    return found


def confirmed() -> bool:
    """Whether the person at the terminal says yes."""
    try:
        return input("Remove them, too? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def main() -> int:
    work = Path(os.environ.get("WORK") or ROOT / "_work").absolute()
    own = [work] if work == ROOT / "_work" else [work / name for name in OWN]
    paths = [*own, *(ROOT / name for name in CACHES), *(p for p in (ROOT / "corpora").iterdir() if p.is_dir())]
    outside = work / "elasticsearch"  # a link, where the user nobody cannot enter the clone
    paths = [path for path in ([outside.resolve()] if outside.is_symlink() else []) + paths if path.exists()]
    for path in paths:
        print(f"to be removed: {path}")
    if (lost := results(work)) and os.environ.get("YES") != "1":
        print(f"[{work}] holds {', '.join(lost)}.")
        if not sys.stdin.isatty() or not confirmed():
            print("[ERROR] nothing was removed; 'make clean YES=1' does not ask", file=sys.stderr)
            return 1
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    with contextlib.suppress(OSError):  # something else is in it
        work.rmdir()
    for cache in ROOT.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
