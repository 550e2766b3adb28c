"""Explains an esql-stored-fields race: what loading text costs by share of the documents, and which setting is best."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability
from _tools.report.answer import Finding, times_as_fast
from _tools.report.cells import Cells
from _tools.report.costs import BreakEven, Cost
from _tools.report.gains import Gain
from _tools.report.race import Race
from _tools.report.references import STORED_FIELDS
from _tools.report.section import Figure, Section
from _tools.report.sides import Comparison
from _tools.report.stats import Estimate, crossing, median, race_level, race_ratio, ratio
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import interval, number, percent
from cluster_metrics.core.change import Change
from cluster_metrics.esql._report import costs as bare
from cluster_metrics.esql.esql_stored_fields import AS_IS, PRICE, PROFILED, QUERY, SETTING

REFERENCE = {
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
"""STORED_FIELDS: ``took`` in ms before and after the change, by share in permille. Its cut-off was 10 %."""
SHIPPED = 0.2
"""The cut-off that the change was shipped with."""
SWITCHED = 0.5
"""A share says something about the setting when it changes how this part of its pages is read, or more."""
SHARE_AXIS = "share of the documents, %"
ORDERS = {"even": "evenly spread", "clustered": "in runs, sorted within blocks", "random": "at random"}
FORMS = {"value": "the value itself", "log-line": "a web log line"}


class Shares(Cells):
    """The samples of a race by setting and share, in permille.

    :param kind: without the profiler (default) or with it.
    """

    def __init__(self, race: Race, kind: str = QUERY):
        super().__init__(race.of(kind), of=lambda s: (s.meta["setting"], s.meta["share_permille"]))

    @property
    def settings(self) -> list[str]:
        """The target's own setting first, then the others from the least."""
        return sorted({s for s, _ in self.names}, key=lambda setting: -1.0 if setting == AS_IS else float(setting))

    def shares(self, *settings: str) -> list[int]:
        """The shares that all these settings have, from the greatest."""
        return sorted(set.intersection(*({n for s, n in self.names if s == one} for one in settings)), reverse=True)

    def in_sequence(self, setting: str, share: int) -> float:
        """The part of the pages whose stored fields were read in sequence, by profiles; nan without any."""
        profiles = self.samples((setting, share)).values() if (setting, share) in self.names else ()
        sequential = sum(s.meta["pages_sequential"] for s in profiles)
        pages = sequential + sum(s.meta["pages_other"] for s in profiles)
        return sequential / pages if pages else math.nan

    def readers(self, setting: str, share: int) -> str:
        """How stored fields were read: yes, no, or the part of the pages read in sequence."""
        part = self.in_sequence(setting, share)
        return {0.0: "no", 1.0: "yes"}.get(part, percent(part))

    def proportion(self) -> float | None:
        """The target's own value of the setting."""
        found = [
            s.meta.get("sequential_proportion") for n in self.shares(AS_IS) for s in self.samples((AS_IS, n)).values()
        ]
        return next((float(p) for p in found if p is not None), None)


warnings = stability.warnings


def costs(race: Race) -> list[Cost]:
    """What ``make explain`` holds against bare loops."""
    profiled = Shares(race, PROFILED)
    return bare.costs(race, profiled, {name: profiled.in_sequence(*name) for name in profiled.names})


def break_evens(race: Race) -> list[BreakEven]:
    """The break-even point, which ``make explain`` asks of bare loops as well."""
    cells = Shares(race)
    shares = switched(cells, Shares(race, PROFILED))
    point = break_even(cells, *_ends(cells), shares) if shares else None
    return [bare.break_even(race, point)] if point else []


def answer(race: Race) -> Iterator[Finding]:
    """The share that takes longest, the setting to take, and what the target's own costs."""
    cells = Shares(race)
    if AS_IS not in cells.settings:
        return
    took = {n: cells.one("took_ms", (AS_IS, n)) for n in cells.shares(AS_IS)}
    slowest, most = max(took.items(), key=lambda item: item[1].value)
    text = f"{number(most.value)} ms {interval(most)} at {percent(slowest / 1000)} of the documents"
    yield Finding("slowest query", text, {"took_ms": most})
    yield from _setting(race, cells, switched(cells, Shares(race, PROFILED)))
    yield answers.checked(race, len(race.of(QUERY)), "query")


def _setting(race: Race, cells: Shares, shares: Sequence[int]) -> Iterator[Finding]:
    """The setting to take.

    :param shares: see :func:`switched`.
    """
    point = break_even(cells, *_ends(cells), shares) if shares else None
    if point is None or point.n < race.record.compared.enough:
        yield answers.undecided(race)
        return
    best = _best(point, shares)
    text = f"{SETTING}: {best:.2g}, since reading in sequence is faster from {_bounds(point, shares)} on"
    yield Finding("recommended", text, {"break_even": point})
    if losses := _losses(cells, shares, best):
        share_, worst = max(losses.items(), key=lambda item: item[1].value)
        text = f"takes up to {times_as_fast(worst)} as long, at {percent(share_ / 1000)} of the documents"
        yield Finding(f"its own {cells.proportion():g}", text, {"ratio": worst})


