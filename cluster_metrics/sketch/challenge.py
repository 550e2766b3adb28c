"""The sketch challenge: the floor under both halves of the workload."""

from ..core.challenge import Challenge, Compared, Key, Needs, Operation, Sample
from ..core.index import CHECK_INDEX, MERGING
from ..core.limits import corpus_in_memory, segments, shards_of_searches, warm
from ..core.parameters import BULK_SIZE, FOREIGN, PORT, PORT_WORDS, ROUNDS, SEGMENTS, SHARDS, WARMUP, Text
from ..corpus.metrics import BYTES, NAME, Metrics
from ..wire import coverage
from .sketch_floor import (
    BEST,
    INGESTED,
    INGESTS,
    FloorIngestParams,
    FloorIngestRunner,
    FloorQuestionsParams,
    FloorQuestionsRunner,
    index_of,
)

ROUND = Key("round", "", "round; those up to 0 warm up")
CHALLENGES = (
    Challenge(
        name="sketch-floor",
        question="How fast could it be, and what is the gap made of?",
        corpora=(Metrics,),
        operations=(
            CHECK_INDEX,
            *MERGING,
            Operation(
                "sketch-ingest",
                FloorIngestRunner,
                FloorIngestParams,
                creates=True,
                samples=(
                    Sample("sketch-ingest", "round", (ROUND,)),
                    Sample(
                        INGESTED,
                        "way to hand in rows and round",
                        (
                            ROUND,
                            Key("rows", "documents", "rows handed in"),
                            Key("requests", "requests", "HTTP requests"),
                            Key("retries", "requests", "requests repeated because Elasticsearch had no room"),
                            Key("bytes_out", "bytes", "bodies of requests"),
                            Key("bytes_in", "bytes", "bodies of responses"),
                            Key("wall_ms", "ms", "encoding, sending, waiting and decoding for the rows of a round"),
                            Key("encode_ms", "ms", "encoding"),
                            Key("send_ms", "ms", "start of sending to end of the response"),
                            Key("parse_ms", "ms", "decoding the response"),
                            Key("client_cpu_ms", "ms", "CPU time of the load driver meanwhile"),
                            Key("took_ms", "ms", "`took`; not of the sketch server", optional=True),
                            Key("index_ms", "ms", "growth of the index's own statistics: indexing", optional=True),
                            Key("refresh_ms", "ms", "refreshes, what ran afterwards included", optional=True),
                            Key("merge_ms", "ms", "merges, what ran afterwards included", optional=True),
                            Key("flush_ms", "ms", "flushes, what ran afterwards included", optional=True),
                            Key("settle_ms", "ms", "refresh and waiting for merges, afterwards", optional=True),
                            Key("success-count", "documents", "rows acknowledged"),
                        ),
                        csv="es_profile_sketch_floor.csv",
                    ),
                ),
                rounds="rounds",
            ),
            Operation(
                "sketch-questions",
                FloorQuestionsRunner,
                FloorQuestionsParams,
                samples=(
                    Sample("sketch-questions", "round", (ROUND,)),
                    Sample(
                        coverage.TYPE,
                        "way to ask and round",
                        (
                            ROUND,
                            Key("epoch", "", "epoch asked about"),
                            Key("searches", "searches", "requests of the coverage, or searches of its msearch"),
                            Key("wall_ms", "ms", "first byte sent to last byte received"),
                            Key("response_bytes", "bytes", "bodies of responses"),
                            Key("max_percentile_error", "", "greatest relative error of p50 and p90"),
                            Key("took_ms", "ms", "`took` over its searches; not of the sketch server", optional=True),
                            Key("parallelism", "", "took_ms over wall_ms", optional=True),
                            Key("request_bytes", "bytes", "bodies of requests", optional=True),
                            Key("client_ms", "ms", "CPU time that the load driver used meanwhile", optional=True),
                            Key("docs_matched", "documents", "documents asked about", optional=True),
                        ),
                    ),
                ),
                rounds="rounds",
            ),
        ),
        parameters=(
            *Metrics.parameters.values(),
            BYTES,
            *SHARDS,
            BULK_SIZE,
            SEGMENTS,
            FOREIGN,
            WARMUP,
            ROUNDS,
            Text(
                "sketch_server",
                "The sketch server of sketch-floor; `make race` starts one unless this is set.",
                pattern=rf"[\w.-]+:{PORT}",
                form=f"host:port, {PORT_WORDS}",
            ),
        ),
        compared=Compared(INGESTED, ("wall_ms", "client_cpu_ms", "took_ms"), "elasticsearch-full", "rounds"),
        minutes=16,
        disk_factor=6,
        needs=Needs(sketch_server=True),
        test_mode={"rounds": 2, "warmup_iterations": 1},
        limits=(shards_of_searches, segments, warm("round"), corpus_in_memory),
        leaves=(NAME,),
        drops=tuple(index_of(name) for name, way in INGESTS.items() if way.elasticsearch and name != BEST),
        encodings=lambda values: ["json"],
        asks_as="cluster-metrics-query",
    ),
)
