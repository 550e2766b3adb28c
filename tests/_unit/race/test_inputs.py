"""Variables of odd shape: one line says what is wrong, before anything starts."""

import contextlib
import os
import re
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from _tools.race import __main__ as command
from _tools.race import clusters, rally
from _tools.race.variables import RACE_ID, VARIABLES, Exit, RaceError, shown

CHECKED = sorted(VARIABLES.keys() - {"WORK", "PYTHON", "GIVEN"})
ODD_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), min_size=1, max_size=300)


@pytest.fixture
def started(monkeypatch, tmp_path):
    """No variable is set; what would start a node or Rally is an error of its own, so nothing may get there."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rally, "INI", tmp_path / "rally.ini")
    monkeypatch.setattr(command, "Launcher", lambda *args: pytest.fail("a launcher was made"))
    monkeypatch.setattr(rally, "run", lambda line: pytest.fail("Rally was started"))


def refused(monkeypatch, capsys, target, **variables):
    """What a target that is refused says: one line."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["_tools.race", target])
    assert command.main() == Exit.REFUSED
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith("[ERROR] ") and line.isprintable() and not captured.out
    return line


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("RACE_ID", "../../x", "allowed is 1 to 128 of letters, digits"),
        ("RACE_ID", "..", "neither `.` nor `..`"),
        ("RACE_ID", "é", "RACE_ID is [é]"),
        ("RACE_ID", "x" * 129, "x" * 129 + "]"),
        ("RACE_ID", "a b", "RACE_ID is [a b]"),
        ("RACE", "../x", "an id, a tag as `key:value`, or `last`"),
        ("RACES", "a ../b", "RACES is [a ../b]"),
        ("RACES", "a ..", "RACES is [a ..]"),
        ("TAGS", "a:b\n# forged", "TAGS is [a:b\\n# forged]"),
        ("TAGS", "lonely", "allowed is `key:value,key:value`"),
        ("TAGS", "a:b:c", "TAGS is [a:b:c]"),
        ("PARAMS", "rounds", "allowed is k:v,k:v, or a JSON object"),
        ("PARAMS", "[1]", "PARAMS is [[1]]"),
        ("PARAMS", "a:b:c", "PARAMS is [a:b:c]"),
        ("PARAMS", "nowhere.json", "PARAMS is [nowhere.json]"),
        ("PARAMS", "[" * 100_000, "[" * 200 + "…]"),
        ("HOSTS", "here", "allowed is host:port,host:port"),
        ("HOSTS", "here:99999", "HOSTS is [here:99999]"),
        ("HOSTS", "here:0", "HOSTS is [here:0]"),
        ("HOSTS", '{"default": [{"host": "here", "port": 9200}, {"host": "here", "port": 99999}]}', "HOSTS is [{"),
        ("HOSTS", "here:9200,hé:9200", "HOSTS is [here:9200,hé:9200]"),
        ("HOSTS", "here:٩٢٠٠", "HOSTS is [here:٩٢٠٠]"),
        ("HOSTS", "a:1,,b:2", "HOSTS is [a:1,,b:2]"),
        ("HOSTS", "[::1:9200", "HOSTS is [[::1:9200]"),
        ("HOSTS", "[]", "HOSTS is [[]]"),
        ("HOSTS", '{"other": ["a:1"]}', "HOSTS is [{"),
        ("HOSTS", '{"default": [{"host": "here", "port": 65536}]}', "HOSTS is [{"),
        ("HOSTS", "hosts.json", "HOSTS is [hosts.json]"),
        ("HOSTS", "https://me:pass@w@here:x", "HOSTS is [https://***@here:x]"),
        ("STORE", "here:9200", "allowed is http(s)://[user:password@]host[:port]"),
        ("STORE", "http://here:99999", "STORE is [http://here:99999]"),
        ("STORE", "http://[::1", "STORE is [http://[::1]"),
        ("STORE", "http://a b", "STORE is [http://a b]"),
        ("STORE", "http://here/path", "STORE is [http://here/path]"),
        ("STORE", "http://me:pass/word@here", "STORE is [http://***@here]"),
        ("STORE", "http://me:password@here:x", "STORE is [http://***@here:x]"),
        ("INI", "/", "cannot read [/]: Is a directory"),
        ("INI", "nowhere\x1b[2J.ini", "INI is [nowhere\\x1b[2J.ini]"),
        ("TEST_MODE", "yes", "TEST_MODE is [yes], allowed is 0 or 1; 'make' explains TEST_MODE"),
        ("SECURITY", "true", "allowed is 0 or 1"),
        ("ES_VERSION", "٨.١٧.٢", "ES_VERSION is [٨.١٧.٢]"),
        ("DATA", "a\nb", "DATA is [a\\nb], allowed is what can be printed on one line"),
        ("CHALLENGE", "ingset", "did you mean ingest?"),
        ("CHALLENGE", "\udcff", "CHALLENGE is [\\udcff]"),
        ("TARGET_DOCS", "9" * 400, "9" * 200 + "…], allowed is a number"),
    ],
)
@pytest.mark.parametrize("target", ["race", "report", "compare"])
def test_a_value_of_odd_shape_is_refused_before_anything_starts(
    started, monkeypatch, capsys, target, name, value, said
):
    line = refused(monkeypatch, capsys, target, **{name: value})
    assert said in line
    assert not re.search(r"pass.?w", line.replace("[user:password@]", ""))


