"""The configurations of the query challenges ask what their names say, and races are held against production."""

import re
from dataclasses import replace

import pytest

from cluster_metrics.core.challenge import challenges
from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.query.configurations import BASE, CONFIGURATIONS, LAYOUTS, PARTS, VARIANTS, change_of
from cluster_metrics.wire.questions import VISIT, Configuration

NAMES = {
    r"production": lambda: {},
    r"compression-(\d+)": lambda n: {"percentiles": {"tdigest": {"compression": int(n)}}},
    r"high-accuracy": lambda: {"percentiles": {"tdigest": {"execution_hint": "high_accuracy"}}},
    r"hdr-(\d)": lambda n: {"percentiles": {"hdr": {"number_of_significant_value_digits": int(n)}}},
    r"sampler-([\d.]+)": lambda p: {"probability": float(p)},
    r"(concurrent|msearch)-(\d)": lambda form, k: {"form": form, "parallel": int(k)},
    r"(msearch|terms|filters|esql)": lambda form: {"form": form},
    r"rollup": lambda: {"form": "rollup", "layout": "rollup"},
    r"smile-request": lambda: {"smile": "request"},
    r"smile": lambda: {"smile": "both"},
    r"(unmerged|shards-\d|sorted|cached|time-series|logsdb)": lambda layout: {"layout": layout},
}
"""What the parts of a name change, by their patterns."""


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_changes_what_its_name_says_and_nothing_else(name):
    changed = {}
    for part in name.split("+"):
        found, change = next((found, of) for pattern, of in NAMES.items() if (found := re.fullmatch(pattern, part)))
        changed |= change(*found.groups())
    assert replace(CONFIGURATIONS[name], name="", text="", price="none") == Configuration("", "", **changed)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_production_query_asks_for_the_fields_in_its_name(name):
    part = PARTS[name]
    summed, _, ranked = name.partition("pct")
    assert part.summed == tuple(field for field in FIELDS if field in summed)
    assert (part.ranked if part.algorithm else ()) == tuple(field for field in FIELDS if field in ranked)
    more = {"start": {"track_total_hits": False}, "visit": VISIT}.get(name, {})
    assert (part.form, part.layout, part.more, part.algorithm in (None, "tdigest")) == ("serial", "", more, True)


def test_layouts_differ_in_what_they_are_named_after():
    assert {name: layout.settings for name, layout in LAYOUTS.items() if layout.settings} == {
        "shards-2": {"index.number_of_shards": 2},
        "shards-4": {"index.number_of_shards": 4},
        "sorted": {"index.sort.field": ["epoch", "node"]},
        "cached": {"index.queries.cache.enabled": True},
    }
    assert [name for name, layout in LAYOUTS.items() if not layout.merged] == ["unmerged"]
    assert [name for name, layout in LAYOUTS.items() if layout.primed] == ["cached"]
    assert {name: layout.mode for name, layout in LAYOUTS.items() if layout.mode} == {
        "time-series": "time_series",
        "logsdb": "logsdb",
    }


@pytest.mark.parametrize(
    "name, kinds",
    [
        (BASE, ()),
        ("msearch", ("client",)),
        ("concurrent-2", ("client",)),
        ("terms", ("query",)),
        ("esql", ("query",)),
        ("hdr-3", ("query",)),
        ("sampler-0.1", ("query",)),
        ("smile", ("format",)),
        ("sorted", ("index",)),
        ("cached", ("settings",)),
        ("rollup", ("query", "index")),
        ("msearch+sorted+hdr-3", ("client", "query", "index")),
        ("msearch+smile-request", ("client", "format")),
    ],
)
def test_a_configuration_is_a_change_of_all_that_a_user_would_change(name, kinds):
    change = change_of(CONFIGURATIONS[name])
    assert (change.kinds, change.part, change.price) == (kinds, "query", CONFIGURATIONS[name].price)


@pytest.mark.parametrize(
    "challenge, sample, base, more",
    [
        ("query-decomp", "coverage", "D_td-serial", ()),
        ("query-profile", "profiled-coverage", "profile-off", ()),
        ("query-frontier", "frontier-coverage", BASE, ("percentile_error",)),
        ("cpu-profile", "plain-coverage", "D_td-serial", ("target_cpu_ms",)),
    ],
)
def test_races_are_judged_by_wall_times_and_held_against_production(challenge, sample, base, more):
    compared = challenges()[challenge].compared
    assert (compared.sample, compared.base, compared.parameter) == (sample, base, "rounds")
    assert compared.figures == ("wall_ms", "took_ms", *more)


def test_the_further_indices_are_known_as_those_that_are_dropped():
    assert challenges()["query-frontier"].drops == tuple(f"cluster-metrics-{layout}" for layout in LAYOUTS)
    assert challenges()["cpu-profile"].drops == ("cluster-metrics-cached",)
    for name in ("query-frontier", "cpu-profile"):
        assert challenges()[name].operations[-1].type == "drop-layouts"


def test_test_mode_takes_as_little_as_there_is():
    shortest = {"rounds": 2, "warmup_iterations": 1}
    assert {name: challenges()[name].test_mode for name in ("query-decomp", "query-frontier", "cpu-profile")} == {
        "query-decomp": shortest | {"passes": 2, "warmup_rounds": 1},
        "query-frontier": shortest | {"frontier_cpu_seconds": 1},
        "cpu-profile": shortest,
    }


def test_published_times_are_those_of_the_reference():
    """``took`` and the wall times by both transports, in ms."""
    assert {name: tuple(variant.reference.values()) for name, variant in VARIANTS.items()} == {
        "A": (19, 135, 13),
        "B": (192, 310, 33),
        "C_td": (1070, 1193, 138),
        "C_hdr": (597, 730, 86),
        "D_td": (1199, 1323, 150),
        "D_hdr": (712, 845, 101),
    }
