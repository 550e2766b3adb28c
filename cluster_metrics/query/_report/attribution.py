"""Where the production query's time goes: costs fitted on its parts, with the production query held out.

The time of a serial coverage is taken as a sum: the start of its searches; filtering and visiting the documents; each
sum; the percentiles of each field; what changes for each pair of fields with percentiles, as these cost less together
than apart; and what changes when a field has both. The cells of the fit have these terms in different numbers, so least
squares tells them apart, and what the terms predict for the production query is held against what it takes. No search
visits documents for nothing: the cell that aggregates next to nothing counts them, which is a term of that cell alone.
All estimates are means over the same whole rounds, hence linear in them: what adds up in one round adds up in the
means, and a round is the unit of replication throughout.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from _tools.report import plots
from _tools.report.cells import Cells
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, Samples, mean
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import interval, number, percent
from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.query.configurations import FITTED, PARTS
from cluster_metrics.wire.questions import PRODUCTION, Configuration

TRIMMED = 0.1
"""Share of the rounds left out at either end: the slowest and the fastest, for all cells alike."""
HALF_WIDTH = 0.02
"""Half of the interval of the rest, as a share of the whole, that a race should reach."""
WHOLE = PRODUCTION.by("serial")
START, VISIT = PARTS["start"], PARTS["visit"]


@dataclass(frozen=True)
class Term:
    """A part of the time of a coverage.

    :param times: how often a configuration has it.
    """

    name: str
    times: Callable[[Configuration], int]


def _ranked(field: str) -> Callable[[Configuration], int]:
    return lambda c: int(c.percentiles is not None and field in c.ranked)


COUNTING = Term(f"counting of {VISIT.name}", lambda c: int(c.name == VISIT.name))
PERCENTILES = (
    *(Term(f"percentiles of {field}", _ranked(field)) for field in FIELDS),
    Term("percentiles of two fields together", lambda c: math.comb(sum(_ranked(f)(c) for f in FIELDS), 2)),
)
TERMS = (
    Term("start of the searches", lambda c: 1),
    Term("filter and visit of the documents", lambda c: int(c.name != START.name)),
    COUNTING,
    Term("sum", lambda c: len(c.summed)),
    *PERCENTILES,
    Term("sum and percentiles share a field", lambda c: sum(_ranked(field)(c) for field in c.summed)),
)


@dataclass(frozen=True)
class Part:
    """A row of the attribution.

    :param name: of the term, or of the rest or the whole.
    :param count: how often the production query has it.
    :param each: cost of one, in ms a coverage.
    :param ms: of all of them.
    :param share: of the production query's wall time.
    """

    name: str
    count: int
    each: Estimate
    ms: Estimate
    share: Estimate


@dataclass(frozen=True)
class Fit:
    """What was fitted.

    :param parts: the terms that the production query has, which with the rest add up to the whole.
    :param counting: what the cell that visits spends on counting, in ms a coverage.
    :param percentiles: those of all fields, less what they save together.
    :param rest: what the production query takes beyond what its terms predict.
    :param worst: name of the fitted cell that the terms miss by most, and by what share of its time.
    :param rounds: behind the figures, and all that there were.
    """

    parts: Sequence[Part]
    counting: Estimate
    percentiles: Part
    rest: Part
    whole: Part
    worst: tuple[str, float]
    rounds: tuple[int, int]


def kept(cells: Samples) -> Samples:
    """The rounds that are left, by position: without the slowest and the fastest, by their level over all cells.

    :param cells: a row per cell, a column per round.
    """
    level = np.mean(np.log(cells / np.median(cells, axis=1, keepdims=True)), axis=0)
    out = int(TRIMMED * len(level))
    return np.sort(np.argsort(level, kind="stable")[out : len(level) - out])


def share_of(part: Samples, whole: Samples) -> Estimate:
    """The ratio of two means over rounds; its interval is that of the mean of its linearisation. Not known of a whole
    of 0, as the ``took`` of searches of few documents may be."""
    if not (level := float(np.mean(whole))):
        return Estimate(len(whole), math.nan, math.nan, math.nan, math.nan)
    ratio = float(np.mean(part)) / level
    return mean(ratio + (part - ratio * whole) / level)


def fitted(cells: Cells) -> Fit | None:
    """Fits the terms by least squares, each cell weighted by the inverse of the variance of its mean.

    :return: None where the race lacks a cell.
    """
    names = [WHOLE.name, *(c.name for c in FITTED)]
    if not cells.has(*names):
        return None
    found = cells.matrix("wall_ms", names)
    rounds = kept(found)
    whole, times = found[0, rounds], found[1:, rounds]
    design = np.array([[term.times(c) for term in TERMS] for c in FITTED], dtype=float)
    variance = np.var(times, axis=1)
    weights = 1 / np.sqrt(np.where(variance > 0, variance, np.mean(variance) or 1.0))
    costs = np.linalg.pinv(design * weights[:, None]) @ (times * weights[:, None])  # of each round, as all is linear
    parts = [_part(t.name, t.times(WHOLE), cost, whole) for t, cost in zip(TERMS, costs) if t.times(WHOLE)]
    predicted = np.array([term.times(WHOLE) for term in TERMS]) @ costs
    missed = np.mean(times - design @ costs, axis=1) / np.mean(times, axis=1)
    worst = int(np.argmax(np.abs(missed)))
    ranked = np.sum([term.times(WHOLE) * costs[TERMS.index(term)] for term in PERCENTILES], axis=0)
    return Fit(
        parts,
        mean(costs[TERMS.index(COUNTING)]),
        _part("percentiles by t-digest", 1, ranked, whole),
        _part("rest", 1, whole - predicted, whole),
        _part(f"whole: production ({PRODUCTION.name})", 1, whole, whole),
        (FITTED[worst].name, float(missed[worst])),
        (len(rounds), found.shape[1]),
    )


def _part(name: str, count: int, cost: Samples, whole: Samples) -> Part:
    return Part(name, count, mean(cost), mean(count * cost), share_of(count * cost, whole))


def half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def of_rest(fit: Fit, not_steady: Collection[str] = ()) -> str:
    """What the rest shows, and the rounds that would show it better; of cells that were not steady it shows nothing."""
    rest, n = fit.rest, fit.rounds[1]
    width = half(rest.share)
    text = (
        f"Held out of the fit, the production query takes {number(fit.whole.ms.value)} ms, its parts add up to "
        f"{number(fit.whole.ms.value - rest.ms.value)} ms: the rest is {percent(rest.share.value)} "
        f"{interval(rest.share, percent)} of the whole, half-width {percent(width)}"
    )
    if shaky := [cell.name for cell in (WHOLE, *FITTED) if cell.name in not_steady]:
        return f"{text}. No verdict on it, as {', '.join(shaky)} {'was' if len(shaky) == 1 else 'were'} not steady."
    if not math.isfinite(width):
        return f"{text}."
    if width > HALF_WIDTH:
        return f"{text}; about {math.ceil(n * (width / HALF_WIDTH) ** 2):,} rounds would bring it to 2 %."
    if rest.share.low <= 0 <= rest.share.high:
        return f"{text}: no interaction of the parts is shown."
    more = "more" if rest.share.value > 0 else "less"
    return f"{text}: together the parts cost {more} than apart, an interaction that no term has."


def sections(cells: Cells, not_steady: Collection[str] = ()) -> list[Section]:
    """The section of the report; none where the race lacks a cell.

    :param not_steady: cells of which nothing is concluded.
    """
    fit = fitted(cells)
    if not fit:
        return []
    rows = [
        {"part": p.name, "count": p.count, "each_ms": p.each, "wall_ms": p.ms, "share": p.share}
        for p in (*fit.parts, fit.rest)
    ]
    rows.append({"part": fit.whole.name, "wall_ms": fit.whole.ms, "share": 1.0})
    columns = [Words("part", "part"), Column("count", "times"), Column("each_ms", "each", "ms")]
    columns += [Column("wall_ms", "wall", "ms"), share("share", "share")]
    cell, missed = fit.worst
    text = (
        f"{of_rest(fit, not_steady)} Costs of the parts are fitted by weighted least squares on {len(FITTED)} serial "
        f"cells with fewer aggregations, and each is a mean over {fit.rounds[0]} of {fit.rounds[1]} rounds (the "
        "slowest and the fastest left out, for all cells alike), with its 95 % interval over rounds. Shares are of "
        "wall time at the client and add up to 100 %. Of the cells fitted, "
        f"{cell} is missed by most: by {percent(missed)} of its time. {VISIT.name} counts what it visits, for "
        f"{number(fit.counting.value)} ms {interval(fit.counting)}, which no other cell does."
    )
    parts = [plots.Part(p.name, p.ms, p.share.value) for p in (*fit.parts, fit.rest)]
    caption = (
        "Parts of the production query's wall time, serial: means over the same rounds, which add up to the whole."
    )
    figure = Figure(plots.parts(parts, plots.Part(f"production query ({PRODUCTION.name})", fit.whole.ms, 1.0)), caption)
    return [Section("Where the production query's time goes", [text, Table("parts", columns, rows), figure])]
