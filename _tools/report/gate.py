"""Whether a race or a comparison fails on what it found, as the user asked by FAIL_ON; also as ``verdict.json``."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..race.variables import CONDITIONS, Exit
from .answer import Answer, Finding, RaceWarning, in_test_mode
from .cautions import warnings_of
from .race import Race
from .sides import TOGETHER, Comparison, Side
from .stats import Estimate
from .text import count, interval
from .verdicts import Verdict

SCHEMA = Path(__file__).with_name("verdict.schema.json")
"""JSON schema of ``verdict.json``."""


@dataclass(frozen=True)
class Failure:
    """A condition of FAIL_ON that is met.

    :param condition: its name.
    :param reason: what meets it.
    """

    condition: str
    reason: str

    @property
    def code(self) -> int:
        return CONDITIONS[self.condition].code


@dataclass(frozen=True)
class Judged:
    """A configuration of a side held against the first side.

    :param ratio: of the judged figure, this side over the first; below 1 is less.
    """

    side: str
    configuration: str
    ratio: Estimate
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """What ``verdict.json`` holds.

    :param kind: ``race`` or ``comparison``.
    :param races: their ids.
    :param problems: why the race is incomplete.
    """

    kind: str
    challenge: str
    races: Sequence[str]
    test_mode: bool
    fail_on: Sequence[str]
    problems: Sequence[str] = ()
    warnings: Sequence[RaceWarning] = ()
    judged: Sequence[Judged] = ()
    failed: Sequence[Failure] = field(default_factory=list)

    @property
    def code(self) -> int:
        """The exit code: an incomplete race fails whatever the user asked for."""
        if self.problems:
            return Exit.INCOMPLETE
        return min((failure.code for failure in self.failed), default=Exit.DONE)

    def record(self) -> dict[str, Any]:
        return {
            "version": 1,
            "kind": self.kind,
            "challenge": self.challenge,
            "races": list(self.races),
            "test_mode": self.test_mode,
            "complete": not self.problems,
            "problems": list(self.problems),
            "warnings": [{"kind": w.kind, "text": w.text} for w in self.warnings],
            "verdicts": [
                {"side": j.side, "configuration": j.configuration, "n": j.ratio.n, "ratio": j.ratio.value}
                | {"low": _known(j.ratio.low), "high": _known(j.ratio.high), "verdict": j.verdict.value}
                for j in self.judged
            ],
            "fail_on": list(self.fail_on),
            "failed": [asdict(failure) | {"exit_code": failure.code} for failure in self.failed],
            "exit_code": int(self.code),
        }


def of_race(race: Race, answer: Answer, fail_on: Sequence[str]) -> Outcome:
    """Whether a race fails: by its warnings, whose kinds are conditions."""
    failed = [Failure(warning.kind, warning.brief) for warning in answer.warnings if warning.kind in fail_on]
    if "target-missed" in fail_on and "target" not in {finding.name for finding in answer.findings}:
        failed.append(Failure("target-missed", "the race has no target, or was too short to tell"))
    return Outcome(
        "race", race.challenge, [race.id], in_test_mode(race), fail_on, answer.problems, answer.warnings, failed=failed
    )


def of_comparison(found: Comparison, problems: Sequence[str], fail_on: Sequence[str]) -> Outcome:
    """Whether a comparison fails: by its verdicts."""
    judged = [one for side in found.sides[1:] for one in _judged(found, side)]
    failed = []
    for condition, verdict in (("regressed", Verdict.REGRESSED), ("too-few", Verdict.NOT_ENOUGH)):
        if condition in fail_on and (met := [j for j in judged if j.verdict is verdict]):
            worst = max(met, key=lambda j: j.ratio.value)
            more = f", and {len(met) - 1} more" if len(met) > 1 else ""
            failed.append(Failure(condition, f"{worst.configuration} of {worst.side}: {_ratio(worst)}{more}"))
    races, warnings = found.races, warnings_of(found)
    test_mode, ids = any(map(in_test_mode, races)), [race.id for race in races]
    return Outcome("comparison", races[0].challenge, ids, test_mode, fail_on, problems, warnings, judged, failed)


def answer_of(found: Comparison, outcome: Outcome) -> Answer:
    """What a comparison begins with: of each side the mean, how many configurations have which verdict, and the
    greatest changes."""
    first, *others = found.sides
    head = [outcome.challenge, f"against {first.title}", count(len(found.shared), "configuration")]
    head.append(count(len(outcome.warnings), "warning") if outcome.warnings else "no warnings")
    findings = []
    for side in others:
        *cells, mean = [j for j in outcome.judged if j.side == side.name]
        counts = Counter(j.verdict.value for j in cells)
        told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        findings.append(Finding(side.title, f"{TOGETHER} {_ratio(mean)}; {told}", {"ratio": mean.ratio}))
        if len(others) == 1:
            findings += _extremes(cells)
    return Answer(" · ".join(head), outcome.test_mode, outcome.problems, findings, outcome.warnings)


def _extremes(judged: Sequence[Judged]) -> Iterable[Finding]:
    """The configurations that improved and regressed most."""
    for name, verdict, pick in (("improved most", Verdict.IMPROVED, min), ("regressed most", Verdict.REGRESSED, max)):
        if of := [j for j in judged if j.verdict is verdict]:
            most: Judged = pick(of, key=lambda j: j.ratio.value)  # type: ignore[operator]
            yield Finding(name, f"{most.configuration} {_ratio(most)}", {"ratio": most.ratio})


def _judged(found: Comparison, side: Side) -> Iterable[Judged]:
    """Each configuration of a side, and last the mean."""
    said = {name: of[side.name] for name, of in found.judged_cells.items()}
    return [Judged(side.name, name, one.estimate, one.verdict) for name, one in said.items()]


def _ratio(judged: Judged) -> str:
    ratio = judged.ratio
    return f"{ratio.value:.3f} {interval(ratio, lambda x: f'{x:.3f}')} {judged.verdict.value}"


def _known(value: float) -> float | None:
    """A number as JSON has it, which knows none that is not finite."""
    return value if value - value == 0 else None
