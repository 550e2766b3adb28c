"""ES|QL questions, their exact answers, and what is said when there is none."""

import asyncio
import itertools
import json
import time
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import LOST, TIMEOUT, FakeEs, Refused, Script, track_of, values

from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.index import CheckIndexParams
from cluster_metrics.core.limits import COLD
from cluster_metrics.esql.esql_stored_fields import (
    AS_IS,
    PROFILED,
    QUERY,
    SETTING,
    CheckEsql,
    Question,
    StoredFieldsParams,
    StoredFieldsRunner,
    judge,
    loading,
)
from cluster_metrics.esql.text_values import INDEX, NAME, TextValues
from cluster_metrics.wire.esql import response_problem

PARAMETERS = values(
    shares_permille=[1000, 900, 100],
    sequential_proportions_permille=[1000, 0],
    text_documents=400,
    text_distinct_values=20,
    seed=42,
)


@pytest.fixture
def track(tmp_path):
    corpus = TextValues(documents=400, values=20, form="log-line")
    return track_of(corpus, root=tmp_path, indices={INDEX: {"mappings": {"_meta": {}}}})


def source_of(track, **keys):
    return StoredFieldsParams(track, {"parameters": PARAMETERS, "profile": False} | keys)


def test_a_round_asks_every_share_at_every_setting_in_an_order_of_its_own(track):
    source = source_of(track, **{"warmup-iterations": 1})
    rounds = [source.params() for _ in range(6)]
    assert [r["round"] for r in rounds] == list(range(6))
    orders, settings = set(), set()
    for r in rounds:
        cells = [(setting, q.share_permille) for setting, questions in r["settings"] for q in questions]
        assert sorted(cells) == sorted((s, p) for s in (AS_IS, "1", "0") for p in (1000, 900, 100))
        orders.add(tuple(cells))
        settings.add(tuple(setting for setting, _ in r["settings"]))
    assert len(orders) > 1 and len(settings) > 1
    first, same, other = (
        source_of(track, parameters=PARAMETERS | {"seed": seed}).params()["settings"] for seed in (42, 42, 7)
    )
    assert first == same != other


@pytest.mark.parametrize(
    "share, setting, cell", [(1000, AS_IS, "100%"), (105, AS_IS, "10.5%"), (100, "0.2", "10% at 0.2")]
)
def test_a_cell_is_named_by_its_share_and_the_setting_that_is_tried(share, setting, cell):
    assert Question(share, setting, 40, 360, "FROM x").cell == cell


def test_expected_answers_are_those_of_the_documents_that_the_query_selects(track):
    with open(track.corpora[0].documents[0].document_file) as f:
        rows = [json.loads(line) for line in f]
    for question in (q for _, questions in source_of(track).params()["settings"] for q in questions):
        last = question.query.split('"')[1] if "WHERE" in question.query else "text 9999"
        chosen = [row for row in rows if row["value"] <= last]
        assert len(chosen) == question.documents == 400 * question.share_permille // 1000
        assert sum(len(row["text"]) for row in chosen) == question.chars


@pytest.mark.parametrize("form, selects_by", [("value", "text.keyword"), ("log-line", "value.keyword")])
def test_a_query_selects_the_first_values_up_to_the_share_and_the_last_of_them_too(tmp_path, form, selects_by):
    track = track_of(TextValues(documents=400, values=20, form=form), root=tmp_path)
    asked = {q.share_permille: q for _, questions in source_of(track).params()["settings"] for q in questions}
    summed = "STATS SUM(LENGTH(text))"
    assert {share: question.query for share, question in asked.items()} == {
        1000: f"FROM cluster-metrics-text | {summed}",
        900: f'FROM cluster-metrics-text | WHERE {selects_by} <= "text 0018" | {summed}',
        100: f'FROM cluster-metrics-text | WHERE {selects_by} <= "text 0002" | {summed}',
    }
    whole = {"query": asked[1000].query, "pragma": {"data_partitioning": "shard"}, "accept_pragma_risks": True}
    assert json.loads(asked[1000].request(False).body) == whole
    assert json.loads(asked[100].request(True).body) == json.loads(asked[100].request(False).body) | {"profile": True}


def test_the_index_is_checked_by_share(track):
    parameters = PARAMETERS | {"shares_permille": [1000, 100]}
    params = CheckIndexParams(
        track, {"parameters": parameters, "index": INDEX, "corpus": NAME, "created": True}
    ).params()
    assert params["index"] == INDEX
    assert [c.documents for c in params["counts"]] == [400, 400, 40]
    assert params["counts"][2].query == {"range": {"value.keyword": {"lte": "text 0002"}}}


QUESTION = Question(100, AS_IS, 40, 360, "FROM x")


