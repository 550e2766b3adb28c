"""Writes the report of a race into a folder of its own and prints its answer."""

import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from ..race.variables import Exit, shown, variable
from . import changes, compare, gate, glossary, limits, noise, page, ranking, references, schedule, sides
from .answer import Answer, answer_of
from .explained import report_of
from .race import IncompleteError, Race, ReportError, Sample, machine_of
from .sample import columns, plain
from .section import Section
from .settings import changed_parameters, parameters_section
from .store import connect, load, load_all
from .table import Column, Made, Table
from .text import count, started

LONGEST = 200
"""Characters of a folder's name."""
CHANGES = "changes"
"""Folder of the ranking, which each one takes the place of."""
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


def write_report(ini: Path, race_id: str, folder: Path, verbose: bool = False, fail_on: Sequence[str] = ()) -> int:
    """Reads a race from the metrics store that ``ini`` names, writes its report below ``folder`` and prints its answer.

    :param verbose: print all of the report above the answer.
    :param fail_on: names of :data:`..race.variables.CONDITIONS`.
    :return: the exit code: 0, that of an incomplete race, or that of the first condition that is met.
    :raises ReportError: see :func:`.store.load`; also for a challenge without a report.
    """
    race, sections = made(load(connect(ini), race_id))
    race, tables = attempted(race, sheets)
    race, more = attempted(race, files)
    race, answers = attempted(race, lambda race: [answer_of(race)])
    answer = answers[0] if answers else Answer(race.challenge, problems=race.problems)
    facts = Section("What was raced", ["".join(f"- {fact}\n" for fact in facts_of(race))])
    sections = with_answer(answer, [facts, *sections])
    record = record_of(race, sections) | {"answer": answer.record()}
    title = f"{INCOMPLETE if race.problems else ''}Race {race.id}"
    pages = Pages(title, sections, source_of(race), record, tables, more)
    return write_pages(folder / race.id, pages, answer, gate.of_race(race, answer, fail_on), verbose)


def made(race: Race) -> tuple[Race, list[Section]]:
    """A race and the sections of its report, those that can be made; what cannot is a fault of the race."""
    own = report_of(race).sections
    found: list[Section] = []
    for part in (own, schedule.sections, lambda race: [limits.section(race)], references.section, parameters_section):
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


def write_comparison(
    ini: Path,
    names: list[str],
    folder: Path,
    noise_file: Path,
    challenge: str = "",
    verbose: bool = False,
    fail_on: Sequence[str] = (),
) -> int:
    """Compares races, writes the comparison below ``folder`` and prints its answer.

    :param names: two or more, as :func:`.store.load_all` takes them; the first is what the others are held against.
    :param noise_file: where :func:`write_noise` keeps the noise floors.
    :param challenge: of the races that tags stand for; empty for any.
    :param verbose: print all of the comparison above the answer.
    :param fail_on: names of :data:`..race.variables.CONDITIONS`.
    :return: the exit code: 0, that of incomplete races, or that of the first condition that is met.
    :raises ReportError: see :func:`.store.load_all` and :func:`.compare.comparison`.
    """
    named = _load_all(ini, names, challenge)
    first = next(iter(named.values()))[0]
    problems = problems_of(race for of in named.values() for race in of)
    with worked_out("compared", problems):
        days = float(variable("NOISE_DAYS") or noise.DAYS)
        found = sides.comparison(named, *noise.fitting(noise.read(noise_file), first, days))
        title = f"{INCOMPLETE if problems else ''}Comparison of {', '.join(side.title for side in found.sides)}"
        own: Callable[[sides.Comparison], list[Section]] = getattr(report_of(first), "compared", lambda found: [])
        outcome = gate.of_comparison(found, problems, fail_on)
        answer = gate.answer_of(found, outcome)
        sections = with_answer(answer, [*own(found), *compare.sections(found)])
        record = compare.record(found) | {"problems": problems, "answer": answer.record()}
        record |= {"sections": [section.record() for section in sections]}
        pages = Pages(title, sections, title, record, [compare.sheet(found)])
    out = folder / re.sub(r"[^\w.-]", "_", "-".join(["compare", *(side.name for side in found.sides)]))[:LONGEST]
    return write_pages(out, pages, answer, outcome, verbose)


