"""What the sides of a comparison are, and what is the unit of replication between them."""

import math
from dataclasses import replace

import pytest
from fakes import rows, table
from races import COSTS, TARGET, made

from _tools.report import compare, noise, sides
from _tools.report.race import ReportError
from _tools.report.verdicts import Verdict


def several(name, count=3, factor=1.0, rounds=5, **changes):
    """Races of one configuration that hardly differ."""
    return [made(f"{name}-{n}", factor, seed=n, spread=0.001, rounds=rounds, **changes) for n in range(count)]


def test_facts_of_several_races_are_told_each_once():
    one, _ = sides.comparison({"a": several("a"), "b": several("b")}, None).sides
    assert one.facts()["started"] == "20260101T000000Z, 20260101T000100Z, 20260101T000200Z"
    assert one.facts()["Elasticsearch"] == "8.17.2"


def test_facts_of_several_nodes_are_told_each_once_and_a_figure_of_0_is_one():
    nodes = [TARGET | {"version": version} for version in ("9.0.0", "8.17.2", "9.0.0")]
    found = sides.facts(made("x", target=nodes, index={"docs": 0, "segments": 0, "store_bytes": 0}))
    assert (found["Elasticsearch"], found["nodes"]) == ("8.17.2, 9.0.0", "3")
    assert [found[key] for key in ("documents", "segments", "index MB")] == ["0", "0", "0"]


@pytest.mark.parametrize("first, other", [(1, 3), (3, 1), (2, 2)])
def test_where_either_side_has_several_races_these_are_what_is_replicated(first, other):
    named = {"a": several("a", first), "b": several("b", other, 1.5)}
    found = sides.comparison(named, None)
    for ratio in (found.ratio(found.sides[1], "A-serial"), found.mean_ratio(found.sides[1])):
        assert (ratio.n, ratio.freedom) == (4, 2) and ratio.value == pytest.approx(1.5, rel=0.01)


def test_each_side_is_judged_by_what_is_replicated_there():
    named = {"a": several("a", 1), "b": several("b", 1, 2.0), "c": several("c", 3, 2.0)}
    said = sides.comparison(named, None).judged_cells
    assert list(said) == [*sorted(COSTS), sides.TOGETHER]
    for of in said.values():
        assert {name: one.verdict for name, one in of.items()} == {
            "b-0": Verdict.NOT_ENOUGH,
            "c": Verdict.REGRESSED,
        }


def test_any_race_of_a_side_may_be_no_replicate():
    odd = [*several("a", 2), made("odd", parameters={"nodes": 31, "rounds": 20})]
    with pytest.raises(ReportError, match=r"the races of \[a\] are no replicates: race \[odd\]: nodes is \[31\]"):
        sides.comparison({"a": odd, "b": several("b")}, None)


def test_what_is_in_common_and_what_differs_is_so_of_all_sides():
    given = [{"nodes": 31, "rounds": 25, "tasks": tasks} for tasks in (100, 100, 300)]
    races = {name: [made(name, seed=n, parameters=of)] for n, (name, of) in enumerate(zip("abc", given))}
    found = sides.comparison(races, None)
    sections = {section.title: section for section in compare.sections(found)}
    assert "- parameters beside the defaults: nodes=31, rounds=25\n" in sections["In common"].text
    assert not {"started", "race"} & {line.partition(":")[0] for line in sections["In common"].text.split("- ")}
    [table] = sections["What differs"].tables
    differing = {row["fact"]: [row[f"side {name}"] for name in "abc"] for row in table.rows}
    assert differing["parameter tasks"] == ["100", "100", "300"]
    assert differing.keys() == {"race", "started", "parameter tasks"}


def test_a_floor_is_told_of_the_cells_that_it_has_and_of_their_mean_by_the_one_that_varies_most():
    floor = noise.measure([made(f"aa-{n}", seed=20 + n) for n in range(3)])
    floor = replace(floor, cells={"A-serial": 0.1, "D_td-serial": 0.3}, all_cells=0.05)
    named = {"a": [made("a")], "b": [made("b", seed=1)]}
    told = rows(compare.sections(sides.comparison(named, floor)), "ratios")
    shares = {name: row.get("floor") for name, row in told.items()}
    assert shares == {
        "A-serial": math.expm1(0.1),
        "D_td-msearch": None,
        "D_td-serial": math.expm1(0.3),
        sides.TOGETHER: math.expm1(0.3),
    }


def test_of_several_races_a_figure_is_the_median_over_their_medians_with_the_cv_of_these():
    named = {
        "a": [made(f"a-{n}", factor, seed=n, spread=0.0) for n, factor in enumerate((4.0, 1.0, 2.0))],
        "b": [made("b", seed=9, spread=0.0)],
    }
    told = rows(compare.sections(sides.comparison(named, None)), "medians wall_ms")["D_td-msearch"]
    assert (told["side a"], told["side b"]) == ("300 (65.5 %)", "150 (0.0 %)")  # 1.528 / 2.333


def test_a_cell_of_which_a_race_lacks_a_figure_has_no_row_for_it():
    races = [made("a"), made("b", seed=1)]
    for sample in races[1].of("coverage"):
        if sample.cell == "A-serial":
            del sample.meta["took_ms"]
    found = compare.sections(sides.comparison({race.id: [race] for race in races}, None))
    assert [row["cell"] for row in table(found, "medians took_ms").rows] == ["D_td-msearch", "D_td-serial"]
    assert len(table(found, "medians wall_ms").rows) == 3
