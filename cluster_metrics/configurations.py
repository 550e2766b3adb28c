"""The configurations of query-frontier as data: the production query with one thing changed, and some combinations.

Each answers the production question (percentiles and sums of every node in one epoch) at another cost and, some, with
another error.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from . import smile
from .answers import PERCENTS
from .corpus import FIELDS, NAME
from .esql import esql_request
from .queries import Request

FORMS = ("serial", "msearch", "concurrent", "terms", "filters", "esql", "rollup")


@dataclass(frozen=True)
class Configuration:
    """One way to answer the production question.

    :param change: what differs from the production query.
    :param price: what one pays for it besides the error.
    :param algorithm: merged into the percentiles aggregations.
    :param probability: of ``random_sampler`` around the aggregations; None for all documents.
    :param form: ``serial`` and ``concurrent`` send a search per node, one at a time or on ``parallel`` connections;
        ``msearch`` bundles them, ``parallel`` at a time (0: Elasticsearch's default); ``terms`` and ``filters`` ask for
        all nodes in one search, ``esql`` in one ES|QL query; ``rollup`` reads a document per node and epoch that the
        ingesting client wrote.
    :param layout: of the index that is asked, see ``LAYOUTS``.
    :param smile: what is SMILE in place of JSON: ``request``, or ``both`` with the response; empty for none.
    """

    change: str
    price: str = "none"
    algorithm: dict[str, Any] = field(default_factory=dict)
    probability: float | None = None
    form: str = "serial"
    parallel: int = 0
    layout: str = ""
    smile: str = ""

    @property
    def index(self) -> str:
        return f"{NAME}-{self.layout}" if self.layout else NAME


@dataclass(frozen=True)
class Layout:
    """Another index with the same documents.

    :param settings: of the index.
    :param merged: whether it is force-merged like the production index.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    merged: bool = True


LAYOUTS = {
    "unmerged": Layout(merged=False),
    "shards-2": Layout({"index.number_of_shards": 2}),
    "shards-4": Layout({"index.number_of_shards": 4}),
    "sorted": Layout({"index.sort.field": ["epoch", "node"]}),
    "rollup": Layout(),
}
BASE = "production"
_REINDEX = "another index layout"
_SAMPLED = "sampled answers"
_SMILE = "a client that speaks SMILE"


def _hdr(digits: int) -> dict[str, Any]:
    return {"hdr": {"number_of_significant_value_digits": digits}}


CONFIGURATIONS = {
    BASE: Configuration("D_td-serial as it is"),
    "compression-200": Configuration("t-digest compression 200", algorithm={"tdigest": {"compression": 200}}),
    "compression-1000": Configuration("t-digest compression 1000", algorithm={"tdigest": {"compression": 1000}}),
    "high-accuracy": Configuration(
        "t-digest execution_hint high_accuracy", algorithm={"tdigest": {"execution_hint": "high_accuracy"}}
    ),
    **{f"hdr-{n}": Configuration(f"HDR, {n} digits", "no negative values", _hdr(n)) for n in range(1, 6)},
    **{f"sampler-{p}": Configuration(f"random_sampler {p}", _SAMPLED, probability=p) for p in (0.5, 0.1, 0.01)},
    "terms": Configuration("one search, terms on node", form="terms"),
    "filters": Configuration("one search, filters by node", form="filters"),
    "esql": Configuration("one ES|QL query, STATS BY node", "another query language", form="esql"),
    **{
        f"concurrent-{k}": Configuration(f"single searches on {k} connections", form="concurrent", parallel=k)
        for k in (2, 4, 8)
    },
    "msearch": Configuration("msearch", form="msearch"),
    **{f"msearch-{k}": Configuration(f"msearch, {k} at a time", form="msearch", parallel=k) for k in (1, 2, 4)},
    "unmerged": Configuration("segments as the load left them", "none; no force-merge", layout="unmerged"),
    "shards-2": Configuration("2 shards", _REINDEX, layout="shards-2"),
    "shards-4": Configuration("4 shards", _REINDEX, layout="shards-4"),
    "sorted": Configuration("index sorted by epoch and node", "slower indexing", layout="sorted"),
    "rollup": Configuration("rollup written at ingest", "client-side percentiles", form="rollup", layout="rollup"),
    "smile-request": Configuration("requests in SMILE", _SMILE, smile="request"),
    "smile": Configuration("requests and responses in SMILE", _SMILE, smile="both"),
    "msearch+smile-request": Configuration("msearch, request in SMILE", _SMILE, form="msearch", smile="request"),
    "msearch+smile": Configuration("msearch, request and response in SMILE", _SMILE, form="msearch", smile="both"),
    "msearch+hdr-3": Configuration("msearch, HDR 3 digits", "no negative values", _hdr(3), form="msearch"),
    "msearch+hdr-2": Configuration("msearch, HDR 2 digits", "no negative values", _hdr(2), form="msearch"),
    "msearch+sorted": Configuration("msearch, sorted index", "slower indexing", form="msearch", layout="sorted"),
    "msearch+sorted+hdr-3": Configuration(
        "msearch, sorted index, HDR 3 digits",
        "slower indexing, no negative values",
        _hdr(3),
        form="msearch",
        layout="sorted",
    ),
    "msearch+sampler-0.1": Configuration("msearch, random_sampler 0.1", _SAMPLED, probability=0.1, form="msearch"),
    "msearch+sorted+sampler-0.1": Configuration(
        "msearch, sorted index, random_sampler 0.1",
        f"{_SAMPLED}, slower indexing",
        probability=0.1,
        form="msearch",
        layout="sorted",
    ),
}


def _aggregations(configuration: Configuration, nodes: list[str]) -> dict[str, Any]:
    percentiles = {"percents": list(PERCENTS), **configuration.algorithm}
    aggregations: dict[str, Any] = {f"{f}_pct": {"percentiles": {"field": f, **percentiles}} for f in FIELDS}
    aggregations |= {f"{f}_sum": {"sum": {"field": f}} for f in FIELDS}
    if configuration.form == "terms":
        aggregations = {"by_node": {"terms": {"field": "node", "size": len(nodes)}, "aggs": aggregations}}
    elif configuration.form == "filters":
        filters = {"filters": {node: {"term": {"node": node}} for node in nodes}}
        aggregations = {"by_node": {"filters": filters, "aggs": aggregations}}
    if configuration.probability:
        sampler = {"probability": configuration.probability, "seed": 42}
        aggregations = {"sample": {"random_sampler": sampler, "aggs": aggregations}}
    return aggregations


def _esql(configuration: Configuration, nodes: list[str], epoch: int) -> str:
    percentiles = [f"{f}_p{p} = PERCENTILE({f}, {p})" for f in FIELDS for p in PERCENTS]
    columns = ", ".join([*percentiles, *(f"{f}_sum = SUM({f})" for f in FIELDS)])
    source = f'FROM "{configuration.index}" | WHERE epoch == {epoch}'
    return f"{source} | STATS {columns} BY node | LIMIT {len(nodes)}"


def _from_columns(response: dict) -> dict[str, dict]:
    """The rows of an ES|QL answer, by node, as a search would have it."""
    names = [column["name"] for column in response["columns"]]
    found = {}
    for row in (dict(zip(names, values)) for values in response["values"]):
        aggregations: dict[str, Any] = {f"{f}_sum": {"value": row[f"{f}_sum"]} for f in FIELDS}
        aggregations |= {f"{f}_pct": {"values": {str(p): row[f"{f}_p{p}"] for p in PERCENTS}} for f in FIELDS}
        found[row["node"]] = aggregations
    return found


def requests_of(configuration: Configuration, nodes: list[str], epoch: int) -> list[Request]:
    """The requests of one coverage."""
    if configuration.form == "esql":
        return [esql_request(_esql(configuration, nodes, epoch))]
    of_epoch = {"term": {"epoch": epoch}}
    if configuration.form == "rollup":
        bodies = [{"size": len(nodes), "query": {"bool": {"filter": [of_epoch]}}}]
    elif configuration.form in ("terms", "filters"):
        query = {"bool": {"filter": [of_epoch]}}
        bodies = [{"size": 0, "query": query, "aggs": _aggregations(configuration, nodes)}]
    else:
        aggregations = _aggregations(configuration, nodes)
        filters = ([{"term": {"node": n}}, of_epoch] for n in nodes)
        bodies = [{"size": 0, "query": {"bool": {"filter": f}}, "aggs": aggregations} for f in filters]
    encode, end = (smile.encode, smile.SEPARATOR) if configuration.smile else (json_bytes, b"\n")
    accept = smile.CONTENT_TYPE if configuration.smile == "both" else "application/json"
    if configuration.form != "msearch":
        path = f"/{configuration.index}/_search?request_cache=false"
        content_type = smile.CONTENT_TYPE if configuration.smile else "application/json"
        return [Request(path, content_type, encode(body), accept) for body in bodies]
    header = encode({"index": configuration.index, "request_cache": False})
    limit = f"?max_concurrent_searches={configuration.parallel}" if configuration.parallel else ""
    content_type = smile.CONTENT_TYPE if configuration.smile else "application/x-ndjson"
    lines = b"".join(header + end + encode(body) + end for body in bodies)
    return [Request(f"/_msearch{limit}", content_type, lines, accept)]


def decoded(configuration: Configuration, response: bytes) -> Any:
    """The value of a response."""
    return smile.decode(response) if configuration.smile == "both" else json.loads(response)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def answers_in(configuration: Configuration, nodes: list[str], responses: list[dict]) -> dict[str, dict]:
    """The aggregations of each node, whatever form the responses have."""
    if configuration.form == "rollup":
        sources = (hit["_source"] for hit in responses[0]["hits"]["hits"])
        return {source["node"]: source["aggregations"] for source in sources}
    if configuration.form == "esql":
        return _from_columns(responses[0])
    found = [response["aggregations"] for response in responses]
    if configuration.probability:
        found = [aggregations["sample"] for aggregations in found]
    if configuration.form == "terms":
        return {bucket["key"]: bucket for bucket in found[0]["by_node"]["buckets"]}
    if configuration.form == "filters":
        return found[0]["by_node"]["buckets"]
    return dict(zip(nodes, found))
