"""What a node is set to, told of one that ends at once."""

import json
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import requests

from _tools.elasticsearch import cpu, nodes, processes, security
from _tools.elasticsearch.nodes import HOST, NodeError, free_port
from _tools.elasticsearch.security import Security


@pytest.fixture
def launcher(monkeypatch):
    """A launcher of nodes that write no log and end; where the user nobody can enter, unlike pytest's own folder."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o755)
    launcher = nodes.Launcher(place / "_work", place / "downloads")
    home = launcher.root / "elasticsearch-8.0.0"
    for folder in ("config", "lib", "bin"):
        (home / folder).mkdir(parents=True)
    (home / "config" / "jvm.options").write_text("")
    (home / "bin" / "elasticsearch").write_text("#!/bin/sh\n")
    (home / "bin" / "elasticsearch").chmod(0o755)
    monkeypatch.setattr(nodes, "install", lambda *_: home)
    monkeypatch.setattr(cpu, "make_group", lambda name, cores: "")
    yield launcher
    shutil.rmtree(place)


@pytest.mark.parametrize("cores, processors", [(0, None), (0.4, 1), (1, 1), (1.5, 2), (2.2, 3)])
def test_a_node_that_gets_a_part_of_a_core_reckons_with_all_of_it(launcher, cores, processors):
    with pytest.raises(nodes.NodeError, match="node some-1 ended at start"):
        launcher.start("some", cores=cores)
    lines = (launcher.root / "some-1" / "config" / "elasticsearch.yml").read_text().splitlines()
    found = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}
    assert found.get("node.processors") == processors and found.get("node.attr.cpu_cores") == (cores or None)


def settings_of(launcher, node):
    """The lines of a node's ``elasticsearch.yml``, by key."""
    lines = (launcher.root / node / "config" / "elasticsearch.yml").read_text().splitlines()
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


def test_a_coordinator_is_one_node_more_without_data_and_without_a_share_of_the_cpu(launcher):
    with pytest.raises(nodes.NodeError, match="ended at start"):
        launcher.start("some", nodes=2, cores=0.4, coordinator=True)
    of = [settings_of(launcher, f"some-{number}") for number in (1, 2, 3)]
    assert [node.get("node.roles") for node in of] == [None, None, []]
    assert [node.get("node.processors") for node in of] == [1, 1, None]
    assert [node.get("node.attr.cpu_held_by") for node in of] == ["nothing", "nothing", None]
    assert len({node["http.port"] for node in of} | {node["transport.port"] for node in of}) == 6
    for node in of:
        assert node["cluster.initial_master_nodes"] == ["some-1", "some-2"] and "discovery.type" not in node
        assert node["discovery.seed_hosts"] == [f"127.0.0.1:{other['transport.port']}" for other in of]


def test_each_node_with_data_is_held_to_its_share_once_all_are_ready(launcher, monkeypatch):
    done, families = [], []

    def ready(cluster, spawned):
        while len(families) < 3:  # each is a process that starts another, as the launcher of a node does
            families[:] = [of for node in spawned if len(of := nodes._family(psutil.Process(node.pid))) == 2]
        done.append(len(spawned))

    monkeypatch.setattr(launcher, "_wait_until_ready", ready)
    monkeypatch.setattr(cpu, "hold", lambda name, pids: done.append((name, pids)))
    (launcher.root / "elasticsearch-8.0.0" / "bin" / "elasticsearch").write_text(
        "#!/bin/sh\nsleep 60 &\nwait\n"  # it ends without ending the other
    )
    monkeypatch.setattr(nodes, "STOP_SECONDS", 0.2)
    cluster = launcher.start("some", nodes=2, cores=0.4, coordinator=True, variables={"NODES": "2"})
    assert launcher.running("some").hosts == cluster.hosts == [f"127.0.0.1:{cluster.http_ports[2]}"]
    assert launcher.running("some").variables == {"NODES": "2"}
    launcher.stop("some")
    assert not processes.running([process for family in families for process in family])
    pids = [[process.pid for process in family] for family in families]
    assert [family[0] for family in pids] == [pid for pid, _ in cluster.pids]
    assert done == [3, *((f"some-{cluster.http_ports[i]}", pids[i]) for i in (0, 1))]


