"""What two articles on capacity planning claim, held against the cells of a race."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from _tools.report.stats import Estimate
from _tools.report.table import Column, Table, Words
from _tools.report.text import number, percent
from cluster_metrics.capacity.challenge import COMPARED, INDEX, QUERY

from .cells import Cell, rate_ratio, trend_of

ARTICLE_INDEX = {"3s-2r": 0.4}
"""CAPACITY: documents/s over those of the same shards without replicas."""
ARTICLE_LOSS = (0.2, 0.6)
"""CAPACITY: part of the throughput of indexing that replicas take in most cases."""
SMALL_LOSS = 0.2
"""What is taken here for the articles' slight decrease."""
NO_LOSS = 0.05
"""What is taken here for a decrease that was not noticed."""
NEAR = 0.15
"""Part by which figures may differ that are taken for basically the same here."""


@dataclass(frozen=True)
class Claim:
    """What the articles say.

    :param text: the claim.
    :param what: the ratio that it is about, in words.
    :param low: least ratio that bears it out.
    :param high: greatest.
    :param seen: measures it; None where the race has not what it takes.
    """

    text: str
    what: str
    low: float
    high: float
    seen: Callable[[Mapping[str, Cell]], Estimate | None]


def _between(text: str, own: str, base: str, low: float, high: float) -> Claim:
    """A claim about the throughput of a cell over that of another."""
    return Claim(
        text,
        f"{own} / {base}",
        low,
        high,
        lambda cells: rate_ratio(cells[own], cells[base]) if own in cells and base in cells else None,
    )


def _about(value: float) -> tuple[float, float]:
    return value * (1 - NEAR), value * (1 + NEAR)


CLAIMS = {
    QUERY: (
        _between("a second shard on a second node doubles throughput", "2s-0r", "1s-0r", *_about(2)),
        _between("a third shard on a third node triples it", "3s-0r", "1s-0r", *_about(3)),
        _between("a replica does as much as a second shard", "1s-1r", "2s-0r", *_about(1)),
        _between("2 shards with 1 replica on three nodes stay below three nodes", "2s-1r", "3s-0r", 0, 1),
        _between("3 shards with 1 replica reach three nodes", "3s-1r", "3s-0r", *_about(1)),
        _between("fully replicated, one shard reaches three nodes", "1s-2r", "3s-0r", *_about(1)),
        _between("fully replicated, shards make no difference", "3s-2r", "1s-2r", *_about(1)),
    ),
    INDEX: (
        _between("a second shard raises throughput", "2s-0r", "1s-0r", 1, np.inf),
        _between("a third shard raises it further", "3s-0r", "2s-0r", 1, np.inf),
        _between("a replica of the one shard costs little", "1s-1r", "1s-0r", 1 - SMALL_LOSS, np.inf),
        _between("so do two replicas", "1s-2r", "1s-0r", 1 - SMALL_LOSS, np.inf),
        *(
            _between("replicas cost 20 to 60 % where nodes hold several shards", f"{s}s-{r}r", f"{s}s-0r",
                     1 - ARTICLE_LOSS[1], 1 - ARTICLE_LOSS[0])
            for s, r in ((2, 1), (2, 2), (3, 1), (3, 2))
        ),
        _between("full replication of 3 shards leaves 40 %", "3s-2r", "3s-0r", *_about(ARTICLE_INDEX["3s-2r"])),
        Claim("the rate does not fall as the index grows", "second half / first, all cells", 1 - NO_LOSS, np.inf,
              trend_of),
    ),
}  # fmt: skip


def holds(found: Estimate, claim: Claim) -> str:
    """Yes or no if the whole interval says so, and there are passes enough."""
    if found.n < COMPARED.enough:
        return f"too few passes, it takes {COMPARED.enough}"
    if found.low >= claim.low and found.high <= claim.high:
        return "yes"
    return "no" if found.high < claim.low or found.low > claim.high else "undecided"


def seen(cells: Mapping[str, Cell], kind: str) -> list[tuple[Claim, Estimate]]:
    """The claims that this race can tell of, each with the ratio that was measured."""
    measured = [(claim, claim.seen(cells)) for claim in CLAIMS[kind]]
    return [(claim, found) for claim, found in measured if found and found.n]


def claims(cells: Mapping[str, Cell], kind: str) -> list[str | Table]:
    """Each claim about cells of this race, with what was seen.

    :param kind: ``capacity-query`` or ``capacity-index``.
    """
    rows = []
    for claim, found in seen(cells, kind):
        bounds = f"{number(claim.low)} to {number(claim.high)}" if np.isfinite(claim.high) else f"over {claim.low:g}"
        row = {"claim": claim.text, "what": claim.what, "bounds": bounds, "seen": found}
        rows.append(row | {"n": found.n, "holds": holds(found, claim)})
    if not rows:
        return ["The grid has none of the cells that the articles speak of."]
    columns = [Words("claim", "published statement"), Words("what", "of"), Column("bounds", "bears it out")]
    columns += [Column("seen", "seen"), Column("n", "passes"), Words("holds", "holds")]
    text = (
        f"The articles give rounded figures without spread: {percent(NEAR)} beside them still count, a slight decrease "
        f"is taken for {percent(SMALL_LOSS)} at most, and none that was noticed for {percent(NO_LOSS)}. A statement "
        "holds, or not, if the whole interval says so."
    )
    return [text, Table("claims", columns, rows)]
