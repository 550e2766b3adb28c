"""The account of a load by several clients, and cells that got no answer."""

import asyncio
import copy
import itertools
import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import elasticsearch
import pytest
from esrally import exceptions
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script, values

from cluster_metrics.core.index import MARK
from cluster_metrics.ingest import account
from cluster_metrics.ingest.account import ACCOUNT, IngestBegin, IngestEpoch, put_note
from cluster_metrics.ingest.cell import INDEX, IngestCell, run_cells
from cluster_metrics.ingest.load import ClientParams, IngestBulk
from cluster_metrics.wire.bulk import FIRST_BACKOFF_S, MOST_RETRIES, Backoff, BulkCounts, send_bulk

TIMES = {"total_time_in_millis": 0, "total": 0}
SHARDS = {
    "indexing": {"index_time_in_millis": 9, "index_total": 30, "index_failed": 0, "throttle_time_in_millis": 0},
    "refresh": TIMES,
    "merges": TIMES | {"total_size_in_bytes": 0, "total_throttled_time_in_millis": 0, "current": 0},
    "flush": TIMES,
    "store": {"size_in_bytes": 5},
    "segments": {"count": 1},
    "translog": {"size_in_bytes": 1, "uncommitted_size_in_bytes": 1},
}
PRIMARIES = SHARDS | {"indexing": SHARDS["indexing"] | {"index_time_in_millis": 4, "index_total": 15}}
NODE = {
    "timestamp": 0,
    "process": {"timestamp": 0, "cpu": {"total_in_millis": 5}},
    "jvm": {"gc": {"collectors": {}}, "timestamp": 1_000_000, "uptime_in_millis": 10_000},
    "http": {"total_opened": 1},
}
OWN = {"mappings": {"_meta": {"created_by": MARK}}}
USUAL = {
    f"GET /{ACCOUNT}/_mapping": {ACCOUNT: OWN},
    f"GET /{INDEX}/_mapping": [Refused(404, "index_not_found_exception", "none"), {INDEX: OWN}],
    "DELETE": {},
    "PUT": {},
    "GET /_nodes": {"nodes": {"n": NODE}},
    "GET /cluster-metrics/_count": {"count": 30},
    f"GET /{INDEX}/_count": {"count": 30},
    "POST /cluster-metrics/_refresh": {},
    f"POST /{INDEX}/_refresh": {},
    "GET /": {"_all": {"total": SHARDS, "primaries": PRIMARIES}},
}


def tally(start, end, sent):
    counts = BulkCounts(sent=sent, acknowledged=sent, requests=1, took_ms=1000.0, send_ms=1500.0)
    return {"found": True, "_source": {"span": {"started": start, "ended": end}, "tally": vars(counts)}}


SENT = (tally(100.0, 104.0, 10), tally(101.0, 110.0, 20))


def loaded(nodes, tallies=SENT, expected=30):
    """The sample of a load by two clients.

    :param nodes: when each node was started, as found before.
    """
    before = {"found": True, "_source": dict.fromkeys([*COUNTED, "found"], 0.0) | {"nodes": nodes}}
    es = FakeEs(Script({f"POST /{ACCOUNT}/_mget": {"docs": [before, *tallies]}} | USUAL))
    with es.new_request_context():
        return es, asyncio.run(IngestEpoch()(es, {"epochs": [1], "clients": 2, "expected": expected, "final": True}))


def test_a_load_of_rallys_reader_that_sends_nothing_says_so():
    with pytest.raises(exceptions.RallyAssertionError, match="^epoch 1: no client sent a document; raise ingest_perc"):
        loaded({"n": 990_000}, [{"found": False}] * 2, expected=0)


@pytest.mark.parametrize(
    "nodes, said", [({"n": 980_000}, "^node n was restarted"), ({"n": 990_000, "m": 1}, "^node m left")]
)
def test_a_load_during_which_a_node_was_lost_or_restarted_ends_the_race(nodes, said):
    with pytest.raises(exceptions.RallyAssertionError, match=f"{said} while the target was measured$"):
        loaded(nodes)


