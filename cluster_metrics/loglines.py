"""Web server log lines: realistic long text for any corpus, a pure function of a seed and the number of the block.

A line is in the combined log format with a request time and a request id behind it, as many servers are set up::

    54.201.7.93 - - [21/Nov/2026:10:00:00 +0000] "GET /cart/51877?lang=en HTTP/1.1" 200 18734 "https://…" "Mozilla/…" 0.193 7f03…

Clients, pages, referrers and browsers are drawn with Zipf-like popularity; ids, sizes and times are what makes nearly
every line another. Lines are ASCII, without backslash or control characters, so JSON needs their quotes escaped and no
more. All draws come from SHAKE-128: the same lines on every host, and any block without those before it.
"""

import hashlib
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

FORMAT_VERSION = 1
BLOCK_LINES = 10_000
LINES_PER_SECOND = 100
START = datetime(2026, 11, 1, tzinfo=timezone.utc)
TEMPLATE = '%s - - [%s] "%s%d%s HTTP/1.1" %s %d "%s" "%s" 0.%03d %s'
"""A line made of one record: client, time, request up to its id, id, rest of the request, status, bytes, referrer,
user agent, request time in ms, request id."""
SLOTS = 4096
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_SECTIONS = (
    *("/", "/products/", "/api/v2/orders/", "/cart/", "/search?page=", "/static/img/product-", "/api/v2/users/"),
    *("/account/orders/", "/blog/2026/", "/api/v2/stock?item=", "/checkout/step-", "/help/article-", "/export/job-"),
)
_ENDINGS = ("", "?lang=en", "?lang=de&currency=EUR", "/details", "/reviews?sort=newest", ".json", "&utm_source=mail")
_METHODS = ("GET", "POST", "GET", "PUT", "GET", "DELETE")
_STATUSES = ("200", "304", "404", "301", "500", "403", "503")
_SITES = ("-", "https://shop.example.com/", "https://search.example.net/?q=", "https://mail.example.org/inbox/")
_SYSTEMS = (
    *("Windows NT 10.0; Win64; x64", "iPhone; CPU iPhone OS 18_5 like Mac OS X", "Macintosh; Intel Mac OS X 10_15_7"),
    *("Linux; Android 15; Pixel 9", "X11; Linux x86_64", "Linux; Android 14; SM-S921B"),
)


def _shake(*key: object, size: int) -> bytes:
    return hashlib.shake_128("/".join(map(str, ("loglines", FORMAT_VERSION, *key))).encode()).digest(size)


def _numbers(raw: bytes) -> array:
    found = array("H", raw)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def zipf(items: Sequence[Any]) -> list[Any]:
    """The items, each in as many of ``SLOTS`` slots as Zipf's law gives to its place; the first is the most frequent."""
    ends = list(accumulate(10**9 // place for place in range(1, len(items) + 1)))
    return [items[bisect_right(ends, (2 * slot + 1) * ends[-1] // (2 * SLOTS))] for slot in range(SLOTS)]


def _agents() -> list[str]:
    return [
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{142 - n}.0.{7444 - 61 * n}.{50 + 7 * n} "
        f"Safari/537.36"
        for n in range(8)
        for system in _SYSTEMS
    ]


def _tables(seed: int) -> list[list[Any]]:
    clients = _shake(seed, "clients", size=4 * SLOTS)
    return [
        [value for slot in table for value in slot] if isinstance(table[0], list) else table
        for table in (
            zipf([".".join(map(str, clients[i : i + 4])) for i in range(0, len(clients), 4)]),
            zipf([f"{m} {s}" for s in _SECTIONS for m in _METHODS[: 1 + len(s) % len(_METHODS)]]),
            zipf(_ENDINGS),
            zipf(_STATUSES),
            zipf([site + (f"ref-{n}" if n and site != "-" else "") for n in range(64) for site in _SITES]),
            zipf(_agents()),
        )
    ]
