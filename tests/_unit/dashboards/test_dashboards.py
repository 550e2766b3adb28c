"""The dashboards as a file: made anew, checked, and broken on purpose."""

import copy
from types import SimpleNamespace

import pytest
from dashboards import check, lens

from _tools.dashboards import content, kibana
from _tools.dashboards.kibana import FILE, ndjson
from _tools.dashboards.panels import Dashboard, Layer, Metric, Panel, Terms, Time

TEXT = FILE.read_text()


def test_the_file_is_what_the_generator_writes():
    assert ndjson(content.DASHBOARDS) == TEXT, "run make dashboards"


def test_nothing_is_wrong_with_the_file():
    assert check.problems(lens.load(TEXT)) == []


def test_no_panel_is_lost():
    layers = [(x.dashboard, x.panel) for x in lens.layers(lens.load(TEXT))]
    assert layers == [(d.id, p.title) for d in content.DASHBOARDS for p in d.panels for _ in p.layers]


def test_a_row_of_panels_is_as_high_as_its_highest():
    panels = [SimpleNamespace(width=width, height=height) for width, height in ((24, 12), (24, 5), (48, 8))]
    places = [(at["x"], at["y"]) for _, at in kibana._placed(panels)]
    assert places == [(0, 0), (24, 0), (0, 12)]


def dashboard(o, number=0):
    return [x for x in o if x["type"] == "dashboard"][number]


def panel(o, title):
    return next(p for d in o if d["type"] == "dashboard" for p in d["attributes"]["panelsJSON"] if p["title"] == title)


def state(o, title):
    return panel(o, title)["embeddableConfig"]["attributes"]["state"]


def columns(o, title, layer=0):
    return list(state(o, title)["datasourceStates"]["formBased"]["layers"].values())[layer]


def column(o, title, operation, layer=0):
    return next(c for c in columns(o, title, layer)["columns"].values() if c["operationType"] == operation)


def chart(o, title, layer=0):
    return state(o, title)["visualization"]["layers"][layer]


def control(o, number=0):
    return list(dashboard(o)["attributes"]["controlGroupInput"]["panelsJSON"].values())[number]


def set_in(container, key, value):
    container[key] = value


