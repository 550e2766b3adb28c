"""What the clients of a capacity challenge send, and what is recorded of it."""

import asyncio
from types import SimpleNamespace

import pytest
from fakes import FakeEs

from cluster_metrics.capacity import load
from cluster_metrics.capacity.load import IndexRunner, QueryParams


@pytest.mark.parametrize("failed, errors", [(0, 0), (1, 1), (2, 1)])
def test_a_document_is_one_error_however_many_replicas_failed_to_take_it(failed, errors):
    es = FakeEs(lambda *_: {"_shards": {"failed": failed}})
    params = {"cell": "1s-2r", "pass": 1, "index": "i", "documents": [b"{}\n"]}
    found = asyncio.run(IndexRunner()(es, params))
    assert (found["weight"], found["success-count"], found["error-count"]) == (1, 1 - errors, errors)
    assert found["success"] is not bool(errors)


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