def test_one_node_looks_for_no_other(launcher):
    with pytest.raises(nodes.NodeError, match="ended at start"):
        launcher.start("some")
    found = settings_of(launcher, "some-1")
    assert found["discovery.type"] == "single-node" and "discovery.seed_hosts" not in found
    assert found["network.host"] == "127.0.0.1" and found["xpack.security.enabled"] == "false"
    assert found["path.logs"] == str(launcher.root / "some-1" / "logs") and found["cluster.name"] == "some"


def test_a_cluster_that_runs_is_stopped_before_another_of_its_name_is_started(launcher):
    with subprocess.Popen(["sleep", "60"]) as earlier:
        launcher.keep(nodes.Cluster("some", "8.17.2", [9200]), earlier)
        with pytest.raises(nodes.NodeError, match="ended at start"):
            launcher.start("some")
        assert earlier.wait(5) == -signal.SIGTERM
    launcher.state_file("some").write_text('{"name": ')  # of one that was killed meanwhile
    assert launcher.running("some") is None and not launcher.stop("some")


def test_where_a_node_ends_at_start_the_others_get_their_time_to_end_and_nothing_is_left(launcher, monkeypatch):
    made, removed, started, asked, given = [], [], [], [], []
    keep, write = launcher.keep, security.write_private
    monkeypatch.setattr(cpu, "make_group", lambda name, cores: made.append((name, cores)))
    monkeypatch.setattr(cpu, "remove_group", removed.append)
    monkeypatch.setattr(launcher, "keep", lambda cluster, process: started.append(process) or keep(cluster, process))
    (certificate := launcher.root / "some.pem").touch()
    secure = Security(b"the keystore", certificate, "a password", "of the keystore")
    monkeypatch.setattr(security, "create", lambda folder, name, host: asked.append((folder, name, host)) or secure)
    (launcher.root / "elasticsearch-8.0.0" / "bin" / "elasticsearch").write_text(
        "#!/bin/sh\ncase $PWD in *-1) while [ ! -e ../some-2/tmp/ready ]; do sleep 0.02; done; exit;; esac\n"
        "sleep 60 &\ntrap 'sleep 0.2; kill $!; exit 7' TERM\ntouch tmp/ready\nwait\n"
    )
    options = launcher.root / "some.client-options.json"
    monkeypatch.setattr(security, "write_private", lambda path, of: given.append((path, of)) or write(path, of))
    with pytest.raises(nodes.NodeError, match="node some-1 ended at start"):
        launcher.start("some", nodes=2, cores=0.4, secured=True)
    assert [process.wait(5) for process in started] == [0, 7]
    ports = [settings_of(launcher, f"some-{number}")["http.port"] for number in (1, 2)]
    assert made == [(f"some-{port}", 0.4) for port in ports] and removed == [name for name, _ in made]
    assert asked == [(launcher.root, "some", "127.0.0.1")] and given[0] == (options, secure.client_options())
    assert not options.exists() and not launcher.state_file("some").exists()
    for number in (1, 2):
        assert secure.settings().items() <= settings_of(launcher, f"some-{number}").items()
        assert (launcher.root / f"some-{number}" / "config" / "http.p12").read_bytes() == b"the keystore"


@pytest.mark.parametrize("outlive", [False, True])
def test_a_node_is_started_as_it_is_asked_for_and_with_no_more_of_our_environment(launcher, monkeypatch, outlive):
    def popen(command, **options):
        spawned.append(options)
        return run(command, **options)

    spawned, run, node = [], subprocess.Popen, launcher.root / "some-1"
    settings = {"action.auto_create_index": "false", "thread_pool.estimated_time_interval": "200ms"}  # not as of all
    monkeypatch.setattr(nodes.subprocess, "Popen", popen)
    monkeypatch.setenv("ES_JAVA_OPTS", "-Xmx7g")
    monkeypatch.setenv("PASSWORD", "of ours")
    home = launcher.root / "elasticsearch-8.0.0"
    (home / "bin" / "elasticsearch").write_text("#!/bin/sh\nenv\n")
    (home / "lib").chmod(0o700)
    with pytest.raises(nodes.NodeError, match="ended at start"):
        launcher.start("some", heap="3g", outlive=outlive, settings=settings)
    found = dict(line.split("=", 1) for line in (node / "stdout.log").read_text().splitlines())
    assert found.items() >= {"ES_JAVA_OPTS": "-Xms3g -Xmx3g", "ES_JAVA_HOME": str(launcher.java_home)}.items()
    assert (found["ES_PATH_CONF"], found["ES_TMPDIR"]) == (f"{node}/config", f"{node}/tmp")
    assert (found["HOME"], found["LC_ALL"]) == (str(node), "C.UTF-8") and "PASSWORD" not in found
    assert settings_of(launcher, "some-1").items() >= settings.items()
    *_, options = spawned
    assert options["preexec_fn"] is (None if outlive else nodes.end_with_parent) and options["start_new_session"]
    assert not launcher.run_as or stat.S_IMODE((home / "lib").stat().st_mode) == 0o755


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_a_child_is_asked_to_end_when_its_parent_is_gone():
    code = "import ctypes; of = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(of)); print(of.value)"
    child = subprocess.run([sys.executable, "-c", code], preexec_fn=nodes.end_with_parent, capture_output=True)
    assert child.stdout == b"15\n"


