"""Explains a query-decomp race: where the time of the production query goes, and what each change buys."""

from collections.abc import Callable, Iterable

import numpy as np

from . import plots, runs, stability, timelines
from .cells import COVERAGE, Plan
from .race import Race, Sample
from .section import Figure, Section, Sheet
from .stats import Estimate, Samples, median
from .text import error_text, interval, number, percent, started, table, with_interval

SEED_TOOK_MS = {"A": 19, "B": 192, "C_td": 1070, "C_hdr": 597, "D_td": 1199, "D_hdr": 712}
"""Seed 000, table 4.2: averages of 15 samples on 8 cores."""
SEED_SERIAL_MS = {"A": 135, "B": 310, "C_td": 1193, "C_hdr": 730, "D_td": 1323, "D_hdr": 845}
SEED_MSEARCH_MS = {"A": 13, "B": 33, "C_td": 138, "C_hdr": 86, "D_td": 150, "D_hdr": 101}
"""Seed 000, table 4.3."""
INCLUDED = {
    "A": "none (filter only)",
    "B": "3 sums",
    "C_td": "3 percentiles, t-digest",
    "C_hdr": "3 percentiles, HDR",
    "D_td": "3 sums, 3 percentiles t-digest (production)",
    "D_hdr": "3 sums, 3 percentiles HDR",
}
TRANSPORTS = ("serial", "msearch")
PLAN = Plan("coverage", COVERAGE, "D_td-serial")
AGREEMENT = 0.05
"""Headline cells and the plan agree when their medians differ by no more than this, or their intervals overlap."""


COLUMNS = (
    "pass",
    "round",
    "variant",
    "transport",
    "epoch",
    "searches",
    "took_ms",
    "wall_ms",
    "parallelism",
    "client_ms",
    "request_bytes",
    "response_bytes",
    "docs_matched",
    "segments",
    "max_percentile_error",
    "target_cpu_ms",
)
"""Columns of ``es_profile_decomp.csv`` after its source (``cell`` or ``plan``) and start (UTC): the metadata."""
COMPONENTS: tuple[tuple[str, Callable[..., Samples], tuple[str, ...], float | None], ...] = (
    ("filter, framework, client (A)", lambda d, a: a, ("A",), 19),
    ("3 sums (B − A)", lambda d, a, b: b - a, ("A", "B"), 173),
    ("3 percentiles, t-digest (C_td − A)", lambda d, a, c: c - a, ("A", "C_td"), 1051),
    ("unexplained (D_td − B − C_td + A)", lambda d, a, b, c: d - b - c + a, ("A", "B", "C_td"), None),
)
"""What the production query consists of: text, formula of serial cells, the variants it takes after D_td, seed's ms."""


class Rounds:
    """The plan's samples, paired by round.

    :param samples: of one race; those of the plan are used.
    """

    def __init__(self, samples: Iterable[Sample]):
        self._by_cell: dict[str, dict[int, Sample]] = {}
        for sample in samples:
            if sample.kind == "coverage":
                self._by_cell.setdefault(sample.cell, {})[sample.meta["round"]] = sample

    def has(self, *cells: str) -> bool:
        return all(cell in self._by_cell for cell in cells)

    def of(self, formula: Callable[..., Samples], key: str, *cells: str) -> Estimate:
        """The median over rounds of a formula of the cells' values, each round by itself.

        :param formula: takes one array per cell, aligned by round.
        :param key: which metadata to use, e.g. ``took_ms``.
        """
        common = sorted(set.intersection(*(set(self._by_cell[c]) for c in cells)))
        values = [np.array([float(self._by_cell[c][r].meta[key]) for r in common]) for c in cells]
        return median(formula(*values))

    def one(self, key: str, cell: str) -> Estimate:
        return self.of(lambda x: x, key, cell)


def headline(race: Race, cell: str, key: str) -> Estimate | None:
    """The median over all samples of a headline cell; None when the race has none."""
    values = [float(s.meta[key]) for s in race.of("query-cell") if s.cell == cell]
    return median(np.array(values)) if values else None


def coverages(race: Race) -> list[Sample]:
    """All coverages: those of headline cells and those of the plan."""
    return race.of("query-cell") + race.of("coverage")


def sections(race: Race) -> list[Section]:
    """The sections of the report; those whose cells the race left out are left out."""
    rounds = Rounds(race.samples)
    parts = {
        "Time by variant": _variants(race, rounds),
        "Where the production query's time goes": _attribution(rounds),
        "Serial against msearch": _transports(rounds),
        "What each change buys": _combined(rounds),
        "Headline cells against the plan": _agreement(race, rounds),
        "Accuracy of the percentiles": _accuracy(race),
        "Target CPU": _cpu(race),
        "How far to trust this": stability.text(race, PLAN),
    }
    figures: dict[str, Callable[[], list[Figure]]] = {
        "Where the production query's time goes": lambda: _attribution_figure(rounds),
        "Serial against msearch": lambda: _transports_figure(rounds),
        "Headline cells against the plan": lambda: _samples_figure(race),
    }
    return [Section(title, text, figures.get(title, list)()) for title, text in parts.items() if text]


