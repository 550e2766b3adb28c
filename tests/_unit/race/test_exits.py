"""The exit codes of what stands behind make."""

import contextlib
import copy
import signal

import pytest
from planted import remove_outside
from stores import Store, recorded

from _tools.race import __main__ as command
from _tools.race import clusters, rally
from _tools.race.variables import CONDITIONS, EXITS, VARIABLES, Exit
from _tools.race.watch import LostError, Watch
from _tools.report import write


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """A store with a whole race, one that was not finished, one with a failed load, and one that left no samples."""
    race, documents = recorded("query-decomp")
    load = copy.deepcopy(next(d for d in documents if d.get("operation-type") == "bulk"))
    load["meta"]["success"] = False
    unfinished = {key: value for key, value in race.items() if key != "results"}
    times = iter(range(10))

    def named(name, race, documents):
        return race | {"race-id": name, "race-timestamp": f"20260101T00000{next(times)}Z"}, documents

    races = [
        named("whole", race, documents),
        named("again", race, documents),
        named("failed", race, [*documents, load]),
    ]
    store = Store(*races, named("unfinished", unfinished, documents), named("nothing", unfinished, []))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VERBOSE", "1")
    monkeypatch.setattr(write, "connect", lambda ini: store)
    monkeypatch.setattr(clusters, "metrics_store", lambda launcher: contextlib.nullcontext())
    monkeypatch.setattr(rally, "write_configuration", lambda store: None)
    monkeypatch.setattr(rally, "WORK", tmp_path)
    monkeypatch.setattr(command, "NOISE", tmp_path / "noise.json")
    yield
    remove_outside(tmp_path)


@pytest.mark.parametrize(
    "target, variables, code, said",
    [
        ("report", {"RACE": "whole"}, Exit.DONE, "\n# Race whole\n"),
        ("report", {"RACE": "unfinished"}, Exit.INCOMPLETE, "\n# INCOMPLETE: Race unfinished\n\n- **The race was not"),
        (
            "report",
            {"RACE": "failed"},
            Exit.INCOMPLETE,
            "\n# INCOMPLETE: Race failed\n\n- **Of index-append 1 failed.**",
        ),
        ("report", {"RACE": "nothing"}, Exit.INCOMPLETE, "[ERROR] race [nothing] is INCOMPLETE: it was not finished"),
        ("report", {"RACE": "nowhere"}, Exit.REFUSED, "[ERROR] no race [nowhere] in the store"),
        ("report", {"PORT": "odd"}, Exit.REFUSED, "[ERROR] PORT is [odd], allowed is"),
        (
            "changes",
            {"FAIL_ON": "regressed"},
            Exit.REFUSED,
            "[ERROR] FAIL_ON is [regressed], which 'make changes' cannot",
        ),
        (
            "noise",
            {"FAIL_ON": "drift", "RACES": "3"},
            Exit.REFUSED,
            "[ERROR] FAIL_ON is [drift], which 'make noise' cannot",
        ),
        ("compare", {"RACES": "whole again"}, Exit.DONE, "\n# Comparison of whole, again\n"),
        (
            "compare",
            {"RACES": "whole again", "FAIL_ON": "too-few"},
            CONDITIONS["too-few"].code,
            "[ERROR] FAIL_ON=too-few: ",
        ),
        ("compare", {"RACES": "whole whole"}, Exit.REFUSED, "[ERROR] race [whole] is named twice"),
        (
            "compare",
            {"RACES": "whole failed"},
            Exit.INCOMPLETE,
            "\n# INCOMPLETE: Comparison of whole, failed\n\n- **race failed: Of index-append 1 failed.**\n",
        ),
        (
            "noise",
            {"RACES": "whole again failed"},
            Exit.INCOMPLETE,
            "noise is measured on complete races; race failed: Of",
        ),
    ],
)
def test_how_it_ends(stored, monkeypatch, capsys, target, variables, code, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["_tools.race", target])
    assert command.main() == code
    captured = capsys.readouterr()
    assert said in (captured.err if said.startswith(("[", "noise")) else captured.out)


