"""Explains a query-decomp race: where the time of the production query goes, and what each change buys."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability, timelines
from _tools.report.answer import Finding, RaceWarning, times_as_fast
from _tools.report.cells import Cells, cells_of
from _tools.report.gains import Gain, over_base, summed
from _tools.report.race import Race, Sample
from _tools.report.references import PROFILING, beside
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate, Samples, mean, median, ratio
from _tools.report.table import Column, Table, Words, share, times
from _tools.report.text import count, error_text, interval, number, percent
from cluster_metrics.query._report import attribution, server
from cluster_metrics.query._report import costs as bare
from cluster_metrics.query._report.agreement import EQUIVALENT, MOST_PASSES, agreement, summary
from cluster_metrics.query._report.attribution import share_of
from cluster_metrics.query.configurations import VARIANTS, change_of
from cluster_metrics.query.query_decomp import PART
from cluster_metrics.wire import coverage
from cluster_metrics.wire.questions import PRODUCTION, TRANSPORTS

HEADLINE = "query-cell"
WHOLE = PRODUCTION.by("serial").name
TOGETHER = "geometric mean"
DRIFT_BOUND = 0.05
"""Greatest difference of the production cell between first and last pass that passes the drift check."""
TOOK = {name: variant.reference.get("took_ms") for name, variant in VARIANTS.items()}


@dataclass(frozen=True)
class Component:
    """A part of the production query, a difference of serial cells; their means over rounds, so that they add up.

    :param name: in a figure; with the difference behind it in a table.
    :param formula: of the values of ``variants``.
    """

    name: str
    difference: str
    variants: tuple[str, ...]
    formula: Callable[..., Samples]

    def of(self, cells: Cells, key: str, among: Sequence[str] = ()) -> Estimate:
        """A figure of it, over the rounds that its cells have and those of ``among``."""
        return mean(self.formula(*cells.values(key, *self.cells, *among)[: len(self.cells)]))

    def share(self, cells: Cells, among: Sequence[str] = (), key: str = "wall_ms") -> Estimate:
        """Of the production query's wall time, or another figure; see :meth:`of`."""
        whole, *values = cells.values(key, WHOLE, *self.cells, *among)
        return share_of(self.formula(*values[: len(self.cells)]), whole)

    @property
    def cells(self) -> list[str]:
        return [VARIANTS[v].by("serial").name for v in self.variants]

    @property
    def reference(self) -> float | None:
        """``took`` in ms, as PROFILING has it."""
        took = [TOOK[variant] for variant in self.variants]
        return float(self.formula(*took)) if all(took) else None  # type: ignore[arg-type]


COMPONENTS = (
    Component("filter, framework, client", "A", ("A",), lambda a: a),
    Component("3 sums", "B − A", ("A", "B"), lambda a, b: b - a),
    Component("3 percentiles, t-digest", "C_td − A", ("A", "C_td"), lambda a, c: c - a),
    Component(
        "unexplained",
        "D_td − B − C_td + A",
        ("D_td", "A", "B", "C_td"),
        lambda d, a, b, c: d - b - c + a,
    ),
)
"""What the production query consists of; the last is what the others leave."""
WHOLE_PART = Component("whole: production", PRODUCTION.name, (PRODUCTION.name,), lambda d: d)
INSTEAD = Component("instead: 3 percentiles, HDR", "C_hdr − A", ("A", "C_hdr"), lambda a, c: c - a)
CHANGED = {
    "by msearch": (PRODUCTION.by("msearch"), 8.8),
    "HDR, serial": (VARIANTS["D_hdr"].by("serial"), 1323 / 845),
    "by msearch and HDR": (VARIANTS["D_hdr"].by("msearch"), 13.1),
}
"""What is changed of production: configuration and speed-up in PROFILING, by its text."""
SUMMARY = "throughput of a configuration counts searches, latency a coverage: all searches of one epoch"


costs = bare.costs
"""What ``make explain`` holds against bare loops."""


def coverages(race: Race) -> list[Sample]:
    """All coverages of variants: those of headline cells and those of the plan."""
    return race.of(HEADLINE) + race.of(coverage.TYPE)


