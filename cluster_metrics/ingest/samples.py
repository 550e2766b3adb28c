"""The figures that samples of the ingest challenges carry, with their units."""

from ..core.challenge import Key

WHICH = Key("epoch", "", "epoch that was loaded; 0 where a load has all of them")
RETRIES = (
    Key("retries", "requests", "requests repeated, as a whole or in part, after status 429"),
    Key("repeated_docs", "documents", "documents sent again by these", optional=True),
    Key("retry_wait_ms", "ms", "pauses before these, summed over clients", optional=True),
)
TOOK = Key("took", "ms", "`took`; its resolution is that of the node's clock")
BYTES_OUT = Key("bytes_out", "bytes", "bodies as sent")
BYTES_IN = Key("bytes_in", "bytes", "bodies as received; 0 with Rally's own runner, which does not tell")
SEND = Key("send_ms", "ms", "start of sending to end of the response, retries included, pauses before them not")
PARSE = Key("parse_ms", "ms", "decoding the response; with Rally's own runner within send_ms")
INDEXED = (
    Key("index_ms", "ms", "indexing, as the index counts it"),
    Key("refresh_ms", "ms", "refreshes, as the index counts them"),
    Key("merge_ms", "ms", "merges, as the index counts them"),
    Key("flush_ms", "ms", "flushes, as the index counts them"),
)
COUNTED = (
    *INDEXED,
    Key("index_docs", "documents", "documents indexed, replicas included"),
    Key("index_failed", "documents", "documents that failed"),
    Key("index_throttle_ms", "ms", "time that indexing was throttled"),
    Key("refreshes", "", "refreshes"),
    Key("merges", "", "merges"),
    Key("merge_bytes", "bytes", "bytes merged"),
    Key("merge_throttle_ms", "ms", "time that merges were throttled"),
    Key("flushes", "", "flushes"),
    Key("foreign_docs", "documents", "documents indexed into other indices"),
    Key("target_cpu_ms", "ms", "CPU time of all nodes"),
    Key("gc_young_ms", "ms", "young garbage collections"),
    Key("gc_young", "", "their number"),
    Key("gc_old_ms", "ms", "old garbage collections"),
    Key("gc_old", "", "their number"),
)
"""What the target counts by itself; a load records the growth since the load before, or since ingest-begin."""
CELL = (
    Key("round", "", "round; those up to 0 warm up"),
    Key("cell", "", "way to ingest"),
    Key("clients", "clients", "clients, coroutines of one process"),
    Key("bulk_size", "documents", "documents of a request"),
    Key("rows", "documents", "documents ingested"),
    Key("rows_per_second", "documents/s", "these by the wall time"),
    Key("wall_ms", "ms", "wall time of a cell: before the first body is made to after the last response is parsed"),
    Key("encode_ms", "ms", "making bodies, summed over requests"),
    Key("parse_ms", "ms", "decoding responses, summed over requests"),
    Key("send_ms", "ms", "sending and waiting, summed over requests"),
    Key("took_ms", "ms", "`took`, summed over requests"),
    Key("least_took_ms", "ms", "shortest `took` above 0, which tells how finely it is resolved; 0 when there was none"),
    Key("bytes_out", "bytes", "bodies of requests"),
    Key("bytes_in", "bytes", "bodies of responses"),
    Key("requests", "requests", "HTTP requests"),
    *RETRIES,
    Key("connections", "connections", "connections that the nodes accepted, one of them to ask for their number"),
    Key("client_cpu_ms", "ms", "CPU time of the load driver for a cell"),
    Key("target_cpu_ms", "ms", "CPU time of the target for a cell, the refresh at its end included"),
    Key("started_s", "s", "when the window of that CPU time began, since 1970", optional=True),
    Key("window_ms", "ms", "how long it was: with the pause until the node has read its clock again", optional=True),
    *INDEXED,
    Key("refresh_wall_ms", "ms", "wall time of the refresh at its end"),
    Key("store_bytes", "bytes", "primary shards after it, their segments not merged", optional=True),
    Key("segments", "segments", "segments of these", optional=True),
    Key("asks_ms", "ms", "counting the documents of each node in the epoch after it, one by one", optional=True),
    Key("gc_ms", "ms", "garbage collections of the nodes that stop all else, while it sends"),
    Key("gc_count", "", "their number"),
    Key("success-count", "documents", "documents acknowledged"),
)
ENCODED = (
    Key("round", "", "round; those up to 0 warm up"),
    Key("corpus", "", "metrics or weblogs"),
    Key("encoder", "", "what encoded"),
    Key("documents", "documents", "documents encoded, with their actions"),
    Key("client_cpu_ms", "ms", "CPU time of the load driver"),
    Key("bytes", "bytes", "what came out"),
)
