"""What is recorded of the documents of a capacity challenge."""

import asyncio

import pytest
from fakes import FakeEs

from cluster_metrics.capacity.load import IndexRunner


@pytest.mark.parametrize("failed, errors", [(0, 0), (1, 1), (2, 1)])
def test_a_document_is_one_error_however_many_replicas_failed_to_take_it(failed, errors):
    es = FakeEs(lambda *_: {"_shards": {"failed": failed}})
    params = {"cell": "1s-2r", "pass": 1, "index": "i", "documents": [b"{}\n"]}
    found = asyncio.run(IndexRunner()(es, params))
    assert (found["weight"], found["success-count"], found["error-count"]) == (1, 1 - errors, errors)
    assert found["success"] is not bool(errors)
