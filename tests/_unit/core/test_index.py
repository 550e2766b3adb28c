"""Where a target is, and the guards around its indices."""

import asyncio
import json
import socket
from types import SimpleNamespace

import psutil
import pytest
from esrally import exceptions
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script, track_of, values

from cluster_metrics.core.challenge import SCHEMA, operations
from cluster_metrics.core.experiment import Experiment, corpora_of
from cluster_metrics.core.index import (
    CheckIndex,
    CheckIndexParams,
    CheckTarget,
    DeleteOwnIndex,
    Guarded,
    Load,
    create_own_index,
    delete_own_index,
    index_body,
    is_local,
    marks_of,
)
from cluster_metrics.core.machine import revision
from cluster_metrics.corpus.files import Count
from cluster_metrics.corpus.metrics import Metrics


@pytest.mark.parametrize(
    "hosts, local",
    [
        (["127.0.0.1"], True),
        (["localhost", "127.0.0.2"], True),
        ([socket.gethostbyname(socket.gethostname())], True),
        (["127.0.0.1", "192.0.2.1"], False),
        (["no-such-host.invalid"], False),
    ],
)
def test_a_target_is_local_if_all_its_hosts_are(hosts, local):
    assert is_local(hosts) is local


def test_an_address_of_this_machine_is_local_beyond_loopback(monkeypatch):
    cards = {"lo": ["127.0.0.1"], "eth0": ["192.0.2.7", "2001:db8::7"]}
    found = {name: [SimpleNamespace(address=address) for address in of] for name, of in cards.items()}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)
    assert is_local(["192.0.2.7", "2001:db8::7", "::1"])
    assert not is_local(["192.0.2.8"])


class Target(Script):
    """A target with one index, as an earlier race or somebody else made it."""

    def __init__(self, answers, meta=None):
        node = {"name": "n", "version": "8.17.2", "jvm": JVM, "os": {"allocated_processors": 2}, "attributes": {}}
        primaries = {"segments": {"count": 5}, "store": {"size_in_bytes": 7}}
        usual = {
            "GET /_nodes": {"nodes": {"n": node}},
            f"GET /{INDEX}/_mapping": {INDEX: {"mappings": {"_meta": meta} if meta else {}}},
            f"POST /{INDEX}/_count": {"count": 3, "_shards": {"failed": 0}},
            f"GET /{INDEX}/_stats": {"_all": {"primaries": primaries}},
        }
        super().__init__(usual | answers)


JVM = {"vm_name": "x", "vm_version": "21", "mem": {"heap_max_in_bytes": 1 << 30}}
INDEX = "cluster-metrics"
OWN = marks_of(values(), Metrics(), "this race")
BLOCK = Refused(403, "cluster_block_exception", "index [cluster-metrics] blocked by: [FORBIDDEN/5/index read-only];")
FORBIDDEN = Refused(403, "security_exception", "granted by the index privileges [view_index_metadata,manage,all]")


def run(runner, answers, meta=None, **params):
    es = FakeEs(Target(answers, meta))
    with es.new_request_context():
        return es, asyncio.run(runner(es, {"index": INDEX} | params))


def ends(runner, answers, message, meta=OWN, **params):
    """The requests of a runner that ends the race with this message."""
    es = FakeEs(Target(answers, meta))
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=message):
        asyncio.run(runner(es, {"index": INDEX} | params))
    return es.sent


def test_an_index_of_this_track_is_deleted_and_one_of_somebody_else_only_when_told():
    es, result = run(DeleteOwnIndex(), {"DELETE": {}}, OWN)
    assert es.sent == [f"GET /{INDEX}/_mapping", f"DELETE /{INDEX}"] and result["weight"] == 1
    for foreign in (None, {"created_by": "somebody else"}):
        sent = ends(DeleteOwnIndex(), {"DELETE": {}}, "was not created by this track and will not be", foreign)
        assert sent == [f"GET /{INDEX}/_mapping"]
        es, _ = run(DeleteOwnIndex(), {"DELETE": {}}, foreign, **{"delete-foreign-index": True})
        assert es.sent[-1] == f"DELETE /{INDEX}"


