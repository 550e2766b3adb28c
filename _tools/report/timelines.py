"""Plots over time: from numbers to SVG text, without side effects."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .plots import GRID, LINE, legend, legend_columns, upright_axis
from .svg import FONT, INK, NARROW, PALETTE, Box, axes, draw, look, scale


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


def timeline(traces: Sequence[Trace], spans: Sequence[Span], label: str) -> str:
    """Samples in order of time, a panel above the other, a colour and a mark for each series.

    :param traces: a cell each.
    :param spans: labelled on top; lines divide them.
    :param label: of the vertical axis, with its unit.
    """
    panels = list(dict.fromkeys(t.panel for t in traces))
    names = list(dict.fromkeys(t.name for t in traces))
    panel, gap, left, top = 190.0, 2.9 * LINE, 52.0, legend_columns(names, 4)[1] + 8

    def paint(canvas: Canvas) -> None:
        legend(canvas, names, 4)
        for i, title in enumerate(panels):
            box = Box(left, top + gap - 8 + i * (panel + gap), NARROW - left - 4, panel)
            ax = axes(canvas, box)
            shown = [t for t in traces if t.panel == title]
            for trace in shown:
                colour, mark = look(names.index(trace.name))
                for run in trace.runs:
                    ax.plot(*zip(*run), mark + "-", color=colour, markersize=4.5, linewidth=1)
            upright_axis(ax, [y for t in shown for run in t.runs for _, y in run])
            _divide(ax, spans)
            ax.set_title(
                ", ".join(filter(None, (title, label))), loc="left", fontsize=FONT, fontweight="bold", pad=LINE + 6
            )

    return draw(NARROW, top + len(panels) * (panel + gap) + 12, paint)


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
