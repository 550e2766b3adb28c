"""How the throughput of a cluster follows from its shards and replicas.

A cluster is as fast as the node that has the most to do. What a node has to do for one request is counted from the
shards that it holds; what each of these things costs is fitted to measured cells. The arithmetic is that of the two
capacity articles (time per document scanned, nodes that take part); the fit is ours. Of indexing it is known what each
node has to do, so all nodes tell of the costs, by the CPU time that they used; searches go where least is to do.
"""

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np
from scipy import optimize, stats

Table = Mapping[str, Sequence[str]]
"""Which node holds what: node to shards, a primary as ``0p``, a replica as ``0r``."""
Terms = tuple[float, ...]
"""How much of each of its costs a model has a node do for one request."""
MOST_SUBSETS = 10
"""Up to so many shards the limit of searches is found by trying all sets of them."""


def spread(nodes: int, shards: int, replicas: int) -> dict[str, list[str]]:
    """The shards of an index spread over nodes as evenly as can be, copies of one shard on different nodes, and no node
    with two primaries more than another.

    :raises ValueError: when there are too few nodes for the replicas.
    """
    if replicas >= nodes:
        raise ValueError(f"{replicas} replicas take {replicas + 1} nodes, not {nodes}")
    table: dict[str, list[str]] = {f"node {i + 1}": [] for i in range(nodes)}
    names = itertools.cycle(table)
    primaries = dict.fromkeys(table, 0)
    for shard in range(shards):
        holders = [next(names) for _ in range(1 + replicas)]
        first = min(holders, key=lambda node: primaries[node])
        primaries[first] += 1
        for node in holders:
            table[node].append(f"{shard}{'p' if node == first else 'r'}")
    return table


def _holders(table: Table) -> dict[str, set[str]]:
    holders: dict[str, set[str]] = {}
    for node, shards in table.items():
        for shard in shards:
            holders.setdefault(shard[:-1], set()).add(node)
    return holders


def visits_in_turn(table: Table) -> float:
    """Shards that the busiest node searches per request when the copies of each shard are asked in turn."""
    holders = _holders(table)
    return max(sum(1 / len(holders[shard[:-1]]) for shard in shards) for shards in table.values())


def visits_balanced(table: Table) -> float:
    """The same when each request goes to the copies that make the busiest node least busy.

    That is what adaptive replica selection strives for. Some set of shards limits it: all of its searches fall on the
    nodes that hold one of them. With more than ten shards only single ones and all of them are tried.
    """
    holders = list(_holders(table).values())
    sizes = range(1, len(holders) + 1) if len(holders) <= MOST_SUBSETS else (1, len(holders))
    return max(len(some) / len(set().union(*some)) for size in sizes for some in itertools.combinations(holders, size))


def copies(table: Table) -> list[tuple[float, float]]:
    """Per node that holds any shard, the documents per indexed one that it takes as primary and as replica."""
    shards = len(_holders(table))
    return [
        (sum(s.endswith("p") for s in held) / shards, sum(s.endswith("r") for s in held) / shards)
        for held in table.values()
        if held
    ]


def replicas(table: Table) -> float:
    """Replicas of each shard."""
    return sum(map(len, table.values())) / len(_holders(table)) - 1


def most_copies(table: Table) -> int:
    """The most copies of shards that a node holds."""
    return max(map(len, table.values()))


@dataclass(frozen=True)
class Counted:
    """A pass of a cell that counts.

    :param rate: requests, or documents indexed, per second, in a pass as fast as others.
    :param table: which node held what.
    :param parts: by node, the CPU time that it used over that of the node that used most; none where not told.
    :param at_once: documents of a request.
    """

    rate: float
    table: Table
    parts: Mapping[str, float]
    at_once: int = 1


@dataclass(frozen=True)
class Measured:
    """A cell of a capacity race.

    :param table: which node held what in the last of its passes.
    :param shards: of the index.
    :param documents: of the index.
    """

    table: Table
    shards: int
    documents: int
    passes: Sequence[Counted]

    @property
    def rates(self) -> list[float]:
        """Requests, or documents indexed, per second; one per pass, as if all were as fast."""
        return [one.rate for one in self.passes]

    @property
    def rate(self) -> float:
        """Their median."""
        return float(np.median(self.rates))

    def seconds(self, model: "QueryModel | IndexModel") -> float:
        """Seconds of the busiest node per request that a model expects, in the median of passes, each by where its
        shards stood."""
        return float(np.median([model.seconds(one.table, self.shards, self.documents) for one in self.passes]))


