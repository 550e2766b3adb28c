"""What is called different in a real profile: D_td-serial and the same with ``high_accuracy``, 20 rounds of half a
million documents on the embedded 8.17.2. The windows of the coverages stand beside the stacks."""

import json
from pathlib import Path

import numpy as np
import pytest

from _tools.report import stacks
from _tools.report.components import UNNAMED
from cluster_metrics.query._report.components import SEARCHES

FOLDER = Path(__file__).parent / "data" / "cpu-profile-8.17.2"
BASE, PLANTED = "D_td-serial", "D_td-serial+high-accuracy"


@pytest.fixture(scope="module")
def profile():
    return stacks.read_stacks(FOLDER)


@pytest.fixture(scope="module")
def counted(profile):
    return {name: profile.counted(found) for name, found in json.loads((FOLDER / "windows.json").read_text()).items()}


@pytest.mark.parametrize("of", [stacks.leaf, stacks.methods, stacks.paths])
@pytest.mark.parametrize("name", [BASE, PLANTED])
def test_of_20_splits_of_one_configuration_at_most_2_show_any_frame_as_different(profile, counted, name, of):
    times = stacks.frames(profile, of).times(counted[name], profile.period_ms)
    whole = float(counted[name].sum(axis=1).mean()) * profile.period_ms
    shown = 0
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(times))
        half = len(order) // 2
        off = stacks.differences(times[order[:half]], times[order[half:]], whole)
        assert off.compared.sum() > 20
        shown += bool(off.shown.any())
    assert shown <= 2


@pytest.mark.parametrize("of", [stacks.leaf, stacks.methods])
def test_a_planted_difference_names_the_trees_methods_first(profile, counted, of):
    methods = stacks.frames(profile, of)
    times = {name: methods.times(found, profile.period_ms) for name, found in counted.items()}
    whole = max(float(found.sum(axis=1).mean()) for found in counted.values()) * profile.period_ms
    off = stacks.differences(times[BASE], times[PLANTED], whole)
    more = [methods.names[i][0] for i in np.argsort(-off.value) if off.shown[i]]
    assert more[0] == "org.elasticsearch.tdigest.AVLTreeDigest.add"
    digest = [name for name in more if name.startswith("org.elasticsearch.tdigest.")]
    assert len(digest) > 5 and all("AVL" in name for name in digest[:5]), digest
    less = [methods.names[i][0] for i in np.argsort(off.value) if off.shown[i] and off.value[i] < 0]
    merging = ("MergingDigest.", "HybridDigest.", "Sort.")
    assert all(name.removeprefix("org.elasticsearch.tdigest.").startswith(merging) for name in less[:2]), less[:5]


def test_components_leave_little_unnamed(profile, counted):
    parts = stacks.frames(profile, lambda stack: [(SEARCHES.of(stack),)])
    for name, found in counted.items():
        level = dict(zip(parts.names, parts.times(found, 1.0).sum(axis=0) / found.sum()))
        assert level.get((UNNAMED,), 0) < 0.05, name
        assert level[("t-digest",)] > 0.4 and ("HDR",) not in level


@pytest.mark.parametrize(
    "frame, component",
    [
        ("org.elasticsearch.search.aggregations.metrics.AbstractHDRPercentilesAggregator$1.collect", "HDR"),
        ("org.elasticsearch.search.aggregations.metrics.CompensatedSum.add", "sums"),
        ("org.elasticsearch.search.aggregations.metrics.InternalSum.getReducer", "sums"),
        ("org.elasticsearch.search.aggregations.metrics.Sum.value", "sums"),
        ("org.apache.lucene.index.SingletonSortedNumericDocValues.nextValue", "reading doc values"),
        ("org.apache.lucene.util.packed.DirectReader.getInstance", "reading doc values"),
        ("org.elasticsearch.index.fielddata.NumericDoubleValues.doubleValue", "reading doc values"),
        ("org.elasticsearch.search.aggregations.support.ValuesSource$Numeric.doubleValues", "reading doc values"),
        ("org.apache.lucene.search.IndexOrDocValuesQuery$1.scorerSupplier", "filtering"),
        ("org.apache.lucene.search.DocValuesRewriteMethod$1.scorer", "filtering"),
        ("org.apache.lucene.codecs.lucene912.Lucene912PostingsReader.advance", "filtering"),
        ("org.apache.lucene.queries.function.FunctionQuery.createWeight", "filtering"),
        ("org.apache.lucene.util.bkd.BKDReader.intersect", "filtering"),
        ("org.apache.lucene.util.automaton.Automaton.step", "filtering"),
        ("org.apache.lucene.util.FixedBitSet.nextSetBit", "filtering"),
        ("org.apache.lucene.util.DocIdSetBuilder.add", "filtering"),
        ("org.elasticsearch.index.query.TermQueryBuilder.doToQuery", "filtering"),
        ("org.elasticsearch.search.internal.ContextIndexSearcher.search", "filtering"),
        ("org.elasticsearch.search.internal.CancellableBulkScorer.score", "filtering"),
        ("org.elasticsearch.search.fetch.FetchPhase.execute", "fetch and reduce"),
        ("org.elasticsearch.action.search.SearchTransportService.sendExecuteQuery", "fetch and reduce"),
        ("org.elasticsearch.common.util.BigArrays.newDoubleArray", "aggregation framework"),
        ("org.elasticsearch.search.query.QueryPhase.execute", "query phase"),
        ("org.elasticsearch.indices.IndicesService.loadIntoContext", "query phase"),
    ],
)
def test_a_frame_of_a_search_belongs_to_the_part_that_its_class_serves(frame, component):
    assert SEARCHES.of(("thread search_worker", frame)) == component
