import asyncio
import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from esrally import exceptions
from fakes import FakeEs, Refused, Script, rows, track_of, values

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.verdicts import Gate
from cluster_metrics.corpus.answers import field_answers
from cluster_metrics.corpus.encoded import JSON
from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import FIELDS, NAME, Metrics
from cluster_metrics.query._report import query_frontier as explained
from cluster_metrics.query.configurations import BASE, CONFIGURATIONS, LAYOUTS, VARIANTS
from cluster_metrics.query.layouts import BuildLayouts, LayoutsParams, bulk_bodies, rollup_body
from cluster_metrics.query.query_frontier import FrontierCpuParams, FrontierCpuRunner, errors_of
from cluster_metrics.wire import smile
from cluster_metrics.wire.questions import Configuration

NODES = ["N001", "N002"]
CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=1)
MAPPINGS = {"properties": {"epoch": {"type": "integer"}, "node": {"type": "keyword"}}}


def test_the_base_is_the_production_query_sent_as_production_sends_it():
    for name, transport in ((BASE, "serial"), ("msearch", "msearch")):
        assert CONFIGURATIONS[name].requests(NODES, 3) == VARIANTS["D_td"].by(transport).requests(NODES, 3)


def test_what_gives_other_answers_or_takes_another_index_or_another_client_has_a_price():
    for c in CONFIGURATIONS.values():
        other = c.layout or c.probability or c.smile or c.form == "esql" or c.algorithm == "hdr"
        assert bool(other) == (c.price != "none"), c.name


def test_no_two_configurations_ask_the_same():
    asked = [repr(replace(c, name="", text="", price="", reference={})) for c in CONFIGURATIONS.values()]
    assert len(set(asked)) == len(asked)


def test_every_layout_is_used_and_every_used_layout_exists():
    assert {c.layout for c in CONFIGURATIONS.values() if c.layout} == set(LAYOUTS)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_configuration_uses_the_request_cache(name):
    for request in CONFIGURATIONS[name].requests(NODES, 1):
        lines, decode = request.body.splitlines(), json.loads
        if request.content_type == smile.CONTENT_TYPE:
            lines, decode = request.body.split(smile.SEPARATOR)[:-1], smile.decode
        headers = [decode(line) for line in lines[0::2]] if "msearch" in request.path else []
        assert all(h["request_cache"] is False for h in headers)
        assert headers or "request_cache=false" in request.path or request.path == "/_query"  # which has no cache


def aggregations(value):
    return {"cpu_sum": {"value": value}, "cpu_pct": {"values": {"50.0": value}}}


@pytest.mark.parametrize(
    "form, responses",
    [
        ("serial", [{"aggregations": aggregations(1)}, {"aggregations": aggregations(2)}]),
        (
            "terms",
            [
                {
                    "aggregations": {
                        "by_node": {"buckets": [{"key": n, **aggregations(i)} for n, i in (("N002", 2), ("N001", 1))]}
                    }
                }
            ],
        ),
        (
            "filters",
            [{"aggregations": {"by_node": {"buckets": {n: aggregations(i) for n, i in (("N001", 1), ("N002", 2))}}}}],
        ),
        (
            "rollup",
            [
                {
                    "hits": {
                        "hits": [
                            {"_source": {"node": n, "aggregations": aggregations(i)}}
                            for n, i in (("N002", 2), ("N001", 1))
                        ]
                    }
                }
            ],
        ),
    ],
)
def test_answers_are_found_in_every_form(form, responses):
    found = Configuration("x", "", form=form).answers(NODES, responses)
    assert {node: found[node]["cpu_sum"]["value"] for node in NODES} == {"N001": 1, "N002": 2}


def test_sampled_answers_are_found_within_the_sampler():
    response = {"aggregations": {"sample": aggregations(5)}}
    found = Configuration("x", "", probability=0.1).answers(NODES, [response, response])
    assert found["N002"]["cpu_sum"]["value"] == 5


