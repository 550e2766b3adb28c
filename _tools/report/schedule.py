"""When each task of a race ran: all of them on one time line, with what Rally itself took in between."""

from collections.abc import Iterable
from dataclasses import replace

from . import timelines
from .race import Race, Stretch
from .section import Figure, Section
from .table import Column, Table, Words, share
from .text import number, percent

CLOSE = 1e-3
"""Of the whole time: gaps that are shorter cannot be seen."""
CAPTION = f"When each task was at work. {timelines.ZOOM}"


def sections(race: Race) -> list[Section]:
    """One section, or none for a race whose requests are not recorded."""
    if not race.schedule:
        return []
    first, last = race.schedule[0].start, max(s.end for s in race.schedule)
    whole = max(last - first, 1e-3)  # a request may take less than its clock shows
    rows, bars = [], []
    for task in dict.fromkeys(s.task for s in race.schedule):
        own = [s for s in race.schedule if s.task == task]
        ran = covered((s.start, s.end) for s in own)
        requests, warmup = (sum(s.requests for s in own if s.warmup is w) for w in (False, True))
        rows.append(
            {"task": task, "began_s": (own[0].start - first) / 1000, "ran_s": ran / 1000, "share": ran / whole}
            | {"requests": requests, "warmup": warmup}
        )
        bars += [
            {"name": task, "kind": timelines.WARM_UP if s.warmup else timelines.MEASURED}
            | {"start": (s.start - first) / 1000, "end": (s.end - first) / 1000}
            for s in joined(own, whole * CLOSE)
        ]
    idle = whole - covered((s.start, s.end) for s in race.schedule)
    columns = [Words("task", "task"), Column("began_s", "began after", "s"), Column("ran_s", "ran", "s")]
    columns += [share("share", "share"), Column("requests", "requests"), Column("warmup", "warm-up requests")]
    text = (
        f"Of {number(whole / 1000)} s from the first request to the end of the last, no task was at work for "
        f"{number(idle / 1000)} s ({percent(idle / whole)}): Rally's pauses between tasks. What a runner does besides "
        "its requests counts as work."
    )
    figure = Figure(timelines.stretches(bars, "s after the first request"), CAPTION)
    return [Section("All tasks on one time line", [Table("tasks", columns, rows), text, figure])]


def joined(stretches: Iterable[Stretch], gap_ms: float) -> list[Stretch]:
    """Stretches of one task, those of one kind as one that begin before so long after the last has ended: tasks that
    run at once have one for almost each request."""
    found: list[Stretch] = []
    for one in stretches:
        last = found[-1] if found else None
        if last and last.warmup == one.warmup and one.start - last.end < gap_ms:
            found[-1] = replace(last, end=max(last.end, one.end), requests=last.requests + one.requests)
        else:
            found.append(one)
    return found


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of spans."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
