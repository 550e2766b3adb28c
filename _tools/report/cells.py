"""The samples of a race by configuration and unit of replication, for all that holds configurations together."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .race import Race, ReportError, Sample
from .stats import Estimate, Samples, median, paired_ratio

Figure = str | Callable[[Mapping[str, Any]], float]
"""Of a sample: a key of its metadata, or what is made of them."""


class Cells:
    """Samples by configuration and round; of several of the same the last counts.

    Whatever holds configurations against each other does so within the rounds that all of them have.

    :param samples: of one kind.
    :param unit: of replication; the samples' key for its number.
    :param of: the configuration of a sample, by default its operation.
    """

    def __init__(
        self, samples: Iterable[Sample], unit: str = "round", of: Callable[[Sample], Any] = lambda sample: sample.cell
    ):
        self._found: dict[Hashable, dict[int, Sample]] = {}
        for sample in samples:
            self._found.setdefault(of(sample), {})[sample.meta[unit]] = sample
        self._found = {name: dict(sorted(rounds.items())) for name, rounds in self._found.items()}

    @property
    def names(self) -> list[Any]:
        """The configurations, in the order of their first samples."""
        return list(self._found)

    def has(self, *names: Hashable) -> bool:
        """Whether all of them have some round in common."""
        return all(name in self._found for name in names) and bool(self.rounds(*names))

    def samples(self, name: Hashable) -> dict[int, Sample]:
        """The samples of a configuration by round, in order."""
        return self._found[name]

    def rounds(self, *names: Hashable) -> list[int]:
        """The rounds that all these configurations have."""
        return sorted(set.intersection(*(set(self._found[name]) for name in names)))

    def values(self, figure: Figure, *names: Hashable) -> list[Samples]:
        """An array per configuration, aligned by round."""
        return [np.array([_of(figure, self._found[name][number]) for number in self.rounds(*names)]) for name in names]

    def matrix(self, figure: Figure, names: Sequence[Hashable]) -> Samples:
        """A row per configuration and a column per round."""
        return np.array(self.values(figure, *names))

    def known(self, figure: str, name: Hashable) -> Samples:
        """The values of a configuration in all rounds that have this key."""
        return np.array([float(s.meta[figure]) for s in self._found[name].values() if figure in s.meta])

    def one(self, figure: Figure, name: Hashable) -> Estimate:
        """The median over rounds."""
        return median(self.values(figure, name)[0])

    def of(self, formula: Callable[..., Samples], figure: Figure, *names: Hashable) -> Estimate:
        """The median over rounds of a formula of the configurations' values, each round by itself."""
        return median(formula(*self.values(figure, *names)))

    def ratio(self, figure: Figure, base: Hashable, name: Hashable) -> Estimate:
        """The median over rounds of a figure over that of the base."""
        denominator, numerator = self.values(figure, base, name)
        return paired_ratio(denominator, numerator)


def _of(figure: Figure, sample: Sample) -> float:
    return float(sample.meta[figure] if isinstance(figure, str) else figure(sample.meta))


def cells_of(race: Race, kind: str) -> Cells:
    """The samples of a kind."""
    return Cells(race.of(kind))


def compared_in(race: Race) -> Cells:
    """What of a race is held against other races, by its record; configurations in order of name.

    The challenge's report may offer ``compared_in`` for figures that no sample has as such.
    """
    from .explained import report_of  # which imports reports, which import this module

    own = getattr(report_of(race), "compared_in", None)
    record = race.record.compared
    samples = own(race) if own else sorted(race.of(record.sample), key=lambda s: s.cell)
    return Cells(samples, record.unit)


def check_comparable(races: list[Race], least: int) -> None:
    """Whether races can be held against each other.

    :param least: how many races it takes.
    :raises ReportError: with the first thing that is wrong.
    """
    ids = [race.id for race in races]
    if len(ids) < least:
        raise ReportError(f"{len(ids)} races are too few, it takes {least} or more")
    if double := next((i for i in ids if ids.count(i) > 1), None):
        raise ReportError(f"race [{double}] is named twice")
    for race in races:
        if not race.document.get("results"):
            raise ReportError(f"race [{race.id}] was not finished")
        if race.challenge != races[0].challenge:
            ran = f"ran challenge [{race.challenge}], race [{races[0].id}] ran [{races[0].challenge}]"
            raise ReportError(f"race [{race.id}] {ran}")
        if not compared_in(race).names:
            raise ReportError(f"race [{race.id}] has no rounds of a plan task, so there is nothing to compare")
    cells = common_cells(races)
    if not cells:
        raise ReportError("the races have no configuration in common; race both with the same lists of them in PARAMS")
    for race in races:
        if not compared_in(race).has(*cells):
            raise ReportError(f"race [{race.id}] has no round in which all configurations succeeded")


def common_cells(races: list[Race]) -> list[str]:
    """The configurations that all these races have in some round, in order of name."""
    return sorted(set.intersection(*(set(compared_in(race).names) for race in races)))
