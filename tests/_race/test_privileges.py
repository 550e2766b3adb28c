"""The roles of docs/your-cluster.md on nodes with passwords: each is enough, and each privilege of it is needed.

Schedules run without Rally's processes, see :mod:`schedules`; of each family one challenge is raced by make, too.
"""

import asyncio
import json
import re
import shutil
from functools import cache
from urllib.parse import urlsplit

import pytest
import schedules
from conftest import DOWNLOADS, ROOT, make
from esrally import exceptions
from esrally.client import EsClientFactory

from _tools.elasticsearch.nodes import Launcher
from _tools.sketch_server import launch as sketch_server
from cluster_metrics.core.challenge import ROLES, challenges, rooms

pytestmark = pytest.mark.long
WORK = ROOT / "_work" / "test-privileges"
CLUSTER = "the cluster's monitor"
SMALL = {
    "nodes": 2,
    "tasks": 2,
    "rows_per_epoch": 200,
    "epochs": 1,
    "bulk_size": 100,
    "rounds": 1,
    "ingest_rounds": 1,
    "esql_rounds": 1,
    "passes": 1,
    "warmup_iterations": 0,
    "variants": ["D_td"],
    "configurations": ["production", "msearch", "shards-2", "rollup", "cached"],
    "shares_permille": [1000, 100],
    "bulk_sizes": [100],
    "weblog_documents": 1000,
    "client_counts": [1],
    "word_documents": 1000,
    "capacity_shards": [1, 2],
    "capacity_replicas": [0],
    "capacity_clients": 1,
    "cell_seconds": 1,
    "cell_warmup_seconds": 0,
    "mixed_docs_per_second": [50],
    "curve_per_second": [50],
}
RACED = [records[0].name for records in rooms().values()]
"""Of each family one challenge."""
ROLE_OF: dict = {(name, None): record.role for name, record in challenges().items()}
ROLE_OF |= {(name, "query"): record.asks_as for name, record in challenges().items() if record.asks_as}
"""Roles by challenge and tag of the tasks that are raced, None for all."""


class Secured:
    """Nodes with passwords, and users of them."""

    def __init__(self, folder):
        self._folder = folder
        self.launcher = Launcher(WORK, DOWNLOADS)
        self._loaded = None

    @cache  # noqa: B019 it lives as long as the module
    def cluster(self, challenge):
        version = {"version": "8.19.4"} if challenges()[challenge].needs.esql else {}
        return self._started(**version)

    @cache  # noqa: B019
    def _started(self, **version):
        return self.launcher.start("-".join(["secured", *version]), heap="512m", port=0, secured=True, **version)

    @cache  # noqa: B019
    def parameters(self, challenge):
        if not challenges()[challenge].needs.sketch_server:
            return SMALL
        server = self.launcher.running(sketch_server.NAME) or sketch_server.start(self.launcher)
        return SMALL | {"sketch_server": server.hosts[0]}

    def options(self, challenge, role, lacking=None):
        """Client options of a user with all privileges of a role but one; without a role, of the superuser."""
        cluster = self.cluster(challenge)
        if not role:
            return cluster.client_options
        page = (ROOT / "docs" / "your-cluster.md").read_text()
        body = json.loads(re.search(rf"PUT /_security/role/{role}\n +(\{{.*\}})\n", page).group(1))
        if lacking == CLUSTER:
            body["cluster"] = []
        for on in body["indices"]:
            on["privileges"] = [privilege for privilege in on["privileges"] if privilege != lacking]
        name = f"{role}-without-{lacking}".replace(" ", "-").replace("'", "")
        user = {"password": "pass-word", "roles": [name]}
        for path, content in ((f"role/{name}", body), (f"user/{name}", user)):
            answer = cluster.session().put(f"{cluster.url}/_security/{path}", json=content, timeout=60)
            answer.raise_for_status()
        return cluster.client_options | {"basic_auth_user": name, "basic_auth_password": "pass-word"}

    def run(self, challenge, options, tag=None):
        """Runs the tasks of a challenge with this tag, or all; returns what Rally records of them. For those that only
        ask, the superuser has loaded the indices."""
        if tag == "query" and self._loaded != challenge:
            self.run(challenge, self.options(challenge, ""), "setup")
        self._loaded = challenge if tag else None
        url = urlsplit(self.cluster(challenge).url)
        folder = self._folder / challenge
        track, tasks = schedules.read(folder, challenge, **self.parameters(challenge))

        async def call():
            es = EsClientFactory([{"host": url.hostname, "port": url.port}], dict(options)).create_async(client_id=0)
            try:
                return [each for t in tasks if not tag or tag in t.tags for each in await schedules.run(es, track, t)]
            finally:
                await es.close()

        return asyncio.run(call())


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    shutil.rmtree(WORK, ignore_errors=True)
    secured = Secured(tmp_path_factory.mktemp("corpora"))
    yield secured
    for state in WORK.glob("elasticsearch/*.state.json"):
        secured.launcher.stop(state.name.removesuffix(".state.json"))
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.mark.parametrize("challenge, tag", ROLE_OF)
def test_a_role_is_enough(secured, challenge, tag):
    recorded = secured.run(challenge, secured.options(challenge, ROLE_OF[challenge, tag]), tag)
    assert recorded
    for _, _, meta in recorded:
        assert meta["success"], meta


@pytest.mark.parametrize(
    "challenge, tag, lacking",
    [(*key, lacking) for key, role in ROLE_OF.items() for lacking in (CLUSTER, *ROLES[role])],
)
def test_a_race_without_one_of_its_privileges_ends_with_a_line_that_names_it(secured, challenge, tag, lacking):
    if not tag and challenges()[challenge].leaves and lacking == "delete_index":
        secured.run(challenge, secured.options(challenge, ""), "setup")  # makes what is to be deleted
    options = secured.options(challenge, ROLE_OF[challenge, tag], lacking)
    name = lacking.rpartition(" ")[2]
    kind = "cluster" if lacking == CLUSTER else "index"
    with pytest.raises(exceptions.RallyError, match=rf"granted by the {kind} privileges \[([\w,]+,)?{name}[,\]]") as e:
        secured.run(challenge, options, tag)
    assert str(e.value.message).isprintable()


@pytest.mark.parametrize("challenge", RACED)
def test_a_user_with_the_role_races(secured, challenge, tmp_path):
    params, file = tmp_path / "params.json", tmp_path / "options.json"
    params.write_text(json.dumps(secured.parameters(challenge)))
    file.write_text(json.dumps({"default": secured.options(challenge, challenges()[challenge].role)}))
    hosts = secured.cluster(challenge).hosts[0]
    given = {"CHALLENGE": challenge, "PARAMS": params, "HOSTS": hosts, "CLIENT_OPTIONS": file}
    race = make("race", WORK=WORK, TEST_MODE=1, RALLY_ARGS="--on-error=abort", **given)
    assert race.returncode == 0, race.stdout[-3000:]
    assert "INCOMPLETE" not in race.stdout
