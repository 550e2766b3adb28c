"""Explains an esql-stored-fields race: what loading text costs by share of the documents, and which setting is best."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cluster_metrics.stored_fields import AS_IS, SETTING
from cluster_metrics.text_values import BLOCKS

from . import plots, stability
from .cells import Plan, Rounds, matrix, values
from .compare import Comparison
from .race import Race
from .section import Figure, Section, Sheet
from .stats import Estimate, crossing, median, paired_ratio, race_ratio, ratio
from .text import interval, number, percent, started, table, with_interval

PLAN = Plan(
    "esql-query", {"wall_ms": "wall time of a query, ms", "took_ms": "took of a query, ms"}, "100%", "esql_rounds"
)
SEED = {
    1000: (403, 401),
    999: (3990, 436),
    990: (4069, 440),
    900: (3468, 421),
    300: (1213, 152),
    200: (766, 104),
    100: (397, 55),
    90: (352, 375),
    80: (304, 317),
    70: (273, 287),
    50: (199, 204),
    10: (46, 46),
}
"""Seed 001: ``took`` in ms before and after the change, by share in permille. Its cut-off was 10 %."""
SHIPPED = 0.2
"""The cut-off that the change was shipped with."""
SWITCHED = 0.5
"""A share says something about the setting when it changes how this part of its pages is read, or more."""
SHARE_AXIS = "share of the documents, %"
COLUMNS = (
    "share_permille",
    "setting",
    "sequential_proportion",
    "round",
    "documents",
    "chars",
    "took_ms",
    "wall_ms",
    "client_ms",
    "documents_found",
    "values_loaded",
    "process_ms",
    "pages_sequential",
    "pages_other",
)
"""Columns of ``es_profile_esql.csv`` after the start (UTC) and ``profiled``: the metadata of each sample."""
ByShare = dict[int, Rounds]


def cells(race: Race, kind: str = PLAN.kind) -> dict[str, ByShare]:
    """The samples by setting, then by share from the greatest, then by round; the target's own setting first, then the
    others from the least."""
    found: dict[str, dict[int, Rounds]] = {}
    for sample in race.of(kind):
        of_setting = found.setdefault(sample.meta["setting"], {})
        of_setting.setdefault(sample.meta["share_permille"], {})[sample.meta["round"]] = sample
    order = sorted(found, key=lambda setting: -1.0 if setting == AS_IS else float(setting))
    return {setting: dict(sorted(found[setting].items(), reverse=True)) for setting in order}


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without samples at the target's own setting."""
    by_setting, profiled = cells(race), cells(race, "esql-profiled")
    if AS_IS not in by_setting:
        return []
    own = by_setting[AS_IS]
    return [
        Section("What loading text costs, by share of the documents", _by_share(race, own, profiled.get(AS_IS, {}))),
        Section("Reading in sequence or not", _settings(race, by_setting, profiled), [_figure(by_setting)]),
        Section("How far to trust this", stability.text(race, PLAN)),
    ]


def compared(found: Comparison) -> list[Section]:
    """What a comparison says besides of its first two sides: the seed's table, with their figures beside it."""
    sides = found.sides[:2]
    own = [[cells(race)[AS_IS] for race in side.races] for side in sides]
    profiles = [cells(side.races[0], "esql-profiled").get(AS_IS, {}) for side in sides]
    rows: list[list[str]] = []
    curves: dict[str, list[tuple[float, Estimate]]] = {side.title: [] for side in sides}
    for share in [s for s in own[0][0] if all(s in by_share for side in own for by_share in side)]:
        took = [[values(by_share[share], "took_ms") for by_share in side] for side in own]
        estimates = [median(np.concatenate(side)) for side in took]
        for curve, estimate in zip(curves.values(), estimates):
            curve.append((share / 10, estimate))
        change = "–"
        if all(np.median(of_race) > 0 for side in took for of_race in side):
            if found.replicated(sides[1]):
                both = race_ratio(*([math.log(np.median(of_race)) for of_race in side] for side in took))
            else:
                both = ratio(took[0][0], took[1][0])
            change = with_interval(both)
        rows.append(
            [
                percent(share / 1000),
                *(with_interval(e) for e in estimates),
                change,
                " → ".join(readers(profile.get(share, {})) for profile in profiles),
                _seed(share),
            ]
        )
    head = ["share", *(f"took ms, {side.title}" for side in sides), "ratio", "in sequence", "seed took ms"]
    text = (
        "`took` at the target's own setting, median over rounds with its 95 % interval; the ratio is that of the "
        "medians, below 1 is faster; between single races its interval knows the noise of their rounds alone, the "
        "verdicts are further below. In sequence: whether stored fields were read so, by the profile. The seed's "
        "figures are of its own machine and documents of one short value.\n\n" + table(head, rows)
    )
    clustered = sides[1].races[0].parameters.get("text_order") == "clustered"
    cut_off = "" if clustered else _cut_off(own[1][0])
    caption = "Time that a query took against the share of the documents whose text it loads; 95 % intervals."
    figure = Figure(plots.lines(curves, SHARE_AXIS, "took ms"), caption)
    return [Section("Before and after, by share", f"{text}\n{cut_off}", [figure])]


