"""The load of the capacity challenges: searches and documents."""

import itertools
import os
import random
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ..core.rounds import Runner, outcome
from ..wire.bulk import send_bulk, with_actions
from ..wire.hosts import keep_to
from ..wire.requests import entitled, once, request
from .indices import CapacityParams, index_of
from .words import FIELDS

INDEX = "capacity-index"
"""``operation-type`` of requests with documents."""
QUERIES = 10_000
"""Different queries; clients walk through them in turn."""


class QueryRunner(Runner):
    """One search by one client. The response is filtered to what is checked; the target still fetches the hits.

    Mandatory keys: ``cell``, ``pass``, ``nodes`` (so many hosts are asked; 0 for all) and ``first`` (the place of the
    first of them), ``path``, ``body``. A search of which shards failed, or that timed out, counts as an error.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        keep_to(es, params["first"], params["nodes"])
        response = await request(once(es), "POST", params["path"], params["body"])
        shards = response["_shards"]
        failed = shards["failed"] or response["timed_out"]
        problem = f"{shards['failed']} of {shards['total']} shards failed, or it timed out"
        return {
            **{key: params[key] for key in ("cell", "pass")},
            "took": response["took"],
            "hits": response["hits"]["total"]["value"],
            **outcome([problem] if failed else [], "search"),
        }


class IndexRunner(Runner):
    """Indexes one document by a request of its own, or several by ``_bulk``.

    Mandatory keys: ``cell``, ``pass``, ``nodes`` and ``first`` (as of searches), ``index``, ``documents`` (lines of
    JSON). A document that a replica failed to take counts as an error.

    :raises esrally.exceptions.RallyAssertionError: when it is forbidden; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        index, documents = params["index"], params["documents"]
        keep_to(es, params["first"], params["nodes"])
        if len(documents) > 1:
            counts = await send_bulk(es, index, with_actions(documents), len(documents))
            errors, what = counts.errors, counts.problem()
        else:
            with entitled():
                response = await once(es).perform_request(
                    method="POST",
                    path=f"/{index}/_doc?filter_path=_shards",
                    headers={"content-type": "application/json", "accept": "application/json"},
                    body=documents[0],
                )
            errors, what = min(1, response.body["_shards"]["failed"]), "a replica failed"
        return {
            "weight": len(documents),
            "unit": "docs",
            **{key: params[key] for key in ("cell", "pass")},
            "success-count": len(documents) - errors,
            **outcome([what] if errors else [], "bulk"),
            "error-count": errors,
        }


class Arrivals:
    """Scheduler of requests at a rate: they are due at random, independent of each other and of their answers (a
    Poisson process of each client), and at the same times in each race of a seed. In passes up to 0, which warm up,
    each client sends as soon as it is answered: code is compiled by how often it runs.

    Mandatory keys of the operation: ``cell``, ``pass``, ``rate`` (searches or documents a second, of all clients).
    """

    def __init__(self, task: Any):
        self.parameter_source: Any = None  # Rally sets that of the client where there is such an attribute
        self._operation, self._clients = task.operation.params, task.clients
        values = self._operation["parameters"]
        self._at_once = values["capacity_bulk_size"] if task.operation.type == INDEX else 1
        self._seed = values["seed"]

    @cached_property
    def _draws(self) -> random.Random:
        key = (self._operation[name] for name in ("cell", "pass"))
        return random.Random(repr((self._seed, *key, self.parameter_source.client)))

    def before_request(self, now: float) -> None:
        pass

    def after_request(self, now: float, weight: int, unit: str, request_meta_data: dict[str, Any]) -> None:
        pass

    def next(self, current: float) -> float:
        if self._operation["pass"] < 1:
            return current
        return current + self._draws.expovariate(self._operation["rate"] / self._clients / self._at_once)


class QueryParams(CapacityParams):
    """The queries in turn.

    Mandatory keys: ``cell``, ``index`` (place in the grid); track parameter: ``count_all_hits``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, params, **kwargs)
        self._texts: list[str] = []

    @cached_property
    def _queries(self) -> Iterator[str]:
        """Each client begins at a place of its own. The first to ask makes them for all in its process, which would
        stand still for each of them, and clients begin one after the other."""
        if not self._texts:
            self._texts += self._prepared.corpus.queries(QUERIES)
        texts = self._texts
        first = self.client * QUERIES // self.clients
        return itertools.cycle(texts[first:] + texts[:first])

    def params(self) -> dict[str, Any]:
        body: dict[str, Any] = {"query": {"match": {FIELDS[0]: next(self._queries)}}}
        if self.values["count_all_hits"]:
            body["track_total_hits"] = True
        path = f"/{index_of(self.operation['index'])}/_search?filter_path=took,timed_out,_shards,hits.total"
        return self.operation | {"path": path, "body": body}


class DocumentParams(CapacityParams):
    """The documents in turn, each client those of a stretch of its own, again and again.

    Mandatory keys: ``cell``, ``index`` (place in the grid); track parameter: ``capacity_bulk_size`` (1 for a request
    per document).
    """

    def params(self) -> dict[str, Any]:
        documents = list(itertools.islice(self._lines, self.values["capacity_bulk_size"]))
        return self.operation | {"index": index_of(self.operation["index"]), "documents": documents}

    @cached_property
    def _lines(self) -> Iterator[bytes]:
        file = self._prepared.file()
        size = os.path.getsize(file)
        first, last = (size * client // self.clients for client in (self.client, self.client + 1))
        with open(file, "rb") as f:
            while True:
                f.seek(max(0, first - 1))
                if first:
                    f.readline()  # the rest of a line that begins in the stretch before
                if f.tell() >= last:
                    f.seek(0)  # a stretch without the start of a line: more clients than documents
                while f.tell() < last:
                    yield f.readline()
