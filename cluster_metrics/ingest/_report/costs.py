"""What encoding and parsing cost the clients of ingest-decomp a row, each with the bare loop that it is."""

from collections.abc import Iterator

from _tools.report.cells import Cells
from _tools.report.costs import PER_ROW, Cost, Loop
from _tools.report.race import Race
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.steps import NAIVE, NATIVE, STEP_NAMES, Client, clients

ROWS = Client().bulk_size
"""Of the requests that the loops are measured with."""


def encoding(client: Client) -> Loop:
    """The loop that encodes as a client does."""
    if client.sliced:
        return Loop("encode slices")
    return Loop(f"encode {client.dumps}{', constant action' if client.constant_action else ''}")


def parsing(client: Client) -> Loop:
    """The loop that parses a response as a client does."""
    return Loop(f"decode {'filtered' if client.filter_path else 'full'}, json")


def costs(race: Race) -> list[Cost]:
    """The costs of the configurations with one client and requests of 1,000 rows: each loop once, where it is first
    used."""
    found: dict[Loop, Cost] = {}
    for cost in _costs(race):
        found.setdefault(cost.loops[0], cost)
    return list(found.values())


def _costs(race: Race) -> Iterator[Cost]:
    cells = Cells(race.of(SAMPLE))
    design = race.parameters.get("design", "cumulative")
    told = "orjson" in race.parameters.get("ingest_steps", STEP_NAMES)  # else its package may have been there
    for cell, client in clients(design, cells.has("orjson"), timestamps=True).items():
        if cells.has(cell) and client.clients == 1 and client.bulk_size == ROWS:
            if told or client.sliced or cell == NAIVE:
                yield _cost(cells, "encode_ms", f"encoding, {cell}", cell, encoding(client))
            yield _cost(cells, "parse_ms", f"parsing, {cell}", cell, parsing(client))
    if cells.has(NATIVE):
        yield _cost(cells, "parse_ms", f"parsing, {NATIVE}", NATIVE, Loop("decode full, Rally's partial parser"))


def _cost(cells: Cells, key: str, name: str, cell: str, loop: Loop) -> Cost:
    each = cells.one(lambda meta: 1e6 * meta[key] / meta["rows"], cell)
    return Cost(name, each, [loop], PER_ROW)
