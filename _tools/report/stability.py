"""How far to trust a race: what its samples say against it, and what to do."""

import math
from collections.abc import Sequence

import numpy as np

from cluster_metrics.core.challenge import Compared

from .answer import RaceWarning
from .cells import Cells, compared_in
from .race import Race
from .scatter import drift, outliers
from .section import Figure, Section
from .stats import RESEMBLING, Samples, autocorrelation, cv
from .table import Column, Table, Words, share
from .text import count, percent, plural

STEADY_CV = 0.05
"""CV up to which 20 rounds find a slow-down of 10 % in 95 of 100 cases, within a race or between races that differ by
no more than their rounds show; see ``make bench-statistics``."""
MOST_ROUNDS = 200
"""Most rounds that a warning advises."""
DRIFT_LEVEL = 0.05
"""A drift over rounds is reported when its p is below this: in one steady race of 20."""
MOST_NAMED = 6
"""Most cells that a warning names."""
CLIENT_BOUND = 0.2
"""Share of the wall time that the client may use itself."""


Check = str | RaceWarning
"""What a check found: a sentence, empty if it could not be made, or a warning."""


def warnings(race: Race, check: Check = "") -> list[RaceWarning]:
    """What speaks against the figures of a race; nothing for a race without rounds.

    :param check: a further one of the challenge's own.
    """
    cells = compared_in(race)
    if not cells.names:
        return []
    drifting = [found for found in (drift_of_rounds(race, cells), check) if isinstance(found, RaceWarning)]
    noisy = _noisy(race, cells, any(found.kind == "drift" for found in drifting))
    few = too_few(race.record.compared, min(len(cells.samples(name)) for name in cells.names))
    return [*few, *noisy, *_outlying(race, cells), *_client(race), *drifting]


def sections(race: Race, *figures: Figure, check: Check = "") -> list[Section]:
    """Warnings, checks and a table of the spread by configuration; none for a race without rounds.

    :param figures: that stand below.
    :param check: as of :func:`warnings`.
    """
    cells = compared_in(race)
    if not cells.names:
        return []
    passed = [found for found in (drift_of_rounds(race, cells), check) if found and isinstance(found, str)]
    lines = [*told(warnings(race, check)), *(f"- {found}\n" for found in passed)]
    return [Section("How far to trust this", ["".join(lines), *_spread(race, cells), *figures])]


def told(found: Sequence[RaceWarning]) -> list[str]:
    """Warnings as lines of Markdown, with the reason of each."""
    return [f"- **Warning:** {warning.text}\n" for warning in found] or ["- No warnings.\n"]


def rounds_needed(spread: float, enough: int) -> int:
    """Rounds at which a race of this CV knows its medians as well as enough rounds of the steady CV do; 0 for no CV."""
    return 0 if math.isnan(spread) else math.ceil(enough * (spread / STEADY_CV) ** 2)


def too_few(compared: Compared, least: int) -> list[RaceWarning]:
    """The warning that there are fewer units than a verdict takes, where there are.

    :param least: rounds or passes of the configuration that has the fewest.
    """
    if least >= compared.enough or compared.alone:  # more units of one sample would carry no verdict either
        return []
    return [
        RaceWarning(
            "too-few",
            f"{count(least, compared.unit)} {'is' if least == 1 else 'are'} too few for a verdict",
            f"race with {compared.parameter}:{compared.enough} or more",
            "an interval of so few is little more than the range that was seen",
            least,
        )
    ]


def _noisy(race: Race, cells: Cells, drifting: bool) -> list[RaceWarning]:
    compared = race.record.compared
    enough = compared.enough
    samples = {name: cells.known(compared.figures[0], name) for name in cells.names}
    noisy = {name: cv(s) for name, s in samples.items() if rounds_needed(cv(s), enough) > max(len(s), enough)}
    if not noisy:
        return []
    worst = max(noisy, key=lambda name: noisy[name])
    why = "two races like this may miss a change of 10 % there"
    option = "close what else runs on the machine, or race each side 5 times under a tag of its own"
    # more rounds of a drift are no steadier, and more units of one sample carry no verdict
    if compared.base in noisy and not drifting and not compared.alone:
        spread = noisy[compared.base]
        wanted = math.ceil(rounds_needed(spread, enough) / 10) * 10
        if wanted <= MOST_ROUNDS:
            why += f"; {option}"
            option = f"race longer: {compared.parameter}:{wanted} for {compared.base} ({percent(spread)})"
    seen = (
        f"noisy: in {len(noisy)} of {len(samples)} configurations, most in {worst} (the {plural(compared.unit)}' CV is "
        f"{percent(noisy[worst])})"
    )
    return [RaceWarning("noisy", seen, option, why, noisy[worst])]


LEAST_DRIFT = 5
"""Rounds below which no order of them is so seldom that the test could tell it from chance."""


