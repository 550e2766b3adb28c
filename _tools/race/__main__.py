"""What stands behind ``make``: races and their reports, micro-benchmarks, and nodes to keep up.

Their variables come through the environment; their exit codes are those of :class:`.variables.Exit`.
"""

import contextlib
import errno
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from cluster_metrics.capacity._report.plan import Goal
from cluster_metrics.capacity._report.plan import plan as plan_of
from cluster_metrics.core.challenge import challenges

from ..docs.generated import write_pages
from ..docs.results import PLAN, keep, keep_changes, keep_plan
from ..elasticsearch.install import InstallError
from ..elasticsearch.nodes import Launcher, NodeError
from ..microbenchmarks import micro as microbenchmarks
from ..report.noise import LEAST_RACES
from ..report.race import IncompleteError, NothingToReportError, ReportError
from ..report.store import connect, find, load, load_all
from ..report.write import problems_of, worked_out, write_changes, write_comparison, write_noise, write_report
from ..sketch_server import launch as sketch_server
from . import calibrate, clusters, minutes, rally
from . import matrix as versions
from .clusters import STORE, TARGET, running
from .offline import prepare as prepare_offline
from .rally import Store
from .variables import RACE_ID, VARIABLES, Exit, RaceError, fail_on, nearest, shown, switched_on, variable
from .watch import watch

DEFAULT_CHALLENGE = "query-decomp"
REPORTS = rally.WORK / "reports"
NOISE = rally.WORK / "noise.json"
"""Where the noise floors of ``make noise`` are kept."""
MOST_RACES = 100
"""Most races that ``make noise`` races."""


def check_variables() -> None:
    """Whether all variables of make are of the shape that they should have, those of the environment included.

    :raises RaceError: on the first that is not.
    """
    for name in VARIABLES:
        variable(name)
    if (challenge := variable("CHALLENGE", DEFAULT_CHALLENGE)) not in challenges():
        near = nearest(challenge, challenges()).strip("; ")
        allowed = " or ".join(sorted(challenges()))
        raise VARIABLES["CHALLENGE"].wrong(challenge, f"{allowed}{f' ({near})' if near else ''}")
    rally.params_of(variable("PARAMS"))
    if named := clusters.named_store():
        named.settings()
    clusters.client_of(variable("HOSTS", f"localhost:{clusters.TARGET_PORT}"), variable("CLIENT_OPTIONS"))


def prepare() -> Launcher:
    """Checks all that can be checked before a node starts.

    :raises RaceError: with what keeps the race from starting.
    """
    rally.check_folder_name()
    rally.check_no_other_rally()
    named = clusters.named_store()
    rally.write_configuration(named or Store("http://127.0.0.1"))
    if named:
        clusters.check_store(rally.INI)
    given = variable("RALLY_ARGS")
    minutes.fitted(variable("CHALLENGE", DEFAULT_CHALLENGE), variable("PARAMS"))
    clusters.takes_sampler()
    if switched_on("CALIBRATE"):
        calibrate.check(variable("CHALLENGE", DEFAULT_CHALLENGE), variable("RACE_ID"))
    rally.check_arguments(command("localhost:9200", "", "", "x"), given)
    challenge, params = variable("CHALLENGE", DEFAULT_CHALLENGE), variable("PARAMS")
    rally.check_track(challenge, params)
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    indices = Path(variable("DATA")).absolute() if variable("DATA") else launcher.root
    rally.check_disk(challenge, params, switched_on("TEST_MODE"), None if variable("HOSTS") else indices)
    return launcher


def command(hosts: str, client_options: str, params: str, race_id: str, tags: str | None = None) -> list[str]:
    """The command line of the race that the variables describe.

    :param tags: instead of those of TAGS.
    """
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
    given = variable("TAGS") if tags is None else tags
    all_tags = [given, f"delay_ms:{variable('DELAY_MS')}" if clusters.delay_ms() else ""]
    if any(all_tags):
        line.append(f"--user-tags={','.join(filter(None, all_tags))}")
    if switched_on("TEST_MODE"):
        line.append("--test-mode")
    return line + variable("RALLY_ARGS").split()


