"""Says what is wrong with a file of dashboards, without Kibana.

What is allowed is what the dashboards of this track use, in the format of Kibana 8.9 (the schemas of its saved objects,
the operation definitions of Lens): anything else is a finding, so that nothing unknown passes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .kibana import COLUMNS, FORMAT, VISUALIZATIONS
from .lens import LensError, LensLayer, clauses, controls, layers
from .panels import RECORDS

OBJECT_KEYS = {"type", "id", "attributes", "references", "coreMigrationVersion", "typeMigrationVersion", "managed"}
VERSIONS = {"index-pattern": "8.0.0", "dashboard": FORMAT}
ATTRIBUTES = {
    "index-pattern": {
        "title", "name", "timeFieldName", "allowNoIndex", "fieldAttrs", "fieldFormatMap", "fields", "runtimeFieldMap",
        "sourceFilters", "typeMeta",
    },
    "dashboard": {
        "title", "description", "panelsJSON", "optionsJSON", "controlGroupInput", "timeRestore", "timeFrom", "timeTo",
        "refreshInterval", "kibanaSavedObjectMeta", "version",
    },
}  # fmt: skip
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
DATE_MATH = re.compile(r"now(-\d+[mhd])?")
SERIES = {"bar", "bar_stacked", "line"}
FORMATS = {"number", "percent", "bytes"}
WITH_WARMUP = "warm-up included"
OPERATIONS = {
    "terms": {"string", "number", "boolean"},
    "date_histogram": {"date"},
    "count": {"number"},
    "average": {"number"},
    "percentile": {"number"},
    "sum": {"number"},
    "max": {"number", "date"},
    "min": {"number", "date"},
}
"""The data types that each operation of Lens may have here."""
TYPES = {
    "string": {"keyword"},
    "number": {"long", "integer", "short", "float", "double"},
    "boolean": {"boolean"},
    "date": {"date"},
}
"""The types of Elasticsearch behind each data type of Lens."""


def problems(objects: list[dict[str, Any]]) -> list[str]:
    """What is wrong with saved objects, as :func:`.lens.load` reads them: format, references, panels, queries."""
    found = [*_objects(objects)]
    for dashboard in (o for o in objects if o.get("type") == "dashboard"):
        try:
            found += [f"{dashboard['id']}: {text}" for text in _dashboard(dashboard, objects)]
        except (KeyError, TypeError, AttributeError, ValueError) as e:
            found.append(f"{dashboard.get('id')}: {type(e).__name__} {e}")
    return found


def field_problems(objects: list[dict[str, Any]], fields: dict[str, dict[str, Any]]) -> list[str]:
    """What the dashboards ask of fields that a store cannot give.

    :param fields: the ``fields`` of ``_field_caps`` by title of the data view.
    """
    found = []
    views = {
        o["attributes"]["title"]: o["attributes"]["timeFieldName"] for o in objects if o["type"] == "index-pattern"
    }
    for title, time_field in views.items():
        found += _field(title, time_field, {"date"}, fields)
    filtered = controls(objects)
    for layer in layers(objects):
        for column in layer.columns.values():
            if column["sourceField"] != RECORDS:
                found += _field(layer.indices, column["sourceField"], TYPES[column["dataType"]], fields)
        for field, _ in clauses(layer.kql):
            found += _field(layer.indices, field, TYPES["string"] | TYPES["boolean"], fields)
        for field in filtered[layer.dashboard]:
            found += _field(layer.indices, field, TYPES["string"], fields)
    return sorted(set(found))


def _field(indices: str, name: str, types: set[str], fields: dict[str, dict[str, Any]]) -> list[str]:
    caps = fields.get(indices, {}).get(name)
    if not caps:
        return [f"{indices} has no field [{name}]"]
    if not set(caps) <= types:
        return [f"field [{name}] of {indices} is {' and '.join(sorted(caps))}, not {' or '.join(sorted(types))}"]
    if not all(c["aggregatable"] for c in caps.values()):
        return [f"field [{name}] of {indices} cannot be aggregated"]
    return []


def _objects(objects: list[dict[str, Any]]) -> Iterator[str]:
    for o in objects:
        name = f"{o.get('type')} {o.get('id')}"
        if set(o) != OBJECT_KEYS:
            yield f"{name}: keys {sorted(set(o) ^ OBJECT_KEYS)}"
        if o.get("type") not in VERSIONS:
            yield f"{name}: unknown type"
            continue
        if o.get("typeMigrationVersion") != VERSIONS[o["type"]] or o.get("coreMigrationVersion") != "8.8.0":
            yield f"{name}: versions"
        if not ID.fullmatch(str(o.get("id"))):
            yield f"{name}: id"
        attributes = o.get("attributes", {})
        if set(attributes) != ATTRIBUTES[o["type"]]:
            yield f"{name}: attributes {sorted(set(attributes) ^ ATTRIBUTES[o['type']])}"
        if not attributes.get("title"):
            yield f"{name}: no title"
        if o["type"] == "index-pattern":
            if not attributes.get("timeFieldName"):
                yield f"{name}: no time field"
            if o.get("references"):
                yield f"{name}: references"
            texts = ("fieldAttrs", "fieldFormatMap", "fields", "runtimeFieldMap", "sourceFilters", "typeMeta")
            if not all(attributes.get(key) in ("{}", "[]") for key in texts):
                yield f"{name}: JSON that is no string"
    yield from _repeated("saved object", [f"{o.get('type')} {o.get('id')}" for o in objects])
    yield from _repeated("title", [str(o.get("attributes", {}).get("title")) for o in objects])


def _repeated(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{what} [{name}] stands {count} times"


def _dashboard(dashboard: dict[str, Any], objects: list[dict[str, Any]]) -> Iterator[str]:
    attributes = dashboard["attributes"]
    if not attributes["description"]:
        yield "no description"
    if not attributes["timeRestore"] or not all(DATE_MATH.fullmatch(attributes[k]) for k in ("timeFrom", "timeTo")):
        yield "time range"
    refresh = attributes["refreshInterval"]
    if set(refresh) != {"pause", "value"} or refresh["pause"] != (refresh["value"] == 0):
        yield "refresh interval"
    panels = attributes["panelsJSON"]
    yield from _references(dashboard, objects)
    yield from _controls(attributes["controlGroupInput"])
    yield from _repeated("panel", [p["panelIndex"] for p in panels])
    yield from _repeated("panel title", [p["title"] for p in panels])
    yield from _places([p["gridData"] for p in panels])
    for panel in panels:
        for text in _panel(panel):
            yield f"[{panel['title']}] {text}"
    descriptions = {p["title"]: p["embeddableConfig"]["attributes"]["description"] for p in panels}
    for layer in layers(objects):
        if layer.dashboard == dashboard["id"]:
            for text in _layer(layer, descriptions[layer.panel]):
                yield f"[{layer.panel}] {text}"


def _references(dashboard: dict[str, Any], objects: list[dict[str, Any]]) -> Iterator[str]:
    """Each reference that panels and controls need stands once, is of a data view in the file, and no other stands."""
    attributes = dashboard["attributes"]
    needed = {f"controlGroup_{id}:optionsListDataView" for id in attributes["controlGroupInput"]["panelsJSON"]}
    for panel in attributes["panelsJSON"]:
        lens = panel["embeddableConfig"]["attributes"]
        own = {f"indexpattern-datasource-layer-{id}" for id in lens["state"]["datasourceStates"]["formBased"]["layers"]}
        if {r["name"] for r in lens["references"]} != own:
            yield f"[{panel['title']}] references of its own"
        outer = {r["name"]: r for r in dashboard["references"]}
        for r in lens["references"]:
            name = f"{panel['panelIndex']}:{r['name']}"
            if outer.get(name) != r | {"name": name}:
                yield f"[{panel['title']}] reference [{name}] differs from the panel's"
        needed |= {f"{panel['panelIndex']}:{name}" for name in own}
    names = [r["name"] for r in dashboard["references"]]
    yield from _repeated("reference", names)
    if set(names) != needed:
        yield f"references {sorted(set(names) ^ needed)}"
    if len({r["id"] for r in dashboard["references"]}) > 1:
        yield "panels and controls of several data views: a control would filter what does not have its field"
    views = {o["id"] for o in objects if o["type"] == "index-pattern"}
    for r in dashboard["references"]:
        if r["type"] != "index-pattern" or r["id"] not in views:
            yield f"reference [{r['name']}] to [{r['type']} {r['id']}], which is not in the file"


def _controls(group: dict[str, Any]) -> Iterator[str]:
    panels = group["panelsJSON"]
    if group["chainingSystem"] != "HIERARCHICAL" or group["controlStyle"] != "oneLine":
        yield "control group"
    if not all(v is False for v in group["ignoreParentSettingsJSON"].values()):
        yield "controls ignore settings of the dashboard"
    if sorted(p["order"] for p in panels.values()) != list(range(len(panels))) or not panels:
        yield "order of controls"
    yield from _repeated("control of field", [p["explicitInput"]["fieldName"] for p in panels.values()])
    for id, panel in panels.items():
        given = panel["explicitInput"]
        if panel["type"] != "optionsListControl" or panel["width"] not in ("small", "medium", "large"):
            yield f"control [{id}] type or width"
        if given["id"] != id or not ID.fullmatch(id):
            yield f"control [{id}] id"
        if not given["title"] or given["selectedOptions"]:
            yield f"control [{id}] title or selection"


def _places(places: list[dict[str, Any]]) -> Iterator[str]:
    taken: Counter[tuple[int, int]] = Counter()
    for p in places:
        if p["x"] < 0 or p["y"] < 0 or p["w"] < 1 or p["h"] < 1 or p["x"] + p["w"] > COLUMNS:
            yield f"panel [{p['i']}] is off the grid"
        taken.update((x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"]))
    if any(count > 1 for count in taken.values()):
        yield "panels overlap"


def _panel(panel: dict[str, Any]) -> Iterator[str]:
    lens = panel["embeddableConfig"]["attributes"]
    state, visualization = lens["state"], lens["state"]["visualization"]
    if panel["type"] != "lens" or lens["type"] != "lens" or panel["version"] != FORMAT:
        yield "type or version"
    if panel["panelIndex"] != panel["gridData"]["i"] or not ID.fullmatch(panel["panelIndex"]):
        yield "index"
    if not panel["title"] or panel["title"] != lens["title"] or not lens["description"]:
        yield "title or description"
    if lens["visualizationType"] not in VISUALIZATIONS.values():
        yield f"visualization [{lens['visualizationType']}]"
        return
    if state["filters"] or state["internalReferences"] or state["adHocDataViews"]:
        yield "filters or data views of its own"
    if state["query"]["language"] != "kuery":
        yield f"language [{state['query']['language']}]"
    if lens["visualizationType"] == "lnsXY":
        if not visualization["yTitle"]:
            yield "vertical axis without title"
        shown = visualization["layers"]
    else:
        shown = [visualization]
    columns = state["datasourceStates"]["formBased"]["layers"]
    if sorted(s["layerId"] for s in shown) != sorted(columns):
        yield "layers drawn are not the layers asked for"
        return
    yield from _repeated("column", [id for layer in columns.values() for id in layer["columns"]])
    for layer in shown:
        yield from _roles(lens["visualizationType"], layer, columns[layer["layerId"]])


def _query(layer: LensLayer, description: str) -> Iterator[str]:
    """Samples need their name, and warm-up is left out unless the panel says otherwise."""
    try:
        found = clauses(layer.kql)
    except LensError as e:
        yield str(e)
        return
    yield from _repeated("query of field", [field for field, _ in found])
    if layer.time_field == "@timestamp":
        asked = dict(found)
        if "name" not in asked:
            yield "asks for samples of any name"
        if asked.get("sample-type") != "normal" and WITH_WARMUP not in description:
            yield f"leaves warm-up in and does not say [{WITH_WARMUP}]"


def _roles(kind: str, shown: dict[str, Any], layer: dict[str, Any]) -> Iterator[str]:
    """Each column is drawn once, buckets as axis, breakdown or row, metrics as the rest."""
    if kind == "lnsXY":
        buckets = [shown[key] for key in ("xAccessor", "splitAccessor") if key in shown]
        metrics = shown["accessors"]
        if shown["seriesType"] not in SERIES or not metrics:
            yield f"marks [{shown['seriesType']}]"
    elif kind == "lnsMetric":
        buckets, metrics = [], [shown["metricAccessor"]]
    else:
        ids = [c["columnId"] for c in shown["columns"]]
        buckets = [id for id in ids if layer["columns"][id]["isBucketed"]]
        metrics = ids[len(buckets) :]
    if shown["layerType"] != "data":
        yield f"layer type [{shown['layerType']}]"
    if sorted([*buckets, *metrics]) != sorted(layer["columns"]) or sorted(layer["columns"]) != sorted(
        layer["columnOrder"]
    ):
        yield "columns drawn are not the columns asked for"
        return
    if not all(layer["columns"][id]["isBucketed"] for id in buckets) or any(
        layer["columns"][id]["isBucketed"] for id in metrics
    ):
        yield "a bucket is drawn as metric or a metric as bucket"


def _layer(layer: LensLayer, description: str) -> Iterator[str]:
    yield from _query(layer, description)
    operations = [c["operationType"] for c in layer.columns.values()]
    bucketed = [c["isBucketed"] for c in layer.columns.values()]
    if bucketed != sorted(bucketed, reverse=True):
        yield "a metric stands before a bucket"
    if "date_histogram" in operations and "terms" in operations[operations.index("date_histogram") :]:
        yield "values stand after time: top values would be those of each bucket"
    metrics = [
        f"{c['operationType']} {c['sourceField']} {c['params'].get('percentile')}" for c in layer.columns.values()
    ]
    yield from _repeated("column", metrics)
    yield from _repeated("label", [c["label"] for c in layer.columns.values()])
    for id, column in layer.columns.items():
        for text in _column(column, layer):
            yield f"column [{id}] {text}"


def _column(column: dict[str, Any], layer: LensLayer) -> Iterator[str]:
    operation, params = column["operationType"], column["params"]
    if operation not in OPERATIONS:
        yield f"operation [{operation}]"
        return
    if column["dataType"] not in OPERATIONS[operation]:
        yield f"{operation} of data type [{column['dataType']}]"
    if column["isBucketed"] != (operation in ("terms", "date_histogram")):
        yield "isBucketed"
    if not column["label"] or not column["customLabel"]:
        yield "label"
    if not column["sourceField"] or (column["sourceField"] == RECORDS) != (operation == "count"):
        yield "field"
    if unknown := set(column) & {"filter", "timeShift", "reducedTimeRange", "references"}:
        yield f"{unknown} is not covered"
    if operation == "terms":
        yield from _terms(params, layer)
    elif operation == "date_histogram":
        if column["sourceField"] != layer.time_field or params["interval"] != "auto" or params["includeEmptyRows"]:
            yield "time buckets"
    elif column["dataType"] == "number" and params["format"]["id"] not in FORMATS:
        yield f"format [{params['format']['id']}]"
    if operation == "percentile" and params["percentile"] not in range(1, 100):
        yield f"percentile [{params['percentile']}], Lens takes 1 to 99"
    named = re.search(r"(\d+)th percentile", column["label"])
    if named and int(named.group(1)) != params.get("percentile"):
        yield f"label [{column['label']}] of another percentile"
    if "timeScale" in column and (
        column["timeScale"] != "s"
        or operation not in ("sum", "count")
        or "date_histogram" not in {c["operationType"] for c in layer.columns.values()}
    ):
        yield "a rate takes a sum or count over time"


def _terms(params: dict[str, Any], layer: LensLayer) -> Iterator[str]:
    if params["size"] not in range(1, 1001):
        yield f"size [{params['size']}], Lens takes 1 to 1000"
    if params["otherBucket"] or params["missingBucket"] or params.get("secondaryFields"):
        yield "other or missing values or several fields are not covered"
    if params["include"] or params["exclude"] or params["includeIsRegex"] or params["excludeIsRegex"]:
        yield "included or excluded values are not covered"
    order = params["orderBy"]
    by = layer.columns.get(order.get("columnId", ""))
    if order["type"] == "column" and (by is None or by["isBucketed"] or by["dataType"] == "date"):
        yield f"ordered by [{order['columnId']}], which is no metric of the layer"
    if order["type"] not in ("column", "alphabetical") or params["orderDirection"] not in ("asc", "desc"):
        yield "order"
