"""The client's loops do what a client does, and pyperf's results of them are read back."""

import io
import json
from types import SimpleNamespace

import orjson
import pyperf
import pytest
from esrally.driver import runner as rally

from _tools.microbenchmarks import client
from _tools.microbenchmarks.client import CORPUS, FILTERED, full_response, loops, measure, peak_bytes
from _tools.microbenchmarks.results import CLIENT_ROWS, Result, read
from _tools.race.variables import RaceError
from cluster_metrics.corpus.encoded import ENCODINGS, JSON
from cluster_metrics.corpus.metrics import rows
from cluster_metrics.ingest._report.costs import encoding, parsing
from cluster_metrics.ingest.steps import clients
from cluster_metrics.wire import smile

ROWS = [json.loads(line) for block in rows(CORPUS, 1, JSON) for line in block.splitlines()]


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    return loops(tmp_path_factory.mktemp("client"))


def test_every_way_to_encode_makes_all_rows(ways):
    assert len(ROWS) == CLIENT_ROWS
    for name in ("encode json", "encode orjson", "encode orjson, constant action", "encode slices"):
        lines = ways[name]().splitlines()
        assert [orjson.loads(line) for line in lines[1::2]] == ROWS
        assert {orjson.loads(line)["index"] is not None for line in lines[::2]} == {True}
    for name in ("encode columns, json", "encode columns, orjson"):
        columns = json.loads(ways[name]())
        assert [dict(zip(columns, values)) for values in zip(*columns.values())] == ROWS
    items = ways["encode SMILE 64"]().split(smile.SEPARATOR)[:-1]
    assert [smile.decode(item) for item in items[1::2]] == ROWS
    size = ENCODINGS["smile-32"].row_format.row_bytes(1) * CLIENT_ROWS
    assert len(ways["encode SMILE 32"]()) == pytest.approx(size, rel=0.01)


def test_every_way_to_decode_finds_that_nothing_failed(ways):
    for name in (name for name in ways if name.startswith("decode")):
        assert ways[name]()["errors"] is False
    assert len(ways["decode full, json"]()["items"]) == CLIENT_ROWS
    assert 150_000 < len(full_response()) < 210_000 and len(FILTERED) < 30
    assert rally.parse(io.BytesIO(full_response()), ["took"]) == {"took": 30}


def test_what_a_race_of_ingest_is_explained_by_is_measured(ways):
    for of in clients("cumulative", orjson=True, timestamps=True).values():
        assert {encoding(of).benchmark, parsing(of).benchmark} <= set(ways)


def test_a_call_of_a_way_allocates_what_it_returns_at_least():
    assert 10**6 <= peak_bytes(lambda: bytes(10**6)) < 1.2 * 10**6


def test_pyperf_runs_loops_and_their_results_are_read_back(ways, tmp_path):
    path = tmp_path / "x.json"
    measure(path, ["--debug-single-value", "--only", "^encode json|filtered"])
    results = read(path)
    assert [result.loop.benchmark for result in results] == ["encode json", "decode filtered, json"]
    assert all(len(result.each) == 1 and result.each[0] > 0 and result.allocated > 0 for result in results)
    assert results[0].size == pytest.approx(len(ways["encode json"]()) / CLIENT_ROWS)
    assert results[0].size > 1000 * results[1].size > 0
    suite = pyperf.BenchmarkSuite.loads(json.dumps(json.loads(path.read_text())["pyperf"]))
    assert [of.get_inner_loops() for of in suite.get_benchmarks()] == [CLIENT_ROWS] * 2, "times are of a row"
    assert not list(tmp_path.glob("*.part"))


def test_without_a_number_of_processes_what_is_known_badly_gets_more(tmp_path, monkeypatch, capsys):
    for name, number in {"FIRST": 2, "MORE": 1, "MOST_FORKS": 3}.items():
        monkeypatch.setattr(client, name, number)
    monkeypatch.setattr(Result, "known_well", lambda result, most: len(result.each) >= most)
    measure(tmp_path / "x.json", ["--values=1", "--warmups=0", "--loops=1", "--only=slices"])
    assert [len(result.each) for result in read(tmp_path / "x.json")] == [3]
    assert capsys.readouterr().out.count("1 loop not yet known well") == 1


def test_processes_of_pyperf_have_the_settings_of_the_allocator_too(tmp_path, monkeypatch):
    commands = []

    def run(command, env, **_):
        commands.append((command, env))
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(client.subprocess, "run", run)
    with pytest.raises(RaceError):
        measure(tmp_path / "x.json")
    [(command, env)] = commands
    assert client.KEPT.items() <= env.items() and f"--inherit-environ={','.join(client.KEPT)}" in command


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nix"], "^pyperf ended with 2, as it says above$"),
        (["--only", "nonesuch"], r"^ARGS \['--only', 'nonesuch'\] leave no loop of the client to run$"),
    ],
)
def test_arguments_that_leave_nothing_to_run_end_with_one_line(tmp_path, arguments, message):
    with pytest.raises(RaceError, match=message):
        measure(tmp_path / "x.json", arguments)
