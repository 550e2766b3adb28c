from collections import Counter

from cluster_metrics.wire.bulk import BulkCounts, _failures

REJECTED = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
UNPARSED = {"type": "document_parsing_exception", "reason": "x" * 1000}


def test_failures_carry_status_type_and_a_short_reason():
    items = [{"index": {"status": 201}}, {"index": {"status": 400, "error": UNPARSED}}]
    assert _failures({"errors": True, "items": items}, 2) == [("400 document_parsing_exception", "x" * 600)]


def test_a_filtered_response_has_no_status_but_a_full_queue_is_known():
    items = [{"index": {"error": REJECTED}}, {"create": {"error": UNPARSED}}]
    kinds = [kind for kind, _ in _failures({"errors": True, "items": items}, 5)]
    assert kinds == ["429 es_rejected_execution_exception", "document_parsing_exception"]


def test_a_request_refused_as_a_whole_fails_every_document():
    assert _failures({"error": REJECTED, "status": 429}, 3) == [("429 " + REJECTED["type"], "queue is full")] * 3


def test_counts_add_up_and_keep_three_different_reasons():
    total = BulkCounts()
    assert total.problem() == ""
    for reason in ("a", "a", "b", "c", "d"):
        total.add(BulkCounts(10, 8, Counter({"400 e": 2}), [reason], requests=1, retries=1, took_ms=3.0, bytes_in=7))
    assert (total.sent, total.acknowledged, total.errors, total.requests, total.retries) == (50, 40, 10, 5, 5)
    assert (total.took_ms, total.bytes_in) == (15.0, 35)
    assert total.problem() == "10 of 50 documents rejected: 10 by 400 e (a | b | c)"
