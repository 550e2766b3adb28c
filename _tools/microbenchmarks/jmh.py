"""Compiles the micro-benchmarks by ECJ against an installed Elasticsearch, and runs them on the JRE of the wheel.

The classes measured are the server's own: everything in its ``lib`` is on the class path.
"""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cluster_metrics.core.machine import machine

from ..elasticsearch.install import ECJ, JRE_HOME, InstallError, compile_java, fetch, install, locked
from ..race.variables import RaceError, shown
from ..report.text import count
from .inputs import Inputs
from .results import MOST_FORKS, keep, of_jmh

JARS = (
    "org.openjdk.jmh:jmh-core:1.37",
    "org.openjdk.jmh:jmh-generator-annprocess:1.37",
    "net.sf.jopt-simple:jopt-simple:5.0.4",
    "org.apache.commons:commons-math3:3.6.1",
)
PROCESSOR = "org.openjdk.jmh.generators.BenchmarkProcessor"
SOURCES = Path(__file__).with_name("java")
PACKAGE = "clustermetrics.micro"
SEED = 42
REFUSED = "[ERROR] "
"""What a line of the run begins with that says why nothing, or no more, is measured."""
NOT_PASSED = ("-rf", "-rff", "-o", "-t", "-bm", "-tu", "-foe", "-h", "-l", "-lp", "-lprof", "-lrf")
"""Options of JMH that ARGS may not have: they change what is written, or what it means, or ask for lists."""
FLAGS = (
    "-Xms{heap} -Xmx{heap} -Xss1m -XX:+UseG1GC -XX:G1HeapRegionSize=4m -XX:InitiatingHeapOccupancyPercent=30 "
    "-XX:G1ReservePercent=15 -XX:-OmitStackTraceInFastThrow --enable-native-access=ALL-UNNAMED"
)
"""Of the JVMs that measure: those of an embedded node, as far as they matter for speed."""


