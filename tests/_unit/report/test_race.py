"""Races as they are read from a metrics store: what counts, what is refused, what makes a race incomplete."""

import copy
import json
import math

import pytest
import races
from capacities import made
from hypothesis import given
from hypothesis import strategies as st
from stores import Store, documents_of, recorded

from _tools.race.rally import Store as Named
from _tools.race.rally import write_configuration
from _tools.race.variables import Exit
from _tools.report import race as reading
from _tools.report import write
from _tools.report.answer import checked
from _tools.report.race import IncompleteError, ReportError, race_of
from _tools.report.sample import Meta, Sample, columns
from _tools.report.sound import LATEST_MS, REQUEST, Sound, all_have, all_numbers, gaps, odd_figure, odd_key
from _tools.report.store import _ahead, connect, load, load_all, reporting_of
from cluster_metrics.core.challenge import Key
from cluster_metrics.query._report import server


@pytest.fixture
def decomp():
    """A recorded race of query-decomp: its document and its samples, to be changed."""
    return copy.deepcopy(recorded("query-decomp"))


def sample(documents, kind, name="service_time"):
    return next(d for d in documents if d["name"] == name and d.get("operation-type") == kind)


def check(documents):
    return sample(documents, "check-index")["meta"]


def test_the_revision_that_the_check_saw_stands_where_rally_knows_none(decomp):
    race, documents = decomp
    check(documents)["revision"] = "abc+"
    assert load(Store((race, documents)), "recorded").document["track-revision"] == "abc+"
    race["track-revision"] = "of Rally"
    assert load(Store((race, documents)), "recorded").document["track-revision"] == "of Rally"


@pytest.fixture
def printed(monkeypatch, tmp_path, capsys):
    """Writes the report of a race; returns its problems, all its files and what was printed."""

    def printed(race, documents):
        monkeypatch.setattr(write, "connect", lambda ini: Store((race, documents)))
        code = write.write_report(tmp_path / "rally.ini", race["race-id"], tmp_path / "reports")
        files = {path.name: path.read_text() for path in (tmp_path / "reports" / race["race-id"]).iterdir()}
        problems = json.loads(files["report.json"])["problems"]
        assert code == (Exit.INCOMPLETE if problems else Exit.DONE)
        return problems, files, capsys.readouterr().out

    return printed


def test_a_race_that_nothing_hit_is_complete(decomp, printed):
    problems, files, out = printed(*decomp)
    assert problems == [] and "INCOMPLETE" not in "".join([*files.values(), out])
    assert '"problems": [],' in files["report.json"]


@pytest.mark.parametrize(
    "kind, when",
    [("delete-own-index", "normal"), ("create-index", "normal"), ("bulk", "normal"), ("coverage", "warmup")],
)
def test_a_failure_of_any_operation_is_counted_and_said_first(decomp, printed, kind, when):
    race, documents = decomp
    hit = copy.deepcopy(sample(documents, kind))
    hit["meta"] |= {"success": False, "error-description": "disk\nfull"}
    problems, files, out = printed(race, [*documents, hit | {"sample-type": when}])
    said = f"Of {hit['operation']} 1 failed."
    assert said in problems and f"{hit['operation']} failed first with: disk\\nfull" in problems
    assert out.startswith("\nINCOMPLETE: query-decomp · ") and said in out.splitlines()[2]
    assert files["report.md"].startswith("# INCOMPLETE: Race recorded\n")
    body = files["report.html"].split("<main>")[1]
    assert body.startswith("\n<h1>INCOMPLETE: Race recorded</h1>\n<ul>\n<li><strong>Of ")
    assert said in files["report.json"].split('"document"')[0]


def test_the_first_failure_is_that_which_came_first_whatever_order_the_store_has_them_in(decomp, printed):
    race, documents = decomp
    hit = sample(documents, "bulk")
    late, early = (
        hit | {"@timestamp": hit["@timestamp"] + ms, "meta": hit["meta"] | {"success": False, "error-description": why}}
        for ms, why in ((1000, "what followed"), (0, "the cause"))
    )
    problems, _, _ = printed(race, [*documents, late, early])
    assert f"{hit['operation']} failed first with: the cause" in problems


