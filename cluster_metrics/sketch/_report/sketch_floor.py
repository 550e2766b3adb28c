"""Explains a sketch-floor race: how far Elasticsearch is above the floor, and which step makes how much of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability
from _tools.report.answer import Finding, times_as_fast
from _tools.report.cells import Cells, cells_of
from _tools.report.gains import Gain, over_base
from _tools.report.race import Race
from _tools.report.references import PROFILING, beside
from _tools.report.section import Block, Figure, Section
from _tools.report.stats import Samples, median, paired_ratio
from _tools.report.table import Column, Table, Words, share, times
from _tools.report.text import interval, number, percent
from cluster_metrics.core.change import Change
from cluster_metrics.sketch.sketch_floor import ASKS, BEST, INGESTED, INGESTS
from cluster_metrics.wire import coverage
from cluster_metrics.wire.questions import PRODUCTION

FULL, FILTERED, ROWS, FLOOR = "elasticsearch-full", "elasticsearch-filtered", "sketch-rows", "sketch-columns"
ROWS_ITEMS, FLOOR_ITEMS, FLOOR_BEST = "sketch-rows-items", "sketch-columns-items", "sketch-best"
BASE = PRODUCTION.by("serial").name
QUESTIONS = {
    BASE: "Elasticsearch, a search per node (production)",
    PRODUCTION.by("msearch").name: "Elasticsearch, one msearch",
    **{name: f"sketch server, {text}" for name, text in ASKS.items()},
}


def answer(race: Race) -> Iterator[Finding]:
    """How far Elasticsearch is above the floor, the greatest step, and how far at its best."""
    ways = Ways(race.of(INGESTED))
    if ways.has(*INGESTS):
        found = steps(ways)
        whole, floor = found[-1].ms, found[0].ms
        gap, ratio = median(whole - floor), paired_ratio(floor, whole)
        text = f"takes {times_as_fast(ratio)} as long as the sketch server, {number(gap.value)} ms more per 1,000 rows"
        yield Finding("Elasticsearch", text, {"ratio": ratio, "gap_ms": gap})
        shares = {s.name: median(s.ms / (whole - floor)) for s in found[1:-1] if not s.part_of}
        name, most = max(shares.items(), key=lambda item: item[1].value)
        text = f"{name}, {percent(most.value)} {interval(most, percent)} of that"
        yield Finding("greatest step", text, {"share": most})
        best = paired_ratio(ways.per_thousand(FLOOR_BEST), ways.per_thousand(BEST))
        own = paired_ratio(ways.per_thousand(BEST), ways.per_thousand(FULL))
        text = f"{times_as_fast(best)} as long; Elasticsearch is then {times_as_fast(own)} as fast as before"
        yield Finding("both at their best", text, {"ratio": best, "speedup": own})
    answered = cells_of(race, coverage.TYPE)
    if answered.has(*QUESTIONS):
        fastest = min(ASKS, key=lambda name: answered.one("wall_ms", name).value)
        speedup = answered.ratio("wall_ms", fastest, BASE)
        text = f"{times_as_fast(speedup)} as fast from the sketch server ({fastest})"
        yield Finding("production query", text, {"speedup": speedup})
        yield answers.checked(race, len(race.of(coverage.TYPE)), "coverage")


def changes(race: Race) -> Iterator[Gain]:
    """What the other ways gain by which Elasticsearch is used here; the sketch server is a bound, no change to it."""
    ways = Ways(race.of(INGESTED))
    for name in (FILTERED, BEST):
        if ways.has(FULL, name):
            of = INGESTS[name]
            paid = over_base(ways, FULL, name, client_cpu=_per_row("client_cpu_ms"), bytes=_bytes)
            times = ways.ratio(_per_row("wall_ms"), name, FULL)
            yield Gain(Change(of.text, of.kinds, "ingest", of.price), FULL, times, paid)
    answered, msearch = cells_of(race, coverage.TYPE), PRODUCTION.by("msearch").name
    if answered.has(BASE, msearch):
        change = Change(QUESTIONS[msearch], ("client",), "query")
        paid = over_base(answered, BASE, msearch, client_cpu="client_ms")
        yield Gain(change, BASE, answered.ratio("wall_ms", msearch, BASE), paid)


def _per_row(key: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda meta: meta[key] / meta["rows"]


def _bytes(meta: Mapping[str, Any]) -> float:
    return (meta["bytes_out"] + meta["bytes_in"]) / meta["rows"]


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a round in which every way succeeded."""
    ways, parts = Ways(race.of(INGESTED)), []
    if ways.has(*INGESTS):
        parts = [
            Section("From the floor to Elasticsearch", _gap(ways)),
            Section("The steps measured elsewhere", _elsewhere(ways)),
            Section("Elasticsearch at its best", [_best(ways)]),
            Section("All configurations", _ways(ways)),
        ]
    answered = cells_of(race, coverage.TYPE)
    if answered.has(*QUESTIONS):
        parts.append(Section("The production question", _questions(answered)))
    return [*parts, *stability.sections(race)]


