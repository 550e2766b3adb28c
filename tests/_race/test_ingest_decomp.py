"""ingest-decomp on a real node: every cell runs, and no row is lost in silence."""

import csv
import json
from dataclasses import replace

import pytest
import requests
from conftest import ROOT, WORK, make
from esrally import exceptions

from cluster_metrics.corpus.encoded import generate_bodies
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.ingest.cell import INDEX, run_cell
from cluster_metrics.ingest.ingest_decomp import Rows, has_orjson
from cluster_metrics.ingest.steps import NAIVE, NATIVE, REQUESTS, SLICES, STEPS
from cluster_metrics.wire.bulk import send_bulk

ROWS = 2500
SETTINGS = {"index.number_of_shards": 1, "index.number_of_replicas": 0}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    corpus = Metrics(rows_per_epoch=ROWS)
    path = corpus.generate(0, folder)
    for encoding in ("json", "smile-32"):
        generate_bodies(corpus, 0, encoding, path)
    return {cell.name: cell for cell, _ in Rows(corpus, 1, str(path), ROWS).cells("cumulative")}


@pytest.fixture
def run(loaded, with_client):
    """Runs a cell through Rally's client and returns its sample."""
    mappings = json.loads((ROOT / "index.json").read_text())["mappings"]
    yield lambda cell: with_client(lambda es: run_cell(es, cell, ROWS, SETTINGS, mappings))
    assert requests.head(f"{loaded['target']}/{INDEX}", timeout=30).status_code == 404


def test_a_sample_tells_what_the_client_did(run, cells):
    naive, fast, native, plain = (run(cells[name]) for name in (NAIVE, "clients-2", NATIVE, REQUESTS))
    assert naive["connections"] == 1 + naive["requests"] == 4
    assert fast["connections"] <= 2 and fast["requests"] == 1
    assert native["connections"] == 1 and native["requests"] == 3
    assert naive["bytes_in"] > 190 * ROWS and native["bytes_in"] > 190 * ROWS and fast["bytes_in"] < 100
    assert (plain["connections"], plain["bytes_out"]) == (naive["connections"], naive["bytes_out"])
    assert plain["bytes_in"] > 190 * ROWS
    for sample in (naive, fast, native, plain):
        assert sample["rows"] == sample["success-count"] == ROWS and sample["error-count"] == 0
        assert sample["rows_per_second"] == pytest.approx(ROWS / sample["wall_ms"] * 1000)


@pytest.mark.parametrize("name", [NAIVE, NATIVE, REQUESTS])
def test_parts_of_one_client_add_up_to_its_wall_time(run, cells, name):
    rests = []
    while len(rests) < 10 and (not rests or min(rests) > 0.04):
        sample = run(cells[name])
        parts = [sample[part] for part in ("encode_ms", "send_ms", "parse_ms")]
        rests.append(1 - sum(parts) / sample["wall_ms"])
        assert rests[-1] > 0 and min(parts) > 0
    assert min(rests) <= 0.04, "of the wall time, when the machine holds the client up least"


def test_less_work_for_the_target_takes_less_space_and_finds_the_same(run, cells):
    before, unindexed, smile, bare = (
        run(cells[name]) for name in ("translog-async", "epoch-unindexed", "smile", "no-source")
    )
    assert smile["bytes_out"] < 0.9 * unindexed["bytes_out"] == 0.9 * before["bytes_out"]
    assert unindexed["store_bytes"] < before["store_bytes"] and bare["store_bytes"] != smile["store_bytes"]
    for sample in (before, unindexed, smile, bare):
        assert sample["success-count"] == ROWS and sample["asks_ms"] > 0


def test_rows_that_its_queries_do_not_find_fail_the_cell(run, cells):
    cell = cells[SLICES]
    with pytest.raises(exceptions.RallyAssertionError, match="of 2,500 rows its queries find 2,41"):
        run(replace(cell, asks=cell.asks[1:]))


