"""The capacity model on layouts whose answer is known by hand, and on rates made from known costs."""

from dataclasses import replace

import numpy as np
import pytest
from capacities import COSTS, INDEX_COSTS, grid, parts
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_metrics.capacity._report import model

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


@given(*(st.floats(1e-4, 1e-2) for _ in range(3)))
@settings(max_examples=50, deadline=None)
def test_known_costs_of_searches_are_found_again(visit, document, request):
    costs = model.QueryModel(visit, document / 1e6, request)
    measured = grid(costs)
    fitted = model.QueryModel.fitted(measured)
    assert [fitted.visit_s, 1e6 * fitted.document_s, fitted.request_s] == pytest.approx([visit, document, request])
    assert model.held_out(measured, model.QueryModel) == pytest.approx([c.rates[0] for c in measured])


def test_known_costs_of_indexing_are_found_again():
    measured = grid(INDEX_COSTS)
    fitted = model.IndexModel.fitted(measured)
    assert fitted.primary_s == pytest.approx(INDEX_COSTS.primary_s)
    assert fitted.replica_s == pytest.approx(INDEX_COSTS.replica_s)
    assert fitted.copy_s == pytest.approx(INDEX_COSTS.copy_s)
    assert fitted.request_s == pytest.approx(INDEX_COSTS.request_s)


@given(st.integers(2, 1000), st.floats(1e-5, 1e-2))
@settings(max_examples=50, deadline=None)
def test_what_each_copy_of_a_shard_costs_a_request_of_several_documents_is_found_again(at_once, shard_s):
    costs = replace(INDEX_COSTS, shard_s=shard_s, at_once=at_once)
    measured = grid(costs)
    fitted = model.IndexModel.fitted(measured)
    assert (fitted.shard_s, fitted.primary_s) == pytest.approx((shard_s, costs.primary_s), rel=1e-3)
    assert model.held_out(measured, model.IndexModel) == pytest.approx([c.rates[0] for c in measured])
    assert model.fewest(measured, model.IndexModel) == 1 + model.fewest(grid(INDEX_COSTS), model.IndexModel)


@given(st.integers(2, 6), st.integers(2, 30))
def test_a_request_of_several_documents_asks_each_shard_that_it_has_one_of(shards, at_once):
    asked = np.mean([len({*draw}) for draw in np.random.default_rng(1).integers(0, shards, (20_000, at_once))])
    costs = model.IndexModel(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, at_once=at_once)
    assert costs.seconds(model.spread(1, shards, 0)) * at_once == pytest.approx(asked, rel=0.02)


def test_a_cell_in_which_one_node_indexes_tells_what_the_others_do_by_their_cpu():
    (alone,) = (c for c in grid(INDEX_COSTS) if c.shards == 1 and model.most_copies(c.table) == 1
                and sum(map(len, c.table.values())) == 1)  # fmt: skip
    fitted = model.IndexModel.fitted([alone])
    assert [fitted.primary_s, fitted.request_s] == pytest.approx([INDEX_COSTS.primary_s, INDEX_COSTS.request_s])


@pytest.mark.parametrize("costs", [COSTS, INDEX_COSTS])
def test_costs_are_fitted_to_the_geometric_mean_of_passes(costs):
    measured = grid(costs)
    factors = (1.0, 1.0, 1.0, 1.0, 1.5)
    uneven = [
        replace(c, passes=[replace(p, rate=p.rate * by / 1.5 ** (1 / 5)) for p, by in zip(c.passes, factors)])
        for c in measured
    ]
    for cell in measured:
        expected = cell.seconds(type(costs).fitted(measured))
        assert cell.seconds(type(costs).fitted(uneven)) == pytest.approx(expected)


def test_nodes_whose_cpu_was_not_told_leave_what_the_busiest_takes():
    untold = [replace(c, passes=[replace(one, parts={}) for one in c.passes]) for c in grid(INDEX_COSTS)]
    fitted = model.IndexModel.fitted(untold)
    assert [fitted.seconds(c.table) for c in untold] == pytest.approx([1 / c.rates[0] for c in untold], rel=0.05)


def test_a_pass_in_which_no_cpu_of_a_node_was_seen_tells_nothing_of_it():
    measured = grid(INDEX_COSTS)
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
    both = [*grid(costs, nodes=1), *grid(costs, nodes=2)]
    fitted = model.QueryModel.fitted(both)
    assert [fitted.visit_s, fitted.request_s, fitted.remote_s] == pytest.approx([2e-3, 1e-3, 5e-4])
    assert fitted.node_s == 0
    unseen = grid(costs)
    expected = [1 / fitted.seconds(c.table, c.shards, c.documents) for c in unseen]
    assert expected == pytest.approx([c.rates[0] for c in unseen])
    of = model.IndexModel(1e-3, 8e-4, 3e-4, 0.0, 0.0, 5e-4, 2e-4)
    fitted = model.IndexModel.fitted([*grid(of, nodes=2), *grid(of, nodes=3)])
    costs = [fitted.replica_s, fitted.copy_s, fitted.request_s, fitted.remote_s]
    assert costs == pytest.approx([8e-4, 3e-4, 5e-4, 2e-4])
    assert fitted.node_s == 0


@pytest.mark.parametrize("costs", [COSTS, INDEX_COSTS])
def test_both_readings_of_one_number_of_nodes_expect_the_same_there_and_less_of_more(costs):
    other = model.unshared(costs, 3)
    for measured in grid(costs):
        assert 1 / measured.seconds(other) == pytest.approx(measured.rates[0])
    four = model.spread(4, 2, 1)
    assert other.seconds(four, 2, 10**6) > costs.seconds(four, 2, 10**6)


def test_the_most_copies_are_those_of_the_node_that_holds_most():
    assert model.most_copies({"a": ["0p", "1r"], "b": ["1p"], "c": []}) == 2


def test_too_few_cells_are_held_out_of_nothing():
    assert np.isnan(model.held_out(grid(COSTS)[:3], model.QueryModel)).all()


def test_a_cell_is_held_out_with_the_same_cell_of_other_races():
    one = grid(COSTS)
    twice = [*one, *(replace(cell, passes=[replace(p, rate=1.2 * p.rate) for p in cell.passes]) for cell in one)]
    own, other = np.array(model.held_out(twice, model.QueryModel)).reshape(2, -1)
    for i, cell in enumerate(one):
        others = [of for j, of in enumerate(twice) if j % len(one) != i]
        seconds = model.QueryModel.fitted(others).seconds(cell.table, cell.shards, cell.documents)
        assert own[i] == other[i] == pytest.approx(1 / seconds)
    assert np.isnan(model.held_out([*one[:3], *one[:3]], model.QueryModel)).all()
