"""The dashboards against a store that a real race filled: fields, searches, figures. Kibana itself is not here."""

import datetime

import pytest
import requests
from conftest import make
from dashboards import check, lens

from _tools.dashboards.kibana import FILE

OBJECTS = lens.load(FILE.read_text())
LAYERS = list(lens.layers(OBJECTS))
CONTROLS = lens.controls(OBJECTS)
WITHOUT_TASK = "Store size"
"""Describes a race and none of its tasks, as its description says."""
NOW = datetime.datetime.now(datetime.timezone.utc)
TIMES = lens.TimeRange(
    (NOW - datetime.timedelta(days=1)).isoformat(), (NOW + datetime.timedelta(days=1)).isoformat(), 1
)


def layer_of(panel, number=0):
    return [layer for layer in LAYERS if layer.panel == panel][number]


@pytest.fixture(scope="module", autouse=True)
def ingested(loaded):
    """A race of the challenge ingest in the store: one of the tests before, or one of its own."""
    query = "operation-type:ingest-bulk AND meta.tag_intention:test"
    requests.post(f"{loaded['store']}/rally-metrics-*/_refresh", timeout=30).raise_for_status()
    found = requests.get(f"{loaded['store']}/rally-metrics-*/_count", params={"q": query}, timeout=30).json()["count"]
    if not found:
        race = make("race", TEST_MODE=1, CHALLENGE="ingest", RACE_ID="ingested", TAGS="intention:test")
        assert race.returncode == 0, race.stdout[-3000:]


@pytest.fixture(scope="module")
def fields(loaded):
    """Field capabilities of the store by data view, as Kibana asks for them."""
    titles = {layer.indices for layer in LAYERS}
    responses = {t: requests.get(f"{loaded['store']}/{t}/_field_caps?fields=*", timeout=30) for t in titles}
    return {title: response.json()["fields"] for title, response in responses.items()}


@pytest.fixture
def rows(search):
    """The table behind a panel for the first race, by labels of its columns."""

    def rows(panel, number=0, **selected):
        layer = layer_of(panel, number)
        response = search(layer.indices, layer.search(TIMES, {"race-id": "first", **selected}))
        labels = {id: column["label"] for id, column in layer.columns.items()}
        return [{labels[id]: v for id, v in row.items()} for row in layer.rows(response, TIMES)]

    return rows


@pytest.fixture
def results(search):
    """Rally's own results of the first race by name and task."""
    body = {"size": 1000, "query": {"term": {"race-id": "first"}}}
    documents = [hit["_source"] for hit in search("rally-results-*", body)["hits"]["hits"]]
    return {(d["name"], d.get("task")): d["value"] for d in documents}


def test_the_store_has_every_field_with_its_type(fields):
    assert check.field_problems(OBJECTS, fields) == []


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: f"{layer.dashboard}: {layer.panel}")
def test_a_panel_shows_something_whatever_a_control_selects(layer, search):
    response = search(layer.indices, layer.search(TIMES))
    found = layer.rows(response, TIMES)
    assert response["_shards"]["failed"] == 0 and found
    assert all(any(row[id] is not None for row in found) for id in layer.columns)
    for field in CONTROLS[layer.dashboard]:
        body = layer.search(TIMES) | {"aggs": {"values": {"terms": {"field": field, "size": 1000}}}}
        values = search(layer.indices, body)["aggregations"]["values"]["buckets"]
        assert bool(values) is ((layer.panel, field) != (WITHOUT_TASK, "task"))
        for value in values:
            selected = search(layer.indices, layer.search(TIMES, {field: value["key"]}))
            assert selected["hits"]["total"]["value"] == value["doc_count"] > 0
            assert layer.rows(selected, TIMES)
        nothing = search(layer.indices, layer.search(TIMES, {field: "no such value"}))
        assert nothing["hits"]["total"]["value"] == 0


def test_service_times_are_those_of_rallys_results(rows, results):
    measured = {task: value for (name, task), value in results.items() if name == "service_time"}
    cells, tasks = rows("Headline cells"), rows("Time of each task")
    assert len(cells) == 12
    assert {row["Task"] for row in cells} < set(measured) < {row["Task"] for row in tasks}
    for row in [*cells, *tasks]:
        if value := measured.get(row["Task"]):
            assert row["Average"] == pytest.approx(value["mean"], rel=1e-5)
            assert row["Longest"] == pytest.approx(value["100_0"], rel=1e-5)
            assert row["Median"] == pytest.approx(value.get("50_0", value["100_0"]), rel=1e-5)


@pytest.mark.parametrize(
    "panel, name, key",
    [
        ("Median service time", "service_time", "50_0"),
        ("Mean service time", "service_time", "mean"),
        ("Slowest request", "service_time", "100_0"),
        ("Throughput", "throughput", "median"),
        ("Error rate", "error_rate", "single"),
        ("Duration", "duration", "single"),
    ],
)
def test_bars_of_the_comparison_are_rallys_results(rows, results, panel, name, key):
    expected = {task: value[key] for (n, task), value in results.items() if n == name and value.get(key) is not None}
    bars = rows(panel)
    assert expected and {bar["Race"] for bar in bars} == {"first"}
    drawn = {bar["Task"]: bar[panel] for bar in bars if bar[panel] is not None}
    assert drawn == pytest.approx(expected, rel=1e-5)


