"""The indices of the grid: loaded, taken as an earlier race left them, made anew and dropped."""

import asyncio
import contextlib
import fnmatch
import json
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, Script

from cluster_metrics.capacity import indices
from cluster_metrics.capacity.indices import BuildWords, DropWords, PreparePass, Shape

MARKS = {"created_by": "cluster-metrics track", "race": "this", "loaded": {"seed": 42}}
DISK = {"total": {"available_in_bytes": 9, "total_in_bytes": 10}}
FIELDS = {field: {"type": "text", "analyzer": "heavy"} for field in ("field1", "field2")}
BUILD = {
    "parameters": {"keep_words": True, "delete_foreign_index": False},
    "indices": {"1s-0r": Shape(1, 0), "3s-2r": Shape(3, 2)},
    "body": {"mappings": {"_meta": MARKS, "properties": FIELDS}, "settings": {"index.refresh_interval": "30s"}},
    "documents": 7,
    "counts": [SimpleNamespace(query={}, documents=7, what="")],
}


def left(place, meta=None, analyzer="heavy", second=None, within=None, **changes):
    """What an index answers that another race left."""
    shards, replicas, *_ = BUILD["indices"][place]
    properties = {"timestamp": {"type": "date"}, **{field: {"type": "text", "analyzer": analyzer} for field in FIELDS}}
    properties["field2"]["analyzer"] = second or analyzer
    mapping = {"_meta": MARKS | {"race": "earlier"} | (meta or {}), "properties": properties}
    of = {"segments": shards, "documents": 7, "shards": shards, "replicas": replicas, "refreshed": "30s"} | changes
    name = f"cluster-metrics-words-{place}"
    settings = {"index": {"number_of_shards": str(of["shards"]), "number_of_replicas": str(of["replicas"])}}
    settings["index"] |= {"refresh_interval": of["refreshed"]} if of["refreshed"] else {}
    include = {"_tier_preference": "data_content", "_name": within}  # the former of itself, the latter null in a clone
    settings["index"]["routing"] = {"allocation": {"include": include}}
    primaries = {"segments": {"count": of["segments"]}, "store": {"size_in_bytes": 5}}
    return {
        f"GET /{name}/_stats": {"_all": {"primaries": primaries}},
        f"GET /{name}": {name: {"mappings": mapping, "settings": settings}},
        f"POST /{name}/_count": {"count": of["documents"]},
    }


FIRST = left("1s-0r")
SECOND = left("3s-2r")


def build(answers, **changes):
    begun = {
        "GET /cluster-metrics-words-base-*": {},
        "GET /cluster-metrics-words-*": Refused(503, "build", "was begun"),
    }
    es = FakeEs(Script({"GET /_nodes": {"nodes": {}}, **begun, **answers, "GET /": {}}))
    with es.new_request_context():
        return asyncio.run(BuildWords()(es, BUILD | {"parameters": BUILD["parameters"] | changes})), es


def test_indices_that_stand_are_taken_and_nothing_is_loaded():
    found, es = build(FIRST | SECOND)
    assert found["load_s"] == 0 and found["documents"] == 7 and found["store_bytes"] == 5
    assert not [sent for sent in es.sent if sent.startswith(("PUT", "DELETE"))]
    assert "GET /cluster-metrics-words-3s-2r/_stats/store" in es.sent[-1]


@pytest.mark.parametrize(
    "second",
    [
        {"GET /cluster-metrics-words-3s-2r": Refused(404, "index_not_found_exception", "no such index")},
        left("3s-2r", analyzer="light"),
        left("3s-2r", second="light"),
        left("3s-2r", {"loaded": {"seed": 43}}),
        left("3s-2r", {"created_by": "somebody"}),
        left("3s-2r", shards=2),
        left("3s-2r", replicas=1),
        left("3s-2r", segments=4),
        left("3s-2r", documents=8),
        left("3s-2r", refreshed="-1"),
        left("3s-2r", refreshed=""),
        left("3s-2r", within="target-1"),
    ],
    ids=[
        "none",
        "analyzer",
        "one analyzer",
        "seed",
        "foreign",
        "shards",
        "replicas",
        "segments",
        "documents",
        "refreshed",
        "default",
        "nodes",
    ],
)
def test_an_index_that_is_another_is_built(second):
    with pytest.raises(exceptions.RallyError, match="was begun"):
        build(FIRST | second)


