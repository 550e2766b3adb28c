"""Writes the report of a race into a folder of its own and prints it."""

import csv
from pathlib import Path

from . import decomp
from .race import Race, ReportError, connect, load
from .section import Section, Sheet

EXPLAINED_BY = {"query-decomp": decomp}


def write_report(ini: Path, race_id: str, folder: Path) -> None:
    """Reads a race from the metrics store that ``ini`` names, writes its report below ``folder`` and prints it.

    :raises ReportError: see :func:`.race.load`; also for a challenge without a report.
    """
    race = load(connect(ini), race_id)
    if race.challenge not in EXPLAINED_BY:
        raise ReportError(f"race [{race.id}] ran challenge [{race.challenge}], which is none of this track's")
    explained = EXPLAINED_BY[race.challenge]
    out = folder / race.id
    out.mkdir(parents=True, exist_ok=True)
    text = markdown(race, explained.sections(race))
    (out / "report.md").write_text(text)
    for sheet in explained.sheets(race):
        write_sheet(sheet, out)
    print(f"\n{text}\nwritten to {out}", flush=True)


def markdown(race: Race, sections: list[Section]) -> str:
    """The report as one Markdown page."""
    facts = "\n".join(f"- {line}" for line in facts_of(race))
    return "\n".join([f"# Race {race.id}\n\n{facts}\n", *(f"## {s.title}\n\n{s.text}" for s in sections)])


def facts_of(race: Race) -> list[str]:
    """What was raced: challenge, versions, target, index, parameters, tags, failures; a line of Markdown each."""
    document = race.document
    lines = [
        f"challenge {race.challenge}, started {document.get('race-timestamp')}, Rally {document.get('rally-version')}"
    ]
    for node in race.target:
        jvm = f"{node['jvm']}, {node['cores']} cores, heap {node['heap_mb']} MB"
        lines.append(f"target node {node['node']}: Elasticsearch {node['version']}, {jvm}")
    if race.index:
        size = race.index["store_bytes"] / 1e6
        lines.append(f"index: {race.index['docs']:,} documents, {race.index['segments']} segments, {size:,.0f} MB")
    if race.parameters:
        lines.append("parameters: " + ", ".join(f"{k}={v}" for k, v in race.parameters.items()))
    if tags := document.get("user-tags"):
        lines.append("tags: " + ", ".join(f"{k}={v}" for k, v in sorted(tags.items())))
    if race.failed:
        lines.append(
            "**failed samples, left out below: " + ", ".join(f"{k} {v}" for k, v in race.failed.items()) + "**"
        )
    return lines


def write_sheet(sheet: Sheet, folder: Path) -> None:
    with open(folder / sheet.name, "w", newline="") as f:
        out = csv.DictWriter(f, sheet.columns, extrasaction="ignore")
        out.writeheader()
        out.writerows(sheet.rows)
