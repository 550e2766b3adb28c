"""The capacity model on layouts whose answer is known by hand, and on rates made from known costs."""

import numpy as np
import pytest
from capacities import COSTS, INDEX_COSTS, made
from hypothesis import given, settings
from hypothesis import strategies as st

from _tools.report.race import ReportError
from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.plan import Goal, Models, cheapest, layouts, plan

UNEVEN = {"a": ["0p"], "b": ["0r", "1p"], "c": ["1r"]}
LAYOUTS = [
    # nodes, shards, replicas, visits balanced, visits in turn, documents taken by the node with most to do
    (3, 1, 0, 1, 1, 1),
    (3, 1, 1, 1 / 2, 1 / 2, 1),
    (3, 1, 2, 1 / 3, 1 / 3, 1),
    (3, 2, 0, 1, 1, 1 / 2),
    (3, 2, 1, 2 / 3, 1, 1),
    (3, 3, 0, 1, 1, 1 / 3),
    (3, 3, 1, 1, 1, 2 / 3),
    (3, 3, 2, 1, 1, 1),
    (2, 3, 0, 2, 2, 2 / 3),
]


@pytest.mark.parametrize("nodes, shards, replicas, balanced, in_turn, taken", LAYOUTS)
def test_the_busiest_node_of_known_layouts(nodes, shards, replicas, balanced, in_turn, taken):
    table = model.spread(nodes, shards, replicas)
    assert model.visits_balanced(table) == pytest.approx(balanced)
    assert model.visits_in_turn(table) == pytest.approx(in_turn)
    assert max(p + r for p, r in model.copies(table)) == pytest.approx(taken)


def test_two_shards_with_a_replica_are_limited_by_the_node_that_holds_two_unless_searches_go_around_it():
    assert model.visits_in_turn(UNEVEN) == 1
    assert model.visits_balanced(UNEVEN) == pytest.approx(2 / 3)


@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None)
def test_shards_are_spread_evenly_with_copies_apart(nodes, shards, replicas):
    if replicas >= nodes:
        with pytest.raises(ValueError):
            model.spread(nodes, shards, replicas)
        return
    held = model.spread(nodes, shards, replicas).values()
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert all(len({s[:-1] for s in of}) == len(of) for of in held)
    table = model.spread(nodes, shards, replicas)
    assert shards / nodes - 1e-9 <= model.visits_balanced(table) <= model.visits_in_turn(table) + 1e-9


def cells(costs, rate_of, documents=10**6, spread=0.0):
    rng = np.random.default_rng(1)
    found = []
    for shards in (1, 2, 3):
        for replicas in (0, 1, 2):
            table = model.spread(3, shards, replicas)
            rates = [
                rate_of(costs, table, shards, documents) * np.exp(spread * rng.standard_normal()) for _ in range(5)
            ]
            found.append(model.Measured(table, shards, documents, rates))
    return found


def rate(costs, table, shards, documents):
    return 1 / costs.seconds(table, shards, documents)


@given(*(st.floats(1e-4, 1e-2) for _ in range(3)))
@settings(max_examples=50, deadline=None)
def test_known_costs_of_searches_are_found_again(visit, document, request):
    costs = model.QueryModel(visit, document / 1e6, request)
    measured = cells(costs, rate)
    fitted = model.fit_queries(measured)
    assert [fitted.visit_s, 1e6 * fitted.document_s, fitted.request_s] == pytest.approx([visit, document, request])
    assert model.held_out(measured, model.fit_queries) == pytest.approx([c.rates[0] for c in measured])


def test_known_costs_of_indexing_are_found_again():
    measured = cells(INDEX_COSTS, rate)
    fitted = model.fit_indexing(measured)
    assert fitted.primary_s == pytest.approx(INDEX_COSTS.primary_s)
    assert fitted.replica_s == pytest.approx(INDEX_COSTS.replica_s)
    assert fitted.request_s == pytest.approx(INDEX_COSTS.request_s)


def test_too_few_cells_are_held_out_of_nothing():
    assert np.isnan(model.held_out(cells(COSTS, rate)[:3], model.fit_queries)).all()


def test_the_cheapest_cluster_is_the_smallest_that_keeps_the_headroom():
    models = Models(COSTS, INDEX_COSTS)
    goal = Goal(docs=600, searches=100, replicas=1, documents=10**6)
    best = cheapest(models, goal)
    by_nodes = {layout.nodes: layout for layout in layouts(models, goal)}
    assert best == by_nodes[best.nodes] and best.busy <= 0.7
    assert all(layout.busy > 0.7 for nodes, layout in by_nodes.items() if nodes < best.nodes)
    assert best.nodes > min(by_nodes) == 2


def test_a_plan_states_headroom_confidence_extrapolation_and_error():
    races = [made("q", "capacity-query"), made("i", "capacity-indexing"), made("m", "capacity-mixed")]
    text = plan(races, Goal(docs=300, searches=100, replicas=1, growth=2))
    assert "**Nodes: " in text and "600 documents/s and 200 searches/s on 2,000,000 documents" in text
    for line in ("Headroom: ", "Confidence: of 200 fits", "**Extrapolation:** 2,000,000 documents", "Hold-out error"):
        assert line in text
    error = text.split("Error: ")[1]
    assert float(error.split(" %")[0]) < 5  # made by the very model


def test_a_plan_for_what_was_raced_is_no_extrapolation():
    text = plan([made("i", "capacity-indexing")], Goal(docs=10, searches=0, replicas=1))
    assert "Extrapolation" not in text and "capacity-mixed is among RACES" in text


def test_a_plan_warns_where_the_cost_of_documents_was_not_seen(monkeypatch):
    race, goal = made("q", "capacity-query", spread=0.0), Goal(docs=0, searches=10, replicas=1)
    assert "too small to tell" not in plan([race], goal)
    monkeypatch.setattr("capacities.COSTS", model.QueryModel(2e-3, 0.0, 1e-3))
    assert "too small to tell" in plan([made("q", "capacity-query", spread=0.0)], goal)


@pytest.mark.parametrize(
    "races, goal, line",
    [
        ([made("q", "capacity-query")], Goal(10, 0, 1), "TARGET_DOCS takes a race of capacity-indexing"),
        ([made("i", "capacity-indexing")], Goal(0, 10, 1), "TARGET_QPS takes a race of capacity-query"),
        ([made("q", "capacity-query")], Goal(0, 10**6, 1), "no cluster of up to 50 nodes like these carries the load"),
        (
            [made("q", "capacity-query"), made("i", "capacity-indexing", parameters={"words_mapping": "light"})],
            Goal(1, 1, 1),
            "race [i] has words_mapping [light], race [q] has [heavy]",
        ),
        (
            [made("q", "capacity-query"), made("i", "capacity-indexing", cores=0.8)],
            Goal(1, 1, 1),
            "race [i] ran on nodes of 0.8 cores and 512 MB of heap, race [q] on nodes of 0.4 cores",
        ),
    ],
)
def test_what_cannot_be_planned_gets_one_clear_line(races, goal, line):
    with pytest.raises(ReportError) as e:
        plan(races, goal)
    assert line in str(e.value) and "\n" not in str(e.value)