def test_what_stands_is_built_anew_unless_asked_for():
    with pytest.raises(exceptions.RallyError, match="was begun"):
        build(FIRST | SECOND, keep_words=False)


@pytest.mark.parametrize("keep", [True, False])
def test_indices_are_dropped_unless_they_are_kept_as_they_were_loaded(keep):
    names = [f"cluster-metrics-words-{place}" for place in ("1s-0r", "1s-0r-50", "base-3")]
    by_alias = "cluster-metrics"  # which bears the mark, too
    own = {f"GET /{name}/_mapping": {name: {"mappings": {"_meta": MARKS}}} for name in (*names, by_alias)}
    found = {"GET /cluster-metrics-words-*/_settings": {name: {} for name in (*names, by_alias)}}
    es = FakeEs(Script(found | own | {"DELETE ": {}, "GET /": {}}))
    with es.new_request_context():
        values = {"keep_words": keep, "delete_foreign_index": False}
        asyncio.run(DropWords()(es, {"parameters": values, "written": ["1s-0r-50"]}))
    dropped = [sent.removeprefix("DELETE /") for sent in es.sent if sent.startswith("DELETE")]
    assert dropped == (names[1:2] if keep else names)


@pytest.mark.parametrize("foreign", [True, False])
def test_an_index_that_somebody_else_made_is_dropped_only_where_that_is_asked_for(foreign):
    name = "cluster-metrics-words-1s-0r"
    found = {"GET /cluster-metrics-words-*/_settings": {name: {}}, f"GET /{name}/_mapping": {name: {"mappings": {}}}}
    es = FakeEs(Script(found | {"DELETE ": {}, "GET /": {}}))
    ends = pytest.raises(exceptions.RallyAssertionError, match="was not created by this track")
    with es.new_request_context(), contextlib.nullcontext() if foreign else ends:
        values = {"keep_words": False, "delete_foreign_index": foreign}
        asyncio.run(DropWords()(es, {"parameters": values, "written": []}))
    assert [sent for sent in es.sent if sent.startswith("DELETE")] == ([f"DELETE /{name}"] if foreign else [])


CELLS = [
    {"cell": f"{place}-{rate}", "index": place, "shards": 1, "replicas": replicas, "nodes": 0, "first": 0, "rate": rate}
    for place, replicas in (("1s-0r", 0), ("1s-1r", 1))
    for rate in (50, 100)
]


def prepare(bodies, cells=CELLS):
    nodes = [{"name": name, "roles": ["data"], "fs": DISK} for name in ("target-1", "target-2")]
    answers = {"GET /_nodes": {"nodes": dict(enumerate(nodes))}}
    answers |= {"GET /_cluster/health": {"status": "green", "relocating_shards": 0}}
    answers |= {"GET /cluster-metrics-words-*/_settings": {"cluster-metrics-words-old": {}}}
    missing, old = Refused(404, "index_not_found_exception", "no such index"), "cluster-metrics-words-old"
    for replicas in (0, 1):
        name = f"cluster-metrics-words-1s-{replicas}r"
        shards = [{"shard": "0", "prirep": kind, "state": "STARTED"} for kind in "pr"[: 1 + replicas]]
        placed = [shard | {"node": f"target-{number}"} for number, shard in enumerate(shards, 1)]
        answers |= {f"GET /_cat/shards/{name}": [placed], f"GET /{name}/_count": {"count": 7 + replicas}}
        answers |= {f"GET /{name}/_mapping": missing, f"PUT /{name}": {}}
    answers |= {f"GET /{old}/_mapping": {old: {"mappings": {"_meta": MARKS}}}, f"DELETE /{old}": {}, "GET /": {}}
    es = FakeEs(Script(answers))
    params = {
        "cells": cells,
        "pass": 2,
        "bodies": bodies,
        "parameters": {"delete_foreign_index": False, "cpu_shares": "none"},
    }
    with es.new_request_context():
        return asyncio.run(PreparePass()(es, params)), es


