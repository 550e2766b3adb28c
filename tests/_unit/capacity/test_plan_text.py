"""What a plan says: headroom, confidence, costs, doubts, and what of it goes beyond what was raced."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from capacities import COSTS, INDEX_COSTS, falling, made

from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report import plan as planning
from cluster_metrics.capacity._report.plan import Goal, Models, plan


def test_a_plan_shows_the_load_at_which_the_busiest_node_is_full():
    goal = Goal(docs=300, searches=100, replicas=1, documents=10**6)
    text = plan([made("q", "capacity-query", spread=0.0), made("i", "capacity-indexing", spread=0.0)], goal)
    best = int(text.split("**Nodes: ")[1].split(",")[0])
    lines = text.split("## What more or fewer nodes do")[1].split("## Model")[0].splitlines()
    shown = [line.strip("| ").split("|") for line in lines if re.match(r"\| +\d", line)]
    rows = [[float(re.sub("[ ,%]", "", value)) for value in line] for line in shown]
    assert [nodes for nodes, *_ in rows] == list(range(2, best + 3))
    for _, _, busy, docs, searches in rows:
        assert docs == pytest.approx(300 / (busy / 100), rel=0.02)
        assert searches == pytest.approx(100 / (busy / 100), rel=0.02)
    assert next(nodes for nodes, _, busy, *_ in rows if busy <= 70) == best


def test_what_searches_beside_documents_take_does_not_grow_with_the_load_that_fills_a_node():
    models = Models(COSTS, INDEX_COSTS, together=model.Together(0.05, 2e-3))
    goal = Goal(docs=300, searches=100, replicas=1, documents=10**6)
    lines = planning._around(models, goal, planning.Layout(3, 1, 0.5)).splitlines()
    rows = [
        [float(re.sub("[ ,%]", "", v)) for v in line.strip("| ").split("|")]
        for line in lines
        if re.match(r"\| +\d", line)
    ]
    assert len(rows) == 4
    for nodes, shards, _, docs, searches in rows:
        full = replace(goal, docs=docs, searches=searches)
        assert models.busy(int(nodes), int(shards), full) == pytest.approx(1, abs=0.01)


def test_95_percent_of_predictions_leave_2_5_percent_out_on_either_side(monkeypatch):
    models, goal = Models(COSTS, None), Goal(docs=0, searches=10, replicas=0, documents=10**6)
    cells = SimpleNamespace(predictions=lambda: [models] * 200)
    for lost, most in ((6, "more than 50"), (4, "3")):
        needed = iter([*[planning.Layout(1, 1, 0.5)] * 4, *[planning.Layout(3, 1, 0.5)] * (196 - lost), *[None] * lost])
        monkeypatch.setattr(planning, "cheapest", lambda one, goal, needed=needed: next(needed))
        nodes, *_, confidence = planning._said(cells, models, goal, planning.Layout(3, 1, 0.5), "a load")
        assert f"enough in {(200 - lost) / 2:.1f} % of predictions" in nodes
        assert confidence.endswith(f"are content with so many nodes; 95 % need 3 to {most}.")


def test_headroom_is_told_with_what_95_percent_of_predictions_leave():
    models, goal = Models(COSTS, None), Goal(docs=0, searches=10, replicas=0, documents=10**6)
    missing = [replace(models, search_miss=1 + n / 100) for n in range(201)]
    _, headroom, _ = planning._said(
        SimpleNamespace(predictions=lambda: missing), models, goal, planning.Layout(3, 1, 0.25), "a load"
    )
    busy = models.busy(3, 1, goal)
    free, low, high, wanted = map(float, re.findall(r"([\d.]+) %", headroom))
    assert (free, wanted) == (75, 30)
    assert [low, high] == pytest.approx([100 * (1 - 2.95 * busy), 100 * (1 - 1.05 * busy)], abs=0.1)


def test_costs_are_told_in_ms_and_errors_by_their_median_and_the_greatest():
    models = Models(
        model.QueryModel(1e-3, 2e-9, 3e-3, 4e-3, 5e-3),
        model.IndexModel(6e-3, 7e-3, 8e-3, 9e-3, 1e-2, 1.1e-2, 1.2e-2, 1.3e-2, at_once=100),
        together=model.Together(0.014, 0.15),
    )
    text = planning._model(models, {"searches": [0.01, 0.02, 0.09], "indexing": []})
    costs = [float(of) for of in re.findall(r"^\| (?:search|document|a second of).+\| +([\d.]+) +\|", text, re.M)]
    assert costs == list(range(1, 15))
    assert "\n\nBeside documents a search takes 15.0 % longer.\n\n" in text
    alone = replace(models, indexing=replace(models.indexing, at_once=1))
    assert "for each copy of its shards" in text and "for each copy of its shards" not in planning._model(alone, {})
    assert "Hold-out error, searches, each cell left out in turn: 2.0 % in the median of 3, 9.0 % at most." in text


def test_a_plan_says_what_of_its_races_is_to_be_doubted():
    whole, goal = made("q", "capacity-query"), Goal(docs=0, searches=10, replicas=0)
    race = made("u", "capacity-query", document={"results": {}}, shape={"1s-1r": 0.8, "3s-0r": 1.25})
    race = replace(race, target=[*race.target, {"node": "coordinator", "cores": 1, "heap_mb": 512}])
    assert "not finished" not in plan([whole], goal) and "the model misses" not in plan([whole], goal)
    text = plan([race], replace(goal, headroom=0.001))
    assert "**Warning:** race [u] was not finished." in text and "Race [u] simulates nodes on one machine" in text
    assert "**Warning:** the model misses cells that it has not seen by " in text
    assert "race the same with NODES=2 and capacity_nodes:[1, 0]" in planning._open([1])


@pytest.mark.parametrize("last, warns", [(1.3, True), (1.0, False)])
def test_a_plan_warns_of_races_that_drifted(last, warns):
    race = made("q", "capacity-query", passes=6, spread=0.005, of_pass={6: last})
    text = plan([race], Goal(docs=0, searches=10, replicas=0))
    assert ("**Warning:** race [q]: drift: from the first pass to the last throughput changed by +" in text) == warns


def test_a_plan_names_the_cells_of_which_no_pass_is_left():
    times = dict.fromkeys(("1s-1r", "3s-2r"), falling)
    race, goal = made("q", "capacity-query", times=times), Goal(docs=0, searches=10, replicas=0)
    assert "**Warning:** race [q]: no pass of 1s-1r, 3s-2r is left, so costs are fitted without." in plan([race], goal)
    assert "is left, so" not in plan([made("q", "capacity-query")], goal)


def test_of_mixed_cells_that_tell_nothing_it_is_not_said_that_there_are_none():
    goal = Goal(docs=10, searches=10, replicas=1)
    alone, idle = [made("q", "capacity-query"), made("i", "capacity-indexing")], made("m", "capacity-mixed", busy=0.2)
    assert "\nNo race of capacity-mixed is among RACES: " in plan(alone, goal)
    text = plan([*alone, idle], goal)
    assert "No race of capacity-mixed" not in text and "\nNo cell with a node at its limit beside documents" in text


@pytest.mark.parametrize(
    "goal, named",
    [
        (Goal(docs=0, searches=10, replicas=1), []),
        (Goal(docs=0, searches=10, replicas=2), ["3 nodes, raced were 2 at most", "2 replicas, raced were 1 at most"]),
        (Goal(docs=0, searches=10, replicas=1, growth=1.5), ["1,500,000 documents, raced were 1,000,000 at most"]),
        (Goal(docs=0, searches=10, replicas=1, documents=2e6), ["2,000,000 documents, raced were 1,000,000 at most"]),
    ],
)
def test_a_plan_says_what_of_it_goes_beyond_what_was_raced(goal, named):
    race = made("q", "capacity-query", spread=0.0, on=2)
    for sample in race.of("capacity-prepare"):
        sample.meta["documents"] //= 2 if sample.meta["cell"] == "1s-0r" else 1
    text = plan([race], goal)
    found = re.findall(r"\*\*Extrapolation:\*\* ([^;]+);", text)
    assert [line for line in found if "shards" not in line] == named
