"""Runners and param sources of query-decomp: warm-up, headline cells and the plan."""

import itertools
import math
import time
from typing import Any

from ..core.rounds import Params, RoundParams, Runner, losing_one, outcome, round_result, shuffled
from ..corpus.metrics import NAME
from ..wire.coverage import TYPE, Asked, Coverage, Coverages, ask
from ..wire.questions import PRODUCTION
from ..wire.requests import send
from ..wire.stats import segment_count, target_cpu_ms
from .cache import lookups, query_cache
from .configurations import PARTS, cells
from .steady import unsteady

PART = "part-coverage"
"""``operation-type`` of the samples of cells that only the attribution asks."""
VISITS = 3
"""Of each epoch by a headline cell in a pass, at least."""
TURN_S = 5.0
"""Each so many seconds Rally looks whether a task has ended (``WAKEUP_INTERVAL_SECONDS`` of a worker)."""
START_S = 1.0
"""What it takes from there to the start of the next task, in seconds."""
READING_S = 1.2
"""What a headline cell keeps free of its last turn: to begin, and to wait for the target's CPU time, in seconds."""
RUN_UP_S = 0.1
"""For which a round asks a cell uncounted before it asks the coverage that counts; docs/challenges/query-decomp.md says
why."""


class CellParams(Params):
    """Param source of a headline cell in one pass: its warm-up coverages first, then the epochs in seeded order.

    It visits each :data:`VISITS` times, and goes on while Rally would be idle until it looks again whether the task
    has ended. In test mode it asks one coverage.

    Mandatory keys of the operation: ``variant``, ``transport``; the track processor adds ``pass`` and
    ``warmup-iterations``.
    """

    infinite = False

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        (self._cell,) = cells(
            [params["variant"]], [params["transport"]], parallel=self.values["max_concurrent_searches"]
        )
        self._coverages = Coverages(track)
        order = shuffled(self._coverages.epochs, self.values["seed"], params["pass"], self._cell.name)
        warmup = params["warmup-iterations"]
        self._epochs = itertools.chain(itertools.islice(itertools.cycle(order), warmup), itertools.cycle(order))
        self._numbers = itertools.count(-warmup)
        self._fewest = 1 if self.values.get("test_mode") else VISITS * len(order)
        self._began = self._before = math.nan
        self._last = False

    def params(self) -> dict[str, Any]:
        if self._last:
            raise StopIteration  # which ends a task of Rally's
        number, now = next(self._numbers), time.perf_counter()
        if math.isnan(self._began):
            self._began = self._before = now
        if number + 1 >= self._fewest:
            self._last = self._fewest == 1 or not fits(now - self._began, now - self._before)
        self._before = now
        return {
            "variant": self.operation["variant"],
            "transport": self.operation["transport"],
            "pass": self.operation["pass"],
            "coverage": self._coverages.make(self._cell, next(self._epochs)),
            "first": number == 0,
            "last": self._last,
        }


def fits(elapsed_s: float, coverage_s: float) -> bool:
    """Whether a headline cell may ask two more coverages, and not one alone, without a later end of its task.

    :param elapsed_s: since the task began, in seconds.
    :param coverage_s: that a coverage takes.
    """
    end = elapsed_s + coverage_s + READING_S
    return math.ceil((end + coverage_s) / TURN_S) == math.ceil(end / TURN_S)


class PlanParams(RoundParams):
    """Param source of the plan's part that follows a pass: every cell once in seeded order, all about the same epoch.

    Where the attribution has the variants it needs, its parts are cells, too. The track processor adds ``pass`` and
    ``passes`` to the operation where there are passes.

    Track parameters: ``variants``, ``transports``, ``max_concurrent_searches``, ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        variants, transports = self.values["variants"], self.values["transports"]
        parallel = self.values["max_concurrent_searches"]
        self._cells = {(v, t): cells([v], [t], parallel)[0] for v, t in itertools.product(variants, transports)}
        if "serial" in transports and {"B", "C_td", PRODUCTION.name} <= set(variants):
            self._cells |= {(name, "serial"): part for name, part in PARTS.items()}
        self._coverages = Coverages(track)
        self._epochs = shuffled(self._coverages.epochs, self.values["seed"], "plan")
        self._pass, passes = (params.get(key, 0) for key in ("pass", "passes"))  # 0 where tasks left the passes out
        self._passes_left = passes - self._pass

    def afterwards(self, round_s: float) -> float:
        """That of the passes to come, by the cells' share of a round."""
        cells = len(self.values["variants"]) * len(self.values["transports"])
        coverages = self.values["warmup_iterations"] + VISITS * self.values["epochs"]
        coverage_s = max(0.0, round_s / len(self._cells) - RUN_UP_S)
        turns = math.ceil((coverages * coverage_s + READING_S) / TURN_S)
        return self._passes_left * cells * (turns * TURN_S + START_S)

    def round(self, number: int) -> dict[str, Any]:
        epoch, other = (self._epochs[n % len(self._epochs)] for n in (number, number + 1))
        asked = []
        for variant, transport in shuffled(list(self._cells), self.values["seed"], "round", number):
            cell = self._cells[variant, transport]
            run_up, coverage = (self._coverages.make(cell, of) for of in (other, epoch))
            kind = PART if variant in PARTS else TYPE
            about = {"variant": variant, "transport": transport, "kind": kind}
            asked.append(about | {"run-up": run_up, "coverage": coverage})
        return {"coverages": asked, "pass": self._pass}


