"""The capacity model on layouts whose answer is known by hand, and on rates made from known costs."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import COSTS, INDEX_COSTS, made
from hypothesis import given, settings
from hypothesis import strategies as st

from _tools.report.race import ReportError
from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.cells import cells_of
from cluster_metrics.capacity._report.fitted import cells_of as cells_of_races
from cluster_metrics.capacity._report.plan import Cells, Goal, Models, cheapest, layouts, plan
from cluster_metrics.capacity._report.unseen import beside_documents, expected, unseen

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
            found.append(model.Measured(table, shards, documents, rates))
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


def test_two_numbers_of_nodes_tell_what_of_a_request_more_nodes_share():
    costs = model.QueryModel(2e-3, 1e-8, 1e-3, 5e-4)
    both = [*cells(costs, rate, nodes=1), *cells(costs, rate, nodes=2)]
    fitted = model.QueryModel.fitted(both)
    assert [fitted.visit_s, fitted.request_s, fitted.remote_s] == pytest.approx([2e-3, 1e-3, 5e-4])
    assert fitted.node_s == 0
    unseen = cells(costs, rate)
    expected = [1 / fitted.seconds(c.table, c.shards, c.documents) for c in unseen]
    assert expected == pytest.approx([c.rates[0] for c in unseen])
    of = model.IndexModel(1e-3, 8e-4, 3e-4, 5e-4, 2e-4)
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


def test_too_few_cells_are_held_out_of_nothing():
    assert np.isnan(model.held_out(cells(COSTS, rate)[:3], model.QueryModel)).all()


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
        "Confidence: of 200 predictions",
        "**Extrapolation:** 2,000,000 documents",
        "Hold-out error",
    ):
        assert line in text
    error = text.split("Error: ")[1]
    assert float(error.split(" %")[0]) < 5  # made by the very model


@pytest.mark.parametrize("docs, carried, warns", [(300, 0.7, True), (300, 1.0, False), (0, 0.7, False)])
def test_a_plan_for_both_warns_where_searches_beside_documents_take_more_than_each_alone(docs, carried, warns):
    shape = {f"{s}s-{r}r": carried for s in (1, 2, 3) for r in (0, 1, 2)}
    races = [made("q", "capacity-query"), made("i", "capacity-indexing"), made("m", "capacity-mixed", shape=shape)]
    text = plan(races, Goal(docs=docs, searches=100, replicas=1))
    found = re.findall(r"\*\*Warning:\*\* beside documents nodes carried (.+) × the searches", text)
    assert [float(part) for part in found] == ([pytest.approx(carried, rel=0.05)] if warns else [])


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
    assert "**Not settled:** " in text and "race the same with NODES=2, too, and capacity_replicas of 1 at most" in text
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
        ([made("q", "capacity-query")], Goal(10, 0, 1), "TARGET_DOCS takes races of capacity-indexing"),
        ([made("i", "capacity-indexing")], Goal(0, 10, 1), "TARGET_QPS takes races of capacity-query"),
        ([made("q", "capacity-query")], Goal(0, 10**6, 1), "no cluster of up to 50 nodes like these carries the load"),
        (
            [made("q", "capacity-query")],
            Goal(0, 2200, 49),
            "50 nodes may carry the load, or none of up to 50: ",
        ),
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


def sizes(on, **changes):
    kinds = {"q": "capacity-query", "i": "capacity-indexing", "m": "capacity-mixed"}
    return [made(f"{kind}-{on}", name, passes=6, on=on, **changes) for kind, name in kinds.items()]


def test_costs_of_one_and_two_nodes_are_held_against_three():
    smaller, goal = [*sizes(1), *sizes(2)], Goal(docs=300, searches=100, replicas=0)
    assert "More nodes" not in plan(smaller, goal) and "More nodes" not in plan([*sizes(2), *sizes(3)], goal)
    text = plan([*smaller, *sizes(3)], goal).split("## More nodes than it was fitted to\n")[1]
    assert "By races of 1 and 2 nodes alone, against those of 3: " in text
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (searches|documents)", line)]
    assert len(rows) == 9 + 9 + 18
    inside = sum(row[-1].startswith("yes") for row in rows)
    assert f"{inside} of 36 cells lie within" in text and inside >= 30  # made by the very model
    for what in ("searches", "documents", "searches beside documents"):
        of, most = re.search(rf"Error, {what}: (.+) % in the median, (.+) % at most", text).groups()
        assert float(of) < 5 and float(of) <= float(most) < 15


def test_a_race_of_another_challenge_is_none_of_more_nodes():
    races = [made(f"q-{on}", "capacity-query", passes=6, on=on) for on in (1, 2, 3)]
    other = made("c-4", "capacity-query", on=4, document={"challenge": "capacity-curve"})
    assert "By races of 1 and 2 nodes alone, against those of 3: " in unseen([*races, other])


def test_a_cell_in_which_no_document_was_indexed_tells_nothing_of_searches_beside_documents():
    race = made("m", "capacity-mixed", passes=1)
    some = [s for s in race.samples if (s.kind, s.meta["cell"]) != ("capacity-index", "3s-0r-150")]
    text = beside_documents([replace(race, samples=some)], Models(COSTS, INDEX_COSTS))
    assert "3s-0r-50" in text and "3s-0r-150" not in text


GROWTH = model.Growth(1.5e-3, 0.03)
"""That of indices which are searched while documents come in."""


def grown(on):
    """A race of searches without and beside documents on so many nodes."""
    return made(f"m-{on}", "capacity-mixed", passes=6, on=on, docs=(0, 50, 150), growth=GROWTH)


def test_what_the_growth_of_an_index_costs_its_searches_is_told_by_a_race_without_and_beside_documents():
    races = [made("i", "capacity-indexing"), grown(3)]
    found = cells_of_races(races).readings()[0]
    assert found.growth.visit_s == pytest.approx(GROWTH.visit_s, rel=0.1)
    assert found.growth.copy_s == pytest.approx(GROWTH.copy_s, rel=0.3)
    for name, cell in cells_of(races[1], "capacity-query").items():
        assert expected(found, cell, cell.rate) == pytest.approx(np.median(cell.rates()), rel=0.06), name
    text = plan(races, Goal(docs=100, searches=100, replicas=1))
    assert "**Warning:** beside documents" not in text
    visit, copy = re.findall(r"\| (?:search: a shard that documents go to|a second: each copy).+\| +(.+) \|", text)
    assert float(visit) == pytest.approx(1e3 * found.growth.visit_s, rel=0.01)
    assert float(copy) == pytest.approx(1e3 * found.growth.copy_s, rel=0.01)


def test_growth_costs_where_there_are_documents_and_searches():
    models, none = Models(COSTS, INDEX_COSTS, growth=GROWTH), Models(COSTS, INDEX_COSTS)
    for docs, searches in ((10, 0), (0, 10)):
        goal = Goal(docs, searches, replicas=1, documents=10**6)
        assert models.work(3, 3, goal) == none.work(3, 3, goal)
    both = Goal(docs=10, searches=10, replicas=1, documents=10**6)
    more = np.array(models.work(3, 3, both)) - np.array(none.work(3, 3, both))
    assert more == pytest.approx([10 * 1 * GROWTH.visit_s, 2 * GROWTH.copy_s])


def test_growth_told_by_one_and_two_nodes_is_held_against_three():
    smaller = [race for on in (1, 2) for race in (made(f"i-{on}", "capacity-indexing", passes=6, on=on), grown(on))]
    text = unseen([*smaller, grown(3)])
    assert "By races of 1 and 2 nodes alone, against those of 3: " in text
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| searches", line)]
    assert len(rows) == 27 and sum(row[0].strip("| ") == "searches" for row in rows) == 9
    assert float(re.search(r"Error, searches beside documents: (.+) % in the median", text)[1]) < 5


def test_only_what_fewer_nodes_were_raced_of_is_held_against_more():
    """Documents, of one and of three nodes alone, are not."""
    (one, documents, _), (two, *_) = sizes(1), sizes(2)
    races = [one, documents, two, *sizes(3)]
    text = plan(races, Goal(docs=10, searches=10, replicas=0)).split("## More nodes than it was fitted to\n")[1]
    assert "By races of 1 and 2 nodes alone, against those of 3: " in text
    assert "Error, searches:" in text and "documents:" not in text
    assert "More nodes" not in plan([documents, two, *sizes(3)], Goal(docs=10, searches=10, replicas=0))


def test_three_nodes_that_carry_less_than_costs_of_fewer_expect_lie_outside():
    slow = {f"{s}s-{r}r": 0.5 for s in (1, 2, 3) for r in (0, 1, 2)}
    races = [*sizes(1), *sizes(2), *sizes(3, shape=slow)]
    text = plan(races, Goal(docs=30, searches=10, replicas=0)).split("## More nodes than it was fitted to\n")[1]
    assert " 0 of 36 cells lie within" in text
    errors = [float(found) for found in re.findall(r"Error, (?:searches|documents): (.+) % in the median", text)]
    assert all(error == pytest.approx(100, rel=0.1) for error in errors), text
    for common, rest in re.findall(r"In the median (.+) × what was seen .+ this factor: (.+) % in the median", text):
        assert float(common) == pytest.approx(2, rel=0.05) and float(rest) < 5


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
    slow = [replace(searched[0], rates=[r / 2 for r in searched[0].rates]), *searched[1:]]
    misses = Cells(slow, indexed).misses()
    assert misses["searches"][0] == pytest.approx(2) and max(misses["searches"][1:]) < 1.5
    assert misses["indexing"] == pytest.approx([1] * 9)
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
    text = plan([made("q", "capacity-query", spread=0.0, on=2)], goal)
    found = re.findall(r"\*\*Extrapolation:\*\* ([^;]+);", text)
    assert [line for line in found if "shards" not in line] == named


@pytest.mark.parametrize("shards, replicas", [(1, 0), (2, 1), (3, 2)])
def test_what_a_cell_carries_is_the_time_that_documents_leave_by_what_a_search_takes(shards, replicas):
    (cell,) = (
        cell
        for name, cell in cells_of(made("m", "capacity-mixed", spread=0.0), "capacity-query").items()
        if name == f"{shards}s-{replicas}r-150"
    )
    table, models = model.spread(3, shards, replicas), Models(COSTS, INDEX_COSTS)
    search, document = COSTS.seconds(table, shards, 10**6), INDEX_COSTS.seconds(table)
    assert expected(models, cell, 150) == pytest.approx((1 - 150 * document) / search)
    assert expected(models, cell, 150) == pytest.approx(np.median(cell.rates()), rel=0.01)
    assert expected(models, cell, 0) == pytest.approx(1 / search)
    assert expected(models, cell, np.nan) == pytest.approx(1 / document)
    assert expected(models, cell, 2 / document) == 0
    missing = replace(models, search_miss=2.0, document_miss=3.0)
    assert expected(missing, cell, 100) == pytest.approx((1 - 300 * document) / (2 * search))
    assert expected(missing, cell, np.nan) == pytest.approx(1 / (3 * document))