def races_of(race_ids: list[str]) -> int:
    """Races as the variables say, once for each of these ids; returns Rally's exit code, the first that is not 0."""
    conditions, launcher = fail_on("race"), prepare()
    if minutes.given() and not switched_on("TEST_MODE"):
        print(minutes.expected(variable("CHALLENGE", DEFAULT_CHALLENGE), variable("PARAMS")), flush=True)
    with (
        clusters.target_hosts(launcher) as (hosts, client_options),
        clusters.track_params(launcher) as params,
        clusters.metrics_store(launcher) as store,
    ):
        rally.write_configuration(store)

        def raced(params: str, race_id: str, tags: str | None = None) -> int:
            rally.check_no_other_rally()
            with (
                clusters.lifted(launcher, params) as own,
                clusters.sampled(launcher, hosts, client_options, own, race_id) as own,
            ):
                line = command(hosts, client_options, own, race_id, tags)
                return watch(launcher, hosts, race_id).run(line)

        if switched_on("CALIBRATE"):
            of = race_ids[0]
            short = partial(raced, tags=f"{calibrate.TAG}:{of}")
            challenge = variable("CHALLENGE", DEFAULT_CHALLENGE)
            params = calibrate.calibrated(challenge, params, of, short, rally.INI)
        for race_id in race_ids:
            if len(race_ids) > 1:
                print(f"race {race_id}, of {len(race_ids)} of one configuration", flush=True)
            if code := raced(params, race_id):
                print(
                    f"[ERROR] race {race_id} is INCOMPLETE; 'make report RACE={race_id}' shows what there is of it",
                    file=sys.stderr,
                )
                return code
        if len(race_ids) > 1:
            write_noise(rally.INI, race_ids, NOISE)
            return Exit.DONE
        try:
            return write_report(rally.INI, race_ids[0], REPORTS, switched_on("VERBOSE"), conditions)
        except NothingToReportError as e:
            print(f"\n{e}", flush=True)
            return Exit.DONE


def race() -> int:
    return races_of([variable("RACE_ID", str(uuid.uuid4()))])


def noise() -> int:
    """Races one configuration several times, or takes races that were raced before, and keeps how much they differ."""
    races = variable("RACES", "5")
    if not races.isdecimal():
        return with_store(lambda ini: write_noise(ini, races.split(), NOISE, variable("CHALLENGE")))
    if not LEAST_RACES <= int(races) <= MOST_RACES:
        raise RaceError(f"RACES is [{races}], noise between races takes {LEAST_RACES} or more, up to {MOST_RACES}")
    name = variable("RACE_ID", f"noise-{uuid.uuid4().hex[:8]}")
    ids = [f"{name}-{number}" for number in range(1, int(races) + 1)]
    if not re.fullmatch(RACE_ID, ids[-1], re.ASCII):
        raise VARIABLES["RACE_ID"].wrong(name, "shorter for several races, which take numbers behind it")
    return races_of(ids)


def compare() -> int:
    names = variable("RACES").split()
    if len(names) < 2:
        raise RaceError('RACES names the races to compare: two or more ids, tags as key:value, or "last"')
    verbose, conditions, challenge = switched_on("VERBOSE"), fail_on("compare"), variable("CHALLENGE")
    return with_store(lambda ini: write_comparison(ini, names, REPORTS, NOISE, challenge, verbose, conditions))


def plan() -> int:
    """Prints how many nodes a load takes, by races of the capacity challenges, and writes it beside the report of the
    first."""
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

    def write(ini: Path) -> int:
        store = connect(ini)
        races = [race for name in dict.fromkeys(names) for race in load_all(store, name, challenge)]
        problems = problems_of(races)
        with worked_out("planned", problems):
            text = plan_of(races, goal)
        text = "".join(f"INCOMPLETE: {problem}\n" for problem in problems) + text
        file = REPORTS / races[0].id / PLAN
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        print(f"\n{text}\nwritten to {file}", flush=True)
        return Exit.INCOMPLETE if problems else Exit.DONE

    return with_store(write)


@contextlib.contextmanager
def running_store() -> Iterator[Path]:
    """A ``rally.ini`` whose metrics store runs, as of ``make race``."""
    with clusters.metrics_store(Launcher(rally.WORK, rally.DOWNLOADS)) as store:
        rally.write_configuration(store)
        yield rally.INI


