"""The cells of ingest-formats."""

import asyncio
import itertools
import json
from types import SimpleNamespace

import pytest
from fakes import FakeEs, track_of, values

from cluster_metrics.core.challenge import challenges
from cluster_metrics.corpus.encoded import Bodies, generate_bodies
from cluster_metrics.corpus.loglines import TEMPLATE, records
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.ingest import ingest_formats, weblogs
from cluster_metrics.ingest.ingest_formats import (
    ENCODING,
    READ,
    IngestFormatsParams,
    IngestFormatsRunner,
    _Documents,
    encoders,
)
from cluster_metrics.ingest.weblogs import BATCHES, MOST_BATCHED, WebLogs
from cluster_metrics.wire import smile
from cluster_metrics.wire.bulk import Backoff

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


def test_another_seed_gives_another_log_and_the_same_one_the_same():
    one, again, other = (list(WebLogs(70, seed).rows()) for seed in (7, 7, 8))
    assert one == again and all(a != b for a, b in zip(one, other))


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
            assert raw.count(b"referrer") == (of if encoding == "json" else 1), "SMILE has a name once in a document"


def test_a_document_has_the_parts_of_a_line_as_its_fields():
    for row, record in zip(WebLogs(70, 7).rows(), records(7, 0)):
        told = f'"{row["request"]}" {row["status"]} {row["bytes"]} "{row["referrer"]}" "{row["agent"]}"'
        line = TEMPLATE % record
        assert line.startswith(f"{row['client']} - - [01/Nov/2026:00:00:00 +0000] {told}")
        assert line.endswith(f'" {row["duration"]:.3f} {row["id"]}') and row["@timestamp"] == 1793491200