def test_a_load_lasts_from_the_first_client_to_the_last_and_each_is_counted_as_long_as_it_worked():
    es, found = loaded({"n": 990_000})
    assert found["wall_ms"] == 10_000 and found["clients_ms"] == 4000 + 9000
    assert (found["sent"], found["acknowledged"], found["found"], found["took_ms"]) == (30, 30, 30, 2000)
    assert es.sent[-2:] == [f"DELETE /{ACCOUNT}", "GET /cluster-metrics/_stats/store,segments,translog"]
    waited = {sent: seconds for sent, seconds in zip(es.sent, es.timeouts) if seconds}
    assert waited == {"POST /cluster-metrics/_refresh": account.LONG_S}


COUNTED = [
    *("index_ms", "index_docs", "index_failed", "index_throttle_ms", "refresh_ms", "refreshes", "merge_ms", "merges"),
    *("merge_bytes", "merge_throttle_ms", "flush_ms", "flushes", "foreign_docs", "target_cpu_ms"),
    *("gc_young", "gc_young_ms", "gc_old", "gc_old_ms"),
]


def test_a_load_counts_the_work_of_replicas_too_and_of_other_indices_that_of_primary_shards():
    _, found = loaded({"n": 990_000})
    assert (found["index_docs"], found["index_ms"], found["foreign_docs"]) == (30, 9, 15)


def bulk_params():
    """Of the last request of a client."""
    options = {"filter_path": "took", "compress": False, "backoff": Backoff(), "pipeline": "mine"}
    found = {"body": b"", "documents": 7, "content-type": "application/x-ndjson", "options": options, "watch": False}
    return found | {"tally": BulkCounts(), "span": {}, "epoch": 1, "client": 0, "last": True}


def test_a_client_is_at_work_from_its_first_request_to_the_end_of_its_last(monkeypatch):
    """Each look at the clock finds it a second later."""
    es, params = FakeEs(Script({"POST /cluster-metrics/_bulk": {"took": 1, "errors": False}, "PUT": {}})), bulk_params()
    monkeypatch.setattr("cluster_metrics.ingest.load.time", SimpleNamespace(time=itertools.count(100).__next__))
    with es.new_request_context():
        for last in (False, False, True):
            asyncio.run(IngestBulk()(es, params | {"last": last}))
    span = es.requests[-1][2]["span"]
    assert span["started"] == 100 and span["ended"] > 102


@pytest.mark.parametrize("failure", [TIMEOUT, LOST])
def test_a_bulk_request_without_an_answer_counts_as_not_taken_and_is_noted(failure):
    es = FakeEs(Script({"POST /cluster-metrics/_bulk": failure, "PUT": {}}))
    with es.new_request_context(), pytest.raises(type(failure)):
        asyncio.run(IngestBulk()(es, bulk_params()))
    noted = es.requests[-1][2]["tally"]
    assert (noted["sent"], noted["acknowledged"]) == (7, 0)
    assert noted["rejected"] == Counter({type(failure).__name__: 7})
    assert es.sent.count("POST /cluster-metrics/_bulk?pipeline=mine&filter_path=took") == 1


def cell(name):
    return IngestCell(name, lambda first, count: b"", partial(send_bulk), bulk_size=10, clients=2), 30, OWN["mappings"]


@pytest.mark.parametrize("failure", [TIMEOUT, LOST])
def test_a_cell_without_an_answer_is_lost_alone(failure):
    taken = {"took": 1, "errors": False}
    script = {f"POST /{INDEX}/_bulk": [taken, failure, *[taken] * 9]} | USUAL
    script[f"GET /{INDEX}/_mapping"] = {INDEX: OWN}
    es = FakeEs(Script(script))
    one, *of = cell("a")
    with es.new_request_context():
        lost, kept = asyncio.run(run_cells(es, 3, [(replace(one, meta={"corpus": "x"}), *of), cell("b")], {}))
    assert (lost["success"], lost["cell"], lost["round"], lost["error-type"]) == (False, "a", 3, "no-answer")
    assert lost["corpus"] == "x"
    assert (kept["success"], kept["cell"], kept["round"], kept["success-count"]) == (True, "b", 3, 30)


