"""What stands behind ``make``: race, aa, report, races, compare, plan, offline, up and down.

Their variables come through the environment.
"""

import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

from cluster_metrics.capacity._report.plan import Goal
from cluster_metrics.capacity._report.plan import plan as plan_of

from ..elasticsearch.install import InstallError
from ..elasticsearch.nodes import Launcher, NodeError
from ..report.noise import LEAST_RACES
from ..report.race import ReportError, connect, load_all
from ..report.write import write_comparison, write_noise, write_report
from ..sketch_server import launch as sketch_server
from . import clusters, rally
from .clusters import STORE, TARGET, running
from .offline import prepare as prepare_offline
from .rally import Store
from .variables import RaceError, switched_on, variable

DEFAULT_CHALLENGE = "query-decomp"
NOISE = rally.WORK / "noise.json"
"""Where the noise floors of ``make aa`` are kept."""


def prepare() -> Launcher:
    """Checks all that can be checked before a node starts.

    :raises RaceError: with what keeps the race from starting.
    """
    rally.check_folder_name()
    rally.check_no_other_rally()
    rally.write_configuration(clusters.named_store() or Store("http://127.0.0.1"))
    challenge, params = variable("CHALLENGE", DEFAULT_CHALLENGE), variable("PARAMS")
    rally.check_track(challenge, params)
    rally.check_disk(challenge, params, switched_on("TEST_MODE"), embedded=not variable("HOSTS"))
    return Launcher(rally.WORK, rally.DOWNLOADS)


def command(hosts: str, client_options: str, params: str, race_id: str) -> list[str]:
    """The command line of the race that the variables describe."""
    line = rally.esrally(
        "race",
        f"--track-path={rally.TRACK}",
        f"--challenge={variable('CHALLENGE', DEFAULT_CHALLENGE)}",
        "--pipeline=benchmark-only",
        f"--target-hosts={hosts}",
        f"--race-id={race_id}",
        "--offline",
    )
    if params:
        line.append(f"--track-params={params}")
    if client_options:
        line.append(f"--client-options={client_options}")
    tags = [variable("TAGS"), f"delay_ms:{variable('DELAY_MS')}" if variable("DELAY_MS") else ""]
    if any(tags):
        line.append(f"--user-tags={','.join(filter(None, tags))}")
    if switched_on("TEST_MODE"):
        line.append("--test-mode")
    return line + variable("RALLY_ARGS").split()


def races_of(race_ids: list[str]) -> int:
    """Races as the variables say, once for each of these ids; returns Rally's exit code, the first that is not 0."""
    launcher = prepare()
    with (
        clusters.target_hosts(launcher) as (hosts, client_options),
        clusters.track_params(launcher) as params,
        clusters.metrics_store(launcher) as store,
    ):
        rally.write_configuration(store)
        for race_id in race_ids:
            rally.check_no_other_rally()
            if len(race_ids) > 1:
                print(f"race {race_id}, of {len(race_ids)} of one configuration", flush=True)
            if code := rally.run(command(hosts, client_options, params, race_id)):
                return code
        if len(race_ids) > 1:
            write_noise(rally.INI, race_ids, NOISE)
        else:
            write_report(rally.INI, race_ids[0], rally.WORK / "reports")
    return 0


def race() -> int:
    return races_of([variable("RACE_ID", str(uuid.uuid4()))])


def aa() -> int:
    """Races one configuration several times, or takes races that were raced before, and keeps how much they differ."""
    races = variable("RACES", "5")
    if not races.isdigit():
        return with_store(lambda ini: write_noise(ini, races.split(), NOISE, variable("CHALLENGE")))
    if int(races) < LEAST_RACES:
        raise RaceError(f"RACES is [{races}], noise between races takes {LEAST_RACES} or more")
    name = variable("RACE_ID", f"aa-{uuid.uuid4().hex[:8]}")
    return races_of([f"{name}-{number}" for number in range(1, int(races) + 1)])


def compare() -> int:
    names = variable("RACES").split()
    if len(names) < 2:
        raise RaceError('RACES names the races to compare: two or more ids, tags as key:value, or "last"')
    return with_store(lambda ini: write_comparison(ini, names, rally.WORK / "reports", NOISE, variable("CHALLENGE")))


def plan() -> int:
    """Prints how many nodes a load takes, by races of the capacity challenges."""
    names = variable("RACES").split()
    if not names:
        raise RaceError('RACES names the races to plan by: ids, tags as key:value, or "last"')
    goal = Goal(
        float(variable("TARGET_DOCS", "0")),
        float(variable("TARGET_QPS", "0")),
        int(variable("REPLICAS", "1")),
        float(variable("GROWTH", "1")),
        float(variable("HEADROOM", "0.3")),
        float(variable("DOCUMENTS", "0")),
    )
    if not goal.growth or not goal.docs and not goal.searches:
        raise RaceError(
            "TARGET_DOCS (documents/s), TARGET_QPS (searches/s) or both say what to plan for, GROWTH is above 0"
        )
    challenge = variable("CHALLENGE")

    def write(ini: Path) -> None:
        store = connect(ini)
        races = [race for name in dict.fromkeys(names) for race in load_all(store, name, challenge)]
        print(f"\n{plan_of(races, goal)}", flush=True)

    return with_store(write)


def with_store(write: Callable[[Path], None]) -> int:
    """Calls ``write`` with a ``rally.ini`` whose metrics store runs: the one of ``make race``."""
    with clusters.metrics_store(Launcher(rally.WORK, rally.DOWNLOADS)) as store:
        rally.write_configuration(store)
        write(rally.INI)
    return 0


def report() -> int:
    return with_store(lambda ini: write_report(ini, variable("RACE", "last"), rally.WORK / "reports"))


def races() -> int:
    """Has Rally list the races in the metrics store, those with TAGS only."""
    tags = [f"--user-tags={variable('TAGS')}"] if variable("TAGS") else []
    with clusters.metrics_store(Launcher(rally.WORK, rally.DOWNLOADS)) as store:
        rally.write_configuration(store)
        return rally.run(rally.esrally("list", "races", *tags, *variable("RALLY_ARGS").split()))


def offline() -> int:
    """Prepares a home for the bare command, with the metrics store of STORE or INI, or the embedded one if it is up."""
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    found = launcher.running(STORE)
    store = clusters.named_store() or (clusters.store_of(found) if found else None)
    print(prepare_offline(launcher, clusters.es_version(), variable("HEAP", "1g"), store), flush=True)
    return 0


def up() -> int:
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    wanted: dict[str, Callable] = {TARGET: clusters.start_target, STORE: clusters.start_store}
    if switched_on("SKETCH"):
        wanted[sketch_server.NAME] = sketch_server.start
    found = {name: running(launcher, name) or start(launcher, True) for name, start in wanted.items()}
    for name, started in found.items():
        print(clusters.where(name, started), flush=True)
    rally.write_configuration(clusters.store_of(found[STORE]))
    return 0


def down() -> int:
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    for name in (TARGET, STORE, sketch_server.NAME):
        print(f"the {name} is stopped" if launcher.stop(name) else f"the {name} was not running", flush=True)
    return 0


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        return {f.__name__: f for f in (race, report, races, compare, plan, aa, offline, up, down)}[sys.argv[1]]()
    except (RaceError, NodeError, InstallError, ReportError) as e:
        print(f"[ERROR] {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
