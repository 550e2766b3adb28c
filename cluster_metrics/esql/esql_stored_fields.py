"""Runners and param sources of esql-stored-fields: what it costs ES|QL to load text, by share of the documents."""

import json
import time
from dataclasses import dataclass
from typing import Any

from esrally import exceptions

from ..core.rounds import Guard, RoundParams, Runner, losing_one, outcome, round_result, shuffled, timed
from ..corpus.prepared import Prepared
from ..wire.esql import PRAGMA, esql_request, response_problem, why_not
from ..wire.requests import Request, aside, guarding, request, send, touch
from .text_values import FORMS, INDEX, TextValues, text_of

QUERY, PROFILED = "esql-query", "esql-profiled"
"""``operation-type`` of the samples without the profiler and with it."""

SETTING = "index.esql.stored_fields_sequential_proportion"
"""Least share of documents in a page from which stored fields are read in sequence; 8.19 and 9.1 brought it."""
PRICE = "it is for all queries of the index, and shares at which the other way of reading is faster lose"
"""What one pays for another value of the setting."""
PROFILED_ROUNDS = 3
"""Rounds with the profiler, as the challenge has them."""
AS_IS = "as is"
"""Stands for the target's own value of the setting."""
LOADER = "ValuesSourceReaderOperator"


@dataclass(frozen=True)
class Question:
    """The text lengths of a share of the documents, summed up.

    :param share_permille: of all documents.
    :param setting: ``AS_IS`` or the value to set, as a number.
    :param documents: exact number of documents of this share.
    :param chars: exact sum of their lengths.
    :param query: in ES|QL.
    """

    share_permille: int
    setting: str
    documents: int
    chars: int
    query: str

    @property
    def cell(self) -> str:
        share = f"{self.share_permille / 10:g}%"
        return share if self.setting == AS_IS else f"{share} at {self.setting}"

    @property
    def about(self) -> dict[str, Any]:
        """What a sample says of it."""
        return {key: getattr(self, key) for key in ("share_permille", "setting", "documents", "chars")}

    def request(self, profile: bool) -> Request:
        return esql_request(self.query, **PRAGMA, **({"profile": True} if profile else {}))


class StoredFieldsParams(RoundParams):
    """Param source of the rounds: every question once, by setting; settings and shares in seeded order.

    Mandatory key: ``profile``, whether the profiler is on. Track parameters: ``shares_permille``,
    ``sequential_proportions_permille``, ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        super().__init__(track, {"warmup-iterations": 0, **params}, **kwargs)
        self._prepared = Prepared(track, TextValues)

    def _make(self, share: int, setting: str) -> Question:
        corpus, chars = self._prepared.corpus, self._prepared.answers()
        values = share * corpus.values // 1000
        where = f' | WHERE {FORMS[corpus.form]} <= "{text_of(values)}"' if share < 1000 else ""
        documents = values * (corpus.documents // corpus.values)
        query = f"FROM {INDEX}{where} | STATS SUM(LENGTH(text))"
        return Question(share, setting, documents, sum(chars[:values]), query)

    def round(self, number: int) -> dict[str, Any]:
        shares, key = self.values["shares_permille"], (self.values["seed"], "esql", number)
        settings = [AS_IS, *(f"{p / 1000:g}" for p in self.values["sequential_proportions_permille"])]
        asked = [
            (setting, [self._make(share, setting) for share in shuffled(shares, *key, setting)])
            for setting in shuffled(settings, *key)
        ]
        return {"profile": self.operation["profile"], "settings": asked}

    def afterwards(self, round_s: float) -> float:
        """That of the rounds with the profiler."""
        return PROFILED_ROUNDS * round_s


def judge(question: Question, response: dict[str, Any]) -> list[str]:
    """What is wrong with a response, held against the exact answer."""
    if problem := response_problem(response):
        return [problem]
    problems = []
    if response["values"] != [[question.chars]]:
        problems.append(f"SUM(LENGTH(text)) is {response['values']}, exact {question.chars}")
    if (found := response.get("documents_found", question.documents)) != question.documents:
        problems.append(f"documents_found is {found}, exact {question.documents}")
    return problems


def loading(response: dict[str, Any]) -> dict[str, Any]:
    """What a profile says about the loading of values.

    :return: ``process_ms`` of the operators that load values; ``pages_sequential`` and ``pages_other``, for how many
        pages a reader of stored fields was built that reads in sequence, and one that does not.
    """
    found = {"process_ms": 0.0, "pages_sequential": 0, "pages_other": 0}
    for driver in response["profile"]["drivers"]:
        for operator in driver["operators"]:
            if not operator["operator"].startswith(LOADER):
                continue
            found["process_ms"] += operator["status"]["process_nanos"] / 1e6
            for reader, pages in operator["status"]["readers_built"].items():
                if reader.startswith("stored_fields["):
                    found["pages_sequential" if "sequential: true" in reader else "pages_other"] += pages
    return found


class StoredFieldsRunner(Runner):
    """Runs one round: every share of the documents once, at every setting, each a ``service_time`` document."""

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        timings: list[dict[str, Any]] = []
        missing = 0
        for setting, questions in params["settings"]:
            proportion = await self._set(es, setting)
            if proportion is None and setting != AS_IS:
                missing += 1
                continue
            common = {"round": params["round"]} | ({} if proportion is None else {"sequential_proportion": proportion})
            for question in questions:
                kind = PROFILED if params["profile"] else QUERY
                with losing_one(question.cell, kind, timings, **question.about, **common):
                    timings.append(await self._ask(es, question, kind) | common)
        await self._set(es, AS_IS)
        return round_result(timings, round=params["round"], settings_missing=missing)

    async def _set(self, es: Any, setting: str) -> float | None:
        """Sets the proportion and returns the value in force; None when the target has no such setting.

        :raises esrally.exceptions.RallyAssertionError: when that fails, as where the index is missing; this ends the
            race, for the setting is not known then.
        """
        path = f"/{INDEX}/_settings"
        of = f"{path}/{SETTING}?include_defaults=true&flat_settings=true"
        with guarding(f"setting {SETTING}"), aside(es):
            found = (await request(es, "GET", of))[INDEX]
            if not found["settings"] and not found["defaults"]:
                return None
            await request(es, "PUT", path, {SETTING: None if setting == AS_IS else float(setting)})
            found = (await request(es, "GET", of))[INDEX]
        return float((found["defaults"] | found["settings"])[SETTING])

    async def _ask(self, es: Any, question: Question, kind: str) -> dict[str, Any]:
        absolute_time, client_s = time.time(), time.process_time()
        with es.new_request_context() as context:
            raw = await send(es, question.request(kind == PROFILED))
        client_s = time.process_time() - client_s
        response = json.loads(raw)
        started, ended = context.request_start, context.request_end
        return question.about | {
            "took_ms": float(response["took"]),
            "wall_ms": 1000 * (ended - started),
            "client_ms": 1000 * client_s,
            **{key: response[key] for key in ("documents_found", "values_loaded") if key in response},
            **(loading(response) if kind == PROFILED else {}),
            **outcome(judge(question, response), "wrong-answer"),
            "dependent_timing": timed(question.cell, kind, absolute_time, started, ended),
        }


class CheckEsql(Guard):
    """Whether the target answers ES|QL with the pragma that the challenge needs; before anything is loaded.

    :raises esrally.exceptions.RallyAssertionError: when it does not; this ends the race.
    """

    async def run(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await touch(es)
        if problem := await why_not(es, **PRAGMA):
            raise exceptions.RallyAssertionError(problem)
        return {"weight": 1, "unit": "checks"}
