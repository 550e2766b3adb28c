"""What a user of ``make race`` and of plain ``esrally`` sees."""

import csv
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import jsonschema
import pytest
import requests
from conftest import ESRALLY, ROOT, WORK, leftovers, make

from _tools.report.gate import SCHEMA
from cluster_metrics.query.configurations import PARTS, VARIANTS
from cluster_metrics.wire.questions import TRANSPORTS

CELLS = {f"{v}-{t}" for v in VARIANTS for t in TRANSPORTS}


def metrics(search, race_id, **terms):
    filters = [{"term": {k.replace("_", "-"): v}} for k, v in {"race_id": race_id, **terms}.items()]
    body = {"size": 10_000, "query": {"bool": {"filter": filters}}}
    return [hit["_source"] for hit in search("rally-metrics-*", body)["hits"]["hits"]]


def test_output_has_progress_summary_and_report_though_it_is_piped(loaded):
    output = loaded["output"]
    assert "Running index-append" in output
    assert "[INFO] SUCCESS" in output
    for cell in CELLS:
        rows = [line for line in output.splitlines() if "50th percentile service time" in line and f" {cell} " in line]
        assert len(rows) == 1, f"{cell} has {len(rows)} rows in Rally's summary"
    for section in ("Time by configuration", "Where the production query's time goes", "Serial against msearch"):
        assert f"## {section}" in output
    assert "What each change buys" in output
    assert "INCOMPLETE" not in output
    of_rally = output.partition("# Race")[0].splitlines()
    assert not [line for line in of_rally if "delete-index |" in line or "force-merge |" in line]


def test_output_ends_with_the_answer_and_a_gate_fails_on_it(loaded):
    report = make("report", RACE="first", VERBOSE=0, FAIL_ON="too-few")
    lines = report.stdout.strip().splitlines()
    assert report.returncode == 2 and lines.pop().endswith("Error 23")
    assert lines.pop().startswith("[ERROR] FAIL_ON=too-few: 2 rounds are too few for a verdict")
    begin = next(i for i, line in enumerate(lines) if line.startswith("query-decomp · Elasticsearch 8.17.2"))
    assert len(lines) - begin <= 15 and "a race in test mode" in lines[begin + 1]
    assert lines[-1].endswith("reports/first/report.html")
    verdict = json.loads((WORK / "reports" / "first" / "verdict.json").read_text())
    assert (verdict["test_mode"], verdict["complete"], verdict["exit_code"]) == (True, True, 23)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(verdict)


def test_samples_of_all_passes_and_rounds_are_in_the_metrics_store(loaded, search, recorded):
    recorded("first")
    for cell in CELLS:
        samples = metrics(search, "first", task=cell, name="service_time", **{"sample_type": "normal"})
        assert sorted(s["meta"]["pass"] for s in samples) == [1, 2]
        for sample in samples:
            meta = sample["meta"]
            assert meta["searches"] == 30
            assert meta["docs_matched"] == 1000
            assert meta["segments"] == 1
            assert meta["success"] and meta["error-count"] == 0
            assert meta["wall_ms"] == pytest.approx(sample["value"], rel=0.05, abs=2)
            assert meta["target_cpu_ms"] >= 0
            assert meta["tag_intention"] == "test"
    plan = metrics(search, "first", task="plan", name="service_time", **{"operation_type": "coverage"})
    normal = [s for s in plan if s["sample-type"] == "normal"]
    assert {(s["operation"], s["meta"]["round"]) for s in normal} == {(c, r) for c in CELLS for r in (1, 2)}
    for number in (1, 2):
        assert len({s["meta"]["epoch"] for s in normal if s["meta"]["round"] == number}) == 1
    rounds = metrics(search, "first", task="plan", name="service_time", **{"operation_type": "query-plan"})
    assert all(s["meta"]["target_cpu_ms"] > 0 for s in rounds)


def test_the_plan_has_the_parts_of_the_attribution_and_the_warm_up_its_own_task(loaded, search):
    parts = metrics(search, "first", task="plan", name="service_time", **{"operation_type": "part-coverage"})
    normal = [s for s in parts if s["sample-type"] == "normal"]
    assert {(s["operation"], s["meta"]["round"]) for s in normal} == {
        (p.name, r) for p in PARTS.values() for r in (1, 2)
    }
    (warm_up,) = metrics(search, "first", task="warm-up", name="service_time")
    assert warm_up["meta"]["rounds"] == 1 and set(warm_up["meta"]["unsteady"]) > CELLS
    assert "- The node query cache was off for every index asked (" in loaded["output"]
    assert "nothing is known to have been steady: the warm-up had 1 round" in loaded["output"]
    assert "Held out of the fit, the production query takes" in loaded["output"]