@dataclass(frozen=True)
class QueryModel:
    """Seconds that a search costs. Requests go to all nodes in turn, and copies are chosen whichever node asks.

    :param visit_s: a shard, whatever it holds; on the node that searches it.
    :param document_s: a document of that shard.
    :param request_s: a request, spread over all nodes.
    :param remote_s: a shard that another node asks, on the node that searches it.
    :param node_s: a request, on the busiest node, however many there are.
    """

    COSTS: ClassVar[int] = 3
    """Fitted to cells of one number of nodes, see :func:`fewest`."""

    visit_s: float
    document_s: float
    request_s: float
    remote_s: float = 0.0
    node_s: float = 0.0

    def seconds(self, table: Table, shards: int, documents: float) -> float:
        """Seconds of the busiest node per request."""
        return self.visiting(visits_balanced(table), shards, documents, len(table))

    def visiting(self, visits: float, shards: int, documents: float, nodes: int) -> float:
        """The same by how many shards that node searches per request."""
        costs = [self.visit_s, self.document_s, self.request_s, self.remote_s]
        return float(np.dot(_query_terms(visits, shards, documents, nodes), costs)) + self.node_s

    @classmethod
    def fitted(cls, cells: Iterable[Measured]) -> "QueryModel":
        """Costs fitted to the rate of each cell, the geometric mean of its passes."""
        found = list(cells)
        terms = [_query_terms(visits_balanced(c.table), c.shards, c.documents, len(c.table)) for c in found]
        return cls(*_least_squares(terms, [float(stats.gmean(c.rates)) for c in found]))


@dataclass(frozen=True)
class IndexModel:
    """Seconds that a document costs. Requests go to all nodes in turn.

    :param primary_s: the node of its primary shard.
    :param replica_s: the node of each replica.
    :param copy_s: each replica, on the node of its primary shard, which sends it.
    :param later_s: each copy, on the node that holds it, for each replica beyond the first.
    :param shard_s: a request of several documents, for each copy of each shard that it has documents of, on the node
        that holds it.
    :param request_s: a document, spread over all nodes.
    :param remote_s: a document that another node was sent, on the node of its primary shard.
    :param node_s: a document, on the busiest node, however many there are.
    :param at_once: documents of a request.
    """

    COSTS: ClassVar[int] = 4
    """Fitted to cells of one number of nodes, see :func:`fewest`."""

    primary_s: float
    replica_s: float
    copy_s: float
    later_s: float
    shard_s: float
    request_s: float
    remote_s: float = 0.0
    node_s: float = 0.0
    at_once: int = field(default=1, kw_only=True)

    def seconds(self, table: Table, shards: int = 0, documents: float = 0) -> float:
        """Seconds of the busiest node per document."""
        return max(map(self._cost, _index_terms(table, self.at_once).values())) + self.node_s

    def _cost(self, terms: Terms) -> float:
        costs = [self.primary_s, self.replica_s, self.copy_s, self.later_s, self.shard_s]
        return sum(map(operator.mul, terms, [*costs, self.request_s, self.remote_s]))

    @classmethod
    def fitted(cls, cells: Iterable[Measured]) -> "IndexModel":
        """Costs fitted to the time that each node of each cell takes for a document: the busiest all of it, others as
        much less as they used less of the CPU."""
        found = list(cells)
        at_once = _at_once(found)
        taken = [row for cell in found for row in _taken(cell, at_once).items()]
        costs = _least_squares([terms for terms, _ in taken], [1 / seconds for _, seconds in taken])
        return cls(*costs, at_once=at_once)


@dataclass(frozen=True)
class Mixed:
    """A cell of searches beside documents.

    :param cell: by its searches.
    :param documents: indexed per second.
    :param left: its searches over those of the same shards without documents.
    """

    cell: Measured
    documents: float
    left: float


@dataclass(frozen=True)
class Together:
    """What searches and documents take of a node's time together besides what each takes alone.

    :param copy_s: part of a node's time for each copy of a shard that it holds, however many requests there are.
    :param longer: part by which searches take longer than without documents.
    """

    copy_s: float = 0.0
    longer: float = 0.0

    @classmethod
    def fitted(cls, cells: Iterable[Mixed], indexing: IndexModel) -> "Together":
        """Costs, none below 0, that explain with the least squared error the part of the busiest node's time that
        neither searches, as they take without documents, nor documents, as they take without searches, account for."""
        terms, rest = [[0.0, 0.0]], [0.0]
        for of in cells:
            terms.append([most_copies(of.cell.table), of.left])
            rest.append(1 - of.left - of.documents * of.cell.seconds(indexing))
        return cls(*map(float, optimize.nnls(np.array(terms), np.array(rest))[0]))