def changes(race: Race) -> Iterator[Gain]:
    """What each value of the setting gains over the target's own, the geometric mean over the shares."""
    cells = Shares(race)
    for setting in (s for s in cells.settings if AS_IS in cells.settings and s != AS_IS):
        shares = cells.shares(AS_IS, setting)
        names = [(one, share) for one in (AS_IS, setting) for share in shares]
        if shares and cells.has(*names):
            walls = np.log(cells.matrix("wall_ms", names))
            times = median(np.exp((walls[: len(shares)] - walls[len(shares) :]).mean(axis=0)))
            text = f"{SETTING}: {setting}, mean over {len(shares)} shares of the documents"
            own = cells.proportion()
            against = "the target's own" if own is None else f"the target's own {own:g}"
            yield Gain(Change(text, ("settings",), "query", PRICE), against, times)


def sections(race: Race) -> list[Section]:
    """The sections of the report; none without samples at the target's own setting."""
    cells, profiled = Shares(race), Shares(race, PROFILED)
    if AS_IS not in cells.settings:
        return []
    return [
        Section("What loading text costs, by share of the documents", _by_share(race, cells, profiled)),
        Section("Reading in sequence or not", [*_settings(race, cells, profiled), _figure(cells)]),
        *stability.sections(race),
    ]


def compared(found: Comparison) -> list[Section]:
    """What a comparison says besides of its first two sides: by share, and beside it the published figures."""
    sides = found.sides[:2]
    own = [list(map(Shares, side.races)) for side in sides]
    profiles = [Shares(side.races[0], PROFILED) for side in sides]
    rows = []
    curves: dict[str, list[tuple[float, Estimate]]] = {side.title: [] for side in sides}
    common = [share for share in own[0][0].shares(AS_IS) if all(share in c.shares(AS_IS) for of in own for c in of)]
    for share_ in common:
        took = [[cells.known("took_ms", (AS_IS, share_)) for cells in of] for of in own]
        estimates = [
            median(side[0]) if len(side) == 1 else race_level([float(np.median(r)) for r in side]) for side in took
        ]
        for curve, estimate in zip(curves.values(), estimates):
            curve.append((share_ / 10, estimate))
        change = None
        if all(np.median(of_race) > 0 for side in took for of_race in side):
            if found.replicated(sides[1]):
                change = race_ratio(*([math.log(np.median(of_race)) for of_race in side] for side in took))
            else:
                change = ratio(took[0][0], took[1][0])
        readers = " → ".join(profile.readers(AS_IS, share_) for profile in profiles)
        row = {"share": percent(share_ / 1000), "ratio": change, "readers": readers}
        rows.append(row | dict(zip(("first", "second"), estimates)))
    columns: list[Column] = [Words("share", "share")]
    columns += [Column(key, f"took ms, {side.title}") for key, side in zip(("first", "second"), sides)]
    columns += [Column("ratio", "ratio"), Words("readers", "in sequence")]
    text = (
        "`took` at the target's own setting, median over rounds with its 95 % interval; of several races the geometric "
        "mean of their medians, with Student's over races. The ratio is that of these, below 1 is faster; between "
        "single races its interval knows the noise of their rounds alone, the verdicts are further below. In sequence: "
        "whether stored fields were read so, by the profile."
    )
    clustered = sides[1].races[0].parameters.get("text_order") == "clustered"
    cut_off = [] if clustered else _cut_off(own[1][0])
    caption = "Time that a query took against the share of the documents whose text it loads; 95 % intervals."
    figure = Figure(plots.lines(curves, SHARE_AXIS, "took ms"), caption)
    took_of = [[estimate for _, estimate in curve] for curve in curves.values()]
    return [
        Section("Before and after, by share", [text, Table("before and after", columns, rows), *cut_off, figure]),
        Section("References", _published(dict(zip(common, zip(*took_of))))),
    ]


def reference(race: Race) -> list[str | Table]:
    """The published figures, beside those at the target's own setting."""
    cells = Shares(race)
    if AS_IS not in cells.settings or race.parameters.get("text_form") != "value":
        return []
    return _published({n: (cells.one("took_ms", (AS_IS, n)),) for n in cells.shares(AS_IS)})


