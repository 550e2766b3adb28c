"""What bare loops explain of a race's costs: exact where all is known, and named where they do not fit the race."""

import copy
import gzip
import json
import math
import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from fakes import rows
from races import MACHINE, TARGET
from stores import recorded

from _tools.microbenchmarks import explain, micro
from _tools.microbenchmarks.explain import Found, explained, less, quotient, total
from _tools.microbenchmarks.results import MOST_FORKS, Result, read, table, units
from _tools.race.variables import Exit, RaceError
from _tools.report.costs import BreakEven, Loop
from _tools.report.race import IncompleteError, Race, Sample, race_of
from _tools.report.stats import Estimate
from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.esql._report.esql_stored_fields import loading
from cluster_metrics.esql.esql_stored_fields import PROFILED, QUERY
from cluster_metrics.query._report.attribution import TERMS, WHOLE
from cluster_metrics.query._report.costs import FILTER, HDR_LOOPS, SUMS, TDIGEST, aggregator
from cluster_metrics.query.configurations import FITTED, VARIANTS

COSTS = dict(zip([term.name for term in TERMS], [60.0, 40.0, 9.0, 25.0, 70.0, 75.0, 150.0, 0.0, 0.0]))
HDR_MS = 90.0
SIZES = {"nodes": 30, "tasks": 200, "rows_per_epoch": 1_000_000, "epochs": 5, "seed": 42}
ALL = list(dict.fromkeys([FILTER, *SUMS, *TDIGEST, *HDR_LOOPS, *aggregator("sums+tdigest"), *aggregator("sums+hdr")]))
ABOUT = {
    "started": "2026-01-01T00:10:00+00:00",
    "ended": "2026-01-01T00:30:00+00:00",
    "versions": {"elasticsearch": "8.17.2", "lucene": "9.12.0", "jmh": "1.37"},
    "machine": MACHINE | {"load": 1.5},
    "input": SIZES,
}
NS = {"FilterBenchmark": 20.0, "DocValuesBenchmark": 4.0, "SumBenchmark": 1.0, "TDigestBenchmark": 60.0}
NS |= {"HdrBenchmark": 15.0, "AggregatorBenchmark": 400.0}


def race(rounds=40, spread=0.001, **changes):
    """A race of query-decomp that costs the sum of its terms; a coverage reads a million documents."""
    rng = np.random.default_rng(1)
    at = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp() * 1000
    samples = []
    costs = {c.name: sum(ms * term.times(c) for term, ms in zip(TERMS, COSTS.values())) for c in (WHOLE, *FITTED)}
    visit = COSTS["start of the searches"] + COSTS["filter and visit of the documents"]
    costs[VARIANTS["C_hdr"].by("serial").name] = visit + HDR_MS
    costs[VARIANTS["D_hdr"].by("serial").name] = visit + HDR_MS + 3 * COSTS["sum"]
    for r in range(rounds):
        for name, ms in costs.items():
            wall = ms * float(np.exp(spread * rng.standard_normal()))
            samples.append(Sample("coverage", int(at), name, wall, {"round": r, "wall_ms": wall}))
    document = {"race-id": "r", "race-timestamp": "20260101T000000Z", "challenge": "query-decomp", "results": {"a": 1}}
    values = {
        "parameters": SIZES | {"rounds": rounds},
        "target": [TARGET],
        "machine": MACHINE,
        "index": {"segments": 1},
        "local": True,
    }
    return Race(document, samples, {}, **values | changes)


def result(loop, ns=None, spread=0.01, forks=6, **about):
    """A result whose forks lie within ``spread`` around a number of ns."""
    ns = NS[loop.benchmark.partition(".")[0]] if ns is None else ns
    each = ns * (1 + spread * np.linspace(-1, 1, forks))
    return Result(loop, each, 0.0, math.nan, math.nan, ABOUT | about)


def made(left_out=(), **about):
    return [result(loop, **about) for loop in ALL if loop not in left_out]


