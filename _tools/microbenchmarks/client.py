"""The client's own loops by pyperf: encoding rows as bulk bodies, and decoding what comes back; per row.

Run by ``make micro``; by itself it takes pyperf's arguments.
"""

import io
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson
import pyperf
from esrally.driver import runner as rally

from cluster_metrics.core.machine import machine
from cluster_metrics.corpus.encoded import ACTION, ENCODINGS, JSON, encoded_file, metrics_bodies
from cluster_metrics.corpus.metrics import Metrics, rows
from cluster_metrics.ingest.ingest_decomp import encoder
from cluster_metrics.wire import smile

from ..race.variables import RaceError, shown
from ..report.text import count
from .results import CLIENT_ROWS as ROWS
from .results import MOST_FORKS, Result, keep, of_client

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Metrics(rows_per_epoch=ROWS)
FULL_ITEM = {
    "_index": "cluster-metrics-cell",
    "_version": 1,
    "result": "created",
    "_shards": {"total": 1, "successful": 1, "failed": 0},
    "_primary_term": 1,
    "status": 201,
}
"""What Elasticsearch says of a document, without id and sequence number."""
FILTERED = b'{"errors":false,"took":30}'
"""What is left of a response without errors by ``filter_path``."""
NUMBERED = ("-p", "--processes", "--fast", "--rigorous", "--debug-single-value")
"""Arguments of pyperf that say how many processes there are."""
FIRST, MORE = 8, 4
"""Processes at first, and at a time of what is not known well then."""
KEPT = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Has the C library keep what a call frees for the next. Otherwise each call of some processes, and of others none,
asks the kernel for all of its memory anew, by which orjson took 0.44 or 4 µs a row."""


def full_response() -> bytes:
    """A response to a request of ``ROWS`` documents, as Elasticsearch writes it."""
    items = [{"index": FULL_ITEM | {"_id": f"{n:020d}", "_seq_no": n}} for n in range(ROWS)]
    return json.dumps({"errors": False, "took": 30, "items": items}, separators=(",", ":")).encode()


def loops(folder: Path) -> dict[str, Callable[[], Any]]:
    """What is timed, by name: each call of the rows of one request.

    :param folder: for a file with the bulk body of which slices are taken.
    """
    [block] = rows(CORPUS, 1, JSON)
    decoded = [json.loads(line) for line in block.splitlines()]
    rows_file = folder / "rows.json"
    [body] = rows(CORPUS, 1, ENCODINGS["json"].row_format)
    encoded_file(rows_file, "json").write_bytes(body)
    bodies = metrics_bodies(CORPUS, 1, rows_file)
    full = full_response()

    def columns() -> dict[str, list[Any]]:
        return {name: [row[name] for row in decoded] for name in decoded[0]}

    def by_smile(bits: int) -> bytes:
        return smile.body([smile.encode(item, bits) for row in decoded for item in (ACTION, row)])

    encoding: dict[str, Callable[[], Any]] = {
        "encode json": lambda: json_body(decoded),
        "encode orjson": lambda: orjson_body(decoded),
        "encode orjson, constant action": lambda: constant_body(decoded),
        "encode SMILE 32": lambda: by_smile(32),
        "encode SMILE 64": lambda: by_smile(64),
        "encode columns, json": lambda: json.dumps(columns()).encode(),
        "encode columns, orjson": lambda: orjson.dumps(columns()),
        "encode slices": lambda: bodies.body(0, ROWS),
    }
    json_body, orjson_body, constant_body = encoder("json", False), encoder("orjson", False), encoder("orjson", True)
    decoding: dict[str, Callable[[], Any]] = {
        "decode full, json": lambda: json.loads(full),
        "decode full, orjson": lambda: orjson.loads(full),
        "decode full, Rally's partial parser": lambda: rally.parse(io.BytesIO(full), ["errors", "took"]),
        "decode filtered, json": lambda: json.loads(FILTERED),
    }
    return encoding | decoding


def peak_bytes(way: Callable[[], Any]) -> int:
    """What a call allocates at most, as Python's allocators see it."""
    way()
    tracemalloc.start()
    try:
        way()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def body_bytes(name: str, way: Callable[[], Any]) -> int:
    """The bytes that a way to encode makes, or one to decode reads."""
    if name.startswith("decode"):
        return len(full_response()) if "full" in name else len(FILTERED)
    return len(way())


def measure(path: Path, arguments: Sequence[str] = ()) -> None:
    """Measures all loops, and writes the results with what they were measured on.

    :param path: of the file.
    :param arguments: of pyperf; unless they say how many processes, what is still known badly gets more of them.
    :raises RaceError: when pyperf refuses them, or ends otherwise.
    """
    started, found, part = datetime.now(timezone.utc), machine(), path.with_suffix(".part")
    part.unlink(missing_ok=True)

    def measured(*more: str) -> list[Result]:
        command = [sys.executable, "-m", "_tools.microbenchmarks.client", "--quiet", "--append", str(part)]
        command += [f"--inherit-environ={','.join(KEPT)}", *arguments, *more]
        if code := subprocess.run(command, cwd=ROOT, check=False, env=os.environ | KEPT).returncode:
            raise RaceError(f"pyperf ended with {code}, as it says above")
        if not part.exists():
            raise RaceError(f"ARGS {shown(arguments)} leave no loop of the client to run")
        return list(of_client(json.loads(part.read_text()), {}))

    try:
        numbered = any(argument.startswith(NUMBERED) for argument in arguments)
        results = measured(*([] if numbered else [f"--processes={FIRST}"]))
        while not numbered and (left := [r.loop.benchmark for r in results if not r.known_well(MOST_FORKS)]):
            print(f"{count(len(left), 'loop')} not yet known well", flush=True)
            results = measured(f"--processes={MORE}", f"--only=^({'|'.join(map(re.escape, left))})$")
        about = {
            "started": started.isoformat(timespec="seconds"),
            "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), "orjson": orjson.__version__},
            "machine": found,
            "input": CORPUS.sizes(),
            "arguments": list(arguments),
        }
        keep(path, {"about": about, "pyperf": json.loads(part.read_text())})
    finally:
        part.unlink(missing_ok=True)


def _pass_on(command: list[str], args: Any) -> None:
    command += ["--only", args.only]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = ("-m", "_tools.microbenchmarks.client")
        runner = pyperf.Runner(program_args=program, add_cmdline_args=_pass_on)
        runner.argparser.add_argument("--only", default="", help="regular expression of the loops to run; default all")
        args = runner.parse_args()
        named = {name: way for name, way in loops(Path(folder)).items() if re.search(args.only, name)}
        for number, (name, way) in enumerate(named.items()):
            measured = args.worker and args.worker_task == number
            about = {"peak_bytes": peak_bytes(way), "body_bytes": body_bytes(name, way)} if measured else {}
            runner.bench_func(name, way, inner_loops=ROWS, metadata=about)


if __name__ == "__main__":
    main()