def answer(race: Race) -> Iterator[Finding]:
    """The greatest part of the production query, what each change buys, and the change to take."""
    cells = cells_of(race, coverage.TYPE)
    greatest = None
    if fit := attribution.fitted(_with_parts(race)):
        greatest = fit.percentiles.name, fit.percentiles.share, fit.whole.ms
    elif cells.has(WHOLE, *(cell for component in COMPONENTS for cell in component.cells)):
        shares = {component.name: component.share(cells) for component in COMPONENTS[:-1]}
        greatest = *max(shares.items(), key=lambda item: item[1].value), cells.one("wall_ms", WHOLE)
    if greatest:
        name, part, wall = greatest
        text = f"{percent(part.value)} {interval(part, percent)} of {number(wall.value)} ms a coverage"
        yield Finding(name, text, {"share": part, "wall_ms": wall})
    if changes := changed_in(cells):
        gains = {text: cells.ratio("wall_ms", cell, WHOLE) for text, cell in changes.items()}
        told = answers.joined((text, times_as_fast(gain)) for text, gain in gains.items())
        yield Finding("times as fast", told, gains)
        yield _recommended(race, cells, changes)
    if found := coverages(race):
        yield answers.checked(race, sum(s.meta.get("searches", 1) for s in found), "search")


def _unsteady(race: Race) -> set[str]:
    """The configurations that get no verdict as they were not steady after the warm-up; none in test mode, in which
    no warm-up is long enough for any to be, and no figure means anything."""
    return set() if answers.in_test_mode(race) else server.unsteady(race)


def _recommended(race: Race, cells: Cells, changes: dict[str, str]) -> Finding:
    """The fastest of the changes that are shown to be faster than production, with its errors."""
    unsteady = _unsteady(race)
    steady = {t: c for t, c in changes.items() if not unsteady & {WHOLE, c}}
    if not steady:
        return Finding("recommended", "nothing: what is compared was not steady after the warm-up")
    ratios = {text: cells.ratio("wall_ms", WHOLE, cell) for text, cell in steady.items()}
    shown = {text: steady[text] for text, slower in ratios.items() if answers.is_shown(race, slower)}
    if not shown:
        return answers.undecided(race, max(slower.n for slower in ratios.values()))
    text, cell = min(shown.items(), key=lambda item: cells.one("wall_ms", item[1]).value)
    wall = cells.one("wall_ms", cell)
    own, base = (_greatest_error(cells, c) for c in (cell, WHOLE))
    errors = f"p50 and p90 off by at most {error_text(own)} (production {error_text(base)})"
    return Finding("recommended", f"{text}: {number(wall.value)} ms a coverage; {errors}", {"wall_ms": wall})


def warnings(race: Race) -> list[RaceWarning]:
    """What speaks against its figures."""
    found = stability.warnings(race, drift_check(race))
    if unsteady := _unsteady(race):
        seen = f"{count(len(unsteady), 'configuration')} not steady after the warm-up, hence without a verdict"
        option = "raise warmup_rounds, or look for what else runs"
        found.insert(0, RaceWarning("not-steady", seen, option, ", ".join(sorted(unsteady)), len(unsteady)))
    return found


def sections(race: Race) -> list[Section]:
    """The sections of the report; those whose cells the race left out are left out."""
    cells = cells_of(race, coverage.TYPE)
    return [
        *_variants(race, cells),
        *attribution.sections(_with_parts(race), server.unsteady(race)),
        *_attribution(cells),
        *_transports(cells),
        *_changes(cells),
        *_agreement(race, cells),
        *_accuracy(race),
        *_cpu(race),
        *server.sections(race, "query-plan"),
        *stability.sections(race, check=drift_check(race)),
    ]


def changes(race: Race) -> Iterator[Gain]:
    """What each change to the production query gains and costs, of configurations that were steady."""
    cells, cpu, unsteady = cells_of(race, coverage.TYPE), _cpu_ms(race), _unsteady(race)
    for text, cell in changed_in(cells).items():
        if unsteady & {WHOLE, cell}:
            continue
        found = over_base(cells, WHOLE, cell, client_cpu="client_ms", bytes=summed("request_bytes", "response_bytes"))
        if WHOLE in cpu and cell in cpu:
            found["target_cpu"] = ratio(np.array(cpu[WHOLE]), np.array(cpu[cell]))
        found |= {"error_before": _greatest_error(cells, WHOLE), "error": _greatest_error(cells, cell)}
        yield Gain(change_of(CHANGED[text][0], text), WHOLE, cells.ratio("wall_ms", cell, WHOLE), found)


def changed_in(cells: Cells) -> dict[str, str]:
    """The changes that a race has beside production: of each the cell, by its text."""
    return {text: of.name for text, (of, _) in CHANGED.items() if cells.has(WHOLE, of.name)}