def test_loops_are_summed_and_what_is_left_is_the_rest_of_the_cost():
    sections = explained(race(), made())
    found = rows(sections, "explained")
    filtered, net = found["filter and visit of the documents, a document"], found["percentiles of net, a document"]
    assert filtered["race_ns"].value == pytest.approx(40, rel=0.01) and filtered["bare_ns"].value == pytest.approx(20)
    assert (
        filtered["share"].value == pytest.approx(0.5, rel=0.01) and filtered["share"].low < 0.5 < filtered["share"].high
    )
    assert net["bare_ns"].value == pytest.approx(64) and net["left_ns"].value == pytest.approx(86, rel=0.01)
    whole = found["production query, a document"]
    assert whole["bare_ns"].value == pytest.approx(20 + 3 * 5 + 3 * 64)
    assert whole["race_ns"].value == pytest.approx(40 + 75 + 295, rel=0.01)
    assert found["3 percentiles by HDR, a document"]["bare_ns"].value == pytest.approx(3 * 19)
    assert found["3 percentiles by HDR, a document"]["race_ns"].value == pytest.approx(HDR_MS, rel=0.01)
    assert found["production query, with the aggregators, a document"]["bare_ns"].value == pytest.approx(400)


def drawn(spec):
    """The rows of a chart."""
    of = [spec, *spec.get("layer", [])]
    return next(part["data"]["values"] for part in of if "values" in part.get("data", {}))


def test_the_bar_adds_up_to_the_whole():
    bar, _ = explained(race(), made())[0].figures
    parts = {row["name"].replace("\n", " "): row for row in drawn(bar.spec)}
    *loops, whole = parts.values()
    assert sum(row["value"] for row in loops) == pytest.approx(whole["value"], rel=1e-6)
    assert {"Filter", "DocValues", "Sum", "TDigest"} < set(parts)


def test_an_error_wider_than_5_percent_is_flagged_and_not_quoted():
    wide = next(loop for loop in TDIGEST if loop.benchmark.startswith("TDigest"))
    results = [result(loop, spread=0.2 if loop == wide else 0.01) for loop in ALL]
    sections = explained(race(), results)
    assert f"{wide} is not quoted: its error is" in sections[0].text
    found = rows(sections, "explained")
    assert (
        "bare_ns" not in found["percentiles of cpu, a document"]
        and "bare_ns" in found["percentiles of mem, a document"]
    )
    flagged = rows(sections, "loops")[str(wide)]
    assert flagged["flag"] == "too wide" and "each_ns" not in flagged
    [few] = [r for r in [result(FILTER, forks=2)] if not r.quotable]
    assert few.row()["flag"] == "too few"


@pytest.mark.parametrize("spread, known", [(0.01, True), (0.03, False), (0.08, False)])
def test_what_is_too_wide_to_be_quoted_is_not_known_well_before_it_has_most_forks(spread, known):
    of = result(FILTER, spread=spread)
    assert of.quotable == of.known_well(MOST_FORKS) == known and of.known_well(len(of.each))


def test_a_missing_benchmark_is_one_line_that_says_how_to_measure_it():
    sections = explained(race(), made(left_out=[FILTER]))
    line = f"no result of {FILTER}; 'make micro BENCH=FilterBenchmark' measures it"
    assert sections[0].text.count(line) == 1
    assert rows(sections, "loops")[str(FILTER)]["flag"] == "missing"
    assert "bare_ns" not in rows(sections, "explained")["production query, a document"]


@pytest.mark.parametrize(
    "about, said",
    [
        ({"versions": {"elasticsearch": "8.16.0"}}, "Elasticsearch 8.16.0, the race 8.17.2"),
        (
            {"machine": MACHINE | {"cpu": "D", "kernel": "7", "virtualisation": "x"}},
            f"another machine: cpu D, the race C, kernel 7, the race {MACHINE.get('kernel')}, "
            f"virtualisation x, the race {MACHINE.get('virtualisation')}",
        ),
        ({"input": SIZES | {"rows_per_epoch": 1000}}, "rows_per_epoch 1000, the race 1000000"),
        ({"started": "2026-01-01T03:00:00+00:00", "ended": "2026-01-01T03:10:00+00:00"}, "3.0 hours apart"),
        ({"started": "2025-12-31T20:00:00+00:00", "ended": "2025-12-31T22:00:00+00:00"}, "2.0 hours apart"),
        ({"arguments": ["-wi", "0", "-f", "12", "-p", "compression=100", "--only=orjson"]}, "with ARGS -wi 0"),
    ],
)
def test_results_unlike_the_race_are_named_so(about, said):
    text = explained(race(), made(**about))[0].text
    assert f"measured unlike the race ({said}): {len(ALL)} of {len(ALL)} loops" in text


