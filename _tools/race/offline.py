"""A home for Rally in which the bare ``esrally race`` provisions the embedded Elasticsearch, without any network."""

import shlex
import shutil
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..elasticsearch import folders
from ..elasticsearch.install import JRE_MAJOR, install
from ..elasticsearch.nodes import COMMON_SETTINGS, HOST, Launcher
from . import rally
from .rally import Store, StoreOf

NODE_SETTINGS = {
    "cluster.name": "cluster_name",
    "node.name": "node_name",
    "path.data": "data_paths[0]",
    "path.logs": "log_path",
    "network.host": "network_host",
    "http.port": "http_port",
    "transport.port": "transport_port",
}
"""What Rally fills in for the one node that it provisions."""
PORT = 19200
"""HTTP; its transport has 100 more. Both lie out of the range that Linux gives to connections, unlike Rally's 39200."""
CAR = "[meta]\ndescription=The embedded Elasticsearch\n[config]\nbase=vanilla\n[variables]\nheap_size={heap}\n"
DISTRIBUTION = "elasticsearch-{version}.tar.gz"
VARIABLES = """\
[variables]
runtime.jdk={jdk}
runtime.jdk.bundled=false
jdk.unbundled.release_url=https://artifacts.elastic.co/downloads/elasticsearch/{distribution}
"""
"""The address is never asked: Rally takes its last part for the name of a distribution that it has."""

AS_NOBODY = shlex.split("setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs")
"""For root, as whom Elasticsearch does not run."""
NOT_OF_THE_TRACK = shutil.ignore_patterns(".*", "_work", "_venv", "_tools", "_report", "__pycache__", "tests", "docs")


def prepare(launcher: Launcher, version: str, heap: str, store: Store | StoreOf | None) -> str:
    """Makes a home for Rally, see :func:`make_home`.

    :return: the bare command with what it needs: that home, a JRE, a user that is not root, and a port.
    """
    home = make_home(launcher, version, heap, store)
    variables, command, track = _rally(launcher, home)
    variables |= {"RALLY_HOME": home, "TMPDIR": home / ".rally" / "tmp", "JAVA_HOME": launcher.java_home}
    variables |= rally.network()
    command = ["env", *(f"{k}={v}" for k, v in variables.items()), *command]
    command += ["race", f"--track-path={track}", "--challenge=query-decomp", f"--target-hosts={HOST}:{PORT}"]
    return shlex.join([*AS_NOBODY, *command] if launcher.run_as else command)


def make_home(launcher: Launcher, version: str, heap: str, store: Store | StoreOf | None) -> Path:
    """Makes the home, named ``offline``, in the launcher's folder.

    Of one that is there corpora and races are kept, which belong to Rally's user; all else is made anew.

    :param heap: of the node, as Java's ``-Xmx`` takes it.
    :param store: the metrics store; without one Rally keeps no samples.
    """
    home, run_as = launcher.root / "offline", launcher.run_as
    benchmarks, rally_home = home / "benchmarks", home / ".rally"
    with folders.own(home, run_as, given=True), folders.own(benchmarks, run_as) as own:
        for kept in ("data", "races"):
            folders.leaf(own, benchmarks / kept, run_as)
    distributions = benchmarks / "distributions"
    for stale in (rally_home, distributions):
        folders.remove(stale)
    installed = install(version, launcher.root, launcher.downloads)
    distributions.mkdir()
    archived = distributions / DISTRIBUTION.format(version=version)
    with tarfile.open(archived, "w:gz", compresslevel=1) as archive:
        archive.add(installed, arcname=installed.name)
    folders.open_to_all(distributions)
    rally_home.mkdir(mode=0o700)  # Rally removes and makes folders in it
    _write_team(rally_home / "team", installed / "config", heap)
    (rally_home / "tmp").mkdir()
    (rally_home / "benchmarks").symlink_to("../benchmarks")
    mechanic = {"distribution.version": version, "team.path": "${CONFIG_DIR}/team"}
    rally.write_configuration(store, rally_home / "rally.ini", mechanic)
    folders.give(rally_home, run_as)
    return home


def _rally(launcher: Launcher, home: Path) -> tuple[dict[str, Any], list[str], str]:
    """How Rally is run: further variables, command, and the track; copies of what the user nobody cannot read."""
    variables: dict[str, Any] = {}
    command, track = [str(rally.RALLY)], "."
    for stale in ("venv", "python", "track"):
        folders.remove(home / stale)
    if launcher.run_as and not folders.can_run([sys.executable, "-c", "import esrally.rally"], launcher.run_as):
        venv, python = home / "venv", Path(sys.executable).resolve()
        _copy(Path(sys.prefix), venv)
        if not folders.can_run([str(python), "-c", ""], launcher.run_as):
            base = Path(sys.base_prefix).resolve()
            _copy(base, home / "python", shutil.ignore_patterns("__pycache__", "test", "site-packages"))
            python = home / "python" / python.relative_to(base)
            variables["LD_LIBRARY_PATH"] = home / "python" / "lib"  # of a Python that is a shared library
        variables["PYTHONPATH"] = venv / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        command = [str(python), str(venv / rally.RALLY.relative_to(sys.prefix))]
    if launcher.run_as and not folders.can_read(rally.TRACK / "cluster_metrics", launcher.run_as):
        track = str(home / "track")
        _copy(rally.TRACK, home / "track", NOT_OF_THE_TRACK)
    return variables, command, track


def _copy(folder: Path, copy: Path, ignore: Callable | None = None) -> None:
    shutil.copytree(folder, copy, symlinks=True, ignore=ignore)
    folders.open_to_all(copy)


def _write_team(team: Path, config: Path, heap: str) -> None:
    """Writes the one car ``defaults``, made from the configuration that the distribution comes with."""
    (team / "plugins" / "v1").mkdir(parents=True)
    base = team / "cars" / "v1" / "vanilla"
    templates = base / "templates" / "config"
    (templates / "jvm.options.d").mkdir(parents=True)
    (team / "cars" / "v1" / "defaults.ini").write_text(CAR.format(heap=heap))
    variables = VARIABLES.format(jdk=JRE_MAJOR, distribution=DISTRIBUTION.format(version="{{VERSION}}"))
    (base / "config.ini").write_text(variables)
    for file in config.iterdir():
        if file.suffix in (".options", ".properties"):
            text = file.read_text().replace("=logs/", "={{log_path}}/").replace("=data", "={{heap_dump_path}}")
            (templates / file.name).write_text(_literally(text))
        elif file.is_file():
            shutil.copy(file, templates / file.name)
    settings = COMMON_SETTINGS | {"xpack.security.enabled": "false", "discovery.type": "single-node"}
    lines = [f"{k}: {v}\n" for k, v in settings.items()]
    lines += [f"{k}: {{{{ {v} | string | tojson }}}}\n" for k, v in NODE_SETTINGS.items()]
    (templates / "elasticsearch.yml").write_text("".join(lines))
    (templates / "jvm.options.d" / "heap.options").write_text("-Xms{{heap_size}}\n-Xmx{{heap_size}}\n")


def _literally(text: str) -> str:
    """A template of a text that has braces of its own: only Rally's two paths are filled in."""
    for variable in ("{{log_path}}", "{{heap_dump_path}}"):
        text = text.replace(variable, f"{{% endraw %}}{variable}{{% raw %}}")
    return f"{{% raw %}}{text}{{% endraw %}}"