def _greatest_error(cells: Cells, cell: str) -> float:
    return max(s.meta["max_percentile_error"] for s in cells.samples(cell).values())


def _with_parts(race: Race) -> Cells:
    """The plan with the cells that serve the fit alone."""
    return Cells(race.of(coverage.TYPE) + race.of(PART))


def reference(race: Race) -> list[str | Table]:
    """The costs of the production query, and what changes bought, with 8 cores."""
    cells, whole = cells_of(race, coverage.TYPE), TOOK[PRODUCTION.name]
    serial = {name: variant.by("serial").name for name, variant in VARIANTS.items() if TOOK[name]}
    took = [(name, cells.one("took_ms", cell), TOOK[name]) for name, cell in serial.items() if cells.has(cell)]
    shares = [
        (component.name, component.share(cells, key="took_ms"), component.reference / whole)
        for component in COMPONENTS
        if whole and component.reference and cells.has(WHOLE, *component.cells)
    ]
    changes = changed_in(cells).items()
    gains = [(text, cells.ratio("wall_ms", cell, WHOLE), CHANGED[text][1]) for text, cell in changes]
    blocks: list[str | Table] = [
        f"{PROFILING.cited} There the production query differed by 2.1 % between two runs.",
    ]
    for text, table in (
        ("`took` of a coverage:", beside("reference took", took, "ms")),
        ("Shares of the production query's `took`:", beside("reference shares", shares, form=percent)),
        ("Times as fast as production, by wall time:", beside("reference changes", gains)),
    ):
        blocks += [text, table] if table.rows else []
    return blocks


def by_pass(race: Race, key: str) -> dict[str, dict[int, list[float]]]:
    """A figure of the headline cells, by cell and pass; of the samples that have it."""
    found: dict[str, dict[int, list[float]]] = {}
    for sample in race.of(HEADLINE):
        if key in sample.meta:
            found.setdefault(sample.cell, {}).setdefault(sample.meta["pass"], []).append(float(sample.meta[key]))
    return found


def _levels(cells: Cells, cell: str, passes: dict[int, list[float]]) -> Samples:
    """The median wall times of a cell in its passes, and in the rounds of the plan that follow each; in all of its
    rounds where those of the plan follow the last pass, as in older races.

    :param passes: its wall times by pass.
    :return: two rows; a column for each pass that rounds follow.
    """
    rounds = [(s.meta.get("pass"), float(s.meta["wall_ms"])) for s in cells.samples(cell).values()]
    plan = {number: [ms for of, ms in rounds if of in (number, None)] for number in passes}
    return np.array([(np.median(passes[number]), np.median(of)) for number, of in plan.items() if of]).T


def headline(race: Race, cell: str, key: str) -> Estimate | None:
    """The median over passes of a headline cell's median in each, as samples of one pass share what disturbs it; None
    when the race has none."""
    passes = by_pass(race, key).get(cell)
    return median(np.array([np.median(of) for of in passes.values()])) if passes else None


def _variants(race: Race, cells: Cells) -> list[Section]:
    serial = {name: variant.by("serial").name for name, variant in VARIANTS.items()}
    took = {name: cells.one("took_ms", cell) for name, cell in serial.items() if cells.has(cell)}

    def in_passes(name: str) -> str | None:
        found = headline(race, serial[name], "took_ms")
        return f"{number(found.value)} ({found.n})" if found else None

    columns = [
        Words("variant", "configuration", of=str),
        Words("aggregations", "aggregations", of=lambda name: VARIANTS[name].text),
        Column("n", "n", of=lambda name: took[name].n),
        Column("took_ms", "took", "ms", of=took.get),
        share("cv", "CV", of=lambda name: took[name].cv),
        Column("headline", "headline cells (passes)", of=in_passes),
    ]
    text = (
        "Time that Elasticsearch reports (`took`) per coverage, summed over its serial searches: median over the "
        "rounds of the plan with its 95 % interval."
    )
    return [Section("Time by configuration", [text, Table.of("variants", columns, took)])] if took else []