def test_further_nodes_have_the_ports_that_follow_and_are_fixed_as_the_first_is(launcher, monkeypatch):
    asked = []
    monkeypatch.setattr(nodes, "free_port", lambda wanted, fixed=False: asked.append((wanted, fixed)) or wanted)
    with pytest.raises(nodes.NodeError, match="ended at start"):
        launcher.start("some", nodes=2, port=9300, port_is_fixed=True)
    assert asked == [(9300, True), (9301, True), (9400, False), (9401, False)]
    of = [settings_of(launcher, f"some-{number}") for number in (1, 2)]
    assert [(node["http.port"], node["transport.port"]) for node in of] == [(9300, 9400), (9301, 9401)]


def test_a_jre_that_nobody_can_read_is_copied_once(launcher, monkeypatch, tmp_path):
    (jre := tmp_path / "jre" / "bin").mkdir(parents=True)
    (jre / "java").touch(0o700)
    (jre / "link").symlink_to("java")
    monkeypatch.setattr(nodes, "JRE_HOME", jre.parent)
    monkeypatch.setattr(launcher, "run_as", {"user": 1, "group": 1})
    monkeypatch.setattr(nodes.folders, "can_read", lambda path, run_as: path != jre.parent / "lib" / "server")
    copied = [launcher._java_home()]
    (copied[0] / "mark").touch()
    copied.append(launcher._java_home())
    assert copied[0] == copied[1] != jre.parent and (copied[1] / "mark").exists()
    assert copied[0].parent == launcher.root and (copied[0] / "bin" / "link").is_symlink()
    assert stat.S_IMODE((copied[0] / "bin" / "java").stat().st_mode) == 0o755
    monkeypatch.setattr(nodes.folders, "can_read", lambda path, run_as: True)
    assert launcher._java_home() == jre.parent


def test_a_node_that_ends_at_start_is_told_by_the_end_of_its_log_less_stack_traces(launcher):
    log = "".join(f"line {i}\n" for i in range(20)) + "why it ended\n" + "\tat some.Class\n" * 20
    elasticsearch = launcher.root / "elasticsearch-8.0.0" / "bin" / "elasticsearch"
    elasticsearch.write_text(f"#!/bin/sh\ncat << 'END'\n{log}END\n")
    with pytest.raises(nodes.NodeError) as raised:
        launcher.start("some")
    told = str(raised.value).splitlines()
    assert told == ["node some-1 ended at start, the end of its log:", *log.splitlines()[6:21]]


@pytest.mark.parametrize("name, kept", [("my data", str), ("a,b", list)])
def test_a_folder_of_data_is_one_folder_whatever_its_name(launcher, name, kept):
    data = launcher.root / name
    with pytest.raises(nodes.NodeError, match="ended at start"):
        launcher.start("some", data=data)
    found, expected = settings_of(launcher, "some-1")["path.data"], str(data / "some-1")
    assert found == (expected if kept is str else [expected]) and (data / "some-1").is_dir()


def test_a_process_that_was_given_the_number_of_a_node_that_ended_is_left_alone(launcher):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        started = processes.started(other.pid)
        for of, found in ((started, 1), (started - 1, 0), (None, 0)):
            assert len(nodes.Cluster("some", "8.17.2", [9200], [(other.pid, of)]).processes()) == found
    finally:
        other.kill()
        other.wait()


