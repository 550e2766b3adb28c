"""The parts of Elasticsearch that searches spend CPU time in."""

from _tools.report.components import Components

SEARCHES = Components(
    (
        ("t-digest", r"org\.elasticsearch\.(tdigest\.|\S*TDigest)"),
        ("HDR", r"org\.HdrHistogram\.|org\.elasticsearch\.\S*HDR"),
        ("sums", r"org\.elasticsearch\.\S*(SumAggregator|CompensatedSum|InternalSum|\.Sum\b)"),
        (
            "reading doc values",
            r"org\.apache\.lucene\.(codecs\.\S*DocValues|util\.packed\.|(index|search)\.\S*DocValues(?!\w*(Query|Rewrite)))"
            r"|org\.elasticsearch\.(index\.fielddata\.|search\.aggregations\.support\.ValuesSource)",
        ),
        (
            "filtering",
            r"org\.apache\.lucene\.(search|queries|codecs|index|util\.bkd|util\.automaton|util\.\w*BitSet|util\.DocIdSet)"
            r"|org\.elasticsearch\.(index\.query\.|search\.internal\.(ContextIndexSearcher|CancellableBulkScorer))",
        ),
        (
            "fetch and reduce",
            r"org\.elasticsearch\.(search\.fetch\.|action\.search\.|\S*SearchPhase(Controller|Result))",
        ),
        (
            "aggregation framework",
            r"org\.elasticsearch\.(search\.aggregations\.|common\.util\.BigArrays|\S*BucketCollector)",
        ),
        ("query phase", r"org\.elasticsearch\.(search|index|indices|cluster|node)\."),
    )
)
