"""Small helpers around Rally's Elasticsearch client that the runners share."""

import asyncio
import contextlib
import io
from collections.abc import Iterator
from typing import Any

from .queries import Request
from .smile import CONTENT_TYPE as SMILE


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


class _Bytes:
    """Passes on bodies that are encoded already, and responses undecoded."""

    def dumps(self, data: bytes) -> bytes:
        return data

    def loads(self, data: bytes) -> io.BytesIO:
        return io.BytesIO(data)


def headers_of(es: Any, content_type: str, accept: str = "application/json") -> dict[str, str]:
    """The headers of a request; where they name SMILE, the client is made to pass it through.

    Elasticsearch wants a version in both types or in neither. Rally adds one to the types that it knows, and does not
    know SMILE, so beside SMILE both are given with a version.
    """
    types = {"content-type": content_type, "accept": accept}
    if SMILE not in types.values():
        return types
    es.transport.serializers.serializers.setdefault("application/vnd.elasticsearch+smile", _Bytes())
    return {
        name: f"application/vnd.elasticsearch+{mimetype.removeprefix('application/')}; compatible-with=8"
        for name, mimetype in types.items()
    }


async def send(es: Any, request: Request) -> bytes:
    """Sends a request inside the timed section and returns the response undecoded."""
    es.return_raw_response()
    headers = headers_of(es, request.content_type, request.accept)
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
    timestamps = "nodes.*.timestamp,nodes.*.process.timestamp"
    path = f"/_nodes/stats/process?filter_path={timestamps},nodes.*.process.cpu.total_in_millis"

    async def read() -> dict[str, dict]:
        return (await get(es, path))["nodes"]

    first = latest = await read()
    for _ in range(20):
        # by the node's own clock, with 10 ms for making up the response
        if all(
            stats["process"]["timestamp"] >= first.get(node, {"timestamp": 0})["timestamp"] - 10
            for node, stats in latest.items()
        ):
            break
        await asyncio.sleep(0.1)
        latest = await read()
    return float(sum(stats["process"]["cpu"]["total_in_millis"] for stats in latest.values()))


async def garbage_collections(es: Any) -> dict[str, float]:
    """Garbage collections of all nodes of the target since they started: ``gc_young``, ``gc_old`` and their times
    ``gc_young_ms``, ``gc_old_ms``.

    Those are the generations whose collections stop all else. Concurrent ones are left out, and so are collectors
    without generations, which then count as 0.
    """
    nodes = (await get(es, "/_nodes/stats/jvm?filter_path=nodes.*.jvm.gc.collectors"))["nodes"].values()
    counted = {}
    for generation in ("young", "old"):
        collectors = [node["jvm"]["gc"]["collectors"].get(generation, {}) for node in nodes]
        counted[f"gc_{generation}"] = float(sum(c.get("collection_count", 0) for c in collectors))
        counted[f"gc_{generation}_ms"] = float(sum(c.get("collection_time_in_millis", 0) for c in collectors))
    return counted
