"""Requests that fail: what is said of them, what they end, and which are repeated."""

import asyncio
import logging
from types import SimpleNamespace

import elasticsearch
import pytest
from elastic_transport._node import _base
from esrally import exceptions
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script

from cluster_metrics.core.rounds import losing_one
from cluster_metrics.wire import smile
from cluster_metrics.wire.bulk import load
from cluster_metrics.wire.requests import (
    Request,
    all_shards,
    aside,
    at_once,
    get,
    guarding,
    headers_of,
    once,
    refusal,
    request,
    send,
    touch,
)

PRIVILEGE = (
    "action [indices:admin/delete] is unauthorized for user [reader] with effective roles [reader] on indices "
    "[cluster-metrics], this action is granted by the index privileges [delete_index,manage,all]"
)


async def failed(answer, raw=False):
    es = FakeEs(lambda *_: answer)
    if raw:
        es.return_raw_response()
    try:
        await request(es, "POST", "/x", {})
    except Exception as e:
        return e


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    "answer, line",
    [
        (Refused(403, "security_exception", PRIVILEGE), f"HTTP 403 security_exception: {PRIVILEGE}"),
        (
            Refused(403, "cluster_block_exception", "index [x] blocked by: [FORBIDDEN/5/index read-only (api)];"),
            "HTTP 403 cluster_block_exception: index [x] blocked by: [FORBIDDEN/5/index read-only (api)];",
        ),
        (
            Refused(400, "validation", "Validation Failed: 1: [pragma] only allowed in snapshots;"),
            "this build of Elasticsearch refuses the pragma data_partitioning: "
            "Validation Failed: 1: [pragma] only allowed in snapshots;",
        ),
        (
            Refused(400, "verification_exception", "Found 1 problem\nline 1:1: Unknown index [x]"),
            "the index is missing, run the tasks tagged setup first: Found 1 problem line 1:1: Unknown index [x]",
        ),
        (
            Refused(404, "index_not_found_exception", "no such index [x]"),
            "the index is missing, run the tasks tagged setup first: no such index [x]",
        ),
        (
            Refused(429, "circuit_breaking_exception", "[request] Data too large"),
            "a circuit breaker stopped it, give the target more heap: [request] Data too large",
        ),
        (
            Refused(400, reason='{"error": "no handler found for uri [/_query]", "status": 400}'),
            "HTTP 400 no handler found for uri [/_query]",
        ),
        (Refused(502, reason="<html>Bad\n\x1bGateway"), "HTTP 502 <html>Bad Gateway"),
        (TIMEOUT, "no answer, ConnectionTimeout: Connection timed out during request"),
        (LOST, "no answer, ConnectionError: Server disconnected"),
    ],
)
def test_whatever_went_wrong_gets_one_clear_line(answer, raw, line):
    assert refusal(asyncio.run(failed(answer, raw))) == line


def test_of_an_error_with_causes_the_innermost_reason_is_told():
    innermost = {"type": "c", "reason": "field [x] is a keyword"}
    cause = {"type": "a", "reason": "all shards failed", "caused_by": {"reason": "b", "caused_by": innermost}}
    error = SimpleNamespace(status_code=400, body={"error": cause})
    assert refusal(error) == "HTTP 400 a: field [x] is a keyword"


def test_what_was_done_to_some_shards_alone_ends_the_race():
    for answer in ({}, {"_shards": {"total": 2, "failed": 0}}):
        all_shards("x", answer, "refreshed")
    with pytest.raises(exceptions.RallyAssertionError, match=r"^index \[x\]: 1 of its shards were not refreshed$"):
        all_shards("x", {"_shards": {"total": 2, "failed": 1}}, "refreshed")


def test_what_rally_takes_the_time_of_costs_the_target_nothing():
    es = FakeEs(lambda *_: {})
    with es.new_request_context() as context:
        asyncio.run(touch(es))
    assert es.sent == ["GET /"] and context.request_end - context.request_start == 1


def test_a_request_may_have_a_time_of_its_own_to_be_answered_in():
    given, es = [], FakeEs(lambda *_: {})
    es.options = lambda **options: given.append(options) or es
    asyncio.run(request(es, "POST", "/x/_forcemerge"))
    assert given == []
    asyncio.run(request(es, "POST", "/x/_forcemerge", timeout=600))
    assert given == [{"request_timeout": 600}]


@pytest.mark.parametrize("answer", [Refused(403, "security_exception", PRIVILEGE), Refused(500), TIMEOUT, LOST])
def test_a_guard_lets_nothing_through_that_rally_makes_a_sample_of(answer):
    async def guarded():
        with guarding("index [x] cannot be deleted"):
            await request(FakeEs(lambda *_: answer), "DELETE", "/x")

    with pytest.raises(exceptions.RallyAssertionError, match=r"^index \[x\] cannot be deleted: (HTTP|no answer)"):
        asyncio.run(guarded())


@pytest.mark.parametrize("status", [401, 403])
def test_what_is_forbidden_ends_the_race_even_where_one_sample_may_be_lost(status):
    def lost(answer, timings):
        async def asked():
            with losing_one("x", "coverage", timings, round=7):
                await request(FakeEs(lambda *_: answer), "POST", "/x/_search")

        asyncio.run(asked())

    timings = []
    for other in (*(Refused(code, "exception", "x") for code in (400, 404, 429, 503)), TIMEOUT, LOST):
        lost(other, timings)
    assert [(timing["success"], timing["round"]) for timing in timings] == [(False, 7)] * 6
    assert all(timing["dependent_timing"]["service_time"] > 0 for timing in timings)
    with pytest.raises(exceptions.RallyAssertionError, match=r"\[read\]"):
        lost(Refused(status, "security_exception", "granted by the index privileges [read]"), timings)


