"""A cell of an ingest: every request that it makes, and what its sample says."""

import asyncio
import contextlib
import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, Script

from cluster_metrics.core.index import MARK
from cluster_metrics.ingest.cell import INDEX, SAMPLE, IngestCell, index_settings, run_cells
from cluster_metrics.ingest.samples import CELL as KEYS
from cluster_metrics.wire.bulk import send_bulk

ROWS = 25
OWN = {"_meta": {"created_by": MARK}}
ROW = b'{"index":{}}\n{}\n'
ASKS = [{"term": {"node": "N001"}}, {"term": {"node": "N002"}}]
PRIMARIES = {
    "store": {"size_in_bytes": 51},
    "segments": {"count": 52},
    "indexing": {"index_time_in_millis": 53},
    "refresh": {"total_time_in_millis": 54},
    "merges": {"total_time_in_millis": 55},
    "flush": {"total_time_in_millis": 56},
}
TOTAL = {section: {key: 10 * value for key, value in of.items()} for section, of in PRIMARIES.items()}


def nodes(**of):
    """What two nodes answer that have the same figures."""
    return {"nodes": dict.fromkeys(("n", "m"), of)}


def collections(young, old):
    of = {"young": young, "old": old}
    return {k: {"collection_count": v, "collection_time_in_millis": 10 * v} for k, v in of.items()}


def used(cpu_ms):
    process = {"timestamp": 0, "cpu": {"total_in_millis": cpu_ms}}
    return nodes(timestamp=0, process=process, jvm={"timestamp": 9, "uptime_in_millis": 9})


USUAL = {
    f"GET /{INDEX}/_mapping": [Refused(404, "index_not_found_exception", "none"), {INDEX: {"mappings": OWN}}],
    f"PUT /{INDEX}": {},
    f"DELETE /{INDEX}": {},
    "GET /_nodes/stats/http": [nodes(http={"total_opened": 5}), nodes(http={"total_opened": 9})],
    "GET /_nodes/stats/jvm": [nodes(jvm={"gc": {"collectors": collections(*of)}}) for of in ((1, 2), (4, 4))],
    "GET /_nodes/stats/process,jvm": [used(100), used(130)],
    f"POST /{INDEX}/_bulk": [{"took": took, "errors": False} for took in (7, 0, 3)],
    f"POST /{INDEX}/_refresh": {},
    f"GET /{INDEX}/_count": {"count": ROWS},
    f"GET /{INDEX}/_stats/": {"_all": {"primaries": PRIMARIES, "total": TOTAL}},
    f"POST /{INDEX}/_count": [{"count": 10}, {"count": 15}],
    f"POST /{INDEX}/_search": {"hits": {"hits": [{"_source": {}}] * 20}},
}


async def sent(*about):
    """Sends a bulk request, and counts of it what a target that is idle gives no reason to count."""
    counted = {"retries": 1, "repeated_docs": 2, "retry_wait_ms": 3.0, "send_ms": 4.0, "parse_ms": 5.0}
    return replace(await send_bulk(*about), **counted)


CELL = IngestCell(
    "a",
    lambda first, count: ROW * count,
    sent,
    clients=2,
    bulk_size=10,
    settings={"index.refresh_interval": "-1"},
    asks=ASKS,
    reads=20,
    meta={"corpus": "metrics"},
)
BASE = {"index.number_of_shards": 2}


def client(**changes):
    """A client that gets the usual answers but for these, by what is ``NAMED``."""
    script = USUAL | {key: changes[name] for name, key in NAMED.items() if name in changes}
    return FakeEs(Script({key: list(of) if isinstance(of, list) else of for key, of in script.items()}))


def ran(**changes):
    """The client, and the sample of the one cell of round 3."""
    es = client(**changes)
    with es.new_request_context():
        try:
            return es, asyncio.run(run_cells(es, 3, [(CELL, ROWS, OWN)], BASE))
        finally:
            assert es.sent[-1] == f"DELETE /{INDEX}"


@pytest.mark.parametrize("foreign", [False, True])
def test_an_index_of_somebody_else_is_deleted_where_that_is_asked_for(foreign):
    es = client(mapping=[{INDEX: {"mappings": of}} for of in ({}, OWN)])
    error = pytest.raises(exceptions.RallyAssertionError, match="was not created by this track")
    refused = contextlib.nullcontext() if foreign else error
    with es.new_request_context(), refused:
        asyncio.run(run_cells(es, 3, [(CELL, ROWS, OWN)], BASE, foreign))
    assert es.sent.count(f"DELETE /{INDEX}") == (2 if foreign else 0)


NAMED = {"bulk": f"POST /{INDEX}/_bulk", "found": f"GET /{INDEX}/_count", "asked": f"POST /{INDEX}/_count"}
NAMED |= {"mapping": f"GET /{INDEX}/_mapping"}
CLOCKS = {"wall_ms", "encode_ms", "client_cpu_ms", "refresh_wall_ms", "window_ms", "asks_ms"}
CLOCKS |= {"read_ms", "started_s", "rows_per_second"}


