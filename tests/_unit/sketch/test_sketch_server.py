"""The answers of the sketch server over real HTTP, and its refusals."""

import asyncio
import gzip
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tables import NODES, ROWS, columns_of, state

from _tools.sketch_server.server import MOST_TABLES, TABLES, application
from _tools.sketch_server.sketches import COLUMNS

NDJSON = {"content-type": "application/x-ndjson"}


def bulk_of(rows):
    return "".join(f'{{"index":{{}}}}\n{json.dumps(row)}\n' for row in rows)


@asynccontextmanager
async def served(**options):
    app = application(**options)
    async with TestClient(TestServer(app)) as client:
        assert (await client.put("/t", json={"nodes": NODES})).status == 200
        yield client, app[TABLES]


@pytest.mark.parametrize("form", ["columnar", "bulk"])
def test_answers_count_sum_and_percentiles_of_what_was_inserted(form):
    async def scenario():
        async with served() as (client, _):
            for rows in (ROWS[:3], ROWS[3:]):
                if form == "bulk":
                    response = await client.post("/t/rows", data=bulk_of(rows), headers=NDJSON)
                else:
                    response = await client.post("/t/rows", json=columns_of(rows))
                assert await response.read() == b'{"inserted":3}'
            one = await (await client.get("/t/answers?epoch=1&node=N002&percents=0,50,100")).json()
            every = await (await client.get("/t/answers?epoch=1&percents=0,50,100")).json()
            return one, every

    one, every = asyncio.run(scenario())
    assert one == {
        "N002": {
            "cpu": {"count": 3, "sum": 10.5, "percentiles": {"0": 1.5, "50": 3.5, "100": 5.5}},
            "mem": {"count": 3, "sum": 18.0, "percentiles": {"0": 2.0, "50": 6.0, "100": 10.0}},
            "net": {"count": 3, "sum": 9002.25, "percentiles": {"0": 1000.25, "50": 3000.75, "100": 5001.25}},
        }
    }
    assert set(every) == set(NODES)
    assert every["N002"] == one["N002"]


def test_an_entry_per_row_is_given_back_when_asked_for():
    async def scenario():
        async with served() as (client, _):
            return await (await client.post("/t/rows?items", json=columns_of(ROWS))).json()

    body = asyncio.run(scenario())
    assert not body["errors"]
    assert [item["index"]["status"] for item in body["items"]] == [201] * 6


def test_declaring_a_table_again_empties_it():
    async def scenario():
        async with served() as (client, tables):
            await client.post("/t/rows", json=columns_of(ROWS))
            await client.put("/t", json={"nodes": NODES})
            return state(tables["t"])

    assert asyncio.run(scenario()) == {}