BOUNDS = {
    "MINUTES": (["0", "9999"], ["-1", "10000", "1.5"]),
    "ES_VERSION": (["8.17.2", "10.0.12"], ["8.17", "8.17.2-SNAPSHOT", "v8.17.2"]),
    "NODES": (["1", "10", "99"], ["0", "100", "01"]),
    "NODE_CORES": (["0", "0.4", "0.01", "128"], ["0.001", "-1", ".5"]),
    "HEAP": (["1g", "512m", "999999m"], ["0g", "1", "1k", "1.5g"]),
    "PORT": (["1000", "9200", "10000", "59999", "60000", "64999"], ["999", "0", "65000", "99999"]),
    "DELAY_MS": (["0", "2.5", "9999"], ["10000", "-1", ".5"]),
    "TAGS": (
        ["a:b", "a:b c,d:e", f"{'k' * 64}:{'v' * 200}"],
        ["a", "a:", ":b", "a:b,", f"{'k' * 65}:v", f"k:{'v' * 201}"],
    ),
    "FAIL_ON": (["drift", "drift,too-few"], ["drift,", "slow", "drift too-few"]),
    "RACE": (["x", "last", "a:b c"], [".", "x y"]),
    "RACES": (["5", "x", "x side:b last"], ["x ..", "a:b,c"]),
    "RACE_ID": (["x", "...", "x" * 128], ["x/y", "x y", "a:b"]),
    "DELTA": (["3", "0.5", "99", "99.5", "1"], ["0", "100", "-3", "03"]),
    "NOISE_DAYS": (["0", "7", "0.5"], ["-1", "1e3", ".5"]),
    "REPLICAS": (["0", "9"], ["10", "-1", "1.5"]),
    "HEADROOM": (["0", "0.3", ".3", "0.99"], ["1", "1.0", "-0.1", "30"]),
    "YES": (["0", "1"], ["2", "yes"]),
    "BENCH": (["client", "TDigest|Sum", "a.*[bc]$"], ["a b", ";"]),
}
"""Values of a variable that are taken, and others that are not."""


@pytest.mark.parametrize("name", BOUNDS)
def test_values_are_taken_up_to_their_bounds_and_refused_beyond(started, monkeypatch, name):
    for allowed, values in zip((True, False), BOUNDS[name]):
        for value in values:
            monkeypatch.setenv(name, f" {value} ")
            with contextlib.nullcontext() if allowed else pytest.raises(RaceError, match=f"^{name} is "):
                assert VARIABLES[name].value("default") == value
    monkeypatch.setenv(name, " ")
    assert VARIABLES[name].value(BOUNDS[name][0][0]) == BOUNDS[name][0][0]


@given(name=st.sampled_from(CHECKED), value=ODD_TEXTS)
@example("HOSTS", "//")
@settings(deadline=None, max_examples=500)
def test_whatever_a_variable_is_the_check_ends_well_or_with_one_line(name, value):
    with pytest.MonkeyPatch.context() as patch:
        for other in VARIABLES:
            patch.delenv(other, raising=False)
        try:
            patch.setenv(name, value)
        except UnicodeEncodeError:
            return  # nothing that an environment can hold
        try:
            command.check_variables()
        except (RaceError, command.ReportError) as e:
            assert str(e).isprintable() and len(str(e)) < 900
            assert name in str(e) or name == "INI"