def test_a_sample_says_what_a_cell_sent_and_what_the_target_counted_meanwhile():
    es, [sample] = ran()
    clocks = {key: sample.pop(key) for key in CLOCKS}
    timing = sample.pop("dependent_timing")
    answers = '{"took": 7, "errors": false}{"took": 0, "errors": false}{"took": 3, "errors": false}'
    assert sample == {
        "cell": "a",
        "round": 3,
        "corpus": "metrics",
        "clients": 2,
        "bulk_size": 10,
        "rows": 25,
        "success-count": 25,
        "success": True,
        "error-count": 0,
        "requests": 3,
        "retries": 3 * 1,
        "repeated_docs": 3 * 2,
        "retry_wait_ms": 3 * 3,
        "send_ms": 3 * 4,
        "parse_ms": 3 * 5,
        "took_ms": 10,
        "least_took_ms": 3,
        "bytes_out": 25 * len(ROW),
        "bytes_in": len(answers),
        "connections": 2 * 4,
        "gc_count": 2 * (3 + 2),
        "gc_ms": 2 * (30 + 20),
        "target_cpu_ms": 2 * 30,
        "store_bytes": 51,
        "segments": 52,
        "index_ms": 53,
        "refresh_ms": 54,
        "merge_ms": 55,
        "flush_ms": 56,
    }
    assert all(value >= 0 for value in clocks.values())
    assert clocks["rows_per_second"] == pytest.approx(25 / (clocks["wall_ms"] / 1000))
    assert (timing["operation"], timing["operation-type"], timing["service_time"]) == ("a", SAMPLE, 5)


def test_each_part_of_a_cell_is_timed_by_itself_in_milliseconds(monkeypatch):
    """Each look at a clock finds it a second later: to encode takes one of three bodies, sending all of them seven."""
    clocks = {name: itertools.count(100).__next__ for name in ("perf_counter", "process_time", "time")}
    monkeypatch.setattr("cluster_metrics.ingest.cell.time", SimpleNamespace(**clocks))
    _, [sample] = ran()
    known = {"wall_ms": 7000, "encode_ms": 3000, "client_cpu_ms": 1000, "rows_per_second": 25 / 7}
    known |= {"refresh_wall_ms": 1000, "asks_ms": 1000, "read_ms": 1000, "started_s": 100, "window_ms": 2000}
    assert {key: sample[key] for key in known} == pytest.approx(known)


def test_the_window_of_the_targets_cpu_time_is_between_the_two_looks_at_it(monkeypatch):
    """The clock tells how many requests were sent."""
    es = client()
    clocks = {"time": lambda: len(es.requests), "perf_counter": time.perf_counter, "process_time": time.process_time}
    monkeypatch.setattr("cluster_metrics.ingest.cell.time", SimpleNamespace(**clocks))
    with es.new_request_context():
        [sample] = asyncio.run(run_cells(es, 3, [(CELL, ROWS, OWN)], BASE))
    looks = [i for i, sent in enumerate(es.sent, 1) if sent.startswith("GET /_nodes/stats/process,jvm")]
    assert [sample["started_s"], sample["started_s"] + sample["window_ms"] / 1000] == looks


def test_a_cell_that_asks_and_reads_nothing_has_all_that_a_sample_must_have():
    es = client()
    with es.new_request_context():
        [sample] = asyncio.run(run_cells(es, 3, [(replace(CELL, asks=[], reads=0), ROWS, OWN)], BASE))
    assert {key.name for key in KEYS if not key.optional} <= sample.keys()


def test_a_cell_makes_its_index_sends_refreshes_counts_and_deletes_its_index():
    es, _ = ran()
    assert [sent.split("?")[0] for sent in es.sent] == [
        f"GET /{INDEX}/_mapping",
        f"PUT /{INDEX}",
        "GET /_nodes/stats/http",
        "GET /_nodes/stats/jvm",
        "GET /_nodes/stats/process,jvm",
        *[f"POST /{INDEX}/_bulk"] * 3,
        "GET /_nodes/stats/http",
        "GET /_nodes/stats/jvm",
        f"POST /{INDEX}/_refresh",
        "GET /_nodes/stats/process,jvm",
        f"GET /{INDEX}/_count",
        f"GET /{INDEX}/_stats/store,segments",
        *[f"POST /{INDEX}/_count"] * 2,
        f"POST /{INDEX}/_search",
        f"GET /{INDEX}/_stats/indexing,refresh,merge,flush",
        f"GET /{INDEX}/_mapping",
        f"DELETE /{INDEX}",
    ]
    bodies = {sent: body for sent, (_, _, body) in zip(es.sent, es.requests)}
    assert bodies[f"PUT /{INDEX}"] == {"settings": BASE | {"index.refresh_interval": "-1"}, "mappings": OWN}
    sizes = [body.count(ROW) for _, path, body in es.requests if path.startswith(f"/{INDEX}/_bulk")]
    assert sizes == [10, 10, 5]
    asked = [body for method, path, body in es.requests if (method, path) == ("POST", f"/{INDEX}/_count")]
    assert asked == [{"query": query} for query in ASKS]


REJECTED = {"took": 1, "errors": True, "items": [{"index": {"error": {"type": "t", "reason": "no number"}}}]}


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"found": {"count": 24}}, "25 were sent, 25 acknowledged and 24 found; no document was rejected"),
        ({"found": {"count": 26}}, "25 were sent, 25 acknowledged and 26 found; no document was rejected"),
        ({"bulk": REJECTED}, "25 were sent, 22 acknowledged and 25 found; 3 of 25 documents rejected: 3 by t"),
        ({"asked": [{"count": 10}, {"count": 14}]}, "its queries find 24"),
        ({"asked": [{"count": 10}, {"count": 16}]}, "its queries find 26"),
    ],
)
def test_a_cell_whose_rows_are_not_all_found_once_ends_the_race(changes, said):
    with pytest.raises(exceptions.RallyAssertionError, match=f"^a: of 25 rows {said}"):
        ran(**changes)


def test_the_index_of_a_cell_has_the_shards_of_the_race_and_caches_nothing():
    assert index_settings({"number_of_shards": 3, "number_of_replicas": 2}) == {
        "index.number_of_shards": 3,
        "index.number_of_replicas": 2,
        "index.queries.cache.enabled": False,
        "index.store.stats_refresh_interval": "0s",
    }
