"""The cells of a race of a capacity challenge over their passes, and what limited them."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from _tools.report.gains import Gain
from _tools.report.looks import BUSY
from _tools.report.race import Race, Sample
from _tools.report.stats import Estimate, Samples, median, paired_ratio
from _tools.report.text import number
from cluster_metrics.capacity.challenge import CELL_CLIENTS, CLIENTS, INDEX, MONITOR, PREPARE, QUERY, change_of

from .model import Measured
from .passes import Pass, gone, steadied, together

FULL = 0.95
"""Part of its share that the busiest node shall use where more clients are advised: some more than makes it full."""


@dataclass(frozen=True)
class Cell:
    """One cell of the grid, over its passes.

    :param name: such as ``2s-1r``, behind it ``-2n`` where two nodes alone hold its shards and take its requests, and
        in a mixed race the documents indexed per second.
    :param nodes: that hold its shards and take its requests; 0 for all.
    :param rate: documents per second that are indexed meanwhile; 0 for none.
    """

    name: str
    shards: int
    replicas: int
    nodes: int
    rate: float
    passes: Mapping[int, Pass]

    @property
    def shape(self) -> str:
        """Its shards and replicas, by which its clients are."""
        return f"{self.shards}s-{self.replicas}r"

    @property
    def grid(self) -> str:
        """Its shards, replicas and nodes, without the rate."""
        return f"{self.shape}-{self.nodes}n" if self.nodes else self.shape

    def alike(self, other: "Cell", shards: int, replicas: int) -> bool:
        """Whether it has so many shards and replicas, and else is as another."""
        return (self.shards, self.replicas, self.nodes, self.rate) == (shards, replicas, other.nodes, other.rate)

    @property
    def last(self) -> Pass:
        """The last pass that counts, of all where none does."""
        return max((self.steady or self.passes).items())[1]

    @property
    def steady(self) -> Mapping[int, Pass]:
        """The passes that count: those in which its rate was steady and no node had left."""
        return {number_of: one for number_of, one in self.passes.items() if one.steady and not one.gone}

    @property
    def counted(self) -> list[Pass]:
        """The passes that count; all where none does."""
        return list((self.steady or self.passes).values())

    def rates(self) -> Samples:
        """Their rates."""
        return np.array([one.rate for one in self.counted])

    def throughput(self) -> Estimate:
        """The median of the rates; without an interval where the rate was never steady."""
        found = median(self.rates())
        return found if self.steady else replace(found, n=0, low=np.nan, high=np.nan)

    def trend(self) -> Estimate | None:
        """The rate of the second half of a pass over that of the first; None where one has too few requests."""
        halves = [one.halves for one in self.passes.values()]
        return paired_ratio(*np.array(halves).T) if all(map(all, halves)) else None

    def measured(self) -> Measured:
        documents = int(np.median([p.prepared.meta["documents"] for p in self.passes.values()]))
        return Measured(self.last.table, self.shards, documents, [one.measured for one in self.counted])


def cells_of(race: Race, kind: str) -> Mapping[str, Cell]:
    """The cells of a race by name, in order of nodes, shards, replicas and rate; passes up to 0, which warm up, and
    passes without requests are left out. All counts of what is sent at a rate of its own, and from when it is steady
    what is sent as fast as it is answered.

    :param kind: ``capacity-query`` or ``capacity-index``.
    """
    return race.once(_by_kind)[kind]


def _by_kind(race: Race) -> dict[str, dict[str, Cell]]:
    return {kind: _cells(race, kind) for kind in (QUERY, INDEX)}


def _cells(race: Race, kind: str) -> dict[str, Cell]:
    kinds = (kind, PREPARE, MONITOR)
    grouped: dict[tuple[str, int], dict[str, list[Sample]]] = defaultdict(lambda: {k: [] for k in kinds})
    for sample in (sample for k in kinds for sample in race.of(k)):
        if sample.meta["pass"] > 0:
            grouped[sample.meta["cell"], sample.meta["pass"]][sample.kind].append(sample)
    found: dict[str, dict[int, Pass]] = {}
    for (name, number_of), of in sorted(grouped.items()):
        if of[PREPARE] and len(of[kind]) > 1:
            one = Pass(of[MONITOR], of[PREPARE][0], of[kind], gone=gone(of[PREPARE][0], of[MONITOR]))
            seconds = race.parameters.get("cell_seconds", (of[kind][-1].at - of[kind][0].at) / 1000)
            if race.record.latencies or kind == INDEX and one.prepared.meta["rate"]:
                one = replace(one, paced_s=seconds)
            else:
                one = steadied(together(one, seconds), seconds)
            if len(one.requests) > 1:
                found.setdefault(name, {})[number_of] = one
    cells = []
    for name, passes in found.items():
        meta = next(iter(passes.values())).prepared.meta
        nodes = meta.get("data_nodes", 0)
        cells.append(Cell(name, meta["shards"], meta["replicas"], nodes, float(meta["rate"]), passes))
    cells.sort(key=lambda c: (c.nodes, c.shards, c.replicas, c.rate))
    of_pass = levels(saturated(cell, race) for cell in cells)
    levelled = (
        replace(cell, passes={n: replace(one, level=of_pass.get(n, 1.0)) for n, one in cell.passes.items()})
        for cell in cells
    )
    return {cell.name: cell for cell in levelled}


def levels(cells: Iterable[Cell]) -> dict[int, float]:
    """How fast each pass was over the geometric mean of them, by all cells, so that one in which the machine was slower
    does not slow the cells that counted in it: the logarithm of a rate is what its cell and what its pass are worth, by
    least squares, as in a design of randomized blocks (Montgomery, Design and Analysis of Experiments, chapter 4). Of
    passes that have no cell in common with others 1 is told.

    :param cells: by the passes that count.
    """
    counted = [(cell.name, n, one.rate) for cell in cells for n, one in cell.passes.items() if one.rate]
    if not counted:
        return {}
    names, numbers, rates = zip(*counted)
    (_, own), (passes, of) = (np.unique(values, return_inverse=True) for values in (names, numbers))
    logs = np.log(rates)
    means = np.bincount(own, logs) / np.bincount(own)
    matrix = np.hstack([np.eye(len(means))[own], np.eye(len(passes))[of]])
    worth = np.linalg.lstsq(matrix, logs - means[own], rcond=None)[0][len(means) :]
    return dict(zip(passes.tolist(), np.exp(worth - worth.mean()).tolist()))


def steady_of(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells of which a pass counts."""
    return {name: cell for name, cell in cells.items() if cell.steady}


