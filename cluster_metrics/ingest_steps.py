"""The steps from a naive ingesting client to the best one, as data, and the cells that walk them."""

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from esrally import exceptions
from esrally.driver import runner
from esrally.track.params import GenerateActionMetaData, MetadataIndexDataReader, Slice
from esrally.utils import io

from .bulk import FILTER, BulkCounts, send_bulk
from .corpus import Corpus
from .encoded import EncodedRows
from .ingest_cell import INDEX, IngestCell

DESIGNS = ("cumulative", "one-at-a-time")
NAIVE = "naive"
NATIVE = "native"
SLICES = "slices-1000"
"""Our bulk runner as Rally's own is used: one client, 1,000 documents a request."""


@dataclass(frozen=True)
class Client:
    """How a client ingests. As constructed it is seed 000's: two ``json.dumps`` a row when it is sent, a connection for
    each request, the whole response parsed.

    :param keep_alive: whether connections are kept open between requests.
    :param dumps: the package that encodes, ``json`` or ``orjson``.
    :param constant_action: whether the action line is a constant, so that only the row is encoded.
    :param filter_path: of the response; empty for all of it.
    :param sliced: whether bodies are slices of a file that was encoded beforehand.
    :param clients: coroutines that send at once.
    :param bulk_size: documents of a request.
    :param settings: of the index.
    """

    keep_alive: bool = False
    dumps: str = "json"
    constant_action: bool = False
    filter_path: str = ""
    sliced: bool = False
    clients: int = 1
    bulk_size: int = 1000
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One change to the client or the index.

    :param name: of the cell that has it.
    :param text: what it changes.
    :param change: attributes of :class:`Client`; settings are added to those already there.
    :param price: what it costs.
    :param seed: what seed 000 expects it to save per million rows; empty where it expects nothing.
    :param seed_s: the same in seconds, where it gives a figure.
    """

    name: str
    text: str
    change: dict[str, Any]
    price: str
    seed: str = ""
    seed_s: tuple[float, float] | None = None


STEPS = (
    Step("keep-alive", "connections kept open", {"keep_alive": True}, "none", "seconds"),
    Step("orjson", "orjson in place of json", {"dumps": "orjson"}, "one package more", "10–15 s", (10, 15)),
    Step(
        "constant-action",
        "the action line is a constant",
        {"constant_action": True},
        "all rows go to one index under generated ids",
    ),
    Step(
        "filter-path",
        "only took and errors in the response",
        {"filter_path": FILTER},
        "the ids that documents got are not told",
    ),
    Step(
        "bulk-10000",
        "10,000 documents a request",
        {"bulk_size": 10_000},
        "a megabyte a request on both sides; a refused request holds more rows",
        "5–10 s",
        (5, 10),
    ),
    Step(
        "slices",
        "bodies encoded beforehand",
        {"sliced": True},
        "what encodes is elsewhere: only where rows can be written in the form in which they are sent",
    ),
    Step("clients-2", "2 clients", {"clients": 2}, "rows arrive in no order", "parallel indexing threads"),
    Step("clients-4", "4 clients", {"clients": 4}, "as with 2; more requests are open at a time"),
    Step("clients-8", "8 clients", {"clients": 8}, "as with 4"),
    Step(
        "refresh-off",
        "no refresh while it ingests",
        {"settings": {"index.refresh_interval": "-1"}},
        "rows are found only after a refresh at the end",
        "1–5 s",
        (1, 5),
    ),
    Step(
        "translog-async",
        "translog written to disk every 5 s, not per request",
        {"settings": {"index.translog.durability": "async"}},
        "a crash may lose the rows of the last 5 s",
        "5–10 s",
        (5, 10),
    ),
)


def has_orjson() -> bool:
    """Whether the optional package is there."""
    return importlib.util.find_spec("orjson") is not None


def clients(design: str, orjson: bool) -> dict[str, Client]:
    """The clients of a design by the name of their cell: the naive one, each step, and ours as Rally's is used.

    :param design: ``cumulative`` (each step on top of those before) or ``one-at-a-time`` (each on top of naive).
    :param orjson: whether the step orjson can be taken; if not it is left out, and those after it use json.
    """
    found = {NAIVE: Client()}
    client = found[NAIVE]
    for step in STEPS:
        if step.name == "orjson" and not orjson:
            continue
        base = client if design == "cumulative" else found[NAIVE]
        client = replace(base, **step.change | {"settings": base.settings | step.change.get("settings", {})})
        found[step.name] = client
    return found | {SLICES: Client(keep_alive=True, filter_path=FILTER, sliced=True)}


def encoder(dumps: str, constant_action: bool) -> Callable[[list[dict[str, Any]]], bytes]:
    """Makes bulk bodies of decoded rows with the package ``dumps``, the action line a constant or encoded per row."""
    encode: Any = json.dumps
    newline: Any = "\n"
    if dumps == "orjson":
        import orjson

        encode, newline = orjson.dumps, b"\n"
    constant = encode({"index": {}})

    def body(rows: list[dict[str, Any]]) -> bytes:
        if constant_action:
            lines = [line for row in rows for line in (constant, encode(row))]
        else:
            lines = [line for row in rows for line in (encode({"index": {}}), encode(row))]
        joined = newline.join([*lines, newline[:0]])
        return joined.encode() if isinstance(joined, str) else joined

    return body


class _TimedBulk(runner.BulkIndex):
    """Rally's own bulk runner, which also says how long it parses and how much."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_s = 0.0
        self.bytes_in = 0

    def simple_stats(self, bulk_size: int, unit: str, response: Any, params: dict[str, Any]) -> Any:
        started = time.perf_counter()
        stats = super().simple_stats(bulk_size, unit, response, params)
        self.parse_s += time.perf_counter() - started
        self.bytes_in += len(response.getvalue())
        return stats