class Ways(Cells):
    """The samples by way to hand in the rows."""

    def per_thousand(self, way: str, key: str = "wall_ms") -> Samples:
        """A way's figure per 1,000 rows, by round, of the rounds that all ways have."""
        metas = [self.samples(way)[number].meta for number in self.rounds(*INGESTS)]
        return np.array([1000 * meta[key] / meta["rows"] for meta in metas])


@dataclass(frozen=True)
class Step:
    """A step from the lower bound to Elasticsearch as a simple client uses it.

    :param name: of the step, in a figure.
    :param source: what it is a difference of, or where it is from.
    :param ms: per 1,000 rows, by round.
    :param part_of: whether it is a part of the step before the ones like it.
    :param reference: ms in PROFILING, section 3; empty where it has none.
    :param drawn: whether the figure has it; of a step and its parts it has either.
    """

    name: str
    source: str
    ms: Samples
    part_of: bool = False
    reference: str = ""
    drawn: bool = True


def steps(ways: Ways) -> list[Step]:
    """The steps. In each round those that are no part of another add up to the last, and the last three parts to the
    step before them."""
    of = ways.per_thousand
    work = of(FILTERED) - of(ROWS)
    return [
        Step("the sketch server", f"floor ({FLOOR})", of(FLOOR), reference="about 10"),
        Step("wire format", f"({ROWS} − {FLOOR})", of(ROWS) - of(FLOOR), reference="10 to 20"),
        Step("the client's encoding", "", of(ROWS, "encode_ms") - of(FLOOR, "encode_ms"), True, drawn=False),
        Step("response", f"({FULL} − {FILTERED})", of(FULL) - of(FILTERED), reference="5 to 10"),
        Step("the client's decoding", "", of(FULL, "parse_ms") - of(FILTERED, "parse_ms"), True, drawn=False),
        Step("per-document work", f"({FILTERED} − {ROWS})", work, reference="15 to 20", drawn=False),
        Step("indexing", "by the index's statistics", of(FILTERED, "index_ms"), True),
        Step("the rest of took", "", of(FILTERED, "took_ms") - of(FILTERED, "index_ms"), True),
        Step("unexplained", "", work - of(FILTERED, "took_ms"), True),
        Step("whole: Elasticsearch", f"({FULL})", of(FULL), reference="76.9"),
    ]


def reference(race: Race) -> list[str | Table]:
    """The steps as they were measured or estimated elsewhere."""
    ways = Ways(race.of(INGESTED))
    if not ways.has(*INGESTS):
        return []
    rows = [(step.name, median(step.ms), step.reference) for step in steps(ways) if step.reference]
    text = f"{PROFILING.cited} It measured the first and the last and estimated the rest, so a part stays unexplained."
    return [text, beside("reference", rows, "ms per 1,000 rows")]


def _gap(ways: Ways) -> list[Block]:
    found = steps(ways)
    whole, floor = found[-1].ms, found[0].ms
    gap, ratio, between = median(whole - floor), paired_ratio(floor, whole), found[1:-1]
    columns = [
        Words("step", "step", of=lambda s: f"{'… of it ' * s.part_of}{s.name} {s.source}".strip()),
        Column("ms", "ms", of=lambda s: median(s.ms)),
        share("share", "share of the gap", lambda s: median(s.ms / (whole - floor)) if s in between else None),
    ]
    before = (
        f"1,000 rows take Elasticsearch {number(gap.value)} ms {interval(gap)} more than the sketch server, "
        f"{number(ratio.value)} times as long {interval(ratio)}, from clients that write JSON by Python's json, on "
        "connections kept open. ms per 1,000 rows, which is s per million, from encoding to decoding the response; "
        f"{gap.n} rounds, each difference formed within its round."
    )
    after = (
        "Floor, wire format, response and per-document work add up to the whole in each round, but their medians "
        "only nearly. Indexing and `took` are what Elasticsearch itself reports; the unexplained rest holds its HTTP "
        "side and Rally's client, less the sketch server's own work. Refreshes and merges that run beside the requests "
        "are in it only as far as they slow them down. `took` is as fine as the target's clock, 200 ms where "
        "`thread_pool.estimated_time_interval` is not set, and on several shards indexing may exceed it: there the "
        "split by it means nothing."
    )
    shown = [step for step in found[:-1] if step.drawn]
    parts = [plots.Part(step.name, median(step.ms), median(step.ms / whole).value) for step in shown]
    caption = (
        "From the floor to Elasticsearch, ms per 1,000 rows; shares are of the whole. Each is a median of its own."
    )
    figure = Figure(plots.parts(parts, plots.Part("Elasticsearch", median(whole), 1.0)), caption)
    return [before, Table.of("gap", columns, found), after, figure]