def test_neither_failed_samples_nor_those_of_warm_up_enter_figures(decomp):
    race, documents = decomp
    whole = load(Store((race, documents)), "recorded")
    hit = next(d for d in documents if d.get("operation-type") == "coverage" and d["name"] == "service_time")
    slow = copy.deepcopy(hit)
    slow["value"] = slow["meta"]["wall_ms"] = slow["meta"]["took_ms"] = 1e6
    warmup = copy.deepcopy(slow) | {"sample-type": "warmup"}
    slow["meta"]["success"] = False
    found = load(Store((race, [*documents, slow, warmup])), "recorded")
    assert found.samples == whole.samples and found.failed == {hit["operation"]: 1}


def test_samples_of_an_earlier_race_of_the_same_id_are_not_read(decomp):
    race, documents = decomp
    whole = load(Store((race, documents)), "recorded")
    earlier = race | {"race-timestamp": "20200101T000000Z"}, copy.deepcopy(documents)
    found = load(Store((race, documents), earlier), "recorded")
    assert found.document["race-timestamp"] == race["race-timestamp"]
    assert found.samples == whole.samples and found.problems == whole.problems


def test_of_bulk_requests_that_failed_in_part_the_rest_counts():
    race, documents = copy.deepcopy(recorded("ingest"))
    whole = load(Store((race, documents)), "recorded")
    for hit in [d for d in documents if d.get("operation-type") == "ingest-bulk"]:
        hit["meta"]["success"] = False
    found = load(Store((race, documents)), "recorded")
    values = [sample.value for sample in whole.samples]
    assert [sample.value for sample in found.samples] == values
    assert sum(found.failed.values()) == len(whole.of("ingest-bulk")) > 0


def test_a_race_that_was_not_finished_says_so_first(decomp, printed):
    race, documents = decomp
    del race["results"]
    problems, _, out = printed(race, documents)
    assert problems == ["The race was not finished."]
    assert out.startswith("\nINCOMPLETE: query-decomp · ") and "The race was not finished." in out.splitlines()[2]


def test_rounds_and_passes_that_are_missing_are_named(decomp, printed):
    race, documents = decomp
    kept = [d for d in documents if d.get("meta", {}).get("round") != 2 or d["operation"] != "D_td-serial"]
    kept = [d for d in kept if d.get("meta", {}).get("pass") != 1]
    problems, *_ = printed(race, kept)
    assert "Samples coverage of D_td-serial lack round 2." in problems
    assert any(p.startswith("Samples query-cell of ") and p.endswith(" and 6 more lack pass 1.") for p in problems)


def test_a_pass_that_a_cell_of_a_grid_lacks_is_named():
    race = made("r", "capacity-query")
    assert list(gaps(race.record, race.parameters, race.samples)) == []
    of = [s for s in race.samples if s.kind == "capacity-query" and (s.meta["cell"], s.meta["pass"]) == ("1s-0r", 2)]
    kept = [s for s in race.samples if s not in of]
    assert list(gaps(race.record, race.parameters, kept)) == ["Samples capacity-query of 1s-0r lack pass 2."]


def test_a_coverage_that_took_no_time_is_left_out(decomp):
    race, documents = decomp
    whole = load(Store((race, documents)), "recorded").samples
    for wall_ms, document in zip((0, -1.5), (d for d in documents if d.get("operation-type") == "coverage")):
        document["meta"]["wall_ms"] = wall_ms
    found = load(Store((race, documents)), "recorded")
    assert "2 samples coverage have no [wall_ms] above 0 and are left out." in found.problems
    assert len(found.samples) == len(whole) - 2


ODD = st.one_of(
    st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=2), st.just([1]), st.just(10**400)
)


