"""Races are read back from whatever Rally keeps them in."""

import json
from dataclasses import replace

import pytest
from conftest import WORK, make
from elasticsearch import helpers

from _tools.report.race import ReportError
from _tools.report.store import connect, load, load_all

STREAMED, UNFINISHED = ("streamed-1", "streamed-2"), "streamed-unfinished"


def stream(store, kind):
    """Creates the template that makes a data stream of Rally's own index, as later versions of Rally do."""
    name = f"rally-{kind}-v1"
    [template] = store.indices.get_index_template(name=f"rally-{kind}")["index_templates"]
    body = template["index_template"]["template"]
    body["mappings"]["properties"].setdefault("@timestamp", {"type": "date", "format": "epoch_millis"})
    store.indices.put_index_template(name=name, index_patterns=[name], data_stream={}, template=body, priority=500)
    return name


def copy(store, race_id):
    """Copies a race's documents into data streams as three races with a tag of their own, the last one unfinished."""
    for kind in ("races", "metrics"):
        name = stream(store, kind)
        found = helpers.scan(store, index=f"rally-{kind}-2*", query={"query": {"term": {"race-id": race_id}}})
        for document in [hit["_source"] for hit in found]:
            for new in (*STREAMED, UNFINISHED):
                own = {"race-id": new}
                if kind == "races":
                    own |= {"@timestamp": 1_700_000_000_000, "user-tags": {"kept": "in-streams"}}
                    own |= {"results": {}} if new == UNFINISHED else {}
                store.index(index=name, document=document | own, op_type="create")
        store.indices.refresh(index=name)
        [backing] = store.indices.get(index=name, expand_wildcards="all")
        assert backing.startswith(f".ds-{name}-")


@pytest.fixture(scope="module")
def store(loaded):
    store = connect(WORK / "rally/.rally/rally.ini")
    copy(store, "first")
    return store


def content(race):
    """All that a race holds, less what the copy has of its own; samples of one millisecond have no order."""
    document = {k: v for k, v in race.document.items() if k not in ("race-id", "user-tags", "@timestamp")}
    samples = sorted(race.samples, key=lambda s: (s.at, s.kind, s.cell, json.dumps(dict(s.meta), sort_keys=True)))
    return replace(race, document=document, samples=samples)


def test_a_race_in_data_streams_is_read_as_one_in_monthly_indices(store):
    first = load(store, "first")
    assert len(first.samples) > 40 and first.local is True
    for name in STREAMED:
        assert content(load(store, name)) == content(first)


def test_a_tag_stands_for_all_finished_races_that_carry_it(store):
    assert sorted(race.id for race in load_all(store, "kept:in-streams", "query-decomp")) == sorted(STREAMED)
    with pytest.raises(ReportError, match=r"no race \[kept:in-streams\] of challenge \[other\] was finished"):
        load_all(store, "kept:in-streams", "other")
    with pytest.raises(ReportError, match=r"no race \[kept:nowhere\] in the store"):
        load_all(store, "kept:nowhere")


def test_races_of_a_tag_are_pooled(store):
    result = make("compare", RACES="first kept:in-streams")
    assert result.returncode == 0, result.stdout
    assert "first and kept:in-streams (2 races) are 3 races together, a verdict takes 4" in result.stdout
    assert (WORK / "reports" / "compare-first-kept_in-streams" / "compare.csv").is_file()
