"""What a metrics store is asked for, with whose credentials, and what is made of an answer that is none."""

import copy
import gc
import math
from pathlib import Path

import certifi
import elasticsearch
import pytest
import races
from capacities import curve
from elastic_transport import ConnectionError as Unreachable
from elasticsearch.helpers import ScanError
from stores import Store, documents_of, recorded

from _tools.report.race import ReportError
from _tools.report.store import circumstances, connect, find, load, load_all, reporting_of
from cluster_metrics.core.index import CHECKS

SETTINGS = {"type": "elasticsearch", "host": "store.example", "port": "9200"}


@pytest.fixture
def ini(tmp_path, monkeypatch):
    """Writes a rally.ini whose metrics store has these settings, those that are None left out."""
    for name in ("USER", "PASSWORD", "API_KEY"):
        monkeypatch.delenv(f"RALLY_REPORTING_DATASTORE_{name}", raising=False)

    def ini(**settings):
        lines = [f"datastore.{k.replace('__', '.')} = {v}" for k, v in (SETTINGS | settings).items() if v is not None]
        path = tmp_path / "rally.ini"
        path.write_text("\n".join(["[reporting]", *lines]))
        return path

    return ini


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"type": None}, "names no metrics store; set datastore.type = elasticsearch"),
        ({"type": "in-memory"}, "names no metrics store; set datastore.type = elasticsearch"),
        ({"host": None}, "needs datastore.host and, from 1 to 65535, datastore.port"),
        ({"host": ""}, "needs datastore.host and"),
        *(
            ({"port": port}, "needs datastore.host and")
            for port in (None, "", "0", "65536", "-1", "x", "９２００", "9.2")
        ),
        ({"user": "${NOWHERE}"}, "is no rally.ini: 'NOWHERE'"),
        ({"user": "$ 7"}, "is no rally.ini: Invalid placeholder"),
        ({"user": "%(x"}, "is no rally.ini: "),
    ],
)
def test_a_rally_ini_without_a_sound_metrics_store_is_refused_in_one_line(ini, settings, why):
    with pytest.raises(ReportError) as e:
        reporting_of(ini(**settings))
    assert why in str(e.value) and str(e.value).isprintable()


@pytest.mark.parametrize(
    "content, why",
    [
        (None, "cannot read [{}]: No such file or directory"),
        (b"\xff\xfe", "[{}] is no rally.ini, it is no text"),
        (b"datastore.type = elasticsearch", "[{}] is no rally.ini: File contains no section headers."),
        (b"[meta]\ndatastore.type = elasticsearch", "[{}] names no metrics store; "),
    ],
)
def test_what_is_no_rally_ini_is_refused_in_one_line(tmp_path, content, why):
    path = tmp_path / "rally.ini"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReportError) as e:
        reporting_of(path)
    assert str(e.value).startswith(why.format(path))


@pytest.mark.parametrize("port", ["1", "65535"])
def test_every_port_that_there_is_is_taken(ini, port):
    assert reporting_of(ini(port=port))["datastore.port"] == port


@pytest.mark.parametrize(
    "secure, scheme",
    [("True", "https"), ("yes", "https"), ("1", "https"), ("TRUE", "https"), ("False", "http"), ("no", "http")]
    + [("0", "http"), ("", "http"), (None, "http")],
)
def test_a_store_is_asked_by_tls_where_rally_asks_it_so(ini, secure, scheme):
    [node] = connect(ini(secure=secure, user="me")).transport.node_pool.all()
    assert node.base_url == f"{scheme}://store.example:9200"