def test_visiting_visits_every_document_and_starting_none(indexed):
    found = {}
    for name in ("start", "visit"):
        (body,) = PARTS[name].bodies(["N001"], 1, profile=True)
        url = f"{indexed['target']}/cluster-metrics/_search?request_cache=false"
        response = requests.post(url, json=body, timeout=30).json()
        searches = [search for shard in response["profile"]["shards"] for search in shard["searches"]]
        scorers = sum(query["breakdown"]["build_scorer_count"] for search in searches for query in search["query"])
        aggregations = [a for shard in response["profile"]["shards"] for a in shard.get("aggregations", [])]
        collected = sum(a["breakdown"]["collect_count"] for a in aggregations)
        found[name] = collected, scorers, response.get("aggregations", {}).get("visited")
    count = {"query": PARTS["visit"].bodies(["N001"], 1)[0]["query"]}
    url = f"{indexed['target']}/cluster-metrics/_count"
    matched = requests.post(url, json=count, timeout=30).json()["count"]
    assert found["start"] == (0, 0, None)
    assert found["visit"][0] == matched > 0 and found["visit"][2] == {"doc_count": matched}


def test_report_is_written_and_can_be_written_again(loaded):
    folder = WORK / "reports" / "first"
    with open(folder / "es_profile_decomp.csv") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == 2 * (2 * len(CELLS) + len(PARTS))
    text = (folder / "report.md").read_text()
    shutil.rmtree(folder)
    again = make("report", RACE="first")
    assert again.returncode == 0
    assert (folder / "report.md").read_text() == text
    assert text in again.stdout


def test_an_earlier_race_of_the_same_id_is_left_out_of_the_report(loaded, search):
    report = make("report", RACE="first")
    check = {"bool": {"filter": [{"term": {"race-id": "first"}}, {"term": {"operation-type": "check-index"}}]}}
    hit = search("rally-metrics-*", {"query": check})["hits"]["hits"][0]
    earlier = hit["_source"] | {"race-timestamp": "20260101T000000Z", "@timestamp": 1_767_225_600_000, "value": 1e9}
    earlier["meta"] = earlier["meta"] | {"parameters": "{}", "docs": 1}
    url = f"{loaded['store']}/{hit['_index']}/_doc/earlier?refresh=true"
    requests.put(url, json=earlier, timeout=30).raise_for_status()
    try:
        assert make("report", RACE="first").stdout == report.stdout
    finally:
        requests.delete(url, timeout=30).raise_for_status()


def test_report_from_the_store_that_a_rally_ini_names(loaded, tmp_path):
    ini = tmp_path / "rally.ini"
    ini.write_text((WORK / "rally/.rally/rally.ini").read_text())
    assert "# Race first" in make("report", RACE="first", INI=ini).stdout
    ini.write_text("[reporting]\ndatastore.type = in-memory\n")
    result = make("report", RACE="first", INI=ini)
    assert result.returncode != 0
    assert f"[ERROR] [{ini}] names no metrics store; set datastore.type = elasticsearch" in result.stdout


@pytest.mark.parametrize("race, message", [("nothing", "[ERROR] no race [nothing] in the store")])
def test_report_of_a_missing_race(loaded, race, message):
    result = make("report", RACE=race)
    assert result.returncode != 0
    assert message in result.stdout


def test_query_again_without_loading_and_compare(indexed, tmp_path):
    before = requests.get(f"{indexed['target']}/cluster-metrics/_settings", timeout=30).json()
    ini = shutil.copy(WORK / "rally/.rally/rally.ini", tmp_path)
    args = "--exclude-tasks=tag:setup"
    params = "variants:D_td,warmup_iterations:0,passes:1"
    result = make("race", TEST_MODE=1, RACE_ID="second", PARAMS=params, RALLY_ARGS=args, INI=ini)
    assert result.returncode == 0, result.stdout[-3000:]
    after = requests.get(f"{indexed['target']}/cluster-metrics/_settings", timeout=30).json()
    assert after == before, "the index was created anew"
    assert "by msearch (D_td-msearch)" in result.stdout
    env = os.environ | {"RALLY_HOME": str(WORK / "rally"), "RALLY_RUNNING_IN_DOCKER": "TRUE"}
    command = [ESRALLY, "compare", "--baseline=first", "--contender=second"]
    compared = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert compared.returncode == 0, compared.stdout
    assert "D_td-serial" in compared.stdout
    ours = make("compare", RACES="run:1 second")
    assert ours.returncode == 0, ours.stdout
    assert "the races differ in parameters passes, variants, warmup_iterations" in ours.stdout
    assert "race first has 2 rounds, a verdict takes 20" in ours.stdout
    assert "no noise floor" in ours.stdout
    assert (WORK / "reports" / "compare-first-second" / "compare.csv").is_file()
    assert "[ERROR] no race [run:7] in the store" in make("compare", RACES="first run:7").stdout


