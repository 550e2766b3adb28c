"""Runner and param source of query-profile: the production query with the profiler and without."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..core.rounds import RoundParams, Runner, losing_one, outcome, round_result, shuffled, timed
from ..corpus.metrics import NAME
from ..wire.coverage import Asked, Coverage, Coverages
from ..wire.questions import PRODUCTION
from ..wire.requests import Request, send
from ..wire.stats import segment_count
from .cache import lookups, query_cache
from .profile_tree import add_up, times

ON, OFF = "profile-on", "profile-off"
CALLS = {ON: "profile-on-call", OFF: "profile-off-call"}
"""The production query with the profiler and without, and what single searches of each are called."""
COVERAGE, CALL = "profiled-coverage", "profiled-call"
KINDS = {"percentiles": "percentiles", "sum": "sums"}
"""What the metadata of a coverage calls the aggregations of a type."""


class ProfileParams(RoundParams):
    """Param source of the rounds: the same coverage with the profiler and without, in seeded order.

    Track parameter: ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._coverages = Coverages(track)
        self._epochs = shuffled(self._coverages.epochs, self.values["seed"], "profile")

    def round(self, number: int) -> dict[str, Any]:
        epoch = self._epochs[number % len(self._epochs)]
        made = {OFF: self._coverages.make(PRODUCTION, epoch), ON: self._coverages.make(PRODUCTION, epoch, profile=True)}
        return {
            "coverages": [(name, made[name]) for name in shuffled(list(made), self.values["seed"], "round", number)]
        }


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
    return {name: KINDS[next(iter(asked))] for name, asked in PRODUCTION.aggregations().items()}


async def run_profiled(es: Any, name: str, coverage: Coverage, common: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs one coverage; checks its answers and reads its profiles after the clock has stopped.

    :param name: ``profile-on`` or ``profile-off``.
    :param common: metadata that all entries carry.
    :return: the entries for the metrics store, the coverage first, then its calls; of a coverage with a wrong answer
        there are neither calls nor profiles.
    """
    whole, calls = await run_calls(es, coverage.requests)
    timing = {"dependent_timing": whole.timing(name, COVERAGE)}
    searches = [json.loads(call.response) for call in calls]
    sample = coverage.sample([call.response for call in calls], searches, whole.wall_ms)
    meta = Asked(coverage, searches, sample, timing).checked() | common
    if not meta["success"]:
        return [meta | timing]
    kinds = aggregation_kinds()
    about = [read_call(*pair, kinds) for pair in zip(coverage.requests, calls)]
    meta |= {"parse_ms": sum(call["parse_ms"] for call, _ in about)} | add_up([profile for _, profile in about], kinds)
    entries = [meta | timing]
    for (node, expected), (found, profile), call in zip(coverage.expected.items(), about, calls):
        asked = {"epoch": coverage.epoch, "asked_node": node, "docs_matched": expected["cpu"]["count"]}
        timing = {"dependent_timing": call.timing(CALLS[name], CALL)}
        entries.append(asked | found | profile | common | outcome([], "") | timing)
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


class ProfileRunner(Runner):
    """Runs one round: the coverage with the profiler and without.

    Each coverage and each of its searches is a ``service_time`` document of its own: 60 small documents a round are
    cheap, and nothing else lets one search be compared with another.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        common = {"round": params["round"], "segments": await segment_count(es, NAME)}
        entries: list[dict[str, Any]] = []
        before = await lookups(es, [NAME])
        for name, coverage in params["coverages"]:
            with losing_one(name, COVERAGE, entries, **common):
                entries += await run_profiled(es, name, coverage, common)
        return round_result(entries, **common, **await query_cache(es, [NAME], before))
