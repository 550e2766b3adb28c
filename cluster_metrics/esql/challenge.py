"""The ES|QL challenge: what loading text costs a query."""

from collections.abc import Iterator
from typing import Any

from ..core.challenge import Challenge, Compared, Key, Needs, Operation, Sample, Values
from ..core.index import BULK, CHECK_INDEX, SETUP
from ..core.limits import COLD, corpus_in_memory, segments, shards_of_searches, warmed
from ..core.parameters import LOAD, RACE_MINUTES, WARMUP, Integer, Many
from .esql_stored_fields import PROFILED, QUERY, CheckEsql, StoredFieldsParams, StoredFieldsRunner
from .text_values import INDEX, TextValues

SAMPLE = (
    Key("share_permille", "‰", "share of the documents that the query selects"),
    Key("setting", "", "stored_fields_sequential_proportion as set, a number or `as is`"),
    Key("sequential_proportion", "", "the value in force; absent where the target has no such setting", optional=True),
    Key("round", "", "round; those up to 0 warm up"),
    Key("documents", "documents", "exact number of documents of the share"),
    Key("chars", "characters", "exact sum of the lengths of their texts"),
    Key("took_ms", "ms", "`took` of a query"),
    Key("wall_ms", "ms", "wall time of a query"),
    Key("client_ms", "ms", "CPU time that the load driver used meanwhile"),
    Key("documents_found", "documents", "as the response says; 8.16.0 does not", optional=True),
    Key("values_loaded", "values", "as the response says; 8.16.0 does not", optional=True),
)
LOADING = (
    Key("process_ms", "ms", "time of the operators that load values"),
    Key("pages_sequential", "pages", "pages whose stored fields were read in sequence"),
    Key("pages_other", "pages", "pages whose stored fields were read otherwise"),
)
ROUND = (
    Key("round", "", "round; those up to 0 warm up"),
    Key("settings_missing", "", "settings that were left out since the target has no such setting"),
)
CSV = "es_profile_esql.csv"


def _whole_values(values: Values) -> Iterator[str]:
    """Shares must be of whole values, or they would not be exact."""
    distinct = values["text_distinct_values"]
    for share in values["shares_permille"]:
        if share * distinct % 1000:
            yield (
                f"track parameters: shares_permille has [{share}], allowed is what makes whole values of the "
                f"{distinct:,} text_distinct_values"
            )


def _warm(facts: Any) -> str:
    return warmed("one round ran uncounted") if facts.get("warmup_iterations") else COLD


CHALLENGES = (
    Challenge(
        name="esql-stored-fields",
        question="What does loading text cost ES|QL, by share of the documents?",
        corpora=(TextValues,),
        operations=(
            *SETUP,
            BULK,
            CHECK_INDEX,
            Operation("check-esql", CheckEsql),
            Operation(
                "esql-stored-fields",
                StoredFieldsRunner,
                StoredFieldsParams,
                samples=(
                    Sample("esql-stored-fields", "round", ROUND),
                    Sample(QUERY, "share, setting and round", SAMPLE, csv=CSV),
                ),
                rounds="esql_rounds",
            ),
            Operation(
                "esql-stored-fields-profiled",
                StoredFieldsRunner,
                StoredFieldsParams,
                samples=(
                    Sample("esql-stored-fields-profiled", "round", ROUND),
                    Sample(PROFILED, "the same with the profiler", (*SAMPLE, *LOADING), csv=CSV),
                ),
            ),
        ),
        parameters=(
            *TextValues.parameters.values(),
            *LOAD,
            Many(
                "shares_permille",
                "Shares of the documents whose text esql-stored-fields loads.",
                "‰",
                True,
                low=1,
                high=1000,
            ),
            Many(
                "sequential_proportions_permille",
                "Settings that esql-stored-fields tries besides the target's own, where the target has the setting.",
                "‰",
                True,
                low=0,
                high=1000,
            ),
            WARMUP,
            RACE_MINUTES,
            Integer(
                "esql_rounds",
                "Rounds of esql-stored-fields instead of `rounds`: one may take half a minute.",
                "rounds",
                True,
                low=1,
                high=10_000,
            ),
        ),
        compared=Compared(QUERY, ("wall_ms", "took_ms"), "100%", "esql_rounds"),
        minutes=12,
        disk_factor=8,
        needs=Needs(esql=True),
        test_mode={"esql_rounds": 2, "warmup_iterations": 1},
        limits=(shards_of_searches, segments, _warm, corpus_in_memory),
        leaves=(INDEX,),
        check=_whole_values,
        role="cluster-metrics-race-settings",
        asks_as="cluster-metrics-query-settings",
    ),
)