def test_before_a_pass_it_is_noted_of_each_cell_what_its_index_holds_and_where():
    found, es = prepare({})
    assert not [sent for sent in es.sent if sent.startswith(("PUT", "DELETE"))]
    assert found["success"] and found["pass"] == 2
    noted = [(t["cell"], t["replicas"], t["rate"], t["pass"], t["documents"]) for t in found["dependent_timing"]]
    assert noted == [(of["cell"], of["replicas"], of["rate"], 2, 7 + of["replicas"]) for of in CELLS]
    tables = [json.loads(t["shard_table"]) for t in found["dependent_timing"]]
    assert tables[0] == {"target-1": ["0p"], "target-2": []} and tables[3] == {"target-1": ["0p"], "target-2": ["0r"]}
    timings = [t["dependent_timing"] for t in found["dependent_timing"]]
    assert [t["operation"] for t in timings] == [of["cell"] for of in CELLS]
    assert {t["operation-type"] for t in timings} == {"capacity-prepare"}
    assert all(t["service_time"] == 1 for t in timings), "of the count alone"
    names = [f"cluster-metrics-words-{of['index']}" for of in CELLS]
    waits = [sent.rpartition("/")[2] for sent in es.sent if sent.startswith("GET /_cluster/health/")]
    assert waits == names * 2, "shards of one may have moved while others were waited for"


def test_indices_of_documents_are_made_anew_before_each_pass():
    found, es = prepare({"1s-0r": {"settings": {}}, "1s-1r": {"settings": {}}})
    changed = [sent for sent in es.sent if sent.startswith(("PUT", "DELETE"))]
    made = [f"PUT /cluster-metrics-words-1s-{replicas}r" for replicas in (0, 1)]
    assert changed == ["DELETE /cluster-metrics-words-old", *made] and len(found["dependent_timing"]) == 4


def test_indices_of_cells_on_some_of_the_nodes_are_made_for_these_alone(monkeypatch):
    async def hosts(es):
        return ["target-2", "target-1"]

    monkeypatch.setattr(indices, "node_names", hosts)
    some, both = ({**of, "nodes": of["replicas"] + 1, "first": 1} for of in CELLS[::2])
    _, es = prepare({"1s-0r": {"settings": {"a": 1}}, "1s-1r": {"settings": {"a": 1}}}, [some, both])
    made = [body["settings"] for method, _, body in es.requests if method == "PUT"]
    assert made == [{"a": 1, indices.WITHIN: names} for names in ("target-1", "target-1,target-2")]


def test_the_nodes_are_held_to_their_shares_before_each_pass(monkeypatch):
    asked = []

    async def hold(es, address):
        asked.append(address)

    monkeypatch.setattr(indices, "hold", hold)
    es = FakeEs(Script({"GET /_nodes": {"nodes": {"1": {"name": "target-1", "roles": ["data"]}}}, "GET /": {}}))
    prepare_pass = PreparePass()
    with es.new_request_context():
        for number in (0, 1):
            of = {"cells": [], "pass": number, "bodies": {}, "parameters": {"cpu_shares": f"at {number}"}}
            asyncio.run(prepare_pass(es, of))
    assert asked == ["at 0", "at 1"]


