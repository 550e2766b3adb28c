"""Draws that a key alone decides, the same on every host: bits of SHAKE-128."""

import hashlib
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any


def shake(*key: object, size: int) -> bytes:
    """That many bytes."""
    return hashlib.shake_128("/".join(map(str, key)).encode()).digest(size)


def numbers(raw: bytes | bytearray, code: str = "H") -> array:
    """Bytes as numbers, the lowest byte first.

    :param code: of their size, as in :mod:`array` (default 16 bits).
    """
    found = array(code, raw)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def slots(items: Sequence[Any], count: int, natural: bool = True) -> list[Any]:
    """The items, each in as many slots as its frequency asks; a draw below ``count`` looks one up.

    :param natural: by Zipf's law, the first most often; otherwise all alike.
    """
    ends = list(accumulate(10**9 // (place if natural else 1) for place in range(1, len(items) + 1)))
    return [items[bisect_right(ends, (2 * slot + 1) * ends[-1] // (2 * count))] for slot in range(count)]
