"""What becomes of the documents of bulk requests, and how those are sent again that a full queue rejected."""

import asyncio
import gzip
import itertools
import json
import platform
import subprocess
import sys
from collections import Counter

import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, values

from cluster_metrics.wire import smile
from cluster_metrics.wire.bulk import STATUSES, Backoff, BulkCounts, failures_in, load_all, send_bulk

REJECTED = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
UNPARSED = {"type": "document_parsing_exception", "reason": "x" * 1000}


def test_failures_carry_status_type_and_a_short_reason():
    items = [{"index": {"status": 201}}, {"index": {"status": 400, "error": UNPARSED}}]
    assert failures_in({"errors": True, "items": items}, 2) == [("400 document_parsing_exception", "x" * 600)]


def test_a_filtered_response_has_no_status_but_a_full_queue_is_known():
    items = [{"index": {"error": REJECTED}}, {"create": {"error": UNPARSED}}]
    kinds = [kind for kind, _ in failures_in({"errors": True, "items": items}, 5)]
    assert kinds == ["429 es_rejected_execution_exception", "document_parsing_exception"]


def test_an_error_whose_type_ends_that_of_a_full_queue_is_none():
    items = [{"index": {"error": {"type": "exception", "reason": "x"}}}]
    assert failures_in({"errors": True, "items": items}, 1) == [("exception", "x")]


def test_a_request_refused_as_a_whole_fails_every_document():
    assert failures_in({"error": REJECTED, "status": 429}, 3) == [("429 " + REJECTED["type"], "queue is full")] * 3


def test_what_misleads_in_the_words_of_elasticsearch_is_explained_of_a_request_and_of_a_document():
    refused = Refused(400, "illegal_argument_exception", "must be terminated by a newline [\\n]")
    with pytest.raises(exceptions.RallyAssertionError, match=r"was refused: .*by a newline.* \(or, in SMILE, "):
        asyncio.run(send_bulk(FakeEs(lambda *_: refused), "x", b"", 1))
    cause = {"reason": "x", "caused_by": {"reason": "Unexpected character (':' (code 58))"}}
    items = [{"index": {"error": {"type": "t", "reason": "failed to parse", "caused_by": cause}}}]
    [(_, reason)] = failures_in({"errors": True, "items": items}, 1)
    assert reason == "failed to parse (is it SMILE under the content type of JSON?)"


def test_counts_add_up_and_keep_three_different_reasons():
    total = BulkCounts()
    assert total.problem() == ""
    for reason in ("a", "a", "b", "c", "d"):
        total.add(BulkCounts(10, 8, Counter({"400 e": 2}), [reason], requests=1, retries=1, took_ms=3.0, bytes_in=7))
    assert (total.sent, total.acknowledged, total.errors, total.requests, total.retries) == (50, 40, 10, 5, 5)
    assert (total.took_ms, total.bytes_in) == (15.0, 35)
    assert total.problem() == "10 of 50 documents rejected: 10 by 400 e (a | b | c)"


WHOLE = Refused(429, REJECTED["type"], REJECTED["reason"])
TAKEN, FULL, BAD, AWAY = 201, 429, 400, 503
ABSENT = {"type": "unavailable_shards_exception", "reason": "no shard"}
ERRORS = {FULL: REJECTED, BAD: UNPARSED | {"reason": "no number"}, AWAY: ABSENT}
AT_ONCE = Backoff(pause_s=0, one_by_one=True)


class Node:
    """A node that takes documents, or rejects them, as it is told, and notes what it took.

    :param told: of each request a status for each of its documents, or an answer to the whole of it.
    """

    def __init__(self, *told):
        self._told = iter(told)
        self.bodies, self.taken = [], []
        self.bytes_in = self.bytes_out = 0

    def __call__(self, method, path, body):
        found = self._answer(path, body)
        self.bytes_in += len(body)
        self.bytes_out += len(json.dumps(found.body if isinstance(found, Refused) else found))
        return found

    def _answer(self, path, body):
        told = next(self._told)
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        separator = smile.SEPARATOR if body.startswith(smile.HEADER) else b"\n"
        *parts, rest = body.split(separator)
        documents = parts[1::2]
        assert rest == b"" and len(parts) == 2 * len(documents) and len(set(parts[::2])) == 1
        self.bodies.append(documents)
        if isinstance(told, Refused):
            return told
        assert len(told) == len(documents)
        self.taken += [document for document, status in zip(documents, told) if status == TAKEN]
        items = [{"status": status} | ({"error": ERRORS[status]} if status in ERRORS else {}) for status in told]
        if "filter_path" in path and STATUSES not in path:
            items = [{"error": item["error"]} for item in items if "error" in item]
        return {"took": 1, "errors": any(s != TAKEN for s in told), "items": [{"index": item} for item in items]}


