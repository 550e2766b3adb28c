"""Charts of a report: from numbers to Vega-Lite, without side effects."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import altair as alt

from .stats import Estimate
from .text import error_text, interval, number, percent

Spec = dict[str, Any]
"""A chart in Vega-Lite that holds its data; it takes its ink from the page, and its width from where it stands."""
INK = "currentColor"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#c56a9c", INK, "#a0522d")
"""After Okabe and Ito. Each has a contrast of 3 to white and to the dark page, which their yellow, orange and sky blue
have not: ink and sienna stand for these. The colour-blind tell all apart."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Go with the colours, so that nobody needs colour to tell series apart."""
WRAP = 20
"""Characters of a name in one line."""
LINE = 15
"""Height of a line of text, in pixels."""
LABELLED = "labelled"
"""page.html writes the field ``label`` beside the points of a layer of this name, where it covers nothing."""
TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": 13, "titleFontSize": 13, "labelLimit": 0}
CONFIG = {
    "font": "system-ui, sans-serif",
    "background": "transparent",
    "view": {"stroke": None},
    "text": {"color": INK, "fontSize": 13},
    "rule": {"color": INK},
    "axis": TEXT | {"domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.18},
    "axisQuantitative": {"format": ",.12~g", "tickCount": 5, "labelOverlap": "greedy"},
    "legend": TEXT | {"orient": "top", "symbolSize": 90, "symbolStrokeWidth": 2, "symbolOpacity": 1, "titleLimit": 0},
}
INTERVAL = [alt.Tooltip("text:N", title="value"), alt.Tooltip("interval:N", title="95 %"), alt.Tooltip("n:N")]
"""What of an estimate stands in a tooltip."""


@dataclass(frozen=True)
class Part:
    """A part of a whole; negative where a subtraction went below zero.

    :param share: of the whole, 1 being all of it.
    """

    name: str
    value: Estimate
    share: float


Bar = tuple[str, str, float, float, Estimate, str]
"""Of a waterfall: its name, what the key calls bars of its colour, where it begins and ends, the estimate that it ends
with, whose interval is drawn about the end, and the text beside it."""


@dataclass(frozen=True)
class Point:
    """A configuration, by cost and error.

    :param error: relative error, 0 being exact.
    :param on_front: whether no other configuration is better in one and at least as good in the other.
    """

    name: str
    error: float
    cost: Estimate
    on_front: bool


def look(series: int) -> tuple[str, str]:
    """Colour and mark of a series, by its number from 0 on; both together are of no other of the first 48."""
    return PALETTE[series % len(PALETTE)], SHAPES[(series + series // len(PALETTE)) % len(SHAPES)]


def finished(height: int, *layers: alt.Chart) -> Spec:
    """The chart of these layers, as wide as where it stands."""
    chart = alt.layer(*layers).properties(
        width="container",
        height=height,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    spec = chart.to_dict() | {"config": CONFIG}
    del spec["$schema"]  # an address, of which a page has none
    return spec


def chart(rows: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """A layer with its data; JSON has no number that is not finite."""
    plain = [{k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()} for row in rows]
    return alt.Chart(alt.Data(values=plain))


def quantity(values: Iterable[float], title: str, texts: Iterable[str] = ()) -> dict[str, Any]:
    """Title and scale of an axis: logarithmic, and named so, if the values span a decade or more; else from zero.

    :param values: all that the axis must show.
    :param texts: that stand behind the values and need room.
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    space = max((8 * len(text) + 12 for text in texts), default=0)
    scale: dict[str, Any] = {"nice": False}
    if space:
        scale["range"] = [0, alt.ExprRef(f"width - {space}")]
    if low > 0 and high >= 10 * low:
        room = (high / low) ** 0.04
        scale |= {"type": "log", "domain": [low / room, high * room]}
        axis = alt.Axis(values=log_ticks(low / room, high * room))
        return {"title": f"{title} (log scale)", "scale": alt.Scale(**scale), "axis": axis}
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.04 * (high - low)
    scale["domain"] = [low and low - room, high + room or 1]
    return {"title": title, "scale": alt.Scale(**scale)}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between bounds; the fewer of them, the more between them."""
    decades = math.log10(high / low)
    between = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    return [tick for power in powers for step in between if low <= (tick := step * 10.0**power) <= high]


def by_series(names: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Colour and mark of each series, with a key of as many columns as there is room for; none for one without name.

    :param title: of the key.
    """
    colours, shapes = zip(*map(look, range(len(names))))
    key = legend(names, title) if any(names) else None
    return {
        "color": alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=key),
        "shape": alt.Shape("series:N", scale=alt.Scale(domain=names, range=shapes), legend=key),
    }


def by_kind(colours: Mapping[str, str], shown: Iterable[str]) -> alt.Color:
    """Colours of kinds, with a key of those that are shown."""
    kinds = [kind for kind in colours if kind in set(shown)]
    scale = alt.Scale(domain=kinds, range=[colours[kind] for kind in kinds])
    return alt.Color("kind:N", scale=scale, legend=legend(kinds))


def legend(names: Sequence[str], title: str | None = None) -> alt.Legend:
    """A key of as many columns as there is room for."""
    room = f"(containerSize()[0] - {8 * WRAP}) / {40 + 8 * max(map(len, names))}"
    return alt.Legend(title=title, columns=alt.ExprRef(f"max(1, floor({room}))"))


def estimated(estimate: Estimate, **about: Any) -> dict[str, Any]:
    """A row of a chart's data: an estimate, and what it is of; a bound that is not known is drawn at the value."""
    low, high = (bound if math.isfinite(bound) else estimate.value for bound in (estimate.low, estimate.high))
    known = {"value": estimate.value, "low": low, "high": high, "text": number(estimate.value)}
    return known | {"interval": interval(estimate), "n": estimate.n} | about


def rows_of_names(names: Iterable[str]) -> tuple[alt.Y, int]:
    """The upright axis with a name per row, on several lines if it is long; and the height of a row."""
    lines = max(len(wrapped(name).split("\n")) for name in names)
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", ticks=False, domain=False, labelLineHeight=LINE)
    return alt.Y("name:N", sort=None, title=None, axis=axis), max(24, lines * LINE + 6)


def wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, WRAP)) or name


def cells(estimates: Mapping[str, Mapping[str, Estimate]], label: str, marked: float | None = None) -> Spec:
    """Medians with their 95 % intervals, a row for each name and series.

    :param estimates: by name, then by series, both in order of appearance.
    :param label: of the axis, with its unit.
    :param marked: a value that a line marks, such as the ratio 1.
    """
    series = list(dict.fromkeys(chain.from_iterable(estimates.values())))
    found = [estimated(e, name=wrapped(name), series=one) for name, of in estimates.items() for one, e in of.items()]
    values = [v for row in found for v in (row["low"], row["value"], row["high"])]
    values += [] if marked is None else [marked]
    across = quantity(values, label, [row["text"] for row in found])
    y, step = rows_of_names(estimates)
    base = chart(found).encode(y=y, tooltip=["name:N", "series:N", *INTERVAL])
    if len(series) > 1:
        base = base.encode(yOffset=alt.YOffset("series:N", scale=alt.Scale(domain=series)))
        step = max(step, 20 * len(series) + 10)
    looks = by_series(series)
    layers = [
        base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", **across), x2="high:Q", color=looks["color"]),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X("value:Q", **across), **looks),
        base.mark_text(align="left", dx=9).encode(x=alt.X("high:Q", **across), text="text:N"),
    ]
    if marked is not None:
        layers.append(chart([{"at": marked}]).mark_rule(strokeDash=[5, 4]).encode(x=alt.X("at:Q", **across)))
    return finished(step * len(estimates), *layers)


def heat(values: Mapping[tuple[int, int], Estimate], across: str, upright: str) -> Spec:
    """Numbers on a grid, the greater the darker.

    :param values: by row and column.
    :param across: what the columns count.
    :param upright: what the rows count.
    """
    found = [estimated(e, row=row, column=column) for (row, column), e in values.items()]
    most = max(row["value"] for row in found)
    base = chart(found).encode(
        x=alt.X("column:O", title=across, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("row:O", title=upright),
        tooltip=[alt.Tooltip("row:O", title=upright), alt.Tooltip("column:O", title=across), *INTERVAL],
    )
    opacity = alt.Opacity("value:Q", scale=alt.Scale(domain=[0, most], range=[0, 0.5]), legend=None)
    return finished(
        50 * len({row for row, _ in values}),
        base.mark_rect(color=PALETTE[0]).encode(opacity=opacity),
        base.mark_text().encode(text="text:N"),
    )


KINDS = {
    "part": PALETTE[0],
    "below zero": PALETTE[1],
    "whole": PALETTE[2],
    "begins with": PALETTE[2],
    "faster": PALETTE[0],
    "slower": PALETTE[1],
}
"""Colours of the bars of waterfalls."""


def parts(shown: Sequence[Part], whole: Part, unit: str = "ms") -> Spec:
    """Parts of a whole, each from where the one before ended; a negative one runs back, in a colour of its own.

    :param shown: in order.
    """
    bars: list[Bar] = []
    end = 0.0
    for part in (*shown, whole):
        start, end = (0.0, whole.value.value) if part is whole else (end, end + part.value.value)
        kind = "whole" if part is whole else "below zero" if end < start else "part"
        text = f"{number(part.value.value)} {unit}, {percent(part.share)}"
        bars.append((part.name, kind, start, end, part.value, text))
    return waterfall(bars, unit)


def steps(first: tuple[str, Estimate], then: Iterable[tuple[str, float, Estimate]], label: str) -> Spec:
    """What changes lead to.

    :param first: name and value of what they begin with.
    :param then: of each change its name, what it is held against, and what it leads to.
    """
    bars: list[Bar] = [(first[0], "begins with", 0.0, first[1].value, first[1], number(first[1].value))]
    for name, before, now in then:
        kind = "faster" if now.value <= before else "slower"
        bars.append((name, kind, before, now.value, now, number(now.value)))
    return waterfall(bars, label)


def waterfall(bars: Sequence[Bar], label: str) -> Spec:
    """A bar for each step from what was before to what is now, with the 95 % interval of its end."""
    found = []
    for name, kind, start, end, now, text in bars:
        row = estimated(now, name=wrapped(name), kind=kind, start=start, end=end, label=text)
        row |= {side: end + row[side] - row["value"] for side in ("low", "high")}
        found.append(row | {"edge": max(start, end, row["high"])})
    values = [0.0, *(row[key] for row in found for key in ("start", "low", "edge"))]
    across = quantity(values, label, [row["label"] for row in found])
    y, step = rows_of_names(name for name, *_ in bars)
    base = chart(found).encode(y=y, tooltip=["name:N", "kind:N", *INTERVAL])
    color = by_kind(KINDS, [row["kind"] for row in found])
    return finished(
        step * len(bars),
        base.mark_bar(height=0.6 * step).encode(x=alt.X("start:Q", **across), x2="end:Q", color=color),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **across), x2="high:Q"),
        base.mark_text(align="left", dx=8).encode(x=alt.X("edge:Q", **across), text="label:N"),
    )


def lines(
    curves: Mapping[str, Sequence[tuple[float, Estimate]]], across: str, upright: str, key: str | None = None
) -> Spec:
    """Medians with their 95 % intervals over a quantity, a line for each series.

    :param curves: by series, (quantity, estimate).
    :param across: label of the horizontal axis, with its unit.
    :param upright: label of the vertical axis, with its unit.
    :param key: what tells the series apart, if their names do not say.
    """
    found = [
        estimated(e, series=name, at=at, where=f"{at:,g}")
        for name, of in curves.items()
        for at, e in sorted(of, key=lambda p: p[0])
    ]
    x = quantity([row["at"] for row in found], across)
    y = quantity([v for row in found for v in (row["low"], row["value"], row["high"])], upright)
    looks = by_series(list(curves), key)
    tooltip = [alt.Tooltip("series:N", title=key or "series"), alt.Tooltip("where:N", title=across), *INTERVAL]
    base = chart(found).encode(x=alt.X("at:Q", **x), tooltip=tooltip)
    value = base.encode(y=alt.Y("value:Q", **y))
    return finished(
        320,
        value.mark_line(strokeWidth=1).encode(color=looks["color"]),
        base.mark_rule(strokeWidth=3, opacity=0.5).encode(y=alt.Y("low:Q", **y), y2="high:Q", color=looks["color"]),
        value.mark_point(filled=True, size=60, opacity=1).encode(**looks),
    )


ON_FRONT, OFF_FRONT = "on the Pareto front", "slower or less accurate than one on it"


def frontier(points: Sequence[Point], label: str, max_error: float | None = None) -> Spec:
    """Error, logarithmic, against cost with its interval; the Pareto front as steps.

    Exact configurations stand at the left edge, above a tick that says 0.

    :param points: at least one; of those not on the front, the first are first in line for a label.
    :param label: of the cost axis, with its unit.
    :param max_error: the user's bound on the relative error, drawn as a line.
    """
    errors = [p.error for p in points if p.error > 0] + ([max_error] if max_error else [])
    low, high = (min(errors), max(errors)) if errors else (0.001, 0.01)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    zero = 10.0 ** (first - 1)
    powers = [10.0**n for n in range(first, last + 1, 1 + (last - first) // 7)]
    exact = any(p.error <= 0 for p in points)
    text = f"datum.value < {1.5 * zero} ? '0' : format(100 * datum.value, '.10~g') + ' %'"
    x: dict[str, Any] = {
        "title": "greatest relative error (log scale)",
        "scale": alt.Scale(type="log", domain=[(zero if exact else 10.0**first) / 1.5, high * 3], nice=False),
        "axis": alt.Axis(values=[zero, *powers] if exact else powers, labelExpr=text),
    }
    found = [
        estimated(p.cost, label=p.name, at=max(p.error, zero), error=error_text(p.error))
        | {"series": ON_FRONT if p.on_front else OFF_FRONT}
        for p in sorted(points, key=lambda p: not p.on_front)
    ]
    y = quantity([v for row in found for v in (row["low"], row["high"])], label)
    front = sorted((row for row in found if row["series"] == ON_FRONT), key=lambda row: row["at"])
    base = chart(found).encode(x=alt.X("at:Q", **x), tooltip=["label:N", "error:N", *INTERVAL])
    looks = by_series([ON_FRONT, OFF_FRONT])
    steps_ = chart(front).mark_line(interpolate="step-after", color=PALETTE[0], strokeWidth=1.5)
    layers = [
        steps_.encode(x=alt.X("at:Q", **x), y=alt.Y("value:Q", **y)),
        base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", **y), y2="high:Q", color=looks["color"]),
        base.mark_point(filled=True, size=80, opacity=1)
        .encode(y=alt.Y("value:Q", **y), **looks)
        .properties(name=LABELLED),
    ]
    if max_error:
        bound = chart([{"at": max_error, "text": f"max_error {100 * max_error:g} %"}]).encode(x=alt.X("at:Q", **x))
        layers += [
            bound.mark_rule(strokeDash=[5, 4]),
            bound.mark_text(align="right", dx=-5).encode(y=alt.value(8), text="text:N"),
        ]
    return finished(460, *layers)