def test_rows_that_never_arrive_fail_the_cell(run, cells):
    cell = cells[SLICES]

    async def short(es, index, body, documents):
        return await send_bulk(es, index, cell.body(0, documents - 1), documents)

    with pytest.raises(exceptions.RallyAssertionError, match="2,500 were sent, 2,500 acknowledged and 2,497 found"):
        run(replace(cell, send=short))


@pytest.mark.parametrize("name", [SLICES, NATIVE, REQUESTS])
def test_rows_that_are_refused_fail_the_cell(run, cells, name):
    def bad(first, count):
        return cells[name].body(first, count).replace(b'"cpu":', b'"gpu":', 7)

    with pytest.raises(exceptions.RallyAssertionError, match="2,479 acknowledged and 2,479 found; 21 of 2,500.*gpu"):
        run(replace(cells[name], body=bad))


def test_an_index_of_somebody_else_is_left_alone(loaded, run, cells):
    requests.put(f"{loaded['target']}/{INDEX}", timeout=30).raise_for_status()
    try:
        with pytest.raises(exceptions.RallyAssertionError, match="was not created by this track"):
            run(cells[SLICES])
    finally:
        requests.delete(f"{loaded['target']}/{INDEX}", timeout=30).raise_for_status()


@pytest.mark.parametrize(
    "design, timestamps",
    [("cumulative", True), pytest.param("one-at-a-time", False, marks=pytest.mark.long)],
)
def test_a_race_measures_every_cell_in_every_round(loaded, recorded, design, timestamps):
    params = f"warmup_iterations:0,ingest_rounds:1,epochs:1,design:{design},timestamps:{str(timestamps).lower()}"
    race = make("race", TEST_MODE=1, CHALLENGE="ingest-decomp", RACE_ID="ingest-decomp", PARAMS=params, PROFILE=1)
    assert race.returncode == 0, race.stdout[-5000:]
    assert "INCOMPLETE" not in race.stdout and "no CPU profile" not in race.stdout
    assert "## Where the target's CPU time goes" in race.stdout
    assert (WORK / "reports" / "ingest-decomp" / "flames.html").exists()
    with open(WORK / "reports" / "ingest-decomp" / "es_profile_ingest_cpu.csv") as f:
        assert sorted(row["cell"] for row in csv.DictReader(f)) == [NAIVE, "no-source", "translog-async"]
    recorded("ingest-decomp")
    assert "Too few rounds to judge: keep-alive" in race.stdout
    assert ("orjson was left out" in race.stdout) is not has_orjson()
    with open(WORK / "reports" / "ingest-decomp" / "es_profile_ingest_decomp.csv") as f:
        rows = list(csv.DictReader(f))
    assert ("time-series, logsdb were left out: they take timestamps:true" in race.stdout) is not timestamps
    steps = {s.name for s in STEPS if timestamps or not s.timed} - (set() if has_orjson() else {"orjson"})
    assert sorted(row["cell"] for row in rows) == sorted({NAIVE, SLICES, REQUESTS, NATIVE} | steps)
    assert all(row["rows"] == "1000" and row["round"] == "1" for row in rows)


@pytest.mark.long
def test_a_race_of_some_steps_runs_them_and_what_they_are_held_against(loaded):
    params = json.dumps({"warmup_iterations": 0, "ingest_rounds": 1, "epochs": 1, "ingest_steps": ["clients-4"]})
    race = make("race", TEST_MODE=1, CHALLENGE="ingest-decomp", RACE_ID="ingest-steps", PARAMS=params)
    assert race.returncode == 0, race.stdout[-5000:]
    with open(WORK / "reports" / "ingest-steps" / "es_profile_ingest_decomp.csv") as f:
        assert sorted(row["cell"] for row in csv.DictReader(f)) == ["clients-2", "clients-4", NAIVE]
    assert "Too few rounds to judge: clients-4." in race.stdout and "No samples" not in race.stdout
    refused = make("race", TEST_MODE=1, CHALLENGE="ingest-decomp", PARAMS=params.replace("clients-4", "clients-9"))
    assert refused.returncode != 0 and "allowed is all, or a list of keep-alive" in refused.stdout