def waits_of(race: Race) -> dict[str, dict[int, Samples]]:
    """What the requests of each cell and pass took from when they were due, in ms; of an open loop alone."""
    found: dict[str, dict[int, list[float]]] = {}
    for sample in race.latencies:
        if sample.meta["pass"] > 0:
            found.setdefault(sample.meta["cell"], {}).setdefault(sample.meta["pass"], []).append(sample.value)
    return {name: {number: np.array(waits) for number, waits in of.items()} for name, of in found.items()}


def main_cells(race: Race) -> Mapping[str, Cell]:
    """The cells of what its challenge is about; none without its samples."""
    kinds = kinds_of(race)
    return cells_of(race, kinds[0]) if kinds else {}


def passes_of(cells: Mapping[str, Cell]) -> Iterator[tuple[Cell, int, Pass]]:
    """Each pass of each cell, with its number."""
    for cell in cells.values():
        for number_of, one in cell.passes.items():
            yield cell, number_of, one


def sizes_of(race: Race) -> list[int]:
    """The numbers of data nodes that its cells have."""
    return sorted({len(json.loads(of.meta["shard_table"])) for of in race.of(PREPARE)})


def kinds_of(race: Race) -> list[str]:
    """What a race measures, the first of it what its challenge is about."""
    return [kind for kind in (QUERY, INDEX) if race.of(kind)]


