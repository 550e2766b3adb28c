"""Reads the profile that Elasticsearch adds to a search response, and adds profiles up.

How Elasticsearch (8.17) measures decides what may be added to what:

- A query's time includes that of its children, a collector's that of its children, too. Collecting is not part of the
  query's time, but the aggregations' ``build_leaf_collector`` and ``collect`` are part of the collectors' time.
- The parts of queries and aggregations are timed on the first 256 calls, then on ever fewer (of 33,000 calls on about
  1,500), and scaled up (``org.elasticsearch.search.profile.Timer``). As all levels of a query pick the same calls, each
  level's time holds the clock readings of all levels below it. Collectors read the clock on every call.
- Where several slices search in parallel, times are sums over them and may exceed ``took``.
"""

from collections.abc import Iterable, Iterator
from typing import Any

ONCE = ("create_weight", "build_scorer", "count_weight")
"""Parts of a query that run a few times per segment, hence are timed without scaling."""
PER_DOCUMENT = ("next_doc", "advance", "match")
"""Parts of a query that run for each document."""
PARTS = (*ONCE, *PER_DOCUMENT, "score")
AGGREGATION_PARTS = (
    "initialize",
    "build_leaf_collector",
    "collect",
    "post_collection",
    "build_aggregation",
    "reduce",
)


def times(profile: dict[str, Any], aggregations: Iterable[str]) -> dict[str, float]:
    """The times in one profile, in ms, summed over shards; always the same keys.

    :param profile: what a search response has under ``profile``.
    :param aggregations: names of the aggregations asked for.
    :return: ``rewrite_ms``; ``query_<part>_ms`` of the topmost queries for each of :data:`PARTS`, ``query_other_ms``
        for all else and ``query_ms`` for their sum; ``query_leaves_ms``, the :data:`PER_DOCUMENT` parts of the queries
        without children; ``collector_ms`` of the topmost collectors and, within it, ``collector_aggregations_ms``;
        ``fetch_ms`` (0 where nothing was fetched); and ``<name>_<part>_ms`` per aggregation for each of
        :data:`AGGREGATION_PARTS`.
    """
    shards = profile["shards"]
    searches = [search for shard in shards for search in shard["searches"]]
    roots = [query for search in searches for query in search["query"]]
    collectors = [collector for search in searches for collector in search["collector"]]
    parts = {part: sum(root["breakdown"].get(part, 0) for root in roots) for part in PARTS}
    whole = sum(root["time_in_nanos"] for root in roots)
    nanos = {
        "rewrite": sum(search["rewrite_time"] for search in searches),
        **{f"query_{part}": value for part, value in parts.items()},
        "query_other": whole - sum(parts.values()),
        "query": whole,
        "query_leaves": sum(
            leaf["breakdown"].get(p, 0) for root in roots for leaf in leaves(root) for p in PER_DOCUMENT
        ),
        "collector": sum(collector["time_in_nanos"] for collector in collectors),
        "collector_aggregations": sum(map(_aggregating, collectors)),
        "fetch": sum(shard.get("fetch", {}).get("time_in_nanos", 0) for shard in shards),
    }
    for name in aggregations:
        found = [a for shard in shards for a in shard.get("aggregations", []) if a["description"] == name]
        for part in AGGREGATION_PARTS:
            nanos[f"{name}_{part}"] = sum(a["breakdown"].get(part, 0) for a in found)
    return {f"{key}_ms": value / 1e6 for key, value in nanos.items()}


def leaves(query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The queries without children in a query's tree."""
    children = query.get("children", [])
    if not children:
        yield query
    for child in children:
        yield from leaves(child)


def _aggregating(collector: dict[str, Any]) -> int:
    """Time, in ns, of the topmost collectors in this tree that feed aggregations."""
    if collector["reason"] == "aggregation":
        return collector["time_in_nanos"]
    return sum(map(_aggregating, collector.get("children", [])))


def add_up(profiles: Iterable[dict[str, float]], kinds: dict[str, str]) -> dict[str, float]:
    """The sums of several profiles' times, with the aggregations' by kind instead of by name.

    :param profiles: what :func:`times` returned, one or more.
    :param kinds: the kind of each aggregation, by name.
    """
    total: dict[str, float] = {}
    for profile in profiles:
        for key, value in profile.items():
            name = next((name for name in kinds if key.startswith(f"{name}_")), None)
            summed = kinds[name] + key.removeprefix(name) if name else key
            total[summed] = total.get(summed, 0.0) + value
    return total
