"""Charts over time: from samples to Vega-Lite, without side effects."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import altair as alt

from .plots import PALETTE, Spec, by_kind, by_series, chart, finished, quantity, rows_of_names, wrapped
from .race import Sample
from .section import Figure
from .text import number

ZOOM = "Ctrl and the mouse wheel zoom, dragging moves, a double click shows all again."
CAPTION = (
    "Every counted sample{} in order of time; a line joins those of one pass, or the rounds of a plan. One that slopes "
    f"is a drift. {ZOOM}"
)
STEADY, OTHER, MERGE = "steady window", "before or after it", "a merge was under way"
REJECTED = "documents were rejected"
STRIP = 0.6
"""Height of what is drawn in a strip, as part of the strip; above it stands its name."""
MEASURED, WARM_UP = "measured", "warm-up"
KINDS = {
    STEADY: PALETTE[0],
    OTHER: PALETTE[3],
    MERGE: PALETTE[1],
    REJECTED: PALETTE[5],
    MEASURED: PALETTE[0],
    WARM_UP: PALETTE[1],
}


def zoomable(layer: alt.Chart) -> alt.Chart:
    """Takes the wheel with Ctrl alone, as without it scrolls the page."""
    return layer.add_params(
        alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom="wheel![event.ctrlKey]")
    )


def over_time(series: Mapping[str, Iterable[Sample]], key: str, label: str, of: str = "") -> Figure:
    """Samples in order of time, by series.

    :param key: of the metadata to show.
    :param label: of the vertical axis, with its unit.
    :param of: what the caption says of the samples.
    """
    rows = [
        {"series": name, "run": sample.meta.get("pass", 0), "at": sample.at / 1000, "value": float(sample.meta[key])}
        | {"where": ", ".join(f"{what} {sample.meta[what]}" for what in ("pass", "round") if what in sample.meta)}
        for name, samples in series.items()
        for sample in samples
    ]
    first = min(row["at"] for row in rows)
    rows = [row | {"at": row["at"] - first} for row in rows]
    return Figure(drawn(rows, label, "s after the first"), CAPTION.format(of))


def drawn(rows: Sequence[dict[str, Any]], label: str, across: str) -> Spec:
    """Values over time.

    :param rows: with ``series``, ``run``, whose values a line joins, ``at`` in s, ``value``, and ``where`` to hover.
    """
    rows = [row | {"text": number(row["value"])} for row in rows]
    looks = by_series(list(dict.fromkeys(row["series"] for row in rows)))
    base = chart(rows).encode(
        x=alt.X("at:Q", title=across, scale=_seconds(row["at"] for row in rows)),
        y=alt.Y("value:Q", **quantity([row["value"] for row in rows], label)),
        color=looks["color"],
        tooltip=["series:N", "where:N", alt.Tooltip("text:N", title=label)],
    )
    lines = base.mark_line(strokeWidth=1, clip=True).encode(detail="run:N")
    points = base.mark_point(filled=True, size=45, opacity=1, clip=True).encode(shape=looks["shape"])
    return finished(260, lines, zoomable(points))


def strips(rows: Sequence[dict[str, Any]], across: str) -> Spec:
    """Several quantities over one axis of time, each in a strip of its own that begins at zero; its name says how high
    it is.

    :param rows: with ``strip``, the name of the quantity with its unit, ``series``, ``run``, whose values a line joins,
        ``at`` in s, and ``value``; in order of the strips from top to bottom.
    """
    most = {name: max(row["value"] for row in rows if row["strip"] == name) for name in _names(rows, "strip")}
    floor = {name: float(-i) for i, name in enumerate(most)}
    shown = [
        row
        | {"y": floor[row["strip"]] + STRIP * row["value"] / (most[row["strip"]] or 1.0), "text": number(row["value"])}
        for row in rows
    ]
    titles = [{"y": at, "title": f"{name}, up to {number(most[name])}"} for name, at in floor.items()]
    y: dict[str, Any] = {"scale": alt.Scale(domain=[1 - len(most) - 0.1, 1], nice=False), "axis": None}
    looks = by_series(_names(rows, "series"))
    base = chart(shown).encode(
        x=alt.X("at:Q", title=across, scale=_seconds(row["at"] for row in rows)),
        y=alt.Y("y:Q", **y),
        color=looks["color"],
        tooltip=[
            "strip:N",
            "series:N",
            alt.Tooltip("at:Q", title="s", format=".1f"),
            alt.Tooltip("text:N", title="value"),
        ],
    )
    named = chart(titles)
    return finished(
        80 * len(most),
        named.mark_rule(opacity=0.4).encode(y=alt.Y("y:Q", **y)),
        base.mark_line(strokeWidth=1, clip=True).encode(detail=["run:N", "strip:N"]),
        zoomable(base.mark_point(filled=True, size=30, opacity=1, clip=True).encode(shape=looks["shape"])),
        named.transform_calculate(top=f"datum.y + {STRIP}")
        .mark_text(align="left", dx=4, dy=-12)
        .encode(x=alt.value(0), y=alt.Y("top:Q", **y), text="title:N"),
    )


def _names(rows: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """In order of appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def rates(buckets: Sequence[dict[str, Any]], goal: float, label: str) -> Spec:
    """A rate over time, each bucket as wide as the time that it covers.

    :param buckets: with ``load``, ``start`` and ``end`` in s, ``rate``, ``kind``, whether a merge was ``merging``,
        and the number of ``errors``.
    :param goal: a rate to reach, as a dashed line; 0 for none.
    :param label: of the vertical axis, with its unit.
    """
    rows = [bucket | {"where": _span(bucket), "text": f"{bucket['rate']:,.0f}", "zero": 0} for bucket in buckets]
    places = {"merging": (MERGE, "height"), "errors": (REJECTED, 3)}
    marked = {key: [row | {"kind": kind} for row in rows if row[key]] for key, (kind, _) in places.items()}
    x = alt.X("start:Q", title="s", scale=_seconds(row["end"] for row in rows))
    y = quantity([0, goal, *(row["rate"] for row in rows)], label)
    tooltip = ["load:N", alt.Tooltip("where:N", title="time"), alt.Tooltip("text:N", title=label), "kind:N", "errors:N"]
    colour = by_kind(KINDS, [row["kind"] for row in chain(rows, *marked.values())])
    steps = chart(rows).mark_rect(opacity=0.6, clip=True).encode(x=x, x2="end:Q", y=alt.Y("rate:Q", **y), y2="zero:Q")
    layers = [zoomable(steps.encode(color=colour, tooltip=tooltip))]
    for key, (_, y_of) in places.items():
        marks = chart(marked[key]).mark_rule(strokeWidth=6, clip=True)
        layers.append(marks.encode(x=x, x2="end:Q", y=alt.value(y_of), color=colour, tooltip=tooltip))
    if goal:
        goals = chart([{"goal": goal, "text": f"target {goal:,.0f}"}]).encode(y=alt.Y("goal:Q", **y))
        layers.append(goals.mark_rule(strokeDash=[5, 4], strokeWidth=2))
        layers.append(goals.mark_text(align="left", dx=4, dy=-8).encode(x=alt.value(0), text="text:N"))
    return finished(240, *layers)


