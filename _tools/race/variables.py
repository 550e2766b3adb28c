"""The targets, variables and exit codes of make. It needs nothing but Python, so that make can refuse a wrong variable
before set-up."""

import difflib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

RACE_ID = r"(?!\.{1,2}(\s|\Z))[\w.-]{1,128}"
"""What the id of a race looks like, ASCII: it becomes the name of a folder."""
SECRETS = re.compile(r"(?is)((?:password|api_key|auth|token|secret)[^:=]*[:=]).*")
USERS = re.compile(r"(?s)^(\w+://)?.*@")


class Exit(IntEnum):
    """Exit codes of what stands behind make, which itself prints them as ``Error N`` and exits with 2."""

    DONE = 0
    REFUSED = 1
    RALLY = 64
    INCOMPLETE = 65
    INTERRUPTED = 130


EXITS = {
    Exit.DONE: "done",
    Exit.REFUSED: "refused or failed, as the line that begins with [ERROR] says",
    Exit.RALLY: "Rally ended the race with an error, which it prints",
    Exit.INCOMPLETE: "a race that is raced, reported or compared is INCOMPLETE, as the head of the report or the line "
    "that begins with [ERROR] says",
    Exit.INTERRUPTED: "interrupted; ended by another signal: 128 and its number",
}


class RaceError(Exception):
    """Something that keeps a race from starting; the message is for the person at the terminal."""


