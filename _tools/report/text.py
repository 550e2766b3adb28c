"""Numbers with as many digits as mean something."""

import json
import math
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from .stats import LEAST, Estimate

ROUNDING = 2e-7
"""Greatest relative error that 32-bit floats alone make."""


def number(value: float) -> str:
    """Three significant digits, integers from 100 on."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - int(f"{value:.2e}".partition("e")[2]))
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.1f} %".replace("-", "−")


def error_text(error: float) -> str:
    """A relative error as a percentage with two digits; what 32-bit floats round away counts as none."""
    return f"{float(f'{100 * error:.2g}'):,g} %" if error > ROUNDING else "0"


def interval(estimate: Estimate, form: Callable[[float], str] = number) -> str:
    """The bounds in brackets; without an interval, how few samples there are."""
    if not estimate.known and estimate.n < LEAST:
        return f"(n = {estimate.n})"
    return f"[{form(estimate.low)}, {form(estimate.high)}]"


def setting(value: Any) -> str:
    """A parameter's value in words; a long list as its length, an object as JSON."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) if len(value) <= 6 else f"{len(value)} of them"
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_interval(estimate: Estimate) -> str:
    """An estimate with its 95 % interval."""
    return f"{number(estimate.value)} {interval(estimate)}"


def started(at: float) -> str:
    """A time in ms since the epoch, in UTC with milliseconds."""
    second, ms = divmod(int(at), 1000)
    return f"{_second(second)}.{ms:03}+00:00"


@lru_cache(1)  # of a million requests that follow each other
def _second(at: int) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%dT%H:%M:%S}"


def count(number: float, unit: str) -> str:
    """A number with its unit, such as 1 node, 2 nodes, 3 passes, 4 queries or 0.4 cores."""
    return f"{number:,.12g} {unit if number == 1 else plural(unit)}"


def plural(unit: str) -> str:
    """Of a unit: nodes, passes, queries."""
    ending = "es" if unit.endswith(("s", "ch")) else "s"
    return f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}{ending}"
