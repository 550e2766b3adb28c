"""The corpus words: the same bytes from the same parameters, and hits that brute force confirms."""

import hashlib
import json
from collections import Counter
from datetime import datetime, timezone
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_metrics.capacity.words import BLOCK_DOCUMENTS, CHECKED_QUERIES, FIELDS, FREQUENCIES, Words, vocabulary
from cluster_metrics.corpus.files import Count, load_answers

CORPORA = st.builds(Words, st.integers(1, 60), st.sampled_from(FREQUENCIES), st.integers(0, 2**63 - 1))


def documents_of(corpus):
    return [json.loads(line) for block in corpus.blocks([]) for line in block.splitlines()]


@given(CORPORA)
@settings(max_examples=25, deadline=None)
def test_hits_are_those_that_brute_force_finds(corpus):
    hits = [0] * CHECKED_QUERIES
    documents = [json.loads(line) for block in corpus.blocks(hits) for line in block.splitlines()]
    for query, found in zip(corpus.queries(CHECKED_QUERIES), hits):
        assert found == sum(any(word in d[FIELDS[0]].split() for word in query.split()) for d in documents)


@given(CORPORA)
@settings(max_examples=25, deadline=None)
def test_documents_and_queries_are_as_the_articles_have_them(corpus):
    words = set(vocabulary())
    documents = documents_of(corpus)
    assert len(documents) == corpus.documents
    for document in documents:
        assert list(document) == ["timestamp", *FIELDS]
        assert all(
            len(document[field].split()) == 100 and words.issuperset(document[field].split()) for field in FIELDS
        )
    queries = [query.split() for query in corpus.queries(200)]
    assert {len(query) for query in queries} == {1, 2, 3, 4}
    assert corpus.queries(50) == corpus.queries(200)[:50]


def test_a_file_and_its_hits_are_made_anew_byte_by_byte(tmp_path):
    corpus = Words(300, "natural", 7)
    first, second = (corpus.generate(0, tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert load_answers(first) == load_answers(second)
    assert first.stat().st_size <= corpus.parts()[0].size
    assert Words(300, "natural", 8).generate(0, tmp_path / "a").read_bytes() != first.read_bytes()


def test_a_longer_corpus_begins_with_the_shorter_one():
    short, long = (Words(documents).texts() for documents in (BLOCK_DOCUMENTS, BLOCK_DOCUMENTS + 5))
    assert list(islice(short, 20)) == list(islice(long, 20))


def test_fields_are_as_long_as_in_the_articles():
    lengths = [len(text) for texts in Words(2000).texts() for text in texts]
    assert 500 <= sum(lengths) / len(lengths) <= 600


def test_natural_frequencies_follow_the_law_of_zipf():
    words = Counter(word for texts in Words(2000, "natural").texts() for text in texts for word in text.split())
    counts = [count for _, count in words.most_common(10)]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)


def test_the_counts_asked_of_an_index_are_those_of_its_documents(tmp_path):
    corpus = Words(60)
    documents = documents_of(corpus)
    everything, *counts = corpus.counts([load_answers(corpus.generate(0, tmp_path))], {})
    assert everything == Count("", {"match_all": {}}, 60)
    assert [count.query["match"][FIELDS[0]] for count in counts] == corpus.queries(CHECKED_QUERIES)
    for count in counts:
        [(field, text)] = count.query["match"].items()
        assert count.documents == sum(not set(text.split()).isdisjoint(d[field].split()) for d in documents)
        assert count.what == f" that match [{text}]"


def test_each_document_is_a_second_later_than_the_one_before():
    times = [d["timestamp"] / 1000 for d in documents_of(Words(BLOCK_DOCUMENTS + 5))]
    assert datetime.fromtimestamp(times[0], timezone.utc) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert set(np.diff(times)) == {1}


def test_hits_are_counted_over_all_blocks(monkeypatch):
    corpus, whole, parts = Words(50, "natural"), [0] * CHECKED_QUERIES, [0] * CHECKED_QUERIES
    texts = list(corpus.texts())
    list(corpus.blocks(whole))
    monkeypatch.setattr(Words, "texts", lambda self: iter(texts))
    monkeypatch.setattr("cluster_metrics.capacity.words.BLOCK_DOCUMENTS", 7)
    assert b"".join(corpus.blocks(parts)).count(b"\n") == 50 and parts == whole


def drawn(of, count):
    """So many words by the formula of the corpus: each of the 1024 has 64 of the 65,536 slots."""
    words = sorted(vocabulary(), key=lambda word: hashlib.sha256(f"7/{word}".encode()).digest())
    draws = np.frombuffer(hashlib.shake_128(f"words/1/7/{of}".encode()).digest(2 * count), "<u2")
    return [words[draw // 64] for draw in draws], draws


def test_words_are_drawn_by_the_seed_and_the_number_of_their_block():
    texts = list(Words(BLOCK_DOCUMENTS + 2, seed=7).texts())
    for block, of in enumerate((texts[:2], texts[BLOCK_DOCUMENTS:])):
        assert " ".join(text for fields in of for text in fields).split() == drawn(f"block/{block}", 400)[0]
    words, draws = drawn("queries/0", 50)
    lengths = [1 + int(draw) % 4 for draw in draws[::5]]
    expected = [" ".join(words[5 * n + 1 : 5 * n + 1 + length]) for n, length in enumerate(lengths)]
    assert Words(seed=7).queries(10) == expected


def test_each_block_has_words_of_its_own():
    texts = list(Words(BLOCK_DOCUMENTS + 20).texts())
    assert not set(texts[:20]) & set(texts[BLOCK_DOCUMENTS:])
