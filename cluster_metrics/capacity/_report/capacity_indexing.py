"""Explains a race of capacity-indexing: documents by shards and replicas, and what two articles say of them."""

from collections.abc import Iterator

from _tools.report.answer import Finding
from _tools.report.race import Race
from _tools.report.section import Section
from cluster_metrics.capacity.challenge import INDEX

from .cells import compared_in
from .claims import claims
from .parts import SUMMARY, answer_of_grid, expected, framed, of_grid, reference, sheets, warnings

__all__ = ["SUMMARY", "answer", "compared_in", "reference", "sections", "sheets", "warnings"]

MEANING = "*nodes* lets primary shards cost and replicas nothing; *copies* lets a replica cost as much as its primary"


def answer(race: Race) -> Iterator[Finding]:
    """The throughput of the grid, what limits it, and which published statements hold."""
    return answer_of_grid(race, INDEX)


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    cells, found = of_grid(race, INDEX)
    if not cells:
        return []
    return framed(
        race,
        [
            *found,
            Section("Do the published statements hold?", claims(cells, INDEX)),
            *expected(cells, INDEX, MEANING, {}),
        ],
    )
