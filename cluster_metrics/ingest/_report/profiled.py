"""Where the target's CPU time goes while it ingests: what an ingest-decomp race with a sampler says of it."""

from _tools.report.components import Components
from _tools.report.sampled import Profiling
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.ingest_decomp import SAMPLED
from cluster_metrics.ingest.steps import ASYNC, NAIVE

ROWS = 1000
"""CPU time is told by so many rows: one ms is a second per million."""
INGEST = Components(
    parts=(
        ("translog", r"org\.elasticsearch\.index\.translog\."),
        ("doc values", r"org\.apache\.lucene\.(index\.\w*DocValues|codecs\.\S*DocValues|util\.packed\.)"),
        (
            "points",
            r"org\.apache\.lucene\.(index\.Point|util\.bkd\.|codecs\.\S*Points)",
        ),
        ("stored fields", r"org\.apache\.lucene\.(index\.\w*StoredFields|codecs\.\S*(StoredFields|compress))"),
        ("inverted index", r"org\.apache\.lucene\.(index|codecs|util)\.|org\.apache\.lucene\.store\."),
        ("mapping documents", r"org\.elasticsearch\.index\.mapper\."),
        ("engine", r"org\.elasticsearch\.index\.(engine|shard|seqno)\.|org\.elasticsearch\.common\.lucene\.uid\."),
        ("bulk action", r"org\.elasticsearch\.action\.(bulk|index|support|ingest)\.|org\.elasticsearch\.ingest\."),
    ),
    around=(
        ("merges", r"org\.apache\.lucene\.index\.(IndexWriter\.merge|ConcurrentMergeScheduler)"),
        ("writing segments", r"org\.apache\.lucene\.index\.(DocumentsWriterPerThread\.flush|IndexWriter\.flush)"),
    ),
)
HOW = Profiling(
    round="ingest-decomp",
    sampled=SAMPLED,
    plain=SAMPLE,
    design="Each round runs these cells once with the sampler and once without",
    components=INGEST,
    what="cell",
    per="thousand rows",
    shown=(NAIVE, ASYNC, "no-source"),
    other=ASYNC,
    spares=f"{ASYNC} spares",
    pairs=((NAIVE, ASYNC), (ASYNC, "no-source"), (NAIVE, "no-source")),
    weight=lambda meta: meta["rows"] / ROWS,
)
