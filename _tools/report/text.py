"""Markdown tables and numbers with as many digits as mean something."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from .race import Sample
from .stats import Estimate


def number(value: float) -> str:
    """Three significant digits, integers from 100 on."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.1f} %".replace("-", "−")


def interval(estimate: Estimate, form: Callable[[float], str] = number) -> str:
    return f"[{form(estimate.low)}, {form(estimate.high)}]"


def started(sample: Sample) -> str:
    """When a sample started, in UTC with milliseconds."""
    return datetime.fromtimestamp(sample.at / 1000, timezone.utc).isoformat(timespec="milliseconds")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table, columns padded so that it reads well as plain text; all but the first column to the right."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"

    rule = "|" + "|".join(("-" * (w + 1) + ":") if i else (":" + "-" * (w + 1)) for i, w in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])]) + "\n"
