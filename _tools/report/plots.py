"""Plots of a report: from numbers to SVG text, without side effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .scatter import size
from .stats import Estimate
from .svg import FONT, INK, MARKERS, NARROW, PALETTE, Box, axes, draw, scale
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
class Trace:
    """Samples of one cell in order of time.

    :param panel: which panel shows it; its title.
    :param name: its series within the panel.
    :param runs: the samples of each span (a pass, the plan) as (position, ms); a line joins those of one span only.
    """

    panel: str
    name: str
    runs: Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Span:
    """A stretch of the axis that carries a label, such as a pass.

    :param name: the label.
    :param start: first position.
    :param end: last position.
    """

    name: str
    start: float
    end: float


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


@dataclass(frozen=True)
class Bar:
    """A stretch of time.

    :param name: of the line that it stands in.
    :param filled: or outlined.
    """

    name: str
    start: float
    end: float
    filled: bool


@dataclass(frozen=True)
class RateLine:
    """A rate over time.

    :param start: of the first bucket, in s.
    :param width: of a bucket, in s.
    :param rates: of each bucket.
    :param steady: start and end of the window that counts, in s; none if it is too short.
    :param merges: when a merge was seen, in s.
    """

    start: float
    width: float
    rates: Sequence[float]
    steady: tuple[float, float] | None
    merges: Sequence[float]


def cells(estimates: Mapping[str, Mapping[str, Estimate]], label: str, mark: float | None = None) -> str:
    """Medians with their 95 % intervals, a line for each name and series.

    :param estimates: by name, then by series, both in order of appearance.
    :param label: of the axis, with its unit.
    :param mark: a value that a line marks, such as the ratio 1.
    """
    series = list(dict.fromkeys(chain.from_iterable(estimates.values())))
    lines = [(name, one) for name, of in estimates.items() for one in series if one in of]
    tops = _tops(lines)
    height = tops[-1] + LINE
    left = max(size(name)[0] for name in estimates) + 12
    box = Box(left, _columns(series, left)[1] + 8, NARROW - left - 12, height)
    values = [x for of in estimates.values() for e in of.values() for x in (e.low, e.high)]

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, box)
        _across(ax, values, label)
        ax.set_ylim(height, 0)
        if mark is not None:
            ax.axvline(mark, color=INK, linewidth=1, linestyle="--")
        for (name, one), top in zip(lines, tops):
            found, look = estimates[name][one], series.index(one) % len(PALETTE)
            y = top + LINE / 2
            ax.plot([found.low, found.high], [y, y], color=PALETTE[look], linewidth=3, solid_capstyle="butt")
            ax.plot(found.value, y, MARKERS[look], color=PALETTE[look], markersize=7)
            ax.annotate(
                number(found.value),
                (max(found.high, found.value), y),
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
        _legend(canvas, series, box.left)

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
        ends = [x for bar in bars for x in (bar.before or 0, bar.now.high)]
        ax.set_xlim(0, max(ends) * 1.3)
        ax.set_ylim(height, 0)
        ax.set_xlabel(label)
        ax.grid(axis="x")
        for i, bar in enumerate(bars):
            y, value = (i + 0.5) * LINE, bar.now.value
            left, right = sorted((bar.before or 0, value))
            look = PALETTE[2] if bar.before is None else PALETTE[0] if value <= bar.before else PALETTE[1]
            ax.barh(y, right - left, 0.55 * LINE, left, color=look)
            ax.plot([bar.now.low, bar.now.high], [y, y], color=INK, linewidth=2, solid_capstyle="butt")
            text = number(value) + ("" if bar.before is None or value <= bar.before else " ↑")
            ax.annotate(text, (max(right, bar.now.high), y), (6, 0), textcoords="offset points", va="center_baseline")
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
    height, left, top = 300.0, 62.0, _columns(list(curves), 4)[1] + 1.8 * LINE

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(left, top, NARROW - left - 12, height))
        for look, points in enumerate(curves.values()):
            colour, mark = PALETTE[look % len(PALETTE)], MARKERS[look % len(MARKERS)]
            points = sorted(points, key=lambda point: point[0])
            ax.plot(*zip(*((x, e.value) for x, e in points)), mark + "-", color=colour, markersize=5, linewidth=1)
            for x, e in points:
                ax.plot([x, x], [e.low, e.high], color=colour, linewidth=2.5, alpha=0.5)
        xs = [x for points in curves.values() for x, _ in points]
        _upright(ax, [y for points in curves.values() for _, e in points for y in (e.low, e.high)])
        if scale(ax, "x", xs):
            ax.set_xlim(min(xs) / 1.3, max(xs) * 1.3)
        ax.grid(axis="x")
        ax.set_xlabel(across)
        ax.set_title(upright, loc="left", fontsize=FONT, fontweight="bold", pad=8)
        _legend(canvas, list(curves), 4)

    return draw(NARROW, top + height + 2.5 * LINE, paint)


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


def timeline(traces: Sequence[Trace], spans: Sequence[Span], label: str) -> str:
    """Samples in order of time, a panel above the other, a colour and a mark for each series.

    :param traces: a cell each.
    :param spans: labelled on top; lines divide them.
    :param label: of the vertical axis, with its unit.
    """
    panels = list(dict.fromkeys(t.panel for t in traces))
    names = list(dict.fromkeys(t.name for t in traces))
    panel, gap, left, top = 190.0, 2.9 * LINE, 52.0, _columns(names, 4)[1] + 8

    def paint(canvas: Canvas) -> None:
        _legend(canvas, names, 4)
        for i, title in enumerate(panels):
            box = Box(left, top + gap - 8 + i * (panel + gap), NARROW - left - 4, panel)
            ax = axes(canvas, box)
            shown = [t for t in traces if t.panel == title]
            for trace in shown:
                look = names.index(trace.name) % len(PALETTE)
                for run in trace.runs:
                    ax.plot(*zip(*run), MARKERS[look] + "-", color=PALETTE[look], markersize=4.5, linewidth=1)
            _upright(ax, [y for t in shown for run in t.runs for _, y in run])
            _divide(ax, spans)
            ax.set_title(
                ", ".join(filter(None, (title, label))), loc="left", fontsize=FONT, fontweight="bold", pad=LINE + 6
            )

    return draw(NARROW, top + len(panels) * (panel + gap) + 12, paint)


def _upright(ax: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    if scale(ax, "y", values):
        room = (high / low) ** 0.05
        ax.set_ylim(low / room, high * room)
    else:
        ax.set_ylim(min(0.0, low), high * 1.1 or 1)
    ax.grid(axis="y")


def rates(lines: Sequence[RateLine], goal: float, label: str) -> str:
    """A rate over time, in steps; the steady windows are shaded, and marks below the axis show where merges ran.

    :param lines: loads, one after the other.
    :param goal: a rate to reach, as a dashed line; 0 for none.
    :param label: of the vertical axis, with its unit.
    """
    left, top, height = 66.0, LINE + 8, 200.0
    most = max(max(rate for line in lines for rate in line.rates), goal)

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(left, top, NARROW - left - 12, height))
        for line in lines:
            steps = [*line.rates, line.rates[-1]]
            at = [line.start + i * line.width for i in range(len(steps))]
            ax.plot(at, steps, color=PALETTE[0], linewidth=1.5, drawstyle="steps-post")
            if line.steady:
                ax.axvspan(*line.steady, color=PALETTE[0], alpha=GRID, linewidth=0)
            for merge in line.merges:
                ax.plot([merge], [most * 0.03], "|", color=PALETTE[1], markersize=10)
        if goal:
            ax.axhline(goal, color=PALETTE[2], linestyle="--", linewidth=2)
        ax.set_ylim(0, most * 1.15)
        ax.set_xlim(left=0)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.grid(axis="y")
        ax.set_xlabel("s")
        ax.set_title(label, loc="left", fontsize=FONT, fontweight="bold")

    return draw(NARROW, top + height + 2.5 * LINE, paint)


def _divide(ax: Axes, spans: Sequence[Span]) -> None:
    """Labels the spans above the axes and draws lines between them."""
    ax.set_xlim(spans[0].start - 1, spans[-1].end + 1)
    ax.set_xticks([])
    for span in spans:
        ax.text(
            (span.start + span.end) / 2,
            1.02,
            span.name,
            ha="center",
            va="bottom",
            transform=ax.get_xaxis_transform(),
        )
    for before, after in zip(spans, spans[1:]):
        ax.axvline((before.end + after.start) / 2, color=INK, alpha=0.5, linewidth=1)


def bars(shown: Sequence[Bar], label: str) -> str:
    """Stretches of time, a line for each name in order of appearance.

    :param label: of the axis, with its unit.
    """
    names = list(dict.fromkeys(bar.name for bar in shown))
    box = Box(min(7.6 * max(map(len, names)) + 10, NARROW / 2), 2, 0, LINE * len(names))

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, Box(box.left, box.top, NARROW - box.left - 14, box.height))
        for bar in shown:
            ax.barh(
                names.index(bar.name),
                bar.end - bar.start,
                0.6,
                bar.start,
                facecolor=PALETTE[0] if bar.filled else "none",
                edgecolor=PALETTE[0],
                linewidth=1.5,
            )
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_yticks(range(len(names)), names)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        scale(ax, "x", [0, max(bar.end for bar in shown)])
        ax.set_xlim(0, max(bar.end for bar in shown) * 1.01)
        ax.set_xlabel(label)
        ax.grid(axis="x")

    return draw(NARROW, box.top + box.height + 2.5 * LINE, paint)


def _columns(names: Sequence[str], left: float) -> tuple[int, float]:
    """Columns and height of the legend: all in one line, or one below the other where that is too long."""
    fits = left + sum(size(name)[0] + 30 for name in names) <= NARROW
    return (len(names), LINE) if fits else (1, len(names) * LINE)


def _legend(canvas: Canvas, names: Sequence[str], left: float) -> None:
    """Marks and names at the top of the figure."""
    marks = [
        Line2D([], [], color=PALETTE[i % len(PALETTE)], marker=MARKERS[i % len(MARKERS)], linestyle="", markersize=8)
        for i in range(len(names))
    ]
    width, height = (72 * inches for inches in canvas.get_size_inches())
    canvas.legend(
        marks,
        names,
        loc="upper left",
        bbox_to_anchor=(left / width, 1 - 2 / height),
        ncols=_columns(names, left)[0],
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=0.8,
        handletextpad=0.3,
        columnspacing=0.9,
    )
