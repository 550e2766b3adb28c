"""Explains an esql-stored-fields race: what loading text costs by share of the documents, and which setting is best."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from _tools.report import answer as answers
from _tools.report import plots, stability
from _tools.report.answer import Finding, times_as_fast
from _tools.report.cells import Cells
from _tools.report.costs import BreakEven, Cost, Loop
from _tools.report.gains import Gain
from _tools.report.race import Race
from _tools.report.references import STORED_FIELDS
from _tools.report.section import Figure, Section
from _tools.report.sides import Comparison
from _tools.report.stats import Estimate, crossing, geometric_mean, median, race_ratio, ratio
from _tools.report.table import Column, Table, Words, share
from _tools.report.text import interval, number, percent
from cluster_metrics.core.change import Change
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
SHARES = (1000, 100, 50, 20, 10, 5)
"""In permille, those that the bare loops are measured with."""
READERS = {1.0: "sequential", 0.0: "random"}
"""By the part of the pages that are read in sequence."""
SHARE_AXIS = "share of the documents, %"
ORDERS = {"even": "evenly spread", "clustered": "in runs, sorted within blocks", "random": "at random"}
FORMS = {"value": "the value itself", "log-line": "a web log line"}


class Shares(Cells):
    """The samples of a race by setting and share, in permille.

    :param kind: without the profiler (default) or with it.
    """

    def __init__(self, race: Race, kind: str = QUERY):
        super().__init__(race.of(kind), of=lambda s: (s.meta["setting"], s.meta["share_permille"]))
        self._race = race

    @cached_property
    def profiled(self) -> "Shares":
        """Those with the profiler."""
        return Shares(self._race, PROFILED)

    @property
    def settings(self) -> list[str]:
        """The target's own setting first, then the others from the least."""
        return sorted({s for s, _ in self.names}, key=lambda setting: -1.0 if setting == AS_IS else float(setting))

    @property
    def swept(self) -> list[str]:
        """The settings tried, from the least."""
        return [setting for setting in self.settings if setting != AS_IS]

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

    @cached_property
    def switched(self) -> list[int]:
        """The shares most of whose pages are read in sequence at the least setting and not at the greatest; none where
        no setting was tried."""
        if not self.swept:
            return []
        low, high, part = self.swept[0], self.swept[-1], self.profiled.in_sequence
        return [n for n in self.shares(AS_IS, low, high) if part(low, n) - part(high, n) > SWITCHED]

    @cached_property
    def point(self) -> Estimate | None:
        """The break-even point of the shares that were switched, see :func:`break_even`."""
        return break_even(self, self.swept[0], self.swept[-1], self.switched) if self.switched else None

    @property
    def best(self) -> float:
        """The setting that has each share read in the faster way, where there is a break-even point."""
        value = self.point.value if self.point else 0.0
        return 1.0 if np.isinf(value) else value or min(self.switched) / 1000

    @property
    def is_bounded(self) -> bool:
        """Whether the break-even point is known to lie somewhere, on one side at least."""
        point = self.point
        return point is not None and (not point.known or point.low > 0 or bool(np.isfinite(point.high)))

    def bounds(self) -> str:
        """The interval of the break-even point in words."""

        def told(part: float) -> str:
            if part == 0:
                return f"below {percent(min(self.switched) / 1000)}"
            return f"above {percent(max(self.switched) / 1000)}" if np.isinf(part) else f"{number(100 * part)} %"

        return " to ".join(dict.fromkeys(map(told, self.point.span if self.point else ())))

    def worst(self) -> tuple[int, Estimate] | None:
        """Of the shares that the best setting and the target's own have read in different ways the one at which a query
        takes longest at the latter, and times as long as at the best; None without such a share."""
        if (own := self.proportion()) is None:
            return None
        (least, most), (low, high) = sorted((self.best, own)), (self.swept[0], self.swept[-1])
        could, as_it_is = (low, high) if self.best < own else (high, low)
        found = [n for n in self.switched if least <= n / 1000 < most]
        losses = {n: self.ratio("wall_ms", (could, n), (as_it_is, n)) for n in found}
        return max(losses.items(), key=lambda item: item[1].value, default=None)


def costs(race: Race) -> list[Cost]:
    """By the time of the operators that load values, in profiles; ``make explain`` holds it against bare loops."""
    profiled, form, found = Shares(race, PROFILED), race.parameters["text_form"], {}
    for setting, share_ in sorted(profiled.names, key=lambda name: (name[1], name[0]), reverse=True):
        access = READERS.get(profiled.in_sequence(setting, share_))
        if access and share_ in SHARES:
            name = f"loading {percent(share_ / 1000)}, {access}"
            each = profiled.one(lambda meta: 1e6 * meta["process_ms"] / meta["documents"], (setting, share_))
            found[name] = Cost(name, each, [loading(access, share_, form)])
    return list(found.values())


