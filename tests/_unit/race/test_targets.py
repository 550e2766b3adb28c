"""What targets of make do with their variables; what does the work stands in for itself."""

import contextlib
import errno
import json
from types import SimpleNamespace

import pytest

from _tools.elasticsearch.nodes import Cluster
from _tools.race import __main__ as command
from _tools.race import calibrate, clusters, minutes, rally
from _tools.race.rally import Store
from _tools.race.variables import VARIABLES, Exit, RaceError
from _tools.report.race import NothingToReportError, ReportError


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a target with these variables, and no store to start."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(command, "NOISE", tmp_path / "noise.json")
    monkeypatch.setattr(rally, "INI", tmp_path / "rally.ini")
    monkeypatch.setattr(command, "running_store", lambda: contextlib.nullcontext(rally.INI))

    def run(target, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return target()

    return run


@pytest.fixture
def noted(monkeypatch):
    """Puts functions that note what they are called with in the place of others, by name."""
    calls = []

    def noted(of, *names, returns=None):
        for name in names:
            monkeypatch.setattr(of, name, lambda *given, name=name: calls.append((name, *given)) or returns)
        return calls

    return noted


def test_a_comparison_is_of_the_races_that_are_named_and_of_all_that_was_asked(run, noted):
    calls = noted(command, "write_comparison", returns=20)
    given = {"VERBOSE": "1", "FAIL_ON": "regressed,too-few", "CHALLENGE": "ingest"}
    assert run(command.compare, RACES="a side:b", **given) == 20
    paths = (rally.INI, ["a", "side:b"], command.REPORTS, command.NOISE)
    assert calls == [("write_comparison", *paths, "ingest", True, ["regressed", "too-few"])]
    with pytest.raises(RaceError, match="^RACES names the races to compare: two or more"):
        run(command.compare, RACES="a")
    with pytest.raises(RaceError, match=r"^FAIL_ON is \[drift\], which 'make compare' cannot meet; it takes regressed"):
        run(command.compare, RACES="a b", FAIL_ON="drift")


def test_a_report_is_of_the_race_that_is_named_and_of_the_last_without_one(run, noted):
    calls = noted(command, "write_report", returns=21)
    assert run(command.report) == run(command.report, RACE="x", VERBOSE="1", FAIL_ON="target-missed") == 21
    of = (command.REPORTS, True, ["target-missed"])
    assert calls == [
        ("write_report", rally.INI, "last", command.REPORTS, False, []),
        ("write_report", rally.INI, "x", *of),
    ]
    with pytest.raises(RaceError, match="which 'make report' cannot meet"):
        run(command.report, FAIL_ON="regressed")


def test_changes_are_ranked_by_the_race_that_is_named_and_of_test_mode_where_that_is_asked(run, noted):
    calls = noted(command, "write_changes")
    assert run(command.changes) == run(command.changes, RACE="x", TEST_MODE="1") == 0
    run(command.changes, TEST_MODE="0", VERBOSE="1")
    assert [call[2:] for call in calls] == [
        ("last", command.REPORTS, False, False),
        ("x", command.REPORTS, True, False),
        ("x", command.REPORTS, False, True),
    ]


def test_what_is_explained_is_the_race_that_is_named(run, noted, monkeypatch):
    calls = noted(command, "load", "connect", returns="found")
    noted(command.microbenchmarks, "explain_race", returns=65)
    assert run(command.explain) == run(command.explain, RACE="x") == 65
    assert [call for call in calls if call[0] == "load"] == [("load", "found", "last"), ("load", "found", "x")]
    assert calls[-1] == ("explain_race", "found")


def test_noise_of_races_of_before_is_of_the_challenge_that_is_named(run, noted):
    calls = noted(command, "write_noise")
    assert run(command.noise, RACES="side:a b", CHALLENGE="ingest") == 0
    assert calls == [("write_noise", rally.INI, ["side:a", "b"], command.NOISE, "ingest")]


@pytest.mark.parametrize("number, races", [("3", 3), ("100", 100), ("2", 0), ("101", 0)])
def test_noise_takes_three_to_a_hundred_races(run, noted, number, races):
    calls = noted(command, "races_of", returns=0)
    if races:
        assert run(command.noise, RACES=number, RACE_ID="x") == 0
        assert calls == [("races_of", [f"x-{i}" for i in range(1, races + 1)])]
    else:
        with pytest.raises(
            RaceError, match=rf"^RACES is \[{number}\], noise between races takes 3 or more, up to 100$"
        ):
            run(command.noise, RACES=number)


def test_races_are_listed_by_their_tags_and_by_arguments_that_rally_takes(run, noted):
    calls = noted(rally, "run", returns=64)
    assert run(command.races) == run(command.races, TAGS="a:b", RALLY_ARGS="--limit=100") == 64
    lines = [rally.esrally("list", "races"), rally.esrally("list", "races", "--user-tags=a:b", "--limit=100")]
    assert calls == [("run", line) for line in lines]
    with pytest.raises(RaceError, match="^RALLY_ARGS is"):
        run(command.races, RALLY_ARGS="--nonsense")


@pytest.mark.parametrize("code", [0, 64])
def test_a_result_is_kept_of_a_race_that_was_raced_to_its_end_alone(run, noted, code):
    calls = noted(command, "races_of", returns=code)
    noted(command, "keep", "keep_changes", "write_pages", returns=[])
    noted(command, "write_changes")
    assert run(command.results, RACE_ID="x") == code
    assert calls[0] == ("races_of", ["x"])
    kept = ["keep", "write_changes", "keep_changes", "write_pages"]
    assert [name for name, *_ in calls[1:]] == ([] if code else kept)
    if not code:
        assert calls[1] == ("keep", command.REPORTS, "x", command.NOISE)
        assert calls[2] == ("write_changes", rally.INI, "x", command.REPORTS)


def test_the_plan_by_races_is_kept_alone(run, noted, capsys):
    calls = noted(command, "keep_plan", "write_pages", returns=["p.md"])
    noted(command, "keep", "races_of")
    assert run(command.results, RACES="x y") == Exit.DONE
    assert calls == [("keep_plan", command.REPORTS, "x"), ("write_pages",)]
    assert capsys.readouterr().out == "written to p.md\n" * 2


def test_a_result_is_kept_where_the_ranking_of_changes_cannot_be(run, noted, monkeypatch, capsys):
    def refused(reports):
        raise ReportError("it has none")

    calls = noted(command, "keep", returns=["x.md"])
    noted(command, "write_changes")
    noted(command, "write_pages", returns=["README.md"])
    monkeypatch.setattr(command, "keep_changes", refused)
    assert run(command.results, RACE="x") == Exit.DONE and calls[-1] == ("write_pages",)
    captured = capsys.readouterr()
    assert captured.out == "written to x.md\nwritten to README.md\n"
    assert captured.err == "the ranking of changes is left as it is: it has none\n"


def test_the_page_of_versions_is_written_whatever_came_of_the_trials(run, noted):
    calls = noted(command.versions, "matrix", returns=1)
    noted(command, "write_pages")
    assert run(command.matrix) == 1 and calls == [("matrix",), ("write_pages",)]


@pytest.mark.parametrize("there", [[], ["metrics-store"]])
@pytest.mark.parametrize("sketch", ["0", "1"])
def test_up_starts_what_is_not_up_to_stay_and_races_write_to_its_store(run, noted, monkeypatch, there, sketch):
    def cluster(name):
        return Cluster(name, "8.17.2", [9200 + len(name)])

    started = []
    for module, function, name in (
        (clusters, "start_target", "target"),
        (clusters, "start_store", "metrics-store"),
        (command.sketch_server, "start", "sketch-server"),
    ):
        monkeypatch.setattr(
            module, function, lambda launcher, outlive, name=name: started.append((name, outlive)) or cluster(name)
        )
    monkeypatch.setattr(command, "Launcher", lambda *_: None)
    monkeypatch.setattr(command, "running", lambda launcher, name: cluster(name) if name in there else None)
    calls = noted(rally, "write_configuration")
    assert run(command.up, SKETCH=sketch) == 0
    wanted = ["target", "metrics-store", *(["sketch-server"] if sketch == "1" else [])]
    assert started == [(name, True) for name in wanted if name not in there]
    assert calls == [("write_configuration", Store("http://127.0.0.1:9213"))]


@pytest.mark.parametrize(
    "there, named, store",
    [
        (False, {}, None),
        (True, {}, Store("http://127.0.0.1:9209")),
        (True, {"STORE": "http://elsewhere"}, Store("http://elsewhere")),
    ],
)
def test_the_bare_command_writes_to_the_store_that_is_named_or_up(run, noted, monkeypatch, there, named, store):
    up = Cluster("metrics-store", "8.17.2", [9209]) if there else None
    launcher = SimpleNamespace(running={"metrics-store": up}.get)
    monkeypatch.setattr(command, "Launcher", lambda *_: launcher)
    calls = noted(command, "prepare_offline", returns="the command")
    assert run(command.offline, HEAP="2g", ES_VERSION="8.16.0", **named) == 0
    assert calls == [("prepare_offline", launcher, "8.16.0", "2g", store)]


@pytest.mark.parametrize(
    "raised, code, said",
    [
        (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded"),
            Exit.REFUSED,
            "[ERROR] Disk quota exceeded; make room where WORK",
        ),
        (RaceError("not so"), Exit.REFUSED, "[ERROR] not so\n"),
        (ReportError("not so"), Exit.REFUSED, "[ERROR] not so\n"),
    ],
)
def test_what_ends_a_target_is_told_by_its_code(run, monkeypatch, capsys, raised, code, said):
    def ends():
        raise raised

    monkeypatch.setattr(command, "with_store", lambda write: ends())
    monkeypatch.setattr("sys.argv", ["_tools.race", "report"])
    assert run(command.main) == code and capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("file", ["/etc/x", 7, None])
def test_a_file_that_is_none_of_make_is_no_problem_that_one_line_tells(run, monkeypatch, file):
    def ends(write):
        raise PermissionError(errno.EACCES, "Permission denied", file)

    monkeypatch.setattr(command, "with_store", ends)
    monkeypatch.setattr("sys.argv", ["_tools.race", "report"])
    with pytest.raises(PermissionError):
        run(command.main)


@pytest.mark.parametrize("target", ["explain", "plan", "changes", "noise"])
def test_a_condition_that_a_target_cannot_meet_is_refused(run, monkeypatch, capsys, target):
    monkeypatch.setattr("sys.argv", ["_tools.race", target])
    assert run(command.main, FAIL_ON="drift", RACES="a") == Exit.REFUSED
    assert f"FAIL_ON is [drift], which 'make {target}' cannot meet; it takes none" in capsys.readouterr().err


@pytest.fixture
def raced(run, noted, monkeypatch):
    """Races with these variables, and this exit code of Rally; returns its own, and what was done."""
    monkeypatch.setattr(command, "prepare", lambda: None)
    for name, found in (("target_hosts", ("h:1", "o.json")), ("metrics_store", "store")):
        monkeypatch.setattr(clusters, name, lambda *_, found=found: contextlib.nullcontext(found))
    monkeypatch.setattr(clusters, "lifted", lambda launcher, params: contextlib.nullcontext(f"{params}+shares"))
    monkeypatch.setattr(clusters, "sampled", lambda *of: contextlib.nullcontext(f"{of[3]}+sampler"))
    noted(rally, "check_no_other_rally", "write_configuration")
    noted(command, "write_report", returns=0)

    def raced(code=0, **variables):
        calls = noted(rally)
        watched = SimpleNamespace(run=lambda line: calls.append(("rally", line)) or code)
        monkeypatch.setattr(command, "watch", lambda launcher, hosts, race_id: watched)
        return run(command.race, **variables), calls

    return raced


def test_a_race_is_raced_by_its_variables_and_reported(raced):
    code, calls = raced(RACE_ID="x", PARAMS="rounds:2", VERBOSE="1", FAIL_ON="drift,too-few", TAGS="a:b")
    line = command.command("h:1", "o.json", "rounds:2+shares+sampler", "x")
    report = ("write_report", rally.INI, "x", command.REPORTS, True, ["drift", "too-few"])
    assert code == 0
    assert calls == [("write_configuration", "store"), ("check_no_other_rally",), ("rally", line), report]


def test_a_race_that_rally_ends_is_not_reported(raced, capsys):
    code, calls = raced(64, RACE_ID="x")
    assert code == 64 and calls[-1][0] == "rally"
    assert capsys.readouterr().err.startswith("[ERROR] race x is INCOMPLETE; 'make report RACE=x'")


def test_a_race_is_refused_where_it_cannot_fail_as_is_asked(raced, noted):
    with pytest.raises(RaceError, match="which 'make race' cannot meet; it takes target-missed, drift, too-few$"):
        raced(FAIL_ON="regressed")


def test_a_race_that_left_nothing_to_report_is_done(raced, monkeypatch):
    def nothing(*_):
        raise NothingToReportError("no samples")

    monkeypatch.setattr(command, "write_report", nothing)
    assert raced()[0] == Exit.DONE


def test_a_race_is_calibrated_by_short_ones_that_are_tagged_with_its_id(raced, monkeypatch):
    def calibrated(challenge, params, race_id, race, ini):
        assert (challenge, race_id, ini) == ("capacity-query", "x", rally.INI)
        assert json.loads(params) == {"seed": 7, "keep_words": True}
        assert race("short", "x-clients-1") == 0
        return "clients"

    monkeypatch.setattr(calibrate, "calibrated", calibrated)
    given = {"RACE_ID": "x", "CHALLENGE": "capacity-query", "PARAMS": "seed:7", "TAGS": "a:b"}
    _, calls = raced(CALIBRATE="1", **given)
    short = command.command("h:1", "o.json", "short+shares+sampler", "x-clients-1", "calibrates:x")
    assert [line for name, line in (c for c in calls if c[0] == "rally")] == [
        short,
        command.command("h:1", "o.json", "clients+shares+sampler", "x"),
    ]


@pytest.fixture
def checked(run, noted, monkeypatch, tmp_path):
    """Checks what can be before a race; returns what each check was given by name."""
    noted(rally, "check_folder_name", "check_no_other_rally", "write_configuration", "check_arguments")
    noted(rally, "check_track", "check_disk")
    noted(clusters, "check_store", "takes_sampler")
    noted(minutes, "fitted")
    monkeypatch.setattr(command, "Launcher", lambda *_: SimpleNamespace(root=tmp_path / "root"))
    monkeypatch.chdir(tmp_path)

    def checked(**variables):
        calls = noted(calibrate, "check")
        run(command.prepare, **variables)
        return {name: given for name, *given in calls}

    return checked


def test_all_that_can_be_is_checked_before_a_node_starts(checked, tmp_path):
    found = checked(PARAMS="seed:7", RALLY_ARGS="--limit=1")
    assert sorted(found) == sorted(
        ["check_folder_name", "check_no_other_rally", "write_configuration", "check_arguments", "check_track"]
        + ["check_disk", "takes_sampler", "fitted"]
    )
    assert found["fitted"] == found["check_track"] == ["query-decomp", "seed:7"]
    assert found["check_arguments"][1] == "--limit=1" and found["check_arguments"][0][-1] == "--limit=1"
    assert found["check_disk"] == ["query-decomp", "seed:7", False, tmp_path / "root"]


def test_a_store_that_is_named_is_asked_and_calibration_is_checked_where_they_are_wanted(checked):
    found = checked(STORE="http://store", CALIBRATE="1", CHALLENGE="capacity-query", RACE_ID="x")
    assert found["write_configuration"] == [Store("http://store")] and found["check_store"] == [rally.INI]
    assert found["check"] == ["capacity-query", "x"]


@pytest.mark.parametrize("variables, place", [({"DATA": "d"}, "d"), ({"DATA": "d", "HOSTS": "h:1"}, None)])
def test_the_disk_that_is_checked_is_that_of_the_indices_where_they_are_here(checked, tmp_path, variables, place):
    found = checked(TEST_MODE="1", **variables)
    assert found["check_disk"][2:] == [True, place and tmp_path / place]
