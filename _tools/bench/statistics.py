"""Whether what is shipped can be trusted: its verdicts on equal and on slower races, its intervals, its corrections.

Simulated with the functions that reports use, but for fewer resamples; seeded, so each run gives the same. The tables
go into docs/statistics.md. With the variable CSV, instead, the recorded rounds of ``es_profile_decomp.csv`` files are
compared with themselves, and the table is printed.
"""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cluster_metrics.wire.coverage import TYPE

from ..docs.marked import put
from ..race.variables import variable
from ..report.noise import half_width
from ..report.stats import (
    ENOUGH,
    ENOUGH_RACES,
    LEAST,
    Estimate,
    Samples,
    autocorrelation,
    cv,
    log_error,
    mean,
    median,
    optimism,
    paired_ratio,
    race_ratio,
    ratio,
)
from ..report.steady import SPANS, steady_from
from ..report.table import Column, Table, Words
from ..report.text import percent
from ..report.verdicts import Gate, Verdict, benjamini_hochberg, detectable, holm, judge, verdict, widened

PAGE = Path(__file__).parents[2] / "docs/statistics.md"
TRIALS = 500
RESAMPLES = 1000
ERROR_RESAMPLES = 200
FLOORS = (3, 5, 10)
"""Races that a noise floor is measured by."""
SLOWER = 1.1
ROUNDS = 40
"""Default of the track parameter ``rounds``."""
SIZES = (ENOUGH, ROUNDS, 80)
REPLICATES = (3, 5)
CVS = (0.05, 0.10, 0.15)
DRIFT = 0.1
PAUSES = 0.1
STEPS = 11
"""Ratios of a table, as those of ingest-decomp."""
CHANGES = (Verdict.IMPROVED, Verdict.REGRESSED)
STEADY_CVS = (0.05, 0.1, 0.2)
STEP, LATE, RISE = 0.4, 0.2, 0.3
"""By how much a rate is lower in the first fifth of its time, falls after 60 % of it, and rises from begin to end."""
ALIKE = 0.3
"""Autocorrelation of spans of a rate."""
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
        self.trials += 1
        self.alarms += verdict(estimate, enough=enough) in CHANGES
        self.found += verdict(times(estimate, SLOWER), enough=enough) is Verdict.REGRESSED

    @property
    def text(self) -> str:
        return f"{percent(self.alarms / self.trials)} / {percent(self.found / self.trials)}"