def sheets(race: Race) -> list[Sheet]:
    """The samples as a CSV file."""
    columns = ("source", "started", *COLUMNS)
    sources = {"query-cell": "cell", "coverage": "plan"}
    rows = [s.meta | {"source": sources[s.kind], "started": started(s)} for s in coverages(race)]
    return [Sheet("es_profile_decomp.csv", columns, rows)]


def _variants(race: Race, rounds: Rounds) -> str:
    rows = []
    for variant, included in INCLUDED.items():
        if not rounds.has(f"{variant}-serial"):
            continue
        took = rounds.one("took_ms", f"{variant}-serial")
        cells = headline(race, f"{variant}-serial", "took_ms")
        rows.append(
            [
                variant,
                included,
                took.n,
                number(took.value),
                interval(took),
                percent(took.cv),
                f"{number(cells.value)} ({cells.n})" if cells else "–",
                SEED_TOOK_MS[variant],
            ]
        )
    if not rows:
        return ""
    head = ["variant", "aggregations", "n", "took ms", "95 % interval", "CV", "headline cells (n)", "seed"]
    return (
        "Time that Elasticsearch reports (`took`) per coverage, summed over its serial searches: median over the "
        "rounds of the plan.\n\n" + table(head, rows)
    )


def _attribution(rounds: Rounds) -> str:
    if not rounds.has(*(f"{v}-serial" for v in ("A", "B", "C_td", "D_td"))):
        return ""
    rows = []
    for text, formula, variants, seed in COMPONENTS:
        cells = [f"{v}-serial" for v in ("D_td", *variants)]
        wall, took = (rounds.of(formula, key, *cells) for key in ("wall_ms", "took_ms"))
        share = rounds.of(lambda d, *x, f=formula: f(d, *x) / d, "wall_ms", *cells)
        rows.append(
            [text, number(wall.value), interval(wall), percent(share.value), interval(share, percent)]
            + [number(took.value), number(seed) if seed else "–", percent(seed / SEED_TOOK_MS["D_td"]) if seed else "–"]
        )
    wall, took = (rounds.one(key, "D_td-serial") for key in ("wall_ms", "took_ms"))
    rows.append(["whole: production (D_td)", number(wall.value), interval(wall), "100 %", "", number(took.value)])
    rows[-1] += [number(SEED_TOOK_MS["D_td"]), "100 %"]
    if rounds.has("C_hdr-serial"):
        wall, took = (rounds.of(lambda a, c: c - a, k, "A-serial", "C_hdr-serial") for k in ("wall_ms", "took_ms"))
        text = "instead: 3 percentiles, HDR (C_hdr − A)"
        rows.append([text, number(wall.value), interval(wall), "", "", number(took.value), "578", ""])
    head = ["component", "wall ms", "95 % interval", "share", "95 % interval", "took ms", "seed took ms", "seed share"]
    return (
        "Serial coverages, subtracted within each round, then the median over rounds. Shares are of the production "
        "query's wall time at the client. `took` stands beside: Elasticsearch cuts it to whole milliseconds per "
        "search, so 30 searches may lose up to 30 ms of a coverage, and a search below 1 ms counts as 0.\n\n"
        + table(head, rows)
    )


def _attribution_figure(rounds: Rounds) -> list[Figure]:
    parts = []
    for text, formula, variants, _ in COMPONENTS:
        cells = [f"{v}-serial" for v in ("D_td", *variants)]
        ms = rounds.of(formula, "wall_ms", *cells).value
        share = rounds.of(lambda d, *x, f=formula: f(d, *x) / d, "wall_ms", *cells).value
        parts.append(plots.Part(text.split(" (")[0], ms, share))
    whole = plots.Part("production query (D_td)", rounds.one("wall_ms", "D_td-serial").value, 1.0)
    caption = (
        "Parts of the production query's wall time, serial. Each is a median of its own, so they need not add up to "
        "the whole to the last digit."
    )
    return [Figure(plots.stack(parts, whole), caption)]


def _transports_figure(rounds: Rounds) -> list[Figure]:
    names = [v for v in INCLUDED if rounds.has(f"{v}-serial", f"{v}-msearch")]
    walls = {v: {t: rounds.one("wall_ms", f"{v}-{t}") for t in TRANSPORTS} for v in names}
    caption = "Wall time of a coverage by transport: median over the rounds of the plan and its 95 % interval."
    return [Figure(plots.cells(walls, "wall ms"), caption)]