def test_what_an_alias_stands_for_is_not_deleted():
    behind = {"other": {"mappings": {"_meta": OWN}}}
    said = rf"^\[{INDEX}\] is an alias of index \[other\], which will not be deleted; remove the alias yourself$"
    for foreign in (False, True):
        answers = {f"GET /{INDEX}/_mapping": behind, "DELETE": {}}
        assert len(ends(DeleteOwnIndex(), answers, said, **{"delete-foreign-index": foreign})) == 1


def test_an_index_that_is_not_there_needs_no_deletion():
    missing = Refused(404, "index_not_found_exception", "no such index")
    es, result = run(DeleteOwnIndex(), {f"GET /{INDEX}/_mapping": missing})
    assert len(es.sent) == 1 and result["weight"] == 0


@pytest.mark.parametrize(
    "answers, message",
    [
        ({f"GET /{INDEX}/_mapping": FORBIDDEN}, "cannot be deleted: HTTP 403 .*view_index_metadata"),
        ({"DELETE": BLOCK}, "cannot be deleted: HTTP 403 .*FORBIDDEN/5"),
        ({"DELETE": TIMEOUT}, "cannot be deleted: no answer"),
        ({f"GET /{INDEX}/_mapping": LOST}, "cannot be deleted: no answer"),
    ],
)
def test_a_deletion_that_fails_ends_the_race(answers, message):
    ends(DeleteOwnIndex(), answers, message)


def test_an_index_is_created_in_the_place_of_an_earlier_one_or_not_at_all():
    body = {"mappings": {"_meta": OWN}}

    async def create(es, params):
        await create_own_index(es, INDEX, body, *params.get("foreign", ()))

    for meta, foreign in ((OWN, ()), ({"created_by": "x"}, (True,))):
        es, _ = run(create, {"DELETE": {}, "PUT": {}}, meta, foreign=foreign)
        assert es.sent[1:] == [f"DELETE /{INDEX}", f"PUT /{INDEX}"] and es.requests[-1][2] == body
    ends(create, {"DELETE": {}, "PUT": FORBIDDEN}, "cannot be created: HTTP 403")
    assert not any(s.startswith("PUT") for s in ends(create, {"PUT": {}}, "was not created", {"created_by": "x"}))

    async def delete(es, params):
        await delete_own_index(es, INDEX)

    assert len(ends(delete, {"DELETE": {}}, "was not created", {"created_by": "x"})) == 1


class RallysRunner:
    """One of Rally's own, which returns or raises what it is told to."""

    def __init__(self, result):
        self._result = result

    async def __call__(self, es, params):
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def test_a_runner_of_rallys_own_that_fails_ends_the_race():
    assert run(Guarded(lambda: RallysRunner(None)), {})[1] == {"weight": 1, "unit": "ops"}
    assert run(Guarded(lambda: RallysRunner({"weight": 3, "success": True})), {})[1]["weight"] == 3
    assert run(Guarded(lambda: RallysRunner({"weight": 3})), {})[1] == {"weight": 3}
    ends(Guarded(lambda: RallysRunner({"success": False})), {}, "did not succeed")
    for error in (TIMEOUT, LOST):
        ends(Guarded(lambda error=error: RallysRunner(error)), {}, "no answer")


def test_merges_are_waited_for_until_none_is_running():
    running = [2, 1, 0]

    async def stats(**_):
        return {"_all": {"total": {"merges": {"current": running.pop(0)}}}}

    es = SimpleNamespace(indices=SimpleNamespace(stats=stats))
    condition = {"path": "_all.total.merges.current", "expected-value": 0}
    params = {"index": INDEX, "condition": condition, "retry-until-success": True, "retry-wait-period": 0}
    assert asyncio.run(operations()["index-stats"].runner()(es, params))["success"] and running == []


