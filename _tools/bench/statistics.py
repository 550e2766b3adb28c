"""Whether the shipped verdict can be trusted: false alarms on equal races, and true slow-downs of 10 % found.

Simulated: two races and a noise floor from 5 A/A races, all drawn anew for each trial; 5 races against 5 as replicates;
and two cells of one race, paired by round. Recorded: the ``es_profile_decomp.csv`` files that the variable CSV names.
The verdict is that of ``make compare`` with fewer resamples, for speed. The CV is that of the rounds beside drift.
Seeded, so each run prints the same; it takes about five minutes.
"""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cluster_metrics.wire.coverage import TYPE

from ..race.variables import variable
from ..report.noise import half_width
from ..report.stats import (
    ENOUGH,
    ENOUGH_RACES,
    Estimate,
    Samples,
    Verdict,
    cv,
    log_error,
    paired_ratio,
    race_ratio,
    ratio,
    verdict,
    widened,
)
from ..report.table import Column, Table, Words
from ..report.text import percent

TRIALS = 500
RESAMPLES = 1000
ERROR_RESAMPLES = 200
AA_RACES = 5
SLOWER = 1.1
ROUNDS = 40
"""Default of the track parameter ``rounds``."""
MORE_ROUNDS = 80
REPLICATES = 5
CVS = (0.03, 0.05, 0.07, 0.10, 0.15)
DRIFT = 0.1
PAUSES = 0.1
Draw = Callable[[int], Samples]
"""Draws so many rounds, about 1 each."""


@dataclass
class Score:
    """How often a verdict said that two sides differ.

    :param trials: how often it was asked.
    :param alarms: how often it said so of equal sides.
    :param found: how often it said ``regressed`` when the second side was slower by 10 %.
    """

    trials: int = 0
    alarms: int = 0
    found: int = 0

    def add(self, estimate: Estimate, enough: int = ENOUGH) -> None:
        """Judges a ratio of equal sides, and the same with its second side slower: that only scales the ratio."""
        value, low, high = (SLOWER * x for x in (estimate.value, estimate.low, estimate.high))
        slower = replace(estimate, value=value, low=low, high=high)
        self.trials += 1
        self.alarms += verdict(estimate, enough=enough) in (Verdict.IMPROVED, Verdict.REGRESSED)
        self.found += verdict(slower, enough=enough) is Verdict.REGRESSED

    def texts(self) -> list[str]:
        return [percent(self.alarms / self.trials), percent(self.found / self.trials)]


def steady(rng: np.random.Generator, spread: float, n: int) -> Samples:
    """Logarithms of rounds of this CV, normally distributed."""
    return rng.standard_normal(n) * math.sqrt(math.log1p(spread**2))


def heavy(rng: np.random.Generator, spread: float, n: int) -> Samples:
    """The same CV, but three quarters of the variance come from exponential pauses that hit one round in ten."""
    length = math.sqrt(0.75 * spread**2 / (2 * PAUSES - PAUSES**2))
    pauses = rng.exponential(length, n) * (rng.random(n) < PAUSES)
    return steady(rng, spread / 2, n) + np.log1p(pauses)


@dataclass(frozen=True)
class Noise:
    """Noise of rounds and of races.

    :param shape: for the table.
    :param rounds: draws the logarithms of a cell's rounds.
    :param drift: from the first round to the last, up or down by chance.
    :param between: standard deviation of the noise between races, a factor common to all rounds of a race.
    """

    shape: str
    rounds: Callable[[np.random.Generator, float, int], Samples]
    drift: float = 0.0
    between: float = 0.0

    def race(self, rng: np.random.Generator, spread: float) -> Draw:
        def draw(n: int) -> Samples:
            slope = rng.choice((-1, 1)) * np.linspace(-self.drift / 2, self.drift / 2, n)
            return np.asarray(np.exp(self.rounds(rng, spread, n) + slope + self.between * rng.standard_normal()))

        return draw

    def cell(self, rng: np.random.Generator, spread: float) -> Draw:
        """A cell of a race, less what all cells of a round share: drift and noise between races cancel in pairs."""
        return lambda n: np.asarray(np.exp(self.rounds(rng, spread, n)))


NOISES = [
    Noise("steady", steady),
    Noise("steady", steady, between=0.01),
    Noise("steady", steady, between=0.02),
    Noise(f"drift of {percent(DRIFT)}", steady, drift=DRIFT, between=0.01),
    Noise("heavy tails", heavy, between=0.01),
]