@pytest.mark.parametrize("tooks, least", [((7, 0, 3), 3), ((0, 0, 0), 0)])
def test_the_least_took_of_a_cell_is_the_least_above_0(tooks, least):
    taken = [{"took": took, "errors": False} for took in tooks]
    es = FakeEs(Script({f"POST /{INDEX}/_bulk": taken} | USUAL | {f"GET /{INDEX}/_mapping": {INDEX: OWN}}))
    with es.new_request_context():
        (sample,) = asyncio.run(run_cells(es, 1, [cell("a")], {}))
    assert (sample["least_took_ms"], sample["took_ms"]) == (least, sum(tooks))


def test_a_cell_counts_the_young_and_old_collections_of_all_nodes_while_it_sends():
    def nodes(young, old):
        counted = {"young": young, "old": old, "G1 Concurrent GC": 100 * old}
        of = {name: {"collection_count": n, "collection_time_in_millis": 10 * n} for name, n in counted.items()}
        return {"nodes": dict.fromkeys(("n", "m"), {"jvm": {"gc": {"collectors": of}}})}

    script = {f"POST /{INDEX}/_bulk": {"took": 1, "errors": False}, f"GET /{INDEX}/_mapping": {INDEX: OWN}}
    script["GET /_nodes/stats/jvm?"] = [nodes(1, 1), nodes(3, 5)]
    es = FakeEs(Script(script | {key: of for key, of in USUAL.items() if key not in script}))
    with es.new_request_context():
        (sample,) = asyncio.run(run_cells(es, 1, [cell("a")], {}))
    assert (sample["gc_ms"], sample["gc_count"]) == (120, 12)


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_cell_without_keep_alive_and_no_other_closes_each_connection(keep_alive):
    script = Script(
        {f"POST /{INDEX}/_bulk": {"took": 1, "errors": False}} | USUAL | {f"GET /{INDEX}/_mapping": {INDEX: OWN}}
    )
    closed = []

    def respond(method, path, body):
        if path.startswith(f"/{INDEX}/_bulk"):
            closed.extend(node.session.connector._force_close for node in nodes)
        return script(method, path, body)

    def node():
        async def close():
            connect()

        def connect():
            found.session = SimpleNamespace(connector=SimpleNamespace(_force_close=False))

        found = SimpleNamespace(close=close, _create_aiohttp_session=connect)
        return found

    es, nodes = FakeEs(respond), [node(), node()]
    es.transport.node_pool = SimpleNamespace(all=lambda: nodes)
    (one, *of), other = cell("a"), cell("b")
    changed = (replace(one, keep_alive=keep_alive), *of)
    with es.new_request_context():
        asyncio.run(run_cells(es, 1, [changed, other, changed], {}))
    assert closed == [not keep_alive] * 6 + [False] * 6 + [not keep_alive] * 6
    assert not any(node.session.connector._force_close for node in nodes)


@pytest.mark.parametrize("request_of", [f"GET /{INDEX}/_mapping", "DELETE", "PUT"])
def test_a_cell_whose_index_cannot_be_made_ends_the_race(request_of):
    refused = Refused(403, "security_exception", "granted by x")
    es = FakeEs(Script(USUAL | {f"GET /{INDEX}/_mapping": {INDEX: OWN}} | {request_of: refused}))
    with pytest.raises(exceptions.RallyAssertionError, match=r"index \[.*\] cannot be .*granted by x"):
        asyncio.run(run_cells(es, 1, [cell("a")], {}))


@pytest.mark.parametrize("found, said", [(25, ""), (24, "^a: of 25 documents 24 were read back")])
def test_a_cell_reads_back_as_many_documents_as_it_says_and_no_more_than_there_are(found, said):
    hits = {"hits": {"hits": [{"_source": {}}] * found}}
    script = {f"POST /{INDEX}/_bulk": {"took": 1, "errors": False}, f"POST /{INDEX}/_search": hits} | USUAL
    es = FakeEs(Script(script | {f"GET /{INDEX}/_mapping": {INDEX: OWN}}))
    one, rows, mappings = cell("a")
    with pytest.raises(exceptions.RallyAssertionError, match=said) if said else nullcontext():
        (sample,) = asyncio.run(run_cells(es, 1, [(replace(one, reads=25), rows, mappings)], {}))
        assert sample["read_ms"] > 0
    (asked,) = (body for _, path, body in es.requests if path.endswith("_search"))
    assert json.loads(asked) == {"size": 25, "sort": ["_doc"], "track_total_hits": False}


