"""Tasks that walk a plan in rounds: the order of each, and what a runner returns of it."""

import contextlib
import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
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


ENDING_S = 15.0
"""Time kept for Rally's own end of a race, in seconds."""


class TimeLeft:
    """Whether there is time for another round.

    :param deadline: when the race shall have ended, in seconds since the epoch; infinite for never.
    :param plans: how many plans, this one among them, share the time that is left; each may take as much of it.
    """

    def __init__(self, deadline: float, plans: int):
        self._deadline, self._plans = deadline, plans
        self._first: float | None = None
        self._counted: list[float] = []

    def is_enough(self, now: float, counted: bool, afterwards: Callable[[float], float]) -> bool:
        """Whether a round may begin now: always one that warms up and the first counted one; each further one if it
        ends in time when it takes as long as those before did in the mean.

        :param now: in seconds since the epoch.
        :param counted: whether the round counts.
        :param afterwards: seconds that the challenge takes after its rounds, by those that a round takes.
        """
        if self._first is None:
            self._first = now
        if not counted:
            return True
        self._counted.append(now)
        done = len(self._counted) - 1
        if not done:
            return True
        round_s = (now - self._counted[0]) / done
        end = self._deadline - ENDING_S - afterwards(round_s)
        return now + round_s <= self._first + (end - self._first) / self._plans


class RoundParams(Params):
    """Param source of a plan, or a part of it: one round a call, warm-up rounds numbered up to 0, then counted ones, as
    many as there is time for.

    The track processor adds ``warmup-iterations``, ``iterations`` and ``first-round`` to the operation, the number of
    the first counted one; with ``race_minutes`` also ``deadline`` and ``plans``, see :class:`TimeLeft`.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._numbers = itertools.chain(
            range(1 - params["warmup-iterations"], 1), itertools.count(params.get("first-round", 1))
        )
        self._left = TimeLeft(params.get("deadline", math.inf), params.get("plans", 1))

    def params(self) -> dict[str, Any]:
        number = next(self._numbers)
        if not self._left.is_enough(time.time(), number > 0, self.afterwards):
            raise StopIteration  # which ends a task of Rally's
        return {"round": number} | self.round(number)

    def afterwards(self, round_s: float) -> float:
        """Seconds that the challenge takes after these rounds, beside other plans.

        :param round_s: that a round takes.
        """
        return 0.0

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


FAILED_SAMPLES = "failed-samples"
"""The error type of a round some of whose samples failed, each of which is counted by itself."""


def round_result(timings: list[dict[str, Any]], **common: Any) -> dict[str, Any]:
    """The result of a round for Rally.

    :param timings: one entry per sample, with its ``dependent_timing``; Rally writes a document for each. The round
        fails where one of them did.
    :param common: metadata of the round itself.
    """
    result = {"weight": len(timings), "unit": "samples", **common, "dependent_timing": timings}
    failed = [t for t in timings if not t["success"]]
    problems = [f"{t['dependent_timing']['operation']}: {t['error-description']}" for t in failed]
    return result | outcome(problems, FAILED_SAMPLES)
