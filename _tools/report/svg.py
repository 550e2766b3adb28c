"""Draws with matplotlib and gives SVG that fits into a page: no fixed ink, no size, no foreign names, no dates."""

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

FONT = 14.0
"""Size of all text, in units of the viewBox."""
SMALLEST_FONT = 12.2
LARGEST_FONT = 16.0
"""Sizes of text on the screen, in CSS pixels, between which a figure scales; a narrower screen scrolls it."""
MARGINS = "2rem"
"""What the page takes from the screen's width, left and right together."""
NARROW = 400
"""Width of a figure, in units of the viewBox, that a phone of 390 pixels shows without scrolling."""
INK = "#010203"
"""Stands for the colour of the page's text until the SVG is written."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#c56a9c", INK, "#a0522d")
"""After Okabe and Ito. Each has a contrast of 3 to white and to the dark page, which their yellow, orange and sky blue
have not: ink and sienna stand for these. The colour-blind tell all apart."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Go with the colours, so that nobody needs colour to tell series apart."""
SVG = "http://www.w3.org/2000/svg"
XLINK = "{http://www.w3.org/1999/xlink}href"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "svg.fonttype": "none",
    "svg.hashsalt": "cluster-metrics",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.18,
    "grid.linewidth": 1.0,
    "hatch.color": INK,
    "hatch.linewidth": 1.0,
}


@dataclass(frozen=True)
class Box:
    """The place of axes within a figure, in units of the viewBox, from the upper left corner."""

    left: float
    top: float
    width: float
    height: float


def look(number: int) -> tuple[str, str]:
    """Colour and mark of a series, by its number from 0 on; both together are of no other of the first 36."""
    return PALETTE[number % len(PALETTE)], MARKERS[(number + number // len(PALETTE)) % len(MARKERS)]


def draw(width: float, height: float, paint: Callable[[Canvas], None]) -> str:
    """The SVG element that ``paint`` draws; the same drawing gives the same bytes.

    :param width: of the viewBox; a unit is a CSS pixel where the figure is neither scaled up nor down.
    :param height: of the viewBox.
    """
    with matplotlib.rc_context(STYLE):
        # at 72 dots per inch matplotlib's points are units of the viewBox
        canvas = Canvas(figsize=(width / 72, height / 72), dpi=72)
        paint(canvas)
        out = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=metadata)
    return _embeddable(out.getvalue(), width)


def axes(canvas: Canvas, box: Box) -> Axes:
    """Axes at a place of the figure."""
    width, height = (72 * inches for inches in canvas.get_size_inches())
    return canvas.add_axes(
        (box.left / width, 1 - (box.top + box.height) / height, box.width / width, box.height / height)
    )


def scale(ax: Axes, which: Literal["x", "y"], values: Iterable[float]) -> bool:
    """Makes the x or y axis logarithmic if the values span a decade or more, and else has it begin at zero.

    :param values: all that the axis must show; limits are left to the caller.
    :return: whether it is logarithmic.
    """
    values = list(values)
    low, high = min(values), max(values)
    logarithmic = low > 0 and high >= 10 * low
    axis = ax.xaxis if which == "x" else ax.yaxis
    if logarithmic:
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
        axis.set_major_locator(FixedLocator(_log_ticks(low, high)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}".replace("-", "−")))
    return logarithmic


def _log_ticks(low: float, high: float) -> Sequence[float]:
    """Powers of ten around the values; the fewer of them, the more between them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    return [step * 10.0**power for power in range(first, last + 1) for step in steps]


def _embeddable(text: str, width: float) -> str:
    """Takes from matplotlib's document what a page must not have: sizes, global styles, names that nobody refers to."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    used = set(re.findall(r'(?:href="|url\()#([\w-]+)', text))
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if target := element.attrib.pop(XLINK, None):
            element.set("href", target)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    smallest, largest = (width * font / FONT for font in (SMALLEST_FONT, LARGEST_FONT))
    root.set("style", f"width: clamp({smallest:.0f}px, 100vw - {MARGINS}, {largest:.0f}px)")
    root.set("stroke-linejoin", "round")
    ElementTree.register_namespace("", SVG)
    svg = ElementTree.tostring(root, encoding="unicode")
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    return svg.replace(INK, "currentColor")
