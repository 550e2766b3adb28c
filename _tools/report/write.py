"""Writes the report of a race into a folder of its own and prints it."""

import csv
from datetime import datetime, timezone
from pathlib import Path

from . import decomp
from .race import Race, connect, load

COLUMNS = (
    "source",
    "pass",
    "round",
    "started",
    "variant",
    "transport",
    "epoch",
    "searches",
    "took_ms",
    "wall_ms",
    "parallelism",
    "request_bytes",
    "response_bytes",
    "docs_matched",
    "segments",
    "max_percentile_error",
    "target_cpu_ms",
)
"""Columns of ``es_profile_decomp.csv``, one row per sample: where it comes from (``cell`` with its pass, ``plan`` with
its round), when it started (UTC), and its metadata."""


def write_report(ini: Path, race_id: str, folder: Path) -> None:
    """Reads a race from the metrics store that ``ini`` names, writes its report below ``folder`` and prints it.

    :raises ReportError: see :func:`.race.load`.
    """
    race = load(connect(ini), race_id)
    out = folder / race.id
    out.mkdir(parents=True, exist_ok=True)
    text = f"{_heading(race)}\n{decomp.report(race)}"
    (out / "report.md").write_text(text)
    _write_samples(race, out / "es_profile_decomp.csv")
    print(f"\n{text}\nwritten to {out}", flush=True)


def _heading(race: Race) -> str:
    lines = [f"# Race {race.id}", ""]
    started = race.document.get("race-timestamp", "")
    challenge = race.document.get("challenge")
    lines.append(f"- challenge {challenge}, started {started}, Rally {race.document.get('rally-version')}")
    for node in race.target:
        jvm = f"{node['jvm']}, {node['cores']} cores, heap {node['heap_mb']} MB"
        lines.append(f"- target node {node['node']}: Elasticsearch {node['version']}, {jvm}")
    if race.index:
        size = race.index["store_bytes"] / 1e6
        lines.append(f"- index: {race.index['docs']:,} documents, {race.index['segments']} segments, {size:,.0f} MB")
    if race.parameters:
        lines.append("- parameters: " + ", ".join(f"{k}={v}" for k, v in race.parameters.items()))
    if tags := race.document.get("user-tags"):
        lines.append("- tags: " + ", ".join(f"{k}={v}" for k, v in sorted(tags.items())))
    if race.failed:
        lines.append(
            "- **failed samples, left out below: " + ", ".join(f"{k} {v}" for k, v in race.failed.items()) + "**"
        )
    return "\n".join(lines) + "\n"


def _write_samples(race: Race, path: Path) -> None:
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS, extrasaction="ignore")
        out.writeheader()
        for sample in race.samples:
            started = datetime.fromtimestamp(sample.at / 1000, timezone.utc).isoformat(timespec="milliseconds")
            out.writerow(sample.meta | {"source": sample.source, "started": started})