def test_the_body_of_an_index_is_a_copy_that_may_be_changed():
    track = SimpleNamespace(indices=[SimpleNamespace(name=INDEX, body={"mappings": {"_meta": OWN}})])
    index_body(track, INDEX)["mappings"]["_meta"] = {}
    assert index_body(track, INDEX) == {"mappings": {"_meta": OWN}}


def test_a_load_counts_what_was_taken():
    es, result = run(
        Load(), {"POST /cluster-metrics/_bulk": {"took": 4, "errors": False}}, body=b"", **{"bulk-size": 9}
    )
    expected = {"weight": 9, "unit": "docs", "took": 4, "success-count": 9, "error-count": 0}
    assert result == expected and len(es.sent) == 1


def checked(meta, created, count=3, **changes):
    counts = [Count("", {"match_all": {}}, count)]
    marks = OWN | {"loaded": OWN["loaded"] | changes}
    return {"parameters": {}, "marks": marks, "created": created, "counts": counts, "meta": meta}


def test_an_index_that_this_race_created_is_checked_by_the_race_and_another_by_what_it_holds():
    _, result = run(CheckIndex(), {}, **checked(OWN, True))
    assert (result["docs"], result["segments"], result["store_bytes"]) == (3, 5, 7)
    earlier = OWN | {"race": "another"}
    assert run(CheckIndex(), {}, **checked(earlier, False))[1]["docs"] == 3
    ends(CheckIndex(), {}, r"not the one that this race created, but one of race \[another\]", **checked(earlier, True))
    ends(CheckIndex(), {}, "was not created by this track; run the tasks", **checked({"loaded": OWN["loaded"]}, False))
    of_alias = {f"GET /{INDEX}/_mapping": {"other": {"mappings": {"_meta": OWN}}}}
    ends(CheckIndex(), of_alias, "was not created by this track; run the tasks", **checked(OWN, True))


def test_what_the_target_is_like_is_recorded_with_its_heap_in_mib():
    _, result = run(CheckIndex(), {}, **checked(OWN, True))
    (node,) = json.loads(result["target"])
    expected = {"node": "n", "version": "8.17.2", "jvm": "x 21", "jvm_flags": "", "cores": 2, "heap_mb": 1024}
    assert node == expected


@pytest.mark.parametrize(
    "name, value",
    [
        ("seed", 43),
        ("number_of_shards", 3),
        ("number_of_replicas", 1),
        ("force_merge_max_num_segments", 2),
        ("codec", "best_compression"),
        ("source_mode", "synthetic"),
        ("index_mode", "logsdb"),
    ],
)
def test_an_index_that_was_loaded_by_other_parameters_ends_the_race(name, value):
    message = rf"was loaded with {name} \[{OWN['loaded'][name]}\], this race has \[{value}\]"
    ends(CheckIndex(), {}, message, **checked(OWN, False, **{name: value}))
    ends(CheckIndex(), {}, r"was loaded with nodes \[None\]", **checked({"created_by": OWN["created_by"]}, False))


def test_a_count_that_differs_and_a_shard_that_fails_end_the_race():
    ends(CheckIndex(), {}, "has 3 documents but the corpus 4: -1", **checked(OWN, True, count=4))
    ends(CheckIndex(), {}, r"has 3 documents but the corpus 2: \+1", **checked(OWN, True, count=2))
    of_nodes = [Count(f" of node {node}", {"term": {"node": node}}, rows) for node, rows in (("a", 3), ("b", 4))]
    message = "has 3 documents of node b but the corpus 4$"
    ends(CheckIndex(), {}, message, **checked(OWN, True) | {"counts": of_nodes})
    es, result = run(CheckIndex(), {}, **checked(OWN, True) | {"counts": of_nodes[:1]})
    assert result["weight"] == 2, "requests that count"
    asked = [body["query"] for _, path, body in es.requests if path.endswith("_count")]
    assert asked == [{"match_all": {}}, {"term": {"node": "a"}}]
    failed = {f"POST /{INDEX}/_count": {"count": 3, "_shards": {"failed": 1}}}
    ends(CheckIndex(), failed, "failed on some shards", **checked(OWN, True))
    missing = {f"POST /{INDEX}/_count": Refused(404, "index_not_found_exception", "no such index [x]")}
    ends(CheckIndex(), missing, "the index is missing, run the tasks tagged setup first", **checked(OWN, True))