def _attribution(cells: Cells) -> list[Section]:
    names = [WHOLE, *(cell for component in COMPONENTS for cell in component.cells)]
    if not cells.has(*names):
        return []
    instead = [INSTEAD] if cells.has(*INSTEAD.cells) else []
    shares = {c.name: c.share(cells, names) for c in COMPONENTS} | {WHOLE_PART.name: 1.0}

    def figure(c: Component, key: str) -> Estimate:
        return c.of(cells, key, () if c is INSTEAD else names)

    columns = [
        Words("component", "component", of=lambda c: f"{c.name} ({c.difference})"),
        Column("wall_ms", "wall", "ms", of=lambda c: figure(c, "wall_ms")),
        share("share", "share", of=lambda c: shares.get(c.name)),
        Column("took_ms", "took", "ms", of=lambda c: figure(c, "took_ms").value),
    ]
    text = (
        "Differences of serial coverages, which need not tell the parts apart as the fit above does: means over rounds "
        "with their 95 % intervals. A stops at 10,000 documents of each search; what a configuration spends beyond "
        "counts with its aggregations. Shares are of wall time at the client. `took` stands beside: Elasticsearch cuts "
        "it to whole milliseconds per search, so 30 searches may lose up to 30 ms of a coverage."
    )
    components = [*COMPONENTS, WHOLE_PART, *instead]
    return [Section("By subtraction", [text, Table.of("attribution", columns, components)])]


def _transports(cells: Cells) -> list[Section]:
    rows, walls = [], {}
    for name, variant in VARIANTS.items():
        serial, msearch = (variant.by(transport).name for transport in TRANSPORTS)
        if cells.has(serial, msearch):
            saved = cells.of(lambda s, m: 1 - m / s, "wall_ms", serial, msearch)
            walls[name] = {t: cells.one("wall_ms", variant.by(t).name) for t in TRANSPORTS}
            row = {"variant": name, "n": saved.n, "saved": saved} | walls[name]
            rows.append(row | {"parallelism": cells.one("parallelism", msearch).value})
    if not rows:
        return []
    columns = [
        Words("variant", "configuration"),
        *(Column(transport, transport, "ms") for transport in TRANSPORTS),
        Column("n", "n"),
        share("saved", "saved"),
        Column("parallelism", "parallelism"),
    ]
    text = (
        "Wall time of a coverage at the client. Parallelism is `took` summed over the searches of an msearch, over its "
        "wall time; it counts waiting for a core, too."
    )
    caption = "Wall time of a coverage by transport: median over the rounds of the plan and its 95 % interval."
    figure = Figure(plots.cells(walls, "wall ms"), caption)
    return [Section("Serial against msearch", [text, Table("transports", columns, rows), figure])]


def _changes(cells: Cells) -> list[Section]:
    changes = changed_in(cells)
    if not changes:
        return []
    shown = [("production", WHOLE), *changes.items()]
    columns = [
        Words("configuration", "configuration", of=lambda item: "{} ({})".format(*item)),
        Column("wall_ms", "wall", "ms", of=lambda item: median(cells.values("wall_ms", item[1], WHOLE)[0]).value),
        Column("n", "n", of=lambda item: len(cells.rounds(item[1], WHOLE))),
        times("speedup", "speed-up", of=lambda item: cells.ratio("wall_ms", item[1], WHOLE)),
    ]
    text = (
        "Speed-ups are medians over rounds of the ratio within each round, the times beside them medians over the same "
        "rounds: a ratio of medians need not be their quotient."
    )
    return [Section("What each change buys", [text, Table.of("changes", columns, shown)])]


