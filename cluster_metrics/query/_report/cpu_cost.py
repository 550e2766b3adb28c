"""What sampling the target's CPU time costs it: the same rounds with the sampler and without."""

import numpy as np

from _tools.report.cells import cells_of
from _tools.report.race import Race
from _tools.report.section import Section
from _tools.report.stats import Estimate, Samples, median, paired_ratio
from _tools.report.table import Column, Table, Words, times
from cluster_metrics.query.cpu_profile import PLAIN, SAMPLED


def cost(race: Race, key: str) -> Estimate | None:
    """With the sampler over without: the geometric mean over configurations within a round, median over rounds."""
    cells = {kind: cells_of(race, kind) for kind in (PLAIN, SAMPLED)}
    names = cells[PLAIN].names
    if not names or any(not of.has(*names) for of in cells.values()):
        return None
    numbers = set.intersection(*(set(of.rounds(*names)) for of in cells.values()))
    sides = [
        np.array([[of.samples(name)[r].meta.get(key, np.nan) for r in sorted(numbers)] for name in names], dtype=float)
        for of in cells.values()
    ]
    ratios = np.exp(np.mean(np.log(sides[1] / sides[0]), axis=0))
    return median(ratios) if len(ratios) and np.isfinite(ratios).all() else None


def sections(race: Race) -> list[Section]:
    """The section of the report; none for a race without samples."""
    rows = []
    for name in sorted({s.cell for s in race.of(PLAIN)}):
        row: dict[str, object] = {"configuration": name}
        for key in ("wall_ms", "target_cpu_ms"):
            plain, with_it = _of_both(race, name, key)
            if len(plain):
                row |= {f"{key} plain": median(plain), key: paired_ratio(plain, with_it)}
        if len(row) > 1:
            rows.append(row)
    if not rows:
        return []
    whole = {key: found for key in ("wall_ms", "target_cpu_ms") if (found := cost(race, key))}
    rows.append({"configuration": "geometric mean", **whole})
    columns = [
        Words("configuration", "configuration"),
        Column("wall_ms plain", "wall without", "ms"),
        times("wall_ms", "wall with"),
        Column("target_cpu_ms plain", "target CPU without", "ms"),
        times("target_cpu_ms", "target CPU with"),
    ]
    text = (
        "Each round asks the same coverages in a block with the sampler and in a block without, in seeded order: "
        "median over rounds of the ratio within a round."
    )
    return [Section("What the sampler costs", [text, Table("cost", columns, rows)])]


def _of_both(race: Race, name: str, key: str) -> tuple[Samples, Samples]:
    """A figure of a configuration without the sampler and with it, aligned by round."""
    plain, with_it = cells_of(race, PLAIN), cells_of(race, SAMPLED)
    if name not in plain.names or name not in with_it.names:
        return np.array([]), np.array([])
    numbers = sorted(set(plain.samples(name)) & set(with_it.samples(name)))
    sides = [[of.samples(name)[number].meta.get(key, np.nan) for number in numbers] for of in (plain, with_it)]
    known = ~np.isnan(np.array(sides, dtype=float)).any(axis=0) if numbers else []
    return tuple(np.array(side, dtype=float)[known] for side in sides)  # type: ignore[return-value]
