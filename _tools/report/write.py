"""Writes the report of a race into a folder of its own and prints it."""

import contextlib
import json
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..race.variables import shown, variable
from . import compare, limits, noise, page, schedule
from .explained import report_of
from .race import IncompleteError, Race, ReportError, connect, load, load_all, machine_of
from .section import Section
from .table import Column, Table
from .text import count, setting, started

LONGEST = 200
"""Characters of a folder's name."""
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


INCOMPLETE = "INCOMPLETE: "
"""What every rendering begins with of a race that has problems; they stand right below."""
ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration, AssertionError)
"""What figures raise that are made of samples which do not go together."""


def write_report(ini: Path, race_id: str, folder: Path) -> list[str]:
    """Reads a race from the metrics store that ``ini`` names, writes its report below ``folder`` and prints it.

    :return: why the race is incomplete, a sentence each; empty when it is complete.
    :raises ReportError: see :func:`.race.load`; also for a challenge without a report.
    """
    race, sections = made(load(connect(ini), race_id))
    race, tables = attempted(race, sheets)
    facts, title = facts_of(race), f"{INCOMPLETE if race.problems else ''}Race {race.id}"
    text = page_of(title, sections, "".join(f"- {fact}\n" for fact in facts))
    html = page.html(title, facts, sections, source_of(race), files_of(tables))
    write_pages(folder / race.id, text, html, record_of(race, sections), tables)
    return race.problems


def made(race: Race) -> tuple[Race, list[Section]]:
    """A race and the sections of its report, those that can be made; what cannot is a fault of the race."""
    own = report_of(race).sections
    found: list[Section] = []
    for part in (own, schedule.sections, lambda race: [limits.section(race)]):
        race, sections = attempted(race, part)
        found += sections
    return race, found


def attempted(race: Race, part: Callable[[Race], list[Any]]) -> tuple[Race, list[Any]]:
    """What a part of a report makes of a race; nothing where its samples do not suffice, which is a fault then."""
    try:
        return race, part(race)
    except ODD as e:
        fault = f"Its samples do not suffice for all of the report: {reason(e)}."
        return replace(race, faults=[*race.faults, fault]), []


@contextlib.contextmanager
def worked_out(done: str, problems: list[str]) -> Iterator[None]:
    """Puts into one line that several races cannot be compared or the like, for want of samples that go together.

    :param problems: of these races.
    """
    try:
        yield
    except ODD as e:
        why = "; ".join([*problems, f"the samples do not go together: {reason(e)}"])
        raise IncompleteError(f"INCOMPLETE: nothing can be {done}: {why}") from None


def reason(error: Exception) -> str:
    """An error and where it came from, in one line."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return shown(f"{type(error).__name__} ({error}) in {Path(where.filename).name}, line {where.lineno}")


def problems_of(races: Iterable[Race]) -> list[str]:
    """The problems of several races, each with its race."""
    return [f"race {race.id}: {problem}" for race in races for problem in race.problems]


def write_comparison(ini: Path, names: list[str], folder: Path, noise_file: Path, challenge: str = "") -> list[str]:
    """Compares races, writes the comparison below ``folder`` and prints it.

    :param names: two or more, as :func:`.race.load_all` takes them; the first is what the others are held against.
    :param noise_file: where :func:`write_noise` keeps the noise floors.
    :param challenge: of the races that tags stand for; empty for any.
    :return: why races are incomplete, a sentence each; empty when all are complete.
    :raises ReportError: see :func:`.race.load_all` and :func:`.compare.comparison`.
    """
    named = _load_all(ini, names, challenge)
    first = next(iter(named.values()))[0]
    problems = problems_of(race for of in named.values() for race in of)
    with worked_out("compared", problems):
        days = float(variable("NOISE_DAYS") or noise.DAYS)
        found = compare.comparison(named, *noise.fitting(noise.read(noise_file), first, days))
        title = f"{INCOMPLETE if problems else ''}Comparison of {', '.join(side.title for side in found.sides)}"
        own: Callable[[compare.Comparison], list[Section]] = getattr(report_of(first), "compared", lambda found: [])
        sections = [*own(found), *compare.sections(found)]
        record = compare.record(found) | {"sections": [section.record() for section in sections]}
        tables = [compare.sheet(found)]
    out = folder / re.sub(r"[^\w.-]", "_", "-".join(["compare", *(side.name for side in found.sides)]))[:LONGEST]
    record["problems"] = problems
    top = "".join(f"- {problem}\n" for problem in problems)
    html = page.html(title, problems, sections, title, files_of(tables))
    write_pages(out, page_of(title, sections, top), html, record, tables)
    return problems


def files_of(tables: Sequence[Table]) -> list[str]:
    """What stands beside the page."""
    return ["report.md", "report.json", *(table.key for table in tables)]


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
    if problems := problems_of(races):
        raise IncompleteError(f"INCOMPLETE: noise is measured on complete races; {problems[0]}")
    with worked_out("measured", []):
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
    """Why it is incomplete; challenge, versions, target, index, parameters and tags: a line of Markdown each."""
    document = race.document
    lines = [f"**{problem}**" for problem in race.problems]
    lines += [
        f"challenge {race.challenge}, started {document.get('race-timestamp')}, Rally {document.get('rally-version')}"
    ]
    for node in race.target:
        jvm = f"{node['jvm']}, {count(race.cores(node), 'core')}, heap {node['heap_mb']} MB"
        lines.append(f"target node {node['node']}: Elasticsearch {node['version']}, {jvm}")
    if race.machine:
        where = "load driver and target on" if race.local else "load driver on"
        lines.append(f"{where} one machine: {', '.join(f'{k} {v}' for k, v in machine_of(race).items())}")
    if race.index:
        size = race.index["store_bytes"] / 1e6
        lines.append(f"index: {race.index['docs']:,} documents, {race.index['segments']} segment(s), {size:,.0f} MB")
    if race.parameters:
        lines.append("parameters: " + ", ".join(f"{k}={setting(v)}" for k, v in race.parameters.items()))
    if tags := document.get("user-tags"):
        lines.append("tags: " + ", ".join(f"{k}={v}" for k, v in sorted(tags.items())))
    return lines


def source_of(race: Race) -> str:
    """What a figure was measured on, in one line; the parameters stand at the head of the report."""
    nodes = [f"Elasticsearch {n['version']}, {n['jvm']}, {count(race.cores(n), 'core')}" for n in race.target]
    several = f"{len(nodes)} nodes: " if len(nodes) > 1 else ""
    target = [several + " and ".join(dict.fromkeys(nodes))] if nodes else []
    return "; ".join([f"Race {race.id}", *target, "parameters as at the head of the report"])


def record_of(race: Race, sections: Sequence[Section]) -> dict[str, Any]:
    """The race as it goes into ``report.json``: problems, document, parameters, target, index, failures, samples and
    the tables of its report."""
    document = {k: race.document[k] for k in PUBLIC if k in race.document}
    head = {"problems": race.problems}
    return head | asdict(race) | {"document": document, "sections": [section.record() for section in sections]}
