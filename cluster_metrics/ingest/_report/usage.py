"""What a load used up of what it needs, by what the monitor and the requests tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from _tools.report.looks import BUSY, Looks
from _tools.report.race import Race, Sample
from _tools.report.sample import columns
from _tools.report.text import number
from cluster_metrics.core.monitor import MONITOR
from cluster_metrics.ingest.cell import SAMPLE

from .rates import Load


@dataclass(frozen=True)
class Usage:
    """How far what a load needs was used up while it ran. What was not told is None, and no rule speaks of it.

    :param seconds: that were looked at.
    :param clients: of the load.
    :param bulk_size: documents of a request.
    :param cores: CPU cores that each node used.
    :param parts: the same as part of those that it may use.
    :param client: CPU cores that Rally's processes used.
    :param processes: CPU cores that each of them used that runs clients; each does so in one thread.
    :param machine: part of the CPU of the load driver's machine that was busy, where the target runs on it, too.
    :param machine_cores: cores of that machine.
    :param pauses: part of the clients' time that they paused after rejections.
    :param rejected: documents that were sent again.
    :param throttled: part of the time that Elasticsearch throttled indexing, since merges fell behind.
    :param merge_throttled: the same of merges, whose writing it slows down by design; of all that ran at once together.
    :param disk: part of the time that the busiest disk had work.
    :param sent: requests on their way, a mean over time.
    :param worked: of these, those that Elasticsearch had in hand, by ``took``.
    :param threads: shards that a request reaches at most, and so threads of the target that it can keep busy.
    :param target_cores: CPU cores that all nodes may use.
    :param on_time: whether it was a paced load that did not fall behind.
    :param paced: whether it was paced, on time or not: then few requests are on their way as few were due.
    :param knobs: what sets clients and documents of a request, in words.
    """

    seconds: float
    clients: float
    bulk_size: float
    cores: Mapping[str, float]
    parts: Mapping[str, float]
    client: float | None
    processes: Mapping[str, float]
    machine: float | None
    machine_cores: float
    pauses: float
    rejected: float
    throttled: float | None
    merge_throttled: float | None
    disk: float | None
    sent: float
    worked: float
    threads: float
    target_cores: float
    on_time: bool = False
    paced: bool = False
    knobs: tuple[str, str] = ("bulk_indexing_clients", "bulk_size")

    @property
    def busiest(self) -> str:
        """The node that used most of what it may use."""
        return max(self.parts, key=lambda node: self.parts[node], default="")

    @property
    def process(self) -> float | None:
        """CPU cores that the busiest process of Rally used; None where that was not told."""
        return max(self.processes.values(), default=None)

    @property
    def full_by_client(self) -> float | None:
        """How busy a machine was that both run on, if the client used more of it than the target."""
        return self.machine if self.machine and (self.client or 0) > sum(self.cores.values()) else None

    @property
    def full_by_target(self) -> float | None:
        """The same, if the target used at least half of what was used."""
        half = (self.machine or 0.0) * self.machine_cores / 2
        return self.machine if self.machine and sum(self.cores.values()) >= half else None

    @property
    def idle(self) -> float | None:
        """Part of the target's cores for which there was no request; None where the target's cores are not known, and
        of a paced load whose clients were not all at work."""
        if self.paced and self.sent < BUSY * self.clients:
            return None
        return max(0.0, 1 - self.worked * self.threads / self.target_cores) if self.target_cores else None


def target_cores(race: Race) -> float:
    """CPU cores that the nodes of the target may use together; on the load driver's machine no more than it has."""
    cores = float(sum(race.cores(node) for node in race.target))
    return min(cores, race.machine["cores"]) if race.local and shared(race) else cores


def parts_of(race: Race, cores: Mapping[str, float]) -> dict[str, float]:
    """CPU cores that nodes used, as part of those that they may use."""
    may = {node["node"]: race.cores(node) for node in race.target}
    return {node: used / may[node] for node, used in cores.items() if may.get(node)}


def shared(race: Race) -> bool:
    """Whether load driver and target use the same cores."""
    return race.local is not False and bool(race.machine.get("cores"))


def told_by(looks: Looks, key: str) -> float | None:
    """How much of the time a counter of ms ran on the node where it did most; None where no node tells."""
    return max(looks.growth(key).values(), default=None)


def throttled_of(race: Race, looks: Looks) -> float | None:
    """The part of the time that Elasticsearch throttled indexing, a mean over the shards of a node, which count it each
    by itself."""
    shards = race.parameters.get("number_of_shards", 1) * (1 + race.parameters.get("number_of_replicas", 0))
    found = told_by(looks, "index_throttle_ms")
    return None if found is None else found / max(1.0, shards / max(1, len(race.target)))


