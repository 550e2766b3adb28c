import json
import struct
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_metrics.corpus import files
from cluster_metrics.corpus.encoded import ACTION, Bodies, encoded_file, generate_bodies, metrics_bodies
from cluster_metrics.corpus.files import CorpusError
from cluster_metrics.corpus.metrics import FIELDS, Metrics
from cluster_metrics.wire import smile


def generate(corpus, epoch, folder, encoding="json"):
    rows_file = corpus.generate(epoch - 1, folder)
    generate_bodies(corpus, epoch - 1, encoding, rows_file)
    return rows_file, metrics_bodies(corpus, epoch, rows_file, encoding)


corpora = st.builds(
    Metrics,
    nodes=st.integers(1, 12),
    tasks=st.integers(1, 12),
    rows_per_epoch=st.integers(1, 150),
    epochs=st.just(999),
    seed=st.integers(0, 9),
    timestamps=st.booleans(),
)


@settings(max_examples=30)  # each writes the files of a corpus
@given(corpora, st.sampled_from([1, 9, 10, 123]), st.data())
def test_a_slice_is_the_rows_with_an_action_before_each(tmp_path_factory, corpus, epoch, data):
    rows_file, encoded = generate(corpus, epoch, tmp_path_factory.mktemp("corpus"))
    rows = rows_file.read_bytes().splitlines(keepends=True)
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    expected = b"".join(b'{"index":{}}\n' + row for row in rows[first : first + count])
    assert encoded.body(first, count) == expected
    assert encoded.content_type == "application/x-ndjson"


@settings(max_examples=30)  # each writes the files of a corpus
@given(corpora, st.sampled_from([1, 15, 16, 100, 999]))
def test_smile_says_what_json_says(tmp_path_factory, corpus, epoch):
    folder = tmp_path_factory.mktemp("corpus")
    rows_file, double = generate(corpus, epoch, folder, "smile-64")
    _, single = generate(corpus, epoch, folder, "smile-32")
    expected = [json.loads(line) for line in rows_file.read_text().splitlines()]
    assert double.content_type == "application/smile"
    for encoded, rounded in ((double, float), (single, lambda v: struct.unpack(">f", struct.pack(">f", v))[0])):
        items = encoded.body(0, corpus.rows_per_epoch).split(smile.SEPARATOR)
        assert items.pop() == b""
        assert set(items[::2]) == {smile.encode({"index": {}})}
        rows = [row | {field: rounded(row[field]) for field in FIELDS} for row in expected]
        assert [smile.decode(item) for item in items[1::2]] == rows


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
def test_the_template_gives_the_bytes_of_the_general_encoder(tmp_path, bits, timestamps):
    corpus = Metrics(nodes=3, tasks=2, rows_per_epoch=500, epochs=2, timestamps=timestamps)
    rows_file, encoded = generate(corpus, 2, tmp_path, f"smile-{bits}")
    documents = [json.loads(line) for line in rows_file.read_text().splitlines()]
    items = [smile.encode(item, bits) for document in documents for item in (ACTION, document)]
    assert encoded.body(0, 500) == smile.body(items)


def test_blocks_follow_each_other_without_a_seam(tmp_path):
    corpus = Metrics(nodes=3, tasks=2, rows_per_epoch=400_003)  # more than one block
    rows_file, encoded = generate(corpus, 1, tmp_path)
    lines = encoded.body(0, corpus.rows_per_epoch).splitlines()
    assert set(lines[::2]) == {b'{"index":{}}'}
    assert lines[1::2] == rows_file.read_bytes().splitlines()
    assert json.loads(lines[-1])["epoch"] == 1


def test_a_file_cut_short_is_made_anew(tmp_path):
    corpus = Metrics(rows_per_epoch=100)
    rows_file, _ = generate(corpus, 1, tmp_path)
    path = encoded_file(rows_file, "json")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    generate_bodies(corpus, 0, "json", rows_file)
    assert path.read_bytes() == whole
    written = path.stat().st_mtime_ns
    generate_bodies(corpus, 0, "json", rows_file)
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("encoding", ["json", "smile-64"])
def test_bodies_of_rows_that_vary_in_length_are_found_by_what_ends_them(tmp_path, encoding):
    documents = [{"n": 10**n, "text": "a\nb"} for n in range(5)]
    if encoding == "json":
        pairs = [b'{"index":{}}\n' + json.dumps(document).encode() + b"\n" for document in documents]
    else:
        pairs = [smile.body([smile.encode(ACTION), smile.encode(document)]) for document in documents]
    encoded_file(tmp_path / "rows.json", encoding).write_bytes(b"".join(pairs))
    bodies = Bodies(tmp_path / "rows.json", encoding)
    assert [bodies.body(first, 2) for first in range(4)] == [b"".join(pairs[n : n + 2]) for n in range(4)]
    assert bodies.body(4, 1) == pairs[4]


def test_bodies_of_a_part_take_the_room_of_that_part(tmp_path, monkeypatch):
    corpus = Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=10)
    rows_file = corpus.generate(9, tmp_path)
    size = rows_file.stat().st_size + 10 * len(b'{"index":{}}\n')
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=size - 1))
    with pytest.raises(CorpusError, match=f"needs {size:,} bytes .* free are {size - 1:,}$"):
        generate_bodies(corpus, 9, "json", rows_file)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=size))
    generate_bodies(corpus, 9, "json", rows_file)
    assert encoded_file(rows_file, "json").stat().st_size == size