def test_authorities_may_lie_in_the_home_of_the_user(ini, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ca.pem").write_bytes(Path(certifi.where()).read_bytes())
    [node] = connect(ini(secure="true", ssl__certificate_authorities="~/ca.pem")).transport.node_pool.all()
    assert node.config.ca_certs == f"{tmp_path}/ca.pem"


BASIC = {"me:secret": "bWU6c2VjcmV0", "me:": "bWU6", "you:secret": "eW91OnNlY3JldA=="}


@pytest.mark.parametrize(
    "settings, given, sent",
    [
        ({}, {}, None),
        ({"user": "me", "password": "secret"}, {}, f"Basic {BASIC['me:secret']}"),
        ({"user": "me"}, {}, f"Basic {BASIC['me:']}"),
        ({"user": "me"}, {"PASSWORD": "secret"}, f"Basic {BASIC['me:secret']}"),
        ({"user": "me", "password": "old"}, {"PASSWORD": "secret"}, f"Basic {BASIC['me:secret']}"),
        ({"user": "me", "password": "secret"}, {"USER": "you"}, f"Basic {BASIC['you:secret']}"),
        ({"user": "me", "password": "secret"}, {"USER": ""}, f"Basic {BASIC['me:secret']}"),
        ({"api_key": "key"}, {}, "ApiKey key"),
        ({"api_key": "old"}, {"API_KEY": "key"}, "ApiKey key"),
        ({"user": "me", "password": "secret", "api_key": "key"}, {}, f"Basic {BASIC['me:secret']}"),
    ],
)
def test_a_user_comes_before_a_key_and_the_environment_before_the_file(ini, monkeypatch, settings, given, sent):
    for name, value in given.items():
        monkeypatch.setenv(f"RALLY_REPORTING_DATASTORE_{name}", value)
    assert connect(ini(**settings))._headers.get("authorization") == sent


def race(race_id, at=1, **changes):
    return {"race-id": race_id, "race-timestamp": f"202601{at:02d}T000000Z", "challenge": "query-decomp"} | changes


def stored(*documents):
    return Store(*((document, []) for document in documents))


def test_races_are_found_by_id_and_by_tag_the_newest_first_and_no_more_than_are_asked_for():
    tagged = {"user-tags": {"k": "a:b"}, "results": {"any": 1}}
    store = stored(race("a", 1, **tagged), race("c", 3), race("b", 2, **tagged))
    assert [d["race-id"] for d in find(store)] == ["c", "b", "a"]
    assert [d["race-id"] for d in find(store, most=2)] == ["c", "b"]
    assert [d["race-id"] for d in find(store, "k:a:b")] == ["b", "a"]
    assert [d["race-id"] for d in find(store, "k:a:b", 1)] == ["b"]
    assert [d["race-id"] for d in find(store, "a")] == ["a"]
    for name, why in (("k:a", r"^no race \[k:a\] in the store$"), ("d", r"^no race \[d\] in the store$")):
        with pytest.raises(ReportError, match=why):
            find(store, name)
    with pytest.raises(ReportError, match="^the metrics store holds no race$"):
        find(stored())


def test_what_a_race_has_just_written_is_made_visible_before_it_is_looked_for():
    class Late(Store):
        """Shows nothing that was written before it is told to."""

        def __init__(self, *of):
            super().__init__(*of)
            self.shown = []

        def refresh(self, *, index, **_):
            self.shown.append(index)

        def search(self, *, index, **asked):
            return super().search(index=index if self.shown == ["rally-*"] else "none", **asked)

    store = Late((race("a"), []))
    assert [d["race-id"] for d in find(store)] == ["a"]


@pytest.mark.parametrize(
    "lacks, why",
    [
        ({"race-timestamp": None}, r"race \[a\]: its document in the metrics store has no \[race-timestamp\]"),
        ({"challenge": 7}, r"race \[a\]: its document in the metrics store has no \[challenge\]"),
        ({"race-timestamp": "2026-01-01"}, r"race \[a\] started at \[2026-01-01\], which is no time of Rally's"),
    ],
)
def test_a_race_that_does_not_say_what_it_is_is_refused(lacks, why):
    with pytest.raises(ReportError, match=f"^{why}$"):
        find(stored(race("a") | lacks))


@pytest.mark.parametrize("odd", [None, [], "x", 7])
def test_results_and_tags_of_a_race_that_are_none_are_empty(odd):
    [found] = find(stored(race("a", results=odd, **{"user-tags": odd})))
    assert (found["results"], found["user-tags"]) == ({}, {})


class Failing(Store):
    """Answers searches of an index with an error."""

    def __init__(self, *of, error, index="rally-races-*"):
        super().__init__(*of)
        self.error, self.index = error, index

    def search(self, *, index, **asked):
        if index == self.index:
            raise self.error
        return super().search(index=index, **asked)


ERRORS = {
    "answers with an error: no \\n": elasticsearch.ApiError("no \n", None, None),
    "is out of reach: Connection error": Unreachable("refused"),
    "answers with an error: some of its shards do not answer": ScanError("1", "2 of 3"),
}


@pytest.mark.parametrize("index", ["rally-races-*", "rally-metrics-*"])
@pytest.mark.parametrize("said", ERRORS)
def test_an_error_of_a_store_is_told_in_one_line_whatever_it_was_asked_for(index, said):
    document, documents = recorded("query-decomp")
    store = Failing((document, documents), error=ERRORS[said], index=index)
    for asked in (lambda: load(store, "recorded"), lambda: circumstances(store, *find(store))):
        with pytest.raises(ReportError) as e:
            asked()
        assert str(e.value).startswith("the metrics store ") and said in str(e.value)
    assert gc.isenabled()


def test_a_race_of_which_some_shards_do_not_answer_is_not_read_in_part():
    class Partly(Store):
        """Of two shards of the samples one answers."""

        def search(self, *, index, **asked):
            answer = super().search(index=index, **asked)
            return answer | {"_shards": {"successful": 1, "total": 2, "skipped": 0, "failed": 1}}

    with pytest.raises(ReportError, match="some of its shards do not answer"):
        load(Partly(recorded("query-decomp")), "recorded")


def test_numbers_that_json_does_not_have_are_read_as_rally_wrote_them(ini):
    json_of = connect(ini()).transport.serializers.get_serializer("application/json").loads
    assert json_of(b'{"a": [1, 2.5]}') == {"a": [1, 2.5]} and json_of(b'{"a": Infinity, "b": 1}') == {
        "a": math.inf,
        "b": 1,
    }


def test_garbage_is_looked_for_again_once_a_race_was_read():
    load(Store(recorded("query-decomp")), "recorded")
    assert gc.isenabled()


def tagged(*of):
    document, documents = recorded("query-decomp")
    return Store(*((document | race(*one[:2]) | {"user-tags": {"k": "v"}} | one[2], documents) for one in of))


def test_of_a_tag_the_races_of_one_challenge_are_read_that_were_finished():
    store = tagged(("a", 1, {}), ("b", 2, {"challenge": "query-frontier"}), ("c", 3, {"results": {}}), ("d", 4, {}))
    assert [found.id for found in load_all(store, "k:v", "query-decomp")] == ["a", "d"]
    with pytest.raises(
        ReportError, match=r"^races \[k:v\] are of challenges query-decomp, query-frontier; say which by CHALLENGE$"
    ):
        load_all(store, "k:v")
    with pytest.raises(ReportError, match=r"^no race \[k:v\] of challenge \[ingest\] was finished$"):
        load_all(store, "k:v", "ingest")
    assert [found.id for found in load_all(store, "c", "ingest")] == ["c"]
    assert [found.id for found in load_all(store, "last")] == ["d"]


def test_where_no_race_of_a_tag_was_finished_none_is_read():
    with pytest.raises(ReportError, match=r"^no race \[k:v\] was finished$"):
        load_all(tagged(("a", 1, {"results": {}}), ("b", 2, {"results": {}})), "k:v")


def test_latencies_are_read_of_the_kinds_that_wait_and_of_no_warm_up():
    whole = curve(passes=1, seconds=5)
    document, documents = documents_of(whole)
    one = next(d for d in documents if d["name"] == "latency")
    more = [one | {"sample-type": "warmup"}, one | {"operation-type": "capacity-monitor"}]
    found = load(Store((document, [*documents, *more])), "x")
    values = [sample.value for sample in whole.latencies]
    assert sorted(sample.value for sample in found.latencies) == sorted(values)
    assert {sample.value for sample in found.of("capacity-query")} == {10.0} and found.failed == {}


def test_what_a_race_ran_on_is_told_by_its_own_first_check_that_counts():
    document, documents = documents_of(races.made("x", rounds=1))
    check = next(d for d in documents if d["operation-type"] in CHECKS)
    check |= {"meta": check["meta"] | {"revision": "abc"}, "@timestamp": 5}
    others = [copy.deepcopy(check) for _ in range(4)]
    for other, change in zip(others, ({"@timestamp": 9}, {"@timestamp": 1}, {"@timestamp": 2}, {"@timestamp": 3})):
        other |= change
        other["meta"]["revision"] = f"at {change['@timestamp']}"
    others[1]["sample-type"], others[2]["meta"]["success"], others[3]["name"] = "warmup", False, "latency"
    earlier = (
        document | {"race-timestamp": "20200101T000000Z"},
        others[2:3] + [copy.deepcopy(others[0]) | {"@timestamp": 0}],
    )
    store = Store((document, [*others, check]), earlier)
    found = circumstances(store, find(store, "x", 1)[0])
    assert (found.document["track-revision"], found.parameters["nodes"], found.faults) == ("abc", 30, [])
    assert (found.target, found.machine, found.samples) == ([races.TARGET], races.MACHINE, [])
    check["meta"] |= {"target": "x"}
    assert circumstances(store, find(store, "x", 1)[0]).faults == ["Its check has no sound [target]."]
