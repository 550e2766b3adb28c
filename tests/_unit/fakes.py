"""What unit tests put in the place of Rally and Elasticsearch, once for all of them."""

import contextlib
import io
import itertools
import json
from dataclasses import asdict
from types import SimpleNamespace

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


class FakeEs:
    """Rally's client of Elasticsearch, with a script of answers.

    Each request takes one second of a clock of its own.

    :param answer: of a request's method, path and body, the decoded response; what it raises is raised.
    """

    def __init__(self, answer):
        self._answer = answer
        self._clock = itertools.count()
        self._contexts = []
        self._raw = False
        self.requests = []
        self.transport = SimpleNamespace(
            node_pool=SimpleNamespace(all=lambda: [SimpleNamespace(config=SimpleNamespace(host="127.0.0.1"))]),
            serializers=SimpleNamespace(serializers={}),
        )

    @contextlib.contextmanager
    def new_request_context(self):
        context = SimpleNamespace(request_start=None, request_end=None)
        self._contexts.append(context)
        yield context
        self._contexts.pop()

    def init_request_context(self):
        kept, self._contexts = self._contexts, []
        raw, self._raw = self._raw, False
        return None, (kept, raw)

    def restore_context(self, token):
        self._contexts, self._raw = token

    def return_raw_response(self):
        self._raw = True

    def options(self, **options):
        return self

    async def perform_request(self, method, path, headers=None, body=None):
        self.requests.append((method, path, body))
        found = self._answer(method, path, body)
        start, end = next(self._clock), next(self._clock)
        for context in self._contexts:
            context.request_start = start if context.request_start is None else context.request_start
            context.request_end = end
        return SimpleNamespace(body=io.BytesIO(json.dumps(found).encode()) if self._raw else found)
