"""Turns dashboards into Kibana's saved objects, one JSON document a line.

The format is that of Kibana 8.9: ``typeMigrationVersion`` and the version of each panel tell newer ones to bring it up
to date when they import it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .panels import Bucket, Dashboard, DataView, Layer, Metric, Panel, Time

FILE = Path(__file__).parents[2] / "kibana" / "dashboards.ndjson"
FORMAT = "8.9.0"
COLUMNS = 48
REFRESH_MS = 30_000
"""Between refreshes once somebody starts them; Rally writes its samples every 30 s."""
NO_QUERY: dict[str, Any] = {"query": {"language": "kuery", "query": ""}, "filter": []}
VISUALIZATIONS = {"figure": "lnsMetric", "chart": "lnsXY", "table": "lnsDatatable"}


def ndjson(dashboards: Iterable[Dashboard]) -> str:
    """The dashboards and their data views as a file that Kibana's import takes; always the same bytes."""
    dashboards = list(dashboards)
    views = {d.data_view.id: d.data_view for d in dashboards}
    objects = [*map(_data_view, views.values()), *map(_dashboard, dashboards)]
    return "".join(_json(o) + "\n" for o in objects)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def slug(text: str) -> str:
    """A name as an id, in which Kibana allows neither colon nor underscore."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def kql(where: dict[str, str]) -> str:
    return " and ".join(f'{field} : "{value}"' for field, value in where.items())


def _object(kind: str, id: str, version: str, attributes: dict[str, Any], references: list[Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "id": id,
        "attributes": attributes,
        "references": references,
        "coreMigrationVersion": "8.8.0",
        "typeMigrationVersion": version,
        "managed": False,
    }


def _data_view(view: DataView) -> dict[str, Any]:
    attributes = {
        "title": view.indices,
        "name": view.name,
        "timeFieldName": view.time_field,
        "allowNoIndex": True,
        "fieldAttrs": "{}",
        "fieldFormatMap": "{}",
        "fields": "[]",
        "runtimeFieldMap": "{}",
        "sourceFilters": "[]",
        "typeMeta": "{}",
    }
    return _object("index-pattern", view.id, "8.0.0", attributes, [])


def _reference(name: str, view: DataView) -> dict[str, str]:
    return {"type": "index-pattern", "name": name, "id": view.id}


def _dashboard(dashboard: Dashboard) -> dict[str, Any]:
    panels, references = [], []
    for panel, place in _placed(dashboard.panels):
        attributes = _lens(panel, dashboard.data_view)
        index = slug(panel.title)
        panels.append(
            {
                "type": "lens",
                "version": FORMAT,
                "panelIndex": index,
                "title": panel.title,
                "gridData": place | {"i": index},
                "embeddableConfig": {"attributes": attributes, "enhancements": {}},
            }
        )
        references += [r | {"name": f"{index}:{r['name']}"} for r in attributes["references"]]
    controls = {slug(title): (title, field) for title, field in dashboard.controls}
    references += [_reference(f"controlGroup_{c}:optionsListDataView", dashboard.data_view) for c in controls]
    attributes = {
        "title": dashboard.title,
        "description": dashboard.description,
        "panelsJSON": _json(panels),
        "optionsJSON": _json({"useMargins": True, "hidePanelTitles": False, "syncColors": True, "syncCursor": True}),
        "controlGroupInput": _controls(controls),
        "timeRestore": True,
        "timeFrom": dashboard.since,
        "timeTo": "now",
        "refreshInterval": {"pause": True, "value": REFRESH_MS},
        "kibanaSavedObjectMeta": {"searchSourceJSON": _json(NO_QUERY)},
        "version": 1,
    }
    return _object("dashboard", dashboard.id, FORMAT, attributes, references)


def _placed(panels: Iterable[Panel]) -> Iterator[tuple[Panel, dict[str, int]]]:
    """Fills rows from left to right; a row is as high as its highest panel."""
    x = y = height = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        yield panel, {"x": x, "y": y, "w": panel.width, "h": panel.height}
        x, height = x + panel.width, max(height, panel.height)


def _controls(controls: dict[str, tuple[str, str]]) -> dict[str, Any]:
    panels = {
        id: {
            "type": "optionsListControl",
            "order": order,
            "grow": True,
            "width": "medium",
            "explicitInput": {"id": id, "fieldName": field, "title": title, "selectedOptions": [], "enhancements": {}},
        }
        for order, (id, (title, field)) in enumerate(controls.items())
    }
    ignored = {f"ignore{what}": False for what in ("Filters", "Query", "Timerange", "Validations")}
    return {
        "controlStyle": "oneLine",
        "chainingSystem": "HIERARCHICAL",
        "ignoreParentSettingsJSON": _json(ignored),
        "panelsJSON": _json(panels),
    }


def _lens(panel: Panel, view: DataView) -> dict[str, Any]:
    layers = {f"{slug(panel.title)}-{number}": layer for number, layer in enumerate(panel.layers, 1)}
    shown = {"figure": _figure, "chart": _chart, "table": _table}[panel.kind]
    return {
        "title": panel.title,
        "description": panel.description,
        "type": "lens",
        "visualizationType": VISUALIZATIONS[panel.kind],
        "references": [_reference(f"indexpattern-datasource-layer-{id}", view) for id in layers],
        "state": {
            "datasourceStates": {"formBased": {"layers": {id: _columns(id, layer) for id, layer in layers.items()}}},
            "visualization": shown(panel, layers),
            "query": {"language": "kuery", "query": kql(panel.where)},
            "filters": [],
            "internalReferences": [],
            "adHocDataViews": {},
        },
    }


def _ids(layer_id: str, columns: Iterable[Metric | Bucket]) -> list[str]:
    return [f"{layer_id}-{slug(column.label)}" for column in columns]


def _columns(layer_id: str, layer: Layer) -> dict[str, Any]:
    """The columns of a layer. Values stand before time, so that the top values are those of the whole time range."""
    metrics = dict(zip(_ids(layer_id, layer.metrics), map(_metric, layer.metrics)))
    buckets = {id: _bucket(b, list(metrics)) for id, b in zip(_ids(layer_id, layer.buckets), layer.buckets)}
    order = sorted(buckets, key=lambda id: buckets[id]["operationType"] == "date_histogram")
    return {"columns": buckets | metrics, "columnOrder": [*order, *metrics], "incompleteColumns": {}}


def _bucket(bucket: Bucket, metrics: list[str]) -> dict[str, Any]:
    column = {"label": bucket.label, "customLabel": True, "isBucketed": True, "sourceField": bucket.field}
    if isinstance(bucket, Time):
        params: dict[str, Any] = {"interval": "auto", "includeEmptyRows": False, "dropPartials": False}
        return column | {"operationType": "date_histogram", "dataType": "date", "scale": "interval", "params": params}
    order: dict[str, Any] = {"orderBy": {"type": "alphabetical", "fallback": False}, "orderDirection": "asc"}
    if bucket.by is not None:
        order = {"orderBy": {"type": "column", "columnId": metrics[bucket.by]}, "orderDirection": "desc"}
    params = order | {
        "size": bucket.size,
        "otherBucket": False,
        "missingBucket": False,
        "parentFormat": {"id": "terms"},
        "include": [],
        "exclude": [],
        "includeIsRegex": False,
        "excludeIsRegex": False,
    }
    return column | {"operationType": "terms", "dataType": bucket.type, "scale": "ordinal", "params": params}


def _metric(metric: Metric) -> dict[str, Any]:
    params: dict[str, Any] = {}
    if not metric.is_date:
        kinds = {"bytes": "bytes", "%": "percent"}
        suffix = {} if metric.unit in ("", *kinds) else {"suffix": f" {metric.unit}"}
        params["format"] = {"id": kinds.get(metric.unit, "number"), "params": {"decimals": metric.decimals} | suffix}
    if metric.percentile is not None:
        params["percentile"] = metric.percentile
    if metric.operation in ("sum", "count"):
        params["emptyAsNull"] = False
    column = {
        "label": metric.label,
        "customLabel": True,
        "isBucketed": False,
        "operationType": metric.operation,
        "sourceField": metric.field,
        "dataType": "date" if metric.is_date else "number",
        "scale": "ratio",
        "params": params,
    }
    return column | {"timeScale": "s"} if metric.per_second else column


def _figure(panel: Panel, layers: dict[str, Layer]) -> dict[str, Any]:
    ((id, layer),) = layers.items()
    (metric,) = _ids(id, layer.metrics)
    return {"layerId": id, "layerType": "data", "metricAccessor": metric}


def _table(panel: Panel, layers: dict[str, Layer]) -> dict[str, Any]:
    ((id, layer),) = layers.items()
    columns = [{"columnId": c} for c in _ids(id, [*layer.buckets, *layer.metrics])]
    return {"layerId": id, "layerType": "data", "columns": columns, "paging": {"enabled": True, "size": 30}}


def _chart(panel: Panel, layers: dict[str, Layer]) -> dict[str, Any]:
    shown = [
        {"layerId": id, "layerType": "data", "seriesType": layer.marks, "accessors": _ids(id, layer.metrics)}
        | dict(zip(("xAccessor", "splitAccessor"), _ids(id, layer.buckets)))
        for id, layer in layers.items()
    ]
    return {
        "layers": shown,
        "preferredSeriesType": shown[0]["seriesType"],
        "legend": {"isVisible": True, "showSingleSeries": True, "position": "right"},
        "valueLabels": "hide",
        "fittingFunction": "None",
        "yTitle": panel.axis,
        "axisTitlesVisibilitySettings": {"x": False, "yLeft": True, "yRight": False},
    }
