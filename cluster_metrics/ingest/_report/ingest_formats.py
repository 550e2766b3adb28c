"""Explains an ingest-formats race: what SMILE buys over JSON, whether a blog's claims hold, and which load to take."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from _tools.report import cells as rounds
from _tools.report import plots, stability
from _tools.report.answer import Finding, times_as_fast
from _tools.report.gains import Gain, over_base
from _tools.report.race import Race
from _tools.report.references import SMILE as SMILE_BLOG
from _tools.report.section import Figure, Section
from _tools.report.stats import median, paired_ratio
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import with_interval
from _tools.report.verdicts import benjamini_hochberg, gate_of, judge
from cluster_metrics.core.change import Change
from cluster_metrics.ingest.ingest_formats import BASE, ENCODING, PRICES, READ

from . import load_sweep
from .bottleneck import bottleneck, finding, section_of_cells
from .course import over_rounds
from .format_cells import Cells, Series, bytes_of, cores, gain_over_sizes, ms_per_request, overall, per_million, saved
from .format_claims import claims, stated
from .usage import of_cells

KNOBS = ("client_counts", "bulk_sizes")
COSTS = {"target_cpu": "target_cpu_ms", "client_cpu": "client_cpu_ms", "bytes": "bytes_out"}
KEPT = {"store": "store_bytes", "read": "read_ms"}
"""What an index costs once it is loaded, where a race recorded it: its size, and reading its documents back."""
USUAL_SIZE = 1000
"""Documents a request that other sizes are held against."""


def answer(race: Race) -> Iterator[Finding]:
    """Which load to take; throughput of each format over that of JSON, what it saves of the target's CPU, and which
    statements hold."""
    cells = Cells(race)
    if not cells.all:
        return
    top, usage = next(iter(of_cells(race, KNOBS).items()))
    yield finding(bottleneck(usage), f"{top}, the fastest")
    yield from load_sweep.answer(race, cells)
    if cells.compared:
        yield from _gains(race, cells)
    holds = [row["holds"] for row in stated(cells)]
    said = {word: holds.count(word) for word in dict.fromkeys(holds)}
    if holds:
        yield Finding("published", f"of {len(holds)} statements: " + ", ".join(f"{n} {w}" for w, n in said.items()))


def _gains(race: Race, cells: Cells) -> Iterator[Finding]:
    ratios = [overall(cells, series, "wall_ms") for series in cells.compared]
    judged = dict(zip(cells.compared, judge(ratios, gate_of(race.record.compared), benjamini_hochberg)))
    gains = {series: gain_over_sizes(cells, series) for series in cells.compared}
    for series, gain in sorted(gains.items(), key=lambda item: -item[1].value)[:2]:
        text = f"{times_as_fast(gain)} the throughput of JSON over all bulk sizes: {judged[series].text}"
        yield Finding(f"{series.encoding}, {series.load}", text, {"gain": gain})
    cpu = {f"{s.encoding}, {s.load}": overall(cells, s, "target_cpu_ms") for s in cells.compared}
    name, least = min(cpu.items(), key=lambda item: item[1].value)
    yield Finding("target's CPU", f"{times_as_fast(least)} that of JSON at best ({name})", {"ratio": least})


def reference(race: Race) -> list[str | Table]:
    """The source of the claims."""
    return [f"{SMILE_BLOG.cited} Runs were not paired; the client had a machine of its own."]


def changes(race: Race) -> Iterator[Gain]:
    """What each format gains and costs against JSON over all bulk sizes; and each bulk size and number of clients by
    itself, against the smallest load in JSON that the race has at 1,000 documents a request, or near to it."""
    cells = Cells(race)
    for series in cells.compared:
        change = Change(f"{series.encoding} in place of JSON ({series.load})", ("format",), "ingest", PRICES["format"])
        keys = COSTS | ({"store": KEPT["store"]} if cells.knows(KEPT["store"], series) else {})
        paid = {cost: overall(cells, series, key) for cost, key in keys.items()}
        yield Gain(change, f"{series.corpus}-{BASE}", gain_over_sizes(cells, series), paid)
    for corpus in dict.fromkeys(s.corpus for s in cells.series):
        found = [s for s in cells.series if (s.corpus, s.encoding) == (corpus, BASE)]
        if not found:
            continue
        first = min(found, key=lambda s: s.clients)
        base = first, min(cells.sizes(first), key=lambda size: abs(size - USUAL_SIZE))
        for size in cells.sizes(first):
            text = f"{size:,} documents a request ({first.load})"
            yield from _single(cells, base, (first, size), text, "bulk size")
        for series in found:
            yield from _single(cells, base, (series, base[1]), f"{series.load}, at {base[1]:,} a request", "clients")


def _single(cells: Cells, base: tuple[Series, int], name: tuple[Series, int], text: str, what: str) -> Iterator[Gain]:
    """What one cell gains and costs over another; nothing over itself, or without a round that both have."""
    if name != base and cells.has(base, name):
        paid = over_base(cells, base, name, **{cost: per_million(key) for cost, key in COSTS.items()})
        against = f"{base[0].load}, {base[1]:,} a request"
        times = cells.ratio(per_million("wall_ms"), name, base)
        yield Gain(Change(text, ("client",), "ingest", PRICES[what]), against, times, paid)


def sections(race: Race) -> list[Section]:
    """The sections of the report."""
    cells = Cells(race)
    if not cells.all:
        return []
    against = _throughput(race, cells) if cells.compared else []
    return [
        *([Section("Do the published statements hold?", claims(cells))] if cells.compared or cells.batches else []),
        *([Section("Which load to take", loads)] if (loads := load_sweep.section(race, cells)) else []),
        *([Section("Throughput over bulk size", [*against, *_curves(cells)])] if cells.series else []),
        *([Section("Larger documents", _larger(cells))] if cells.batches else []),
        section_of_cells(of_cells(race, KNOBS), over_rounds(race, KNOBS)),
        *([Section("What a configuration costs", _costs(cells))] if cells.series else []),
        *([Section("What is kept, and reading it back", kept)] if (kept := _kept(race, cells)) else []),
        Section("What encoding costs", _encoding(race, cells)),
        *stability.sections(race),
    ]


def _larger(cells: Cells) -> list[str | Table | Figure]:
    rows, lines, points = [], [], {}
    for encoding, of in cells.batches.items():
        gains = {s: gain_over_sizes(cells, s) for s in of}
        for s in of:
            plain, own = bytes_of(cells, s.base), bytes_of(cells, s)
            row = {"format": encoding, "lines": s.lines, "plain": plain, "own": own, "less": 1 - own / plain}
            rows.append(row | {"n": gains[s].n, "gain": gains[s], "cpu": overall(cells, s, "target_cpu_ms")})
        names = [(one, *cells.sizes(one)) for s in (of[0], of[-1]) for one in (s.base, s)]
        small_base, small, large_base, large = cells.values(per_million("wall_ms"), *names)
        found = median((large_base / large) / (small_base / small))
        lines.append(
            f"{encoding}: the gain at {of[-1].lines} lines over that at {of[0].lines} is {with_interval(found)}"
        )
        points[encoding] = [(bytes_of(cells, s.base), gains[s]) for s in of]
    columns = [Words("format", "format"), Column("lines", "lines a document"), Column("n", "n")]
    columns += [Column("plain", "bytes in JSON"), Column("own", "bytes in it"), share("less", "less")]
    columns += [Column("gain", "throughput"), Column("cpu", "target CPU")]
    text = (
        "The same lines of the web log in documents of several sizes, an object for each line, about as many lines in "
        "each request; names of members are shared within a document, as Jackson does. Throughput and CPU time of the "
        "target are ratios to JSON, formed within each round.\n\n" + "".join(f"- {line}\n" for line in lines)
    )
    caption = "Throughput over that of JSON, over the size of a document as JSON: medians with their 95 % intervals."
    drawn = Figure(plots.lines(points, "bytes a document in JSON", "times the throughput of JSON"), caption)
    return [text, Table("batches", columns, rows), drawn]


def _kept(race: Race, cells: Cells) -> list[str | Table]:
    """Nothing where a race recorded neither size nor reading."""
    rows, ratios, to = [], [], []
    for series in [*cells.compared, *(s for of in cells.batches.values() for s in of)]:
        row: dict[str, Any] = {"documents": series.load, "format": series.encoding}
        for name, key in KEPT.items():
            if cells.knows(key, series):
                ratios.append(overall(cells, series, key))
                row |= {name: ratios[-1], "n": ratios[-1].n}
                to.append((row, name))
        if "store" in row:
            base, own = (np.median(of) / 1000 for of in cells.over_sizes(KEPT["store"], series))
            row |= {"plain": float(base), "own": float(own)}
        rows.append(row)
    if not ratios:
        return []
    for (row, name), judged in zip(to, judge(ratios, gate_of(race.record.compared), benjamini_hochberg)):
        row[f"{name}_verdict"] = judged.text
    columns = [Words("documents", "documents"), Words("format", "format"), Column("n", "n")]
    columns += [Column("plain", "JSON, bytes a document"), Column("own", "format, bytes a document")]
    columns += [Column("store", "store size"), Words("store_verdict", "size")]
    columns += [Column("read", "reading"), Words("read_verdict", "time")]
    text = (
        "Elasticsearch keeps a document as it was sent, and turns it into JSON when a search asks for it so. Size of "
        "the primary shards at the end of a cell, their segments not merged, and the wall time of one search for the "
        f"source of {READ:,} documents or all, whichever are fewer, as ratios to JSON, formed within each round; over "
        "all bulk sizes their geometric mean. All verdicts are judged together (Benjamini and Hochberg)."
    )
    return [text, Table("kept", columns, rows)]


def _throughput(race: Race, cells: Cells) -> list[str | Table]:
    rows, ratios = [], []
    for series in cells.compared:
        about = {"documents": series.load, "format": series.encoding}
        for size in cells.sizes(series, series.base):
            gain, cpu = cells.gain(size, series), cells.against("target_cpu_ms", size, series)
            row = {"bulk_size": f"{size:,}", "n": gain.n, "gain": gain, "cpu": cpu}
            rows.append(about | row | {"base_rate": cells.rate(size, series.base), "rate": cells.rate(size, series)})
            ratios += [cells.against("wall_ms", size, series), cpu]
        wall, cpu = (overall(cells, series, key) for key in ("wall_ms", "target_cpu_ms"))
        gain = gain_over_sizes(cells, series)
        rows.append(about | {"bulk_size": "all", "n": gain.n, "gain": gain, "cpu": cpu})
        ratios += [wall, cpu]
    gate = gate_of(race.record.compared)
    found = judge(ratios, gate, benjamini_hochberg)
    for row, faster, cheaper in zip(rows, found[::2], found[1::2]):
        row |= {"faster": faster.text, "faster_found": faster.found}
        row |= {"cheaper": cheaper.text, "cheaper_found": cheaper.found}
    columns = [Words("documents", "documents"), Words("format", "format"), Column("bulk_size", "bulk size")]
    columns += [Column("n", "n"), Column("base_rate", "JSON, per s"), Column("rate", "format, per s")]
    columns += [Column("gain", "throughput"), Words("faster", "time"), share("faster_found", "found in 80 %")]
    columns += [Column("cpu", "target CPU"), Words("cheaper", "CPU"), share("cheaper_found", "found in 80 %")]
    text = (
        "Documents per second, and the format's throughput and CPU time of the target as ratios to JSON, formed within "
        f"each round; over all bulk sizes their geometric mean. Verdicts are on wall and CPU time; all {len(found)} "
        "are judged together, so that 5 % of those that tell a change are false on average (Benjamini and Hochberg). "
        "Beside each the change that would have been found in 80 % of cases."
    )
    return [text, Table("throughput", columns, rows)]


def _curves(cells: Cells) -> Iterator[Figure]:
    for corpus in dict.fromkeys(s.corpus for s in cells.series):
        shown = [s for s in cells.series if s.corpus == corpus]
        points = {f"{s.encoding} × {s.clients}": [(n, cells.rate(n, s)) for n in cells.sizes(s)] for s in shown}
        caption = (
            f"Documents per second over documents per request, {corpus}, by format and number of clients: medians with "
            "their 95 % intervals."
        )
        yield Figure(plots.lines(points, "documents per request", "documents per s"), caption)


def _costs(cells: Cells) -> list[str | Table]:
    times = {"wall_ms": "wall s", "target_cpu_ms": "target CPU s", "index_ms": "indexing s"}
    times |= {"client_cpu_ms": "client CPU s"}
    rows = [
        {"documents": series.load, "format": series.encoding, "bulk_size": f"{size:,}"}
        | {key: cells.median_of(key, size, series) for key in times}
        | {"request_ms": cells.one(ms_per_request, (series, size)).value}
        | {f"{key}_used": cells.one(cores(key), (series, size)).value for key in ("target_cpu_ms", "client_cpu_ms")}
        | {"mb": cells.median_of("bytes_out", size, series).value / 1000}
        | {"pauses_ms": 1000 * float(np.mean(cells.values(per_million("gc_ms"), (series, size))[0]))}
        for series in cells.series
        for size in cells.sizes(series)
    ]
    columns = [Words("documents", "documents"), Words("format", "format"), Column("bulk_size", "bulk size")]
    columns += [Column(key, text) for key, text in times.items()]
    columns += [Column("target_cpu_ms_used", "target CPU, cores"), Column("client_cpu_ms_used", "client CPU, cores")]
    columns += [Column("request_ms", "ms per request"), Column("mb", "MB"), Column("pauses_ms", "pauses", "ms")]
    text = (
        "Per million documents, medians over rounds; cores are those at work, CPU time over wall time; a request's "
        "time is from its sending to the end of the response. "
        "Indexing is `_stats` time, summed over threads. MB are those of the requests. Pauses are garbage collections "
        "that stop all else, their mean over rounds."
    )
    return [text, Table("costs", columns, rows)]


def _encoding(race: Race, cells: Cells) -> list[str | Table]:
    found = rounds.Cells(race.of(ENCODING), of=lambda s: (s.meta["corpus"], s.meta["encoder"]))
    rows = []
    for corpus, encoder in sorted(found.names):
        names = (corpus, BASE), (corpus, encoder)
        plain, own = found.values(lambda meta: 1000 * meta["client_cpu_ms"] / meta["documents"], *names)
        last = found.samples(names[1])[found.rounds(*names)[-1]].meta
        rows.append(
            {"documents": corpus, "encoder": encoder, "n": len(own), "cpu_s": median(own)}
            | {"ratio": paired_ratio(plain, own), "bytes": last["bytes"] / last["documents"]}
        )
    columns = [Words("documents", "documents"), Words("encoder", "encoder"), Column("n", "n")]
    columns += [Column("cpu_s", "client CPU", "s"), Column("ratio", "over json")]
    columns += [Column("bytes", "bytes a document", form="{:.1f}".format)]
    lines = [
        f"{series.load}, {series.encoding}: saves {with_interval(saved(cells, series, 'target_cpu_ms'))} s"
        for series in cells.compared
    ]
    before = (
        "What a client pays that encodes documents and their actions one by one, per million of them: `json` and "
        "`orjson` by `dumps`, SMILE by our encoder, which is plain Python. All other figures of this report are of "
        "bodies that were encoded before; `make bench` shows what generating those costs. Bytes include the action but "
        "no separators."
    )
    after = (
        "Against it stands the CPU time of the target that the format saves, per million documents, mean over bulk "
        "sizes:\n\n" + "".join(f"- {line}\n" for line in lines)
    )
    return [before, Table("encoders", columns, rows), *([after] if lines else [])]
