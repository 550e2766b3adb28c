"""What a runner that walks a plan returns for one round."""

from typing import Any


def timed(operation: str, kind: str, absolute_time: float, started: float, ended: float) -> dict[str, Any]:
    """When a sample was taken, as Rally's ``dependent_timing`` wants it; Rally writes a ``service_time`` of it.

    :param operation: what the sample is about.
    :param kind: its ``operation-type``.
    :param absolute_time: when it began, in seconds since the epoch.
    :param started: the same by a clock that only goes forward, in seconds.
    :param ended: when the last response was there, by that clock.
    """
    return {
        "operation": operation,
        "operation-type": kind,
        "absolute_time": absolute_time,
        "request_start": started,
        "request_end": ended,
        "service_time": ended - started,
    }


def round_result(timings: list[dict[str, Any]], errors: list[str], **common: Any) -> dict[str, Any]:
    """The result of a round for Rally.

    :param timings: one entry per sample, with its ``dependent_timing``; Rally writes a document for each.
    :param errors: what went wrong, a line each; the first three are kept.
    :param common: metadata of the round itself.
    :return: with ``success``, ``error-count`` and, when something went wrong, ``error-type`` and ``error-description``.
    """
    result = {
        "weight": len(timings),
        "unit": "samples",
        **common,
        "dependent_timing": timings,
        "success": not errors,
        "error-count": len(errors),
    }
    if errors:
        result |= {"error-type": "failed-samples", "error-description": "; ".join(errors[:3])}
    return result