def test_a_count_that_differs_ends_the_race(indexed):
    row = {"epoch": 1, "node": "N001", "task": "T001", "cpu": 1, "mem": 1, "net": 1}
    url = f"{indexed['target']}/cluster-metrics/_doc/extra?refresh=true"
    requests.put(url, json=row, timeout=30).raise_for_status()
    try:
        result = make("race", TEST_MODE=1, RALLY_ARGS="--include-tasks=check-index")
    finally:
        requests.delete(url, timeout=30).raise_for_status()
    assert result.returncode != 0
    assert "index [cluster-metrics] has 5,001 documents but the corpus 5,000: +1" in result.stdout


def test_a_wrong_answer_is_an_error_and_aborts_when_asked_to(indexed):
    hit = requests.get(f"{indexed['target']}/cluster-metrics/_search?size=1&q=epoch:1", timeout=30).json()["hits"][
        "hits"
    ][0]
    url = f"{indexed['target']}/cluster-metrics/_doc/{hit['_id']}?refresh=true"
    requests.put(url, json=hit["_source"] | {"net": 1e9}, timeout=30).raise_for_status()
    params = "epochs:1,warmup_iterations:0,passes:1"
    try:
        tasks = "--include-tasks=B-serial,plan"
        aborted = make("race", TEST_MODE=1, PARAMS=params, RALLY_ARGS=f"{tasks} --on-error=abort")
        go_on = make("race", TEST_MODE=1, PARAMS=params, RALLY_ARGS=tasks)
    finally:
        requests.put(url, json=hit["_source"], timeout=30).raise_for_status()
    assert aborted.returncode != 0
    assert "net_sum is" in aborted.stdout
    assert go_on.returncode == 2 and "Error 65" in go_on.stdout, go_on.stdout[-3000:]
    assert "# INCOMPLETE: Race " in go_on.stdout and re.search(r"- \*\*Of plan \d+ failed\.", go_on.stdout)


def test_an_index_of_somebody_else_is_not_deleted(loaded):
    other = {"mappings": {"_meta": {"created_by": "somebody else"}}}
    index = f"{loaded['target']}/cluster-metrics"
    requests.delete(index, timeout=30).raise_for_status()
    requests.put(index, json=other, timeout=30).raise_for_status()
    tasks = "--include-tasks=delete-index"
    refused = make("race", TEST_MODE=1, RALLY_ARGS=tasks)
    assert refused.returncode != 0
    assert "index [cluster-metrics] was not created by this track and will not be deleted" in refused.stdout
    assert requests.head(index, timeout=30).status_code == 200
    told = make("race", TEST_MODE=1, RALLY_ARGS=tasks, PARAMS="delete_foreign_index:true")
    assert requests.head(index, timeout=30).status_code == 404, told.stdout[-3000:]


