"""The clusters that a race needs: target, metrics store and sketch server, those that are up or embedded ones."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import elasticsearch
from esrally import exceptions
from esrally.client import EsClientFactory
from esrally.utils import opts

from cluster_metrics.capacity.challenge import KEEP, SHARES
from cluster_metrics.core.challenge import Needs, challenges
from cluster_metrics.core.index import OLDEST_ELASTICSEARCH
from cluster_metrics.core.sampler import SAMPLER
from cluster_metrics.wire.requests import refusal

from ..elasticsearch.install import DEFAULT_VERSION, InstallError, esql_versions
from ..elasticsearch.nodes import Cluster, Launcher
from ..elasticsearch.security import write_private
from ..profile import recording
from ..profile.control import Control
from ..profile.sampler import Sampler, SamplerError, attached
from ..report.store import connect
from ..sketch_server import launch as sketch_server
from . import minutes, rally, shares
from .delay import delayed
from .rally import Store, StoreOf, is_host, params_of
from .served import served
from .variables import VARIABLES, RaceError, shown, switched_on, variable

TARGET, STORE = "target", "metrics-store"
TARGET_PORT, STORE_PORT = 9200, 9209
ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What code of others raises on values of a shape that it does not expect."""


def put_template(store: Cluster) -> None:
    """Puts Rally's own metrics template, less the one field type that the embedded node lacks; Rally keeps it."""
    template = json.loads(resources.files("esrally").joinpath("resources/metrics-template.json").read_text())
    adapted = json.loads(json.dumps(template).replace('"wildcard"', '"keyword"'))
    adapted["template"]["settings"]["index"]["number_of_replicas"] = 0
    template_url = f"{store.url}/_index_template/rally-metrics"
    store.session().put(template_url, json=adapted, timeout=60).raise_for_status()


def needs() -> Needs:
    """What the challenge needs of its target; nothing special without one."""
    record = challenges().get(variable("CHALLENGE"))
    return record.needs if record else Needs()


def takes_sampler() -> bool:
    """Whether the race is to have a sampler of the target's CPU time: as the challenge needs it, or PROFILE asks.

    :raises RaceError: when PROFILE asks it of a challenge that takes none.
    """
    if not switched_on("PROFILE"):
        return needs().sampler
    records, name = challenges(), variable("CHALLENGE", VARIABLES["CHALLENGE"].default)
    if name in records and SAMPLER not in records[name].parameters:
        others = " and ".join(n for n, record in records.items() if SAMPLER in record.parameters)
        raise RaceError(f"PROFILE is [1], but {name} has no samples of CPU time; {others} have")
    return True


def es_version() -> str:
    """The version of the embedded target: as given, or what the challenge needs.

    :raises RaceError: when the one given lacks what the challenge needs.
    """
    if not needs().esql:
        return variable("ES_VERSION", DEFAULT_VERSION)
    version = variable("ES_VERSION", max(esql_versions(), key=lambda v: tuple(map(int, v.split(".")))))
    if version not in esql_versions():
        allowed = " or ".join(esql_versions())
        raise RaceError(f"ES_VERSION is [{version}], which comes without ES|QL; allowed for it is {allowed}")
    return version


def target_variables() -> dict[str, str]:
    """What the embedded target is started by, checked; what is not given is as the challenge needs it."""
    return {
        "ES_VERSION": es_version(),
        "NODES": variable("NODES", str(needs().nodes)),
        "NODE_CORES": variable("NODE_CORES", f"{needs().node_cores:g}"),
        "COORDINATOR": str(int(switched_on("COORDINATOR"))),
        "HEAP": variable("HEAP", "1g"),
        "PORT": variable("PORT", str(TARGET_PORT)),
        "DATA": variable("DATA"),
        **store_variables(),
    }


def store_variables() -> dict[str, str]:
    return {"SECURITY": str(int(switched_on("SECURITY")))}


