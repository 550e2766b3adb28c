"""What the sketch server keeps: per (epoch, node) the count and, for each field, a KLL sketch and a sum."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from datasketches import vector_of_kll_floats_sketches as Sketch

from cluster_metrics.corpus.metrics import FIELDS

K = 200
"""Size of a sketch, the library's default."""
COLUMNS = ("epoch", "node", "task", *FIELDS)


class BadInput(Exception):
    """Input that is refused as a whole; the message says why."""


class Unknown(Exception):
    """A question about what was never declared or inserted."""


class Group:
    """The rows of one epoch and node: ``count``, ``sums`` and ``sketches`` by field."""

    def __init__(self) -> None:
        self.count = 0
        self.sums = np.zeros(len(FIELDS))
        self.sketches = Sketch(K, len(FIELDS))

    def answer(self, percents: Sequence[float]) -> dict[str, Any]:
        """Count, sum and percentiles by field; p0 and p100 are exact, though the library's own quantiles 0 and 1 are
        not: a sketch keeps minimum and maximum beside its sample."""
        quantiles = self.sketches.get_quantiles([p / 100 for p in percents])
        for i, percent in enumerate(percents):
            if percent in (0, 100):
                quantiles[:, i] = self.sketches.get_max_values() if percent else self.sketches.get_min_values()
        return {
            field: {
                "count": self.count,
                "sum": float(self.sums[i]),
                "percentiles": {f"{p:g}": float(value) for p, value in zip(percents, quantiles[i])},
            }
            for i, field in enumerate(FIELDS)
        }


class Table:
    """The rows of a cluster's metrics, summarised as they come in.

    :param nodes: names of the cluster's nodes; rows of others are refused.
    """

    def __init__(self, nodes: Iterable[str]):
        self._codes = {name: code for code, name in enumerate(nodes)}
        self.groups: dict[tuple[int, str], Group] = {}

    def insert(self, columns: Mapping[str, Any], room: float = math.inf) -> int:
        """Inserts a batch, all of it or nothing.

        :param columns: an array for each of ``COLUMNS``, all of one length.
        :param room: for groups that are new (default as many as there are).
        :return: the number of rows.
        :raises BadInput: when the batch is anything else, a node was not declared, a value is no finite 32-bit float,
            or there are more new groups than there is room.
        """
        _check_columns(columns)
        epochs = _integers(columns["epoch"])
        codes = self._node_codes(columns["node"])
        values = np.stack([_floats(field, columns[field]) for field in FIELDS], axis=1)
        order = np.lexsort((codes, epochs))
        epochs, codes, values = epochs[order], codes[order], values[order]
        starts = np.flatnonzero(np.r_[True, (np.diff(epochs) != 0) | (np.diff(codes) != 0)])
        sums = np.add.reduceat(values, starts)
        floats = values.astype(np.float32)
        names = list(self._codes)
        keys = [(int(epochs[start]), names[codes[start]]) for start in starts]
        if (new := sum(key not in self.groups for key in keys)) > room:
            raise BadInput(f"the batch has {new:,} new groups of epoch and node, there is room for {room:,}")
        # nothing below can fail: a batch is taken as a whole
        for key, start, end, total in zip(keys, starts, [*starts[1:], len(floats)], sums):
            group = self.groups.setdefault(key, Group())
            group.count += int(end - start)
            group.sums += total
            group.sketches.update(floats[start:end])
        return len(floats)

    def _node_codes(self, names: list[Any]) -> npt.NDArray[np.int64]:
        try:
            return np.fromiter(map(self._codes.__getitem__, names), np.int64, len(names))
        except KeyError as e:
            raise BadInput(f"node [{e.args[0]}] was not declared") from None

    def answers(self, epoch: int, node: str | None, percents: Sequence[float]) -> dict[str, dict]:
        """Count, sum and percentiles by node and field.

        :param node: asked about; None for all nodes with rows in that epoch.
        :param percents: from 0 to 100.
        :raises BadInput: when a percent is none.
        :raises Unknown: when the node was not declared, or there are no rows.
        """
        if not all(0 <= p <= 100 for p in percents):
            raise BadInput(f"percents are {list(percents)}, allowed is from 0 to 100")
        if node is not None and node not in self._codes:
            raise Unknown(f"node [{node}] was not declared")
        asked = self._codes if node is None else [node]
        found = {name: self.groups[epoch, name].answer(percents) for name in asked if (epoch, name) in self.groups}
        if not found:
            raise Unknown(f"there are no rows of epoch {epoch}" + (f" and node {node}" if node else ""))
        return found


def _check_columns(columns: Any) -> None:
    if not isinstance(columns, Mapping) or set(columns) != set(COLUMNS):
        raise BadInput(f"a batch is one object with the arrays {', '.join(COLUMNS)}")
    for name, column in columns.items():
        if not isinstance(column, list):
            raise BadInput(f"column [{name}] is no array")
        wanted = {int} if name == "epoch" else {str} if name in ("node", "task") else {int, float}
        if wrong := set(map(type, column)) - wanted:
            raise BadInput(f"column [{name}] has a value of type {wrong.pop().__name__}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadInput(f"columns differ in length: {lengths}")
    if not lengths["epoch"]:
        raise BadInput("a batch has at least one row")


def _integers(column: list[int]) -> npt.NDArray[np.int64]:
    try:
        return np.array(column, np.int64)
    except OverflowError:
        raise BadInput("column [epoch] has a value beyond 64 bits") from None


def _floats(field: str, column: list[float]) -> npt.NDArray[np.float64]:
    values = np.array(column, np.float64)
    # False for NaN, too
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise BadInput(f"column [{field}] has a value that is no finite 32-bit float")
    return values