def escaped(text: str) -> str:
    """A text of someone else as a part of one line: what cannot be printed as its escape."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def shown(value: object, most: int = 200) -> str:
    """A value in a message: escaped, without passwords, cut to so many characters."""
    text = escaped(SECRETS.sub(r"\1***", USERS.sub(r"\1***@", str(value))))
    return text if len(text) <= most else f"{text[:most]}…"


@dataclass(frozen=True)
class Variable:
    """A variable of make's command line, or of its environment.

    :param default: in words; empty where there is none.
    :param text: what it does.
    :param pattern: regular expression that its value must match; empty for any.
    :param allowed: the same in words.
    """

    name: str
    default: str
    text: str
    pattern: str = ""
    allowed: str = ""

    def value(self, default: str = "") -> str:
        """Its value as given, or else the default.

        :raises RaceError: with one line that names the variable, the value and what is allowed.
        """
        value = os.environ.get(self.name, "").strip() or default
        if value and self.pattern and not re.fullmatch(self.pattern, value, re.ASCII):
            raise self.wrong(value, self.allowed)
        if not value.isprintable():
            raise self.wrong(value, "what can be printed on one line")
        return value

    def wrong(self, value: object, allowed: str) -> RaceError:
        """The error of a value that is not allowed."""
        return RaceError(f"{self.name} is [{shown(value)}], allowed is {allowed}; 'make' explains {self.name}")


@dataclass(frozen=True)
class Condition:
    """What a user may have a race or a comparison fail on.

    :param code: exit code.
    :param targets: targets of make that can meet it.
    :param text: when it is met.
    """

    code: int
    targets: tuple[str, ...]
    text: str


CONDITIONS = {
    "regressed": Condition(20, ("compare",), "a configuration regressed, or the geometric mean over them"),
    "target-missed": Condition(21, ("race", "report"), "the target of a load was not shown to be reached"),
    "drift": Condition(
        22,
        ("race", "report"),
        "figures rise or fall over the race by more than chance, or from the first pass to the last by more than a "
        "challenge allows",
    ),
    "too-few": Condition(23, ("race", "report", "compare"), "there are fewer rounds or races than a verdict takes"),
}
"""By name, the most severe first: of several that are met the first gives the exit code."""
NUMBER = r"\d{1,15}(\.\d{1,15})?"
SWITCH = (r"[01]", "0 or 1")
TAG = r"[\w.-]{1,64}:[^,:]{1,200}"
ID_WORDS = "1 to 128 of letters, digits, `_`, `.` and `-`, neither `.` nor `..`"
NAME_WORDS = "an id, a tag as `key:value`, or `last`"
RACE_NAME = rf"{RACE_ID}|[\w.-]{{1,64}}:[^,:\s]{{1,200}}"
VARIABLES = {
    v.name: v
    for v in (
        Variable("CHALLENGE", "query-decomp", "the challenge"),
        Variable(
            "PARAMS", "", "track parameters, as for `--track-params`: `k:v,k:v`, or a JSON file, which takes lists"
        ),
        Variable(
            "MINUTES",
            "0",
            "of `race`: time that it may take from Rally's start on; as many rounds are walked as fit, 0 walks all",
            r"\d{1,4}",
            "whole minutes from 0 to 9999",
        ),
        Variable(
            "TEST_MODE",
            "0",
            "1: a thousand rows per epoch, two passes, two rounds; of `changes`: rank such races, and those alone",
            *SWITCH,
        ),
        Variable(
            "PROFILE",
            "0",
            "1: of `race` with ingest-decomp: samples where the target spends its CPU time, as cpu-profile always does",
            *SWITCH,
        ),
        Variable(
            "CALIBRATE",
            "0",
            "1: of `race` with capacity-query, -indexing or -mixed: up to three short races before it raise "
            "`cell_clients` of each cell until its busiest node, or the client, is at its limit; words "
            "that are searched are loaded once for all of them and left, as with `keep_words`",
            *SWITCH,
        ),
        Variable(
            "ES_VERSION",
            "8.17.2, or what the challenge needs",
            "version of the embedded target; 8.14.3, 8.16.0, 8.17.2, 8.19.4, 9.0.8 and 9.2.4 are pinned by "
            "checksum, others are fetched as the registry has them and held against that first download from then on; "
            "8.16.0 and 8.19.4 have ES|QL",
            r"\d+\.\d+\.\d+",
            "a version such as 8.17.2",
        ),
        Variable(
            "NODES",
            "1, or what the challenge needs",
            "nodes of the embedded target",
            r"[1-9]\d?",
            "an integer from 1 to 99",
        ),
        Variable(
            "NODE_CORES",
            "0, or what the challenge needs",
            "share of the CPU that each of these nodes is held to once it is up, in cores, by a cgroup (v1 or v2; "
            "takes root); 0 leaves them free",
            r"\d{1,3}(\.\d{1,2})?",  # a hundredth is the least that a cgroup takes
            "CPU cores of each node, such as 0.4; 0 leaves them free",
        ),
        Variable("COORDINATOR", "0", "1: one more node, which holds no data and takes all requests", *SWITCH),
        Variable(
            "HEAP",
            "1g",
            "heap of each of these nodes",
            r"[1-9]\d{0,5}[mg]",
            "megabytes or gigabytes, such as 512m or 1g",
        ),
        Variable(
            "PORT",
            "9200 or any free one",
            "HTTP port of the first of them, which must be free",
            r"[1-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}",
            "an integer from 1000 to 64999",
        ),
        Variable("DATA", "within WORK", "folder for their data"),
        Variable(
            "SECURITY", "0", "1: target and metrics store take TLS and a password, made anew at each start", *SWITCH
        ),
        Variable(
            "DELAY_MS",
            "0",
            "network delay in each direction between load driver and embedded target, by a relay on loopback; tags the "
            "race",
            r"\d{1,4}(\.\d+)?",
            "milliseconds from 0 to 9999",
        ),
        Variable(
            "TAGS",
            "",
            "user tags, as for `--user-tags`, such as `intention:baseline`",
            rf"{TAG}(,{TAG})*",
            "`key:value,key:value`, keys of letters, digits, `_`, `.` and `-`",
        ),
        Variable("HOSTS", "", "race against this cluster instead, `host:port,host:port`"),
        Variable(
            "CLIENT_OPTIONS", "", "client options for HOSTS, as for `--client-options`; a file's name ends in `.json`"
        ),
        Variable(
            "STORE", "", "`http(s)://[user:password@]host[:port]` of a metrics store to use instead of the embedded"
        ),
        Variable(
            "INI",
            "",
            "use the metrics store that this `rally.ini` names; `report` and `compare` find races there wherever they "
            "ran",
        ),
        Variable(
            "FAIL_ON",
            "",
            "what makes `race`, `report` or `compare` fail, separated by commas; docs/gate.md has their exit codes",
            rf"({'|'.join(CONDITIONS)})(,({'|'.join(CONDITIONS)}))*",
            "a list of " + ", ".join(CONDITIONS),
        ),
        Variable(
            "VERBOSE",
            "0",
            "1: `race`, `report`, `compare` and `changes` print all of it, not its answer alone",
            *SWITCH,
        ),
        Variable("RACE_ID", "random", "id of the race; of `noise` the beginning of its ids", RACE_ID, ID_WORDS),
        Variable("RALLY_ARGS", "", "further arguments for `esrally`, separated by blanks"),
        Variable(
            "RACE",
            "last",
            "of `report`, `explain`, `results`: the race, by id, or by tag as `key:value`; without it `results` races; "
            "of `changes`: whose machine and version decide",
            rf"{RACE_ID}|{TAG}",
            NAME_WORDS,
        ),
        Variable(
            "RACES",
            "",
            "of `compare` and `plan`: races by id or tag, or `last`; of `noise`: how many to race, or those of before; "
            "of `results`: those of the plan to keep, the first by id",
            rf"({RACE_NAME})(\s+({RACE_NAME}))*",
            f"{NAME_WORDS}; several with blanks between",
        ),
        Variable(
            "DELTA",
            "3",
            "of `race`, `report`, `compare` and `noise`: change up to which two sides are called equivalent",
            r"[1-9]\d?(\.\d+)?|0\.\d+",
            "a percentage such as 3 or 0.5",
        ),
        Variable(
            "NOISE_DAYS",
            "7",
            "of `compare`: days for which what `noise` measured holds",
            NUMBER,
            "a number of 0 or more",
        ),
        Variable(
            "BENCH",
            "all",
            "of `micro`: `client` for the client's loops alone, or a regular expression of the server's by class and "
            "method, such as `TDigest`",
            r"[\w.^$|()*+?\[\]-]{1,200}",
            "`client`, or a regular expression without blanks",
        ),
        Variable("ARGS", "", "of `micro`: arguments for JMH, with BENCH=client for pyperf, separated by blanks"),
        Variable("SKETCH", "0", "of `up`: 1 starts the sketch server as well", *SWITCH),
        Variable("TARGET_DOCS", "0", "of `plan`: documents indexed per second", NUMBER, "a number of 0 or more"),
        Variable("TARGET_QPS", "0", "of `plan`: searches per second", NUMBER, "a number of 0 or more"),
        Variable("REPLICAS", "1", "of `plan`: replicas of each shard", r"\d", "an integer from 0 to 9"),
        Variable("GROWTH", "1", "of `plan`: factor on all of it", NUMBER, "a factor such as 1.5"),
        Variable(
            "HEADROOM",
            "0.3",
            "of `plan`: part of the busiest node's time to keep free",
            r"0?\.\d+|0",
            "a part such as 0.3",
        ),
        Variable("DOCUMENTS", "those of the races", "of `plan`: documents held today", NUMBER, "a number of 0 or more"),
        Variable(
            "VERSIONS",
            "all",
            "of `matrix`: those alone that match this regular expression, such as `Python` or `Elasticsearch 9`",
        ),
        Variable("CSV", "", "of `bench-statistics`: `es_profile_decomp.csv` files of races, instead of simulated ones"),
        Variable("YES", "0", "of `clean`: 1 does not ask", *SWITCH),
        Variable("WORK", "_work", "folder for all run-time state"),
        Variable("PYTHON", "python3", "the Python that the virtual environment is made of"),
    )
}
TARGETS = {
    "help": "prints this",
    "race": "starts a target and a metrics store, races, writes the report, prints its answer, stops what it started",
    "results": "races CHALLENGE, or takes the report of RACE, and keeps it in docs/results, with RACES their plan",
    "report": "writes the report of a race again and prints its answer, starting the store if it is down",
    "races": "lists the races in the store, those with TAGS only if set; RALLY_ARGS=--limit=100 for more than ten",
    "compare": "holds any number of races of one challenge side by side, with a verdict per configuration",
    "changes": "ranks what the changes of all challenges gain, over the newest races of one machine and version",
    "plan": "says how many nodes and shards a load takes, by races of the capacity challenges",
    "micro": "measures bare loops of server and client by JMH and pyperf, in about 35 minutes; "
    "docs/micro-benchmarks.md",
    "explain": "holds the costs of a race against these bare loops: what they explain, and what is the framework's",
    "noise": "races one configuration five times and keeps how much the races differ, for later comparisons",
    "up": "starts target and store and keeps them up; while they are, what asks for another target is refused",
    "down": "stops what `up` started",
    "offline": "prepares the bare `esrally race` to run without network, and prints it",
    "test": "formatting, linting, types and all tests but the long ones",
    "matrix": "tries versions of Elasticsearch, Python and esrally, in about two hours, and writes docs/versions.md",
    "test-long": "the long tests, which take minutes each",
    "lint": "formatting, linting and types alone",
    "docs": "writes the generated pages of docs/ and the tables of README.md anew",
    "dashboards": "writes kibana/dashboards.ndjson anew",
    "bench": "how fast the corpus is generated",
    "bench-statistics": "how often verdicts are wrong",
    "look": "opens the reports in headless Chromium, in light and dark, wide and narrow, and says what is wrong",
    "lock": "pins the dependencies anew",
    "clean": "removes what a clone made: run-time state, corpora, virtual environment; asks where results lie",
}


def variable(name: str, default: str = "") -> str:
    """The value of a variable, checked; see :meth:`Variable.value`."""
    return VARIABLES[name].value(default)


def switched_on(name: str) -> bool:
    return variable(name) == "1"


def fail_on(target: str) -> list[str]:
    """The conditions of FAIL_ON.

    :param target: of make, that has to be able to meet them.
    :raises RaceError: naming the first that it cannot.
    """
    names = [name for name in variable("FAIL_ON").split(",") if name]
    for name in names:
        if target not in CONDITIONS[name].targets:
            allowed = ", ".join(n for n, condition in CONDITIONS.items() if target in condition.targets)
            raise RaceError(f"FAIL_ON is [{name}], which 'make {target}' cannot meet; it takes {allowed or 'none'}")
    return names


def check_names(given: list[str]) -> None:
    """Whether all these are variables of make.

    :raises RaceError: naming the first that is not, and the nearest that is.
    """
    for name in given:
        if name not in VARIABLES:
            raise RaceError(
                f"make has no variable {escaped(name)!r}{nearest(name.upper(), VARIABLES)} 'make' lists them all"
            )


def nearest(name: str, known: Iterable[str]) -> str:
    """Asks whether the known name that is most like this one was meant, if any is."""
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ";"


if __name__ == "__main__":
    try:
        check_names(given := os.environ.get("GIVEN", "").split())
        for name in given:
            variable(name)
    except RaceError as e:
        sys.exit(f"[ERROR] {e}")