def test_a_node_that_left_since_the_first_pass_ends_the_race():
    first, second = ({"name": f"target-{number}", "roles": ["data"]} for number in (1, 2))
    answers = [{"nodes": {"1": first, "2": second}}] * 2 + [{"nodes": {"1": first}}]
    es = FakeEs(Script({"GET /_nodes": answers, "GET /": {}}))
    prepare_pass = PreparePass()
    passes = [{"cells": [], "pass": number, "bodies": {}, "parameters": {"cpu_shares": "none"}} for number in (1, 2)]
    with es.new_request_context():
        asyncio.run(prepare_pass(es, passes[0]))
        with pytest.raises(exceptions.RallyAssertionError, match="target-2"):
            asyncio.run(prepare_pass(es, passes[1]))


NODES = ["target-1", "target-2", "target-3"]


class Cluster:
    """Three nodes that keep to the rules of Elasticsearch for making indices of others. One made of another needs that
    until it is started, which it is when it is looked at again.

    :ivar lost: indices that another was to be made of, and that were deleted before.
    :ivar replayed: those whose shards moved before their documents were flushed.
    """

    def __init__(self):
        self.indices, self.loaded, self._starting, self.lost = {}, 0, {}, []
        self.replayed, self._flushed = [], set()

    def _placed(self, name):
        of = self.indices[name]
        nodes = [of["node"]] if of["node"] else of.get("within", NODES)
        copies = [(str(n), kind) for n in range(of["shards"]) for kind in "p" + "r" * of["replicas"]]
        state = "INITIALIZING" if self._starting.pop(name, None) else "STARTED"
        return [
            {"shard": number, "prirep": kind, "node": nodes[i % len(nodes)], "state": state}
            for i, (number, kind) in enumerate(copies)
        ]

    def _make(self, source, name, settings, how):
        of = self.indices[source]
        shards = settings.get("index.number_of_shards", of["shards"])
        fits = {"_shrink": of["node"] and shards < of["shards"], "_split": shards > of["shards"]}
        fits["_clone"] = shards == of["shards"]
        if not of["blocked"] or not fits[how] or name in self.indices:
            return Refused(400, "illegal_argument_exception", f"{how} of {source}")
        blocked = "index.blocks.write" not in settings
        require = "index.routing.allocation.require._name" not in settings and of["node"]
        made = {"shards": shards, "replicas": settings["index.number_of_replicas"], "blocked": blocked}
        if "index.routing.allocation.include._name" in settings:
            of = {key: value for key, value in of.items() if key != "within"}
        self.indices[name], self._starting[name] = of | made | {"node": require}, source
        return {}

    def __call__(self, method, path, body):
        at, _, query = path.strip("/").partition("?")
        name, *rest = at.split("/")
        if name in ("_nodes", "_cluster", "_cat", ""):
            nodes = [{"name": node, "roles": ["data"], "fs": DISK} for node in NODES]
            told = {"_nodes": {"nodes": dict(enumerate(nodes))}, "": {}}
            told["_cluster"] = {"status": "green", "relocating_shards": 0}
            return told[name] if name in told else self._placed(rest[1])
        if name.endswith("*"):
            return {found: {} for found in fnmatch.filter(self.indices, name)}
        if method == "PUT" and not rest:
            of = body["settings"]
            shards, replicas = of["index.number_of_shards"], of["index.number_of_replicas"]
            self.indices[name] = {"shards": shards, "replicas": replicas, "blocked": False, "node": "", "merged": False}
            return {}
        if name not in self.indices:
            return Refused(404, "index_not_found_exception", "no such index")
        of = self.indices[name]
        if rest and rest[0] in ("_shrink", "_split", "_clone"):
            return self._make(name, rest[1], body["settings"], rest[0])
        if method == "DELETE":
            self.indices.pop(name)
            self.lost += [name] * (name in self._starting.values())
        elif rest == ["_mapping"]:
            return {name: {"mappings": {"_meta": MARKS}}}
        elif rest == ["_bulk"]:
            self.loaded += body.count(b"\n") // 2
            self._flushed.discard(name)
            return {"took": 1, "errors": False}
        elif rest == ["_flush"]:
            self._flushed.add(name)
        elif rest == ["_forcemerge"]:
            of["merged"] = query == "max_num_segments=1"
        elif rest == ["_settings"]:
            of["blocked"] = body.get("index.blocks.write", of["blocked"])
            of["node"] = body.get("index.routing.allocation.require._name", of["node"])
            self.replayed += [name] * (bool(of["node"]) and name not in self._flushed)
            if "index.routing.allocation.include._name" in body:
                of["within"] = body["index.routing.allocation.include._name"].split(",")
        elif rest == ["_count"]:
            return {"count": 7}
        elif rest and rest[0] == "_stats":
            return {"_all": {"primaries": {"store": {"size_in_bytes": 5}, "segments": {"count": of["shards"]}}}}
        elif not rest:
            settings = {"number_of_shards": str(of["shards"]), "number_of_replicas": str(of["replicas"])}
            include = {"include": {"_name": ",".join(of["within"]) if "within" in of else None}}
            settings["routing"] = {"allocation": include}
            return {name: {"mappings": {"_meta": MARKS, "properties": FIELDS}, "settings": {"index": settings}}}
        return {}


