"""Runners and param sources of query-frontier: cost against measured error."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from esrally import exceptions

from .answers import field_answers, response_problems
from .bulk import send_bulk
from .configurations import CONFIGURATIONS, LAYOUTS, Configuration, answers_in, decoded, requests_of
from .corpus import FIELDS, NAME, Corpus
from .coverage import Coverages, shuffled
from .esql import refusal, response_problem, why_not
from .index import MARK, delete_own_index
from .queries import Request
from .requests import aside, request, send, target_cpu_ms
from .rounds import round_result, timed

BULK_ROWS = 10_000
CPU_SECONDS = 2.0
"""How long a configuration runs for its CPU figure; nodes sample their CPU once a second."""


def errors_of(aggregations: dict[str, Any], expected: dict[str, Any]) -> tuple[float, float, float]:
    """Relative errors of one node's answers.

    :param aggregations: by name, as Elasticsearch returns them.
    :param expected: the exact answers per field, see :func:`cluster_metrics.answers.field_answers`.
    :return: the greatest relative error over the fields of p50 and p90, of p0 and p100, and of the sum.
    """
    middle = extreme = total = 0.0
    for field, answer in expected.items():
        total = max(total, abs(aggregations[f"{field}_sum"]["value"] / answer["sum"] - 1))
        for key, got in aggregations[f"{field}_pct"]["values"].items():
            exact = answer["percentiles"][f"{float(key):g}"][0]
            error = abs(got / exact - 1) if got is not None else 1.0
            if float(key) in (50, 90):
                middle = max(middle, error)
            else:
                extreme = max(extreme, error)
    return middle, extreme, total


async def _send_all(es: Any, configuration: Configuration, requests: list[Request]) -> list[bytes]:
    if configuration.form != "concurrent":
        return [await send(es, r) for r in requests]
    waiting = iter(enumerate(requests))
    responses: dict[int, bytes] = {}

    async def connection() -> None:
        for i, r in waiting:
            responses[i] = await send(es, r)

    await asyncio.gather(*(connection() for _ in range(configuration.parallel)))
    return [responses[i] for i in range(len(requests))]


class Answer:
    """One coverage asked for by a configuration: timed first, then measured against the exact answers."""

    def __init__(self, name: str, epoch: int, coverages: Coverages):
        self.name, self.epoch = name, epoch
        self.configuration = CONFIGURATIONS[name]
        self.expected = coverages.answers(epoch)
        self.requests = requests_of(self.configuration, list(self.expected), epoch)

    async def ask(self, es: Any) -> dict[str, Any]:
        """Runs the coverage in a request context of its own.

        :return: what the sample records, with ``dependent_timing``.
        :raises esrally.exceptions.RallyAssertionError: when a search failed or nodes are missing in the answer.
        """
        absolute_time = time.time()
        with es.new_request_context() as context:
            raw = await _send_all(es, self.configuration, self.requests)
        seconds = context.request_end - context.request_start
        items = [decoded(self.configuration, r) for r in raw]
        if self.configuration.form == "msearch":
            items = items[0]["responses"]
        if problems := [p for item in items for p in (*response_problems(item), response_problem(item)) if p]:
            raise exceptions.RallyAssertionError(f"{self.name}: {problems[0]}")
        answers = answers_in(self.configuration, list(self.expected), items)
        if missing := set(self.expected) - set(answers):
            raise exceptions.RallyAssertionError(f"{self.name}: no answer for {len(missing)} nodes")
        errors = [errors_of(answers[node], fields) for node, fields in self.expected.items()]
        took_ms = float(sum(item["took"] for item in items))
        return {
            "configuration": self.name,
            "epoch": self.epoch,
            "searches": len(items),
            "took_ms": took_ms,
            "wall_ms": 1000 * seconds,
            "parallelism": took_ms / (1000 * seconds),
            "request_bytes": sum(len(r.body) for r in self.requests),
            "response_bytes": sum(map(len, raw)),
            "percentile_error": max(e[0] for e in errors),
            "extreme_error": max(e[1] for e in errors),
            "sum_error": max(e[2] for e in errors),
            "success": True,
            "dependent_timing": timed(
                self.name, "frontier-coverage", absolute_time, context.request_start, context.request_end
            ),
        }


class FrontierParams:
    """Param source of the rounds: every configuration once in seeded order, all about the same epoch.

    Mandatory keys: ``configurations``, ``seed``; the track processor adds ``warmup-iterations``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._params = params
        self._coverages = Coverages(track, 0)
        self._rounds = itertools.count(1 - params["warmup-iterations"])

    def partition(self, partition_index: int, total_partitions: int) -> "FrontierParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._rounds)
        epoch = 1 + number % self._coverages.corpus.epochs
        order = shuffled(self._params["configurations"], self._params["seed"], "frontier", number)
        return {"round": number, "answers": [Answer(name, epoch, self._coverages) for name in order]}


