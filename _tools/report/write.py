"""Writes the report of a race into a folder of its own and prints it."""

import csv
import json
import re
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from . import (
    append,
    capacity,
    compare,
    decomp,
    esql,
    formats,
    frontier,
    ingest,
    ingest_decomp,
    limits,
    noise,
    page,
    profile,
    schedule,
    sketch,
)
from .race import Race, ReportError, connect, load, load_all
from .section import Section, Sheet
from .text import count, setting

EXPLAINED_BY = {
    "query-decomp": decomp,
    "query-profile": profile,
    "query-frontier": frontier,
    "ingest-decomp": ingest_decomp,
    "sketch-floor": sketch,
    "esql-stored-fields": esql,
    "ingest": ingest,
    "append-no-conflicts-index-only": append,
    "ingest-formats": formats,
    "capacity-indexing": capacity,
    "capacity-query": capacity,
    "capacity-mixed": capacity,
}
"""The report module of each challenge. It offers ``sections(race)`` and ``sheets(race)`` for the report, and ``PLAN``,
a :class:`.cells.Plan`, which says what of its samples ``make compare`` and ``make aa`` hold against each other.
It may offer ``compared(comparison)``, sections that a comparison of its races begins with."""
PUBLIC = (
    "race-id",
    "race-timestamp",
    "environment",
    "rally-version",
    "rally-revision",
    "pipeline",
    "track",
    "track-revision",
    "challenge",
    "car",
    "cluster",
    "user-tags",
    "results",
)
"""What ``report.json`` keeps of a race's document. Parameters of plugins and cars may hold credentials: not these."""


def write_report(ini: Path, race_id: str, folder: Path) -> None:
    """Reads a race from the metrics store that ``ini`` names, writes its report below ``folder`` and prints it.

    :raises ReportError: see :func:`.race.load`; also for a challenge without a report.
    """
    race = load(connect(ini), race_id)
    explained = explained_by(race)
    out = folder / race.id
    out.mkdir(parents=True, exist_ok=True)
    sections = [*explained.sections(race), *schedule.sections(race), limits.section(race)]
    text = markdown(race, sections)
    (out / "report.md").write_text(text)
    (out / "report.html").write_text(page.html(f"Race {race.id}", facts_of(race), sections, source_of(race)))
    (out / "report.json").write_text(json.dumps(record_of(race), indent=1) + "\n")
    for sheet in explained.sheets(race):
        write_sheet(sheet, out)
    print(f"\n{text}\nwritten to {out}", flush=True)


def write_comparison(ini: Path, names: list[str], folder: Path, noise_file: Path, challenge: str = "") -> None:
    """Compares races, writes the comparison below ``folder`` and prints it.

    :param names: two or more, as :func:`.race.load_all` takes them; the first is what the others are held against.
    :param noise_file: where :func:`write_noise` keeps the noise floors.
    :param challenge: of the races that tags stand for; empty for any.
    :raises ReportError: see :func:`.race.load_all` and :func:`.compare.comparison`.
    """
    named = _load_all(ini, names, challenge)
    first = next(iter(named.values()))[0]
    floor = noise.fitting(noise.read(noise_file), first)
    explained = explained_by(first)
    found = compare.comparison(named, floor, explained.PLAN)
    title = "Comparison of " + ", ".join(side.title for side in found.sides)
    own = explained.compared(found) if hasattr(explained, "compared") else []
    sections = [*own, *compare.sections(found)]
    text = page_of(title, sections)
    out = folder / re.sub(r"[^\w.-]", "_", "-".join(["compare", *(side.name for side in found.sides)]))
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(text)
    (out / "report.html").write_text(page.html(title, [], sections, title))
    (out / "report.json").write_text(json.dumps(compare.record(found), indent=1) + "\n")
    for sheet in compare.sheets(found):
        write_sheet(sheet, out)
    print(f"\n{text}\nwritten to {out}", flush=True)


