"""ES|QL requests, and one clear line for each way in which a target may fail to answer them."""

import json
from typing import Any

from .requests import Request, aside, refusal, send

PATH = "/_query"
PRAGMA = {"pragma": {"data_partitioning": "shard"}, "accept_pragma_risks": True}
"""One driver for the whole shard, so that versions with other ideas of parallelism do the same work one way."""


def esql_request(query: str, **body: Any) -> Request:
    """A query; further keys of the body such as ``profile``."""
    return Request(PATH, "application/json", json.dumps({"query": query, **body}).encode())


def response_problem(response: dict) -> str:
    """What keeps a response of HTTP 200 from being an answer; empty when nothing does."""
    if not response.get("is_partial"):
        return ""
    clusters = response.get("_clusters", {}).get("details", {}).values()
    reasons = {f["reason"]["reason"] for c in clusters for f in c.get("failures", [])}
    return f"is_partial: some shards did not answer{''.join(f'; {reason}' for reason in sorted(reasons))}"


async def why_not(es: Any, **body: Any) -> str:
    """Why the target has no ES|QL, or refuses the body's further keys, in one line; empty when it answers."""
    import elasticsearch

    try:
        with aside(es):
            answer = json.loads(await send(es, esql_request("ROW a = 1", **body)))
    except elasticsearch.ApiError as e:
        found = refusal(e)
        return found if "pragma" in found else f"the target has no ES|QL, {PATH} answers {found}"
    except ValueError:
        answer = {}
    return "" if answer.get("values") == [[1]] else f"the target has no ES|QL, {PATH} answers something else"
