"""The further indices that query-frontier asks: the same documents in another layout."""

import json
import time
from collections.abc import Iterator
from typing import Any

from ..core.challenge import Values
from ..core.index import MARK, create_own_index, delete_own_index, index_body
from ..core.rounds import Guard, Params
from ..corpus.answers import field_answers
from ..corpus.metrics import FIELDS, NAME, Metrics
from ..corpus.prepared import Prepared
from ..wire.bulk import load_all, with_actions
from ..wire.requests import all_shards, aside, request, touch
from .configurations import CONFIGURATIONS, LAYOUTS, PROFILED

BULK_ROWS = 10_000
OF_MODE = ("index.mode", "index.sort.", "index.routing_path", "index.time_series.", "index.mapping.source.")
"""How settings begin that an index mode brings, and how source is kept: a mode decides it, a rollup is read from it."""


class LayoutsParams(Params):
    """Param source of build-layouts and drop-layouts: the layouts that the configurations need.

    Track parameters: ``force_merge_max_num_segments``, ``delete_foreign_index``, and the one that the operation's
    ``named-by`` says, by default ``configurations``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._prepared = Prepared(track, Metrics)

    def params(self) -> dict[str, Any]:
        names = self.values[self.operation.get("named-by", "configurations")]
        used = {(CONFIGURATIONS | PROFILED)[name].layout for name in names}
        body = index_body(self.track, NAME)
        return {
            "layouts": [layout for layout in LAYOUTS if layout in used],
            "mappings": body["mappings"],
            "settings": body["settings"] | created_with(self.values),
            "prepared": self._prepared,
            "segments": self.values["force_merge_max_num_segments"],
            "foreign": self.values["delete_foreign_index"],
        }


def created_with(values: Values) -> dict[str, Any]:
    """What ``create-index`` of ``operations/common.json`` adds to the settings of the production index, as far as it
    lasts: a further index differs from it in its layout alone."""
    kept = {f"index.{key}": values[key] for key in ("number_of_shards", "number_of_replicas", "codec")}
    mode = values["source_mode"]
    return kept | ({} if mode == "stored" else {"index.mapping.source.mode": mode})


def without_mode(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without an index mode and what comes with it."""
    return {k: v for k, v in settings.items() if not k.startswith(OF_MODE)}


def bulk_bodies(row_bytes: int, rows_file: str) -> Iterator[tuple[bytes, int]]:
    """An epoch's rows as bodies of ``_bulk`` requests, 10,000 rows each, with the number of these."""
    with open(rows_file, "rb") as f:
        while rows := f.read(BULK_ROWS * row_bytes):
            yield with_actions(rows.splitlines(keepends=True)), len(rows) // row_bytes


def rollup_body(corpus: Metrics, epoch: int, rows_file: str) -> bytes:
    """One ``_bulk`` body with a document per node of an epoch, whose answers are computed from the rows by sorting."""
    values: dict[tuple[str, str], list[float]] = {}
    with open(rows_file, "rb") as f:
        for line in f:
            row = json.loads(line)
            for field in FIELDS:
                values.setdefault((row["node"], field), []).append(row[field])
    lines = []
    for node in corpus.node_names():
        aggregations: dict[str, Any] = {}
        for field in FIELDS:
            answer = field_answers((value, 1) for value in sorted(values.get((node, field), [])))
            aggregations[f"{field}_sum"] = {"value": answer["sum"]}
            aggregations[f"{field}_pct"] = {"values": {p: v[0] for p, v in answer["percentiles"].items()}}
        lines.append(json.dumps({"epoch": epoch, "node": node, "aggregations": aggregations}).encode() + b"\n")
    return with_actions(lines)


class BuildLayouts(Guard):
    """Creates and loads the further indices that the configurations ask, all outside the timed section."""

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        costs: dict[str, Any] = {}
        await touch(es)
        for name in params["layouts"]:
            index, layout = f"{NAME}-{name}", LAYOUTS[name]
            with aside(es):
                base = params["settings"]
                settings = (without_mode(base) if layout.mode or name == "rollup" else base) | layout.settings
                mappings = params["mappings"]
                if name == "rollup":
                    properties = {k: mappings["properties"][k] for k in ("epoch", "node")}
                    mappings = {
                        "_meta": {"created_by": MARK},
                        "properties": properties | {"aggregations": {"type": "object", "enabled": False}},
                    }
                body = {"settings": settings, "mappings": mappings}
                if layout.mode:
                    body = params["prepared"].corpus.in_mode(body, layout.mode)
                await create_own_index(es, index, body, params["foreign"])
                costs |= await (self._roll_up if name == "rollup" else self._load)(es, index, params["prepared"])
                all_shards(index, await request(es, "POST", f"/{index}/_refresh"), "refreshed")
                if layout.merged and params["segments"]:
                    merge = f"/{index}/_forcemerge?max_num_segments={params['segments']}"
                    all_shards(index, await request(es, "POST", merge, timeout=7200), "merged")
        return {"weight": len(params["layouts"]), "unit": "indices", "layouts": len(params["layouts"]), **costs}

    async def _load(self, es: Any, index: str, prepared: Prepared) -> dict[str, float]:
        for epoch in range(1, prepared.corpus.epochs + 1):
            width = prepared.corpus.row_format().row_bytes(epoch)
            await load_all(es, index, bulk_bodies(width, prepared.file(epoch - 1)))
        return {}

    async def _roll_up(self, es: Any, index: str, prepared: Prepared) -> dict[str, float]:
        corpus = prepared.corpus
        cpu_s = bulk_ms = 0.0
        for epoch in range(1, corpus.epochs + 1):
            started = time.process_time()
            body = rollup_body(corpus, epoch, prepared.file(epoch - 1))
            cpu_s += time.process_time() - started
            sent = time.perf_counter()
            await load_all(es, index, iter([(body, corpus.nodes)]))
            bulk_ms += 1000 * (time.perf_counter() - sent)
        rows = corpus.rows_per_epoch * corpus.epochs
        return {"rollup_cpu_s": cpu_s * 1e6 / rows, "rollup_bulk_ms": bulk_ms}


class DropLayouts(Guard):
    """Deletes the indices that build-layouts made."""

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        for name in params["layouts"]:
            with aside(es):
                await delete_own_index(es, f"{NAME}-{name}", params["foreign"])
        return {"weight": len(params["layouts"]), "unit": "indices"}