@given(st.text(max_size=200))
def test_an_id_stays_within_its_folder(text):
    if re.fullmatch(RACE_ID, text, re.ASCII):
        assert os.path.basename(text) == text and text not in (".", "..") and len(os.fsencode(text)) <= 128


@given(ODD_TEXTS)
def test_a_value_is_shown_on_one_line_of_bounded_length(text):
    assert shown(text).isprintable() and len(shown(text)) <= 201


@pytest.mark.parametrize(
    "value",
    [
        "basic_auth_user:me,basic_auth_password:se,cr:et",
        '{"default": {"basic_auth_password": "secret"}}',
        "api_key:secret",
        "http://me:se@c/r:et@here",
        "--client-options=timeout:1,api_key:secret",
    ],
)
def test_no_password_is_shown(value):
    assert not re.search("s?e?cr[:/e]*t?|et$", shown(value).replace("***", ""))


@pytest.mark.parametrize(
    "given_arguments, said",
    [
        ("--nonsense", "allowed is what esrally takes: unrecognized arguments: --nonsense"),
        ("--on-error=never", ": 'never'"),
        ("--race-id=../x", "allowed is what make does not set itself, as it does --race-id"),
        ("--race-i=x", "as it does --race-i"),
        ("--target-hosts=elsewhere:1", "as it does --target-hosts"),
        ("--client-options=timeout:1", "allowed is no --client-options, for which CLIENT_OPTIONS is"),
        ("--client-o timeout:1", "allowed is no --client-o, for which CLIENT_OPTIONS is"),
        ("--track-params=seed:1", "allowed is no --track-params, for which PARAMS is"),
        ("--user-tags=side:a", "allowed is no --user-tags, for which TAGS is"),
        ("--test-mode", "allowed is no --test-mode, for which TEST_MODE is"),
        ("--configuration-name=mine", "allowed is no --configuration-name, for which INI is"),
        ("--load-driver-hosts=a,b", "allowed is no --load-driver-hosts: make has one load driver, and several race"),
        ("--help", "RALLY_ARGS is [--help]"),
    ],
)
def test_arguments_for_rally_are_checked_before_it_runs(started, monkeypatch, given_arguments, said):
    monkeypatch.setenv("RALLY_ARGS", given_arguments)
    with pytest.raises(RaceError) as e:
        rally.check_arguments(command.command("localhost:9200", "", "", "x"), given_arguments)
    assert said in str(e.value) and str(e.value).isprintable()


@pytest.mark.parametrize(
    "given_arguments", ["", "--include-tasks=tag:setup --on-error=abort", "--telemetry=node-stats"]
)
def test_arguments_that_rally_takes_are_left_alone(started, monkeypatch, given_arguments):
    monkeypatch.setenv("RALLY_ARGS", given_arguments)
    line = command.command("localhost:9200", "", "", "x")
    rally.check_arguments(line, given_arguments)
    assert line[len(line) - len(given_arguments.split()) :] == given_arguments.split()


