"""The answer of a race: the few lines that its report begins with, in the terminal and in all its files."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .cells import compared_in
from .explained import report_of
from .race import Race
from .stats import Estimate
from .text import count, interval, number
from .verdicts import Verdict, verdict

MOST_LINES = 15
MOST = {"incomplete": 2, "findings": 6, "look out": 3}
"""Lines of a kind; with the four others they make 15. Of more, the last one says how many."""
LONGEST = 160
"""Characters of a warning; all of it stands in the report."""
MEANINGLESS = "a race in test mode: it shows that all works, and none of its figures means anything"
STYLES = {"head": "1", "test mode": "1;31", "incomplete": "1;31", "look out": "33", "recommended": "1;32"}
"""Terminal colours (SGR) of a line's text, or of the head, by name of the line."""


@dataclass(frozen=True)
class Finding:
    """A line of an answer: what a challenge's report found.

    :param name: what it is of; ``recommended`` stands out.
    :param text: what was found, in words.
    :param figures: the estimates that the text speaks of, by key.
    """

    name: str
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class RaceWarning:
    """Something that speaks against the figures of a race.

    :param kind: short and the same for all of its kind, such as ``drift``.
    :param seen: what was seen, with its number, in words.
    :param option: what to try.
    :param why: why it matters.
    :param value: the number; nan where there is none.
    """

    kind: str
    seen: str
    option: str
    why: str = ""
    value: float = math.nan

    @property
    def brief(self) -> str:
        """What was seen, and what to try."""
        return "; ".join(filter(None, (self.seen, self.option)))

    @property
    def text(self) -> str:
        """All of it as one sentence, without its full stop."""
        return "; ".join(filter(None, (self.seen, self.why, self.option)))


@dataclass(frozen=True)
class Answer:
    """What a report begins with; see :meth:`lines`.

    :param head: what was raced, and how much of it.
    :param test_mode: whether it ran in Rally's test mode.
    :param problems: why the race is incomplete.
    :param findings: in order of weight.
    :param warnings: in order of weight.
    :param summary: what Rally's own summary, which the terminal shows above, does not explain; empty for nothing.
    """

    head: str
    test_mode: bool = False
    problems: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    warnings: Sequence[RaceWarning] = ()
    summary: str = ""

    def lines(self, report: Path | None = None) -> list[tuple[str, str]]:
        """At most 15 lines, each a name and a text.

        :param report: the page, named last.
        """
        named = {
            "head": [f"INCOMPLETE: {self.head}" if self.problems else self.head],
            "incomplete": self.problems,
            "test mode": [MEANINGLESS] if self.test_mode else [],
            "findings": self.findings,
            "Rally's rows": [self.summary] if self.summary else [],
            "look out": [textwrap.shorten(w.brief, LONGEST, placeholder=" …") for w in self.warnings],
            "report": [str(report)] if report else [],
        }
        found = []
        for name, of in named.items():
            shown: list[Any] = list(of)
            if len(shown) > (most := MOST.get(name, 1)):
                shown = [*shown[: most - 1], f"{len(shown) - most + 1} more in the report"]
            found += [(f.name, f.text) if isinstance(f, Finding) else (name, f) for f in shown]
        return found

    def terminal(self, report: Path | None = None, colour: bool = False) -> str:
        """The answer as the terminal shows it."""
        lines = self.lines(report)
        width = max(len(name) for name, _ in lines)

        def shown(name: str, text: str) -> str:
            style = STYLES.get(name) if colour else None
            text = f"\033[{style}m{text}\033[0m" if style else text
            return text if name == "head" else f"  {name:{width}}  {text}"

        return "\n".join(shown(name, text) for name, text in lines)

    def markdown(self) -> str:
        """The answer as the pages show it."""
        (_, head), *lines = self.lines()
        return f"**{head}**\n\n" + "".join(f"- **{name}:** {text}\n" for name, text in lines)

    def record(self) -> dict[str, Any]:
        """The answer as it goes into ``report.json`` and ``verdict.json``."""
        return {
            "head": self.head,
            "test_mode": self.test_mode,
            "problems": list(self.problems),
            "findings": [
                {"name": f.name, "text": f.text, "figures": {k: _plain(asdict(e)) for k, e in f.figures.items()}}
                for f in self.findings
            ],
            "warnings": [_plain(asdict(warning)) for warning in self.warnings],
            "lines": self.terminal().splitlines(),
        }


