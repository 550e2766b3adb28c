"""The plot of cost against error, for any challenge that measures both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from .svg import FONT, INK, PALETTE, Box, axes, draw, scale

WIDTH = 640
BOX = Box(72, 22, WIDTH - 72 - 10, 400)
REACHES = (12, 20, 34, 52, 74, 100)
"""How far from its point a label may stand, in units of the viewBox; the nearest free place is taken."""
LEADER = 20
"""A label further away than this is joined to its point by a line."""
Place = tuple[float, float]
"""X and y."""
Rectangle = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@dataclass(frozen=True)
class Point:
    """A configuration.

    :param name: its label.
    :param error: relative error, 0 being exact.
    :param cost: what it costs, in the unit of the axis.
    :param cost_low: lower bound of the cost's 95 % interval.
    :param cost_high: upper bound.
    :param on_front: whether no other configuration is better in one and at least as good in the other.
    """

    name: str
    error: float
    cost: float
    cost_low: float
    cost_high: float
    on_front: bool


def frontier(points: Sequence[Point], label: str, max_error: float | None = None) -> str:
    """Error, logarithmic, against cost with its interval; the Pareto front as steps; labels that never overlap.

    Exact configurations stand at the left edge, above a tick that says 0.

    :param points: at least one; of those not on the front, the first are first in line for a label.
    :param label: of the cost axis, with its unit.
    :param max_error: the user's bound on the relative error, drawn as a line.
    :return: SVG. A label that finds no place is left out, those of the front first in line.
    """
    errors = [p.error for p in points if p.error > 0] + ([max_error] if max_error else [])
    low, high = (min(errors), max(errors)) if errors else (0.001, 0.01)
    zero = 10.0 ** (math.floor(math.log10(low)) - 1)

    def paint(canvas: Canvas) -> None:
        ax = axes(canvas, BOX)
        _axes(ax, points, label, (zero, high))
        front = sorted((max(p.error, zero), p.cost) for p in points if p.on_front)
        # steps: on to the next error at the same cost, then down to its cost
        steps = [corner for (_, y), (x, down) in pairwise(front) for corner in ((x, y), (x, down))]
        ax.plot(*zip(*front[:1], *steps), color=PALETTE[0], linewidth=1.5)
        bound = [(max_error, y) for y in ax.get_ylim()] if max_error else []
        if max_error:
            ax.axvline(max_error, color=INK, linewidth=1, linestyle="--")
            text = f"max_error {100 * max_error:g} %"
            ax.text(max_error, 1.01, text, va="bottom", ha="center", transform=ax.get_xaxis_transform())
        for point in points:
            colour, mark = (PALETTE[0], "o") if point.on_front else (PALETTE[1], "s")
            x = max(point.error, zero)
            ax.plot([x, x], [point.cost_low, point.cost_high], color=colour, linewidth=2)
            ax.plot(x, point.cost, mark, color=colour, markersize=8 if point.on_front else 6)
        _labels(ax, sorted(points, key=lambda p: not p.on_front), zero, [[*front[:1], *steps], bound])

    return draw(WIDTH, BOX.top + BOX.height + 48, paint)


def _axes(ax: Axes, points: Sequence[Point], label: str, errors: Place) -> None:
    """Ticks and limits, with the tick 0 in the place of exact configurations."""
    zero, high = errors
    costs = [x for p in points for x in (p.cost_low, p.cost_high)]
    ax.set_xscale("log")
    first, last = round(math.log10(zero)) + 1, math.ceil(math.log10(high))
    powers = [10.0**n for n in range(first, last + 1, 1 + (last - first) // 7)]
    exact = any(p.error <= 0 for p in points)
    ax.xaxis.set_major_locator(FixedLocator([zero, *powers] if exact else powers))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "0" if x <= zero else f"{100 * x:.10g} %"))
    start = (zero if exact else powers[0]) / 1.5
    # most labels go to the right of their point
    ax.set_xlim(start, high * (high / start) ** 0.25)
    if scale(ax, "y", costs):
        ax.set_ylim(min(costs) / 1.3, max(costs) * 1.3)
    else:
        ax.set_ylim(0, max(costs) * 1.1)
    ax.set_xlabel("greatest relative error")
    ax.set_ylabel(label)
    ax.grid()


def _labels(ax: Axes, points: Sequence[Point], zero: float, lines: Sequence[Sequence[Place]]) -> None:
    """Writes the names where :func:`place` finds room.

    :param lines: lines that labels must not cover, each by its corners in units of the axes.
    """
    pixels = ax.transData.transform
    anchors = [(float(x), float(y)) for x, y in pixels([(max(p.error, zero), p.cost) for p in points])]
    taken = [around(anchor, 5) for anchor in anchors]
    for point, (x, _) in zip(points, anchors):
        taken.append((x - 2, pixels((1, point.cost_low))[1], x + 2, pixels((1, point.cost_high))[1]))
    for line in filter(None, lines):
        for (a, b), (c, d) in pairwise(pixels(line)):
            taken.append((min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1))
    area = ax.get_window_extent()
    places = place(anchors, [size(p.name) for p in points], (area.x0 + 2, area.y0 + 2, area.x1, area.y1), taken)
    for point, anchor, spot in zip(points, anchors, places):
        if spot:
            end = nearest(spot, anchor)
            x, y = ax.transData.inverted().transform(spot[:2])
            ax.text(x, y, point.name, va="bottom", fontweight="bold" if point.on_front else "normal")
            if math.dist(anchor, end) > LEADER:
                ax.plot(*zip(*ax.transData.inverted().transform([anchor, end])), color=INK, alpha=0.6, linewidth=0.8)


def size(text: str) -> Place:
    """Width and height of a label in bold, in units of the viewBox; screens' own fonts are narrower than this one."""
    extent = TextPath((0, 0), text, size=FONT, prop=FontProperties(family="DejaVu Sans", weight="bold")).get_extents()
    return extent.width + 2, FONT * 1.15


