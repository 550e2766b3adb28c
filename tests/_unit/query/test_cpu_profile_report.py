"""The report of cpu-profile, on a race that is made of known costs and written as make writes it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fakes import rows, table
from races import made
from scipy import stats

from _tools.report import cpu, sampled
from _tools.report.answer import answer_of
from _tools.report.race import Sample
from _tools.report.stacks import write_stacks
from _tools.report.stats import Estimate
from _tools.report.text import percent
from cluster_metrics.query._report import cpu_profile as explained
from cluster_metrics.query._report import three_ways
from cluster_metrics.query.cpu_profile import PLAIN, SAMPLED
from cluster_metrics.query.profile_tree import AGGREGATION_PARTS, PARTS
from cluster_metrics.query.query_profile import COVERAGE, ON

AGG = "org.elasticsearch.search.aggregations.metrics"
THREAD = "elasticsearch[target-1][search_worker][T#1]"
SEARCH = f"{THREAD};org.elasticsearch.search.internal.ContextIndexSearcher.search"
FILTER = f"{SEARCH};org.apache.lucene.search.ConjunctionDISI.doNext"
SUM = f"{SEARCH};{AGG}.SumAggregator$1.collect"
DIGEST = f"{SEARCH};{AGG}.TDigestState.add;org.elasticsearch.tdigest.MergingDigest.add"
HDR = f"{SEARCH};{AGG}.AbstractHDRPercentilesAggregator$1.collect;org.HdrHistogram.DoubleHistogram.recordValue"
COMPILER = "C2 CompilerThre;libjvm.so.Compile::Optimize"
STACKS = [FILTER, SUM, DIGEST, HDR, COMPILER]
COSTS = {
    "A-serial": {FILTER: 10},
    "B-serial": {FILTER: 10, SUM: 20},
    "D_hdr-serial": {FILTER: 10, SUM: 20, HDR: 30},
    "D_td-serial": {FILTER: 10, SUM: 20, DIGEST: 90},
}
"""Mean numbers of samples, 4 ms each, of a coverage by its stacks."""
TICK_MS, SLOWED = 4.0, 1.1


def raced(folder, rounds=40, costs=COSTS, not_sampled=(), seed=1):
    """A race of these costs whose samples are in a folder; with the sampler a coverage takes 1.1 times as long."""
    rng, now, samples = np.random.default_rng(seed), 1_800_000_000.0, []
    lines = [f"S {i} {stack}" for i, stack in enumerate(STACKS)]
    for r in range(1, rounds + 1):
        about = {"round": r, "segments": 1, "recordings": [str(folder / f"target-1-{r:05}.jfr")]}
        if r in not_sampled:
            about = {
                "round": r,
                "segments": 1,
                "not_sampled": "node target-1, process 7, has ended or was started anew",
            }
        samples.append(Sample("cpu-profile", int(1000 * now), "cpu-profile", 1.0, about))
        for name, levels in costs.items():
            found = {stack: rng.poisson(level) for stack, level in levels.items()}
            ms = TICK_MS * sum(found.values())
            for kind in (PLAIN, SAMPLED):
                wall = ms * SLOWED if kind == SAMPLED else ms
                if kind == SAMPLED and r in not_sampled:
                    continue
                meta = {"round": r, "started_s": now, "wall_ms": wall, "took_ms": wall, "target_cpu_ms": wall}
                meta["window_ms"] = wall + 50
                meta |= {"segments": 1, "searches": 30}
                samples.append(Sample(kind, int(1000 * now), name, wall, meta))
                at = now + 0.049  # the last ones after the last byte of the response
                for stack, number in found.items() if kind == SAMPLED else ():
                    for _ in range(number):
                        lines.append(f"E {int(at * 1e9) + 1000} {STACKS.index(stack)}")
                        at += TICK_MS / 1000
                now += wall / 1000 + 0.1
    write_stacks(folder, "\n".join(lines) + "\n")
    (folder / "d3.min.js").write_text("")
    sampled._read.cache_clear()
    race = made("cpu", document={"challenge": "cpu-profile"}, parameters={"rounds": rounds})
    race.samples[:] = samples
    return race


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    return raced(tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def sections(race):
    return explained.sections(race)


def test_a_round_whose_recording_was_lost_counts_for_nothing(tmp_path):
    race = raced(tmp_path, rounds=6)
    (last,) = (s for s in race.samples if s.kind == "cpu-profile" and s.meta["round"] == 6)
    last.meta["not_sampled"] = "the recording was cut off"
    estimate = rows(explained.sections(race), "components")["all samples"]["D_td-serial"]
    assert estimate.n == 5


def test_without_the_production_query_all_is_told_of_the_first_configuration(tmp_path):
    costs = {"D_hdr-serial": COSTS["D_hdr-serial"], "D_td-msearch": {FILTER: 10}}
    section, *_ = explained.sections(raced(tmp_path, rounds=6, costs=costs))
    assert section.title == "Where the target's CPU time goes" and "Of D_hdr-serial, 0.0 % is unnamed." in section.text
    assert section.figures[0].caption.startswith("CPU time of D_hdr-serial, ")


def test_a_file_of_stacks_that_was_cut_off_is_no_profile_and_no_traceback(tmp_path):
    race = raced(tmp_path, rounds=6)
    file = tmp_path / "stacks.txt.gz"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    sampled._read.cache_clear()
    assert explained.sections(race)
    sampled._read.cache_clear()


def test_components_are_what_the_coverages_cost(sections):
    found = rows(sections, "components")
    for name, component, samples in (
        ("D_td-serial", "t-digest", 90),
        ("D_td-serial", "sums", 20),
        ("D_td-serial", "filtering", 10),
        ("D_hdr-serial", "HDR", 30),
        ("D_td-serial", "all samples", 120),
    ):
        estimate = found[component][name]
        assert estimate.low <= samples * TICK_MS <= estimate.high, (name, component)
    assert "garbage collector" not in found, "there was none"


def test_samples_are_held_against_the_cpu_time(sections):
    found = rows(sections, "sum")["D_td-serial"]
    assert found["ratio"].value == pytest.approx(1 / SLOWED)
    assert found["cpu"] == pytest.approx(SLOWED * found["ms"].value)


def test_what_hdr_does_less_and_more_is_different_and_nothing_else_is(sections):
    off = {r["method"]: r for r in table(sections, "difference D_td-serial D_hdr-serial").rows}
    verdicts = {name.rsplit(".", 2)[-2]: row["verdict"] for name, row in off.items()}
    assert verdicts == {
        "MergingDigest": "different",
        "DoubleHistogram": "different",
        "ConjunctionDISI": "not shown",
        "SumAggregator$1": "not shown",
    }
    assert off["org.elasticsearch.tdigest.MergingDigest.add"]["off"].value == pytest.approx(-360, abs=25)
    text = "".join(section.text for section in sections)
    (told,) = re.findall(r"\*\*D_td-serial → D_hdr-serial:\*\* (\d+) → (\d+) ms of CPU time; 2 of 4 methods", text)
    assert [int(ms) for ms in told] == [pytest.approx(TICK_MS * n, rel=0.05) for n in (120, 60)]


def test_the_part_that_the_ways_differ_most_on_is_named_with_the_least_and_the_greatest_share(sections):
    ways = {"wall": "subtraction of wall times", "cpu": "subtraction of CPU times", "api": "the profile API"}
    spans = {}
    for part, row in rows(sections, "three ways").items():
        of = sorted((row[way].value, ways.get(way, way)) for way in row if way != "part")
        spans[of[-1][0] - of[0][0]] = part, of[0], of[-1]
    part, *ends = spans[max(spans)]
    least, greatest = (f"{100 * value:.1f} % by {way}" for value, way in ends)
    text = next(of.text for of in sections if of.title == "Three ways to the same answer")
    assert f"They differ most on {part}: {least}, {greatest}." in text


def test_three_ways_agree_where_nothing_disturbs_them(sections):
    found = rows(sections, "three ways")
    assert found["percentiles"]["stacks"].value == pytest.approx(0.75, abs=0.02)
    assert found["percentiles"]["wall"].value == pytest.approx(0.75, abs=0.02)
    assert found["sums"]["cpu"].value == pytest.approx(20 / 120, abs=0.02)
    assert three_ways.part(("t", "org.elasticsearch.http.X.y")) == "the rest"


def test_of_three_ways_one_is_by_cpu_time(race):
    samples = [replace(s, meta=dict(s.meta) | {"target_cpu_ms": s.meta.get("wall_ms", 1.0) ** 2}) for s in race.samples]
    found = rows(explained.sections(replace(race, samples=samples)), "three ways")
    assert found["percentiles"]["wall"].value == pytest.approx(90 / 120, abs=0.02)
    assert found["percentiles"]["cpu"].value == pytest.approx(1 - (30 / 120) ** 2, abs=0.02)


def test_the_cost_of_the_sampler_is_that_of_the_same_rounds(sections):
    found = rows(sections, "cost")
    assert found["geometric mean"]["wall_ms"].value == pytest.approx(SLOWED)
    assert found["D_td-serial"]["target_cpu_ms"].value == pytest.approx(SLOWED)


def test_a_configuration_that_was_never_asked_without_the_sampler_leaves_no_mean_of_its_cost(tmp_path):
    of = raced(tmp_path, rounds=20)
    lost = [s for s in of.samples if s.kind == PLAIN and s.cell == "B-serial"]
    of.samples[:] = [s for s in of.samples if s not in lost]
    found = rows(explained.sections(of), "cost")
    assert "B-serial" not in found and found["D_td-serial"]["wall_ms"].value == pytest.approx(SLOWED)
    assert "wall_ms" not in found["geometric mean"]


def test_the_answer_names_methods_and_what_hdr_spares(race):
    answer = answer_of(race)
    found = {finding.name: finding.text for finding in answer.findings}
    assert found["methods"].startswith("MergingDigest.add 7") and found["parts"].startswith("t-digest 7")
    assert found["HDR spares"].startswith("MergingDigest.add 3") and ";" not in found["HDR spares"]
    assert "no profile" not in {warning.kind for warning in answer.warnings}


@pytest.mark.parametrize(
    "method, short",
    [
        ("org.elasticsearch.tdigest.Sort.sort", "Sort.sort"),
        ("a.B$C.set", "C.set"),
        ("a.SumAggregator$1.collect", "SumAggregator$1.collect"),
        ("libjvm.so.Type::hashcons", "libjvm.so.Type::hashcons"),
        ("itable stub", "itable stub"),
    ],
)
def test_methods_are_told_by_their_class(method, short):
    assert cpu._short(method) == short


def test_a_part_without_profile_is_told_first(tmp_path):
    race = raced(tmp_path, rounds=24, not_sampled=(23, 24))
    why = "no CPU profile of 2 rounds, from round 23 on: node target-1, process 7, has ended or was started anew"
    assert next(iter(explained.warnings(race))).seen == why
    first = explained.sections(race)[0]
    assert first.title == "What is missing of the profile" and why in first.text
    assert dict(answer_of(race).lines())["answers checked"] == f"{24 * len(COSTS)} coverages, none wrong"
    assert table(explained.sections(race), "components")


def test_samples_and_cpu_time_stand_beside_their_ratio(sections):
    for row in rows(sections, "sum").values():
        assert row["ms"].value / row["cpu"] == pytest.approx(row["ratio"].value)


@pytest.mark.parametrize("without", ["D_td-serial", "D_hdr-serial", "A-serial"])
def test_a_race_without_one_of_the_two_that_are_held_against_each_other_has_no_other(tmp_path, without):
    of = raced(tmp_path, 6, {name: costs for name, costs in COSTS.items() if name != without})
    assert sampled.sampled(of, explained.HOW).other == ("D_hdr-serial" if without == "A-serial" else "")


def test_the_part_that_the_ways_differ_most_on_is_not_just_the_largest():
    found = [
        {"part": part} | {way: Estimate(9, value, value, value, 0.0) for way, value in zip(("wall", "api"), values)}
        for part, values in {"filter": (0.5, 0.51), "sums": (0.1, 0.3)}.items()
    ]
    assert three_ways._largest(found).startswith("They differ most on sums: 10.0 % by subtraction of wall times")


def test_all_that_is_missing_of_a_profile_is_told(monkeypatch):
    monkeypatch.setattr(cpu, "missing", lambda race, how: ["no profile of 2 rounds", "samples were lost"])
    (section,) = cpu.problems(None, None)
    assert [line for line in section.text.splitlines() if line] == [
        "- **Warning:** no profile of 2 rounds.",
        "- **Warning:** samples were lost.",
    ]


def test_a_race_whose_samples_are_elsewhere_has_its_times_all_the_same(tmp_path):
    race = raced(tmp_path, rounds=6)
    (tmp_path / "stacks.txt.gz").unlink()
    sampled._read.cache_clear()
    found = explained.sections(race)
    assert f"[{tmp_path}] of this machine has no samples" in found[0].text
    assert [section.title for section in found][1] == "What the sampler costs"
    assert list(explained.files(race)) == [] and explained.sheets(race) == []


def test_a_configuration_that_is_being_compiled_is_named(tmp_path):
    race = raced(tmp_path, rounds=6, costs={"A-serial": {FILTER: 10}, "B-serial": {FILTER: 10, COMPILER: 10}})
    assert not any("libjvm" in row["method"] for row in table(explained.sections(race), "methods").rows)
    (warning,) = [w for w in explained.warnings(race) if w.kind == "compiled"]
    assert "B-serial" in warning.seen and "A-serial" not in warning.seen


def test_too_few_rounds_give_no_verdict(tmp_path):
    race = raced(tmp_path, rounds=6)
    off = table(explained.sections(race), "difference D_td-serial D_hdr-serial").rows
    assert {row["verdict"] for row in off} == {"not enough samples"}


def test_files_and_sheets_hold_every_configuration(race):
    names = [name for name, _ in explained.files(race)]
    assert names == ["flames.html", "cpu.speedscope.json", *(f"cpu-{name}.collapsed.txt" for name in sorted(COSTS))]
    components, methods = explained.sheets(race)
    assert {row["configuration"] for row in components.rows} == set(COSTS)
    assert methods.key == "es_profile_cpu_methods.csv" and len(methods.rows) == 4 * 4


@pytest.mark.parametrize("counted, told", [(0.85, True), (0.95, False), (1.05, False), (1.2, True)])
def test_samples_that_add_up_to_less_or_more_than_the_cpu_time_are_warned_of(tmp_path, counted, told):
    race = raced(tmp_path, rounds=6)
    for sample in race.of(SAMPLED):
        sample.meta["target_cpu_ms"] = sample.meta["wall_ms"] / SLOWED / counted
    found = {w.seen: w.value for w in explained.warnings(race) if w.kind == "sum"}
    texts = [f"samples of {name} add up to {percent(counted)} of the target's CPU time" for name in sorted(COSTS)]
    assert found == ({text: pytest.approx(counted) for text in texts} if told else {})


def test_sheets_and_stacks_hold_what_a_coverage_took_by_all_clocks(race):
    components, methods = explained.sheets(race)
    texts = dict(explained.files(race))
    for name in COSTS:
        walls = np.array([s.meta["wall_ms"] for s in race.of(PLAIN) if s.cell == name])
        for rows_of in (components.rows, methods.rows):
            assert sum(r["cpu_ms"] for r in rows_of if r["configuration"] == name) == pytest.approx(walls.mean())
        lines = texts[f"cpu-{name}.collapsed.txt"].splitlines()
        assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == pytest.approx(1000 * walls.mean(), abs=len(lines))
    walls = np.array([s.meta["wall_ms"] for s in race.of(PLAIN) if s.cell == "A-serial"])
    half = stats.t.ppf(0.975, len(walls) - 1) * stats.sem(walls)
    for table_of, key in ((components, "component"), (methods, "method")):
        [row] = [r for r in table_of.rows if r["configuration"] == "A-serial" and r["cpu_ms"]]
        assert (row["cpu_ms"], row["half_ms"]) == (pytest.approx(walls.mean()), pytest.approx(half))
        assert row[key] in ("filtering", "org.apache.lucene.search.ConjunctionDISI.doNext")


def profiled(race, **changes):
    """The race with coverages by the profile API: of 100 ms of ``took`` 15 prepare and filter, 75 collect, of which 70
    feed the aggregations, percentiles and sums by 3 to 1."""
    parts = [*AGGREGATION_PARTS, "other"]
    meta = {f"{kind}_{part}_ms": 0.0 for kind in ("percentiles", "sums") for part in parts}
    meta |= {f"query_{part}_ms": 0.0 for part in PARTS}
    meta |= {"took_ms": 100.0, "rewrite_ms": 1.0, "query_build_scorer_ms": 4.0, "query_leaves_ms": 10.0}
    meta |= {"collector_ms": 75.0, "collector_aggregations_ms": 70.0, "sums_build_leaf_collector_ms": 10.0}
    meta |= {"percentiles_collect_ms": 120.0, "sums_collect_ms": 30.0, "searches": 30, "wall_ms": 150.0} | changes
    own = [Sample(COVERAGE, 0, ON, 100.0, meta | {"round": r}) for r in range(1, 41)]
    return replace(race, samples=[*race.samples, *own])


def test_the_profile_api_tells_shares_of_took_with_the_collectors_by_what_they_feed(race):
    found = rows(explained.sections(profiled(race)), "three ways")
    shares = {part: row["api"].value for part, row in found.items()}
    assert shares == pytest.approx({"percentiles": 0.525, "sums": 0.175, "filter and visit": 0.2, "the rest": 0.1})
    text = next(s.text for s in explained.sections(profiled(race)) if s.title == "Three ways to the same answer")
    assert re.search(r"They differ most on percentiles: 52\.5 % by the profile API, 7\d\.\d % by \w+", text)


def test_a_way_that_was_not_recorded_is_left_out(race):
    api = (row.get("api") for row in rows(explained.sections(race), "three ways").values())
    assert set(api) == {None}
    without = [s for s in race.samples if s.cell != "B-serial"]
    assert three_ways.sections(replace(race, samples=without), sampled.sampled(race, explained.HOW)) == []


@pytest.mark.parametrize(
    "stack, part",
    [
        (SUM, "sums"),
        (DIGEST, "percentiles"),
        (f"{SUM};org.elasticsearch.tdigest.MergingDigest.add", "percentiles"),
        (f"{DIGEST};java.util.Arrays.sort", "percentiles"),
        (FILTER, "filter and visit"),
        (f"{SEARCH};{AGG}.CompensatedSum.add", "sums"),
        (COMPILER, "the rest"),
        (f"{THREAD};org.elasticsearch.search.fetch.FetchPhase.execute", "the rest"),
    ],
)
def test_a_stack_belongs_to_the_aggregator_in_it_whoever_that_calls(stack, part):
    assert three_ways.part(tuple(stack.split(";"))) == part


def test_by_subtraction_a_part_is_what_goes_with_it():
    values = {"A-serial": [10.0, 20.0], "B-serial": [30.0, 50.0], "D_td-serial": [100.0, 200.0]}
    found = three_ways.by_subtraction({name: np.array(of) for name, of in values.items()})
    assert {part: shares.tolist() for part, shares in found.items()} == {
        "percentiles": pytest.approx([0.7, 0.75]),
        "sums": pytest.approx([0.2, 0.15]),
        "filter and visit": pytest.approx([0.1, 0.1]),
    }


def test_what_is_held_against_each_other_differs_in_the_algorithm_the_transport_the_cache_or_what_was_planted():
    production = {"D_td-serial": {"D_hdr-serial", "D_td-msearch", "D_td-serial+cached", "D_td-serial+high-accuracy"}}
    production |= {"D_td-msearch": {"D_hdr-msearch", "D_td-msearch+cached"}}
    assert set(explained.HOW.pairs) == {(base, other) for base, others in production.items() for other in others}
    assert explained.HOW.shown[0] == "D_td-serial"


def test_rounds_that_drift_are_warned_of_and_the_cache_is_told(race):
    drifting = [
        replace(s, meta=dict(s.meta) | {"wall_ms": s.meta.get("wall_ms", 1.0) * (1 + s.meta["round"])})
        for s in race.samples
    ]
    assert "drift" in {warning.kind for warning in explained.warnings(replace(race, samples=drifting))}
    cache = {"query_cache_on": [], "query_cache_hits": 0.0, "query_cache_misses": 1.0}
    told = [replace(s, meta=dict(s.meta) | cache) if s.kind == "cpu-profile" else s for s in race.samples]
    assert "What the server had at hand" in {s.title for s in explained.sections(replace(race, samples=told))}