def drift_of_rounds(race: Race, cells: Cells) -> Check:
    """Whether the configurations together rise or fall from round to round.

    :return: a warning if they do so more than by chance; empty for fewer than 5 rounds that all cells have.
    """
    levels, unit = _levels(race, cells), race.record.compared.unit
    if len(levels) < LEAST_DRIFT:
        return ""
    found, warms = drift(levels), any(p.name == "warmup_iterations" for p in race.record.parameters)
    test = f"Spearman's test over {count(len(levels), unit)}, p = {found.p:.2g}"
    if found.p >= DRIFT_LEVEL:
        return f"no drift: configurations together rise or fall from {unit} to {unit} no more than by chance ({test})"
    return RaceWarning(
        "drift",
        f"drift: configurations together change by {signed(found.change)} from the first {unit} to the last ({test})",
        "raise warmup_iterations until this goes" if warms else "read them one by one: a load has no warm-up",
        f"ratios and shares are taken within {plural(unit)} and hold, absolute times do not",
        found.change,
    )


def _levels(race: Race, cells: Cells) -> Samples:
    """How slow each round was: geometric mean over cells of its time over the cell's median, so that cells count alike
    and one test serves for all."""
    found = cells.matrix(race.record.compared.figures[0], cells.names)
    if not found.size:
        return np.array([])
    return np.asarray(np.exp(np.mean(np.log(found / np.median(found, axis=1, keepdims=True)), axis=0)))


def _outlying(race: Race, cells: Cells) -> list[RaceWarning]:
    severe = {}
    for name in cells.names:
        counts = outliers(cells.known(race.record.compared.figures[0], name))
        if number_severe := counts.low_severe + counts.high_severe:
            severe[name] = number_severe
    if not severe:
        return []
    named = ", ".join(f"{name} {n}" for name, n in severe.items())
    if len(severe) > MOST_NAMED:
        named = f"{sum(severe.values())} in {len(severe)} of {len(cells.names)} configurations"
    return [
        RaceWarning(
            "outliers",
            f"severe outliers ({named})",
            "look for what else ran then: other processes, garbage collection, merges",
            "they are kept in all figures, and medians bear them",
            sum(severe.values()),
        )
    ]


def _client(race: Race) -> list[RaceWarning]:
    shares: dict[str, list[float]] = {}
    for sample in race.samples:
        if "client_ms" in sample.meta and sample.meta.get("wall_ms"):
            shares.setdefault(sample.cell, []).append(sample.meta["client_ms"] / sample.meta["wall_ms"])
    high = {cell: share for cell, s in shares.items() if (share := float(np.median(s))) > CLIENT_BOUND}
    if not high:
        return []
    most = max(high, key=lambda cell: high[cell])
    others = f", and over {percent(CLIENT_BOUND)} of {len(high) - 1} more" if len(high) > 1 else ""
    return [
        RaceWarning(
            "client",
            f"the client used {percent(high[most])} of {most}'s wall time{others}",
            "run the load driver on a faster or a quieter machine",
            "so the client is a bottleneck there: read took beside wall time",
            high[most],
        )
    ]


def _spread(race: Race, cells: Cells) -> list[str | Table]:
    compared = race.record.compared
    judged, unit = compared.figures[0], compared.unit
    rows = []
    for name in cells.names:
        samples = cells.known(judged, name)
        counts = outliers(samples)
        row = {"cell": name, "n": len(samples), "median": float(np.median(samples)), "cv": cv(samples)}
        if name != compared.base and compared.base in cells.names and cells.has(compared.base, name):
            base, own = cells.values(judged, compared.base, name)
            row["cv_ratio"], row["resembling"] = cv(own / base), autocorrelation(own / base)
        rows.append(row | {k: getattr(counts, k) for k in ("low_severe", "low_mild", "high_mild", "high_severe")})
    columns = [Words("cell", "configuration"), Column("n", plural(unit)), Column("median", "median"), share("cv", "CV")]
    columns += [share("cv_ratio", "CV of ratio"), Column("resembling", "its autocorrelation", form="{:.2f}".format)]
    columns += [Column("low_severe", "low severe"), Column("low_mild", "low mild")]
    columns += [Column("high_mild", "high mild"), Column("high_severe", "high severe")]
    return [
        f"Spread of the {plural(unit)}, {race.figure(judged)}. The ratio is that to {compared.base} within each "
        f"{unit}; its CV is what counts for ratios within this race, the other for comparisons with other races. Its "
        f"autocorrelation is that with the next {unit}; above {RESEMBLING:g} intervals are widened. Outliers by "
        "Tukey's fences: mild beyond 1.5, severe beyond 3 interquartile ranges outside the quartiles; counted here, "
        "dropped nowhere.",
        Table("spread", columns, rows),
    ]


def signed(part: float) -> str:
    return percent(part) if part < 0 else f"+{percent(part)}"
