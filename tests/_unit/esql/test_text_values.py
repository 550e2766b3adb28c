"""The corpus text-values: every share is exact, and its documents lie as the order says."""

import json
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_metrics.corpus import loglines
from cluster_metrics.corpus.files import CorpusError, load_answers
from cluster_metrics.esql.text_values import BLOCKS, FORMS, TextValues, order_of, text_of

corpora = st.builds(
    lambda values, times, **rest: TextValues(documents=values * times, values=values, **rest),
    values=st.integers(1, 60),
    times=st.integers(1, 250),
    form=st.just("value"),
    order=st.sampled_from(list(BLOCKS)),
    seed=st.integers(0, 2**63 - 1),
)


def documents(corpus):
    return [json.loads(line) for line in b"".join(corpus.blocks([0] * corpus.values)).splitlines()]


@settings(max_examples=60, deadline=None)
@given(corpora)
def test_every_value_is_as_frequent_as_any_other(corpus):
    found = Counter(d["text"] for d in documents(corpus))
    assert found == {text_of(v): corpus.documents // corpus.values for v in range(1, corpus.values + 1)}


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_the_characters_of_the_texts_by_value(tmp_path, form):
    corpus = TextValues(documents=600, values=20, form=form, order="random", seed=3)
    path = corpus.generate(0, tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    chars = Counter()
    for row in rows:
        chars[row["value" if form == "log-line" else "text"]] += len(row["text"])
    assert load_answers(path) == [chars[text_of(v)] for v in range(1, 21)]
    part = corpus.parts()[0]
    assert len(rows) == part.docs
    assert path.stat().st_size == part.size if part.exact else path.stat().st_size < part.size


def test_texts_are_the_log_lines_of_the_seed_block_after_block():
    corpus = TextValues(documents=loglines.BLOCK_LINES + 20, values=20, form="log-line", seed=3)
    texts = [row["text"] for row in documents(corpus)]
    assert texts == [*loglines.lines(3, 0), *islice(loglines.lines(3, 1), 20)]


def test_a_whole_file_is_kept_and_a_damaged_one_made_anew(tmp_path):
    corpus = TextValues(documents=100, values=10, form="log-line")
    path = corpus.generate(0, tmp_path)
    whole, written = path.read_bytes(), path.stat().st_mtime_ns
    assert corpus.generate(0, tmp_path).stat().st_mtime_ns == written
    path.write_bytes(whole[:-2] + b" \n")
    assert corpus.generate(0, tmp_path).read_bytes() == whole


def gaps(corpus, selected, blocks=3):
    values = [v for block in range(blocks) for v in order_of(corpus, block)]
    places = [i for i, v in enumerate(values) if v <= selected]
    return [b - a for a, b in zip(places, places[1:])]


@pytest.mark.parametrize("selected", [10, 50, 70, 80, 90, 100, 200, 300, 900, 990])
def test_the_documents_of_a_share_lie_as_the_order_says(selected):
    mean = 1000 / selected
    even, clustered, random = (gaps(TextValues(order=order), selected) for order in BLOCKS)
    assert max(even) <= 3 * mean
    assert min(even) >= mean / 4
    assert clustered.count(1) == 3 * (10 * selected - 1)
    assert max(random) > max(even)
    assert abs(random.count(1) / len(random) - selected / 1000) < 0.05


def test_each_block_at_random_has_an_order_of_its_own_by_the_seed():
    corpus = TextValues(order="random")
    same, other = (order_of(TextValues(order="random", seed=seed), 0) for seed in (42, 7))
    assert order_of(corpus, 0) == same != other
    blocks = [order_of(corpus, block) for block in range(3)]
    assert sorted(blocks[0]) == sorted(blocks[1]) == sorted(blocks[2])
    assert blocks[0] != blocks[1] != blocks[2] != blocks[0]


def test_test_mode_has_one_document_a_value():
    values = {"text_documents": 10**6, "text_distinct_values": 2000, "text_form": "value", "text_order": "even"}
    values["seed"] = 1
    corpus = TextValues.of(values, test_mode=True)
    assert corpus.sizes() == values | {"text_documents": 1000, "text_distinct_values": 1000}
    few = TextValues.of(values | {"text_distinct_values": 20}, test_mode=True)
    assert (few.documents, few.values) == (20, 20)


def test_documents_that_are_no_multiple_of_the_values_are_refused():
    assert TextValues(documents=40, values=20).check()
    with pytest.raises(CorpusError, match=r"text_documents is \[50\], allowed is a multiple of text_distinct_values"):
        TextValues(documents=50, values=20).check()


def test_files_are_made_anew_for_log_lines_of_another_format(monkeypatch):
    corpus = TextValues(documents=40, values=20, form="log-line")
    before = corpus.parts()[0]
    monkeypatch.setattr(loglines, "FORMAT_VERSION", loglines.FORMAT_VERSION + 1)
    assert corpus.parts()[0] != before
