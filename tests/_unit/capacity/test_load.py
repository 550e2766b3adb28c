"""What the clients of a capacity challenge send, and what is recorded of it."""

import asyncio
import itertools
from types import SimpleNamespace

import elasticsearch
import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, track_of
from hypothesis import given
from hypothesis import strategies as st

from cluster_metrics.capacity import load
from cluster_metrics.capacity.load import DocumentParams, IndexRunner, QueryParams, QueryRunner
from cluster_metrics.capacity.words import Words


@pytest.mark.parametrize("failed, errors", [(0, 0), (1, 1), (2, 1)])
def test_a_document_is_one_error_however_many_replicas_failed_to_take_it(failed, errors):
    es = FakeEs(lambda *_: {"_shards": {"failed": failed}})
    params = {"cell": "1s-2r", "pass": 1, "nodes": 0, "first": 0, "index": "i", "documents": [b"{}\n"]}
    found = asyncio.run(IndexRunner()(es, params))
    assert (found["weight"], found["success-count"], found["error-count"]) == (1, 1 - errors, errors)
    assert found["success"] is not bool(errors)


def test_what_is_sent_goes_to_the_hosts_of_its_cell(monkeypatch):
    kept = []
    monkeypatch.setattr(load, "keep_to", lambda es, first, number: kept.append((first, number)))
    es = FakeEs(lambda *_: Refused(429, "some_exception", "for a reason"))
    where = {"cell": "1s-1r-2n", "pass": 1, "first": 5, "nodes": 2}
    sent = [(QueryRunner(), {"path": "/i/_search", "body": {}}), (IndexRunner(), {"index": "i", "documents": [b"{}"]})]
    for runner, params in sent:
        with pytest.raises(elasticsearch.ApiError):
            asyncio.run(runner(es, where | params))
    assert kept == [(5, 2)] * 2


@pytest.mark.parametrize("status, ends", [(429, False), (503, False), (403, True)])
def test_what_is_refused_is_sent_once_and_ends_the_race_where_it_is_forbidden(status, ends):
    es = FakeEs(lambda *_: Refused(status, "some_exception", "for a reason"))
    search = {"cell": "1s-2r", "pass": 1, "nodes": 0, "first": 0, "path": "/i/_search", "body": {}}
    document = {"cell": "1s-2r", "pass": 1, "nodes": 0, "first": 0, "index": "i", "documents": [b"{}\n"]}
    with pytest.raises(elasticsearch.ApiError):
        asyncio.run(QueryRunner()(es, search))
    with pytest.raises(exceptions.RallyAssertionError if ends else elasticsearch.ApiError):
        asyncio.run(IndexRunner()(es, document))
    assert [path for _, path, _ in es.requests] == ["/i/_search", "/i/_doc?filter_path=_shards"]


