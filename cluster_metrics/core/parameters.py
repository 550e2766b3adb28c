"""Track parameters: six kinds, and those that several rooms share. Their defaults stand in ``track.json`` alone."""

import re
from dataclasses import dataclass
from typing import Any

from esrally import exceptions


@dataclass(frozen=True)
class Parameter:
    """A track parameter.

    :param name: as given to ``--track-params``.
    :param text: what it does, one sentence.
    :param unit: what one unit of the value is.
    :param selects: whether it changes only which configurations run, how often, and what is said of them; races that
        differ in it are still of one configuration.
    """

    name: str
    text: str
    unit: str = ""
    selects: bool = False

    @property
    def allowed(self) -> str:
        """What the value may be, in words."""
        raise NotImplementedError

    def accepted(self, value: Any) -> Any:
        """The value to use; None when it is not allowed."""
        raise NotImplementedError

    def check(self, value: Any) -> Any:
        """Returns the value to use.

        :raises esrally.exceptions.TrackConfigError: with one line that names the parameter, the value and what is
            allowed.
        """
        if (accepted := self.accepted(value)) is None:
            raise exceptions.TrackConfigError(f"track parameter [{self.name}] is [{value}], allowed is {self.allowed}")
        return accepted


@dataclass(frozen=True)
class Integer(Parameter):
    """A whole number from ``low`` to ``high``."""

    low: int = 0
    high: int = 0

    @property
    def allowed(self) -> str:
        return f"an integer from {self.low:,} to {self.high:,}"

    def accepted(self, value: Any) -> Any:
        ok = isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high
        return value if ok else None


@dataclass(frozen=True)
class ByCell(Integer):
    """An object of whole numbers from ``low`` to ``high`` by cell; what it does not name has that of another parameter.

    :param cell: regular expression that the names of cells match.
    :param example: name of one.
    """

    cell: str = ""
    example: str = ""

    @property
    def allowed(self) -> str:
        return f'an object of integers from {self.low:,} to {self.high:,} by cell, as {{"{self.example}": {self.high}}}'

    def accepted(self, value: Any) -> Any:
        ok = isinstance(value, dict) and all(re.fullmatch(self.cell, str(name), re.ASCII) for name in value)
        return dict(value) if ok and all(super(ByCell, self).accepted(n) is not None for n in value.values()) else None


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few texts."""

    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return " or ".join(self.choices)

    def accepted(self, value: Any) -> Any:
        return value if value in self.choices else None


@dataclass(frozen=True)
class Flag(Parameter):
    """True or false."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def accepted(self, value: Any) -> Any:
        return value if isinstance(value, bool) else None


@dataclass(frozen=True)
class Text(Parameter):
    """A text of a certain form.

    :param pattern: regular expression that matches all of it; its classes hold ASCII alone.
    :param form: the same in words.
    """

    pattern: str = ""
    form: str = ""

    @property
    def allowed(self) -> str:
        return self.form

    def accepted(self, value: Any) -> Any:
        return str(value) if re.fullmatch(self.pattern, str(value), re.ASCII) else None


@dataclass(frozen=True)
class Many(Parameter):
    """A list without repetition, or one alone of what it may hold; ``all`` stands for all choices.

    :param low: least integer in it.
    :param high: greatest.
    :param choices: texts instead of integers.
    """

    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if self.choices:
            return f"all, or a list of {', '.join(self.choices)}"
        return f"a list of integers from {self.low:,} to {self.high:,}"

    def accepted(self, value: Any) -> Any:
        if self.choices and value == "all":
            return list(self.choices)
        of = Choice("", "", choices=self.choices) if self.choices else Integer("", "", low=self.low, high=self.high)
        values = value if isinstance(value, list) else [value]
        ok = values and all(of.accepted(v) is not None for v in values) and len(set(values)) == len(values)
        return list(values) if ok else None


