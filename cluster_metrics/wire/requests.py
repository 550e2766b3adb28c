"""Small helpers around Rally's Elasticsearch client that the runners share."""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .smile import CONTENT_TYPE as SMILE


@dataclass(frozen=True)
class Request:
    """One HTTP request, encoded before the clock runs."""

    path: str
    content_type: str
    body: bytes
    accept: str = "application/json"


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


async def touch(es: Any) -> None:
    """The one request in the timed section that Rally takes of each sample, for a runner that does all else aside."""
    await request(es, "GET", "/")


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
