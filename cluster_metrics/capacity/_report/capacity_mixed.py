"""Explains a race of capacity-mixed: searches while documents are indexed at fixed rates."""

from _tools.report.race import Race
from _tools.report.section import Section
from _tools.report.stats import median
from _tools.report.table import Column, Table, Words, share
from cluster_metrics.capacity.challenge import INDEX, QUERY

from .cells import cells_of, compared_in
from .parts import framed, of_grid, over, sheets

__all__ = ["compared_in", "sections", "sheets"]


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    cells, found = of_grid(race, QUERY)
    if not cells:
        return []
    return framed(race, [*found, Section("Searches while documents are indexed", _mixed(race))])


def _mixed(race: Race) -> list[str | Table]:
    queries, indexed = cells_of(race, QUERY), cells_of(race, INDEX)
    rows = []
    for name, cell in queries.items():
        if name in indexed:
            got = median(indexed[name].rates())
            same = [c for c in queries.values() if c.grid == cell.grid]
            rows.append(
                {
                    "cell": name,
                    "wanted": float(cell.rate),
                    "got": got,
                    "reached": got.value / cell.rate,
                    "searches": median(cell.rates()),
                    "over_least": over(cell, min(same, key=lambda c: c.rate)),
                }
            )
    columns = [Words("cell", "cell"), Column("wanted", "documents/s wanted"), Column("got", "documents/s")]
    columns += [
        share("reached", "reached"),
        Column("searches", "searches/s"),
        Column("over_least", "over the least rate"),
    ]
    text = (
        "Searches as fast as they are answered while documents are indexed at a fixed rate. Where the rate is not "
        "reached, the cell had no room for it. `make plan` holds its model against these cells."
    )
    return [text, Table("mixed", columns, rows)]
