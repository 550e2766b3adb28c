"""How the query challenges ask the production question, as data: its parts, and other ways to answer it."""

from dataclasses import dataclass, field, replace
from typing import Any

from ..core.change import KINDS, Change
from ..wire.questions import HDR, PRODUCTION, TRANSPORTS, VISIT, Configuration
from .cache import SETTING

_NO_NEGATIVE = "no negative values"


def _reference(took: float, serial: float, msearch: float) -> dict[str, float]:
    """Of the reference: ``took`` (table 4.2, averages of 15 samples on 8 cores) and wall times (table 4.3), in ms."""
    return {"took_ms": took, "serial_ms": serial, "msearch_ms": msearch}


VARIANTS = {
    variant.name: variant
    for variant in (
        Configuration("A", "none (filter only)", None, (), reference=_reference(19, 135, 13)),
        Configuration("B", "3 sums", None, reference=_reference(192, 310, 33)),
        Configuration("C_td", "3 percentiles, t-digest", {}, (), reference=_reference(1070, 1193, 138)),
        Configuration("C_hdr", "3 percentiles, HDR", HDR, (), reference=_reference(597, 730, 86)),
        replace(PRODUCTION, reference=_reference(1199, 1323, 150)),
        Configuration(
            "D_hdr", "3 sums, 3 percentiles HDR", HDR, price=_NO_NEGATIVE, reference=_reference(712, 845, 101)
        ),
    )
}
"""What the production query consists of: which aggregations stand on top of its filter on node and epoch."""

PARTS = {
    part.name: part.by("serial")
    for part in (
        Configuration("start", "none, not even hits counted", None, (), more={"track_total_hits": False}),
        Configuration("visit", "none, but every document is visited", None, (), more=VISIT),
        Configuration("sum-cpu", "1 sum", None, ("cpu",)),
        Configuration("sum-cpu-mem", "2 sums", None, ("cpu", "mem")),
        *(Configuration(f"pct-{f}", f"percentiles of {f}", summed=(), ranked=(f,)) for f in ("cpu", "mem", "net")),
        Configuration("pct-cpu-mem", "percentiles of 2 fields", summed=(), ranked=("cpu", "mem")),
        Configuration("sum-cpu-pct-cpu", "1 sum, percentiles of the same field", summed=("cpu",), ranked=("cpu",)),
        Configuration("sum-cpu-pct-mem", "1 sum, percentiles of another field", summed=("cpu",), ranked=("mem",)),
        Configuration(
            "sum-cpu-mem-pct-cpu-mem",
            "2 sums, percentiles of the same fields",
            summed=("cpu", "mem"),
            ranked=("cpu", "mem"),
        ),
    )
}
"""Less of the production query than its variants have: what attribution is fitted on, beside B and C_td."""
FITTED = (*PARTS.values(), VARIANTS["B"].by("serial"), VARIANTS["C_td"].by("serial"))
"""The cells of the fit; the production query is held out."""


def cells(variants: list[str], transports: list[str], parallel: int = 0) -> list[Configuration]:
    """Variants by transports, as query-decomp asks them.

    :param parallel: searches of an msearch that Elasticsearch runs at a time; 0 leaves it to Elasticsearch.
    """
    return [VARIANTS[v].by(t, parallel if t == "msearch" else 0) for v in variants for t in transports]


