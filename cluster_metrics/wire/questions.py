"""The production question as requests, in every way in which it is asked: one builder for all.

The question is of percentiles and sums of every node in one epoch. A *coverage* asks it once, by as many searches as
the corpus has nodes, or by fewer requests that together ask the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..corpus.answers import PERCENTS
from ..corpus.metrics import FIELDS, NAME
from . import smile
from .esql import esql_request
from .requests import Request

TRANSPORTS = ("serial", "msearch")
VISITED = "visited"
VISIT = {"aggs": {VISITED: {"missing": {"field": "no_such_field"}}}}
"""Makes a search visit every document it matches and do next to nothing with it: all of them lack the field."""
HDR = {"hdr": {"number_of_significant_value_digits": 3}}


@dataclass(frozen=True)
class Configuration:
    """One way to ask the production question, or a part of it.

    :param name: of the configuration, as its samples carry it.
    :param text: what it is, in words.
    :param percentiles: merged into the percentiles aggregations; empty for Elasticsearch's default, t-digest; None
        leaves them out.
    :param summed: the fields whose sums are asked for.
    :param probability: of ``random_sampler`` around the aggregations; 0 for all documents.
    :param form: ``serial`` and ``concurrent`` send a search per node, one at a time or on ``parallel`` connections;
        ``msearch`` bundles them, ``parallel`` at a time (0: Elasticsearch's default); ``terms`` and ``filters`` ask for
        all nodes in one search, ``esql`` in one ES|QL query; ``rollup`` reads a document per node and epoch that the
        ingesting client wrote.
    :param layout: of the index that is asked; empty for the production index.
    :param smile: what is SMILE in place of JSON: ``request``, or ``both`` with the response; empty for none.
    :param price: what one pays for it besides the error.
    :param reference: figures of the report that the track came from, by name.
    :param ranked: the fields whose percentiles are asked for, unless there are none.
    :param more: further keys of each search.
    """

    name: str
    text: str
    percentiles: dict[str, Any] | None = field(default_factory=dict)
    summed: tuple[str, ...] = FIELDS
    probability: float = 0
    form: str = "serial"
    parallel: int = 0
    layout: str = ""
    smile: str = ""
    price: str = "none"
    reference: Mapping[str, float] = field(default_factory=dict)
    ranked: tuple[str, ...] = FIELDS
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def index(self) -> str:
        return f"{NAME}-{self.layout}" if self.layout else NAME

    @property
    def algorithm(self) -> str | None:
        """Of the percentiles: ``hdr``, ``tdigest`` or None when none are asked for."""
        return None if self.percentiles is None else "hdr" if "hdr" in self.percentiles else "tdigest"

    def by(self, transport: str, parallel: int = 0) -> "Configuration":
        """The same by a transport, as the configuration ``<name>-<transport>``."""
        return replace(self, name=f"{self.name}-{transport}", form=transport, parallel=parallel)

    def aggregations(self, nodes: Sequence[str] = ()) -> dict[str, Any]:
        """What it asks of the documents of a node, or of all ``nodes`` where its form asks for them at once."""
        found: dict[str, Any] = {}
        if self.percentiles is not None:
            options = {"percents": list(PERCENTS), **self.percentiles}
            found |= {f"{name}_pct": {"percentiles": {"field": name, **options}} for name in self.ranked}
        found |= {f"{name}_sum": {"sum": {"field": name}} for name in self.summed}
        if self.form == "terms":
            found = {"by_node": {"terms": {"field": "node", "size": len(nodes)}, "aggs": found}}
        elif self.form == "filters":
            filters = {"filters": {node: {"term": {"node": node}} for node in nodes}}
            found = {"by_node": {"filters": filters, "aggs": found}}
        if self.probability:
            found = {"sample": {"random_sampler": {"probability": self.probability, "seed": 42}, "aggs": found}}
        return found

    def bodies(self, nodes: Sequence[str], epoch: int, **more: Any) -> list[dict[str, Any]]:
        """The searches of one coverage; as ``D_td`` to the letter those of production.

        :param more: further keys of each search.
        """
        of_epoch = {"term": {"epoch": epoch}}
        if self.form == "rollup":
            return [{"size": len(nodes), "query": {"bool": {"filter": [of_epoch]}}, **more}]
        one_for_all = self.form in ("terms", "filters")
        filters = [[of_epoch]] if one_for_all else [[{"term": {"node": node}}, of_epoch] for node in nodes]
        aggregations = self.aggregations(nodes)
        asked = {"aggs": aggregations} if aggregations else {}
        return [{"size": 0, "query": {"bool": {"filter": found}}, **asked, **self.more, **more} for found in filters]

    def requests(self, nodes: Sequence[str], epoch: int, **more: Any) -> list[Request]:
        """The requests of one coverage; see :meth:`bodies`."""
        if self.form == "esql":
            return [esql_request(self._esql(nodes, epoch))]
        encode, end = (smile.encode, smile.SEPARATOR) if self.smile else (_json, b"\n")
        accept = smile.CONTENT_TYPE if self.smile == "both" else "application/json"
        searches = [encode(body) for body in self.bodies(nodes, epoch, **more)]
        if self.form != "msearch":
            content_type = smile.CONTENT_TYPE if self.smile else "application/json"
            return [Request(f"/{self.index}/_search?request_cache=false", content_type, s, accept) for s in searches]
        header = encode({"index": self.index, "request_cache": False})
        path = "/_msearch" + (f"?max_concurrent_searches={self.parallel}" if self.parallel else "")
        content_type = smile.CONTENT_TYPE if self.smile else "application/x-ndjson"
        return [Request(path, content_type, b"".join(header + end + s + end for s in searches), accept)]

    def _esql(self, nodes: Sequence[str], epoch: int) -> str:
        percentiles = [f"{f}_p{p} = PERCENTILE({f}, {p})" for f in FIELDS for p in PERCENTS]
        columns = ", ".join([*percentiles, *(f"{f}_sum = SUM({f})" for f in FIELDS)])
        return f'FROM "{self.index}" | WHERE epoch == {epoch} | STATS {columns} BY node | LIMIT {len(nodes)}'

    def searches(self, responses: Sequence[bytes]) -> list[dict[str, Any]]:
        """The decoded responses of its searches, those of an msearch one by one."""
        decode = smile.decode if self.smile == "both" else json.loads
        found = [decode(response) for response in responses]
        return found[0]["responses"] if self.form == "msearch" else found

    def answers(self, nodes: Sequence[str], searches: Sequence[dict]) -> dict[str, dict]:
        """The aggregations of each node, whatever form the searches have."""
        if self.form == "rollup":
            sources = (hit["_source"] for hit in searches[0]["hits"]["hits"])
            return {source["node"]: source["aggregations"] for source in sources}
        if self.form == "esql":
            return _from_columns(searches[0])
        found = [search.get("aggregations", {}) for search in searches]
        if self.probability:
            found = [aggregations["sample"] for aggregations in found]
        if self.form == "terms":
            return {bucket["key"]: bucket for bucket in found[0]["by_node"]["buckets"]}
        if self.form == "filters":
            return found[0]["by_node"]["buckets"]
        return dict(zip(nodes, found))


def _from_columns(response: dict) -> dict[str, dict]:
    """The rows of an ES|QL answer, by node, as a search would have it."""
    names = [column["name"] for column in response["columns"]]
    found = {}
    for row in (dict(zip(names, values)) for values in response["values"]):
        aggregations: dict[str, Any] = {f"{f}_sum": {"value": row[f"{f}_sum"]} for f in FIELDS}
        aggregations |= {f"{f}_pct": {"values": {str(p): row[f"{f}_p{p}"] for p in PERCENTS}} for f in FIELDS}
        found[row["node"]] = aggregations
    return found


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


PRODUCTION = Configuration("D_td", "3 sums, 3 percentiles t-digest (production)")
"""What production asks, one search per node after the other."""
