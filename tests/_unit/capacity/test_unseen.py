"""Models of capacity held against races that they were not fitted to: more nodes, and searches beside documents."""

import re
from dataclasses import replace

import numpy as np
import pytest
from capacities import BULK, COSTS, INDEX_COSTS, made, text_of

from cluster_metrics.capacity._report import model
from cluster_metrics.capacity._report.cells import cells_of
from cluster_metrics.capacity._report.fitted import cells_of as cells_of_races
from cluster_metrics.capacity._report.plan import Goal, Models, plan
from cluster_metrics.capacity._report.unseen import beside_documents, expected, unseen


def sizes(on, **changes):
    kinds = {"q": "capacity-query", "i": "capacity-indexing", "m": "capacity-mixed"}
    return [made(f"{kind}-{on}", name, passes=6, on=on, **changes) for kind, name in kinds.items()]


def test_costs_of_one_and_two_nodes_are_held_against_three():
    smaller, goal = [*sizes(1), *sizes(2)], Goal(docs=300, searches=100, replicas=0)
    assert "More nodes" not in plan(smaller, goal) and "More nodes" not in plan([*sizes(2), *sizes(3)], goal)
    text = plan([*smaller, *sizes(3)], goal).split("## More nodes than it was fitted to\n")[1]
    assert "By cells of 1 and 2 nodes alone, against those of 3: " in text
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (searches|documents)", line)]
    assert len(rows) == 9 + 9 + 18
    inside = sum(row[-1].startswith("yes") for row in rows)
    assert f"{inside} of 27 cells lie within" in text and inside >= 23  # made by the very model
    for what in ("searches", "documents", "searches beside documents"):
        of, most = re.search(rf"Error, {what}: (.+) % in the median, (.+) % at most", text).groups()
        assert float(of) < 5 and float(of) <= float(most) < 15


def test_cells_of_one_and_two_nodes_of_a_race_are_held_against_those_of_three():
    goal = Goal(docs=300, searches=0, replicas=0)
    race = made("i", "capacity-indexing", passes=6, nodes=(1, 2, 0))
    text = plan([race], goal)
    assert "- Race [i]: capacity-indexing on 3 data nodes, and cells on 1, 2 of them, raced " in text
    held = text.split("## More nodes than it was fitted to\n")[1]
    assert "By cells of 1 and 2 nodes alone, against those of 3: " in held
    rows = [re.split(r" +\| +", line.strip("| ")) for line in held.splitlines() if line.startswith("| documents")]
    assert [of[1] for of in rows] == [f"{s}s-{r}r" for s in (1, 2, 3) for r in (0, 1, 2)]
    assert {of[1] for of in rows if of[3:] == ["–"] * 4} == {"1s-2r", "2s-2r", "3s-2r"}
    assert "Of documents with more replicas than one nothing is expected: " in held and " of 6 cells lie within" in held
    assert float(re.search(r"Error, documents: (.+) % in the median", held)[1]) < 5
    assert "More nodes" not in plan(
        [replace(race, samples=[s for s in race.samples if "-2n" not in s.meta["cell"]])], goal
    )


def test_four_nodes_are_held_against_one_two_and_three():
    race = made("i", "capacity-indexing", on=4, nodes=(1, 2, 3, 0))
    assert "By cells of 1, 2 and 3 nodes alone, against those of 4: " in unseen([race])


def test_what_a_replica_beyond_the_first_costs_is_told_by_cells_that_have_one():
    costs = replace(INDEX_COSTS, later_s=6e-4)
    race = made("i", "capacity-indexing", passes=6, nodes=(1, 2, 0), index_costs=costs)
    found = cells_of_races([race]).readings()[0].indexing
    assert found.later_s == pytest.approx(costs.later_s, rel=0.1)
    for name, cell in cells_of(race, "capacity-index").items():
        assert 1 / cell.measured().seconds(found) == pytest.approx(np.median(cell.rates()), rel=0.06), name
    text = plan([race], Goal(docs=300, searches=0, replicas=2))
    (later,) = re.findall(r"\| document: each copy, for each replica beyond the first +\| +(.+) \|", text)
    assert float(later) == pytest.approx(1e3 * found.later_s, rel=0.01)
    smaller = cells_of_races([race]).of_fewer(3)
    assert smaller.readings()[0].indexing.later_s == 0


