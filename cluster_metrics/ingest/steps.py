"""The steps from a naive ingesting client to the best one, and to less work for the target, as data."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.change import Change
from ..corpus.metrics import FIELDS
from ..wire.bulk import FILTER

DESIGNS = ("cumulative", "one-at-a-time")
NAIVE = "naive"
NATIVE = "native"
REQUESTS = "requests"
"""The naive client as the reference has it: ``requests.post`` without a session."""
ASYNC = "translog-async"
SLICES = "slices-1000"
"""Our bulk runner as Rally's own is used: one client, 1,000 documents a request."""


@dataclass(frozen=True)
class Client:
    """How a client ingests. As constructed it is a simple one: two ``json.dumps`` a row when it is sent, a connection
    for each request, the whole response parsed.

    :param keep_alive: whether connections are kept open between requests.
    :param dumps: the package that encodes, ``json`` or ``orjson``.
    :param constant_action: whether the action line is a constant, so that only the row is encoded.
    :param filter_path: of the response; empty for all of it.
    :param sliced: whether bodies are slices of a file that was encoded beforehand.
    :param encoding: of bodies, a key of :data:`..corpus.encoded.ENCODINGS`; all but JSON are encoded beforehand.
    :param clients: coroutines that send at once.
    :param bulk_size: documents of a request.
    :param settings: of the index.
    :param unindexed: fields with doc values alone: a filter on one reads the values of the documents that are left.
    :param source: whether the index keeps ``_source``.
    :param mode: of the index; all but standard take rows with a time.
    """

    keep_alive: bool = False
    dumps: str = "json"
    constant_action: bool = False
    filter_path: str = ""
    sliced: bool = False
    encoding: str = "json"
    clients: int = 1
    bulk_size: int = 1000
    settings: dict[str, str] = field(default_factory=dict)
    unindexed: tuple[str, ...] = ()
    source: bool = True
    mode: str = "standard"

    def rows(self, each: int, most: int) -> int:
        """The rows of its cell. Each of several clients that send slices has as many as one alone, so that a cell of
        theirs is not over in an instant; clients that encode share those of one, which are in memory.

        :param each: of one client.
        :param most: of a cell.
        """
        return min(each * self.clients, most) if self.sliced else each

    def shaped(self, in_mode: Callable[[dict[str, Any], str], dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
        """The body of its index.

        :param in_mode: makes that of an index mode, see :meth:`..corpus.metrics.Metrics.in_mode`.
        :param body: of the index when nothing is changed but its settings.
        """
        mappings = body["mappings"]
        unindexed = {name: mappings["properties"][name] | {"index": False} for name in self.unindexed}
        kept = {} if self.source else {"_source": {"enabled": False}}
        mappings = mappings | {"properties": mappings["properties"] | unindexed} | kept
        return in_mode(body | {"mappings": mappings}, self.mode)


@dataclass(frozen=True)
class Step:
    """One change to the client or the index.

    :param name: of the cell that has it.
    :param text: what it changes.
    :param change: attributes of :class:`Client`; settings and fields are added to those already there.
    :param price: what it costs.
    :param reference: what the reference expects it to save per million rows; empty where it expects nothing.
    :param reference_s: the same in seconds, where it gives a figure.
    :param alone: whether the steps after it go without it, as another way to do what they do.
    """

    name: str
    text: str
    change: dict[str, Any]
    price: str
    reference: str = ""
    reference_s: tuple[float, float] | None = None
    alone: bool = False

    @property
    def timed(self) -> bool:
        """Whether it takes rows with a time."""
        return "mode" in self.change

    @property
    def as_change(self) -> Change:
        kind = next((kind for key, kind in _KINDS.items() if key in self.change), "client")
        return Change(self.text, (kind,), "ingest", self.price)


_KINDS = {"mode": "index", "settings": "settings", "unindexed": "index", "source": "index", "encoding": "format"}

SAME_CODEC = {"index.codec": "default"}
"""That of the other steps: an index mode has one of its own, which an embedded node may lack."""
STEPS = (
    Step("keep-alive", "connections kept open", {"keep_alive": True}, "none", "seconds"),
    Step("orjson", "orjson in place of json", {"dumps": "orjson"}, "one package more", "10–15 s", (10, 15)),
    Step(
        "constant-action",
        "the action line is a constant",
        {"constant_action": True},
        "all rows go to one index under generated ids",
    ),
    Step(
        "filter-path",
        "only took and errors in the response",
        {"filter_path": FILTER},
        "the ids that documents got are not told",
    ),
    Step(
        "bulk-10000",
        "10,000 documents a request",
        {"bulk_size": 10_000},
        "a megabyte a request on both sides; a refused request holds more rows",
        "5–10 s",
        (5, 10),
    ),
    Step(
        "slices",
        "bodies encoded beforehand",
        {"sliced": True},
        "what encodes is elsewhere: only where rows can be written in the form in which they are sent",
    ),
    Step("clients-2", "2 clients", {"clients": 2}, "rows arrive in no order", "parallel indexing threads"),
    Step("clients-4", "4 clients", {"clients": 4}, "rows arrive in no order; more requests are open at a time"),
    Step("clients-8", "8 clients", {"clients": 8}, "rows arrive in no order; more requests are open at a time"),
    Step(
        "refresh-off",
        "no refresh while it ingests",
        {"settings": {"index.refresh_interval": "-1"}},
        "rows are found only after a refresh at the end",
        "1–5 s",
        (1, 5),
    ),
    Step(
        ASYNC,
        "translog written to disk every 5 s, not per request",
        {"settings": {"index.translog.durability": "async"}},
        "a crash may lose the rows of the last 5 s",
        "5–10 s",
        (5, 10),
    ),
    Step(
        "values-unindexed",
        "cpu, mem and net by doc values alone",
        {"unindexed": FIELDS},
        "a filter on one of them reads the values of all documents that are left",
    ),
    Step(
        "epoch-unindexed",
        "epoch by doc values alone",
        {"unindexed": ("epoch",)},
        "a filter on the epoch reads the values of all documents that are left",
    ),
    Step(
        "smile",
        "bodies in SMILE, encoded beforehand, with floats of 32 bits",
        {"encoding": "smile-32"},
        "`_source` is kept as it was sent; bodies are no text",
    ),
    Step(
        "time-series",
        "index mode time_series, `_source` made of doc values",
        {"mode": "time_series", "settings": SAME_CODEC},
        "documents of one node and task at one time overwrite each other; none is taken from outside of a span of time",
        alone=True,
    ),
    Step(
        "logsdb",
        "index mode logsdb, `_source` made of doc values",
        {"mode": "logsdb", "settings": SAME_CODEC},
        "documents are sorted by node and time; `_source` comes back in another form than it was sent",
        alone=True,
    ),
    Step(
        "no-source",
        "no `_source`",
        {"source": False},
        "no document can be shown, updated or reindexed; the store shrinks only when documents are merged later",
    ),
)

STEP_NAMES = tuple(step.name for step in STEPS)


def bases(design: str, orjson: bool, timestamps: bool) -> dict[str, str]:
    """The cell that each step is held against, by the name of the step; without the steps that cannot be taken.

    :param design: ``cumulative`` (each step on top of those before) or ``one-at-a-time`` (each on top of naive).
    :param orjson: whether the step orjson can be taken; if not those after it use json.
    :param timestamps: whether rows have a time; if not the steps that take one are left out.
    """
    found, last = {}, NAIVE
    for step in STEPS:
        if step.name == "orjson" and not orjson or step.timed and not timestamps:
            continue
        found[step.name] = last if design == "cumulative" else NAIVE
        last = last if step.alone else step.name
    return found


def clients(design: str, orjson: bool, timestamps: bool, wanted: Collection[str] = STEP_NAMES) -> dict[str, Client]:
    """The clients of a design by the name of their cell: the naive one, each wanted step with the one that it is held
    against, and, where all steps are wanted, ours as Rally's is used. See :func:`bases`.

    :param wanted: names of steps; the others are taken all the same, and have no cell of their own.
    """
    found, held = {NAIVE: Client()}, bases(design, orjson, timestamps)
    for step in (step for step in STEPS if step.name in held):
        base = found[held[step.name]]
        added = {
            "settings": base.settings | step.change.get("settings", {}),
            "unindexed": base.unindexed + step.change.get("unindexed", ()),
        }
        found[step.name] = replace(base, **step.change | added)
    if set(wanted) == set(STEP_NAMES):
        return found | {SLICES: Client(keep_alive=True, filter_path=FILTER, sliced=True)}
    kept = {NAIVE, *wanted, *(held[name] for name in wanted if name in held)}
    return {name: client for name, client in found.items() if name in kept}