@pytest.fixture
def raced(stored, monkeypatch, tmp_path):
    """Races with a target that is there, and with this in the place of Rally."""
    monkeypatch.setattr(command, "prepare", lambda: None)
    monkeypatch.setattr(command, "watch", lambda launcher, hosts, race_id: Watch(race_id, [], {}, tmp_path / "log"))
    monkeypatch.setattr(rally, "check_no_other_rally", lambda: None)
    for name, found in (("target_hosts", ("h:1", "")), ("track_params", ""), ("sampled", "")):
        monkeypatch.setattr(clusters, name, lambda *_, found=found: contextlib.nullcontext(found))

    def raced(run, **variables):
        monkeypatch.setattr(rally, "run", run)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["_tools.race", "race"])
        return command.main()

    return raced


@pytest.mark.parametrize("fail_on, code", [("too-few", CONDITIONS["too-few"].code), ("", Exit.DONE)])
def test_a_race_fails_on_what_it_was_told_to(raced, monkeypatch, tmp_path, fail_on, code):
    monkeypatch.setattr(command, "REPORTS", tmp_path / "reports")
    assert raced(lambda line, wait: 0, RACE_ID="whole", FAIL_ON=fail_on) == code


def test_a_race_that_lost_its_target_ends_as_incomplete(raced, capsys):
    def lose(line, wait):
        raise LostError("the target is lost, its process 7 has ended")

    assert raced(lose, RACE_ID="lost") == Exit.INCOMPLETE
    assert capsys.readouterr().err.startswith("[ERROR] race lost is INCOMPLETE: the target is lost, its process 7")


def test_each_exit_code_is_explained():
    assert set(EXITS) == set(Exit)


def test_a_full_disk_is_told_in_one_line(stored, monkeypatch, capsys, tmp_path):
    (tmp_path / "reports" / "whole").mkdir(parents=True)
    (tmp_path / "reports" / "whole" / "report.md").symlink_to("/dev/full")
    monkeypatch.setattr(command, "REPORTS", tmp_path / "reports")
    monkeypatch.setenv("RACE", "whole")
    monkeypatch.setattr("sys.argv", ["_tools.race", "report"])
    assert command.main() == Exit.REFUSED
    said = capsys.readouterr().err
    assert said.startswith("[ERROR] No space left on device; make room where WORK is") and said.count("\n") == 1


@pytest.mark.parametrize("before, kept", [(signal.SIG_DFL, False), (signal.SIG_IGN, True)])
def test_a_terminal_that_goes_ends_no_race_that_was_told_to_outlive_it(stored, monkeypatch, before, kept):
    """As by nohup."""
    monkeypatch.setattr("sys.argv", ["_tools.race", "compare"])
    monkeypatch.setenv("RACES", "whole again")
    handlers = {number: signal.signal(number, before) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        command.main()
        assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) is kept
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("given, raced", [("last", "of last"), ("side:a", "of side:a"), ("x", "x")])
def test_the_results_that_are_kept_are_those_of_the_race_that_is_named(stored, monkeypatch, given, raced):
    kept = []
    monkeypatch.setattr(command, "connect", lambda ini: None)
    monkeypatch.setattr(command, "find", lambda store, name, most: [{"race-id": f"of {name}"}])
    monkeypatch.setattr(command, "keep", lambda folder, race_id, noise: kept.append(race_id) or [])
    for name in ("write_changes", "keep_changes", "write_pages"):
        monkeypatch.setattr(command, name, lambda *_: [])
    monkeypatch.setenv("RACE", given)
    monkeypatch.setattr("sys.argv", ["_tools.race", "results"])
    assert command.main() == Exit.DONE and kept == [raced]


def test_downloads_that_cannot_be_kept_are_told_in_one_line(stored, monkeypatch, capsys, tmp_path):
    def refused(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / "downloads" / ".lock"))

    monkeypatch.setattr(rally, "WORK", tmp_path / "work")
    monkeypatch.setattr(rally, "DOWNLOADS", tmp_path / "downloads")
    monkeypatch.setattr(command, "write_report", refused)
    monkeypatch.setattr("sys.argv", ["_tools.race", "report"])
    assert command.main() == Exit.REFUSED
    said = capsys.readouterr().err
    assert said.endswith(".lock], where downloads are kept, cannot be used: Permission denied\n")
