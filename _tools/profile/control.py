"""Lets the runners of a race start and stop the sampler of make's process."""

import threading
from typing import Any

from .sampler import Sampler, SamplerError


class Control:
    """What a runner may ask of a sampler, one request at a time.

    :param sampler: None where there is none.
    :param problem: why there is none.
    """

    def __init__(self, sampler: Sampler | None, problem: str = ""):
        self.sampler = sampler
        self.problem = problem
        self._one = threading.Lock()

    def answer(self, asked: str) -> dict[str, Any]:
        """What is answered to ``start``, ``stop`` or ``state``: ``pids`` of the target's nodes, ``recordings`` that a
        start began, and the ``problem`` if there is one, which then stays."""
        with self._one:
            found: dict[str, Any] = {"pids": self.sampler.pids if self.sampler else []}
            if self.sampler and not self.problem:
                try:
                    if asked == "start":
                        found["recordings"] = self.sampler.start()
                    elif asked == "stop":
                        self.sampler.stop()
                except SamplerError as e:
                    self.problem = str(e)
                    print(f"no CPU profile from here on, the race goes on without: {e}", flush=True)
            return found | {"problem": self.problem}
