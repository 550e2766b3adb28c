"""A race of this track, as its documents in the metrics store tell it."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from cluster_metrics.core.challenge import OLDEST_SCHEMA, SCHEMA, Challenge, challenges
from cluster_metrics.core.index import CHECKS
from cluster_metrics.core.monitor import Monitor
from cluster_metrics.core.rounds import FAILED_SAMPLES

from ..race.variables import escaped, shown
from .sample import Sample
from .sound import REQUEST, SAMPLE, Clock, Document, Sound, gaps, read_check

T = TypeVar("T")


class ReportError(Exception):
    """A report that cannot be written; the message is for the person at the terminal."""


class IncompleteError(ReportError):
    """A race of which too little is there to be reported."""


class NothingToReportError(ReportError):
    """A race was finished that ran none of the tasks that reports explain."""


@dataclass(frozen=True)
class Stretch:
    """Requests of one task that follow each other, none of another task in between.

    :param start: of the first, in ms since the epoch.
    :param end: of the one that ended last.
    """

    task: str
    warmup: bool
    start: float
    end: float
    requests: int = 1


@dataclass(frozen=True)
class Race:
    """A race of this track.

    :param document: its document in ``rally-races-*``.
    :param samples: its normal samples in order of time; failed ones left out, but for bulk requests.
    :param failed: requests that failed, by operation: of all operations, Rally's own and warm-up included.
    :param parameters: the track parameters as resolved.
    :param target: version, JVM, cores and heap of each node of the target.
    :param index: documents, segments and store size of the index.
    :param local: whether load driver and target ran on one machine; None when that is not recorded.
    :param machine: what the load driver ran on; see :func:`cluster_metrics.core.machine.machine`.
    :param rounds_failed: of those that failed, rounds that did since one of their samples, counted beside them, did.
    :param latencies: as ``samples``, what requests took from when they were due; of the kinds that the record names.
    :param schedule: when requests of each task, whichever but a monitor, were under way, in order of time.
    :param faults: what is missing or odd about its documents, and of each operation that failed the first reason; plain
        sentences.
    """

    document: dict[str, Any]
    samples: list[Sample]
    failed: dict[str, int]
    parameters: dict[str, Any] = field(default_factory=dict)
    target: list[dict[str, Any]] = field(default_factory=list)
    index: dict[str, Any] = field(default_factory=dict)
    local: bool | None = None
    schedule: list[Stretch] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    latencies: list[Sample] = field(default_factory=list)
    rounds_failed: int = 0
    _once: dict[Callable[["Race"], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, made: Callable[["Race"], T]) -> T:
        """What a function makes of this race, which is kept: a race may have a million samples."""
        if made not in self._once:
            self._once[made] = made(self)
        found: T = self._once[made]
        return found

    @property
    def id(self) -> str:
        return self.document["race-id"]

    @property
    def started(self) -> str:
        """When it started, as Rally writes it: ``20260101T000000Z``."""
        return self.document["race-timestamp"]

    @property
    def challenge(self) -> str:
        return self.document["challenge"]

    @property
    def record(self) -> Challenge:
        """The record of its challenge.

        :raises ReportError: when the track has no such challenge.
        """
        if found := challenges().get(self.challenge):
            return found
        raise ReportError(f"race [{self.id}] ran challenge [{self.challenge}], which is none of this track's")

    @property
    def problems(self) -> list[str]:
        """Why the race is incomplete, plain sentences; empty when it is complete."""
        unfinished = [] if self.document.get("results") else ["The race was not finished."]
        failed = [f"Of {name} {number:,} failed." for name, number in self.failed.items()]
        return [*unfinished, *failed, *self.faults]

    def of(self, kind: str) -> list[Sample]:
        """The samples of a kind."""
        return list(self.once(_by_kind).get(kind, ()))

    def figure(self, key: str) -> str:
        """What a key of the samples that are compared means, with its unit."""
        compared = self.record.compared
        keys = (*compared.derived, *self.record.samples[compared.sample].keys)
        found = next(k for k in keys if k.name == key)
        return f"{found.text}, {found.unit}" if found.unit else found.text

    def shares(self) -> dict[str, float]:
        """The CPU share of each node of the target that is held to one, in cores."""
        return {n["node"]: float(n["cpu_cores"]) for n in self.target if n.get("cpu_held_by", "nothing") != "nothing"}

    def cores(self, node: dict[str, Any]) -> float:
        """CPU cores that a node of the target may use."""
        return self.shares().get(node["node"], node["cores"])


def _by_kind(race: Race) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in race.samples:
        found.setdefault(sample.kind, []).append(sample)
    return found


MACHINE = {
    "cpu": "CPU",
    "cores": "cores of the machine",
    "memory_mb": "memory MB",
    "disk": "disk",
    "kernel": "kernel",
    "virtualisation": "virtualisation",
    "governor": "governor",
    "load": "load at the start",
}
"""What a machine is described by, in words."""


def machine_of(race: Race) -> dict[str, str]:
    """What the load driver of a race ran on, in words."""
    forms = {float: "{:.2f}", int: "{:,}"}
    return {MACHINE[k]: forms.get(type(v), "{}").format(v) for k, v in race.machine.items() if k in MACHINE}


def check_in(read: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Metadata of the first check that succeeded."""
    checks = (hit["meta"] for hit in read if hit["operation-type"] in CHECKS)
    return next((meta for meta in checks if meta.get("success") is True), None)


