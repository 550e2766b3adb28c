"""The target that a challenge needs."""

import contextlib
import http.server
import inspect
import json
import stat
import threading
import types
from pathlib import Path

import pytest
from esrally.utils import opts

from _tools.elasticsearch.nodes import Cluster, Launcher
from _tools.elasticsearch.security import Security
from _tools.race import clusters
from _tools.race.rally import Store, StoreOf, params_of
from _tools.race.variables import VARIABLES, RaceError


def up(**variables):
    """A launcher whose target was started with these variables."""
    return types.SimpleNamespace(running=lambda name: types.SimpleNamespace(variables=variables))


@pytest.mark.parametrize(
    "variables, started",
    [
        ({}, ("8.17.2", "1", "0")),
        ({"CHALLENGE": "ingest"}, ("8.17.2", "1", "0")),
        ({"CHALLENGE": "capacity-mixed"}, ("8.17.2", "3", "0.4")),
        ({"CHALLENGE": "capacity-query", "NODES": "5", "NODE_CORES": "0"}, ("8.17.2", "5", "0")),
        ({"CHALLENGE": "esql-stored-fields"}, ("8.19.4", "1", "0")),
        ({"CHALLENGE": "esql-stored-fields", "ES_VERSION": "8.16.0"}, ("8.16.0", "1", "0")),
    ],
)
def test_a_target_is_started_as_the_challenge_needs_it_unless_variables_say_otherwise(given, variables, started):
    given(**variables)
    wanted = clusters.target_variables()
    assert (wanted["ES_VERSION"], wanted["NODES"], wanted["NODE_CORES"]) == started


def test_a_version_without_esql_is_refused(given):
    given(CHALLENGE="esql-stored-fields", ES_VERSION="8.17.2")
    with pytest.raises(RaceError, match=r"ES_VERSION is \[8.17.2\], which comes without ES|QL; allowed .* 8.19.4"):
        clusters.target_variables()


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("PORT", "99999", "an integer from 1000 to 64999"),
        ("NODES", "３", "an integer from 1 to 99"),
        ("HEAP", "١g", "megabytes or gigabytes"),
        ("NODE_CORES", "0.001", "CPU cores of each node"),
        ("SECURITY", "no", "0 or 1"),
    ],
)
def test_values_that_are_not_allowed_are_refused(given, name, value, allowed):
    given(**{name: value})
    with pytest.raises(RaceError, match=rf"^{name} is \[{value}\], allowed is {allowed}"):
        clusters.target_variables()


@pytest.mark.parametrize(
    "was, variables, message",
    [
        (
            {"NODES": "3"},
            {"CHALLENGE": "capacity-query"},
            r"capacity-query needs NODE_CORES=0.4 but the target that is up was .* \[0\]",
        ),
        ({}, {"CHALLENGE": "capacity-query"}, r"capacity-query needs NODES=3 but the target that is up was .* \[1\]"),
        (
            {},
            {"CHALLENGE": "esql-stored-fields"},
            r"esql-stored-fields needs ES_VERSION=8.19.4 but the target .* \[8.17.2\]",
        ),
        (
            {},
            {"HEAP": "2g"},
            r"HEAP is \[2g\] but the target that is up was started with \[1g\]; run 'make down' first",
        ),
    ],
)
def test_a_target_that_is_up_and_does_not_do_is_refused(given, was, variables, message):
    given(**was)
    launcher = up(**clusters.target_variables())
    assert clusters.running(launcher, "target")
    given(**dict.fromkeys(was, ""), **variables)
    with pytest.raises(RaceError, match=message):
        clusters.running(launcher, "target")


@pytest.mark.parametrize(
    "was, asked", [({"CHALLENGE": "capacity-query"}, {"CHALLENGE": "ingest"}), ({"HEAP": "2g"}, {})]
)
def test_a_target_that_does_more_than_is_needed_will_do(given, was, asked):
    given(**dict.fromkeys(VARIABLES, "") | was)
    launcher = up(**clusters.target_variables())
    given(**dict.fromkeys(VARIABLES, "") | asked)
    assert clusters.running(launcher, "target")