def sent(node, documents, backoff=AT_ONCE, **options):
    """Sends that many different documents; returns the counts."""
    found = [b'{"n":%d}' % number for number in range(documents)]
    body = b"".join(b'{"index":{}}\n' + document + b"\n" for document in found)
    return asyncio.run(send_bulk(FakeEs(node), "x", body, documents, backoff=backoff, **options)), found


@pytest.mark.parametrize("filter_path", ["took,errors,items.*.error", ""])
@pytest.mark.parametrize("compress", [False, True])
def test_documents_that_a_full_queue_rejected_are_sent_again_they_alone(filter_path, compress):
    node = Node([TAKEN, FULL, TAKEN, FULL, FULL], [FULL, TAKEN, FULL], WHOLE, [TAKEN, TAKEN])
    counts, found = sent(node, 5, filter_path=filter_path, compress=compress)
    assert [len(documents) for documents in node.bodies] == [5, 3, 2, 2]
    assert sorted(node.taken) == found
    assert (counts.sent, counts.acknowledged, counts.errors, counts.problem()) == (5, 5, 0, "")
    assert (counts.requests, counts.retries, counts.repeated_docs, counts.took_ms) == (4, 3, 3 + 2 + 2, 3.0)
    assert (counts.bytes_out, counts.bytes_in) == (node.bytes_in, node.bytes_out)


def test_the_same_in_smile():
    node = Node([FULL, TAKEN, FULL], [TAKEN, TAKEN])
    action, *found = (smile.encode(item) for item in ({"index": {}}, *({"n": 0.1 * n} for n in range(3))))
    body = b"".join(part + smile.SEPARATOR for document in found for part in (action, document))
    counts = asyncio.run(send_bulk(FakeEs(node), "x", body, 3, smile.CONTENT_TYPE, backoff=AT_ONCE))
    assert node.bodies == [found, [found[0], found[2]]] and sorted(node.taken) == sorted(found)
    assert (counts.acknowledged, counts.repeated_docs) == (3, 2)


def test_a_request_rejected_as_a_whole_is_sent_again_as_a_whole():
    node = Node(WHOLE, [FULL] * 3, [TAKEN] * 3)
    counts, found = sent(node, 3, Backoff(pause_s=0))
    assert node.bodies == [found] * 3 and node.taken == found
    assert (counts.requests, counts.retries, counts.repeated_docs, counts.acknowledged) == (3, 2, 6, 3)


def test_a_real_error_beside_full_queues_is_not_sent_again_and_not_forgotten():
    node = Node([BAD, FULL, TAKEN, FULL, AWAY], [TAKEN, BAD])
    counts, _ = sent(node, 5)
    assert [len(documents) for documents in node.bodies] == [5, 2] and len(node.taken) == counts.acknowledged == 2
    assert counts.repeated_docs == 2, "what has a real error is not repeated"
    kinds = "2 by 400 document_parsing_exception, 1 by 503 unavailable_shards_exception"
    assert counts.problem() == f"3 of 5 documents rejected: {kinds} (no number | no shard)"


def test_a_queue_that_stays_full_is_given_up_and_its_documents_are_counted():
    node = Node([FULL, TAKEN, FULL], [TAKEN, FULL], [FULL])
    counts, _ = sent(node, 3, Backoff(2, 0, one_by_one=True))
    assert (counts.requests, counts.retries, counts.repeated_docs) == (3, 2, 3)
    assert (counts.acknowledged, counts.rejected) == (2, {"429 " + REJECTED["type"]: 1})
    counts, _ = sent(Node(WHOLE), 3, Backoff(0, 0))
    assert (counts.requests, counts.retries, counts.acknowledged, counts.errors) == (1, 0, 0, 3)


def test_what_a_response_does_not_tell_apart_is_not_sent_again():
    node = Node([TAKEN, FULL])
    counts, _ = sent(node, 2, Backoff(pause_s=0))
    assert (counts.requests, counts.acknowledged, counts.rejected) == (1, 1, {"429 " + REJECTED["type"]: 1})


