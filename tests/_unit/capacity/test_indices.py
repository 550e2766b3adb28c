"""Waiting for the shards of an index of the grid, and taking indices as an earlier race left them."""

import asyncio
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, Script

from cluster_metrics.capacity.indices import BuildWords, DropWords, settle

MARKS = {"created_by": "cluster-metrics track", "race": "this", "loaded": {"seed": 42}}
DISK = {"total": {"available_in_bytes": 9, "total_in_bytes": 10}}
FIELDS = {field: {"type": "text", "analyzer": "heavy"} for field in ("field1", "field2")}
BUILD = {
    "parameters": {"keep_words": True, "capacity_shards": [1, 3]},
    "body": {"mappings": {"_meta": MARKS, "properties": FIELDS}},
    "documents": 7,
    "counts": [SimpleNamespace(query={}, documents=7, what="")],
}


def test_a_node_that_left_before_the_wait_began_ends_it():
    stays = {"name": "target-1", "roles": ["data"], "fs": DISK}
    red = {"status": "red", "relocating_shards": 0, "unassigned_shards": 2}
    es = FakeEs(Script({"GET /_nodes": {"nodes": {"n": stays}}, "GET /_cluster/health": red}))
    with (
        es.new_request_context(),
        pytest.raises(exceptions.RallyAssertionError, match="^node target-2 left the target"),
    ):
        asyncio.run(settle(es, "cluster-metrics-words-2", 2, ["target-1", "target-2"]))


def test_the_wait_ends_when_all_copies_are_started_none_moves_and_they_are_evenly_spread(monkeypatch):
    def shards(*nodes, state="STARTED"):
        of = zip("01", nodes, (state, "STARTED"))
        return [{"shard": number, "prirep": "p", "node": node, "state": state} for number, node, state in of]

    async def sleep(seconds):
        pass

    green, even = {"status": "green", "relocating_shards": 0}, shards("target-1", "target-2")
    looks = iter(
        [
            (green | {"status": "yellow"}, even),
            (green | {"relocating_shards": 1}, even),
            (green, shards("target-1", "target-2", state="INITIALIZING")),
            (green, shards("target-1", "target-1")),
            (green, even),
        ]
    )
    nodes = [{"name": name, "roles": ["data"], "fs": DISK} for name in ("target-1", "target-2")]

    def respond(method, path, body):
        nonlocal table
        if path.startswith("/_cluster/health"):
            health, table = next(looks)
            return health
        return table if path.startswith("/_cat/shards") else {"nodes": dict(enumerate(nodes))}

    table = []
    monkeypatch.setattr("cluster_metrics.capacity.indices.asyncio.sleep", sleep)
    found = asyncio.run(settle(FakeEs(respond), "cluster-metrics-words-2", 2, ["target-1", "target-2"]))
    assert found == {"target-1": ["0p"], "target-2": ["1p"]} and next(looks, None) is None


def left(number, meta=None, analyzer="heavy", **changes):
    """What an index answers that another race left."""
    properties = {"timestamp": {"type": "date"}, **{field: {"type": "text", "analyzer": analyzer} for field in FIELDS}}
    mapping = {"_meta": MARKS | {"race": "earlier"} | (meta or {}), "properties": properties}
    name, of = f"cluster-metrics-words-{number}", {"segments": number, "documents": 7, "shards": number} | changes
    settings = {"index": {"number_of_shards": str(of["shards"])}}
    primaries = {"segments": {"count": of["segments"]}, "store": {"size_in_bytes": 5}}
    return {
        f"GET /{name}/_stats": {"_all": {"primaries": primaries}},
        f"GET /{name}": {name: {"mappings": mapping, "settings": settings}},
        f"POST /{name}/_count": {"count": of["documents"]},
    }


def build(answers, **changes):
    es = FakeEs(Script({"GET /_nodes": Refused(503, "build", "was begun"), **answers, "GET /": {}}))
    with es.new_request_context():
        return asyncio.run(BuildWords()(es, BUILD | {"parameters": BUILD["parameters"] | changes})), es


def test_indices_that_stand_are_taken_and_nothing_is_loaded():
    found, es = build(left(1) | left(3))
    assert found["load_s"] == 0 and found["documents"] == 7 and found["store_bytes"] == 5
    assert not [sent for sent in es.sent if sent.startswith(("PUT", "DELETE"))]


@pytest.mark.parametrize(
    "third",
    [
        {"GET /cluster-metrics-words-3": Refused(404, "index_not_found_exception", "no such index")},
        left(3, analyzer="light"),
        left(3, {"loaded": {"seed": 43}}),
        left(3, {"created_by": "somebody"}),
        left(3, shards=2),
        left(3, segments=4),
        left(3, documents=8),
    ],
    ids=["none", "analyzer", "seed", "foreign", "shards", "segments", "documents"],
)
def test_an_index_that_is_another_is_built(third):
    with pytest.raises(exceptions.RallyError, match="was begun"):
        build(left(1) | third)


def test_what_stands_is_built_anew_unless_asked_for():
    with pytest.raises(exceptions.RallyError, match="was begun"):
        build(left(1) | left(3), keep_words=False)


@pytest.mark.parametrize("keep", [True, False])
def test_indices_are_dropped_unless_they_are_kept(keep):
    es = FakeEs(Script({"GET /cluster": Refused(404, "index_not_found_exception", "no such index"), "GET /": {}}))
    with es.new_request_context():
        values = {"capacity_shards": [1, 3], "delete_foreign_index": False}
        asyncio.run(DropWords()(es, {"parameters": values, "keep": keep}))
    assert len([sent for sent in es.sent if "words" in sent]) == (0 if keep else 2)
