"""Says how many nodes, shards and replicas a load takes, by models fitted to races of the capacity challenges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from _tools.report.answer import RaceWarning
from _tools.report.race import Race, ReportError
from _tools.report.settings import raced
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import count, number, percent
from cluster_metrics.capacity.challenge import CLIENTS

from . import cells as capacity
from . import model
from .fitted import PREDICTIONS, Cells, Goal, Models, cells_of
from .model import Together
from .unseen import KINDS, beside_documents, overstated, unseen
from .warnings import drift_check

MOST_NODES = 50
MOST_SHARDS_PER_NODE = 2
AS_GOOD = 1.02
"""Up to so many times as much work the layout with fewer shards is taken."""
MOST_OVERSTATED = 1.1
"""Searches that costs expect beside documents over those that nodes carried, above which a plan for both warns."""
ALIKE = ("words_mapping", "word_frequency", "capacity_bulk_size", "count_all_hits")
"""Track parameters that the races of a plan whose challenges take them have in common."""
REFRESH = "refresh_interval"
"""Track parameter that races of one challenge have in common: capacity-indexing refreshes nothing unless told."""


@dataclass(frozen=True)
class Layout:
    """A cluster that was weighed.

    :param busy: part of the busiest node's time that the load takes; above 1 it cannot.
    """

    nodes: int
    shards: int
    busy: float


def layouts(models: Models, goal: Goal) -> Iterable[Layout]:
    """The best layout of each number of nodes, from the fewest that hold the replicas on."""
    for nodes in range(goal.replicas + 1, MOST_NODES + 1):
        found = [Layout(nodes, s, models.busy(nodes, s, goal)) for s in range(1, MOST_SHARDS_PER_NODE * nodes + 1)]
        least = min(layout.busy for layout in found)
        yield next(layout for layout in found if layout.busy <= AS_GOOD * least)


def cheapest(models: Models, goal: Goal) -> Layout | None:
    """The layout with the fewest nodes that keeps the headroom; none up to the greatest number of nodes."""
    return next((layout for layout in layouts(models, goal) if layout.busy <= 1 - goal.headroom), None)


def check_alike(races: Sequence[Race]) -> None:
    """Whether one model can be fitted to these races. Those of searches, and those of documents, have
    ``capacity_clients`` in common, as a request may cost less the more of them send; clients of single cells may
    differ.

    :raises ReportError: with the first thing that is wrong.
    """
    for race in races:
        if race.challenge not in KINDS or not capacity.kinds_of(race):
            raise ReportError(f"race [{race.id}] has no samples of {', '.join(KINDS)}, by which a plan is made")
        for name, other in _in_common(race, races):
            own, its = race.parameters.get(name), other.parameters.get(name)
            if own != its:
                raise ReportError(f"race [{race.id}] has {name} [{own}], race [{other.id}] has [{its}]")
        if (own := _nodes_of(race)) != (first := _nodes_of(races[0])):
            raise ReportError(f"race [{race.id}] ran on nodes of {own}, race [{races[0].id}] on nodes of {first}")


def _in_common(race: Race, races: Sequence[Race]) -> Iterator[tuple[str, Race]]:
    """Track parameters that a race has in common with others, each with the first of these."""
    for name in ALIKE:
        if _takes(race, name):
            yield name, next(one for one in races if _takes(one, name))
    yield REFRESH, next(one for one in races if one.challenge == race.challenge)
    yield CLIENTS.name, next(one for one in races if capacity.kinds_of(one)[0] == capacity.kinds_of(race)[0])


def _takes(race: Race, name: str) -> bool:
    return name in {parameter.name for parameter in race.record.parameters}


def _nodes_of(race: Race) -> str:
    return " and ".join(sorted({f"{count(race.cores(n), 'core')} and {n['heap_mb']} MB of heap" for n in race.target}))


def plan(races: Sequence[Race], goal: Goal) -> str:
    """The plan as Markdown.

    :raises ReportError: when a target has no race that measured it, or no cluster of up to 50 nodes carries the load.
    """
    check_alike(races)
    cells = cells_of(races)
    for wanted, of, costs, name, challenge in (
        (goal.docs, cells.indexing, model.IndexModel, "TARGET_DOCS", "capacity-indexing"),
        (goal.searches, cells.queries, model.QueryModel, "TARGET_QPS", "capacity-query"),
    ):
        least = model.fewest(of, costs)
        if wanted and len(set(model.told_apart(of))) <= least:
            raise ReportError(
                f"{name} takes races of {challenge} among RACES with a node at its limit in more than {least} cells"
            )
    today = goal.documents or max((cell.documents for cell in cells.queries), default=0)
    grown = replace(goal, docs=goal.docs * goal.growth, searches=goal.searches * goal.growth,
                    documents=today * goal.growth)  # fmt: skip
    readings = cells.readings()
    found, best = cheapest(readings[0], grown), cheapest(readings[-1], grown)
    if not found:
        raise ReportError(
            f"no cluster of up to {MOST_NODES} nodes like these carries the load with {goal.replicas} replicas: "
            "searches take more of them, documents fewer"
        )
    if not best:
        raise ReportError(
            f"{count(found.nodes, 'node')} may carry the load, or none of up to {MOST_NODES}: {_open(cells.alone)}"
        )
    models, errors = readings[-1], {what: [abs(m - 1) for m in of] for what, of in cells.misses().items()}
    on = f"(growth {goal.growth:g} ×), on nodes of {_nodes_of(races[0])} like the raced ones"
    lines = [
        *_said(cells, models, grown, best, f"{' and '.join(_loads(grown))} {on}"),
        *([f"**Not settled:** {found.nodes} may do: {_open(cells.alone)}."] if found.nodes < best.nodes else []),
        *_extrapolations(best, grown, cells),
        *_told(races),
    ]
    if models.queries and goal.searches and not models.queries.document_s:
        lines.append(
            "**Warning:** the raced indices are too small to tell what a document scanned costs, so the plan leaves it "
            "out: race with more word_documents, and count_all_hits as your searches have it."
        )
    for what, goes, of in (("searches", goal.searches, cells.queries), ("indexing", goal.docs, cells.indexing)):
        if goes and of and not errors[what]:
            lines.append(f"**Warning:** no cell of {what} could be held out: how much the model misses is not known.")
    if goal.both and (over := overstated(races, models)) > MOST_OVERSTATED:
        lines.append(
            f"**Warning:** beside documents nodes carried {number(1 / over)} × the searches that the model expects, in "
            f"the median of the cells of capacity-mixed: plan with TARGET_QPS={goal.searches * over:.0f}."
        )
    of_cells = [error for of in errors.values() for error in of]
    if of_cells and (error := float(np.median(of_cells))) > goal.headroom:
        lines.append(
            f"**Warning:** the model misses cells that it has not seen by {percent(error)} in the median, "
            "more than the headroom: race more passes on a quiet machine, with longer cells, before you rely on this."
        )
    return (
        "# Plan\n\n" + "".join(f"- {line}\n" for line in lines)
        + "\n## What more or fewer nodes do\n\n" + _around(models, grown, best)
        + "\n## Model\n\n" + _model(models, errors)
        + (beside_documents(races, models) if goal.both else "")
        + unseen(races)
    )  # fmt: skip


def _loads(goal: Goal) -> Iterator[str]:
    """What of documents and searches a cluster must carry."""
    if goal.docs:
        yield f"{number(goal.docs)} documents/s"
    if goal.searches:
        yield f"{number(goal.searches)} searches/s on {goal.documents:,.0f} documents"


def _said(cells: Cells, models: Models, goal: Goal, best: Layout, load: str) -> Iterable[str]:
    """The plan, what limits it and how sure it is.

    :param load: the goal and the nodes that are to carry it, in words.
    """
    predictions = cells.predictions()
    needed = [layout.nodes if (layout := cheapest(one, goal)) else MOST_NODES + 1 for one in predictions]
    content = percent(float(np.mean(np.array(needed) <= best.nodes)))
    fewest = int(np.percentile(needed, 2.5, method="lower"))
    most = int(np.percentile(needed, 97.5, method="higher"))
    low, high = np.percentile([one.busy(best.nodes, best.shards, goal) for one in predictions], (2.5, 97.5))
    parts = dict(zip(("searches", "documents"), models.work(best.nodes, best.shards, goal)))
    greatest = max(parts, key=lambda what: parts[what])
    of_both = f" ({percent(parts[greatest] / best.busy)} of the busiest node's work)" if min(parts.values()) else ""
    yield (
        f"**Nodes: {best.nodes}, shards: {best.shards}, replicas: {goal.replicas}**, enough in {content} of "
        f"predictions, limited by {greatest}{of_both}; for {load}."
    )
    yield (
        f"Headroom: {percent(1 - best.busy)} of the busiest node's time stays free [{percent(1 - high)}, "
        f"{percent(1 - low)}]; wanted are {percent(goal.headroom)}."
    )
    yield (
        f"Confidence: of {PREDICTIONS} predictions, each by a fit to passes drawn anew and off by as much as cells "
        f"were missed that their model had not seen (Student's t), {content} are content with so many nodes; "
        f"95 % need {fewest} to {most if most <= MOST_NODES else f'more than {MOST_NODES}'}."
    )


def _open(alone: Sequence[int]) -> str:
    """What races of one number of nodes leave open, and which race would settle it."""
    nodes = max(2, *alone)
    return (
        f"races of {count(alone[0], 'node')} alone cannot tell whether more of them share what a request costs beside "
        f"its shards; race the same with NODES={nodes} and capacity_nodes:{[nodes - 1, 0]}"
    )


def _extrapolations(best: Layout, goal: Goal, found: Cells) -> Iterable[str]:
    cells = [*found.queries, *found.indexing]
    asked = [of for goes, of in ((goal.searches, found.queries), (goal.docs, found.indexing)) if goes]
    both = found.mixed if goal.both else ()
    held = model.most_copies(model.spread(best.nodes, best.shards, goal.replicas))
    for what, value, most in (
        ("nodes", best.nodes, max(len(cell.table) for cell in cells)),
        ("shards", best.shards, max(cell.shards for cell in cells)),
        ("replicas", goal.replicas, min(max(model.replicas(cell.table) for cell in of) for of in asked)),
        ("documents", goal.documents if found.queries else 0, max(cell.documents for cell in cells)),
        ("copies on a node that searches and indexes", held if both else 0,
         max((model.most_copies(of.cell.table) for of in both), default=0)),
    ):  # fmt: skip
        if value > most:
            yield (
                f"**Extrapolation:** {value:,.0f} {what}, raced were {most:,.0f} at most; that the model holds there "
                "is assumed, and the interval above does not hold it."
            )


def _told(races: Sequence[Race]) -> Iterable[str]:
    """What was raced, and what of it is left out."""
    for race in races:
        *fewer, most = capacity.sizes_of(race)
        beside = f", and cells on {', '.join(map(str, fewer))} of them" if fewer else ""
        yield f"Race [{race.id}]: {race.challenge} on {count(most, 'data node')}{beside}, {raced(race)}."
        if not race.document.get("results"):
            yield f"**Warning:** race [{race.id}] was not finished."
        if isinstance(drift := drift_check(race), RaceWarning):
            yield f"**Warning:** race [{race.id}]: {drift.seen}."
        if any("cpu_held_by" in node for node in race.target):
            yield f"Race [{race.id}] simulates nodes on one machine: take the shape from it, and race on your own."
        passes = [one for _, _, one in capacity.passes_of(capacity.main_cells(race))]
        if unsteady := sum(not one.steady for one in passes):
            yield (
                f"Race [{race.id}]: in {unsteady} of {len(passes)} cells and passes the rate was not steady, and they "
                "are left out."
            )
        free = sum(not capacity.full_nodes(one, race) for one in passes)
        if free:
            yield (
                f"Race [{race.id}]: in {free} of {len(passes)} cells and passes no node was at its limit"
                f"{', and they are left out' if race.shares() else ', as far as can be told of nodes without a share'}."
            )
        cells = capacity.main_cells(race).values()
        if lost := [cell.name for cell in cells if not capacity.saturated(cell, race).passes]:
            yield f"**Warning:** race [{race.id}]: no pass of {', '.join(lost)} is left, so costs are fitted without."


def _around(models: Models, goal: Goal, best: Layout) -> str:
    rows = []
    for layout in layouts(models, goal):
        if layout.nodes > best.nodes + 2:
            break
        row = {"nodes": layout.nodes, "shards": layout.shards, "busy": layout.busy}
        besides = models.besides(layout.nodes, layout.shards, goal)
        full = max(0.0, 1 - besides) / (layout.busy - besides)
        rows.append(row | {"docs": goal.docs * full, "searches": goal.searches * full})
    columns = [Column("nodes", "nodes"), Column("shards", "shards"), share("busy", "busiest node")]
    columns += [Column("docs", "documents/s when full")] if goal.docs else []
    columns += [Column("searches", "searches/s when full")] if goal.searches else []
    both = ", with documents and searches in this proportion" if goal.both else ""
    return (
        f"The busiest node's time that the load takes, and the load at which that node is full{both}.\n\n"
        + Table("layouts", columns, rows).markdown()
    )


def _model(models: Models, errors: Mapping[str, Sequence[float]]) -> str:
    costs: dict[str, float] = {}
    if models.queries:
        costs["search: a shard, whatever it holds"] = 1e3 * models.queries.visit_s
        costs["search: a million documents of that shard"] = 1e9 * models.queries.document_s
        costs["search: a request, spread over all nodes"] = 1e3 * models.queries.request_s
        costs["search: a shard that another node asks"] = 1e3 * models.queries.remote_s
        costs["search: a request, however many nodes"] = 1e3 * models.queries.node_s
    if models.indexing:
        costs["document: its primary shard"] = 1e3 * models.indexing.primary_s
        costs["document: each replica"] = 1e3 * models.indexing.replica_s
        costs["document: each replica, on the node of its primary shard"] = 1e3 * models.indexing.copy_s
        costs["document: each copy, for each replica beyond the first"] = 1e3 * models.indexing.later_s
        if models.indexing.at_once > 1:
            costs["document: a request, for each copy of its shards"] = 1e3 * models.indexing.shard_s
        costs["document: a request, spread over all nodes"] = 1e3 * models.indexing.request_s
        costs["document: its primary shard, of a document that another node was sent"] = 1e3 * models.indexing.remote_s
        costs["document: a request, however many nodes"] = 1e3 * models.indexing.node_s
    if models.together != Together():
        costs["a second of searches beside documents: each copy of a node"] = 1e3 * models.together.copy_s
    rows = [{"cost": cost, "ms": ms} for cost, ms in costs.items()]
    text = (
        "A cluster is as fast as the node with most to do. What it has to do is counted from the shards that it holds; "
        "searches go where least is to do. What each of it takes of a node's time is fitted to all cells, that of "
        "documents to the CPU time of all their nodes, no cost below 0; costs that only appear together may be split "
        "wrongly between them. Rates are as if all passes of a race were as fast: what all cells lose in a slow one is "
        "given back.\n\n" + Table("costs", [Words("cost", "cost"), Column("ms", "time", "ms")], rows).markdown() + "\n"
    )
    if models.together != Together():
        text += f"Beside documents a search takes {percent(models.together.longer)} longer.\n\n"
    for what, of in errors.items():
        if of:
            text += (
                f"Hold-out error, {what}, each cell left out in turn: {percent(float(np.median(of)))} in the "
                f"median of {len(of)}, {percent(max(of))} at most.\n"
            )
    return text
