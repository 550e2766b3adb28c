import hashlib
import http.server
import re
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from maven_artifact.downloader import Downloader

from _tools.elasticsearch import install as installing
from _tools.elasticsearch.install import (
    ECJ,
    ESQL_MODULES,
    PLUGINS,
    InstallError,
    esql_versions,
    fetch,
    known_checksums,
)
from _tools.race.variables import VARIABLES

CONTENT = b"not what was pinned"
FREE = "org.example:not-pinned:1.0"
SHA1 = hashlib.sha1(CONTENT).hexdigest()


@pytest.fixture
def registry():
    """A registry on loopback that answers every path with the same few bytes, unless ``answers`` has its ending."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            endings = [ending for ending in answers if self.path.endswith(ending)]
            status, content = answers[endings[0]] if endings else (200, CONTENT)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    asked, answers = [], {".sha1": (200, SHA1.encode())}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    downloader = Downloader(base=f"http://127.0.0.1:{server.server_port}")
    downloader.asked, downloader.answers = asked, answers
    yield downloader
    server.shutdown()


@pytest.mark.parametrize("coordinates", [ECJ, FREE])
def test_a_checksum_that_differs_keeps_nothing(tmp_path, registry, coordinates):
    registry.answers[".sha1"] = (200, b"0" * 40)
    with pytest.raises(InstallError, match="does not have the expected checksum"):
        fetch(coordinates, tmp_path, registry)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "answers, said",
    [
        ({}, "is not pinned, has the registry's sha1; kept for later: sha256 "),
        (
            {".sha1": (200, f"{SHA1}  not-pinned-1.0.jar\n".encode())},
            "is not pinned, has the registry's sha1; kept for ",
        ),
        ({".sha1": (404, b"")}, "is not pinned, the registry has no checksum of it; kept for later: sha256 "),
    ],
)
def test_an_artefact_that_is_not_pinned_is_held_against_its_first_download(tmp_path, registry, capsys, answers, said):
    registry.answers.update(answers)
    path = fetch(FREE, tmp_path, registry)
    assert path.read_bytes() == CONTENT and said in capsys.readouterr().out
    before = len(registry.asked)
    assert fetch(FREE, tmp_path, registry) == path and len(registry.asked) == before
    path.write_bytes(b"damaged later")
    assert fetch(FREE, tmp_path, registry).read_bytes() == CONTENT
    path.write_bytes(b"damaged later")
    registry.answers[".jar"] = (200, b"another, under the same name")
    with pytest.raises(InstallError, match="does not have the expected checksum"):
        fetch(FREE, tmp_path, registry)
    assert not path.exists()


def test_what_a_version_before_fetched_is_the_first_download(tmp_path, registry):
    path = tmp_path / FREE.replace(":", "_")
    path.write_bytes(b"from before")
    assert fetch(FREE, tmp_path, registry) == path and not registry.asked
    path.write_bytes(b"damaged later")
    with pytest.raises(InstallError, match="does not have the expected checksum"):
        fetch(FREE, tmp_path, registry)


def test_a_registry_that_falls_silent_is_waited_for_a_minute(tmp_path, registry, monkeypatch):
    waits, request = [], registry.requestor.request

    def noted(*args, timeout=None, **options):
        waits.append(timeout)
        return request(*args, timeout=timeout, **options)

    monkeypatch.setattr(registry.requestor, "request", noted)
    fetch(FREE, tmp_path, registry)
    assert waits == [60, 60]


def test_folders_that_are_not_there_yet_are_made(tmp_path, registry):
    assert fetch(FREE, tmp_path / "work" / "downloads", registry).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "answers, message",
    [
        ({".jar": (404, b"")}, rf"^the Java registry has no {FREE}$"),
        ({".jar": (403, b"")}, r"^the Java registry answers 403 Forbidden for http\S+\.jar$"),
        ({".sha1": (503, b"")}, r"^the Java registry answers 503 Service Unavailable for http\S+\.jar\.sha1$"),
    ],
)
def test_what_the_registry_answers_is_said(tmp_path, registry, answers, message):
    registry.answers.update(answers)
    with pytest.raises(InstallError, match=message):
        fetch(FREE, tmp_path, registry)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_registry_out_of_reach(tmp_path):
    with pytest.raises(InstallError, match=r"the Java registry is out of reach \(ConnectionError\)$"):
        fetch(ECJ, tmp_path, Downloader(base="http://127.0.0.1:9"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_disk_that_is_full(tmp_path, registry):
    (tmp_path / f"{FREE.replace(':', '_')}.part").symlink_to("/dev/full")
    with pytest.raises(InstallError, match=rf"^cannot write {FREE} to \[{tmp_path}\]: No space left on device$"):
        fetch(FREE, tmp_path, registry)


def test_a_download_that_was_damaged_later_is_fetched_again(tmp_path, registry):
    path = tmp_path / ECJ.replace(":", "_")
    path.write_bytes(b"damaged")
    with pytest.raises(InstallError, match="checksum"):
        fetch(ECJ, tmp_path, registry)
    assert not path.exists()


def test_what_is_pinned_counts_more_than_what_was_kept_of_a_first_download(tmp_path, registry):
    path = tmp_path / ECJ.replace(":", "_")
    path.write_bytes(CONTENT)
    path.with_name(f"{path.name}.sha256").write_text(hashlib.sha256(CONTENT).hexdigest())
    with pytest.raises(InstallError, match="does not have the expected checksum"):
        fetch(ECJ, tmp_path, registry)
    assert not path.exists()


def test_many_at_once_fetch_once_whatever_a_killed_one_left(tmp_path, registry):
    (tmp_path / f"{FREE.replace(':', '_')}.part").write_bytes(b"half of i")
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: fetch(FREE, tmp_path, registry), range(8)))
    assert found == {tmp_path / FREE.replace(":", "_")} and len(registry.asked) == 2  # it and its checksum
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".0", ".sha256"}


def test_versions_that_make_names_as_pinned_are():
    text = VARIABLES["ES_VERSION"].text
    named = re.search(r"; (.*?) are pinned", text)[1].replace(" and ", ", ").split(", ")
    assert named == [c.rsplit(":", 1)[1] for c in known_checksums() if ":elasticsearch:zip:" in c]


def test_the_jars_of_esql_are_pinned_for_the_versions_that_have_it():
    jars = [jar for _, _, of_module in ESQL_MODULES.values() for jar in of_module]
    versions = esql_versions()
    assert versions == ["8.16.0", "8.19.4"]
    assert {jar.format(version=v) for jar in jars for v in versions} <= set(known_checksums())


@pytest.mark.parametrize("version, modules", [("8.17.2", [*PLUGINS]), ("8.19.4", [*PLUGINS, *ESQL_MODULES])])
def test_an_installation_that_lacks_a_module_is_made_anew_and_a_whole_one_is_left(
    tmp_path, monkeypatch, version, modules
):
    made, home = [], tmp_path / f"elasticsearch-{version}"

    def unpack(version, folder, downloads):
        made.append(version)
        for module in modules:
            (folder / home.name / "modules" / module).mkdir(parents=True)

    monkeypatch.setattr(installing, "_unpack", unpack)
    (tmp_path / f"{home.name}.part" / home.name / "modules" / "of-a-killed-one").mkdir(parents=True)
    assert installing.install(version, tmp_path, tmp_path) == home
    assert sorted(path.name for path in (home / "modules").iterdir()) == sorted(modules)
    (home / "config").mkdir()
    installing.install(version, tmp_path, tmp_path)
    assert made == [version] and (home / "config").is_dir()
    for number, module in enumerate(modules, 2):
        (home / "modules" / module).rmdir()
        installing.install(version, tmp_path, tmp_path)
        assert made == [version] * number
        assert sorted(path.name for path in (home / "modules").iterdir()) == sorted(modules)
    assert not list(tmp_path.glob("*.part"))


def test_a_version_without_esql_says_so_and_fetches_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(installing, "fetch", lambda *_: pytest.fail("it has no jars that are pinned"))
    installing._add_esql(tmp_path, "8.17.2", tmp_path)
    assert capsys.readouterr().out.startswith("Elasticsearch 8.17.2 stays without ES|QL: no org.elasticsearch.plugin")


def described(module):
    return dict(line.split("=", 1) for line in (module / "plugin-descriptor.properties").read_text().splitlines())


def test_a_module_describes_itself_and_what_it_extends(tmp_path):
    (tmp_path / "modules").mkdir()
    module = installing._add_module(
        tmp_path, "8.19.4", "of-ours", "what it does", "of.Ours", "extended.plugins=other\n"
    )
    assert described(module) == {
        "name": "of-ours",
        "description": "what it does",
        "version": "8.19.4",
        "elasticsearch.version": "8.19.4",
        "java.version": "17",
        "classname": "of.Ours",
        "extended.plugins": "other",
    }


def test_an_installation_that_fails_leaves_that_of_before(tmp_path, monkeypatch):
    def fails(version, folder, downloads):
        folder.mkdir()
        raise InstallError("the Java registry is out of reach")

    monkeypatch.setattr(installing, "_unpack", fails)
    before = tmp_path / "elasticsearch-8.17.2" / "config"
    before.mkdir(parents=True)
    with pytest.raises(InstallError):
        installing.install("8.17.2", tmp_path, tmp_path)
    assert before.is_dir() and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    "processing, options",
    [
        ((), ["-proc:none"]),
        (
            ("of.Processor", [Path("p.jar")]),
            ["-processorpath", "p.jar", "-processor", "of.Processor", "-s", "out"],
        ),
    ],
)
def test_sources_are_compiled_against_their_jars_with_or_without_a_processor(monkeypatch, processing, options):
    commands = []
    done = SimpleNamespace(returncode=0)
    monkeypatch.setattr(installing.subprocess, "run", lambda command, **_: commands.append(command) or done)
    installing.compile_java([Path("A.java")], [Path("a.jar"), Path("b.jar")], Path("out"), Path("ecj"), *processing)
    [command] = commands
    assert command[1:3] == ["-jar", "ecj"] and command[-1] == "A.java"
    at = command.index("-cp")
    assert command[at - 2 : at + 2] == ["-d", "out", "-cp", "a.jar:b.jar"]
    assert command[at + 2 : at + 2 + len(options)] == options


def test_what_does_not_compile_is_told_by_the_compiler(tmp_path, monkeypatch):
    failed = SimpleNamespace(returncode=1, stderr="A.java: no such class")
    monkeypatch.setattr(installing.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InstallError, match="^A.java: no such class$"):
        installing.compile_java([Path("A.java")], [], tmp_path, Path("ecj"))
    (tmp_path / "modules").mkdir()
    with pytest.raises(
        InstallError, match="^our RootInfoPlugin does not compile against Elasticsearch 8.17.2:\nA.java"
    ):
        installing._compile_plugin("RootInfoPlugin", tmp_path, "8.17.2", Path("ecj"))


def test_an_elasticsearch_is_unpacked_with_our_plugins_and_the_jars_of_esql(tmp_path, monkeypatch):
    home, kept, fetched, compiled = tmp_path / "elasticsearch-8.19.4", "8-:-Xlog:gc\n", [], []
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for name, text in (
            ("bin/elasticsearch", "#!/bin/sh\n"),
            ("config/jvm.options", f"20-:--add-modules=jdk.incubator.vector\n{kept}"),
            ("lib/b.jar", ""),
            ("lib/a.jar", ""),
            ("modules/README", ""),
        ):
            archive.writestr(f"{home.name}/{name}", text)

    def fetch(coordinates, downloads):
        fetched.append(coordinates)
        (jar := tmp_path / coordinates.replace(":", "_")).write_text(coordinates)
        return tmp_path / "archive.zip" if ":zip:" in coordinates else jar

    def compile_java(sources, jars, classes, ecj):
        compiled.append(([s.name for s in sources], [jar.name for jar in jars], ecj.name))
        (classes / "clustermetrics").mkdir()
        (classes / "clustermetrics" / "Of.class").write_text(sources[0].name)

    monkeypatch.setattr(installing, "fetch", fetch)
    monkeypatch.setattr(installing, "compile_java", compile_java)
    installing._unpack("8.19.4", tmp_path, tmp_path)
    jars = {name: [jar.format(version="8.19.4") for jar in jars] for name, (_, _, jars) in ESQL_MODULES.items()}
    distribution = "org.elasticsearch.distribution.integ-test-zip:elasticsearch:zip:8.19.4"
    assert fetched == [distribution, ECJ, *(jar for of in jars.values() for jar in of)]
    assert (home / "bin" / "elasticsearch").stat().st_mode & 0o777 == 0o755
    assert (home / "config" / "jvm.options").read_text() == kept
    assert compiled == [([f"{name}.java"], ["a.jar", "b.jar"], ECJ.replace(":", "_")) for name in PLUGINS]
    for name in PLUGINS:
        assert described(home / "modules" / name)["classname"] == f"clustermetrics.{name}"
        with zipfile.ZipFile(home / "modules" / name / f"{name}.jar") as jar:
            assert {file: jar.read(file) for file in jar.namelist()} == {
                "clustermetrics/Of.class": f"{name}.java".encode()
            }
    for name, (class_name, extended, _) in ESQL_MODULES.items():
        told = described(home / "modules" / name)
        assert (told["classname"], told["extended.plugins"], told["version"]) == (class_name, extended, "8.19.4")
        assert {jar.read_text() for jar in (home / "modules" / name).glob("*.jar")} == set(jars[name])
