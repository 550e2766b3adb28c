"""Flame graphs of configurations, and of the difference of any two, as one page that needs nothing else; the same
stacks in the forms that other viewers read.

The viewer is d3-flame-graph (Apache License 2.0), on top of d3.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from scipy import stats

from .page import ESCAPES
from .stacks import LEAST_SHARE, Counts, Differences, Frames, Profile, Stack
from .stats import LEVEL
from .text import percent

TEMPLATE = Path(__file__).with_name("flames.html")
VIEWER = Path(__file__).with_name("d3-flamegraph-5.0.0.umd.min.js")
D3 = "d3.min.js"
"""Beside the stacks of a race."""
DIGITS = 5
WHOLE = "all"


def page(
    title: str,
    per: str,
    found: Frames,
    times: Mapping[str, Counts],
    pairs: Mapping[tuple[str, str], Differences],
    start: tuple[str, str],
    d3: Path,
) -> str:
    """The page.

    :param per: what CPU time is told by, such as ``coverage``.
    :param found: paths, each of whose beginnings is among them.
    :param times: by configuration: CPU time by round and path, in ms.
    :param pairs: by base and other, in order of ``times``.
    :param start: the configuration that is shown first, and that it is held against.
    :param d3: the library.
    """
    order = sorted(range(len(found.names)), key=lambda i: found.names[i])
    places: dict[Stack, int] = {found.names[i]: place for place, i in enumerate(order, 1)}
    frames = [[None, WHOLE], *([places.get(found.names[i][:-1], 0), found.names[i][-1]] for i in order)]
    roots = [i for i in order if len(found.names[i]) == 1]
    whole = {name: by_round[:, roots].sum(axis=1, keepdims=True) for name, by_round in times.items()}
    ordered = {name: np.hstack([whole[name], by_round[:, order]]) for name, by_round in times.items()}
    data = {
        "per": per,
        "rounds": len(next(iter(times.values()))),
        "start": start,
        "frames": frames,
        "ms": {name: _rounded(by_round.mean(axis=0)) for name, by_round in ordered.items()},
        "half": {name: _rounded(half_of(by_round)) for name, by_round in ordered.items()},
        "pairs": {
            f"{base}|{other}": {
                place: [_plain(d.half[i]), int(d.shown[i])] for place, i in enumerate(order, 1) if d.compared[i]
            }
            for (base, other), d in pairs.items()
        },
    }
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(TEMPLATE.read_text())
    return template.render(
        title=title,
        data=data,
        least=percent(LEAST_SHARE),
        json=Markup(json.dumps(data, separators=(",", ":")).translate(ESCAPES)),
        d3=Markup(d3.read_text().replace("</script", r"<\/script")),
        viewer=Markup(VIEWER.read_text().replace("</script", r"<\/script")),
    )


def half_of(by_round: Counts) -> Counts:
    """Half of Student's 95 % interval of the mean over rounds; nan for fewer than 3."""
    n = len(by_round)
    if n < 3:
        return np.full(by_round.shape[1], math.nan)
    return np.asarray(stats.t.ppf(1 - LEVEL / 2, n - 1) * stats.sem(by_round, axis=0))


def pairs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Any two."""
    return list(itertools.combinations(names, 2))


def collapsed(profile: Profile, by_stack: Counts) -> str:
    """The stacks as FlameGraph, async-profiler and others read them: a line each, with µs.

    :param by_stack: CPU time by stack, in ms.
    """
    weighed = ((";".join(stack), round(1000 * ms)) for stack, ms in zip(profile.stacks, by_stack))
    return "".join(sorted(f"{stack} {weight}\n" for stack, weight in weighed if weight))


def speedscope(title: str, profile: Profile, by_stack: Mapping[str, Counts]) -> str:
    """The stacks of all configurations as https://www.speedscope.app reads them, in ms."""
    numbers: dict[str, int] = {}
    stacks = [[numbers.setdefault(frame, len(numbers)) for frame in stack] for stack in profile.stacks]
    profiles = []
    for name, ms in by_stack.items():
        met = np.flatnonzero(ms)
        profiles.append(
            {
                "type": "sampled",
                "name": name,
                "unit": "milliseconds",
                "startValue": 0,
                "endValue": _plain(ms.sum()),
                "samples": [stacks[i] for i in met],
                "weights": [_plain(ms[i]) for i in met],
            }
        )
    head = {"$schema": "https://www.speedscope.app/file-format-schema.json", "name": title}
    return json.dumps(head | {"shared": {"frames": [{"name": name} for name in numbers]}, "profiles": profiles})


def _plain(value: Any) -> float | None:
    """A number with few digits; none that JSON does not know."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _rounded(values: Counts) -> list[float | None]:
    return [_plain(value) for value in values]
