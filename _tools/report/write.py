"""Writes the report of a race into a folder of its own and prints it."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import compare, limits, noise, page, schedule
from .explained import report_of
from .race import Race, ReportError, connect, load, load_all
from .section import Section
from .table import Column, Table
from .text import count, setting, started

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
    sections = [*report_of(race).sections(race), *schedule.sections(race), limits.section(race)]
    facts = facts_of(race)
    text = page_of(f"Race {race.id}", sections, "".join(f"- {fact}\n" for fact in facts))
    html = page.html(f"Race {race.id}", facts, sections, source_of(race))
    write_pages(folder / race.id, text, html, record_of(race, sections), sheets(race))


def write_comparison(ini: Path, names: list[str], folder: Path, noise_file: Path, challenge: str = "") -> None:
    """Compares races, writes the comparison below ``folder`` and prints it.

    :param names: two or more, as :func:`.race.load_all` takes them; the first is what the others are held against.
    :param noise_file: where :func:`write_noise` keeps the noise floors.
    :param challenge: of the races that tags stand for; empty for any.
    :raises ReportError: see :func:`.race.load_all` and :func:`.compare.comparison`.
    """
    named = _load_all(ini, names, challenge)
    first = next(iter(named.values()))[0]
    found = compare.comparison(named, noise.fitting(noise.read(noise_file), first))
    title = "Comparison of " + ", ".join(side.title for side in found.sides)
    own: Callable[[compare.Comparison], list[Section]] = getattr(report_of(first), "compared", lambda found: [])
    sections = [*own(found), *compare.sections(found)]
    out = folder / re.sub(r"[^\w.-]", "_", "-".join(["compare", *(side.name for side in found.sides)]))
    record = compare.record(found) | {"sections": [section.record() for section in sections]}
    write_pages(out, page_of(title, sections), page.html(title, [], sections, title), record, [compare.sheet(found)])


def write_pages(out: Path, text: str, html: str, record: dict[str, Any], tables: Sequence[Table]) -> None:
    """Writes a report into a folder in all its forms, and prints it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(text)
    (out / "report.html").write_text(html)
    (out / "report.json").write_text(json.dumps(record, indent=1) + "\n")
    for table in tables:
        table.write_csv(out)
    print(f"\n{text}\nwritten to {out}", flush=True)


def write_noise(ini: Path, names: list[str], noise_file: Path, challenge: str = "") -> None:
    """Measures the noise between races of one configuration, keeps it in ``noise_file`` and prints it.

    :param names: of the races, as :func:`.race.load_all` takes them.
    :param challenge: of the races that tags stand for; empty for any.
    :raises ReportError: see :func:`.race.load_all` and :func:`.noise.measure`.
    """
    races = [race for of in _load_all(ini, names, challenge).values() for race in of]
    floor = noise.measure(races)
    noise.keep(floor, noise_file)
    text = page_of(f"Noise of {floor.challenge}", noise.sections(races, floor))
    print(f"\n{text}\nwritten to {noise_file}", flush=True)


def sheets(race: Race) -> list[Table]:
    """The CSV files of a race: those that its record names, a row per sample and a column per key, and those that its
    report makes besides."""
    files: dict[str, list[str]] = {}
    for kind, sample in race.record.samples.items():
        if sample.csv:
            files.setdefault(sample.csv, []).append(kind)
    found = []
    for file, kinds in files.items():
        keys = dict.fromkeys(key.name for kind in kinds for key in race.record.samples[kind].keys)
        about = ["started", *(["operation_type"] if len(kinds) > 1 else []), "operation"]
        rows = [
            s.meta | {"started": started(s.at), "operation_type": s.kind, "operation": s.cell}
            for s in race.samples
            if s.kind in kinds
        ]
        found.append(Table(file, [Column(key, key) for key in (*about, *keys)], rows))
    return found + getattr(report_of(race), "sheets", lambda race: [])(race)


def _load_all(ini: Path, names: list[str], challenge: str) -> dict[str, list[Race]]:
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ReportError(f"race [{double}] is named twice")
    store = connect(ini)
    return {name: load_all(store, name, challenge) for name in names}


def page_of(title: str, sections: Sequence[Section], top: str = "") -> str:
    """Sections as one Markdown page.

    :param top: Markdown that stands between the title and the first section.
    """
    return "\n".join([f"# {title}\n\n{top}", *(f"## {s.title}\n\n{s.text}" for s in sections)])


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


def record_of(race: Race, sections: Sequence[Section]) -> dict[str, Any]:
    """The race as it goes into ``report.json``: document, parameters, target, index, failures, all samples, and the
    tables of its report."""
    document = {k: race.document[k] for k in PUBLIC if k in race.document}
    return asdict(race) | {"document": document, "sections": [section.record() for section in sections]}