class Harness:
    """Benchmarks that are compiled against one Elasticsearch.

    :param version: of Elasticsearch.
    :param home: folder below which Elasticsearch is installed.
    :param work: folder for classes, inputs and results.
    :param downloads: folder for what is fetched from the Java registry.
    :raises InstallError: when something cannot be fetched, or does not compile against this version.
    """

    def __init__(self, version: str, home: Path, work: Path, downloads: Path):
        self.version, self.work = version, work
        self._lib = install(version, home, downloads) / "lib"
        self._tools = [fetch(jar, downloads) for jar in JARS]
        self._classes = self._compiled(fetch(ECJ, downloads))

    @property
    def classpath(self) -> str:
        return os.pathsep.join(map(str, [self._classes, *self._jars]))

    @property
    def _jars(self) -> list[Path]:
        return [*self._tools, *sorted(self._lib.glob("*.jar"))]

    @property
    def lucene(self) -> str:
        """The version of Lucene, as its jar has it."""
        jar = next(self._lib.glob("lucene-core-*.jar"))
        return jar.stem.rpartition("-")[2]

    def _compiled(self, ecj: Path) -> Path:
        """The folder with the classes, those of these sources and this version."""
        sources = sorted(SOURCES.glob("*.java"))
        key = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]
        classes = self.work / f"classes-{self.version}-{key}"
        with locked(self.work / ".lock"):
            if not classes.is_dir():
                part = classes.with_name(f"{classes.name}.part")
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                try:
                    compile_java(sources, self._jars, part, ecj, PROCESSOR, self._tools)
                except InstallError as e:
                    first = next((line.strip() for line in str(e).splitlines() if " ERROR in " in line), "")
                    raise InstallError(
                        f"the micro-benchmarks do not compile against Elasticsearch {self.version}: {first}; "
                        "8.17.2 and 8.19.4 are tried"
                    ) from None
                part.rename(classes)
        return classes

    def java(self, main: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        """The command that runs one of our classes with a ``main``."""
        return [str(JRE_HOME / "bin" / "java"), *flags, "-cp", self.classpath, f"{PACKAGE}.{main}", *arguments]

    def prepare(self, inputs: Inputs) -> Path:
        """Makes sure that the inputs are there, with the indices of this version of Lucene; returns their folder."""
        with locked(self.work / ".lock"):
            folder = inputs.write(self.work)
            made = subprocess.run(
                self.java("Indices", str(folder), flags=["-Xmx2g"]), capture_output=True, text=True, check=False
            )
            if made.returncode:
                raise RaceError(f"the indices for the benchmarks were not made: {shown(made.stderr.strip())}")
        return folder

    def run(self, inputs: Inputs, pattern: str, arguments: Sequence[str], heap: str) -> Path:
        """Runs benchmarks and returns the file of their results.

        :param pattern: regular expression of their names; empty for all.
        :param arguments: of JMH; unless they say how many forks, what is still known badly gets more of them.
        :param heap: of each JVM, as ``-Xmx`` takes it.
        :raises RaceError: when JMH refuses the arguments, no benchmark has that name, or one fails.
        """
        check_arguments(arguments)
        folder = self.prepare(inputs)
        started = datetime.now(timezone.utc)
        found = machine()
        name = f"{started:%Y%m%dT%H%M%SZ}-{self.version}"
        log, part = (self.work / f"{name}.{kind}" for kind in ("log", "part"))
        flags = FLAGS.format(heap=heap)
        print(f"micro-benchmarks of Elasticsearch {self.version} begin; what JMH says is in {log}", flush=True)

        def measured(pattern: str, *arguments: str) -> list[dict[str, Any]]:
            own = [str(folder), str(part), str(log), flags, pattern, *arguments]
            # in this JVM as well, for '-f 0'
            _watched(self.java("Run", *own, flags=[f"-Dmicro.input={folder}"]), log)
            results: list[dict[str, Any]] = json.loads(part.read_text())
            return results

        try:
            results = measured(pattern or ".*", *arguments)
            if not any(argument.startswith("-f") for argument in arguments):
                rest = list(arguments)
                while "-p" in rest:
                    del rest[(i := rest.index("-p")) : i + 2]
                measure_enough(results, inputs.record(), lambda name, *more: measured(name, *rest, *more))
            about = {
                "started": started.isoformat(timespec="seconds"),
                "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "versions": {"elasticsearch": self.version, "lucene": self.lucene, "jmh": JARS[0].rpartition(":")[2]},
                "machine": found,
                "input": inputs.record(),
                "bench": pattern,
                "arguments": list(arguments),
            }
            return keep(self.work / f"{name}.json", {"about": about, "results": results})
        finally:
            part.unlink(missing_ok=True)


def measure_enough(
    results: list[dict[str, Any]], sizes: Mapping[str, Any], measured: Callable[..., list[dict[str, Any]]]
) -> None:
    """Adds forks to results of JMH, one of each at a time, in turn, until each is known well or has ``MOST_FORKS``.

    :param sizes: of the input, see :func:`.results.units`.
    :param measured: runs the benchmark whose name matches a pattern with arguments of JMH, and returns its result.
    """
    order = random.Random(SEED)
    while left := [r for r in results if not of_jmh(r, {"input": sizes}).known_well(MOST_FORKS)]:
        print(f"{count(len(left), 'benchmark')} not yet known well", flush=True)
        for result in order.sample(left, len(left)):
            parameters = [part for pair in result.get("params", {}).items() for part in ("-p", "=".join(pair))]
            [more] = measured(f"^{re.escape(result['benchmark'])}$", "-f", "1", *parameters)
            result["primaryMetric"]["rawData"] += more["primaryMetric"]["rawData"]


def check_arguments(arguments: Sequence[str]) -> None:
    """:raises RaceError: when arguments of JMH are not passed on."""
    if taken := next((a for a in arguments if a in NOT_PASSED), None):
        raise RaceError(f"ARGS has [{taken}], which 'make micro' does not pass on; allowed is all else that JMH takes")


def _watched(command: list[str], log: Path) -> None:
    """Runs JMH, shows its progress, and puts into words why it ended."""
    refused, before = "", time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout
            for line in process.stdout:
                if line.startswith(REFUSED):
                    refused = line.removeprefix(REFUSED).strip()
                else:
                    print(f"{time.monotonic() - before:5.0f} s  {line}", end="", flush=True)
        except BaseException:
            process.terminate()
            raise
        finally:
            process.wait()
        errors.seek(0)
        said = [line.strip() for line in errors if line.startswith(("Exception", "Error", "java."))]
    if process.returncode:
        why = shown(refused or next(iter(said), f"JMH ended with {process.returncode}"))
        raise RaceError(f"{why}; see {log}" if log.exists() else why)
