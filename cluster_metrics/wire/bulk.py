"""Sends bulk bodies and counts what became of every document."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from esrally import exceptions

from ..corpus.encoded import JSON_ACTION
from .requests import REFUSAL_CHARS, aside, at_once, guarding, headers_of, once, refusal

FILTER = "took,errors,items.*.error"
"""``filter_path`` that leaves 25 bytes of a response without errors, and of another one what went wrong."""
MOST_RETRIES = 5
FIRST_BACKOFF_S = 0.5
"""Pause before the first retry; it doubles with each further one."""
MOST_REASONS = 3
REASON_CHARS = REFUSAL_CHARS
"""Of a document's reason that are shown: it names the privileges that allow to index, too."""
MISLEADING = {
    "must be terminated by a newline": "or, in SMILE, by the byte 0xFF, which also ends every action and document",
    "start with Smile format header": "every action and document needs a header of its own",
    "Compressor detection can only be called": "a document in SMILE has no header of its own",
    "shared text value": "actions and documents in SMILE are ended by the byte 0xFF, not by a newline",
    "Unexpected end": "an action or a document is cut off",
    "does not support stream parsing": "_bulk and _msearch take no CBOR",
    "compatible version is required on both": "Content-Type and Accept must both name a version, or neither",
    "Unexpected character (':'": "is it SMILE under the content type of JSON?",
}
"""What Elasticsearch says of a body that is framed wrongly, and what it means."""
REJECTED = "429 es_rejected_execution_exception"
"""A full queue; known by its type where a filtered response has no status."""


def with_actions(lines: Iterable[bytes]) -> bytes:
    """Lines of JSON, each a document, as a bulk body that indexes them."""
    return b"".join(JSON_ACTION + line for line in lines)


