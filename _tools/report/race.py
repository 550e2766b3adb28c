"""Reads a race back from the Elasticsearch metrics store that Rally wrote it to."""

import configparser
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

import elasticsearch
from elasticsearch import helpers

from cluster_metrics.core.challenge import SCHEMA, Challenge, challenges
from cluster_metrics.core.index import CHECKS

MOST_RACES = 1000
"""Most races that a tag stands for; of more, the newest are taken."""


class ReportError(Exception):
    """A report that cannot be written; the message is for the person at the terminal."""


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
    :param failed: samples that failed, by operation.
    :param parameters: the track parameters as resolved.
    :param target: version, JVM, cores and heap of each node of the target.
    :param index: documents, segments and store size of the index.
    :param local: whether load driver and target ran on one machine; None when that is not recorded.
    :param schedule: when requests of each task, whichever, were under way, in order of time.
    """

    document: dict[str, Any]
    samples: list[Sample]
    failed: dict[str, int]
    parameters: dict[str, Any] = field(default_factory=dict)
    target: list[dict[str, Any]] = field(default_factory=list)
    index: dict[str, Any] = field(default_factory=dict)
    local: bool | None = None
    schedule: list[Stretch] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.document["race-id"]

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


def reporting_of(ini: Path) -> dict[str, str]:
    """What a ``rally.ini`` says of its metrics store: its section ``reporting``, as Rally reads it.

    :raises ReportError: when the file names no Elasticsearch metrics store.
    """
    try:
        text = Path(ini).read_text()
    except OSError as e:
        raise ReportError(f"cannot read [{ini}]: {e.strerror}") from None
    config = configparser.ConfigParser()
    config.read_string(Template(text).substitute(CONFIG_DIR=ini.parent))  # as Rally reads it
    reporting = dict(config["reporting"]) if config.has_section("reporting") else {}
    if reporting.get("datastore.type") != "elasticsearch":
        raise ReportError(f"[{ini}] names no metrics store; set datastore.type = elasticsearch as in rally.ini.example")
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


def _find(store: elasticsearch.Elasticsearch, race: str, most: int) -> list[dict[str, Any]]:
    """The documents of races, the newest first."""
    sort = [{"race-timestamp": {"order": "desc", "unmapped_type": "date"}}]
    with _asking():
        store.indices.refresh(index="rally-*", allow_no_indices=True)
        found = store.search(index="rally-races-*", query=_query(race), sort=sort, size=most, allow_no_indices=True)
    hits = found["hits"]["hits"]
    if not hits:
        raise ReportError("the metrics store holds no race" if race == "last" else f"no race [{race}] in the store")
    return [hit["_source"] for hit in hits]


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Puts the errors of a metrics store into words."""
    try:
        yield
    except elasticsearch.ApiError as e:
        raise ReportError(f"the metrics store answers with an error: {e.message}") from None
    except elasticsearch.TransportError as e:
        raise ReportError(f"the metrics store is out of reach: {str(e).splitlines()[0]}") from None


def load(store: elasticsearch.Elasticsearch, race: str) -> Race:
    """Reads a race.

    :param race: its id, ``last``, or a tag ``key:value`` for the newest race that carries it.
    :raises ReportError: when it is not there, or has no samples of this track.
    """
    return _read(store, _find(store, race, 1)[0])


def load_all(store: elasticsearch.Elasticsearch, name: str, challenge: str = "") -> list[Race]:
    """Reads the races of a name, the oldest first.

    :param name: an id or ``last`` for one race, or a tag ``key:value`` for all finished races that carry it.
    :param challenge: leaves out tagged races of other challenges.
    :raises ReportError: when there is none, or races of several challenges carry the tag.
    """
    if ":" not in name:
        return [load(store, name)]
    found = [d for d in _find(store, name, MOST_RACES) if d.get("results") and challenge in ("", d["challenge"])]
    if not found:
        raise ReportError(f"no race [{name}]{f' of challenge [{challenge}]' if challenge else ''} was finished")
    if len(challenges := sorted({d["challenge"] for d in found})) > 1:
        raise ReportError(f"races [{name}] are of challenges {', '.join(challenges)}; say which by CHALLENGE")
    return [_read(store, document) for document in reversed(found)]


def _read(store: elasticsearch.Elasticsearch, document: dict[str, Any]) -> Race:
    """Reads the samples of a race, and none of an earlier one that was given the same id."""
    own = [{"term": {key: document[key]}} for key in ("race-id", "race-timestamp")]
    kinds = Race(document, [], {}).record.samples
    with _asking():
        filters = [
            *own,
            {"term": {"name": "service_time"}},
            {"term": {"sample-type": "normal"}},
            {"terms": {"operation-type": list(kinds)}},
        ]
        query = {"query": {"bool": {"filter": filters}}}
        hits = [h["_source"] for h in helpers.scan(store, index="rally-metrics-*", query=query)]
        query = {"query": {"bool": {"filter": [*own, {"term": {"name": "processing_time"}}]}}}
        keys = ["task", "sample-type", "@timestamp", "value"]
        requests = [h["_source"] for h in helpers.scan(store, index="rally-metrics-*", query=query, _source=keys)]
    if not hits:
        raise ReportError(f"race [{document['race-id']}] has no samples of this track, or was not finished")
    check: dict[str, Any] = next((hit["meta"] for hit in hits if hit["operation-type"] in CHECKS), {})
    if (schema := check.get("schema", SCHEMA)) > SCHEMA:
        raise ReportError(
            f"race [{document['race-id']}] has samples of version {schema}, this track reads up to {SCHEMA}; report it "
            "with the version of the track that raced it"
        )
    samples: list[Sample] = []
    failed: dict[str, int] = {}
    for hit in sorted(hits, key=lambda h: h["@timestamp"]):
        kind, cell = hit["operation-type"], hit["operation"]
        if kind in CHECKS:
            continue
        if not hit["meta"]["success"]:
            failed[cell] = failed.get(cell, 0) + 1
        if hit["meta"]["success"] or kinds[kind].partly and "success-count" in hit["meta"]:
            samples.append(Sample(kind, hit["@timestamp"], cell, hit["value"], hit["meta"]))
    return Race(
        document,
        samples,
        failed,
        json.loads(check.get("parameters", "{}")),
        json.loads(check.get("target", "[]")),
        {k: check[k] for k in ("docs", "segments", "store_bytes") if k in check},
        check.get("local"),
        stretches(requests),
    )


def stretches(requests: Iterable[dict[str, Any]]) -> list[Stretch]:
    """Joins requests, documents ``processing_time`` of the metrics store, to stretches of one task."""
    found: list[Stretch] = []
    for request in sorted(requests, key=lambda r: r["@timestamp"]):
        start, warmup = request["@timestamp"], request["sample-type"] == "warmup"
        one = Stretch(request["task"], warmup, start, start + request["value"])
        last = found[-1] if found else one
        if found and (last.task, last.warmup) == (one.task, one.warmup):
            found[-1] = replace(last, end=max(last.end, one.end), requests=last.requests + 1)
        else:
            found.append(one)
    return found
