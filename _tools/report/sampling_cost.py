"""What sampling the target's CPU time costs it: the same rounds with the sampler and without."""

import numpy as np

from .cells import cells_of
from .race import Race
from .sampled import Profiling
from .section import Section
from .stats import Estimate, Samples, median, paired_ratio
from .table import Column, Table, Words, times


def cost(race: Race, how: Profiling, key: str) -> Estimate | None:
    """With the sampler over without: the geometric mean over configurations within a round, median over rounds."""
    plain, with_it = cells_of(race, how.plain), cells_of(race, how.sampled)
    names = with_it.names
    if not names or any(not of.has(*names) for of in (plain, with_it)):
        return None
    numbers = sorted(set(plain.rounds(*names)) & set(with_it.rounds(*names)))
    sides = [
        np.array([[of.samples(name)[r].meta.get(key, np.nan) for r in numbers] for name in names], dtype=float)
        for of in (plain, with_it)
    ]
    ratios = np.exp(np.mean(np.log(sides[1] / sides[0]), axis=0))
    return median(ratios) if len(ratios) and np.isfinite(ratios).all() else None


def sections(race: Race, how: Profiling) -> list[Section]:
    """The section of the report; none for a race without samples."""
    rows = []
    for name in sorted({s.cell for s in race.of(how.sampled)}):
        row: dict[str, object] = {"configuration": name}
        for key in ("wall_ms", "target_cpu_ms"):
            plain, with_it = _of_both(race, how, name, key)
            if len(plain):
                row |= {f"{key} plain": median(plain), key: paired_ratio(plain, with_it)}
        if len(row) > 1:
            rows.append(row)
    if not rows:
        return []
    whole = {key: found for key in ("wall_ms", "target_cpu_ms") if (found := cost(race, how, key))}
    rows.append({"configuration": "geometric mean", **whole})
    columns = [
        Words("configuration", "configuration"),
        Column("wall_ms plain", "wall without", "ms"),
        times("wall_ms", "wall with"),
        Column("target_cpu_ms plain", "target CPU without", "ms"),
        times("target_cpu_ms", "target CPU with"),
    ]
    text = f"{how.design}, in seeded order: median over rounds of the ratio within a round."
    return [Section("What the sampler costs", [text, Table("cost", columns, rows)])]


def _of_both(race: Race, how: Profiling, name: str, key: str) -> tuple[Samples, Samples]:
    """A figure of a configuration without the sampler and with it, aligned by round."""
    plain, with_it = cells_of(race, how.plain), cells_of(race, how.sampled)
    if name not in plain.names or name not in with_it.names:
        return np.array([]), np.array([])
    numbers = sorted(set(plain.samples(name)) & set(with_it.samples(name)))
    sides = [[of.samples(name)[number].meta.get(key, np.nan) for number in numbers] for of in (plain, with_it)]
    known = ~np.isnan(np.array(sides, dtype=float)).any(axis=0) if numbers else []
    return tuple(np.array(side, dtype=float)[known] for side in sides)  # type: ignore[return-value]
