"""How far to trust a race: what its samples say against it, and what to do."""

import math

import numpy as np

from .cells import Plan, Rounds, matrix, values
from .race import Race
from .stats import ENOUGH, Samples, cv, drift, outliers, ratio
from .text import interval, number, percent, table

STEADY_CV = 0.05
"""CV up to which 20 rounds find a slow-down of 10 % in 95 of 100 cases, within a race or between races that differ by
no more than their rounds show; see ``make bench-statistics``."""
MOST_ROUNDS = 200
"""Most rounds that a warning advises."""
DRIFT_LEVEL = 0.05
"""A drift over rounds is reported when its p is below this: in one steady race of 20."""
DRIFT_BOUND = 0.05
"""Greatest difference of the production cell between first and last pass that passes the drift check."""
SEED_DRIFT = 0.021
"""Seed 000, section 2: the production query in its run against an earlier one."""
MOST_NAMED = 6
"""Most cells that a warning names."""
CLIENT_BOUND = 0.2
"""Share of the wall time that the client may use itself."""


def text(race: Race, plan: Plan) -> str:
    """Warnings, the drift check and a table of the spread by cell, as Markdown; empty for a race without a plan."""
    rounds = plan.cells(race)
    if not rounds:
        return ""
    checks = [drift_of_rounds(rounds, plan), drift_check(race, plan.base)]
    drifting = checks[0][1]
    warnings = [*_few(rounds, plan), *_noisy(rounds, plan, drifting), *_outlying(rounds, plan), *_client(race)]
    warnings += [found for found, drifted in checks if drifted]
    lines = [f"- **Warning:** {line}\n" for line in warnings] or ["- No warnings.\n"]
    lines += [f"- {found}\n" for found, drifted in checks if found and not drifted]
    return "".join(lines) + "\n" + _spread(rounds, plan)


def drift_check(race: Race, production: str) -> tuple[str, bool]:
    """Holds the production query of the first pass against that of the last, as seed 000 did with two runs.

    :param production: the headline cell of the production query.

    :return: what it found, empty without two passes of that cell; and whether that is over the bound.
    """
    passes: dict[int, list[float]] = {}
    for sample in race.of("query-cell"):
        if sample.cell == production and "pass" in sample.meta:
            passes.setdefault(sample.meta["pass"], []).append(float(sample.meta["wall_ms"]))
    if len(passes) < 2:
        return "", False
    first, last = np.array(passes[min(passes)]), np.array(passes[max(passes)])
    found = ratio(first, last)
    found_text = (
        f"drift check: {production} took {number(float(np.median(last)))} ms in the last pass, "
        f"{number(float(np.median(first)))} ms in the first: {_signed(found.value - 1)}, ratio {found.value:.3f} "
        f"{interval(found, lambda x: f'{x:.3f}')} of {found.n} samples a pass; the bound is "
        f"±{percent(DRIFT_BOUND)}, seed 000 had {percent(SEED_DRIFT)}"
    )
    drifted = abs(found.value - 1) > DRIFT_BOUND
    return found_text + ("; raise warmup_iterations, and compare within the plan alone" if drifted else ""), drifted


def rounds_needed(spread: float) -> int:
    """Rounds at which a race of this CV knows its medians as well as 20 rounds of the steady CV do; 0 for no CV."""
    return 0 if math.isnan(spread) else math.ceil(ENOUGH * (spread / STEADY_CV) ** 2)


def _few(rounds: dict[str, Rounds], plan: Plan) -> list[str]:
    least = min(map(len, rounds.values()))
    if least >= ENOUGH:
        return []
    return [f"{least} rounds are too few for a verdict; race with {plan.rounds}:{ENOUGH} or more"]


def _noisy(rounds: dict[str, Rounds], plan: Plan, drifting: bool) -> list[str]:
    samples = {cell: values(found, plan.judged) for cell, found in rounds.items()}
    noisy = {cell: cv(s) for cell, s in samples.items() if rounds_needed(cv(s)) > max(len(s), ENOUGH)}
    if not noisy:
        return []
    worst = max(noisy, key=lambda cell: noisy[cell])
    advice = "close what else runs on the machine, or race each side 5 times under a tag of its own"
    if plan.base in noisy and not drifting:  # more rounds of a drift are no steadier
        wanted = math.ceil(rounds_needed(noisy[plan.base]) / 10) * 10
        if wanted <= MOST_ROUNDS:
            advice += f", or race longer: {plan.rounds}:{wanted} would do for {plan.base} ({percent(noisy[plan.base])})"
    return [
        f"noisy: two races like this may miss a change of 10 % in {len(noisy)} of {len(rounds)} cells, most in {worst} "
        f"(the rounds' CV is {percent(noisy[worst])}); {advice}"
    ]


