"""Watches what a race needs, and ends it when that is lost: Rally would wait 17 minutes for a metrics store, and count
the requests to a target that is gone as failed ones."""

import contextlib
import logging
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import elasticsearch
from esrally.utils import opts

from ..elasticsearch.nodes import Cluster, Launcher
from ..report.race import IncompleteError
from ..report.store import connect
from ..report.text import count
from ..sketch_server import launch as sketch_server
from . import clusters, rally
from .variables import shown, variable

LOOK_SECONDS = 1
"""Between two looks at processes."""
ASK_SECONDS = 5
"""Between two questions to what runs elsewhere, and for an answer."""
PATIENCE_SECONDS = 15
"""For which no answer comes before what was asked is taken for lost."""
BUSY = (429, 502, 503, 504)
"""What a store answers that cannot take samples; Rally waits for it as if there were no answer."""
LOG = rally.INI.parent / "logs" / "rally.log"
WRITTEN = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ .*Successfully added (\d+) metrics documents")
"""A line of Rally's log: when, in UTC, and how many."""

DROPPED = b"Dropping sample for ["
"""What it says of each sample that finds no room in the queue before the metrics store."""


class LostError(Exception):
    """What a race needs is lost; the message names it."""


@dataclass
class Watch:
    """Of one race.

    :param embedded: clusters whose processes must run.
    :param asked: what must answer, by name: a function that raises what it does when there is no answer.
    :param log: of Rally, which says how many documents of samples it wrote.
    """

    race_id: str
    embedded: list[Cluster]
    asked: dict[str, Callable[[], object]]
    log: Path = LOG
    _answered: dict[str, float] = field(default_factory=dict)
    _next: float = 0
    _log_start: int = 0

    def __post_init__(self) -> None:
        self._answered = dict.fromkeys(self.asked, time.monotonic())
        with contextlib.suppress(OSError):
            self._log_start = self.log.stat().st_size

    def run(self, command: list[str]) -> int:
        """Runs Rally and returns its exit code.

        :raises IncompleteError: with one line that names what was lost, once Rally has ended: until then it writes
            samples.
        """
        code = 0
        try:
            code = rally.run(command, self.wait)
            lost = "" if code else self._dropped()
        except LostError as e:
            lost = f"{e}; {self._written()}"
        if lost:
            raise IncompleteError(
                f"race {self.race_id} is INCOMPLETE: {lost}; "
                f"'make report RACE={self.race_id}' shows what there is of it"
            )
        return code

    def _logged(self) -> Iterator[bytes]:
        """The lines that Rally logged during the race."""
        with contextlib.suppress(OSError), open(self.log, "rb") as f:
            f.seek(self._log_start)
            yield from f

    def _dropped(self) -> str:
        """How many samples Rally says that it dropped; the metrics store does not know of them."""
        number = sum(DROPPED in line for line in self._logged())
        return f"Rally dropped {count(number, 'sample')}, for which its queue had no room" if number else ""

    def wait(self, process: subprocess.Popen) -> int:
        """Waits for Rally and returns its exit code.

        :raises LostError: Rally may still run.
        """
        while True:
            code = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK_SECONDS)
            # Rally may notice first, and end
            if code != 0 and (lost := self._ended() or ("" if code else self._silent())):
                raise LostError(lost)
            if code is not None:
                return code

    def _ended(self) -> str:
        for cluster in self.embedded:
            running = {process.pid for process in cluster.processes()}
            if ended := [str(pid) for pid, _ in cluster.pids if pid not in running]:
                return f"the {cluster.name} is lost, its process {' and '.join(ended)} has ended"
        return ""

    def _silent(self) -> str:
        if time.monotonic() < self._next:
            return ""
        self._next = time.monotonic() + ASK_SECONDS
        for name, ask in self.asked.items():
            try:
                ask()
            except elasticsearch.ApiError as e:
                problem = clusters.first_line(e) if e.status_code in BUSY else ""
            except (elasticsearch.TransportError, OSError) as e:
                problem = clusters.first_line(e)
            else:
                problem = ""
            if not problem:
                self._answered[name] = time.monotonic()
            elif (seconds := time.monotonic() - self._answered[name]) >= PATIENCE_SECONDS:
                return f"the {name} is lost, it has not answered for {seconds:.0f} s ({problem})"
        return ""

    def _written(self) -> str:
        """How many documents of samples Rally says that it wrote; those that it holds back are lost, and it counts them
        nowhere."""
        lines = (WRITTEN.match(line.decode(errors="replace")) for line in self._logged())
        found = [line.groups() for line in lines if line]
        if not found:
            return "no documents of samples were written"
        last = datetime.fromisoformat(found[-1][0]).replace(tzinfo=timezone.utc)
        ago = max(0, int((datetime.now(timezone.utc) - last).total_seconds()))  # 0 where the clock was set back since
        written, lost = sum(int(number) for _, number in found), f"what came in the last {ago:,} s may be lost"
        return f"at least {written:,} documents of samples were written, {lost}"


def watch(launcher: Launcher, hosts: str, race_id: str) -> Watch:
    """The watch over a race: over the processes of embedded clusters, over ports and answers of others.

    :param hosts: of the target.
    """
    names = [] if variable("HOSTS") else [clusters.TARGET]
    names += [] if clusters.named_store() else [clusters.STORE]
    names += [sketch_server.NAME] if clusters.needs().sketch_server else []
    # it warns of every question without an answer
    logging.getLogger("elastic_transport.node_pool").setLevel(logging.ERROR)
    store = connect(rally.INI).options(request_timeout=ASK_SECONDS, max_retries=0)
    asked: dict[str, Callable[[], object]] = {"metrics store": lambda: takes_samples(store)}
    if variable("HOSTS"):
        asked[f"target [{shown(hosts)}]"] = lambda: knock(opts.TargetHosts(hosts).all_hosts["default"])
    return Watch(race_id, [found for name in names if (found := launcher.running(name))], asked)


def takes_samples(store: elasticsearch.Elasticsearch) -> None:
    """Asks a metrics store for the indices that Rally writes to.

    :raises elasticsearch.ApiError, elasticsearch.TransportError: as the client does.
    :raises OSError: when shards of them are lost, as on a disk that is full; Rally would wait for them.
    """
    store.info()
    if (health := store.cluster.health(index="rally-*"))["status"] == "red":
        raise OSError(f"{health['unassigned_shards']} shards of its indices are lost")


def knock(hosts: list[dict]) -> None:
    """Connects to one of several hosts; a target under load may take long to answer more than that.

    :raises OSError: when none accepts.
    """
    for number, host in enumerate(hosts, 1):
        try:
            socket.create_connection((host["host"], host["port"]), ASK_SECONDS / len(hosts)).close()
            return
        except OSError:
            if number == len(hosts):
                raise