class Waiting(FakeEs):
    """Notes how many seconds are given to each request that has its own."""

    def __init__(self, answer):
        super().__init__(answer)
        self.seconds, self.given = None, {}

    def options(self, request_timeout=None, **options):
        other = super().options(**options)
        other.seconds = request_timeout
        return other

    async def perform_request(self, method, path, headers=None, body=None):
        self.given[path] = self.seconds
        return await super().perform_request(method, path, headers, body)


@pytest.mark.parametrize(
    "places",
    [["1s-0r"], ["2s-1r"], ["3s-0r", "3s-2r"], ["1s-0r", "1s-2r", "2s-1r", "3s-0r"], ["2s-0r-2n", "3s-1r-2n"]],
    ids=" ".join,
)
def test_documents_are_loaded_once_and_each_place_of_the_grid_is_a_merged_clone_with_replicas(
    places, tmp_path, monkeypatch
):
    async def node_names(es):
        return NODES

    monkeypatch.setattr("cluster_metrics.capacity.indices.node_names", node_names)
    documents = tmp_path / "documents.json"
    documents.write_text('{"field1":"a"}\n' * 7)
    indices = {place: Shape(int(place[0]), int(place[3]), 2 * place.endswith("-2n"), 2) for place in places}
    most = max(shape.shards for shape in indices.values())
    body = {"mappings": {"_meta": MARKS}}
    body["settings"] = {"index.number_of_shards": most, "index.number_of_replicas": 0}
    cluster = Cluster()
    cluster.indices["cluster-metrics-words-old"] = {}
    es = Waiting(cluster)
    changes = {"indices": indices, "body": body, "documents_file": str(documents)}
    changes["parameters"] = BUILD["parameters"] | {"keep_words": False}
    with es.new_request_context():
        found = asyncio.run(BuildWords()(es, BUILD | changes))
    assert not cluster.lost and not cluster.replayed
    settings = next(body["settings"] for method, _, body in es.requests if method == "PUT")
    assert settings["index.number_of_shards"] == max(most, len(NODES)), "all nodes take part"
    numbers = {shape.shards for shape in indices.values()} | {settings["index.number_of_shards"]}
    assert not any(settings["index.number_of_routing_shards"] % number for number in numbers), "all can be made of it"
    merging = {path: seconds for path, seconds in es.given.items() if "_forcemerge" in path}
    assert merging and set(merging.values()) == {7200}, "a merge of a large index takes longer than other requests"
    assert cluster.loaded == 7 and found["documents"] == found["weight"] == 7 and found["load_s"] > 0
    wanted = {"blocked": None, "node": "", "merged": True}
    made = {name.removeprefix("cluster-metrics-words-"): of for name, of in cluster.indices.items()}
    expected = {
        place: {"shards": s, "replicas": r} | wanted | ({"within": ["target-3", "target-1"]} if nodes else {})
        for place, (s, r, nodes, _) in indices.items()
    }
    assert {
        place: of | {"blocked": of["blocked"] or None, "node": of["node"] or ""} for place, of in made.items()
    } == expected


