"""Where the target's CPU time goes, method by method, and what two configurations differ in: the part of a report that
is about a race's samples of CPU time."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import flames, plots, sampling_cost, timelines
from .answer import Finding, RaceWarning, times_as_fast
from .components import UNNAMED
from .race import Race
from .sampled import Profiling, Sampled, missing, sampled
from .section import Figure, Section
from .stacks import LEAST_SHARE, Differences
from .stats import Estimate, Samples, mean
from .table import Column, Table, Words, share
from .text import count, interval, number, percent
from .verdicts import Verdict

TOP, TOP_OF_PAIR = 10, 8
FIVE = 5
COMPILED = 0.05
"""Share of the compiler in a configuration's CPU time from which it is named as still being compiled."""
ADDS_UP = 0.1
"""By how much samples and the target's CPU time may differ."""
MOST_UNNAMED = 0.05
STRETCH = 10
"""Seconds of a point of the time line."""
FLAMES = "flames.html"


def warnings(race: Race, how: Profiling) -> Iterator[RaceWarning]:
    """What is missing of the profile comes first."""
    for problem in missing(race, how):
        yield RaceWarning("no profile", problem, "times without the sampler hold all the same")
    found = sampled(race, how)
    if not found:
        return
    if still := {n: s for n, s in found.compiling().items() if s > COMPILED}:
        named = ", ".join(f"{name} {percent(s)}" for name, s in still.items())
        yield RaceWarning(
            "compiled", f"still being compiled while measured ({named} of its CPU time)", "raise warmup_iterations"
        )
    if (off := _unnamed(found)) > MOST_UNNAMED:
        yield RaceWarning(
            "unnamed", f"{percent(off)} of {found.base}'s CPU time has no component", f"see {FLAMES}", "", off
        )
    for name, ratio in _ratios(found).items():
        if abs(ratio.value - 1) > ADDS_UP:
            yield RaceWarning(
                "sum",
                f"samples of {name} add up to {percent(ratio.value)} of the target's CPU time",
                "read shares, not ms, there",
                value=ratio.value,
            )


def findings(race: Race, how: Profiling) -> Iterator[Finding]:
    """What the configuration that is asked about spends its CPU time in, what the other spares, and what sampling
    costs."""
    found = sampled(race, how)
    if found and found.base == how.shown[0]:
        base, whole = found.base, mean(found.whole[found.base])
        yield Finding(
            "CPU time", f"{base}: {number(whole.value)} ms {interval(whole)} of the target a {how.per}", {"ms": whole}
        )
        parts = {name: mean(found.share(base, name)) for name in how.components.names}
        top = sorted(parts, key=lambda name: -parts[name].value)[:3]
        text = "; ".join(f"{name} {percent(parts[name].value)} {interval(parts[name], percent)}" for name in top)
        yield Finding("parts", text, {name: parts[name] for name in top})
        frames, by_round = found.methods
        level = by_round[base].mean(axis=0) / whole.value
        names = [f"{_short(frames.names[i][-1])} {percent(level[i])}" for i in np.argsort(-level)[:FIVE]]
        yield Finding("methods", "; ".join(names))
        if found.other and len(found.rounds) >= race.record.compared.enough:
            off = found.differences(by_round, base, found.other)
            order = [i for i in np.argsort(off.value) if off.shown[i] and off.value[i] < 0][:3]
            spared = "; ".join(f"{_short(frames.names[i][-1])} {number(-off.value[i])} ms" for i in order)
            yield Finding(how.spares, spared or "no method that is shown")
    if cost := sampling_cost.cost(race, how, "wall_ms"):
        yield Finding("the sampler", f"a {how.what} takes {times_as_fast(cost)} as long with it", {"ratio": cost})


def problems(race: Race, how: Profiling) -> list[Section]:
    """What is missing of the profile, as a section that stands before all others."""
    told = [f"- **Warning:** {problem}.\n" for problem in missing(race, how)]
    return [Section("What is missing of the profile", ["".join(told)])] if told else []


def sections(race: Race, found: Sampled) -> list[Section]:
    """Components, methods, and the differences of pairs."""
    enough = race.record.compared.enough
    return [_components(found), _methods(found, enough), *_pairs(found, enough)]


