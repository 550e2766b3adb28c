"""The query variants and transports as data, and the requests of one coverage made from them.

A *coverage* asks every node's question about one epoch: as many searches as the corpus has nodes.
"""

import json
from dataclasses import dataclass
from typing import Any

from .answers import PERCENTS
from .corpus import FIELDS, NAME


@dataclass(frozen=True)
class Variant:
    """Which aggregations a query carries on top of its filter.

    :param percentiles: algorithm of the three percentile aggregations, ``tdigest`` or ``hdr``; None leaves them out.
    :param sums: whether the three sums are asked for.
    """

    percentiles: str | None = None
    sums: bool = False


VARIANTS = {
    "A": Variant(),
    "B": Variant(sums=True),
    "C_td": Variant(percentiles="tdigest"),
    "C_hdr": Variant(percentiles="hdr"),
    "D_td": Variant(percentiles="tdigest", sums=True),
    "D_hdr": Variant(percentiles="hdr", sums=True),
}
TRANSPORTS = ("serial", "msearch")
SEARCH_PATH = f"/{NAME}/_search?request_cache=false"
HDR = {"number_of_significant_value_digits": 3}


def body(variant: Variant, node: str, epoch: int) -> dict[str, Any]:
    """The search of one node and epoch. For D_td it is the production query to the letter."""
    aggregations: dict[str, Any] = {}
    if variant.percentiles:
        algorithm = {"hdr": HDR} if variant.percentiles == "hdr" else {}
        for field in FIELDS:
            aggregations[f"{field}_pct"] = {"percentiles": {"field": field, "percents": list(PERCENTS), **algorithm}}
    if variant.sums:
        for field in FIELDS:
            aggregations[f"{field}_sum"] = {"sum": {"field": field}}
    query = {"bool": {"filter": [{"term": {"node": node}}, {"term": {"epoch": epoch}}]}}
    return {"size": 0, "query": query} | ({"aggs": aggregations} if aggregations else {})


@dataclass(frozen=True)
class Request:
    """One HTTP request of a coverage, encoded before the clock runs."""

    path: str
    content_type: str
    body: bytes
    accept: str = "application/json"


def coverage_requests(
    variant: Variant, transport: str, nodes: list[str], epoch: int, max_concurrent_searches: int = 0
) -> list[Request]:
    """The requests of one coverage.

    :param transport: ``serial`` sends one ``_search`` per node one after the other, ``msearch`` one ``_msearch``.
    :param max_concurrent_searches: for ``msearch``; 0 leaves it to Elasticsearch.
    """
    bodies = [json.dumps(body(variant, node, epoch)).encode() for node in nodes]
    if transport == "serial":
        return [Request(SEARCH_PATH, "application/json", b) for b in bodies]
    header = json.dumps({"index": NAME, "request_cache": False}).encode()
    path = "/_msearch" + (f"?max_concurrent_searches={max_concurrent_searches}" if max_concurrent_searches else "")
    return [Request(path, "application/x-ndjson", b"".join(header + b"\n" + b + b"\n" for b in bodies))]