def times(estimate: Estimate, factor: float) -> Estimate:
    value, low, high = (factor * x for x in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


def steady(rng: np.random.Generator, spread: float, n: int) -> Samples:
    """Logarithms of rounds of this CV, normally distributed."""
    return rng.standard_normal(n) * math.sqrt(math.log1p(spread**2))


def heavy(rng: np.random.Generator, spread: float, n: int) -> Samples:
    """The same CV, but three quarters of the variance come from exponential pauses that hit one round in ten."""
    length = math.sqrt(0.75 * spread**2 / (2 * PAUSES - PAUSES**2))
    pauses = rng.exponential(length, n) * (rng.random(n) < PAUSES)
    return steady(rng, spread / 2, n) + np.log1p(pauses)


def resembling(rng: np.random.Generator, spread: float, n: int, r: float) -> Samples:
    """The same CV, each round correlated with the one before by r."""
    found = steady(rng, spread, n)
    for i in range(1, n):
        found[i] = r * found[i - 1] + math.sqrt(1 - r**2) * found[i]
    return found


@dataclass(frozen=True)
class Noise:
    """Noise of rounds and of races.

    :param shape: for the table.
    :param rounds: draws the logarithms of a cell's rounds.
    :param drift: from the first round to the last, up or down by chance.
    :param between: standard deviation of the noise between races, a factor common to all rounds of a race.
    :param together: the same among the races of a noise floor, which are taken back to back.
    """

    shape: str
    rounds: Callable[[np.random.Generator, float, int], Samples]
    drift: float = 0.0
    between: float = 0.0
    together: float = 0.0

    def race(self, rng: np.random.Generator, spread: float, between: float | None = None) -> Draw:
        apart = self.between if between is None else between

        def draw(n: int) -> Samples:
            slope = rng.choice((-1, 1)) * np.linspace(-self.drift / 2, self.drift / 2, n)
            return np.asarray(np.exp(self.rounds(rng, spread, n) + slope + apart * rng.standard_normal()))

        return draw

    def cell(self, rng: np.random.Generator, spread: float) -> Draw:
        """A cell of a race, less what all cells of a round share: drift and noise between races cancel in pairs."""
        return lambda n: np.asarray(np.exp(self.rounds(rng, spread, n)))


NOISES = [
    Noise("steady", steady),
    Noise("steady", steady, between=0.01, together=0.01),
    Noise("steady", steady, between=0.02, together=0.02),
    Noise("steady, floor from races back to back", steady, between=0.02),
    Noise("steady, floor from races back to back", steady, between=0.02, together=0.01),
    Noise(f"drift of {percent(DRIFT)}", steady, drift=DRIFT, between=0.01, together=0.01),
    Noise("heavy tails", heavy, between=0.01, together=0.01),
]


def _level(samples: Samples) -> float:
    return math.log(np.median(samples))


def two_races(make: Draw, noise: Draw, rounds: int, trials: int) -> dict[int, Score]:
    """Scores of two races compared with a floor from so many races, and without one (0)."""
    scores = {n: Score() for n in (0, *FLOORS)}
    for _ in range(trials):
        same = [noise(rounds) for _ in range(max(FLOORS))]
        levels, errors = ([of(s) for s in same] for of in (_level, lambda s: log_error(s, ERROR_RESAMPLES)))
        found = ratio(make(rounds), make(rounds), RESAMPLES)
        for n, score in scores.items():
            score.add(widened(found, half_width(levels[:n], errors[:n])) if n else found)
    return scores


def replicated(make: Draw, rounds: int, races: int, trials: int) -> Score:
    """Score of so many races against as many, each a replicate."""
    score = Score()
    for _ in range(trials):
        sides = [[_level(make(rounds)) for _ in range(races)] for _ in range(2)]
        score.add(race_ratio(*sides), ENOUGH_RACES)
    return score


def one_race(make: Draw, rounds: int, trials: int) -> Score:
    """Score of two cells paired by round; each has noise of its own."""
    score = Score()
    for _ in range(trials):
        score.add(paired_ratio(make(rounds), make(rounds), RESAMPLES))
    return score


def between_races(trials: int = TRIALS) -> Table:
    """Equal sides called different, and slow-downs of 10 % found, by noise and design."""
    rows = []
    for noise in NOISES:
        for spread in CVS:
            rng = np.random.default_rng(1)
            race, together = noise.race(rng, spread), noise.race(rng, spread, noise.together)
            row = {"shape": noise.shape, "between": percent(noise.between), "together": percent(noise.together)}
            row |= {"cv": percent(spread), "within": one_race(noise.cell(rng, spread), ROUNDS, trials).text}
            row |= {f"floor {n}": s.text for n, s in two_races(race, together, ROUNDS, trials).items()}
            rows.append(row | {f"sides {n}": replicated(race, ROUNDS, n, trials).text for n in REPLICATES})
    columns = [Words("shape", "rounds"), Column("between", "between races"), Column("together", "in the floor's")]
    columns += [Column("cv", "CV"), Column("within", "two cells of a race"), Column("floor 0", "two races, no floor")]
    columns += [Column(f"floor {n}", f"floor of {n} races") for n in FLOORS]
    return Table("between", [*columns, *(Column(f"sides {n}", f"{n} races a side") for n in REPLICATES)], rows)


def intervals(trials: int = TRIALS) -> Table:
    """How often 95 % intervals hold the truth, by samples and how much they resemble their neighbours."""
    rows = []
    for n in (3, 6, 10, 15, 20, 40, 90):
        for r in (0.0, 0.3, 0.6):
            rng, held, seen = np.random.default_rng(n), [0, 0], 0.0
            for _ in range(trials):
                logs = resembling(rng, 0.05, n, r)
                whole, middle = mean(logs + 1, RESAMPLES), median(np.exp(logs), RESAMPLES)
                held[0] += whole.low <= 1 <= whole.high
                held[1] += middle.low <= 1 <= middle.high
                seen += autocorrelation(logs) / trials
            row = {"n": n, "r": f"{r:g}", "seen": f"{seen:.2f}" if n >= LEAST else "–"}
            row |= {"mean": percent(held[0] / trials), "median": percent(held[1] / trials) if n >= LEAST else "none"}
            rows.append(row)
    columns = [Column("n", "samples"), Column("r", "true autocorrelation"), Column("seen", "seen")]
    columns += [Column("mean", "interval of the mean"), Column("median", "of the median")]
    return Table("intervals", columns, rows)


def power(trials: int = TRIALS) -> Table:
    """Of changes as large as the report names on average, how many are found."""
    rows = []
    for n in (6, 10, *SIZES):
        for spread in CVS:
            rng = np.random.default_rng(n)
            ratios = [
                paired_ratio(np.exp(steady(rng, spread, n)), np.exp(steady(rng, spread, n)), RESAMPLES)
                for _ in range(trials)
            ]
            named = float(np.median([detectable(e) for e in ratios]))
            told = [verdict(times(e, 1 + named), enough=6) is Verdict.REGRESSED for e in ratios]
            same = [verdict(e, enough=6) is Verdict.EQUIVALENT for e in ratios]
            edge = [verdict(times(e, 1.03), enough=6) is Verdict.EQUIVALENT for e in ratios]
            row = {"n": n, "cv": percent(spread), "named": percent(named), "told": percent(float(np.mean(told)))}
            rows.append(row | {"same": percent(float(np.mean(same))), "edge": percent(float(np.mean(edge)))})
    columns = [Column("n", "rounds"), Column("cv", "CV of each cell"), Column("named", "change named for 80 %")]
    columns += [Column("told", "it is found in"), Column("same", "equal cells called equivalent")]
    return Table("power", [*columns, Column("edge", "cells 3 % apart called so")], rows)


def together(trials: int = TRIALS) -> Table:
    """Tables of equal ways in which any is called different; and the optimism of the fastest of many."""
    rows = []
    for n in (ENOUGH, ROUNDS):
        rng, gate = np.random.default_rng(n), Gate(threshold=0.0)
        alone, of_holm, of_bh = 0, 0, 0
        for _ in range(trials // 5):
            found = [median(np.exp(steady(rng, 0.1, n)), RESAMPLES) for _ in range(STEPS)]
            alone += any(verdict(e, 0.0) in CHANGES for e in found)
            of_holm += any(j.verdict in CHANGES for j in judge(found, gate, holm))
            of_bh += any(j.verdict in CHANGES for j in judge(found, gate, benjamini_hochberg))
        ways = [np.exp([steady(rng, 0.1, n) for _ in range(37)]) for _ in range(trials // 5)]
        true = [-math.log(np.median(w, axis=1).min()) for w in ways]
        said = {"alone": alone, "holm": of_holm, "bh": of_bh}
        row = {k: percent(v / (trials // 5)) for k, v in said.items()} | {"true": percent(float(np.mean(true)))}
        told = float(np.mean([optimism(w, ERROR_RESAMPLES) for w in ways]))
        rows.append({"n": n} | row | {"told": percent(told)})
    columns = [Column("n", "rounds"), Column("alone", f"{STEPS} equal ways, each by itself"), Column("holm", "Holm")]
    columns += [Column("bh", "Benjamini–Hochberg"), Column("true", "fastest of 37 equal ways overstated by")]
    return Table("together", [*columns, Column("told", "the report says")], rows)


def starts(shape: Samples, spread: float, r: float, trials: int) -> list[int | None]:
    """From which span on courses of this shape are steady; None for those that never are.

    :param r: autocorrelation of their noise.
    """
    rng, n = np.random.default_rng(len(shape)), len(shape)
    return [steady_from(shape * np.exp(resembling(rng, spread, n, r))) for _ in range(trials)]


def steadiness(trials: int = TRIALS) -> Table:
    """How much of flat rates is cut, how often they are called unsteady, and how often those that are not flat are."""
    rows = []
    for n in (SPANS[0], 30, SPANS[1]):
        at = np.arange(n)
        ramp = 1 - STEP * np.exp(-(at + 0.5) / (n / 12))
        shapes = {
            "flat": np.ones(n),
            "step": np.where(at < n // 5, 1 - STEP, 1.0),
            "ramp": ramp,
            "rise": np.linspace(1 - RISE / 2, 1 + RISE / 2, n),
            "late": np.where(at < 0.6 * n, 1.0, 1 - LATE),
            "dip": np.where((at >= 0.5 * n) & (at < 0.7 * n), 1 - STEP, 1.0),
        }
        for spread in STEADY_CVS:
            found = {name: starts(shape, spread, 0.0, trials) for name, shape in shapes.items()}
            found["alike"] = starts(shapes["flat"], spread, ALIKE, trials)
            row = {name: percent(found[name].count(None) / trials) for name in ("flat", "alike", "rise", "late", "dip")}
            row["lost"] = percent(float(np.mean([(start or 0) / n for start in found["flat"]])))
            row["step"] = percent(float(np.mean([abs((start or 0) - n // 5) <= 1 for start in found["step"]])))
            left = float(np.mean([np.mean(ramp[start or 0 :]) for start in found["ramp"]]))
            row["ramp"] = f"{percent(1 - float(np.mean(ramp)))}, {percent(1 - left)}"
            rows.append({"n": n, "cv": percent(spread)} | row)
    columns = [Column("n", "spans"), Column("cv", "CV"), Column("lost", "flat: is cut"), Column("flat", "unsteady")]
    columns += [Column("alike", f"with autocorrelation {ALIKE:g}"), Column("step", "lower start: is cut")]
    columns += [Column("ramp", "ramp: lowers the mean by, and what is left"), Column("rise", "rise: unsteady")]
    columns += [Column("late", "late fall: unsteady"), Column("dip", "dip: unsteady")]
    return Table("steadiness", columns, rows)


TABLES = (between_races, intervals, power, together, steadiness)


def write(page: Path = PAGE, trials: int = TRIALS) -> None:
    """Puts the tables between their marks in a page, and prints them."""
    for make in TABLES:
        table = make(trials).markdown()
        print(f"{table}\n", flush=True)
        put(page, make.__name__, "bench-statistics", table)


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
            row = {"cell": f"{file.parent.name[:8]} {cell}", "n": len(walls), "cv": percent(cv(walls))}
            rows.append(row | {"halves": halves.text, "drawn": drawn.text})
    columns = [Words("cell", "race and cell"), Column("n", "rounds"), Column("cv", "CV")]
    return Table(
        "recorded", [*columns, Column("halves", "halves"), Column("drawn", f"{ROUNDS} drawn")], rows
    ).markdown()


def plan_of(file: Path) -> dict[str, Samples]:
    """Wall times of the plan in ``es_profile_decomp.csv`` by cell, in order of round."""
    cells: dict[str, list[tuple[int, float]]] = {}
    with open(file, newline="") as f:
        for row in csv.DictReader(f):
            if row["operation_type"] == TYPE:
                cells.setdefault(row["operation"], []).append((int(row["round"]), float(row["wall_ms"])))
    return {cell: np.array([ms for _, ms in sorted(samples)]) for cell, samples in cells.items()}


def main() -> None:
    if files := [Path(name) for name in variable("CSV").split()]:
        print(recorded(files))
    else:
        write()


if __name__ == "__main__":
    main()
