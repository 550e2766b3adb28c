"""Lays the samples of a race out in the order in which they were taken: the passes, then the rounds of the plan."""

from collections.abc import Iterable, Mapping, Sequence

from .cells import Cells
from .race import Sample
from .timelines import Span, Trace

CAPTION = (
    "Every counted coverage in order of time: those of a pass, one after the other within their cell, then one per "
    "round of the plan. A line that slopes is a drift."
)
ROUNDS_CAPTION = "Every counted sample of these cells, one a round, in order of time. A line that slopes is a drift."
GAP = 1.0
"""Positions left free between two spans."""
PLAN = 0
"""Stands for the plan where a pass has its number."""
Run = list[tuple[float, float]]
"""Positions, and ms."""


def timeline(
    samples: Iterable[Sample], transports: Sequence[str], variants: Sequence[str]
) -> tuple[list[Trace], list[Span]]:
    """Gives each sample a position: within a pass its number in its cell, within the plan its round.

    :param samples: in order of time, with the metadata of a coverage.
    :param transports: in the order to show; others are left out.
    :param variants: in the order to show; others are left out.
    :return: a trace for each cell, and the passes and the plan as spans of the axis.
    """
    runs: dict[tuple[str, str], dict[int, Run]] = {}
    for sample in samples:
        meta = sample.meta
        run = runs.setdefault((meta["transport"], meta["variant"]), {}).setdefault(meta.get("pass", PLAN), [])
        run.append((meta.get("round", len(run) + 1), meta["wall_ms"]))
    spans = _spans(runs.values())
    traces = [
        Trace(transport, variant, [_from(span.start, cell[number]) for number, span in spans.items() if number in cell])
        for transport in transports
        for variant in variants
        if (cell := runs.get((transport, variant)))
    ]
    return traces, list(spans.values())


def by_round(cells: Cells, shown: Mapping[str, str], key: str) -> tuple[list[Trace], list[Span]]:
    """Lays the rounds of a plan out, all cells in one panel.

    :param shown: configurations, each with the name of its series.
    :param key: of the metadata to show.
    :return: a trace for each cell, and the rounds as one span of the axis.
    """
    found = {series: cells.samples(name) for name, series in shown.items()}
    numbers = sorted({number for rounds in found.values() for number in rounds})
    traces = [Trace("", name, [[(n, float(s.meta[key])) for n, s in rounds.items()]]) for name, rounds in found.items()]
    return traces, [Span(f"rounds {numbers[0]} to {numbers[-1]}", numbers[0], numbers[-1])]


def _from(start: float, run: Run) -> Run:
    return [(start + position - 1, ms) for position, ms in run]


def _spans(cells: Iterable[dict[int, Run]]) -> dict[int, Span]:
    """The passes in order and then the plan, each as long as its longest run."""
    lengths: dict[int, float] = {}
    for cell in cells:
        for number, run in cell.items():
            lengths[number] = max(lengths.get(number, 0), *(position for position, _ in run))
    spans: dict[int, Span] = {}
    start = 0.0
    for number in sorted(lengths, key=lambda n: (n == PLAN, n)):
        name = "plan" if number == PLAN else f"pass {number}" if not spans else str(number)
        spans[number] = Span(name, start, start + lengths[number] - 1)
        start += lengths[number] + GAP
    return spans