def _sample(params: dict[str, Any], asked: Asked) -> dict[str, Any]:
    return {key: params[key] for key in ("variant", "transport")} | asked.checked()


class CellRunner(Runner):
    """Runs one coverage of a headline cell; ``throughput`` is searches per second of wall time."""

    def __init__(self) -> None:
        self._cpu_ms: float | None = None

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        segments = await segment_count(es, NAME)
        if params["first"]:
            self._cpu_ms = None  # not that of an earlier cell, should this be the request that fails
            self._cpu_ms = await target_cpu_ms(es)
        meta = _sample(params, await ask(es, params["coverage"]))
        if params["last"] and self._cpu_ms is not None:
            meta["target_cpu_ms"] = await target_cpu_ms(es) - self._cpu_ms
        return meta | {
            "weight": meta["searches"],
            "unit": "searches",
            "throughput": 1000 * meta["searches"] / meta["wall_ms"],
            "pass": params["pass"],
            "segments": segments,
        }


async def run_up(es: Any, coverage: Coverage) -> None:
    """Asks the requests of a coverage, again and again, for as long as a run-up takes; of one at least."""
    end = time.perf_counter() + RUN_UP_S
    with es.new_request_context():
        for request in itertools.cycle(coverage.requests):
            await send(es, request)
            if time.perf_counter() >= end:
                break


class PlanRunner(Runner):
    """Runs one round: every cell once after a run-up, each a ``service_time`` document of its own."""

    def __init__(self) -> None:
        self._cpu_ms: float | None = None

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        # reading it takes a second, so the end of a round is the start of the next; none after a round that failed
        cpu_ms, self._cpu_ms = self._cpu_ms, None
        common = {"round": params["round"], "pass": params["pass"], "segments": await segment_count(es, NAME)}
        if cpu_ms is None:
            cpu_ms = await target_cpu_ms(es)
        timings: list[dict[str, Any]] = []
        before = await lookups(es, [NAME])
        for one in params["coverages"]:
            name, cell = one["coverage"].configuration.name, {key: one[key] for key in ("variant", "transport")}
            with losing_one(name, one["kind"], timings, **cell, **common):
                await run_up(es, one["run-up"])
                asked = await ask(es, one["coverage"], one["kind"])
                timings.append(_sample(one, asked) | common | {"dependent_timing": asked.timing})
        cache = await query_cache(es, [NAME], before)
        self._cpu_ms = await target_cpu_ms(es)
        return round_result(timings, **common, **cache, target_cpu_ms=self._cpu_ms - cpu_ms)


class WarmUpParams(PlanParams):
    """Param source of the warm-up: the rounds of a plan that it may walk, numbered up to 0.

    Track parameters: ``warmup_rounds`` and those of the plan.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params | {"warmup-iterations": 0}, **kwargs)

    def params(self) -> dict[str, Any]:
        numbers = range(1 - self.values["warmup_rounds"], 1)
        return {"rounds": [{"round": number} | self.round(number) for number in numbers]}


class WarmUpRunner(Runner):
    """Walks rounds of the plan, uncounted, until every configuration is steady or there are none left.

    ``unsteady`` are the configurations that were not steady then, see :mod:`.steady`.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        plan, times, problems, walked = PlanRunner(), dict[str, list[float]](), list[str](), 0
        for made in params["rounds"]:
            for one in made["coverages"]:
                times.setdefault(one["coverage"].configuration.name, [])
            result = await plan(es, made)
            walked += 1
            for timing in result["dependent_timing"]:
                if timing["success"]:
                    times[timing["dependent_timing"]["operation"]].append(timing["wall_ms"])
            problems += [result["error-description"]] if not result["success"] else []
            if not unsteady(times):
                break
        about = {"weight": walked, "unit": "rounds", "rounds": walked, "unsteady": unsteady(times)}
        return about | outcome(problems, "failed-rounds")
