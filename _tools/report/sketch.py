"""Explains a sketch-floor race: how far Elasticsearch is above the floor, and which step makes how much of it."""

import numpy as np

from cluster_metrics.sketch import ASKS, BEST, INGESTS

from . import plots, stability
from .cells import COVERAGE, Plan, Rounds, matrix
from .race import Race
from .section import Figure, Section, Sheet
from .stats import Samples, median, paired_ratio
from .text import interval, number, percent, started, table

FULL, FILTERED, ROWS, FLOOR = "elasticsearch-full", "elasticsearch-filtered", "sketch-rows", "sketch-columns"
ROWS_ITEMS, FLOOR_ITEMS, FLOOR_BEST = "sketch-rows-items", "sketch-columns-items", "sketch-best"
PLAN = Plan(
    "ingested-rows",
    {
        "wall_ms": "encoding, sending, waiting and decoding for the rows of a round, ms",
        "client_cpu_ms": "CPU time of the client for them, ms",
        "took_ms": "`took` for them, ms",
    },
    FULL,
)
SEED = {"floor": "about 10", "wire": "10 to 20", "response": "5 to 10", "work": "15 to 20", "whole": "76.9"}
"""Seed 000, section 3, on 8 cores: ms per 1,000 rows, of which only the first and the last were measured."""
BASE = "D_td-serial"
QUESTIONS = {
    BASE: "Elasticsearch, a search per node (production)",
    "D_td-msearch": "Elasticsearch, one msearch",
    **{name: f"sketch server, {text}" for name, text in ASKS.items()},
}
COLUMNS = (
    "round",
    "rows",
    "requests",
    "retries",
    "bytes_out",
    "bytes_in",
    "wall_ms",
    "encode_ms",
    "send_ms",
    "parse_ms",
    "client_cpu_ms",
    "took_ms",
    "index_ms",
    "refresh_ms",
    "merge_ms",
    "flush_ms",
    "settle_ms",
)
"""Columns of ``es_profile_sketch_floor.csv`` after the start (UTC) and the way: the metadata of each sample."""
By = dict[str, Rounds]


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without a round in which every way succeeded."""
    by, parts = PLAN.cells(race), []
    if set(INGESTS) <= set(by) and matrix(by, list(INGESTS), "rows").size:
        parts = [
            Section("From the floor to Elasticsearch", _gap(by), [_figure(by)]),
            Section("The steps measured elsewhere", _elsewhere(by)),
            Section("Elasticsearch at its best", _best(by)),
            Section("Every way to hand in the rows", _ways(by)),
        ]
    answered = Plan("coverage", COVERAGE, BASE).cells(race)
    if set(QUESTIONS) <= set(answered) and matrix(answered, list(QUESTIONS), "wall_ms").size:
        parts.append(Section("The production question", _questions(answered)))
    if trust := stability.text(race, PLAN):
        parts.append(Section("How far to trust this", trust))
    return parts


def sheets(race: Race) -> list[Sheet]:
    """The samples as a CSV file."""
    rows = [s.meta | {"started": started(s), "way": s.cell} for s in race.of("ingested-rows")]
    return [Sheet("es_profile_sketch_floor.csv", ("started", "way", *COLUMNS), rows)]


def per_thousand(by: By, way: str, key: str = "wall_ms") -> Samples:
    """A way's figure per 1,000 rows, by round, of the rounds that all ways have."""
    common = sorted(set.intersection(*(set(by[name]) for name in INGESTS)))
    return np.array([1000 * by[way][r].meta[key] / by[way][r].meta["rows"] for r in common])


def steps(by: By) -> list[tuple[str, str, Samples]]:
    """The steps from the floor to Elasticsearch as the seed's client uses it.

    :return: of each its name, its key in ``SEED`` (or none) and its ms per 1,000 rows by round. In each round those
        with a key add up to the last, and the three after the per-document work to that.
    """

    def of(way: str, key: str = "wall_ms") -> Samples:
        return per_thousand(by, way, key)

    work = of(FILTERED) - of(ROWS)
    return [
        (f"floor: the sketch server ({FLOOR})", "floor", of(FLOOR)),
        (f"wire format ({ROWS} − {FLOOR})", "wire", of(ROWS) - of(FLOOR)),
        ("… of it the client's encoding", "", of(ROWS, "encode_ms") - of(FLOOR, "encode_ms")),
        (f"response ({FULL} − {FILTERED})", "response", of(FULL) - of(FILTERED)),
        ("… of it the client's decoding", "", of(FULL, "parse_ms") - of(FILTERED, "parse_ms")),
        (f"per-document work ({FILTERED} − {ROWS})", "work", work),
        ("… of it indexing, by the index's statistics", "", of(FILTERED, "index_ms")),
        ("… of it the rest of took", "", of(FILTERED, "took_ms") - of(FILTERED, "index_ms")),
        ("… of it unexplained", "", work - of(FILTERED, "took_ms")),
        (f"whole: Elasticsearch ({FULL})", "whole", of(FULL)),
    ]


