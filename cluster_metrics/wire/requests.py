"""Small helpers around Rally's Elasticsearch client that the runners share."""

import asyncio
import contextlib
import io
import json
import logging
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esrally import exceptions

from .smile import CONTENT_TYPE as SMILE

REFUSAL_CHARS = 600
"""Of an error's reason that are shown: the names of an action and of the privileges that allow it take some 300."""
FORBIDDEN = (401, 403)
MEANINGS = (
    ("pragma", "this build of Elasticsearch refuses the pragma data_partitioning"),
    ("Unknown index", "the index is missing, run the tasks tagged setup first"),
    ("index_not_found_exception", "the index is missing, run the tasks tagged setup first"),
    ("circuit_breaking_exception", "a circuit breaker stopped it, give the target more heap"),
)
"""What type or reason of an error has in it, and what that means."""


@dataclass(frozen=True)
class Request:
    """One HTTP request, encoded before the clock runs."""

    path: str
    content_type: str
    body: bytes
    accept: str = "application/json"


def refusal(error: Any) -> str:
    """What went wrong with a request, in one line.

    :param error: ``elasticsearch.ApiError``, whose type and innermost reason are named, or
        ``elasticsearch.TransportError``, which is no answer in time or a connection that was lost.
    """
    if not hasattr(error, "status_code"):
        return f"no answer, {type(error).__name__}: {_one_line(error.message)}"
    body = error.body.getvalue() if hasattr(error.body, "getvalue") else error.body
    try:
        cause = body["error"] if isinstance(body, dict) else json.loads(body)["error"]
        if isinstance(cause, str):
            return f"HTTP {error.status_code} {_one_line(cause)}"
        kind = cause["type"]
        while "caused_by" in cause:
            cause = cause["caused_by"]
        reason = _one_line(cause["reason"])
    except (KeyError, TypeError, ValueError):
        said = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
        return f"HTTP {error.status_code} {_one_line(said)}".rstrip()
    meant = next((text for words, text in MEANINGS if words in f"{kind} {reason}"), "")
    return f"{meant}: {reason}" if meant else f"HTTP {error.status_code} {kind}: {reason}"


def _one_line(text: Any) -> str:
    printable = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(printable.split())[:REFUSAL_CHARS]


@contextlib.contextmanager
def guarding(what: str = "") -> Iterator[None]:
    """Has a request that fails inside end the race, whatever Rally's ``--on-error`` says: of an ``ApiError`` or a
    ``TransportError`` that leaves a runner Rally makes a sample that failed, and goes on.

    :param what: cannot be done then; stands at the head of the message.
    :raises esrally.exceptions.RallyAssertionError: which names the privilege that lacks, the block or whatever it is.
    """
    import elasticsearch

    try:
        yield
    except (elasticsearch.ApiError, elasticsearch.TransportError) as e:
        raise exceptions.RallyAssertionError(f"{what}: {refusal(e)}" if what else refusal(e)) from None


@contextlib.contextmanager
def entitled() -> Iterator[None]:
    """Has a request that is forbidden end the race, and no other that fails: what lacks a privilege, or meets a block,
    does so again and again.

    :raises esrally.exceptions.RallyAssertionError: which names the privilege or the block.
    """
    import elasticsearch

    try:
        yield
    except elasticsearch.ApiError as e:
        if e.status_code not in FORBIDDEN:
            raise
        raise exceptions.RallyAssertionError(refusal(e)) from None


@contextlib.contextmanager
def aside(es: Any) -> Iterator[None]:
    """Keeps the requests made inside out of the service time of the sample being measured."""
    _, token = es.init_request_context()
    failed = True
    try:
        yield
        failed = False
    finally:
        es.restore_context(token)
        if failed:  # Rally takes the times of a sample from its requests; a runner that fails here may have made none
            es.on_request_start()
            es.on_request_end()


def once(es: Any) -> Any:
    """The same client, which sends a request one time. By default it repeats one up to three times, at once and
    uncounted, after a lost connection and after the status 429, 502, 503 or 504: times would be those of all attempts
    together, and documents could be indexed twice."""
    _log_no_bodies()
    return _kept(es, "sends_once", max_retries=0)


def _log_no_bodies() -> None:
    """Has the transport make no text of bodies for a log that nobody keeps: of SMILE, which is no UTF-8, that takes
    3 ns a byte. Its logger passes nothing on by itself, but Rally configures it anew; and each actor has loggers of its
    own, so that the transport's is known to the transport alone."""
    from elastic_transport._node import _base

    if not _base._logger.isEnabledFor(logging.DEBUG):
        _base._logger.propagate = False


def _kept(es: Any, name: str, **options: Any) -> Any:
    """The client with options, made once for each client: that takes a tenth of a millisecond."""
    if not hasattr(es, name):
        setattr(es, name, es.options(**options))
    return getattr(es, name)


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
    """A GET request outside the timed section; unlike those within it, it is repeated where no answer comes in time."""
    with aside(es):
        return await request(_kept(es, "is_patient", retry_on_timeout=True), "GET", path)


async def at_once(awaitables: list[Awaitable[None]]) -> None:
    """Runs them at once; when one fails, none of the others goes on, for what follows would be measured beside it, or
    an index written to that is gone."""
    tasks = [asyncio.ensure_future(a) for a in awaitables]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
    """Sends a request inside the timed section, once, and returns the response undecoded."""
    es.return_raw_response()
    headers = headers_of(es, request.content_type, request.accept)
    response = await once(es).perform_request(method="POST", path=request.path, headers=headers, body=request.body)
    return response.body.getvalue()


def all_shards(index: str, answer: Mapping[str, Any], done: str) -> None:
    """Holds a request to all shards of an index to all of them: one that fails on some is answered with status 200.

    :param answer: to it.
    :param done: what was to be done to them.
    :raises esrally.exceptions.RallyAssertionError: when it was not done to all.
    """
    if failed := answer.get("_shards", {}).get("failed"):
        raise exceptions.RallyAssertionError(f"index [{index}]: {failed} of its shards were not {done}")