def sheets(race: Race, how: Profiling) -> list[Table]:
    """Components and methods of every configuration, a row each."""
    found = sampled(race, how)
    if not found:
        return []
    frames, by_round = found.methods
    rows = {
        "components": [
            {"configuration": name, "component": part, "cpu_ms": float(by[:, i].mean()), "half_ms": _half(by[:, i])}
            for name, by in found.by_component.items()
            for i, part in enumerate(how.components.names)
        ],
        "methods": [
            {"configuration": name, "method": method[-1], "cpu_ms": float(by[:, i].mean()), "half_ms": _half(by[:, i])}
            for name, by in by_round.items()
            for i, method in enumerate(frames.names)
        ],
    }
    what = {"components": "component", "methods": "method"}
    return [
        Table(
            f"es_profile_cpu_{key}.csv",
            [Column(k, k) for k in ("configuration", what[key], "cpu_ms", "half_ms")],
            rows[key],
        )
        for key in rows
    ]


def files(race: Race, how: Profiling) -> Iterator[tuple[str, str]]:
    """The page of flame graphs, and the stacks for other viewers."""
    found = sampled(race, how)
    if not found:
        return
    frames, by_round = found.paths
    pairs = {pair: found.differences(by_round, *pair) for pair in flames.pairs_of(found.names)}
    start = (found.other, found.base) if found.other else (found.names[0], "")
    title = f"CPU time of race {race.id}"
    yield FLAMES, flames.page(title, how.per, frames, by_round, pairs, start, found.folder / flames.D3)
    by_stack = {
        name: np.asarray(counted.mean(axis=0)).ravel() * found.period_ms(name)
        for name, counted in found.counted.items()
    }
    yield "cpu.speedscope.json", flames.speedscope(title, found.profile, by_stack)
    for name, ms in by_stack.items():
        yield f"cpu-{name}.collapsed.txt", flames.collapsed(found.profile, ms)


def _half(values: Samples) -> float:
    return float(flames.half_of(values[:, None])[0])


def _short(method: str) -> str:
    """A method of Java with its class alone, without the package and what the class is in."""
    *package, found, name = ("", *method.rsplit(".", 2))
    if not any(package) or ".so." in method:
        return method
    inner = found.rpartition("$")[2]
    return f"{inner if inner.isidentifier() else found}.{name}"


def _components(found: Sampled) -> Section:
    how, names, base = found.how, found.how.components.names, found.base
    shown = [name for name in how.shown if name in found.names] or list(found.names)[:4]
    rows: list[dict[str, Any]] = []
    for i, part in enumerate(names):
        if any(found.by_component[name][:, i].any() for name in shown):
            rows.append({"component": part} | {name: mean(found.by_component[name][:, i]) for name in shown})
    rows.append({"component": "all samples"} | {name: mean(found.whole[name]) for name in shown})
    columns = [Words("component", "component"), *(Column(name, name, "ms") for name in shown)]
    text = (
        f"CPU time of the target per {how.per}, by what was asked while it ran: means over "
        f"{count(len(found.rounds), 'round')} with 95 % intervals. A sample belongs to the first of its frames, "
        "from the innermost outwards, that a table of packages and classes names, so what the "
        f"runtime does counts with who asked for it. Of {base}, {percent(_unnamed(found))} is unnamed. "
        "All configurations are in `es_profile_cpu_components.csv`."
    )
    parts = [
        plots.Part(part, ms, float(found.share(base, part).mean()))
        for part, ms in zip(names, map(mean, found.by_component[base].T))
        if ms.value > 0
    ]
    caption = f"CPU time of {base}, per {how.per}."
    figure = Figure(plots.parts(parts, plots.Part(base, mean(found.whole[base]), 1.0)), caption)
    return Section("Where the target's CPU time goes", [text, Table("components", columns, rows), figure])


def _methods(found: Sampled, enough: int) -> Section:
    frames, by_round = found.methods
    base, other = found.base, found.other
    order = np.argsort(-by_round[base].mean(axis=0))[:TOP]
    off = found.differences(by_round, base, other) if other else None
    rows = []
    for i in order:
        ms = mean(by_round[base][:, i])
        row = {"method": frames.names[i][-1], "ms": ms, "share": ms.value / found.whole[base].mean()}
        if off:
            row |= {"other": float(off.other[i]), "off": _difference(off, i), "verdict": _verdict(off, i, enough)}
        rows.append(row)
    columns = [Words("method", "method"), Column("ms", base, "ms"), share("share", "share")]
    if off:
        columns += [Column("other", other, "ms"), Column("off", "difference", "ms"), Words("verdict", "verdict")]
    text = (
        f"CPU time that passes in the methods themselves, without those that they call, per {found.how.per} of {base}. "
        "Inlined methods count by themselves; compiler and garbage collector are left out. All are in "
        f"`es_profile_cpu_methods.csv`, and with their callers in `{FLAMES}`."
    )
    return Section(f"The methods of {base}", [text, Table("methods", columns, rows)])


