"""Web server log lines: realistic long text for any corpus, a pure function of a seed and the number of the block.

A line is in the combined log format with a request time and a request id behind it, as many servers are set up::

    54.201.7.93 - - [01/Nov/2026:00:48:20 +0000] "GET /cart/51877?lang=en HTTP/1.1" 200 18734 "https://mail.exam…

Clients, pages, referrers and browsers are drawn with Zipf-like popularity; ids, sizes and times are what makes nearly
every line another. Lines are ASCII, without backslash or control characters, so JSON needs their quotes escaped and no
more. All draws come from SHAKE-128: the same lines on every host, and any block without those before it.
"""

from array import array
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from .draws import numbers, shake, slots

NAME = "loglines"
FORMAT_VERSION = 1
BLOCK_LINES = 10_000
LINES_PER_SECOND = 100
START = datetime(2026, 11, 1, tzinfo=timezone.utc)
TEMPLATE = '%s - - [%s] "%s%d%s HTTP/1.1" %s %d "%s" "%s" 0.%03d %s'
"""A line made of one record: client, time, request up to its id, id, rest of the request, status, bytes, referrer,
user agent, request time in ms, request id."""
SLOTS = 4096
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
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


def _agents() -> list[str]:
    return [
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{142 - n}.0.{7444 - 61 * n}.{50 + 7 * n} Safari/537.36"
        for n in range(8)
        for system in _SYSTEMS
    ]


def _tables(seed: int) -> list[list[str]]:
    raw = shake(NAME, FORMAT_VERSION, seed, "clients", size=4 * SLOTS)
    clients = [".".join(map(str, raw[i : i + 4])) for i in range(0, len(raw), 4)]
    requests = [f"{method} {section}" for section in _SECTIONS for method in _METHODS]
    referrers = [site if site == "-" else f"{site}{n}" for n in range(64) for site in _SITES]
    return [slots(items, SLOTS) for items in (clients, requests, _ENDINGS, _STATUSES, referrers, _agents())]


def records(seed: int, block: int) -> Iterator[tuple]:
    """The records of a block of 10,000 lines, for corpora that want the fields apart.

    :param seed: of all draws.
    :param block: counted from 0; 100 seconds of the log.
    :return: tuples as ``TEMPLATE`` takes them.
    """
    clients, requests, endings, statuses, referrers, agents = _tables(seed)
    draws = numbers(shake(NAME, FORMAT_VERSION, seed, "block", block, size=2 * 8 * BLOCK_LINES))
    columns = [draws[i * BLOCK_LINES : (i + 1) * BLOCK_LINES] for i in range(8)]
    first = START + timedelta(seconds=block * BLOCK_LINES // LINES_PER_SECOND)
    seconds = (first + timedelta(seconds=s) for s in range(BLOCK_LINES // LINES_PER_SECOND))
    times = (f"{t:%d}/{_MONTHS[t.month - 1]}/{t:%Y:%H:%M:%S} +0000" for t in seconds)
    ids = shake(NAME, FORMAT_VERSION, seed, "ids", block, size=16 * BLOCK_LINES).hex()

    def looked_up(table: list[str], column: array) -> Iterator[str]:
        return map(table.__getitem__, (draw % SLOTS for draw in column))

    return zip(
        looked_up(clients, columns[0]),
        (time for time in times for _ in range(LINES_PER_SECOND)),
        looked_up(requests, columns[1]),
        columns[2],
        looked_up(endings, columns[3]),
        looked_up(statuses, columns[4]),
        columns[5],
        looked_up(referrers, columns[6]),
        looked_up(agents, columns[7]),
        (draw * draw * 1000 >> 32 for draw in columns[5]),
        (ids[i : i + 32] for i in range(0, len(ids), 32)),
    )


def lines(seed: int, block: int) -> list[str]:
    """The lines of a block, without line ends; see :func:`records`."""
    return [TEMPLATE % record for record in records(seed, block)]