def test_what_a_request_of_several_documents_costs_each_copy_is_told_by_how_many_it_has():
    costs = replace(INDEX_COSTS, shard_s=4e-3, at_once=BULK)
    race = made("i", "capacity-indexing", passes=6, nodes=(1, 2, 0), index_costs=costs)
    found = cells_of_races([race]).readings()[0].indexing
    assert (found.at_once, found.shard_s) == (BULK, pytest.approx(costs.shard_s, rel=0.1))


def test_a_second_replica_is_a_cost_that_takes_one_more_cell():
    race = made("i", "capacity-indexing", passes=6)
    cells = cells_of_races([race]).indexing
    few = [cell for cell in cells if model.replicas(cell.table) < 2]
    assert model.fewest(cells, model.IndexModel) == 1 + model.fewest(few, model.IndexModel)
    assert model.fewest(cells, model.QueryModel) == model.fewest(few, model.QueryModel)


def test_a_race_in_several_sizes_says_whose_hosts_its_requests_went_to_and_that_all_nodes_hold_data():
    race = made("i", "capacity-indexing", passes=6, nodes=(1, 2, 0))
    told = "Requests went to all hosts that Rally was given, in turn"
    assert f"{told}, those of cells on some of the nodes to the hosts of these alone.\n" in text_of(race, "can show")
    assert f"{told}.\n" in text_of(made("i", "capacity-indexing", passes=6), "can show")


def test_what_both_take_of_fewer_nodes_is_told_by_these_alone():
    race = made("m", "capacity-mixed", nodes=(1, 2, 0), docs=(0, 50))
    of = cells_of_races([race, made("i", "capacity-indexing")])
    assert {len(mixed.cell.table) for mixed in of.mixed} == {1, 2, 3}
    assert {len(mixed.cell.table) for mixed in of.of_fewer(3).mixed} == {1, 2}


def test_a_race_of_another_challenge_is_none_of_more_nodes():
    races = [made(f"q-{on}", "capacity-query", passes=6, on=on) for on in (1, 2, 3)]
    other = made("c-4", "capacity-query", on=4, document={"challenge": "capacity-curve"})
    assert "By cells of 1 and 2 nodes alone, against those of 3: " in unseen([*races, other])


def test_a_cell_in_which_no_document_was_indexed_tells_nothing_of_searches_beside_documents():
    race = made("m", "capacity-mixed", passes=1)
    some = [s for s in race.samples if (s.kind, s.meta["cell"]) != ("capacity-index", "3s-0r-150")]
    text = beside_documents([replace(race, samples=some)], Models(COSTS, INDEX_COSTS))
    assert "3s-0r-50" in text and "3s-0r-150" not in text


def test_a_cell_that_several_races_have_is_told_with_its_race():
    races = [made(name, "capacity-mixed", passes=1, docs=(0, 50)) for name in ("first", "other")]
    models = Models(COSTS, INDEX_COSTS)
    rows = re.findall(r"\| (\w+) +\| (3s-0r-50) +\|", beside_documents(races, models))
    assert rows == [("first", "3s-0r-50"), ("other", "3s-0r-50")]
    assert "| race" not in beside_documents(races[:1], models)


def test_a_cell_without_documents_is_none_beside_documents():
    text = beside_documents([made("m", "capacity-mixed", docs=(0, 50))], Models(COSTS, INDEX_COSTS))
    assert set(re.findall(r"3s-0r\S*", text)) == {"3s-0r-50"}


TOGETHER = model.Together(0.1, 0.3)
"""What searches and documents take besides."""


def beside(on, **changes):
    """A race of searches without and beside documents on so many nodes."""
    return made(f"m-{on}", "capacity-mixed", passes=6, on=on, docs=(0, 50, 150), together=TOGETHER, **changes)


