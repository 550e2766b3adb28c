"""Plots of a report: from numbers to SVG text, without side effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from .scatter import size
from .stats import Estimate
from .svg import FONT, INK, NARROW, PALETTE, Box, axes, draw, look, scale
from .text import number, percent

LINE = 1.5 * FONT
"""Height of a line of text, in units of the viewBox."""
GRID = 0.18
"""Opacity of lines that only guide the eye."""


@dataclass(frozen=True)
class Part:
    """A part of a whole.

    :param name: of the part.
    :param ms: its time; negative where a subtraction went below zero.
    :param share: of the whole, 1 being all of it.
    """

    name: str
    ms: float
    share: float


@dataclass(frozen=True)
class Fall:
    """A bar of a waterfall.

    :param name: of the step.
    :param before: what it starts from; None for the first, which starts from zero.
    :param now: what it leads to.
    """

    name: str
    before: float | None
    now: Estimate


def cells(estimates: Mapping[str, Mapping[str, Estimate]], label: str, marked: float | None = None) -> str:
    """Medians with their 95 % intervals, a line for each name and series.

    :param estimates: by name, then by series, both in order of appearance.
    :param label: of the axis, with its unit.
    :param marked: a value that a line marks, such as the ratio 1.
    """
    series = list(dict.fromkeys(chain.from_iterable(estimates.values())))
    lines = [(name, one) for name, of in estimates.items() for one in series if one in of]
    tops = _tops(lines)
    height = tops[-1] + LINE
    left = max(size(name)[0] for name in estimates) + 12
    box = Box(left, legend_columns(series, left)[1] + 8, NARROW - left - 12, height)
    values = [x for of in estimates.values() for e in of.values() for x in e.span]

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, box)
        _across(ax, values, label)
        ax.set_ylim(height, 0)
        if marked is not None:
            ax.axvline(marked, color=INK, linewidth=1, linestyle="--")
        for (name, one), top in zip(lines, tops):
            found, (colour, mark) = estimates[name][one], look(series.index(one))
            y = top + LINE / 2
            ax.plot(found.span, [y, y], color=colour, linewidth=3, solid_capstyle="butt")
            ax.plot(found.value, y, mark, color=colour, markersize=7)
            ax.annotate(
                number(found.value),
                (max(*found.span, found.value), y),
                (9, 0),
                textcoords="offset points",
                va="center_baseline",
            )
        groups = {name: [t for (n, _), t in zip(lines, tops) if n == name] for name in estimates}
        ax.set_yticks([(t[0] + t[-1] + LINE) / 2 for t in groups.values()], list(groups))
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        for tops_of in list(groups.values())[1:]:
            ax.axhline(tops_of[0] - LINE / 4, color=INK, alpha=GRID, linewidth=1)
        legend(canvas, series, box.left)

    return draw(NARROW, box.top + height + 2.5 * LINE, paint)


def heat(values: Mapping[tuple[int, int], float], across: str, upright: str) -> str:
    """Numbers on a grid, the greater the darker.

    :param values: by row and column.
    :param across: what the columns count.
    :param upright: what the rows count.
    """
    rows, columns = (sorted({place[i] for place in values}) for i in (0, 1))
    height, left, most = 2.5 * LINE * len(rows), 40.0, max(values.values())

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(left, 2, NARROW - left - 12, height))
        for (row, column), value in values.items():
            x, y = columns.index(column), rows.index(row)
            ax.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=PALETTE[0], alpha=0.5 * value / most))
            ax.annotate(number(value), (x, y), ha="center", va="center_baseline")
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(columns)), [str(c) for c in columns])
        ax.set_yticks(range(len(rows)), [str(r) for r in rows])
        ax.tick_params(length=0)
        ax.set_xlabel(across)
        ax.set_ylabel(upright)
        for spine in ("left", "bottom"):
            ax.spines[spine].set_visible(False)

    return draw(NARROW, height + 2.5 * LINE, paint)


def _tops(lines: Sequence[tuple[str, str]]) -> list[float]:
    """The upper edge of each line, with half a line between names."""
    tops = [LINE / 4]
    for (before, _), (name, _) in zip(lines, lines[1:]):
        tops.append(tops[-1] + (LINE if name == before else 1.5 * LINE))
    return tops


def _across(ax: Axes, values: Sequence[float], label: str) -> None:
    """The horizontal axis, with room to the right for a number behind the greatest value."""
    low, high = min(values), max(values)
    if scale(ax, "x", values):
        room = (high / low) ** 0.22
        ax.set_xlim(low / (high / low) ** 0.04, high * room)
    else:
        ax.set_xlim(min(0.0, low), high * 1.25 or 1)
    ax.set_xlabel(label)
    ax.grid(axis="x")


def waterfall(bars: Sequence[Fall], label: str) -> str:
    """A bar for each step from what was before to what is now, with the 95 % interval of the latter.

    :param bars: the first stands for the whole.
    :param label: of the axis, with its unit.
    """
    height = len(bars) * LINE
    box = Box(124, 8, NARROW - 124 - 12, height)

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, box)
        ends = [x for bar in bars for x in (bar.before or 0, bar.now.span[1])]
        ax.set_xlim(0, max(ends) * 1.3)
        ax.set_ylim(height, 0)
        ax.set_xlabel(label)
        ax.grid(axis="x")
        for i, bar in enumerate(bars):
            y, value = (i + 0.5) * LINE, bar.now.value
            left, right = sorted((bar.before or 0, value))
            colour = PALETTE[2] if bar.before is None else PALETTE[0] if value <= bar.before else PALETTE[1]
            ax.barh(y, right - left, 0.55 * LINE, left, color=colour)
            ax.plot(bar.now.span, [y, y], color=INK, linewidth=2, solid_capstyle="butt")
            text = number(value) + ("" if bar.before is None or value <= bar.before else " ↑")
            ax.annotate(
                text, (max(right, bar.now.span[1]), y), (6, 0), textcoords="offset points", va="center_baseline"
            )
        ax.set_yticks([(i + 0.5) * LINE for i in range(len(bars))], [bar.name for bar in bars])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)

    return draw(NARROW, box.top + height + 2.5 * LINE, paint)


def lines(curves: Mapping[str, Sequence[tuple[float, Estimate]]], across: str, upright: str) -> str:
    """Medians with their 95 % intervals over a quantity, a line for each series, both axes as :func:`.svg.scale` says.

    :param curves: by series, (quantity, estimate).
    :param across: label of the horizontal axis, with its unit.
    :param upright: label of the vertical axis, with its unit.
    """
    height, left, top = 300.0, 62.0, legend_columns(list(curves), 4)[1] + 1.8 * LINE

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(left, top, NARROW - left - 12, height))
        for number_of, points in enumerate(curves.values()):
            colour, mark = look(number_of)
            points = sorted(points, key=lambda point: point[0])
            ax.plot(*zip(*((x, e.value) for x, e in points)), mark + "-", color=colour, markersize=5, linewidth=1)
            for x, e in points:
                ax.plot([x, x], e.span, color=colour, linewidth=2.5, alpha=0.5)
        xs = [x for points in curves.values() for x, _ in points]
        upright_axis(ax, [y for points in curves.values() for _, e in points for y in e.span])
        if scale(ax, "x", xs):
            ax.set_xlim(min(xs) / 1.3, max(xs) * 1.3)
        ax.grid(axis="x")
        ax.set_xlabel(across)
        ax.set_title(upright, loc="left", fontsize=FONT, fontweight="bold", pad=8)
        legend(canvas, list(curves), 4)

    return draw(NARROW, top + height + 2.5 * LINE, paint)


def upright_axis(ax: Axes, values: Sequence[float]) -> None:
    """The vertical axis, with room around the values."""
    low, high = min(values), max(values)
    if scale(ax, "y", values):
        room = (high / low) ** 0.05
        ax.set_ylim(low / room, high * room)
    else:
        ax.set_ylim(min(0.0, low), high * 1.1 or 1)
    ax.grid(axis="y")


def stack(parts: Sequence[Part], whole: Part) -> str:
    """One bar of parts, and below it a line for each with its time and its share.

    Positive parts follow each other from zero. Negative ones run back from their end, below the bar and hatched, so
    that a sum beyond the whole is seen as what it is.

    :param parts: in order; each takes a colour, the last is the unexplained rest and takes none.
    :param whole: marked by a line across the bar.
    """
    bar, back = 34.0, 12.0
    negative = any(p.ms < 0 for p in parts)
    height = bar + (back + 4 if negative else 0)
    top = LINE + 6
    reach = max(whole.ms, sum(p.ms for p in parts if p.ms > 0))

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(2, top, NARROW - 4, height))
        ax.set_xlim(0, reach * 1.002)
        ax.set_ylim(height, 0)
        end = _bars(ax, [p for p in parts if p.ms >= 0], parts, 0.0, 0, bar)
        _bars(ax, [p for p in parts if p.ms < 0], parts, end, bar + 4, bar + 4 + back)
        ax.plot([whole.ms, whole.ms], [-5, height], color=INK, linewidth=2, clip_on=False)
        ax.text(whole.ms, -8, f"whole {number(whole.ms)} ms", ha="right", va="bottom")
        ax.axis("off")
        for i, part in enumerate([*parts, whole]):
            _entry(canvas, part, parts, top + height + 14 + i * LINE)

    return draw(NARROW, top + height + 18 + (len(parts) + 1) * LINE, paint)


def _look(part: Part, parts: Sequence[Part]) -> dict[str, object]:
    """How a part is filled: the rest is no component of its own, so it has a hatch and no colour."""
    if part == parts[-1]:
        return {"facecolor": "none", "edgecolor": INK, "hatch": "////", "linewidth": 1}
    return {"facecolor": PALETTE[parts.index(part) % len(PALETTE)], "edgecolor": "none"}


def _bars(ax: Axes, shown: Sequence[Part], parts: Sequence[Part], start: float, top: float, bottom: float) -> float:
    """Draws parts one after the other and returns where the last ends."""
    for part in shown:
        left, right = sorted((start, start + part.ms))
        ax.barh(top, right - left, bottom - top, left, align="edge", **_look(part, parts))  # type: ignore[arg-type]
        start += part.ms
    return start


def _entry(canvas: Canvas, part: Part, parts: Sequence[Part], top: float) -> None:
    """A line below the bar: colour, name, time, share."""
    ax = axes(canvas, Box(0, top, NARROW, LINE))
    ax.set_xlim(0, NARROW)
    ax.set_ylim(LINE, 0)
    ax.axis("off")
    if part in parts:
        ax.barh(4, 12, 12, 2, align="edge", **_look(part, parts))  # type: ignore[arg-type]
    else:
        ax.plot([2, NARROW - 2], [0, 0], color=INK, linewidth=1)
    for x, text, side in ((22, part.name, "left"), (318, f"{number(part.ms)} ms", "right")):
        ax.text(x, 10, text, ha=side, va="center_baseline")
    ax.text(NARROW - 2, 10, percent(part.share), ha="right", va="center_baseline")


def legend_columns(names: Sequence[str], left: float) -> tuple[int, float]:
    """Columns and height of the legend: all in one line, or one below the other where that is too long."""
    fits = left + sum(size(name)[0] + 30 for name in names) <= NARROW
    return (len(names), LINE) if fits else (1, len(names) * LINE)


def legend(canvas: Canvas, names: Sequence[str], left: float) -> None:
    """Marks and names at the top of the figure."""
    marks = [
        Line2D([], [], color=colour, marker=mark, linestyle="", markersize=8)
        for colour, mark in map(look, range(len(names)))
    ]
    width, height = (72 * inches for inches in canvas.get_size_inches())
    canvas.legend(
        marks,
        names,
        loc="upper left",
        bbox_to_anchor=(left / width, 1 - 2 / height),
        ncols=legend_columns(names, left)[0],
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=0.8,
        handletextpad=0.3,
        columnspacing=0.9,
    )