def of_load(race: Race, load: Load) -> Usage | None:
    """What a load used up; None where the monitor did not look twice."""
    looks, requests = load.seen, [request for bucket in load.requests for request in bucket]
    cores = looks.cores()
    if not cores:
        return None
    (client, machine), values = looks.client() or (None, None), race.parameters
    of = columns([r.meta for r in requests], ("retry_wait_ms", "send_ms", "took", "repeated_docs"))
    total = {key: sum(value or 0 for value in column) for key, column in of.items()}
    pauses, sent, worked = (total[key] / 1000 / load.seconds for key in ("retry_wait_ms", "send_ms", "took"))
    return Usage(
        seconds=load.seconds,
        clients=values["bulk_indexing_clients"],
        bulk_size=values["bulk_size"],
        cores=cores,
        parts=parts_of(race, cores),
        client=client,
        processes=looks.processes(),
        machine=machine if shared(race) else None,
        machine_cores=race.machine.get("cores", 0),
        pauses=pauses / values["bulk_indexing_clients"],
        rejected=total["repeated_docs"],
        throttled=throttled_of(race, looks),
        merge_throttled=told_by(looks, "merge_throttle_ms"),
        disk=told_by(looks, "disk_busy_ms"),
        sent=sent,
        worked=worked,
        threads=values["number_of_shards"],
        target_cores=target_cores(race),
        paced=bool(values.get("paced")),
    )


def of_cells(race: Race, knobs: tuple[str, str]) -> dict[str, Usage]:
    """What each way to ingest used up, by cell, that of the greatest rate first; see :func:`of_cell`."""
    cells: dict[str, list[Sample]] = {}
    for sample in race.of(SAMPLE):
        cells.setdefault(sample.cell, []).append(sample)
    rates = {name: float(np.median([s.meta["rows_per_second"] for s in of])) for name, of in cells.items()}
    order = sorted(cells, key=lambda name: -rates[name])
    return {name: used for name in order if (used := of_cell(race, cells[name], knobs))}


def of_cell(race: Race, samples: Sequence[Sample], knobs: tuple[str, str]) -> Usage | None:
    """What one way to ingest used up, over its rounds: CPU as each cell counted it by itself, queues, throttling and
    disk as the monitor saw them in cells long enough for two looks.

    :param samples: of one cell.
    :param knobs: what sets clients and documents of a request, in words.
    """
    looks, found = race.of(MONITOR), []
    for s in samples:
        seconds = s.meta["wall_ms"] / 1000
        seen = Looks([look for look in looks if s.at <= look.at <= s.at + s.meta["wall_ms"]])
        target = s.meta["target_cpu_ms"] / (s.meta["wall_ms"] + s.meta["refresh_wall_ms"])
        client = s.meta["client_cpu_ms"] / s.meta["wall_ms"]
        cores, may = {"all nodes": target}, target_cores(race)
        alone = {"all nodes": target / may} if may else {}
        parts = alone if len(race.target) == 1 else parts_of(race, seen.cores())
        busy = min(1.0, (target + client) / race.machine["cores"]) if shared(race) else None
        found.append(
            Usage(
                seconds=seconds,
                clients=s.meta["clients"],
                bulk_size=s.meta["bulk_size"],
                cores=cores,
                parts=parts,
                client=client,
                processes={"all clients": client},
                machine=busy,
                machine_cores=race.machine.get("cores", 0),
                pauses=s.meta.get("retry_wait_ms", 0.0) / s.meta["wall_ms"] / s.meta["clients"],
                rejected=s.meta.get("repeated_docs", 0),
                throttled=throttled_of(race, seen),
                merge_throttled=told_by(seen, "merge_throttle_ms"),
                disk=told_by(seen, "disk_busy_ms"),
                sent=s.meta["send_ms"] / s.meta["wall_ms"],
                worked=s.meta["took_ms"] / s.meta["wall_ms"],
                threads=race.parameters.get("number_of_shards", 1),
                target_cores=may,
                knobs=knobs,
            )
        )
    return pooled(found)


def pooled(found: Sequence[Usage]) -> Usage | None:
    """Several stretches as one, weighted by their time; None for none."""
    if not found:
        return None
    weights = [usage.seconds for usage in found]

    def mean(values: Sequence[float | None]) -> float | None:
        known = [(value, weight) for value, weight in zip(values, weights) if value is not None]
        return float(np.average([v for v, _ in known], weights=[w for _, w in known])) if known else None

    values: dict = {}
    for name, value in vars(found[0]).items():
        of = [getattr(usage, name) for usage in found]
        if isinstance(value, Mapping):
            nodes = dict.fromkeys(node for one in of for node in one)
            values[name] = {node: mean([one.get(node) for one in of]) for node in nodes}
        else:
            values[name] = value if isinstance(value, tuple) else mean(of)
    return Usage(
        **values
        | {
            "seconds": sum(weights),
            "rejected": sum(u.rejected for u in found),
            "on_time": all(u.on_time for u in found),
            "paced": any(u.paced for u in found),
        }
    )


def of_processes(usage: Usage | None) -> str:
    """What each process of Rally used that runs clients, in words; empty where that was not told."""
    if not usage or not usage.processes:
        return ""
    used = sorted(usage.processes.values(), reverse=True)
    which = "one process" if len(used) == 1 else f"{len(used)} processes"
    return f"Rally ran the clients in {which}: {', '.join(map(number, used))} CPU cores used."