def rate_ratio(own: Cell, base: Cell) -> Estimate:
    """Throughput over that of another cell, within each pass that counts of both."""
    common = sorted(set(own.steady) & set(base.steady))
    slow, fast = (np.array([cell.passes[p].rate for p in common]) for cell in (base, own))
    return paired_ratio(slow, fast) if common else Estimate(0, np.nan, np.nan, np.nan, np.nan)


def trend_of(cells: Mapping[str, Cell]) -> Estimate | None:
    """The rate of the second half of a pass over that of the first, the geometric mean over cells, in the passes that
    all have; None where there is none, or one has too few requests. A rate that falls need not be steady."""
    common = set.intersection(*(set(cell.passes) for cell in cells.values()))
    halves = np.array([[cell.passes[p].halves for cell in cells.values()] for p in sorted(common)])
    return paired_ratio(*np.exp(np.log(halves).mean(axis=1)).T) if halves.size and halves.all() else None


def first_of(cells: Mapping[str, Cell], cell: Cell) -> Cell | None:
    """The cell of one shard without replicas on as many nodes, at the same rate."""
    return next((c for c in cells.values() if c.alike(cell, 1, 0)), None)


def changes(race: Race) -> Iterator[Gain]:
    """What other numbers of shards and replicas gain and cost against one shard without replicas, at the same rate of
    documents; the target's CPU is that per search or document."""
    for kind in kinds_of(race)[:1]:
        cells = cells_of(race, kind)
        for cell in cells.values():
            first = first_of(cells, cell)
            if first and cell is not first and set(first.steady) & set(cell.steady):
                change = change_of(cell.shards, cell.replicas, cell.nodes, cell.rate, kind)
                yield Gain(change, first.name, rate_ratio(cell, first), _cpu(cell, first))


def _cpu(cell: Cell, first: Cell) -> dict[str, Estimate | float]:
    """The CPU time of all nodes per search or document over that of another cell, in the passes that both know it."""
    known = [
        [of.passes[p].target_cores / of.passes[p].rate for of in (first, cell)]
        for p in sorted(set(first.steady) & set(cell.steady))
        if all(of.passes[p].target_cores and of.passes[p].rate for of in (first, cell))
    ]
    base, own = np.array(known).T if known else (np.array([]), np.array([]))
    return {"target_cpu": paired_ratio(base, own)} if len(own) and np.all(base > 0) else {}


def full_nodes(one: Pass, race: Race) -> dict[str, float]:
    """Nodes that used up their share of the CPU, with the part that they used."""
    held = race.shares()
    parts = {node: cores / held[node] for node, cores in one.cores().items() if node in held}
    return {node: part for node, part in parts.items() if part >= BUSY}


def clients_of(cell: Cell, race: Race) -> int | None:
    """How many clients sent in a cell; None where the race does not say."""
    own: Mapping[str, int] = race.parameters.get(CELL_CLIENTS.name, {})
    return own.get(cell.shape, race.parameters.get(CLIENTS.name))


def clients_needed(cell: Cell, race: Race) -> int:
    """At least how many clients it takes until the busiest node uses as much of its share as is strived for: throughput
    grows no faster than their number."""
    held = race.shares()
    seen = [cores for one in cell.passes.values() if (cores := one.cores())]
    used = float(np.median([max((c / held[n] for n, c in cores.items() if n in held), default=0.0) for cores in seen]))
    return min(CLIENTS.high, math.ceil((clients_of(cell, race) or 1) * FULL / max(used, 1 / CLIENTS.high)))