def test_a_note_is_put_again_while_the_queue_is_full_and_for_no_other_reason(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(account.asyncio, "sleep", sleep)
    full = Refused(429, "es_rejected_execution_exception", "queue is full")
    answers = iter([full] * 8 + [{}])
    asyncio.run(put_note(es := FakeEs(lambda *_: next(answers)), "x", {}))
    assert pauses == [FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S] and len(es.requests) == 9
    with pytest.raises(elasticsearch.ApiError):
        asyncio.run(put_note(FakeEs(lambda *_: Refused(400, "illegal_argument_exception", "no")), "x", {}))
    assert len(pauses) == 2
    with pytest.raises(elasticsearch.ApiError):
        asyncio.run(put_note(FakeEs(lambda *_: full), "x", {}))
    assert pauses[2:] == [FIRST_BACKOFF_S * 2**n for n in range(MOST_RETRIES)]


SECTIONS = {
    "indexing": ["index_time_in_millis", "index_total", "index_failed", "throttle_time_in_millis", "index_current"],
    "refresh": ["total_time_in_millis", "total"],
    "merges": ["total_time_in_millis", "total", "total_size_in_bytes", "total_throttled_time_in_millis", "current"],
    "flush": ["total_time_in_millis", "total"],
    "store": ["size_in_bytes"],
    "segments": ["count"],
    "translog": ["size_in_bytes", "uncommitted_size_in_bytes"],
}
NOTE = f"PUT /{ACCOUNT}/_doc/"


class Counting:
    """A target that keeps the account. Each figure that it counts is another, and grows by itself with each refresh."""

    def __init__(self):
        self.grown, self.rows, self.notes, self.account = 1, 0, {}, None

    def __call__(self, method, path, body):
        asked = f"{method} {path.partition('?')[0]}"
        if asked.startswith(NOTE):
            self.notes[asked.removeprefix(NOTE)] = copy.deepcopy(body)
            return {}
        for index, first in ((f"*,-cluster-metrics,-{ACCOUNT}", 300), ("cluster-metrics", 100)):
            if asked.startswith(f"GET /{index}/_stats/"):
                return {"_all": {"total": self.counted(first), "primaries": self.counted(first + 100)}}
        return {
            f"GET /{ACCOUNT}/_mapping": lambda _: {ACCOUNT: OWN} if self.account else Refused(404, "not_found"),
            f"PUT /{ACCOUNT}": self.open,
            f"DELETE /{ACCOUNT}": self.close,
            f"POST /{ACCOUNT}/_mget": lambda ids: {"docs": [self.noted(name) for name in ids["ids"]]},
            "POST /cluster-metrics/_bulk": self.take,
            "POST /cluster-metrics/_refresh": self.refresh,
            "GET /cluster-metrics/_count": lambda _: {"count": self.rows},
            "GET /_nodes/stats/process,jvm": self.used,
            "GET /_nodes/stats/jvm": self.used,
        }[asked](body)

    def counted(self, first):
        numbers = itertools.count(first)
        return {section: {key: next(numbers) * self.grown for key in keys} for section, keys in SECTIONS.items()}

    def open(self, body):
        self.account = body
        return {}

    def close(self, _):
        self.account, self.notes = None, {}
        return {}

    def noted(self, name):
        return {"found": name in self.notes, "_source": self.notes.get(name)}

    def take(self, body):
        self.rows += body.count(b"\n") // 2
        return {"took": 7, "errors": False}

    def refresh(self, _):
        self.grown += 1
        return {}

    def used(self, _):
        collectors = {"young": (2, 3), "old": (4, 5)}
        gc = {
            name: {"collection_count": count * self.grown, "collection_time_in_millis": ms * self.grown}
            for name, (count, ms) in collectors.items()
        }
        process = {"timestamp": 0, "cpu": {"total_in_millis": 6 * self.grown}}
        return {"nodes": {"n": NODE | {"process": process, "jvm": NODE["jvm"] | {"gc": {"collectors": gc}}}}}


BODY = b'{"index":{}}\n{"n":1}\n' * 10
BEGIN = {"parameters": {"delete_foreign_index": False}}


def load(es, epochs, final):
    """The sample of a load of 40 documents by two clients, in two requests each."""
    for number in range(2):
        part = {"body": BODY, "documents": 10, "content-type": "application/x-ndjson"}
        client = ClientParams(iter([(part, 0.5), (part, 1.0)]), epochs, values(), number, 2)
        for _ in range(2):
            asyncio.run(IngestBulk()(es, client.params()))
    params = {"epochs": epochs, "clients": 2, "expected": 40, "final": final}
    with es.new_request_context() as context:
        sample = asyncio.run(IngestEpoch()(es, params))
    assert context.request_end - context.request_start == 1, "of the refresh alone"
    for clock in ("wall_ms", "clients_ms", "send_ms", "parse_ms"):
        assert sample.pop(clock) >= 0
    return sample


GREW = {
    "index_ms": 100,
    "index_docs": 101,
    "index_failed": 102,
    "index_throttle_ms": 103,
    "refresh_ms": 105,
    "refreshes": 106,
    "merge_ms": 107,
    "merges": 108,
    "merge_bytes": 109,
    "merge_throttle_ms": 110,
    "flush_ms": 112,
    "flushes": 113,
    "foreign_docs": 401,
    "target_cpu_ms": 6,
    "gc_young": 2,
    "gc_young_ms": 3,
    "gc_old": 4,
    "gc_old_ms": 5,
}
SENT_BY_BOTH = {
    "weight": 1,
    "unit": "ops",
    "clients": 2,
    "sent": 40,
    "acknowledged": 40,
    "found": 40,
    "requests": 4,
    "retries": 0,
    "repeated_docs": 0,
    "retry_wait_ms": 0,
    "took_ms": 28,
    "bytes_out": 4 * len(BODY),
    "bytes_in": 4 * len('{"took": 7, "errors": false}'),
}


def kept(times):
    """What the index holds, whose figures have grown so many times."""
    of = {"store_bytes": 214, "segments": 215, "translog_bytes": 116, "translog_uncommitted_bytes": 117}
    return {key: times * value for key, value in of.items()}


def test_each_load_counts_what_it_sent_and_what_the_target_did_since_the_load_before():
    es = FakeEs(target := Counting())
    with es.new_request_context():
        began = asyncio.run(IngestBegin()(es, BEGIN))
    assert began == {
        "weight": 1,
        "unit": "ops",
        "index_ms": 400,
        "index_current": 404,
        "refresh_ms": 405,
        "merge_ms": 407,
        "merge_throttle_ms": 410,
        "merges_current": 411,
        "flush_ms": 412,
    }
    assert target.account == {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"dynamic": False, "_meta": {"created_by": MARK}},
    }
    assert load(es, [1], final=False) == SENT_BY_BOTH | GREW | kept(2) | {"epoch": 1, "round": 1}
    assert target.notes.keys() == {"snapshot", "1-0", "1-1"}
    assert load(es, [2, 3], final=True) == SENT_BY_BOTH | GREW | kept(3) | {"epoch": 0, "round": 2}
    assert target.account is None and not target.notes


@pytest.mark.parametrize("foreign", [False, True])
def test_an_account_of_somebody_else_is_deleted_where_that_is_asked_for(foreign):
    es = FakeEs(Script(USUAL | {f"GET /{ACCOUNT}/_mapping": {ACCOUNT: {"mappings": {}}}}))
    error = pytest.raises(exceptions.RallyAssertionError, match="was not created by this track")
    with es.new_request_context(), nullcontext() if foreign else error:
        asyncio.run(IngestBegin()(es, {"parameters": {"delete_foreign_index": foreign}}))
    assert es.sent.count(f"DELETE /{ACCOUNT}") == foreign


@pytest.mark.parametrize("noted", [{"docs": [{"found": False}] * 3}, Refused(404, "index_not_found_exception", "none")])
def test_a_load_without_a_begin_ends_the_race(noted):
    es = FakeEs(Script({f"POST /{ACCOUNT}/_mget": noted} | USUAL))
    with pytest.raises(exceptions.RallyAssertionError, match="the task ingest-begin did not run"):
        asyncio.run(IngestEpoch()(es, {"epochs": [1], "clients": 2, "expected": 30, "final": True}))
