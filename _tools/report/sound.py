"""Which documents of a race can be relied on: the others are left out and named, as is what is missing altogether."""

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any

import numpy as np

from cluster_metrics.core import challenge as records
from cluster_metrics.core.challenge import Challenge
from cluster_metrics.core.index import CHECKS

from ..race.variables import escaped, shown
from .sample import Meta, Sample, plain

Document = dict[str, Any]
REQUEST = {"task": str, "sample-type": str, "@timestamp": float, "value": float}
SAMPLE = {"operation": str, "operation-type": str, "@timestamp": float, "value": float, "meta": dict}
NODE = {"node": str, "version": str, "jvm": str, "cores": float, "heap_mb": float}
UNITS = ("round", "pass")
ERRORS = "error-count"
"""Rally's own metadata that reports need."""
GREATEST = 1e300
"""Number that can be calculated with."""
PLAIN = (int, float, bool, type(None))
NUMBERS = frozenset((int, float))
LATEST_MS = 2.5e14
"""Greatest time in ms since the epoch that can be written as a date."""
STEP_MS = 2000
"""Greatest change of the difference of two clocks, between samples, that is not taken for a step of one of them."""
AT_ONCE = 250
"""Documents that are looked at together."""
SHOWN = 6
"""Most configurations that a sentence names."""


