"""Runners and param sources of esql-stored-fields: what it costs ES|QL to load text, by share of the documents."""

import itertools
import json
import time
from dataclasses import dataclass
from typing import Any

from esrally import exceptions

from .corpora import corpus_in
from .coverage import shuffled
from .esql import PRAGMA, esql_request, refusal, response_problem, why_not
from .files import load_answers
from .index import IndexCheck
from .queries import Request
from .requests import aside, request, send
from .rounds import round_result, timed
from .text_values import FORMS, INDEX, NAME, text_of

SETTING = "index.esql.stored_fields_sequential_proportion"
"""Least share of documents in a page from which stored fields are read in sequence; 8.19 and 9.1 brought it."""
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

    def request(self, profile: bool) -> Request:
        return esql_request(self.query, **PRAGMA, **({"profile": True} if profile else {}))


class Questions:
    """All questions of a race, with the exact answers beside them.

    :param track: the Rally track, after its track processor.
    :param params: of the operation; mandatory keys ``shares-permille``, ``sequential-proportions-permille``, ``seed``.
    """

    def __init__(self, track: Any, params: dict[str, Any]):
        self.corpus = corpus_in(track, NAME)
        self._file = next(c for c in track.corpora if c.name == NAME).documents[0].document_file
        self._shares = params["shares-permille"]
        self._settings = [AS_IS, *(f"{p / 1000:g}" for p in params["sequential-proportions-permille"])]
        self._seed = params["seed"]
        self._chars: list[int] = []

    def _make(self, share: int, setting: str) -> Question:
        values = share * self.corpus.values // 1000
        where = f' | WHERE {FORMS[self.corpus.form]} <= "{text_of(values)}"' if share < 1000 else ""
        documents = values * (self.corpus.documents // self.corpus.values)
        query = f"FROM {INDEX}{where} | STATS SUM(LENGTH(text))"
        return Question(share, setting, documents, sum(self._chars[:values]), query)

    def round(self, *key: object) -> list[tuple[str, list[Question]]]:
        """Every question once, by setting; settings and shares in an order that the key decides."""
        if not self._chars:
            self._chars = load_answers(self._file)
        return [
            (setting, [self._make(share, setting) for share in shuffled(self._shares, self._seed, *key, setting)])
            for setting in shuffled(self._settings, self._seed, *key)
        ]


class StoredFieldsParams:
    """Param source of the rounds; see :class:`Questions`. The track processor adds ``warmup-iterations``."""

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._questions = Questions(track, params)
        self._profile = params["profile"]
        self._rounds = itertools.count(1 - params.get("warmup-iterations", 0))

    def partition(self, partition_index: int, total_partitions: int) -> "StoredFieldsParams":
        return self

    def params(self) -> dict[str, Any]:
        number = next(self._rounds)
        return {"round": number, "profile": self._profile, "settings": self._questions.round("esql", number)}


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


class StoredFieldsRunner:
    """Runs one round: every share of the documents once, at every setting.

    Each goes to the metrics store as a ``service_time`` document of its own (``operation-type: esql-query``, with the
    profiler on ``esql-profiled``): ``round``, ``share_permille``, ``setting``, ``sequential_proportion`` (the value in
    force; absent where the target has no such setting), ``documents`` and ``chars`` (exact), ``took_ms``, ``wall_ms``,
    ``client_ms`` (CPU time of this process), ``documents_found`` and ``values_loaded`` (where the version tells), and
    with the profiler the keys of :func:`loading`. The round itself carries ``round``, ``error-count`` and
    ``settings_missing``, how many settings were left out since the target does not have it.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        timings: list[dict[str, Any]] = []
        errors: list[str] = []
        missing = 0
        for setting, questions in params["settings"]:
            proportion = await self._set(es, setting)
            if proportion is None and setting != AS_IS:
                missing += 1
                continue
            common = {"round": params["round"]} | ({} if proportion is None else {"sequential_proportion": proportion})
            for question in questions:
                try:
                    sample = await self._ask(es, question, params["profile"])
                except _Refused as e:
                    errors.append(f"{question.cell}: {e}")
                    continue
                if not sample["success"]:
                    errors.append(f"{question.cell}: {sample['error-description']}")
                timings.append(sample | common)
        await self._set(es, AS_IS)
        return round_result(timings, errors, round=params["round"], settings_missing=missing)

    async def _set(self, es: Any, setting: str) -> float | None:
        """Sets the proportion and returns the value in force; None when the target has no such setting.

        :raises esrally.exceptions.RallyAssertionError: when the index is missing; this ends the race.
        """
        import elasticsearch

        path = f"/{INDEX}/_settings"
        try:
            with aside(es):
                found = await request(es, "GET", f"{path}/{SETTING}?include_defaults=true&flat_settings=true")
                own = found[INDEX]
                if not own["settings"] and not own["defaults"]:
                    return None
                await request(es, "PUT", path, {SETTING: None if setting == AS_IS else float(setting)})
                found = await request(es, "GET", f"{path}/{SETTING}?include_defaults=true&flat_settings=true")
        except elasticsearch.NotFoundError:
            raise exceptions.RallyAssertionError(
                f"index [{INDEX}] is missing; run the tasks tagged setup first"
            ) from None
        return float({**found[INDEX]["defaults"], **found[INDEX]["settings"]}[SETTING])

    async def _ask(self, es: Any, question: Question, profile: bool) -> dict[str, Any]:
        import elasticsearch

        absolute_time, client_s = time.time(), time.process_time()
        try:
            with es.new_request_context() as context:
                raw = await send(es, question.request(profile))
        except elasticsearch.ApiError as e:
            raise _Refused(refusal(e)) from None
        client_s = time.process_time() - client_s
        response = json.loads(raw)
        problems = judge(question, response)
        seconds = context.request_end - context.request_start
        sample = {
            "share_permille": question.share_permille,
            "setting": question.setting,
            "documents": question.documents,
            "chars": question.chars,
            "took_ms": float(response["took"]),
            "wall_ms": 1000 * seconds,
            "client_ms": 1000 * client_s,
            **{key: response[key] for key in ("documents_found", "values_loaded") if key in response},
            **(loading(response) if profile else {}),
            "success": not problems,
            "error-count": len(problems),
            "dependent_timing": timed(
                question.cell,
                "esql-profiled" if profile else "esql-query",
                absolute_time,
                context.request_start,
                context.request_end,
            ),
        }
        if problems:
            sample |= {"error-type": "wrong-answer", "error-description": "; ".join(problems)}
        return sample

    def __repr__(self) -> str:
        return "esql-stored-fields"


class _Refused(Exception):
    """A query that got no answer; the message says why."""


class CheckEsql:
    """Whether the target answers ES|QL with the pragma that the challenge needs; before anything is loaded.

    :raises esrally.exceptions.RallyAssertionError: when it does not; this ends the race.
    """

    async def __call__(self, es: Any, params: dict[str, Any]) -> dict[str, Any]:
        await request(es, "GET", "/")  # a sample needs one request in the timed section
        if problem := await why_not(es, **PRAGMA):
            raise exceptions.RallyAssertionError(problem)
        return {"weight": 1, "unit": "checks"}

    def __repr__(self) -> str:
        return "check-esql"


class CheckTextParams:
    """Param source of check-index for the corpus text-values: the exact number of documents of each share.

    Mandatory keys: ``parameters`` (added by the track processor) and those of :class:`Questions`.
    """

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any):
        self._parameters = json.dumps(params["parameters"])
        self._corpus = corpus_in(track, NAME)
        self._shares = params["shares-permille"]

    def partition(self, partition_index: int, total_partitions: int) -> "CheckTextParams":
        return self

    def params(self) -> dict[str, Any]:
        corpus, field = self._corpus, FORMS[self._corpus.form]
        checks = [IndexCheck("", {"match_all": {}}, corpus.documents)]
        for share in self._shares:
            values = share * corpus.values // 1000
            query = {"range": {field: {"lte": text_of(values)}}}
            what = f" of the first {values:,} values"
            checks.append(IndexCheck(what, query, values * corpus.documents // corpus.values))
        return {"parameters": self._parameters, "index": INDEX, "checks": checks}