def test_a_race_marks_its_indices_so_that_no_other_has_the_same():
    def marked(race_id, time):
        options = {"race.id": race_id, "time.start": time}
        experiment = Experiment()
        experiment.cfg = SimpleNamespace(opts=lambda section, key, mandatory: options[key])
        documents = [SimpleNamespace(target_index=INDEX)]
        corpora = [SimpleNamespace(name=name, documents=documents) for name in corpora_of(values())]
        index = SimpleNamespace(name=INDEX, body={"mappings": {"properties": {}}})
        experiment._mark_indices(SimpleNamespace(corpora=corpora, indices=[index]), values(), False)
        return index.body["mappings"]["_meta"]["race"]

    assert marked("x", 1) == marked("x", 1)
    assert len({marked("x", 1), marked("x", 2), marked("y", 1)}) == 3


NODE = {"name": "n", "version": "8.17.2", "jvm": JVM, "os": {"allocated_processors": 2}, "attributes": {}}


@pytest.mark.parametrize("version, refused", [("8.0.0", False), ("10.1.0-SNAPSHOT", False), ("7.17.29", True)])
def test_an_elasticsearch_before_8_ends_the_race(version, refused):
    nodes = {"a": NODE, "b": NODE | {"name": "m", "version": version}}
    answers = {"GET /_nodes": {"nodes": nodes}, "GET /": {}}
    if refused:
        message = "Elasticsearch 7.17.29 is too old, this track needs 8.0 or newer"
        ends(CheckTarget(), answers, message, parameters={})
    else:
        _, result = run(CheckTarget(), answers, parameters={})
        assert [node["version"] for node in json.loads(result["target"])] == ["8.17.2", version]


def test_a_node_is_recorded_with_the_flags_of_its_jvm_and_what_holds_it_to_its_share():
    held = {"cpu_cores": "0.4", "cpu_held_by": "cgroup v2", "ml.machine_memory": "1"}
    jvm = JVM | {"input_arguments": ["-Xms1g", "-Dx=y"]}
    nodes = {"a": NODE | {"attributes": held, "jvm": jvm}, "b": NODE}
    es, result = run(CheckTarget(), {"GET /_nodes": {"nodes": nodes}, "GET /": {}}, parameters={"seed": 42})
    assert es.sent.count("GET /") == 1, "the one request that Rally takes the time of"
    plain = {"node": "n", "version": "8.17.2", "jvm": "x 21", "jvm_flags": "", "cores": 2, "heap_mb": 1024}
    of_held = {"jvm_flags": "-Xms1g", "cpu_cores": "0.4", "cpu_held_by": "cgroup v2"}
    assert json.loads(result.pop("target")) == [plain | of_held, plain]
    assert json.loads(result.pop("parameters")) == {"seed": 42}
    assert json.loads(result.pop("machine"))["cores"] == psutil.cpu_count()
    expected = {"weight": 1, "unit": "ops", "schema": SCHEMA, "local": True, "revision": revision()}
    assert result == expected


@pytest.mark.parametrize("partial", [False, True])
def test_of_an_index_with_a_part_of_the_corpus_no_numbers_are_checked(tmp_path, partial):
    corpus = Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=1)
    track = track_of(
        corpus, root=tmp_path, indices={"other": {"mappings": {"_meta": {}}}, INDEX: {"mappings": {"_meta": OWN}}}
    )
    operation = {"index": INDEX, "corpus": "cluster-metrics", "created": partial, "parameters": values()}
    found = CheckIndexParams(track, operation | ({"partial": True} if partial else {})).params()
    assert [count.documents for count in found.pop("counts")] == ([] if partial else [10, 5, 5])
    assert found == {"parameters": values(), "index": INDEX, "marks": OWN, "created": partial}