@pytest.mark.parametrize("compress", [False, True])
def test_pauses_double_and_are_counted_apart_and_so_is_the_time_to_compress(monkeypatch, compress):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    clock = itertools.count()
    monkeypatch.setattr("cluster_metrics.wire.bulk.asyncio.sleep", sleep)
    monkeypatch.setattr("cluster_metrics.wire.bulk.time.perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr("cluster_metrics.wire.bulk.gzip.compress", lambda body, level: (next(clock), body)[1])
    counts, _ = sent(Node(*[[FULL]] * 3, [TAKEN]), 1, Backoff(pause_s=0.25), compress=compress)
    assert pauses == [0.25, 0.5, 1.0]
    assert counts.encode_ms == (8000 if compress else 0)
    assert (counts.retries, counts.retry_wait_ms, counts.send_ms, counts.parse_ms) == (3, 3000, 4000, 8000)
    pauses.clear()
    counts, _ = sent(Node(*[[FULL]] * 6), 1, Backoff())
    assert (pauses, counts.errors) == ([0.5, 1.0, 2.0, 4.0, 8.0], 1)


@pytest.mark.parametrize("loaders", [1, 2])
def test_each_body_is_loaded_once_however_many_are_on_their_way(loaders):
    es, bodies = FakeEs(lambda *_: {"took": 1, "errors": False}), [b"1", b"2", b"3"]
    with es.new_request_context() as context:
        asyncio.run(load_all(es, "x", ((body, 1) for body in bodies), loaders))
    assert context.request_start is None, "it is no part of the sample"
    assert sorted(body for *_, body in es.requests) == bodies
    assert es.sent == ["POST /x/_bulk?filter_path=took,errors,items.*.error,items.*.status"] * 3


@pytest.mark.parametrize("loaders", [1, 2, 3])
def test_as_many_bodies_are_on_their_way_at_once_as_there_are_loaders(monkeypatch, loaders):
    begun, ended, at_once = [], [], []

    async def load(*_):
        begun.append(1)
        at_once.append(len(begun) - len(ended))
        await asyncio.sleep(0)
        ended.append(1)

    monkeypatch.setattr("cluster_metrics.wire.bulk.load", load)
    asyncio.run(load_all(FakeEs(lambda *_: {}), "x", iter([(b"", 1)] * 6), loaders))
    assert max(at_once) == loaders and len(ended) == 6


FAULTS = """
import asyncio, resource
from fakes import FakeEs
from cluster_metrics.wire.bulk import send_bulk

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        [bytearray(body) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

body = bytes(4 << 20)
before = faults()
asyncio.run(send_bulk(FakeEs(lambda *_: {"took": 1, "errors": False}), "i", b"", 1))
faults()
print(before, faults())
"""


@pytest.mark.skipif(not platform.libc_ver()[0], reason="of glibc")
def test_memory_of_a_body_is_kept_for_the_next():
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    before, after = map(int, done.stdout.split())
    assert before > 20 * 1000 > 2000 > after


@pytest.mark.parametrize(
    "options, named",
    [
        ({}, "?filter_path=took,errors,items.*.error"),
        ({"filter_path": ""}, ""),
        ({"filter_path": "", "backoff": AT_ONCE}, ""),
        ({"filter_path": "", "backoff": AT_ONCE, "pipeline": "p"}, "?pipeline=p"),
        ({"filter_path": "took"}, "?filter_path=took"),
        ({"filter_path": "took", "backoff": AT_ONCE}, "?filter_path=took,items.*.status"),
        ({"filter_path": "took", "pipeline": "p"}, "?pipeline=p&filter_path=took"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_a_request_names_its_pipeline_and_what_of_the_response_is_wanted(options, named, compress):
    es, body = (
        FakeEs(lambda *_: {"took": 7, "errors": False}),
        b"".join(b'{"index":{}}\n{"n":%d}\n' % n**2 for n in range(100)),
    )
    counts = asyncio.run(send_bulk(es, "x", body, 100, compress=compress, **options))
    [(method, path, sent)], [headers] = es.requests, es.headers
    assert (method, path) == ("POST", f"/x/_bulk{named}")
    encoding = {"content-encoding": "gzip"} if compress else {}
    assert headers == {"content-type": "application/x-ndjson", "accept": "application/json"} | encoding
    assert (gzip.decompress(sent) if compress else sent) == body
    assert (counts.bytes_out, counts.bytes_in) == (len(sent), len(json.dumps({"took": 7, "errors": False})))
    assert (counts.encode_ms > 0) == compress
    assert not compress or sent[10:] == gzip.compress(body, 1)[10:], "the fastest level, behind a header with the time"


def test_bodies_in_smile_have_their_type_and_a_version_on_both_sides():
    es = FakeEs(lambda *_: {"took": 7, "errors": False})
    asyncio.run(send_bulk(es, "x", b"", 1, smile.CONTENT_TYPE))
    assert es.headers == [
        {
            "content-type": "application/vnd.elasticsearch+smile; compatible-with=8",
            "accept": "application/vnd.elasticsearch+json; compatible-with=8",
        }
    ]


def test_the_track_parameters_say_how_rejected_documents_are_sent_again():
    given = {"bulk_retries": 3, "bulk_retry_pause_ms": 250}
    assert Backoff.of(values(**given, number_of_shards=1)) == Backoff(3, 0.25, one_by_one=False)
    assert Backoff.of(values(**given, number_of_shards=2)) == Backoff(3, 0.25, one_by_one=True)