@pytest.mark.parametrize(
    "response, problems",
    [
        ({"values": [[360]]}, []),
        ({"values": [[360]], "documents_found": 40, "is_partial": False}, []),
        ({"values": [[351]]}, ["SUM(LENGTH(text)) is [[351]], exact 360"]),
        ({"values": [[360]], "documents_found": 39}, ["documents_found is 39, exact 40"]),
        ({"values": [[360]], "is_partial": True}, ["is_partial: some shards did not answer"]),
    ],
)
def test_a_response_is_held_against_the_exact_answer(response, problems):
    assert judge(QUESTION, response) == problems


def test_a_partial_answer_says_why():
    failures = [{"reason": {"type": "x", "reason": "shard closed"}}]
    response = {"is_partial": True, "_clusters": {"details": {"(local)": {"failures": failures}}}}
    assert response_problem(response) == "is_partial: some shards did not answer; shard closed"


def test_loading_adds_up_over_drivers_and_tells_the_readers_apart():
    def reader(sequential, pages, nanos):
        key = f"stored_fields[requires_source:true, fields:0, sequential: {sequential}]"
        status = {"readers_built": {key: pages, "text:column_at_a_time:null": pages}, "process_nanos": nanos}
        return {"operator": "ValuesSourceReaderOperator[fields = [text]]", "status": status}

    other = {"operator": "LuceneSourceOperator[x]", "status": {"process_nanos": 10**9}}
    drivers = [
        {"operators": [other, reader("true", 3, 2_000_000), reader("false", 1, 500_000)]},
        {"operators": [reader("false", 10, 300_000), reader("true", 20, 200_000)]},
    ]
    found = loading({"profile": {"drivers": drivers}})
    assert found == {"process_ms": 3.0, "pages_sequential": 23, "pages_other": 11}


SETTINGS = {INDEX: {"settings": {}, "defaults": {SETTING: "0.2"}}}


def summed(chars):
    return {"took": 1, "values": [[chars]]}


def answering(params, answer):
    """Answers each question of a round by its number, counted from 0, and its exact sum."""
    sums = {q.query: q.chars for _, questions in params["settings"] for q in questions}
    numbers = itertools.count()

    def respond(method, path, body):
        return answer(next(numbers), sums[json.loads(body)["query"]]) if path.startswith("/_query") else SETTINGS

    return respond


@pytest.mark.parametrize("failure", [TIMEOUT, LOST, Refused(429, "circuit_breaking_exception", "Data too large")])
def test_a_query_without_an_answer_is_lost_alone(track, failure):
    params = source_of(track).params()
    es = FakeEs(answering(params, lambda number, chars: failure if number == 4 else summed(chars)))
    with es.new_request_context():
        result = asyncio.run(StoredFieldsRunner()(es, params))
    assert es.sent.count("POST /_query") == 9, "nothing was sent twice"
    samples = result["dependent_timing"]
    assert [s["success"] for s in samples] == [True] * 4 + [False] + [True] * 4
    lost, other = samples[4], samples[5]
    assert lost["error-type"] == "no-answer" and set(lost) - {"error-type", "error-description"} <= set(other)
    assert not result["success"] and result["error-count"] == 1


@pytest.mark.parametrize("off", [0, 1])
def test_a_sample_with_a_wrong_sum_is_a_failure(track, off):
    params = source_of(track).params()
    es = FakeEs(answering(params, lambda number, chars: summed(chars + off)))
    with es.new_request_context():
        samples = asyncio.run(StoredFieldsRunner()(es, params))["dependent_timing"]
    assert [(s["success"], s.get("error-type")) for s in samples] == [(not off, "wrong-answer" if off else None)] * 9


@pytest.mark.parametrize("failure", [TIMEOUT, Refused(403, "security_exception", "granted by the privileges [manage]")])
def test_a_setting_that_cannot_be_set_ends_the_race(track, failure):
    es = FakeEs(Script({"GET": SETTINGS, "PUT": failure}))
    with es.new_request_context(), pytest.raises(exceptions.RallyAssertionError, match=f"setting {SETTING}: "):
        asyncio.run(StoredFieldsRunner()(es, source_of(track).params()))


def test_a_round_leaves_the_target_with_its_own_setting(track):
    es = FakeEs(lambda method, path, body: {"took": 1, "values": []} if path.startswith("/_query") else SETTINGS)
    source = source_of(track)
    with es.new_request_context():
        for _ in range(4):
            asyncio.run(StoredFieldsRunner()(es, source.params()))
            assert [body for method, _, body in es.requests if method == "PUT"][-1] == {SETTING: None}


def test_each_setting_is_in_force_for_its_questions_and_told_with_them(track):
    in_force, during = {}, []

    def respond(method, path, body):
        if method == "PUT":
            in_force.update({SETTING: body[SETTING]} if body[SETTING] is not None else {SETTING: 0.2})
        if path.startswith("/_query"):
            during.append(in_force[SETTING])
            return {"took": 7, "values": []}
        return {
            INDEX: {"settings": {name: str(value) for name, value in in_force.items()}, "defaults": {SETTING: "0.2"}}
        }

    es = FakeEs(respond)
    with es.new_request_context():
        result = asyncio.run(StoredFieldsRunner()(es, source_of(track).params()))
    samples = result["dependent_timing"]
    assert [s["sequential_proportion"] for s in samples] == during and result["settings_missing"] == 0
    assert all(s["sequential_proportion"] == {AS_IS: 0.2, "1": 1, "0": 0}[s["setting"]] for s in samples)
    assert {(s["took_ms"], s["wall_ms"]) for s in samples} == {(7, 1000)}


