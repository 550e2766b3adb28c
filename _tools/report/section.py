"""What a report is made of; the pages are rendered from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A plot.

    :param svg: the SVG element, in which ``currentColor`` is the colour of the text.
    :param caption: one sentence that says what is seen.
    """

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of a report.

    :param title: of the section.
    :param text: Markdown, without the title.
    :param figures: plots that stand below the text.
    """

    title: str
    text: str
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Sheet:
    """A CSV file of samples.

    :param name: of the file.
    :param columns: its columns, in order.
    :param rows: one mapping per row; columns that it lacks stay empty.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]] = field(default_factory=list)
