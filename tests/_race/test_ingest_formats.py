"""SMILE and the challenge ingest-formats on a real node."""

import csv
import json
import struct

import pytest
import requests
from conftest import ROOT, WORK, make
from esrally import exceptions

from cluster_metrics.corpus.encoded import Bodies, generate_bodies, metrics_bodies
from cluster_metrics.corpus.metrics import FIELDS, Metrics
from cluster_metrics.ingest.weblogs import BATCHES, MAPPINGS, WebLogs
from cluster_metrics.wire import smile
from cluster_metrics.wire.bulk import send_bulk
from cluster_metrics.wire.requests import Request, send

INDEX = "formats-test"
ACTION, DOCUMENT, END = smile.encode({"index": {}}), smile.encode({"cpu": 1.5}), smile.SEPARATOR
GOOD = ACTION + END + DOCUMENT + END


@pytest.fixture
def index(loaded):
    """The name of a new index with the mapping of the track."""
    url = f"{loaded['target']}/{INDEX}"
    requests.put(url, json=json.loads((ROOT / "index.json").read_text()), timeout=30).raise_for_status()
    yield INDEX
    requests.delete(url, timeout=30).raise_for_status()


@pytest.mark.parametrize(
    "body, content_type, answer, meaning",
    [
        (GOOD.replace(END, b"\n"), None, "400 .* must be terminated by a newline", "in SMILE, by the byte 0xFF"),
        (GOOD[:-1], None, "400 .* must be terminated by a newline", "in SMILE, by the byte 0xFF"),
        (ACTION + b"\n" + DOCUMENT + END, None, "400 .* shared text value", "by the byte 0xFF, not by a newline"),
        (ACTION[4:] + GOOD[len(ACTION) :], None, "400 .* header", "every action and document needs a header"),
        (ACTION[:-2] + GOOD[len(ACTION) :], None, "400 .* Unexpected end", "an action or a document is cut off"),
        (GOOD + b"\n", "application/x-ndjson", "400 .* Unexpected character", "is it SMILE under the content type"),
        (b'{"index":{}}\xff{"cpu":1}\xff', None, "400 .* header", "every action and document needs a header"),
        (GOOD, "application/vnd.elasticsearch+smile; compatible-with=8", "400 .* required on both", "or neither"),
    ],
)
def test_a_body_that_is_framed_wrongly_is_refused_and_explained(
    index, with_client, body, content_type, answer, meaning
):
    async def sent(es):
        if content_type and "smile" in content_type:
            await send_bulk(es, index, GOOD, 1, smile.CONTENT_TYPE)  # the client has to know SMILE
        return await send_bulk(es, index, body, 1, content_type or smile.CONTENT_TYPE)

    with pytest.raises(exceptions.RallyAssertionError, match=f"was refused: HTTP {answer}.*\\(.*{meaning}"):
        with_client(sent)


@pytest.mark.parametrize(
    "document, meaning",
    [(DOCUMENT[4:], "has no header of its own"), (DOCUMENT[:-3], "an action or a document is cut off")],
)
def test_a_wrong_document_is_counted_and_explained(index, with_client, document, meaning):
    body = ACTION + END + document + END + GOOD
    counts = with_client(lambda es: send_bulk(es, index, body, 2, smile.CONTENT_TYPE))
    assert (counts.sent, counts.acknowledged, counts.errors) == (2, 1, 1)
    assert meaning in counts.problem()


def test_bulk_takes_no_cbor_but_search_does(loaded, index):
    headers = {"content-type": "application/cbor", "accept": "application/json"}
    action, document = b"\xa1\x65index\xa0", b"\xa1\x63cpu\x01"
    bulk = requests.post(f"{loaded['target']}/{index}/_bulk", action + document, headers=headers, timeout=30)
    assert bulk.status_code == 406
    assert "does not support stream parsing. Use JSON or SMILE instead" in bulk.text
    search = requests.post(f"{loaded['target']}/{index}/_search", b"\xa1\x64size\x00", headers=headers, timeout=30)
    assert search.json()["hits"]["total"]["value"] == 0


