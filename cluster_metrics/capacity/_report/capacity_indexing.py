"""Explains a race of capacity-indexing: documents by shards and replicas, and what two articles say of them."""

from _tools.report.race import Race
from _tools.report.section import Section
from cluster_metrics.capacity.challenge import INDEX

from .cells import compared_in
from .claims import claims
from .parts import expected, framed, of_grid, sheets

__all__ = ["compared_in", "sections", "sheets"]

MEANING = "*nodes* lets primary shards cost and replicas nothing; *copies* lets a replica cost as much as its primary"


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    cells, found = of_grid(race, INDEX)
    if not cells:
        return []
    return framed(
        race,
        [
            *found,
            Section("Do the articles hold?", claims(cells, INDEX)),
            *expected(cells, INDEX, MEANING, {}),
        ],
    )
