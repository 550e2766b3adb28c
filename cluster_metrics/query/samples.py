"""The keys that samples of the query challenges share, and the samples that several of them take."""

from collections.abc import Iterable

from ..core.challenge import Key, Sample
from . import query_profile
from .profile_tree import AGGREGATION_PARTS, PARTS

ROUND = Key("round", "", "round of the plan; those up to 0 warm up")
EPOCH = Key("epoch", "", "epoch asked about")
SEARCHES = Key("searches", "searches", "searches of the coverage")
TIMES = (
    Key("took_ms", "ms", "`took` of a coverage, summed over its searches"),
    Key("wall_ms", "ms", "wall time of a coverage: first byte sent to last byte received"),
    Key("parallelism", "", "took_ms over wall_ms"),
)
BODIES = (
    Key("request_bytes", "bytes", "bodies of requests, before compression"),
    Key("response_bytes", "bytes", "bodies of responses, before compression"),
)
CLIENT = Key("client_ms", "ms", "CPU time that the load driver used meanwhile")
DOCS = Key("docs_matched", "documents", "documents asked about, by the exact answers")
SEGMENTS = Key("segments", "segments", "segments of the index's primary shards")
ERROR = Key(
    "max_percentile_error",
    "",
    "greatest relative error of p50 and p90 over all nodes and fields; 0 without percentiles",
)
OF_COVERAGE = (EPOCH, SEARCHES, *TIMES, CLIENT, *BODIES, DOCS, SEGMENTS, ERROR)
CELL = (Key("variant", "", "variant of the query"), Key("transport", "", "serial or msearch"), *OF_COVERAGE)
TREE = (
    Key("rewrite_ms", "ms", "rewriting the query"),
    *(Key(f"query_{part}_ms", "ms", f"{part} of the outermost query, inner ones included") for part in PARTS),
    Key("query_other_ms", "ms", "the rest of query_ms"),
    Key("query_ms", "ms", "the outermost query"),
    Key("query_leaves_ms", "ms", "next_doc, advance and match of the queries without children"),
    Key("collector_ms", "ms", "the outermost collector"),
    Key("collector_aggregations_ms", "ms", "of it the one that feeds the aggregations"),
    Key("fetch_ms", "ms", "fetch phase; 0 as the query asks for no hits"),
)
AFTER = Key("pass", "", "pass over the headline cells that went before; 0 for none", optional=True)
OF_CPU = (
    ROUND,
    *OF_COVERAGE,
    Key("started_s", "s", "when its window began, since 1970"),
    Key("window_ms", "ms", "what CPU time is counted over: the coverage, and decoding its responses", optional=True),
    Key(
        "target_cpu_ms",
        "ms",
        "CPU time of the target's nodes in the window, by the clocks of their processes",
        optional=True,
    ),
)


def with_profiler(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Keys that samples have where the profiler was on."""
    return tuple(Key(key.name, key.unit, f"{key.text}; with the profiler only", optional=True) for key in keys)


def aggregations(names: Iterable[str]) -> tuple[Key, ...]:
    """The times of these aggregations."""
    return tuple(Key(f"{n}_{part}_ms", "ms", f"{part} of {n}") for n in names for part in AGGREGATION_PARTS)


PROFILED_COVERAGE = Sample(
    query_profile.COVERAGE,
    "coverage with the profiler (profile-on) or without (profile-off)",
    (
        ROUND,
        EPOCH,
        SEARCHES,
        *TIMES,
        *BODIES,
        DOCS,
        SEGMENTS,
        ERROR,
        Key("parse_ms", "ms", "decoding the responses, after the clock has stopped", optional=True),
        *with_profiler((*TREE, *aggregations(query_profile.KINDS.values()))),
    ),
)
