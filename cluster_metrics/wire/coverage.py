"""Asks a coverage and holds its answers against the exact ones."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..core.rounds import outcome, timed
from ..corpus.answers import check_response, response_problems
from ..corpus.metrics import Metrics
from ..corpus.prepared import Prepared
from .esql import response_problem
from .questions import VISITED, Configuration
from .requests import Request, at_once, send

TYPE = "coverage"
"""``operation-type`` of the samples of coverages that a plan asks."""


@dataclass(frozen=True)
class Coverage:
    """One coverage, made before the clock runs.

    :param epoch: that it asks about.
    :param requests: that ask it.
    :param expected: the exact answers by node and field, see :func:`..corpus.answers.field_answers`.
    """

    configuration: Configuration
    epoch: int
    requests: Sequence[Request]
    expected: Mapping[str, dict]

    @cached_property
    def docs_matched(self) -> int:
        """Documents that it asks about, by the exact answers, which check-index held against ``_count``."""
        return sum(answer["cpu"]["count"] for answer in self.expected.values())

    def sample(self, responses: Sequence[bytes], searches: Sequence[dict], wall_ms: float) -> dict[str, Any]:
        """What any sample of it records, see :class:`Asked`, but ``client_ms``; the searches are decoded responses."""
        took_ms = float(sum(search.get("took", 0) for search in searches))
        return {
            "epoch": self.epoch,
            "searches": len(searches),
            "took_ms": took_ms,
            "wall_ms": wall_ms,
            "parallelism": took_ms / wall_ms,
            "request_bytes": sum(len(request.body) for request in self.requests),
            "response_bytes": sum(map(len, responses)),
        }


class Coverages:
    """Makes coverages of the corpus of a race.

    :param track: the Rally track, after its track processor.
    """

    def __init__(self, track: Any):
        self.prepared = Prepared(track, Metrics)
        self._made: dict[tuple, Coverage] = {}

    @property
    def epochs(self) -> list[int]:
        return list(range(1, self.prepared.corpus.epochs + 1))

    def make(self, configuration: Configuration, epoch: int, **more: Any) -> Coverage:
        """A coverage about an epoch.

        :param more: further keys of each search.
        """
        key = (configuration.name, epoch, *more.items())
        if key not in self._made:
            requests = configuration.requests(self.prepared.corpus.node_names(), epoch, **more)
            self._made[key] = Coverage(configuration, epoch, requests, self.prepared.answers(epoch - 1))
        return self._made[key]


@dataclass(frozen=True)
class Asked:
    """A coverage that was asked.

    :param searches: decoded responses of its searches.
    :param sample: what any sample of it records: ``epoch``, ``searches``, ``took_ms`` (summed over the searches),
        ``wall_ms``, ``parallelism`` (took over wall), ``request_bytes``, ``response_bytes`` and ``client_ms``, the CPU
        time that this process used meanwhile.
    :param timing: as Rally's ``dependent_timing`` wants it.
    """

    coverage: Coverage
    searches: Sequence[dict]
    sample: dict[str, Any]
    timing: dict[str, Any]

    def problems(self) -> list[str]:
        """What keeps the responses from being answers at all."""
        problems = [p for search in self.searches for p in (*response_problems(search), response_problem(search)) if p]
        answers = {} if problems else self.answers()
        if not problems and (missing := set(self.coverage.expected) - set(answers)):
            named = ", ".join(sorted(missing)[:3]) + (", …" if len(missing) > 3 else "")
            problems.append(f"no answer for {len(missing)} of {len(self.coverage.expected)} nodes: {named}")
        return problems

    def answers(self) -> dict[str, dict]:
        """The aggregations of each node."""
        return self.coverage.configuration.answers(list(self.coverage.expected), self.searches)

    def checked(self) -> dict[str, Any]:
        """The sample of a coverage whose answers must be right: with ``docs_matched`` and ``max_percentile_error``
        (relative, over p50 and p90), and an error when one is wrong."""
        configuration, worst, problems = self.coverage.configuration, 0.0, []
        for (node, expected), search in zip(self.coverage.expected.items(), self.searches, strict=True):
            _, wrong = check_response(search, {f: expected[f] for f in configuration.summed}, True, None)
            ranked = {f: expected[f] for f in configuration.ranked}
            error, more = check_response(search, ranked, False, configuration.algorithm)
            visited = search.get("aggregations", {}).get(VISITED, {}).get("doc_count")
            if visited not in (None, documents := expected["cpu"]["count"]):
                more.append(f"{visited} documents visited, exact {documents}")
            worst = max(worst, error)
            problems += [f"{node}: {problem}" for problem in dict.fromkeys(wrong + more)]
        about = {"docs_matched": self.coverage.docs_matched, "max_percentile_error": worst}
        return self.sample | about | outcome(problems, "wrong-answer")


async def ask(es: Any, coverage: Coverage, kind: str = TYPE) -> Asked:
    """Asks a coverage in a request context of its own; decodes what came back after the clock has stopped.

    :param kind: ``operation-type`` of its sample.
    """
    configuration = coverage.configuration
    absolute_time, client_s = time.time(), time.process_time()
    with es.new_request_context() as context:
        responses = await send_all(es, coverage)
    client_s = time.process_time() - client_s
    searches = configuration.searches(responses)
    wall_ms = 1000 * (context.request_end - context.request_start)
    sample = coverage.sample(responses, searches, wall_ms) | {"client_ms": 1000 * client_s}
    timing = timed(configuration.name, kind, absolute_time, context.request_start, context.request_end)
    return Asked(coverage, searches, sample, timing)


async def send_all(es: Any, coverage: Coverage) -> list[bytes]:
    """The undecoded responses of a coverage's requests, in their order."""
    if coverage.configuration.form != "concurrent":
        return [await send(es, request) for request in coverage.requests]
    waiting = iter(enumerate(coverage.requests))
    responses: dict[int, bytes] = {}

    async def connection() -> None:
        for i, request in waiting:
            responses[i] = await send(es, request)

    await at_once([connection() for _ in range(coverage.configuration.parallel)])
    return [responses[i] for i in range(len(coverage.requests))]
