"""What requests cost a node, fitted to the cells of races of the capacity challenges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from _tools.report.race import Race
from cluster_metrics.capacity.challenge import INDEX, QUERY

from . import cells as capacity
from . import model
from .cells import Cell
from .model import IndexModel, Measured, Mixed, QueryModel, Together

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

    @property
    def both(self) -> bool:
        """Whether there are searches beside documents."""
        return bool(self.docs and self.searches)


@dataclass(frozen=True)
class Models:
    """What requests cost; None where no race measured it.

    :param search_miss: time that searches take over that which their model expects.
    :param document_miss: the same of documents.
    :param together: what both take besides, see :class:`Together`; nothing where no race tells.
    """

    queries: QueryModel | None
    indexing: IndexModel | None
    search_miss: float = 1.0
    document_miss: float = 1.0
    together: Together = Together()

    def work(self, nodes: int, shards: int, goal: Goal) -> tuple[float, float]:
        """Parts of the busiest node's time that searches and documents take."""
        searches = documents = 0.0
        if costs := self.queries:
            visits = _visits(nodes, shards, goal.replicas)
            each = costs.visiting(visits, shards, goal.documents, nodes) * self.search_miss
            longer = self.together.longer if self._both(goal) else 0.0
            searches = goal.searches * each * (1 + longer)
        if self.indexing:
            table = _spread(nodes, shards, goal.replicas)
            documents = goal.docs * self.indexing.seconds(table) * self.document_miss
        return searches, documents + self.besides(nodes, shards, goal)

    def besides(self, nodes: int, shards: int, goal: Goal) -> float:
        """The part of it that searches beside documents take, however many they are; counted with the documents."""
        copies = model.most_copies(_spread(nodes, shards, goal.replicas))
        return copies * self.together.copy_s if self._both(goal) else 0.0

    def _both(self, goal: Goal) -> bool:
        """Whether there are searches beside documents of known cost."""
        return bool(self.indexing and goal.both)

    def searched(self, cell: Measured, documents: float) -> float:
        """Searches a second that a cell carries beside so many documents a second: the busiest node's time that is
        left, by what a search takes of it."""
        assert self.queries
        each, taken = cell.seconds(self.queries) * self.search_miss, 0.0
        if documents:
            each *= 1 + self.together.longer
            taken = model.most_copies(cell.table) * self.together.copy_s
        if self.indexing:
            taken += documents * cell.seconds(self.indexing) * self.document_miss
        return max(0.0, 1 - taken) / each

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

    :param queries: of searches alone.
    :param indexing: of documents alone.
    :param mixed: of searches beside documents, of races that have searches alone, too.
    """

    queries: Sequence[Measured]
    indexing: Sequence[Measured]
    mixed: Sequence[Mixed] = ()

    def sizes(self) -> tuple[set[int], set[int]]:
        """Numbers of nodes that were raced: with searches, and with documents."""
        return _sizes(self.queries), _sizes(self.indexing)

    def of_fewer(self, nodes: int) -> "Cells":
        """Those of fewer nodes than so many."""
        queries, indexing = ([c for c in of if len(c.table) < nodes] for of in (self.queries, self.indexing))
        return Cells(queries, indexing, [of for of in self.mixed if len(of.cell.table) < nodes])

    def told(self) -> "Cells":
        """Those of kinds that tell what shrinks with nodes, and how far a model misses a cell that it has not seen."""
        searches, indexing = (len(sizes) > 1 and of for sizes, of in zip(self.sizes(), self.misses().values()))
        return replace(self, queries=self.queries if searches else (), indexing=self.indexing if indexing else ())

    @property
    def alone(self) -> list[int]:
        """Numbers of nodes of the kinds that were raced on one number of them alone."""
        return [next(iter(sizes)) for sizes in self.sizes() if len(sizes) == 1]

    def readings(self) -> list[Models]:
        """What requests cost, in one reading or, where one number of nodes of a kind leaves that open, in two: the one
        by which more nodes carry less stands last."""
        queries = QueryModel.fitted(self.queries) if self.queries else None
        indexing = IndexModel.fitted(self.indexing) if self.indexing else None
        together = Together.fitted(self.mixed, indexing) if indexing else Together()
        models = Models(queries, indexing, together=together)
        if queries and len(sizes := _sizes(self.queries)) == 1:
            queries = model.unshared(queries, *sizes)
        if indexing and len(sizes := _sizes(self.indexing)) == 1:
            indexing = model.unshared(indexing, *sizes)
        return [models, Models(queries, indexing, together=together)] if self.alone else [models]

    def misses(self) -> dict[str, list[float]]:
        """The time that each cell takes over that by a model of the others; none where they are too few."""
        return {
            "searches": _misses(self.queries, model.held_out(self.queries, QueryModel)),
            "indexing": _misses(self.indexing, model.held_out(self.indexing, IndexModel)),
        }

    def predictions(self) -> list[Models]:
        """What requests may cost: each a fit to passes drawn anew, off by as much as cells were missed that their model
        had not seen."""
        rng, misses = np.random.default_rng(SEED), self.misses()
        searched, indexed = (len(set(model.told_apart(of))) for of in (self.queries, self.indexing))
        return [
            replace(
                Cells(
                    _resampled(self.queries, rng),
                    _resampled(self.indexing, rng),
                    [self.mixed[i] for i in rng.integers(0, len(self.mixed), len(self.mixed))] if self.mixed else (),
                ).readings()[-1],
                search_miss=_drawn(misses["searches"], searched, rng),
                document_miss=_drawn(misses["indexing"], indexed, rng),
            )
            for _ in range(PREDICTIONS)
        ]


def cells_of(races: Sequence[Race]) -> Cells:
    """The cells of races by the steady passes in which a node was at its limit: of capacity-query, capacity-indexing
    and capacity-mixed."""
    searched = [
        one for challenge in ("capacity-query", "capacity-mixed") for one in _saturated(races, QUERY, challenge)
    ]
    alone = [cell.measured() for _, cell in searched if not cell.rate]
    documents = [cell.measured() for _, cell in _saturated(races, INDEX, "capacity-indexing")]
    mixed = [of for race, cell in searched if cell.rate for of in _mixed(race, cell)]
    return Cells(alone, documents, mixed)


def _saturated(races: Sequence[Race], kind: str, challenge: str) -> list[tuple[Race, Cell]]:
    cells = [
        (race, capacity.saturated(cell, race))
        for race in races
        if race.challenge == challenge
        for cell in capacity.cells_of(race, kind).values()
    ]
    return [(race, cell) for race, cell in cells if cell.passes]


def _mixed(race: Race, cell: Cell) -> Iterator[Mixed]:
    """A cell beside documents, where the race has the same shards without."""
    all_cells = capacity.cells_of(race, QUERY).values()
    alone = [capacity.saturated(of, race) for of in all_cells if of.grid == cell.grid and not of.rate]
    indexed = capacity.cells_of(race, INDEX).get(cell.name)
    for left in (capacity.rate_ratio(cell, base) for base in alone):
        if left.n and indexed:
            yield Mixed(cell.measured(), float(np.median(indexed.rates())), left.value)


def _sizes(cells: Sequence[Measured]) -> set[int]:
    """Numbers of nodes that were raced."""
    return {len(cell.table) for cell in cells}


def _resampled(cells: Sequence[Measured], rng: np.random.Generator) -> list[Measured]:
    drawn = (rng.integers(0, len(cell.passes), len(cell.passes)) for cell in cells)
    return [replace(cell, passes=[cell.passes[i] for i in of]) for cell, of in zip(cells, drawn)]


def _misses(cells: Sequence[Measured], expected: Sequence[float]) -> list[float]:
    misses = [e / cell.rate for cell, e in zip(cells, expected)]
    return misses if np.isfinite(misses).all() else []


def _drawn(misses: Sequence[float], cells: int, rng: np.random.Generator) -> float:
    """A factor by which a prediction is off: Student's t, with a degree of freedom for each cell, times the root mean
    square of the logarithms of misses. A new one lies outside the range of n alike in 2 of n + 1 cases, so to draw one
    of them would not do.

    :param cells: that can be told apart; the same one of several races is missed alike.
    """
    if not misses:
        return 1.0
    spread = np.sqrt(np.mean(np.log(misses) ** 2))
    return float(np.exp(spread * rng.standard_t(cells)))