def break_evens(race: Race) -> list[BreakEven]:
    """The break-even point, which ``make explain`` asks of bare loops as well."""
    if not (point := Shares(race).point):
        return []
    form = race.parameters["text_form"]
    pairs = {n / 1000: (loading("sequential", n, form), loading("random", n, form)) for n in sorted(SHARES)[:-1]}
    return [BreakEven("share from which reading in sequence is faster", point, pairs)]


def loading(access: str, permille: int, form: str) -> Loop:
    """The bare loop that reads the stored fields of a share of the documents."""
    return Loop("StoredFieldsBenchmark.load", {"access": access, "form": form, "permille": str(permille)})


def answer(race: Race) -> Iterator[Finding]:
    """The share that takes longest, the setting to take, and what the target's own costs."""
    cells = Shares(race)
    if AS_IS not in cells.settings:
        return
    took = {n: cells.one("took_ms", (AS_IS, n)) for n in cells.shares(AS_IS)}
    slowest, most = max(took.items(), key=lambda item: item[1].value)
    text = f"{number(most.value)} ms {interval(most)} at {percent(slowest / 1000)} of the documents"
    yield Finding("slowest query", text, {"took_ms": most})
    yield from _setting(race, cells)
    yield answers.checked(race, len(race.of(QUERY)), "query")


def _setting(race: Race, cells: Shares) -> Iterator[Finding]:
    """The setting to take."""
    if cells.point is None:
        none = "no two shares were read in sequence at one setting and not at another"
        why = none if cells.swept else "no other setting was tried"
        yield Finding("recommended", f"nothing: {why}")
        return
    if cells.point.n < race.record.compared.enough or not cells.is_bounded:
        yield answers.undecided(race, cells.point.n)
        return
    text = f"{SETTING}: {cells.best:.2g}, since reading in sequence is faster from {cells.bounds()} on"
    yield Finding("recommended", text, {"break_even": cells.point})
    if worst := cells.worst():
        text = f"takes up to {times_as_fast(worst[1])} as long, at {percent(worst[0] / 1000)} of the documents"
        yield Finding(f"its own {cells.proportion():g}", text, {"ratio": worst[1]})
    elif (own := cells.proportion()) is not None:
        yield Finding(f"its own {own:g}", "does as well at the shares tried")


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
    cells = Shares(race)
    if AS_IS not in cells.settings:
        return []
    return [
        Section("What loading text costs, by share of the documents", _by_share(race, cells)),
        Section("Reading in sequence or not", [*_settings(race, cells), _figure(cells)]),
        *stability.sections(race),
    ]


def compared(found: Comparison) -> list[Section]:
    """What a comparison says besides of its first two sides: by share, and beside it the published figures."""
    sides = found.sides[:2]
    own = [list(map(Shares, side.races)) for side in sides]
    rows = []
    curves: dict[str, list[tuple[float, Estimate]]] = {side.title: [] for side in sides}
    common = [share for share in own[0][0].shares(AS_IS) if all(share in c.shares(AS_IS) for of in own for c in of)]
    for share_ in common:
        took = [[cells.known("took_ms", (AS_IS, share_)) for cells in of] for of in own]
        estimates = [
            median(side[0]) if len(side) == 1 else geometric_mean([float(np.median(r)) for r in side]) for side in took
        ]
        for curve, estimate in zip(curves.values(), estimates):
            curve.append((share_ / 10, estimate))
        change = None
        if all(np.median(of_race) > 0 for side in took for of_race in side):
            if found.replicated(sides[1]):
                change = race_ratio(*([math.log(np.median(of_race)) for of_race in side] for side in took))
            else:
                change = ratio(took[0][0], took[1][0])
        readers = " → ".join(of[0].profiled.readers(AS_IS, share_) for of in own)
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
    even = sides[1].races[0].parameters.get("text_order") == "even"
    cut_off = _cut_off(own[1][0]) if even and own[0][0].proportion() != SHIPPED else []
    caption = "Time that a query took against the share of the documents whose text it loads; 95 % intervals."
    figure = Figure(plots.lines(curves, SHARE_AXIS, "took ms"), caption)
    took_of = {share: {title: curve[i][1] for title, curve in curves.items()} for i, share in enumerate(common)}
    section = Section("Before and after, by share", [text, Table("before and after", columns, rows), *cut_off, figure])
    if any(race.parameters.get("text_form") != "value" for side in sides for race in side.races):
        return [section]
    return [section, Section("References", _published(took_of))]


