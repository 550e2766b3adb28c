"""Runner and param source of cpu-profile: the plan's coverages with a sampler in the target's nodes, and without."""

import contextlib
import time
from typing import Any

from ..core.rounds import RoundParams, Runner, losing_one, round_result, shuffled
from ..core.sampler import Sampler
from ..corpus.metrics import NAME
from ..wire.coverage import Coverage, Coverages, ask
from ..wire.questions import PRODUCTION
from ..wire.requests import Request, aside, send
from ..wire.stats import segment_count
from .cache import lookups, query_cache
from .configurations import PROFILED
from .query_frontier import priming
from .query_profile import ON, run_profiled

SAMPLED, PLAIN = "sampled-coverage", "plain-coverage"
"""Kinds of coverages: with the sampler and without."""


class CpuProfileParams(RoundParams):
    """Param source of the rounds: every configuration once with the sampler and once without, a block each in seeded
    order, all about the same epoch and in the same order; and once by the profile API.

    Track parameters: ``profiled``, ``sampler``, ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._coverages = Coverages(track)
        self._epochs = shuffled(self._coverages.epochs, self.values["seed"], "cpu-profile")

    def round(self, number: int) -> dict[str, Any]:
        epoch, seed = self._epochs[number % len(self._epochs)], self.values["seed"]
        order = shuffled(self.values["profiled"], seed, "round", number)
        made = [self._coverages.make(PROFILED[name], epoch) for name in order]
        return {
            "coverages": [(coverage, priming(self._coverages, coverage)) for coverage in made],
            "blocks": shuffled([SAMPLED, PLAIN], seed, "blocks", number),
            "by-api": self._coverages.make(PRODUCTION, epoch, profile=True),
            "sampler": self.values["sampler"],
        }


class CpuProfileRunner(Runner):
    """Runs one round: a block of coverages while the sampler records, the same block without, in the order that the
    plan says; and the production query with Elasticsearch's own profiler.

    The sampler is started and stopped between blocks, outside the coverages. Where it cannot, the round goes on
    without its block, and its sample says why.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        common = {"round": params["round"], "segments": await segment_count(es, NAME)}
        indices = {coverage.configuration.index for coverage, _ in params["coverages"]}
        before = await lookups(es, indices)
        timings: list[dict[str, Any]] = []
        sampler = Sampler(params["sampler"])
        await sampler.tell("state")
        for kind in params["blocks"]:
            async with sampler.recording() if kind == SAMPLED else contextlib.nullcontext(True) as ready:
                if ready:
                    await self._block(es, kind, params["coverages"], sampler, timings, common)
        with losing_one(ON, "profiled-coverage", timings, **common):
            timings.append((await run_profiled(es, ON, params["by-api"], common))[0])
        cache = await query_cache(es, indices, before)
        return round_result(timings, **common, **cache, **sampler.of_round)

    async def _block(
        self,
        es: Any,
        kind: str,
        coverages: list[tuple[Coverage, list[Request]]],
        sampler: Sampler,
        timings: list[dict[str, Any]],
        common: dict[str, Any],
    ) -> None:
        for coverage, primed in coverages:
            with losing_one(coverage.configuration.name, kind, timings, **common):
                with aside(es):
                    for request in primed:
                        await send(es, request)
                about, start = {"started_s": time.time()}, sampler.cpu_ms()
                asked = await ask(es, coverage, kind)
                end, ended_s = sampler.cpu_ms(), time.time()
                if start is not None and end is not None:
                    about |= {"target_cpu_ms": end - start, "window_ms": 1000 * (ended_s - about["started_s"])}
                timings.append(asked.checked() | common | about | {"dependent_timing": asked.timing})