TIME = r"[1-9]\d{0,8}(ms|s|m|h)"
PORT = r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
PORT_WORDS = "a port from 1 to 65535"
SHARDS = (
    Integer("number_of_shards", "Primary shards of the index.", "shards", low=1, high=1024),
    Integer("number_of_replicas", "Replicas of each primary shard.", "replicas", low=0, high=100),
)
SEED = Integer("seed", "Seed of the corpus and of the order of all requests.", low=0, high=2**63 - 1)
BULK_SIZE = Integer("bulk_size", "Documents of one bulk request.", "documents", low=1, high=1_000_000)
SEGMENTS = Integer(
    "force_merge_max_num_segments",
    "Segments per shard after the force-merge that follows the load; 0 leaves them as they are.",
    "segments",
    low=0,
    high=1000,
)
FOREIGN = Flag("delete_foreign_index", "Delete an index of that name even if this track did not create it.", "", True)
CODEC = Choice("codec", "How stored fields are compressed.", choices=("default", "best_compression"))
SOURCE = Choice(
    "source_mode",
    "Whether the source of documents is stored, or put together from doc values (from 8.17 on).",
    choices=("stored", "synthetic"),
)
INDEX_MODE = Choice(
    "index_mode",
    "Index mode of Elasticsearch; time_series and logsdb take `timestamps`.",
    choices=("standard", "time_series", "logsdb"),
)
SHAPE = (*SHARDS, SEGMENTS, CODEC, SOURCE, INDEX_MODE)
"""What an index is like beside its documents, as far as a query may tell."""
REFRESH = Text(
    "refresh_interval",
    "How often the index is refreshed; default leaves it to Elasticsearch, which refreshes each second an index that "
    "was made or searched within the last 30 s, and no other.",
    pattern=rf"default|-1|{TIME}",
    form="default, -1 for never, or a time such as 30s",
)
LOAD = (
    *SHARDS,
    Choice("cluster_health", "Health that the index must reach before the load.", choices=("green", "yellow")),
    BULK_SIZE,
    Integer("bulk_indexing_clients", "Concurrent clients of the load.", "clients", low=1, high=256),
    SEGMENTS,
    REFRESH,
    Choice(
        "translog_durability",
        "Whether the translog is fsynced with each request, or at intervals.",
        choices=("request", "async"),
    ),
    Text(
        "translog_sync_interval",
        "How often the translog is fsynced; default leaves it to Elasticsearch, which takes no less than 100ms.",
        pattern=rf"default|(?!\d\d?ms){TIME}",
        form="default, or a time from 100ms on such as 5s",
    ),
    Text(
        "translog_flush_threshold",
        "Size of the translog at which it is flushed; default leaves it to Elasticsearch.",
        pattern=r"default|[1-9]\d{0,8}(kb|mb|gb)",
        form="default, or a size such as 512mb",
    ),
    CODEC,
    SOURCE,
    INDEX_MODE,
    FOREIGN,
)
"""Of challenges that create and load the index of their corpus by the tasks tagged setup."""
WARMUP = Integer(
    "warmup_iterations",
    "Coverages of each cell in each pass, and rounds before those of the plan, that are not counted. In query-decomp "
    "each part of the plan has an even share of these rounds; ingest-decomp, ingest-formats and esql-stored-fields "
    "walk one such round at most.",
    "coverages",
    True,
    low=0,
    high=1000,
)
ROUNDS = Integer(
    "rounds", "Rounds of the plan task, each visiting every cell once.", "rounds", True, low=1, high=10_000
)
RACE_MINUTES = Integer(
    "race_minutes",
    "Time for the race from Rally's start on: but for the first, no round is begun that would end later, by the mean "
    "of those before; 0 walks all.",
    "minutes",
    True,
    low=0,
    high=9999,
)
PASSES = Integer("passes", "Passes over all cells, each in an order of its own.", "passes", True, low=1, high=100)
