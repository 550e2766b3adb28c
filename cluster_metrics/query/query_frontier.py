"""Runners and param sources of query-frontier: cost against measured error."""

import time
from dataclasses import replace
from typing import Any

from ..core.rounds import Params, RoundParams, Runner, losing_one, outcome, round_result, shuffled
from ..wire.coverage import Asked, Coverage, Coverages, ask
from ..wire.esql import why_not
from ..wire.requests import Request, aside, send, touch
from ..wire.stats import target_cpu_ms
from .cache import lookups, query_cache
from .configurations import CONFIGURATIONS, LAYOUTS, VARIANTS

COVERAGE = "frontier-coverage"
REPEATED = 5
"""How often a filter is asked in a row until it is in the query cache: Lucene's ``UsageTrackingQueryCachingPolicy``
caches those that are dear to build from their 2nd use on, others from their 4th or 5th."""


def errors_of(aggregations: dict[str, Any], expected: dict[str, Any]) -> tuple[float, float, float]:
    """Relative errors of one node's answers.

    :param aggregations: by name, as Elasticsearch returns them.
    :param expected: the exact answers per field, see :func:`..corpus.answers.field_answers`.
    :return: the greatest relative error over the fields of p50 and p90, of p0 and p100, and of the sum.
    """
    middle = extreme = total = 0.0
    for field, answer in expected.items():
        if not answer["count"]:  # of a node without rows
            continue
        total = max(total, abs(aggregations[f"{field}_sum"]["value"] / answer["sum"] - 1))
        for key, got in aggregations[f"{field}_pct"]["values"].items():
            exact = answer["percentiles"][f"{float(key):g}"][0]
            error = abs(got / exact - 1) if got is not None else 1.0
            if float(key) in (50, 90):
                middle = max(middle, error)
            else:
                extreme = max(extreme, error)
    return middle, extreme, total


def priming(coverages: Coverages, coverage: Coverage) -> list[Request]:
    """What is asked before the clock of a coverage runs: the filters alone, where its index has them cached."""
    layout = coverage.configuration.layout
    if not layout or not LAYOUTS[layout].primed:
        return []
    filters = coverages.make(replace(VARIANTS["A"], name=f"A-{layout}", layout=layout), coverage.epoch)
    return [request for request in filters.requests for _ in range(REPEATED)]


class FrontierParams(RoundParams):
    """Param source of the rounds: every configuration once in seeded order, all about the same epoch.

    Track parameters: ``configurations``, ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._coverages = Coverages(track)

    def round(self, number: int) -> dict[str, Any]:
        epoch = 1 + number % len(self._coverages.epochs)
        order = shuffled(self.values["configurations"], self.values["seed"], "frontier", number)
        coverages = [self._coverages.make(CONFIGURATIONS[name], epoch) for name in order]
        return {"coverages": [(coverage, priming(self._coverages, coverage)) for coverage in coverages]}

    def afterwards(self, round_s: float) -> float:
        """That of frontier-cpu, which reads the CPU time before and after each configuration, a second each."""
        return len(self.values["configurations"]) * (self.values["frontier_cpu_seconds"] + 2.0)


class FrontierRunner(Runner):
    """Runs one round of all configurations, each a ``service_time`` document of its own."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        timings: list[dict[str, Any]] = []
        left_out = {}
        indices = {coverage.configuration.index for coverage, _ in params["coverages"]}
        before = await lookups(es, indices)
        for coverage, priming in params["coverages"]:
            name = coverage.configuration.name
            about = {"round": params["round"], "configuration": name}
            with losing_one(name, COVERAGE, timings, **about):
                if coverage.configuration.form == "esql" and (problem := await why_not(es)):
                    left_out = {"left_out": f"{name}: {problem}"}
                    continue
                with aside(es):
                    for request in priming:
                        await send(es, request)
                asked = await ask(es, coverage, COVERAGE)
                timings.append(about | asked.sample | _judged(asked) | {"dependent_timing": asked.timing})
        cache = await query_cache(es, indices, before)
        return round_result(timings, round=params["round"], **cache, **left_out)


def _judged(asked: Asked) -> dict[str, Any]:
    """The greatest errors of a coverage's answers, or why there are none."""
    if wrong := asked.problems():
        return outcome(wrong, "wrong-answer")
    answers = asked.answers()
    errors = [errors_of(answers[node], fields) for node, fields in asked.coverage.expected.items()]
    keys = ("percentile_error", "extreme_error", "sum_error")
    return {key: max(error[i] for error in errors) for i, key in enumerate(keys)} | outcome([], "")


class FrontierCpuParams(Params):
    """Param source of frontier-cpu: one configuration a call.

    Track parameters: ``configurations``, ``frontier_cpu_seconds``.
    """

    infinite = False

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._coverages = Coverages(track)
        self._names = iter(self.values["configurations"])

    def params(self) -> dict[str, Any]:
        coverage = self._coverages.make(CONFIGURATIONS[next(self._names)], 1)
        return {"coverage": coverage, "seconds": self.values["frontier_cpu_seconds"]}


class FrontierCpuRunner(Runner):
    """Repeats one configuration for some seconds; not ES|QL where the target has none."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        coverage: Coverage = params["coverage"]
        done, about = 0, {"unit": "coverages", "configuration": coverage.configuration.name}
        problems: list[str] = []
        if coverage.configuration.form == "esql" and await why_not(es):
            await touch(es)
            return about | {"weight": 0, "coverages": 0}
        before = await target_cpu_ms(es)
        deadline = time.monotonic() + params["seconds"]
        while time.monotonic() < deadline:
            problems += (await ask(es, coverage)).problems()
            done += 1
        cpu_ms = await target_cpu_ms(es) - before
        counted = {"weight": done, "coverages": done, "target_cpu_ms": cpu_ms / done}
        return about | counted | outcome(problems, "wrong-answer")
