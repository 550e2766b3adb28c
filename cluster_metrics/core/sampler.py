"""The sampler of the target's CPU time that make's process has, as a runner sees it."""

import asyncio
import contextlib
import http.client
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from .challenge import Key
from .machine import cpu_ms
from .served import NONE, Served, ask

SAMPLER = Served(
    "sampler",
    "The sampler of the target's CPU time. `make race` starts one in its own process for cpu-profile, and for "
    "ingest-decomp with PROFILE=1.",
    server="the sampler",
)
OF_ROUND = (
    Key("recordings", "", "files of its recordings, by make's process, a list", optional=True),
    Key("not_sampled", "", "why the sampler recorded less than it should", optional=True),
)


@dataclass
class Sampler:
    """The sampler of make's process.

    :param address: ``host:port``, or ``none``.
    :param pids: processes of the target's nodes; none where they run elsewhere.
    :param recordings: files of the recordings that were started.
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
            found = await asyncio.to_thread(ask, self.address, what)
        except (OSError, ValueError, http.client.HTTPException) as e:
            self.problem = f"the sampler at {self.address} does not answer: {type(e).__name__}"
            return
        self.pids, self.problem = found["pids"], found["problem"]
        self.recordings += found.get("recordings", [])

    @contextlib.asynccontextmanager
    async def recording(self) -> AsyncIterator[bool]:
        """Records for as long as the context lasts.

        :return: whether it does; where there was a problem before, it does not.
        """
        if not self.problem:
            await self.tell("start")
        if self.problem:
            yield False
            return
        try:
            yield True
        finally:
            await self.tell("stop")

    @property
    def of_round(self) -> dict[str, Any]:
        """What the sample of a round records of it, see :data:`OF_ROUND`."""
        recorded = {"recordings": self.recordings} if self.recordings else {}
        return recorded | ({"not_sampled": self.problem} if self.problem else {})

    def cpu_ms(self) -> float | None:
        """CPU time of the target's nodes so far, in ms; None where it cannot be read."""
        with contextlib.suppress(OSError):
            return cpu_ms(self.pids) if self.pids else None
        return None
