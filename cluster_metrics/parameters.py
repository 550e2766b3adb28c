"""The track parameters: what each means and what it may be. Their defaults stand in ``track.json``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from esrally import exceptions

from .configurations import CONFIGURATIONS
from .corpora import CORPORA
from .corpus import LIMITS, Corpus
from .encoded import ENCODINGS
from .files import CorpusError
from .ingest_formats import CORPORA as FORMAT_CORPORA
from .ingest_steps import DESIGNS
from .queries import TRANSPORTS, VARIANTS
from .text_values import BLOCKS, FORMS
from .text_values import LIMITS as TEXT_LIMITS
from .words import FREQUENCIES
from .words import LIMITS as WORD_LIMITS


@dataclass(frozen=True)
class Parameter:
    """One track parameter.

    :param name: as given to ``--track-params``.
    :param unit: what one unit of the value is.
    :param text: what it does, one sentence.
    :param low: least value of a number.
    :param high: greatest value of a number.
    :param choices: the values a text (or each item of a list) may have.
    :param many: whether the value is a list of choices, or of numbers, without repetition (one alone may be given).
    :param pattern: regular expression of a text of that ``form``.
    :param form: what a text looks like, in words.
    """

    name: str
    unit: str
    text: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    many: bool = False
    pattern: str = ""
    form: str = ""

    @property
    def allowed(self) -> str:
        """What the value may be, in words."""
        if self.many:
            return f"a list of {', '.join(self.choices) or f'integers from {self.low:,} to {self.high:,}'}"
        if self.choices:
            return " or ".join(self.choices)
        if self.pattern:
            return self.form
        if not self.high:
            return "true or false"
        return f"an integer from {self.low:,} to {self.high:,}"

    def check(self, value: Any) -> Any:
        """Returns the value to use.

        :raises esrally.exceptions.TrackConfigError: with one line that names the parameter, the value and what is
            allowed.
        """
        if self.many:
            values = value if isinstance(value, list) else [value]
            ok = values and all(v in self.choices if self.choices else self._is_number(v) for v in values)
            if ok and len(set(values)) == len(values):
                return values
        elif self.choices:
            if value in self.choices:
                return value
        elif self.pattern:
            if re.fullmatch(self.pattern, str(value)):
                return str(value)
        elif not self.high:
            if isinstance(value, bool):
                return value
        elif self._is_number(value):
            return value
        raise exceptions.TrackConfigError(f"track parameter [{self.name}] is [{value}], allowed is {self.allowed}")

    def _is_number(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


REFRESH: dict[str, Any] = {
    "pattern": r"default|-1|\d+(ms|s|m|h)",
    "form": "default, -1 for never, or a time such as 30s",
}
TIME: dict[str, Any] = {"pattern": r"default|\d+(ms|s|m|h)", "form": "default, or a time such as 5s"}
SIZE: dict[str, Any] = {"pattern": r"default|\d+(kb|mb|gb)", "form": "default, or a size such as 512mb"}

PARAMETERS = {
    p.name: p
    for p in (
        Parameter("nodes", "nodes", "Nodes of the cluster that the corpus describes.", *LIMITS["nodes"]),
        Parameter("tasks", "tasks", "Tasks on each of these nodes.", *LIMITS["tasks"]),
        Parameter("rows_per_epoch", "documents", "Rows of one epoch.", *LIMITS["rows_per_epoch"]),
        Parameter(
            "corpus_bytes",
            "bytes",
            "Bytes of all rows, which decide rows_per_epoch; 0 leaves that to rows_per_epoch.",
            0,
            10**15,
        ),
        Parameter("epochs", "epochs", "Epochs, one corpus file each.", *LIMITS["epochs"]),
        Parameter("seed", "", "Seed of the corpus and of the order of all requests.", *LIMITS["seed"]),
        Parameter("number_of_shards", "shards", "Primary shards of the index.", 1, 1024),
        Parameter("number_of_replicas", "replicas", "Replicas of each primary shard.", 0, 100),
        Parameter(
            "cluster_health", "", "Health that the index must reach before the load.", choices=("green", "yellow")
        ),
        Parameter("bulk_size", "documents", "Documents of one bulk request.", 1, 1_000_000),
        Parameter("bulk_indexing_clients", "clients", "Concurrent clients of the load.", 1, 256),
        Parameter(
            "force_merge_max_num_segments",
            "segments",
            "Segments per shard after the force-merge that follows the load; 0 leaves them as they are.",
            0,
            1000,
        ),
        Parameter(
            "refresh_interval",
            "",
            "How often the index is refreshed; default leaves it to Elasticsearch.",
            **REFRESH,
        ),
        Parameter(
            "translog_durability",
            "",
            "Whether the translog is fsynced with each request, or at intervals.",
            choices=("request", "async"),
        ),
        Parameter(
            "translog_sync_interval",
            "",
            "How often the translog is fsynced; default leaves it to Elasticsearch.",
            **TIME,
        ),
        Parameter(
            "translog_flush_threshold",
            "",
            "Size of the translog at which it is flushed; default leaves it to Elasticsearch.",
            **SIZE,
        ),
        Parameter("codec", "", "How stored fields are compressed.", choices=("default", "best_compression")),
        Parameter(
            "source_mode",
            "",
            "Whether the source of documents is stored, or put together from doc values (from 8.17 on).",
            choices=("stored", "synthetic"),
        ),
        Parameter(
            "bulk_runner",
            "",
            "What sends the load of the ingest challenges: slices of files encoded beforehand, or Rally's own bulk.",
            choices=("slices", "native"),
        ),
        Parameter(
            "bulk_response",
            "",
            "What Elasticsearch returns: of each document, or of errors alone. With bulk_runner native it is full.",
            choices=("filtered", "full"),
        ),
        Parameter("compress_requests", "", "Compress bulk bodies with gzip; not with bulk_runner native."),
        Parameter("ingest_percentage", "%", "How much of each epoch the ingest challenges load.", 1, 100),
        Parameter(
            "target_docs_per_second",
            "documents/s",
            "Rate that the cluster should reach; 0 for none.",
            0,
            1_000_000_000,
        ),
        Parameter(
            "target_gb_per_day",
            "GB/day",
            "The same as bytes of JSON rows, in units of 10^9; 0 for none.",
            0,
            1_000_000,
        ),
        Parameter(
            "spike_docs_per_second",
            "documents/s",
            "Rate that the cluster should reach for spike_minutes; 0 for no spike.",
            0,
            1_000_000_000,
        ),
        Parameter("spike_minutes", "minutes", "How long a spike lasts.", 0, 1440),
        Parameter("paced", "", "Load at the target's rate, with its spike, instead of as fast as possible."),
        Parameter("delete_foreign_index", "", "Delete an index of that name even if this track did not create it."),
        Parameter("variants", "", "Query variants to run.", choices=tuple(VARIANTS), many=True),
        Parameter("transports", "", "Transports to run them by.", choices=TRANSPORTS, many=True),
        Parameter(
            "max_concurrent_searches",
            "searches",
            "Searches of one msearch that Elasticsearch runs at a time; 0 leaves it to Elasticsearch.",
            0,
            10_000,
        ),
        Parameter(
            "warmup_iterations",
            "coverages",
            "Coverages of each cell before its first pass, and rounds before those of the plan, that are not counted.",
            0,
            1000,
        ),
        Parameter("passes", "passes", "Passes over all cells, each in an order of its own.", 1, 100),
        Parameter("rounds", "rounds", "Rounds of the plan task, each visiting every cell once.", 1, 10_000),
        Parameter(
            "configurations",
            "",
            "Configurations of query-frontier to run; production is always among them.",
            choices=tuple(CONFIGURATIONS),
            many=True,
        ),
        Parameter(
            "max_error_permille",
            "‰",
            "Greatest relative error of p50 and p90 that the advice of query-frontier may have.",
            0,
            1000,
        ),
        Parameter(
            "text_documents",
            "documents",
            "Documents of the corpus text-values, a multiple of its values.",
            *TEXT_LIMITS["text_documents"],
        ),
        Parameter(
            "text_distinct_values",
            "values",
            "Distinct values of these documents, by which shares are selected.",
            *TEXT_LIMITS["text_distinct_values"],
        ),
        Parameter(
            "text_form", "", "Text of these documents: the value itself, or a web log line.", choices=tuple(FORMS)
        ),
        Parameter("text_order", "", "How the documents of a share lie in the index.", choices=tuple(BLOCKS)),
        Parameter(
            "shares_permille", "‰", "Shares of the documents whose text esql-stored-fields loads.", 1, 1000, many=True
        ),
        Parameter(
            "sequential_proportions_permille",
            "‰",
            "Settings that esql-stored-fields tries besides the target's own, where the target has the setting.",
            0,
            1000,
            many=True,
        ),
        Parameter(
            "esql_rounds",
            "rounds",
            "Rounds of esql-stored-fields instead of `rounds`: one may take half a minute.",
            1,
            10_000,
        ),
        Parameter(
            "design",
            "",
            "How ingest-decomp takes its steps: each on top of those before, or each on top of the naive client.",
            choices=DESIGNS,
        ),
        Parameter(
            "cell_rows",
            "documents",
            "Rows that each cell of ingest-decomp ingests in each round; at most those of an epoch.",
            1,
            10_000_000,
        ),
        Parameter(
            "sketch_server",
            "",
            "The sketch server of sketch-floor; `make race` starts one unless this is set.",
            pattern=r"[\w.-]+:\d{1,5}",
            form="host:port",
        ),
        Parameter("format_corpora", "", "What ingest-formats ingests.", choices=FORMAT_CORPORA, many=True),
        Parameter(
            "formats",
            "",
            "Wire formats of ingest-formats; json is always among them.",
            choices=tuple(ENCODINGS),
            many=True,
        ),
        Parameter(
            "bulk_sizes", "documents", "Documents of one bulk request of ingest-formats.", 1, 1_000_000, many=True
        ),
        Parameter(
            "client_counts",
            "clients",
            "Concurrent clients of ingest-formats; 0 is as many as the load driver has cores.",
            0,
            256,
            many=True,
        ),
        Parameter(
            "format_rows",
            "documents",
            "Rows that each cell of ingest-formats ingests, half as many of the web log, "
            "and more where each client could not send a whole request else.",
            4,
            10_000_000,
        ),
        Parameter(
            "ingest_rounds",
            "rounds",
            "Rounds of ingest-decomp and ingest-formats instead of `rounds`: one may take more than a minute.",
            1,
            10_000,
        ),
        Parameter("word_documents", "documents", "Documents of the corpus words.", *WORD_LIMITS["word_documents"]),
        Parameter("word_frequency", "", "How often each of these words occurs.", choices=FREQUENCIES),
        Parameter(
            "words_mapping",
            "",
            "Analysis of both text fields: words and shingles of two and three, or words alone.",
            choices=("heavy", "light"),
        ),
        Parameter(
            "capacity_shards", "shards", "Primary shards of the cells of the capacity challenges.", 1, 100, many=True
        ),
        Parameter(
            "capacity_replicas",
            "replicas",
            "Replicas of the cells of the capacity challenges; fewer than the target has data nodes.",
            0,
            20,
            many=True,
        ),
        Parameter("capacity_clients", "clients", "Clients that send without a pause, each for itself.", 1, 256),
        Parameter(
            "capacity_bulk_size",
            "documents",
            "Documents that capacity-indexing and capacity-mixed send at once; 1 sends each by a request of its own.",
            1,
            10_000,
        ),
        Parameter("cell_seconds", "seconds", "Time that each cell of the capacity challenges is measured.", 1, 86_400),
        Parameter("cell_warmup_seconds", "seconds", "Time under load before that.", 0, 86_400),
        Parameter("count_all_hits", "", "Count all hits of a search, not 10,000 at most."),
        Parameter(
            "mixed_docs_per_second",
            "documents/s",
            "Rates at which capacity-mixed indexes while it searches.",
            1,
            10_000_000,
            many=True,
        ),
    )
}


def check(values: dict[str, Any]) -> dict[str, Any]:
    """Checks the resolved values of all parameters.

    :param values: name to value, as ``track.json`` resolved them.
    :return: name to value, lists always as lists.
    :raises esrally.exceptions.TrackConfigError: on the first value that is not allowed.
    """
    by_bytes = PARAMETERS["corpus_bytes"].check(values["corpus_bytes"]) and not values["rows_per_epoch"]
    checked = {
        name: value if name == "rows_per_epoch" and by_bytes else PARAMETERS[name].check(value)
        for name, value in values.items()
    }
    if "production" not in checked["configurations"]:
        checked["configurations"].insert(0, "production")
    for refused, name, allowed in _combinations(checked):
        if refused:
            raise exceptions.TrackConfigError(f"track parameter [{name}] is [{checked[name]}], allowed is {allowed}")
    try:
        for corpus in corpora_of(checked).values():
            corpus.check()
    except CorpusError as e:
        raise exceptions.TrackConfigError(f"track parameters: {e}") from None
    if part := [s for s in checked["shares_permille"] if s * checked["text_distinct_values"] % 1000]:
        raise exceptions.TrackConfigError(
            f"track parameters: shares_permille has [{part[0]}], allowed is what makes whole values of the "
            f"{checked['text_distinct_values']:,} text_distinct_values"
        )
    if checked["paced"] and checked["spike_minutes"]:
        _check_spike_fits(checked)
    return checked


def corpora_of(values: dict[str, Any], test_mode: bool = False) -> dict[str, Any]:
    """The corpora that checked parameters ask for, by name; in Rally's test mode with at most 1000 documents a file."""
    return {name: kind.of(values, test_mode) for name, kind in CORPORA.items()}