def _gap(by: By) -> str:
    found = steps(by)
    whole, floor = found[-1][2], found[0][2]
    rows = []
    for text, key, values in found:
        ms = median(values)
        row = [text, number(ms.value), interval(ms), "", "", SEED.get(key, "–")]
        if key not in ("floor", "whole"):
            share = median(values / (whole - floor))
            row[3:5] = [percent(share.value), interval(share, percent)]
        rows.append(row)
    gap, ratio = median(whole - floor), paired_ratio(floor, whole)
    head = ["step", "ms", "95 % interval", "share of the gap", "95 % interval", "seed ms"]
    return (
        f"1,000 rows take Elasticsearch {number(gap.value)} ms {interval(gap)} more than the sketch server, "
        f"{number(ratio.value)} times as long {interval(ratio)}, from clients that write JSON as the seed's do, on "
        "connections kept open. ms per 1,000 rows, which is s per million, from encoding to decoding the response; "
        f"{gap.n} rounds, each difference formed within its round.\n\n"
        + table(head, rows)
        + "\nFloor, wire format, response and per-document work add up to the whole in each round, but their medians "
        "only nearly. Indexing and `took` are what Elasticsearch itself reports; the unexplained rest holds its HTTP "
        "side and Rally's client, less the sketch server's own work. Refreshes and merges that run beside the requests "
        "are in it only as far as they slow them down. The seed measured floor and whole and estimated the rest, so a "
        "part of its gap stays unexplained.\n"
    )


def _figure(by: By) -> Figure:
    found = {text.split(" (")[0].removeprefix("… of it "): values for text, _, values in steps(by)}
    shown = ["floor: the sketch server", "wire format", "response", "indexing, by the index's statistics"]
    shown += ["the rest of took", "unexplained"]
    whole = found["whole: Elasticsearch"]
    parts = [
        plots.Part(name.split(",")[0].split(": ")[-1], median(found[name]).value, median(found[name] / whole).value)
        for name in shown
    ]
    caption = (
        "From the floor to Elasticsearch, ms per 1,000 rows; shares are of the whole. Each is a median of its own."
    )
    return Figure(plots.stack(parts, plots.Part("Elasticsearch", median(whole).value, 1.0)), caption)


def _elsewhere(by: By) -> str:
    rows = []
    for step, more, less in (
        ("wire format", ROWS, FLOOR),
        ("wire format, with an entry per row back", ROWS_ITEMS, FLOOR_ITEMS),
        ("response, on Elasticsearch", FULL, FILTERED),
        ("response, on the sketch server from rows", ROWS_ITEMS, ROWS),
        ("response, on the sketch server from columns", FLOOR_ITEMS, FLOOR),
        ("per-document work", FILTERED, ROWS),
        ("per-document work, with an entry per row back", FULL, ROWS_ITEMS),
    ):
        ms = median(per_thousand(by, more) - per_thousand(by, less))
        rows.append([step, f"{more} − {less}", number(ms.value), interval(ms)])
    return (
        "Each step can be taken at more than one place. As far as these differ, the size of the step depends on what "
        "surrounds it, and so on the order in which steps are taken.\n\n"
        + table(["step", "measured as", "ms per 1,000 rows", "95 % interval"], rows)
    )


def _best(by: By) -> str:
    rows = []
    for text, slow, fast in (
        ("Elasticsearch: best against whole response", FULL, BEST),
        ("Elasticsearch: best against filtered response", FILTERED, BEST),
        ("sketch server: best against columnar", FLOOR, FLOOR_BEST),
        ("sketch server against Elasticsearch", FULL, FLOOR),
        ("sketch server against Elasticsearch, both at their best", BEST, FLOOR_BEST),
    ):
        ratio = paired_ratio(per_thousand(by, fast), per_thousand(by, slow))
        rows.append([text, f"{slow} / {fast}", f"{number(ratio.value)} ×", interval(ratio)])
    return table(["what is faster", "measured as", "times as fast", "95 % interval"], rows)


def _ways(by: By) -> str:
    speeds, parts = [], []
    for name, ingest in INGESTS.items():
        wall = median(per_thousand(by, name))
        speeds.append([name, ingest.text, wall.n, number(1e6 / wall.value), number(wall.value), interval(wall)])
        row = [name]
        for key in ("encode_ms", "send_ms", "parse_ms", "client_cpu_ms", "took_ms", "settle_ms"):
            has = ingest.elasticsearch or key not in ("took_ms", "settle_ms")
            row.append(number(median(per_thousand(by, name, key)).value) if has else "–")
        row += [number(median(per_thousand(by, name, key)).value / 1000) for key in ("bytes_out", "bytes_in")]
        parts.append(row)
    head = ["way", "encode ms", "send and wait ms", "decode ms", "client CPU ms", "took ms", "afterwards ms"]
    return (
        "Medians over rounds, times per 1,000 rows, bytes per row. Wall is encoding, sending with waiting, and "
        "decoding the response.\n\n"
        + table(["way", "what it is", "n", "rows/s", "wall ms", "95 % interval"], speeds)
        + "\nAfterwards is a refresh and waiting for merges to end, outside wall.\n\n"
        + table([*head, "bytes out", "bytes in"], parts)
    )


def _questions(by: By) -> str:
    walls = dict(zip(QUESTIONS, matrix(by, list(QUESTIONS), "wall_ms")))
    rows = []
    for name, values in walls.items():
        wall, faster = median(values), paired_ratio(values, walls[BASE])
        error = max(s.meta["max_percentile_error"] for s in by[name].values())
        row = [name, QUESTIONS[name], wall.n, number(wall.value), interval(wall)]
        rows.append([*row, f"{number(faster.value)} ×", interval(faster), f"{100 * error:.2g} %"])
    head = ["way", "what it is", "n", "wall ms", "95 % interval", "times as fast", "95 % interval", "greatest error"]
    return (
        f"Count, sum and percentiles of every node in one epoch; times as fast as {BASE}, within each round. The "
        "error is the greatest relative one of p50 and p90, over all nodes, fields and rounds. Counts were exact, sums "
        "to 1e-6, p0 and p100 to a 32-bit float.\n\n" + table(head, rows)
    )
