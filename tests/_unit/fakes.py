"""What unit tests put in the place of Rally and Elasticsearch, once for all of them."""

import contextlib
import copy
import io
import itertools
import json
import os
from dataclasses import asdict, dataclass
from types import SimpleNamespace

import elasticsearch

from _tools.profile.sampler import SamplerError
from _tools.race.rally import resolved
from cluster_metrics.core.experiment import check
from cluster_metrics.corpus.encoded import generate_bodies


def values(**changes):
    """All track parameters, checked, with their defaults but for the changes."""
    return check(resolved("") | changes)


def track_of(*corpora, root, encodings=(), indices=None):
    """A Rally track with these corpora, generated below ``root``, as a param source finds it after preparation."""
    found = []
    for corpus in corpora:
        documents = []
        for number, part in enumerate(corpus.parts()):
            path = corpus.generate(number, root)
            for encoding in encodings:
                generate_bodies(corpus, number, encoding, path)
            documents.append(SimpleNamespace(document_file=str(path), meta_data=part.meta))
        found.append(SimpleNamespace(name=corpus.name, meta_data=asdict(corpus), documents=documents))
    return SimpleNamespace(
        corpora=found,
        indices=[SimpleNamespace(name=name, body=body) for name, body in (indices or {}).items()],
    )


def table(sections, key):
    """The table of a report that has this key."""
    return next(found for section in sections for found in section.tables if found.key == key)


def rows(sections, key):
    """The rows of a table of a report by their first column."""
    found = table(sections, key)
    return {row[found.columns[0].key]: row for row in found.rows}


@dataclass(frozen=True)
class Refused:
    """An answer with another status than 200; without a type of error, the reason is the whole body."""

    status: int
    kind: str = ""
    reason: str = ""

    @property
    def body(self):
        return (
            {"error": {"type": self.kind, "reason": self.reason}, "status": self.status} if self.kind else self.reason
        )


TIMEOUT = elasticsearch.ConnectionTimeout("Connection timed out during request")
LOST = elasticsearch.ConnectionError("Server disconnected")


class Script:
    """Answers by what requests begin with, such as ``"GET /_nodes"``, the first that fits; of a list one after the
    other, and then the last again and again."""

    def __init__(self, answers):
        self._answers = {key: found if isinstance(found, list) else [found] for key, found in answers.items()}

    def __call__(self, method, path, body):
        found = next((of for key, of in self._answers.items() if f"{method} {path}".startswith(key)), None)
        assert found, f"no answer to {method} {path}"
        return found.pop(0) if len(found) > 1 else found[0]


class FakeEs:
    """Rally's client of Elasticsearch, with a script of answers.

    Each request takes one second of a clock of its own, and is repeated when the real client would repeat it.

    :param answer: of a request's method, path and body: the decoded response, a :class:`Refused` or an exception, which
        is raised; a :class:`Script`, for example.
    """

    def __init__(self, answer):
        self._answer = answer
        self._options = {"max_retries": 3, "retry_on_timeout": False}
        self._clock = itertools.count()
        self._now = SimpleNamespace(contexts=[], raw=False)
        self.requests, self.headers, self.timeouts = [], [], []
        node = SimpleNamespace(config=SimpleNamespace(host="127.0.0.1"), close=self._close)
        self.transport = SimpleNamespace(
            node_pool=SimpleNamespace(all=lambda: [node]), serializers=SimpleNamespace(serializers={})
        )

    async def _close(self):
        pass

    @property
    def sent(self):
        """Method and path of each request."""
        return [f"{method} {path}" for method, path, _ in self.requests]

    @contextlib.contextmanager
    def new_request_context(self):
        context = SimpleNamespace(request_start=None, request_end=None)
        self._now.contexts.append(context)
        raw, self._now.raw = self._now.raw, False
        try:
            yield context
        finally:
            self._now.contexts.pop()
            self._now.raw = raw

    def init_request_context(self):
        kept, self._now.contexts = self._now.contexts, []
        raw, self._now.raw = self._now.raw, False
        return None, (kept, raw)

    def restore_context(self, token):
        self._now.contexts, self._now.raw = token

    def return_raw_response(self):
        self._now.raw = True

    def on_request_start(self):
        at = next(self._clock)
        for context in self._now.contexts:
            context.request_start = at if context.request_start is None else context.request_start

    def on_request_end(self):
        at = next(self._clock)
        for context in self._now.contexts:
            context.request_end = at

    def options(self, **options):
        other = copy.copy(self)
        other._options = self._options | options
        return other

    async def perform_request(self, method, path, headers=None, body=None):
        for attempt in range(self._options["max_retries"] + 1):
            self.requests.append((method, path, body))
            self.headers.append(headers)
            self.timeouts.append(self._options.get("request_timeout"))
            self.on_request_start()
            found = self._answer(method, path, body)
            self.on_request_end()
            again = isinstance(found, elasticsearch.ConnectionError)
            again |= isinstance(found, elasticsearch.ConnectionTimeout) and self._options["retry_on_timeout"]
            again |= isinstance(found, Refused) and found.status in (429, 502, 503, 504)
            if not again or attempt == self._options["max_retries"]:
                break
        if isinstance(found, Exception):
            raise found
        refused = isinstance(found, Refused)
        answer = found.body if refused else found
        if self._now.raw:
            answer = io.BytesIO(answer.encode() if isinstance(answer, str) else json.dumps(answer).encode())
        if refused:
            kind = elasticsearch.exceptions.HTTP_EXCEPTIONS.get(found.status, elasticsearch.ApiError)
            raise kind(found.kind, SimpleNamespace(status=found.status), answer)
        return SimpleNamespace(body=answer)


class Sampling:
    """Stands for a sampler whose node is this process.

    :param fails_at: number of the start that fails, and all that follow.
    """

    pids = (os.getpid(),)

    def __init__(self, fails_at=100):
        self.told, self._fails_at = [], fails_at

    def start(self):
        if self.told.count("start") + 1 >= self._fails_at:
            raise SamplerError("node target-1, process 7, has ended or was started anew")
        self.told.append("start")
        return [f"/kept/{self.told.count('start')}.jfr"]

    def stop(self):
        self.told.append("stop")
