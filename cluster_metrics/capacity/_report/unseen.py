"""Holds what requests cost against races that it was not fitted to: searches beside documents, and more nodes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from _tools.report.race import Race
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import number, percent
from cluster_metrics.capacity.challenge import INDEX, QUERY

from . import cells as capacity
from . import model
from .cells import Cell
from .fitted import Cells, Models, cells_of

KINDS = {
    "capacity-query": "searches",
    "capacity-indexing": "documents",
    "capacity-mixed": "searches beside documents",
}


def expected(models: Models, cell: Cell, documents: float) -> float:
    """Searches a second that a cell carries beside so many documents, or documents a second where there are no searches
    (nan): the nodes' time that is left, by what a search takes of it.

    :param documents: indexed per second; 0 for none, nan where they are what is asked for.
    """
    seen = cell.measured()
    if np.isnan(documents):
        assert models.indexing
        return 1 / (seen.seconds(models.indexing) * models.document_miss)
    return models.searched(seen, documents)


def _carried(race: Race, models: Models) -> list[tuple[Cell, float]]:
    """The saturated cells of a race that models can tell of, each with the documents beside it, see
    :func:`expected`."""
    searched, indexed = (capacity.cells_of(race, kind) for kind in (QUERY, INDEX))
    found: dict[str, list[tuple[Cell, float]]] = {
        "capacity-query": [(cell, 0.0) for cell in searched.values() if models.queries],
        "capacity-indexing": [(cell, np.nan) for cell in indexed.values() if models.indexing],
        "capacity-mixed": [
            (cell, float(np.median(indexed[name].rates())) if cell.rate else 0.0)
            for name, cell in searched.items()
            if models.queries and (models.indexing and name in indexed or not cell.rate)
        ],
    }
    saturated = [(capacity.saturated(cell, race), docs) for cell, docs in found.get(race.challenge, [])]
    return [(cell, documents) for cell, documents in saturated if cell.passes]


def _row(race: Race, models: Models, cell: Cell, documents: float) -> dict[str, Any]:
    """What a cell carried beside so many documents, and what models expect of it."""
    seen, by_model = cell.measured().rate, expected(models, cell, documents)
    row = {"race": race.id, "cell": cell.name, "docs": documents}
    return row | {"seen": seen, "expected": by_model, "error": by_model / seen - 1}


def _configurations(rows: Sequence[dict[str, Any]]) -> list[Words]:
    """Columns that name cells, with the race where several have a cell in common."""
    each = {(row.get("what"), row["cell"]) for row in rows}
    return [*([Words("race", "race")] if len(each) < len(rows) else []), Words("cell", "configuration")]


def _beside(races: Sequence[Race], models: Models) -> list[dict[str, Any]]:
    """A row for each cell of races of capacity-mixed."""
    mixed = (race for race in races if race.challenge == "capacity-mixed")
    return [_row(race, models, cell, docs) for race in mixed for cell, docs in _carried(race, models) if docs]


def overstated(races: Sequence[Race], models: Models) -> float:
    """Searches beside documents that costs expect over those that races of capacity-mixed carried, in the median of
    cells; nan without one."""
    return float(np.median([1 + row["error"] for row in _beside(races, models)] or [np.nan]))


def beside_documents(races: Sequence[Race], models: Models) -> str:
    """Searches beside documents, by what each costs alone, against races of capacity-mixed."""
    rows = _beside(races, models)
    if not rows:
        mixed = any(race.challenge == "capacity-mixed" for race in races)
        none = (
            "No cell with a node at its limit beside documents of known cost" if mixed else "No race of capacity-mixed"
        )
        return f"\n{none} is among RACES: that searches and documents add up is assumed.\n"
    columns = [*_configurations(rows), Column("docs", "documents/s"), Column("seen", "searches/s")]
    columns += [Column("expected", "model"), share("error", "error")]
    return (
        "\nSearches beside documents, by the model, against capacity-mixed:\n\n"
        + Table("mixed", columns, rows).markdown()
        + f"\n{_errors('Error', [row['error'] for row in rows])}"
    )


def unseen(races: Sequence[Race]) -> str:
    """What costs that are fitted to all but the greatest number of nodes expect of this one, against its cells; empty
    where neither searches nor documents were raced on three numbers of nodes, or by too few cells."""
    most = max((size for race in races if race.challenge in KINDS for size in capacity.sizes_of(race)), default=0)
    known = cells_of(races).of_fewer(most).told()
    smaller = [str(size) for size in sorted(set.union(*known.sizes()))]
    if not smaller:
        return ""
    rows = [row for race in races if race.challenge in KINDS for row in _held(race, known, most)]
    told = [row for row in rows if row["expected"] is not None]
    if not told:
        return ""
    columns: list[Column] = [Words("what", "what"), *_configurations(rows)]
    columns += [Column("docs", "beside documents/s")] if any(row["docs"] for row in rows) else []
    columns += [
        Column("seen", "seen a second"),
        Column("expected", "expected"),
        Words("interval", "95 % of predictions"),
    ]
    columns += [share("error", "error"), Words("inside", "inside")]
    fewer = f"{', '.join(smaller[:-1])} and {smaller[-1]}"
    text = (
        f"\n## More nodes than it was fitted to\n\nBy cells of {fewer} nodes alone, against "
        f"those of {most}: {sum(row['inside'] == 'yes' for row in rows)} of {len(told)} cells lie within 95 % of "
        "predictions, each by a fit to passes drawn anew and off by as much as cells were missed that their model "
        "had not seen (Student's t).\n\n" + Table("unseen", columns, rows).markdown() + "\n"
    )
    if len(told) < len(rows):
        text += (
            "Of documents with more replicas than one nothing is expected: what those beyond the first cost, cells of "
            "fewer nodes do not tell.\n"
        )
    for kind in KINDS.values():
        if errors := [row["error"] for row in told if row["what"] == kind]:
            text += f"{_errors(f'Error, {kind}', errors)}{_beside_all(errors)}"
    return text


def _held(race: Race, known: Cells, nodes: int) -> Iterator[dict[str, Any]]:
    """A row for each cell of a race that has so many nodes and that costs can tell of."""
    models, predictions = known.readings()[-1], known.predictions()
    for cell, documents in _carried(race, models):
        if len(cell.last.table) < nodes:
            continue
        row = _row(race, models, cell, documents) | {
            "what": KINDS["capacity-query"] if documents == 0 else KINDS[race.challenge],
            "docs": documents if documents > 0 else None,
        }
        if documents != 0 and cell.replicas > 1 and not model.tell_of_later(known.indexing):
            yield row | {"expected": None, "error": None, "interval": "–", "inside": "–"}
            continue
        low, high = np.percentile([expected(one, cell, documents) for one in predictions], (2.5, 97.5))
        inside = "yes" if low <= row["seen"] <= high else "no"
        yield row | {"interval": f"{number(low)} to {number(high)}", "inside": inside}


def _errors(what: str, errors: Sequence[float]) -> str:
    found = np.abs(errors)
    return f"{what}: {percent(float(np.median(found)))} in the median, {percent(float(max(found)))} at most.\n"


def _beside_all(errors: Sequence[float]) -> str:
    """What is left of errors without what all cells have in common; empty where nothing is expected of them."""
    found = 1 + np.array(errors)
    common = float(np.median(found))
    if not common:
        return ""
    return (
        f"In the median {number(common)} × what was seen is expected; "
        f"{_errors('error beside this factor', list(found / common - 1))}"
    )