def with_store(write: Callable[[Path], int | None]) -> int:
    """Calls ``write`` with :func:`running_store`; returns its exit code."""
    with running_store() as ini:
        return write(ini) or Exit.DONE


def report() -> int:
    race_id, verbose, conditions = variable("RACE", "last"), switched_on("VERBOSE"), fail_on("report")
    return with_store(lambda ini: write_report(ini, race_id, REPORTS, verbose, conditions))


def micro() -> int:
    """Runs micro-benchmarks, the server's and the client's."""
    return microbenchmarks.micro()


def explain() -> int:
    """Holds the costs of a race against what micro-benchmarks measured."""
    race_id = variable("RACE", "last")
    return with_store(lambda ini: microbenchmarks.explain_race(load(connect(ini), race_id)))


def changes() -> int:
    """Ranks the changes of the races in the metrics store."""
    race_id, test_mode, verbose = variable("RACE", "last"), switched_on("TEST_MODE"), switched_on("VERBOSE")
    return with_store(lambda ini: write_changes(ini, race_id, REPORTS, test_mode, verbose))


def results() -> int:
    """Races CHALLENGE, or takes the report of RACE, and keeps it in docs/results, beside it the changes of all races in
    the store that ran on its machine and version, ranked, and what other pages quote of both; with RACES the plan that
    they made."""
    race_id, planned = variable("RACE"), variable("RACES").split()
    if planned:
        for path in (*keep_plan(REPORTS, planned[0]), *write_pages()):
            print(f"written to {path}", flush=True)
        return Exit.DONE
    if race_id == "last" or ":" in race_id:
        with running_store() as ini:
            race_id = find(connect(ini), race_id, 1)[0]["race-id"]
    if not race_id:
        race_id = variable("RACE_ID", str(uuid.uuid4()))
        if code := races_of([race_id]):
            return code
    kept = keep(REPORTS, race_id, NOISE)
    try:
        with_store(lambda ini: write_changes(ini, race_id, REPORTS))
        kept += keep_changes(REPORTS)
    except ReportError as e:
        print(f"the ranking of changes is left as it is: {e}", file=sys.stderr, flush=True)
    for path in (*kept, *write_pages()):
        print(f"written to {path}", flush=True)
    return Exit.DONE


def races() -> int:
    """Has Rally list the races in the metrics store, those with TAGS only."""
    tags = [f"--user-tags={variable('TAGS')}"] if variable("TAGS") else []
    given = variable("RALLY_ARGS")
    line = rally.esrally("list", "races", *tags, *given.split())
    rally.check_arguments(line, given)
    with running_store():
        return rally.run(line)


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


def matrix() -> int:
    """Tries versions of Elasticsearch, Python and esrally."""
    code = versions.matrix()
    write_pages()
    return code


TARGETS = (race, report, results, races, compare, changes, plan, noise, micro, explain, offline, up, down, matrix)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _end)
    try:
        if (target := sys.argv[1]) != down.__name__:  # which stops what runs, whatever is set
            check_variables()
            if target in (changes.__name__, plan.__name__, noise.__name__, explain.__name__):
                fail_on(target)  # which they cannot meet
        return {target.__name__: target for target in TARGETS}[target]()
    except (RaceError, NodeError, InstallError, ReportError) as e:
        print(f"[ERROR] {e}", file=sys.stderr)
        return Exit.INCOMPLETE if isinstance(e, IncompleteError) else Exit.REFUSED
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = f"{e.strerror}; make room where WORK is, [{rally.WORK}], then 'make report'"
        elif isinstance(e.filename, str) and Path(e.filename).is_relative_to(rally.WORK):
            problem = f"[{shown(e.filename)}], of WORK, cannot be used: {e.strerror}"
        elif isinstance(e.filename, str) and Path(e.filename).is_relative_to(rally.DOWNLOADS):
            problem = f"[{shown(e.filename)}], where downloads are kept, cannot be used: {e.strerror}"
        else:
            raise
        print(f"[ERROR] {problem}", file=sys.stderr)
        return Exit.REFUSED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