def test_a_failure_aside_leaves_the_sample_the_times_that_rally_takes_of_it():
    async def run(es):
        with es.new_request_context() as context, pytest.raises(elasticsearch.ConnectionTimeout):
            await get(es, "/_stats")
        return context

    context = asyncio.run(run(FakeEs(lambda *_: TIMEOUT)))
    assert context.request_end > context.request_start


def test_what_is_sent_aside_is_no_part_of_the_sample():
    async def run(es):
        with es.new_request_context() as context:
            with aside(es):
                await request(es, "GET", "/")
            await request(es, "GET", "/")
            with aside(es):
                await request(es, "GET", "/")
        return context.request_end - context.request_start

    assert asyncio.run(run(FakeEs(lambda *_: {}))) == 1


@pytest.mark.parametrize("answer", [Refused(429), Refused(503), TIMEOUT, LOST])
def test_a_timed_request_is_sent_once_and_a_look_at_the_target_is_repeated(answer):
    es = FakeEs(Script({"POST": [answer, {}], "GET": [answer, {"found": 1}]}))
    with pytest.raises((elasticsearch.ApiError, elasticsearch.TransportError)):
        asyncio.run(send(es, Request("/_search", "application/json", b"{}")))
    assert es.sent == ["POST /_search"]
    assert asyncio.run(get(es, "/_stats")) == {"found": 1}
    assert es.sent[1:] == ["GET /_stats"] * 2


UNPARSED = {"type": "document_parsing_exception", "reason": "no number"}


@pytest.mark.parametrize(
    "answer, message",
    [
        (
            Refused(403, "security_exception", PRIVILEGE),
            "bulk to [x] was refused: HTTP 403 security_exc.*delete_index",
        ),
        (Refused(503, "no_master", "x"), "bulk to [x] was refused: HTTP 503 no_master: x"),
        (
            Refused(429, "circuit_breaking_exception", "Data too large"),
            "bulk to [x]: 2 of 2 .*breaking.*Data too large",
        ),
        ({"took": 1, "errors": True, "items": [{"index": {"error": UNPARSED}}]}, "bulk to [x]: 1 of 2 .*no number"),
        (TIMEOUT, "bulk to [x]: no answer, ConnectionTimeout"),
        (LOST, "bulk to [x]: no answer, ConnectionError"),
    ],
)
def test_a_load_that_fails_ends_the_race_and_names_the_cause(answer, message, monkeypatch):
    async def at_once(seconds):
        pass

    monkeypatch.setattr("cluster_metrics.wire.bulk.asyncio.sleep", at_once)
    message = message.replace("[", r"\[").replace("(", r"\(")
    with pytest.raises(exceptions.RallyAssertionError, match=message):
        asyncio.run(load(FakeEs(lambda *_: answer), "x", b"", 2))


@pytest.mark.parametrize("content_type, accept", [("smile", "json"), ("json", "smile"), ("smile", "smile")])
def test_beside_smile_both_types_have_a_version(content_type, accept):
    es = FakeEs(lambda *_: {})
    asked = Request("/x/_search", f"application/{content_type}", b"", f"application/{accept}")
    assert asyncio.run(send(es, asked)) == b"{}"
    versioned = "application/vnd.elasticsearch+{}; compatible-with=8".format
    assert es.headers == [{"content-type": versioned(content_type), "accept": versioned(accept)}]


def test_when_one_of_several_fails_the_others_stop():
    done = []

    async def one(number, fails):
        await asyncio.sleep(0)
        if fails:
            raise ValueError
        await asyncio.sleep(0.01)
        done.append(number)

    async def run():
        with pytest.raises(ValueError):
            await at_once([one(1, False), one(2, True)])
        await asyncio.sleep(0.05)

    asyncio.run(run())
    assert done == []


def test_when_one_of_several_fails_the_others_have_ended_before_it_is_told():
    ended = []

    async def other():
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.001)
            ended.append("other")

    async def fails():
        await asyncio.sleep(0)
        raise ValueError

    async def run():
        with pytest.raises(ValueError):
            await at_once([other(), fails()])
        assert ended == ["other"]

    asyncio.run(run())


def test_what_is_smile_goes_through_the_client_as_it_is_and_comes_back_undecoded():
    es, body = elasticsearch.AsyncElasticsearch("http://127.0.0.1:1"), smile.encode({"a": 1})
    headers = headers_of(es, smile.CONTENT_TYPE, smile.CONTENT_TYPE)
    serializers = es.transport.serializers
    assert serializers.dumps(body, headers["content-type"]) == body
    assert serializers.loads(body, headers["accept"]).getvalue() == body


class Body(bytes):
    """A body that counts how often it is made text."""

    texts = 0

    def decode(self, *_):
        Body.texts += 1
        return ""


@pytest.mark.parametrize("level, texts", [(logging.WARNING, 0), (logging.DEBUG, 1)])
def test_a_body_is_made_text_only_for_a_log_that_is_kept(monkeypatch, level, texts):
    logger = logging.Logger("elastic_transport.node", level)  # of another manager, as in Rally's actors
    logger.parent = logging.Logger("root")
    logger.parent.addHandler(logging.NullHandler())
    monkeypatch.setattr(_base, "_logger", logger)
    monkeypatch.setattr(Body, "texts", 0)
    once(FakeEs(lambda *_: {}))
    _base.BaseNode._log_request(None, "POST", "/_bulk", None, Body(b":)"))
    assert Body.texts == texts