def _samples_figure(race: Race) -> list[Figure]:
    traces, spans = runs.timeline(coverages(race), TRANSPORTS, list(INCLUDED))
    return [Figure(timelines.timeline(traces, spans, "wall ms"), runs.CAPTION)]


def _transports(rounds: Rounds) -> str:
    rows = []
    for variant in INCLUDED:
        cells = (f"{variant}-serial", f"{variant}-msearch")
        if not rounds.has(*cells):
            continue
        serial, msearch = (rounds.one("wall_ms", cell) for cell in cells)
        saved = rounds.of(lambda s, m: 1 - m / s, "wall_ms", *cells)
        parallel = rounds.one("parallelism", cells[1])
        seed = 1 - SEED_MSEARCH_MS[variant] / SEED_SERIAL_MS[variant]
        rows.append(
            [
                variant,
                with_interval(serial),
                with_interval(msearch),
                saved.n,
                percent(saved.value),
                interval(saved, percent),
                number(parallel.value),
                percent(seed),
            ]
        )
    if not rows:
        return ""
    head = ["variant", "serial ms", "msearch ms", "n", "saved", "95 % interval", "parallelism", "seed saved"]
    return (
        "Wall time of a coverage at the client. Parallelism is `took` summed over the searches of an msearch, over its "
        "wall time; it counts waiting for a core, too.\n\n" + table(head, rows)
    )


def _combined(rounds: Rounds) -> str:
    steps = [("production", "D_td-serial", 1.0), ("by msearch", "D_td-msearch", 8.8)]
    steps += [("HDR, serial", "D_hdr-serial", 1323 / 845), ("by msearch and HDR", "D_hdr-msearch", 13.1)]
    steps = [s for s in steps if rounds.has("D_td-serial", s[1])]
    if len(steps) < 2:
        return ""
    rows = []
    for text, cell, seed in steps:
        wall = rounds.one("wall_ms", cell)
        speedup = rounds.of(lambda base, x: base / x, "wall_ms", "D_td-serial", cell)
        rows.append(
            [
                f"{text} ({cell})",
                number(wall.value),
                speedup.n,
                f"{number(speedup.value)} ×",
                interval(speedup),
                f"{number(seed)} ×",
            ]
        )
    head = ["configuration", "wall ms", "n", "speed-up", "95 % interval", "seed"]
    return table(head, rows)


def _agreement(race: Race, rounds: Rounds) -> str:
    rows, apart = [], []
    for cell in sorted({s.cell for s in race.of("query-cell")}):
        cells = headline(race, cell, "wall_ms")
        if not cells or not rounds.has(cell):
            continue
        plan = rounds.one("wall_ms", cell)
        ratio = cells.value / plan.value
        agrees = abs(ratio - 1) <= AGREEMENT or (cells.low <= plan.high and plan.low <= cells.high)
        if not agrees:
            apart.append(cell)
        rows.append([cell, number(cells.value), number(plan.value), f"{ratio:.2f}", "yes" if agrees else "no"])
    if not rows:
        return ""
    verdict = (
        f"The headline cells and the plan agree in all {len(rows)} cells."
        if not apart
        else f"The headline cells and the plan differ in {len(apart)} of {len(rows)} cells: {', '.join(apart)}."
    )
    head = ["cell", "headline ms", "plan ms", "ratio", "agrees"]
    return (
        f"{verdict} They agree when their median wall times differ by at most {percent(AGREEMENT)} or their intervals "
        "overlap. Rally idles about six seconds before each headline cell, the plan runs without a pause; compare "
        "within one of the two.\n\n" + table(head, rows)
    )


def _accuracy(race: Race) -> str:
    rows = []
    for variant in ("C_td", "C_hdr", "D_td", "D_hdr"):
        errors = [s.meta["max_percentile_error"] for s in coverages(race) if s.meta["variant"] == variant]
        if errors:
            rows.append([variant, len(errors), error_text(max(errors))])
    if not rows:
        return ""
    return (
        "Greatest relative error of p50 and p90 against the exact answers, over all nodes, fields and epochs.\n\n"
        + table(["variant", "coverages checked", "greatest error"], rows)
    )


def _cpu(race: Race) -> str:
    cells: dict[str, list[float]] = {}
    for sample in race.of("query-cell"):
        if "target_cpu_ms" in sample.meta:
            key = (sample.cell, sample.meta["pass"])
            in_pass = [s for s in race.of("query-cell") if (s.cell, s.meta["pass"]) == key]
            cells.setdefault(sample.cell, []).append(sample.meta["target_cpu_ms"] / len(in_pass))
    rows = [[cell, len(v), number(float(np.median(v)))] for cell, v in sorted(cells.items())]
    if not rows:
        return ""
    text = "CPU time of the target's nodes per coverage, over each pass of a headline cell. "
    text += "It includes what the nodes do besides, up to a second of idling per pass.\n\n"
    return text + table(["cell", "passes", "CPU ms"], rows)