def test_a_target_without_the_setting_is_asked_as_it_is_alone(track):
    missing = {INDEX: {"settings": {}, "defaults": {}}}
    es = FakeEs(lambda method, path, body: {"took": 1, "values": []} if path.startswith("/_query") else missing)
    with es.new_request_context():
        result = asyncio.run(StoredFieldsRunner()(es, source_of(track).params()))
    assert {method for method, *_ in es.requests} == {"GET", "POST"} and result["settings_missing"] == 2
    samples = result["dependent_timing"]
    assert sorted((s["share_permille"], s["setting"]) for s in samples) == [(n, AS_IS) for n in (100, 900, 1000)]
    assert not any("sequential_proportion" in s for s in samples)


@pytest.mark.parametrize("rounds, warm", [(1, True), (0, False)])
def test_caches_are_said_to_be_warm_where_a_round_ran_uncounted(rounds, warm):
    said = [limit({"index": {}, "warmup_iterations": rounds}) for limit in challenges()["esql-stored-fields"].limits]
    assert any("one round ran uncounted" in text for text in said) is warm and (COLD in said) is not warm


def test_races_are_judged_by_the_wall_times_of_all_rounds_with_all_documents_as_the_base():
    compared = challenges()["esql-stored-fields"].compared
    assert (compared.sample, compared.base, compared.parameter) == (QUERY, "100%", "esql_rounds")
    assert compared.figures == ("wall_ms", "took_ms")


@pytest.mark.parametrize("profiled", [False, True])
def test_a_round_with_the_profiler_records_the_loading_and_is_of_a_kind_of_its_own(track, monkeypatch, profiled):
    clock = SimpleNamespace(time=time.time, process_time=itertools.count().__next__)
    monkeypatch.setattr("cluster_metrics.esql.esql_stored_fields.time", clock)
    params = source_of(track, profile=profiled).params()
    status = {"process_nanos": 5_000_000, "readers_built": {"stored_fields[sequential: true]": 2}}
    profile = {"drivers": [{"operators": [{"operator": "ValuesSourceReaderOperator", "status": status}]}]}
    more = {"documents_found": 400, "values_loaded": 800} | ({"profile": profile} if profiled else {})
    es = FakeEs(answering(params, lambda number, chars: TIMEOUT if number == 8 else summed(chars) | more))
    with es.new_request_context():
        *samples, lost = asyncio.run(StoredFieldsRunner()(es, params))["dependent_timing"]
    kinds = {s["dependent_timing"]["operation-type"] for s in (*samples, lost)}
    assert kinds == {PROFILED if profiled else QUERY}
    bodies = [json.loads(body) for _, path, body in es.requests if path.startswith("/_query")]
    assert {body.get("profile", False) for body in bodies} == {profiled}
    recorded = {(s["client_ms"], s["documents_found"], s["values_loaded"]) for s in samples}
    assert recorded == {(1000, 400, 800)}
    loaded = {(s.get("process_ms"), s.get("pages_sequential"), s.get("pages_other")) for s in samples}
    assert loaded == ({(5, 2, 0)} if profiled else {(None, None, None)})


def test_a_setting_that_the_index_was_created_with_is_one_that_the_target_has(track):
    found = {INDEX: {"settings": {SETTING: "0.5"}, "defaults": {}}}
    es = FakeEs(lambda method, path, body: {"took": 1, "values": []} if path.startswith("/_query") else found)
    with es.new_request_context():
        result = asyncio.run(StoredFieldsRunner()(es, source_of(track).params()))
    assert result["settings_missing"] == 0 and len(result["dependent_timing"]) == 9
    assert {s["sequential_proportion"] for s in result["dependent_timing"]} == {0.5}


def test_a_target_that_refuses_the_pragma_ends_the_race_before_anything_is_loaded():
    es = FakeEs(Script({"GET": {}, "POST": {"values": [[1]]}}))
    assert asyncio.run(CheckEsql()(es, {}))["weight"] == 1
    (body,) = (json.loads(body) for method, _, body in es.requests if method == "POST")
    assert (body["pragma"], body["accept_pragma_risks"]) == ({"data_partitioning": "shard"}, True)
    es = FakeEs(Script({"GET": {}, "POST": Refused(400, "illegal_argument_exception", "pragma not allowed")}))
    with pytest.raises(exceptions.RallyAssertionError, match="pragma not allowed"):
        asyncio.run(CheckEsql()(es, {}))
