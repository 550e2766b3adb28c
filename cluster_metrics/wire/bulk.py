"""Sends bulk bodies and counts what became of every document."""

import asyncio
import functools
import gzip
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esrally import exceptions

from ..corpus.encoded import JSON_ACTION
from .requests import REFUSAL_CHARS, aside, at_once, guarding, headers_of, once, refusal
from .smile import CONTENT_TYPE as SMILE
from .smile import SEPARATOR

FILTER = "took,errors,items.*.error"
"""``filter_path`` that leaves 25 bytes of a response without errors, and of another one what went wrong."""
STATUSES = ",items.*.status"
"""What of a filtered response tells which documents were rejected, in 24 bytes a document."""
MOST_RETRIES = 5
FIRST_BACKOFF_S = 0.5
"""Pause before the first retry; it doubles with each further one."""
GZIP_LEVEL = 1
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
KEPT_BYTES = (32 << 20) - (1 << 16)
"""The largest block after which glibc raises its thresholds, less a page or so."""
REJECTED = "429 es_rejected_execution_exception"
"""A full queue; known by its type where a filtered response has no status."""


@dataclass(frozen=True)
class Backoff:
    """How documents that Elasticsearch has no room for (status 429) are sent again.

    :param most: how often (default 5).
    :param pause_s: before the first time, in s (default 0.5); the pause doubles with each further one.
    :param one_by_one: whether a part of a request may be rejected, as by an index of several shards, so that a filtered
        response must have the status of each document (default false).
    """

    most: int = MOST_RETRIES
    pause_s: float = FIRST_BACKOFF_S
    one_by_one: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Backoff":
        """As the track parameters ``bulk_retries``, ``bulk_retry_pause_ms`` and ``number_of_shards`` say."""
        pause_s = values["bulk_retry_pause_ms"] / 1000
        return cls(values["bulk_retries"], pause_s, one_by_one=values["number_of_shards"] > 1)


USUAL = Backoff()


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
    :param retries: requests repeated, as a whole or in part, because Elasticsearch had no room (status 429).
    :param repeated_docs: documents sent again by these, each as often as that was.
    :param retry_wait_ms: pauses before these.
    :param took_ms: sum of ``took``; its resolution is that of the node's clock, 200 ms by default.
    :param send_ms: sum over requests of the time from the start of sending to the end of the response.
    :param parse_ms: sum over requests of the time to decode the response.
    :param encode_ms: sum over requests of the time to compress the body.
    :param bytes_out: of the bodies.
    :param bytes_in: of the responses.
    """

    sent: int = 0
    acknowledged: int = 0
    rejected: Counter = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    requests: int = 0
    retries: int = 0
    repeated_docs: int = 0
    retry_wait_ms: float = 0.0
    took_ms: float = 0.0
    send_ms: float = 0.0
    parse_ms: float = 0.0
    encode_ms: float = 0.0
    bytes_out: int = 0
    bytes_in: int = 0

    def add(self, other: "BulkCounts") -> None:
        """Adds the counts of further requests."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        self.reasons = list(dict.fromkeys(self.reasons))[:MOST_REASONS]

    def lose(self, failures: Sequence[tuple[str, str]]) -> None:
        """Counts all as taken but those that failed, see :func:`failures_in`."""
        self.acknowledged = self.sent - len(failures)
        self.rejected = Counter(kind for kind, _ in failures)
        self.reasons = list(dict.fromkeys(reason for _, reason in failures))[:MOST_REASONS]

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
    """Sends a bulk body all of whose documents must be taken in the end, in the current request context; those that a
    full queue rejected are sent again one by one.

    :raises esrally.exceptions.RallyAssertionError: when one was, or no answer came; this ends the race.
    """
    with guarding(f"bulk to [{index}]"):
        counts = await send_bulk(es, index, body, documents, backoff=Backoff(one_by_one=True))
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
    compress: bool = False,
    backoff: Backoff = USUAL,
    pipeline: str = "",
) -> BulkCounts:
    """Sends one bulk body in the current request context and counts what became of its documents.

    Documents that Elasticsearch rejects with status 429 (a full queue) are sent again after a pause, they alone, until
    it takes them or ``backoff`` says that it is enough; they were not indexed, so none is indexed twice. Where a
    filtered response does not tell which of several they were, they count as rejected.

    :param body: the whole body, in the encoding of ``content_type``.
    :param documents: how many documents it holds, each with an action before it.
    :param filter_path: of the response; empty for the whole response.
    :param compress: by gzip (default false).
    :param backoff: how rejected documents are sent again.
    :param pipeline: that documents go through; empty for that of the index.
    :raises esrally.exceptions.RallyAssertionError: when Elasticsearch refuses the request as a whole, other than by
        status 429; this ends the race.
    """
    wanted = filter_path + STATUSES if filter_path and backoff.one_by_one else filter_path
    named = "&".join(filter(None, (pipeline and f"pipeline={pipeline}", wanted and f"filter_path={wanted}")))
    path = f"/{index}/_bulk?{named}" if named else f"/{index}/_bulk"
    headers = headers_of(es, content_type) | ({"content-encoding": "gzip"} if compress else {})
    counts, left, lost = BulkCounts(sent=documents), documents, list[tuple[str, str]]()
    while True:
        response = await _send(es, index, path, headers, body, counts)
        started = time.perf_counter()
        failures = failures_in(response, left)
        full = _full(response, failures, left) if counts.retries < backoff.most else []
        counts.parse_ms += 1000 * (time.perf_counter() - started)
        lost += [failure for failure in failures if not (full and _is_full(failure[0]))]
        if not full:
            break
        if len(full) < left:
            body, left = _part_of(body, full, SEPARATOR if content_type == SMILE else b"\n"), len(full)
        paused = time.perf_counter()
        await asyncio.sleep(backoff.pause_s * 2**counts.retries)
        counts.retry_wait_ms += 1000 * (time.perf_counter() - paused)
        counts.retries += 1
        counts.repeated_docs += left
    counts.lose(lost)
    return counts


