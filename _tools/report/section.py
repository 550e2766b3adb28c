"""What a report is made of; the pages are rendered from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .table import Table


@dataclass(frozen=True)
class Figure:
    """A plot.

    :param spec: the chart in Vega-Lite.
    :param caption: what is seen.
    """

    spec: dict[str, Any]
    caption: str


Block = str | Table | Figure
"""Markdown, a table or a figure."""


@dataclass(frozen=True)
class Section:
    """A part of a report.

    :param title: of the section.
    :param blocks: what it consists of, in order.
    :param folded: whether the page shows its title alone until it is opened; it has no figure then, since one takes
        its width from where it stands.
    """

    title: str
    blocks: Sequence[Block]
    folded: bool = False

    @property
    def text(self) -> str:
        """Its Markdown, without title and figures."""
        blocks = [b if isinstance(b, str) else b.markdown() for b in self.blocks if not isinstance(b, Figure)]
        return "\n".join(f"{block.rstrip()}\n" for block in blocks)

    @property
    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, Figure)]

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    def record(self) -> dict[str, Any]:
        """The section as it goes into ``report.json``."""
        return {"title": self.title, "tables": [table.record() for table in self.tables]}
