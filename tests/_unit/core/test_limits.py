"""What a race does not show, said of its parameters and of what is known of its index."""

import pytest

from cluster_metrics.core import limits

INDEX = {"docs": 5_000_000, "segments": 1, "store_bytes": 417_600_000}
ROUNDS = limits.warm("round", " of each cell")


@pytest.mark.parametrize(
    "limit, facts, begins",
    [
        (limits.shards_of_searches, {"number_of_shards": 1, "nodes": 1}, "One primary shard: "),
        (limits.shards_of_searches, {"number_of_shards": 2, "nodes": 1}, "2 primary shards on 1 node: "),
        (limits.shards_of_searches, {"number_of_shards": 1024, "nodes": 3}, "1024 primary shards on 3 nodes: "),
        (limits.shards_of_searches, {"nodes": 3}, ""),
        (
            limits.segments,
            {"index": INDEX, "force_merge_max_num_segments": 1},
            "The index was force-merged and has 1 segment; ",
        ),
        (
            limits.segments,
            {"index": INDEX | {"segments": 1200}, "force_merge_max_num_segments": 0},
            "The index has 1,200 segments, as the load left them; ",
        ),
        (limits.segments, {"index": {}, "force_merge_max_num_segments": 1}, ""),
        (ROUNDS, {"warmup_iterations": 1}, "Warm caches: 1 round of each cell ran uncounted at first. "),
        (ROUNDS, {"warmup_iterations": 3}, "Warm caches: 3 rounds of each cell ran uncounted at first. "),
        (ROUNDS, {"warmup_iterations": 0}, "No warm-up: "),
        (ROUNDS, {}, ""),
        (limits.corpus_in_memory, {"index": INDEX}, "The corpus is generated, 5,000,000 documents in 418 MB: "),
        (limits.corpus_in_memory, {"index": {}}, ""),
    ],
)
def test_a_limit_is_said_as_far_as_it_is_known(limit, facts, begins):
    said = limit(facts)
    assert said.startswith(begins) and bool(said) is bool(begins)
