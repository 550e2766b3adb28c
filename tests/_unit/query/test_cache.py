"""The query cache is off where time is decomposed, on where it is a configuration, and said either way."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest
from esrally.exceptions import RallyAssertionError
from fakes import FakeEs, rows, track_of, values

from _tools.report.race import Race, Sample
from cluster_metrics.core.index import MARK
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query._report import query_frontier, server
from cluster_metrics.query.cache import SETTING, lookups, query_cache
from cluster_metrics.query.configurations import CACHED, CONFIGURATIONS, LAYOUTS
from cluster_metrics.query.layouts import BuildLayouts, DropLayouts, LayoutsParams, without_mode
from cluster_metrics.query.query_frontier import REPEATED, FrontierParams, FrontierRunner

ROOT = Path(__file__).parents[3]
BODY = json.loads((ROOT / "index.json").read_text())
NODES = 2


class Target:
    """Indices with these settings and defaults, as Elasticsearch tells them; each reading finds ten hits more."""

    def __init__(self, settings):
        self.settings, self.hits = settings, 0

    def __call__(self, method, path, body):
        if "_settings" in path:
            return self.settings
        self.hits += 10
        return {"_all": {"total": {"query_cache": {"hit_count": self.hits, "miss_count": 7}}}}


@pytest.mark.parametrize(
    "found, on",
    [
        ({"settings": {SETTING: "false"}, "defaults": {}}, []),
        ({"settings": {SETTING: "true"}, "defaults": {}}, ["a"]),
        ({"settings": {}, "defaults": {SETTING: "true"}}, ["a"]),
        ({"settings": {}}, ["a"]),
    ],
)
def test_a_round_records_which_index_has_the_cache_and_what_it_answered_meanwhile(found, on):
    async def measured(es):
        return await query_cache(es, ["b", "a"], await lookups(es, ["b", "a"]))

    es = FakeEs(Target({"b": {"settings": {SETTING: "false"}}, "a": found}))
    assert asyncio.run(measured(es)) == {"query_cache_on": on, "query_cache_hits": 10, "query_cache_misses": 0}
    counts = "GET /a,b/_stats/query_cache?filter_path=_all.total.query_cache"
    settings = f"GET /a,b/_settings/{SETTING}?include_defaults=true&flat_settings=true"
    assert es.sent == [counts, settings, counts]


def layouts(names, tmp_path, **parameters):
    """What build-layouts creates for these configurations, body by index."""
    corpus = Metrics(nodes=NODES, tasks=3, rows_per_epoch=25, epochs=1)
    track = track_of(corpus, root=tmp_path, indices={"cluster-metrics": json.loads(json.dumps(BODY))})
    es = FakeEs(lambda method, path, body: {"errors": False})
    es_answer, es._answer = (
        es._answer,
        lambda method, path, body: {} if method == "GET" else es_answer(method, path, body),
    )
    params = LayoutsParams(track, {"parameters": values(configurations=names, **parameters)}).params()
    asyncio.run(BuildLayouts()(es, params))
    return {path: body for method, path, body in es.requests if method == "PUT"}


def test_every_index_is_created_without_the_cache_but_the_one_that_shows_it(tmp_path):
    assert BODY["settings"][SETTING] is False
    bodies = layouts(list(CONFIGURATIONS), tmp_path)
    assert set(bodies) == {f"/cluster-metrics-{layout}" for layout in LAYOUTS}
    on = [index for index, body in bodies.items() if body["settings"][SETTING]]
    assert on == ["/cluster-metrics-cached"] == [f"/{server.MEANT}"]
    assert bodies[on[0]]["mappings"] == BODY["mappings"]


@pytest.mark.parametrize("mark, foreign, dropped", [(MARK, False, True), ("", False, False), ("", True, True)])
def test_an_index_that_is_not_the_tracks_own_is_dropped_only_where_that_is_asked_for(tmp_path, mark, foreign, dropped):
    name = "cluster-metrics-cached"
    es = FakeEs(lambda method, path, body: {name: {"mappings": {"_meta": {"created_by": mark}}}})
    corpus = Metrics(nodes=NODES, tasks=3, rows_per_epoch=25, epochs=1)
    track = track_of(corpus, root=tmp_path, indices={"cluster-metrics": json.loads(json.dumps(BODY))})
    given = values(configurations=["cached"], delete_foreign_index=foreign)
    drop = DropLayouts()(es, LayoutsParams(track, {"parameters": given}).params())
    with contextlib.nullcontext() if dropped else pytest.raises(RallyAssertionError, match=name):
        asyncio.run(drop)
    assert (f"DELETE /{name}" in es.sent) is dropped


def test_a_further_index_differs_from_the_production_index_in_its_layout_alone(tmp_path):
    names = ["production", "cached", "unmerged", "shards-2", "rollup"]
    given = {"number_of_shards": 4, "number_of_replicas": 1, "codec": "best_compression", "source_mode": "synthetic"}
    bodies = {i.removeprefix("/cluster-metrics-"): b["settings"] for i, b in layouts(names, tmp_path, **given).items()}
    shards = {name: settings["index.number_of_shards"] for name, settings in bodies.items()}
    assert shards == {"cached": 4, "unmerged": 4, "rollup": 4, "shards-2": 2}
    kept = {(settings["index.codec"], settings["index.number_of_replicas"]) for settings in bodies.values()}
    assert kept == {("best_compression", 1)}
    assert bodies["cached"]["index.mapping.source.mode"] == "synthetic"
    assert "index.mapping.source.mode" not in bodies["rollup"]


def test_an_index_mode_stays_but_where_the_layout_is_another():
    of_mode = {"index.mode": "logsdb", "index.sort.field": ["node"], "index.sort.order": ["asc"]}
    assert without_mode(of_mode | {"index.codec": "x"}) == {"index.codec": "x"}


def test_filters_are_asked_before_a_coverage_of_the_cached_index_and_before_no_other(tmp_path):
    track = track_of(Metrics(nodes=NODES, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path)
    names = ["production", "cached", "msearch", "msearch+cached"]
    task = {"parameters": values(configurations=names), "warmup-iterations": 0, "iterations": 1}
    params = FrontierParams(track, task).params()
    priming = {coverage.configuration.name: asked for coverage, asked in params["coverages"]}
    assert {name: len(asked) for name, asked in priming.items()} == dict.fromkeys(
        CACHED.values(), REPEATED * NODES
    ) | dict.fromkeys(CACHED, 0)
    asked = {json.dumps(json.loads(request.body)["query"]) for request in priming["cached"]}
    production = next(c for c, _ in params["coverages"] if c.configuration.name == "production")
    assert asked == {json.dumps(json.loads(request.body)["query"]) for request in production.requests}
    assert all("/cluster-metrics-cached/_search" in request.path for request in priming["cached"])


def test_what_fills_the_cache_counts_for_no_time(tmp_path):
    track = track_of(Metrics(nodes=NODES, tasks=3, rows_per_epoch=25, epochs=1), root=tmp_path)
    task = {"parameters": values(configurations=["production", "cached"]), "warmup-iterations": 0, "iterations": 1}
    params = FrontierParams(track, task).params()
    expected = params["coverages"][0][0].expected
    nodes = iter(list(expected) * 100)

    def answer(method, path, body):
        if method == "GET":
            return Target({"cluster-metrics-cached": {"settings": {SETTING: "true"}}})(method, path, body)
        if b"aggs" not in body:
            return {"took": 100, "hits": {}}
        found = {}
        for field, a in expected[next(nodes)].items():
            found[f"{field}_sum"] = {"value": a["sum"]}
            found[f"{field}_pct"] = {"values": {f"{float(p)}": exact[0] for p, exact in a["percentiles"].items()}}
        return {"took": 1, "aggregations": found}

    result = asyncio.run(FrontierRunner()(FakeEs(answer), params))
    assert result["success"] and result["query_cache_on"] == ["cluster-metrics-cached"]
    samples = {s["configuration"]: s for s in result["dependent_timing"]}
    assert samples["cached"]["took_ms"] == samples["production"]["took_ms"] == NODES
    assert samples["cached"]["wall_ms"] == samples["production"]["wall_ms"]


def race(on, hits=0.0):
    """A race whose first round had the cache on for some indices, and the other for none."""
    meta = {"query_cache_hits": hits, "query_cache_misses": 1.0}
    rounds = {1: meta | {"query_cache_on": on}, 2: meta | {"query_cache_on": []}}
    return Race(
        {"race-id": "x"}, [Sample("frontier", r, "frontier", 1.0, of | {"round": r}) for r, of in rounds.items()], {}
    )


@pytest.mark.parametrize(
    "on, said, warned",
    [
        ([], "off for every index asked (`", False),
        (["cluster-metrics-cached"], "off for every index asked but cluster-metrics-cached (`", False),
        (["cluster-metrics", "cluster-metrics-cached"], "was on for cluster-metrics, loaded earlier", True),
    ],
)
def test_the_report_names_an_index_that_has_the_cache_by_accident(on, said, warned):
    (section,) = server.sections(race(on, 21.0), "frontier")
    assert said in section.text and "42 hits and 2 misses in 2 rounds" in section.text
    assert ("**Warning:**" in section.text) is warned
    assert server.sections(Race({}, [Sample("frontier", 1, "frontier", 1.0, {"round": 1})], {}), "frontier") == []


def test_what_the_cache_saves_is_a_figure_with_an_interval_and_no_advice():
    samples = []
    for r in range(20):
        for name, ms in {"production": 500.0, "cached": 400.0, "msearch": 100.0, "msearch+cached": 80.0}.items():
            meta = {"round": r, "wall_ms": ms + r, "took_ms": ms} | dict.fromkeys(
                ("percentile_error", "extreme_error", "sum_error"), 0.0
            )
            samples.append(Sample("frontier-coverage", r, name, ms, meta))
    made = query_frontier.sections(Race({"race-id": "x", "challenge": "query-frontier"}, samples, {}))
    found = rows(made, "cached")
    assert found["production"]["saved_ms"].value == pytest.approx(100) and found["production"]["n"] == 20
    assert found["msearch"]["speedup"].value == pytest.approx(109.5 / 89.5, rel=1e-3)
    assert "take **msearch**" in made[0].text
