"""What a report keeps of a document in the metrics store. There may be a million of a race."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class Meta(Mapping[str, Any]):
    """Metadata of a sample, in half the memory of a dictionary.

    :param places: of the values by key; samples of a kind share them.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[Any, ...]):
        self._places, self._values = places, values

    def __getitem__(self, key: str) -> Any:
        return self._values[self._places[key]]

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def plain(self) -> dict[str, Any]:
        return dict(zip(self._places, self._values))

    @staticmethod
    def column(metas: Iterable[Any], place: int) -> list[Any]:
        """The values at a place, of several that share their places."""
        return [meta._values[place] for meta in metas]

    def alike(self, others: Iterable[Any]) -> bool:
        """Whether all others share their places with this."""
        return all(isinstance(other, Meta) and other._places is self._places for other in others)

    def get(self, key: str, default: Any = None) -> Any:
        place = self._places.get(key)
        return default if place is None else self._values[place]


@dataclass(slots=True)  # not frozen, which takes three times as long to make
class Sample:
    """One ``service_time`` document of a custom operation of this track.

    :param kind: its ``operation-type``.
    :param at: when it started, in ms since the epoch.
    :param cell: its ``operation``.
    :param value: service time in ms.
    :param meta: its metadata, as its record has it; of Rally's own only ``error-count``, and no tags.
    """

    kind: str
    at: int
    cell: str
    value: float
    meta: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """The sample as it goes into ``report.json``."""
        of = {"kind": self.kind, "at": self.at, "cell": self.cell, "value": self.value}
        return of | {"meta": plain(self.meta)}


def plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as a dictionary, in a tenth of the time of asking for each key."""
    return meta.plain() if isinstance(meta, Meta) else dict(meta)


def columns(metas: Sequence[Any], keys: Iterable[str]) -> dict[str, Sequence[Any]]:
    """The values of keys by key, of several metadata; None where one has no such key. Of those that are alike they are
    taken by place, in a third of the time."""
    if metas and isinstance(metas[0], Meta) and metas[0].alike(metas):
        places = {key: place for place, key in enumerate(metas[0])}
        return {k: Meta.column(metas, places[k]) if k in places else [None] * len(metas) for k in keys}
    whole = [plain(meta) for meta in metas]
    return {key: [meta.get(key) for meta in whole] for key in keys}