def test_errors_are_relative_and_apart_for_middle_extremes_and_sums():
    exact = {"count": 4, "sum": 200.0, "percentiles": {"0": [10.0], "50": [20.0], "90": [40.0], "100": [80.0]}}
    values = {"0.0": 11.0, "50.0": 20.2, "90.0": 42.0, "100.0": 80.0}
    got = {"cpu_sum": {"value": 198.0}, "cpu_pct": {"values": values}}
    assert errors_of(got, {"cpu": exact}) == (pytest.approx(0.05), pytest.approx(0.1), pytest.approx(0.01))
    low = {"cpu_sum": {"value": 198.0}, "cpu_pct": {"values": {"0.0": 9.0, "50.0": 20.0, "90.0": 38.0, "100.0": 80.0}}}
    assert errors_of(low, {"cpu": exact}) == (pytest.approx(0.05), pytest.approx(0.1), pytest.approx(0.01))
    missing = {"cpu_sum": {"value": 200.0}, "cpu_pct": {"values": values | {"50.0": None}}}
    assert errors_of(missing, {"cpu": exact})[0] == 1.0
    right = {"net_sum": {"value": 200.0}, "net_pct": {"values": {"50.0": 20.0, "90.0": 40.0}}}
    for order in (("cpu", "net"), ("net", "cpu")):
        assert errors_of(got | right, dict.fromkeys(order, exact)) == errors_of(got, {"cpu": exact})