def stretches(shown: Sequence[dict[str, Any]], label: str) -> Spec:
    """Stretches of time, a row for each name in order of appearance.

    :param shown: with ``name``, ``kind``, ``start`` and ``end`` in s.
    :param label: of the axis, with its unit.
    """
    x = alt.X("start:Q", **quantity([0, *(s["end"] for s in shown)], label))
    y, step = rows_of_names(s["name"] for s in shown)
    rows = [s | {"name": wrapped(s["name"]), "where": _span(s)} for s in shown]
    base = chart(rows).mark_bar(height=0.6 * step, clip=True, minBandSize=1)
    colour = by_kind(KINDS, [s["kind"] for s in shown])
    tooltip = ["name:N", "kind:N", alt.Tooltip("where:N", title="time")]
    bars = base.encode(x=x, x2="end:Q", y=y, color=colour, tooltip=tooltip)
    return finished(step * len({s["name"] for s in shown}), zoomable(bars))


def _seconds(values: Iterable[float]) -> alt.Scale:
    """From zero, with room for the mark of what stands there."""
    last = max(values) or 1.0
    return alt.Scale(domain=[-0.01 * last, 1.01 * last], nice=False)


def _span(row: Mapping[str, Any]) -> str:
    return f"{number(row['start'])} to {number(row['end'])} s"
