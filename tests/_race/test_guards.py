"""Guards on a node with passwords: what a role may not do, and what a block forbids, ends the race and is named."""

import asyncio
import json
import re
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, SECURED, make
from esrally import exceptions
from esrally.client import EsClientFactory

from cluster_metrics.core.index import CheckTarget, DeleteOwnIndex, Load, create_own_index

INDEX = "cluster-metrics"
ROLE = "cluster-metrics-race"
"""Of docs/your-cluster.md: a user who has one privilege less than it gives cannot race."""
OWN = json.loads((ROOT / "index.json").read_text())
FOREIGN = {"mappings": {"_meta": {"created_by": "somebody else"}}}


class Target:
    """The secured node, as its superuser and as users who lack a privilege."""

    def __init__(self, cluster, folder):
        self._cluster, self._folder = cluster, folder
        self._session = cluster.session()

    def send(self, method, path, body=None):
        response = self._session.request(method, f"{self._cluster.url}{path}", json=body, timeout=60)
        assert response.status_code < 400 or response.status_code == 404, response.text
        return response.json()

    def index(self, body, **settings):
        """Makes the index anew, with three documents, and sets what is to be set last."""
        self.send("PUT", f"/{INDEX}/_settings", {"index.blocks.read_only": None})
        self.send("DELETE", f"/{INDEX}")
        self.send("PUT", f"/{INDEX}", body | {"settings": {"number_of_replicas": 0}})
        for number in range(3):
            self.send("PUT", f"/{INDEX}/_doc/{number}?refresh=true", {"epoch": number})
        if settings:
            self.send("PUT", f"/{INDEX}/_settings", settings)

    def documents(self):
        return self.send("GET", f"/{INDEX}/_count")["count"]

    def options(self, lacking):
        """Client options, as a file, of a user with all privileges of the role but this one."""
        page = (ROOT / "docs" / "your-cluster.md").read_text()
        role = json.loads(re.search(rf"PUT /_security/role/{ROLE}\n +(\{{.*\}})\n", page).group(1))
        for given, key in ((role, "cluster"), *((of, "privileges") for of in role["indices"])):
            given[key] = [privilege for privilege in given[key] if privilege != lacking]
        name = f"without-{lacking}"
        self.send("PUT", f"/_security/role/{name}", role)
        self.send("PUT", f"/_security/user/{name}", {"password": "pass-word", "roles": [name]})
        login = {"basic_auth_user": name, "basic_auth_password": "pass-word"}
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps({"default": self._cluster.client_options | login}))
        return file

    def race(self, options, tasks="tag:setup", **variables):
        return make(
            "race",
            WORK=SECURED,
            TEST_MODE=1,
            HOSTS=self._cluster.hosts[0],
            CLIENT_OPTIONS=options,
            RALLY_ARGS=f"--include-tasks={tasks}",
            **variables,
        )

    def run(self, options, function):
        """What a coroutine function returns that takes Rally's client of that user."""
        url = urlsplit(self._cluster.url)

        async def call():
            given = json.loads(options.read_text())["default"]
            es = EsClientFactory([{"host": url.hostname, "port": url.port}], given).create_async(client_id=0)
            es.init_request_context()
            try:
                return await function(es)
            finally:
                await es.close()

        return asyncio.run(call())


@pytest.fixture(scope="module")
def target(secured, tmp_path_factory):
    return Target(secured.running("target"), tmp_path_factory.mktemp("options"))


def assert_ended(race, *said):
    """The race ended with one line that says all this, and no traceback."""
    assert race.returncode != 0, race.stdout[-3000:]
    assert "Traceback" not in race.stdout, race.stdout[-3000:]
    assert len([line for line in race.stdout.splitlines() if all(words in line for words in said)]) == 1, race.stdout


def test_an_index_that_cannot_be_looked_at_is_neither_deleted_nor_written_to(target):
    target.index(FOREIGN)
    race = target.race(target.options("view_index_metadata"))
    assert_ended(race, f"index [{INDEX}] cannot be deleted: HTTP 403", "[view_index_metadata,")
    assert target.documents() == 3


def test_an_index_with_a_block_is_not_raced_as_it_stands(target):
    target.index(OWN, **{"index.blocks.read_only": True})
    race = target.race(target.options("none"))
    assert_ended(race, f"index [{INDEX}] cannot be deleted: HTTP 403", "[FORBIDDEN/5/index read-only (api)]")
    assert target.documents() == 3


def test_documents_are_not_appended_to_an_index_that_cannot_be_deleted(target):
    target.index(OWN)
    race = target.race(target.options("delete_index"))
    assert_ended(race, f"index [{INDEX}] cannot be deleted: HTTP 403", "[delete_index,")
    assert target.documents() == 3


def test_a_user_who_may_not_look_at_the_cluster_gets_one_line(target):
    assert_ended(target.race(target.options("monitor")), "[monitor,")


@pytest.mark.parametrize(
    "lacking, guard",
    [
        ("create_index", lambda es: create_own_index(es, f"{INDEX}-other", OWN)),
        ("index", lambda es: Load()(es, {"index": INDEX, "body": b'{"index":{}}\n{"epoch":1}\n', "bulk-size": 1})),
        ("delete_index", lambda es: DeleteOwnIndex()(es, {"index": INDEX})),
    ],
)
def test_a_guard_names_the_privilege_that_lacks(target, lacking, guard):
    target.index(OWN)
    with pytest.raises(exceptions.RallyAssertionError, match=lacking):
        target.run(target.options(lacking), guard)
    assert target.documents() == 3


def test_a_look_at_the_nodes_names_the_privilege_that_lacks(target):
    with pytest.raises(exceptions.RallyAssertionError, match="cluster privileges .monitor,"):
        target.run(target.options("monitor"), lambda es: CheckTarget()(es, {"parameters": {}}))


@pytest.mark.long
def test_an_index_is_known_to_the_race_that_loads_it_and_to_one_with_the_same_parameters(target):
    target.index(OWN)
    options = target.options("none")
    race = target.race(options, "tag:setup,check-index,D_td-serial", PARAMS="warmup_iterations:0,passes:1")
    assert race.returncode == 0, race.stdout[-3000:]
    other = target.race(options, "check-index,D_td-serial", PARAMS="seed:43")
    assert_ended(other, f"index [{INDEX}] was loaded with seed [42], this race has [43]; run the tasks tagged setup")
