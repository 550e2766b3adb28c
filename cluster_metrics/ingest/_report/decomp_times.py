"""Where the seconds of each way to ingest go, and what it costs."""

from collections.abc import Mapping
from typing import Any

from _tools.report.cells import Figure
from _tools.report.table import Column, Table, Words
from _tools.report.text import number, with_interval
from cluster_metrics.ingest.steps import ASYNC

from .decomp_cells import Clients

COARSE_MS = 100
"""A shortest ``took`` this long tells of a cached clock, which Elasticsearch reads every 200 ms by default."""


def times(cells: Clients, names: list[str], held: Mapping[str, str]) -> list[str | Table]:
    """Where the time goes, by cell.

    :param held: the cell that each step is held against.
    """
    keys = {"wall_ms": "wall s", "encode_ms": "encode s", "parse_ms": "parse s", "send_ms": "send and wait s"}
    keys |= {"took_ms": "took s", "index_ms": "of it indexing s"}
    rows = [
        {"cell": name, "rows_per_second": cells.one("rows_per_second", name)}
        | {key: cells.per_million(key, name) for key in keys}
        | {"other": cells.one(_other, name)}
        for name in names
    ]
    columns = [Words("cell", "configuration"), Column("rows_per_second", "rows/s")]
    columns += [Column(key, text) for key, text in keys.items()] + [Column("other", "other s")]
    least = min((s for n in names for s in cells.values("least_took_ms", n)[0] if s > 0), default=0.0)
    text = (
        "Per million rows, medians over rounds. All but wall are summed over requests, so with several clients they "
        f"exceed it; other is what of `took` is not indexing. {_resolution(least)}"
    )
    return [text, Table("times", columns, rows), *_translog(cells, held)]


def _translog(cells: Clients, held: Mapping[str, str]) -> list[str]:
    """What of the rest of ``took`` is the translog, by a pair of durabilities; nothing without one."""
    if not (base := held.get(ASYNC)):
        return []
    whole, spared = cells.one(_other, base), cells.of(lambda other, spared: other - spared, _other, base, ASYNC)
    return [
        f"Writing the translog to disk with each request is {with_interval(spared)} s of the {number(whole.value)} s "
        f"other than indexing in {base}: so much less is left in {ASYNC}, which differs in that alone, within rounds."
    ]


def _other(meta: Mapping[str, Any]) -> float:
    """What of ``took`` is not indexing, in s per million rows."""
    return 1000 * (meta["took_ms"] - meta["index_ms"]) / meta["rows"]


def _resolution(least_ms: float) -> str:
    if 0 < least_ms < COARSE_MS:
        return f"The shortest `took` above zero was {least_ms:.0f} ms, so its clock is at least that fine."
    seen = f"The shortest `took` above zero was {least_ms:.0f} ms" if least_ms else "No `took` was above zero"
    return (
        f"{seen}: the target reads its clock only now and then (`thread_pool.estimated_time_interval`, 200 ms by "
        "default), so `took` means little here."
    )


def costs(cells: Clients, names: list[str]) -> list[str | Table]:
    """CPU, bytes, connections and what is left on disk, by cell."""
    counts = {"requests": "requests", "connections": "connections", "retries": "retries"}
    counts |= {"refresh_wall_ms": "refresh at the end ms"}
    after: dict[str, Figure] = {"store_bytes": lambda m: m["store_bytes"] / m["rows"]}
    after |= {"segments": "segments", "asks_ms": "asks_ms"}
    rows = [
        {"cell": name, "rows": cells.one("rows", name).value}
        | {key: cells.per_million(key, name) for key in ("target_cpu_ms", "client_cpu_ms")}
        | {key: cells.per_million(key, name).value / 1000 for key in ("bytes_out", "bytes_in")}
        | {key: cells.one(key, name).value for key in counts}
        | {key: cells.one(figure, name) for key, figure in after.items() if len(cells.known(key, name))}
        for name in names
    ]
    columns = [Words("cell", "configuration"), Column("rows", "rows", form="{:,.0f}".format)]
    columns += [Column("target_cpu_ms", "target CPU", "s")]
    columns += [Column("client_cpu_ms", "client CPU", "s"), Column("bytes_out", "MB out"), Column("bytes_in", "MB in")]
    columns += [Column(key, text, form="{:,.0f}".format) for key, text in counts.items()]
    columns += [Column("store_bytes", "store B a row"), Column("segments", "segments")]
    columns += [Column("asks_ms", "counts by node ms")]
    text = (
        "CPU and bytes are per million rows, the others per round; medians over rounds. The target's "
        "CPU holds the refresh at the end, and some more of what it does when idle. Connections are those that the "
        "nodes accepted, one of them to ask for their number where none is kept open. The store is that of the primary "
        "shards after the refresh, their segments not merged. What the filter of the production query takes then, "
        "without a query cache, is seen by counting the documents of each node in the epoch, one after another; "
        "it is to be compared between cells of as many rows."
    )
    return [text, Table("costs", columns, rows)]