def test_results_that_are_like_the_race_or_cannot_be_told_to_be_are_named_so():
    assert "unlike" not in explained(race(), made())[0].text
    assert "(on a machine that the race did not record)" in explained(race(machine={}), made())[0].text
    for local, where in ((False, "on another"), (None, "on one that is not recorded")):
        said = f"on the load driver's machine, the race's target {where}"
        assert f"measured unlike the race ({said})" in explained(race(local=local), made())[0].text


def test_a_race_that_lasts_until_its_loops_are_measured_is_no_hours_apart_from_them():
    of = race()
    last = replace(of.samples[-1], at=of.samples[-1].at + 3_600_000)
    for samples, apart in ((of.samples, True), ([*of.samples, last], False)):
        later = made(started="2026-01-01T01:30:00+00:00", ended="2026-01-01T01:40:00+00:00")
        assert ("1.5 hours apart" in explained(replace(of, samples=samples), later)[0].text) is apart


def test_of_several_results_that_most_like_the_race_is_taken():
    other = [result(loop, 1.0, started="2026-01-01T00:40:00+00:00", machine=MACHINE | {"cpu": "D"}) for loop in ALL]
    later = result(FILTER, 30.0, started="2026-01-01T00:20:00+00:00")
    tried = [result(loop, 2.0, started="2026-01-01T00:30:00+00:00", arguments=["-i", "1"]) for loop in ALL]
    found = rows(explained(race(), [*made(), later, *other, *tried]), "loops")
    assert found[str(FILTER)]["each_ns"].value == pytest.approx(30)
    assert found[str(TDIGEST[0])]["each_ns"].value == pytest.approx(4)


def test_races_that_cannot_be_explained_are_refused_with_one_line():
    with pytest.raises(RaceError, match=r"^race \[r\] lacks the configurations by which costs are told apart"):
        explained(race(rounds=0), made())
    document = race().document | {"challenge": "sketch-floor"}
    with pytest.raises(
        RaceError, match=r"^race \[r\] is of sketch-floor, whose costs are not held against bare loops$"
    ):
        explained(Race(document, [], {}), made())


def test_segments_and_test_mode_are_named():
    text = explained(race(index={"segments": 7}, parameters=SIZES | {"test_mode": True}), made())[0].text
    assert "the index has 7 segments" in text and "none of its figures means anything" in text
    assert "the index has 2 segments" in explained(race(index={"segments": 2}), made())[0].text
    assert "segments" not in explained(race(index={}), made())[0].text


def estimate(value, half):
    return Estimate(6, value, value - half, value + half, math.nan)


def test_intervals_of_sums_differences_and_quotients_combine_as_independent_ones():
    a, b = estimate(100.0, 3.0), estimate(60.0, 4.0)
    assert (s := total([a, b])).value == 160 and (s.low, s.high) == (155, 165)
    assert total([a, replace(b, n=4)]).n == less(a, replace(b, n=4)).n == 4
    assert (d := less(a, b)).value == 40 and (d.low, d.high) == (35, 45)
    uneven = less(replace(a, low=a.value - 5, high=a.value + 12), replace(b, low=b.value - 9, high=b.value + 12))
    assert (uneven.value, uneven.low, uneven.high) == (40, 40 - 13, 40 + 15)
    q = quotient(b, a)
    rng = np.random.default_rng(0)
    drawn = rng.normal(60, 4 / 1.96, 100_000) / rng.normal(100, 3 / 1.96, 100_000)
    assert (q.low, q.high) == pytest.approx(tuple(np.percentile(drawn, (2.5, 97.5))), rel=0.01)
    assert not quotient(b, estimate(1.0, 2.0)).known


def stored_fields_race():
    """Reading in sequence costs 1000 ns a document of the index, by random access 50,000 a document read: they are
    equal at 2 %."""
    at = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp() * 1000
    rng, samples = np.random.default_rng(1), []
    for r in range(20):
        for share in (1000, 100, 50, 20, 10, 5):
            for setting, ms in (("0.0", 100.0), ("1.0", 5000 * share / 1000), ("as is", 100.0)):
                wall = ms * float(np.exp(0.01 * rng.standard_normal()))
                sequential = setting != "1.0"
                meta = {"round": r, "setting": setting, "share_permille": share, "wall_ms": wall, "took_ms": wall}
                meta |= {"documents": 100 * share, "chars": 900 * share, "process_ms": wall}
                meta |= {"pages_sequential": int(sequential), "pages_other": int(not sequential)}
                samples += [Sample(kind, int(at), "q", wall, meta) for kind in (QUERY, PROFILED)]
    return samples