@dataclass
class BulkCounts:
    """What became of the documents of one or more bulk requests.

    :param sent: documents sent, each once however often it was retried.
    :param acknowledged: documents that Elasticsearch took.
    :param rejected: documents that it did not take, by type of the error, with its status where the response has it.
    :param reasons: the first three different reasons, shortened.
    :param requests: HTTP requests, retries included.
    :param retries: requests repeated because Elasticsearch had no room for them (status 429).
    :param took_ms: sum of ``took``; its resolution is that of the node's clock, 200 ms by default.
    :param send_ms: sum over requests of the time from the start of sending to the end of the response.
    :param parse_ms: sum over requests of the time to decode the response.
    :param bytes_out: of the bodies.
    :param bytes_in: of the responses.
    """

    sent: int = 0
    acknowledged: int = 0
    rejected: Counter = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    requests: int = 0
    retries: int = 0
    took_ms: float = 0.0
    send_ms: float = 0.0
    parse_ms: float = 0.0
    bytes_out: int = 0
    bytes_in: int = 0

    def add(self, other: "BulkCounts") -> None:
        """Adds the counts of further requests."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        self.reasons = list(dict.fromkeys(self.reasons))[:MOST_REASONS]

    @property
    def errors(self) -> int:
        """Documents that were not taken."""
        return self.sent - self.acknowledged

    def problem(self) -> str:
        """One line about the documents that were not taken; empty when all were."""
        if not self.errors:
            return ""
        kinds = ", ".join(f"{count:,} by {kind}" for kind, count in self.rejected.most_common())
        return f"{self.errors:,} of {self.sent:,} documents rejected: {kinds} ({' | '.join(self.reasons)})"


async def load(es: Any, index: str, body: bytes, documents: int) -> BulkCounts:
    """Sends a bulk body none of whose documents may be rejected, in the current request context.

    :raises esrally.exceptions.RallyAssertionError: when one was, or no answer came; this ends the race.
    """
    with guarding(f"bulk to [{index}]"):
        counts = await send_bulk(es, index, body, documents)
    if counts.errors:
        raise exceptions.RallyAssertionError(f"bulk to [{index}]: {counts.problem()}")
    return counts


async def load_all(es: Any, index: str, bodies: Iterator[tuple[bytes, int]], loaders: int = 1) -> None:
    """Loads bulk bodies into an index outside the timed section, see :func:`load`.

    :param bodies: each with the number of its documents.
    :param loaders: requests on their way at once (default 1).
    """

    async def loader() -> None:
        for body, documents in bodies:
            with aside(es):  # responses of the context are undecoded from here on
                await load(es, index, body, documents)

    await at_once([loader() for _ in range(loaders)])


async def send_bulk(
    es: Any,
    index: str,
    body: bytes,
    documents: int,
    content_type: str = "application/x-ndjson",
    filter_path: str = FILTER,
    headers: dict[str, str] | None = None,
) -> BulkCounts:
    """Sends one bulk body in the current request context and counts what became of its documents.

    A request of which Elasticsearch rejected every document with status 429 (a full queue) is repeated after a pause,
    up to five times. One of which it rejected some is not: a filtered response does not tell which, and the others
    would be indexed twice; these count as rejected.

    :param body: the whole body, in the encoding of ``content_type``.
    :param documents: how many documents it holds.
    :param filter_path: of the response; empty for the whole response.
    :param headers: further headers, such as ``content-encoding``.
    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch refuses the request as a whole, other than by
        status 429; this ends the race.
    """
    import elasticsearch

    path = f"/{index}/_bulk?filter_path={filter_path}" if filter_path else f"/{index}/_bulk"
    headers = headers_of(es, content_type) | (headers or {})
    counts = BulkCounts(sent=documents)
    while True:
        es.return_raw_response()
        started = time.perf_counter()
        try:
            response = await once(es).perform_request(method="POST", path=path, headers=headers, body=body)
            raw = response.body.getvalue()
        except elasticsearch.ApiError as e:
            raw = e.body.getvalue()
            if e.status_code != 429:
                raise exceptions.RallyAssertionError(f"bulk to [{index}] was refused: {_meant(refusal(e))}") from None
        received = time.perf_counter()
        decoded = json.loads(raw)
        failures = _failures(decoded, documents)
        counts.parse_ms += 1000 * (time.perf_counter() - received)
        counts.send_ms += 1000 * (received - started)
        counts.took_ms += decoded.get("took", 0)
        counts.requests += 1
        counts.bytes_out += len(body)
        counts.bytes_in += len(raw)
        counts.rejected = Counter(kind for kind, _ in failures)
        full = sum(count for kind, count in counts.rejected.items() if kind.startswith("429 "))
        if full < documents or counts.retries == MOST_RETRIES:
            break
        await asyncio.sleep(FIRST_BACKOFF_S * 2**counts.retries)
        counts.retries += 1
    counts.acknowledged = documents - len(failures)
    counts.reasons = list(dict.fromkeys(reason for _, reason in failures))[:MOST_REASONS]
    return counts


def _root_reason(error: dict[str, Any]) -> str:
    """The reason of the innermost cause, which tells what is wrong with the bytes."""
    while "caused_by" in error:
        error = error["caused_by"]
    return str(error.get("reason"))


def _meant(reason: str, said: str = "") -> str:
    """A reason, with what it means where Elasticsearch's words mislead.

    :param said: these words; default is the reason.
    """
    return reason + next((f" ({text})" for words, text in MISLEADING.items() if words in (said or reason)), "")


def _failures(response: dict[str, Any], documents: int) -> list[tuple[str, str]]:
    """Status with type, and reason, of each document that was not taken."""
    if "items" not in response and "error" in response:  # the request was refused as a whole
        return [_failure(response["error"], response.get("status"))] * documents
    if not response["errors"]:
        return []
    items = (next(iter(item.values())) for item in response["items"])
    return [_failure(item["error"], item.get("status")) for item in items if "error" in item]


def _failure(error: dict[str, Any], status: int | None) -> tuple[str, str]:
    """Status, if the response was not filtered, with the type of the error, and its reason in one line."""
    kind = error["type"] if status is None else f"{status} {error['type']}"
    reason = " ".join(str(error.get("reason")).split())
    return REJECTED if REJECTED.endswith(kind) else kind, _meant(reason[:REASON_CHARS], reason + _root_reason(error))