def test_of_kept_indices_those_that_are_missing_are_cloned(tmp_path, monkeypatch):
    async def node_names(es):
        return NODES

    monkeypatch.setattr("cluster_metrics.capacity.indices.node_names", node_names)
    (documents := tmp_path / "documents.json").write_text('{"field1":"a"}\n' * 7)
    body = {"mappings": {"_meta": MARKS, "properties": FIELDS}}
    body["settings"] = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    cluster, loaded = Cluster(), []
    grids = [
        {"1s-0r": Shape(1, 0), "1s-0r-50": Shape(1, 0)},
        {"1s-0r": Shape(1, 0), "1s-0r-50": Shape(1, 0), "1s-2r-2n": Shape(1, 1, 2, 0)},
        {"1s-2r-2n": Shape(1, 1, 2, 0), "1s-2r-50": Shape(1, 2)},
        {"1s-2r-2n": Shape(1, 1, 2, 1), "1s-0r": Shape(1, 0)},
        {"1s-0r": Shape(1, 0), "2s-0r": Shape(2, 0)},
    ]
    for grid in grids:
        es = Waiting(cluster)
        with es.new_request_context():
            asyncio.run(BuildWords()(es, BUILD | {"indices": grid, "body": body, "documents_file": str(documents)}))
            made = {name.removeprefix("cluster-metrics-words-"): of for name, of in cluster.indices.items()}
            asyncio.run(DropWords()(es, {"parameters": BUILD["parameters"], "written": ["1s-0r-50", "1s-2r-50"]}))
        assert set(grid) <= set(made) and not any("base" in place for place in made)
        assert not cluster.lost and not cluster.replayed and not any(of["blocked"] for of in made.values())
        found = {place: (of["shards"], of["replicas"], len(of.get("within", ()))) for place, of in made.items()}
        assert {place: found[place] for place in grid} == {place: shape[:3] for place, shape in grid.items()}
        loaded.append(cluster.loaded)
    assert loaded == [7, 7, 7, 7, 14], "there is none of two shards to clone"


@pytest.mark.parametrize(
    "path, said", [("_flush", "flushed"), ("_forcemerge?max_num_segments=1", "merged"), ("_refresh", "refreshed")]
)
def test_a_shard_that_is_not_flushed_merged_or_refreshed_ends_the_race(path, said, tmp_path):
    (documents := tmp_path / "documents.json").write_text('{"field1":"a"}\n' * 7)
    changes = {"indices": {"1s-0r": Shape(1, 0)}, "documents_file": str(documents)}
    changes["body"] = {"mappings": {}, "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0}}
    changes["parameters"] = BUILD["parameters"] | {"keep_words": False}
    failed, cluster = {"_shards": {"failed": 1}}, Cluster()
    es = Waiting(lambda method, at, body: failed if at.endswith(path) else cluster(method, at, body))
    ends = pytest.raises(exceptions.RallyAssertionError, match=f"words-base-.*: 1 of its shards were not {said}")
    with es.new_request_context(), ends:
        asyncio.run(BuildWords()(es, BUILD | changes))


def test_an_index_that_does_not_hold_the_corpus_ends_the_race(tmp_path):
    documents = tmp_path / "documents.json"
    documents.write_text('{"field1":"a"}\n' * 7)
    changes = {"indices": {"1s-0r": Shape(1, 0)}, "documents_file": str(documents)}
    changes["body"] = {"mappings": {}, "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0}}
    changes["counts"] = [SimpleNamespace(query={}, documents=n, what=what) for n, what in ((7, ""), (8, " that match"))]
    changes["parameters"] = BUILD["parameters"] | {"keep_words": False}
    es = Waiting(Cluster())
    said = r"index \[cluster-metrics-words-1s-0r\] has 7 documents that match, the corpus 8"
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=said):
        asyncio.run(BuildWords()(es, BUILD | changes))
