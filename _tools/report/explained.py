"""Finds the report of a challenge: by convention ``_report/<challenge>`` in the room that has its record."""

import importlib
from types import ModuleType

from cluster_metrics.core.challenge import rooms

from .race import Race


def report_of(race: Race) -> ModuleType:
    """The report module of a race's challenge.

    It offers ``sections(race)`` and ``answer(race)`` (see :class:`.answer.Finding`). It may offer ``warnings(race)``
    (see :class:`.answer.RaceWarning`; default are those of :mod:`.stability`); ``SUMMARY``, a line on Rally's own
    summary; ``sheets(race)``, further CSV files as tables; ``files(race)``, other files, each a name and its text;
    ``reference(race)``, the sources of what it is held against; ``compared_in(race)``, see :func:`.cells.compared_in`;
    ``changes(race)``, what its changes gain and cost (see :class:`.gains.Gain`); ``costs(race)`` and
    ``break_evens(race)``, see :mod:`.costs`; and ``compared(comparison)``, sections that a comparison of its races
    begins with.

    :raises ReportError: when the track has no such challenge.
    """
    record = race.record
    room = next(room for room, records in rooms().items() if record.name in {r.name for r in records})
    return importlib.import_module(f"cluster_metrics.{room}._report.{record.module}")