def start_target(launcher: Launcher, outlive: bool) -> Cluster:
    given = target_variables()
    version = given["ES_VERSION"]
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

    :raises RaceError: when a variable is set, or the challenge needs, what the cluster was not started with, or a
        variable to what is not allowed.
    """
    wanted = {TARGET: target_variables, STORE: store_variables}.get(name, dict)()
    needed = {"ES_VERSION": needs().esql, "NODES": needs().nodes > 1, "NODE_CORES": needs().node_cores > 0}
    found = launcher.running(name)
    for key, value in wanted.items():
        if found and value != (before := found.variables.get(key, "")):  # an older checkout may not have known of it
            if variable(key):
                what = f"{key} is [{value}]"
            elif needed.get(key):
                what = f"{variable('CHALLENGE')} needs {key}={value}"
            else:
                continue
            raise RaceError(f"{what} but the {name} that is up was started with [{before}]; run 'make down' first")
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

    :raises RaceError: when they do not answer.
    """
    if hosts := variable("HOSTS"):
        if delay_ms():
            raise RaceError("DELAY_MS goes with the embedded target, not with HOSTS")
        options = variable("CLIENT_OPTIONS")
        check_target(hosts, options)
        with private(options) as file:
            yield hosts, file
        return
    with cluster(launcher, TARGET, start_target) as target, distant(target.hosts) as hosts:
        options = variable("CLIENT_OPTIONS", target.client_options_file)
        check_target(hosts, options)
        with private(options) as file:
            yield hosts, file


@contextlib.contextmanager
def private(client_options: str) -> Iterator[str]:
    """Client options in a file, as everybody can read the command lines of Rally's processes.

    :param client_options: as ``--client-options`` takes them.
    :return: the same as the name of a file, which lasts as long as the context if it was made for it.
    """
    if not client_options or client_options.endswith(".json"):
        yield client_options
        return
    file = rally.RALLY_HOME / "client-options.json"
    write_private(file, json.dumps(opts.ClientOptions(client_options).all_client_options).encode())
    try:
        yield str(file)
    finally:
        file.unlink()


def named_store() -> Store | StoreOf | None:
    """The metrics store that STORE or INI names."""
    url, ini = variable("STORE"), variable("INI")
    if url and ini:
        raise RaceError("STORE and INI both name a metrics store; set one of them")
    return Store(url) if url else StoreOf(Path(ini).expanduser()) if ini else None


def delay_ms() -> float:
    return float(variable("DELAY_MS", "0"))


@contextlib.contextmanager
def distant(hosts: list[str]) -> Iterator[str]:
    """Hosts, with commas between, as far away as DELAY_MS says."""
    delay = delay_ms()
    with contextlib.ExitStack() as relays:
        yield ",".join(relays.enter_context(delayed(host, delay)) if delay else host for host in hosts)


@contextlib.contextmanager
def track_params(launcher: Launcher) -> Iterator[str]:
    """The track parameters. On the embedded target words are kept for the next race, unless they say otherwise. For the
    challenge that needs the sketch server one is started, unless they name another."""
    given, challenge = variable("PARAMS"), variable("CHALLENGE", VARIABLES["CHALLENGE"].default)
    more = minutes.fitted(challenge, given)
    if KEEP in challenges()[challenge].parameters and not variable("HOSTS") and KEEP.name not in params_of(given):
        more[KEEP.name] = True
    params = params_of(given) | more
    if not needs().sketch_server or "sketch_server" in params:
        yield json.dumps(params) if more else given
        return
    with cluster(launcher, sketch_server.NAME, sketch_server.start) as server, distant(server.hosts) as host:
        yield json.dumps(params | {"sketch_server": host})


@contextlib.contextmanager
def sampled(launcher: Launcher, hosts: str, client_options: str, params: str, race_id: str) -> Iterator[str]:
    """The track parameters, with a sampler of the target's nodes where the race is to have one, which ends with the
    context; its recordings are then read. What keeps it from sampling is printed, and the race goes on without.

    :param hosts: of the target.
    :param client_options: as ``--client-options`` takes them.
    :param params: track parameters so far.
    :param race_id: names the folder of the recordings.
    """
    given = params_of(params)
    if not takes_sampler() or SAMPLER.name in given:
        yield params
        return
    folder = rally.PROFILES / race_id
    found, problem = _sampler(launcher, hosts, client_options, folder)
    try:
        with served(Control(found, problem)) as address:
            yield json.dumps(given | {SAMPLER.name: address})
    finally:
        if found and (problem := recording.convert(folder, launcher.downloads)):
            print(problem, flush=True)


@contextlib.contextmanager
def lifted(launcher: Launcher, params: str) -> Iterator[str]:
    """The track parameters, for a challenge that loads words with what holds nodes to their shares of the CPU: free
    until the race asks for that, they are held again when the context ends.

    :param params: track parameters so far.
    """
    given, record = params_of(params), challenges()[variable("CHALLENGE", VARIABLES["CHALLENGE"].default)]
    loads = SHARES in record.parameters and SHARES.name not in given and not variable("HOSTS")
    target = launcher.running(TARGET) if loads else None
    cores = float(target.variables.get("NODE_CORES", "0")) if target else 0
    if not target or not cores:
        yield params
        return
    own = shares.Shares(target, cores)
    with served(own) as address:
        own.lift()
        yield json.dumps(given | {SHARES.name: address})


