"""What ``make plan`` plans for, by which races, and where it writes the plan."""

import pytest
from capacities import made

from _tools.race import __main__ as command
from _tools.race.variables import VARIABLES, Exit, RaceError
from cluster_metrics.capacity._report.plan import Goal, plan


@pytest.fixture(scope="module")
def races():
    found = [made("q", "capacity-query"), made("i", "capacity-indexing")]
    found.append(made("lossy", "capacity-query", failed={"capacity-query": 2}))
    return {race.id: race for race in found}


@pytest.fixture
def planned(monkeypatch, tmp_path, races):
    """Plans by these variables; returns the exit code and the folder of the reports."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "REPORTS", tmp_path)
    monkeypatch.setattr(command, "connect", lambda ini: races)
    monkeypatch.setattr(command, "load_all", lambda store, name, challenge: [store[name]])
    monkeypatch.setattr(command, "with_store", lambda write: write(tmp_path / "rally.ini"))

    def planned(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return command.plan(), tmp_path

    return planned


@pytest.mark.parametrize(
    "variables, goal",
    [
        ({"RACES": "q", "TARGET_QPS": "100"}, Goal(docs=0, searches=100, replicas=1, growth=1, headroom=0.3)),
        ({"RACES": "i", "TARGET_DOCS": "300"}, Goal(docs=300, searches=0, replicas=1, growth=1, headroom=0.3)),
        (
            {"RACES": "q i q", "TARGET_DOCS": "300", "TARGET_QPS": "100", "REPLICAS": "2", "GROWTH": "1.5"}
            | {"HEADROOM": "0.2", "DOCUMENTS": "500000"},
            Goal(docs=300, searches=100, replicas=2, growth=1.5, headroom=0.2, documents=500_000),
        ),
    ],
)
def test_a_plan_is_of_the_load_that_the_variables_say_and_stands_beside_the_first_race(
    planned, races, capsys, variables, goal
):
    names = list(dict.fromkeys(variables["RACES"].split()))
    code, reports = planned(**variables)
    text = (reports / names[0] / "plan.md").read_text()
    assert code == Exit.DONE and text == plan([races[name] for name in names], goal)
    assert text in capsys.readouterr().out


def test_a_plan_by_an_incomplete_race_names_it_first(planned):
    code, reports = planned(RACES="lossy", TARGET_QPS="100")
    assert code == Exit.INCOMPLETE
    first, *_ = (reports / "lossy" / "plan.md").read_text().splitlines()
    assert first == "INCOMPLETE: race lossy: Of capacity-query 2 failed."


@pytest.mark.parametrize(
    "variables, said",
    [
        ({"TARGET_QPS": "100"}, "^RACES names the races to plan by"),
        ({"RACES": "q"}, "say what to plan for"),
        ({"RACES": "q", "TARGET_QPS": "100", "GROWTH": "0"}, "GROWTH is above 0$"),
    ],
)
def test_a_plan_of_nothing_is_refused(planned, variables, said):
    with pytest.raises(RaceError, match=said):
        planned(**variables)