def test_a_cluster_is_ready_once_all_its_nodes_are_in_it_and_are_its_own(launcher, monkeypatch):
    def answer(**of):
        return SimpleNamespace(ok=True, json=lambda: of)

    def node(logs):
        return answer(nodes={"x": {"settings": {"path": {"logs": str(logs)}}}})

    own, other = node(launcher.root / "some-1"), node("/elsewhere")
    late, ready = answer(timed_out=True), answer(timed_out=False)
    refused = SimpleNamespace(ok=False, json=ready.json)
    answers, asked = [requests.ConnectionError(), refused, late, ready, other, late, ready, own, "none is left"], []

    def get(url, timeout):
        asked.append(url)
        if isinstance(found := answers.pop(0), Exception):
            raise found
        return found

    session = SimpleNamespace(get=get)
    monkeypatch.setattr(nodes.Cluster, "session", lambda cluster: session)
    monkeypatch.setattr(nodes.time, "sleep", lambda seconds: None)
    runs = SimpleNamespace(poll=lambda: None)
    launcher._wait_until_ready(nodes.Cluster("some", "8.17.2", [9200, 9201]), [runs, runs])
    assert answers == ["none is left"]
    assert asked[0] == "http://127.0.0.1:9200/_cluster/health?wait_for_nodes=2&wait_for_status=yellow&timeout=5s"


def test_a_cluster_that_is_not_ready_in_time_is_told_by_the_log_of_its_first_node(launcher, monkeypatch):
    (launcher.root / "some-1").mkdir()
    (launcher.root / "some-1" / "stdout.log").write_text("still at it\n")
    late = SimpleNamespace(ok=True, json=lambda: {"timed_out": True})
    monkeypatch.setattr(nodes.Cluster, "session", lambda cluster: SimpleNamespace(get=lambda url, timeout: late))
    times = iter(range(0, 400, 10))
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda seconds: None))
    with pytest.raises(nodes.NodeError, match="^cluster some was not ready after 180 s, .*:\nstill at it$"):
        launcher._wait_until_ready(nodes.Cluster("some", "8.17.2", [9200]), [SimpleNamespace(poll=lambda: None)])
    assert next(times) == 190


def test_requests_go_to_the_coordinator_alone_where_there_is_one():
    ports = [9200, 9201, 9202]
    even, led = nodes.Cluster("x", "8.17.2", ports), nodes.Cluster("x", "8.17.2", ports, coordinator=True)
    assert even.hosts == ["127.0.0.1:9200", "127.0.0.1:9201", "127.0.0.1:9202"]
    assert even.url == "http://127.0.0.1:9200"
    assert led.hosts == ["127.0.0.1:9202"] and led.url == "http://127.0.0.1:9202"


def test_a_session_trusts_the_clusters_own_certificate_and_brings_its_user(tmp_path):
    file = tmp_path / "x.client-options.json"
    file.write_bytes(Security(b"", tmp_path / "x.pem", "secret", "of-the-keystore").client_options())
    secured = nodes.Cluster("x", "8.17.2", [9200], client_options_file=str(file))
    session = secured.session()
    assert secured.url == "https://127.0.0.1:9200"
    assert (session.verify, session.auth) == (str(tmp_path / "x.pem"), ("rally", "secret"))
    free = nodes.Cluster("x", "8.17.2", [9200])
    assert free.session().auth is None and free.client_options == {}
    assert session.trust_env is free.session().trust_env is False, "no proxy of the environment stands between"


def test_a_cluster_is_up_while_all_its_nodes_are(launcher):
    sleeping = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    try:
        cluster = nodes.Cluster("some", "8.17.2", [9200, 9201])
        launcher.keep(cluster, sleeping[0])
        assert launcher.running("some") is None, "whoever starts it was killed before the other node"
        launcher.keep(cluster, sleeping[1])
        assert launcher.running("some").http_ports == [9200, 9201]
        sleeping[1].kill()
        sleeping[1].wait()
        assert launcher.running("some") is None
        assert launcher.stop("some") and sleeping[0].wait(10) == -signal.SIGTERM
        assert not launcher.stop("some")
    finally:
        for process in sleeping:
            process.kill()
            process.wait()


def test_a_port_that_is_taken_is_replaced_unless_it_was_asked_for():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port
        with pytest.raises(NodeError, match=f"^port {port} is in use$"):
            free_port(port, fixed=True)
    assert free_port(port) == free_port(port, fixed=True) == port
    assert 0 < free_port(2**16) < 2**16
