"""The ingest challenges: where the time of a load goes, and what each change to client, request and format buys."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from ..core.challenge import Challenge, Compared, Key, Operation, Sample, Values
from ..core.index import CHECK_INDEX, CHECK_TARGET, SETUP
from ..core.limits import corpus_in_memory, said
from ..core.monitor import LOOK
from ..core.parameters import FOREIGN, LOAD, RACE_MINUTES, SHARDS, WARMUP, Choice, Flag, Integer, Many, Text
from ..core.sampler import NONE, OF_ROUND, SAMPLER
from ..corpus.encoded import ENCODINGS
from ..corpus.metrics import BYTES, NAME, Metrics
from . import cell, load
from .account import ACCOUNT, IngestBegin, IngestEpoch
from .ingest_decomp import SAMPLED, IngestDecompParams, IngestDecompRunner
from .ingest_formats import BASE, CORPORA, ENCODING, IngestFormatsParams, IngestFormatsRunner
from .samples import BYTES_IN, BYTES_OUT, CELL, COUNTED, ENCODED, PARSE, RETRIES, SEND, TOOK, WHICH
from .steps import DESIGNS, NAIVE, STEP_NAMES, clients
from .weblogs import WebLogs

CORPUS = (*Metrics.parameters.values(), BYTES)
LOADED = (
    *SETUP,
    CHECK_INDEX,
    LOOK,
    Operation(
        "ingest-begin",
        IngestBegin,
        samples=(
            Sample(
                "ingest-begin",
                "race",
                (
                    Key("merge_ms", "ms", "merges of all other indices since their shards were opened"),
                    Key("merge_throttle_ms", "ms", "time that these were throttled"),
                    Key("index_ms", "ms", "their indexing"),
                    Key("refresh_ms", "ms", "their refreshes"),
                    Key("flush_ms", "ms", "their flushes"),
                    Key("merges_current", "", "merges under way"),
                    Key("index_current", "", "indexing requests under way"),
                ),
            ),
        ),
    ),
    Operation(
        load.BULK,
        load.IngestBulk,
        load.IngestParams,
        samples=(
            Sample(
                load.BULK,
                "bulk request",
                (
                    WHICH,
                    Key("client", "", "client, counted from 0"),
                    Key("success-count", "documents", "documents acknowledged"),
                    TOOK,
                    SEND,
                    PARSE,
                    Key("encode_ms", "ms", "compressing the body"),
                    BYTES_OUT,
                    BYTES_IN,
                    *RETRIES,
                ),
                partly="success-count",
            ),
        ),
        scheduler=load.IngestPace,
    ),
    Operation(
        load.EPOCH,
        IngestEpoch,
        samples=(
            Sample(
                load.EPOCH,
                "load",
                (
                    WHICH,
                    Key("round", "", "the epoch, or the first of them"),
                    Key("clients", "clients", "clients of the load"),
                    Key("wall_ms", "ms", "wall time of an epoch's load: first request sent to last one answered"),
                    Key("clients_ms", "ms", "the same of each client, summed over the clients", optional=True),
                    Key("sent", "documents", "documents sent"),
                    Key("acknowledged", "documents", "documents acknowledged"),
                    Key("found", "documents", "documents found after the refresh"),
                    Key("requests", "requests", "bulk requests, repeated ones included"),
                    *RETRIES,
                    Key("took_ms", "ms", "`took` over its bulk requests"),
                    SEND,
                    PARSE,
                    BYTES_OUT,
                    BYTES_IN,
                    *COUNTED,
                    Key("store_bytes", "bytes", "size of the primary shards"),
                    Key("segments", "segments", "segments of the primary shards"),
                    Key("translog_bytes", "bytes", "size of the translog"),
                    Key("translog_uncommitted_bytes", "bytes", "of it not yet flushed"),
                ),
            ),
        ),
    ),
)
BACKOFF = (
    Integer(
        "bulk_retries",
        "How often documents of a bulk request that a full queue rejected (status 429) are sent again, they alone; not "
        "with bulk_runner native.",
        "times",
        low=0,
        high=20,
    ),
    Integer(
        "bulk_retry_pause_ms",
        "Pause before the first of these; it doubles with each further one.",
        "ms",
        low=1,
        high=60_000,
    ),
)
ENCODINGS_OF_LOAD = (
    Choice(
        "bulk_runner",
        "What sends the load of the ingest challenges: slices of files encoded beforehand, or Rally's own bulk.",
        choices=("slices", "native"),
    ),
    Choice(
        "bulk_response",
        "What Elasticsearch returns: of each document, or of errors alone. With bulk_runner native it is full.",
        choices=("filtered", "full"),
    ),
    Flag("compress_requests", "Compress bulk bodies with gzip; not with bulk_runner native."),
    Text(
        "ingest_pipeline",
        "Ingest pipeline of the target that documents go through; default leaves it to the index.",
        pattern=r"\w[\w.-]{0,99}",
        form="default, _none, or the name of a pipeline: ASCII letters, digits, _ . -",
    ),
    Integer("ingest_percentage", "How much of each epoch the ingest challenges load.", "%", low=1, high=100),
    Integer(
        "target_docs_per_second",
        "Rate that the cluster should reach; 0 for none.",
        "documents/s",
        low=0,
        high=1_000_000_000,
    ),
    Integer(
        "target_gb_per_day",
        "The same as bytes of JSON rows, in units of 10^9; 0 for none.",
        "GB/day",
        low=0,
        high=10**6,
    ),
    Integer(
        "spike_docs_per_second",
        "Rate that the cluster should reach for spike_minutes; 0 for no spike.",
        "documents/s",
        low=0,
        high=1_000_000_000,
    ),
    Integer("spike_minutes", "How long a spike lasts.", "minutes", low=0, high=1440),
    Flag("paced", "Load at the target's rate, with its spike, instead of as fast as possible."),
)
INGEST_ROUNDS = Integer(
    "ingest_rounds",
    "Rounds of ingest-decomp and ingest-formats instead of `rounds`: one may take more than a minute.",
    "rounds",
    True,
    low=1,
    high=10_000,
)
COLD = said("Nothing is warmed up: the first load meets a new index, and after a start code that is not compiled yet.")
SHORT = said(
    "Each cell ingests into a fresh index and is short, so it sees few refreshes and merges; a long ingest sees more."
)


def _load_fits(values: Values) -> Iterator[str]:
    """Parameters of a load that do not go together."""
    v = values
    native = v["bulk_runner"] == "native"
    target, spike = v["target_docs_per_second"] or v["target_gb_per_day"], bool(v["spike_docs_per_second"])
    both = bool(v["target_docs_per_second"] and v["target_gb_per_day"])
    none = "without target_docs_per_second or target_gb_per_day"
    for refused, name, allowed in (
        (bool(v["corpus_bytes"] and v["rows_per_epoch"]), "corpus_bytes", "0 when rows_per_epoch is given"),
        (
            native and v["bulk_response"] != "full",
            "bulk_response",
            "full with bulk_runner native, which cannot filter",
        ),
        (
            native and v["compress_requests"],
            "compress_requests",
            "false with bulk_runner native; use the client option http_compress",
        ),
        (v["index_mode"] != "standard" and not v["timestamps"], "index_mode", "standard without timestamps"),
        (both, "target_gb_per_day", "0 when target_docs_per_second is given"),
        (v["paced"] and not target, "paced", f"false {none}"),
        (spike and not target, "spike_docs_per_second", f"0 {none}"),
        (spike != bool(v["spike_minutes"]), "spike_minutes", "1 or more with spike_docs_per_second, and 0 without"),
    ):
        if refused:
            yield f"track parameter [{name}] is [{v[name]}], allowed is {allowed}"
    if v["paced"] and v["spike_minutes"]:
        pace, corpus = load.pace_of(v), Metrics.of(v, False)
        needed = pace["spike_seconds"] * (pace["docs_per_second"] + pace["spike_docs_per_second"])
        rows = corpus.rows_per_epoch * corpus.epochs * v["ingest_percentage"] // 100
        if rows < needed:
            yield (
                f"track parameter [spike_minutes] is [{v['spike_minutes']}], for which the load needs {needed:,.0f} "
                f"documents but has {rows:,}: the spike begins when the load has been steady for as long"
            )


def _at_most_an_epoch(*names: str) -> Any:
    """Cells ingest rows of one epoch."""
    return lambda values: {name: min(values[name], values["rows_per_epoch"]) for name in names}


def _formats(values: Values) -> dict[str, Any]:
    """json is always among the formats."""
    return {"formats": list(dict.fromkeys([BASE, *values["formats"]]))}


def _of_load(values: Values) -> list[str]:
    return ["json"] if values["bulk_runner"] == "slices" else []


INGEST = Challenge(
    name="ingest",
    question="Where does the time of the ingest go, epoch by epoch?",
    corpora=(Metrics,),
    operations=LOADED,
    parameters=(*CORPUS, *LOAD, *ENCODINGS_OF_LOAD, *BACKOFF),
    compared=Compared(load.EPOCH, ("wall_ms", "took_ms", "target_cpu_ms"), load.EPOCH, "epochs", alone=True),
    minutes=4,
    disk_factor=5,
    limits=(COLD, corpus_in_memory),
    leaves=(NAME,),
    drops=(ACCOUNT,),
    check=_load_fits,
    encodings=_of_load,
    lay_out=partial(load.lay_out_epochs, each=True),
)
APPEND = Challenge(
    name="append-no-conflicts-index-only",
    question="Does the cluster take a given load, and with what headroom?",
    corpora=(Metrics,),
    operations=LOADED,
    parameters=INGEST.parameters,
    compared=INGEST.compared,
    minutes=4,
    disk_factor=5,
    limits=(COLD, corpus_in_memory),
    leaves=(NAME,),
    drops=(ACCOUNT,),
    encodings=_of_load,
    lay_out=partial(load.lay_out_epochs, each=False),
)


def _sampled_are_raced(values: Values) -> Iterator[str]:
    """Cells to be sampled that a race leaves out."""
    timestamps, sampled = values["timestamps"], values["sampled_cells"]
    raced = clients(values["design"], True, timestamps, values["ingest_steps"])
    if values[SAMPLER.name] != NONE and not set(sampled) <= set(raced):
        given = "these ingest_steps and timestamps:" + str(timestamps).lower()
        yield f"track parameter [sampled_cells] is {sampled}, allowed with {given} is {', '.join(raced)}"


INGEST_DECOMP = Challenge(
    name="ingest-decomp",
    question="What does each change to an ingesting client buy?",
    corpora=(Metrics,),
    operations=(
        CHECK_TARGET,
        LOOK,
        Operation(
            "ingest-decomp",
            IngestDecompRunner,
            IngestDecompParams,
            samples=(
                Sample(
                    "ingest-decomp",
                    "round",
                    (Key("round", "", "round; those up to 0 warm up"), *OF_ROUND),
                    partly="round",
                ),
                Sample(cell.SAMPLE, "cell and round", CELL, csv="es_profile_ingest_decomp.csv"),
                Sample(SAMPLED, "cell and round while the sampler recorded", CELL, csv="es_profile_ingest_cpu.csv"),
            ),
            rounds="ingest_rounds",
        ),
    ),
    parameters=(
        *CORPUS,
        *SHARDS,
        FOREIGN,
        *BACKOFF,
        Choice(
            "design",
            "How ingest-decomp takes its steps: each on top of those before, or each on top of the naive client.",
            choices=DESIGNS,
        ),
        Many(
            "ingest_steps",
            "Steps of ingest-decomp that are raced, each beside the cell that it is held against and the naive client; "
            "the others are taken with design cumulative, and not raced. Cells that are no steps take all of them.",
            "",
            True,
            choices=STEP_NAMES,
        ),
        Integer(
            "cell_rows",
            "Rows that one client of a cell of ingest-decomp ingests in each round, as does each of several that send "
            "slices; at most those of an epoch in all.",
            "documents",
            low=1,
            high=10_000_000,
        ),
        SAMPLER,
        Many(
            "sampled_cells",
            "Cells of ingest-decomp that run once more in each round while the sampler records.",
            "",
            True,
            choices=(NAIVE, *STEP_NAMES),
        ),
        WARMUP,
        RACE_MINUTES,
        INGEST_ROUNDS,
    ),
    compared=Compared(
        cell.SAMPLE,
        ("wall_ms", "target_cpu_ms"),
        NAIVE,
        "ingest_rounds",
        derived=(
            Key("wall_ms", "s", "wall time per million rows"),
            Key("target_cpu_ms", "s", "CPU time of the target per million rows"),
        ),
    ),
    minutes=36,
    disk_factor=4,
    test_mode={"ingest_rounds": 2, "warmup_iterations": 1},
    limits=(SHORT,),
    drops=(cell.INDEX,),
    check=_sampled_are_raced,
    derived=_at_most_an_epoch("cell_rows"),
    encodings=lambda values: ["json", "smile-32"],
)
INGEST_FORMATS = Challenge(
    name="ingest-formats",
    question="Which bulk size and how many clients? What does SMILE buy over JSON?",
    corpora=(Metrics, WebLogs),
    operations=(
        CHECK_TARGET,
        LOOK,
        Operation(
            "ingest-formats",
            IngestFormatsRunner,
            IngestFormatsParams,
            samples=(
                Sample("ingest-formats", "round", (Key("round", "", "round; those up to 0 warm up"),)),
                Sample(
                    cell.SAMPLE,
                    "cell and round",
                    (
                        Key("corpus", "", "metrics, weblogs or batches"),
                        Key("encoding", "", "wire format"),
                        Key("lines", "lines", "lines of the web log in a document; 0 for rows", optional=True),
                        *CELL,
                        Key("read_ms", "ms", "reading the source of up to 10,000 documents as JSON", optional=True),
                    ),
                    csv="es_profile_ingest_formats.csv",
                ),
                Sample(ENCODING, "encoder and round", ENCODED, csv="es_profile_encoders.csv"),
            ),
            rounds="ingest_rounds",
        ),
    ),
    parameters=(
        *CORPUS,
        *SHARDS,
        FOREIGN,
        *BACKOFF,
        Many("format_corpora", "What ingest-formats ingests.", "", True, choices=CORPORA),
        Many(
            "formats",
            "Wire formats of ingest-formats; json is always among them.",
            "",
            True,
            choices=tuple(ENCODINGS),
        ),
        Many("bulk_sizes", "Documents of one bulk request of ingest-formats.", "documents", True, low=1, high=10**6),
        Many(
            "client_counts",
            "Concurrent clients of ingest-formats; 0 is as many as the load driver has cores.",
            "clients",
            True,
            low=0,
            high=256,
        ),
        Integer(
            "format_rows",
            "Rows that each cell of ingest-formats ingests at least, half as many of the web log.",
            "documents",
            low=4,
            high=10_000_000,
        ),
        Integer(
            "cell_requests",
            "Requests that each cell of ingest-formats sends at least, as far as there are documents.",
            "requests",
            low=1,
            high=100_000,
        ),
        *WebLogs.parameters.values(),
        WARMUP,
        RACE_MINUTES,
        INGEST_ROUNDS,
    ),
    compared=Compared(
        cell.SAMPLE, ("wall_ms", "target_cpu_ms", "client_cpu_ms"), f"metrics-{BASE}-1000-by-1", "ingest_rounds"
    ),
    minutes=48,
    disk_factor=4,
    test_mode={"ingest_rounds": 2, "warmup_iterations": 1},
    limits=(SHORT,),
    drops=(cell.INDEX,),
    derived=lambda values: _formats(values) | _at_most_an_epoch("format_rows")(values),
    encodings=lambda values: _formats(values)["formats"],
)
CHALLENGES = (INGEST, APPEND, INGEST_DECOMP, INGEST_FORMATS)
