"""Runners and param sources of the query challenges: headline cells and the plan task."""

import hashlib
import itertools
import json
import time
from typing import Any

from esrally import exceptions

from .answers import check_response
from .corpora import corpus_in
from .corpus import NAME
from .files import load_answers
from .queries import VARIANTS, Request, coverage_requests
from .requests import segment_count, send, target_cpu_ms
from .rounds import round_result, timed


def shuffled(items: list, *key: object) -> list:
    """The items in an order that only the key decides, the same on every host and Python version."""
    return sorted(items, key=lambda item: hashlib.sha256(repr((*key, item)).encode()).digest())


class Coverages:
    """Makes the requests of coverages, with the exact answers beside them; all of it before the clock runs.

    :param track: the Rally track, after its track processor.
    :param max_concurrent_searches: for the transport msearch; 0 leaves it to Elasticsearch.
    """

    def __init__(self, track: Any, max_concurrent_searches: int):
        self.corpus = corpus_in(track)
        self.max_concurrent_searches = max_concurrent_searches
        documents = next(c for c in track.corpora if c.name == NAME).documents
        self._rows = {d.meta_data["epoch"]: d.document_file for d in documents}
        self._answers: dict[int, dict] = {}
        self._requests: dict[tuple, list[Request]] = {}

    def rows_file(self, epoch: int) -> str:
        if not self._rows[epoch]:
            raise exceptions.DataError(f"corpus epoch {epoch} is missing on this load driver")
        return self._rows[epoch]

    def answers(self, epoch: int) -> dict:
        if epoch not in self._answers:
            self._answers[epoch] = load_answers(self.rows_file(epoch))
        return self._answers[epoch]

    def make(self, variant: str, transport: str, epoch: int) -> dict[str, Any]:
        """One coverage: ``variant``, ``transport``, ``epoch``, its ``requests`` and the expected ``answers``."""
        key = (variant, transport, epoch)
        if key not in self._requests:
            self._requests[key] = coverage_requests(
                VARIANTS[variant], transport, self.corpus.node_names(), epoch, self.max_concurrent_searches
            )
        return dict(zip(("variant", "transport", "epoch"), key)) | {
            "requests": self._requests[key],
            "answers": self.answers(epoch),
        }


class CellParams:
    """Param source of a headline cell in one pass: its warm-up coverages first, then the epochs in seeded order.

    Mandatory keys of the operation: ``variant``, ``transport``, ``seed``, ``max-concurrent-searches``; the track
    processor adds ``pass``, ``warmup-iterations`` and ``iterations``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._params = params
        self._coverages = Coverages(track, params["max-concurrent-searches"])
        warmup, samples = params["warmup-iterations"], params["iterations"]
        name = f"{params['variant']}-{params['transport']}"
        epochs = list(range(1, self._coverages.corpus.epochs + 1))
        order = shuffled(epochs, params["seed"], params["pass"], name)
        self._epochs = itertools.chain(itertools.islice(itertools.cycle(order), warmup), itertools.cycle(order))
        self._numbers = itertools.count(-warmup)
        self._last = samples - 1

    def partition(self, partition_index: int, total_partitions: int) -> "CellParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._numbers)
        coverage = self._coverages.make(self._params["variant"], self._params["transport"], next(self._epochs))
        return coverage | {"pass": self._params["pass"], "first": number == 0, "last": number == self._last}


class PlanParams:
    """Param source of the plan task: one round a call, every cell once in seeded order, all about the same epoch.

    Mandatory keys of the operation: ``variants``, ``transports``, ``seed``, ``max-concurrent-searches``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._seed = params["seed"]
        self._cells = [(v, t) for v in params["variants"] for t in params["transports"]]
        self._coverages = Coverages(track, params["max-concurrent-searches"])
        self._epochs = shuffled(list(range(1, self._coverages.corpus.epochs + 1)), self._seed, "plan")
        self._rounds = itertools.count(1 - params["warmup-iterations"])

    def partition(self, partition_index: int, total_partitions: int) -> "PlanParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._rounds)
        epoch = self._epochs[number % len(self._epochs)]
        order = shuffled(self._cells, self._seed, "round", number)
        return {
            "round": number,
            "coverages": [self._coverages.make(variant, transport, epoch) for variant, transport in order],
        }


