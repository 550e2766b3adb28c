"""A home for Rally in which the bare ``esrally race`` provisions the embedded Elasticsearch, without any network."""

import shlex
import shutil
import tarfile
from pathlib import Path

from ..elasticsearch.install import JRE_MAJOR, install
from ..elasticsearch.nodes import COMMON_SETTINGS, HOST, Launcher, give_to
from . import rally
from .rally import Store, StoreOf

NODE_SETTINGS = {
    "cluster.name": "{{cluster_name}}",
    "node.name": "{{node_name}}",
    "path.data": "{{data_paths[0]}}",
    "path.logs": "{{log_path}}",
    "network.host": "{{network_host}}",
    "http.port": "{{http_port}}",
    "transport.port": "{{transport_port}}",
    "discovery.type": "single-node",
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

AS_NOBODY = shlex.split(
    "setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
)
"""For root, as whom Elasticsearch does not run: nobody, who may read what root may, such as a Python below /root."""


def prepare(launcher: Launcher, version: str, heap: str, store: Store | StoreOf | None) -> str:
    """Makes the home, named ``offline``, in the launcher's folder; one that is there is replaced, but for its corpora.

    :param heap: of the node, as Java's ``-Xmx`` takes it.
    :param store: the metrics store; without one Rally keeps no samples.
    :return: the bare command with what it needs: Rally's home, a JRE, a user that is not root, and a port.
    """
    home = launcher.root / "offline"
    rally_home = home / ".rally"
    shutil.rmtree(team := rally_home / "team", ignore_errors=True)
    installed = install(version, launcher.root, launcher.downloads)
    _write_team(team, installed / "config", heap)
    distributions = rally_home / "benchmarks" / "distributions"
    distributions.mkdir(parents=True, exist_ok=True)
    with tarfile.open(distributions / DISTRIBUTION.format(version=version), "w:gz", compresslevel=1) as archive:
        archive.add(installed, arcname=installed.name)
    mechanic = {"distribution.version": version, "team.path": "${CONFIG_DIR}/team"}
    rally.write_configuration(store, rally_home / "rally.ini", mechanic)
    if launcher.run_as:
        give_to(home, launcher.run_as)
    variables = {"RALLY_HOME": home, "JAVA_HOME": launcher.java_home, **rally.network()}
    command = ["env", *(f"{k}={v}" for k, v in variables.items()), str(rally.RALLY)]
    command += ["race", "--track-path=.", "--challenge=query-decomp", f"--target-hosts={HOST}:{PORT}"]
    return shlex.join([*AS_NOBODY, *command] if launcher.run_as else command)


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
    settings = COMMON_SETTINGS | {"xpack.security.enabled": "false"} | NODE_SETTINGS
    (templates / "elasticsearch.yml").write_text("".join(f"{k}: {v}\n" for k, v in settings.items()))
    (templates / "jvm.options.d" / "heap.options").write_text("-Xms{{heap_size}}\n-Xmx{{heap_size}}\n")


def _literally(text: str) -> str:
    """A template of a text that has braces of its own: only Rally's two paths are filled in."""
    for variable in ("{{log_path}}", "{{heap_dump_path}}"):
        text = text.replace(variable, f"{{% endraw %}}{variable}{{% raw %}}")
    return f"{{% raw %}}{text}{{% endraw %}}"
