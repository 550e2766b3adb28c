"""Markdown tables and numbers with as many digits as mean something."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from .race import Sample
from .stats import Estimate

WORD = re.compile(r"[^\W\d_]{4}")
"""Tells words from numbers with their units, and from yes and no."""
ROUNDING = 2e-7
"""Greatest relative error that 32-bit floats alone make."""


def number(value: float) -> str:
    """Three significant digits, integers from 100 on."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.1f} %".replace("-", "−")


def error_text(error: float) -> str:
    """A relative error as a percentage with two digits; what 32-bit floats round away counts as none."""
    return f"{100 * error:.2g} %" if error > ROUNDING else "0"


def interval(estimate: Estimate, form: Callable[[float], str] = number) -> str:
    return f"[{form(estimate.low)}, {form(estimate.high)}]"


def setting(value: Any) -> str:
    """A parameter's value in words; a long list as its length."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) if len(value) <= 6 else f"{len(value)} of them"
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_interval(estimate: Estimate) -> str:
    """An estimate with its 95 % interval."""
    return f"{number(estimate.value)} {interval(estimate)}"


def started(sample: Sample) -> str:
    """When a sample started, in UTC with milliseconds."""
    return datetime.fromtimestamp(sample.at / 1000, timezone.utc).isoformat(timespec="milliseconds")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table, columns padded so that it reads well as plain text; numbers to the right, words to the left."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    right = [i > 0 and not any(WORD.search(row[i]) for row in cells[1:]) for i in range(len(head))]
    pads = [str.rjust if r else str.ljust for r in right]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(pad(c, w) for pad, c, w in zip(pads, row, widths)) + " |"

    rules = ("-" * (w + 1) + ":" if r else ":" + "-" * (w + 1) for r, w in zip(right, widths))
    return "\n".join([line(cells[0]), f"|{'|'.join(rules)}|", *map(line, cells[1:])]) + "\n"


def count(number: float, unit: str) -> str:
    """A number with its unit, such as 1 node, 2 nodes or 0.4 cores."""
    return f"{number:,.12g} {unit}" + ("" if number == 1 else "s")
