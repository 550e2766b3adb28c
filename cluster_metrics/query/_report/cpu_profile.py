"""Explains a cpu-profile race: where the target's CPU time goes, method by method, and what two ways differ in."""

from collections.abc import Iterator

from _tools.report import answer as answers
from _tools.report import cpu, sampling_cost, stability
from _tools.report.answer import Finding, RaceWarning
from _tools.report.race import Race
from _tools.report.sampled import Profiling, sampled
from _tools.report.section import Section
from _tools.report.table import Table
from cluster_metrics.query._report import server, three_ways
from cluster_metrics.query._report.components import SEARCHES
from cluster_metrics.query.cpu_profile import PLAIN, SAMPLED

HOW = Profiling(
    round="cpu-profile",
    sampled=SAMPLED,
    plain=PLAIN,
    design="Each round asks the same coverages in a block with the sampler and in a block without",
    components=SEARCHES,
    what="coverage",
    per="coverage",
    shown=("D_td-serial", "D_td-msearch", "D_hdr-serial", "D_hdr-msearch"),
    other="D_hdr-serial",
    spares="HDR spares",
    pairs=(
        ("D_td-serial", "D_hdr-serial"),
        ("D_td-msearch", "D_hdr-msearch"),
        ("D_td-serial", "D_td-msearch"),
        ("D_td-serial", "D_td-serial+cached"),
        ("D_td-msearch", "D_td-msearch+cached"),
        ("D_td-serial", "D_td-serial+high-accuracy"),
    ),
)


def warnings(race: Race) -> Iterator[RaceWarning]:
    """What is missing of the profile comes first."""
    yield from cpu.warnings(race, HOW)
    yield from stability.warnings(race)


def answer(race: Race) -> Iterator[Finding]:
    """What the production query spends its CPU time in, what HDR spares, and what sampling costs."""
    yield from cpu.findings(race, HOW)
    if race.of(PLAIN):
        yield answers.checked(race, len(race.of(PLAIN)), "coverage")


def sections(race: Race) -> list[Section]:
    """The sections of the report; without samples those on times alone."""
    parts, found = cpu.problems(race, HOW), sampled(race, HOW)
    if found:
        parts += [*cpu.sections(race, found), *three_ways.sections(race, found), cpu.sums(found)]
    return [
        *parts,
        *sampling_cost.sections(race, HOW),
        *server.sections(race, "cpu-profile"),
        *stability.sections(race),
    ]


def sheets(race: Race) -> list[Table]:
    """Components and methods of every configuration, a row each."""
    return cpu.sheets(race, HOW)


def files(race: Race) -> Iterator[tuple[str, str]]:
    """The page of flame graphs, and the stacks for other viewers."""
    yield from cpu.files(race, HOW)
