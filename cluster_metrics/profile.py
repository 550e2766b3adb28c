"""Runner and param source of the challenge query-profile: the production query with the profiler and without."""

import itertools
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from .corpus import NAME
from .coverage import Coverages, judge, shuffled
from .profile_tree import add_up, times
from .queries import VARIANTS, Request, body
from .requests import segment_count, send
from .rounds import round_result, timed

VARIANT, TRANSPORT = "D_td", "serial"
"""The production query."""
PROBES = ("on", "off")
KINDS = {"percentiles": "percentiles", "sum": "sums"}
"""What the metadata of a coverage calls the aggregations of a type."""


def with_profiler(request: Request) -> Request:
    """The same search with Elasticsearch's profiler on."""
    return replace(request, body=json.dumps(json.loads(request.body) | {"profile": True}).encode())


class ProfileParams:
    """Param source of the task: one round a call, the same coverage with the profiler and without in seeded order.

    Mandatory keys of the operation: ``seed``; the track processor adds ``warmup-iterations``.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._seed = params["seed"]
        self._coverages = Coverages(track, 0)
        self._epochs = shuffled(list(range(1, self._coverages.corpus.epochs + 1)), self._seed, "profile")
        self._rounds = itertools.count(1 - params["warmup-iterations"])
        self._profiled: dict[int, list[Request]] = {}

    def partition(self, partition_index: int, total_partitions: int) -> "ProfileParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._rounds)
        epoch = self._epochs[number % len(self._epochs)]
        order = shuffled(list(PROBES), self._seed, "round", number)
        return {"round": number, "coverages": [self._make(probe, epoch) for probe in order]}

    def _make(self, probe: str, epoch: int) -> dict[str, Any]:
        coverage = self._coverages.make(VARIANT, TRANSPORT, epoch) | {"probe": probe}
        if probe == "off":
            return coverage
        if epoch not in self._profiled:
            self._profiled[epoch] = [with_profiler(request) for request in coverage["requests"]]
        return coverage | {"requests": self._profiled[epoch]}


@dataclass(frozen=True)
class Call:
    """One search as it went over the wire.

    :param started: when, in s since the epoch.
    :param request_start: when, in s of a clock of its own that Rally uses.
    :param request_end: the same for its end.
    :param response: its body, undecoded.
    """

    started: float
    request_start: float
    request_end: float
    response: bytes

    @property
    def wall_ms(self) -> float:
        return 1000 * (self.request_end - self.request_start)

    def timing(self, operation: str, kind: str) -> dict[str, Any]:
        """As Rally's ``dependent_timing`` wants it."""
        return timed(operation, kind, self.started, self.request_start, self.request_end)


async def run_calls(es: Any, requests: Iterable[Request]) -> tuple[Call, list[Call]]:
    """Sends the searches of a coverage one after the other.

    :return: the coverage as a whole (its response is empty), and its calls.
    """
    started = time.time()
    calls = []
    with es.new_request_context() as whole:
        for request in requests:
            at = time.time()
            with es.new_request_context() as context:
                response = await send(es, request)
            calls.append(Call(at, context.request_start, context.request_end, response))
    return Call(started, whole.request_start, whole.request_end, b""), calls


def aggregation_kinds() -> dict[str, str]:
    """The aggregations of the query by name: ``percentiles`` or ``sums``."""
    aggregations = body(VARIANTS[VARIANT], "", 0)["aggs"]
    return {name: KINDS[next(iter(aggregation))] for name, aggregation in aggregations.items()}


async def run_profiled(es: Any, coverage: dict[str, Any], common: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs one coverage; checks its answers and reads its profiles after the clock has stopped.

    :param common: metadata that all entries carry.
    :return: the entries for the metrics store, the coverage first, then its calls; of a coverage with a wrong answer
        there are neither calls nor profiles.
    """
    whole, calls = await run_calls(es, coverage["requests"])
    operation = f"profile-{coverage['probe']}"
    meta = judge(coverage, [call.response for call in calls], whole.wall_ms) | common
    timing = whole.timing(operation, "profiled-coverage")
    if not meta["success"]:
        return [meta | {"dependent_timing": timing}]
    kinds = aggregation_kinds()
    about = [read_call(*pair, kinds) for pair in zip(coverage["requests"], calls)]
    profiles = [profile for _, profile in about]
    meta |= {"parse_ms": sum(call["parse_ms"] for call, _ in about)} | add_up(profiles, kinds)
    entries = [meta | {"dependent_timing": timing}]
    for node, (found, profile), call in zip(coverage["answers"], about, calls):
        asked = {
            "epoch": coverage["epoch"],
            "asked_node": node,
            "docs_matched": coverage["answers"][node]["cpu"]["count"],
            "success": True,
            "error-count": 0,
        }
        timing = call.timing(f"{operation}-call", "profiled-call")
        entries.append(asked | found | profile | common | {"dependent_timing": timing})
    return entries


def read_call(request: Request, call: Call, aggregations: Iterable[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """What is recorded about one call, and the times of its profile (none with the profiler off)."""
    start = time.perf_counter()
    response = json.loads(call.response)
    parse_ms = 1000 * (time.perf_counter() - start)
    found = {
        "took_ms": float(response["took"]),
        "wall_ms": call.wall_ms,
        "parse_ms": parse_ms,
        "request_bytes": len(request.body),
        "response_bytes": len(call.response),
    }
    return found, times(response["profile"], aggregations) if "profile" in response else {}


class ProfileRunner:
    """Runs one round: the coverage with the profiler and without.

    Each coverage goes to the metrics store as a ``service_time`` document of its own (operations ``profile-on`` and
    ``profile-off``, operation-type ``profiled-coverage``) with the metadata of :func:`.coverage.judge`, ``round``,
    ``segments``, ``parse_ms`` (decoding the responses, after the clock has stopped) and, with the profiler on, the
    times of :func:`.profile_tree.times` in ms, summed over the calls, by kind of aggregation
    (``percentiles_collect_ms`` …).

    Each call has a document, too (operations ``profile-on-call`` and ``profile-off-call``, operation-type
    ``profiled-call``) with ``round``, ``epoch``, ``asked_node``, ``took_ms``, ``wall_ms``, ``parse_ms``,
    ``request_bytes``, ``response_bytes``, ``docs_matched``, ``segments`` and these times by aggregation
    (``cpu_pct_collect_ms`` …): 60 small documents a round are cheap, and nothing else lets one search be compared
    with another. The round itself carries ``round``, ``segments`` and ``error-count``.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        import elasticsearch

        common = {"round": params["round"], "segments": await segment_count(es, NAME)}
        entries, errors = [], []
        for coverage in params["coverages"]:
            try:
                found = await run_profiled(es, coverage, common)
            except elasticsearch.ApiError as e:
                errors.append(f"profile-{coverage['probe']}: HTTP {e.status_code}")
                continue
            if not found[0]["success"]:
                errors.append(f"profile-{coverage['probe']}: {found[0]['error-description']}")
            entries += found
        return round_result(entries, errors, **common)

    def __repr__(self) -> str:
        return "query-profile"