def _combinations(values: dict[str, Any]) -> Iterator[tuple[bool, str, str]]:
    """Values that do not go together: whether they are given, the parameter, and what it may be then."""
    v = values
    native = v["bulk_runner"] == "native"
    target = v["target_docs_per_second"] or v["target_gb_per_day"]
    yield bool(v["corpus_bytes"] and v["rows_per_epoch"]), "corpus_bytes", "0 when rows_per_epoch is given"
    yield native and v["bulk_response"] != "full", "bulk_response", "full with bulk_runner native, which cannot filter"
    yield (
        native and v["compress_requests"],
        "compress_requests",
        "false with bulk_runner native; use the client option http_compress",
    )
    both = bool(v["target_docs_per_second"] and v["target_gb_per_day"])
    yield both, "target_gb_per_day", "0 when target_docs_per_second is given"
    yield v["paced"] and not target, "paced", "false without target_docs_per_second or target_gb_per_day"
    spike = bool(v["spike_docs_per_second"])
    yield spike and not target, "spike_docs_per_second", "0 without target_docs_per_second or target_gb_per_day"
    yield spike != bool(v["spike_minutes"]), "spike_minutes", "1 or more with spike_docs_per_second, and 0 without"


def _check_spike_fits(values: dict[str, Any]) -> None:
    pace = pace_of(values)
    needed = pace["spike_seconds"] * (pace["docs_per_second"] + pace["spike_docs_per_second"])
    corpus = Corpus.of(values, False)
    rows = corpus.rows_per_epoch * corpus.epochs * values["ingest_percentage"] // 100
    if rows < needed:
        raise exceptions.TrackConfigError(
            f"track parameter [spike_minutes] is [{values['spike_minutes']}], for which the load needs "
            f"{needed:,.0f} documents but has {rows:,}: the spike begins when the load has been steady for as long"
        )


def pace_of(values: dict[str, Any]) -> dict[str, float]:
    """What the cluster should reach, by checked parameters.

    :return: ``docs_per_second`` (0 for no target), ``spike_docs_per_second`` and ``spike_seconds`` (0 for no spike).
    """
    by_bytes = values["target_gb_per_day"] * 1e9 / 86_400 / Corpus.of(values, False).mean_row_bytes
    return {
        "docs_per_second": values["target_docs_per_second"] or by_bytes,
        "spike_docs_per_second": float(values["spike_docs_per_second"]),
        "spike_seconds": 60.0 * values["spike_minutes"],
    }