def _sampler(launcher: Launcher, hosts: str, client_options: str, folder: Path) -> tuple[Sampler | None, str]:
    """A sampler of the target's nodes, or why there is none."""
    es = client_of(hosts, client_options)
    try:
        found = attached(lambda path: es.perform_request(method="GET", path=path).body, launcher, folder)
        recording.prepare(launcher.downloads)
        return found, ""
    except (SamplerError, InstallError, elasticsearch.ApiError, elasticsearch.TransportError, *ODD) as e:
        problem = first_line(e)
        print(f"no CPU profile, the race goes on without: {problem}", flush=True)
        return None, problem


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
    """Asks the target what Rally asks before it starts, with Rally's own client.

    :param client_options: as ``--client-options`` takes them; empty for Rally's own.
    :raises RaceError: when it does not answer as an Elasticsearch of 8.0 or newer does.
    """
    es = client_of(hosts, client_options)
    asked = "GET /"
    try:
        number = es.perform_request(method="GET", path="/").body["version"]["number"]
        version = tuple(map(int, number.split(".")[:2]))
        asked = "GET /_cluster/health"
        es.perform_request(method="GET", path="/_cluster/health")
    except (elasticsearch.ApiError, elasticsearch.TransportError, exceptions.RallyError, *ODD) as e:
        said = refusal(e) if isinstance(e, elasticsearch.ApiError) else first_line(e)
        raise RaceError(
            f"the target [{shown(hosts)}] does not answer {asked} as Elasticsearch does: {said}; see HOSTS and "
            "CLIENT_OPTIONS"
        ) from None
    if version < OLDEST_ELASTICSEARCH:
        raise RaceError(f"the target [{shown(hosts)}] is Elasticsearch {shown(number)}; this track needs 8.0 or newer")


def client_of(hosts: str, client_options: str) -> Any:
    """Rally's own client of these hosts, which has not connected yet.

    :raises RaceError: when hosts or client options are not what Rally takes.
    """
    target = target_of(hosts)
    try:
        found = opts.ClientOptions(client_options or opts.ClientOptions.DEFAULT_CLIENT_OPTIONS, target)
        options = copy.deepcopy(found.all_client_options["default"])
        return EsClientFactory(target.all_hosts["default"], options).create()
    except (exceptions.RallyError, OSError, *ODD) as e:
        allowed = f"client options for [{shown(hosts)}], k:v,k:v or the name of a .json file ({first_line(e)})"
        raise VARIABLES["CLIENT_OPTIONS"].wrong(client_options, allowed) from None


def target_of(hosts: str) -> opts.TargetHosts:
    """Hosts as Rally reads them: ``host:port,host:port``, or JSON.

    :raises RaceError: when one of them is none, or has no port.
    """
    try:
        target = opts.TargetHosts(hosts)
        found = [host for of in target.all_hosts.values() for host in of]
        ports = [host["port"] for host in (*target.all_hosts["default"], *found)]
        sound = all(is_host(host["host"]) for host in found) and all(0 < int(port) < 65536 for port in ports)
    except (OSError, *ODD):
        sound = False
    if not sound or not ports:
        raise VARIABLES["HOSTS"].wrong(hosts, "host:port,host:port")
    return target


def first_line(error: Exception) -> str:
    """What an error of someone else says, with its cause."""
    text, cause = str(error) or type(error).__name__, str(getattr(error, "message", "")).rpartition(">: ")[2]
    return shown((text if cause in text else f"{text}: {cause}").splitlines()[0])


def check_store(ini: Path) -> None:
    """Whether the metrics store that a ``rally.ini`` names answers.

    :raises RaceError: when it does not, or is none; without it Rally would wait for it for minutes.
    """
    try:
        connect(ini).options(request_timeout=10, max_retries=0).info()
    except elasticsearch.AuthorizationException:
        pass  # it answers, and to write samples takes no right to ask for its version
    except (elasticsearch.ApiError, elasticsearch.TransportError, OSError, *ODD) as e:
        raise RaceError(f"the metrics store does not answer: {first_line(e)}; see STORE and INI") from None