OF_ROUND = (Key("round", "", ""), Key("ms", "ms", ""), Key("more", "ms", "", optional=True))


@given(st.lists(st.tuples(ODD, ODD)))
def test_what_is_told_of_columns_is_so_of_each_sample(values):
    places = {"round": 0, "ms": 1}
    if all_numbers(OF_ROUND, places, [Sample("x", 0, "x", 1.0, Meta(places, of)) for of in values]):
        assert not any(odd_figure(OF_ROUND, dict(zip(places, of))) for of in values)


@given(st.lists(st.tuples(ODD, ODD, st.integers(0, 10**15)), max_size=3))
def test_what_is_told_of_documents_together_is_so_of_each(values):
    keys = {"task": str, "value": float, "@timestamp": float}
    documents = [dict(zip(keys, of)) for of in values]
    sound = [d for d in documents if not odd_key(d, keys) and d["@timestamp"] < LATEST_MS]
    assert not all_have(keys, documents) or sound == documents
    assert [*Sound().those(documents, keys)] == sound


def test_documents_that_are_sound_are_told_together():
    sound = {"task": "a", "value": 1, "@timestamp": 2.5}
    assert all_have(REQUEST | {"sample-type": str}, [sound | {"sample-type": "normal"}] * 2)
    for odd in ({"task": 1}, {"value": True}, {"value": math.nan}, {"@timestamp": -1}, {"@timestamp": LATEST_MS}):
        assert not all_have({"task": str, "value": float, "@timestamp": float}, [sound, sound | odd])
    assert not all_have({"task": str}, [sound, {}]) and not all_have({"task": str}, [sound, None])


def test_texts_of_samples_that_are_no_numbers_alone_are_escaped(decomp):
    race, documents = decomp
    sample(documents, "coverage")["meta"]["variant"] = "D_td\n# x"
    assert "D_td\\n# x" in {s.meta["variant"] for s in load(Store((race, documents)), "recorded").of("coverage")}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers())), st.booleans())
def test_columns_of_metadata_are_those_of_dictionaries(metas, alike):
    of = [metas[0] for _ in metas] if alike else metas
    shapes = {tuple(meta): {name: place for place, name in enumerate(meta)} for meta in of}
    stored = [Meta(shapes[tuple(meta)], tuple(meta.values())) for meta in of]
    assert columns(stored, "abx") == columns(of, "abx") == {key: [meta.get(key) for meta in of] for key in "abx"}


@pytest.mark.parametrize("odd", [(1.5, 2), (1, "2"), (1, float("nan")), (1, 1e301), (True, 2), (1, None)])
def test_columns_of_numbers_are_told_at_once(odd):
    def told(places, *values):
        return all_numbers(OF_ROUND, places, [Sample("x", 0, "x", 1.0, Meta(places, of)) for of in values])

    places = {"round": 0, "ms": 1}
    assert told(places, (1, 2.5), (2, 3)) and told(places | {"more": 2}, (1, 2, 3))
    assert not told(places, (1, 2.5), odd) and not told({"ms": 0}, (1,))


def test_a_sample_without_a_key_is_left_out_and_a_key_that_none_has_is_of_an_older_version(decomp):
    race, documents = decomp
    whole = load(Store((race, documents)), "recorded").samples
    plan = [d["meta"] for d in documents if d.get("operation-type") == "coverage" and d["name"] == "service_time"]
    del plan[0]["took_ms"]
    plan[1]["took_ms"] = "12"
    found = load(Store((race, documents)), "recorded")
    assert "2 samples coverage have no sound [took_ms] and are left out." in found.problems
    assert len(found.samples) == len(whole) - 2
    for meta in plan:
        meta.pop("took_ms", None)
    found = load(Store((race, documents)), "recorded")
    assert found.problems == ["No sample coverage has [took_ms]: an older version of this track wrote them."]
    assert len(found.samples) == len(whole)


