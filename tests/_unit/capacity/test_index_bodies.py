"""The bodies of the indices of the grid, by the parameters of a race."""

import pytest
from fakes import track_of

from cluster_metrics.capacity.indices import BuildWordsParams, PreparePassParams, Shape
from cluster_metrics.capacity.words import Words
from cluster_metrics.corpus.files import load_answers

MARKS = {"created_by": "cluster-metrics track"}
WORDS_BODY = {
    "settings": {"index.requests.cache.enable": False},
    "mappings": {
        "_meta": MARKS,
        "properties": {field: {"type": "text", "analyzer": "heavy"} for field in ("field1", "field2")},
    },
}


def body_of(shards, analyzer, more=()):
    properties = {field: {"type": "text", "analyzer": analyzer} for field in ("field1", "field2")}
    return {
        "settings": {
            "index.requests.cache.enable": False,
            "index.number_of_shards": shards,
            "index.number_of_replicas": 0,
            "index.number_of_routing_shards": shards,
            **dict(more),
        },
        "mappings": {"_meta": MARKS, "properties": properties},
    }


def test_the_words_of_all_places_are_loaded_once_by_the_body_of_one_index(tmp_path):
    track = track_of(Words(20), root=tmp_path, indices={"cluster-metrics-words": WORDS_BODY})
    places = {"2s-1r": Shape(2, 1), "3s-0r": Shape(3, 0), "4s-2r-3n": Shape(4, 2, 3, 1)}
    cells = [{"index": place, **shape._asdict()} for place, shape in places.items()]
    parameters = {"words_mapping": "light", "refresh_interval": "30s"}
    found = BuildWordsParams(track, {"cells": [*cells, cells[0]], "parameters": parameters}).params()
    (file,) = track.corpora[0].documents
    assert found.pop("counts") == list(Words(20).counts([load_answers(file.document_file)], parameters))
    assert found == {
        "parameters": parameters,
        "indices": places,
        "body": body_of(1, "light", {"index.refresh_interval": "30s"}),
        "documents_file": file.document_file,
        "documents": 20,
    }


@pytest.mark.parametrize("anew, refreshed", [(True, "1s"), (True, "default"), (False, "1s")])
def test_before_a_pass_the_indices_of_its_cells_are_made_anew_where_that_is_asked_for(tmp_path, anew, refreshed):
    track = track_of(Words(20), root=tmp_path, indices={"cluster-metrics-words": WORDS_BODY})
    operation = {"anew": anew, "pass": 1, "parameters": {"words_mapping": "light", "refresh_interval": refreshed}}
    operation["cells"] = [
        {"index": "2s-1r", "shards": 2, "replicas": 1, "nodes": 0, "first": 0},
        {"index": "3s-0r", "shards": 3, "replicas": 0, "nodes": 0, "first": 0},
    ]
    bodies = {"2s-1r": body_of(2, "light"), "3s-0r": body_of(3, "light")}
    bodies["2s-1r"]["settings"]["index.number_of_replicas"] = 1
    if refreshed != "default":
        for body in bodies.values():
            body["settings"]["index.refresh_interval"] = refreshed
    assert PreparePassParams(track, operation).params() == operation | {"bodies": bodies if anew else {}}
