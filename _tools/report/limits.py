"""What a race does not show: limits that follow from how it was run."""

from collections.abc import Iterator

from .race import Race
from .section import Section
from .text import count

FEW_ROUNDS = 10
"""Below this many rounds a 95 % interval of the median rests on too little to be trusted."""


def section(race: Race) -> Section:
    """The last section of every report, a line for each limit; what the race has not recorded is left out."""
    of_questions = [] if race.challenge.startswith(("ingest", "capacity")) else [*_shards(race), *_warmth(race)]
    lines = [*of_questions, *_machine(race), *_replication(race), *_corpus(race)]
    return Section("Limits", "".join(f"- {line}\n" for line in lines))


def _shards(race: Race) -> Iterator[str]:
    shards, segments = race.parameters.get("number_of_shards"), race.index.get("segments")
    if shards == 1:
        yield "One primary shard: the race does not show what it costs or gains to spread a search over shards."
    elif shards:
        yield f"{shards} primary shards on {count(len(race.target), 'node')}: other numbers of either may differ."
    if segments and race.parameters.get("force_merge_max_num_segments"):
        yield f"The index was force-merged and has {count(segments, 'segment')}; one still written to has more."
    elif segments:
        yield f"The index has {count(segments, 'segment')}, as the load left them; the next load may leave others."


def _warmth(race: Race) -> Iterator[str]:
    if race.of("ingest-bulk"):
        yield "Nothing is warmed up: the first load meets a new index, and after a start code that is not compiled yet."
        return
    warmups = race.parameters.get("warmup_iterations")
    if warmups:
        text = f"Warm caches: {count(warmups, 'coverage')} of each cell ran uncounted before it was measured."
        yield f"{text} The first queries after a restart, or on data that is not in memory, take longer."
    elif warmups == 0:
        yield "No warm-up: the first samples hold the costs of empty caches and of code that is not compiled yet."


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


def _replication(race: Race) -> Iterator[str]:
    rounds = len({sample.meta["round"] for sample in race.samples if "round" in sample.meta})
    if rounds:
        few = f" With fewer than {FEW_ROUNDS} rounds they are too narrow, too." if rounds < FEW_ROUNDS else ""
        yield (
            f"Intervals come from {count(rounds, 'round')} of one race: they do not hold what differs from race to "
            f"race.{few}"
        )
    if race.samples:
        minutes = (max(s.at for s in race.samples) - min(s.at for s in race.samples)) / 60_000
        yield f"The samples were taken within {minutes:.1f} minutes; slower changes of the machine are not seen."


def _corpus(race: Race) -> Iterator[str]:
    if race.index:
        size = race.index["store_bytes"] / 1e6
        yield (
            f"The corpus is generated, {race.index['docs']:,} documents in {size:,.0f} MB: real metrics compress and "
            "spread otherwise, and an index larger than memory behaves otherwise."
        )
