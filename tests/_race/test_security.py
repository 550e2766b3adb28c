"""TLS, passwords and API keys, for the target and for the metrics store of ``rally.ini.example``."""

import contextlib
import json
import os
import re
import stat
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import requests
from conftest import ESRALLY, ROOT, SECURED, make

from _tools.race import clusters
from _tools.race.variables import VARIABLES


@pytest.fixture(scope="module")
def home(secured, tmp_path_factory):
    """Rally's home with the example configuration, set to the metrics store with TLS and an API key."""
    store = secured.running("metrics-store")
    created = store.session().post(f"{store.url}/_security/api_key", json={"name": "rally"}, timeout=60)
    created.raise_for_status()
    changes = {
        "datastore.port": store.http_ports[0],
        "datastore.secure": True,
        "datastore.ssl.certificate_authorities": store.client_options["ca_certs"],
        "datastore.api_key": created.json()["encoded"],
    }
    text = (ROOT / "rally.ini.example").read_text()
    for key, value in changes.items():
        text, found = re.subn(f"(?m)^#?{re.escape(key)} =.*$", f"{key} = {value}", text)
        assert found == 1, f"{key} stands {found} times in the example"
    home = tmp_path_factory.mktemp("rally")
    (home / ".rally").mkdir()
    (home / ".rally" / "rally.ini").write_text(text)
    return home