def two_races(make: Draw, rounds: int, trials: int) -> tuple[Score, Score]:
    """Scores of two races compared with a floor from A/A races, and without."""
    floored, bare = Score(), Score()
    for _ in range(trials):
        same = [make(rounds) for _ in range(AA_RACES)]
        floor = half_width([math.log(np.median(s)) for s in same], [log_error(s, ERROR_RESAMPLES) for s in same])
        found = ratio(make(rounds), make(rounds), RESAMPLES)
        floored.add(widened(found, floor))
        bare.add(found)
    return floored, bare


def replicated(make: Draw, rounds: int, races: int, trials: int) -> Score:
    """Score of so many races against as many, each a replicate."""
    score = Score()
    for _ in range(trials):
        sides = [[math.log(np.median(make(rounds))) for _ in range(races)] for _ in range(2)]
        score.add(race_ratio(*sides), ENOUGH_RACES)
    return score


def one_race(make: Draw, rounds: int, trials: int) -> Score:
    """Score of two cells paired by round; each has noise of its own."""
    score = Score()
    for _ in range(trials):
        score.add(paired_ratio(make(rounds), make(rounds), RESAMPLES))
    return score


def simulated(trials: int = TRIALS) -> str:
    """The table of simulated races."""
    rows = []
    for noise in NOISES:
        for spread in CVS:
            rng = np.random.default_rng(1)
            race, cell = noise.race(rng, spread), noise.cell(rng, spread)
            shorter, _ = two_races(race, ENOUGH, trials)
            floored, bare = two_races(race, ROUNDS, trials)
            longer, _ = two_races(race, MORE_ROUNDS, trials)
            scores = [shorter, floored, longer, bare, replicated(race, ROUNDS, REPLICATES, trials)]
            figures = [score.texts() for score in (*scores, one_race(cell, ROUNDS, trials))]
            about = [noise.shape, percent(noise.between), percent(spread)]
            rows.append(dict(enumerate([*about, *(text for pair in figures for text in pair)])))
    head = ["rounds", "between races", "CV of rounds", f"{ENOUGH} rounds: alarms", "found"]
    head += [f"{ROUNDS} rounds: alarms", "found", f"{MORE_ROUNDS} rounds: alarms", "found", "no floor: alarms", "found"]
    head += [f"{REPLICATES} races a side: alarms", "found", "within a race: alarms", "found"]
    return _table(head, rows)


def _table(head: list[str], rows: list) -> str:
    """The first column is of words."""
    columns = [Words(0, head[0]), *(Column(i, text) for i, text in enumerate(head) if i)]  # type: ignore[arg-type]
    return Table("statistics", columns, rows).markdown()


def recorded(files: list[Path], trials: int = TRIALS) -> str:
    """The table of recorded races, each compared with itself: its rounds split at random into halves, and two races of
    the default size drawn from its rounds."""
    rows = []
    for file in files:
        for cell, walls in sorted(plan_of(file).items()):
            rng = np.random.default_rng(1)
            half = len(walls) // 2
            halves, drawn = Score(), Score()
            for _ in range(trials):
                mixed = rng.permutation(walls)
                halves.add(ratio(mixed[:half], mixed[half : 2 * half], RESAMPLES), half)
                drawn.add(ratio(rng.choice(walls, ROUNDS), rng.choice(walls, ROUNDS), RESAMPLES))
            about = [f"{file.parent.name[:8]} {cell}", len(walls), percent(cv(walls))]
            rows.append(dict(enumerate([*about, *halves.texts(), *drawn.texts()])))
    head = ["race and cell", "rounds", "CV", "halves: alarms", "found", f"{ROUNDS} drawn: alarms", "found"]
    return _table(head, rows)


def plan_of(file: Path) -> dict[str, Samples]:
    """Wall times of the plan in ``es_profile_decomp.csv`` by cell, in order of round."""
    cells: dict[str, list[tuple[int, float]]] = {}
    with open(file, newline="") as f:
        for row in csv.DictReader(f):
            if row["operation_type"] == TYPE:
                cells.setdefault(row["operation"], []).append((int(row["round"]), float(row["wall_ms"])))
    return {cell: np.array([ms for _, ms in sorted(samples)]) for cell, samples in cells.items()}


def main() -> None:
    files = [Path(name) for name in variable("CSV").split()]
    print(recorded(files) if files else simulated())


if __name__ == "__main__":
    main()
