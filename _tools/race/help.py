"""What ``make`` prints: targets, variables with their defaults, and the challenges."""

import json
import shutil
import textwrap
from pathlib import Path

if __package__:
    from .variables import TARGETS, VARIABLES
else:  # before set-up make runs this file by itself
    from variables import TARGETS, VARIABLES  # type: ignore[import-not-found, no-redef]

ROOT = Path(__file__).resolve().parents[2]


def entry(name: str, text: str, width: int) -> str:
    """A name with its text beside it, which goes on below itself."""
    lines = textwrap.wrap(text.replace("`", ""), max(40, shutil.get_terminal_size((100, 24)).columns - width - 3))
    return "\n".join(f"  {name if not i else '':{width}} {line}" for i, line in enumerate(lines))


def challenges() -> dict[str, str]:
    """The challenges with their question, minutes and disk; before set-up with their descriptions alone."""
    try:
        from cluster_metrics.core.challenge import challenges as records

        from .rally import disk_bytes, resolved

        return {
            name: f"{record.question} ({record.minutes} min, {disk_bytes(record, resolved('')) / 1e9:.1f} GB)"
            for name, record in sorted(records().items())
        }
    except ImportError:
        files = sorted((ROOT / "challenges").glob("*.json"))
        found = (line for file in files for line in file.read_text().splitlines() if '"description"' in line)
        return {f.stem: json.loads(line.split(":", 1)[1].strip().rstrip(",")) for f, line in zip(files, found)}


def text() -> str:
    """All of it."""
    named = {
        "make TARGET [VARIABLE=value ...]": TARGETS,
        "Variables": {v.name: v.text + (f" (default {v.default})" if v.default else "") for v in VARIABLES.values()},
        "Challenges, with minutes and disk of a race at full size on 2 cores": challenges(),
    }
    parts = []
    for title, entries in named.items():
        width = max(map(len, entries))
        parts.append("\n".join([f"{title}\n", *(entry(name, about, width) for name, about in entries.items())]))
    parts.append(
        "A variable may also come from the environment, where a misspelt one is not seen. Values are taken as they\n"
        "are, without make's own $(...). Parameters of the track: docs/parameters.md."
    )
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(text())