@dataclass(frozen=True)
class Layout:
    """Another index with the same documents.

    :param settings: of the index.
    :param merged: whether it is force-merged like the production index.
    :param primed: whether each filter is asked before a coverage counts, as often as it takes to be cached.
    :param kind: what a user changes who has it, see :data:`..core.change.KINDS`.
    :param mode: its index mode, for which rows must have timestamps; empty for that of the production index.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    merged: bool = True
    primed: bool = False
    kind: str = "index"
    mode: str = ""


LAYOUTS = {
    "unmerged": Layout(merged=False),
    "shards-2": Layout({"index.number_of_shards": 2}),
    "shards-4": Layout({"index.number_of_shards": 4}),
    "sorted": Layout({"index.sort.field": ["epoch", "node"]}),
    "rollup": Layout(),
    "cached": Layout({SETTING: True}, primed=True, kind="settings"),
    "time-series": Layout(mode="time_series"),
    "logsdb": Layout(mode="logsdb"),
}
BASE = "production"
CACHED = {BASE: "cached", "msearch": "msearch+cached"}
"""Configurations that are asked with the query cache off, and the same with it on and filled."""
_REINDEX = "another index layout"
_SAMPLED = "sampled answers"
_SLOWER = "slower indexing"
_SMILE = "a client that speaks SMILE"
_OVERWRITTEN = "one document for a node, a task and a time"
_CACHED = "memory for filters, which repeat"


def _hdr(digits: int) -> dict[str, Any]:
    return {"hdr": {"number_of_significant_value_digits": digits}}


def _tdigest(**options: Any) -> dict[str, Any]:
    return {"tdigest": options}


CONFIGURATIONS = {
    c.name: c
    for c in (
        Configuration(BASE, "D_td-serial as it is"),
        Configuration("compression-200", "t-digest compression 200", _tdigest(compression=200)),
        Configuration("compression-1000", "t-digest compression 1000", _tdigest(compression=1000)),
        Configuration(
            "high-accuracy", "t-digest execution_hint high_accuracy", _tdigest(execution_hint="high_accuracy")
        ),
        *(Configuration(f"hdr-{n}", f"HDR, {n} digits", _hdr(n), price=_NO_NEGATIVE) for n in range(1, 6)),
        *(
            Configuration(f"sampler-{p}", f"random_sampler {p}", probability=p, price=_SAMPLED)
            for p in (0.5, 0.1, 0.01)
        ),
        Configuration("terms", "one search, terms on node", form="terms"),
        Configuration("filters", "one search, filters by node", form="filters"),
        Configuration("esql", "one ES|QL query, STATS BY node", form="esql", price="another query language"),
        *(
            Configuration(f"concurrent-{k}", f"single searches on {k} connections", form="concurrent", parallel=k)
            for k in (2, 4, 8)
        ),
        Configuration("msearch", "msearch", form="msearch"),
        *(Configuration(f"msearch-{k}", f"msearch, {k} at a time", form="msearch", parallel=k) for k in (1, 2, 4)),
        Configuration("unmerged", "segments as the load left them", layout="unmerged", price="none; no force-merge"),
        Configuration("shards-2", "2 shards", layout="shards-2", price=_REINDEX),
        Configuration("shards-4", "4 shards", layout="shards-4", price=_REINDEX),
        Configuration("sorted", "index sorted by epoch and node", layout="sorted", price=_SLOWER),
        Configuration(
            "rollup", "rollup written at ingest", form="rollup", layout="rollup", price="client-side percentiles"
        ),
        Configuration("cached", "query cache on, filters in it", layout="cached", price=_CACHED),
        Configuration(
            "msearch+cached", "msearch, query cache on, filters in it", form="msearch", layout="cached", price=_CACHED
        ),
        *(
            Configuration(f"{way}{mode}", f"{text}index mode {LAYOUTS[mode].mode}", form=form, layout=mode, price=price)
            for mode, price in (("time-series", _OVERWRITTEN), ("logsdb", _SLOWER))
            for way, text, form in (("", "", "serial"), ("msearch+", "msearch, ", "msearch"))
        ),
        Configuration("smile-request", "requests in SMILE", smile="request", price=_SMILE),
        Configuration("smile", "requests and responses in SMILE", smile="both", price=_SMILE),
        Configuration(
            "msearch+smile-request", "msearch, request in SMILE", form="msearch", smile="request", price=_SMILE
        ),
        Configuration(
            "msearch+smile", "msearch, request and response in SMILE", form="msearch", smile="both", price=_SMILE
        ),
        Configuration("msearch+hdr-3", "msearch, HDR 3 digits", _hdr(3), form="msearch", price=_NO_NEGATIVE),
        Configuration("msearch+hdr-2", "msearch, HDR 2 digits", _hdr(2), form="msearch", price=_NO_NEGATIVE),
        Configuration("msearch+sorted", "msearch, sorted index", form="msearch", layout="sorted", price=_SLOWER),
        Configuration(
            "msearch+sorted+hdr-3",
            "msearch, sorted index, HDR 3 digits",
            _hdr(3),
            form="msearch",
            layout="sorted",
            price=f"{_SLOWER}, {_NO_NEGATIVE}",
        ),
        Configuration(
            "msearch+sampler-0.1", "msearch, random_sampler 0.1", probability=0.1, form="msearch", price=_SAMPLED
        ),
        Configuration(
            "msearch+sorted+sampler-0.1",
            "msearch, sorted index, random_sampler 0.1",
            probability=0.1,
            form="msearch",
            layout="sorted",
            price=f"{_SAMPLED}, {_SLOWER}",
        ),
    )
}
"""The ways of query-frontier: the production query with one thing changed, and some combinations."""
TIMED = tuple(c.name for c in CONFIGURATIONS.values() if c.layout and LAYOUTS[c.layout].mode)
"""Those whose rows must have timestamps."""


def _profiled() -> dict[str, Configuration]:
    """The cells of query-decomp, production with the query cache on, and a planted difference."""
    found = cells(list(VARIANTS), list(TRANSPORTS))
    for transport in TRANSPORTS:
        cell = PRODUCTION.by(transport)
        found.append(replace(cell, name=f"{cell.name}+cached", layout="cached"))
    hint = {"execution_hint": "high_accuracy"}
    found.append(replace(PRODUCTION.by("serial"), name="D_td-serial+high-accuracy", percentiles=_tdigest(**hint)))
    return {c.name: c for c in found}


PROFILED = _profiled()
"""What cpu-profile asks."""


def change_of(configuration: Configuration, text: str = "") -> Change:
    """What a configuration changes of the production query.

    :param text: in words, where not those of the configuration.
    """
    of = configuration
    changed = {
        "client": of.form in ("msearch", "concurrent"),
        "query": of.form in ("terms", "filters", "esql", "rollup")
        or (of.percentiles, of.probability) != (PRODUCTION.percentiles, PRODUCTION.probability),
        "format": bool(of.smile),
        LAYOUTS[of.layout].kind if of.layout else "": True,
    }
    return Change(text or of.text, tuple(kind for kind in KINDS if changed.get(kind)), "query", of.price)