def is_number(value: Any) -> bool:
    """Whether a value is a number that can be calculated with."""
    return (isinstance(value, float) or type(value) is int) and -GREATEST < value < GREATEST


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def printable(value: Any) -> Any:
    """What a store holds with all its texts escaped: none of them forges a line of a report."""
    if isinstance(value, dict):
        for key, v in value.items():
            if not (key.isprintable() and (type(v) in PLAIN or type(v) is str and v.isprintable())):
                break
        else:
            return value
        return {escaped(k): printable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [printable(v) for v in value]
    return escaped(value) if isinstance(value, str) else value


def odd_key(document: Any, keys: Mapping[str, type]) -> str:
    """The first key of a document that is missing or of another type, empty if there is none; float is any number."""
    if not isinstance(document, dict):
        return "document"
    for key, kind in keys.items():
        value = document.get(key)
        if not (is_number(value) if kind is float else isinstance(value, kind)):
            return key
    return ""


def odd_figure(keys: Iterable[records.Key], meta: Mapping[str, Any]) -> str:
    """The first of some keys that is missing in a sample's metadata or not what the record says; empty if there is
    none."""
    for key in keys:
        value = meta.get(key.name)
        if value is None and key.optional:
            continue
        if key.name in UNITS:
            sound = isinstance(value, int)
        else:
            sound = is_number(value) or not key.unit and (isinstance(value, (str, bool)) or _is_names(value))
        if not sound:
            return key.name
    return ""


Alike = tuple[dict[str, int], list[Sample]]
"""Places of metadata, and the samples that have them."""


def _alike(kind: records.Sample, meta: Document) -> Alike:
    """For those whose documents have the same metadata as one of a kind."""
    names = [name for name in (*(key.name for key in kind.keys), ERRORS) if name in meta]
    return {name: place for place, name in enumerate(names)}, []


def _numbers(column: Sequence[Any], kinds: Set[type] = NUMBERS) -> bool:
    """Whether all of a column are numbers of these kinds that can be calculated with."""
    return {*map(type, column)} <= kinds and all(map(GREATEST.__gt__, map(abs, column)))


def all_have(keys: Mapping[str, type], documents: Sequence[Any]) -> bool:
    """Whether none of some documents is odd: told of whole columns, which takes half the time of :func:`odd_key`. It
    may say no of those that are none the less."""
    try:
        for key, kind in keys.items():
            column = [document[key] for document in documents]
            if not (_numbers(column) if kind is float else {*map(type, column)} == {kind}):
                return False
        return all(0 <= document["@timestamp"] < LATEST_MS for document in documents)
    except (LookupError, TypeError):
        return False


def all_numbers(keys: Iterable[records.Key], places: Mapping[str, int], samples: Iterable[Sample]) -> bool:
    """Whether all figures are numbers, of samples whose metadata have the same places: told of whole columns, which
    takes a third of the time of :func:`odd_figure`."""
    for key in keys:
        if key.name in places:
            column = Meta.column((sample.meta for sample in samples), places[key.name])
            if not _numbers(column, {int} if key.name in UNITS else NUMBERS):
                return False
        elif not key.optional:
            return False
    return True


class Sound:
    """Sorts documents out.

    :param left_out: how many were left out, by what is odd about them.
    :param older: a sentence for each kind of samples whose keys are those of an older version of this track.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.older: list[str] = []

    def those(self, documents: Iterable[Document], keys: Mapping[str, type]) -> Iterator[Document]:
        """Those that have these keys."""
        documents = iter(documents)
        while part := [*islice(documents, AT_ONCE)]:
            yield from part if all_have(keys, part) else self._sound(part, keys)

    def _sound(self, documents: Iterable[Document], keys: Mapping[str, type]) -> Iterator[Document]:
        for document in documents:
            key = odd_key(document, keys) or ("" if 0 <= document["@timestamp"] < LATEST_MS else "@timestamp")
            if key:
                self.left_out[f"documents have no sound [{key}]"] += 1
            else:
                yield document

    def ordered(self, documents: Iterable[Document], keys: Mapping[str, type]) -> list[Document]:
        """The same, in order of time."""
        return sorted(self.those(documents, keys), key=lambda d: d["@timestamp"])

    def samples(self, record: Challenge, documents: Iterable[Document]) -> list[Sample]:
        """The samples that count, in order of time: those that succeeded, and of those that failed in part what they
        did. Of a document no more than that is kept."""
        by_kind: dict[str, dict[tuple[str, ...], Alike]] = defaultdict(dict)
        kinds, cells = record.samples, dict[str, str]()
        for document in documents:
            kind, meta = kinds.get(document["operation-type"]), document["meta"]
            if not kind:
                self.left_out["documents have no sound [operation-type]"] += 1
            elif meta.get("success") is True or kind.partly in meta:
                cell = document["operation"]
                cell = cells.get(cell) or cells.setdefault(cell, escaped(cell))
                of, shape = by_kind[kind.type], tuple(meta)
                places, alike = of.get(shape) or of.setdefault(shape, _alike(kind, meta))
                values = Meta(places, tuple(map(meta.__getitem__, places)))
                alike.append(Sample(kind.type, document["@timestamp"], cell, document["value"], values))
        found = [sample for kind, of in by_kind.items() for sample in self._of_kind(record, kind, of)]
        found.sort(key=lambda sample: sample.at)
        return found

    def _of_kind(self, record: Challenge, name: str, by_shape: Mapping[tuple[str, ...], Alike]) -> Iterator[Sample]:
        kind, judged = record.samples[name], record.compared.figures[0]
        wanted = [key.name for key in kind.keys if not key.optional and key.name not in (*UNITS, judged)]
        lacking = [name for name in wanted if not any(name in shape for shape in by_shape)]
        if lacking:
            self.older.append(f"No sample {name} has [{listed(lacking)}]: an older version of this track wrote them.")
        keys = [key for key in kind.keys if key.name not in lacking]
        for places, samples in by_shape.values():
            sound = all_numbers((*keys, records.Key(ERRORS, "", "", optional=True)), places, samples)
            for sample in samples:
                if not sound:
                    sample.meta = Meta(places, tuple(map(printable, plain(sample.meta).values())))
                if not sound and (key := odd_figure(keys, sample.meta)):
                    self.left_out[f"samples {name} have no sound [{key}]"] += 1
                elif name == record.compared.sample and sample.meta.get(judged, 1) <= 0:
                    self.left_out[f"samples {name} have no [{judged}] above 0"] += 1
                else:
                    yield sample

    def sentences(self) -> list[str]:
        return [*(f"{number:,} {what} and are left out." for what, number in self.left_out.items()), *self.older]


def read_check(check: Document | None, faults: list[str]) -> Document:
    """The circumstances of a race: ``parameters``, ``target``, ``index``, ``local`` and ``machine``, as far as its
    check has them.

    :param check: metadata of the sample of a check; None where there is none.
    :param faults: takes a sentence for what is missing.
    """
    found: Document = {"parameters": {}, "target": [], "index": {}, "local": None, "machine": {}}
    if check is None:
        faults.append(f"It has no sample of {' or '.join(CHECKS)}, which say what was raced on what.")
        return found
    later = [("machine", dict)] if "machine" in check else []  # races of before have none
    for key, kind in (("parameters", dict), ("target", list), *later):
        try:
            value = printable(json.loads(check[key]))
        except (KeyError, TypeError, ValueError, RecursionError):
            value = None
        if not isinstance(value, kind) or key == "target" and any(map(_odd_node, value)):
            faults.append(f"Its check has no sound [{key}].")
        else:
            found[key] = value
    index = {key: check[key] for key in ("docs", "segments", "store_bytes") if key in check}
    if index and (len(index) < 3 or not all(map(is_number, index.values()))):
        faults.append("Its check has no sound figures of the index.")
    else:
        found["index"] = index
    if isinstance(check.get("local"), bool):
        found["local"] = check["local"]
    return found


def _odd_node(node: Any) -> bool:
    try:
        return bool(odd_key(node, NODE)) or not float(node.get("cpu_cores", 1)) > 0
    except (TypeError, ValueError):
        return True


class Clock:
    """Tells the tasks during which the load driver's clock was set: how long a task has run, Rally tells by another
    clock, so the time at which it began is the same by all its samples. One that differs alone may have waited before
    its first request. Samples that do not say which of the tasks of one name they are of tell nothing.
    """

    def __init__(self, record: Challenge):
        self._walk = {
            sample.type for operation in record.operations if operation.rounds for sample in operation.samples
        }
        self._runs: dict[tuple, tuple[array[float], array[float]]] = {}

    def look(self, document: Document) -> None:
        """At a document ``service_time``; one without ``relative-time`` tells nothing."""
        meta, kind = document["meta"], document["operation-type"]
        walks = kind in self._walk
        units = ("pass",) if walks or "pass" in meta else ("round", "epoch")
        copy = [str(meta[unit]) for unit in units if unit in meta]
        ran: Any = document.get("relative-time")
        if (walks or copy) and is_number(ran):
            run = str(document.get("task")), kind, *copy, str(meta.get("client_id"))
            found = self._runs.get(run) or self._runs.setdefault(run, (array("d"), array("d")))
            found[0].append(ran)
            found[1].append(document["@timestamp"] - ran)

    def steps(self) -> Iterator[str]:
        """A sentence for each of those tasks."""
        found: dict[str, float] = {}
        for (task, *_), (ran, began) in self._runs.items():
            if len(ran) < 4:
                continue
            at = np.asarray(began)[np.lexsort((began, ran))]
            (a, b), (c, d) = (at[:-3], at[1:-2]), (at[2:-1], at[3:])
            forth = np.minimum(c, d) - np.maximum(a, b)
            back = np.minimum(a, b) - np.maximum(c, d)
            found[task] = max(found.get(task, 0.0), float(np.maximum(forth, back).max()))
        for task, step in found.items():
            if step > STEP_MS:
                yield (
                    f"While {shown(task)} ran, the load driver's clock was set by {step / 1000:,.0f} s: what is told "
                    "by it, as rates and the order of samples, is wrong."
                )


def gaps(record: Challenge, parameters: Mapping[str, Any], samples: Iterable[Any]) -> Iterator[str]:
    """Rounds and passes that a finished race should have and lacks, a sentence for each kind of sample.

    A kind of which there is no sample was not asked for: ``--include-tasks`` leaves tasks out.
    """
    found: dict[str, dict[str, set[int]]] = {}
    for sample in samples:
        unit = next((unit for unit in UNITS if unit in sample.meta), "")
        if unit:
            cell = str(sample.meta.get("cell", sample.cell))
            found.setdefault(sample.kind, {}).setdefault(cell, set()).add(sample.meta[unit])
    for operation in record.operations:
        wanted = parameters.get(operation.rounds or "passes")
        for kind in operation.samples:
            unit = next((u for u in UNITS if u in {key.name for key in kind.keys}), "")
            cells = found.get(kind.type, {})
            if not unit or not cells:
                continue
            every = {number for of in cells.values() for number in of}
            if unit == "pass" or operation.rounds and not parameters.get("race_minutes"):  # which may cut rounds
                every |= set(range(1, wanted + 1 if isinstance(wanted, int) else 1))
            short = {cell: sorted(every - of) for cell, of in cells.items() if not every <= of}
            if short:
                numbers = sorted({number for of in short.values() for number in of})
                yield f"Samples {kind.type} of {listed(short)} lack {unit} {listed(numbers)}."


def listed(names: Iterable[object]) -> str:
    """The first of some names, and how many more there are."""
    found = [shown(name) for name in names]
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