def test_a_target_that_was_started_before_there_was_a_variable_will_do_unless_it_is_asked_for(given):
    given()
    launcher = up(**{name: value for name, value in clusters.target_variables().items() if name != "SECURITY"})
    assert clusters.running(launcher, "target")
    given(SECURITY="1")
    with pytest.raises(
        RaceError, match=r"^SECURITY is \[1\] but the target that is up was started with \[\]; run 'make"
    ):
        clusters.running(launcher, "target")


@pytest.mark.parametrize("before, now", [("0", "1"), ("1", "0")])
def test_a_store_that_is_up_lets_clients_in_as_is_asked_or_is_refused(given, before, now):
    given(SECURITY=before, HEAP="2g")  # which is of the target
    launcher = up(**clusters.store_variables())
    assert clusters.running(launcher, "metrics-store")
    given(SECURITY=now)
    message = rf"^SECURITY is \[{now}\] but the metrics-store that is up was started with \[{before}\]; run 'make down'"
    with pytest.raises(RaceError, match=message):
        clusters.running(launcher, "metrics-store")


def test_a_store_is_started_as_it_is_asked_for_and_takes_samples_at_once(given, monkeypatch):
    put, answered = [], []

    def session():
        return types.SimpleNamespace(put=lambda url, json, timeout: put.append((url, json)) or answer)

    answer = types.SimpleNamespace(raise_for_status=lambda: answered.append(True))
    store = types.SimpleNamespace(url="http://127.0.0.1:9209", session=session)

    def start(*arguments, **named):
        made.update(inspect.signature(Launcher.start).bind(None, *arguments, **named).arguments)
        return store

    made, launcher = {}, types.SimpleNamespace(start=start)
    given(SECURITY="1")
    assert clusters.start_store(launcher, True) is store and answered
    assert (made["name"], made["port"], made["outlive"], made["secured"]) == ("metrics-store", 9209, True, True)
    assert made["variables"] == {"SECURITY": "1"}
    [(url, template)] = put
    assert url == "http://127.0.0.1:9209/_index_template/rally-metrics"
    assert "wildcard" not in json.dumps(template["template"]["mappings"]), "which the embedded node lacks"
    assert template["template"]["settings"]["index"]["number_of_replicas"] == 0 and template["index_patterns"]
    given(SECURITY="0")
    clusters.start_store(launcher, False)
    assert not made["outlive"] and not made["secured"]


@pytest.mark.parametrize(
    "options, read",
    [
        (
            "timeout:7,basic_auth_user:'me',basic_auth_password:'secret'",
            {"timeout": 7, "basic_auth_password": "secret"},
        ),
        ('{"default": {"basic_auth_password": "secret"}}', {"basic_auth_password": "secret"}),
    ],
)
def test_client_options_reach_rally_as_a_file_of_our_own(monkeypatch, tmp_path, options, read):
    monkeypatch.setattr(clusters.rally, "RALLY_HOME", tmp_path / "rally")
    with pytest.raises(ZeroDivisionError), clusters.private(options) as file:
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        assert opts.ClientOptions(file).default == opts.ClientOptions(options).default
        assert opts.ClientOptions(file).default.items() >= read.items()
        raise ZeroDivisionError
    assert not Path(file).exists(), "however the race ends"


@pytest.mark.parametrize("options", ["", "my-options.json"])
def test_client_options_that_are_a_file_stay_as_they_are(options):
    with clusters.private(options) as file:
        assert file == options


def test_the_sketch_server_is_as_far_away_as_the_target(given, monkeypatch):
    delays = []
    monkeypatch.setattr(
        clusters, "delayed", lambda host, ms: delays.append((host, ms)) or contextlib.nullcontext("127.0.0.1:2")
    )
    launcher = types.SimpleNamespace(running=lambda name: types.SimpleNamespace(hosts=["127.0.0.1:1"]))
    given(CHALLENGE="sketch-floor", DELAY_MS="2.5")
    with clusters.track_params(launcher) as params:
        assert json.loads(params) == {"sketch_server": "127.0.0.1:2"} and delays == [("127.0.0.1:1", 2.5)]
    given(PARAMS="rounds:3")
    with clusters.track_params(launcher) as params:
        assert json.loads(params) == {"rounds": 3, "sketch_server": "127.0.0.1:2"}