class FrontierRunner:
    """Runs one round of all configurations.

    Each goes to the metrics store as a ``service_time`` document of its own (``operation-type: frontier-coverage``)
    with the keys of :meth:`Answer.ask` and ``round``. The round itself carries ``round``, ``error-count`` and, on a
    target without ES|QL, ``left_out``: which configurations were not asked, and why.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        timings, errors, left_out = [], [], {}
        for answer in params["answers"]:
            try:
                if answer.configuration.form == "esql" and (problem := await why_not(es)):
                    left_out = {"left_out": f"{answer.name}: {problem}"}
                    continue
                timings.append(await answer.ask(es) | {"round": params["round"]})
            except exceptions.RallyAssertionError as e:
                errors.append(str(e))
            except elasticsearch.ApiError as e:
                why = refusal(e) if answer.configuration.form == "esql" else f"HTTP {e.status_code}"
                errors.append(f"{answer.name}: {why}")
        return round_result(timings, errors, round=params["round"], **left_out)

    def __repr__(self) -> str:
        return "frontier"


class FrontierCpuParams:
    """Param source of frontier-cpu: one configuration a call. Mandatory key: ``configurations``."""

    infinite = False

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._coverages = Coverages(track, 0)
        self._names = iter(params["configurations"])

    def partition(self, partition_index: int, total_partitions: int) -> "FrontierCpuParams":
        return self

    def params(self) -> dict[str, Any]:
        return {"answer": Answer(next(self._names), 1, self._coverages)}


class FrontierCpuRunner:
    """Repeats one configuration for two seconds and returns the target's CPU time per coverage, ``target_cpu_ms``; not
    for ES|QL where the target has none."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        answer, coverages = params["answer"], 0
        if answer.configuration.form == "esql" and await why_not(es):
            await request(es, "GET", "/")  # a sample needs one request in the timed section
            return {"weight": 0, "unit": "coverages", "configuration": answer.name, "coverages": 0}
        before = await target_cpu_ms(es)
        deadline = time.monotonic() + CPU_SECONDS
        while time.monotonic() < deadline:
            await _send_with_context(es, answer)
            coverages += 1
        cpu_ms = await target_cpu_ms(es) - before
        return {
            "weight": coverages,
            "unit": "coverages",
            "configuration": answer.name,
            "coverages": coverages,
            "target_cpu_ms": cpu_ms / coverages,
        }

    def __repr__(self) -> str:
        return "frontier-cpu"


async def _send_with_context(es: Any, answer: Answer) -> None:
    with es.new_request_context():
        await _send_all(es, answer.configuration, answer.requests)


class LayoutsParams:
    """Param source of build-layouts and drop-layouts: the layouts that the configurations need.

    Mandatory keys: ``configurations``, ``max-num-segments``; optional ``delete-foreign-index``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        used = {CONFIGURATIONS[name].layout for name in params["configurations"]}
        body = next(i for i in track.indices if i.name == NAME).body
        self._coverages = Coverages(track, 0)
        self._params = {
            "layouts": [layout for layout in LAYOUTS if layout in used],
            "mappings": body["mappings"],
            "max-num-segments": params["max-num-segments"],
            "delete-foreign-index": params["delete-foreign-index"],
        }

    def partition(self, partition_index: int, total_partitions: int) -> "LayoutsParams":
        return self

    def params(self) -> dict[str, Any]:
        return self._params | {"coverages": self._coverages}


def bulk_bodies(corpus: Corpus, epoch: int, rows_file: str) -> Iterator[bytes]:
    """An epoch's rows as bodies of ``_bulk`` requests to one index, 10,000 rows each."""
    action = b'{"index":{}}\n'
    with open(rows_file, "rb") as f:
        while rows := f.read(BULK_ROWS * corpus.row_bytes(epoch)):
            yield action + rows.replace(b"}\n", b"}\n" + action)[: -len(action)]