def _published(took: Mapping[int, Sequence[Estimate]]) -> list[str | Table]:
    """Own figures by share in permille, with those before and after the published change beside them."""
    rows = [
        {"share": percent(n / 1000), "before": float(REFERENCE[n][0]), "after": float(REFERENCE[n][1])}
        | {f"here {i}": estimate for i, estimate in enumerate(found)}
        for n, found in took.items()
        if n in REFERENCE
    ]
    sides = len(next(iter(took.values()), ()))
    columns = [Words("share", "share"), *(Column(f"here {i}", "here", "ms") for i in range(sides))]
    columns += [Column("before", "before the change", "ms"), Column("after", "after it", "ms")]
    return [STORED_FIELDS.cited, Table("reference", columns, rows)]


def break_even(cells: Shares, low: str, high: str, shares: Sequence[int]) -> Estimate | None:
    """The share from which reading in sequence is faster, 1 being all documents; by interpolation between shares.

    :param low: a setting at which these shares are read in sequence.
    :param high: one at which they are not.
    :param shares: in permille.
    :return: None for fewer than two shares. A bound is 0 or infinite where the shares do not reach far enough.
    """
    names = [(setting, share) for setting in (low, high) for share in sorted(shares)]
    if len(shares) < 2 or not cells.has(*names):
        return None
    walls = cells.matrix("wall_ms", names)
    gains = np.log(walls[len(shares) :] / walls[: len(shares)])
    return crossing(np.log(np.array(sorted(shares)) / 1000), gains)


def _by_share(race: Race, cells: Shares, profiled: Shares) -> list[str | Table]:
    rows, most = [], 0
    for share_ in cells.shares(AS_IS):
        name = (AS_IS, share_)
        took, documents = cells.one("took_ms", name), next(iter(cells.samples(name).values())).meta["documents"]
        row = {"share": percent(share_ / 1000), "documents": documents, "n": took.n, "took_ms": took}
        row |= {"each_us": 1000 * took.value / documents, "readers": profiled.readers(*name)}
        if name in profiled.names:
            most = max(most, len(profiled.samples(name)))
            row["loading_ms"] = profiled.one("process_ms", name)
            row["part"] = profiled.one(lambda meta: meta["process_ms"] / max(meta["took_ms"], 1), name)
        rows.append(row)
    columns = [Words("share", "share"), Column("documents", "documents"), Column("n", "n")]
    columns += [Column("took_ms", "took", "ms"), Column("each_us", "µs a document"), Words("readers", "in sequence")]
    columns += [Column("loading_ms", "loading", "ms"), share("part", "of took")]
    counted = (
        "Sums, documents found and, in the index, the documents of each share were checked exactly."
        if any("values_loaded" in s.meta for s in race.of(QUERY))
        else "Sums and, in the index, the documents of each share were checked exactly; this version does not tell how "
        "many documents a query found."
    )
    order, form = (race.parameters.get(key, "") for key in ("text_order", "text_form"))
    text = (
        f"`FROM … | WHERE … | STATS SUM(LENGTH(text))` at the target's own setting. The text is {FORMS.get(form, '')}, "
        f"the documents of a share lie {ORDERS.get(order, order)}. {counted} From the profile (n = {most}): whether "
        "stored fields were read in sequence, and the time of the operator that loads values."
    )
    return [text, Table("shares", columns, rows)]


def _settings(race: Race, cells: Shares, profiled: Shares) -> list[str | Table]:
    swept = [setting for setting in cells.settings if setting != AS_IS]
    if not swept:
        left_out = max((s.meta.get("settings_missing", 0) for s in race.of("esql-stored-fields")), default=0)
        return [
            f"This target has no `{SETTING}`, so {left_out} settings were left out; 8.19.4 has it."
            if left_out
            else "No other setting was tried."
        ]
    low, high = _ends(cells)
    rows = []
    for share_ in cells.shares(AS_IS, low, high):
        row: dict = {"share": percent(share_ / 1000)}
        for setting in cells.settings:
            if (setting, share_) in cells.names:
                took = cells.one("took_ms", (setting, share_))
                row[setting] = f"{number(took.value)} {interval(took)} {profiled.readers(setting, share_)}"
        if len(swept) > 1:
            row["gain"] = cells.ratio("wall_ms", (low, share_), (high, share_))
        rows.append(row)
    proportion = cells.proportion()
    columns: list[Column] = [Words("share", "share")]
    columns += [Column(setting, f"took ms at {_name(setting, proportion)}") for setting in cells.settings]
    columns += [Column("gain", f"wall {high} / {low}")] if len(swept) > 1 else []
    text = (
        f"All in one race, so nothing but `{SETTING}` differs. After each `took` with its 95 % interval: whether "
        "stored fields were read in sequence, or of which part of the pages, since each page is judged by itself. The "
        "last column is how many times as long the query takes without, formed within each round."
    )
    return [_advice(race, cells, switched(cells, profiled)), text, Table("settings", columns, rows)]


