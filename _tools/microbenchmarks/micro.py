"""What stands behind ``make micro`` and ``make explain``."""

from datetime import datetime, timezone

from esrally import exceptions

from cluster_metrics.core.experiment import check

from ..elasticsearch.nodes import Launcher
from ..race import rally
from ..race.clusters import es_version
from ..race.variables import Exit, RaceError, switched_on, variable
from ..report.race import Race
from ..report.write import worked_out
from . import client, explain
from .inputs import Inputs
from .jmh import Harness
from .results import read, table

FOLDER = rally.WORK / "micro"
REPORTS = rally.WORK / "reports"
CLIENT = "client"
"""BENCH that runs the client's loops alone."""


def micro() -> int:
    """Runs micro-benchmarks and prints their results: those of the server by JMH, those of the client by pyperf.

    :raises RaceError: when a parameter or argument is not allowed, or a benchmark fails.
    """
    bench, arguments = variable("BENCH"), variable("ARGS").split()
    try:
        values = check(rally.resolved(variable("PARAMS")))
    except exceptions.TrackConfigError as e:
        raise RaceError(e.message) from None
    paths = []
    if bench != CLIENT:
        launcher = Launcher(rally.WORK, rally.DOWNLOADS)
        harness = Harness(es_version(), launcher.root, FOLDER, launcher.downloads)
        paths.append(harness.run(Inputs.of(values, switched_on("TEST_MODE")), bench, arguments, variable("HEAP", "1g")))
    if bench in ("", CLIENT):
        paths.append(FOLDER / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-client.json")
        FOLDER.mkdir(parents=True, exist_ok=True)
        client.measure(paths[-1], arguments if bench else ())
    for path in paths:
        print(f"\n{table(read(path)).markdown()}\nwritten to {path}\n", flush=True)
    return Exit.DONE


def explain_race(race: Race) -> int:
    """Holds the costs of a race against what micro-benchmarks measured; returns the exit code.

    :raises RaceError: when there are no results, or the race has no such costs.
    :raises ReportError: when its samples do not go together.
    """
    paths = sorted(FOLDER.glob("*.json"))
    if not paths:
        raise RaceError(f"there are no results of micro-benchmarks in [{FOLDER}]; 'make micro' measures them")
    with worked_out("explained", race.problems):
        explain.write(race, read(*paths), REPORTS)
    return Exit.INCOMPLETE if race.problems else Exit.DONE