def place(
    anchors: Sequence[Place],
    sizes: Sequence[Place],
    area: Rectangle,
    taken: Sequence[Rectangle],
) -> list[Rectangle | None]:
    """Finds a place for each label, one after the other, the nearest that is free.

    :param anchors: what the labels belong to, x and y.
    :param sizes: width and height of each label.
    :param area: within which labels stay.
    :param taken: what labels must not cover.
    :return: where each label stands; None if it finds no place.
    """
    used = list(taken)
    places: list[Rectangle | None] = []
    for anchor, (width, height) in zip(anchors, sizes):
        spots = (_spot(anchor, width, height, reach, turn) for reach, turn in product(REACHES, range(16)))
        spot = next((s for s in spots if _within(s, area) and not _hits([s, *_leader(anchor, s)], used)), None)
        places.append(spot)
        if spot:
            used += [spot, *_leader(anchor, spot)]
    return places


def _hits(shapes: Sequence[Rectangle], used: Sequence[Rectangle]) -> bool:
    return any(_overlap(shape, other) for shape in shapes for other in used)


def _leader(anchor: Place, spot: Rectangle) -> list[Rectangle]:
    """The line from a point's mark to its label, as a row of dots; none to a label that is near."""
    end = nearest(spot, anchor)
    length = math.dist(anchor, end)
    if length <= LEADER:
        return []
    steps = [i / length for i in range(9, int(length), 3)]
    return [around((anchor[0] + s * (end[0] - anchor[0]), anchor[1] + s * (end[1] - anchor[1])), 1) for s in steps]


def around(point: Place, reach: float) -> Rectangle:
    """The square around a point."""
    return point[0] - reach, point[1] - reach, point[0] + reach, point[1] + reach


def _spot(anchor: Place, width: float, height: float, reach: float, turn: int) -> Rectangle:
    """A rectangle whose edge is about ``reach`` from a point, in one of 16 directions, the right one first."""
    angle = math.tau * turn / 16
    centre_x = anchor[0] + math.cos(angle) * (reach + width / 2)
    centre_y = anchor[1] + math.sin(angle) * (reach + height / 2)
    return (centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2)


def _within(inner: Rectangle, outer: Rectangle) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def nearest(spot: Rectangle, point: Place) -> Place:
    """The point of a rectangle that is nearest to another point."""
    return min(max(point[0], spot[0]), spot[2]), min(max(point[1], spot[1]), spot[3])
