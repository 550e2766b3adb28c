"""What held an ingest back: one bottleneck, by rules over what it used up."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from _tools.report.answer import Finding
from _tools.report.looks import BUSY
from _tools.report.section import Figure, Section
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import count, number, percent

from .usage import Usage

RATE, CLIENT, TARGET, THROTTLING = "the rate that was asked for", "client's CPU", "target's CPU", "throttling"
DISK, QUEUE, CLIENTS, UNKNOWN = "disk", "queue", "the clients", "not determined"
OF_CLIENT = (CLIENT, CLIENTS)
"""Those of the load driver: what such a load took says nothing of what the target can take."""
WAITED = 0.1
"""Part of the time from which on throttling, or pauses after rejections, are named: what is gained without them is at
most that, and less is within the spread of most races."""
IDLE = 0.25
"""Part of the target's cores for which there was no request, from which on the clients are named."""
MOST_BULK = 10_000
"""Documents of a request beyond which larger ones are not advised."""


@dataclass(frozen=True)
class Rule:
    """What is the bottleneck when a figure reaches a threshold, unless a rule before it holds.

    :param name: of the bottleneck.
    :param what: the figure, in words.
    :param of: takes it from the usage.
    :param least: the threshold.
    :param told: the figures that say so, in words.
    :param option: what to try.
    """

    name: str
    what: str
    of: Callable[[Usage], float | None]
    least: float
    told: Callable[[Usage], str]
    option: Callable[[Usage], str]


def _machine(u: Usage) -> str:
    return (
        f"the machine that both run on was {percent(u.machine or 0)} busy: target {number(sum(u.cores.values()))} "
        f"cores, client {number(u.client or 0)}"
    )


def _node(u: Usage) -> str:
    return f"{u.busiest} used {percent(u.parts[u.busiest])} of its CPU"


def _cpus(u: Usage) -> str:
    process = "" if u.process is None else f", the client's busiest process {percent(u.process)} of a core"
    used = f"{percent(max(u.parts.values()))} of its CPU" if u.parts else f"{number(sum(u.cores.values()))} CPU cores"
    return f"the target used {used}{process}"


def _clients(u: Usage) -> str:
    wait = f"{count(round(u.clients), 'client')} had {number(u.sent)} requests on their way at once"
    return (
        f"{wait}, the target worked on {number(u.worked)} of them and has {count(u.target_cores, 'core')}; {_cpus(u)}"
    )


def _paused(u: Usage) -> str:
    again = f"{u.rejected:,.0f} documents that a full queue rejected were sent again"
    return f"clients paused for {percent(u.pauses)} of their time, since {again}; {_cpus(u)}"


def _more(u: Usage) -> str:
    clients = max(2 * round(u.clients), math.ceil(u.target_cores))
    larger = f", or {u.knobs[1]}:{min(10 * round(u.bulk_size), MOST_BULK)}" if u.bulk_size < MOST_BULK else ""
    return f"try {u.knobs[0]}:{clients}{larger}"


FASTER = "give the target more CPU, or less work per document"
DRIVER = "run the load driver on a machine of its own, or on several; or larger requests"
RULES = (
    Rule(
        RATE,
        "paced load that did not fall behind",
        lambda u: float(u.on_time),
        1.0,
        _cpus,
        lambda u: "ask for more, or race without paced, to see what it can take",
    ),
    Rule(
        CLIENT,
        "CPU of the busiest process of Rally, in cores",
        lambda u: u.process,
        BUSY,
        lambda u: f"a process of Rally, which runs its clients in one thread, used {percent(u.process or 0)} of a core",
        lambda u: DRIVER,
    ),
    Rule(
        CLIENT,
        "a machine that both run on, used by the client most",
        lambda u: u.full_by_client,
        BUSY,
        _machine,
        lambda u: DRIVER,
    ),
    Rule(
        TARGET, "CPU of the busiest node", lambda u: max(u.parts.values(), default=None), BUSY, _node, lambda u: FASTER
    ),
    Rule(
        TARGET,
        "a machine that both run on, used by the target most",
        lambda u: u.full_by_target,
        BUSY,
        _machine,
        lambda u: FASTER,
    ),
    Rule(
        THROTTLING,
        "time that indexing was throttled",
        lambda u: u.throttled,
        WAITED,
        lambda u: f"indexing was throttled for {percent(u.throttled or 0)} of the time, since merges fell behind",
        lambda u: "a faster disk, or a longer refresh_interval",
    ),
    Rule(
        DISK,
        "time that the busiest disk had work",
        lambda u: u.disk,
        BUSY,
        lambda u: f"the target's disk had work for {percent(u.disk or 0)} of the time; {_cpus(u)}",
        lambda u: "a faster disk, or translog_durability:async",
    ),
    Rule(
        QUEUE,
        "clients' time paused after rejections",
        lambda u: u.pauses,
        WAITED,
        _paused,
        lambda u: "fewer clients, or larger requests; or a longer thread_pool.write.queue_size",
    ),
    Rule(CLIENTS, "the target's cores without a request", lambda u: u.idle, IDLE, _clients, _more),
)
"""In this order: full CPU explains queues and throttling, and these explain idle cores; not the other way round."""