def test_queries_are_made_once_for_all_clients_of_a_process(monkeypatch):
    asked = []

    def queries(count):
        asked.append(count)
        return [str(number) for number in range(count)]

    prepared = SimpleNamespace(corpus=SimpleNamespace(queries=queries))
    monkeypatch.setattr("cluster_metrics.capacity.indices.Prepared", lambda *_: prepared)
    source = QueryParams(None, {"parameters": {"count_all_hits": False}, "index": "2s-1r"})
    clients = [source.partition(number, 4) for number in range(4)]
    assert not asked
    assert clients[0].params()["path"].startswith("/cluster-metrics-words-2s-1r/_search?")
    clients[0] = source.partition(0, 4)
    sent = [[c.params()["body"]["query"]["match"][load.FIELDS[0]] for _ in range(2)] for c in clients]
    assert asked == [load.QUERIES]
    assert sent == [[str(number * load.QUERIES // 4 + more) for more in range(2)] for number in range(4)]


def test_documents_sent_at_once_are_one_bulk_request_of_which_errors_are_counted():
    items = [{"index": {"error": {"type": "x", "reason": "y"}}}]
    es = FakeEs(lambda *_: {"took": 1, "errors": True, "items": items})
    params = {
        "cell": "1s-2r",
        "pass": 3,
        "nodes": 0,
        "first": 0,
        "index": "i",
        "documents": [b'{"a":1}\n', b'{"a":2}\n', b'{"a":3}\n'],
    }
    found = asyncio.run(IndexRunner()(es, params))
    [(method, path, body)] = es.requests
    assert (method, path.partition("?")[0]) == ("POST", "/i/_bulk")
    assert body == b"".join(b'{"index":{}}\n' + document for document in params["documents"])
    assert found.pop("error-description").startswith("1 of 3 documents rejected: 1 by x")
    assert found == {
        "weight": 3,
        "unit": "docs",
        "cell": "1s-2r",
        "pass": 3,
        "success-count": 2,
        "success": False,
        "error-count": 1,
        "error-type": "bulk",
    }


def test_two_documents_are_one_bulk_request_of_both():
    es = FakeEs(lambda *_: {"took": 1, "errors": False})
    found = asyncio.run(
        IndexRunner()(
            es, {"cell": "1s-2r", "pass": 1, "nodes": 0, "first": 0, "index": "i", "documents": [b"{}\n"] * 2}
        )
    )
    assert [body for *_, body in es.requests] == [b'{"index":{}}\n{}\n' * 2]
    assert (found["weight"], found["success-count"], found["success"]) == (2, 2, True)


def test_one_document_is_a_request_of_its_own():
    es = FakeEs(lambda *_: {"_shards": {"failed": 0}})
    asyncio.run(
        IndexRunner()(es, {"cell": "1s-2r", "pass": 1, "nodes": 0, "first": 0, "index": "i", "documents": [b"{}\n"]})
    )
    assert es.requests == [("POST", "/i/_doc?filter_path=_shards", b"{}\n")]


@pytest.mark.parametrize("failed, timed_out", [(0, False), (1, False), (0, True), (3, True)])
def test_a_search_records_what_it_took_and_found_and_succeeds_if_all_shards_answered_in_time(failed, timed_out):
    shards = {"total": 3, "failed": failed}
    answer = {"took": 7, "timed_out": timed_out, "_shards": shards, "hits": {"total": {"value": 10_000}}}
    es = FakeEs(lambda *_: answer)
    found = asyncio.run(
        QueryRunner()(
            es, {"cell": "1s-2r", "pass": 3, "nodes": 0, "first": 0, "path": "/i/_search", "body": {"query": {}}}
        )
    )
    assert es.requests == [("POST", "/i/_search", {"query": {}})]
    expected = {"cell": "1s-2r", "pass": 3, "took": 7, "hits": 10_000, "success": True, "error-count": 0}
    if failed or timed_out:
        said = f"{failed} of 3 shards failed, or it timed out"
        expected |= {"success": False, "error-count": 1, "error-type": "search", "error-description": said}
    assert found == expected


@pytest.mark.parametrize("all_hits", [True, False])
def test_a_search_asks_for_what_is_checked_and_counts_all_hits_only_when_told(tmp_path, all_hits):
    track = track_of(Words(5), root=tmp_path)
    operation = {"cell": "2s-1r-50", "pass": 1, "index": "2s-1r", "parameters": {"count_all_hits": all_hits}}
    found = QueryParams(track, operation).params()
    body = {"query": {"match": {"field1": Words(5).queries(1)[0]}}}
    path = "/cluster-metrics-words-2s-1r/_search?filter_path=took,timed_out,_shards,hits.total"
    assert found == operation | {"path": path, "body": body | ({"track_total_hits": True} if all_hits else {})}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 20), st.integers(1, 5))
def test_clients_send_whole_documents_each_those_of_a_stretch_of_its_own(tmp_path_factory, lengths, clients, at_once):
    file = tmp_path_factory.mktemp("words") / "documents.json"
    lines = [b"%020d%s\n" % (number, b"x" * length) for number, length in enumerate(lengths)]
    file.write_bytes(b"".join(lines))
    documents = [SimpleNamespace(document_file=str(file))]
    track = SimpleNamespace(corpora=[SimpleNamespace(name="words", meta_data={}, documents=documents)])
    operation = {"cell": "1s-0r", "index": "1s-0r", "parameters": {"capacity_bulk_size": at_once}}
    source = DocumentParams(track, operation)
    stretches, begins = [[] for _ in range(clients)], 0
    for line in lines:
        next(of for n, of in enumerate(stretches, 1) if begins < file.stat().st_size * n // clients).append(line)
        begins += len(line)
    for number, own in enumerate(stretches):
        client = source.partition(number, clients)
        calls = [client.params() for _ in range(1 + 2 * len(lines))]
        assert calls[0] == operation | {"index": "cluster-metrics-words-1s-0r", "documents": calls[0]["documents"]}
        assert {len(call["documents"]) for call in calls} == {at_once}
        sent = [document for call in calls for document in call["documents"]]
        if own:
            assert sent == list(itertools.islice(itertools.cycle(own), len(sent)))
        else:  # more clients than documents
            assert set(sent) <= set(lines)