def judge(coverage: dict[str, Any], responses: list[bytes], wall_ms: float) -> dict[str, Any]:
    """Checks the responses of a coverage and returns what a sample records about it.

    Keys: ``variant``, ``transport``, ``epoch``, ``searches``, ``took_ms`` (sum over the searches), ``wall_ms``,
    ``parallelism`` (took over wall), ``request_bytes``, ``response_bytes``, ``docs_matched`` (from the exact answers,
    which the task check-index held against ``_count``), ``max_percentile_error`` (relative, over p50 and p90),
    ``success``, ``error-count`` and, when an answer is wrong, ``error-type`` and ``error-description``.
    """
    variant = VARIANTS[coverage["variant"]]
    decoded = [json.loads(r) for r in responses]
    items = decoded[0]["responses"] if coverage["transport"] == "msearch" else decoded
    took_ms, worst, errors = 0.0, 0.0, []
    for (node, expected), item in zip(coverage["answers"].items(), items, strict=True):
        error, problems = check_response(item, expected, variant.sums, variant.percentiles)
        took_ms += item.get("took", 0)
        worst = max(worst, error)
        errors += [f"{node}: {p}" for p in problems]
    meta = {
        "variant": coverage["variant"],
        "transport": coverage["transport"],
        "epoch": coverage["epoch"],
        "searches": len(items),
        "took_ms": took_ms,
        "wall_ms": wall_ms,
        "parallelism": took_ms / wall_ms,
        "request_bytes": sum(len(r.body) for r in coverage["requests"]),
        "response_bytes": sum(map(len, responses)),
        "docs_matched": sum(answer["cpu"]["count"] for answer in coverage["answers"].values()),
        "max_percentile_error": worst,
        "success": not errors,
        "error-count": len(errors),
    }
    if errors:
        meta |= {"error-type": "wrong-answer", "error-description": "; ".join(errors[:3])}
    return meta


async def run_coverage(es: Any, coverage: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs one coverage in a request context of its own and judges it after the clock has stopped.

    :return: what :func:`judge` returns with ``client_ms``, the CPU time this process used meanwhile, and the timing as
        Rally's ``dependent_timing`` wants it.
    """
    absolute_time = time.time()
    client_s = time.process_time()
    with es.new_request_context() as context:
        responses = [await send(es, request) for request in coverage["requests"]]
    client_s = time.process_time() - client_s
    seconds = context.request_end - context.request_start
    timing = timed(
        f"{coverage['variant']}-{coverage['transport']}",
        "coverage",
        absolute_time,
        context.request_start,
        context.request_end,
    )
    return judge(coverage, responses, 1000 * seconds) | {"client_ms": 1000 * client_s}, timing


class CellRunner:
    """Runs one coverage of a headline cell.

    Returns the metadata of :func:`judge` with ``pass``, ``segments`` and, on the last sample of a pass,
    ``target_cpu_ms`` (CPU time of the target's nodes over the samples of this cell and pass). ``throughput`` is
    searches per second of wall time.
    """

    def __init__(self) -> None:
        self._cpu_ms = 0.0

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        segments = await segment_count(es, NAME)
        if params["first"]:
            self._cpu_ms = await target_cpu_ms(es)
        meta, _ = await run_coverage(es, params)
        if params["last"]:
            meta["target_cpu_ms"] = await target_cpu_ms(es) - self._cpu_ms
        return meta | {
            "weight": meta["searches"],
            "unit": "searches",
            "throughput": 1000 * meta["searches"] / meta["wall_ms"],
            "pass": params["pass"],
            "segments": segments,
        }

    def __repr__(self) -> str:
        return "query-cell"


class PlanRunner:
    """Runs one round: every cell once.

    Each cell goes to the metrics store as a ``service_time`` document of its own with the metadata of :func:`judge`,
    ``round`` and ``segments``; the round itself carries ``round``, ``segments``, ``target_cpu_ms`` (since the end of
    the round before) and ``error-count``.
    """

    def __init__(self) -> None:
        self._cpu_ms: float | None = None

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        common = {"round": params["round"], "segments": await segment_count(es, NAME)}
        # reading it takes a second, so the end of a round is the start of the next; none after a round that failed
        cpu_ms, self._cpu_ms = self._cpu_ms, None
        if cpu_ms is None:
            cpu_ms = await target_cpu_ms(es)
        timings, errors = [], []
        for coverage in params["coverages"]:
            cell = f"{coverage['variant']}-{coverage['transport']}"
            try:
                meta, timing = await run_coverage(es, coverage)
            except elasticsearch.ApiError as e:
                errors.append(f"{cell}: HTTP {e.status_code}")
                continue
            if not meta["success"]:
                errors.append(f"{cell}: {meta['error-description']}")
            timings.append(meta | common | {"dependent_timing": timing})
        self._cpu_ms = await target_cpu_ms(es)
        return round_result(timings, errors, **common, target_cpu_ms=self._cpu_ms - cpu_ms)

    def __repr__(self) -> str:
        return "query-plan"
