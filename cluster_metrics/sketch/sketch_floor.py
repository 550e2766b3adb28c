"""Runners and param sources of sketch-floor: the same rows and questions to Elasticsearch and to the sketch server."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from esrally import exceptions

from ..core.index import create_own_index, delete_own_index, index_body
from ..core.rounds import Guard, RoundParams, Runner, losing_one, outcome, round_result, shuffled, timed
from ..corpus.answers import PERCENTS, check_response
from ..corpus.encoded import JSON_ACTION, metrics_bodies
from ..corpus.metrics import NAME, Metrics
from ..corpus.prepared import Prepared
from ..wire.bulk import FILTER, BulkCounts, send_bulk
from ..wire.coverage import TYPE, Coverages, ask
from ..wire.questions import PRODUCTION, TRANSPORTS
from ..wire.requests import aside, get, request, touch
from ..wire.stats import index_times

INGESTED = "ingested-rows"
"""``operation-type`` of the sample that a way to hand in rows leaves."""
NDJSON, COLUMNAR = "application/x-ndjson", "application/json"


@dataclass(frozen=True)
class Ingest:
    """One way to hand in rows.

    :param text: what it is, in words.
    :param elasticsearch: whether they go to Elasticsearch, otherwise to the sketch server.
    :param columnar: one object of arrays per batch, otherwise the two lines per row of a bulk body.
    :param items: whether the response has an entry per row.
    :param batch: rows of a request; 0 for the parameter ``bulk_size``.
    :param encoded: whether the bodies are encoded before the clock runs.
    :param settings: of the index.
    :param kinds: of what a user changes who hands in rows so, see :data:`..core.change.KINDS`.
    :param price: what one pays for it.
    """

    text: str
    elasticsearch: bool = False
    columnar: bool = False
    items: bool = False
    batch: int = 0
    encoded: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("client",)
    price: str = "none"


BEST = "elasticsearch-best"
INGESTS = {
    "elasticsearch-full": Ingest("bulk, whole response", elasticsearch=True, items=True),
    "elasticsearch-filtered": Ingest(
        "bulk, filtered response", elasticsearch=True, price="the ids that documents got are not told"
    ),
    "sketch-rows-items": Ingest("bulk body, an entry per row back", items=True),
    "sketch-rows": Ingest("bulk body, a count back"),
    "sketch-columns-items": Ingest("columnar body, an entry per row back", columnar=True, items=True),
    "sketch-columns": Ingest("columnar body, a count back", columnar=True),
    BEST: Ingest(
        "bulk at its best: filtered, encoded before, 10,000 rows, no refresh",
        elasticsearch=True,
        batch=10_000,
        encoded=True,
        settings={"index.refresh_interval": "-1"},
        kinds=("client", "settings"),
        price="rows are found only after a refresh at the end; rows must be there as bodies; ids are not told",
    ),
    "sketch-best": Ingest("columnar, encoded before, 10,000 rows", columnar=True, batch=10_000, encoded=True),
}
"""The ways by name. Elasticsearch takes those of each in an index of its own, the best in the track's own index; the
sketch server in tables."""


def index_of(name: str) -> str:
    return NAME if name == BEST else f"{NAME}-{name.removeprefix('elasticsearch-')}"


def encode(ingest: Ingest, rows: list[dict[str, Any]] | dict[str, list]) -> bytes:
    """The body of a request, as a client writes it that takes no care: by ``json.dumps`` of each part.

    :param rows: a list of rows, or for a columnar body an object of arrays.
    """
    if ingest.columnar:
        return json.dumps(rows).encode()
    return "".join(f"{json.dumps({'index': {}})}\n{json.dumps(row)}\n" for row in rows).encode()


class SketchServer:
    """A client of the sketch server with an HTTP session of its own, since Rally's client is for Elasticsearch.

    :param host: ``host:port``.
    """

    def __init__(self, host: str):
        self._host = host

    async def __aenter__(self) -> "SketchServer":
        self._session = aiohttp.ClientSession(f"http://{self._host}", timeout=aiohttp.ClientTimeout(60))
        try:
            await self.send("GET", "/")
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, body: bytes | None = None, content_type: str = COLUMNAR) -> bytes:
        """Sends a request and returns the response undecoded.

        :raises esrally.exceptions.RallyAssertionError: when there is no server, or it refuses; this ends the race.
        """
        headers = {"content-type": content_type} if body else {}
        try:
            async with self._session.request(method, path, data=body, headers=headers) as response:
                text = await response.read()
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise exceptions.RallyAssertionError(
                f"the sketch server [{self._host}] does not answer ({e}); start it by make up SKETCH=1 "
                f"or set the track parameter [sketch_server]"
            ) from None
        if response.status != 200:
            reason = text[:300].decode(errors="replace")
            raise exceptions.RallyAssertionError(f"the sketch server refuses {method} {path}: {reason}")
        return text

    async def insert(self, table: str, body: bytes, rows: int, columnar: bool, items: bool) -> BulkCounts:
        """Sends a batch and counts its rows as :func:`..wire.bulk.send_bulk` does."""
        started = time.perf_counter()
        raw = await self.send("POST", f"/{table}/rows{'?items' * items}", body, COLUMNAR if columnar else NDJSON)
        received = time.perf_counter()
        decoded = json.loads(raw)
        acknowledged = len(decoded["items"]) if items else decoded["inserted"]
        return BulkCounts(
            sent=rows,
            acknowledged=acknowledged,
            requests=1,
            send_ms=1000 * (received - started),
            parse_ms=1000 * (time.perf_counter() - received),
            bytes_out=len(body),
            bytes_in=len(raw),
        )


class FloorIngestParams(RoundParams):
    """Param source of the ingest rounds. A round hands in its part of every epoch in all ways, in seeded order, so that
    all rounds together hand in the corpus once.

    Track parameters: ``seed``, ``bulk_size``, ``sketch_server``, ``number_of_shards``, ``number_of_replicas``,
    ``delete_foreign_index``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, Metrics)
        corpus, rounds = self._prepared.corpus, params["iterations"]
        if corpus.rows_per_epoch < corpus.nodes:
            raise exceptions.TrackConfigError(
                f"track parameter [nodes] is [{corpus.nodes}], allowed are up to as many as rows_per_epoch"
            )
        if corpus.rows_per_epoch < rounds:
            raise exceptions.TrackConfigError(
                f"track parameter [rounds] is [{rounds}], allowed are up to as many as rows_per_epoch"
            )

    def round(self, number: int) -> dict[str, Any]:
        rows, rounds = self._prepared.corpus.rows_per_epoch, self.operation["iterations"]
        part = (number - 1) % rounds
        return {
            "parameters": self.values,
            "ways": shuffled(list(INGESTS), self.values["seed"], "sketch-floor", number),
            "rows": range(part * rows // rounds, (part + 1) * rows // rounds),
            "fresh": number in (1 - self.operation["warmup-iterations"], 1),
            "last": number == rounds,
            "index": index_body(self.track, NAME),
            "prepared": self._prepared,
        }


class FloorIngestRunner(Guard):
    """Hands in one round's rows in all ways, each a ``service_time`` document of its own.

    All times are sums over the requests; making the rows that a client would hold anyway is in none of them.

    Before the first warm-up round and the first counted round indices and tables are made anew. After the last round
    the documents of each index are counted and the answers of each table checked; the indices but the track's own are
    deleted.

    :raises esrally.exceptions.RallyAssertionError: when rows were not taken, or are not there in the end, or an answer
        is wrong; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        timings = []
        async with SketchServer(params["parameters"]["sketch_server"]) as server:
            if params["fresh"]:
                await self._create(es, server, params)
            for name in params["ways"]:
                timings.append(await self._ingest(es, server, name, params) | {"round": params["round"]})
            if params["last"]:
                await self._check(es, server, params["prepared"])
        return round_result(timings, round=params["round"])

    async def _create(self, es: Any, server: SketchServer, params: dict[str, Any]) -> None:
        values = params["parameters"]
        body = params["index"]
        common = body["settings"] | {f"index.{key}": values[key] for key in ("number_of_replicas", "number_of_shards")}
        nodes = json.dumps({"nodes": params["prepared"].corpus.node_names()}).encode()
        for name, ingest in INGESTS.items():
            if ingest.elasticsearch:
                with aside(es):
                    own = body | {"settings": common | ingest.settings}
                    await create_own_index(es, index_of(name), own, values["delete_foreign_index"])
            else:
                await server.send("PUT", f"/{name}", nodes)

    async def _ingest(self, es: Any, server: SketchServer, name: str, params: dict[str, Any]) -> dict[str, Any]:
        ingest = INGESTS[name]
        stats = await index_times(es, index_of(name)) if ingest.elasticsearch else {}
        counts = BulkCounts()
        encode_s = client_s = 0.0
        absolute_time, started = time.time(), time.perf_counter()
        for held, rows in batches(ingest, params):
            client, clock = time.process_time(), time.perf_counter()
            body = held if ingest.encoded else encode(ingest, held)
            encode_s += time.perf_counter() - clock
            if ingest.elasticsearch:
                filter_path = "" if ingest.items else FILTER
                with es.new_request_context():
                    counts.add(await send_bulk(es, index_of(name), body, rows, filter_path=filter_path))
            else:
                counts.add(await server.insert(name, body, rows, ingest.columnar, ingest.items))
            client_s += time.process_time() - client
        ended = time.perf_counter()
        if counts.errors:
            raise exceptions.RallyAssertionError(f"{name}: {counts.problem()}")
        sums = ("requests", "retries", "bytes_out", "bytes_in", "send_ms", "parse_ms")
        meta = {
            **{key: getattr(counts, key) for key in sums},
            "rows": counts.sent,
            "encode_ms": 1000 * encode_s,
            "wall_ms": 1000 * encode_s + counts.send_ms + counts.parse_ms,
            "client_cpu_ms": 1000 * client_s,
            "success-count": counts.acknowledged,
            **outcome([], ""),
            "dependent_timing": timed(name, INGESTED, absolute_time, started, ended),
        }
        if ingest.elasticsearch:
            clock = time.perf_counter()
            await _settle(es, index_of(name))
            meta |= {"took_ms": counts.took_ms, "settle_ms": 1000 * (time.perf_counter() - clock)}
            meta |= {key: value - stats[key] for key, value in (await index_times(es, index_of(name))).items()}
        return meta

    async def _check(self, es: Any, server: SketchServer, prepared: Prepared) -> None:
        rows = prepared.corpus.rows_per_epoch * prepared.corpus.epochs
        for name, ingest in INGESTS.items():
            if ingest.elasticsearch:
                found = (await get(es, f"/{index_of(name)}/_count"))["count"]
                if found != rows:
                    raise exceptions.RallyAssertionError(
                        f"{name}: {rows:,} documents were acknowledged, the index has {found:,}: {found - rows:+,}"
                    )
                if name != BEST:
                    with aside(es):
                        await delete_own_index(es, index_of(name))
                continue
            for epoch in range(1, prepared.corpus.epochs + 1):
                answers = json.loads(await server.send("GET", question(name, epoch)))
                _, problems = check_answers(answers, prepared.answers(epoch - 1))
                if problems:
                    raise exceptions.RallyAssertionError(f"{name}, epoch {epoch}: {problems[0]}")


def batches(ingest: Ingest, params: dict[str, Any]) -> Iterator[tuple[Any, int]]:
    """Of each request what the client holds before the clock runs, and the number of its rows.

    It holds the body where that is encoded before, otherwise rows or columns in memory; reading these from the corpus
    is no part of its work.
    """
    prepared: Prepared = params["prepared"]
    size = ingest.batch or params["parameters"]["bulk_size"]
    for epoch in range(1, prepared.corpus.epochs + 1):
        bodies = metrics_bodies(prepared.corpus, epoch, prepared.file(epoch - 1))
        for start in range(0, len(params["rows"]), size):
            rows = params["rows"][start : start + size]
            held: Any = bodies.body(rows.start, len(rows))
            if ingest.columnar or not ingest.encoded:
                held = json.loads(b"[%b]" % held.replace(JSON_ACTION, b"")[:-1].replace(b"\n", b","))
            if ingest.columnar:
                held = {key: [row[key] for row in held] for key in held[0]}
                held = encode(ingest, held) if ingest.encoded else held
            yield held, len(rows)


async def _settle(es: Any, index: str) -> None:
    """Refreshes an index and waits until nothing merges."""
    with aside(es):
        await request(es, "POST", f"/{index}/_refresh", timeout=1800)
    path = f"/{index}/_stats/merge?filter_path=_all.total.merges.current"
    while (await get(es, path))["_all"]["total"]["merges"]["current"]:
        await asyncio.sleep(0.1)


def question(table: str, epoch: int, node: str = "") -> str:
    """The path of the production question to the sketch server; without a node about all."""
    percents = ",".join(map(str, PERCENTS))
    return f"/{table}/answers?epoch={epoch}&percents={percents}" + (f"&node={node}" if node else "")


def check_answers(answers: dict[str, Any], expected: dict[str, Any]) -> tuple[float, list[str]]:
    """Holds the sketch server's answers against the exact ones: counts exactly, sums, p0, p100, p50 and p90 as those of
    t-digest, whose 2 % of the rows are beyond the 1.33 % that the sketches promise.

    :param answers: by node and field.
    :param expected: the same, see :func:`..corpus.answers.field_answers`.
    :return: the greatest relative error of p50 and p90, and what is wrong.
    """
    worst, problems = 0.0, []
    if set(answers) != set(expected):
        return 0.0, [f"answers are of {len(answers)} nodes, asked was about {len(expected)}"]
    for node, fields in expected.items():
        aggregations: dict[str, Any] = {}
        for name, exact in fields.items():
            got = answers[node][name]
            if got["count"] != exact["count"]:
                problems.append(f"{node}: {name} has {got['count']:,} rows, exact {exact['count']:,}")
            aggregations[f"{name}_sum"] = {"value": got["sum"]}
            aggregations[f"{name}_pct"] = {"values": got["percentiles"]}
        error, wrong = check_response({"aggregations": aggregations}, fields, True, "tdigest")
        worst = max(worst, error)
        problems += [f"{node}: {p}" for p in wrong]
    return worst, problems


ASKS = {"sketch-serial": "a request per node", "sketch-all": "one request for all nodes"}
"""How the sketch server is asked, beside Elasticsearch's production query by both transports."""


class FloorQuestionsParams(RoundParams):
    """Param source of the question rounds: the production question to both, in seeded order, about the same epoch.

    Track parameters: ``seed``, ``sketch_server``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._coverages = Coverages(track)

    def round(self, number: int) -> dict[str, Any]:
        epoch = 1 + number % len(self._coverages.epochs)
        made = [self._coverages.make(PRODUCTION.by(transport), epoch) for transport in TRANSPORTS]
        asks: dict[str, Any] = {coverage.configuration.name: coverage for coverage in made}
        order = shuffled([*asks, *ASKS], self.values["seed"], "questions", number)
        return {
            "sketch-server": self.values["sketch_server"],
            "epoch": epoch,
            "answers": made[0].expected,
            "asks": [(name, asks.get(name)) for name in order],
        }


class FloorQuestionsRunner(Runner):
    """Asks both the production question once by each way, each a ``service_time`` document of its own."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        timings: list[dict[str, Any]] = []
        common = {"round": params["round"], "epoch": params["epoch"]}
        async with SketchServer(params["sketch-server"]) as server:
            for name, coverage in params["asks"]:
                with losing_one(name, TYPE, timings, **common):
                    if coverage:
                        asked = await ask(es, coverage)
                        meta, timing = asked.checked(), asked.timing
                    else:
                        meta, timing = await self._ask(server, name, params["epoch"], params["answers"])
                    timings.append(meta | common | {"dependent_timing": timing})
        return round_result(timings, round=params["round"])

    async def _ask(self, server: SketchServer, name: str, epoch: int, expected: dict) -> tuple[dict, dict]:
        nodes = list(expected) if name == "sketch-serial" else [""]
        absolute_time, started = time.time(), time.perf_counter()
        responses = [await server.send("GET", question("sketch-columns", epoch, node)) for node in nodes]
        ended = time.perf_counter()
        answers: dict[str, Any] = {}
        for response in responses:
            answers |= json.loads(response)
        error, problems = check_answers(answers, expected)
        meta = {
            "searches": len(nodes),
            "wall_ms": 1000 * (ended - started),
            "response_bytes": sum(map(len, responses)),
            "max_percentile_error": error,
            **outcome(problems, "wrong-answer"),
        }
        return meta, timed(name, TYPE, absolute_time, started, ended)