def reference(race: Race) -> list[str | Table]:
    """The published figures, beside those at the target's own setting."""
    cells = Shares(race)
    if AS_IS not in cells.settings or race.parameters.get("text_form") != "value":
        return []
    return _published({n: {"here": cells.one("took_ms", (AS_IS, n))} for n in cells.shares(AS_IS)})


def _published(took: Mapping[int, Mapping[str, Estimate]]) -> list[str | Table]:
    """Own figures by share in permille and the head of their column, with those before and after the published change
    beside them."""
    rows = [
        {"share": percent(n / 1000), "before": float(REFERENCE[n][0]), "after": float(REFERENCE[n][1])}
        | {f"own {head}": estimate for head, estimate in found.items()}
        for n, found in took.items()
        if n in REFERENCE
    ]
    heads = next(iter(took.values()), {})
    columns = [Words("share", "share"), *(Column(f"own {head}", head, "ms") for head in heads)]
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


def _by_share(race: Race, cells: Shares) -> list[str | Table]:
    rows, most, profiled = [], 0, cells.profiled
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


def _settings(race: Race, cells: Shares) -> list[str | Table]:
    if not (swept := cells.swept):
        left_out = max((s.meta.get("settings_missing", 0) for s in race.of("esql-stored-fields")), default=0)
        return [
            f"This target has no `{SETTING}`, so {left_out} settings were left out; 8.19.4 has it."
            if left_out
            else "No other setting was tried."
        ]
    low, high, rows = swept[0], swept[-1], []
    for share_ in cells.shares(AS_IS, low, high):
        row: dict = {"share": percent(share_ / 1000)}
        for setting in cells.settings:
            if (setting, share_) in cells.names:
                took = cells.one("took_ms", (setting, share_))
                row[setting] = f"{number(took.value)} {interval(took)} {cells.profiled.readers(setting, share_)}"
        if len(swept) > 1:
            row["gain"] = cells.ratio("wall_ms", (low, share_), (high, share_))
        rows.append(row)
    proportion = cells.proportion()
    columns: list[Column] = [Words("share", "share")]
    columns += [Column(setting, f"took ms at {_name(setting, proportion)}") for setting in cells.settings]
    columns += [Column("gain", f"wall {high} / {low}")] if len(swept) > 1 else []
    text = (
        f"All in one race, so nothing but `{SETTING}` differs. After each `took` with its 95 % interval: whether "
        "stored fields were read in sequence, or of which part of the pages, since each page is judged by itself."
    )
    if len(swept) > 1:
        text += " The last column is how many times as long the query takes without, formed within each round."
    return [_advice(race, cells), text, Table("settings", columns, rows)]


def _name(setting: str, proportion: float | None) -> str:
    return f"its own {proportion:g}" if setting == AS_IS and proportion is not None else setting


def _advice(race: Race, cells: Shares) -> str:
    """The best setting for this share and size of documents."""
    point = cells.point
    if point is None:
        return "No two shares were read in sequence at one setting and not at another, so there is no break-even point."
    meta = next(iter(cells.samples((cells.swept[0], cells.switched[-1])).values())).meta
    text = f"texts of {meta['chars'] / meta['documents']:.0f} characters"
    if race.index.get("docs"):
        text += f" ({race.index['store_bytes'] / race.index['docs']:.0f} bytes a document in the index)"
    best = cells.best
    if np.isinf(point.value):
        advice = "Reading in sequence is not faster at the greatest share that was read both ways"
    elif point.value == 0:
        advice = f"Reading in sequence is faster down to the least share that was read both ways, {percent(best)}"
    else:
        advice = f"Reading in sequence is faster from a share of {number(100 * point.value)} % on"
    advice += f", for {text}"
    if point.known:
        advice += f"; 95 % interval of the break-even point: {cells.bounds()}"
    enough = race.record.compared.enough
    if point.n < enough:
        return f"{advice}. {point.n} rounds are too few to advise a setting, it takes {enough}."
    if not cells.is_bounded:
        return f"{advice}, n = {point.n}. That says nothing of any share: no setting is shown to be better."
    return f"{advice}, n = {point.n}. **Best setting: {best:.2g}.**{_forgone(cells)}"


def _forgone(cells: Shares) -> str:
    """What the target's own setting costs at worst."""
    proportion, found = cells.proportion(), cells.worst()
    if proportion is None:
        return ""
    if not found:
        return f" The target's own {proportion:g} does as well at the shares tried."
    share_, worst = found
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