def _agreement(race: Race, cells: Cells) -> list[Section]:
    passes, not_steady = by_pass(race, "wall_ms"), server.unsteady(race)
    of = {cell: _levels(cells, cell, passes[cell]) for cell in sorted(passes) if cells.has(cell)}
    levels = {cell: levels for cell, levels in of.items() if levels.size}
    found = {
        cell: agreement(headline / plan, cell not in not_steady, len(levels))
        for cell, (headline, plan) in levels.items()
    }
    rows = []
    for cell, one in found.items():
        headline_ms, plan_ms = np.exp(np.mean(np.log(levels[cell]), axis=1))
        row = {"cell": cell, "n": one.ratio.n, "headline": headline_ms, "plan": plan_ms}
        row |= {"ratio": one.ratio, "verdict": one.verdict}
        rows.append(row | ({"decided_by": _passes(one.decided_by)} if one.decided_by else {}))
    if len({each.shape for each in levels.values()}) == 1 < len(levels):
        logs = np.log([headline / plan for headline, plan in levels.values()])
        together = agreement(np.exp(logs.mean(axis=0)), not not_steady)
        rows.append({"cell": TOGETHER, "n": together.ratio.n, "ratio": together.ratio, "verdict": together.verdict})
    if not rows:
        return []
    columns = [Words("cell", "configuration"), Column("n", "passes"), Column("headline", "headline", "ms")]
    columns += [Column("plan", "plan", "ms"), Column("ratio", "ratio", form=lambda x: f"{x:.2f}")]
    columns += [Words("verdict", "verdict"), Column("decided_by", "passes to decide")]
    text = (
        f"{summary(found)} The ratio is that of a pass to the rounds of the plan that follow it, with its 95 % "
        f"interval over passes: equivalent when all of it lies within {percent(EQUIVALENT)}, different when it does "
        "not hold 1 even if widened for so many cells (Bonferroni), else not shown. Rally idles a second or two "
        "before each headline cell, the plan about a second after each round. Times are geometric means over passes."
    )
    raced = {s.meta["transport"] for s in coverages(race)}
    figures = [_over_time(race, transport) for transport in TRANSPORTS if transport in raced]
    return [Section("Headline cells against the plan", [text, Table("agreement", columns, rows), *figures])]


def _over_time(race: Race, transport: str) -> Figure:
    of = [s for s in coverages(race) if s.meta["transport"] == transport]
    shown = {name: found for name in VARIANTS if (found := [s for s in of if s.meta["variant"] == name])}
    return timelines.over_time(shown, "wall_ms", "wall ms", f" ({transport})")


def _passes(number: float) -> str:
    return f"more than {MOST_PASSES}" if math.isnan(number) else f"{number:.0f}"


def _accuracy(race: Race) -> list[Section]:
    rows = []
    for name, variant in VARIANTS.items():
        errors = [s.meta["max_percentile_error"] for s in coverages(race) if s.meta["variant"] == name]
        if errors and variant.algorithm:
            rows.append({"variant": name, "n": len(errors), "error": max(errors)})
    columns = [Words("variant", "configuration"), Column("n", "coverages checked")]
    columns += [Column("error", "greatest error", form=error_text)]
    text = "Greatest relative error of p50 and p90 against the exact answers, over all nodes, fields and epochs."
    return [Section("Accuracy of the percentiles", [text, Table("accuracy", columns, rows)])] if rows else []


def _cpu_ms(race: Race) -> dict[str, list[float]]:
    """CPU time of the target per coverage, by headline cell, one for each of its passes; without cells that lost
    coverages, whose CPU time was counted all the same."""
    walls = by_pass(race, "wall_ms")
    return {
        cell: [ms / len(walls[cell][number_of]) for number_of, found in passes.items() for ms in found]
        for cell, passes in by_pass(race, "target_cpu_ms").items()
        if not race.failed.get(cell)
    }


def _cpu(race: Race) -> list[Section]:
    found = _cpu_ms(race)
    text = (
        "CPU time of the target's nodes per coverage, over each pass of a headline cell. It includes what the nodes do "
        "besides, up to a second of idling per pass. Cells that lost coverages are left out, since theirs counts, too."
    )
    columns = [
        Words("cell", "configuration", of=str),
        Column("n", "passes", of=lambda cell: len(found[cell])),
        Column("cpu_ms", "CPU", "ms", of=lambda cell: float(np.median(found[cell]))),
    ]
    return [Section("Target CPU", [text, Table.of("cpu", columns, sorted(found))])] if found else []


def drift_check(race: Race) -> stability.Check:
    """Holds the production query of the first pass against that of the last."""
    passes = by_pass(race, "wall_ms").get(WHOLE, {})
    if len(passes) < 2:
        return ""
    first, last = np.array(passes[min(passes)]), np.array(passes[max(passes)])
    found = ratio(first, last)
    text = (
        f"{WHOLE} took {number(float(np.median(last)))} ms in the last pass, "
        f"{number(float(np.median(first)))} ms in the first: {stability.signed(found.value - 1)}, ratio "
        f"{found.value:.3f} {interval(found, lambda x: f'{x:.3f}')} of {found.n} samples a pass"
    )
    bound = f"the bound is ±{percent(DRIFT_BOUND)}"
    if abs(found.value - 1) <= DRIFT_BOUND:
        return f"drift check: {text}; {bound}"
    advice = "raise warmup_iterations, and compare within the plan alone"
    return RaceWarning("drift", f"drift between passes: {text}", advice, bound, found.value - 1)