def test_a_race_of_which_nothing_is_there_is_refused(decomp):
    race, documents = decomp
    with pytest.raises(
        ReportError, match=r"^race \[recorded\] has no samples of this track: it ran no task that is rep"
    ):
        load(Store((race, [])), "recorded")
    del race["results"]
    with pytest.raises(IncompleteError, match=r"^race \[recorded\] is INCOMPLETE: it was not finished and has no samp"):
        load(Store((race, [])), "recorded")


@pytest.mark.parametrize("race_id", ["../x", "..", ".", "a/b", "a\nb", "", "x" * 129, "é", None, 1, {"a": 1}])
def test_an_id_that_could_leave_its_folder_is_refused_when_read(decomp, race_id):
    race, documents = decomp
    with pytest.raises(ReportError) as e:
        load(Store((race | {"race-id": race_id}, documents)), "last")
    assert str(e.value).isprintable()


def test_what_was_typed_forges_no_line(decomp, printed):
    race, documents = decomp
    forged = "x\n# Forged\n\n- **improved**"
    race |= {"user-tags": {"a": forged, forged: "b"}, "track": forged}
    for hit in documents:
        hit["operation"] = hit.get("operation", "") + forged
    check(documents)["target"] = check(documents)["target"].replace("target-1", "x\\n# Forged")
    check(documents)["parameters"] = check(documents)["parameters"].replace("even", "\\n# Forged")
    _, files, out = printed(race, documents)
    assert "# Forged" in out
    assert not any(line.startswith("# Forged") for text in (out, files["report.md"]) for line in text.splitlines())


@pytest.mark.parametrize("schema", [3, 2, None])
def test_versions_of_samples_that_are_read(decomp, monkeypatch, schema):
    race, documents = decomp
    if schema is None:
        del check(documents)["schema"]
    else:
        check(documents)["schema"] = schema
    monkeypatch.setattr(reading, "SCHEMA", 3)
    assert load(Store((race, documents)), "recorded").problems == []


@pytest.mark.parametrize("schema", [4, 1, None, "3", 2.5, [3]])
def test_versions_of_samples_that_are_refused(decomp, monkeypatch, schema):
    race, documents = decomp
    check(documents)["schema"] = schema
    if schema is None:
        del check(documents)["schema"]
    monkeypatch.setattr(reading, "OLDEST_SCHEMA", 2)
    monkeypatch.setattr(reading, "SCHEMA", 3)
    with pytest.raises(
        ReportError, match=r"^race \[recorded\] has samples of version .*, this track reads 2 to 3; "
    ) as e:
        load(Store((race, documents)), "recorded")
    assert str(e.value).isprintable()


def test_of_a_tag_the_finished_races_are_read_oldest_first(decomp):
    race, documents = decomp
    times = {"b": "20260102T000000Z", "a": "20260101T000000Z", "unfinished": "20260103T000000Z"}
    races = [race | {"race-id": i, "race-timestamp": at, "user-tags": {"k": "v"}} for i, at in times.items()]
    del races[2]["results"]
    store = Store(*((race, documents) for race in races))
    assert [race.id for race in load_all(store, "k:v")] == ["a", "b"]
    assert load(store, "last").id == "unfinished"


@pytest.mark.parametrize(
    "mode, verified", [(None, True), ("full", True), ("certificate", True), ("", True), ("none", False)]
)
@pytest.mark.filterwarnings("ignore:Connecting to")
def test_a_store_is_verified_unless_that_is_switched_off(tmp_path, mode, verified):
    ini = tmp_path / "rally.ini"
    write_configuration(Named("https://store.example"), ini)
    if mode is not None:
        line = "datastore.secure = True\n"
        ini.write_text(ini.read_text().replace(line, f"{line}datastore.ssl.verification_mode = {mode}\n"))
        assert "datastore.ssl.verification_mode" in reporting_of(ini)
    [node] = connect(ini).transport.node_pool.all()
    assert node.config.scheme == "https" and node.config.verify_certs is verified