def write_changes(ini: Path, race_id: str, folder: Path, test_mode: bool = False, verbose: bool = False) -> None:
    """Ranks the changes of all challenges, writes the ranking below ``folder`` and prints its answer.

    :param race_id: of the race whose machine and version decide; see :func:`.ranking.ranking`.
    :param test_mode: rank races in test mode instead.
    :param verbose: print all of it above the answer.
    :raises ReportError: when there is no race to rank.
    """
    found = ranking.ranking(connect(ini), race_id, test_mode, datetime.now(timezone.utc))
    answer = changes.answer_of(found)
    sections = with_answer(answer, changes.sections(found))
    record = changes.record(found) | {"answer": answer.record(), "sections": [s.record() for s in sections]}
    title = "Which change buys how much"
    write_pages(folder / CHANGES, Pages(title, sections, answer.head, record, []), answer, None, verbose)


def with_answer(answer: Answer, sections: Sequence[Section]) -> list[Section]:
    """The sections behind one for the answer, which has the first of their figures beside it; what is
    folded comes last."""
    figure = next((figure for section in sections for figure in section.figures), None)
    sections = sorted([*sections, *glossary.section(sections)], key=lambda section: section.folded)
    rest = [replace(section, blocks=[b for b in section.blocks if b is not figure]) for section in sections]
    return [Section("Answer", [answer.markdown(), *([figure] if figure else [])]), *rest]


@dataclass(frozen=True)
class Pages:
    """A report as it is written.

    :param source: what the figures were measured on.
    :param record: what ``report.json`` holds.
    :param sheets: CSV files.
    :param more: further files, each a name and its text.
    """

    title: str
    sections: Sequence[Section]
    source: str
    record: dict[str, Any]
    sheets: Sequence[Table]
    more: Sequence[tuple[str, str]] = ()


def write_pages(out: Path, pages: Pages, answer: Answer, outcome: gate.Outcome | None, verbose: bool) -> int:
    """Writes a report into a folder in all its forms, prints its answer, and returns the exit code.

    :param outcome: as ``verdict.json`` has it; None where there is nothing to fail on.
    """
    out.mkdir(parents=True, exist_ok=True)
    picture = ["answer.svg"] if pages.sections[0].figures else []
    beside = ["report.md", "report.json", *(["verdict.json"] if outcome else []), *picture]
    beside += [*(table.key for table in pages.sheets), *(name for name, _ in pages.more)]
    problems = [f"**{problem}**" for problem in answer.problems]
    text = page_of(pages.title, pages.sections, problems)
    (out / "report.md").write_text(text)
    (out / "report.html").write_text(page.html(pages.title, problems, pages.sections, pages.source, beside))
    write_record(out / "report.json", pages.record)
    if outcome:
        (out / "verdict.json").write_text(json.dumps(outcome.record(), indent=1) + "\n")
    for table in pages.sheets:
        table.write_csv(out)
    for figure in pages.sections[0].figures:
        (out / "answer.svg").write_text(page.picture(figure))
    for name, content in pages.more:
        (out / name).write_text(content)
    if verbose:
        print(f"\n{text}", flush=True)
    path = (out / "report.html").resolve()
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    print(f"\n{answer.terminal(path, sys.stdout.isatty() and 'NO_COLOR' not in os.environ)}", flush=True)
    for failure in outcome.failed if outcome else ():
        print(f"[ERROR] FAIL_ON={failure.condition}: {failure.reason}", file=sys.stderr, flush=True)
    return outcome.code if outcome else Exit.DONE


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Writes a record as JSON, an item of its lists a line, one after the other: of a million samples the whole text
    takes a gigabyte."""
    with open(path, "wb") as f:
        for number, (key, value) in enumerate(record.items()):
            f.write(b"%s\n %s: " % (b"," if number else b"{", _json(key)))
            if isinstance(value, list) and value:
                f.write(b"[\n  %s" % _json(value[0]))
                f.writelines(b",\n  %s" % _json(one) for one in islice(value, 1, None))
                f.write(b"\n ]")
            else:
                f.write(_json(value))
        f.write(b"\n}\n")


def _json(value: Any) -> bytes:
    value = value.record() if type(value) is Sample else value  # in two thirds of the time that orjson takes for it
    return orjson.dumps(value, default=plain, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def write_noise(ini: Path, names: list[str], noise_file: Path, challenge: str = "") -> None:
    """Measures the noise between races of one configuration, keeps it in ``noise_file`` and prints it.

    :param names: of the races, as :func:`.store.load_all` takes them.
    :param challenge: of the races that tags stand for; empty for any.
    :raises ReportError: see :func:`.store.load_all` and :func:`.noise.measure`.
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
    """The CSV files of a race: those that its record names and whose samples it has, a row per sample and a column per
    key, and those that its report makes besides."""
    files: dict[str, list[str]] = {}
    for kind, sample in race.record.samples.items():
        if sample.csv:
            files.setdefault(sample.csv, []).append(kind)
    found = []
    for file, kinds in files.items():
        keys = dict.fromkeys(key.name for kind in kinds for key in race.record.samples[kind].keys)
        about = ["started", *(["operation_type"] if len(kinds) > 1 else []), "operation"]
        if samples := [s for s in race.samples if s.kind in kinds]:
            rows = Made(len(samples), partial(_columns, samples, tuple(keys)))
            found.append(Table(file, [Column(key, key) for key in (*about, *keys)], rows))
    return found + getattr(report_of(race), "sheets", lambda race: [])(race)