CHART, TABLE, SPLIT, FIGURE = "Service time", "Time of each task", "CPU time of the target", "Samples"
P99 = "99th percentile of service time"
MUTATIONS = {
    "no data view": lambda o: o.pop(0),
    "a data view twice": lambda o: o.append(copy.deepcopy(o[0])),
    "a type Kibana cannot import with these": lambda o: set_in(dashboard(o), "type", "search"),
    "the version of another type": lambda o: set_in(dashboard(o), "typeMigrationVersion", "8.0.0"),
    "a core version from the future": lambda o: set_in(dashboard(o), "coreMigrationVersion", "9.9.9"),
    "a field of the exporting Kibana": lambda o: set_in(dashboard(o), "updated_at", "2026-01-01T00:00:00Z"),
    "an attribute the schema forbids": lambda o: set_in(dashboard(o)["attributes"], "panels", []),
    "a data view without time field": lambda o: set_in(o[0]["attributes"], "timeFieldName", ""),
    "a data view's JSON as object": lambda o: set_in(o[0]["attributes"], "fieldFormatMap", {}),
    "no time range": lambda o: set_in(dashboard(o)["attributes"], "timeFrom", "yesterday"),
    "no description": lambda o: set_in(dashboard(o)["attributes"], "description", ""),
    "a dashboard's reference missing": lambda o: dashboard(o)["references"].pop(),
    "a dashboard's reference too many": lambda o: dashboard(o)["references"].append(
        {"type": "index-pattern", "name": "panel_x:indexpattern-datasource-layer-x", "id": o[0]["id"]}
    ),
    "a reference to what is not there": lambda o: set_in(dashboard(o)["references"][-1], "id", "elsewhere"),
    "a control of the other data view": lambda o: set_in(dashboard(o)["references"][-1], "id", o[1]["id"]),
    "a panel's own reference missing": lambda o: panel(o, CHART)["embeddableConfig"]["attributes"]["references"].pop(),
    "a panel's own reference elsewhere": lambda o: set_in(
        panel(o, CHART)["embeddableConfig"]["attributes"]["references"][0], "id", o[1]["id"]
    ),
    "two panels of one index": lambda o: set_in(panel(o, CHART), "panelIndex", panel(o, SPLIT)["panelIndex"]),
    "a panel's grid of another index": lambda o: set_in(panel(o, CHART)["gridData"], "i", "other"),
    "a panel off the grid": lambda o: set_in(panel(o, CHART)["gridData"], "x", 40),
    "panels that overlap": lambda o: panel(o, CHART)["gridData"].update(panel(o, FIGURE)["gridData"], i="service-time"),
    "a panel without version": lambda o: panel(o, CHART).pop("version"),
    "a panel without title": lambda o: set_in(panel(o, CHART), "title", ""),
    "a chart without unit": lambda o: set_in(state(o, CHART)["visualization"], "yTitle", ""),
    "an unknown visualization": lambda o: set_in(
        panel(o, CHART)["embeddableConfig"]["attributes"], "visualizationType", "lnsPie"
    ),
    "Lucene for KQL": lambda o: set_in(state(o, CHART)["query"], "language", "lucene"),
    "KQL with or": lambda o: set_in(state(o, CHART)["query"], "query", 'name : "service_time" or task : "plan"'),
    "KQL with a wildcard": lambda o: set_in(state(o, CHART)["query"], "query", "name : service*"),
    "a query that leaves warm-up in": lambda o: set_in(state(o, CHART)["query"], "query", 'name : "service_time"'),
    "a query without name": lambda o: set_in(state(o, CHART)["query"], "query", 'sample-type : "normal"'),
    "a filter beside the query": lambda o: state(o, CHART)["filters"].append({"query": {"match_all": {}}}),
    "a layer that is not drawn": lambda o: state(o, CHART)["visualization"]["layers"].pop(),
    "a layer drawn twice": lambda o: set_in(chart(o, CHART), "layerId", chart(o, CHART, 1)["layerId"]),
    "two layers with a column of one name": lambda o: (
        columns(o, CHART, 1)["columns"].update(
            x=columns(o, CHART, 1)["columns"].pop(columns(o, CHART, 1)["columnOrder"][0])
        ),
        columns(o, CHART)["columns"].update(x=columns(o, CHART)["columns"].pop(columns(o, CHART)["columnOrder"][0])),
        set_in(columns(o, CHART)["columnOrder"], 0, "x"),
        set_in(columns(o, CHART, 1)["columnOrder"], 0, "x"),
        chart(o, CHART).update(xAccessor="x"),
        chart(o, CHART, 1).update(xAccessor="x"),
    ),
    "a column that is not drawn": lambda o: chart(o, CHART, 1)["accessors"].pop(),
    "a column drawn that is not there": lambda o: chart(o, CHART)["accessors"].append("other"),
    "time drawn as metric": lambda o: chart(o, CHART).update(
        xAccessor=chart(o, CHART)["accessors"][0], accessors=[chart(o, CHART)["xAccessor"]]
    ),
    "a mark that Lens does not know": lambda o: set_in(chart(o, CHART), "seriesType", "bars"),
    "a table's column missing": lambda o: state(o, TABLE)["visualization"]["columns"].pop(),
    "a figure of no column": lambda o: set_in(state(o, FIGURE)["visualization"], "metricAccessor", "other"),
    "a column out of order": lambda o: columns(o, SPLIT)["columnOrder"].reverse(),
    "time before the breakdown": lambda o: columns(o, SPLIT).update(
        columnOrder=[columns(o, SPLIT)["columnOrder"][i] for i in (1, 0, 2)]
    ),
    "a column without order": lambda o: columns(o, SPLIT)["columnOrder"].pop(),
    "an operation Lens does not know": lambda o: set_in(column(o, CHART, "average"), "operationType", "avg"),
    "last_value": lambda o: set_in(column(o, CHART, "average"), "operationType", "last_value"),
    "a number of type string": lambda o: set_in(column(o, CHART, "average"), "dataType", "string"),
    "a metric called bucket": lambda o: set_in(column(o, CHART, "average"), "isBucketed", True),
    "a percentile of 100": lambda o: set_in(column(o, CHART, "percentile", 1)["params"], "percentile", 100),
    "a percentile by another's name": lambda o: set_in(column(o, P99, "percentile")["params"], "percentile", 95),
    "one percentile twice": lambda o: [
        set_in(c["params"], "percentile", 50)
        for c in columns(o, CHART, 1)["columns"].values()
        if c["operationType"] == "percentile"
    ],
    "a column without label": lambda o: set_in(column(o, CHART, "average"), "label", ""),
    "an average of documents": lambda o: set_in(column(o, SPLIT, "average"), "sourceField", "___records___"),
    "time by another field": lambda o: set_in(column(o, CHART, "date_histogram"), "sourceField", "race-timestamp"),
    "a rate without time": lambda o: set_in(column(o, TABLE, "count"), "timeScale", "s"),
    "a rate of an average": lambda o: set_in(column(o, CHART, "average"), "timeScale", "s"),
    "terms without size": lambda o: set_in(column(o, SPLIT, "terms")["params"], "size", 0),
    "terms with the others": lambda o: set_in(column(o, SPLIT, "terms")["params"], "otherBucket", True),
    "terms of several fields": lambda o: set_in(column(o, SPLIT, "terms")["params"], "secondaryFields", ["race-id"]),
    "terms by a column that is not there": lambda o: set_in(
        column(o, SPLIT, "terms")["params"], "orderBy", {"type": "column", "columnId": "other"}
    ),
    "a filtered column": lambda o: set_in(column(o, CHART, "average"), "filter", {"language": "kuery", "query": ""}),
    "a unit that Lens does not know": lambda o: set_in(column(o, CHART, "average")["params"]["format"], "id", "ms"),
    "no controls": lambda o: dashboard(o)["attributes"]["controlGroupInput"]["panelsJSON"].clear(),
    "a control of another id": lambda o: set_in(control(o)["explicitInput"], "id", "other"),
    "a control of a type Kibana does not know": lambda o: set_in(control(o), "type", "optionsList"),
    "two controls of one field": lambda o: set_in(control(o)["explicitInput"], "fieldName", "task"),
    "two controls in one place": lambda o: set_in(control(o), "order", 1),
    "a control with a value chosen": lambda o: control(o)["explicitInput"]["selectedOptions"].append("plan"),
    "controls that ignore the time range": lambda o: set_in(
        dashboard(o)["attributes"]["controlGroupInput"]["ignoreParentSettingsJSON"], "ignoreTimerange", True
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_file_is_found_out(name):
    objects = lens.load(TEXT)
    MUTATIONS[name](objects)
    assert objects != lens.load(TEXT), "the mutation changes nothing"
    assert check.problems(objects)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("\n", "", "is no JSON"),
        ('"timeFrom":', '"anyJSON":[],"timeFrom":', "is no text"),
        ('{"attributes"', '["attributes"', "is no JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_found_out(old, new, message):
    with pytest.raises(lens.LensError, match=message):
        lens.load(TEXT.replace(old, new, 1))


def aggregations(panel, selected=None):
    """What Lens asks for to draw a panel."""
    text = ndjson([Dashboard("d", "d", "d", content.METRICS, (), (panel,), "now-1d")])
    times = lens.TimeRange("2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z", 1800)
    return [layer.search(times, selected) for layer in lens.layers(lens.load(text))]


def panel_of(*metrics, buckets=()):
    kind = "chart" if buckets else "figure"
    return Panel(kind, "p", "p", {"name": "service_time", "task": "index-append"}, (Layer(metrics, buckets),), "y")


HISTOGRAM = {"field": "@timestamp", "fixed_interval": "1800s", "time_zone": "UTC", "min_doc_count": 1}
SUM, VALUE = Metric("sum", "sum", "meta.took"), {"sum": {"field": "meta.took"}}


@pytest.mark.parametrize(
    "recorded, panel, expected",
    [
        ("postgresql/duration/7.json", panel_of(Metric("a", "average", "value")), {"0": {"avg": {"field": "value"}}}),
        (
            "mysql/lens/7.json",
            panel_of(SUM, Metric("a", "average", "value"), buckets=(Time(),)),
            {"0": {"date_histogram": HISTOGRAM, "aggs": {"1": VALUE, "2": {"avg": {"field": "value"}}}}},
        ),
        (
            "mysql/lens/4a.json",
            panel_of(content.MEDIAN, buckets=(Time(),)),
            {
                "0": {
                    "date_histogram": HISTOGRAM,
                    "aggs": {"1": {"percentiles": {"field": "value", "percents": [50]}}},
                }
            },
        ),
        (
            "postgresql/duration/10.json",
            panel_of(content.LONGEST, buckets=(Terms("Task", "task", size=10, by=0),)),
            {
                "0": {
                    "terms": {"field": "task", "order": {"1": "desc"}, "size": 10},
                    "aggs": {"1": {"max": {"field": "value"}}},
                }
            },
        ),
        (
            "redis/11a.json",
            panel_of(SUM, buckets=(Time(), Terms("Task", "task", size=10, by=0))),
            {
                "0": {
                    "terms": {"field": "task", "order": {"2": "desc"}, "size": 10},
                    "aggs": {"1": {"date_histogram": HISTOGRAM, "aggs": {"2": VALUE}}, "2": VALUE},
                }
            },
        ),
    ],
)
def test_aggregations_have_the_shape_that_lens_sends(recorded, panel, expected):
    """``recorded`` names the request of Lens, in ``elastic/logs/workflows`` of elastic/rally-tracks, of this shape."""
    (body,) = aggregations(panel)
    assert body["aggs"] == expected


def test_percentiles_of_a_field_share_an_aggregation():
    """``optimizeEsAggs`` in Lens's ``percentile.tsx``: they go by the first one's name."""
    metrics = (content.MEDIAN, SUM, content.percentile(99), content.percentile(95, "meta.took"))
    (body,) = aggregations(panel_of(*metrics, buckets=(Terms("Task", "task", size=5, by=2),)))
    assert body["aggs"]["0"]["aggs"] == {
        "1": {"percentiles": {"field": "value", "percents": [50, 99]}},
        "2": VALUE,
        "4": {"percentiles": {"field": "meta.took", "percents": [95]}},
    }
    assert body["aggs"]["0"]["terms"]["order"] == {"1.99": "desc"}


def test_query_and_controls_are_filters_as_in_recorded_requests():
    """The envelope of all those requests; a query in two parts and a chosen value as in ``nginx`` and ``redis``."""
    (body,) = aggregations(panel_of(SUM), {"race-id": "first"})
    name, task = (
        {"bool": {"should": [{"match_phrase": {field: value}}], "minimum_should_match": 1}}
        for field, value in (("name", "service_time"), ("task", "index-append"))
    )
    times = {
        "format": "strict_date_optional_time",
        "gte": "2026-11-20T00:00:00.000Z",
        "lte": "2026-11-21T00:00:00.000Z",
    }
    filters = [{"bool": {"filter": [name, task]}}, {"match_phrase": {"race-id": "first"}}]
    assert body["query"] == {
        "bool": {
            "must": [],
            "filter": [*filters, {"range": {"@timestamp": times}}],
            "should": [],
            "must_not": [],
        }
    }
    assert {k: v for k, v in body.items() if k not in ("aggs", "query")} == {
        "size": 0,
        "script_fields": {},
        "stored_fields": ["*"],
        "runtime_mappings": {},
    }


@pytest.mark.parametrize(
    "kql",
    ["", "name", 'name: "a"', 'name : "a" or task : "b"', 'not name : "a"', 'name : "a*" and x', '(name : "a")'],
)
def test_kql_beyond_what_is_covered_is_refused(kql):
    with pytest.raises(lens.LensError):
        lens.clauses(kql)


def test_rows_are_those_of_the_response():
    panel = panel_of(
        Metric("rate", "sum", "meta.took", per_second=True),
        Metric("n", "count"),
        content.MEDIAN,
        content.percentile(99),
        buckets=(Time(), Terms("Task", "task")),
    )
    text = ndjson([Dashboard("d", "d", "d", content.METRICS, (), (panel,), "now-1d")])
    (layer,) = lens.layers(lens.load(text))
    bucket = {
        "key": 0,
        "key_as_string": "0",
        "doc_count": 3,
        "2": {"value": 500.0},
        "4": {"values": {"50.0": 1.0, "99.0": 2.0}},
    }
    response = {
        "hits": {"total": {"value": 3}},
        "aggregations": {"0": {"buckets": [{"key": "t", "1": {"buckets": [bucket]}, "doc_count": 3}]}},
    }
    (row,) = layer.rows(response, lens.TimeRange("", "", 10))
    assert list(row.values()) == ["t", "0", 50.0, 3, 1.0, 2.0]
