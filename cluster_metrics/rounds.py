"""What a runner that walks a plan returns for one round."""

from typing import Any


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
