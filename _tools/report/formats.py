"""Explains an ingest-formats race: what SMILE buys over JSON, by bulk size, and whether a blog's claims hold."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cluster_metrics.ingest_formats import BASE, ENCODING

from . import plots, stability
from .cells import Plan
from .ingest_decomp import COLUMNS as CELL_COLUMNS
from .race import Race, Sample
from .section import Figure, Section, Sheet
from .stats import ENOUGH, THRESHOLD, Estimate, Samples, Verdict, mean, median, paired_ratio, verdict
from .text import number, percent, started, table, with_interval

PLAN = Plan(
    "ingest-cell",
    {
        "wall_ms": "wall time of a cell, ms",
        "target_cpu_ms": "CPU time of the target for a cell, ms",
        "client_cpu_ms": "CPU time of the load driver for a cell, ms",
    },
    f"metrics-{BASE}-1000-by-1",
    "ingest_rounds",
)
COLUMNS = ("corpus", "encoding", *CELL_COLUMNS, "gc_ms", "gc_count")
"""Columns of ``es_profile_ingest_formats.csv`` after the start (UTC): the metadata of each sample."""
ENCODER_COLUMNS = ("round", "corpus", "encoder", "documents", "client_cpu_ms", "bytes")
"""Columns of ``es_profile_encoders.csv`` after the start (UTC)."""
BLOG_GAIN = 1.05
"""Seed 003: 'the 5+% of throughput improvement at all bulk sizes'."""
BLOG_NETWORK = (0.10, 0.20)
"""Seed 003: what less goes over the network, typically."""
BLOG_GC = 0.5
"""Seed 003 guesses that 'the bulk' of what is saved is garbage collection."""


@dataclass(frozen=True)
class Series:
    """The cells of a corpus in one format with one number of clients, over bulk sizes."""

    corpus: str
    clients: int
    encoding: str

    @property
    def base(self) -> "Series":
        """The same in JSON."""
        return replace(self, encoding=BASE)

    @property
    def load(self) -> str:
        return f"{self.corpus}, {self.clients} {'client' if self.clients == 1 else 'clients'}"


class Cells:
    """The samples of a race by series and bulk size, paired by round."""

    def __init__(self, race: Race):
        self._found: dict[tuple[Series, int], dict[int, Sample]] = {}
        for sample in race.of(PLAN.kind):
            series = Series(sample.meta["corpus"], sample.meta["clients"], sample.meta["encoding"])
            self._found.setdefault((series, sample.meta["bulk_size"]), {})[sample.meta["round"]] = sample

    @property
    def series(self) -> list[Series]:
        return sorted({series for series, _ in self._found}, key=lambda s: (s.corpus, s.clients, s.encoding))

    @property
    def compared(self) -> list[Series]:
        """Those that have JSON beside them."""
        return [s for s in self.series if s.encoding != BASE and s.base in self.series]

    def sizes(self, *series: Series) -> list[int]:
        """Bulk sizes that all of these have."""
        return sorted(set.intersection(*({size for s, size in self._found if s == one} for one in series)))

    def per_million(self, key: str, size: int, *series: Series) -> list[Samples]:
        """Per million documents, of a time in ms in s, of bytes in kB; in the rounds that all of these have."""
        cells = [self._found[one, size] for one in series]
        rounds = sorted(set.intersection(*map(set, cells)))
        return [np.array([1000 * c[r].meta[key] / c[r].meta["rows"] for r in rounds]) for c in cells]

    def one(self, key: str, size: int, series: Series) -> Estimate:
        return median(self.per_million(key, size, series)[0])

    def rate(self, size: int, series: Series) -> Estimate:
        """Documents per second."""
        return median(1e6 / self.per_million("wall_ms", size, series)[0])

    def gain(self, size: int, series: Series) -> Estimate:
        """Documents per second against JSON, formed within each round."""
        own, base = self.per_million("wall_ms", size, series, series.base)
        return paired_ratio(own, base)

    def judged(self, key: str, size: int, series: Series) -> tuple[Estimate, Verdict]:
        """A figure against JSON, the less the better."""
        base, own = self.per_million(key, size, series.base, series)
        ratio = paired_ratio(base, own)
        return ratio, verdict(ratio)

    def matrix(self, key: str, series: Series) -> tuple[Samples, Samples]:
        """A row per bulk size and a column per round, of the rounds that all have: JSON, and this format."""
        sizes = self.sizes(series, series.base)
        cells = [[self._found[one, size] for size in sizes] for one in (series.base, series)]
        rounds = sorted(set.intersection(*(set(c) for c in itertools.chain(*cells))))
        base, other = (
            np.array([[1000 * c[r].meta[key] / c[r].meta["rows"] for r in rounds] for c in of]) for of in cells
        )
        return base, other


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    cells = Cells(race)
    if not cells.compared:
        return []
    return [
        Section("Is the blog right?", _claims(cells)),
        Section("Throughput over bulk size", _throughput(cells), list(_curves(cells))),
        Section("What a cell costs", _costs(cells)),
        Section("What encoding costs", _encoding(race, cells)),
        Section("How far to trust this", stability.text(race, PLAN)),
    ]


def sheets(race: Race) -> list[Sheet]:
    """The samples as CSV files."""

    def rows(kind: str) -> list[dict]:
        return [s.meta | {"started": started(s)} for s in race.of(kind)]

    return [
        Sheet("es_profile_ingest_formats.csv", ("started", *COLUMNS), rows(PLAN.kind)),
        Sheet("es_profile_encoders.csv", ("started", *ENCODER_COLUMNS), rows(ENCODING)),
    ]


def answer(estimate: Estimate, low: float, high: float = np.inf) -> str:
    """Whether a figure lies within bounds: yes or no if its whole interval says so, and there are rounds enough."""
    if estimate.n < ENOUGH:
        return Verdict.NOT_ENOUGH.value
    if estimate.low >= low and estimate.high <= high:
        return "yes"
    return "no" if estimate.high < low or estimate.low > high else "undecided"


def overall(cells: Cells, series: Series, key: str) -> Estimate:
    """A figure against JSON over all bulk sizes: the geometric mean of the ratios within each round."""
    base, other = (np.log(m) for m in cells.matrix(key, series))
    return median(np.exp((other - base).mean(axis=0)))


def shape(cells: Cells, series: Series, end: int) -> Estimate:
    """The gain over JSON at one end of the bulk sizes over that at the sizes between the ends, within each round.

    :param end: 0 for the least size, -1 for the greatest.
    """
    base, other = (np.log(m) for m in cells.matrix("wall_ms", series))
    gains = base - other
    return median(np.exp(gains[end] - gains[1:-1].mean(axis=0)))


def sensitivity(cells: Cells, series: Series) -> Estimate:
    """Best over worst throughput over bulk sizes of this format over that of JSON, within each round."""
    base, other = cells.matrix("wall_ms", series)
    return paired_ratio(base.max(axis=0) / base.min(axis=0), other.max(axis=0) / other.min(axis=0))


def saved(cells: Cells, series: Series, key: str) -> Estimate:
    """What this format saves of a time against JSON: s per million documents, mean over bulk sizes, within rounds."""
    base, other = cells.matrix(key, series)
    # pauses are rare, so a median over rounds would be of zeros
    return (mean if key == "gc_ms" else median)(np.round(base.mean(axis=0) - other.mean(axis=0), 6))


def _claims(cells: Cells) -> str:
    head = ["claim of the blog", "documents", "format", "holds", "seen"]
    rows = [
        [claim, s.load, s.encoding, holds, seen] for s in cells.compared for claim, seen, holds in _answers(cells, s)
    ]
    order = list(dict.fromkeys(row[0] for row in rows))
    return (
        "Each claim against what was measured: a format against JSON within the same rounds. It holds, or not, if the "
        f"whole interval says so, from {ENOUGH} rounds on. Seed 003 took the best of 5 runs without pairing, over a "
        "network, from a client on a machine of its own, and with 300 MB of web logs.\n\n"
        + table(head, sorted(rows, key=lambda row: order.index(row[0])))
    )


def _answers(cells: Cells, series: Series) -> Iterator[tuple[str, str, str]]:
    """Claim, what was seen, and whether it holds."""
    sizes = cells.sizes(series, series.base)
    gains = {size: cells.gain(size, series) for size in sizes}
    least = min(sizes, key=lambda size: gains[size].value)
    said = {answer(gain, BLOG_GAIN) for gain in gains.values()}
    holds = next(a for a in (Verdict.NOT_ENOUGH.value, "no", "undecided", "yes") if a in said)
    text = f"least at {least:,}: {with_interval(gains[least])} ×"
    yield "5 % more throughput or better at all bulk sizes", text, holds
    if len(sizes) > 2:
        for end, name in ((0, "small"), (-1, "large")):
            found = shape(cells, series, end)
            text = f"gain at {sizes[end]:,} over that between the ends: {with_interval(found)}"
            yield f"larger gains at {name} sizes", text, answer(found, 1 + THRESHOLD)
    sent = [1 - cells.one("bytes_out", s, series).value / cells.one("bytes_out", s, series.base).value for s in sizes]
    low, high = min(sent), max(sent)
    holds = "yes" if BLOG_NETWORK[0] <= low and high <= BLOG_NETWORK[1] else "no"
    yield "10 to 20 % less over the network", f"{percent(low)} less in requests", holds
    if len(sizes) > 1:
        found = sensitivity(cells, series)
        text = f"best over worst size, over that of JSON: {with_interval(found)}"
        yield "less sensitive to bulk size", text, answer(found, 0, 1 / (1 + THRESHOLD))
    pauses, wall = saved(cells, series, "gc_ms"), saved(cells, series, "wall_ms")
    text = f"of {with_interval(wall)} s saved per million, {with_interval(pauses)} s are pauses"
    enough = wall.n >= ENOUGH
    if not enough or wall.low <= 0:
        holds = "undecided" if enough else Verdict.NOT_ENOUGH.value
    else:
        holds = "yes" if pauses.low > BLOG_GC * wall.high else "no" if pauses.high < BLOG_GC * wall.low else "undecided"
    yield "most of what is saved is garbage collection", text, holds


def _throughput(cells: Cells) -> str:
    rows = []
    for series in cells.compared:
        for size in cells.sizes(series, series.base):
            gain = cells.gain(size, series)
            (_, faster), (cpu, cheaper) = (cells.judged(key, size, series) for key in ("wall_ms", "target_cpu_ms"))
            rates = [with_interval(cells.rate(size, s)) for s in (series.base, series)]
            judged = [with_interval(gain), faster.value, with_interval(cpu), cheaper.value]
            rows.append([series.load, series.encoding, f"{size:,}", gain.n, *rates, *judged])
        wall, cpu = (overall(cells, series, key) for key in ("wall_ms", "target_cpu_ms"))
        gain = replace(wall, value=1 / wall.value, low=1 / wall.high, high=1 / wall.low)
        judged = [with_interval(gain), verdict(wall).value, with_interval(cpu), verdict(cpu).value]
        rows.append([series.load, series.encoding, "all", gain.n, "–", "–", *judged])
    head = ["documents", "format", "bulk size", "n", "JSON, per s", "format, per s", "throughput", "verdict"]
    head += ["target CPU", "verdict"]
    return (
        "Documents per second, and the format's throughput and CPU time of the target as ratios to JSON, formed within "
        "each round; over all bulk sizes their geometric mean.\n\n" + table(head, rows)
    )


def _curves(cells: Cells) -> Iterator[Figure]:
    for corpus in dict.fromkeys(s.corpus for s in cells.series):
        shown = [s for s in cells.series if s.corpus == corpus]
        points = {f"{s.encoding} × {s.clients}": [(n, cells.rate(n, s)) for n in cells.sizes(s)] for s in shown}
        caption = (
            f"Documents per second over documents per request, {corpus}, by format and number of clients: medians with "
            "their 95 % intervals."
        )
        yield Figure(plots.lines(points, "documents per request", "documents per s"), caption)


def _costs(cells: Cells) -> str:
    keys = ("wall_ms", "target_cpu_ms", "index_ms", "client_cpu_ms")
    rows = []
    for series in cells.series:
        for size in cells.sizes(series):
            times = [with_interval(cells.one(key, size, series)) for key in keys]
            (send,), (requests,) = (cells.per_million(key, size, series) for key in ("send_ms", "requests"))
            sizes = number(cells.one("bytes_out", size, series).value / 1000)
            pauses = number(1000 * float(np.mean(cells.per_million("gc_ms", size, series)[0])))
            service = number(median(send / requests).value)
            rows.append([series.load, series.encoding, f"{size:,}", *times, service, sizes, pauses])
    head = ["documents", "format", "bulk size", "wall s", "target CPU s", "indexing s", "client CPU s"]
    head += ["ms per request", "MB", "pauses ms"]
    return (
        "Per million documents, medians over rounds; a request's time is from its sending to the end of the response. "
        "Indexing is `_stats` time, summed over threads. MB are those of the requests. Pauses are garbage collections "
        "that stop all else, their mean over rounds.\n\n" + table(head, rows)
    )


def _encoding(race: Race, cells: Cells) -> str:
    found: dict[tuple[str, str], dict[int, Sample]] = {}
    for sample in race.of(ENCODING):
        found.setdefault((sample.meta["corpus"], sample.meta["encoder"]), {})[sample.meta["round"]] = sample
    rows = []
    for (corpus, encoder), rounds in sorted(found.items()):
        base = found[corpus, BASE]
        common = sorted(set(base) & set(rounds))
        own, plain = (np.array([1000 * of[r].meta["client_cpu_ms"] / of[r].meta["documents"] for r in common])
                      for of in (rounds, base))  # fmt: skip
        last = rounds[common[-1]].meta
        times, ratio = median(own), paired_ratio(plain, own)
        sized = f"{last['bytes'] / last['documents']:.1f}"
        rows.append([corpus, encoder, times.n, with_interval(times), with_interval(ratio), sized])
    head = ["documents", "encoder", "n", "client CPU s", "over json", "bytes a document"]
    lines = [
        f"{series.load}, {series.encoding}: saves {with_interval(saved(cells, series, 'target_cpu_ms'))} s"
        for series in cells.compared
    ]
    return (
        "What a client pays that encodes documents and their actions one by one, per million of them: `json` and "
        "`orjson` by `dumps`, SMILE by our encoder, which is plain Python. All other figures of this report are of "
        "bodies that were encoded before; `make bench` shows what generating those costs. Bytes include the action but "
        "no separators.\n\n"
        + table(head, rows)
        + "\nAgainst it stands the CPU time of the target that the format saves, per million documents, mean over bulk "
        "sizes:\n\n" + "".join(f"- {line}\n" for line in lines)
    )
