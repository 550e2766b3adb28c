import json

import pytest

from cluster_metrics.query.configurations import PARTS, VARIANTS, cells
from cluster_metrics.wire.questions import TRANSPORTS

# section 1 of the report that this track came from, to the letter
PRODUCTION = """
{
  "size": 0,
  "query": {"bool": {"filter": [{"term": {"node": "N007"}}, {"term": {"epoch": 3}}]}},
  "aggs": {
    "cpu_pct": {"percentiles": {"field": "cpu", "percents": [0, 50, 90, 100]}},
    "mem_pct": {"percentiles": {"field": "mem", "percents": [0, 50, 90, 100]}},
    "net_pct": {"percentiles": {"field": "net", "percents": [0, 50, 90, 100]}},
    "cpu_sum": {"sum": {"field": "cpu"}},
    "mem_sum": {"sum": {"field": "mem"}},
    "net_sum": {"sum": {"field": "net"}}
  }
}
"""


def test_d_td_is_the_production_query():
    (body,) = VARIANTS["D_td"].bodies(["N007"], 3)
    assert json.dumps(body) == json.dumps(json.loads(PRODUCTION))


def test_variants_are_the_production_query_and_its_parts():
    bodies = {name: VARIANTS[name].bodies(["N001"], 1)[0] for name in ("A", "B", "C_td", "C_hdr", "D_td", "D_hdr")}
    names = {name: set(body.get("aggs", {})) for name, body in bodies.items()}
    sums, percentiles = {"cpu_sum", "mem_sum", "net_sum"}, {"cpu_pct", "mem_pct", "net_pct"}
    assert names == {
        "A": set(),
        "B": sums,
        "C_td": percentiles,
        "C_hdr": percentiles,
        "D_td": sums | percentiles,
        "D_hdr": sums | percentiles,
    }
    for name in ("C_hdr", "D_hdr"):
        hdr = bodies[name]["aggs"]["cpu_pct"]["percentiles"]["hdr"]
        assert hdr == {"number_of_significant_value_digits": 3}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_coverage_asks_each_node_once_and_never_the_cache(transport):
    nodes = ["N001", "N002", "N003"]
    (cell,) = cells(["D_td"], [transport], parallel=5)
    requests = cell.requests(nodes, 2)
    if transport == "serial":
        assert all("request_cache=false" in r.path for r in requests)
        bodies = [json.loads(r.body) for r in requests]
    else:
        (request,) = requests
        assert request.path == "/_msearch?max_concurrent_searches=5"
        assert request.body.endswith(b"\n")
        lines = [json.loads(line) for line in request.body.splitlines()]
        assert all(header["request_cache"] is False for header in lines[0::2])
        bodies = lines[1::2]
    assert bodies == [VARIANTS["D_td"].bodies([node], 2)[0] for node in nodes]


def test_a_part_asks_for_less_of_the_same_documents():
    production = VARIANTS["D_td"].bodies(["N001"], 1)[0]
    for name, part in PARTS.items():
        (body,) = part.bodies(["N001"], 1)
        assert body["query"] == production["query"] and body["size"] == 0, name
        found = body.get("aggs", {})
        if name not in ("start", "visit"):
            assert found.items() < production["aggs"].items(), name
        assert len(found) == {"start": 0, "visit": 1}.get(
            name, name.count("cpu") + name.count("mem") + name.count("net")
        )
    assert PARTS["start"].bodies(["N001"], 1)[0]["track_total_hits"] is False
