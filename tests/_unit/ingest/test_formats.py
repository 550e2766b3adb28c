"""The cells of ingest-formats."""

import json
from types import SimpleNamespace

import pytest
from fakes import values

from cluster_metrics.corpus.encoded import Bodies, generate_bodies
from cluster_metrics.ingest import weblogs
from cluster_metrics.ingest.ingest_formats import READ, _Documents
from cluster_metrics.ingest.weblogs import BATCHES, MOST_BATCHED, WebLogs
from cluster_metrics.wire import smile

VALUES = values(cell_requests=20)
ENCODED = SimpleNamespace(content_type="x", body=lambda first, count: (first, count))


def cells(number, bulk_size, clients=1, least=100, most=1000):
    of = _Documents("weblogs", {"json": ENCODED, "smile-32": ENCODED}, least, most, {}, [], lines=1)
    return list(of.cells(number, f"weblogs-{{}}-{bulk_size}-by-{clients}", bulk_size, clients, VALUES))


@pytest.mark.parametrize(
    "bulk_size, clients, documents",
    [(1, 1, 100), (5, 1, 100), (10, 1, 200), (10, 30, 300), (50, 1, 1000), (500, 1, 1000)],
)
def test_a_cell_has_twenty_requests_and_one_a_client_as_far_as_there_are_documents(bulk_size, clients, documents):
    assert {count for _, count, _ in cells(1, bulk_size, clients)} == {documents}


def test_rounds_go_on_in_the_log_and_begin_anew_where_too_few_documents_are_left():
    starts = [cells(number, 15)[0][0].body(0, 15)[0] for number in (-1, 0, 1, 2, 3, 4)]
    assert starts == [0, 0, 0, 300, 600, 0]


def test_the_formats_of_a_cell_differ_in_nothing_else():
    (plain, *_), (own, *_) = cells(2, 10)
    assert (plain.name, own.name) == ("weblogs-json-10-by-1", "weblogs-smile-32-10-by-1")
    assert plain.meta | {"encoding": ""} == own.meta | {"encoding": ""}
    assert plain.body(3, 4) == own.body(3, 4) == (203, 4)
    assert plain.reads == own.reads == READ


@pytest.mark.parametrize("encoding", ["json", "smile-32", "smile-64"])
def test_batches_are_the_first_lines_of_the_log_in_every_format(tmp_path, encoding):
    log = WebLogs(150, 7)
    lines = list(log.rows())
    for number, of in enumerate(BATCHES, start=1):
        rows_file = log.generate(number, tmp_path)
        generate_bodies(log, number, encoding, rows_file)
        whole = log.parts()[number].docs
        assert whole == 150 // of
        encoded = Bodies(rows_file, encoding)
        for document in range(whole):
            raw = encoded.body(document, 1)
            if encoding == "json":
                action, found = map(json.loads, raw.splitlines())
            else:
                action, found = map(smile.decode, raw.removesuffix(smile.SEPARATOR).split(smile.SEPARATOR))
            assert action == {"index": {}} and found.keys() == weblogs.BATCH_MAPPINGS["properties"].keys()
            expected = lines[document * of : (document + 1) * of]
            assert [line["id"] for line in found["lines"]] == [line["id"] for line in expected]


def test_batches_are_no_more_lines_than_a_cell_takes():
    assert [part.docs for part in WebLogs().parts()] == [1_000_000, *(MOST_BATCHED // lines for lines in BATCHES)]
    assert [part.docs for part in WebLogs(64).parts()] == [64, 64, 16, 4, 1]
