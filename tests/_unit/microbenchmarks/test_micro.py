"""What ``make micro`` measures, by which arguments; what JMH and pyperf measured is recorded."""

import gzip
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from _tools.microbenchmarks import client, micro
from _tools.microbenchmarks.inputs import Inputs
from _tools.microbenchmarks.results import of_jmh
from _tools.race import rally
from _tools.race.variables import VARIABLES, Exit, RaceError
from cluster_metrics.core.experiment import check


def recorded(name, path):
    path.write_bytes(gzip.decompress(Path(__file__).with_name(f"micro-{name}.json.gz").read_bytes()))
    return path


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Runs ``make micro`` with these variables; returns what JMH and pyperf were called with."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    called = {}

    class Harness:
        def __init__(self, version, *folders):
            called["version"] = version

        def run(self, inputs, pattern, arguments, heap):
            called["server"] = (pattern, arguments, heap)
            called["inputs"] = inputs
            return recorded("server", tmp_path / "server.json")

    def measure(path, arguments):
        called["client"] = list(arguments)
        recorded("client", path)

    monkeypatch.setattr(micro, "FOLDER", tmp_path / "work" / "micro")
    monkeypatch.setattr(micro, "Launcher", lambda *_: SimpleNamespace(root=tmp_path, downloads=tmp_path))
    monkeypatch.setattr(micro, "Harness", Harness)
    monkeypatch.setattr(client, "measure", measure)

    def measured(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert micro.micro() == Exit.DONE
        return called

    return measured


@pytest.mark.parametrize(
    "variables, server, of_client",
    [
        ({}, ("", [], "1g"), []),
        ({"ARGS": "-f 1", "HEAP": "2g"}, ("", ["-f", "1"], "2g"), []),
        ({"BENCH": "TDigest", "ARGS": "-f 1"}, ("TDigest", ["-f", "1"], "1g"), None),
        ({"BENCH": "client", "ARGS": "--fast --only=json"}, None, ["--fast", "--only=json"]),
    ],
)
def test_arguments_reach_jmh_or_where_the_client_alone_is_measured_pyperf(
    measured, capsys, variables, server, of_client
):
    called = measured(**variables)
    assert called.get("server") == server and called.get("client") == of_client
    said = capsys.readouterr().out
    assert said.count("written to ") == (server is not None) + (of_client is not None)
    assert ("TDigestBenchmark" in said) == (server is not None)
    assert ("encode orjson" in said) == (of_client is not None)


def test_what_is_measured_is_of_the_version_and_the_parameters_that_are_given(measured):
    called = measured(ES_VERSION="8.19.4", PARAMS="rows_per_epoch:5000,epochs:2", BENCH="Sum")
    assert called["version"] == "8.19.4"
    assert called["inputs"] == Inputs.of(check(rally.resolved("rows_per_epoch:5000,epochs:2")))
    assert measured(TEST_MODE="1")["inputs"].metrics.rows_per_epoch == 1000


def test_a_parameter_that_is_not_allowed_is_refused_before_anything_is_measured(measured):
    with pytest.raises(RaceError, match=r"epochs"):
        measured(PARAMS="epochs:0")


def test_results_are_added_to_those_of_earlier_runs(measured):
    assert [measured(BENCH="client")["client"] for _ in range(2)] == [[], []]


def test_the_drift_of_a_benchmark_is_how_much_its_last_iterations_take_more_than_its_first():
    name, parameters = "clustermetrics.micro.HdrBenchmark.coverage", {"field": "cpu", "digits": "3"}
    forks = {"rawData": [[100.0, 90.0, 110.0], [100.0, 500.0, 130.0]]}
    measured = {"benchmark": name, "params": parameters, "primaryMetric": forks, "secondaryMetrics": {}}
    found = of_jmh(measured, {"input": {"rows_per_epoch": 10, "nodes": 1}})
    assert found.drift == pytest.approx(0.2)
    assert found.each == pytest.approx([1000 * 100 / 10, 1000 * 730 / 3 / 10]), "µs of ten rows are told in ns a row"
    assert math.isnan(found.allocated) and math.isnan(found.size)
    allocated = measured | {"secondaryMetrics": {"gc.alloc.rate.norm": {"score": 5000.0}}}
    assert of_jmh(allocated, {"input": {"rows_per_epoch": 10, "nodes": 1}}).allocated == 500
    row = replace(found, size=50.0).row()
    assert row["per_mb"] == pytest.approx(np.mean(found.each) / 50), "ns a byte are ms a MB"
