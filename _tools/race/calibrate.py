"""How many clients the cells of a capacity challenge take: found by short races before the race itself, as Rally fixes
them when it loads a track."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

from cluster_metrics.capacity._report.cells import clients_wanted
from cluster_metrics.capacity.challenge import CELL_CLIENTS, CLIENTS, KEEP
from cluster_metrics.core.challenge import Challenge, challenges

from ..report.race import IncompleteError
from ..report.store import connect, load
from .rally import params_of, resolved
from .variables import RACE_ID, VARIABLES, RaceError

MOST = 3
"""Short races at most."""
FACTOR = 1.5
"""By which the clients of an idle cell grow at least, as a cell of seconds tells by about how many it takes."""
SHORT = {"passes": 1, "first_passes": 1, "first_pass_seconds": 5, "cell_warmup_seconds": 0, "cell_seconds": 5}
"""Track parameters of a short race."""
TAG = "calibrates"
"""User tag of short races, whose value is the id of the race that follows."""


def check(challenge: str, race_id: str) -> None:
    """Whether the race can be calibrated.

    :raises RaceError: when its cells do not send as fast as they are answered, or its id leaves no room for others.
    """
    if not _takes_clients(challenges()[challenge]):
        others = " and ".join(name for name, record in challenges().items() if _takes_clients(record))
        raise RaceError(f"CALIBRATE is [1], but {challenge} has no number of clients to find; {others} have")
    if not re.fullmatch(RACE_ID, name_of(race_id, MOST), re.ASCII):
        raise VARIABLES["RACE_ID"].wrong(race_id, "shorter with CALIBRATE, whose races take its beginning")


def _takes_clients(record: Challenge) -> bool:
    return CLIENTS in record.parameters and not record.latencies


def name_of(race_id: str, number: int) -> str:
    """The id of a short race before that of this id."""
    return f"{race_id}-clients-{number}"


def calibrated(challenge: str, params: str, race_id: str, race: Callable[[str, str], int], ini: Path) -> str:
    """Races shortly, each time with more clients in the cells in which neither a node nor the client was at its limit,
    until there is none, there are as many clients as a cell may have, or it was done three times.

    :param params: track parameters of the race that follows.
    :param race: races with track parameters and an id, and returns Rally's exit code.
    :param ini: the ``rally.ini`` of its metrics store.
    :return: track parameters with the clients of each cell; where words can be kept, they are, from the first on.
    :raises IncompleteError: when a short race failed.
    """
    given = params_of(params) | ({KEEP.name: True} if KEEP in challenges()[challenge].parameters else {})
    values = resolved(params, challenge)
    clients, others = dict(values[CELL_CLIENTS.name]), values[CLIENTS.name]
    for number in range(1, MOST + 1):
        name = name_of(race_id, number)
        print(f"race {name}, a short one that finds how many clients the cells take", flush=True)
        if code := race(json.dumps(given | SHORT | {CELL_CLIENTS.name: clients}), name):
            raise IncompleteError(f"race {name} is INCOMPLETE (Rally ended with {code}), so clients are not found")
        found = load(connect(ini), name)
        if not found.shares():
            print(
                "the target's nodes are held to no share of the CPU, so it cannot be told which cells take more clients"
            )
        more = _more(clients, others, clients_wanted(found))
        if not more:
            break
        clients |= more
    print(f"{CELL_CLIENTS.name} is {json.dumps(clients)}", flush=True)
    return json.dumps(given | {CELL_CLIENTS.name: clients})


def _more(clients: dict[str, int], others: int, wanted: dict[str, int]) -> dict[str, int]:
    """The clients of the cells that take more, at least half as many again.

    :param others: the clients of cells that are not named.
    """
    grown = {
        cell: min(CLIENTS.high, max(number, math.ceil(FACTOR * clients.get(cell, others))))
        for cell, number in wanted.items()
    }
    return {cell: number for cell, number in grown.items() if number > clients.get(cell, others)}
