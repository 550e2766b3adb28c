import json

from hypothesis import given
from hypothesis import strategies as st

from cluster_metrics.corpus import Corpus, generate_epoch
from cluster_metrics.encoded import EncodedRows, encoded_file, generate_encoded


def generate(corpus, epoch, folder):
    rows_file = generate_epoch(corpus, epoch, folder)
    generate_encoded(corpus, epoch, "json", folder)
    return rows_file, EncodedRows(corpus, epoch, rows_file)


@given(
    st.builds(
        Corpus,
        nodes=st.integers(1, 12),
        tasks=st.integers(1, 12),
        rows_per_epoch=st.integers(1, 400),
        epochs=st.just(123),
        seed=st.integers(0, 9),
    ),
    st.sampled_from([1, 9, 10, 123]),
    st.data(),
)
def test_a_slice_is_the_rows_with_an_action_before_each(tmp_path_factory, corpus, epoch, data):
    rows_file, encoded = generate(corpus, epoch, tmp_path_factory.mktemp("corpus"))
    rows = rows_file.read_bytes().splitlines(keepends=True)
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    expected = b"".join(b'{"index":{}}\n' + row for row in rows[first : first + count])
    assert encoded.body(first, count) == expected
    assert encoded.content_type == "application/x-ndjson"


def test_blocks_follow_each_other_without_a_seam(tmp_path):
    corpus = Corpus(nodes=3, tasks=2, rows_per_epoch=400_003)  # more than one block
    rows_file, encoded = generate(corpus, 1, tmp_path)
    lines = encoded.body(0, corpus.rows_per_epoch).splitlines()
    assert set(lines[::2]) == {b'{"index":{}}'}
    assert lines[1::2] == rows_file.read_bytes().splitlines()
    assert json.loads(lines[-1])["epoch"] == 1


def test_a_file_cut_short_is_made_anew(tmp_path):
    corpus = Corpus(rows_per_epoch=100)
    rows_file, _ = generate(corpus, 1, tmp_path)
    path = encoded_file(rows_file, "json")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    generate_encoded(corpus, 1, "json", tmp_path)
    assert path.read_bytes() == whole
    written = path.stat().st_mtime_ns
    generate_encoded(corpus, 1, "json", tmp_path)
    assert path.stat().st_mtime_ns == written