def answer_of(race: Race) -> Answer:
    """The answer of a race, by the report of its challenge: its ``answer(race)`` gives the findings, its ``SUMMARY``
    the line on Rally's summary."""
    module = report_of(race)
    findings = list(module.answer(race)) or [Finding("no answer", "the samples that it takes are missing")]
    warnings = warnings_of(race)
    return Answer(
        _head(race, warnings), in_test_mode(race), race.problems, findings, warnings, getattr(module, "SUMMARY", "")
    )


def in_test_mode(race: Race) -> bool:
    return bool(race.parameters.get("test_mode"))


def warnings_of(race: Race) -> list[RaceWarning]:
    """What speaks against the figures of a race, by ``warnings(race)`` of its challenge's report, or else what speaks
    against its samples."""
    from .stability import warnings  # which imports this module

    return list(getattr(report_of(race), "warnings", warnings)(race))


def _head(race: Race, warnings: Sequence[RaceWarning]) -> str:
    versions = ", ".join(sorted({node["version"] for node in race.target}))
    units = _units(race)
    parts = [
        race.challenge,
        f"Elasticsearch {versions}" if versions else "",
        count(race.index["docs"], "document") if race.index else "",
        count(len(race.target), "node") if len(race.target) > 1 else "",
        f"{count(units, race.record.compared.unit)}{cut(race)}" if units else "",
        count(len(warnings), "warning") if warnings else "no warnings",
    ]
    return " · ".join(filter(None, parts))


def cut(race: Race) -> str:
    """That rounds were cut to fit the time, with how many were asked for; empty where they were not, as in a race that
    was not finished."""
    minutes, asked = race.parameters.get("race_minutes"), race.parameters.get(race.record.compared.parameter, 0)
    fewer = 0 < _units(race) < asked and race.document.get("results")
    return f" of {asked}, cut to fit {count(minutes, 'minute')}" if minutes and fewer else ""


def checked(race: Race, number_of: int, what: str) -> Finding:
    """The line on answers that were held against exact ones; a wrong one is a request that failed."""
    failed = sum(race.failed.values()) - race.rounds_failed
    wrong = f"; {count(failed, 'request')} failed" if failed else ", none wrong"
    return Finding("answers checked", f"{count(number_of, what)}{wrong}")


def times_as_fast(estimate: Estimate) -> str:
    """A speed-up with its interval."""
    return f"{number(estimate.value)} × {interval(estimate)}"


def is_shown(race: Race, slower: Estimate) -> bool:
    """Whether a race shows a gain: by a ratio of times, new over old, and the number of units that a verdict takes."""
    return verdict(slower, enough=race.record.compared.enough) is Verdict.IMPROVED


def undecided(race: Race, units: int | None = None) -> Finding:
    """The recommendation where nothing is shown to be better.

    :param units: that what was judged has in common; by default as many as the configuration that has most.
    """
    compared = race.record.compared
    if _units(race) < compared.enough:
        return Finding("recommended", f"nothing: a verdict takes {compared.parameter}:{compared.enough}")
    if units is not None and units < compared.enough:
        few = f"only {count(units, compared.unit)} in common"
        return Finding("recommended", f"nothing: {few}, a verdict takes {compared.enough}")
    return Finding("recommended", "nothing: no gain is shown beyond noise")


def _units(race: Race) -> int:
    """How often the units of replication were measured, of the configuration that has most."""
    cells = compared_in(race)
    return max((len(cells.samples(name)) for name in cells.names), default=0)


def joined(named: Iterable[tuple[str, str]]) -> str:
    """Names with what was found of each, in one line."""
    return "; ".join(f"{name} {text}" for name, text in named)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON has them, which knows no number that is not finite."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
