"""Explains a race of capacity-query: searches by shards and replicas, and what two articles say of them."""

from collections.abc import Mapping
from functools import partial

from _tools.report.race import Race
from _tools.report.section import Section
from _tools.report.stats import Estimate, median
from _tools.report.table import Column, Table, Words
from _tools.report.text import number
from cluster_metrics.capacity.challenge import QUERY

from . import model
from .cells import Cell, changes, compared_in
from .expected import held_against
from .parts import SUMMARY, answer_of_grid, framed, reference, sheets
from .warnings import warnings

__all__ = ["SUMMARY", "answer", "changes", "compared_in", "reference", "sections", "sheets", "warnings"]

REFERENCE = {"1s-0r": 80.0, "2s-0r": 150.0, "1s-1r": 150.0} | dict.fromkeys(
    ("3s-0r", "3s-1r", "1s-2r", "2s-2r", "3s-2r"), 250.0
)
"""CAPACITY: queries/s of its cells; of [2 shards, 1 replica] it says no more than slightly below 250."""
MEANING = (
    "*nodes* is one times per node that holds a shard; *in turn* lets the copies of a shard answer in turn, so the "
    "node with most to do limits the cell; *balanced* has each search go where least is to do, as adaptive replica "
    "selection strives for; *at 10 million* is the fitted model at the articles' number of documents, an extrapolation"
)
answer = partial(answer_of_grid, kind=QUERY)


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    return framed(race, QUERY, lambda cells: _sections(race, cells))


def _sections(race: Race, cells: Mapping[str, Cell]) -> list[Section]:
    article = {name: rate / REFERENCE["1s-0r"] for name, rate in REFERENCE.items() if name in cells}
    held = held_against(race, cells, QUERY, MEANING, article)
    return [*held, Section("Cost per document scanned", _scanned(cells))]


def _scanned(cells: Mapping[str, Cell]) -> list[str | Table]:
    def ns(cell: Cell, nodes: int = 1) -> Estimate:
        return median(1e9 * nodes / cell.rates() / cell.measured().documents)

    columns = [
        Words("cell", "configuration", of=lambda cell: cell.name),
        Column("ms", "ms per request", of=lambda cell: median(1000 / cell.rates())),
        Column("ns", "ns per document", of=ns),
        Column(
            "ns_node", "ns per document and node", of=lambda cell: ns(cell, sum(map(bool, cell.last.table.values())))
        ),
    ]
    text = (
        "The articles' arithmetic: time per request, divided by the documents of the index; and that times the nodes "
        "that hold shards, which stays the same where throughput is linear in them. There it is 12.5 ms for 10 "
        "million documents, 1.25 ns each."
    )
    return [text, Table.of("scanned", columns, cells.values()), *_fixed(cells)]


def _fixed(cells: Mapping[str, Cell]) -> list[str]:
    """Why throughput is not linear in nodes: what a shard costs before its first document."""
    measured = [cell.measured() for cell in cells.values()]
    if len(measured) <= model.QueryModel.COSTS:
        return []
    costs = model.QueryModel.fitted(measured)
    text = (
        f"Fitted to all cells, a search takes {number(1e3 * costs.visit_s)} ms of a node for a shard, whatever it "
        f"holds, {number(1e9 * costs.document_s)} ms per million documents in it, and {number(1e3 * costs.request_s)} "
        "ms that spread over all nodes."
    )
    if costs.document_s:
        text += (
            f" So from {costs.visit_s / costs.document_s:,.0f} documents in a shard on, scanning them takes "
            "longer than asking the shard at all; with far fewer, more shards bring little. The articles leave it out."
        )
    return [text]
