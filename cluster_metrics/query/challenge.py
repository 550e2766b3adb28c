"""The query challenges: what the production question costs, and what each change to it buys."""

from collections.abc import Iterator
from typing import Any

from ..core.challenge import Challenge, Compared, Key, Needs, Operation, Sample, Values
from ..core.index import BULK, CHECK_INDEX, SETUP
from ..core.limits import corpus_in_memory, counted, segments, shards_of_searches, warm, warmed
from ..core.parameters import LOAD, PASSES, RACE_MINUTES, ROUNDS, WARMUP, Integer, Many
from ..core.sampler import OF_ROUND, SAMPLER
from ..corpus.metrics import BYTES, NAME, Metrics
from ..wire import coverage
from ..wire.questions import TRANSPORTS
from . import cpu_profile, query_frontier, query_profile
from .cache import QUERY_CACHE
from .configurations import BASE, CONFIGURATIONS, LAYOUTS, PROFILED, TIMED, VARIANTS
from .layouts import BuildLayouts, DropLayouts, LayoutsParams
from .query_decomp import PART, CellParams, CellRunner, PlanParams, PlanRunner, WarmUpParams, WarmUpRunner
from .samples import (
    AFTER,
    BODIES,
    CELL,
    CLIENT,
    DOCS,
    EPOCH,
    OF_CPU,
    PROFILED_COVERAGE,
    ROUND,
    SEARCHES,
    SEGMENTS,
    TIMES,
    TREE,
    aggregations,
    with_profiler,
)

CORPUS = (*Metrics.parameters.values(), BYTES)


def _production_first(values: Values) -> dict[str, Any]:
    """production is always among the configurations; of all of them those are left out that take timestamps, where
    rows have none."""
    found = [name for name in values["configurations"] if values["timestamps"] or name not in TIMED]
    return {"configurations": found if BASE in found else [BASE, *found]}


def _timed(values: Values) -> Iterator[str]:
    """Index modes take timestamps."""
    named = values["configurations"]
    if not values["timestamps"] and len(named) < len(CONFIGURATIONS) and (timed := set(named) & set(TIMED)):
        yield (
            f"track parameter [configurations] has [{min(timed)}], whose rows must have timestamps; set the track "
            "parameter [timestamps] to true, too"
        )


def _warm(facts: Any) -> str:
    """The limit of query-decomp, which has a task of its own that warms up."""
    if (rounds := facts.get("warmup_rounds")) and not facts.get("warmup_iterations"):
        return warmed(f"up to {counted(rounds, 'round')} ran uncounted at first")
    return warm("coverage", " of each cell in each pass")(facts)


def _shards(facts: Any) -> str:
    """The limit of query-frontier, which may ask indices with more shards beside the main one."""
    asked = any(name.startswith("shards-") for name in facts.get("configurations", ()))
    return "" if asked else shards_of_searches(facts)


