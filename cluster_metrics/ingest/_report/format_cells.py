"""The cells of an ingest-formats race: a format against JSON within each round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from _tools.report import cells as rounds
from _tools.report.cells import Figure as CellFigure
from _tools.report.gains import inverse
from _tools.report.race import Race
from _tools.report.stats import Estimate, Samples, mean, median, paired_ratio
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.ingest_formats import BASE


@dataclass(frozen=True)
class Series:
    """The cells of a corpus in one format with one number of clients, over bulk sizes.

    :param lines: of the web log in a document of batches, which have one bulk size; 0 for all else.
    """

    corpus: str
    clients: int
    encoding: str
    lines: int = 0

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> "Series":
        """That of a sample."""
        lines = meta["lines"] if meta["corpus"] == "batches" else 0
        return cls(meta["corpus"], meta["clients"], meta["encoding"], lines)

    @property
    def base(self) -> "Series":
        """The same in JSON."""
        return replace(self, encoding=BASE)

    @property
    def load(self) -> str:
        clients = f"{self.clients} {'client' if self.clients == 1 else 'clients'}"
        return f"{self.corpus} of {self.lines}, {clients}" if self.lines else f"{self.corpus}, {clients}"


class Cells(rounds.Cells):
    """The samples of a race by series and bulk size, paired by round."""

    def __init__(self, race: Race):
        super().__init__(race.of(SAMPLE), of=lambda s: (Series.of(s.meta), s.meta["bulk_size"]))

    @property
    def all(self) -> list[Series]:
        return sorted({s for s, _ in self.names}, key=lambda s: (s.corpus, s.clients, s.encoding, s.lines))

    @property
    def series(self) -> list[Series]:
        """Those over bulk sizes."""
        return [s for s in self.all if not s.lines]

    @property
    def compared(self) -> list[Series]:
        """Those of them that have JSON beside them."""
        return [s for s in self.series if s.encoding != BASE and s.base in self.series]

    @property
    def batches(self) -> dict[str, list[Series]]:
        """By format those over sizes of documents that have JSON beside them, the smallest first."""
        found = [s for s in self.all if s.lines and s.encoding != BASE and s.base in self.all]
        return {name: [s for s in found if s.encoding == name] for name in dict.fromkeys(s.encoding for s in found)}

    def sizes(self, *series: Series) -> list[int]:
        """Bulk sizes that all of these have."""
        return sorted(set.intersection(*({size for s, size in self.names if s == one} for one in series)))

    def median_of(self, key: str, size: int, series: Series) -> Estimate:
        return self.one(per_million(key), (series, size))

    def rate(self, size: int, series: Series) -> Estimate:
        """Documents per second."""
        return self.one(lambda meta: 1e6 / per_million("wall_ms")(meta), (series, size))

    def gain(self, size: int, series: Series) -> Estimate:
        """Documents per second against JSON, formed within each round."""
        return self.ratio(per_million("wall_ms"), (series, size), (series.base, size))

    def against(self, key: str, size: int, series: Series) -> Estimate:
        """A figure over that of JSON, formed within each round."""
        return self.ratio(per_million(key), (series.base, size), (series, size))

    def over_sizes(self, figure: CellFigure, series: Series) -> tuple[Samples, Samples]:
        """A row per bulk size and a column per round, of the rounds that all have: JSON, and this format.

        :param figure: a key, which is taken per million documents, or what is made of a sample.
        """
        sizes = self.sizes(series, series.base)
        names = [(one, size) for one in (series.base, series) for size in sizes]
        found = self.matrix(per_million(figure) if isinstance(figure, str) else figure, names)
        return found[: len(sizes)], found[len(sizes) :]

    def knows(self, key: str, series: Series) -> bool:
        """Whether all samples of a format and of JSON have a key."""
        return all(
            key in sample.meta
            for one in (series, series.base)
            for size in self.sizes(series, series.base)
            for sample in self.samples((one, size)).values()
        )


def per_million(key: str) -> Callable[[Mapping[str, Any]], float]:
    """Per million documents, of a time in ms in s, of bytes in kB."""
    return lambda meta: 1000 * meta[key] / meta["rows"]


def cores(key: str) -> Callable[[Mapping[str, Any]], float]:
    """Cores at work while a cell ran, of a CPU time."""
    after = "refresh_wall_ms" if key == "target_cpu_ms" else ""  # which the target's CPU time holds, too
    return lambda meta: meta[key] / (meta["wall_ms"] + (meta[after] if after else 0.0))


def ms_per_request(meta: Mapping[str, Any]) -> float:
    """From its sending to the end of the response."""
    return meta["send_ms"] / meta["requests"]


def bytes_of(cells: Cells, series: Series) -> float:
    """Of a document with its action, as a request has it; batches have one bulk size."""
    (size,) = cells.sizes(series)
    return cells.median_of("bytes_out", size, series).value / 1000


def overall(cells: Cells, series: Series, figure: CellFigure) -> Estimate:
    """A figure against JSON over all bulk sizes: the geometric mean of the ratios within each round."""
    base, other = (np.log(m) for m in cells.over_sizes(figure, series))
    return median(np.exp((other - base).mean(axis=0)))


def gain_over_sizes(cells: Cells, series: Series) -> Estimate:
    """Throughput over that of JSON, over all bulk sizes."""
    return inverse(overall(cells, series, "wall_ms"))


def shape(cells: Cells, series: Series, end: int) -> Estimate:
    """The gain over JSON at one end of the bulk sizes over that at the sizes between the ends, within each round.

    :param end: 0 for the least size, -1 for the greatest.
    """
    base, other = (np.log(m) for m in cells.over_sizes("wall_ms", series))
    gains = base - other
    return median(np.exp(gains[end] - gains[1:-1].mean(axis=0)))


def sensitivity(cells: Cells, series: Series) -> Estimate:
    """Best over worst throughput over bulk sizes of this format over that of JSON, within each round."""
    base, other = cells.over_sizes("wall_ms", series)
    return paired_ratio(base.max(axis=0) / base.min(axis=0), other.max(axis=0) / other.min(axis=0))


def saved(cells: Cells, series: Series, key: str) -> Estimate:
    """What this format saves of a time against JSON: s per million documents, mean over bulk sizes, within rounds."""
    base, other = cells.over_sizes(key, series)
    # pauses are rare, so a median over rounds would be of zeros
    return (mean if key == "gc_ms" else median)(np.round(base.mean(axis=0) - other.mean(axis=0), 6))
