"""Runner and param source of cpu-profile: the plan's coverages with a sampler in the target's nodes, and without."""

import asyncio
import contextlib
import http.client
import json
import time
from dataclasses import dataclass, field
from typing import Any

from ..core.machine import cpu_ms
from ..core.rounds import RoundParams, Runner, losing_one, round_result, shuffled
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
NONE = "none"
SECONDS = 120
"""For which the sampler may take to start or stop."""


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


@dataclass
class Sampler:
    """The sampler of make's process, as a runner sees it.

    :param address: ``host:port``, or ``none``.
    :param pids: processes of the target's nodes; none where they run elsewhere.
    :param recordings: files of the recording that was started last.
    :param problem: why there is no profile.
    """

    address: str
    pids: list[int] = field(default_factory=list)
    recordings: list[str] = field(default_factory=list)
    problem: str = ""

    async def tell(self, what: str) -> None:
        """Asks it to ``start`` or ``stop``, or for its ``state``; afterwards a ``problem`` says what went wrong."""
        if self.address == NONE:
            self.problem = "no sampler; start the race by 'make race' on the machine of the target"
            return
        try:
            found = await asyncio.to_thread(self._ask, what)
        except (OSError, ValueError, http.client.HTTPException) as e:
            self.problem = f"the sampler at {self.address} does not answer: {type(e).__name__}"
            return
        self.pids, self.problem = found["pids"], found["problem"]
        self.recordings = found.get("recordings", self.recordings)

    def _ask(self, what: str) -> dict[str, Any]:
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", f"/{what}")
            return json.loads(connection.getresponse().read())

    def cpu_ms(self) -> float | None:
        """CPU time of the target's nodes so far, in ms; None where it cannot be read."""
        with contextlib.suppress(OSError):
            return cpu_ms(self.pids) if self.pids else None
        return None


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
        recorded: dict[str, Any] = {}
        for kind in params["blocks"]:
            if kind == PLAIN:
                await self._block(es, PLAIN, params["coverages"], sampler, timings, common)
            elif not sampler.problem:
                await sampler.tell("start")
                if not sampler.problem:
                    recorded = {"recordings": sampler.recordings}
                    await self._block(es, SAMPLED, params["coverages"], sampler, timings, common)
                    await sampler.tell("stop")
        with losing_one(ON, "profiled-coverage", timings, **common):
            timings.append((await run_profiled(es, ON, params["by-api"], common))[0])
        missing = {"not_sampled": sampler.problem} if sampler.problem else {}
        cache = await query_cache(es, indices, before)
        return round_result(timings, **common, **cache, **recorded, **missing)

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
