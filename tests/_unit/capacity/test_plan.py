"""Plans by races that are made of known costs."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import COSTS, INDEX_COSTS, curve, grid, made
from hypothesis import given, settings
from hypothesis import strategies as st

from _tools.report.race import ReportError
from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.fitted import _drawn
from cluster_metrics.capacity._report.plan import Cells, Goal, Models, cheapest, layouts, plan


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


@pytest.mark.parametrize("cells, races", [(6, 1), (3, 4)])
def test_few_cells_tell_by_how_much_one_that_is_new_is_missed(cells, races):
    rng, inside = np.random.default_rng(7), 0
    for _ in range(400):
        *seen, new = np.exp(rng.normal(0, 0.05, cells + 1))
        low, high = np.percentile([_drawn(seen * races, cells, rng) for _ in range(200)], (2.5, 97.5))
        inside += low < new < high
    assert inside > 0.92 * 400, "one of 6 that were seen, drawn with replacement, holds 5 of 7"


def test_predictions_draw_passes_anew_with_replacement():
    apart = [len({one.queries for one in Cells(grid(COSTS, spread=s), []).predictions()}) for s in (0.0, 0.1)]
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
    assert "Extrapolation" not in text


@pytest.mark.parametrize("docs, searches", [(100, 0), (0, 100), (100, 100)])
def test_a_plan_speaks_of_the_load_that_it_was_asked_for_alone(docs, searches):
    races = [made("q", "capacity-query"), made("i", "capacity-indexing")]
    text = plan(races, Goal(docs=docs, searches=searches, replicas=1))
    assert [f"{kind}/s when full" in text for kind in ("documents", "searches")] == [docs > 0, searches > 0]
    asked = ["100 documents/s"] * (docs > 0) + ["100 searches/s on 1,000,000 documents"] * (searches > 0)
    assert f"for {' and '.join(asked)} (growth 1 ×)" in text
    both = docs > 0 and searches > 0
    for words in ("of the busiest node's work", "in this proportion", "No race of capacity-mixed is among RACES"):
        assert (words in text) == both


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
    predictions = Cells(grid(COSTS, spread=0.05), grid(INDEX_COSTS, spread=0.05)).predictions()
    for one in predictions:
        assert one.queries.request_s == one.indexing.request_s == 0
    assert np.mean([one.queries.node_s for one in predictions]) > 0
    assert np.mean([one.indexing.node_s for one in predictions]) > 0
    two = [[*grid(costs, nodes=2), *grid(costs)] for costs in (COSTS, INDEX_COSTS)]
    for one in Cells(*two).predictions():
        assert one.queries.request_s == pytest.approx(COSTS.request_s)
        assert one.indexing.request_s == pytest.approx(INDEX_COSTS.request_s)


def test_a_cell_that_takes_twice_as_long_as_the_others_expect_is_missed_by_2():
    searched, indexed = grid(COSTS), grid(INDEX_COSTS)
    halved = [replace(one, rate=one.rate / 2) for one in searched[0].passes]
    slow = [replace(searched[0], passes=halved), *searched[1:]]
    misses = Cells(slow, indexed).misses()
    assert misses["searches"][0] == pytest.approx(2) and max(misses["searches"][1:]) < 1.5
    assert misses["indexing"] == pytest.approx([1] * 9)
    predicted = Cells(slow, indexed).predictions()
    off = np.log([one.search_miss for one in predicted])
    assert np.std(off) > np.log(2) / 3, "one of 9 is off by 2, so all are by a third of its logarithm"
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
