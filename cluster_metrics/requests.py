"""Small helpers around Rally's Elasticsearch client that the runners share."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from .queries import Request


@contextlib.contextmanager
def aside(es: Any) -> Iterator[None]:
    """Keeps the requests made inside out of the service time of the sample being measured."""
    _, token = es.init_request_context()
    try:
        yield
    finally:
        es.restore_context(token)


async def request(es: Any, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
    """A request in the current request context; its response decoded.

    :param body: is sent as JSON.
    :param timeout: in seconds; default is that of the client options.
    """
    client = es.options(request_timeout=timeout) if timeout else es
    response = await client.perform_request(method=method, path=path, body=body)
    return response.body


async def get(es: Any, path: str) -> Any:
    """A GET request outside the timed section."""
    with aside(es):
        return await request(es, "GET", path)


async def send(es: Any, request: Request) -> bytes:
    """Sends a request inside the timed section and returns the response undecoded."""
    es.return_raw_response()
    headers = {"content-type": request.content_type, "accept": "application/json"}
    response = await es.perform_request(method="POST", path=request.path, headers=headers, body=request.body)
    return response.body.getvalue()


async def segment_count(es: Any, index: str) -> int:
    """Segments of the primary shards of an index."""
    stats = await get(es, f"/{index}/_stats/segments?filter_path=_all.primaries.segments.count")
    return stats["_all"]["primaries"]["segments"]["count"]


async def target_cpu_ms(es: Any) -> float:
    """CPU time that all nodes of the target have used since they started, in ms.

    A node samples its process once a second at most, so this waits for samples taken after the call, up to 2 s.
    """
    path = "/_nodes/stats/process?filter_path=nodes.*.process.timestamp,nodes.*.process.cpu.total_in_millis"

    async def read() -> dict[str, dict]:
        return {node: stats["process"] for node, stats in (await get(es, path))["nodes"].items()}

    first = latest = await read()
    for _ in range(20):
        await asyncio.sleep(0.1)
        latest = await read()
        if all(p["timestamp"] > first.get(node, {"timestamp": 0})["timestamp"] for node, p in latest.items()):
            break
    return float(sum(p["cpu"]["total_in_millis"] for p in latest.values()))