async def send_by_rally(es: Any, index: str, body: bytes, documents: int) -> BulkCounts:
    """Sends a bulk body, whose action lines name the index, by Rally's own runner; what is not parsing is sending."""
    bulk = _TimedBulk()
    params = {"action-metadata-present": True, "bulk-size": documents, "unit": "docs", "body": body}
    started = time.perf_counter()
    result = await bulk(es, params)
    elapsed_s = time.perf_counter() - started
    counts = BulkCounts(
        sent=documents,
        acknowledged=result["success-count"],
        requests=1,
        took_ms=float(result["took"]),
        send_ms=1000 * (elapsed_s - bulk.parse_s),
        parse_ms=1000 * bulk.parse_s,
        bytes_out=len(body),
        bytes_in=bulk.bytes_in,
    )
    if counts.errors:
        counts.rejected["error"] = counts.errors
        counts.reasons = [result.get("error-description", "")]
    return counts


class Rows:
    """The first rows of an epoch in each form that a client starts from, made before anything is timed.

    :param count: how many.
    """

    def __init__(self, corpus: Corpus, epoch: int, rows_file: str, count: int):
        self.count = count
        self._file = rows_file
        self._encoded = EncodedRows(corpus, epoch, rows_file)
        with open(rows_file, "rb") as f:
            self._decoded = [json.loads(f.readline()) for _ in range(count)]
        self._bodies: Iterator[tuple[int, bytes]] = iter(())

    def cells(self, design: str) -> list[IngestCell]:
        """All cells of a design, with Rally's own bulk runner as the last."""
        found = [self._cell(name, client) for name, client in clients(design, has_orjson()).items()]
        return [*found, IngestCell(NATIVE, self._by_rally, send_by_rally)]

    def _cell(self, name: str, client: Client) -> IngestCell:
        headers = {} if client.keep_alive else {"connection": "close"}
        send = partial(send_bulk, filter_path=client.filter_path, headers=headers)
        if client.sliced:
            body = self._encoded.body
        else:
            encode = encoder(client.dumps, client.constant_action)

            def body(first: int, count: int) -> bytes:
                return encode(self._decoded[first : first + count])

        return IngestCell(name, body, send, client.clients, client.bulk_size, client.settings)

    def _by_rally(self, first: int, count: int) -> bytes:
        if first == 0:
            self._bodies = self._rally_bodies(count)
        documents, body = next(self._bodies)
        if documents != count:
            raise exceptions.RallyAssertionError(f"Rally read {documents:,} rows, {count:,} were due")
        return body

    def _rally_bodies(self, bulk_size: int) -> Iterator[tuple[int, bytes]]:
        """The bodies as the param source of Rally's bulk operation reads them from the rows."""
        source, action = Slice(io.MmapSource, 0, self.count), GenerateActionMetaData(INDEX, None)
        with MetadataIndexDataReader(self._file, bulk_size, bulk_size, source, action, INDEX, None) as reader:
            for _, _, batch in reader:
                yield from batch