def esrally(home, *arguments):
    env = os.environ | {"RALLY_HOME": str(home), "RALLY_RUNNING_IN_DOCKER": "TRUE"}
    env.setdefault("THESPIAN_BASE_IPADDR", "127.0.0.1")
    return subprocess.run([ESRALLY, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)


def test_nobody_without_the_password_is_let_in_and_nobody_else_can_read_it(secured):
    for name in ("target", "metrics-store"):
        cluster = secured.running(name)
        options = cluster.client_options
        assert cluster.url.startswith("https://")
        assert requests.get(cluster.url, verify=options["ca_certs"], timeout=10).status_code == 401
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(cluster.url, timeout=10)
        files = [p for p in secured.root.rglob("*") if p.is_file()]
        telling = [p for p in files if options["basic_auth_password"].encode() in p.read_bytes()]
        assert telling == [Path(cluster.client_options_file)]
        assert stat.S_IMODE(telling[0].stat().st_mode) == 0o600
        settings = secured.root / f"{name}-1" / "config" / "elasticsearch.yml"  # with the password of the keystore
        assert "keystore.password" in settings.read_text() and stat.S_IMODE(settings.stat().st_mode) == 0o600


def test_client_options_with_a_password_reach_rally_as_a_file(secured, monkeypatch):
    target = secured.running("target")
    options = target.client_options
    monkeypatch.setenv("HOSTS", target.hosts[0])
    monkeypatch.setenv("CLIENT_OPTIONS", json.dumps({"default": options}))
    with clusters.target_hosts(secured) as (hosts, client_options):  # has asked it by Rally's own client
        assert hosts == target.hosts[0] and options["basic_auth_password"] not in client_options
        assert json.loads(Path(client_options).read_text()) == {"default": options}


PASSWORD = "a pass-phrase of a user"
PARAMS = {"variants": ["D_td"], "warmup_iterations": 0, "passes": 1}


@pytest.fixture(scope="module")
def users(secured, tmp_path_factory):
    """Client options of a user for each role that docs/your-cluster.md gives, by the role's name."""
    target = secured.running("target")
    page = (ROOT / "docs" / "your-cluster.md").read_text()
    found = {}
    for role, body in re.findall(r"PUT (/_security/role/[\w-]+)\n +(\{.*\})\n", page):
        name = role.rpartition("/")[2]
        user = {"password": PASSWORD, "roles": [name]}
        for path, content in ((role, json.loads(body)), (f"/_security/user/{name}", user)):
            target.session().put(f"{target.url}{path}", json=content, timeout=60).raise_for_status()
        options = target.client_options | {"basic_auth_user": name, "basic_auth_password": PASSWORD}
        found[name] = tmp_path_factory.mktemp("users") / f"{name}.json"
        found[name].write_text(json.dumps({"default": options}))
    return found


@pytest.fixture(scope="module")
def race(secured, home, users, tmp_path_factory):
    """Races query-decomp as one of these users."""
    params = tmp_path_factory.mktemp("params") / "params.json"
    params.write_text(json.dumps(PARAMS))
    return lambda user, *more: esrally(
        home,
        "race",
        "--track-path=.",
        "--challenge=query-decomp",
        "--pipeline=benchmark-only",
        f"--target-hosts={secured.running('target').hosts[0]}",
        f"--client-options={users[user]}",
        f"--track-params={params}",
        "--test-mode",
        "--on-error=abort",
        *more,
    )


def test_race_with_tls_least_privileges_for_the_target_and_an_api_key_for_the_store(home, race):
    raced = race("cluster-metrics-race", "--race-id=secured", "--user-tags=intention:secured")
    assert raced.returncode == 0, raced.stdout[-3000:]
    report = make("report", WORK=SECURED, RACE="intention:secured", INI=home / ".rally" / "rally.ini")
    assert report.returncode == 0, report.stdout
    assert "# Race secured" in report.stdout
    assert "- tags: intention=secured" in report.stdout
    # the store's other way in, a password, is that of make
    for tags, found in (("intention:secured", True), ("intention:other", False)):
        listed = make("races", WORK=SECURED, TAGS=tags)
        assert listed.returncode == 0, listed.stdout
        assert ("secured  " in listed.stdout) is found, listed.stdout


def command_lines(command, env, said):
    """Runs a command; returns its exit code, and the command lines that everybody could read meanwhile.

    :param said: file for its output.
    """
    found, deadline = set(), time.monotonic() + 600
    with open(said, "w") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None and time.monotonic() < deadline:
            for one in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    found.add(" ".join(one.cmdline()))
            time.sleep(0.1)
    finally:
        process.terminate()
    return process.wait(timeout=60), found


def test_a_user_who_may_only_read_asks_an_index_that_another_has_loaded(secured, home, users, race, tmp_path):
    given = {
        "WORK": SECURED,
        "TEST_MODE": 1,
        "RACE_ID": "asked",
        "PARAMS": json.dumps(PARAMS),
        "HOSTS": secured.running("target").hosts[0],
        "CLIENT_OPTIONS": users["cluster-metrics-query"].read_text(),  # none but the environment holds them
        "INI": home / ".rally" / "rally.ini",
        "RALLY_ARGS": "--include-tasks=tag:query --on-error=abort",
    }
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES} | {k: str(v) for k, v in given.items()}
    code, lines = command_lines(["make", "--no-print-directory", "race"], env, tmp_path / "said")
    assert code == 0, (tmp_path / "said").read_text()[-3000:]
    options = SECURED.resolve() / "rally" / "client-options.json"
    assert any("esrally race" in line and f"--client-options={options}" in line for line in lines)
    assert not any(PASSWORD in line for line in lines)
    assert not options.exists() and PASSWORD not in (tmp_path / "said").read_text()
    refused = race("cluster-metrics-query")
    assert refused.returncode != 0


def test_annotations_reach_the_store(secured, home):
    added = esrally(
        home, "add", "annotation", "--race-timestamp=20261121T120000Z", "--track=cluster-metrics", "--message=new disks"
    )
    assert "Successfully added annotation" in added.stdout, added.stdout
    store = secured.running("metrics-store")
    store.session().post(f"{store.url}/rally-annotations/_refresh", timeout=60).raise_for_status()
    listed = esrally(home, "list", "annotations", "--from-date=20261101", "--to-date=20261130")
    assert "new disks" in listed.stdout, listed.stdout
