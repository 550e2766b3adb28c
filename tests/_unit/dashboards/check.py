"""Says what is wrong with a file of dashboards, without Kibana.

What is allowed is what the dashboards of this track use, in the format of Kibana 8.9 (the schemas of its saved objects,
the operation definitions of Lens): anything else is a finding, so that nothing unknown passes. The shape of each object
is that of ``shape.json``; what follows here is how objects, panels, layers and columns fit together.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema

from _tools.dashboards.kibana import COLUMNS
from _tools.dashboards.panels import RECORDS

from .lens import LensError, LensLayer, clauses, controls, layers

SHAPE = json.loads(Path(__file__).with_name("shape.json").read_text())
WITH_WARMUP = "warm-up included"
TYPES = {
    "string": {"keyword"},
    "number": {"long", "integer", "short", "float", "double"},
    "boolean": {"boolean"},
    "date": {"date"},
}
"""The types of Elasticsearch behind each data type of Lens."""


def problems(objects: list[dict[str, Any]]) -> list[str]:
    """What is wrong with saved objects, as :func:`.lens.load` reads them: format, references, panels, queries."""
    if misshapen := list(jsonschema.Draft7Validator(SHAPE).iter_errors(objects)):
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in misshapen]
    found = [*_repeated("saved object", [f"{o['type']} {o['id']}" for o in objects])]
    found += _repeated("title", [o["attributes"]["title"] for o in objects])
    for dashboard in (o for o in objects if o["type"] == "dashboard"):
        found += [f"{dashboard['id']}: {text}" for text in _dashboard(dashboard, objects)]
    if found:
        return found
    panels = [(o["id"], p) for o in objects if o["type"] == "dashboard" for p in o["attributes"]["panelsJSON"]]
    described = {(id, p["title"]): p["embeddableConfig"]["attributes"]["description"] for id, p in panels}
    return [
        f"{layer.dashboard}: [{layer.panel}] {text}"
        for layer in layers(objects)
        for text in _layer(layer, described[layer.dashboard, layer.panel])
    ]


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


def _repeated(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{what} [{name}] stands {count} times"


def _dashboard(dashboard: dict[str, Any], objects: list[dict[str, Any]]) -> Iterator[str]:
    attributes = dashboard["attributes"]
    panels = attributes["panelsJSON"]
    yield from _references(dashboard, objects)
    yield from _controls(attributes["controlGroupInput"])
    yield from _repeated("panel", [p["panelIndex"] for p in panels])
    yield from _repeated("panel title", [p["title"] for p in panels])
    yield from _places([p["gridData"] for p in panels])
    for panel in panels:
        for text in _panel(panel):
            yield f"[{panel['title']}] {text}"


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
        if r["id"] not in views:
            yield f"reference [{r['name']}] to [{r['type']} {r['id']}], which is not in the file"


def _controls(group: dict[str, Any]) -> Iterator[str]:
    panels = group["panelsJSON"]
    if sorted(p["order"] for p in panels.values()) != list(range(len(panels))):
        yield "order of controls"
    yield from _repeated("control of field", [p["explicitInput"]["fieldName"] for p in panels.values()])
    for id, panel in panels.items():
        if panel["explicitInput"]["id"] != id:
            yield f"control [{id}] id"


def _places(places: list[dict[str, Any]]) -> Iterator[str]:
    taken: Counter[tuple[int, int]] = Counter()
    for p in places:
        if p["x"] + p["w"] > COLUMNS:
            yield f"panel [{p['i']}] is off the grid"
        taken.update((x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"]))
    if any(count > 1 for count in taken.values()):
        yield "panels overlap"


def _panel(panel: dict[str, Any]) -> Iterator[str]:
    lens = panel["embeddableConfig"]["attributes"]
    state, visualization = lens["state"], lens["state"]["visualization"]
    if panel["panelIndex"] != panel["gridData"]["i"]:
        yield "index"
    if panel["title"] != lens["title"]:
        yield "title"
    shown = visualization["layers"] if lens["visualizationType"] == "lnsXY" else [visualization]
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
    elif kind == "lnsMetric":
        buckets, metrics = [], [shown["metricAccessor"]]
    else:
        ids = [c["columnId"] for c in shown["columns"]]
        buckets = [id for id in ids if layer["columns"][id]["isBucketed"]]
        metrics = ids[len(buckets) :]
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
    if operation == "terms":
        order = params["orderBy"]
        by = layer.columns.get(order.get("columnId", ""))
        if order["type"] == "column" and (by is None or by["isBucketed"] or by["dataType"] == "date"):
            yield f"ordered by [{order['columnId']}], which is no metric of the layer"
    if operation == "date_histogram" and column["sourceField"] != layer.time_field:
        yield "time buckets"
    named = re.search(r"(\d+)th percentile", column["label"])
    if named and int(named.group(1)) != params.get("percentile"):
        yield f"label [{column['label']}] of another percentile"
    over_time = "date_histogram" in {c["operationType"] for c in layer.columns.values()}
    if "timeScale" in column and not over_time:
        yield "a rate takes a sum or count over time"
