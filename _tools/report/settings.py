"""The track parameters of a race: those that a user set, and all others."""

from functools import cache
from typing import Any

from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.experiment import check, corpora_of

from ..race.rally import resolved
from .race import Race
from .section import Section
from .table import Table, Words
from .text import setting


@cache
def _defaults(challenge: str) -> dict[str, Any]:
    found = check(resolved("", challenge))
    for corpus in corpora_of(found).values():
        found |= corpus.sizes()
    for record in challenges().values():
        found |= record.derived(found)
    return found


def own_parameters(race: Race) -> dict[str, tuple[Any, Any]]:
    """The parameters of a race's challenge by name, each with its default as it would be recorded."""
    defaults = _defaults(race.challenge)
    names = (parameter.name for parameter in race.record.parameters)
    return {name: (race.parameters[name], defaults[name]) for name in names if name in race.parameters}


def changed_parameters(race: Race) -> str:
    """Those that differ from their defaults; empty where none does."""
    return ", ".join(f"{k}={setting(v)}" for k, (v, default) in own_parameters(race).items() if v != default)


def raced(race: Race) -> str:
    """When and where a race ran, by which parameters, in one line."""
    document, machine, changed = race.document, race.machine, changed_parameters(race)
    return (
        f"raced {document.get('race-timestamp')} at commit {document.get('track-revision') or 'unknown'} on "
        f"{machine.get('cpu', 'an unknown CPU')}, {machine.get('cores', '?')} cores, Rally "
        f"{document.get('rally-version')}{f', with {changed}' if changed else ''}"
    )


def parameters_section(race: Race, *others: Race) -> list[Section]:
    """All parameters of the challenge, with their defaults, folded; what differs from these stands in the head.

    :param others: races that are compared with it; of parameters those alone that they have in common.
    """
    rows = [
        {"parameter": name, "value": setting(value), "default": setting(default)}
        for name, (value, default) in own_parameters(race).items()
        if all(other.parameters.get(name) == value for other in others)
    ]
    columns = [Words(key, key) for key in ("parameter", "value", "default")]
    return [Section("All parameters", [Table("parameters", columns, rows)], folded=True)] if rows else []