def _seed(share: int) -> str:
    return "{:,} → {:,}".format(*SEED[share]) if share in SEED else "–"


def sheets(race: Race) -> list[Sheet]:
    """The samples as a CSV file."""
    rows = [
        s.meta | {"started": started(s), "profiled": kind == "esql-profiled"}
        for kind in (PLAN.kind, "esql-profiled")
        for s in race.of(kind)
    ]
    return [Sheet("es_profile_esql.csv", ("started", "profiled", *COLUMNS), rows)]


def in_sequence(profiled: Rounds) -> float:
    """The part of the pages of a cell whose stored fields were read in sequence, by its profiles; nan without any."""
    sequential = sum(s.meta["pages_sequential"] for s in profiled.values())
    pages = sequential + sum(s.meta["pages_other"] for s in profiled.values())
    return sequential / pages if pages else math.nan


def readers(profiled: Rounds) -> str:
    """How stored fields were read: yes, no, or the part of the pages read in sequence."""
    part = in_sequence(profiled)
    return {0.0: "no", 1.0: "yes"}.get(part, percent(part))


def break_even(low: ByShare, high: ByShare, shares: Sequence[int]) -> Estimate | None:
    """The share from which reading in sequence is faster, 1 being all documents; by interpolation between shares.

    :param low: the samples at a setting at which these shares are read in sequence.
    :param high: those at one at which they are not.
    :param shares: in permille.
    :return: None for fewer than two shares. A bound is 0 or infinite where the shares do not reach far enough.
    """
    sides = [[of[share] for share in sorted(shares)] for of in (low, high)]
    rounds = sorted(set.intersection(*(set(one) for side in sides for one in side))) if len(shares) > 1 else []
    if not rounds:
        return None
    walls = [np.array([[one[r].meta["wall_ms"] for r in rounds] for one in side]) for side in sides]
    return crossing(np.log(np.array(sorted(shares)) / 1000), np.log(walls[1] / walls[0]))


def _by_share(race: Race, own: ByShare, profiled: ByShare) -> str:
    seed = race.parameters.get("text_form") == "value"
    rows = []
    for share, rounds in own.items():
        took, sample = median(values(rounds, "took_ms")), next(iter(rounds.values()))
        row = [percent(share / 1000), f"{sample.meta['documents']:,}", took.n, number(took.value), interval(took)]
        row.append(number(1000 * took.value / sample.meta["documents"]))
        row.append(readers(profiled.get(share, {})))
        if share in profiled:
            loading = median(values(profiled[share], "process_ms"))
            part = median(values(profiled[share], "process_ms") / np.maximum(values(profiled[share], "took_ms"), 1))
            row += [with_interval(loading), f"{percent(part.value)} {interval(part, percent)}"]
        else:
            row += ["–", "–"]
        rows.append([*row, *([_seed(share)] if seed else [])])
    head = ["share", "documents", "n", "took ms", "95 % interval", "µs a document", "in sequence", "loading ms"]
    head += ["of took", *(["seed took ms, before → after"] if seed else [])]
    loaded = [s.meta["values_loaded"] for rounds in own.values() for s in rounds.values() if "values_loaded" in s.meta]
    counted = (
        "Sums, documents found and, in the index, the documents of each share were checked exactly."
        if loaded
        else "Sums and, in the index, the documents of each share were checked exactly; this version does not tell how "
        "many documents a query found."
    )
    order = race.parameters.get("text_order", "")
    form = {"value": "the value itself", "log-line": "a web log line"}.get(race.parameters.get("text_form", ""), "")
    return (
        f"`FROM … | WHERE … | STATS SUM(LENGTH(text))` at the target's own setting. The text is {form}, the documents "
        f"of a share lie {_order(order)}. {counted} From the profile (n = {_most(profiled)}): whether stored fields "
        "were read in sequence, and the time of the operator that loads values.\n\n" + table(head, rows)
    )


def _order(order: str) -> str:
    words = {"even": "evenly spread", "clustered": "in runs, sorted within blocks", "random": "at random"}
    assert set(words) == set(BLOCKS)
    return words.get(order, order)


def _most(profiled: Mapping[int, Rounds]) -> int:
    return max((len(rounds) for rounds in profiled.values()), default=0)