def _elsewhere(ways: Ways) -> list[str | Table]:
    of = ways.per_thousand
    rows = [
        {"step": step, "source": f"{more} − {less}", "ms": median(of(more) - of(less))}
        for step, more, less in (
            ("wire format", ROWS, FLOOR),
            ("wire format, with an entry per row back", ROWS_ITEMS, FLOOR_ITEMS),
            ("response, on Elasticsearch", FULL, FILTERED),
            ("response, on the sketch server from rows", ROWS_ITEMS, ROWS),
            ("response, on the sketch server from columns", FLOOR_ITEMS, FLOOR),
            ("per-document work", FILTERED, ROWS),
            ("per-document work, with an entry per row back", FULL, ROWS_ITEMS),
        )
    ]
    columns = [Words("step", "step"), Words("source", "measured as"), Column("ms", "ms per 1,000 rows")]
    text = (
        "Each step can be taken at more than one place. As far as these differ, the size of the step depends on what "
        "surrounds it, and so on the order in which steps are taken."
    )
    return [text, Table("elsewhere", columns, rows)]


def _best(ways: Ways) -> Table:
    of = ways.per_thousand
    rows = [
        {"what": text, "source": f"{slow} / {fast}", "ratio": paired_ratio(of(fast), of(slow))}
        for text, slow, fast in (
            ("Elasticsearch: best against whole response", FULL, BEST),
            ("Elasticsearch: best against filtered response", FILTERED, BEST),
            ("sketch server: best against columnar", FLOOR, FLOOR_BEST),
            ("sketch server against Elasticsearch", FULL, FLOOR),
            ("sketch server against Elasticsearch, both at their best", BEST, FLOOR_BEST),
        )
    ]
    columns = [Words("what", "what is faster"), Words("source", "measured as"), times("ratio", "times as fast")]
    return Table("best", columns, rows)


def _ways(ways: Ways) -> list[str | Table]:
    speeds, parts = [], []
    costs = {"encode_ms": "encode ms", "send_ms": "send and wait ms", "parse_ms": "decode ms"}
    costs |= {"client_cpu_ms": "client CPU ms", "took_ms": "took ms", "settle_ms": "afterwards ms"}
    for name, ingest in INGESTS.items():
        wall = median(ways.per_thousand(name))
        speeds.append({"way": name, "what": ingest.text, "n": wall.n, "rate": 1e6 / wall.value, "wall_ms": wall})
        own = [key for key in costs if ingest.elasticsearch or key not in ("took_ms", "settle_ms")]
        row: dict[str, Any] = {key: median(ways.per_thousand(name, key)).value for key in own}
        row |= {key: median(ways.per_thousand(name, key)).value / 1000 for key in ("bytes_out", "bytes_in")}
        parts.append(row | {"way": name})
    columns = [Words("way", "configuration"), Words("what", "what it is"), Column("n", "n"), Column("rate", "rows/s")]
    columns += [Column("wall_ms", "wall", "ms")]
    of_costs = [Words("way", "configuration"), *(Column(key, text) for key, text in costs.items())]
    of_costs += [Column("bytes_out", "bytes out"), Column("bytes_in", "bytes in")]
    return [
        "Medians over rounds, times per 1,000 rows, bytes per row. Wall is encoding, sending with waiting, and "
        "decoding the response.",
        Table("ways", columns, speeds),
        "Afterwards is a refresh and waiting for merges to end, outside wall.",
        Table("costs", of_costs, parts),
    ]


def _questions(cells: Cells) -> list[str | Table]:
    walls = dict(zip(QUESTIONS, cells.values("wall_ms", *QUESTIONS)))

    def error(name: str) -> float:
        return max(s.meta["max_percentile_error"] for s in cells.samples(name).values())

    columns = [
        Words("way", "configuration", of=str),
        Words("what", "what it is", of=QUESTIONS.get),
        Column("n", "n", of=lambda name: len(walls[name])),
        Column("wall_ms", "wall", "ms", of=lambda name: median(walls[name])),
        times("speedup", "times as fast", of=lambda name: paired_ratio(walls[name], walls[BASE])),
        Column("error", "greatest error", form=lambda e: f"{100 * e:.2g} %", of=error),
    ]
    text = (
        f"Count, sum and percentiles of every node in one epoch; times as fast as {BASE}, within each round. The "
        "error is the greatest relative one of p50 and p90, over all nodes, fields and rounds. Counts were exact, sums "
        "to 1e-6, p0 and p100 to a 32-bit float."
    )
    return [text, Table.of("questions", columns, QUESTIONS)]
