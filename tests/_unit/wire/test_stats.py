"""What a target counts of itself, and when."""

import asyncio

import pytest
from esrally import exceptions
from fakes import FakeEs, Script

from cluster_metrics.wire.stats import changed, garbage_collections, index_times, segment_count, target_cpu_ms


def node(now, sampled, cpu_ms):
    process = {"timestamp": sampled, "cpu": {"total_in_millis": cpu_ms}}
    return {"timestamp": now, "process": process, "jvm": {"timestamp": now, "uptime_in_millis": now}}


def test_the_cpu_time_of_a_target_is_that_of_samples_which_all_nodes_took_after_the_call(monkeypatch):
    async def at_once(seconds):
        pass

    monkeypatch.setattr("cluster_metrics.wire.stats.asyncio.sleep", at_once)
    late, early = [(4100, 10), (4100, 10), (5150, 70)], [(4300, 1), (5100, 3), (5100, 3)]
    looks = [
        {"nodes": {"late": node(now, *one), "early": node(now, *other)}}
        for now, one, other in zip((5000, 5100, 5200), late, early)
    ]
    es = FakeEs(Script({"GET /_nodes/stats": looks}))
    assert asyncio.run(target_cpu_ms(es)) == 73 and len(es.sent) == 3
    joins = [{"a": node(5000, 4100, 1)}, {"a": node(5100, 5050, 3), "new": node(5100, 4900, 4)}]
    es = FakeEs(Script({"GET /_nodes/stats": [{"nodes": nodes} for nodes in joins]}))
    assert asyncio.run(target_cpu_ms(es)) == 7 and len(es.sent) == 2


@pytest.mark.parametrize(
    "sampled, period, looks",
    [(4990, 1000, 1), (4989, 1000, 11), (4989, 1901, 20), (4989, 10**6, 21)],
)
def test_a_sample_of_cpu_time_from_after_the_call_is_waited_for_up_to_2_seconds(monkeypatch, sampled, period, looks):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    def look(*_):
        now = 5000 + 100 * len(pauses)
        last = max(at for at in range(sampled, now + 1, period))
        return {"nodes": {"n": node(now, last, last)}}

    monkeypatch.setattr("cluster_metrics.wire.stats.asyncio.sleep", sleep)
    es = FakeEs(look)
    assert asyncio.run(target_cpu_ms(es)) == (sampled + period if 1 < looks < 21 else sampled)
    assert pauses == [0.1] * (looks - 1) and len(es.sent) == looks


def test_a_node_that_joins_leaves_or_is_another_process_ends_the_race():
    before = {"a": 5000, "b": 6000, "c": 7000}
    assert changed(before, before | {"a": 6000, "b": 4000}) == changed({}, before) == ""
    assert changed(before, before | {"new": 9000}) == "node new joined while the target was measured"
    assert (
        changed(before, {"c": 7000, "a": 6001}) == "node b left and node a was restarted while the target was measured"
    )
    assert changed(before, {}) == "node a, b, c left while the target was measured"

    es = FakeEs(Script({"GET": [{"nodes": {"a": node(9000, 9000, 7)}}, {"nodes": {"b": node(9000, 9000, 7)}}]}))
    assert asyncio.run(target_cpu_ms(es)) == 7
    with pytest.raises(
        exceptions.RallyAssertionError, match="^node a left and node b joined while the target was measured$"
    ):
        asyncio.run(target_cpu_ms(es))


def test_collections_are_those_of_all_nodes_and_none_where_a_collector_has_no_generations():
    def collectors(**counts):
        of = {name: {"collection_count": n, "collection_time_in_millis": 10 * n} for name, n in counts.items()}
        return {"jvm": {"gc": {"collectors": of}}}

    nodes = {"a": collectors(young=1, old=2), "b": collectors(young=4, old=8), "c": collectors(ZGC=16)}
    found = asyncio.run(garbage_collections(FakeEs(lambda *_: {"nodes": nodes})))
    assert found == {"gc_young": 5, "gc_young_ms": 50, "gc_old": 10, "gc_old_ms": 100}


def test_segments_and_times_of_an_index_are_those_of_its_primary_shards():
    keys = {"indexing": "index_time_in_millis"} | dict.fromkeys(["refresh", "merges", "flush"], "total_time_in_millis")
    primaries = {section: {key: i} for i, (section, key) in enumerate(keys.items(), start=1)}
    total = {section: {key: 10 * i} for i, (section, key) in enumerate(keys.items(), start=1)}
    primaries["segments"], total["segments"] = {"count": 5}, {"count": 50}
    es = FakeEs(lambda *_: {"_all": {"primaries": primaries, "total": total}})
    assert asyncio.run(index_times(es, "x")) == {"index_ms": 1, "refresh_ms": 2, "merge_ms": 3, "flush_ms": 4}
    assert asyncio.run(segment_count(es, "x")) == 5
    assert [path.split("?")[0] for path in es.sent] == [
        "GET /x/_stats/indexing,refresh,merge,flush",
        "GET /x/_stats/segments",
    ]
