"""Explains a race of capacity-indexing: documents by shards and replicas, and what two articles say of them."""

from functools import partial

from _tools.report.race import Race
from _tools.report.section import Section
from cluster_metrics.capacity.challenge import INDEX

from .cells import changes, compared_in
from .expected import held_against
from .parts import SUMMARY, answer_of_grid, framed, reference, sheets
from .warnings import warnings

__all__ = ["SUMMARY", "answer", "changes", "compared_in", "reference", "sections", "sheets", "warnings"]

MEANING = "*nodes* lets primary shards cost and replicas nothing; *copies* lets a replica cost as much as its primary"
answer = partial(answer_of_grid, kind=INDEX)


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a cell."""
    return framed(race, INDEX, lambda cells: held_against(race, cells, INDEX, MEANING, {}))