def saturated(cell: Cell, race: Race) -> Cell:
    """A cell without the passes that were not steady, and without those in which no node was at its limit; the latter
    stay where nodes are held to no share, since it cannot be told there."""
    passes = {number_of: one for number_of, one in cell.steady.items() if not race.shares() or full_nodes(one, race)}
    return replace(cell, passes=passes)


def limited_by_client(one: Pass, race: Race) -> bool:
    """Whether the load driver was at its limit and no node was: a process of it, which runs its clients in one thread,
    or its machine, unless that is full of nodes that are held to no share."""
    if full_nodes(one, race):
        return False
    _, busy = one.client() or (0.0, 0.0)
    return one.busiest_process() >= BUSY or busy >= BUSY and bool(race.shares() or race.local is False)


def client_limited(cells: Iterable[Cell], race: Race) -> list[Cell]:
    """The cells that were limited by the client in most passes."""
    return [cell for cell in cells if _in_most(cell, lambda one: limited_by_client(one, race))]


def idle(cells: Iterable[Cell], race: Race) -> list[Cell]:
    """The cells of a closed loop that nothing limited in most passes, since no node used up its share; none where nodes
    are held to no share, since it cannot be told there."""
    if not race.shares() or race.record.latencies:
        return []
    of_client = client_limited(cells := list(cells), race)
    return [cell for cell in cells if cell not in of_client and _in_most(cell, lambda one: not full_nodes(one, race))]


def is_full(cell: Cell, race: Race) -> bool:
    """Whether a node used up its share of the CPU in most passes."""
    return _in_most(cell, lambda one: bool(full_nodes(one, race)))


def _in_most(cell: Cell, so: Callable[[Pass], bool]) -> bool:
    """Whether something is so in more than half of the passes of which the CPU was told."""
    known = [one for one in cell.passes.values() if one.cores()]
    return sum(map(so, known)) > len(known) / 2


def clients_wanted(race: Race) -> dict[str, int]:
    """At least how many clients each cell of the grid takes that left all nodes idle, see :func:`idle`."""
    found: dict[str, int] = {}
    for cell in idle(main_cells(race).values(), race):
        found[cell.shape] = max(found.get(cell.shape, 0), clients_needed(cell, race))
    return found


def bottleneck(one: Pass, race: Race) -> str:
    """What limits a cell, by the CPU that was used."""
    used, held = one.cores(), race.shares()
    if not used:
        return "not recorded"
    if full := full_nodes(one, race):
        return ", ".join(f"{node} ({part:.0%})" for node, part in full.items())
    if (process := one.busiest_process()) >= BUSY:
        return f"the client, a process of which used {process:.0%} of a core"
    client, busy = one.client() or (0.0, 0.0)
    if busy >= BUSY and race.local is not False:
        rest = f"nodes {number(sum(used.values()))}, client {number(client)} cores"
        return f"the machine, {busy:.0%} busy ({rest})"
    if busy >= BUSY:
        return f"the client's machine, {busy:.0%} busy"
    if one.rejected():
        return "queues: requests were rejected"
    top = max(used, key=lambda node: used[node] / held.get(node, 1.0))
    if top not in held and race.local is False:
        cores = next((node["cores"] for node in race.target if node["node"] == top), 0)
        if cores and used[top] >= BUSY * cores:
            return f"{top} ({used[top] / cores:.0%} of its processors)"
        return f"not told, as nodes are held to no share ({top} used most: {used[top]:.2f} cores)"
    most = f"{used[top] / held[top]:.0%} of its share" if top in held else f"{used[top]:.2f} cores"
    relief = "a higher rate" if race.record.latencies else "more clients"
    return f"none ({top}: {most}): {relief}"


def compared_in(race: Race) -> list[Sample]:
    """Passes that count as rounds: what a search, or else a document, takes at the throughput of a cell."""
    return [
        replace(one.prepared, cell=name, meta={"pass": number_of, "ms": 1000 / one.rate})
        for name, cell in sorted(main_cells(race).items())
        for number_of, one in cell.steady.items()
    ]