def test_bulk_bodies_hold_every_row_with_its_action(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster_metrics.query.layouts.BULK_ROWS", 10)
    path = CORPUS.generate(0, tmp_path)
    bodies = list(bulk_bodies(JSON.row_bytes(1), str(path)))
    assert [(body.count(b"\n"), rows) for body, rows in bodies] == [(20, 10), (20, 10), (10, 5)]
    lines = b"".join(body for body, _ in bodies).splitlines(keepends=True)
    assert set(lines[0::2]) == {b'{"index":{}}\n'}
    assert b"".join(lines[1::2]) == path.read_bytes()


def test_the_rollup_holds_the_exact_answers(tmp_path):
    path = CORPUS.generate(0, tmp_path)
    documents = [json.loads(line) for line in rollup_body(CORPUS, 1, str(path)).splitlines()[1::2]]
    expected = load_answers(path)
    assert [d["node"] for d in documents] == list(expected)
    for document in documents:
        errors = errors_of(document["aggregations"], expected[document["node"]])
        assert errors == (pytest.approx(0), pytest.approx(0), pytest.approx(0, abs=1e-12))


def test_the_cost_of_the_rollup_is_by_rows_of_all_epochs(tmp_path, monkeypatch):
    seconds = SimpleNamespace(process_time=itertools.count().__next__, perf_counter=itertools.count().__next__)
    monkeypatch.setattr("cluster_metrics.query.layouts.time", seconds)
    track = track_of(replace(CORPUS, epochs=2), root=tmp_path, indices={NAME: {"settings": {}, "mappings": MAPPINGS}})
    params = LayoutsParams(track, {"parameters": values(configurations=["rollup"])}).params()
    es = FakeEs(lambda method, *_: {} if method == "GET" else {"errors": False})
    result = asyncio.run(BuildLayouts()(es, params))
    assert (result["layouts"], result["rollup_cpu_s"], result["rollup_bulk_ms"]) == (1, 2 / 50e-6, 2000)


@pytest.mark.parametrize("answers, success", [([{}], True), ([{"timed_out": True}, {}], False)])
def test_the_cpu_time_of_a_configuration_is_that_of_one_coverage(tmp_path, monkeypatch, answers, success):
    def used(ms):
        node = {"timestamp": 0, "process": {"timestamp": 0, "cpu": {"total_in_millis": ms}}}
        return {"nodes": {"n": node | {"jvm": {"timestamp": 0, "uptime_in_millis": 0}}}}

    monkeypatch.setattr(
        "cluster_metrics.query.query_frontier.time", SimpleNamespace(monotonic=itertools.count().__next__)
    )
    track = track_of(CORPUS, root=tmp_path)
    given = values(configurations=[BASE], frontier_cpu_seconds=5)
    params = FrontierCpuParams(track, {"parameters": given}).params()
    no_esql = Refused(400, "invalid_index_name_exception", "no handler")
    es = FakeEs(Script({"GET /_nodes": [used(100), used(180)], "POST /_query": no_esql, "POST": answers}))
    result = asyncio.run(FrontierCpuRunner()(es, params))
    assert (result["coverages"], result["target_cpu_ms"]) == (4, 20)
    assert result["success"] is success


def test_an_index_is_merged_unless_its_layout_is_that_of_the_load(tmp_path):
    track = track_of(CORPUS, root=tmp_path, indices={NAME: {"settings": {}, "mappings": MAPPINGS}})
    given = values(configurations=["cached", "unmerged"], force_merge_max_num_segments=1)
    es = FakeEs(lambda method, *_: {} if method == "GET" else {"errors": False})
    asyncio.run(BuildLayouts()(es, LayoutsParams(track, {"parameters": given}).params()))
    assert {f"PUT /{NAME}-cached", f"PUT /{NAME}-unmerged"} <= set(es.sent)
    assert [sent for sent in es.sent if "merge?" in sent] == [f"POST /{NAME}-cached/_forcemerge?max_num_segments=1"]


@pytest.mark.parametrize("path, done", [("_refresh", "refreshed"), ("_forcemerge", "merged")])
def test_an_index_of_which_a_shard_was_not_merged_or_refreshed_ends_the_race(tmp_path, path, done):
    track = track_of(CORPUS, root=tmp_path, indices={NAME: {"settings": {}, "mappings": MAPPINGS}})
    given = values(configurations=["cached"], force_merge_max_num_segments=1)
    failed = {"_shards": {"total": 2, "successful": 1, "failed": 1}}
    es = FakeEs(lambda method, of, _: failed if path in of else {} if method == "GET" else {"errors": False})
    said = rf"^index \[{NAME}-cached\]: 1 of its shards were not {done}$"
    with pytest.raises(exceptions.RallyAssertionError, match=said):
        asyncio.run(BuildLayouts()(es, LayoutsParams(track, {"parameters": given}).params()))


def test_esql_answers_are_found_by_the_names_of_their_columns():
    query = json.loads(CONFIGURATIONS["esql"].requests(NODES, 3)[0].body)["query"]
    assert "WHERE epoch == 3 | STATS cpu_p0 = PERCENTILE(cpu, 0)" in query and query.endswith("BY node | LIMIT 2")
    names = [f"{f}_{what}" for f in FIELDS for what in ("sum", "p0", "p50", "p90", "p100")]
    columns = [{"name": name} for name in ["node", *names]]
    values = [["N002", *range(15)], ["N001", *range(100, 115)]]
    found = CONFIGURATIONS["esql"].answers(NODES, [{"columns": columns, "values": values}])
    assert found["N002"]["mem_sum"] == {"value": 5}
    assert found["N001"]["cpu_pct"] == {"values": {"0": 101, "50": 102, "90": 103, "100": 104}}


def test_what_the_target_lacks_is_said_in_one_line():
    made = race(**FIGURES)
    made.samples.append(Sample("frontier", 1, "frontier", 1.0, {"round": 1, "left_out": "esql: no ES|QL"}))
    assert explained.sections(made)[0].text.endswith(" Left out: esql: no ES|QL.\n")


def race(rounds=20, **figures):
    """A race of some rounds with these wall times and errors; all rounds alike."""
    samples = []
    for name, (wall, error) in figures.items():
        for r in range(rounds):
            meta = {"round": r, "wall_ms": wall, "took_ms": wall, "percentile_error": error, "sum_error": 0.0}
            samples.append(Sample("frontier-coverage", r, name.replace("_", "-"), wall, meta | {"extreme_error": 0.0}))
    return Race({"race-id": "x", "challenge": "query-frontier"}, samples, {})


FIGURES = {"production": (400.0, 0.004), "hdr_1": (100.0, 0.05), "hdr_3": (200.0, 0.0004), "hdr_5": (300.0, 0.001)}


def test_a_node_without_rows_has_no_error():
    assert errors_of({}, {"cpu": field_answers([])}) == (0, 0, 0)


def test_front_has_what_nothing_beats_in_both():
    assert [p.name for p in explained.front(explained.points(race(**FIGURES)))] == ["hdr-1", "hdr-3"]


def test_the_report_says_how_far_to_trust_it_and_draws_production_beside_the_advice():
    section = explained.sections(race(**FIGURES))[-1]
    assert section.title == "How far to trust this" and section.text.startswith("- No warnings.")
    drawing = str(section.figures[0].spec)
    assert "production" in drawing and "hdr-3" in drawing and "hdr-1" not in drawing


@pytest.mark.parametrize("bound, name, gain", [(0.1, "hdr-1", "4.00 ×"), (0.01, "hdr-3", "2.00 ×")])
def test_advice_is_the_fastest_within_the_bound(bound, name, gain):
    text = explained.advice(explained.points(race(**FIGURES)), bound, Gate())
    assert f"take **{name}**" in text
    assert gain in text
    few = explained.points(race(rounds=19, **FIGURES))
    assert explained.advice(few, bound, Gate()) == "19 rounds are too few to advise a way, it takes 20."


def test_what_ties_is_told_by_the_ratio_within_rounds():
    """Rounds of 3 % that both share make intervals overlap; the ratio to the fastest is steady."""
    shared = np.random.default_rng(1).lognormal(0, 0.03, 20)
    apart = np.random.default_rng(2).lognormal(0, 0.03, 20)
    made = race(production=(400.0, 0.004), fast=(100.0, 0.0), slower=(103.0, 0.0), same=(100.5, 0.0))
    for sample in made.samples:
        noise = apart if sample.cell == "same" else np.where(sample.cell == "production", apart, 1.0) * shared
        sample.meta["wall_ms"] *= float(noise[sample.meta["round"]])
    found = explained.points(made)
    assert found[0].name in ("fast", "same")
    tied = explained.ties(found, Gate())
    assert "slower" not in explained.ties([p for p in found if p.name != "same"], Gate())
    assert tied and "production" not in tied
    apart = race(production=(400.0, 0.004), hdr_1=(100.0, 0.0), hdr_2=(100.5, 0.0))
    for sample in apart.samples:
        sample.meta["round"] += 20 * (sample.cell == "hdr-2")
    assert explained.ties([p for p in explained.points(apart) if p.name != BASE], Gate()) == []


def test_choosing_the_fastest_is_named_with_what_it_overstates():
    text = explained.advice(explained.points(race(**FIGURES)), 0.1, Gate())
    said = "It is the fastest of 3 that are shown to be faster: choosing it for that overstates its gain by 0.0 % on"
    assert said in text
    assert "Ties with it" not in text
    assert "It is the fastest" not in explained.advice(explained.points(race(**FIGURES))[:1], 0.1, Gate())
    tied = explained.points(race(production=(400.0, 0.004), hdr_1=(100.0, 0.05), hdr_2=(100.0, 0.01)))
    assert " Ties with it, by the ratio within rounds: hdr-2. It" in explained.advice(tied, 0.1, Gate())


def test_the_fastest_of_those_that_are_shown_to_be_faster_is_not_called_the_fastest_of_all():
    made = race(production=(400.0, 0.004), hdr_1=(100.0, 0.0), hdr_2=(160.0, 0.0))
    for sample in made.samples:
        if sample.cell == "hdr-1" and sample.meta["round"] % 5 > 2:
            sample.meta["wall_ms"] = 1000.0
    found = explained.points(made)
    assert found[0].name == "hdr-1" and found[0].speedup.low < 1
    text = explained.advice(found, 0.1, Gate())
    assert "take **hdr-2**" in text and "It is the fastest" not in text
    assert text.endswith(" Ties with it, by the ratio within rounds: hdr-1.")


def test_advice_when_nothing_is_good_enough_or_faster():
    found = explained.points(race(**FIGURES))
    assert "No configuration" in explained.advice(found, 1e-6, Gate())
    slower = explained.points(race(production=(100.0, 0.001), hdr_3=(200.0, 0.0004)))
    assert "nothing is shown to be faster" in explained.advice(slower, 0.01, Gate())
    hardly = explained.points(race(production=(400.0, 0.004), hdr_3=(398.0, 0.0004)))
    assert "nothing is shown to be faster" in explained.advice(hardly, 0.01, Gate())


def test_requests_that_failed_are_counted_without_the_rounds_that_failed_for_one_of_them():
    made = replace(race(**FIGURES), failed={"msearch": 3, "query-frontier": 1}, rounds_failed=1)
    assert dict(answer_of(made).lines())["errors measured"].endswith("; 3 requests failed")


def test_a_configuration_that_lost_its_rounds_hides_no_other():
    made = race(**FIGURES)
    lost = [s for s in made.samples if s.cell == "hdr-1" and s.meta["round"] >= 5]
    made.samples[:] = [s for s in made.samples if s not in lost]
    text = explained.advice(explained.points(made), 0.1, Gate())
    assert "take **hdr-3**" in text and "Ties with it" not in text, "of 5 rounds nothing is said"
    told = {finding.name: finding.text for finding in explained.answer(replace(made, parameters={"max_error": 10}))}
    assert told["recommended"].startswith("hdr-3: ")


@pytest.mark.parametrize(
    "permille, recommended",
    [
        (100, "hdr-1: 4.00 × [4.00, 4.00] as fast at an error of 5 %; trade-off: no negative values"),
        (10, "hdr-3: 2.00 × [2.00, 2.00] as fast at an error of 0.04 %; trade-off: no negative values"),
        (0, "nothing: no configuration keeps the error within 0.0 %"),
    ],
)
def test_the_answer_recommends_the_fastest_within_the_error(permille, recommended):
    made = replace(race(**FIGURES), parameters={"max_error_permille": permille})
    lines = dict(answer_of(made).lines())
    assert lines["recommended"] == recommended
    assert lines["production"] == "400 ms [400, 400] a coverage; p50 and p90 off by at most 0.4 %"
    assert lines["not beaten"] == "hdr-1, hdr-3, of 4 configurations that answer any question, by time and error"


def test_every_configuration_is_a_change_held_against_production():
    gains = {gain.change.text: gain for gain in explained.changes(race(**FIGURES))}
    assert gains.keys() == {"HDR, 1 digits", "HDR, 3 digits", "HDR, 5 digits"}
    one = gains["HDR, 1 digits"]
    assert (one.times.value, one.against, one.change.kinds) == (4.0, BASE, ("query",))
    assert (one.costs["error_before"], one.costs["error"]) == (0.004, 0.05) and "bytes" not in one.costs
    assert list(explained.changes(race(hdr_1=(100.0, 0.05)))) == []


def test_the_cpu_time_of_a_change_is_told_by_that_of_production():
    made = race(**FIGURES)
    for name, cpu_ms in ((BASE, 200.0), ("hdr-1", 50.0)):
        meta = {"configuration": name, "coverages": 3, "target_cpu_ms": cpu_ms}
        made.samples.append(Sample("frontier-cpu", 30, "frontier-cpu", 1.0, meta))
    costs = {gain.change.text: gain.costs["target_cpu"] for gain in explained.changes(made)}
    assert costs["HDR, 1 digits"] == 0.25 and np.isnan(costs["HDR, 3 digits"])


def recommended(made):
    return dict(answer_of(made).lines())["recommended"]


@pytest.mark.parametrize(
    "key, round_off, name",
    [("sum_error", 0.02, "hdr-3"), ("percentile_error", 0.02, "hdr-3"), ("extreme_error", 0.02, "hdr-2")],
)
def test_percentiles_and_sums_of_every_round_keep_to_the_error_and_extremes_need_not(key, round_off, name):
    made = race(production=(400.0, 0.004), hdr_2=(100.0, 0.005), hdr_3=(200.0, 0.0004))
    for sample in made.samples:
        if (sample.cell, sample.meta["round"]) == ("hdr-2", 13):
            sample.meta[key] = round_off
    assert recommended(made).startswith(f"{name}: ")
    assert f"take **{name}**" in explained.sections(made)[0].text
    row = rows(explained.sections(made), "configurations")["hdr-2 ◆"]
    assert row[key.replace("percentile_error", "error")] == round_off


def test_an_error_as_great_as_the_bound_keeps_to_it():
    made = race(production=(400.0, 0.004), hdr_2=(100.0, 0.01))
    assert recommended(made).startswith("hdr-2: ")
    assert recommended(replace(made, parameters={"max_error_permille": 9})).startswith("nothing: no gain is shown")


def test_answers_made_at_ingest_and_from_a_filled_cache_are_told_and_not_recommended():
    made = race(
        production=(400.0, 0.004),
        cached=(50.0, 0.004),
        rollup=(10.0, 0.0),
        msearch=(100.0, 0.004),
        hdr_3=(200.0, 0.001),
    )
    lines = dict(answer_of(made).lines())
    assert lines["recommended"].startswith("msearch: 4.00 × [4.00, 4.00] as fast")
    assert lines["not beaten"] == "msearch, hdr-3, of 3 configurations that answer any question, by time and error"
    assert lines["limit: rollup"] == "40.0 × [40.0, 40.0], exact, but fixed at ingest"
    which, _, front, cached, *_ = explained.sections(made)
    assert "take **msearch**" in which.text and "It is the fastest of 2 that are shown" in which.text
    assert "The limit is a rollup: 40.0 × [40.0, 40.0], exact, but fixed at ingest." in which.text
    assert list(rows([front], "front")) == ["msearch", "hdr-3"]
    (row,) = rows([cached], "cached").values()
    assert (row["off_ms"].value, row["on_ms"].value, row["saved_ms"].value) == (400, 50, 350)
    assert row["speedup"].value == pytest.approx(8)


def test_of_ways_that_are_as_wrong_the_fastest_is_on_the_front_and_of_ways_as_fast_the_most_accurate():
    made = race(production=(400.0, 0.004), hdr_1=(100.0, 0.01), hdr_2=(200.0, 0.01), hdr_3=(100.0, 0.02))
    assert [p.name for p in explained.front(explained.points(made))] == ["hdr-1", BASE]


def test_a_gain_takes_the_whole_interval():
    """In half of the rounds it is three times as fast, in the others half as fast."""
    made = race(production=(400.0, 0.004), hdr_3=(200.0, 0.001))
    for sample in made.samples:
        if sample.cell == "hdr-3":
            sample.meta["wall_ms"] = 133.0 if sample.meta["round"] % 2 else 800.0
    assert recommended(made) == "nothing: no gain is shown beyond noise"
    assert "nothing is shown to be faster" in explained.sections(made)[0].text