def _pairs(found: Sampled, enough: int) -> list[Section]:
    frames, by_round = found.methods
    blocks: list[str | Table] = [
        "Methods whose own CPU time differs most, the other less the first: mean over rounds with Student's interval "
        f"of the differences within rounds. Methods that take, on either side, {percent(LEAST_SHARE)} or more of the "
        "CPU time of the greater side are compared; *different* is what Benjamini and Hochberg's procedure keeps among "
        "all of them, at most 5 % of it by chance. The differences of any two configurations, caller by caller, are on "
        f"the page `{FLAMES}`.\n"
    ]
    for base, other in found.how.pairs:
        if base not in found.names or other not in found.names:
            continue
        off = found.differences(by_round, base, other)
        order = [i for i in np.argsort(-np.abs(off.value)) if off.compared[i]][:TOP_OF_PAIR]
        rows = [
            {
                "method": frames.names[i][-1],
                "base": float(off.base[i]),
                "other": float(off.other[i]),
                "off": _difference(off, i),
                "verdict": _verdict(off, i, enough),
            }
            for i in order
        ]
        columns = [Words("method", f"{base} → {other}"), Column("base", "first", "ms"), Column("other", "other", "ms")]
        columns += [Column("off", "difference", "ms"), Words("verdict", "verdict")]
        sides = [mean(found.whole[name]) for name in (base, other)]
        told = f"{int(off.shown.sum())} of {int(off.compared.sum())} methods are different"
        blocks.append(
            f"**{base} → {other}:** {number(sides[0].value)} → {number(sides[1].value)} ms of CPU time; "
            f"{told if off.n >= enough else 'too few rounds to judge methods'}.\n"
        )
        blocks.append(Table(f"difference {base} {other}", columns, rows))
    return [Section("What differs", blocks)] if len(blocks) > 1 else []


def _difference(off: Differences, i: int) -> Estimate:
    value, half = float(off.value[i]), float(off.half[i])
    return Estimate(off.n, value, value - half, value + half, float("nan"), max(1, off.n - 1))


def _verdict(off: Differences, i: int, enough: int) -> str:
    if off.n < enough:
        return Verdict.NOT_ENOUGH.value
    if not off.compared[i]:
        return "not compared"
    return "different" if off.shown[i] else Verdict.NOT_SHOWN.value


def _unnamed(found: Sampled) -> float:
    return float(np.mean(found.share(found.base, UNNAMED)))


def _ratios(found: Sampled) -> dict[str, Estimate]:
    """Samples over the target's CPU time, by configuration."""
    known = {name: found.cpu_ms(name) for name in found.names}
    return {
        name: _mean_ratio(cpu, found.whole[name])
        for name, cpu in known.items()
        if len(cpu) and np.isfinite(cpu).all() and cpu.all()
    }


def _mean_ratio(base: Samples, other: Samples) -> Estimate:
    """The ratio of two means over rounds, its interval by linearisation."""
    ratio = float(other.mean() / base.mean())
    return mean(ratio + (other - ratio * base) / base.mean())


def sums(found: Sampled) -> Section:
    ratios, compiling, collecting = _ratios(found), found.compiling(), found.collecting()
    rows = [
        {
            "configuration": name,
            "ms": mean(found.whole[name]),
            "cpu": float(np.mean(found.cpu_ms(name))) if name in ratios else None,
            "ratio": ratios.get(name),
            "compiler": compiling[name],
            "gc": collecting[name],
        }
        for name in found.names
    ]
    columns = [
        Words("configuration", "configuration"),
        Column("ms", "samples", "ms"),
        Column("cpu", "target CPU", "ms"),
    ]
    columns += [share("ratio", "samples / CPU"), share("compiler", "compiler"), share("gc", "garbage collector")]
    text = (
        f"{len(found.profile.at):,} samples, each for {found.profile.period_ms:.1f} ms of CPU time (the gap between "
        "samples of a thread that runs without a pause), against the CPU time of the target's processes over the same "
        "time by their own clocks. Compiler and garbage collector are in both."
    )
    caption = (
        f"Compiler and garbage collector as shares of all samples, by {STRETCH} s from the first on, warm-up included. "
        "A configuration measured while the compiler still works is not what it will be."
    )
    figure = Figure(timelines.drawn(found.over_time(STRETCH), "share of the CPU time", "s after the first"), caption)
    return Section("Whether the samples add up", [text, Table("sum", columns, rows), figure])
