"""What speaks against the figures of a capacity challenge: nodes, clients, too few passes, rates that change."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from _tools.report.answer import RaceWarning
from _tools.report.looks import BUSY
from _tools.report.race import Race, Sample
from _tools.report.stability import signed, too_few
from _tools.report.stats import geometric_mean
from _tools.report.steady import PART
from _tools.report.text import count, interval, percent
from cluster_metrics.capacity.challenge import CELL_CLIENTS, MONITOR, PREPARE

from .cells import Cell, client_limited, clients_wanted, idle, is_full, main_cells, steady_of, waits_of
from .passes import gone

DRIFT = 0.05
"""Change of throughput from the first pass to the last that is no drift."""
LATENCY_DRIFT = 0.5
"""The same of the median of latency: near saturation a few per cent of load change it as much."""


def warnings(race: Race) -> list[RaceWarning]:
    """What speaks against the figures: nodes that add no capacity or left, few passes, a drift, cells without a limit,
    and at last passes that are not steady, which count for nothing anyway."""
    cells, found = main_cells(race), [*_sharing(race), *_left(race)]
    unsaturated, drift = _unsaturated(race, cells.values()), drift_check(race)
    drifting = [drift] if isinstance(drift, RaceWarning) else []
    return [*found, *_few(race, cells.values()), *drifting, *unsaturated, *_unsteady(cells.values())]


def _few(race: Race, cells: Iterable[Cell]) -> list[RaceWarning]:
    """Whether a cell has fewer passes that count than a verdict takes; what were not steady have to be raced again."""
    of = race.record.compared
    counted, raced = min(((len(cell.steady), len(cell.passes)) for cell in cells), default=(of.enough, 0))
    option = f"race with {of.parameter}:{raced + of.enough - counted} or more"
    return [replace(warning, option=option) for warning in too_few(of, counted)]


def _left(race: Race) -> Iterator[RaceWarning]:
    """Nodes that had left in a cell of a pass, the part of it that does not count included."""
    looks: dict[tuple[str, int], list[Sample]] = {}
    for look in race.of(MONITOR):
        looks.setdefault((look.meta["cell"], look.meta["pass"]), []).append(look)
    for prepared in race.of(PREPARE):
        cell, number_of = prepared.meta["cell"], prepared.meta["pass"]
        if number_of > 0 and (left := gone(prepared, looks.get((cell, number_of), []))):
            seen = f"{', '.join(left)} had left in {cell} of pass {number_of}, which counts for no verdict"
            yield RaceWarning("node-left", seen, "look into the log of that node", value=len(left))


def _unsteady(cells: Iterable[Cell]) -> Iterator[RaceWarning]:
    """Cells with passes in which the rate was never steady."""
    unsteady = {cell.name: [one for one in cell.passes.values() if not one.steady] for cell in cells}
    all_of = {cell.name: len(cell.passes) for cell in cells}
    passes = [one for of in unsteady.values() for one in of]
    if not passes:
        return
    named = ", ".join(f"{name} ({len(of)} of {all_of[name]} passes)" for name, of in unsteady.items() if of)
    rising = sum(late > early for early, late in (one.halves for one in passes)) > len(passes) / 2
    option = "raise first_pass_seconds and cell_warmup_seconds" if rising else "raise cell_seconds"
    why = (
        f"it takes {PART:.0%} of a pass at one level, by the change points of its rate; what is not "
        "steady counts for no verdict; other work on the machine makes rates change, too"
    )
    yield RaceWarning("not-steady", f"the rate was not steady in {named}", option, why, len(passes))


def _sharing(race: Race) -> Iterator[RaceWarning]:
    held = [n for n in race.target if "cpu_held_by" in n]
    why = "a further node adds no capacity, so the shape is not that of a cluster"
    nodes = f"{count(len(race.target), 'node')} {'shares' if len(race.target) == 1 else 'share'} the CPU freely"
    if any(n["cpu_held_by"] == "nothing" for n in held):
        seen = f"{nodes}: this machine has no cgroup to hold them to a share"
        yield RaceWarning("shared-cores", seen, "race as root on a machine with cgroups", why, len(race.target))
    elif not held and race.local and len(race.target) > 1:
        yield RaceWarning("shared-cores", f"{nodes} (no NODE_CORES)", "set NODE_CORES", why, len(race.target))


def _unsaturated(race: Race, cells: Collection[Cell]) -> Iterator[RaceWarning]:
    """Cells that were limited by the client, and those that were limited by nothing."""
    why = "what such a cell carries is more than its throughput"
    if of_client := client_limited(cells, race):
        names = ", ".join(cell.name for cell in of_client)
        seen = f"the client or its machine was at its limit, and no node, in most passes of {names}"
        option = "lower NODE_CORES, or run the load driver" if race.shares() and race.local else "run the load driver"
        option += " on a machine of its own or on several"
        yield RaceWarning("client-limited", seen, option, why, len(of_client))
    if idle_cells := idle(cells, race):
        names = ", ".join(cell.name for cell in idle_cells)
        seen = f"no node used {BUSY:.0%} of its CPU in most passes of {names}, and the client had room"
        wanted = race.parameters.get(CELL_CLIENTS.name, {}) | clients_wanted(race)
        option = f"raise {CELL_CLIENTS.name}, to {json.dumps(wanted)} or more, or race with CALIBRATE=1"
        yield RaceWarning("not-saturated", seen, option, why, len(idle_cells))


def _warming(cells: Iterable[Cell]) -> str:
    """How much of their CPU time nodes compiled in the first pass of each cell and in the last, in words; empty where
    that is not known."""
    ends = [[cell.steady[end(cell.steady)] for cell in cells if cell.steady] for end in (min, max)]
    told = [[part for one in passes if (part := one.compiling()) is not None] for passes in ends]
    if not all(told):
        return ""
    first, last = (percent(float(np.median(parts))) for parts in told)
    return f" (in the median they compiled for {first} of their CPU time in the first pass, {last} in the last)"


def drift_check(race: Race) -> RaceWarning | str:
    """Whether the last pass differs from the first, by the geometric mean over cells: of throughput, or of the median
    of latency in an open loop, whose throughput is what is due, at the rates at which no node was at its limit: beyond,
    latency says how long the load lasted.

    :return: a warning if it does by more than a bound, else what was found, and whether the whole interval shows it;
        empty where no cell has two passes.
    """
    cells = steady_of(main_cells(race)).values()
    if race.record.latencies:
        what, most = "the median of latency", LATENCY_DRIFT
        below = {cell.name for cell in main_cells(race).values() if not is_full(cell, race)}
        levels = [
            {number_of: float(np.median(waits)) for number_of, waits in of.items()}
            for name, of in waits_of(race).items()
            if name in below
        ]
    else:
        what, most = "throughput", DRIFT
        levels = [{number_of: one.rate for number_of, one in cell.steady.items()} for cell in cells]
    changes = [of[max(of)] / of[min(of)] for of in levels if len(of) > 1]
    if not changes:
        return ""
    of = geometric_mean(changes)
    change = replace(of, value=of.value - 1, low=of.low - 1, high=of.high - 1)
    found = (
        f"from the first pass to the last {what} changed by {signed(change.value)} {interval(change, percent)}, the "
        f"geometric mean over {count(change.n, 'configuration')}"
    )
    bound = f"the bound is ±{percent(most)}"
    if abs(change.value) <= most:
        kept = -most <= change.low and change.high <= most
        return f"Drift check: {found}; {bound}{'' if kept else ', and that it is kept is not shown'}."
    cause = f"the nodes were not warm{_warming(cells)}, or the machine had other work"
    why = f"{bound}: {cause}; ratios within passes suffer less"
    return RaceWarning("drift", f"drift: {found}", "raise first_pass_seconds", why, change.value)