def drift_of_rounds(rounds: dict[str, Rounds], plan: Plan) -> tuple[str, bool]:
    """Whether the cells together rise or fall from round to round.

    :return: what it found, empty for fewer than 3 rounds that all cells have; and whether it is more than chance.
    """
    levels = _levels(rounds, plan)
    if len(levels) < 3:
        return "", False
    found = drift(levels)
    test = f"Spearman's test over {len(levels)} rounds, p = {found.p:.2g}"
    if found.p >= DRIFT_LEVEL:
        return (
            f"no drift: the cells together do not rise or fall from round to round more than by chance ({test})",
            False,
        )
    return (
        f"drift: the cells together change by {_signed(found.change)} from the first round to the last ({test}); "
        "ratios and shares are taken within rounds and hold, absolute times do not; raise warmup_iterations until this "
        "goes"
    ), True


def _levels(rounds: dict[str, Rounds], plan: Plan) -> Samples:
    """How slow each round was: geometric mean over cells of its time over the cell's median, so that cells count alike
    and one test serves for all."""
    cells = matrix(rounds, list(rounds), plan.judged)
    if not cells.size:
        return np.array([])
    return np.asarray(np.exp(np.mean(np.log(cells / np.median(cells, axis=1, keepdims=True)), axis=0)))


def _outlying(rounds: dict[str, Rounds], plan: Plan) -> list[str]:
    severe = {}
    for cell, found in rounds.items():
        counts = outliers(values(found, plan.judged))
        if number_severe := counts.low_severe + counts.high_severe:
            severe[cell] = number_severe
    if not severe:
        return []
    cells = ", ".join(f"{cell} {n}" for cell, n in severe.items())
    if len(severe) > MOST_NAMED:
        cells = f"{sum(severe.values())} in {len(severe)} of {len(rounds)} cells"
    return [
        f"severe outliers ({cells}), kept in all figures; medians bear them, but look for what else ran then: other "
        "processes, garbage collection, merges"
    ]


def _client(race: Race) -> list[str]:
    shares: dict[str, list[float]] = {}
    for sample in race.samples:
        if "client_ms" in sample.meta and sample.meta.get("wall_ms"):
            shares.setdefault(sample.cell, []).append(sample.meta["client_ms"] / sample.meta["wall_ms"])
    high = {cell: share for cell, s in shares.items() if (share := float(np.median(s))) > CLIENT_BOUND}
    if not high:
        return []
    cells = ", ".join(f"{cell} {percent(share)}" for cell, share in sorted(high.items()))
    return [
        f"the client is a bottleneck: it used more than {percent(CLIENT_BOUND)} of the wall time itself ({cells}); "
        "run the load driver on a faster or a quieter machine, and read took beside wall time"
    ]


def _spread(rounds: dict[str, Rounds], plan: Plan) -> str:
    rows = []
    for cell, found in rounds.items():
        samples = values(found, plan.judged)
        counts = outliers(samples)
        row = [cell, len(samples), number(float(np.median(samples))), percent(cv(samples)), "–"]
        if cell != plan.base and plan.base in rounds:
            pairs = matrix(rounds, [plan.base, cell], plan.judged)
            row[-1] = percent(cv(pairs[1] / pairs[0])) if pairs.size else "–"
        rows.append([*row, counts.low_severe, counts.low_mild, counts.high_mild, counts.high_severe])
    head = ["cell", "rounds", "median", "CV", "CV of ratio", "low severe", "low mild", "high mild", "high severe"]
    return (
        f"Spread of the plan's rounds, {plan.figures[plan.judged]}. The ratio is that to {plan.base} within each "
        "round; its CV is what counts for ratios within this race, the other for comparisons with other races. "
        "Outliers by Tukey's fences: mild beyond 1.5, severe beyond 3 interquartile ranges outside the quartiles; "
        "counted here, dropped nowhere.\n\n" + table(head, rows)
    )


def _signed(share: float) -> str:
    return percent(share) if share < 0 else f"+{percent(share)}"
