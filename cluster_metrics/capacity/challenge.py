"""The capacity challenges: what shards and replicas do to throughput, and how large a cluster must be."""

from dataclasses import replace
from functools import partial

from ..core.challenge import Challenge, Compared, Key, Needs, Operation, Sample
from ..core.change import Change
from ..core.index import CHECK_TARGET
from ..core.limits import counted, said
from ..core.monitor import LOOKED, Monitor
from ..core.parameters import FOREIGN, PASSES, REFRESH, ByCell, Choice, Flag, Integer, Many
from ..core.served import Served
from . import indices, load, nodes
from .words import Words

INDEX, QUERY = load.INDEX, "capacity-query"
PREPARE, MONITOR = indices.PREPARE, "capacity-monitor"
WHERE = (
    Key("cell", "", "shards and replicas, such as 2s-1r, behind them a number of nodes, and a rate, where it has one"),
    Key("pass", "", "pass over the cells; those up to 0 count for nothing"),
)
CHECK = Operation("capacity-check", nodes.CheckGrid)
BUILD = Operation(
    "capacity-build",
    indices.BuildWords,
    indices.BuildWordsParams,
    samples=(
        Sample(
            "capacity-build",
            "race",
            (
                Key("documents", "documents", "documents of the corpus"),
                Key("store_bytes", "bytes", "size of one copy of the index of most shards"),
                Key("load_s", "s", "time to load it, without what comes after; 0 where it was found as it should be"),
            ),
        ),
    ),
)
PASS = Operation(
    "capacity-pass",
    indices.PreparePass,
    indices.PreparePassParams,
    samples=(
        Sample(
            PREPARE,
            "cell and pass",
            (
                *WHERE,
                Key("shards", "shards", "primary shards"),
                Key("replicas", "replicas", "replicas of each"),
                Key("data_nodes", "nodes", "nodes that hold them and take its requests; 0 for all"),
                Key("rate", "1/s", "documents to be indexed beside searches, or requests of a load curve; 0 for none"),
                Key("documents", "documents", "documents that the index holds"),
                Key("shard_table", "", "which node holds which shards, as JSON text"),
            ),
        ),
    ),
    ahead=True,
)
SEARCH = Operation(
    QUERY,
    load.QueryRunner,
    load.QueryParams,
    samples=(
        Sample(
            QUERY,
            "search",
            (
                *WHERE,
                Key("took", "ms", "`took`"),
                Key("hits", "documents", "hits, up to 10,000 unless all are counted"),
            ),
        ),
    ),
    cell=True,
    scheduler=load.Arrivals,
)
INDEXING = Operation(
    INDEX,
    load.IndexRunner,
    load.DocumentParams,
    samples=(Sample(INDEX, "request", (*WHERE, Key("success-count", "documents", "documents acknowledged"))),),
    cell=True,
    scheduler=load.Arrivals,
)
LOOK = Operation(MONITOR, Monitor, samples=(Sample(MONITOR, "second", (*WHERE, *LOOKED)),))
DROP = Operation("capacity-drop", indices.DropWords)
CLIENTS = Integer("capacity_clients", "Clients that send without a pause, each for itself.", "clients", low=1, high=256)
CELL_CLIENTS = ByCell(
    "cell_clients",
    "Clients of single cells, by their shards and replicas; the others have capacity_clients.",
    "clients",
    low=CLIENTS.low,
    high=CLIENTS.high,
    cell=r"\d+s-\d+r",
    example="3s-2r",
)
COMMON = (
    *Words.parameters.values(),
    FOREIGN,
    PASSES,
    Choice(
        "words_mapping",
        "Analysis of both text fields: words and shingles of two and three, or words alone.",
        choices=("heavy", "light"),
    ),
    Many("capacity_shards", "Primary shards of the cells of the capacity challenges.", "shards", True, low=1, high=100),
    Many(
        "capacity_replicas",
        "Replicas of the cells of the capacity challenges; fewer than the target has data nodes.",
        "replicas",
        True,
        low=0,
        high=20,
    ),
    Many(
        "capacity_nodes",
        "Data nodes that hold the shards of a cell and take its requests (0 for all); the others are idle, and cells "
        "with more replicas than so many hold are left out.",
        "nodes",
        True,
        low=0,
        high=50,
    ),
    CLIENTS,
    CELL_CLIENTS,
    Integer(
        "cell_seconds", "Time that each cell of the capacity challenges is measured.", "seconds", low=1, high=86_400
    ),
    Integer("cell_warmup_seconds", "Time under load before that.", "seconds", low=0, high=86_400),
    Integer(
        "first_passes",
        "Passes that warm up the nodes and count for nothing; two at least where indices are made anew.",
        "passes",
        low=1,
        high=100,
    ),
    Integer(
        "first_pass_seconds",
        "Time of the passes that warm up the nodes, all together, which the cells share.",
        "seconds",
        low=1,
        high=86_400,
    ),
)
BULK = Integer(
    "capacity_bulk_size",
    "Documents that capacity-indexing, capacity-mixed and a capacity-curve of documents send at once; 1 sends each by "
    "a request of its own.",
    "documents",
    low=1,
    high=10_000,
)
KEEP = Flag(
    "keep_words",
    "Leave the indices to which no documents were added on the target, and take those that are found as these "
    "parameters make them.",
)
SHARES = Served(
    "cpu_shares",
    "What holds the target's nodes to their shares of the CPU. `make race` does, in its own process, and leaves its "
    "nodes free until words are loaded; none leaves them as they are.",
    server="what holds the nodes to their shares of the CPU",
)
ALL_HITS = Flag("count_all_hits", "Count all hits of a search, not 10,000 at most.")


