"""Reads races back from the Elasticsearch metrics store that Rally wrote them to."""

import configparser
import contextlib
import gc
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any

import elasticsearch
import orjson
from elasticsearch import helpers
from elasticsearch.serializer import JsonSerializer

from cluster_metrics.core.index import CHECKS

from ..race.variables import RACE_ID, shown
from .noise import moment
from .race import Race, ReportError, check_in, looks_of, race_of, revised
from .sound import SAMPLE, Sound, printable, read_check

AT_ONCE = 2500
"""Documents of one response of the store."""
SLICES = 2
"""In which documents are read at the same time: the store works on one while the other is decoded."""
METRICS = "rally-metrics-*"
REQUEST = ["task", "operation-type", "sample-type", "@timestamp", "value"]
"""What is read of all requests of a race."""
MANY = 10_000
"""Requests of a task from which on they are not read one by one, where that tells no more."""
MOST_TASKS = 10_000
"""Tasks that the store sums up; of more, requests are read one by one."""
MOST_RACES = 1000
"""Most races that a tag stands for; of more, the newest are taken."""


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

    :raises ReportError: see :func:`reporting_of`; also when its host is none.
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
    try:
        return elasticsearch.Elasticsearch(url, request_timeout=60, serializer=_Json(), **options)
    except ValueError:
        host = shown(reporting["datastore.host"])
        raise ReportError(
            f"[{ini}]: datastore.host is [{host}], allowed is the name or address of a host alone"
        ) from None


class _Json(JsonSerializer):
    """Decodes responses of many documents faster than json does."""

    def json_loads(self, data: bytes) -> Any:
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:  # stricter than json
            return super().json_loads(data)


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

    :raises ReportError: when it does not say which race it is, or of when.
    """
    found: dict[str, Any] = printable(document)
    for key in ("race-id", "race-timestamp", "challenge"):
        if not isinstance(found.get(key), str):
            raise ReportError(f"race [{shown(found.get('race-id'))}]: its document in the metrics store has no [{key}]")
    try:
        moment(found["race-timestamp"])
    except ValueError:
        when = shown(found["race-timestamp"])
        raise ReportError(
            f"race [{shown(found['race-id'])}] started at [{when}], which is no time of Rally's"
        ) from None
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
    record = Race(document, [], {}).record
    kinds, waiting = ({"terms": {"operation-type": list(types)}} for types in (record.samples, record.latencies))
    with _asking(), _uncollected():
        return race_of(
            document,
            _scan(store, document, "service_time", _NORMAL, kinds),
            _scan(store, document, "service_time", {"term": {"meta.success": False}}),
            _requests(store, document, looks_of(record)),
            _scan(store, document, "latency", _NORMAL, waiting) if record.latencies else [],
        )


def circumstances(store: elasticsearch.Elasticsearch, document: dict[str, Any]) -> Race:
    """What a race was run with and on, without its samples."""
    with _asking():
        hits = list(_scan(store, document, "service_time", _NORMAL, {"terms": {"operation-type": list(CHECKS)}}))
    faults: list[str] = []
    check = check_in(Sound().ordered(hits, SAMPLE))
    return Race(revised(document, check), [], {}, **read_check(check, faults), faults=faults)


_NORMAL = {"term": {"sample-type": "normal"}}
_PROCESSED = {"term": {"name": "processing_time"}}


def _scan(
    store: elasticsearch.Elasticsearch, document: dict[str, Any], name: str, *filters: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The documents of a metric of a race. They are read as they are: to leave out what all share takes the store twice
    the time, which is more than is saved here."""
    for hit in _hits(store, document, [{"term": {"name": name}}, *filters], {}):
        yield hit["_source"]


