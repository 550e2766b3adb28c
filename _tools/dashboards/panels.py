"""What a dashboard consists of, in few words; :mod:`.kibana` turns it into Kibana's saved objects."""

from dataclasses import dataclass
from typing import Literal

RECORDS = "___records___"
"""What Lens counts when it counts documents."""


@dataclass(frozen=True)
class Metric:
    """A figure.

    :param percentile: from 1 to 99, for the operation ``percentile``.
    :param unit: what stands behind the figure; ``bytes`` and ``%`` (of a fraction) are scaled.
    :param per_second: divide by the length of the time bucket.
    """

    label: str
    operation: Literal["average", "count", "max", "min", "percentile", "sum"]
    field: str = RECORDS
    percentile: int | None = None
    unit: str = ""
    decimals: int = 1
    per_second: bool = False
    is_date: bool = False


@dataclass(frozen=True)
class Terms:
    """The values of a field.

    :param size: how many values at most.
    :param by: number of the metric whose greatest values come first; without it the values come in their own order.
    """

    label: str
    field: str
    size: int = 50
    by: int | None = None
    type: Literal["string", "number", "boolean"] = "string"


@dataclass(frozen=True)
class Time:
    """Time buckets whose length Kibana chooses to suit the time range."""

    label: str = "Time"
    field: str = "@timestamp"


Bucket = Terms | Time
Marks = Literal["bar", "bar_stacked", "line"]


@dataclass(frozen=True)
class Layer:
    """Figures by buckets, all of one kind of mark.

    :param buckets: what the figures are divided by. Of a table: its rows, outermost first. Of a chart: the horizontal
        axis and then, if any, what tells bars or lines apart.
    """

    metrics: tuple[Metric, ...]
    buckets: tuple[Bucket, ...] = ()
    marks: Marks = "bar"


@dataclass(frozen=True)
class Panel:
    """A figure, chart or table.

    :param where: values that fields must have.
    :param axis: title of a chart's vertical axis, with its unit.
    :param width: of the 48 columns of a dashboard.
    """

    kind: Literal["figure", "chart", "table"]
    title: str
    description: str
    where: dict[str, str]
    layers: tuple[Layer, ...]
    axis: str = ""
    width: int = 24
    height: int = 12


@dataclass(frozen=True)
class DataView:
    id: str
    name: str
    indices: str
    time_field: str


@dataclass(frozen=True)
class Dashboard:
    """Panels over one data view, with controls above.

    :param controls: title and field of each.
    :param since: start of the time range, in Kibana's date mathematics; it ends now.
    """

    id: str
    title: str
    description: str
    data_view: DataView
    controls: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]
    since: str
