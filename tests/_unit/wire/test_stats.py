"""What a target counts of itself, and when."""

import asyncio

from fakes import FakeEs, Script

from cluster_metrics.wire.stats import target_cpu_ms


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