def change_of(shards: int, replicas: int, nodes: int, rate: float, kind: str) -> Change:
    """What a cell changes of one shard without replicas on as many nodes.

    :param nodes: of the cell; 0 for all.
    :param rate: documents indexed per second meanwhile; 0 for none.
    :param kind: ``capacity-query`` or ``capacity-index``: what it is asked of.
    """
    text = f"{counted(shards, 'shard')}, {counted(replicas, 'replica')}"
    text += f", on {counted(nodes, 'node')}" if nodes else ""
    text += f", beside {rate:,.0f} documents/s" if rate else ""
    price = f"{1 + replicas} times the disk, and each document is indexed {1 + replicas} times" if replicas else "none"
    return Change(text, ("shape of the cluster",), "query" if kind == QUERY else "ingest", price)


COMPARED = Compared(
    PREPARE,
    ("ms",),
    "1s-0r",
    "passes",
    unit="pass",
    enough=6,  # with the interval of so few by Student's t, see docs/statistics.md
    derived=(Key("ms", "ms", "time per search or document at full load"),),
)
P99 = Key("p99_ms", "ms", "99th percentile of latency")
Capacity = partial(
    Challenge,
    corpora=(Words,),
    compared=COMPARED,
    needs=Needs(nodes=3, node_cores=0.4),
    test_mode={
        "passes": 2,
        "cell_seconds": 10,
        "cell_warmup_seconds": 0,
        "first_passes": 1,
        "first_pass_seconds": 1,
    },
    limits=(said("The documents are random words: real text has other frequencies, and real searches other terms."),),
    drops=(indices.index_of("*"),),
)
CHALLENGES = (
    Capacity(
        name="capacity-query",
        question="What do shards and replicas do to the throughput of searches?",
        operations=(CHECK_TARGET, CHECK, BUILD, PASS, SEARCH, LOOK, DROP),
        parameters=(*COMMON, KEEP, SHARES, ALL_HITS),
        minutes=25,
        disk_factor=60,
        role="cluster-metrics-race-settings",
    ),
    Capacity(
        name="capacity-indexing",
        question="What do shards and replicas do to the throughput of indexing?",
        operations=(CHECK_TARGET, CHECK, PASS, INDEXING, LOOK, DROP),
        parameters=(*COMMON, BULK, REFRESH),
        minutes=25,
        disk_factor=10,
        role="cluster-metrics-race-indexing",
    ),
    Capacity(
        name="capacity-mixed",
        question="What do searches and indexing cost each other?",
        operations=(CHECK_TARGET, CHECK, BUILD, PASS, SEARCH, INDEXING, LOOK, DROP),
        parameters=(
            *COMMON,
            KEEP,
            SHARES,
            ALL_HITS,
            BULK,
            REFRESH,
            Many(
                "mixed_docs_per_second",
                "Rates at which capacity-mixed indexes while it searches; 0 searches alone.",
                "documents/s",
                True,
                low=0,
                high=10_000_000,
            ),
        ),
        minutes=24,
        disk_factor=52,
        role="cluster-metrics-race-settings",
    ),
    Capacity(
        name="capacity-curve",
        question="How long do requests wait at which rate, and which is the greatest that keeps to a bound?",
        operations=(CHECK_TARGET, CHECK, BUILD, PASS, SEARCH, INDEXING, LOOK, DROP),
        parameters=(
            *COMMON,
            KEEP,
            SHARES,
            ALL_HITS,
            BULK,
            REFRESH,
            Choice("curve_of", "What capacity-curve sends: searches, or documents.", choices=("searches", "documents")),
            Many(
                "curve_per_second",
                "Rates of the load curve: searches or documents that are due each second.",
                "1/s",
                True,
                low=1,
                high=10_000_000,
            ),
            Integer("slo_ms", "Bound on the 99th percentile of latency.", "ms", low=1, high=3_600_000),
        ),
        compared=replace(COMPARED, figures=("p99_ms",), base="1s-2r-100", derived=(P99,)),
        minutes=24,
        disk_factor=12,
        role="cluster-metrics-race-settings",
        latencies=(QUERY, INDEX),
    ),
)