def test_plain_esrally_races_from_a_plain_clone(loaded, tmp_path):
    clone = tmp_path / "my-rally-track"
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for file in files.stdout.split():
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, clone / file)
    env = os.environ | {"RALLY_HOME": str(tmp_path), "RALLY_RUNNING_IN_DOCKER": "TRUE"}
    if "THESPIAN_BASE_IPADDR" not in env:
        env["THESPIAN_BASE_IPADDR"] = "127.0.0.1"

    def esrally(*arguments):
        return subprocess.run([ESRALLY, *arguments], cwd=clone, env=env, capture_output=True, text=True, timeout=600)

    info = esrally("info", "--track-path=.", "--offline")
    assert info.returncode == 0 and "D_hdr-msearch" in info.stdout, info.stdout
    host = loaded["target"].removeprefix("http://")
    race = esrally(
        "race",
        "--track-path=.",
        "--challenge=query-decomp",
        "--pipeline=benchmark-only",
        f"--target-hosts={host}",
        "--test-mode",
        "--include-tasks=tag:setup,check-index,D_td-serial",
        "--on-error=abort",
    )
    assert race.returncode == 0, race.stdout[-3000:]
    assert "50th percentile service time | D_td-serial" in " ".join(race.stdout.split())


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"PARAMS": "bulk_size:0"}, "track parameter [bulk_size] is [0], allowed is an integer from 1 to 1,000,000"),
        ({"PARAMS": "variants:E"}, "track parameter [variants] is [E], allowed is all, or a list of A, B,"),
        (
            {"PARAMS": "rows_per_epoch:1000000000,epochs:900", "TEST_MODE": "0"},
            "the corpus and its indices need about 381,960,000 MB",
        ),
        ({"PARAMS": "nodez:3"}, "Unused track parameters ['nodez']"),
        ({"CHALLENGE": "nothing"}, "CHALLENGE is [nothing], allowed is append-no-conflicts-index-only"),
        ({"STORE": "somewhere"}, "STORE is [somewhere], allowed is http(s)://[user:password@]host[:port]"),
        ({"STORE": "http://127.0.0.1:9", "INI": "rally.ini"}, "STORE and INI both name a metrics store"),
        ({"INI": "nowhere.ini"}, "cannot read [nowhere.ini]: No such file or directory"),
        ({"CLIENT_OPTIONS": "nowhere.json"}, "nowhere.json"),
        ({"HOSTS": "127.0.0.1:9"}, "the target [127.0.0.1:9] does not answer GET / as Elasticsearch does"),
        (
            {"ES_VERSION": "0.0.1"},
            "ES_VERSION is [0.0.1] but the target that is up was started with [8.17.2]; run 'make down' first",
        ),
        (
            {"SECURITY": "1"},
            "SECURITY is [1] but the target that is up was started with [0]; run 'make down' first",
        ),
    ],
)
def test_bad_input_gets_one_clear_line(loaded, variables, message):
    result = make("race", **{"TEST_MODE": 1, **variables})
    errors = [line for line in result.stdout.splitlines() if line.startswith("[ERROR]")]
    assert result.returncode != 0
    assert len(errors) == 1 and message in errors[0], result.stdout[-3000:]
    assert "Traceback" not in result.stdout


@pytest.mark.parametrize(
    "version, message", [("7.17.0", "is Elasticsearch 7.17.0; this track needs 8.0"), (None, "GET /")]
)
def test_a_target_that_is_too_old_or_answers_no_get(loaded, version, message):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if version else 404)
            self.send_header("content-type", "application/json")
            self.send_header("x-elastic-product", "Elasticsearch")
            self.end_headers()
            self.wfile.write(json.dumps({"version": {"number": version}} if version else {"error": "none"}).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    result = make("race", TEST_MODE=1, HOSTS=f"127.0.0.1:{server.server_port}")
    server.shutdown()
    assert result.returncode != 0
    assert message in next(line for line in result.stdout.splitlines() if line.startswith("[ERROR]"))


def test_corpus_folder_that_cannot_be_written(loaded):
    data = WORK / "rally/.rally/benchmarks/data/cluster-metrics"
    kept = data.with_name("kept")
    data.rename(kept)
    data.write_text("a file in the way")
    try:
        result = make("race", TEST_MODE=1, RALLY_ARGS="--include-tasks=check-index")
    finally:
        data.unlink()
        kept.rename(data)
    assert result.returncode != 0
    assert f"[ERROR] cannot write the corpus to [{data}]" in result.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_race_leaves_nothing_running(loaded, number):
    make("down")
    env = os.environ | {"WORK": str(WORK), "TEST_MODE": "1"}
    # what a shell starts in the background ignores SIGINT, and so would what it starts
    command = ["env", "--default-signal=INT", str(ROOT / "_venv" / "bin" / "python"), "-m", "_tools.race", "race"]
    race = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        for line in race.stdout:
            if "Race id is" in line:
                break
        assert len(leftovers()) > 4, "nothing was running yet"
        time.sleep(3)
        race.send_signal(number)
        assert race.wait(90) == 128 + number
        deadline = time.monotonic() + 30
        while leftovers() and time.monotonic() < deadline:
            time.sleep(0.5)
        assert leftovers() == []
    finally:
        race.kill()
        make("up")