BAD = columns_of(ROWS)
BAD_BODIES = {
    "ragged columns": (BAD | {"cpu": BAD["cpu"][:-1]}, 400, "columns differ in length"),
    "a column too few": ({k: v for k, v in BAD.items() if k != "net"}, 400, "one object with the arrays"),
    "a column too many": (BAD | {"disk": BAD["cpu"]}, 400, "one object with the arrays"),
    "no object": ([BAD], 400, "one object with the arrays"),
    "no array": (BAD | {"cpu": 1.0}, 400, "column [cpu] is no array"),
    "no rows": ({name: [] for name in COLUMNS}, 400, "at least one row"),
    "a number as text": (BAD | {"cpu": [*BAD["cpu"][:-1], "1.5"]}, 400, "column [cpu] has a value of type str"),
    "a truth value": (BAD | {"mem": [*BAD["mem"][:-1], True]}, 400, "column [mem] has a value of type bool"),
    "null": (BAD | {"net": [*BAD["net"][:-1], None]}, 400, "column [net] has a value of type NoneType"),
    "an array in an array": (BAD | {"net": [*BAD["net"][:-1], [1.0]]}, 400, "column [net] has a value of type list"),
    "NaN": (BAD | {"cpu": [*BAD["cpu"][:-1], float("nan")]}, 400, "not JSON"),
    "beyond 32 bits": (BAD | {"cpu": [*BAD["cpu"][:-1], 1e39]}, 400, "no finite 32-bit float"),
    "a broken epoch": (BAD | {"epoch": [1] * 5 + [1.5]}, 400, "column [epoch] has a value of type float"),
    "a huge epoch": (BAD | {"epoch": [1] * 5 + [2**63]}, 400, "beyond 64 bits"),
    "unknown node": (BAD | {"node": [*BAD["node"][:-1], "N003"]}, 400, "node [N003] was not declared"),
    "a node that is no name": (BAD | {"node": [*BAD["node"][:-1], 3]}, 400, "column [node] has a value of type int"),
    "oversized": (BAD | {"task": ["T" * 3000] * 6}, 413, "Maximum request body size"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_input_gets_a_reason_and_changes_nothing(name):
    body, status, reason = BAD_BODIES[name]

    async def scenario():
        async with served(most_bytes=10_000) as (client, tables):
            await client.post("/t/rows", json=columns_of(ROWS))
            before = state(tables["t"])
            headers = {"content-type": "application/json"}
            response = await client.post("/t/rows", data=json.dumps(body), headers=headers)
            assert response.status == status
            assert reason in (await response.json())["error"]
            assert state(tables["t"]) == before

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body, reason",
    [
        (bulk_of(ROWS)[:-1], "each line ended by a newline"),
        (bulk_of(ROWS) + '{"index":{}}\n', "pairs of action and row"),
        (bulk_of(ROWS).replace("index", "delete", 1), "only action taken is index"),
        (bulk_of(ROWS).replace('"task"', '"job"', 1), "a row is an object with"),
        (bulk_of(ROWS) + "{}\n", "pairs of action and row"),
        (bulk_of(ROWS) + '{"index":{}}\n{"epoch":\n', "not JSON"),
        (bulk_of(ROWS).replace("N002", "N009"), "node [N009] was not declared"),
    ],
)
def test_a_bad_bulk_body_gets_a_reason_and_changes_nothing(body, reason):
    async def scenario():
        async with served() as (client, tables):
            response = await client.post("/t/rows", data=body, headers=NDJSON)
            assert response.status == 400
            assert reason in (await response.json())["error"]
            assert state(tables["t"]) == {}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "method, path, body, status, reason",
    [
        ("GET", "/t/answers?epoch=1&node=N003&percents=50", None, 404, "node [N003] was not declared"),
        ("GET", "/t/answers?epoch=2&node=N001&percents=50", None, 404, "no rows of epoch 2 and node N001"),
        ("GET", "/t/answers?epoch=2&percents=50", None, 404, "no rows of epoch 2"),
        ("GET", "/t/answers?epoch=one&percents=50", None, 400, "a question takes"),
        ("GET", "/t/answers?epoch=1", None, 400, "a question takes"),
        ("GET", "/t/answers?epoch=1&percents=101", None, 400, "allowed is from 0 to 100"),
        ("GET", "/t/answers?epoch=1&percents=50,101", None, 400, "allowed is from 0 to 100"),
        ("GET", "/t/answers?epoch=1&percents=nan", None, 400, "allowed is from 0 to 100"),
        ("GET", "/other/answers?epoch=1&percents=50", None, 404, "table [other] was not declared"),
        ("POST", "/other/rows", "{}", 404, "table [other] was not declared"),
        ("POST", "/t/rows", "{}", 415, "content type [text/plain] is not taken"),
        ("PUT", "/t", '{"nodes": []}', 400, "a table is declared by"),
        ("PUT", "/t", '{"nodes": [1]}', 400, "a table is declared by"),
        ("PUT", "/t", '{"nodes": ["a", "b", "a"]}', 400, "with each node once"),
        ("PUT", "/t", "[", 400, "not JSON"),
        ("DELETE", "/t", None, 405, "Method Not Allowed"),
    ],
)
def test_a_bad_request_gets_a_reason_and_changes_nothing(method, path, body, status, reason):
    async def scenario():
        async with served() as (client, tables):
            await client.post("/t/rows", json=columns_of(ROWS))
            before = state(tables["t"])
            response = await client.request(method, path, data=body)
            assert response.status == status
            assert reason in (await response.json())["error"]
            assert state(tables["t"]) == before

    asyncio.run(scenario())


TOO_LARGE = "Maximum request body size"


@pytest.mark.parametrize(
    "packed, reason",
    [
        (b"no gzip", "the body cannot be read: 400, message: Can not decode content-encoding: gzip"),
        (
            gzip.compress(b" " * (33 << 20)),
            ("the body cannot be read: 400, message: Decompressed data exceeds", TOO_LARGE),
        ),
        (gzip.compress(b" " * 200_000), TOO_LARGE),
    ],
)
def test_a_packed_body_that_cannot_be_read_gets_a_reason(packed, reason):
    async def scenario():
        async with served(most_bytes=100_000) as (client, tables):
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            response = await client.post("/t/rows", data=packed, headers=headers)
            assert response.status in (400, 413)
            assert (error := (await response.json())["error"]).startswith(reason) and "\n" not in error
            assert state(tables["t"]) == {}

    asyncio.run(scenario())


def test_groups_beyond_the_bound_are_refused_and_those_below_still_taken():
    async def scenario():
        async with served(most_groups=3) as (client, tables):
            await client.put("/u", json={"nodes": NODES})
            assert (await client.post("/t/rows", json=columns_of(ROWS))).status == 200
            before = state(tables["t"])
            response = await client.post("/u/rows", json=columns_of(ROWS))
            assert response.status == 400
            reason = "the batch has 2 new groups of epoch and node, there is room for 1"
            assert await response.json() == {"error": reason}
            assert state(tables["u"]) == {} and state(tables["t"]) == before
            assert (await client.post("/t/rows", json=columns_of(ROWS))).status == 200
            assert (await client.post("/u/rows", json=columns_of(ROWS[:1]))).status == 200

    asyncio.run(scenario())


def test_tables_beyond_the_bound_are_refused():
    async def scenario():
        async with served() as (client, tables):
            found = [(await client.put(f"/{n}", json={"nodes": NODES})).status for n in range(MOST_TABLES)]
            assert found == [200] * (MOST_TABLES - 1) + [400] and len(tables) == MOST_TABLES
            assert (await client.put("/t", json={"nodes": NODES})).status == 200

    asyncio.run(scenario())