def test_no_sketch_server_is_started_where_none_is_needed_or_another_is_named(given):
    for variables in (
        {"CHALLENGE": "sketch-floor", "PARAMS": "sketch_server:h"},
        {"CHALLENGE": "ingest", "PARAMS": ""},
    ):
        given(**variables)
        with clusters.track_params(None) as params:
            assert params == variables["PARAMS"]


def test_words_are_kept_on_the_embedded_target_unless_it_is_said_otherwise(given):
    for challenge, named, expected in (
        ("capacity-mixed", {"PARAMS": "passes:3"}, {"passes": 3, "keep_words": True}),
        ("capacity-query", {"PARAMS": "keep_words:false"}, {"keep_words": False}),
        ("capacity-query", {"PARAMS": "", "HOSTS": "h:9200"}, {}),
        ("capacity-indexing", {"PARAMS": "", "HOSTS": ""}, {}),
    ):
        given(CHALLENGE=challenge, **named)
        with clusters.track_params(None) as params:
            assert params_of(params) == expected


def test_every_host_of_a_target_is_as_far_away_as_was_asked(given, monkeypatch):
    monkeypatch.setattr(clusters, "delayed", lambda host, ms: contextlib.nullcontext(f"{host}+{ms:g}"))
    given(DELAY_MS="0.5")
    with clusters.distant(["a:1", "b:2"]) as hosts:
        assert hosts == "a:1+0.5,b:2+0.5"
    given(DELAY_MS="0")
    with clusters.distant(["a:1", "b:2"]) as hosts:
        assert hosts == "a:1,b:2"


def test_a_metrics_store_is_that_which_is_named_by_url_or_by_file(given, tmp_path, monkeypatch):
    given()
    assert clusters.named_store() is None
    given(STORE="http://store.example")
    with clusters.metrics_store(None) as store:
        assert store == Store("http://store.example")
    monkeypatch.setenv("HOME", str(tmp_path))
    given(INI="~/mine.ini")
    with pytest.raises(RaceError, match="^STORE and INI both name a metrics store; set one of them$"):
        clusters.named_store()
    given(STORE="")
    with clusters.metrics_store(None) as store:
        assert store == StoreOf(tmp_path / "mine.ini")


def test_an_embedded_store_is_asked_as_it_lets_clients_in(tmp_path):
    certificate, file = tmp_path / "store.pem", tmp_path / "store.client-options.json"
    secure = Security(b"", certificate, "a-pass_word", "of-the-keystore")
    file.write_bytes(secure.client_options())
    secured = Cluster("metrics-store", "8.17.2", [9209, 9210], client_options_file=str(file))
    assert clusters.store_of(secured) == Store("https://rally:a-pass_word@127.0.0.1:9209", str(certificate))
    assert clusters.store_of(Cluster("metrics-store", "8.17.2", [9209])) == Store("http://127.0.0.1:9209")


@pytest.fixture
def target():
    """A target that answers with what stands in ``answers``, a status and a body by path; yields it with its host."""
    answers = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers[self.path]
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-elastic-product", "Elasticsearch")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield answers, f"127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.mark.parametrize(
    "number, status, said",
    [
        ("8.0.0", 200, ""),
        ("9.2.4", 200, ""),
        ("8.17.2", 403, "does not answer GET /_cluster/health as Elasticsearch does: "),
        ("7.17.28", 200, r"is Elasticsearch 7.17.28; this track needs 8.0 or newer$"),
        ("none", 200, "does not answer GET / as Elasticsearch does: "),
    ],
)
def test_a_target_is_an_elasticsearch_of_8_0_or_newer_that_tells_its_health(target, number, status, said):
    answers, host = target
    answers.update({"/": (200, {"version": {"number": number}}), "/_cluster/health": (status, {"status": "green"})})
    if said:
        with pytest.raises(RaceError, match=rf"^the target \[{host}\] {said}"):
            clusters.check_target(host, "")
    else:
        clusters.check_target(host, "")