def _requests(
    store: elasticsearch.Elasticsearch, document: dict[str, Any], looks: Set[str]
) -> Iterator[dict[str, Any]]:
    """The requests of a race by ``processing_time``, those of :func:`_alone` as one. Their doc values are read, which
    takes the store a quarter of the time that their source does."""
    columns = [{"field": name} | ({"format": "epoch_millis"} if name == "@timestamp" else {}) for name in REQUEST]
    what = {"docvalue_fields": columns, "_source": False, "stored_fields": "_none_"}

    def those(*filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for hit in _hits(store, document, [_PROCESSED, *filters], what):
            request = {name: values[0] for name, values in hit["fields"].items()}
            if (at := request.get("@timestamp", "")).isdecimal():  # else it is left out
                request["@timestamp"] = int(at)
            yield request

    alone = _alone(store, document, looks)
    for task, spans in alone.items():
        for one in spans:
            first, last, longest = (one[key]["value"] for key in ("first", "last", "longest"))
            may_end_last = {"range": {"@timestamp": {"gte": int(last - longest), "format": "epoch_millis"}}}
            kind = {"term": {"sample-type": one["key"]["sample-type"]}}
            end = max(r["@timestamp"] + r["value"] for r in those({"term": {"task": task}}, kind, may_end_last))
            yield one["key"] | {"@timestamp": int(first), "value": end - first, "requests": one["doc_count"]}
    yield from those(*([{"bool": {"must_not": [{"terms": {"task": list(alone)}}]}}] if alone else ()))


def _alone(
    store: elasticsearch.Elasticsearch, document: dict[str, Any], looks: Set[str]
) -> dict[str, list[dict[str, Any]]]:
    """The tasks of many requests beside which no other task ran, by name: of warm-up and of what counts a bucket of the
    store each, with first, last and longest. When they ran can be told without reading each request.

    :param looks: types of operations that only look on, beside any task.
    :return: nothing where documents lack something, which shows when they are read.
    """
    figures = {"first": ("min", "@timestamp"), "last": ("max", "@timestamp"), "longest": ("max", "value")}
    figures |= {"timed": ("value_count", "value"), "dated": ("value_count", "@timestamp")}
    sources = [{key: {"terms": {"field": key}}} for key in ("task", "operation-type", "sample-type")]
    found = store.search(
        index=METRICS,
        query={"bool": {"filter": [*_own(document), _PROCESSED]}},
        size=0,
        track_total_hits=True,
        aggs={
            "tasks": {
                "composite": {"size": MOST_TASKS, "sources": sources},
                "aggs": {key: {kind: {"field": field}} for key, (kind, field) in figures.items()},
            }
        },
    )
    buckets = found["aggregations"]["tasks"]["buckets"]
    counts = [sum(of) for of in zip(*((b["doc_count"], b["timed"]["value"], b["dated"]["value"]) for b in buckets))]
    if {*counts} != {found["hits"]["total"]["value"]}:
        return {}
    busy = sorted((b for b in buckets if b["key"]["operation-type"] not in looks), key=lambda b: b["first"]["value"])
    tasks: dict[str, list[dict[str, Any]]] = {}
    met: set[str] = set()
    for number, one in enumerate(busy):
        tasks.setdefault(one["key"]["task"], []).append(one)
        for other in busy[number + 1 :]:
            if other["first"]["value"] > one["last"]["value"]:
                break
            met |= {one["key"]["task"], other["key"]["task"]}
    return {task: of for task, of in tasks.items() if task not in met and sum(b["doc_count"] for b in of) >= MANY}


def _own(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Filters for what belongs to a race, and not to an earlier one of the same id."""
    return [{"term": {key: document[key]}} for key in ("race-id", "race-timestamp")]


def _hits(
    store: elasticsearch.Elasticsearch, document: dict[str, Any], filters: list[dict[str, Any]], what: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    query = {"query": {"bool": {"filter": [*_own(document), *filters]}}} | what
    slices = ({"slice": {"field": "@timestamp", "id": number, "max": SLICES}} for number in range(SLICES))
    return _ahead([helpers.scan(store, index=METRICS, query=query | part, size=AT_ONCE) for part in slices], AT_ONCE)


def _ahead(several: Sequence[Iterator[dict[str, Any]]], number: int) -> Iterator[dict[str, Any]]:
    """All of several, in turn so many of each, which are asked for while those before are worked on."""

    def asked(hits: Iterator[dict[str, Any]]) -> tuple[Iterator[dict[str, Any]], Future[list[dict[str, Any]]]]:
        return hits, pool.submit(lambda: list(islice(hits, number)))

    with ThreadPoolExecutor(len(several)) as pool:
        waiting = deque(map(asked, several))
        while waiting:
            hits, coming = waiting.popleft()
            if page := coming.result():
                waiting.append(asked(hits))
                yield from page


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Lets no garbage be looked for, which takes longer the more samples there are, and none of them is in a circle."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor later on
        gc.enable()
