"""The record of a challenge: plain data that says all that others need to know of it.

Every room has a ``challenge.py`` whose ``CHALLENGES`` are its records. They are found by walking the rooms, since Rally
executes each module twice and whatever registered itself would be there twice or not at all.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from .parameters import Parameter

Values = Mapping[str, Any]
"""The track parameters of a race by name, checked."""
PACKAGE = Path(__file__).parents[1]
SCHEMA = 1
"""Version of the samples; it rises whenever a key changes its name or meaning. Races before it counted have none."""
OLDEST_SCHEMA = 0
"""Oldest version that reports still read, 0 for races that have none; those of older ones are refused."""

INDICES = "cluster-metrics*"
"""Pattern of the names of all indices that the track reads or writes."""
_ASKS = ("read", "view_index_metadata", "monitor")
_INDEXES = ("create_index", "delete_index", "index", *_ASKS)
ROLES = {
    "cluster-metrics-query": _ASKS,
    "cluster-metrics-query-settings": ("manage", "read"),
    "cluster-metrics-race": (*_INDEXES, "maintenance"),
    "cluster-metrics-race-indexing": _INDEXES,
    "cluster-metrics-race-settings": ("manage", "index", "read"),
}
"""Privileges on ``INDICES`` by role, beside the cluster's ``monitor``. To set what an index that is there has, to split
or to shrink it takes ``manage``, which holds all others but those beside it."""


@dataclass(frozen=True)
class Key:
    """A key of a sample's metadata.

    :param unit: of its value; empty for a name, a text or a plain number.
    :param optional: whether samples may lack it.
    """

    name: str
    unit: str
    text: str
    optional: bool = False


@dataclass(frozen=True)
class Sample:
    """A kind of ``service_time`` documents in the metrics store.

    :param type: their ``operation-type``.
    :param of: what there is one document of.
    :param keys: their metadata beside Rally's own ``success``, ``error-count``, ``error-type`` and
        ``error-description``.
    :param csv: file of the report that lists them, a row each with a column per key; several kinds may share one.
    :param partly: key by which one that failed still counts: a bulk request tells how many of its documents were
        taken, a warm-up how many rounds it walked, a round what it recorded beside the samples of it that failed. None
        where one that failed tells nothing.
    """

    type: str
    of: str
    keys: tuple[Key, ...]
    csv: str = ""
    partly: str | None = None


@dataclass(frozen=True)
class Operation:
    """An operation type of this track.

    :param type: as the operations in JSON name it; ``param-source`` and ``schedule`` of them have the same name.
    :param runner: class of its runner.
    :param params: class of its param source, if it has one.
    :param samples: kinds of samples that the runner writes.
    :param rounds: track parameter that says how many rounds the task walks; empty where the JSON has the iterations.
    :param cell: whether an element of the schedule that begins with it is a headline cell.
    :param ahead: whether its task goes ahead of each pass over the cells.
    :param scheduler: class of its scheduler, if it has one.
    :param creates: whether it creates the index that check-index checks.
    """

    type: str
    runner: Callable[[], Any]
    params: Callable[..., Any] | None = None
    samples: tuple[Sample, ...] = ()
    rounds: str = ""
    cell: bool = False
    ahead: bool = False
    scheduler: Callable[..., Any] | None = None
    creates: bool = False


@dataclass(frozen=True)
class Compared:
    """What of a challenge is held against each other, within a race and between races.

    :param sample: kind of the samples, one per configuration and unit of replication; their ``operation`` is the
        configuration.
    :param figures: keys of them that are compared, the less the better. The first is judged, so every sample has it,
        above 0; the others are shown where samples have them.
    :param base: the configuration that the others of a race are held against.
    :param parameter: track parameter that says how many units there are.
    :param unit: of replication; the samples' key for its number.
    :param enough: units that a verdict takes: without them nothing is recommended.
    :param least: units below which no interval is given: that of a median has no bounds there, the range itself holds
        it in less than 95 % of cases.
    :param alone: whether a race is one sample, whatever its units, as a load of one index is: two races are then
        compared by racing each side several times.
    :param derived: figures that no sample has as such; the report makes them.
    """

    sample: str
    figures: tuple[str, ...]
    base: str
    parameter: str
    unit: str = "round"
    enough: int = 20
    derived: tuple[Key, ...] = ()
    alone: bool = False
    least: ClassVar[int] = 6


@dataclass(frozen=True)
class Needs:
    """What a challenge needs that not every target has; ``make race`` starts its embedded target accordingly.

    :param esql: a version with ES|QL.
    :param nodes: data nodes.
    :param node_cores: share of the CPU that each of them is held to, in cores; 0 leaves them free.
    :param sketch_server: the sketch server, beside the target.
    :param sampler: a sampler of the target's CPU time; where there can be none, the race goes on without.
    """

    esql: bool = False
    nodes: int = 1
    node_cores: float = 0
    sketch_server: bool = False
    sampler: bool = False


@dataclass(frozen=True)
class Challenge:
    """A challenge of this track.

    :param name: of its files: with hyphens in ``challenges/``, ``operations/`` and ``docs/challenges/``, with
        underscores as a module.
    :param question: that it answers.
    :param corpora: the corpora that it uses, classes of :mod:`..corpus`; the first is what it is about.
    :param operations: its operation types.
    :param parameters: the track parameters that it takes.
    :param compared: see there.
    :param minutes: that ``make race`` takes on two cores, with the defaults.
    :param disk_factor: bytes of disk that a byte of its corpora takes at most, bulk bodies and indices included.
    :param needs: see there.
    :param test_mode: greatest value of parameters in Rally's test mode.
    :param limits: what the challenge does not show; each a sentence, or a function that makes one of the parameters and
        of what is known of the index and the target, or an empty one.
    :param leaves: indices that it creates on the target and leaves there.
    :param drops: indices that it creates and deletes again.
    :param check: says, a line each, which of its parameters do not go together.
    :param derived: parameters whose values follow from others'.
    :param encodings: wire formats in which bulk bodies are made before the race.
    :param lay_out: rearranges the schedule once passes are laid out.
    :param latencies: kinds of its samples of which a report reads latency as well: from when a request was due.
    :param role: of ``ROLES``, the one of fewest privileges that a race takes.
    :param asks_as: the same for its tasks tagged ``query`` alone, on indices that were loaded before; empty where there
        are none.
    """

    name: str
    question: str
    corpora: tuple[type, ...]
    operations: tuple[Operation, ...]
    parameters: tuple[Parameter, ...]
    compared: Compared
    minutes: int
    disk_factor: float
    needs: Needs = Needs()
    test_mode: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Callable[[Mapping[str, Any]], str], ...] = ()
    leaves: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    check: Callable[[Values], Iterator[str]] = lambda values: iter(())
    derived: Callable[[Values], dict[str, Any]] = lambda values: {}
    encodings: Callable[[Values], Sequence[str]] = lambda values: ()
    lay_out: Callable[[list, Values], list] = lambda schedule, values: schedule
    latencies: tuple[str, ...] = ()
    role: str = "cluster-metrics-race"
    asks_as: str = ""

    @property
    def module(self) -> str:
        """Its name as Python spells it."""
        return self.name.replace("-", "_")

    @property
    def samples(self) -> dict[str, Sample]:
        """The kinds of samples that its operations write, by ``operation-type``."""
        return {sample.type: sample for operation in self.operations for sample in operation.samples}


def rooms() -> dict[str, tuple[Challenge, ...]]:
    """The records by room, in order of their names."""
    names = sorted(path.parent.name for path in PACKAGE.glob("[a-z]*/challenge.py") if path.parent != PACKAGE / "core")
    package = __package__.rpartition(".")[0]
    return {name: importlib.import_module(f"{package}.{name}.challenge").CHALLENGES for name in names}


def challenges() -> dict[str, Challenge]:
    """The records by name of the challenge."""
    return {record.name: record for records in rooms().values() for record in records}


def operations() -> dict[str, Operation]:
    """The operation types of all challenges by name."""
    return {operation.type: operation for record in challenges().values() for operation in record.operations}


def corpora() -> dict[str, Any]:
    """The corpora of all challenges by name."""
    return {kind.name: kind for record in challenges().values() for kind in record.corpora}  # type: ignore[attr-defined]


def parameters() -> dict[str, Parameter]:
    """The track parameters of all challenges by name."""
    return {parameter.name: parameter for record in challenges().values() for parameter in record.parameters}
