"""Tasks that walk a plan in rounds: the order of each, and what a runner returns of it."""

import contextlib
import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..wire.requests import entitled, guarding, refusal


class Runner:
    """What all runners of this track share: Rally logs them by name."""

    def __repr__(self) -> str:
        return type(self).__name__


class Guard(Runner):
    """A runner whose failure ends the race always, see :func:`..wire.requests.guarding`."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        with guarding():
            return await self.run(es, params)

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        """What :meth:`__call__` of a runner does."""
        raise NotImplementedError


class Params:
    """What the param sources of this track share; Rally makes one per task and worker, before the corpus is prepared.

    :param track: the Rally track, after its track processor.
    :param params: of the operation, with ``parameters`` (all track parameters), which the track processor adds.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self.track = track
        self.operation = params
        self.values: Mapping[str, Any] = params["parameters"]

    def partition(self, partition_index: int, total_partitions: int) -> "Params":
        return self

    def params(self) -> dict[str, Any]:
        """The parameters of one call of the runner."""
        raise NotImplementedError


class RoundParams(Params):
    """Param source of a plan: one round a call, warm-up rounds numbered up to 0, counted ones from 1 on.

    The track processor adds ``warmup-iterations`` and ``iterations`` to the operation.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._numbers = itertools.count(1 - params["warmup-iterations"])

    def params(self) -> dict[str, Any]:
        number = next(self._numbers)
        return {"round": number} | self.round(number)

    def round(self, number: int) -> dict[str, Any]:
        """What the runner needs for a round beside its number."""
        raise NotImplementedError


def shuffled(items: list, *key: object) -> list:
    """The items in an order that only the key decides, the same on every host and Python version."""
    return sorted(items, key=lambda item: hashlib.sha256(repr((*key, item)).encode()).digest())


def timed(operation: str, kind: str, absolute_time: float, started: float, ended: float) -> dict[str, Any]:
    """When a sample was taken, as Rally's ``dependent_timing`` wants it; Rally writes a ``service_time`` of it.

    :param operation: what the sample is about.
    :param kind: its ``operation-type``.
    :param absolute_time: when it began, in seconds since the epoch.
    :param started: the same by a clock that only goes forward, in seconds.
    :param ended: when the last response was there, by that clock.
    """
    return {
        "operation": operation,
        "operation-type": kind,
        "absolute_time": absolute_time,
        "request_start": started,
        "request_end": ended,
        "service_time": ended - started,
    }


def outcome(problems: list[str], kind: str) -> dict[str, Any]:
    """What a sample records of what went wrong with it: Rally's ``success``, ``error-count`` and, if there was
    anything, ``error-type`` and ``error-description`` with the first three problems.

    :param kind: the error type.
    """
    found: dict[str, Any] = {"success": not problems, "error-count": len(problems)}
    if problems:
        found |= {"error-type": kind, "error-description": "; ".join(problems[:3])}
    return found


@contextlib.contextmanager
def losing_one(operation: str, kind: str, timings: list[dict[str, Any]], **about: Any) -> Iterator[None]:
    """Has a request that fails inside lose one sample of a round and nothing else: a sample that failed is added, and
    :func:`round_result` counts it. One that is forbidden ends the race, see :func:`..wire.requests.entitled`.

    :param operation: what the sample is about.
    :param kind: its ``operation-type``.
    :param timings: of the round.
    :param about: metadata of the sample.
    """
    import elasticsearch

    absolute_time, started = time.time(), time.perf_counter()
    try:
        with entitled():
            yield
    except (elasticsearch.ApiError, elasticsearch.TransportError) as e:
        timing = timed(operation, kind, absolute_time, started, time.perf_counter())
        timings.append(about | outcome([refusal(e)], "no-answer") | {"dependent_timing": timing})


def round_result(timings: list[dict[str, Any]], **common: Any) -> dict[str, Any]:
    """The result of a round for Rally.

    :param timings: one entry per sample, with its ``dependent_timing``; Rally writes a document for each. The round
        fails where one of them did.
    :param common: metadata of the round itself.
    """
    result = {"weight": len(timings), "unit": "samples", **common, "dependent_timing": timings}
    failed = [t for t in timings if not t["success"]]
    problems = [f"{t['dependent_timing']['operation']}: {t['error-description']}" for t in failed]
    return result | outcome(problems, "failed-samples")
