"""ES|QL requests, and what is said of a target that does not answer them."""

import asyncio
import json

import pytest
from fakes import FakeEs, Refused

from cluster_metrics.wire.esql import PRAGMA, esql_request, why_not
from cluster_metrics.wire.requests import Request

ASKED = {"query": "ROW a = 1", "pragma": {"data_partitioning": "shard"}, "accept_pragma_risks": True}


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
    with es.new_request_context():
        assert asyncio.run(why_not(es, **PRAGMA)) == said
    [(method, path, body)] = es.requests
    assert (method, path, json.loads(body)) == ("POST", "/_query", ASKED)
