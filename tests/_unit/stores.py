"""A metrics store in memory, and what test-mode races of the challenges left in a real one."""

import gzip
import json
from pathlib import Path
from unittest import mock

from _tools.race.variables import Exit
from _tools.report import write
from _tools.report.race import ReportError
from cluster_metrics.core.challenge import SCHEMA
from cluster_metrics.core.index import CHECKS

RECORDED = Path(__file__).with_name("recorded")


def recorded(challenge):
    """The document of a race and its samples, as a race in test mode on the embedded node wrote them; of ``meta`` less
    what Rally adds of the target, and without warm-up."""
    found = json.loads(gzip.decompress((RECORDED / f"{challenge}.json.gz").read_bytes()))
    return found["race"], found["documents"]


def documents_of(race):
    """The document and the samples that a race which was made up would have left."""
    check = {"success": True, "schema": SCHEMA, "local": race.local}
    check |= {key: json.dumps(getattr(race, key)) for key in ("parameters", "target", "machine")}
    kind = next(kind for kind in CHECKS if kind in race.record.samples)
    samples = [(kind, 0, kind, 1.0, check)]
    samples += [(s.kind, s.at, s.cell, s.value, s.meta | {"success": True}) for s in race.samples]
    waits = [(s.kind, s.at, s.cell, s.value, s.meta | {"success": True}) for s in race.latencies]
    keys = ("operation-type", "@timestamp", "operation", "value", "meta")
    document = {"race-timestamp": "20260101T000000Z"} | race.document
    return document, [
        {"name": name, "sample-type": "normal"} | dict(zip(keys, sample))
        for name, of in (("service_time", samples), ("latency", waits))
        for sample in of
    ]


class Store:
    """As much of a metrics store as reports ask: filters by terms, newest races first, all hits on one page."""

    def __init__(self, *races):
        self.races = [race for race, _ in races]
        keys = ("race-id", "race-timestamp")
        self.samples = [{k: race.get(k) for k in keys} | d for race, documents in races for d in documents]
        self.indices = self

    def refresh(self, **_):
        pass

    def options(self, **_):
        return self

    def search(self, *, index, query, sort=None, size=None, docvalue_fields=(), slice=None, aggs=None, **_):
        hits = [d for d in (self.races if "races" in index else self.samples) if _matches(d, query)]
        if aggs:
            buckets = [*_buckets(hits, aggs["tasks"])]
            return {"hits": {"total": {"value": len(hits)}}, "aggregations": {"tasks": {"buckets": buckets}}}
        if slice:
            hits = [d for d in hits if hash(str(d.get("@timestamp"))) % slice["max"] == slice["id"]]
        if "races" in index:
            newest_first = sort[0]["race-timestamp"]["order"] == "desc"
            hits = sorted(hits, key=lambda d: str(d.get("race-timestamp")), reverse=newest_first)[:size]
        return _page([_of_columns(hit, docvalue_fields) for hit in hits] if docvalue_fields else hits)

    def scroll(self, **_):
        return _page([])

    def clear_scroll(self, **_):
        pass


def _page(hits):
    shards = {"successful": 1, "total": 1, "skipped": 0}
    found = [hit if "fields" in hit else {"_source": hit} for hit in hits]
    return {"_scroll_id": "next", "_shards": shards, "hits": {"hits": found}}


NUMBERS = {"min": min, "max": max, "value_count": len}


def _buckets(documents, asked):
    """Of a composite aggregation over keys that a document must have."""
    keys, groups = [key for source in asked["composite"]["sources"] for key in source], {}
    for document in documents:
        if all(document.get(key) is not None for key in keys):
            groups.setdefault(tuple(document[key] for key in keys), []).append(document)
    for values, of in groups.items():
        figures = {}
        for name, figure in asked["aggs"].items():
            [(kind, field)] = figure.items()
            known = [d[field["field"]] for d in of if isinstance(d.get(field["field"]), (int, float))]
            figures[name] = {"value": NUMBERS[kind](known) if known or kind == "value_count" else None}
        yield {"key": dict(zip(keys, values)), "doc_count": len(of)} | figures


def _of_columns(document, columns):
    """Doc values, of times as text."""
    of = {c["field"]: (str if "format" in c else lambda v: v) for c in columns}
    return {"fields": {name: [form(document[name])] for name, form in of.items() if document.get(name) is not None}}


def _matches(document, query):
    [(kind, of)] = query.items()
    if kind == "match_all":
        return True
    if kind == "bool":
        without = (_matches(document, part) for part in of.get("must_not", ()))
        return all(_matches(document, part) for part in of.get("filter", ())) and not any(without)
    [(key, wanted)] = of.items()
    found = _value(document, key)
    if kind == "range":
        return found >= wanted["gte"]
    return found in wanted if kind == "terms" else found == wanted


def _value(document, key):
    """The value of a key, which may be a path."""
    if not isinstance(document, dict):
        return None
    head, _, rest = key.partition(".")
    return document[key] if key in document else _value(document.get(head), rest) if rest else None


def written(store, write_it):
    """What a function of :mod:`_tools.report.write` returns with this metrics store; None where one line refuses it."""
    with mock.patch.object(write, "connect", lambda ini: store):
        try:
            return write_it(Path("rally.ini"))
        except ReportError as e:
            assert str(e).isprintable() and len(str(e)) < 1000
            return None


def reported(race, documents, folder):
    """The problems of a race that its report names first; None where one line refuses it."""
    code = written(Store((race, documents)), lambda ini: write.write_report(ini, "last", folder))
    if code is None:
        return None
    [report] = folder.glob("*/report.json")
    text, problems = report.with_name("report.md").read_text(), json.loads(report.read_text())["problems"]
    assert code == (Exit.INCOMPLETE if problems else Exit.DONE)
    assert text.startswith("# INCOMPLETE: ") == bool(problems)
    assert all(f"- **{problem}**" in text for problem in problems)
    return problems