def test_a_target_is_asked_before_the_race_and_one_of_hosts_is_no_farther_away_than_it_is(given, target):
    answers, host = target
    answers.update({"/": (200, {"version": {"number": "8.17.2"}}), "/_cluster/health": (200, {})})
    given()
    found = types.SimpleNamespace(hosts=[host], client_options_file="", variables=clusters.target_variables())
    launcher = types.SimpleNamespace(running=lambda name: found)
    for variables, of in (({"HOSTS": host}, None), ({"HOSTS": ""}, launcher)):
        given(**variables)
        answers["/"] = (200, {"version": {"number": "8.17.2"}})
        with clusters.target_hosts(of) as told:
            assert told == (host, "")
        answers["/"] = (200, {"version": {"number": "7.17.28"}})
        with pytest.raises(RaceError, match="is Elasticsearch 7.17.28"), clusters.target_hosts(of):
            pass
    given(HOSTS=host, DELAY_MS="1")
    with pytest.raises(RaceError, match="^DELAY_MS goes with the embedded target"), clusters.target_hosts(None):
        pass


@pytest.mark.parametrize(
    "variables, folder, started",
    [
        ({}, "root/data-8.17.2", ("8.17.2", 1, "1g", 9200, False, False, 0, False)),
        ({"NODES": "3"}, "root/data-8.17.2-3-nodes", ("8.17.2", 3, "1g", 9200, False, False, 0, False)),
        (
            {"CHALLENGE": "capacity-query"},
            "root/data-8.17.2-3-nodes",
            ("8.17.2", 3, "1g", 9200, False, False, 0.4, False),
        ),
        (
            {"NODES": "2", "PORT": "9300", "HEAP": "2g", "DATA": "d", "SECURITY": "1", "NODE_CORES": "0.4"}
            | {"COORDINATOR": "1", "ES_VERSION": "8.16.0"},
            "d/data-8.16.0-2-nodes",
            ("8.16.0", 2, "2g", 9300, True, True, 0.4, True),
        ),
    ],
)
def test_an_embedded_target_is_started_by_its_variables_with_data_that_fit_it(
    given, monkeypatch, tmp_path, variables, folder, started
):
    def start(*arguments, **named):
        return inspect.signature(Launcher.start).bind(None, *arguments, **named).arguments

    monkeypatch.chdir(tmp_path)
    given(**variables)
    made = clusters.start_target(types.SimpleNamespace(root=tmp_path / "root", start=start), True)
    of = ("version", "nodes", "heap", "port", "port_is_fixed", "secured", "cores", "coordinator")
    assert tuple(made[key] for key in of) == started and made["data"] == tmp_path / folder
    assert made["name"] == "target" and made["outlive"] and made["variables"] == clusters.target_variables()


def test_a_target_is_asked_with_its_own_client_options_unless_others_are_given(given, target, tmp_path):
    answers, host = target
    answers.update({"/": (200, {"version": {"number": "8.17.2"}}), "/_cluster/health": (200, {})})
    (own := tmp_path / "own.json").write_text('{"default": {"timeout": 7}}')
    given()
    found = types.SimpleNamespace(hosts=[host], client_options_file=str(own), variables=clusters.target_variables())
    launcher = types.SimpleNamespace(running=lambda name: found)
    with clusters.target_hosts(launcher) as told:
        assert told == (host, str(own))
    (other := tmp_path / "other.json").write_text('{"default": {"timeout": 8}}')
    for variables, of in (({}, launcher), ({"HOSTS": host}, None)):
        given(CLIENT_OPTIONS=str(other), **variables)
        with clusters.target_hosts(of) as told:
            assert told == (host, str(other))


def test_a_cluster_that_a_race_starts_ends_with_it_however_it_ends(given):
    given()
    told = []
    launcher = types.SimpleNamespace(running=lambda name: None, stop=lambda name: told.append(("stopped", name)))

    def start(_, outlive):
        told.append(("outlives", outlive))
        return Cluster("target", "8.17.2", [9200])

    with pytest.raises(ZeroDivisionError), clusters.cluster(launcher, "target", start):
        raise ZeroDivisionError
    assert told == [("outlives", False), ("stopped", "target")]
