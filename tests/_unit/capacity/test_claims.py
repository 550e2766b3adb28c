"""Which published statements a capacity race bears out, on races made of known costs."""

import pytest
from capacities import COSTS, DOCUMENTS, INDEX_COSTS, holds, made, seconds, sections

from _tools.report.stats import Estimate
from cluster_metrics.capacity._report import claims, model


def test_claims_of_the_articles_are_judged_by_the_interval():
    claim = "2 shards with 1 replica on three nodes stay below three nodes"
    even = {f"{s}s-{r}r": 1.0 for s in (1, 2, 3) for r in (0, 1, 2)}
    race = made("r", "capacity-query", 6, shape=even)
    alone, all_three = (COSTS.seconds(model.spread(3, s, r), s, DOCUMENTS) for s, r in ((1, 2), (3, 0)))
    assert all_three / alone > 1.2
    assert holds(race, "fully replicated, one shard reaches three nodes") == "no"
    assert holds(made("r", "capacity-query", 6, shape=even | {"2s-1r": 0.3}), claim) == "yes"
    assert holds(made("r", "capacity-query", 6, shape=even | {"2s-1r": 3.0}), claim) == "no"
    few = made("r", "capacity-query", 5, shape=even | {"2s-1r": 0.3})
    assert holds(few, claim) == "too few passes, it takes 6"


@pytest.mark.parametrize(
    "low, high, said",
    [(0.35, 0.45, "yes"), (0.3, 0.4, "undecided"), (0.4, 0.5, "undecided"), (0.3, 0.5, "undecided")]
    + [(0.2, 0.33, "no"), (0.47, 0.5, "no")],
)
def test_a_claim_is_judged_only_where_the_whole_interval_lies_on_one_side_of_its_bounds(low, high, said):
    claim = claims.Claim("leaves 40 %", "3s-2r / 3s-0r", 0.34, 0.46, lambda cells: None)
    assert claims.holds(Estimate(6, (low + high) / 2, low, high, 0.1), claim) == said


def test_claims_about_indexing_say_which_bound_bears_them_out():
    (table,) = (t for section in sections(made("r", "capacity-indexing"), "published") for t in section.tables)
    assert [(row["what"], row["bounds"]) for row in table.rows] == [
        ("2s-0r / 1s-0r", "over 1"),
        ("3s-0r / 2s-0r", "over 1"),
        ("1s-1r / 1s-0r", "over 0.8"),
        ("1s-2r / 1s-0r", "over 0.8"),
        ("2s-1r / 2s-0r", "0.400 to 0.800"),
        ("2s-2r / 2s-0r", "0.400 to 0.800"),
        ("3s-1r / 3s-0r", "0.400 to 0.800"),
        ("3s-2r / 3s-0r", "0.400 to 0.800"),
        ("3s-2r / 3s-0r", "0.340 to 0.460"),
        ("second half / first, all cells", "over 0.95"),
    ]


@pytest.mark.parametrize(
    "claim, of, bounds",
    [
        ("a second shard on a second node doubles throughput", "2s-0r / 1s-0r", "1.70 to 2.30"),
        ("a third shard on a third node triples it", "3s-0r / 1s-0r", "2.55 to 3.45"),
        ("a replica does as much as a second shard", "1s-1r / 2s-0r", "0.850 to 1.15"),
        ("2 shards with 1 replica on three nodes stay below three nodes", "2s-1r / 3s-0r", "0 to 1.00"),
        ("3 shards with 1 replica reach three nodes", "3s-1r / 3s-0r", "0.850 to 1.15"),
        ("fully replicated, one shard reaches three nodes", "1s-2r / 3s-0r", "0.850 to 1.15"),
        ("fully replicated, shards make no difference", "3s-2r / 1s-2r", "0.850 to 1.15"),
    ],
)
def test_claims_about_searches_are_about_the_cells_that_they_speak_of(claim, of, bounds):
    (table,) = (t for section in sections(made("r", "capacity-query"), "published") for t in section.tables)
    found = {row["claim"]: (row["what"], row["bounds"]) for row in table.rows}
    assert found[claim] == (of, bounds)


@pytest.mark.parametrize(
    "name, base, ratio, expected",
    [
        ("2s-0r", "1s-0r", 1.5, "yes"),
        ("2s-0r", "1s-0r", 0.8, "no"),
        ("3s-0r", "2s-0r", 1.5, "yes"),
        ("3s-0r", "2s-0r", 0.8, "no"),
        ("1s-1r", "1s-0r", 1.1, "yes"),
        ("1s-1r", "1s-0r", 0.7, "no"),
        ("2s-1r", "2s-0r", 0.9, "no"),
        ("2s-1r", "2s-0r", 0.5, "yes"),
        ("2s-1r", "2s-0r", 0.3, "no"),
        ("3s-1r", "3s-0r", 0.5, "yes"),
    ],
)
def test_claims_about_indexing_are_judged_by_their_bounds(name, base, ratio, expected):
    of, against = (seconds(INDEX_COSTS, int(cell[0]), int(cell[3])) for cell in (name, base))
    race = made("r", "capacity-indexing", 6, shape={name: ratio * of / against})
    (table,) = (table for section in sections(race, "published") for table in section.tables)
    assert [row["holds"] for row in table.rows if row["what"] == f"{name} / {base}"] == [expected]


def test_full_replication_at_40_percent_holds_where_it_is_so():
    base = INDEX_COSTS.seconds(model.spread(3, 3, 0))
    factor = 0.4 * INDEX_COSTS.seconds(model.spread(3, 3, 2)) / base
    race = made("r", "capacity-indexing", 6, shape={"3s-2r": factor})
    assert holds(race, "full replication of 3 shards leaves 40 %") == "yes"