def _columns(samples: Sequence[Sample], keys: Sequence[str], part: slice) -> dict[str, Sequence[Any]]:
    """Columns of some of the samples."""
    of = samples[part]
    about = {"started": [started(s.at) for s in of], "operation_type": [s.kind for s in of]}
    return columns([s.meta for s in of], keys) | about | {"operation": [s.cell for s in of]}


def files(race: Race) -> list[tuple[str, str]]:
    """Further files that the report of a race makes, each a name and its text."""
    return list(getattr(report_of(race), "files", lambda race: [])(race))


def _load_all(ini: Path, names: list[str], challenge: str) -> dict[str, list[Race]]:
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ReportError(f"race [{double}] is named twice")
    store = connect(ini)
    return {name: load_all(store, name, challenge) for name in names}


def page_of(title: str, sections: Sequence[Section], problems: Sequence[str] = ()) -> str:
    """Sections as one Markdown page.

    :param problems: a line of Markdown each, between the title and the first section.
    """
    top = "".join(f"- {problem}\n" for problem in problems)
    return "\n".join(
        [f"# {title}\n\n{top}" if top else f"# {title}\n", *(f"## {s.title}\n\n{s.text}" for s in sections)]
    )


def facts_of(race: Race) -> list[str]:
    """Challenge, versions, target, index, parameters that differ from their defaults, tags: a line of Markdown each."""
    document = race.document
    lines = [
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
        lines.append(f"parameters beside the defaults: {changed_parameters(race) or 'none'}")
    if tags := document.get("user-tags"):
        lines.append("tags: " + ", ".join(f"{k}={v}" for k, v in sorted(tags.items())))
    return lines


def source_of(race: Race) -> str:
    """What a figure was measured on, in one line; the parameters stand at the head of the report."""
    nodes = [f"Elasticsearch {n['version']}, {n['jvm']}, {count(race.cores(n), 'core')}" for n in race.target]
    several = f"{len(nodes)} nodes: " if len(nodes) > 1 else ""
    target = [several + " and ".join(dict.fromkeys(nodes))] if nodes else []
    return "; ".join([f"Race {race.id}", *target, "parameters as in the report"])


def record_of(race: Race, sections: Sequence[Section]) -> dict[str, Any]:
    """The race as it goes into ``report.json``: problems, document, parameters, target, index, failures, samples and
    the tables of its report."""
    document = {k: race.document[k] for k in PUBLIC if k in race.document}
    head = {"problems": race.problems}
    whole = head | {field.name: getattr(race, field.name) for field in fields(race) if field.init}
    return whole | {"document": document, "sections": [section.record() for section in sections]}
