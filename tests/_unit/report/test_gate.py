"""What races and comparisons fail on, and what their verdicts are recorded as."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from races import made

from _tools.race.variables import CONDITIONS, Exit
from _tools.report import gate, sides
from _tools.report.answer import Answer, Finding, RaceWarning
from _tools.report.gate import Failure, Judged, Outcome
from _tools.report.stats import Estimate
from _tools.report.verdicts import Verdict

OLD = {"A-serial": 20.0, "B-serial": 100.0, "D_td-msearch": 150.0, "D_td-serial": 350.0}
NEW = {"A-serial": 22.0, "B-serial": 80.0, "D_td-msearch": 300.0, "D_td-serial": 175.0}


def compared(*costs, rounds=20):
    """Races without noise, by their costs."""
    races = {
        name: [made(name, seed=i, spread=0.0, rounds=rounds, costs=of)]
        for i, (name, of) in enumerate(zip("abc", costs))
    }
    return sides.comparison(races, None)


@given(st.lists(st.sampled_from([*CONDITIONS]), unique=True))
def test_of_several_conditions_that_are_met_the_most_severe_gives_the_exit_code(met):
    failed = [Failure(name, "why") for name in met]
    first = next((condition.code for name, condition in CONDITIONS.items() if name in met), Exit.DONE)
    assert Outcome("race", "ingest", ["x"], False, met, failed=failed).code == first
    assert Outcome("race", "ingest", ["x"], False, met, ["It broke."], failed=failed).code == Exit.INCOMPLETE


def test_an_outcome_is_recorded_whole():
    judged = [
        Judged("new", "A", Estimate(20, 1.25, 1.2, 1.3, 0.1), Verdict.REGRESSED),
        Judged("new", "B", Estimate(3, 0.5, math.nan, math.inf, math.nan), Verdict.NOT_ENOUGH),
    ]
    warnings = [RaceWarning("drift", "it drifts", "wait", "it matters", 0.1)]
    failed = [Failure("too-few", "B of new"), Failure("regressed", "A of new")]
    outcome = Outcome("comparison", "ingest", ("x", "y"), True, ("regressed", "too-few"), (), warnings, judged, failed)
    assert outcome.record() == {
        "version": 1,
        "kind": "comparison",
        "challenge": "ingest",
        "races": ["x", "y"],
        "test_mode": True,
        "complete": True,
        "problems": [],
        "warnings": [{"kind": "drift", "text": "it drifts; it matters; wait"}],
        "verdicts": [
            {"side": "new", "configuration": "A", "n": 20, "ratio": 1.25}
            | {"low": 1.2, "high": 1.3, "verdict": "regressed"},
            {"side": "new", "configuration": "B", "n": 3, "ratio": 0.5}
            | {"low": None, "high": None, "verdict": "not enough samples"},
        ],
        "fail_on": ["regressed", "too-few"],
        "failed": [
            {"condition": "too-few", "reason": "B of new", "exit_code": 23},
            {"condition": "regressed", "reason": "A of new", "exit_code": 20},
        ],
        "exit_code": 20,
    }


def test_a_comparison_fails_on_what_regressed_most_and_counts_the_rest():
    outcome = gate.of_comparison(compared(OLD, NEW, OLD), [], ["regressed", "too-few"])
    assert [(f.condition, f.reason) for f in outcome.failed] == [
        ("regressed", "D_td-msearch of b: 2.000 [2.000, 2.000] regressed, and 1 more")
    ]
    assert [(j.side, j.configuration, j.verdict.value) for j in outcome.judged] == [
        ("b", "A-serial", "regressed"),
        ("b", "B-serial", "improved"),
        ("b", "D_td-msearch", "regressed"),
        ("b", "D_td-serial", "improved"),
        ("b", sides.TOGETHER, "improved"),
        *(("c", name, "equivalent") for name in (*OLD, sides.TOGETHER)),
    ]
    assert outcome.races == ["a", "b", "c"] and outcome.problems == []
    assert [j.ratio.value for j in outcome.judged] == pytest.approx([1.1, 0.8, 2, 0.5, 0.88**0.25, 1, 1, 1, 1, 1])


def test_a_comparison_of_too_few_rounds_fails_on_them_alone():
    found = compared(OLD, NEW, rounds=19)
    outcome = gate.of_comparison(found, [], ["regressed", "too-few"])
    assert [(f.condition, f.reason) for f in outcome.failed] == [
        ("too-few", "D_td-msearch of b: 2.000 [2.000, 2.000] not enough samples, and 4 more")
    ]
    assert [warning.kind for warning in outcome.warnings] == ["too-few", "too-few", "no-noise-floor"]
    assert gate.of_comparison(found, [], ["regressed"]).failed == []


@pytest.mark.parametrize("tested, says", [((False, False), False), ((True, False), True), ((False, True), True)])
def test_a_comparison_is_in_test_mode_when_one_of_its_races_is(tested, says):
    given = {"nodes": 30, "rounds": 3}
    races = {str(t) + n: [made(n, parameters=given | {"test_mode": t})] for n, t in zip("ab", tested)}
    assert gate.of_comparison(sides.comparison(races, None), [], []).test_mode is says


def test_the_answer_of_a_comparison_has_the_mean_the_verdicts_and_the_greatest_changes():
    found = compared(OLD, NEW)
    outcome = gate.of_comparison(found, ["It broke."], [])
    assert outcome.code == Exit.INCOMPLETE and [w.kind for w in outcome.warnings] == ["no-noise-floor"]
    answer = gate.answer_of(found, replace(outcome, test_mode=True))
    assert answer.test_mode and answer.problems == ["It broke."] and answer.warnings == outcome.warnings
    figures = [finding.figures["ratio"].value for finding in answer.findings]
    assert figures == pytest.approx([0.88**0.25, 0.5, 2.0])
    answer = replace(answer, test_mode=False, problems=[])
    assert answer.lines()[:-1] == [
        ("head", "query-decomp · against a · 4 configurations · 1 warning"),
        ("b", "geometric mean 0.969 [0.969, 0.969] improved; 2 regressed, 2 improved"),
        ("improved most", "D_td-serial 0.500 [0.500, 0.500] improved"),
        ("regressed most", "D_td-msearch 2.000 [2.000, 2.000] regressed"),
    ]
    several = compared(OLD, NEW, OLD)
    findings = gate.answer_of(several, gate.of_comparison(several, [], [])).findings
    assert [(f.name, f.text) for f in findings] == [
        ("b", "geometric mean 0.969 [0.969, 0.969] improved; 2 regressed, 2 improved"),
        ("c", "geometric mean 1.000 [1.000, 1.000] equivalent; 4 equivalent"),
    ]


@pytest.mark.parametrize(
    "findings, warnings, failed",
    [
        ([Finding("target", "reached")], [], []),
        (
            [Finding("target", "not reached")],
            [RaceWarning("target-missed", "it was missed", "add nodes")],
            [Failure("target-missed", "it was missed; add nodes")],
        ),
        ([Finding("rate", "80")], [], [Failure("target-missed", "the race has no target, or was too short to tell")]),
        ([Finding("target", "reached")], [RaceWarning("noisy", "it is noisy", "wait")], []),
    ],
)
def test_a_race_fails_on_a_target_that_was_not_shown_to_be_reached(findings, warnings, failed):
    answer = Answer("x", findings=findings, warnings=warnings)
    outcome = gate.of_race(made("x"), answer, ["target-missed", "drift"])
    assert outcome.failed == failed and outcome.warnings == warnings and not outcome.test_mode
    assert gate.of_race(made("x"), answer, ["drift"]).failed == []


def test_the_record_of_a_race_says_that_it_ran_in_test_mode():
    race = made("x", parameters={"test_mode": True})
    assert gate.of_race(race, Answer("x"), []).record()["test_mode"] is True


def test_a_side_of_several_races_is_told_with_their_number():
    races = {n: [made(f"{n}{i}", 1 + i / 100, seed=i + 3 * (n == "b")) for i in range(3)] for n in "ab"}
    found = sides.comparison(races, None)
    answer = gate.answer_of(found, gate.of_comparison(found, [], []))
    assert "against a (3 races)" in answer.head and answer.findings[0].name == "b (3 races)"
