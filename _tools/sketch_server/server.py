"""The sketch server's HTTP side: the floor of what taking in metrics and answering the production question costs.

- ``PUT /{table}`` with ``{"nodes": [...]}`` declares a table, or empties it.
- ``POST /{table}/rows`` takes a batch: columnar (``application/json``, one object of arrays) or as the body of an
  Elasticsearch ``_bulk`` request (``application/x-ndjson``); it answers ``{"inserted": n}``, or with ``?items`` an
  entry per row as ``_bulk`` does.
- ``GET /{table}/answers?epoch=1&node=N001&percents=0,50,90,100`` answers count, sum and percentiles by node and field;
  without ``node`` of all nodes.

What it cannot take gets a 4xx with ``{"error": reason}`` and changes nothing. Who keeps it waiting is cut off.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from .sketches import COLUMNS, BadInput, Table, Unknown

MOST_GROUPS = 20_000
"""Epochs by nodes in all tables; each takes 2.5 kB."""
MOST_TABLES = 100
SECONDS = 60
"""That a client has for a request, or to take a response; a client of aiohttp gives up a silent connection after 15."""

MOST_BYTES = 64 << 20
"""Of a request's body."""
TABLES = web.AppKey("tables", dict[str, Table])
LIMITS = web.AppKey("limits", tuple[int, float])
SILENT_SINCE = web.AppKey("silent_since", dict[Any, float])


def application(
    most_bytes: int = MOST_BYTES, most_groups: int = MOST_GROUPS, seconds: float = SECONDS
) -> web.Application:
    """The server as an aiohttp application.

    :param most_bytes: size in bytes beyond which a body is refused (default 64 MiB).
    :param most_groups: epochs by nodes that all tables hold together (default 20,000).
    :param seconds: that a body may take to arrive (default 60).
    """
    app = web.Application(client_max_size=most_bytes, middlewares=[_refuse])
    app[TABLES], app[LIMITS], app[SILENT_SINCE] = {}, (most_groups, seconds), {}
    app.add_routes(
        [
            web.get("/", _ready),
            web.put("/{table}", _declare),
            web.post("/{table}/rows", _insert),
            web.get("/{table}/answers", _answer),
        ]
    )
    return app


async def serve(host: str, port: int, most_groups: int = MOST_GROUPS, seconds: float = SECONDS) -> None:
    """Serves until it is cancelled.

    :param seconds: after which a client is cut off that sends no whole request, or does not take a response.
    """
    app = application(most_groups=most_groups, seconds=seconds)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    assert runner.server
    await web.TCPSite(runner, host, port).start()
    silent_since = app[SILENT_SINCE]
    while True:
        now, connections = asyncio.get_running_loop().time(), set(runner.server.connections)
        for connection in connections:
            if now - silent_since.setdefault(connection, now) > seconds and connection.transport:
                connection.transport.abort()  # close would wait for a client that does not read
        for gone in set(silent_since) - connections:
            del silent_since[gone]
        await asyncio.sleep(min(1, seconds / 4))


@web.middleware
async def _refuse(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turns what was refused into a response with its reason, and notes when a connection falls silent."""
    silent_since = request.app[SILENT_SINCE]
    silent_since[request.protocol] = math.inf
    try:
        return await handler(request)
    except BadInput as e:
        return _json({"error": str(e)}, 400)
    except Unknown as e:
        return _json({"error": str(e)}, 404)
    except web.HTTPClientError as e:
        return _json({"error": e.text or e.reason}, e.status)
    finally:
        silent_since[request.protocol] = asyncio.get_running_loop().time()


async def _body(request: web.Request) -> bytes:
    """The body of a request.

    :raises BadInput: when it cannot be decoded.
    :raises aiohttp.web.HTTPClientError: when it is too large, or does not arrive in time.
    """
    if (size := request.content_length or 0) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, size)
    seconds = request.app[LIMITS][1]
    try:
        return await asyncio.wait_for(request.read(), seconds)
    except asyncio.TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {seconds:g} s") from None
    except web.RequestPayloadError as e:
        raise BadInput(f"the body cannot be read: {' '.join(str(e).split())}") from None


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


def _loads(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as e:
        raise BadInput(f"not JSON: {e}") from None


def _table(request: web.Request) -> Table:
    name = request.match_info["table"]
    try:
        return request.app[TABLES][name]
    except KeyError:
        raise Unknown(f"table [{name}] was not declared") from None


async def _ready(request: web.Request) -> web.Response:
    return _json({"tables": [*request.app[TABLES]]})


async def _declare(request: web.Request) -> web.Response:
    body, tables = _loads(await _body(request)), request.app[TABLES]
    nodes = body.get("nodes") if isinstance(body, dict) else None
    if not isinstance(nodes, list) or not nodes or not all(isinstance(n, str) for n in nodes):
        raise BadInput("a table is declared by an object with nodes, an array of names")
    if len(set(nodes)) < len(nodes):
        raise BadInput("a table is declared with each node once")
    if len({*tables, request.match_info["table"]}) > MOST_TABLES:
        raise BadInput(f"there are {len(tables)} tables, allowed are {MOST_TABLES}")
    tables[request.match_info["table"]] = Table(nodes)
    return _json({"nodes": len(nodes)})


async def _insert(request: web.Request) -> web.Response:
    table, body = _table(request), await _body(request)
    if request.content_type == "application/x-ndjson":
        columns = _columns_of_bulk(body)
    elif request.content_type == "application/json":
        columns = _loads(body)
    else:
        raise web.HTTPUnsupportedMediaType(text=f"content type [{request.content_type}] is not taken")
    room = request.app[LIMITS][0] - sum(len(other.groups) for other in request.app[TABLES].values())
    inserted = table.insert(columns, room)
    return _json(_items(inserted) if "items" in request.query else {"inserted": inserted})


def _columns_of_bulk(body: bytes) -> dict[str, list]:
    lines = body.split(b"\n")
    if lines.pop() or len(lines) % 2:
        raise BadInput("a bulk body is pairs of action and row, each line ended by a newline")
    for action in set(lines[0::2]):
        if not isinstance(found := _loads(action), dict) or list(found) != ["index"]:
            raise BadInput("the only action taken is index")
    rows = [_loads(line) for line in lines[1::2]]
    for row in rows:
        if not isinstance(row, dict) or set(row) != set(COLUMNS):
            raise BadInput(f"a row is an object with {', '.join(COLUMNS)}")
    return {name: [row[name] for row in rows] for name in COLUMNS}


def _items(rows: int) -> dict[str, Any]:
    """An entry per row with the fields, and so the size, that Elasticsearch gives back."""
    shards = {"total": 1, "successful": 1, "failed": 0}
    items = [
        {
            "index": {
                "_index": "cluster-metrics",
                "_id": f"{i:020d}",
                "_version": 1,
                "result": "created",
                "_shards": shards,
                "_seq_no": i,
                "_primary_term": 1,
                "status": 201,
            }
        }
        for i in range(rows)
    ]
    return {"errors": False, "took": 0, "items": items}


async def _answer(request: web.Request) -> web.Response:
    query = request.query
    try:
        epoch = int(query["epoch"])
        percents = [float(p) for p in query["percents"].split(",")]
    except (KeyError, ValueError):
        raise BadInput("a question takes an integer epoch, and percents as numbers with commas between") from None
    return _json(_table(request).answers(epoch, query.get("node"), percents))