QUERY_DECOMP = Challenge(
    name="query-decomp",
    question="Where does the time of the production query go, and what do msearch and HDR buy?",
    corpora=(Metrics,),
    operations=(
        *SETUP,
        BULK,
        CHECK_INDEX,
        Operation(
            "query-warm-up",
            WarmUpRunner,
            WarmUpParams,
            samples=(
                Sample(
                    "query-warm-up",
                    "race",
                    (
                        Key("rounds", "rounds", "rounds walked until every configuration was steady, or all allowed"),
                        Key("unsteady", "", "configurations that were not steady then, a list"),
                    ),
                    partly="rounds",
                ),
            ),
        ),
        Operation(
            "query-cell",
            CellRunner,
            CellParams,
            samples=(
                Sample(
                    "query-cell",
                    "coverage of a headline cell",
                    (
                        Key("pass", "", "pass over the headline cells"),
                        *CELL,
                        Key(
                            "target_cpu_ms",
                            "ms",
                            "CPU time of the target's nodes over the pass, on its last sample",
                            optional=True,
                        ),
                    ),
                    csv="es_profile_decomp.csv",
                ),
            ),
            cell=True,
        ),
        Operation(
            "query-plan",
            PlanRunner,
            PlanParams,
            samples=(
                Sample(
                    "query-plan",
                    "round",
                    (
                        ROUND,
                        AFTER,
                        SEGMENTS,
                        *QUERY_CACHE,
                        Key("target_cpu_ms", "ms", "CPU time of the target's nodes since the end of the round before"),
                    ),
                    partly="round",
                ),
                Sample(coverage.TYPE, "coverage of the plan", (ROUND, AFTER, *CELL), csv="es_profile_decomp.csv"),
                Sample(PART, "coverage of a part, in the plan", (ROUND, AFTER, *CELL), csv="es_profile_decomp.csv"),
            ),
            rounds="rounds",
        ),
    ),
    parameters=(
        *CORPUS,
        *LOAD,
        Many("variants", "Query variants to run.", "", True, choices=tuple(VARIANTS)),
        Many("transports", "Transports to run them by.", "", True, choices=TRANSPORTS),
        Integer(
            "max_concurrent_searches",
            "Searches of one msearch that Elasticsearch runs at a time; 0 leaves it to Elasticsearch.",
            "searches",
            low=0,
            high=10_000,
        ),
        Integer(
            "warmup_rounds",
            "Most rounds of the plan that go before all passes uncounted; they end once every configuration is steady.",
            "rounds",
            True,
            low=1,
            high=1000,
        ),
        WARMUP,
        RACE_MINUTES,
        PASSES,
        ROUNDS,
    ),
    compared=Compared(coverage.TYPE, ("wall_ms", "took_ms"), "D_td-serial", "rounds"),
    minutes=22,
    disk_factor=4,
    test_mode={"passes": 2, "rounds": 2, "warmup_rounds": 1, "warmup_iterations": 1},
    limits=(shards_of_searches, segments, _warm, corpus_in_memory),
    leaves=(NAME,),
    asks_as="cluster-metrics-query",
)
BUILD_LAYOUTS = Operation(
    "build-layouts",
    BuildLayouts,
    LayoutsParams,
    samples=(
        Sample(
            "build-layouts",
            "race",
            (
                Key("layouts", "indices", "further indices that were built"),
                Key(
                    "rollup_cpu_s",
                    "s",
                    "CPU time of this client to decode the rows and compute the rollup, per million rows",
                    optional=True,
                ),
                Key("rollup_bulk_ms", "ms", "wall time to index the rollup", optional=True),
            ),
        ),
    ),
)
DROP_LAYOUTS = Operation("drop-layouts", DropLayouts, LayoutsParams)
QUERY_PROFILE = Challenge(
    name="query-profile",
    question="What does Elasticsearch's profiler see of the production query, and what does the profiler itself cost?",
    corpora=(Metrics,),
    operations=(
        *SETUP,
        BULK,
        CHECK_INDEX,
        Operation(
            "query-profile",
            query_profile.ProfileRunner,
            query_profile.ProfileParams,
            samples=(
                Sample("query-profile", "round", (ROUND, SEGMENTS, *QUERY_CACHE), partly="round"),
                PROFILED_COVERAGE,
                Sample(
                    query_profile.CALL,
                    "search with the profiler (profile-on-call) or without (profile-off-call)",
                    (
                        ROUND,
                        EPOCH,
                        Key("asked_node", "", "node asked about"),
                        Key("took_ms", "ms", "`took` of the search"),
                        Key("wall_ms", "ms", "first byte sent to last byte received"),
                        Key("parse_ms", "ms", "decoding the response, after the clock has stopped"),
                        *BODIES,
                        DOCS,
                        SEGMENTS,
                        *with_profiler((*TREE, *aggregations(query_profile.aggregation_kinds()))),
                    ),
                ),
            ),
            rounds="rounds",
        ),
    ),
    parameters=(*CORPUS, *LOAD, WARMUP, RACE_MINUTES, ROUNDS),
    compared=Compared(query_profile.COVERAGE, ("wall_ms", "took_ms"), query_profile.OFF, "rounds"),
    minutes=5,
    disk_factor=4,
    test_mode={"rounds": 2, "warmup_iterations": 1},
    limits=(shards_of_searches, segments, warm("round"), corpus_in_memory),
    leaves=(NAME,),
    asks_as="cluster-metrics-query",
)
QUERY_FRONTIER = Challenge(
    name="query-frontier",
    question=f"Which of {len(CONFIGURATIONS) - len(TIMED)} ways to ask is fastest within an error bound?",
    corpora=(Metrics,),
    operations=(
        *SETUP,
        BULK,
        CHECK_INDEX,
        BUILD_LAYOUTS,
        Operation(
            "frontier",
            query_frontier.FrontierRunner,
            query_frontier.FrontierParams,
            samples=(
                Sample(
                    "frontier",
                    "round",
                    (
                        ROUND,
                        *QUERY_CACHE,
                        Key("left_out", "", "configuration that was not asked, and why", optional=True),
                    ),
                    partly="round",
                ),
                Sample(
                    query_frontier.COVERAGE,
                    "configuration and round",
                    (
                        Key("configuration", "", "how it was asked"),
                        ROUND,
                        EPOCH,
                        SEARCHES,
                        *TIMES,
                        *BODIES,
                        CLIENT,
                        Key("percentile_error", "", "greatest relative error of p50 and p90"),
                        Key("extreme_error", "", "greatest relative error of p0 and p100"),
                        Key("sum_error", "", "greatest relative error of the sums"),
                    ),
                    csv="es_profile_frontier.csv",
                ),
            ),
            rounds="rounds",
        ),
        Operation(
            "frontier-cpu",
            query_frontier.FrontierCpuRunner,
            query_frontier.FrontierCpuParams,
            samples=(
                Sample(
                    "frontier-cpu",
                    "configuration",
                    (
                        Key("configuration", "", "how it was asked"),
                        Key("coverages", "coverages", "coverages asked meanwhile; 0 where there is no ES|QL"),
                        Key("target_cpu_ms", "ms", "CPU time of the target per coverage", optional=True),
                    ),
                ),
            ),
        ),
        DROP_LAYOUTS,
    ),
    parameters=(
        *CORPUS,
        *LOAD,
        Many(
            "configurations",
            "Configurations of query-frontier to run; production is always among them.",
            "",
            True,
            choices=tuple(CONFIGURATIONS),
        ),
        Integer(
            "max_error_permille",
            "Greatest relative error of p50 and p90 that the advice of query-frontier may have.",
            "‰",
            True,
            low=0,
            high=1000,
        ),
        Integer(
            "frontier_cpu_seconds",
            "How long query-frontier runs each configuration by itself for its CPU time, of which nodes take a sample "
            "once a second.",
            "s",
            low=1,
            high=3600,
        ),
        WARMUP,
        RACE_MINUTES,
        ROUNDS,
    ),
    compared=Compared(query_frontier.COVERAGE, ("wall_ms", "took_ms", "percentile_error"), BASE, "rounds"),
    minutes=42,
    disk_factor=13,
    test_mode={"rounds": 2, "warmup_iterations": 1, "frontier_cpu_seconds": 1},
    limits=(_shards, segments, warm("round"), corpus_in_memory),
    leaves=(NAME,),
    drops=tuple(f"{NAME}-{layout}" for layout in LAYOUTS),
    check=_timed,
    derived=_production_first,
    asks_as="cluster-metrics-query",
)
CPU_PROFILE = Challenge(
    name="cpu-profile",
    question="In which methods does the production query spend its CPU time, and what does HDR spare?",
    corpora=(Metrics,),
    operations=(
        *SETUP,
        BULK,
        CHECK_INDEX,
        BUILD_LAYOUTS,
        Operation(
            "cpu-profile",
            cpu_profile.CpuProfileRunner,
            cpu_profile.CpuProfileParams,
            samples=(
                Sample(
                    "cpu-profile",
                    "round",
                    (
                        ROUND,
                        SEGMENTS,
                        *QUERY_CACHE,
                        *OF_ROUND,
                    ),
                    partly="round",
                ),
                Sample(
                    cpu_profile.SAMPLED,
                    "coverage while the sampler recorded",
                    OF_CPU,
                    csv="es_profile_cpu.csv",
                ),
                Sample(
                    cpu_profile.PLAIN,
                    "coverage without the sampler",
                    OF_CPU,
                    csv="es_profile_cpu.csv",
                ),
                PROFILED_COVERAGE,
            ),
            rounds="rounds",
        ),
        DROP_LAYOUTS,
    ),
    parameters=(
        *CORPUS,
        *LOAD,
        Many(
            "profiled",
            "Configurations of cpu-profile to run: cells of query-decomp; `+cached` has the query cache on and filled.",
            "",
            True,
            choices=tuple(PROFILED),
        ),
        SAMPLER,
        WARMUP,
        RACE_MINUTES,
        ROUNDS,
    ),
    compared=Compared(cpu_profile.PLAIN, ("wall_ms", "took_ms", "target_cpu_ms"), "D_td-serial", "rounds"),
    minutes=15,
    disk_factor=6,
    needs=Needs(sampler=True),
    test_mode={"rounds": 2, "warmup_iterations": 1},
    limits=(shards_of_searches, segments, warm("round"), corpus_in_memory),
    leaves=(NAME,),
    drops=tuple(f"{NAME}-{layout}" for layout in dict.fromkeys(c.layout for c in PROFILED.values()) if layout),
)
CHALLENGES = (QUERY_DECOMP, QUERY_PROFILE, QUERY_FRONTIER, CPU_PROFILE)