def revised(document: dict[str, Any], check: dict[str, Any] | None) -> dict[str, Any]:
    """The document of a race with the revision of the track, which Rally knows of tracks in its repositories alone."""
    revision = (check or {}).get("revision")
    return {"track-revision": escaped(revision)} | document if isinstance(revision, str) and revision else document


def race_of(
    document: dict[str, Any],
    hits: Iterable[dict[str, Any]],
    failures: Iterable[dict[str, Any]] = (),
    requests: Iterable[dict[str, Any]] = (),
    latencies: Iterable[dict[str, Any]] = (),
) -> Race:
    """A race of its documents in the metrics store; those that lack what they should have are left out and counted.

    :param hits: ``service_time`` of its record's samples, none of warm-up.
    :param failures: ``service_time`` of all requests that failed.
    :param requests: ``processing_time`` of all requests.
    :param latencies: ``latency`` of the kinds of which the record wants it, none of warm-up.
    :raises ReportError: when its samples are of a version that this track does not read, or there are none.
    """
    record, sound, faults = Race(document, [], {}).record, Sound(), list[str]()
    clock, checks = Clock(record), list[Document]()

    def others(documents: Iterable[Document]) -> Iterator[Document]:
        for hit in documents:
            clock.look(hit)
            if hit["operation-type"] in CHECKS:
                checks.append(hit)
            else:
                yield hit

    samples = sound.samples(record, others(sound.those(hits, SAMPLE)))
    check = check_in(sorted(checks, key=lambda hit: hit["@timestamp"]))
    _check_schema(document, check or {})
    document = revised(document, check)
    known = read_check(check, faults)
    waits = sound.samples(record, sound.those(latencies, SAMPLE))
    faults += clock.steps()
    failed: Counter[str] = Counter()
    rounds_failed = 0
    for hit in sound.ordered(failures, SAMPLE):
        operation, reason = escaped(hit["operation"]), hit["meta"].get("error-description")
        if reason and operation not in failed:
            faults.append(f"{operation} failed first with: {shown(reason)}")
        failed[operation] += 1
        rounds_failed += hit["meta"].get("error-type") == FAILED_SAMPLES
    looks = looks_of(record)
    schedule = stretches(r for r in sound.those(requests, REQUEST) if r.get("operation-type") not in looks)
    if document.get("results"):
        faults += gaps(record, known["parameters"], samples)
    faults += sound.sentences()
    race = Race(
        document,
        samples,
        dict(failed),
        **known,
        schedule=schedule,
        faults=faults,
        latencies=waits,
        rounds_failed=rounds_failed,
    )
    if not samples and not failed:
        none = "has no samples of this track"
        if not document.get("results"):
            raise IncompleteError(f"race [{race.id}] is INCOMPLETE: it was not finished and {none}")
        raise NothingToReportError(f"race [{race.id}] {none}: it ran no task that is reported")
    return race


def looks_of(record: Challenge) -> set[str]:
    """The types of operations of a challenge that only look on, beside another task."""
    return {operation.type for operation in record.operations if operation.runner is Monitor}


def _check_schema(document: dict[str, Any], check: dict[str, Any]) -> None:
    """Whether this track reads samples of the version that a race recorded; those before it counted have none.

    :raises ReportError: when it does not.
    """
    schema = check.get("schema", 0)
    if not isinstance(schema, int) or not OLDEST_SCHEMA <= schema <= SCHEMA:
        raise ReportError(
            f"race [{document['race-id']}] has samples of version {shown(schema)}, this track reads {OLDEST_SCHEMA} to "
            f"{SCHEMA}; report it with the version of the track that raced it"
        )


def stretches(requests: Iterable[dict[str, Any]]) -> list[Stretch]:
    """Joins requests, documents ``processing_time`` of the metrics store, to stretches of one task. Of millions of
    requests no document is kept, and one may stand for several that follow each other, ``requests`` of them."""
    tasks: dict[tuple[str, bool], int] = {}
    task, number, started, ended = array("L"), array("L"), array("d"), array("d")
    for request in requests:
        number.append(request.get("requests", 1))
        task.append(tasks.setdefault((request["task"], request["sample-type"] == "warmup"), len(tasks)))
        started.append(request["@timestamp"])
        ended.append(request["@timestamp"] + request["value"])
    if not tasks:
        return []
    order = np.argsort(started, kind="stable")
    of, numbers, at, until = (np.asarray(column)[order] for column in (task, number, started, ended))
    firsts = np.flatnonzero(np.diff(of, prepend=len(tasks)))
    ends, counts = np.maximum.reduceat(until, firsts), np.add.reduceat(numbers, firsts)
    named = list(tasks)
    return [
        Stretch(escaped(named[of[first]][0]), named[of[first]][1], float(at[first]), float(end), int(count))
        for first, end, count in zip(firsts, ends, counts)
    ]
