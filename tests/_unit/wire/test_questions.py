import json

import pytest

from cluster_metrics.corpus.metrics import FIELDS
from cluster_metrics.query.configurations import PARTS, VARIANTS, cells
from cluster_metrics.wire import smile
from cluster_metrics.wire.questions import TRANSPORTS, Configuration

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


def test_a_question_about_all_nodes_at_once_names_every_one():
    nodes = [f"N{i:03}" for i in range(1, 31)]
    found = {
        form: Configuration("x", "", form=form, percentiles=None, summed=("cpu",)).bodies(nodes, 3)
        for form in ("terms", "filters", "rollup")
    }
    sums, of_epoch = {"cpu_sum": {"sum": {"field": "cpu"}}}, {"bool": {"filter": [{"term": {"epoch": 3}}]}}
    filters = {"filters": {node: {"term": {"node": node}} for node in nodes}}
    assert found == {
        "terms": [
            {
                "size": 0,
                "query": of_epoch,
                "aggs": {"by_node": {"terms": {"field": "node", "size": 30}, "aggs": sums}},
            }
        ],
        "filters": [{"size": 0, "query": of_epoch, "aggs": {"by_node": {"filters": filters, "aggs": sums}}}],
        "rollup": [{"size": 30, "query": of_epoch}],
    }


FIGURES = {"N001": 1, "N002": 2}
OF = {node: {f"{field}_sum": {"value": value} for field in FIELDS} for node, value in FIGURES.items()}
RANKED = [f"{field}_p{percent}" for field in FIELDS for percent in (0, 50, 90, 100)]
ANSWERED = {
    "serial": [{"aggregations": of} for of in OF.values()],
    "concurrent": [{"aggregations": of} for of in OF.values()],
    "msearch": [{"responses": [{"aggregations": of} for of in OF.values()]}],
    "terms": [{"aggregations": {"by_node": {"buckets": [{"key": node} | of for node, of in OF.items()]}}}],
    "filters": [{"aggregations": {"by_node": {"buckets": OF}}}],
    "rollup": [{"hits": {"hits": [{"_source": {"node": n, "aggregations": of}} for n, of in OF.items()]}}],
    "esql": [
        {
            "columns": [{"name": name} for name in (*RANKED, "cpu_sum", "mem_sum", "net_sum", "node")],
            "values": [[*range(12), value, value, value, node] for node, value in FIGURES.items()],
        }
    ],
}


@pytest.mark.parametrize("form", ANSWERED)
@pytest.mark.parametrize("binary", ["", "request", "both"])
def test_answers_are_those_of_each_node_in_whatever_form_and_encoding_they_come(form, binary):
    configuration = Configuration("x", "", form=form, smile=binary)
    encode = smile.encode if binary == "both" else (lambda answer: json.dumps(answer).encode())
    found = configuration.answers(list(OF), configuration.searches([encode(answer) for answer in ANSWERED[form]]))
    assert {node: {f"{field}_sum": of[f"{field}_sum"] for field in FIELDS} for node, of in found.items()} == OF
    if form == "esql":
        assert found["N002"]["mem_pct"] == {"values": {"0": 4, "50": 5, "90": 6, "100": 7}}


def test_answers_of_a_sample_of_documents_are_those_within_it():
    sampled = Configuration("x", "", probability=0.1)
    assert sampled.answers(list(OF), [{"aggregations": {"sample": of}} for of in OF.values()]) == OF
    whole, asked = (of.bodies(["N001"], 1)[0]["aggs"] for of in (VARIANTS["D_td"], sampled))
    assert asked == {"sample": {"random_sampler": {"probability": 0.1, "seed": 42}, "aggs": whole}}


def test_es_ql_asks_one_query_for_all_nodes_of_the_epoch_in_the_index_of_the_layout():
    (asked,) = Configuration("x", "", form="esql", layout="other").requests(["N001", "N002"], 3)
    ranked = ", ".join(f"{f}_p{p} = PERCENTILE({f}, {p})" for f in FIELDS for p in (0, 50, 90, 100))
    summed = "cpu_sum = SUM(cpu), mem_sum = SUM(mem), net_sum = SUM(net)"
    assert json.loads(asked.body) == {
        "query": f'FROM "cluster-metrics-other" | WHERE epoch == 3 | STATS {ranked}, {summed} BY node | LIMIT 2'
    }


@pytest.mark.parametrize(
    "percentiles, algorithm",
    [(None, None), ({}, "tdigest"), ({"tdigest": {"compression": 1000}}, "tdigest"), ({"hdr": {}}, "hdr")],
)
def test_percentiles_are_held_against_the_bounds_of_their_algorithm(percentiles, algorithm):
    assert Configuration("x", "", percentiles=percentiles).algorithm == algorithm


@pytest.mark.parametrize("parallel, asked", [(0, ""), (1, "?max_concurrent_searches=1")])
def test_searches_of_an_msearch_run_as_many_at_a_time_as_is_said(parallel, asked):
    (request,) = Configuration("x", "").by("msearch", parallel).requests(["N001"], 1)
    assert request.path == f"/_msearch{asked}"


@pytest.mark.parametrize("form", ["serial", "msearch"])
@pytest.mark.parametrize(
    "binary, of_request, of_response",
    [
        ("", "json", "application/json"),
        ("request", "smile", "application/json"),
        ("both", "smile", "application/smile"),
    ],
)
def test_what_is_smile_is_sent_and_asked_for_as_such(form, binary, of_request, of_response):
    configuration = Configuration("x", "", form=form, layout="other", smile=binary)
    requests = configuration.requests(["N001", "N002"], 3, profile=True)
    type_of_json = "application/x-ndjson" if form == "msearch" else "application/json"
    content_type = "application/smile" if of_request == "smile" else type_of_json
    assert {(r.content_type, r.accept) for r in requests} == {(content_type, of_response)}
    split = (lambda body: body.removesuffix(b"\xff").split(b"\xff")) if of_request == "smile" else bytes.splitlines
    decode = smile.decode if of_request == "smile" else json.loads
    items = [decode(item) for request in requests for item in split(request.body)]
    bodies = configuration.bodies(["N001", "N002"], 3, profile=True)
    assert all(body["profile"] for body in bodies)
    if form == "msearch":
        assert [r.path for r in requests] == ["/_msearch"]
        assert items[0::2] == [{"index": "cluster-metrics-other", "request_cache": False}] * 2
        assert items[1::2] == bodies
    else:
        assert [r.path for r in requests] == ["/cluster-metrics-other/_search?request_cache=false"] * 2
        assert items == bodies
