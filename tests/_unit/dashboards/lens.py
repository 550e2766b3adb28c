"""What Kibana's Lens asks Elasticsearch for, worked out from a saved dashboard; Kibana is not needed.

After ``to_expression.ts`` and the operation definitions of Lens 8.x, the KQL translation of kbn-es-query, and requests
of Lens that elastic/rally-tracks recorded (``elastic/logs/workflows``, ``tsdb_k8s_queries``). It covers the columns
that these dashboards use and raises on any other.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from _tools.dashboards.kibana import FILE
from _tools.dashboards.panels import RECORDS

CLAUSE = re.compile(r'([A-Za-z@][\w.@-]*) : "([^"\\*]+)"')
PLAIN = {"average": "avg", "max": "max", "min": "min", "sum": "sum"}


class LensError(Exception):
    """A part of a dashboard that is not understood here, and so not shown to work."""


def load(text: str) -> list[dict[str, Any]]:
    """The saved objects in an NDJSON file, with the JSON that Kibana keeps in strings decoded.

    :raises LensError: when a line is no JSON object.
    """
    objects = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = _decoded(json.loads(line))
        except ValueError as e:
            raise LensError(f"line {number} is no JSON: {e}") from None
        if not isinstance(found, dict):
            raise LensError(f"line {number} is no object")
        objects.append(found)
    return objects


def _decoded(value: Any) -> Any:
    """Kibana keeps what is named ``…JSON`` as text; anything else there fails."""
    if isinstance(value, dict):
        return {k: json.loads(_text(k, v)) if k.endswith("JSON") else _decoded(v) for k, v in value.items()}
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"[{key}] is no text")
    return value


def clauses(kql: str) -> list[tuple[str, str]]:
    """Field and value of each clause of a query in the part of KQL that these dashboards keep to.

    That part is ``field : "value"`` joined by ``and``: without wildcards, escapes, ranges and groups nothing depends on
    Kibana's parser.

    :raises LensError: for any other query.
    """
    matches = [CLAUSE.fullmatch(clause) for clause in kql.split(" and ")]
    if not all(matches):
        raise LensError(f'KQL [{kql}] is more than field : "value" joined by and')
    return [(m.group(1), m.group(2)) for m in matches if m]


def filters(kql: str) -> list[dict[str, Any]]:
    """A KQL query as Kibana translates it for keyword, number and boolean fields."""
    found = [
        {"bool": {"should": [{"match_phrase": {field: value}}], "minimum_should_match": 1}}
        for field, value in clauses(kql)
    ]
    return found if len(found) == 1 else [{"bool": {"filter": found}}]


@dataclass(frozen=True)
class TimeRange:
    """The time range of a dashboard.

    :param since: ISO 8601, as ``until``.
    :param seconds: length of a bucket. Kibana derives it from the time range and its setting histogram:barTarget.
    """

    since: str
    until: str
    seconds: int = 10


@dataclass(frozen=True)
class LensLayer:
    """One layer of a panel on a saved dashboard: one search.

    :param kql: the panel's query.
    :param columns: the layer's columns in order.
    """

    dashboard: str
    panel: str
    indices: str
    time_field: str
    kql: str
    columns: Mapping[str, dict[str, Any]]

    def search(self, times: TimeRange, selected: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The body of the search that Lens sends.

        :param selected: the value chosen in the control of each field.
        :raises LensError: for a column that is not covered here.
        """
        chosen = [{"match_phrase": {field: value}} for field, value in (selected or {}).items()]
        within = {"format": "strict_date_optional_time", "gte": times.since, "lte": times.until}
        query = [*filters(self.kql), *chosen, {"range": {self.time_field: within}}]
        return {
            "aggs": self._aggregations(times),
            "size": 0,
            "script_fields": {},
            "stored_fields": ["*"],
            "runtime_mappings": {},
            "query": {"bool": {"must": [], "filter": query, "should": [], "must_not": []}},
        }

    def buckets(self) -> list[str]:
        return [id for id, c in self.columns.items() if c["isBucketed"]]

    def _names(self) -> dict[str, str]:
        """Lens names an aggregation after its column's position; percentiles of one field share the first one's."""
        names: dict[str, str] = {}
        percentiles: dict[str, str] = {}
        for number, (id, column) in enumerate(self.columns.items()):
            names[id] = str(number)
            if column["operationType"] == "percentile":
                names[id] = percentiles.setdefault(column["sourceField"], str(number))
        return names

    def _metrics(self, names: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for id, column in self.columns.items():
            operation, field, name = column["operationType"], column["sourceField"], names[id]
            if operation == "percentile":
                body = found.setdefault(name, {"percentiles": {"field": field, "percents": []}})
                body["percentiles"]["percents"].append(column["params"]["percentile"])
            elif operation in PLAIN:
                found[name] = {PLAIN[operation]: {"field": field}}
            elif not column["isBucketed"] and (operation != "count" or field != RECORDS):
                raise LensError(f"operation [{operation}] of [{field}] is not covered")
        return found

    def _aggregations(self, times: TimeRange) -> dict[str, Any]:
        """Buckets nest in the order of the columns; a metric that orders values stands beside what is within them."""
        names = self._names()
        inner = metrics = self._metrics(names)
        for id in reversed(self.buckets()):
            column = self.columns[id]
            by = column["params"].get("orderBy", {}).get("columnId")
            ordering = {names[by]: metrics[names[by]]} if by and names[by] in metrics else {}
            within = {"aggs": inner | ordering} if inner or ordering else {}
            inner = {names[id]: self._bucket(column, names, times) | within}
        return inner

    def _bucket(self, column: dict[str, Any], names: dict[str, str], times: TimeRange) -> dict[str, Any]:
        operation, field, params = column["operationType"], column["sourceField"], column["params"]
        if operation == "date_histogram":
            interval = f"{times.seconds}s"
            body = {"field": field, "fixed_interval": interval, "time_zone": "UTC", "min_doc_count": 1}
            return {operation: body}
        if operation != "terms":
            raise LensError(f"operation [{operation}] is not covered")
        order = "_key"
        if params["orderBy"]["type"] == "column":
            by = self.columns[params["orderBy"]["columnId"]]
            order = "_count" if by["operationType"] == "count" else names[params["orderBy"]["columnId"]]
            if by["operationType"] == "percentile":
                order += f".{by['params']['percentile']}"
        return {operation: {"field": field, "order": {order: params["orderDirection"]}, "size": params["size"]}}

    def rows(self, response: dict[str, Any], times: TimeRange) -> list[dict[str, Any]]:
        """The table that Lens makes of a response and draws: a row per innermost bucket, with a value per column."""
        whole = response.get("aggregations", {}) | {"doc_count": response["hits"]["total"]["value"]}
        return list(self._rows(whole, self.buckets(), times))

    def _rows(self, found: dict[str, Any], buckets: list[str], times: TimeRange) -> Iterator[dict[str, Any]]:
        names = self._names()
        if not buckets:
            yield {id: _value(c, names[id], found, times) for id, c in self.columns.items() if not c["isBucketed"]}
            return
        id, *inner = buckets
        for bucket in found[names[id]]["buckets"]:
            for row in self._rows(bucket, inner, times):
                yield {id: bucket.get("key_as_string", bucket["key"])} | row


def _value(column: dict[str, Any], name: str, found: dict[str, Any], times: TimeRange) -> Any:
    if column["operationType"] == "count":
        value = found["doc_count"]
    elif column["operationType"] == "percentile":
        value = found[name]["values"][f"{float(column['params']['percentile'])}"]
    else:
        value = found[name]["value"]
    return value / times.seconds if "timeScale" in column and value is not None else value


def layers(objects: list[dict[str, Any]]) -> Iterator[LensLayer]:
    """All layers of all dashboards, with references followed as Kibana does when it loads them."""
    views = {o["id"]: o["attributes"] for o in objects if o["type"] == "index-pattern"}
    for dashboard in (o for o in objects if o["type"] == "dashboard"):
        references = {r["name"]: r["id"] for r in dashboard["references"]}
        for panel in dashboard["attributes"]["panelsJSON"]:
            state = panel["embeddableConfig"]["attributes"]["state"]
            for id, layer in state["datasourceStates"]["formBased"]["layers"].items():
                view = views[references[f"{panel['panelIndex']}:indexpattern-datasource-layer-{id}"]]
                yield LensLayer(
                    dashboard["id"],
                    panel["title"],
                    view["title"],
                    view["timeFieldName"],
                    state["query"]["query"],
                    {c: layer["columns"][c] for c in layer["columnOrder"]},
                )


def controls(objects: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The fields of each dashboard's controls."""
    found = {}
    for dashboard in (o for o in objects if o["type"] == "dashboard"):
        panels = dashboard["attributes"]["controlGroupInput"]["panelsJSON"].values()
        found[dashboard["id"]] = [p["explicitInput"]["fieldName"] for p in sorted(panels, key=lambda p: p["order"])]
    return found


def main() -> None:
    """Prints each panel's searches for the last hour."""
    for layer in layers(load(FILE.read_text())):
        print(f"{layer.dashboard}: {layer.panel}: GET {layer.indices}/_search")
        print(json.dumps(layer.search(TimeRange("now-1h", "now")), indent=1))


if __name__ == "__main__":
    main()