@dataclass(frozen=True)
class Bottleneck:
    """What held a load back.

    :param name: see ``RULES``, or ``UNKNOWN``.
    :param told: the figures that say so.
    :param option: what to try.
    """

    name: str
    told: str
    option: str = ""

    @property
    def of_client(self) -> bool:
        """Whether it is on the load driver's side."""
        return self.name in OF_CLIENT

    @property
    def text(self) -> str:
        return "; ".join(filter(None, (f"{self.name}: {self.told}", self.option)))


def bottleneck(usage: Usage | None) -> Bottleneck:
    """The first rule that holds."""
    if usage is None:
        return Bottleneck(UNKNOWN, "the monitor did not look twice while documents were sent", "load more rows")
    for rule in RULES:
        value = rule.of(usage)
        if value is not None and value >= rule.least:
            return Bottleneck(rule.name, rule.told(usage), rule.option(usage))
    return Bottleneck(UNKNOWN, f"no limit was reached; {_cpus(usage)}")


def finding(found: Bottleneck, of: str = "") -> Finding:
    """The line of the answer.

    :param of: what was held back, where there are several.
    """
    return Finding("held back by", f"{found.text} ({of})" if of else found.text)


def section_of_cells(of: Mapping[str, Usage], drawn: Sequence[Figure]) -> Section:
    """What held back each way to ingest.

    :param drawn: of it, see :func:`.course.over_rounds`.
    """
    where = (
        "CPU is as each cell counted it; queues, throttling and disk are of cells in which the monitor looked twice."
    )
    return Section("What held it back", [where, table(of, "configuration"), *drawn, explained()])


def table(of: Mapping[str, Usage], what: str) -> Table:
    """What was used, and the bottleneck, by name.

    :param what: the names are of.
    """
    rows = [
        {"name": name, "bottleneck": bottleneck(usage).name}
        | {"seconds": usage.seconds, "target": max(usage.parts.values(), default=None), "client": usage.client}
        | {key: getattr(usage, key) for key in ("process", "machine", "sent", "worked", "idle", "pauses")}
        | {key: getattr(usage, key) for key in ("throttled", "merge_throttled", "disk")}
        for name, usage in of.items()
    ]
    columns = [Words("name", what), Words("bottleneck", "held back by"), Column("seconds", "s")]
    columns += [share("target", "target's CPU"), Column("client", "client's CPU, cores")]
    columns += [Column("process", "its busiest process"), share("machine", "machine of both")]
    columns += [
        Column("sent", "requests at once"),
        Column("worked", "of them in hand"),
        share("idle", "cores without one"),
    ]
    columns += [share("pauses", "pauses after 429"), share("throttled", "indexing throttled")]
    columns += [share("merge_throttled", "merges throttled, all together"), share("disk", "disk at work")]
    return Table(f"usage by {what}", columns, rows)


def explained() -> str:
    """The rules in words, for the report."""
    told = "; ".join(f"{rule.name}: {rule.what}, from {percent(rule.least)}" for rule in RULES if rule.name != RATE)
    return (
        f"The first of these that holds is named: {told}; else it is {UNKNOWN}. A load that was paced and on time was "
        "held back by the rate that was asked for. What the target does not tell is left out."
    )