def test_what_both_take_besides_is_told_by_a_race_of_searches_without_and_beside_documents():
    races = [made("i", "capacity-indexing"), beside(3)]
    found = cells_of_races(races).readings()[0]
    assert found.together.copy_s == pytest.approx(TOGETHER.copy_s, rel=0.1)
    assert found.together.longer == pytest.approx(TOGETHER.longer, rel=0.3)
    for name, cell in cells_of(races[1], "capacity-query").items():
        assert expected(found, cell, cell.rate) == pytest.approx(np.median(cell.rates()), rel=0.06), name
    text = plan(races, Goal(docs=100, searches=100, replicas=1))
    assert "**Warning:** beside documents" not in text
    copy = re.search(r"\| a second of searches beside documents: .+\| +(.+) \|", text)
    longer = re.search(r"\nBeside documents a search takes (.+) % longer\.", text)
    assert copy and float(copy[1]) == pytest.approx(1e3 * found.together.copy_s, rel=0.01)
    assert longer and float(longer[1]) == pytest.approx(100 * found.together.longer, rel=0.01)


def test_a_pass_of_searches_alone_that_left_nodes_idle_is_no_base_of_those_beside_documents():
    def alone_in_3(sample):
        return sample.meta["pass"] == 3 and sample.meta["cell"].count("-") == 1

    whole, idle = beside(3), beside(3, busy=0.5, of_pass={3: 0.5})
    without = replace(whole, samples=[s for s in whole.samples if not alone_in_3(s)])
    race = replace(without, samples=without.samples + list(filter(alone_in_3, idle.samples)))
    found, known = ([of.left for of in cells_of_races([of]).mixed] for of in (race, without))
    assert len(found) == 18 and found == pytest.approx(known)


def test_both_take_more_where_there_are_documents_and_searches():
    models, none = Models(COSTS, INDEX_COSTS, together=TOGETHER), Models(COSTS, INDEX_COSTS)
    for docs, searches in ((10, 0), (0, 10)):
        goal = Goal(docs, searches, replicas=1, documents=10**6)
        assert models.work(3, 3, goal) == none.work(3, 3, goal)
    both = Goal(docs=10, searches=10, replicas=1, documents=10**6)
    more = np.array(models.work(3, 3, both)) - np.array(none.work(3, 3, both))
    assert more == pytest.approx([none.work(3, 3, both)[0] * TOGETHER.longer, 2 * TOGETHER.copy_s])


def test_what_both_take_besides_by_one_and_two_nodes_is_held_against_three():
    smaller = [race for on in (1, 2) for race in (made(f"i-{on}", "capacity-indexing", passes=6, on=on), beside(on))]
    text = unseen([*smaller, beside(3)])
    assert "By cells of 1 and 2 nodes alone, against those of 3: " in text
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| searches", line)]
    assert len(rows) == 27 and sum(row[0].strip("| ") == "searches" for row in rows) == 9
    assert float(re.search(r"Error, searches beside documents: (.+) % in the median", text)[1]) < 5


def test_only_what_fewer_nodes_were_raced_of_is_held_against_more():
    """Documents, of one and of three nodes alone, are not."""
    (one, documents, _), (two, *_) = sizes(1), sizes(2)
    races = [one, documents, two, *sizes(3)]
    text = plan(races, Goal(docs=10, searches=10, replicas=0)).split("## More nodes than it was fitted to\n")[1]
    assert "By cells of 1 and 2 nodes alone, against those of 3: " in text
    assert "Error, searches:" in text and "documents:" not in text
    assert "More nodes" not in plan([documents, two, *sizes(3)], Goal(docs=10, searches=10, replicas=0))


def test_three_nodes_that_carry_less_than_costs_of_fewer_expect_lie_outside():
    slow = {f"{s}s-{r}r": 0.5 for s in (1, 2, 3) for r in (0, 1, 2)}
    races = [*sizes(1), *sizes(2), *sizes(3, shape=slow)]
    text = plan(races, Goal(docs=30, searches=10, replicas=0)).split("## More nodes than it was fitted to\n")[1]
    assert " 0 of 27 cells lie within" in text
    errors = [float(found) for found in re.findall(r"Error, (?:searches|documents): (.+) % in the median", text)]
    assert all(error == pytest.approx(100, rel=0.1) for error in errors), text
    beside = re.findall(r"In the median (.+) × what was seen .+ this factor: (.+) % in the median", text)
    assert len(beside) == 3
    for common, rest in beside:
        assert float(common) == pytest.approx(2, rel=0.05) and float(rest) < 5


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
