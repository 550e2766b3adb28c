"""What was published on the questions of the challenges, and how a report holds its figures against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .explained import report_of
from .race import Race
from .section import Section
from .table import Column, Form, Table, Words
from .text import number


@dataclass(frozen=True)
class Reference:
    """A published source.

    :param about: what was measured there, and on what.
    """

    author: str
    date: str
    title: str
    about: str

    @property
    def cited(self) -> str:
        """One line of Markdown."""
        return f"*{self.title}*, {self.author}, {self.date}: {self.about}."


PROFILING = Reference(
    "author not named",
    "28 April 2026",
    "Elasticsearch Profiling — Phase Report",
    "ingest and production query of this workload on Elasticsearch 8.17.2, a single node of 8 cores",
)
STORED_FIELDS = Reference(
    "Nik Everett",
    "undated",
    "ESQL: Speed loading stored fields (Elasticsearch, pull request 127348, commit 10336c950c)",
    "queries before and after a change that reads stored fields in sequence, on a million documents of one short text",
)
INGEST_ONLY = Reference(
    "published by Elastic, author not named",
    "undated",
    "Rally and Elasticsearch benchmarks: How to interpret ingest-only tracks",
    "which rows of a race that only ingests tell something; it gives no figures to hold these against",
)
SMILE = Reference(
    "Dmitry Olshansky",
    "28 October 2020",
    "ElasticSearch with a SMILE",
    "bulk requests in SMILE against JSON, best of 5 runs, over a network, with 300 MB of web logs",
)
CAPACITY = Reference(
    "author not named",
    "undated",
    "Capacity Planning: Query Throughput, and its first part on indexing throughput",
    "searches and documents per second by shards and replicas on three nodes; rounded figures without spread",
)


def section(race: Race) -> list[Section]:
    """What the report of a race holds its figures against, by ``reference(race)`` of its module; none without it."""
    of: Any = getattr(report_of(race), "reference", None)
    blocks = list(of(race)) if of else []
    return [Section("References", blocks)] if blocks else []


def beside(key: str, rows: Sequence[tuple[str, Any, Any]], unit: str = "", form: Form = number) -> Table:
    """A table of own figures with those of a source beside them.

    :param rows: of each the name, the figure of this race and that of the source.
    """
    columns = [Words("what", ""), Column("here", "here", unit, form), Column("reference", "reference", unit, form)]
    return Table(key, columns, [{"what": what, "here": here, "reference": found} for what, here, found in rows])