def _settings(race: Race, by_setting: dict[str, ByShare], profiled: dict[str, ByShare]) -> str:
    swept = [setting for setting in by_setting if setting != AS_IS]
    if not swept:
        left_out = max((s.meta.get("settings_missing", 0) for s in race.of("esql-stored-fields")), default=0)
        return (
            f"This target has no `{SETTING}`, so {left_out} settings were left out; 8.19.4 has it.\n"
            if left_out
            else "No other setting was tried.\n"
        )
    own = by_setting[AS_IS]
    proportion = _proportion(own)
    low, high = by_setting[swept[0]], by_setting[swept[-1]]
    rows, switched = [], []
    for share in [s for s in own if s in low and s in high]:
        parts = [in_sequence(profiled.get(setting, {}).get(share, {})) for setting in (swept[0], swept[-1])]
        switched += [share] if parts[0] - parts[1] > SWITCHED else []
        row = [percent(share / 1000)]
        for setting, by_share in by_setting.items():
            took = median(values(by_share[share], "took_ms")) if share in by_share else None
            flag = readers(profiled.get(setting, {}).get(share, {}))
            row.append(f"{number(took.value)} {interval(took)} {flag}" if took else "–")
        if len(swept) > 1:
            sides = matrix({"low": low[share], "high": high[share]}, ["low", "high"], "wall_ms")
            gain = paired_ratio(*sides)
            row.append(with_interval(gain))
        rows.append(row)
    head = ["share", *(f"took ms at {_name(setting, proportion)}" for setting in by_setting)]
    head += [f"wall {swept[-1]} / {swept[0]}"] if len(swept) > 1 else []
    return (
        f"{_advice(race, low, high, switched, proportion)}\n\n"
        f"All in one race, so nothing but `{SETTING}` differs. After each `took` with its 95 % interval: whether "
        "stored fields were read in sequence, or of which part of the pages, since each page is judged by itself. The "
        "last column is how many times as long the query takes without, formed within each round.\n\n"
        + table(head, rows)
    )


def _name(setting: str, proportion: float | None) -> str:
    return f"its own {proportion:g}" if setting == AS_IS and proportion is not None else setting


def _proportion(own: ByShare) -> float | None:
    """The target's own value of the setting."""
    found = [s.meta.get("sequential_proportion") for rounds in own.values() for s in rounds.values()]
    return next((float(p) for p in found if p is not None), None)


def _advice(race: Race, low: ByShare, high: ByShare, shares: Sequence[int], proportion: float | None) -> str:
    """The best setting for this share and size of documents.

    :param shares: those most of whose pages are read in sequence at the low setting and not at the high one.
    """
    point = break_even(low, high, shares)
    if point is None:
        return "No two shares were read in sequence at one setting and not at another, so there is no break-even point."
    meta = next(iter(low[shares[-1]].values())).meta
    text = f"texts of {meta['chars'] / meta['documents']:.0f} characters"
    if race.index.get("docs"):
        text += f" ({race.index['store_bytes'] / race.index['docs']:.0f} bytes a document in the index)"
    least, most = min(shares) / 1000, max(shares) / 1000

    def told(share: float) -> str:
        if share == 0:
            return f"below {percent(least)}"
        return f"above {percent(most)}" if np.isinf(share) else f"{number(100 * share)} %"

    if np.isinf(point.value):
        advice, best = "Reading in sequence is faster at none of the shares tried", 1.0
    elif point.value == 0:
        advice, best = f"Reading in sequence is faster down to the least share tried, {percent(least)}", least
    else:
        advice, best = f"Reading in sequence is faster from a share of {told(point.value)} on", point.value
    bounds = " to ".join(dict.fromkeys(map(told, (point.low, point.high))))
    return (
        f"{advice}, for {text}; 95 % interval of the break-even point: {bounds}, "
        f"n = {point.n}. **Best setting: {best:.2g}.**{_forgone(low, high, shares, best, proportion)}"
    )


def _forgone(low: ByShare, high: ByShare, shares: Sequence[int], best: float, proportion: float | None) -> str:
    """What the target's own setting costs at worst, at the shares for which the best one reads in the other way."""
    if proportion is None:
        return ""
    least, most = sorted((best, proportion))
    sides = (low, high) if best < proportion else (high, low)  # as it could be, as it is
    losses = {
        share: paired_ratio(*matrix({"could": sides[0][share], "is": sides[1][share]}, ["could", "is"], "wall_ms"))
        for share in shares
        if least <= share / 1000 < most
    }
    if not losses:
        return f" The target's own {proportion:g} does as well at the shares tried."
    share, worst = max(losses.items(), key=lambda item: item[1].value)
    return (
        f" At its own {proportion:g} a query takes up to {number(worst.value)} {interval(worst)} times as long as at "
        f"that, at a share of {percent(share / 1000)}."
    )


def _figure(by_setting: dict[str, ByShare]) -> Figure:
    proportion = _proportion(by_setting[AS_IS])
    lines = {
        _name(setting, proportion): [(share / 10, median(values(rounds, "wall_ms"))) for share, rounds in of.items()]
        for setting, of in by_setting.items()
    }
    caption = "Wall time of a query against the share of the documents whose text it loads, by setting; 95 % intervals."
    return Figure(plots.lines(lines, SHARE_AXIS, "wall ms, by setting"), caption)


def _cut_off(after: ByShare) -> str:
    if _proportion(after) != SHIPPED:
        return ""
    return (
        f"The seed measured the change with a cut-off of 10 %; shipped was one of {percent(SHIPPED)} "
        f"(`{SETTING}`). So rows from {percent(SHIPPED)} up turn sequential here, and those of 10 % and less do not; "
        "in the seed the row of 10 % did.\n"
    )
