"""Bulk size by clients: every load in JSON against the fastest, and the smallest that is not shown to be slower."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from _tools.report.answer import Finding, times_as_fast
from _tools.report.race import Race
from _tools.report.stats import optimism
from _tools.report.table import Column, Table, Words
from _tools.report.text import count, number, percent
from _tools.report.verdicts import Judged, Verdict, decided_by, gate_of, judge
from cluster_metrics.ingest.ingest_formats import BASE

from .format_cells import Cells, Series, cores, ms_per_request, per_million

CONFIRMED_BY = "append-no-conflicts-index-only"
"""Whose load is one task of Rally's."""
HOW = (
    "Every number of clients with every number of documents a request, in JSON, the smallest load first: that with "
    "fewest documents on their way at once. Throughput is a ratio to the fastest, formed within each round, and all "
    "loads are judged together (Holm). What ties with the fastest is not shown to be slower; the smallest of these is "
    "recommended, since what lies beyond it asks for more memory and longer requests and is not shown to gain. CPU is "
    "per million documents."
)
_WHOLE = "{:,.0f}".format
COLUMNS: tuple[Column, ...] = (
    Column("clients", "clients"),
    Column("bulk_size", "documents a request", form=_WHOLE),
    Column("documents", "on their way at once", form=_WHOLE),
    Column("mb", "MB on their way"),
    Column("rate", "documents/s"),
    Column("ratio", "of the fastest"),
    Words("verdict", "time, against the fastest"),
    Column("decided_by", "rounds to decide", form=_WHOLE),
    Column("target_cpu_ms", "target CPU", "s"),
    Column("target_cpu_ms_used", "target CPU, cores"),
    Column("client_cpu_ms", "client CPU", "s"),
    Column("client_cpu_ms_used", "client CPU, cores"),
    Column("request_ms", "ms per request"),
)


@dataclass(frozen=True)
class Load:
    """A number of clients and of documents a request."""

    series: Series
    bulk_size: int

    @property
    def cell(self) -> tuple[Series, int]:
        return self.series, self.bulk_size

    @property
    def documents(self) -> int:
        """On their way at once, at most: what a load asks of both sides."""
        return self.series.clients * self.bulk_size

    @property
    def text(self) -> str:
        return f"{count(self.series.clients, 'client')}, {self.bulk_size:,} documents a request"


@dataclass(frozen=True)
class Sweep:
    """The loads of a corpus.

    :param loads: the smallest first.
    :param best: the fastest, by the median of its rate.
    :param judged: what is said of each other load's time against the fastest, all of them together.
    """

    corpus: str
    loads: list[Load]
    best: Load
    judged: dict[Load, Judged]

    @property
    def recommended(self) -> Load | None:
        """The smallest that is not shown to be slower than the fastest; none without rounds enough."""
        if any(of.verdict is Verdict.NOT_ENOUGH for of in self.judged.values()):
            return None
        return next(load for load in self.loads if load == self.best or self.judged[load].verdict.is_tie)


def sweeps(race: Race, cells: Cells) -> list[Sweep]:
    """One for each corpus of which a race has several loads in JSON that share a round."""
    found = []
    for corpus in dict.fromkeys(s.corpus for s in cells.series):
        of = [s for s in cells.series if (s.corpus, s.encoding) == (corpus, BASE)]
        loads = sorted(
            (Load(s, n) for s in of for n in cells.sizes(s)), key=lambda load: (load.documents, load.series.clients)
        )
        if len(loads) < 2 or not cells.has(*(load.cell for load in loads)):
            continue
        best = max(loads, key=lambda load: cells.rate(load.bulk_size, load.series).value)
        others = [load for load in loads if load != best]
        ratios = [cells.ratio(per_million("wall_ms"), best.cell, load.cell) for load in others]
        judged = dict(zip(others, judge(ratios, gate_of(race.record.compared))))
        found.append(Sweep(corpus, loads, best, judged))
    return found


def answer(race: Race, cells: Cells) -> Iterator[Finding]:
    """The recommended load of each corpus; nothing where there are none to choose from."""
    found = {sweep.corpus: _told(race, cells, sweep) for sweep in sweeps(race, cells)}
    if found:
        yield Finding("load", "; ".join(f"{corpus}: {text}" for corpus, text in found.items()))


def _told(race: Race, cells: Cells, sweep: Sweep) -> str:
    if not (load := sweep.recommended):
        compared = race.record.compared
        return f"nothing recommended, a verdict takes {compared.parameter}:{compared.enough}"
    rate = f"{load.text}, {number(cells.rate(load.bulk_size, load.series).value)} documents/s"
    if load == sweep.best:
        return f"{rate}, the fastest; every smaller one is shown to be slower"
    as_fast = cells.ratio(per_million("wall_ms"), load.cell, sweep.best.cell)
    return f"{rate}, {times_as_fast(as_fast)} the fastest ({sweep.best.text}), which is not shown to be faster"


def section(race: Race, cells: Cells) -> list[str | Table]:
    """The loads of each corpus, with what they cost; nothing where there are none to choose from."""
    parts: list[str | Table] = []
    for sweep in sweeps(race, cells):
        walls = cells.matrix(per_million("wall_ms"), [load.cell for load in sweep.loads])
        chosen = (
            f"{sweep.best.text} is the fastest of {len(sweep.loads)}; choosing it for that overstates it by "
            f"{percent(optimism(walls / walls[0]))} on average."
        )
        rows = [_row(cells, sweep, load) for load in sweep.loads]
        parts += [f"{sweep.corpus}: {_advice(race, sweep)} {chosen}", Table(f"loads of {sweep.corpus}", COLUMNS, rows)]
    return [HOW, *parts] if parts else []


def _row(cells: Cells, sweep: Sweep, load: Load) -> dict[str, Any]:
    row: dict[str, Any] = {"clients": load.series.clients, "bulk_size": load.bulk_size, "documents": load.documents}
    row |= {"rate": cells.rate(load.bulk_size, load.series), "verdict": "the fastest"}
    if said := sweep.judged.get(load):
        row |= {"ratio": cells.ratio(per_million("wall_ms"), load.cell, sweep.best.cell), "verdict": said.text}
        row |= {"decided_by": decided_by(said)} if said.verdict is Verdict.NOT_SHOWN else {}
    for key in ("target_cpu_ms", "client_cpu_ms"):
        row |= {key: cells.one(per_million(key), load.cell), f"{key}_used": cells.one(cores(key), load.cell).value}
    mb_per_request = cells.one(lambda meta: meta["bytes_out"] / meta["requests"] / 1e6, load.cell).value
    return row | {
        "request_ms": cells.one(ms_per_request, load.cell).value,
        "mb": load.series.clients * mb_per_request,
    }


def _advice(race: Race, sweep: Sweep) -> str:
    if not (load := sweep.recommended):
        compared = race.record.compared
        return f"nothing is recommended, since a verdict takes {compared.parameter}:{compared.enough}."
    text = f"**{load.text}** is the smallest load that ties with the fastest."
    if sweep.corpus != "metrics":
        return text
    return (
        f"{text} Its clients are coroutines of one process here and share its CPU. Whether it holds for clients that "
        "Rally spreads over its processes, one task of Rally's tells, whose report shows the CPU of each process: "
        f"`make race CHALLENGE={CONFIRMED_BY} PARAMS=bulk_size:{load.bulk_size},"
        f"bulk_indexing_clients:{load.series.clients}`."
    )
