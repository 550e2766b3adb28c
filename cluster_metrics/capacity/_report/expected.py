"""What the articles and models of costs expect of the cells of a capacity challenge, beside what was measured."""

from collections.abc import Mapping

import numpy as np

from _tools.report import plots
from _tools.report.race import Race
from _tools.report.section import Block, Figure, Section
from _tools.report.stats import Estimate
from _tools.report.table import Column, Words
from _tools.report.table import Table as Sheet
from _tools.report.text import percent
from cluster_metrics.capacity.challenge import QUERY

from . import model
from .cells import Cell, cells_of, first_of, rate_ratio
from .claims import claims
from .parts import UNITS, over

ARTICLE_DOCUMENTS = 10_000_000


def held_against(
    race: Race, cells: Mapping[str, Cell], kind: str, meaning: str, article: Mapping[str, float]
) -> list[Section]:
    """What was measured beside what the articles claim, and beside what models expect of it; the latter of cells on all
    nodes.

    :param cells: of which a pass counts.
    :param meaning: of the models of this kind.
    :param article: throughput over that of 1s-0r in the articles, as far as their text says.
    """
    of_all = {name: cell for name, cell in cells.items() if not cell.nodes}
    held = [Section("Expected and measured", _expected(of_all, kind, meaning, article))] if of_all else []
    return [Section("Do the published statements hold?", claims(cells_of(race, kind), kind)), *held]


def expectations(cells: Mapping[str, Cell], kind: str) -> dict[str, dict[str, float]]:
    """Throughput over that of 1s-0r, by cell and model; none without that cell."""
    first = first_of(cells, next(iter(cells.values())))
    if not first:
        return {}
    measured = [cell.measured() for cell in cells.values()]
    fitted = dict(zip(cells, model.held_out(measured, model.QueryModel if kind == QUERY else model.IndexModel)))
    found = {}
    for cell in cells.values():
        held = cell.last.table
        if kind == QUERY:
            by = {
                "nodes": float(sum(map(bool, held.values()))),
                "in turn": cell.shards / model.visits_in_turn(held),
                "balanced": cell.shards / model.visits_balanced(held),
            }
        else:
            by = {
                "nodes": 1 / max(p for p, _ in model.copies(held)),
                "copies": 1 / max(p + r for p, r in model.copies(held)),
            }
        by["held out"] = fitted[cell.name] / first.measured().rate
        if kind == QUERY and all(map(np.isfinite, fitted.values())):
            costs = model.QueryModel.fitted(measured)
            alone, own = (costs.seconds(c.last.table, c.shards, ARTICLE_DOCUMENTS) for c in (first, cell))
            by["at 10 million"] = alone / own
        found[cell.name] = by
    return found


def _expected(cells: Mapping[str, Cell], kind: str, meaning: str, article: Mapping[str, float]) -> list[Block]:
    found, first = expectations(cells, kind), first_of(cells, next(iter(cells.values())))
    if not found or not first:
        return ["There is no cell of one shard without replicas to hold the others against."]
    names = list(next(iter(found.values())))
    rows = [
        {"cell": name, "measured": over(cells[name], first), "article": article.get(name), **by}
        for name, by in found.items()
    ]
    columns = [Words("cell", "configuration"), Column("measured", "measured"), *(Column(name, name) for name in names)]
    columns += [Column("article", "articles")] if article else []
    errors = [
        abs(first.measured().rate * by["held out"] / cells[name].measured().rate - 1) for name, by in found.items()
    ]
    text = (
        f"Throughput over that of 1s-0r. {meaning}. *held out* is the fitted model with this very cell left out; its "
        f"error is {percent(float(np.median(errors)))} in the median and {percent(max(errors))} at most."
    )
    shown: dict[str, dict[str, Estimate]] = {}
    for name, cell in cells.items():
        shown[name] = {"measured": ratio} if (ratio := rate_ratio(cell, first)).n else {}
        if np.isfinite(found[name]["held out"]):
            shown[name]["model, cell held out"] = _point(found[name]["held out"])
        if name in article:
            shown[name]["articles"] = _point(article[name])
    caption = f"{UNITS[kind].capitalize()} over those of 1s-0r, with their intervals, beside model and articles."
    figure = Figure(plots.cells(shown, "times 1s-0r", 1.0), caption)
    return [text, Sheet(f"expected {kind}", columns, rows), figure]


def _point(value: float) -> Estimate:
    return Estimate(1, value, value, value, float("nan"))