def write_noise(ini: Path, names: list[str], noise_file: Path, challenge: str = "") -> None:
    """Measures the noise between races of one configuration, keeps it in ``noise_file`` and prints it.

    :param names: of the races, as :func:`.race.load_all` takes them.
    :param challenge: of the races that tags stand for; empty for any.
    :raises ReportError: see :func:`.race.load_all` and :func:`.noise.measure`.
    """
    races = [race for of in _load_all(ini, names, challenge).values() for race in of]
    plan = explained_by(races[0]).PLAN
    floor = noise.measure(races, plan)
    noise.keep(floor, noise_file)
    print(
        f"\n{page_of('Noise of ' + floor.challenge, noise.sections(races, floor, plan))}\nwritten to {noise_file}",
        flush=True,
    )


def explained_by(race: Race) -> ModuleType:
    """The report module of a race's challenge.

    :raises ReportError: when there is none.
    """
    if race.challenge not in EXPLAINED_BY:
        raise ReportError(f"race [{race.id}] ran challenge [{race.challenge}], which is none of this track's")
    return EXPLAINED_BY[race.challenge]


def _load_all(ini: Path, names: list[str], challenge: str) -> dict[str, list[Race]]:
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ReportError(f"race [{double}] is named twice")
    store = connect(ini)
    return {name: load_all(store, name, challenge) for name in names}


def page_of(title: str, sections: list[Section], top: str = "") -> str:
    """Sections as one Markdown page.

    :param top: Markdown that stands between the title and the first section.
    """
    return "\n".join([f"# {title}\n\n{top}", *(f"## {s.title}\n\n{s.text}" for s in sections)])


def markdown(race: Race, sections: list[Section]) -> str:
    """The report as one Markdown page."""
    facts = "\n".join(f"- {line}" for line in facts_of(race))
    return page_of(f"Race {race.id}", sections, f"{facts}\n")


def facts_of(race: Race) -> list[str]:
    """What was raced: challenge, versions, target, index, parameters, tags, failures; a line of Markdown each."""
    document = race.document
    lines = [
        f"challenge {race.challenge}, started {document.get('race-timestamp')}, Rally {document.get('rally-version')}"
    ]
    for node in race.target:
        jvm = f"{node['jvm']}, {count(race.cores(node), 'core')}, heap {node['heap_mb']} MB"
        lines.append(f"target node {node['node']}: Elasticsearch {node['version']}, {jvm}")
    if race.index:
        size = race.index["store_bytes"] / 1e6
        lines.append(f"index: {race.index['docs']:,} documents, {race.index['segments']} segment(s), {size:,.0f} MB")
    if race.parameters:
        lines.append("parameters: " + ", ".join(f"{k}={setting(v)}" for k, v in race.parameters.items()))
    if tags := document.get("user-tags"):
        lines.append("tags: " + ", ".join(f"{k}={v}" for k, v in sorted(tags.items())))
    if race.failed:
        lines.append(
            "**failed samples, left out below: " + ", ".join(f"{k} {v}" for k, v in race.failed.items()) + "**"
        )
    return lines


def source_of(race: Race) -> str:
    """What a figure was measured on, in one line; the parameters stand at the head of the report."""
    nodes = [f"Elasticsearch {n['version']}, {n['jvm']}, {count(race.cores(n), 'core')}" for n in race.target]
    several = f"{len(nodes)} nodes: " if len(nodes) > 1 else ""
    target = [several + " and ".join(dict.fromkeys(nodes))] if nodes else []
    return "; ".join([f"Race {race.id}", *target, "parameters as at the head of the report"])


def record_of(race: Race) -> dict[str, Any]:
    """The race as it goes into ``report.json``: document, parameters, target, index, failures and all samples."""
    return asdict(race) | {"document": {k: race.document[k] for k in PUBLIC if k in race.document}}


def write_sheet(sheet: Sheet, folder: Path) -> None:
    with open(folder / sheet.name, "w", newline="") as f:
        out = csv.DictWriter(f, sheet.columns, extrasaction="ignore")
        out.writeheader()
        out.writerows(sheet.rows)