def rollup_bodies(corpus: Corpus, epoch: int, rows_file: str) -> bytes:
    """One ``_bulk`` body with a document per node of an epoch, whose answers are computed from the rows by sorting."""
    values: dict[tuple[str, str], list[float]] = {}
    with open(rows_file, "rb") as f:
        for line in f:
            row = json.loads(line)
            for field in FIELDS:
                values.setdefault((row["node"], field), []).append(row[field])
    lines = []
    for node in corpus.node_names():
        aggregations: dict[str, Any] = {}
        for field in FIELDS:
            answer = field_answers((value, 1) for value in sorted(values.get((node, field), [])))
            aggregations[f"{field}_sum"] = {"value": answer["sum"]}
            aggregations[f"{field}_pct"] = {"values": {p: v[0] for p, v in answer["percentiles"].items()}}
        lines.append(json.dumps({"index": {}}))
        lines.append(json.dumps({"epoch": epoch, "node": node, "aggregations": aggregations}))
    return ("\n".join(lines) + "\n").encode()


class BuildLayouts:
    """Creates and loads the further indices that the configurations ask, all outside the timed section.

    Returns ``layouts`` (how many), ``rollup_cpu_s`` (CPU time of this client to decode the rows and compute the rollup,
    per million rows) and ``rollup_bulk_ms`` (wall time to index it).
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        costs: dict[str, Any] = {}
        await request(es, "GET", "/")  # a sample needs one request in the timed section
        for name in params["layouts"]:
            index, layout = f"{NAME}-{name}", LAYOUTS[name]
            with aside(es):
                await delete_own_index(es, index, params["delete-foreign-index"])
                settings = {"index.number_of_replicas": 0} | layout.settings
                mappings = params["mappings"]
                if name == "rollup":
                    properties = {k: mappings["properties"][k] for k in ("epoch", "node")}
                    mappings = {
                        "_meta": {"created_by": MARK},
                        "properties": properties | {"aggregations": {"type": "object", "enabled": False}},
                    }
                await request(es, "PUT", f"/{index}", {"settings": settings, "mappings": mappings})
                costs |= await self._load(es, index, name, params["coverages"])
                await request(es, "POST", f"/{index}/_refresh")
                if layout.merged and params["max-num-segments"]:
                    segments = params["max-num-segments"]
                    await request(es, "POST", f"/{index}/_forcemerge?max_num_segments={segments}", timeout=7200)
        return {"weight": len(params["layouts"]), "unit": "indices", "layouts": len(params["layouts"]), **costs}

    async def _load(self, es: Any, index: str, name: str, coverages: Coverages) -> dict[str, float]:
        corpus = coverages.corpus
        cpu_s = bulk_ms = 0.0
        for epoch in range(1, corpus.epochs + 1):
            if name != "rollup":
                for body in bulk_bodies(corpus, epoch, coverages.rows_file(epoch)):
                    await self._bulk(es, index, body)
                continue
            started = time.process_time()
            body = rollup_bodies(corpus, epoch, coverages.rows_file(epoch))
            cpu_s += time.process_time() - started
            sent = time.perf_counter()
            await self._bulk(es, index, body)
            bulk_ms += 1000 * (time.perf_counter() - sent)
        rows = corpus.rows_per_epoch * corpus.epochs
        return {"rollup_cpu_s": cpu_s * 1e6 / rows, "rollup_bulk_ms": bulk_ms} if name == "rollup" else {}

    async def _bulk(self, es: Any, index: str, body: bytes) -> None:
        with aside(es):
            counts = await send_bulk(es, index, body, body.count(b"\n") // 2)
        if counts.errors:
            raise exceptions.RallyAssertionError(f"bulk to [{index}]: {counts.problem()}")

    def __repr__(self) -> str:
        return "build-layouts"


class DropLayouts:
    """Deletes the indices that build-layouts made."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")
        for name in params["layouts"]:
            with aside(es):
                await delete_own_index(es, f"{NAME}-{name}", params["delete-foreign-index"])
        return {"weight": len(params["layouts"]), "unit": "indices"}

    def __repr__(self) -> str:
        return "drop-layouts"
