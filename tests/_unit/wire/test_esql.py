"""ES|QL requests, and what is said of a target that does not answer them."""

import asyncio
import json

import pytest
from fakes import FakeEs, Refused

from cluster_metrics.wire.esql import PRAGMA, esql_request, response_problem, why_not
from cluster_metrics.wire.requests import Request

ASKED = {"query": "ROW a = 1", "pragma": {"data_partitioning": "shard"}, "accept_pragma_risks": True}

FAILURES = [{"reason": {"reason": reason}} for reason in ("no room", "a node has left", "no room")]


def test_a_query_is_one_body_of_json_with_its_further_keys():
    found = esql_request("ROW a = 1", profile=True)
    assert found == Request("/_query", "application/json", b'{"query": "ROW a = 1", "profile": true}')


@pytest.mark.parametrize(
    "answer, said",
    [
        ({"values": [[1]]}, ""),
        ({"values": [[2]]}, "the target has no ES|QL, /_query answers something else"),
        ({"values": []}, "the target has no ES|QL, /_query answers something else"),
        ({}, "the target has no ES|QL, /_query answers something else"),
        ("<html>", "the target has no ES|QL, /_query answers something else"),
        (
            Refused(400, reason="no handler found for uri [/_query]"),
            "the target has no ES|QL, /_query answers HTTP 400 no handler found for uri [/_query]",
        ),
        (
            Refused(400, "validation", "[pragma] only allowed in snapshots"),
            "this build of Elasticsearch refuses the pragma data_partitioning: [pragma] only allowed in snapshots",
        ),
    ],
)
def test_a_target_is_asked_with_the_keys_that_are_wanted_and_says_why_it_does_not_answer(answer, said):
    es = FakeEs(lambda *_: answer)
    with es.new_request_context() as context:
        assert asyncio.run(why_not(es, **PRAGMA)) == said
    assert (context.request_start is None) == (answer != "<html>" and not isinstance(answer, Refused)), "it is aside"
    [(method, path, body)] = es.requests
    assert (method, path, json.loads(body)) == ("POST", "/_query", ASKED)


@pytest.mark.parametrize(
    "response, said",
    [
        ({}, ""),
        ({"is_partial": False, "_clusters": {}}, ""),
        ({"is_partial": True}, "is_partial: some shards did not answer"),
        (
            {"is_partial": True, "_clusters": {"details": {"near": {"failures": FAILURES}, "far": {}}}},
            "is_partial: some shards did not answer; a node has left; no room",
        ),
    ],
)
def test_an_answer_of_some_shards_alone_is_none_and_says_why(response, said):
    assert response_problem(response) == said
