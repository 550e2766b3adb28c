"""What requests cost a node, fitted to the cells of races of the capacity challenges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from _tools.report.race import Race
from cluster_metrics.capacity.challenge import INDEX, QUERY

from . import cells as capacity
from . import model
from .model import IndexModel, Measured, QueryModel

PREDICTIONS = 200
SEED = 42


@dataclass(frozen=True)
class Goal:
    """What a cluster must carry.

    :param docs: documents indexed per second; 0 for none.
    :param searches: searches per second; 0 for none.
    :param replicas: of each shard.
    :param growth: factor on both, and on the documents held.
    :param headroom: part of the busiest node's time that is kept free.
    :param documents: that the index holds today; 0 for as many as in the races.
    """

    docs: float
    searches: float
    replicas: int
    growth: float = 1.0
    headroom: float = 0.3
    documents: float = 0


@dataclass(frozen=True)
class Models:
    """What requests cost; None where no race measured it.

    :param search_miss: time that searches take over that which their model expects.
    :param document_miss: the same of documents.
    """

    queries: QueryModel | None
    indexing: IndexModel | None
    search_miss: float = 1.0
    document_miss: float = 1.0

    def work(self, nodes: int, shards: int, goal: Goal) -> tuple[float, float]:
        """Parts of the busiest node's time that searches and documents take."""
        searches = documents = 0.0
        if costs := self.queries:
            each = costs.visiting(_visits(nodes, shards, goal.replicas), shards, goal.documents, nodes)
            searches = goal.searches * each * self.search_miss
        if self.indexing:
            each = self.indexing.seconds(_spread(nodes, shards, goal.replicas))
            documents = goal.docs * each * self.document_miss
        return searches, documents

    def busy(self, nodes: int, shards: int, goal: Goal) -> float:
        """Part of the busiest node's time; as if one node were the busiest with both kinds of requests."""
        return sum(self.work(nodes, shards, goal))


_spread = cache(model.spread)


@cache
def _visits(nodes: int, shards: int, replicas: int) -> float:
    return model.visits_balanced(_spread(nodes, shards, replicas))


@dataclass(frozen=True)
class Cells:
    """The cells that costs are fitted to.

    :param queries: of capacity-query.
    :param indexing: of capacity-indexing.
    """

    queries: Sequence[Measured]
    indexing: Sequence[Measured]

    def sizes(self) -> tuple[set[int], set[int]]:
        """Numbers of nodes that were raced: with searches, and with documents."""
        return _sizes(self.queries), _sizes(self.indexing)

    def told(self) -> "Cells":
        """Those of kinds that tell what shrinks with nodes, and how far a model misses a cell that it has not seen."""
        searches, indexing = (len(sizes) > 1 and of for sizes, of in zip(self.sizes(), self.misses().values()))
        return Cells(self.queries if searches else (), self.indexing if indexing else ())

    @property
    def alone(self) -> list[int]:
        """Numbers of nodes of the kinds that were raced on one number of them alone."""
        return [next(iter(sizes)) for sizes in self.sizes() if len(sizes) == 1]

    def readings(self) -> list[Models]:
        """What requests cost, in one reading or, where one number of nodes of a kind leaves that open, in two: the one
        by which more nodes carry less stands last."""
        queries = QueryModel.fitted(self.queries) if self.queries else None
        indexing = IndexModel.fitted(self.indexing) if self.indexing else None
        models = Models(queries, indexing)
        if queries and len(sizes := _sizes(self.queries)) == 1:
            queries = model.unshared(queries, *sizes)
        if indexing and len(sizes := _sizes(self.indexing)) == 1:
            indexing = model.unshared(indexing, *sizes)
        return [models, Models(queries, indexing)] if self.alone else [models]

    def misses(self) -> dict[str, list[float]]:
        """The time that each cell takes over that by a model of the others; none where they are too few."""
        return {
            "searches": _misses(self.queries, model.held_out(self.queries, QueryModel)),
            "indexing": _misses(self.indexing, model.held_out(self.indexing, IndexModel)),
        }

    def predictions(self) -> list[Models]:
        """What requests may cost: each a fit to passes drawn anew, which misses as one missed a cell it had not
        seen."""
        rng, misses = np.random.default_rng(SEED), self.misses()
        return [
            replace(
                Cells(_resampled(self.queries, rng), _resampled(self.indexing, rng)).readings()[-1],
                search_miss=float(rng.choice(misses["searches"] or [1.0])),
                document_miss=float(rng.choice(misses["indexing"] or [1.0])),
            )
            for _ in range(PREDICTIONS)
        ]


def cells_of(races: Sequence[Race]) -> Cells:
    """The cells of races by the steady passes in which a node was at its limit: of capacity-query and
    capacity-indexing alone."""
    return Cells(_saturated(races, QUERY, "capacity-query"), _saturated(races, INDEX, "capacity-indexing"))


def _saturated(races: Sequence[Race], kind: str, challenge: str) -> list[Measured]:
    cells = [
        capacity.saturated(cell, race)
        for race in races
        if race.challenge == challenge
        for cell in capacity.cells_of(race, kind).values()
    ]
    return [cell.measured() for cell in cells if cell.passes]


def _sizes(cells: Sequence[Measured]) -> set[int]:
    """Numbers of nodes that were raced."""
    return {len(cell.table) for cell in cells}


def _resampled(cells: Sequence[Measured], rng: np.random.Generator) -> list[Measured]:
    return [replace(cell, rates=list(rng.choice(np.array(cell.rates), len(cell.rates)))) for cell in cells]


def _misses(cells: Sequence[Measured], expected: Sequence[float]) -> list[float]:
    misses = [e / float(np.median(cell.rates)) for cell, e in zip(cells, expected)]
    return misses if np.isfinite(misses).all() else []
