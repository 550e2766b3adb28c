"""The capacity model on layouts whose answer is known by hand, and on rates made from known costs."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import COSTS, INDEX_COSTS, curve, made, parts
from hypothesis import given, settings
from hypothesis import strategies as st

from _tools.report.race import ReportError
from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.plan import Cells, Goal, Models, cheapest, layouts, plan

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


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 3))
@settings(deadline=None)
def test_shards_are_spread_evenly_with_copies_apart(nodes, shards, replicas):
    if replicas >= nodes:
        with pytest.raises(ValueError):
            model.spread(nodes, shards, replicas)
        return
    held = model.spread(nodes, shards, replicas).values()
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert all(len({s[:-1] for s in of}) == len(of) for of in held)
    primaries = [sum(shard.endswith("p") for shard in of) for of in held]
    assert sum(primaries) == shards and max(primaries) - min(primaries) <= 1
    table = model.spread(nodes, shards, replicas)
    assert shards / nodes - 1e-9 <= model.visits_balanced(table) <= model.visits_in_turn(table) + 1e-9


def cells(costs, rate_of, documents=10**6, spread=0.0, nodes=3):
    rng = np.random.default_rng(1)
    found = []
    for shards in (1, 2, 3):
        for replicas in range(min(nodes, 3)):
            table = model.spread(nodes, shards, replicas)
            rates = [
                rate_of(costs, table, shards, documents) * np.exp(spread * rng.standard_normal()) for _ in range(5)
            ]
            used = parts(table, costs) if isinstance(costs, model.IndexModel) else {}
            found.append(model.Measured(table, shards, documents, [model.Counted(r, table, used) for r in rates]))
    return found


def rate(costs, table, shards, documents):
    return 1 / costs.seconds(table, shards, documents)


@given(*(st.floats(1e-4, 1e-2) for _ in range(3)))
@settings(max_examples=50, deadline=None)
def test_known_costs_of_searches_are_found_again(visit, document, request):
    costs = model.QueryModel(visit, document / 1e6, request)
    measured = cells(costs, rate)
    fitted = model.QueryModel.fitted(measured)
    assert [fitted.visit_s, 1e6 * fitted.document_s, fitted.request_s] == pytest.approx([visit, document, request])
    assert model.held_out(measured, model.QueryModel) == pytest.approx([c.rates[0] for c in measured])


def test_known_costs_of_indexing_are_found_again():
    measured = cells(INDEX_COSTS, rate)
    fitted = model.IndexModel.fitted(measured)
    assert fitted.primary_s == pytest.approx(INDEX_COSTS.primary_s)
    assert fitted.replica_s == pytest.approx(INDEX_COSTS.replica_s)
    assert fitted.copy_s == pytest.approx(INDEX_COSTS.copy_s)
    assert fitted.request_s == pytest.approx(INDEX_COSTS.request_s)


def test_a_cell_in_which_one_node_indexes_tells_what_the_others_do_by_their_cpu():
    (alone,) = (c for c in cells(INDEX_COSTS, rate) if c.shards == 1 and model.most_copies(c.table) == 1
                and sum(map(len, c.table.values())) == 1)  # fmt: skip
    fitted = model.IndexModel.fitted([alone])
    assert [fitted.primary_s, fitted.request_s] == pytest.approx([INDEX_COSTS.primary_s, INDEX_COSTS.request_s])


@pytest.mark.parametrize("costs", [COSTS, INDEX_COSTS])
def test_costs_are_fitted_to_the_geometric_mean_of_passes(costs):
    measured = cells(costs, rate)
    factors = (1.0, 1.0, 1.0, 1.0, 1.5)
    uneven = [
        replace(c, passes=[replace(p, rate=p.rate * by / 1.5 ** (1 / 5)) for p, by in zip(c.passes, factors)])
        for c in measured
    ]
    for cell in measured:
        expected = cell.seconds(type(costs).fitted(measured))
        assert cell.seconds(type(costs).fitted(uneven)) == pytest.approx(expected)


def test_nodes_whose_cpu_was_not_told_leave_what_the_busiest_takes():
    untold = [replace(c, passes=[replace(one, parts={}) for one in c.passes]) for c in cells(INDEX_COSTS, rate)]
    fitted = model.IndexModel.fitted(untold)
    assert [fitted.seconds(c.table) for c in untold] == pytest.approx([1 / c.rates[0] for c in untold], rel=0.05)


def test_a_pass_in_which_no_cpu_of_a_node_was_seen_tells_nothing_of_it():
    measured = cells(INDEX_COSTS, rate)
    first = measured[0].passes[0]
    unseen = replace(first, parts={node: of if of == 1 else 0.0 for node, of in first.parts.items()})
    assert unseen != first
    measured[0] = replace(measured[0], passes=[unseen, *measured[0].passes[1:]])
    expected = [INDEX_COSTS.seconds(cell.table) for cell in measured]
    assert [cell.seconds(model.IndexModel.fitted(measured)) for cell in measured] == pytest.approx(expected)


def test_shards_that_stand_elsewhere_in_another_pass_are_counted_where_they_stood():
    there, elsewhere = ({"a": ["0p"], "b": []}, {"a": [], "b": ["0p"]})
    each = INDEX_COSTS.primary_s + INDEX_COSTS.request_s / 2
    passes = [model.Counted(1 / each, table, parts(table)) for table in (there, elsewhere, elsewhere)]
    fitted = model.IndexModel.fitted([model.Measured(there, 1, 0, passes)])
    assert [fitted.primary_s, fitted.request_s] == pytest.approx([INDEX_COSTS.primary_s, INDEX_COSTS.request_s])


def test_of_a_cell_is_expected_what_its_shards_do_where_they_stood_in_each_pass():
    together, apart = {"a": ["0p", "1p"], "b": []}, {"a": ["0p"], "b": ["1p"]}
    tables = [together, apart, apart]
    cell = model.Measured(together, 2, 0, [model.Counted(100, table, parts(table)) for table in tables])
    assert cell.seconds(INDEX_COSTS) == INDEX_COSTS.seconds(apart) < INDEX_COSTS.seconds(together)


def test_two_numbers_of_nodes_tell_what_of_a_request_more_nodes_share():
    costs = model.QueryModel(2e-3, 1e-8, 1e-3, 5e-4)
    both = [*cells(costs, rate, nodes=1), *cells(costs, rate, nodes=2)]
    fitted = model.QueryModel.fitted(both)
    assert [fitted.visit_s, fitted.request_s, fitted.remote_s] == pytest.approx([2e-3, 1e-3, 5e-4])
    assert fitted.node_s == 0
    unseen = cells(costs, rate)
    expected = [1 / fitted.seconds(c.table, c.shards, c.documents) for c in unseen]
    assert expected == pytest.approx([c.rates[0] for c in unseen])
    of = model.IndexModel(1e-3, 8e-4, 3e-4, 0.0, 5e-4, 2e-4)
    fitted = model.IndexModel.fitted([*cells(of, rate, nodes=2), *cells(of, rate, nodes=3)])
    costs = [fitted.replica_s, fitted.copy_s, fitted.request_s, fitted.remote_s]
    assert costs == pytest.approx([8e-4, 3e-4, 5e-4, 2e-4])
    assert fitted.node_s == 0


@pytest.mark.parametrize("costs", [COSTS, INDEX_COSTS])
def test_both_readings_of_one_number_of_nodes_expect_the_same_there_and_less_of_more(costs):
    other = model.unshared(costs, 3)
    for measured in cells(costs, rate):
        assert rate(other, measured.table, measured.shards, measured.documents) == pytest.approx(measured.rates[0])
    four = model.spread(4, 2, 1)
    assert rate(other, four, 2, 10**6) < rate(costs, four, 2, 10**6)


def test_the_most_copies_are_those_of_the_node_that_holds_most():
    assert model.most_copies({"a": ["0p", "1r"], "b": ["1p"], "c": []}) == 2


def test_too_few_cells_are_held_out_of_nothing():
    assert np.isnan(model.held_out(cells(COSTS, rate)[:3], model.QueryModel)).all()


def test_a_cell_is_held_out_with_the_same_cell_of_other_races():
    one = cells(COSTS, rate)
    twice = [*one, *(replace(cell, passes=[replace(p, rate=1.2 * p.rate) for p in cell.passes]) for cell in one)]
    own, other = np.array(model.held_out(twice, model.QueryModel)).reshape(2, -1)
    for i, cell in enumerate(one):
        others = [of for j, of in enumerate(twice) if j % len(one) != i]
        seconds = model.QueryModel.fitted(others).seconds(cell.table, cell.shards, cell.documents)
        assert own[i] == other[i] == pytest.approx(1 / seconds)
    assert np.isnan(model.held_out([*one[:3], *one[:3]], model.QueryModel)).all()


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
    for line in (
        "Headroom: ",
        "Race [q]: capacity-query on 3 data nodes, raced ",
        "Race [m]: capacity-mixed on 3 data nodes, raced ",
        "Confidence: of 200 predictions",
        "**Extrapolation:** 2,000,000 documents",
        "Hold-out error",
    ):
        assert line in text
    error = text.split("Error: ")[1]
    assert float(error.split(" %")[0]) < 5  # made by the very model


@pytest.mark.parametrize("docs, carried, warns", [(300, 0.7, True), (300, 1.0, False), (0, 0.7, False)])
def test_a_plan_for_both_warns_where_searches_beside_documents_take_more_than_each_alone(docs, carried, warns):
    shape = {f"{s}s-{r}r": carried for s in (1, 2, 3) for r in (0, 1, 2)} | {"3s-2r": carried / 2}
    races = [made("q", "capacity-query"), made("i", "capacity-indexing"), made("m", "capacity-mixed", shape=shape)]
    text = plan(races, Goal(docs=docs, searches=100, replicas=1))
    found = re.findall(r"\*\*Warning:\*\* beside documents nodes carried (.+) × the searches", text)
    assert [float(part) for part in found] == ([pytest.approx(carried, rel=0.05)] if warns else [])
    advised = re.findall(r"plan with TARGET_QPS=(\d+)\.", text)
    assert [float(rate) for rate in advised] == ([pytest.approx(100 / carried, rel=0.05)] if warns else [])


def test_where_documents_leave_no_time_a_plan_says_that_no_search_was_expected():
    slow = {f"{s}s-{r}r": 0.02 for s in (1, 2, 3) for r in (0, 1, 2)}
    races = [made("q", "capacity-query"), made("i", "capacity-indexing", shape=slow), made("m", "capacity-mixed")]
    text = plan(races, Goal(docs=5, searches=10, replicas=1))
    assert "Error: 100.0 % in the median, 100.0 % at most." in text and "beside documents nodes" not in text


def test_a_plan_by_one_number_of_nodes_names_the_race_that_would_settle_it():
    three = [made("q", "capacity-query"), made("i", "capacity-indexing")]
    goal = Goal(docs=600, searches=200, replicas=1)
    text = plan(three, goal)
    assert "limited by searches (" in text
    assert "**Not settled:** " in text and "race the same with NODES=3 and capacity_nodes:[2, 0]" in text
    settled = plan([*three, made("q2", "capacity-query", on=2), made("i2", "capacity-indexing", on=2)], goal)
    assert "Not settled" not in settled
    most, least = (int(found.split("**Nodes: ")[1].split(",")[0]) for found in (text, settled))
    assert least < most and f"**Not settled:** {least} may do" in text


def test_each_kind_of_request_takes_two_numbers_of_nodes_of_its_own():
    goal = Goal(docs=600, searches=200, replicas=1)
    assert "Not settled" in plan([made("q", "capacity-query"), made("i", "capacity-indexing", on=2)], goal)


def test_cells_of_two_numbers_of_nodes_must_be_one_more():
    def few(*args, **options):
        whole = made(*args, **options)
        kept = [s for s in whole.samples if s.meta["cell"] in ("1s-0r", "2s-0r")]
        return replace(whole, samples=kept)

    with pytest.raises(ReportError, match="a node at its limit in more than 4 cells"):
        plan([few("q", "capacity-query"), few("q2", "capacity-query", on=2)], Goal(docs=0, searches=100, replicas=1))


def test_passes_that_were_not_steady_are_left_out():
    names, goal = [f"{s}s-{r}r" for s in (1, 2, 3) for r in (0, 1, 2)], Goal(docs=0, searches=100, replicas=1)
    late = dict.fromkeys(names, lambda part: 0.8 * part if part < 0.75 else 0.6 + 1.6 * (part - 0.75))
    race = made("q", "capacity-query")
    fell = made("fell", "capacity-query", shape=dict.fromkeys(names, 3.0), times=late)
    (nodes,) = {plan(races, goal).split(",")[0] for races in ([race], [race, fell])}
    assert nodes.startswith("# Plan\n\n- **Nodes: ")
    text = plan([race, fell], goal)
    assert "Race [fell]: in 27 of 27 cells and passes the rate was not steady, and they are left out" in text


def test_cells_in_which_no_node_was_at_its_limit_are_left_out():
    race, goal = made("q", "capacity-query"), Goal(docs=0, searches=100, replicas=1)
    idle = made("idle", "capacity-query", busy=0.5, shape={f"{s}s-{r}r": 0.1 for s in (1, 2, 3) for r in (0, 1, 2)})
    (nodes,) = {plan(races, goal).split(",")[0] for races in ([race], [race, idle])}
    assert nodes.startswith("# Plan\n\n- **Nodes: ")
    assert "Race [idle]: in 27 of 27 cells and passes no node was at its limit, and they are left out" in plan(
        [race, idle], goal
    )
    with pytest.raises(ReportError, match="a node at its limit in more than 3 cells"):
        plan([idle], goal)


def test_a_prediction_misses_as_cells_were_missed():
    def headroom(shape):
        text = plan([made("q", "capacity-query", spread=0.0, shape=shape)], Goal(docs=0, searches=100, replicas=1))
        low, high = re.search(r"Headroom: .*? \[([\d.−]+) %, ([\d.−]+) %\]", text).groups()
        return float(high) - float(low)

    assert headroom({}) < 0.1 and headroom({"1s-1r": 0.8, "3s-0r": 1.25}) > 5


def test_predictions_draw_passes_anew_with_replacement():
    apart = [len({one.queries for one in Cells(cells(COSTS, rate, spread=s), []).predictions()}) for s in (0.0, 0.1)]
    assert apart[0] == 1 and apart[1] > 100


@pytest.mark.parametrize("docs, named", [(10, True), (0, False)])
def test_replicas_that_only_searches_were_raced_with_are_an_extrapolation_for_documents(docs, named):
    races = [made("q", "capacity-query"), made("i", "capacity-indexing", on=2)]
    text = plan(races, Goal(docs=docs, searches=10, replicas=2))
    assert ("**Extrapolation:** 2 replicas, raced were 1 at most;" in text) is named


def test_more_races_of_the_same_few_cells_are_no_more_cells():
    few = {"1s-0r", "2s-0r", "3s-0r"}
    races = [made(name, "capacity-query") for name in ("a", "b")]
    races = [replace(race, samples=[s for s in race.samples if s.meta["cell"] in few]) for race in races]
    with pytest.raises(ReportError, match="at its limit in more than 3 cells"):
        plan(races, Goal(docs=0, searches=10, replicas=0))


def test_a_plan_for_what_was_raced_is_no_extrapolation():
    text = plan([made("i", "capacity-indexing")], Goal(docs=10, searches=0, replicas=1))
    assert "Extrapolation" not in text and "capacity-mixed is among RACES" in text


@pytest.mark.parametrize("shards, docs, named", [("1", 50, True), ("123", 50, False), ("1", 0, False)])
def test_more_copies_on_a_node_than_were_raced_beside_documents_are_an_extrapolation(shards, docs, named):
    mixed = made("m", "capacity-mixed", docs=(0, 50))
    mixed = replace(mixed, samples=[s for s in mixed.samples if s.meta.get("cell", "1s")[0] in shards])
    races = [made("q", "capacity-query"), made("i", "capacity-indexing"), mixed]
    text = plan(races, Goal(docs=docs, searches=100, replicas=1))
    said = "**Extrapolation:** 2 copies on a node that searches and indexes, raced were 1 at most;"
    assert (said in text) is named and ("**Nodes: 3, shards: 2, replicas: 1**" in text or not docs)


def test_a_plan_warns_where_the_cost_of_documents_was_not_seen(monkeypatch):
    race, goal = made("q", "capacity-query", spread=0.0), Goal(docs=0, searches=10, replicas=1)
    assert "too small to tell" not in plan([race], goal)
    monkeypatch.setattr("capacities.COSTS", model.QueryModel(2e-3, 0.0, 1e-3))
    assert "too small to tell" in plan([made("q", "capacity-query", spread=0.0)], goal)


@pytest.mark.parametrize(
    "races, goal, line",
    [
        ([made("q", "capacity-query")], Goal(10, 0, 1), "TARGET_DOCS takes races of capacity-indexing"),
        ([made("i", "capacity-indexing")], Goal(0, 10, 1), "TARGET_QPS takes races of capacity-query"),
        (
            [made("q", "capacity-query"), curve()],
            Goal(0, 1, 1),
            "] has no samples of capacity-query, capacity-indexing, capacity-mixed, by which a plan is made",
        ),
        ([made("q", "capacity-query")], Goal(0, 10**6, 1), "no cluster of up to 50 nodes like these carries the load"),
        (
            [made("q", "capacity-query")],
            Goal(0, 2200, 49),
            "50 nodes may carry the load, or none of up to 50: ",
        ),
        *(
            (
                [made("q", f"capacity-{challenge}"), made("m", "capacity-mixed", parameters={name: value})],
                Goal(1, 1, 1),
                f"race [m] has {name} [{value}], race [q] has [{other}]",
            )
            for challenge, name, value, other in (
                ("query", "words_mapping", "light", "heavy"),
                ("indexing", "word_frequency", "natural", None),
                ("indexing", "capacity_bulk_size", 7, None),
                ("query", "count_all_hits", True, None),
            )
        ),
        (
            [
                made("i", "capacity-indexing", parameters={"refresh_interval": "-1"}),
                made("m", "capacity-mixed", parameters={"refresh_interval": "30s"}),
                made("n", "capacity-mixed", parameters={"refresh_interval": "default"}),
            ],
            Goal(1, 1, 1),
            "race [n] has refresh_interval [default], race [m] has [30s]",
        ),
        (
            [
                made("i", "capacity-indexing", parameters={"capacity_clients": 216}),
                made("q", "capacity-query", parameters={"capacity_clients": 16}),
                made("m", "capacity-mixed", parameters={"capacity_clients": 96}),
            ],
            Goal(1, 1, 1),
            "race [m] has capacity_clients [96], race [q] has [16]",
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


def test_of_parameters_that_a_challenge_does_not_take_its_races_need_not_be_alike():
    bulk = made("i", "capacity-indexing", parameters={"capacity_bulk_size": 100, "count_all_hits": False})
    assert "Nodes" in plan([made("q", "capacity-query", parameters={"count_all_hits": True}), bulk], Goal(1, 1, 1))


def test_predictions_are_of_the_reading_by_which_more_nodes_share_nothing():
    predictions = Cells(cells(COSTS, rate, spread=0.05), cells(INDEX_COSTS, rate, spread=0.05)).predictions()
    for one in predictions:
        assert one.queries.request_s == one.indexing.request_s == 0
    assert np.mean([one.queries.node_s for one in predictions]) > 0
    assert np.mean([one.indexing.node_s for one in predictions]) > 0
    two = [[*cells(costs, rate, nodes=2), *cells(costs, rate)] for costs in (COSTS, INDEX_COSTS)]
    for one in Cells(*two).predictions():
        assert one.queries.request_s == pytest.approx(COSTS.request_s)
        assert one.indexing.request_s == pytest.approx(INDEX_COSTS.request_s)


def test_a_cell_that_takes_twice_as_long_as_the_others_expect_is_missed_by_2():
    searched, indexed = cells(COSTS, rate), cells(INDEX_COSTS, rate)
    halved = [replace(one, rate=one.rate / 2) for one in searched[0].passes]
    slow = [replace(searched[0], passes=halved), *searched[1:]]
    misses = Cells(slow, indexed).misses()
    assert misses["searches"][0] == pytest.approx(2) and max(misses["searches"][1:]) < 1.5
    assert misses["indexing"] == pytest.approx([1] * 9)
    predicted = Cells(slow, indexed).predictions()
    assert max(one.search_miss for one in predicted) == pytest.approx(2)
    assert {round(one.document_miss, 6) for one in predicted} == {1}
    assert Cells(searched[:3], []).misses() == {"searches": [], "indexing": []}


def test_the_work_of_the_busiest_node_is_that_of_each_kind_of_request_times_what_its_model_misses():
    goal = Goal(docs=100, searches=10, replicas=0, documents=3 * 10**6)
    search = 2e-3 + 1e-8 * 10**6 + 1e-3 / 3
    document = 1e-3 / 3 + 5e-4 / 3
    assert Models(COSTS, INDEX_COSTS).work(3, 3, goal) == pytest.approx((10 * search, 100 * document))
    assert Models(COSTS, INDEX_COSTS, 2.0, 3.0).work(3, 3, goal) == pytest.approx((20 * search, 300 * document))
    assert Models(COSTS, INDEX_COSTS).busy(3, 3, goal) == pytest.approx(10 * search + 100 * document)
    assert Models(None, INDEX_COSTS).work(3, 3, goal) == pytest.approx((0, 100 * document))
    assert Models(COSTS, None).work(3, 3, goal) == pytest.approx((10 * search, 0))
    own = Models(replace(COSTS, node_s=4e-3), replace(INDEX_COSTS, node_s=5e-3))
    assert own.work(3, 3, goal) == pytest.approx((10 * (search + 4e-3), 100 * (document + 5e-3)))
    asked = Models(replace(COSTS, remote_s=6e-3), None)  # one shard a node, by another in two of three requests
    assert asked.work(3, 3, goal) == pytest.approx((10 * (search + 4e-3), 0))
    sent = Models(None, replace(INDEX_COSTS, remote_s=9e-3))  # a third of the primaries, sent to others in two of three
    assert sent.work(3, 3, goal) == pytest.approx((0, 100 * (document + 2e-3)))
    copied = replace(goal, replicas=2)  # a third of the primaries, each of which sends two replicas
    held = 1e-3 / 3 + 8e-4 * 2 / 3 + 2e-4 * 2 / 3 + 5e-4 / 3
    assert Models(None, INDEX_COSTS).work(3, 3, copied) == pytest.approx((0, 100 * held))


@given(st.floats(0, 1000), st.floats(1, 200), st.integers(0, 1))
@settings(max_examples=20, deadline=None)
def test_of_each_number_of_nodes_the_fewest_shards_that_do_about_as_well_as_any_are_taken(docs, searches, replicas):
    models, goal = Models(COSTS, INDEX_COSTS), Goal(docs, searches, replicas, documents=10**6)
    found = list(itertools.islice(layouts(models, goal), 8))
    assert [layout.nodes for layout in found] == list(range(replicas + 1, replicas + 9))
    for layout in found:
        busy = [models.busy(layout.nodes, shards, goal) for shards in range(1, 2 * layout.nodes + 1)]
        assert layout.busy == busy[layout.shards - 1] <= 1.02 * min(busy)
        assert all(of > 1.02 * min(busy) for of in busy[: layout.shards - 1])
