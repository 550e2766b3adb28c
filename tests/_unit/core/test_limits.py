"""What a race does not show, said of its parameters and of what is known of its index."""

import pytest

from cluster_metrics.core import limits
from cluster_metrics.core.challenge import challenges

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


def told(challenge, **facts):
    return [limit({"index": {}, "nodes": 1, "number_of_shards": 1} | facts) for limit in challenges()[challenge].limits]


def test_a_race_that_warms_up_by_rounds_of_its_plan_is_warm():
    for rounds, begins in ((40, "Warm caches: up to 40 rounds ran uncounted"), (None, "No warm-up: ")):
        facts = {"warmup_iterations": 0} | ({"warmup_rounds": rounds} if rounds else {})
        assert any(text.startswith(begins) for text in told("query-decomp", **facts))
    cells = "Warm caches: 10 coverages of each cell"
    assert any(text.startswith(cells) for text in told("query-decomp", warmup_iterations=10, warmup_rounds=40))


def test_a_race_with_indices_of_several_shards_shows_what_they_gain():
    for configurations, shows in ((["production"], False), (["production", "shards-2"], True)):
        said = told("query-frontier", configurations=configurations)
        assert any(text.startswith("One primary shard") for text in said) is not shows
