"""ES|QL requests, and one clear line for each way in which a target may fail to answer them."""

import json
from typing import Any

from .requests import Request, aside, send

PATH = "/_query"
PRAGMA = {"pragma": {"data_partitioning": "shard"}, "accept_pragma_risks": True}
"""One driver for the whole shard, so that versions with other ideas of parallelism do the same work one way."""


def esql_request(query: str, **body: Any) -> Request:
    """A query; further keys of the body such as ``profile``."""
    return Request(PATH, "application/json", json.dumps({"query": query, **body}).encode())


def refusal(error: Any) -> str:
    """What an answer other than 200 means, in one line.

    :param error: ``elasticsearch.ApiError`` of a request of this module.
    """
    body = error.body.getvalue() if hasattr(error.body, "getvalue") else error.body
    try:
        found = body["error"] if isinstance(body, dict) else json.loads(body)["error"]
        kind, reason = found["type"], found["reason"].replace("\n", " ")
    except (KeyError, TypeError, ValueError):
        return f"HTTP {error.status_code}"
    if "pragma" in reason:
        return f"this build of Elasticsearch refuses the pragma data_partitioning: {reason}"
    if "Unknown index" in reason or kind == "index_not_found_exception":
        return f"the index is missing, run the tasks tagged setup first: {reason}"
    if kind == "circuit_breaking_exception":
        return f"a circuit breaker stopped the query, give the target more heap: {reason}"
    return f"HTTP {error.status_code} {kind}: {reason}"


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
