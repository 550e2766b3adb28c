"""What the server had at hand while it was measured, which all query challenges say alike."""

from collections.abc import Mapping
from typing import Any

from _tools.report.race import Race
from _tools.report.section import Section
from _tools.report.text import count, percent
from cluster_metrics.query.cache import QUERY_CACHE, SETTING
from cluster_metrics.query.configurations import CACHED, CONFIGURATIONS
from cluster_metrics.query.steady import CHANGE, LEVEL, WINDOW

MEANT = CONFIGURATIONS[CACHED["production"]].index
"""The one index that has the query cache on as a configuration."""
WARM_UP = "query-warm-up"


def sections(race: Race, kind: str) -> list[Section]:
    """Whether the query cache answered for anything, and how the warm-up ended; none for a race that did not record it.

    :param kind: of the rounds' samples.
    """
    rounds = [s.meta for s in race.of(kind) if QUERY_CACHE[0].name in s.meta]
    if not rounds:
        return []
    lines = [_cache(rounds), *(_steady(sample.meta) for sample in race.of(WARM_UP))]
    return [Section("What the server had at hand", ["".join(lines)])]


def unsteady(race: Race) -> set[str]:
    """The configurations that were not steady when the warm-up ended."""
    return {name for sample in race.of(WARM_UP) for name in sample.meta["unsteady"]}


def _steady(meta: Mapping[str, Any]) -> str:
    walked, names = meta["rounds"], meta["unsteady"]
    if walked < WINDOW:
        return (
            f"- **Warning:** nothing is known to have been steady: the warm-up had {count(walked, 'round')}, the test "
            f"takes {WINDOW}; raise warmup_rounds.\n"
        )
    if names:
        return (
            f"- **Warning:** not steady after {count(walked, 'round')} of warm-up, hence without a verdict: "
            f"{', '.join(names)}; raise warmup_rounds, or look for what else runs.\n"
        )
    return (
        f"- Every configuration was steady before anything counted, after {count(walked, 'round')} of warm-up: over "
        f"the last {WINDOW} none, nor their geometric mean, rose or fell by more than {percent(CHANGE)} and more than "
        f"by chance (Mann and Kendall's test, {percent(LEVEL)} over all of them).\n"
    )


def _cache(rounds: list[Mapping[str, Any]]) -> str:
    on, hits, misses = (key.name for key in QUERY_CACHE)
    wrong = sorted({name for meta in rounds for name in meta[on]} - {MEANT})
    meant = any(MEANT in meta[on] for meta in rounds)
    counted = (
        f"{sum(meta[hits] for meta in rounds):,.0f} hits and {sum(meta[misses] for meta in rounds):,.0f} misses in "
        f"{len(rounds)} rounds"
    )
    if wrong:
        return (
            f"- **Warning:** the node query cache was on for {', '.join(wrong)}, loaded earlier or by others "
            f"({counted}): a filter asked before costs nothing there, so its time is missing from the figures; load "
            "the index with this version of the track, without --exclude-tasks=tag:setup.\n"
        )
    but = f" but {MEANT}" if meant else ""
    return (
        f"- The node query cache was off for every index asked{but} (`{SETTING}: false`): each search pays for its "
        f"filters as the first about its epoch does. It counted {counted}.\n"
    )
