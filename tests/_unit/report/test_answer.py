"""What every report begins with."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from races import TARGET, made

from _tools.race.variables import CONDITIONS, Exit
from _tools.report import gate, sides, write
from _tools.report.answer import (
    MEANINGLESS,
    MOST_LINES,
    Answer,
    Finding,
    RaceWarning,
    answer_of,
    checked,
    is_shown,
    undecided,
)
from _tools.report.explained import report_of
from _tools.report.race import Race, Sample
from _tools.report.stats import Estimate
from cluster_metrics.core.challenge import challenges

SCHEMA = json.loads(gate.SCHEMA.read_text())
PAGE = Path("reports/x/report.html")
DOCS = Path(__file__).parents[3] / "docs"
words = st.text(min_size=1, max_size=20)
warnings = st.builds(RaceWarning, words, words, words)
answers = st.builds(
    Answer,
    words,
    st.booleans(),
    st.lists(words, max_size=9),
    st.lists(st.builds(Finding, words, words), max_size=9),
    st.lists(warnings, max_size=9),
    st.just("") | words,
)


FULL = Answer("x", True, ["p"] * 9, [Finding("f", "f")] * 9, [RaceWarning("k", "s", "o")] * 9, "summary")


@given(answers)
@example(FULL)
def test_an_answer_has_at_most_15_lines_and_names_its_page(answer):
    lines = answer.lines(PAGE)
    assert len(lines) <= MOST_LINES
    assert lines[0] == ("head", f"INCOMPLETE: {answer.head}" if answer.problems else answer.head) and lines[-1] == (
        "report",
        str(PAGE),
    )


@given(answers)
def test_what_is_left_out_of_an_answer_is_counted(answer):
    texts = [text for name, text in answer.lines() if name == "look out"]
    hidden = re.fullmatch(r"(\d+) more in the report", texts[-1]) if texts else None
    assert len(texts) - bool(hidden) + (int(hidden[1]) if hidden else 0) == len(answer.warnings)


@pytest.mark.parametrize("more", [0, 2])
def test_of_more_than_there_is_room_for_the_first_are_shown(more):
    problems, findings, seen = (
        [f"{what} {i}" for i in range(most + more)] for what, most in (("p", 2), ("f", 6), ("s", 3))
    )
    warnings = [RaceWarning("k", text, "option", "why") for text in seen]
    answer = Answer("x", True, problems, [Finding(text, text) for text in findings], warnings, "summary")
    left = f"{more + 1} more in the report"
    assert answer.lines(PAGE) == [
        ("head", "INCOMPLETE: x"),
        *[("incomplete", text) for text in (["p 0", left] if more else problems)],
        ("test mode", MEANINGLESS),
        *[(text, text) for text in (findings[:5] if more else findings)],
        *([("findings", left)] if more else []),
        ("Rally's rows", "summary"),
        *[("look out", f"{text}; option") for text in (seen[:2] if more else seen)],
        *([("look out", left)] if more else []),
        ("report", str(PAGE)),
    ]
    assert answer.record()["problems"] == problems and len(answer.record()["findings"]) == len(findings)
    assert warnings[0].text == "s 0; why; option"


def test_a_finding_is_recorded_with_all_its_figures():
    figures = {"a": Estimate(20, 2.0, 1.0, 3.0, 0.1), "b": Estimate(3, 4.0, math.nan, math.inf, math.nan)}
    (record,) = Answer("x", findings=[Finding("f", "text", figures)]).record()["findings"]
    assert record["figures"] == {
        "a": {"n": 20, "value": 2.0, "low": 1.0, "high": 3.0, "cv": 0.1, "freedom": None},
        "b": {"n": 3, "value": 4.0, "low": None, "high": None, "cv": None, "freedom": None},
    }


NODES = [TARGET, TARGET | {"node": "target-2", "version": "9.0.0"}]


@pytest.mark.parametrize(
    "given, units",
    [
        ({"race_minutes": 10, "rounds": 40}, "21 rounds of 40, cut to fit 10 minutes"),
        ({"race_minutes": 10, "rounds": 21}, "21 rounds"),
        ({"race_minutes": 0, "rounds": 40}, "21 rounds"),
    ],
)
def test_the_head_says_what_was_raced_on_what_and_how_much_of_it(given, units):
    race = made(
        "x", rounds=21, target=NODES, parameters=given, index={"docs": 5000, "segments": 7, "store_bytes": 10**6}
    )
    race.samples[:] = [s for s in race.samples if (s.cell, s.meta["round"]) != ("A-serial", 21)]
    begin = "query-decomp · Elasticsearch 8.17.2, 9.0.0 · 5,000 documents · 2 nodes · "
    answer = answer_of(race)
    assert answer.head == f"{begin}{units} · no warnings" and answer.warnings == []
    assert answer.summary == report_of(race).SUMMARY
    ended = made("x", parameters=given, document={"results": {}})
    assert "cut to fit" not in answer_of(ended).head and answer_of(ended).problems == ended.problems != []
    unknown = Race({"race-id": "x", "challenge": "query-decomp", "results": {"any": 1}}, [], {}, given)
    assert answer_of(unknown).head == "query-decomp · no warnings"


def test_requests_that_failed_are_told_less_the_rounds_that_did():
    race = replace(made("x", failed={"A-serial": 3, "plan": 2}), rounds_failed=2)
    assert checked(race, 1000, "search").text == "1,000 searches; 3 requests failed"
    assert checked(made("x"), 1, "search").text == "1 search, none wrong"


def test_warnings_are_those_of_the_report_of_the_challenge():
    race = made("x", document={"challenge": "cpu-profile"})
    race.samples[:] = [Sample("cpu-profile", 1, "cpu-profile", 1.0, {"round": 1, "not_sampled": "it ended"})]
    kinds = [warning.kind for warning in answer_of(race).warnings]
    assert kinds[0] == "no profile"


@pytest.mark.parametrize(
    "n, low, high, shown", [(20, 0.7, 0.9, True), (19, 0.7, 0.9, False), (20, 0.7, 1.2, False), (20, 1.1, 1.2, False)]
)
def test_a_gain_is_shown_by_units_enough_and_an_interval_below_one(n, low, high, shown):
    assert is_shown(made("x"), Estimate(n, (low + high) / 2, low, high, 0.1)) is shown
    few = Estimate(6, 0.8, 0.7, 0.9, 0.1)
    assert is_shown(made("x", document={"challenge": "capacity-query"}), few) and not is_shown(made("x"), few)


def test_a_race_in_test_mode_says_first_that_it_means_nothing():
    answer = answer_of(made("x", parameters={"test_mode": True}))
    assert answer.lines()[1] == ("test mode", MEANINGLESS)
    assert "test mode" not in dict(answer_of(made("x")).lines())


def test_why_a_race_is_incomplete_stands_before_what_was_found():
    names = [name for name, _ in answer_of(made("x", failed={"A-serial": 2})).lines()]
    assert names.index("incomplete") == 1


def test_colours_stand_in_the_terminal_only_where_it_has_them():
    answer = Answer("head", findings=[Finding("recommended", "this")])
    assert "\033" not in answer.terminal(PAGE, False)
    assert "\033[1;32mthis\033[0m" in answer.terminal(PAGE, True)


@pytest.mark.parametrize("name", sorted(challenges()))
def test_every_challenge_has_an_answer_even_to_a_race_without_samples(name):
    race = Race({"race-id": "x", "challenge": name, "results": {"any": 1}}, [], {})
    assert callable(report_of(race).answer)
    assert [line for line, _ in answer_of(race).lines() if line != "Rally's rows"] == ["head", "no answer"]


def test_the_answer_of_query_decomp_follows_from_its_samples():
    costs = {"A-serial": 20.0, "B-serial": 50.0, "C_td-serial": 300.0, "D_td-serial": 330.0, "D_td-msearch": 110.0}
    race = made("x", spread=0.0, costs=costs)
    lines = dict(answer_of(race).lines())
    assert lines["3 percentiles, t-digest"] == "84.8 % [84.8 %, 84.8 %] of 330 ms a coverage"
    assert lines["times as fast"] == "by msearch 3.00 × [3.00, 3.00]"
    assert lines["recommended"].startswith("by msearch: 110 ms a coverage; p50 and p90 off by at most 5 %")
    assert lines["answers checked"] == "3,000 searches, none wrong"


def test_nothing_is_recommended_on_too_few_rounds():
    race = made("x", rounds=5, spread=0.0, costs={"D_td-serial": 330.0, "D_td-msearch": 110.0})
    lines = dict(answer_of(race).lines())
    assert lines["recommended"].startswith("nothing: ")
    assert lines["look out"] == "5 rounds are too few for a verdict; race with rounds:20 or more"


def outcome_of(factor, *fail_on):
    named = {"a": [made("a")], "b": [made("b", factor=factor, seed=1)]}
    return gate.of_comparison(sides.comparison(named, None), [], fail_on)


def test_a_regression_fails_where_the_user_asks_for_it_and_only_there():
    assert [f.condition for f in outcome_of(1.3, "regressed", "too-few").failed] == ["regressed"]
    assert outcome_of(1.3, "regressed").code == CONDITIONS["regressed"].code
    assert outcome_of(1.3).code == outcome_of(0.7, "regressed").code == 0


@pytest.mark.parametrize("slow", ["b", "c"])
def test_a_regression_of_any_side_fails(slow):
    named = {name: [made(name, factor=1.3 if name == slow else 1.0, seed=i)] for i, name in enumerate("abc")}
    outcome = gate.of_comparison(sides.comparison(named, None), [], ["regressed"])
    assert {j.side for j in outcome.judged} == {"b", "c"}
    (failure,) = outcome.failed
    assert f" of {slow}: " in failure.reason


def test_an_incomplete_race_fails_whatever_the_user_asked_for():
    race = made("x", rounds=5, failed={"A-serial": 2})
    outcome = gate.of_race(race, answer_of(race), ["too-few"])
    assert outcome.code == outcome.record()["exit_code"] == Exit.INCOMPLETE and outcome.record()["problems"]
    jsonschema.Draft7Validator(SCHEMA).validate(json.loads(json.dumps(outcome.record())))


def test_a_race_fails_on_its_warnings():
    race = made("x", rounds=5)
    answer = answer_of(race)
    assert gate.of_race(race, answer, ["drift", "too-few"]).code == CONDITIONS["too-few"].code
    assert gate.of_race(race, answer, ["drift"]).code == 0
    assert gate.of_race(race, answer, ["target-missed"]).code == CONDITIONS["target-missed"].code


@pytest.mark.parametrize("outcome", [outcome_of(1.3, "regressed"), outcome_of(1.0)])
def test_the_verdict_of_a_comparison_keeps_to_its_schema(outcome):
    record = json.loads(json.dumps(outcome.record(), allow_nan=False))
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    assert [v["configuration"] for v in record["verdicts"]] == [
        "A-serial",
        "D_td-msearch",
        "D_td-serial",
        sides.TOGETHER,
    ]
    assert record["exit_code"] == outcome.code


def test_the_schema_refuses_what_is_no_verdict():
    record = outcome_of(1.3, "regressed").record()
    for wrong in ({"exit_code": "20"}, {"fail_on": ["anything"]}, {"kind": "other"}, {"more": 1}):
        assert list(jsonschema.Draft7Validator(SCHEMA).iter_errors(record | wrong)), wrong


def test_conditions_are_the_same_in_make_schema_and_docs():
    assert SCHEMA["definitions"]["condition"]["enum"] == list(CONDITIONS)
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", (DOCS / "gate.md").read_text(), re.M)
    assert rows == [(name, str(condition.code)) for name, condition in CONDITIONS.items()]
    codes = [condition.code for condition in CONDITIONS.values()]
    assert codes == sorted(set(codes))


def written(tmp_path, monkeypatch, capsys, race, **options):
    monkeypatch.setattr(write, "connect", lambda ini: None)
    monkeypatch.setattr(write, "load", lambda store, race_id: race)
    code = write.write_report(tmp_path / "rally.ini", "x", tmp_path, **options)
    return code, capsys.readouterr(), {f.name: f.read_text() for f in (tmp_path / "x").iterdir()}


def test_all_forms_of_a_report_begin_with_one_answer(tmp_path, monkeypatch, capsys):
    race = made("x", rounds=5, parameters={"test_mode": True, "number_of_shards": 2})
    code, printed, files = written(tmp_path, monkeypatch, capsys, race, fail_on=["too-few"])
    answer = answer_of(race)
    assert code == json.loads(files["verdict.json"])["exit_code"] == 23
    jsonschema.Draft7Validator(SCHEMA).validate(json.loads(files["verdict.json"]))
    assert printed.out.strip().splitlines()[0] == answer.head
    assert len(printed.out.strip().splitlines()) == len(answer.lines(PAGE)) <= MOST_LINES
    assert "[ERROR] FAIL_ON=too-few: 5 rounds are too few" in printed.err
    assert files["report.md"].splitlines()[4] == f"**{answer.head}**"
    assert files["report.html"].index(answer.head) < files["report.html"].index("What was raced")
    assert json.loads(files["report.json"])["answer"] == json.loads(json.dumps(answer.record()))
    assert "- parameters beside the defaults: number_of_shards=2\n" in files["report.md"]


def test_verbose_prints_the_whole_report(tmp_path, monkeypatch, capsys):
    _, printed, files = written(tmp_path, monkeypatch, capsys, made("x"), verbose=True)
    assert files["report.md"] in printed.out
    _, printed, _ = written(tmp_path, monkeypatch, capsys, made("x"))
    assert "## " not in printed.out


def test_the_figure_of_the_answer_stands_once(tmp_path, monkeypatch, capsys):
    race = made("x", costs={"A-serial": 20.0, "B-serial": 50.0, "D_td-msearch": 150.0, "D_td-serial": 330.0})
    sections = write.with_answer(answer_of(race), report_of(race).sections(race))
    figures = [figure for section in sections for figure in section.figures]
    assert sections[0].title == "Answer" and len(sections[0].figures) == 1
    assert figures == [f for s in report_of(race).sections(race) for f in s.figures]


def test_a_warning_without_a_number_is_told_as_json():
    record = Answer("x", warnings=[RaceWarning("k", "seen", "option")]).record()
    assert record["warnings"][0]["value"] is None and math.isnan(RaceWarning("k", "seen", "option").value)


def test_parameters_that_differ_stand_in_the_head_and_all_of_them_folded_at_the_end(tmp_path, monkeypatch, capsys):
    race = made("x", parameters={"number_of_shards": 2, "rounds": 100})
    _, _, files = written(tmp_path, monkeypatch, capsys, race)
    assert "- parameters beside the defaults: number_of_shards=2\n" in files["report.md"]
    titles = re.findall(r"^## (.+)$", files["report.md"], re.M)
    assert titles[0] == "Answer" and titles[-1] == "All parameters" and titles.count("All parameters") == 1
    folds = re.findall(
        r"<details><summary><h2 id=[^>]*>([^<]*)</h2></summary>(.*?)</details>", files["report.html"], re.S
    )
    assert [title for title, _ in folds] == ["All parameters"]
    assert all(name in folds[0][1] for name in ("number_of_shards", "rounds"))


def test_warnings_of_a_comparison_are_records_in_all_its_forms():
    outcome = outcome_of(1.3)
    kinds = [warning.kind for warning in outcome.warnings]
    assert kinds == ["no-noise-floor"] == [w["kind"] for w in outcome.record()["warnings"]]
    found = sides.comparison({"a": [made("a")], "b": [made("b", factor=1.3, seed=1)]}, None)
    record = gate.answer_of(found, outcome).record()["warnings"]
    assert [(w["kind"], bool(w["seen"] and w["why"] and w["option"])) for w in record] == [("no-noise-floor", True)]


def test_what_rallys_summary_does_not_explain_has_a_line_only_where_there_is_some():
    assert Answer("x").lines() == [("head", "x")]
    assert Answer("x", summary="per pass").lines() == [("head", "x"), ("Rally's rows", "per pass")]


def test_what_was_judged_on_too_few_units_in_common_is_not_called_without_a_gain():
    race = made("x", rounds=20)
    assert undecided(race).text == "nothing: no gain is shown beyond noise"
    assert undecided(race, 20).text == undecided(race).text
    assert undecided(race, 19).text == "nothing: only 19 rounds in common, a verdict takes 20"
    assert undecided(made("x", rounds=10), 9).text == "nothing: a verdict takes rounds:20"
