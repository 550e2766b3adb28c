"""Reads a race back from the Elasticsearch metrics store that Rally wrote it to."""

import configparser
import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

import elasticsearch
from elasticsearch import helpers

from cluster_metrics.core.challenge import OLDEST_SCHEMA, SCHEMA, Challenge, challenges
from cluster_metrics.core.index import CHECKS
from cluster_metrics.core.monitor import Monitor

from ..race.variables import RACE_ID, escaped, shown
from .sound import REQUEST, SAMPLE, Sound, clock_steps, gaps, printable, read_check

MOST_RACES = 1000
"""Most races that a tag stands for; of more, the newest are taken."""


class ReportError(Exception):
    """A report that cannot be written; the message is for the person at the terminal."""


class IncompleteError(ReportError):
    """A race of which too little is there to be reported."""


class NothingToReportError(ReportError):
    """A race was finished that ran none of the tasks that reports explain."""


@dataclass(frozen=True)
class Sample:
    """One ``service_time`` document of a custom operation of this track.

    :param kind: its ``operation-type``.
    :param at: when it started, in ms since the epoch.
    :param cell: its ``operation``.
    :param value: service time in ms.
    :param meta: its metadata, as documented at the runner.
    """

    kind: str
    at: int
    cell: str
    value: float
    meta: dict[str, Any]


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
        return [s for s in self.samples if s.kind == kind]

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