def test_bare_reading_of_stored_fields_gives_a_break_even_point_beside_that_of_the_race():
    values = {"text_form": "value", "text_distinct_values": 1000, "text_order": "even", "seed": 42}
    document = race().document | {"challenge": "esql-stored-fields"}
    of = Race(document, stored_fields_race(), {}, values, [TARGET], {"segments": 3}, machine=MACHINE)
    results = []
    for share in (1000, 100, 50, 20, 10, 5):
        results.append(result(loading("sequential", share, "value"), 700_000 / share, input=values))
        results.append(result(loading("random", share, "value"), 30_000, input=values))
    sections = explained(of, results)
    assert "segments" not in sections[0].text  # times of all threads together
    found = rows(sections, "explained")
    assert found["loading 5.0 %, random, a document"]["share"].value == pytest.approx(0.6, rel=0.02)
    assert found["loading 5.0 %, sequential, a document"]["share"].value == pytest.approx(0.7, rel=0.02)
    assert sections[0].blocks[0].startswith("- **loading 0.5 %, sequential:**"), "of no whole the greatest part"
    unlike = [replace(r, about=r.about | {"input": values | {"text_order": "random", "seed": 7}}) for r in results]
    assert "; text_order random, the race even; seed 7, the race 42)" in explained(of, unlike)[0].text
    [point] = [s for s in sections if s.title == "Break-even point"]
    assert "In the race: 2.0 %" in point.text and "By bare loops: 2.3 %" in point.text and "over 6 forks" in point.text


@pytest.mark.parametrize("spread, narrow", [(0.01, True), (0.2, False)])
def test_how_well_a_break_even_point_is_known_follows_from_the_forks(spread, narrow):
    rng, shares = np.random.default_rng(1), (5, 10, 20, 50, 100)
    one = BreakEven("x", Estimate(20, 0.02, 0.01, 0.03, 0.2), {n / 1000: pair(n) for n in shares})
    results = [
        replace(result(loop, ns), each=ns * (1 + spread * rng.standard_normal(6)))
        for n in shares
        for loop, ns in zip(pair(n), (700_000 / n, 30_000))
    ]
    text = explain._break_even(one, Found.of(race(), results)).text
    low, high = (float(x) for x in re.search(r"By bare loops: \S+ % \[(\S+) %, (\S+) %\]", text).groups())
    assert low <= round(100 * 700 / 30_000, 1) <= high and (high - low < 0.2) is narrow
    assert text.endswith("The intervals overlap.\n")
    for low, high in ((0.05, 0.06), (0.001, 0.002), (float("nan"), float("nan"))):
        apart = replace(one, seen=Estimate(20, 0.02, low, high, 0.2))
        text = explain._break_even(apart, Found.of(race(), results)).text
        assert text.endswith("The intervals do not overlap, or one is not known.\n")


def test_a_break_even_point_of_loops_with_unlike_numbers_of_forks_takes_those_that_all_have():
    one = BreakEven("x", Estimate(20, 0.02, 0.01, 0.03, 0.2), {n / 1000: pair(n) for n in (5, 50)})
    made = [result(loop, ns) for n in (5, 50) for loop, ns in zip(pair(n), (700_000 / n, 30_000))]
    more = result(made[0].loop, 140_000, forks=9)
    text = explain._break_even(one, Found.of(race(rounds=1), [more, *made[1:]])).text
    assert "By bare loops: 2.3 %" in text and "over 6 forks" in text


def pair(permille):
    return loading("sequential", permille, "value"), loading("random", permille, "value")


def test_a_loop_that_is_counted_twice_is_as_uncertain_twice_over():
    one = result(FILTER).estimate
    twice = explain.summed([result(FILTER), result(FILTER)])
    assert twice.value == 2 * one.value and twice.high - twice.low == pytest.approx(2 * (one.high - one.low))


