"""The node query cache of the target: which of the indices asked have it, and what it answered.

Whether an index has it is fixed at its creation (``index.queries.cache.enabled``). An index without it counts nothing.
Whatever is asked here is asked outside the timed section.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.challenge import Key
from ..wire.requests import get

SETTING = "index.queries.cache.enabled"
QUERY_CACHE = (
    Key("query_cache_on", "", "indices asked that were created with the node query cache on, a list", True),
    Key("query_cache_hits", "lookups", "lookups in the query cache that found a filter, all indices asked", True),
    Key("query_cache_misses", "lookups", "lookups in the query cache that found none", True),
)


async def lookups(es: Any, indices: Iterable[str]) -> dict[str, float]:
    """Hits and misses since these indices were opened."""
    path = f"/{','.join(sorted(indices))}/_stats/query_cache?filter_path=_all.total.query_cache"
    counts = (await get(es, path))["_all"]["total"]["query_cache"]
    return {"query_cache_hits": float(counts["hit_count"]), "query_cache_misses": float(counts["miss_count"])}


async def query_cache(es: Any, indices: Iterable[str], before: Mapping[str, float]) -> dict[str, Any]:
    """What a round records, see :data:`QUERY_CACHE`.

    :param before: :func:`lookups` at its start.
    """
    path = f"/{','.join(sorted(indices))}/_settings/{SETTING}?include_defaults=true&flat_settings=true"
    settings = {name: of.get("defaults", {}) | of["settings"] for name, of in (await get(es, path)).items()}
    on = sorted(name for name, of in settings.items() if of.get(SETTING) != "false")
    return {"query_cache_on": on} | {k: v - before[k] for k, v in (await lookups(es, indices)).items()}
