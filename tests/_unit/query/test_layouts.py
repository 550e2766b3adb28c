"""Further indices of query-frontier and cpu-profile: the same documents, all of them, in the layout that is meant."""

import asyncio
import contextlib
import itertools
import json
from pathlib import Path

import pytest
from esrally.exceptions import RallyAssertionError
from fakes import FakeEs, track_of, values

from cluster_metrics.core.index import MARK
from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import FIELDS, NAME, Metrics
from cluster_metrics.query.layouts import BuildLayouts, DropLayouts, LayoutsParams, without_mode

BODY = json.loads((Path(__file__).parents[3] / "index.json").read_text())
CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=10)
"""Rows of its last epoch are longer than those of the others."""


def build(tmp_path, corpus=CORPUS, body=BODY, mapped=None, **parameters):
    """What is asked of a target to build the layouts of some configurations, and the files of the corpus.

    :param mapped: what the target answers about an index that is in the way.
    """
    track = track_of(corpus, root=tmp_path, indices={NAME: json.loads(json.dumps(body))})
    params = LayoutsParams(track, {"parameters": values(**parameters)}).params()
    es = FakeEs(lambda method, *_: mapped or {} if method == "GET" else {"errors": False})
    asyncio.run(BuildLayouts()(es, params))
    return es, [document.document_file for document in track.corpora[0].documents]


def loaded(es, layout):
    """The documents that were sent to a further index."""
    bodies = [body for _, path, body in es.requests if path.startswith(f"/{NAME}-{layout}/_bulk")]
    return [json.loads(line) for body in bodies for line in body.splitlines()[1::2]]


def test_a_further_index_holds_the_rows_of_every_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster_metrics.query.layouts.BULK_ROWS", 10)
    es, files = build(tmp_path, configurations=["unmerged"])
    assert loaded(es, "unmerged") == [
        json.loads(line) for file in files for line in Path(file).read_text().splitlines()
    ]


def test_a_rollup_holds_the_answers_of_every_epoch_about_every_node(tmp_path):
    es, files = build(tmp_path, configurations=["rollup"])
    documents = loaded(es, "rollup")
    assert [(d["epoch"], d["node"]) for d in documents] == list(itertools.product(range(1, 11), ["N001", "N002"]))
    for document in documents:
        exact = load_answers(files[document["epoch"] - 1])[document["node"]]
        sums = {field: document["aggregations"][f"{field}_sum"]["value"] for field in FIELDS}
        assert sums == pytest.approx({field: exact[field]["sum"] for field in FIELDS})


def test_a_rollup_is_marked_as_the_tracks_own_and_indexes_no_answer(tmp_path):
    es, _ = build(tmp_path, configurations=["rollup"])
    (body,) = (body for method, _, body in es.requests if method == "PUT")
    assert body["mappings"] == {
        "_meta": {"created_by": MARK},
        "properties": {
            "epoch": BODY["mappings"]["properties"]["epoch"],
            "node": BODY["mappings"]["properties"]["node"],
            "aggregations": {"type": "object", "enabled": False},
        },
    }


def test_a_layout_with_a_mode_of_its_own_has_nothing_of_that_of_the_production_index(tmp_path):
    corpus = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=1, timestamps=True)
    names = ["time-series", "logsdb", "cached"]
    production = corpus.in_mode(BODY, "logsdb")
    es, _ = build(tmp_path, corpus, production, configurations=names, timestamps=True)
    bodies = {path.removeprefix(f"/{NAME}-"): body for method, path, body in es.requests if method == "PUT"}
    modes = {name: body["settings"]["index.mode"] for name, body in bodies.items()}
    assert modes == {"time-series": "time_series", "logsdb": "logsdb", "cached": "logsdb"}
    assert [name for name, body in bodies.items() if "index.sort.field" in body["settings"]] == ["cached", "logsdb"]
    assert bodies["time-series"]["settings"]["index.routing_path"] == ["node", "task"]
    assert bodies["time-series"]["mappings"]["properties"]["node"]["time_series_dimension"] is True
    own = {"index.time_series.end_time": "x", "index.routing_path": ["node"], "index.mapping.source.mode": "synthetic"}
    assert without_mode(own | {"index.number_of_replicas": 1}) == {"index.number_of_replicas": 1}


@pytest.mark.parametrize("segments", [0, 3])
def test_a_further_index_is_merged_to_as_many_segments_as_the_production_index(tmp_path, segments):
    es, _ = build(tmp_path, configurations=["sorted"], force_merge_max_num_segments=segments)
    merges = [(sent, timeout) for sent, timeout in zip(es.sent, es.timeouts) if "merge" in sent]
    assert merges == ([(f"POST /{NAME}-sorted/_forcemerge?max_num_segments=3", 7200)] if segments else [])


@pytest.mark.parametrize("foreign", [False, True])
def test_an_index_of_somebody_else_is_replaced_only_where_that_is_asked_for(tmp_path, foreign):
    name = f"{NAME}-sorted"
    mapped = {name: {"mappings": {"_meta": {"created_by": "somebody"}}}}
    with contextlib.nullcontext() if foreign else pytest.raises(RallyAssertionError, match=name):
        es, _ = build(tmp_path, mapped=mapped, configurations=["sorted"], delete_foreign_index=foreign)
        assert f"DELETE /{name}" in es.sent


@pytest.mark.parametrize("keys, layouts", [({}, ["sorted", "cached"]), ({"named-by": "profiled"}, ["cached"])])
def test_the_layouts_that_a_race_asks_are_built_and_all_of_them_dropped(tmp_path, keys, layouts):
    track = track_of(CORPUS, root=tmp_path, indices={NAME: BODY})
    given = values(configurations=["cached", "sorted"], profiled=["A-serial", "D_td-serial+cached"])
    params = LayoutsParams(track, {"parameters": given} | keys).params()
    assert params["layouts"] == layouts
    own = {f"{NAME}-{layout}": {"mappings": {"_meta": {"created_by": MARK}}} for layout in layouts}
    es = FakeEs(lambda method, path, _: {path.split("/")[1]: own[path.split("/")[1]]} if "mapping" in path else {})
    asyncio.run(DropLayouts()(es, params))
    assert [sent for sent in es.sent if sent.startswith("DELETE")] == [f"DELETE /{index}" for index in own]
