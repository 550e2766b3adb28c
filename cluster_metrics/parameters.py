"""The track parameters: what each means and what it may be. Their defaults stand in ``track.json``."""

import re
from dataclasses import dataclass
from typing import Any

from esrally import exceptions

from .configurations import CONFIGURATIONS
from .corpora import CORPORA
from .corpus import LIMITS
from .files import CorpusError
from .ingest_steps import DESIGNS
from .queries import TRANSPORTS, VARIANTS
from .text_values import BLOCKS, FORMS
from .text_values import LIMITS as TEXT_LIMITS


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
            if isinstance(value, str) and re.fullmatch(self.pattern, value):
                return value
        elif not self.high:
            if isinstance(value, bool):
                return value
        elif self._is_number(value):
            return value
        raise exceptions.TrackConfigError(f"track parameter [{self.name}] is [{value}], allowed is {self.allowed}")

    def _is_number(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


PARAMETERS = {
    p.name: p
    for p in (
        Parameter("nodes", "nodes", "Nodes of the cluster that the corpus describes.", *LIMITS["nodes"]),
        Parameter("tasks", "tasks", "Tasks on each of these nodes.", *LIMITS["tasks"]),
        Parameter("rows_per_epoch", "documents", "Rows of one epoch.", *LIMITS["rows_per_epoch"]),
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
    )
}


def check(values: dict[str, Any]) -> dict[str, Any]:
    """Checks the resolved values of all parameters.

    :param values: name to value, as ``track.json`` resolved them.
    :return: name to value, lists always as lists.
    :raises esrally.exceptions.TrackConfigError: on the first value that is not allowed.
    """
    checked = {name: PARAMETERS[name].check(value) for name, value in values.items()}
    if "production" not in checked["configurations"]:
        checked["configurations"].insert(0, "production")
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
    return checked


def corpora_of(values: dict[str, Any], test_mode: bool = False) -> dict[str, Any]:
    """The corpora that checked parameters ask for, by name; in Rally's test mode with at most 1000 documents a file."""
    return {name: kind.of(values, test_mode) for name, kind in CORPORA.items()}