Model = TypeVar("Model", QueryModel, IndexModel)


def unshared(model: Model, nodes: int) -> Model:
    """A model of cells of so many nodes that expects the same of these, and has more nodes share nothing of what a
    request costs beside its shards: cells of one number of nodes cannot tell the two apart."""
    return replace(model, request_s=0.0, node_s=model.node_s + model.request_s / nodes)


def _query_terms(visits: float, shards: int, documents: float, nodes: int) -> Terms:
    return visits, visits * documents / shards, 1 / nodes, visits * (1 - 1 / nodes)


def _index_terms(table: Table, at_once: int) -> dict[str, Terms]:
    """What each node does per document: its primaries, its replicas, those that it sends, its copies for each replica
    beyond the first, its copies for each request of several documents, of a shard if it has one or more of its
    documents, requests, and documents that another node was sent."""
    nodes, shards = len(table), len(_holders(table))
    asked = (1 - (1 - 1 / shards) ** at_once) / at_once if at_once > 1 else 0.0
    done = {node: [sum(s.endswith(kind) for s in held) / shards for kind in "pr"] for node, held in table.items()}
    sent = replicas(table)
    later = max(0.0, sent - 1)
    return {
        node: (p, r, p * sent, (p + r) * later, len(table[node]) * asked, 1 / nodes, p * (1 - 1 / nodes))
        for node, (p, r) in done.items()
    }


def _at_once(cells: Iterable[Measured]) -> int:
    """Documents of a request; the last one of a corpus may have fewer."""
    return int(np.median([one.at_once for cell in cells for one in cell.passes] or [1]))


def _taken(cell: Measured, at_once: int) -> dict[Terms, float]:
    """Seconds that nodes of a cell take for a document, the geometric mean of those that do the same for one and used
    any CPU; where none was told, of the node with most to do, each thing taken for as much."""
    found: dict[Terms, list[float]] = {}
    for one in cell.passes:
        terms = _index_terms(one.table, at_once)
        for node, part in (one.parts or {max(terms, key=lambda of: sum(terms[of])): 1.0}).items():
            if part:
                found.setdefault(terms[node], []).append(part / one.rate)
    return {terms: float(stats.gmean(seconds)) for terms, seconds in found.items()}


def _least_squares(terms: Sequence[Terms], rates: Sequence[float]) -> list[float]:
    """Costs, none below 0, that explain the rates with the least squared relative error of the seconds; the last but
    one is of a request that nodes share, and the last is left out where all cells have as many nodes."""
    known = np.array(terms)
    if len(set(known[:, -2])) == 1:
        known[:, -1] = 0
    matrix = known * np.array(rates)[:, None]
    scale = matrix.max(axis=0)
    scale[scale == 0] = 1
    return [float(cost) for cost in optimize.nnls(matrix / scale, np.ones(len(matrix)))[0] / scale]


def tell_of_later(cells: Iterable[Measured]) -> bool:
    """Whether cells tell what a replica beyond the first costs."""
    return any(replicas(cell.table) > 1 for cell in cells)


def fewest(cells: Iterable[Measured], of: type[QueryModel] | type[IndexModel]) -> int:
    """Cells that a model takes at least: as many as it has costs, one of which takes numbers of nodes that differ, and
    others of documents a second replica, and several documents of a request."""
    found = list(cells)
    least = of.COSTS + (len({len(cell.table) for cell in found}) > 1)
    return least + (tell_of_later(found) + (_at_once(found) > 1) if of is IndexModel else 0)


def told_apart(cells: Iterable[Measured]) -> list[tuple[float, ...]]:
    """What cells are told apart by: nodes, shards, replicas, documents. Cells of several races that are alike in these
    are taken for one cell, raced again."""
    return [(len(cell.table), cell.shards, replicas(cell.table), cell.documents) for cell in cells]


def held_out(cells: Sequence[Measured], of: type[QueryModel] | type[IndexModel]) -> list[float]:
    """What a model fitted to all other cells expects of each, the same cell of another race left out with it: requests,
    or documents, per second.

    :return: nan for all when the others are fewer than a model has costs.
    """
    known = told_apart(cells)
    if len(set(known)) <= fewest(cells, of):
        return [float("nan")] * len(cells)
    found = []
    for cell, own in zip(cells, known):
        seconds = cell.seconds(of.fitted([other for other, its in zip(cells, known) if its != own]))
        found.append(1 / seconds if seconds > 0 else float("nan"))
    return found