def test_the_log_goes_on_from_block_to_block_and_from_second_to_second(monkeypatch):
    monkeypatch.setattr(weblogs, "BLOCK_LINES", 50)
    monkeypatch.setattr(weblogs, "LINES_PER_SECOND", 30)
    rows = list(WebLogs(120, 7).rows())
    blocks = [list(itertools.islice(records(7, block), 50)) for block in range(3)]
    assert [row["id"] for row in rows] == [record[-1] for block in blocks for record in block][:120]
    assert [row["@timestamp"] for row in rows] == [1793491200 + number // 30 for number in range(120)]


def test_batches_are_no_more_lines_than_a_cell_takes(monkeypatch):
    assert [part.docs for part in WebLogs().parts()] == [1_000_000, *(MOST_BATCHED // lines for lines in BATCHES)]
    assert [part.docs for part in WebLogs(64).parts()] == [64, 64, 16, 4, 1]
    assert [count.documents for count in WebLogs(64).counts([], {})] == [64]
    monkeypatch.setattr(weblogs, "MOST_BATCHED", 40)
    log = WebLogs(64)
    made = [len(list(log.batches(lines))) for lines in BATCHES]
    assert made == [part.docs for part in log.parts()[1:]] == [40, 10, 2, 0]


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The param source of small corpora, on a load driver of three cores."""
    monkeypatch.setattr(ingest_formats.os, "cpu_count", lambda: 3)
    corpora = Metrics(nodes=2, tasks=2, rows_per_epoch=100, epochs=1), WebLogs(64, 7)
    indices = {"cluster-metrics": {"mappings": {"of": "metrics"}}}
    track = track_of(*corpora, root=tmp_path, encodings=["json", "smile-32"], indices=indices)
    given = {"format_rows": 16, "cell_requests": 2, "bulk_sizes": [2, 10, 50], "client_counts": [2, 0, 3]}
    given |= {"formats": ["json", "smile-32"], "bulk_retries": 3, "number_of_shards": 2}
    return IngestFormatsParams(track, {"parameters": values(**given), "warmup-iterations": 0})


def test_a_round_has_every_corpus_in_every_format_bulk_size_and_number_of_clients_and_batches_of_as_many_lines(source):
    params = source.params()
    found = {cell.name: (cell.bulk_size, cell.clients, documents) for cell, documents, _ in params["cells"]}
    shapes = {
        "metrics-{}-2-by-2": (2, 2, 16),
        "metrics-{}-2-by-3": (2, 3, 16),
        "metrics-{}-10-by-2": (10, 2, 20),
        "metrics-{}-10-by-3": (10, 3, 30),
        "metrics-{}-50-by-2": (50, 2, 100),
        "metrics-{}-50-by-3": (50, 3, 100),
        "weblogs-{}-2-by-2": (2, 2, 8),
        "weblogs-{}-2-by-3": (2, 3, 8),
        "weblogs-{}-10-by-2": (10, 2, 20),
        "weblogs-{}-10-by-3": (10, 3, 30),
        "weblogs-{}-50-by-2": (50, 2, 64),
        "weblogs-{}-50-by-3": (50, 3, 64),
        "batches-of-1-{}": (1000, 1, 64),
        "batches-of-4-{}": (250, 1, 16),
        "batches-of-16-{}": (62, 1, 4),
        "batches-of-64-{}": (15, 1, 1),
    }
    assert found == {name.format(of): shape for name, shape in shapes.items() for of in ("json", "smile-32")}
    assert (params["round"], params["settings"]["index.number_of_shards"], params["foreign"]) == (1, 2, False)
    assert {cell.send.keywords["backoff"] for cell, _, _ in params["cells"]} == {Backoff(3, 0.5, one_by_one=True)}
    assert [cell.name for cell, _, _ in source.params()["cells"]] != list(found)
    changed = source.values | {"seed": 7, "delete_foreign_index": True}
    other = IngestFormatsParams(source.track, {"parameters": changed, "warmup-iterations": 0}).params()
    assert [cell.name for cell, _, _ in other["cells"]] != list(found) and other["foreign"] is True


def test_a_cell_sends_the_documents_of_its_corpus_to_an_index_for_them(source):
    params = source.params()
    of = {cell.name: (cell, documents, mappings) for cell, documents, mappings in params["cells"]}
    assert params["documents"].keys() == {"metrics", "weblogs"}, "batches are of lines that are there already"
    log = params["documents"]["weblogs"]
    batched = [{"lines": log[i : i + 4]} for i in range(0, 64, 4)]
    for name, wanted, mapped, lines in (
        ("metrics-{}-50-by-2", params["documents"]["metrics"], {"of": "metrics"}, 0),
        ("weblogs-{}-50-by-3", log, weblogs.MAPPINGS, 1),
        ("batches-of-4-{}", batched, weblogs.BATCH_MAPPINGS, 4),
    ):
        cell, documents, mappings = of[name.format("json")]
        sent = [json.loads(line) for line in cell.body(0, documents).splitlines()]
        assert sent[1::2] == wanted and mappings == mapped
        assert cell.meta == {"corpus": name.split("-")[0], "encoding": "json", "lines": lines}
        cell, documents, mappings = of[name.format("smile-32")]
        sent = [smile.decode(item) for item in cell.body(0, documents).split(smile.SEPARATOR)[:-1]]
        assert [document.keys() for document in sent[1::2]] == [document.keys() for document in wanted]
        assert mappings == mapped and cell.send.keywords["content_type"] == smile.CONTENT_TYPE


def test_encoders_have_the_first_documents_of_each_corpus_to_encode(source, monkeypatch):
    whole = source.params()["documents"]
    monkeypatch.setattr(ingest_formats, "ENCODED", 40)
    fewer = IngestFormatsParams(source.track, {"parameters": source.values, "warmup-iterations": 0}).params()
    assert fewer["documents"] == {corpus: documents[:40] for corpus, documents in whole.items()}


TICKS = {"perf_counter": 3, "process_time": 2, "time": 1}


def test_every_encoder_encodes_every_document_with_its_action_in_each_round(monkeypatch):
    clocks = {name: itertools.count(100, step).__next__ for name, step in TICKS.items()}
    monkeypatch.setattr(ingest_formats, "time", SimpleNamespace(**clocks))
    ran, documents = [], [{"n": n} for n in range(3)]

    async def run_cells(es, *about):
        ran.append(about)
        return []

    monkeypatch.setattr(ingest_formats, "run_cells", run_cells)
    params = {"round": 2, "cells": ["c"], "settings": {"s": 1}, "foreign": True, "documents": {"metrics": documents}}
    result = asyncio.run(IngestFormatsRunner()(FakeEs(None), params))
    assert ran == [(2, ["c"], {"s": 1}, True)]
    found = {sample.pop("encoder"): sample for sample in result["dependent_timing"]}
    assert found.keys() == encoders().keys() >= {"json", "smile-32", "smile-64"}
    for name, sample in found.items():
        timing = sample.pop("dependent_timing")
        assert (timing["operation"], timing["operation-type"]) == (f"metrics-{name}", ENCODING)
        assert (timing["service_time"], sample.pop("client_cpu_ms")) == (3, 2000)
        encode = encoders()[name]
        size = sum(len(encode(item)) for document in documents for item in ({"index": {}}, document))
        about = {"corpus": "metrics", "documents": 3, "bytes": size, "round": 2}
        assert sample == about | {"success": True, "error-count": 0}
    assert found["json"]["bytes"] == 3 * len('{"index":{}}{"n":0}')


@pytest.mark.parametrize("formats", [["smile-32"], ["smile-32", "json"], ["json", "smile-32"]])
def test_json_is_always_among_the_formats_and_first(formats):
    record, given = challenges()["ingest-formats"], values(formats=formats)
    assert record.derived(given)["formats"] == record.encodings(given) == ["json", "smile-32"]
