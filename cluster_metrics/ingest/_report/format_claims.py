"""Whether what a blog says of SMILE holds in an ingest-formats race."""

from collections.abc import Iterator

import numpy as np

from _tools.report.stats import ENOUGH, Estimate, paired_ratio
from _tools.report.table import Table, Words
from _tools.report.text import percent, with_interval
from _tools.report.verdicts import THRESHOLD, Verdict

from .format_cells import Cells, Series, bytes_of, cores, overall, saved, sensitivity, shape

BLOG_GAIN = 1.05
"""SMILE: 'the 5+% of throughput improvement at all bulk sizes'."""
BLOG_NETWORK = (0.10, 0.20)
"""SMILE: what less goes over the network, typically."""
BLOG_GC = 0.5
"""SMILE guesses that 'the bulk' of what is saved is garbage collection."""


def stated(cells: Cells) -> list[dict[str, str]]:
    """Each published statement with what was seen, and whether it holds."""
    rows = [
        {"claim": claim, "documents": s.load, "format": s.encoding, "holds": holds, "seen": seen}
        for s in cells.compared
        for claim, seen, holds in _answers(cells, s)
    ]
    for encoding, of in cells.batches.items():
        less = [1 - bytes_of(cells, s) / bytes_of(cells, s.base) for s in of]
        seen = ", ".join(f"{percent(share)} at {s.lines}" for s, share in zip(of, less))
        holds = "yes" if len(of) > 1 and less == sorted(less) and less[-1] > less[0] else "no"
        row = {"claim": "the larger the documents, the less over the network", "documents": "batches of lines"}
        rows.append(row | {"format": encoding, "holds": holds, "seen": f"less in requests: {seen}"})
    return rows


def claims(cells: Cells) -> list[str | Table]:
    rows = stated(cells)
    order = list(dict.fromkeys(row["claim"] for row in rows))
    rows.sort(key=lambda row: order.index(row["claim"]))
    columns = [Words("claim", "published statement"), Words("documents", "documents"), Words("format", "format")]
    columns += [Words("holds", "holds"), Words("seen", "seen")]
    text = (
        "Each statement against what was measured: a format against JSON within the same rounds. It holds, or not, if "
        f"the whole interval says so, from {ENOUGH} rounds on; of bytes, which hardly vary from round to round, by the "
        "figures themselves."
    )
    return [text, Table("claims", columns, rows)]


def _answers(cells: Cells, series: Series) -> Iterator[tuple[str, str, str]]:
    """Claim, what was seen, and whether it holds."""
    sizes = cells.sizes(series, series.base)
    gains = {size: cells.gain(size, series) for size in sizes}
    least = min(sizes, key=lambda size: gains[size].value)
    said = {holds_by(gain, BLOG_GAIN) for gain in gains.values()}
    holds = next(a for a in ("no", Verdict.NOT_ENOUGH.value, "undecided", "yes") if a in said)
    text = f"least at {least:,}: {with_interval(gains[least])} ×"
    yield "5 % more throughput or better at all bulk sizes", text, holds
    if len(sizes) > 2:
        for end, name in ((0, "small"), (-1, "large")):
            found = shape(cells, series, end)
            text = f"gain at {sizes[end]:,} over that between the ends: {with_interval(found)}"
            yield f"larger gains at {name} sizes", text, holds_by(found, 1 + THRESHOLD)
    sent = [
        1 - cells.median_of("bytes_out", s, series).value / cells.median_of("bytes_out", s, series.base).value
        for s in sizes
    ]
    low, high = min(sent), max(sent)
    holds = "yes" if BLOG_NETWORK[0] <= low and high <= BLOG_NETWORK[1] else "no"
    text = percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"
    yield "10 to 20 % less over the network", f"{text} less in requests", holds
    if len(sizes) > 1:
        found = sensitivity(cells, series)
        text = f"best over worst size, over that of JSON: {with_interval(found)}"
        yield "less sensitive to bulk size", text, holds_by(found, 0, 1 / (1 + THRESHOLD))
    used = overall(cells, series, cores("target_cpu_ms"))
    text = f"CPU at work, over that of JSON: {with_interval(used)}"
    yield "the target's CPU is used more", text, holds_by(used, 1 + THRESHOLD)
    if len(sizes) > 1:
        best, worst = (pick(range(len(sizes)), key=lambda i: cells.rate(sizes[i], series).value) for pick in (max, min))
        _, at_work = cells.over_sizes(cores("target_cpu_ms"), series)
        found = paired_ratio(at_work[worst], at_work[best])
        text = f"CPU at work at {sizes[best]:,}, the fastest, over that at {sizes[worst]:,}: {with_interval(found)}"
        yield "at better bulk sizes the target's CPU is used more", text, holds_by(found, 1 + THRESHOLD)
    pauses, wall = saved(cells, series, "gc_ms"), saved(cells, series, "wall_ms")
    text = f"of {with_interval(wall)} s saved per million, {with_interval(pauses)} s are pauses"
    enough = wall.n >= ENOUGH
    if not enough or wall.low <= 0:
        holds = "undecided" if enough else Verdict.NOT_ENOUGH.value
    else:
        holds = "yes" if pauses.low > BLOG_GC * wall.high else "no" if pauses.high < BLOG_GC * wall.low else "undecided"
    yield "most of what is saved is garbage collection", text, holds


def holds_by(estimate: Estimate, low: float, high: float = np.inf) -> str:
    """Whether a figure lies within bounds: yes or no if its whole interval says so, and there are rounds enough."""
    if estimate.n < ENOUGH:
        return Verdict.NOT_ENOUGH.value
    if estimate.low >= low and estimate.high <= high:
        return "yes"
    return "no" if estimate.high < low or estimate.low > high else "undecided"