@pytest.mark.parametrize("bits", [32, 64])
def test_the_source_of_documents_sent_as_smile_comes_back_equal(tmp_path, index, with_client, bits):
    corpus, encoding = Metrics(rows_per_epoch=1000, epochs=1), f"smile-{bits}"
    rows_file = corpus.generate(0, tmp_path)
    generate_bodies(corpus, 0, encoding, rows_file)
    rounded = (lambda v: struct.unpack(">f", struct.pack(">f", v))[0]) if bits == 32 else float
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    rows = [row | {field: rounded(row[field]) for field in FIELDS} for row in rows]
    query = {"size": 1000, "aggs": {"sum": {"sum": {"field": "net"}}}}
    path = f"/{index}/_search"

    async def asked(es):
        encoded = metrics_bodies(corpus, 1, rows_file, encoding)
        counts = await send_bulk(es, index, encoded.body(0, 1000), 1000, encoded.content_type)
        assert counts.acknowledged == 1000
        await es.indices.refresh(index=index)
        as_json = json.loads(await send(es, Request(path, "application/json", json.dumps(query).encode())))
        mixed = json.loads(await send(es, Request(path, smile.CONTENT_TYPE, smile.encode(query))))
        as_smile = smile.decode(
            await send(es, Request(path, smile.CONTENT_TYPE, smile.encode(query), smile.CONTENT_TYPE))
        )
        return as_json, mixed, as_smile

    for answer in with_client(asked):
        hits = sorted(answer["hits"]["hits"], key=lambda hit: rows.index(_single(hit["_source"], rounded)))
        assert [_single(hit["_source"], rounded) for hit in hits] == rows
        assert answer["aggregations"]["sum"]["value"] == pytest.approx(sum(row["net"] for row in rows), rel=1e-6)


def _single(row, rounded):
    """A row as sent: JSON writes a float in single precision with as few digits as tell it from others."""
    return row | {field: rounded(row[field]) for field in FIELDS}


@pytest.mark.parametrize("encoding", ["json", "smile-32", "smile-64"])
def test_the_web_log_is_taken_in_every_format(loaded, tmp_path, with_client, encoding):
    log = WebLogs(500, 7)
    rows_file = log.generate(0, tmp_path)
    generate_bodies(log, 0, encoding, rows_file)
    encoded, name = Bodies(rows_file, encoding), f"{INDEX}-log"
    url = f"{loaded['target']}/{name}"
    requests.put(url, json={"mappings": MAPPINGS}, timeout=30).raise_for_status()
    try:
        bodies = [encoded.body(0, 200), encoded.body(200, 300)]
        for body, count in zip(bodies, (200, 300)):
            counts = with_client(lambda es, b=body, n=count: send_bulk(es, name, b, n, encoded.content_type))
            assert (counts.acknowledged, counts.problem()) == (count, "")
        requests.post(f"{url}/_refresh", timeout=30).raise_for_status()
        found = requests.post(f"{url}/_search", json={"size": 500}, timeout=30).json()["hits"]["hits"]
        expected = {row["id"]: row for row in log.rows()}
        for hit in found:
            source = hit["_source"]
            assert source | {"duration": pytest.approx(source["duration"])} == expected[source["id"]]
        assert len(found) == len(expected) == 500
    finally:
        requests.delete(url, timeout=30).raise_for_status()


def test_a_race_measures_every_cell_and_encoder_and_answers_the_blog(loaded, recorded, tmp_path):
    params = tmp_path / "params.json"
    given = {"warmup_iterations": 0, "ingest_rounds": 1, "bulk_sizes": [100, 1000], "client_counts": 2}
    params.write_text(json.dumps(given))
    race = make("race", TEST_MODE=1, CHALLENGE="ingest-formats", RACE_ID="formats", PARAMS=params)
    assert race.returncode == 0, race.stdout[-5000:]
    assert "INCOMPLETE" not in race.stdout
    recorded("formats")
    assert "10 to 20 % less over the network" in race.stdout and "not enough samples" in race.stdout
    folder = WORK / "reports" / "formats"
    with open(folder / "es_profile_ingest_formats.csv") as f:
        rows = list(csv.DictReader(f))
    seen = {(row["corpus"], row["lines"], row["encoding"], row["bulk_size"], row["clients"]) for row in rows}
    of = [(corpus, lines, size, "2") for corpus, lines in (("metrics", "0"), ("weblogs", "1")) for size in (100, 1000)]
    of += [("batches", str(lines), 1000 // lines, "1") for lines in BATCHES]
    encodings = ("json", "smile-32")
    assert seen == {(corpus, n, e, str(size), clients) for corpus, n, size, clients in of for e in encodings}
    assert all(float(row["read_ms"]) > 0 and int(row["segments"]) > 0 for row in rows)
    assert "the larger the documents, the less over the network" in race.stdout
    by_cell = {row["cell"]: int(row["bytes_out"]) / int(row["rows"]) for row in rows}
    assert (by_cell["metrics-json-100-by-2"], by_cell["metrics-smile-32-100-by-2"]) == (96, 79)
    with open(folder / "es_profile_encoders.csv") as f:
        encoders = {(row["corpus"], row["encoder"]) for row in csv.DictReader(f)}
    assert {("metrics", "json"), ("weblogs", "smile-32"), ("weblogs", "smile-64")} < encoders
    assert requests.head(f"{loaded['target']}/cluster-metrics-cell", timeout=30).status_code == 404
