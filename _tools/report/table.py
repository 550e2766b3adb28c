"""Tables as data: rows with keys, units and values, rendered last as Markdown, HTML, JSON and CSV."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from .stats import Estimate
from .text import interval, number, percent

Form = Callable[[Any], str]
AT_ONCE = 5000
"""Rows that are written to a file at once."""
QUOTED = '",\r\n'
"""What csv quotes a text for."""


@dataclass(frozen=True)
class Column:
    """A column of figures, which stand to the right.

    :param key: of the values in each row.
    :param label: at its head.
    :param unit: behind the label.
    :param form: how a number is written.
    :param bounds: how the bounds of its interval are written; default is as the number.
    :param of: the value by what a row is about, see :meth:`Table.of`; default is the attribute of that name.
    """

    key: str
    label: str
    unit: str = ""
    form: Form = number
    bounds: Form | None = None
    of: Callable[[Any], Any] | None = None

    @property
    def head(self) -> str:
        return f"{self.label} {self.unit}".strip()

    def shown(self, value: Any) -> str:
        """A value in words: an estimate with its interval, a lack of one as a dash."""
        if isinstance(value, Estimate):
            return f"{self.form(value.value)} {interval(value, self.bounds or self.form)}"
        if value is None:
            return "–"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}"
        return self.form(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Words(Column):
    """A column of words, which stand to the left."""

    form: Form = str


def share(key: str, label: str, of: Callable[[Any], Any] | None = None) -> Column:
    """A column of shares, as percentages."""
    return Column(key, label, form=percent, of=of)


def times(key: str, label: str, of: Callable[[Any], Any] | None = None) -> Column:
    """A column of factors, such as speed-ups."""
    return Column(key, label, form=lambda value: f"{number(value)} ×", bounds=number, of=of)


class Made(Sequence[Mapping[str, Any]]):
    """Rows that are made when they are wanted, and not kept: there may be a million.

    :param number: of rows.
    :param columns: those of a part of the rows, by key.
    """

    def __init__(self, number: int, columns: Callable[[slice], Mapping[str, Sequence[Any]]]):
        self._number, self.columns = number, columns

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, place: Any) -> Any:
        at = range(self._number)[place]
        return {key: column[0] for key, column in self.columns(slice(at, at + 1)).items()}


@dataclass(frozen=True)
class Table:
    """Rows with a value per column; a column that a row lacks is shown as a dash.

    :param key: of the table in ``report.json``; of a file the name.
    """

    key: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, key: str, columns: Sequence[Column], items: Iterable[Any]) -> "Table":
        """A row for each item, whose values the columns take of it."""
        return cls(key, columns, [{c.key: c.of(i) if c.of else getattr(i, c.key) for c in columns} for i in items])

    def cells(self) -> list[list[str]]:
        """What is shown, row by row."""
        return [[column.shown(row.get(column.key)) for column in self.columns] for row in self.rows]

    def markdown(self) -> str:
        """Columns padded, so that it reads well as plain text."""
        cells = [[column.head for column in self.columns], *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        left = [isinstance(column, Words) for column in self.columns]
        pads = [str.ljust if words else str.rjust for words in left]

        def line(row: Sequence[str]) -> str:
            return "| " + " | ".join(pad(cell, w) for pad, cell, w in zip(pads, row, widths)) + " |"

        rules = (":" + "-" * (w + 1) if words else "-" * (w + 1) + ":" for words, w in zip(left, widths))
        return "\n".join([line(cells[0]), f"|{'|'.join(rules)}|", *map(line, cells[1:])]) + "\n"

    def record(self) -> dict[str, Any]:
        """The table as it goes into ``report.json``."""
        columns = [{"key": c.key, "label": c.label, "unit": c.unit} for c in self.columns]
        rows = [{c.key: _plain(row.get(c.key)) for c in self.columns} for row in self.rows]
        return {"key": self.key, "columns": columns, "rows": rows}

    def write_csv(self, folder: Path) -> None:
        """Writes it as a file, a column per key; what a row lacks stays empty."""
        with open(folder / self.key, "w", newline="") as f:
            keys, writer = [column.key for column in self.columns], csv.writer(f)
            writer.writerow(keys)
            for start in range(0, len(self.rows), AT_ONCE):
                columns = self._values(keys, slice(start, start + AT_ONCE))
                words = [*map(_words, columns)]
                if all(words):
                    f.writelines(f"{line}\r\n" for line in map(",".join, zip(*words)))
                else:
                    writer.writerows(zip(*(of or column for of, column in zip(words, columns))))

    def _values(self, keys: Sequence[str], part: slice) -> list[Sequence[Any]]:
        """Columns of a part of the rows."""
        if isinstance(self.rows, Made):
            found = self.rows.columns(part)
            return [found[key] for key in keys]
        return [[row.get(key) for row in self.rows[part]] for key in keys]


def _words(column: Sequence[Any]) -> Sequence[str]:
    """Values as a file has them, in a third of the time that csv takes; none where it may have to quote one."""
    kinds = {*map(type, column)}
    if kinds == {float} and b"null" not in (text := orjson.dumps(column)):  # which NaN would be
        return text[1:-1].decode().split(",")
    if kinds <= {int, float}:
        return [*map(repr, column)]
    if kinds == {str} and all(column):
        whole = "".join(column)
        return column if not any(mark in whole for mark in QUOTED) else ()
    return ()


def _plain(value: Any) -> Any:
    """A value as JSON has it, which knows no number that is not finite."""
    if isinstance(value, Estimate):
        return {key: _plain(v) for key, v in asdict(value).items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