def reporting_of(ini: Path) -> dict[str, str]:
    """What a ``rally.ini`` says of its metrics store: its section ``reporting``, as Rally reads it.

    :raises ReportError: when the file names no Elasticsearch metrics store.
    """
    try:
        text = Path(ini).read_text()
    except OSError as e:
        raise ReportError(f"cannot read [{shown(ini)}]: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ReportError(f"[{shown(ini)}] is no rally.ini, it is no text") from None
    config = configparser.ConfigParser()
    try:
        config.read_string(Template(text).substitute(CONFIG_DIR=ini.parent))  # as Rally reads it
        reporting = dict(config["reporting"]) if config.has_section("reporting") else {}
    except (configparser.Error, ValueError, KeyError) as e:
        raise ReportError(f"[{shown(ini)}] is no rally.ini: {shown(str(e).splitlines()[0])}") from None
    if reporting.get("datastore.type") != "elasticsearch":
        raise ReportError(
            f"[{shown(ini)}] names no metrics store; set datastore.type = elasticsearch as in rally.ini.example"
        )
    port = reporting.get("datastore.port", "")
    if not reporting.get("datastore.host") or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ReportError(f"[{shown(ini)}] needs datastore.host and, from 1 to 65535, datastore.port")
    return reporting


def connect(ini: Path) -> elasticsearch.Elasticsearch:
    """A client of the metrics store that a ``rally.ini`` names; Rally's environment variables for credentials count.

    :raises ReportError: see :func:`reporting_of`.
    """
    reporting = reporting_of(ini)
    for name in ("user", "password", "api_key"):
        if given := os.environ.get(f"RALLY_REPORTING_DATASTORE_{name.upper()}"):
            reporting[f"datastore.{name}"] = given
    secure = reporting.get("datastore.secure", "False").lower() in ("true", "yes", "1")
    options: dict[str, Any] = {}
    if secure:
        options["verify_certs"] = reporting.get("datastore.ssl.verification_mode", "full") != "none"
        if authorities := reporting.get("datastore.ssl.certificate_authorities"):
            options["ca_certs"] = os.path.expanduser(authorities)
    if user := reporting.get("datastore.user"):
        options["basic_auth"] = (user, reporting.get("datastore.password", ""))
    elif key := reporting.get("datastore.api_key"):
        options["api_key"] = key
    scheme = "https" if secure else "http"
    url = f"{scheme}://{reporting['datastore.host']}:{reporting['datastore.port']}"
    return elasticsearch.Elasticsearch(url, request_timeout=60, **options)


def _query(race: str) -> dict[str, Any]:
    if race == "last":
        return {"match_all": {}}
    key, colon, value = race.partition(":")
    return {"term": {f"user-tags.{key}": value} if colon else {"race-id": race}}


def find(store: elasticsearch.Elasticsearch, race: str = "last", most: int = MOST_RACES) -> list[dict[str, Any]]:
    """The documents of races, the newest first.

    :param race: an id, a tag ``key:value``, or ``last`` for all.
    :raises ReportError: when there is none.
    """
    sort = [{"race-timestamp": {"order": "desc", "unmapped_type": "date"}}]
    with _asking():
        store.indices.refresh(index="rally-*", allow_no_indices=True)
        found = store.search(index="rally-races-*", query=_query(race), sort=sort, size=most, allow_no_indices=True)
    hits = found["hits"]["hits"]
    if not hits:
        raise ReportError(
            "the metrics store holds no race" if race == "last" else f"no race [{shown(race)}] in the store"
        )
    return [_checked(hit["_source"]) for hit in hits]


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a race, in a form that can be printed and whose id can be a folder.

    :raises ReportError: when it does not say which race it is.
    """
    found: dict[str, Any] = printable(document)
    for key in ("race-id", "race-timestamp", "challenge"):
        if not isinstance(found.get(key), str):
            raise ReportError(f"race [{shown(found.get('race-id'))}]: its document in the metrics store has no [{key}]")
    if not re.fullmatch(RACE_ID, found["race-id"], re.ASCII):
        raise ReportError(f"the id of race [{shown(found['race-id'])}] in the metrics store is none that Rally makes")
    return found | {key: found.get(key) if isinstance(found.get(key), dict) else {} for key in ("results", "user-tags")}


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Puts the errors of a metrics store into words."""
    try:
        yield
    except elasticsearch.ApiError as e:
        raise ReportError(f"the metrics store answers with an error: {shown(e.message)}") from None
    except helpers.ScanError:
        raise ReportError("the metrics store answers with an error: some of its shards do not answer") from None
    except elasticsearch.TransportError as e:
        raise ReportError(f"the metrics store is out of reach: {shown(str(e).splitlines()[0])}") from None


def load(store: elasticsearch.Elasticsearch, race: str) -> Race:
    """Reads a race.

    :param race: its id, ``last``, or a tag ``key:value`` for the newest race that carries it.
    :raises ReportError: when it is not there, or has no samples of this track.
    """
    return read(store, find(store, race, 1)[0])


def load_all(store: elasticsearch.Elasticsearch, name: str, challenge: str = "") -> list[Race]:
    """Reads the races of a name, the oldest first.

    :param name: an id or ``last`` for one race, or a tag ``key:value`` for all finished races that carry it.
    :param challenge: leaves out tagged races of other challenges.
    :raises ReportError: when there is none, or races of several challenges carry the tag.
    """
    if ":" not in name:
        return [load(store, name)]
    found = [d for d in find(store, name, MOST_RACES) if d.get("results") and challenge in ("", d["challenge"])]
    if not found:
        raise ReportError(f"no race [{name}]{f' of challenge [{challenge}]' if challenge else ''} was finished")
    if len(challenges := sorted({d["challenge"] for d in found})) > 1:
        raise ReportError(f"races [{name}] are of challenges {', '.join(challenges)}; say which by CHALLENGE")
    return [read(store, document) for document in reversed(found)]


def read(store: elasticsearch.Elasticsearch, document: dict[str, Any]) -> Race:
    """Reads the samples of a race, and none of an earlier one that was given the same id."""
    kinds = list(Race(document, [], {}).record.samples)
    with _asking():
        samples = _scan(store, document, "service_time", _NORMAL, {"terms": {"operation-type": kinds}})
        failures = _scan(store, document, "service_time", {"term": {"meta.success": False}})
        fields = ["task", "operation-type", "sample-type", "@timestamp", "value"]
        requests = _scan(store, document, "processing_time", _source=fields)
    return race_of(document, samples, failures, requests)


def circumstances(store: elasticsearch.Elasticsearch, document: dict[str, Any]) -> Race:
    """What a race was run with and on, without its samples."""
    with _asking():
        hits = _scan(store, document, "service_time", _NORMAL, {"terms": {"operation-type": list(CHECKS)}})
    faults: list[str] = []
    check = _check_in(Sound().ordered(hits, SAMPLE))
    return Race(document, [], {}, **read_check(check, faults), faults=faults)


_NORMAL = {"term": {"sample-type": "normal"}}


def _scan(
    store: elasticsearch.Elasticsearch, document: dict[str, Any], name: str, *filters: dict[str, Any], **options: Any
) -> list[dict[str, Any]]:
    """The documents of a metric of a race."""
    own = [{"term": {key: document[key]}} for key in ("race-id", "race-timestamp")]
    query = {"query": {"bool": {"filter": [*own, {"term": {"name": name}}, *filters]}}}
    return [hit["_source"] for hit in helpers.scan(store, index="rally-metrics-*", query=query, **options)]


def _check_in(read: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Metadata of the first check that succeeded."""
    checks = (hit["meta"] for hit in read if hit["operation-type"] in CHECKS)
    return next((meta for meta in checks if meta.get("success") is True), None)


def race_of(
    document: dict[str, Any],
    hits: Iterable[dict[str, Any]],
    failures: Iterable[dict[str, Any]] = (),
    requests: Iterable[dict[str, Any]] = (),
) -> Race:
    """A race of its documents in the metrics store; those that lack what they should have are left out and counted.

    :param hits: ``service_time`` of its record's samples, none of warm-up.
    :param failures: ``service_time`` of all requests that failed.
    :param requests: ``processing_time`` of all requests.
    :raises ReportError: when its samples are of a version that this track does not read, or there are none.
    """
    record, sound, faults = Race(document, [], {}).record, Sound(), list[str]()
    read = sound.ordered(hits, SAMPLE)
    check = _check_in(read)
    _check_schema(document, check or {})
    known = read_check(check, faults)
    counted = sound.samples(record, (hit for hit in read if hit["operation-type"] not in CHECKS))
    samples = [Sample(h["operation-type"], h["@timestamp"], h["operation"], h["value"], h["meta"]) for h in counted]
    faults += clock_steps(record, read)
    failed: Counter[str] = Counter()
    for hit in sound.ordered(failures, SAMPLE):
        operation, reason = escaped(hit["operation"]), hit["meta"].get("error-description")
        if reason and operation not in failed:
            faults.append(f"{operation} failed first with: {shown(reason)}")
        failed[operation] += 1
    looks = {operation.type for operation in record.operations if operation.runner is Monitor}
    schedule = stretches(r for r in sound.ordered(requests, REQUEST) if r.get("operation-type") not in looks)
    if document.get("results"):
        faults += gaps(record, known["parameters"], samples)
    race = Race(document, samples, dict(failed), **known, schedule=schedule, faults=faults + sound.sentences())
    if not samples and not failed:
        none = "has no samples of this track"
        if not document.get("results"):
            raise IncompleteError(f"race [{race.id}] is INCOMPLETE: it was not finished and {none}")
        raise NothingToReportError(f"race [{race.id}] {none}: it ran no task that is reported")
    return race


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
    """Joins requests, documents ``processing_time`` of the metrics store, to stretches of one task."""
    found: list[Stretch] = []
    for request in sorted(requests, key=lambda r: r["@timestamp"]):
        start, warmup = request["@timestamp"], request["sample-type"] == "warmup"
        one = Stretch(escaped(request["task"]), warmup, start, start + request["value"])
        last = found[-1] if found else one
        if found and (last.task, last.warmup) == (one.task, one.warmup):
            found[-1] = replace(last, end=max(last.end, one.end), requests=last.requests + 1)
        else:
            found.append(one)
    return found
