"""Explains a race of capacity-mixed: searches while documents are indexed at given rates."""

from collections.abc import Iterator, Mapping

from _tools.report import plots
from _tools.report.answer import Finding, times_as_fast
from _tools.report.race import Race
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, median
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import interval, number
from cluster_metrics.capacity.challenge import INDEX, QUERY

from .cells import Cell, bottleneck, cells_of, changes, compared_in, rate_ratio, steady_of
from .parts import SUMMARY, UNITS, framed, over, sheets
from .warnings import warnings

__all__ = ["SUMMARY", "answer", "changes", "compared_in", "sections", "sheets", "warnings"]

REACHED = 0.95
"""Part of a rate at which documents are indexed that counts as reached."""


def answer(race: Race) -> Iterator[Finding]:
    """The most searches, what documents take of them, and where they were not indexed at the rate that was asked."""
    queries, indexed = cells_of(race, QUERY), cells_of(race, INDEX)
    if not queries:
        return
    top = max((steady_of(queries) or queries).values(), key=lambda c: c.throughput().value)
    rate = top.throughput()
    beside = f"beside {top.rate:,.0f} {UNITS[INDEX]}" if top.rate else "without documents"
    text = f"{top.name}: {number(rate.value)} {UNITS[QUERY]} {interval(rate)} {beside}"
    yield Finding("most", text, {"rate": rate})
    same = [cell for cell in queries.values() if cell.grid == top.grid]
    busiest = max(same, key=lambda cell: cell.rate)
    if busiest is not top:
        left = rate_ratio(busiest, top)
        told = f"leave {times_as_fast(left)} the searches there" if left.n else "leave no steady rate of searches"
        yield Finding("more documents", f"{busiest.rate:,.0f} {UNITS[INDEX]} {told}", {"ratio": left} if left.n else {})
    yield Finding("limited by", f"{bottleneck(top.last, race)} in {top.name}")
    asked = [cell for cell in queries.values() if cell.rate]
    if asked:
        missed = [cell.name for cell in asked if _is_missed(indexed, cell)]
        text = f"indexed at the rate asked for in {len(asked) - len(missed)} of {len(asked)} configurations"
        yield Finding("documents", f"{text}{', not in ' if missed else ''}{', '.join(missed)}")


def _is_missed(indexed: Mapping[str, Cell], cell: Cell) -> bool:
    """Whether the whole interval of what was indexed lies below the rate asked for; the value where there is none."""
    if cell.name not in indexed:
        return True
    found = median(indexed[cell.name].rates())
    return found.span[1] < REACHED * cell.rate


def _got(indexed: Mapping[str, Cell], cell: Cell) -> float:
    """Documents a second that were indexed beside the searches of a cell; where none was there is no such cell."""
    return median(indexed[cell.name].rates()).value if cell.name in indexed else 0.0


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    return framed(race, QUERY, lambda cells: [Section("Searches while documents are indexed", _mixed(race, cells))])


def _mixed(race: Race, queries: Mapping[str, Cell]) -> list[str | Table | Figure]:
    indexed = cells_of(race, INDEX)

    def got(cell: Cell) -> Estimate | None:
        return median(indexed[cell.name].rates()) if cell.name in indexed else None

    def least(cell: Cell) -> Cell:
        return min((c for c in queries.values() if c.grid == cell.grid), key=lambda c: c.rate)

    def over_least(cell: Cell) -> Estimate | str | None:
        return over(cell, least(cell))

    columns = [
        Words("cell", "configuration", of=lambda cell: cell.name),
        Column("wanted", "documents/s wanted", of=lambda cell: cell.rate),
        Column("got", "documents/s", of=got),
        share("reached", "reached", of=lambda cell: _got(indexed, cell) / cell.rate if cell.rate else None),
        Column("searches", "searches/s", of=lambda cell: cell.throughput()),
        Column("over_least", "over the least rate", of=over_least),
    ]
    text = (
        "Searches as fast as they are answered while documents are due at a rate, at random times. Where the whole "
        "interval lies below the rate, there was no room for it. `make plan` holds its model against these "
        "configurations."
    )
    table = Table.of("mixed", columns, list(queries.values()))
    others = {name: rate_ratio(cell, base) for name, cell in queries.items() if (base := least(cell)) is not cell}
    shown = {name: {"": ratio} for name, ratio in others.items() if ratio.n}
    if not shown:
        return [text, table]
    caption = "Searches at each rate of documents over those at the least, with the same shards; with their intervals."
    return [text, table, Figure(plots.cells(shown, "times the searches at the least rate", 1.0), caption)]
