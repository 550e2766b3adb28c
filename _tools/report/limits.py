"""What a race does not show: limits that follow from how it was run."""

from collections.abc import Iterator

from .answer import cut
from .race import Race
from .section import Section
from .stats import LEAST
from .text import count


def section(race: Race) -> Section:
    """The last section of every report, a line for each limit; what the race has not recorded is left out."""
    facts = race.parameters | {"index": race.index, "nodes": len(race.target)}
    own = [limit(facts) for limit in race.record.limits]
    lines = [*filter(None, own), *_machine(race), *_replication(race)]
    return Section("Limits", ["".join(f"- {line}\n" for line in lines)])


def _machine(race: Race) -> Iterator[str]:
    nodes, cores = len(race.target), sum(map(race.cores, race.target))
    if nodes:
        heaps = ", ".join(f"{heap:,} MB" for heap in sorted({node["heap_mb"] for node in race.target}))
        each = " each" if nodes > 1 else ""
        yield (
            f"{count(nodes, 'node')} with {count(cores, 'core')} in all and a heap of {heaps}{each}: "
            "more cores give concurrent requests more room, fewer give them less."
        )
    if race.local:
        delay = (race.document.get("user-tags") or {}).get("delay_ms")
        network = f"no network but a relay that delays each direction by {delay} ms" if delay else "no network"
        yield (
            f"The load driver ran on the target's machine: they share its cores, and wall times hold {network}. A "
            "client elsewhere waits longer for each request, and takes no cores away."
        )
    elif race.local is None:
        yield "Whether the load driver ran on the target's machine is not recorded. Wall times hold network and client."
    else:
        yield "The load driver ran on another machine than the target: wall times hold the network between them."
    if drivers := race.parameters.get("load_drivers"):
        yield (
            f"Requests came from {drivers} load drivers, whose CPU is not told: one of them may have been the limit. "
            "Times across them, such as that of a load and its rates, hold as far as their clocks agree."
        )


def _replication(race: Race) -> Iterator[str]:
    unit = race.record.compared.unit
    units = len({sample.meta[unit] for sample in race.samples if sample.meta.get(unit, 0) > 0})  # the others warm up
    if units:
        few = f" The median of fewer than {count(LEAST, unit)} has none." if units < LEAST else ""
        yield (
            f"Intervals come from {count(units, unit)} of one race: they do not hold what "
            f"differs from race to race.{few}"
        )
    if found := cut(race):
        whole = "whole rounds only, those that would have ended later left out"
        yield f"{count(units, unit)}{found} (`race_minutes`): {whole}."
    if race.samples:
        minutes = (max(s.at for s in race.samples) - min(s.at for s in race.samples)) / 60_000
        yield f"The samples were taken within {minutes:.1f} minutes; slower changes of the machine are not seen."