def test_a_round_that_failed_with_its_sample_is_one_failure_and_a_failed_warm_up_tells_what_it_saw():
    document, hits = recorded("query-decomp")
    hits = [hit for hit in hits if hit["name"] == "service_time"]

    def failing(kind, **meta):
        hit = copy.deepcopy(next(hit for hit in hits if hit["operation-type"] == kind))
        hit["meta"] |= {"success": False, "error-description": "x"} | meta
        return hit

    failed = [failing("coverage"), failing("query-plan", **{"error-type": "failed-samples"})]
    race = race_of(document, hits, failed)
    assert sum(race.failed.values()) == 2 and checked(race, 9, "coverage").text == "9 coverages; 1 request failed"
    warm = failing("query-plan", rounds=40, unsteady=["A-serial"])
    warm |= {"operation-type": "query-warm-up", "operation": "warm-up"}
    assert server.unsteady(race_of(document, [*hits, warm], [warm])) == {"A-serial"}


def test_a_monitor_takes_no_place_in_the_schedule_of_the_tasks_that_it_looks_at():
    document = {"race-id": "x", "race-timestamp": "20260101T000000Z", "challenge": "ingest", "results": {"any": 1}}
    of = (("index-append", "ingest-bulk", 0), ("monitor", "monitor", 100), ("index-append", "ingest-bulk", 200))
    requests = [
        {"task": task, "operation-type": kind, "sample-type": "normal", "@timestamp": at, "value": 150.0}
        for task, kind, at in of
    ]
    failed = {"operation": "x", "operation-type": "x", "@timestamp": 1, "value": 1.0, "meta": {"success": False}}
    [stretch] = race_of(document, [], [failed], requests).schedule
    assert (stretch.task, stretch.start, stretch.end, stretch.requests) == ("index-append", 0, 350, 2)


@given(st.lists(st.lists(st.integers(), max_size=20), min_size=1, max_size=3), st.integers(1, 9))
def test_documents_that_are_asked_for_ahead_come_whole_and_in_order(slices, number):
    found = list(_ahead([iter([(i, v) for v in of]) for i, of in enumerate(slices)], number))
    assert [[v for i, v in found if i == of] for of in range(len(slices))] == slices


def test_an_error_of_the_store_is_met_where_its_documents_are_read():
    def hits():
        yield 1
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        list(_ahead([iter([2, 3, 4]), hits()], 1))


@given(st.dictionaries(st.text(max_size=3), st.none() | st.integers()), st.text(max_size=3))
def test_metadata_of_a_sample_is_as_the_dictionary_it_was_made_of(of, key):
    meta = Meta({name: place for place, name in enumerate(of)}, tuple(of.values()))
    assert (dict(meta), len(meta), key in meta, meta.get(key, 7)) == (of, len(of), key in of, of.get(key, 7))


def test_what_a_function_makes_of_a_race_is_made_once():
    race, calls = made("x", "capacity-query"), []
    assert race.once(lambda race: race.id) == "x"
    assert [race.once(calls.append), race.once(calls.append)] == [None, None] and calls == [race]


@pytest.mark.parametrize("later_is_read_first", [True, False])
def test_a_race_is_what_its_first_check_by_time_told(later_is_read_first):
    document, (check, *hits) = documents_of(races.made("x", rounds=2))
    later = check | {"@timestamp": 9, "meta": check["meta"] | {"parameters": json.dumps({"nodes": 7})}}
    checks = [later, check] if later_is_read_first else [check, later]
    assert race_of(document, [*checks, *hits]).parameters["nodes"] == 30


@pytest.mark.parametrize("host", ["https://metrics.example.org", "localhost:9200", "name/path"])
def test_a_host_of_the_store_that_is_none_gets_one_line(tmp_path, host):
    ini = tmp_path / "rally.ini"
    ini.write_text(f"[reporting]\ndatastore.type = elasticsearch\ndatastore.host = {host}\ndatastore.port = 9200\n")
    with pytest.raises(ReportError, match=r"datastore.host is \[.*\], allowed is the name or address of a host alone$"):
        connect(ini)
