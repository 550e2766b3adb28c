"""What make's process does for a race when its runners ask: HTTP on loopback, from nowhere else."""

import contextlib
import http.client
import json
from dataclasses import dataclass
from typing import Any

from .parameters import PORT, PORT_WORDS, Text

NONE = "none"
SECONDS = 120
"""For which an answer may take."""


@dataclass(frozen=True)
class Served(Text):
    """Where make's process serves something to one load driver.

    :param server: what serves it, in words.
    """

    selects: bool = True
    pattern: str = rf"{NONE}|127\.0\.0\.1:{PORT}"
    form: str = f"{NONE}, or host:port on 127.0.0.1, {PORT_WORDS}"
    server: str = ""

    def accepted(self, value: Any) -> Any:
        return NONE if value is None else super().accepted(value)  # what Rally makes of a bare none


def ask(address: str, what: str) -> dict[str, Any]:
    """Asks what is served there.

    :param address: ``host:port``.
    :param what: of it.
    :raises OSError, ValueError, http.client.HTTPException: when it does not answer as it should.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("POST", f"/{what}")
        return json.loads(connection.getresponse().read())
