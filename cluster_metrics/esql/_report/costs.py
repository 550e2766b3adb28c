"""What loading stored fields costs ES|QL a document, by share and reader, with the bare reading of it."""

from _tools.report.cells import Cells
from _tools.report.costs import BreakEven, Cost, Loop
from _tools.report.race import Race
from _tools.report.stats import Estimate
from _tools.report.text import percent

SHARES = (1000, 100, 50, 20, 10, 5)
"""In permille, those that the bare loops are measured with."""
READERS = {1.0: "sequential", 0.0: "random"}
"""By the part of the pages that are read in sequence."""


def loading(access: str, permille: int, form: str) -> Loop:
    return Loop("StoredFieldsBenchmark.load", {"access": access, "form": form, "permille": str(permille)})


def costs(race: Race, profiled: Cells, in_sequence: dict[tuple[str, int], float]) -> list[Cost]:
    """By the time of the operators that load values, in profiles.

    :param profiled: the profiles, by setting and share.
    :param in_sequence: the part of their pages that was read in sequence.
    """
    form, found = race.parameters["text_form"], {}
    for (setting, share), part in sorted(in_sequence.items(), key=lambda item: (item[0][1], item[0][0]), reverse=True):
        if part in READERS and share in SHARES:
            access = READERS[part]
            name = f"loading {percent(share / 1000)}, {access}"
            each = profiled.one(lambda meta: 1e6 * meta["process_ms"] / meta["documents"], (setting, share))
            found[name] = Cost(name, each, [loading(access, share, form)])
    return list(found.values())


def break_even(race: Race, seen: Estimate) -> BreakEven:
    form = race.parameters["text_form"]
    pairs = {n / 1000: (loading("sequential", n, form), loading("random", n, form)) for n in sorted(SHARES)[:-1]}
    return BreakEven("share from which reading in sequence is faster", seen, pairs)
