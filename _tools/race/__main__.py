"""What stands behind ``make``: race, aa, report, races, compare, plan, offline, up and down.

Their variables come through the environment.
"""

import contextlib
import copy
import json
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import elasticsearch
from esrally.client import EsClientFactory
from esrally.utils import opts

from cluster_metrics.index import OLDEST_ELASTICSEARCH

from ..elasticsearch.install import DEFAULT_VERSION, InstallError, esql_versions
from ..elasticsearch.nodes import Cluster, Launcher, NodeError
from ..planner.plan import Goal
from ..planner.plan import plan as plan_of
from ..report.noise import LEAST_RACES
from ..report.race import ReportError, connect, load_all
from ..report.write import write_comparison, write_noise, write_report
from ..sketch_server import launch as sketch_server
from . import rally
from .delay import delayed
from .offline import prepare as prepare_offline
from .rally import RaceError, Store, StoreOf

TARGET, STORE = "target", "metrics-store"
TARGET_PORT, STORE_PORT = 9200, 9209
SKETCH_CHALLENGE = "sketch-floor"
NEED_ESQL = ("esql-stored-fields",)
NOISE = rally.WORK / "noise.json"
"""Where the noise floors of ``make aa`` are kept."""


def variable(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def switched_on(name: str) -> bool:
    return variable(name) not in ("", "0")


def checked(name: str, default: str, pattern: str, allowed: str) -> str:
    """A variable that must match a pattern.

    :raises RaceError: with one line that names the variable, the value and what is allowed.
    """
    value = variable(name, default)
    if not re.fullmatch(pattern, value):
        raise RaceError(f"{name} is [{value}], allowed is {allowed}")
    return value


def put_template(store: Cluster) -> None:
    """Puts Rally's own metrics template, less the one field type that the embedded node lacks; Rally keeps it."""
    template = json.loads(resources.files("esrally").joinpath("resources/metrics-template.json").read_text())
    adapted = json.loads(json.dumps(template).replace('"wildcard"', '"keyword"'))
    adapted["template"]["settings"]["index"]["number_of_replicas"] = 0
    template_url = f"{store.url}/_index_template/rally-metrics"
    store.session().put(template_url, json=adapted, timeout=60).raise_for_status()


def es_version() -> str:
    return checked("ES_VERSION", DEFAULT_VERSION, r"\d+\.\d+\.\d+", "a version such as 8.17.2")


def heap_size() -> str:
    return checked("HEAP", "1g", r"[1-9]\d*[mg]", "megabytes or gigabytes, such as 512m or 1g")


def target_variables() -> dict[str, str]:
    """What the embedded target is started by, checked, with defaults."""
    return {
        "ES_VERSION": es_version(),
        "NODES": checked("NODES", "1", r"[1-9]\d?", "an integer from 1 to 99"),
        "NODE_CORES": checked(
            "NODE_CORES", "0", r"\d{1,3}(\.\d+)?", "CPU cores of each node, such as 0.4; 0 leaves them free"
        ),
        "COORDINATOR": str(int(switched_on("COORDINATOR"))),
        "HEAP": heap_size(),
        "PORT": checked(
            "PORT", str(TARGET_PORT), r"[1-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}", "an integer from 1000 to 64999"
        ),
        "DATA": variable("DATA"),
        **store_variables(),
    }


def store_variables() -> dict[str, str]:
    return {"SECURITY": str(int(switched_on("SECURITY")))}


def start_target(launcher: Launcher, outlive: bool) -> Cluster:
    given = target_variables()
    version = given["ES_VERSION"]
    if variable("CHALLENGE") in NEED_ESQL and version not in esql_versions():
        allowed = " or ".join(esql_versions())
        raise RaceError(f"ES_VERSION is [{version}], which comes without ES|QL; allowed for it is {allowed}")
    # a node that was one of several does not start alone
    several = f"-{given['NODES']}-nodes" if given["NODES"] != "1" else ""
    return launcher.start(
        TARGET,
        version,
        int(given["NODES"]),
        given["HEAP"],
        int(given["PORT"]),
        port_is_fixed=bool(variable("PORT")),
        data=Path(given["DATA"] or launcher.root).absolute() / f"data-{version}{several}",
        outlive=outlive,
        secured=switched_on("SECURITY"),
        cores=float(given["NODE_CORES"]),
        coordinator=switched_on("COORDINATOR"),
        variables=given,
    )


def start_store(launcher: Launcher, outlive: bool) -> Cluster:
    store = launcher.start(
        STORE, port=STORE_PORT, outlive=outlive, secured=switched_on("SECURITY"), variables=store_variables()
    )
    put_template(store)
    return store


def running(launcher: Launcher, name: str) -> Cluster | None:
    """The cluster of that name if it is up.

    :raises RaceError: when a variable is set to what the cluster was not started with, or to what is not allowed.
    """
    wanted = {TARGET: target_variables, STORE: store_variables}.get(name, dict)()
    found = launcher.running(name)
    for key, value in wanted.items():
        if found and variable(key) and value != (before := found.variables[key]):
            raise RaceError(
                f"{key} is [{value}] but the {name} that is up was started with [{before}]; run 'make down' first"
            )
    return found


def where(name: str, found: Cluster) -> str:
    """Says at which hosts a cluster is, and how it lets clients in."""
    options = found.client_options_file
    at = f"the {name} is {found.product} {found.version} at {', '.join(found.hosts)}"
    return f"{at}, TLS, client options in {options}" if options else at


@contextlib.contextmanager
def cluster(launcher: Launcher, name: str, start: Callable[[Launcher, bool], Cluster]) -> Iterator[Cluster]:
    """A cluster that runs already, or one that is started now and stopped at the end."""
    if found := running(launcher, name):
        yield found
        return
    print(f"starting the {name} …", flush=True)
    started = start(launcher, False)
    print(where(name, started), flush=True)
    try:
        yield started
    finally:
        launcher.stop(name)


@contextlib.contextmanager
def target_hosts(launcher: Launcher) -> Iterator[tuple[str, str]]:
    """The hosts to benchmark: those of HOSTS, or the embedded target, as far away as DELAY_MS says.

    Beside them the client options for them, as ``--client-options`` takes them.
    """
    if hosts := variable("HOSTS"):
        if variable("DELAY_MS"):
            raise RaceError("DELAY_MS goes with the embedded target, not with HOSTS")
        yield hosts, variable("CLIENT_OPTIONS")
        return
    with cluster(launcher, TARGET, start_target) as target, distant(target.hosts) as hosts:
        yield hosts, variable("CLIENT_OPTIONS", target.client_options_file)


def named_store() -> Store | StoreOf | None:
    """The metrics store that STORE or INI names."""
    url, ini = variable("STORE"), variable("INI")
    if url and ini:
        raise RaceError("STORE and INI both name a metrics store; set one of them")
    return Store(url) if url else StoreOf(Path(ini).expanduser()) if ini else None


@contextlib.contextmanager
def distant(hosts: list[str]) -> Iterator[str]:
    """Hosts, with commas between, as far away as DELAY_MS says."""
    delay = float(checked("DELAY_MS", "0", r"\d{1,4}(\.\d+)?", "milliseconds from 0 to 9999"))
    with contextlib.ExitStack() as relays:
        yield ",".join(relays.enter_context(delayed(host, delay)) if delay else host for host in hosts)


@contextlib.contextmanager
def track_params(launcher: Launcher) -> Iterator[str]:
    """The track parameters. For the challenge that needs the sketch server one is started, unless they name another."""
    params = opts.to_dict(variable("PARAMS"))
    if variable("CHALLENGE") != SKETCH_CHALLENGE or "sketch_server" in params:
        yield variable("PARAMS")
        return
    with cluster(launcher, sketch_server.NAME, sketch_server.start) as server, distant(server.hosts) as host:
        yield json.dumps(params | {"sketch_server": host})


@contextlib.contextmanager
def metrics_store(launcher: Launcher) -> Iterator[Store | StoreOf]:
    """The metrics store to write to and read from: that of STORE or INI, or the embedded one."""
    if named := named_store():
        yield named
        return
    with cluster(launcher, STORE, start_store) as store:
        yield store_of(store)


def store_of(cluster: Cluster) -> Store:
    """An embedded cluster as a metrics store."""
    options = cluster.client_options
    if not options:
        return Store(cluster.url)
    url = cluster.url.replace("//", f"//{options['basic_auth_user']}:{options['basic_auth_password']}@")
    return Store(url, options["ca_certs"])


def check_target(hosts: str, client_options: str) -> None:
    """Asks the target for ``GET /`` with Rally's own client.

    :param client_options: as ``--client-options`` takes them; empty for Rally's own.
    :raises RaceError: when it does not answer as an Elasticsearch of 8.0 or newer does.
    """
    target = opts.TargetHosts(hosts)
    try:
        options = opts.ClientOptions(client_options or opts.ClientOptions.DEFAULT_CLIENT_OPTIONS, target)
    except (OSError, ValueError) as e:
        raise RaceError(f"CLIENT_OPTIONS is [{client_options}], which cannot be read: {e}") from None
    try:
        es = EsClientFactory(target.default, copy.deepcopy(options.default)).create()
        number = es.perform_request(method="GET", path="/").body["version"]["number"]
    except (elasticsearch.ApiError, elasticsearch.TransportError, KeyError, TypeError) as e:
        text = str(e).splitlines()[0]
        raise RaceError(f"the target [{hosts}] does not answer GET / as Elasticsearch does: {text}") from None
    if tuple(map(int, number.split(".")[:2])) < OLDEST_ELASTICSEARCH:
        raise RaceError(f"the target [{hosts}] is Elasticsearch {number}; this track needs 8.0 or newer")


def prepare() -> Launcher:
    """Checks all that can be checked before a node starts.

    :raises RaceError: with what keeps the race from starting.
    """
    rally.check_folder_name()
    rally.check_no_other_rally()
    rally.write_configuration(named_store() or Store("http://127.0.0.1"))
    rally.check_track(variable("CHALLENGE", "query-decomp"), variable("PARAMS"))
    rally.check_data_folder(variable("CHALLENGE", "query-decomp"), variable("PARAMS"), switched_on("TEST_MODE"))
    return Launcher(rally.WORK, rally.DOWNLOADS)


def command(hosts: str, client_options: str, params: str, race_id: str) -> list[str]:
    """The command line of the race that the variables describe."""
    line = rally.esrally(
        "race",
        f"--track-path={rally.TRACK}",
        f"--challenge={variable('CHALLENGE', 'query-decomp')}",
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


def race() -> int:
    race_id = variable("RACE_ID", str(uuid.uuid4()))
    launcher = prepare()
    with (
        metrics_store(launcher) as store,
        target_hosts(launcher) as (hosts, client_options),
        track_params(launcher) as params,
    ):
        check_target(hosts, client_options)
        rally.write_configuration(store)
        if code := rally.run(command(hosts, client_options, params, race_id)):
            return code
        write_report(rally.INI, race_id, rally.WORK / "reports")
    return 0


def aa() -> int:
    """Races one configuration several times, or takes races that were raced before, and keeps how much they differ."""
    races = variable("RACES", "5")
    if not races.isdigit():
        return with_store(lambda ini: write_noise(ini, races.split(), NOISE, variable("CHALLENGE")))
    if int(races) < LEAST_RACES:
        raise RaceError(f"RACES is [{races}], noise between races takes {LEAST_RACES} or more")
    name = variable("RACE_ID", f"aa-{uuid.uuid4().hex[:8]}")
    race_ids = [f"{name}-{number}" for number in range(1, int(races) + 1)]
    launcher = prepare()
    with (
        metrics_store(launcher) as store,
        target_hosts(launcher) as (hosts, client_options),
        track_params(launcher) as params,
    ):
        check_target(hosts, client_options)
        rally.write_configuration(store)
        for race_id in race_ids:
            rally.check_no_other_rally()
            print(f"race {race_id}, of {races} of one configuration", flush=True)
            if code := rally.run(command(hosts, client_options, params, race_id)):
                return code
        write_noise(rally.INI, race_ids, NOISE)
    return 0


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

    def positive(name: str, default: str, allowed: str = "a number of 0 or more") -> float:
        return float(checked(name, default, r"\d+(\.\d+)?", allowed))

    goal = Goal(
        positive("TARGET_DOCS", "0"),
        positive("TARGET_QPS", "0"),
        int(checked("REPLICAS", "1", r"\d", "an integer from 0 to 9")),
        positive("GROWTH", "1", "a factor such as 1.5"),
        float(checked("HEADROOM", "0.3", r"0?\.\d+|0", "a part such as 0.3")),
        positive("DOCUMENTS", "0"),
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
    with metrics_store(Launcher(rally.WORK, rally.DOWNLOADS)) as store:
        rally.write_configuration(store)
        write(rally.INI)
    return 0


def report() -> int:
    return with_store(lambda ini: write_report(ini, variable("RACE", "last"), rally.WORK / "reports"))


def races() -> int:
    """Has Rally list the races in the metrics store, those with TAGS only."""
    tags = [f"--user-tags={variable('TAGS')}"] if variable("TAGS") else []
    with metrics_store(Launcher(rally.WORK, rally.DOWNLOADS)) as store:
        rally.write_configuration(store)
        return rally.run(rally.esrally("list", "races", *tags, *variable("RALLY_ARGS").split()))


def offline() -> int:
    """Prepares a home for the bare command, with the metrics store of STORE or INI, or the embedded one if it is up."""
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    found = launcher.running(STORE)
    store = named_store() or (store_of(found) if found else None)
    print(prepare_offline(launcher, es_version(), heap_size(), store), flush=True)
    return 0


def up() -> int:
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    wanted = {TARGET: start_target, STORE: start_store}
    if switched_on("SKETCH"):
        wanted[sketch_server.NAME] = sketch_server.start
    clusters = {name: running(launcher, name) or start(launcher, True) for name, start in wanted.items()}
    for name, started in clusters.items():
        print(where(name, started), flush=True)
    rally.write_configuration(store_of(clusters[STORE]))
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
