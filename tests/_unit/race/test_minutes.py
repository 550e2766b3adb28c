"""What MINUTES makes of the track parameters, what is said before the race, and what its report says after it."""

import json
from dataclasses import replace

import pytest
from races import made
from stores import Store, documents_of

from _tools.race import clusters, minutes
from _tools.race.variables import VARIABLES, RaceError
from _tools.report import limits
from _tools.report.answer import answer_of
from _tools.report.store import load
from cluster_metrics.core.challenge import challenges


@pytest.fixture
def given(monkeypatch):
    """Sets variables of make, and no other."""

    def given(**variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    return given


def test_rounds_keep_to_the_time_and_passes_give_way(given):
    given(MINUTES=10)
    assert minutes.fitted("query-decomp", "") == {"race_minutes": 10, "passes": 1}
    assert minutes.fitted("query-decomp", "passes:2") == {"race_minutes": 10}
    assert minutes.fitted("ingest-decomp", "") == {"race_minutes": 10}
    given(MINUTES=challenges()["query-decomp"].minutes)
    assert minutes.fitted("query-decomp", "") == {"race_minutes": 22}
    given()
    assert minutes.fitted("query-decomp", "") == minutes.fitted("capacity-query", "") == {}


def test_rally_gets_what_was_given_and_the_time(given):
    given(MINUTES=10, PARAMS="rounds:30,variants:A")
    with clusters.track_params(None) as params:
        assert json.loads(params) == {"rounds": 30, "variants": "A", "race_minutes": 10, "passes": 1}
    given(PARAMS="rounds:30,variants:A")
    with clusters.track_params(None) as params:
        assert params == "rounds:30,variants:A"


@pytest.mark.parametrize("challenge", sorted(challenges()))
def test_a_challenge_keeps_to_a_time_or_refuses_it_in_one_line(given, challenge):
    given(MINUTES=10)
    record = challenges()[challenge]
    if any(operation.rounds for operation in record.operations) and challenge != "sketch-floor":
        assert minutes.fitted(challenge, "")["race_minutes"] == 10
    else:
        with pytest.raises(RaceError, match=rf"MINUTES is \[10\], to which {challenge} cannot keep.* in PARAMS") as e:
            minutes.fitted(challenge, "")
        assert "\n" not in str(e.value) and f"about {record.minutes} minutes" in str(e.value)


def test_what_may_be_expected_is_said_before_the_race(given):
    given(MINUTES=10)
    assert minutes.expected("query-decomp", "").endswith("so about 45 of 100 fit with passes:1; a verdict takes 20")
    given(MINUTES=3)
    short = minutes.expected("query-decomp", "")
    assert "13 s for each round with its share of the set-up, so about 13 of 100 fit with passes:1; this" in short
    assert short.endswith("a verdict, which takes 20: race with MINUTES=5 or more")
    given(MINUTES=60)
    assert "about 10 of 10 fit; this cannot carry a verdict" in minutes.expected("query-decomp", "rounds:10")
    assert minutes.expected("query-decomp", "rounds:10").endswith("race with rounds:20 or more")
    assert minutes.expected("query-decomp", "rounds:20").endswith("about 20 of 20 fit; a verdict takes 20")


def test_a_report_says_that_rounds_were_cut_and_how_many_there_are():
    race = made("x", rounds=24, parameters={"rounds": 40, "race_minutes": 10})
    assert "24 rounds of 40, cut to fit 10 minutes" in answer_of(race).head
    assert "24 rounds of 40, cut to fit 10 minutes (`race_minutes`)" in limits.section(race).text
    for parameters in ({"rounds": 24, "race_minutes": 10}, {"rounds": 24, "race_minutes": 0}):
        whole = made("x", rounds=24, parameters=parameters)
        assert "cut to fit" not in answer_of(whole).head + limits.section(whole).text
    ended = replace(race, document=race.document | {"results": None})
    assert "cut to fit" not in answer_of(ended).head + limits.section(ended).text


def test_rounds_that_were_cut_are_no_gap_and_those_that_are_lost_between_are_one():
    def problems(lost, **parameters):
        race = made("x", rounds=24, parameters={"rounds": 40, "passes": 3} | parameters)
        document, documents = documents_of(race)
        lacking = [d for d in documents if d["operation"] == "A-serial" and d["meta"]["round"] in lost]
        documents = [d for d in documents if d not in lacking]
        return load(Store((document, documents)), "x").problems

    assert problems([], race_minutes=10) == []
    assert problems([7], race_minutes=10) == ["Samples coverage of A-serial lack round 7."]
    [lost] = [p for p in problems([]) if "coverage" in p]
    assert "lack round 25" in lost
