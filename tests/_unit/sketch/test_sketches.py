"""Tables of sketches: whole batches or none, and answers against the exact ones."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import NODES, ROWS, columns_of, state

from _tools.sketch_server.sketches import COLUMNS, BadInput, K, Sketch, Table
from cluster_metrics.corpus.answers import percentile_bounds
from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import FIELDS, Metrics

GOOD = columns_of(ROWS)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4), st.lists, max_leaves=4
)
nearly_columns = st.fixed_dictionaries(
    {name: st.just(GOOD[name]) | st.lists(anything | st.sampled_from(GOOD[name]), max_size=7) for name in COLUMNS}
)


@given(nearly_columns | anything)
def test_a_batch_is_taken_as_a_whole_or_changes_nothing(columns):
    table = Table(NODES)
    table.insert(columns_of(ROWS))
    before = state(table)
    try:
        inserted = table.insert(columns)
    except BadInput as e:
        assert str(e)
        assert state(table) == before
    else:
        assert inserted == len(columns["epoch"])
        assert sum(group.count for group in table.groups.values()) == len(ROWS) + inserted


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(NODES), st.floats(-1e6, 1e6, width=32)), min_size=1))
def test_rows_are_grouped_by_epoch_and_node(rows):
    table = Table(NODES)
    names = [(epoch, node) for epoch, node, _ in rows]
    values = [value for _, _, value in rows]
    table.insert(
        {"epoch": [e for e, _ in names], "node": [n for _, n in names], "task": ["T"] * len(rows)}
        | dict.fromkeys(FIELDS, values)
    )
    assert set(table.groups) == set(names)
    for key, group in table.groups.items():
        mine = [value for name, value in zip(names, values) if name == key]
        answer = group.answer([0, 100])["mem"]
        assert answer["count"] == len(mine)
        assert answer["sum"] == pytest.approx(sum(mine), abs=1e-3)
        assert answer["percentiles"] == {"0": min(mine), "100": max(mine)}


@pytest.fixture(scope="module")
def corpus_table(tmp_path_factory):
    """A corpus in a table, by batches of 1,000 rows, with its values by node and field."""
    corpus = Metrics(nodes=30, tasks=200, rows_per_epoch=300_000, epochs=1)
    path = corpus.generate(0, tmp_path_factory.mktemp("corpus"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    table = Table(corpus.node_names())
    for start in range(0, len(rows), 1000):
        table.insert(columns_of(rows[start : start + 1000]))
    values = {n: {f: np.sort([r[f] for r in rows if r["node"] == n]) for f in FIELDS} for n in corpus.node_names()}
    return table, values, load_answers(path)


def test_answers_of_the_corpus_are_within_what_the_race_allows(corpus_table):
    table, _, exact = corpus_table
    for node, fields in table.answers(1, None, (0, 50, 90, 100)).items():
        for field, answer in fields.items():
            expected = exact[node][field]
            assert answer["count"] == expected["count"] == 10_000
            assert answer["sum"] == pytest.approx(expected["sum"], rel=1e-12)
            for percent, got in answer["percentiles"].items():
                low, high = percentile_bounds(expected["percentiles"][percent], float(percent), "tdigest")
                assert low <= got <= high


def test_rank_errors_keep_the_bound_that_the_library_promises(corpus_table):
    """The promise: in 99 % of sketches no quantile is off by more. Of 90 sketches 6 or more exceed it with a
    probability of 2e-4, were it just kept."""
    table, values, _ = corpus_table
    promised = Sketch.get_normalized_rank_error(K, False)
    assert promised == pytest.approx(0.0133, abs=1e-4)
    percents = list(range(1, 100))
    beyond = 0
    for node, fields in table.answers(1, None, percents).items():
        for field, answer in fields.items():
            exact = values[node][field].astype(np.float32)
            got = np.array(list(answer["percentiles"].values()), np.float32)
            # a value that many rows share covers a span of ranks
            first, last = (np.searchsorted(exact, got, side) / len(exact) for side in ("left", "right"))
            wanted = np.array(percents) / 100
            beyond += np.maximum(first - wanted, wanted - last).max() > promised
    assert beyond <= 5
