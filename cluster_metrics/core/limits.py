"""What a race does not show, as far as several challenges share it: functions for the records' ``limits``.

Each takes the facts of a race: its parameters by name, ``index`` (``docs``, ``segments``, ``store_bytes``; empty if the
challenge loads none) and ``nodes`` of the target.
"""

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def counted(number: int, unit: str) -> str:
    """A number with its unit, such as 1 node or 2 nodes."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def shards_of_searches(facts: Facts) -> str:
    shards = facts.get("number_of_shards")
    if shards == 1:
        return "One primary shard: the race does not show what it costs or gains to spread a search over shards."
    if shards:
        return f"{shards} primary shards on {counted(facts['nodes'], 'node')}: other numbers of either may differ."
    return ""


def segments(facts: Facts) -> str:
    found = facts["index"].get("segments")
    if found and facts.get("force_merge_max_num_segments"):
        return f"The index was force-merged and has {counted(found, 'segment')}; one still written to has more."
    if found:
        return f"The index has {counted(found, 'segment')}, as the load left them; the next load may leave others."
    return ""


COLD = "No warm-up: the first samples hold the costs of empty caches and of code that is not compiled yet."


def warmed(what: str) -> str:
    """The limit of a race in which something ran uncounted at first."""
    return f"Warm caches: {what}. The first queries after a restart, or on data that is not in memory, take longer."


def warm(unit: str, of: str = "") -> Any:
    """The limit of a race that is warmed up by ``warmup_iterations`` of a unit, such as rounds.

    :param of: what stands behind it, such as of each cell.
    """

    def sentence(facts: Facts) -> str:
        warmups = facts.get("warmup_iterations")
        if warmups:
            return warmed(f"{counted(warmups, unit)}{of} ran uncounted at first")
        return COLD if warmups == 0 else ""

    return sentence


def said(text: str) -> Any:
    """A limit that holds for every race of a challenge."""
    return lambda facts: text


def corpus_in_memory(facts: Facts) -> str:
    index = facts["index"]
    if not index:
        return ""
    return (
        f"The corpus is generated, {index['docs']:,} documents in {index['store_bytes'] / 1e6:,.0f} MB: real metrics "
        "compress and spread otherwise, and an index larger than memory behaves otherwise."
    )