def test_certificates_that_cannot_be_read_get_one_line(started, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(rally, "check_no_other_rally", lambda: None)
    lines = ["datastore.type = elasticsearch", "datastore.host = h", "datastore.port = 1", "datastore.secure = True"]
    ini = tmp_path / "my.ini"
    ini.write_text("\n".join(["[reporting]", *lines, "datastore.ssl.certificate_authorities = /nowhere.pem"]))
    assert "the metrics store does not answer: " in refused(monkeypatch, capsys, "race", INI=str(ini))


@pytest.mark.parametrize("below", [".", "work"])
def test_a_work_folder_that_is_a_file_gets_one_line(started, monkeypatch, capsys, tmp_path, below):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(rally, "check_no_other_rally", lambda: None)
    monkeypatch.setattr(rally, "WORK", file / below)
    monkeypatch.setattr(rally, "INI", file / below / "rally" / "rally.ini")
    line = refused(monkeypatch, capsys, "race")
    assert line == f"[ERROR] [{file / below / 'rally'}], of WORK, cannot be used: Not a directory"


@pytest.mark.parametrize(
    "text",
    [
        "no section",
        "[reporting]\ndatastore.type = elasticsearch\n",
        "[reporting]\ndatastore.type = elasticsearch\ndatastore.host = h\ndatastore.port = ٩",
        "[reporting]\ndatastore.type = elasticsearch\ndatastore.host = h\ndatastore.port = 65536",
        "[reporting]\ndatastore.type = %(x)s",
        "[reporting]\ndatastore.type = $x",
        "[reporting]\n[reporting]",
        "\udcff",
    ],
)
def test_an_ini_of_odd_content_gets_one_line(started, monkeypatch, capsys, tmp_path, text):
    ini = tmp_path / "my.ini"
    ini.write_bytes(text.encode(errors="surrogateescape"))
    assert "my.ini]" in refused(monkeypatch, capsys, "race", INI=str(ini))


@pytest.mark.parametrize(
    "options",
    [
        "lonely",
        "a:b:c",
        "[1]",
        "nowhere.json",
        "unknown_option:1",
        "use_ssl:true,ca_certs:/nowhere",
        "max_connections:x",
    ],
)
def test_client_options_of_odd_shape_get_one_line(options):
    with pytest.raises(
        RaceError, match=r"^CLIENT_OPTIONS is \[.*\], allowed is client options for \[127.0.0.1:9\]"
    ) as e:
        clusters.check_target("127.0.0.1:9", options)
    assert str(e.value).isprintable()


def test_a_store_that_does_not_answer_is_told_before_the_target_starts(started, monkeypatch, capsys):
    monkeypatch.setattr(rally, "check_no_other_rally", lambda: None)
    line = refused(monkeypatch, capsys, "race", STORE="http://me:secret@127.0.0.1:9")
    assert "the metrics store does not answer: Connection error: Failed to establish" in line and "secret" not in line


def test_ids_of_several_races_are_no_longer_than_one_may_be(started, monkeypatch, capsys):
    monkeypatch.setattr(command, "prepare", lambda: pytest.fail("it went on"))
    assert "shorter for several races" in refused(monkeypatch, capsys, "noise", RACE_ID="x" * 127)


def test_a_race_without_delay_carries_no_tag_of_it(started, monkeypatch):
    monkeypatch.setenv("DELAY_MS", "0")
    assert not any("delay_ms" in argument for argument in command.command("h:1", "", "", "x"))


def test_down_stops_all_that_up_may_start_whatever_is_set(monkeypatch, capsys):
    stopped = []
    launcher = SimpleNamespace(stop=lambda name: stopped.append(name) or name == "target")
    monkeypatch.setattr(command, "Launcher", lambda *args: launcher)
    monkeypatch.setenv("PORT", "odd")
    monkeypatch.setattr("sys.argv", ["_tools.race", "down"])
    assert command.main() == Exit.DONE
    assert sorted(stopped) == ["metrics-store", "sketch-server", "target"]
    said = capsys.readouterr().out
    assert "the target is stopped\n" in said and "the sketch-server was not running\n" in said


def test_the_command_line_of_a_race_is_what_the_variables_say(started, monkeypatch):
    plain = [*rally.esrally("race"), f"--track-path={rally.TRACK}", "--challenge=query-decomp"]
    fixed = ["--pipeline=benchmark-only", "--target-hosts=h:1", "--race-id=x", "--offline"]
    assert command.command("h:1", "", "", "x") == [*plain, *fixed]
    variables = {"CHALLENGE": "ingest", "TAGS": "a:b,c:d", "DELAY_MS": "2.5", "TEST_MODE": "1"}
    for name, value in (variables | {"RALLY_ARGS": "--on-error=abort"}).items():
        monkeypatch.setenv(name, value)
    line = [*plain[:-1], "--challenge=ingest", *fixed, '--track-params={"rounds": 2}', "--client-options=o.json"]
    ending = ["--test-mode", "--on-error=abort"]
    found = command.command("h:1", "o.json", '{"rounds": 2}', "x")
    assert found == [*line, "--user-tags=a:b,c:d,delay_ms:2.5", *ending]
    monkeypatch.delenv("DELAY_MS")
    assert command.command("h:1", "o.json", '{"rounds": 2}', "x") == [*line, "--user-tags=a:b,c:d", *ending]
    monkeypatch.setenv("DELAY_MS", "2.5")
    found = command.command("h:1", "o.json", '{"rounds": 2}', "x", "calibrates:y")
    assert found == [*line, "--user-tags=calibrates:y,delay_ms:2.5", *ending]