async def _send(
    es: Any, index: str, path: str, headers: dict[str, str], body: bytes, counts: BulkCounts
) -> dict[str, Any]:
    """The decoded response to one request, whose times and bytes are added to the counts."""
    import elasticsearch

    keep_memory()
    if "content-encoding" in headers:
        started = time.perf_counter()
        body = gzip.compress(body, GZIP_LEVEL)
        counts.encode_ms += 1000 * (time.perf_counter() - started)
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
    decoded: dict[str, Any] = json.loads(raw)
    counts.parse_ms += 1000 * (time.perf_counter() - received)
    counts.send_ms += 1000 * (received - started)
    counts.took_ms += decoded.get("took", 0)
    counts.requests += 1
    counts.bytes_out += len(body)
    counts.bytes_in += len(raw)
    return decoded


@functools.cache
def keep_memory() -> None:
    """Has the C library keep memory of the size of a body for the next one, from now on.

    glibc gives back what is free beyond twice the largest block that was freed before (mallopt(3),
    ``M_MMAP_THRESHOLD``). Then the first touch of each page of a body, and of its copies on the way, is a fault, or is
    none, by what was sent before: of 2.3 MB 1,460 faults, which were 3.5 of 5.5 ms of a client's CPU.
    """
    bytearray(KEPT_BYTES)  # and freed


def _is_full(kind: str) -> bool:
    return kind.startswith("429 ")


def _full(response: Mapping[str, Any], failures: Sequence[tuple[str, str]], documents: int) -> list[int]:
    """The documents, counted from 0, that were rejected with status 429; none where the response does not tell which.

    :param failures: as of :func:`failures_in`.
    :param documents: of the request.
    """
    if sum(_is_full(kind) for kind, _ in failures) == documents:
        return list(range(documents))
    items = response.get("items", [])
    if len(items) != documents:
        return []
    return [i for i, item in enumerate(items) if next(iter(item.values())).get("status") == 429]


def _part_of(body: bytes, numbers: Sequence[int], separator: bytes) -> bytes:
    """A bulk body of some documents of another, with their actions.

    :param numbers: of the documents, counted from 0.
    :param separator: that ends each action and each document, and is found nowhere else.
    """
    parts = body.split(separator)
    return b"".join(part + separator for number in numbers for part in parts[2 * number : 2 * number + 2])


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


def failures_in(response: dict[str, Any], documents: int) -> list[tuple[str, str]]:
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
    named = REJECTED if kind in (REJECTED, REJECTED.partition(" ")[2]) else kind
    return named, _meant(reason[:REASON_CHARS], reason + _root_reason(error))