def test_store_size_is_that_of_rallys_results(rows, results):
    assert rows("Store size") == [{"Race": "first", "Store size": results["store_size", None]["single"]}]


def test_documents_add_up_to_those_indexed(rows, search):
    assert rows("Acknowledged documents") == [{"Acknowledged": 5000}]
    assert rows("Errors") == [{"Errors": 0}]
    assert sum(r["Documents per second"] * TIMES.seconds for r in rows("Documents acknowledged per second")) == 5000
    assert sum(r["Acknowledged"] for r in rows("Documents acknowledged, and errors")) == 5000


@pytest.mark.parametrize(
    "selected, samples",
    [
        ({}, 86),
        ({"task": "D_td-serial"}, 2),
        ({"operation-type": "bulk"}, 5),
        ({"challenge": "query-decomp"}, 86),
    ],
)
def test_samples_are_as_the_manual_check_says(rows, selected, samples):
    """The first race has the parameters that ``kibana/CHECK.md`` asks for."""
    assert f" {samples}" in (FILE.parent / "CHECK.md").read_text()
    assert rows("Samples", **selected) == [{"Samples": samples}]


def test_the_bars_and_lines_of_the_plan_are_its_rounds(rows, search):
    terms = {"race-id": "first", "name": "service_time", "sample-type": "normal", "operation-type": "coverage"}
    body = {"size": 1000, "query": {"bool": {"filter": [{"term": {k: v}} for k, v in terms.items()]}}}
    samples = [hit["_source"] for hit in search("rally-metrics-*", body)["hits"]["hits"]]
    bars = rows("Wall time by variant and transport")
    assert len(bars) == 12
    for bar in bars:
        cell = f"{bar['Variant']}-{bar['Transport']}"
        walls = [s["meta"]["wall_ms"] for s in samples if s["operation"] == cell]
        assert bar["Wall time"] == pytest.approx(sum(walls) / 2, rel=1e-5), "the median of two rounds"
    errors = {f"{r['Variant']}-{r['Transport']}": r["Error"] for r in rows("Error of the percentiles")}
    assert errors == pytest.approx(
        {c: max(s["meta"]["max_percentile_error"] for s in samples if s["operation"] == c) for c in errors}, rel=1e-5
    )


def change(panel, **values):
    """A file in which the first metric of a panel has other values."""
    objects = lens.load(FILE.read_text())
    for dashboard in objects:
        for found in dashboard["attributes"].get("panelsJSON", []):
            if found["title"] == panel:
                layer = next(
                    iter(
                        found["embeddableConfig"]["attributes"]["state"]["datasourceStates"]["formBased"][
                            "layers"
                        ].values()
                    )
                )
                layer["columns"][layer["columnOrder"][values.pop("column", -1)]].update(values)
    return objects


def in_text(old, new):
    return lens.load(FILE.read_text().replace(old, new))


STORE_MUTATIONS = {
    "a field misspelt": lambda: change("Service time", sourceField="values"),
    "a field of another index": lambda: change("Median service time", sourceField="meta.took"),
    "a metric of a keyword": lambda: change("Service time", sourceField="unit"),
    "values of a number called string": lambda: change("Headline cells by pass", column=1, dataType="string"),
    "values of a string called boolean": lambda: change(
        "Requests that succeeded and failed", column=0, sourceField="task"
    ),
    "an object for a field": lambda: change("Service time", sourceField="meta"),
    "time by a field that is no date": lambda: change("Service time", column=0, sourceField="relative-time"),
    "a control of a field of the other index": lambda: in_text(
        '\\"fieldName\\":\\"operation-type\\"', '\\"fieldName\\":\\"user-tags.intention\\"'
    ),
    "a control of a number": lambda: in_text('\\"fieldName\\":\\"task\\"', '\\"fieldName\\":\\"relative-time\\"'),
    "a query of a field that is not there": lambda: in_text("sample-type :", "sample_type :"),
    "a time field that is no date": lambda: in_text('"timeFieldName":"@timestamp"', '"timeFieldName":"name"'),
    "a data view of no index": lambda: in_text('"title":"rally-metrics-*"', '"title":"rally-metric-*"'),
}


@pytest.mark.parametrize("name", STORE_MUTATIONS)
def test_a_file_that_does_not_fit_the_store_is_found_out(name, fields):
    assert check.field_problems(STORE_MUTATIONS[name](), fields)


@pytest.mark.parametrize(
    "old, new", [("service_time", "service-time"), ("query-cell", "query-cells"), ("normal", "none")]
)
def test_a_query_of_a_value_that_is_not_there_finds_nothing(old, new, search):
    broken = lens.layers(in_text(f': \\\\\\"{old}\\\\\\"', f': \\\\\\"{new}\\\\\\"'))
    totals = [search(layer.indices, layer.search(TIMES))["hits"]["total"]["value"] for layer in broken]
    assert 0 in totals