def _name(setting: str, proportion: float | None) -> str:
    return f"its own {proportion:g}" if setting == AS_IS and proportion is not None else setting


def _ends(cells: Shares) -> tuple[str, str]:
    """The least setting tried, and the greatest."""
    swept = [setting for setting in cells.settings if setting != AS_IS]
    return swept[0], swept[-1]


def switched(cells: Shares, profiled: Shares) -> list[int]:
    """The shares most of whose pages are read in sequence at the least setting and not at the greatest; none where no
    setting was tried."""
    if len(cells.settings) < 2:
        return []
    low, high = _ends(cells)
    shares = cells.shares(AS_IS, low, high)
    return [n for n in shares if profiled.in_sequence(low, n) - profiled.in_sequence(high, n) > SWITCHED]


def _best(point: Estimate, shares: Sequence[int]) -> float:
    """The setting that has each share read in the faster way."""
    return 1.0 if np.isinf(point.value) else point.value or min(shares) / 1000


def _bounds(point: Estimate, shares: Sequence[int]) -> str:
    """The interval of the break-even point in words."""

    def told(part: float) -> str:
        if part == 0:
            return f"below {percent(min(shares) / 1000)}"
        return f"above {percent(max(shares) / 1000)}" if np.isinf(part) else f"{number(100 * part)} %"

    return " to ".join(dict.fromkeys(map(told, point.span)))


def _advice(race: Race, cells: Shares, shares: Sequence[int]) -> str:
    """The best setting for this share and size of documents.

    :param shares: see :func:`switched`.
    """
    low, high = _ends(cells)
    point = break_even(cells, low, high, shares)
    if point is None:
        return "No two shares were read in sequence at one setting and not at another, so there is no break-even point."
    meta = next(iter(cells.samples((low, shares[-1])).values())).meta
    text = f"texts of {meta['chars'] / meta['documents']:.0f} characters"
    if race.index.get("docs"):
        text += f" ({race.index['store_bytes'] / race.index['docs']:.0f} bytes a document in the index)"
    best = _best(point, shares)
    if np.isinf(point.value):
        advice = "Reading in sequence is faster at none of the shares tried"
    elif point.value == 0:
        advice = f"Reading in sequence is faster down to the least share tried, {percent(best)}"
    else:
        advice = f"Reading in sequence is faster from a share of {number(100 * point.value)} % on"
    advice += f", for {text}"
    if point.known:
        advice += f"; 95 % interval of the break-even point: {_bounds(point, shares)}"
    enough = race.record.compared.enough
    if point.n < enough:
        return f"{advice}. {point.n} rounds are too few to advise a setting, it takes {enough}."
    return f"{advice}, n = {point.n}. **Best setting: {best:.2g}.**{_forgone(cells, shares, best)}"


def _losses(cells: Shares, shares: Sequence[int], best: float) -> dict[int, Estimate]:
    """Times as long as at the best setting a query takes at the target's own, by the shares that the two have read in
    different ways."""
    proportion = cells.proportion()
    if proportion is None:
        return {}
    (low, high), (least, most) = _ends(cells), sorted((best, proportion))
    could, as_it_is = (low, high) if best < proportion else (high, low)
    found = [n for n in shares if least <= n / 1000 < most]
    return {n: cells.ratio("wall_ms", (could, n), (as_it_is, n)) for n in found}


def _forgone(cells: Shares, shares: Sequence[int], best: float) -> str:
    """What the target's own setting costs at worst."""
    proportion, losses = cells.proportion(), _losses(cells, shares, best)
    if proportion is None:
        return ""
    if not losses:
        return f" The target's own {proportion:g} does as well at the shares tried."
    share_, worst = max(losses.items(), key=lambda item: item[1].value)
    return (
        f" At its own {proportion:g} a query takes up to {number(worst.value)} {interval(worst)} times as long as at "
        f"that, at a share of {percent(share_ / 1000)}."
    )


def _figure(cells: Shares) -> Figure:
    proportion = cells.proportion()
    lines = {
        _name(setting, proportion): [(n / 10, cells.one("wall_ms", (setting, n))) for n in cells.shares(setting)]
        for setting in cells.settings
    }
    caption = (
        f"Wall time of a query against the share of the documents whose text it loads, by {SETTING}; 95 % intervals."
    )
    return Figure(plots.lines(lines, SHARE_AXIS, "wall ms", "setting"), caption)


def _cut_off(after: Shares) -> list[str]:
    if after.proportion() != SHIPPED:
        return []
    return [
        f"The published figures are of a cut-off of 10 %; shipped was one of {percent(SHIPPED)} (`{SETTING}`): rows "
        f"from {percent(SHIPPED)} up turn sequential here, those of 10 % and less do not; there the row of 10 % did."
    ]