def test_the_answer_stands_first():
    first, *_ = explained(race(), made())[0].blocks
    assert first.startswith("- **production query:** bare loops explain 55.") and "of 410 ns a document" in first
    wide = [result(loop, spread=0.5) for loop in ALL]
    assert explained(race(), wide)[0].blocks[0].startswith("- **production query:** not shown, as not all of its loops")


def test_units_are_what_an_operation_handles():
    assert units(Loop("SumBenchmark.coverage", {"documents": "0"}), SIZES) == 1_000_000
    assert units(Loop("SumBenchmark.coverage", {"documents": "10"}), SIZES) == 300
    sizes = {"text_documents": 100_000, "text_distinct_values": 1000, "bulk_rows": 1000}
    assert units(loading("random", 20, "value"), sizes) == 2000
    assert units(Loop("BulkParsingBenchmark.rows", {"encoding": "json"}), sizes) == 1000


@pytest.fixture
def recorded_results(tmp_path):
    """Files that ``make micro`` wrote in test mode, one of JMH and one of pyperf."""
    paths = []
    for name in ("micro-server", "micro-client"):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_bytes(gzip.decompress(Path(__file__).with_name(f"{name}.json.gz").read_bytes()))
    return paths


def test_recorded_results_are_read_and_explain_a_recorded_race(recorded_results, tmp_path, capsys):
    results = read(*recorded_results)
    assert sorted(map(str, read(*reversed(recorded_results)))) == sorted(map(str, results))
    assert set(ALL) < {r.loop for r in results}
    assert all(r.each.min() > 0 and len(r.each) == 3 for r in results)
    assert len(table(results).rows) == len(results)
    of = race_of(*copy.deepcopy(recorded("ingest-decomp")))
    client = [r for r in results if r.loop.benchmark.startswith(("encode", "decode"))]
    tight = [Result(r.loop, r.each[:1].repeat(6), 0, r.allocated, r.size, r.about) for r in client]
    path = explain.write(of, tight, tmp_path)
    record = json.loads((path.parent / "explain.json").read_text())
    [found] = [t for t in record["sections"][0]["tables"] if t["key"] == "explained"]
    names = [row["cost"] for row in found["rows"]]
    assert names[:3] == ["encoding, naive, a row", "parsing, naive, a row", "encoding, orjson, a row"]
    assert all(row["bare_ns"]["value"] > 0 and row["loops"] == 1 for row in found["rows"])
    assert "hours apart" in capsys.readouterr().out and "What bare loops explain" in path.read_text()


def test_an_incomplete_race_is_explained_and_named_so(recorded_results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(micro, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(micro, "FOLDER", tmp_path / "none")
    with pytest.raises(RaceError, match=r"no results of micro-benchmarks in \[.*none\]; 'make micro' measures"):
        micro.explain_race(race())
    monkeypatch.setattr(micro, "FOLDER", tmp_path)
    assert micro.explain_race(race()) == Exit.DONE
    assert micro.explain_race(replace(race(), faults=["Something is missing."])) == Exit.INCOMPLETE
    assert "INCOMPLETE: Something is missing." in capsys.readouterr().out
    broken = [replace(sample, meta={"round": sample.meta["round"]}) for sample in race().samples]
    with pytest.raises(IncompleteError, match=r"^INCOMPLETE: nothing can be explained: the samples do not go together"):
        micro.explain_race(replace(race(), samples=broken))


def test_a_file_that_holds_no_results_is_refused_with_one_line(tmp_path):
    path = tmp_path / "x.json"
    none = {"benchmark": "StoredFieldsBenchmark.load", "params": {"permille": "5"}}  # of 100 texts: no document
    of_none = json.dumps({"about": {"input": {"text_documents": 1000, "text_distinct_values": 100}}, "results": [none]})
    for content in ("{", "[]", '{"about": {}, "results": [{}]}', '{"results": []}', of_none):
        path.write_text(content)
        with pytest.raises(
            RaceError, match=r"x\.json\] holds no results of 'make micro' \(.*\); remove it, or measure again$"
        ):
            read(path)


def test_fields_are_those_of_the_corpus():
    assert {loop.parameters["field"] for loop in [*SUMS, *TDIGEST, *HDR_LOOPS]} == set(FIELDS)
