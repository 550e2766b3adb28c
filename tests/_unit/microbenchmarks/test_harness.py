"""The micro-benchmarks compile against the server and run, and what they read is what the corpus has."""

import json
import os
import re
import signal
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from _tools.elasticsearch.install import DEFAULT_VERSION, InstallError
from _tools.elasticsearch.nodes import Launcher
from _tools.microbenchmarks import jmh
from _tools.microbenchmarks.inputs import Inputs, values_of
from _tools.microbenchmarks.jmh import SOURCES, Harness
from _tools.microbenchmarks.results import Result, read
from _tools.race import rally
from _tools.race.variables import RaceError
from cluster_metrics.core.experiment import check
from cluster_metrics.corpus.encoded import ENCODINGS
from cluster_metrics.corpus.metrics import FIELDS, Metrics, rows
from cluster_metrics.esql.text_values import TextValues

INPUTS = Inputs(Metrics(nodes=3, tasks=7, rows_per_epoch=500, epochs=2), TextValues(documents=1000, values=100))
ONE = {
    "access": "sequential",
    "aggregations": "sums+hdr",
    "digest": "hybrid",
    "digits": "3",
    "encoding": "smile-32",
    "field": "net",
    "filter": "cached",
    "form": "log-line",
    "permille": "100",
}
"""Of each parameter one value."""
MOMENT = ["-wi", "0", "-i", "1", "-r", "10ms", *(a for name, value in ONE.items() for a in ("-p", f"{name}={value}"))]
BENCHMARKS = {path.stem for path in SOURCES.glob("*Benchmark.java")}


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    return Harness(DEFAULT_VERSION, launcher.root, tmp_path_factory.mktemp("micro"), launcher.downloads)


def test_one_benchmark_of_each_class_runs_for_a_moment(harness, capsys):
    path = harness.run(INPUTS, "", ["-f", "0", *MOMENT], "256m")
    results = read(path)
    assert {result.loop.benchmark.partition(".")[0] for result in results} == BENCHMARKS
    assert all(result.each > 0 for result in results) and all(len(result.each) == 1 for result in results)
    about = json.loads(path.read_text())["about"]
    assert about["versions"] == {"elasticsearch": DEFAULT_VERSION, "lucene": "9.12.0", "jmh": "1.37"}
    assert about["machine"]["cores"] and about["input"]["rows_per_epoch"] == 500
    assert f"round 1/1, {len(results)}/{len(results)}: " in capsys.readouterr().out
    assert not [file for file in harness.work.iterdir() if file.suffix == ".part"]


def result_of(digits, *scores):
    """A result of JMH's JSON with a fork of one iteration for each score, in us."""
    data = {"rawData": [[score] for score in scores]}
    name = "clustermetrics.micro.HdrBenchmark.coverage"
    parameters = {"field": "cpu", "digits": digits, "documents": "0"}
    return {"benchmark": name, "params": parameters, "primaryMetric": data, "secondaryMetrics": {}}


def test_what_is_known_badly_gets_more_forks_in_turn_until_it_is_known_or_there_are_enough():
    steady, wide, wild = (
        result_of("2", *[100.0] * 6),
        result_of("3", *[80.0, 120.0] * 3),
        result_of("4", *[1, 1000] * 3),
    )
    asked = []

    def measured(name, *arguments):
        assert re.search(name, steady["benchmark"]) and arguments[:2] == ("-f", "1")
        given = dict(pair.split("=") for pair in arguments[3::2])
        assert given["field"] == "cpu" and set(arguments[2::2]) == {"-p"}
        asked.append(given["digits"])
        return [result_of(given["digits"], 100.0 if given["digits"] == "3" else 1 + 998 * (len(asked) % 2))]

    jmh.measure_enough([steady, wide, wild], INPUTS.record(), measured)
    forks = [len(result["primaryMetric"]["rawData"]) for result in (steady, wide, wild)]
    assert forks[0] == 6 and 6 < forks[1] < jmh.MOST_FORKS == forks[2]
    taken = forks[1] - 6
    assert [set(asked[2 * i : 2 * i + 2]) for i in range(taken)] == [{"3", "4"}] * taken
    assert set(asked[2 * taken :]) == {"4"}


def test_without_a_number_of_forks_there_are_six_and_more_of_what_is_known_badly(harness, monkeypatch):
    monkeypatch.setattr(jmh, "MOST_FORKS", 7)
    arguments = ["-wi", "0", "-i", "1", "-r", "10ms", "-p", "field=cpu"]
    monkeypatch.setattr(Result, "known_well", lambda result, most: len(result.each) >= most)
    path = harness.run(INPUTS, "SumBenchmark", arguments, "128m")
    [result] = json.loads(path.read_text())["results"]
    assert [len(fork) for fork in result["primaryMetric"]["rawData"]] == [1] * 7, "each fork is run by all arguments"


def test_forks_are_rounds_and_each_of_them_is_kept_of_the_benchmarks_that_match(harness, capsys):
    arguments = ["-f", "2", "-wi", "0", "-i", "2", "-r", "10ms", "-p", "field=cpu,net", "-p", "digits=3"]
    results = read(harness.run(INPUTS, "(Sum|Hdr)Benchmark", arguments, "128m"))
    found = {(r.loop.benchmark, r.loop.parameters["field"]): len(r.each) for r in results}
    assert found == {(f"{name}Benchmark.coverage", field): 2 for name in ("Sum", "Hdr") for field in ("cpu", "net")}
    assert all(result.allocated >= 0 for result in results)
    told = [line.split("s  ", 1)[1] for line in capsys.readouterr().out.splitlines() if "round" in line]
    assert [line.split(":")[0] for line in told] == [f"round {r}/2, {n}/4" for r in (1, 2) for n in (1, 2, 3, 4)]


def test_what_the_benchmarks_read_and_add_up_is_what_the_corpus_has(harness):
    folder = harness.prepare(INPUTS)
    answered = subprocess.run(harness.java("Answers", str(folder)), capture_output=True, text=True, check=True)
    blocks, answers = INPUTS.metrics.made(0)
    for _ in blocks:
        pass
    exact = answers()
    lines = [line.split() for line in answered.stdout.splitlines()]
    assert len(lines) == 2 * len(FIELDS) * INPUTS.metrics.nodes
    for node, field, count, *found in lines:
        of = exact[node][field]
        assert int(count) == of["count"] > 100
        by_index, by_input, tdigest, hdr = map(float, found)
        assert by_index == pytest.approx(of["sum"], rel=1e-6) and by_input == pytest.approx(of["sum"], rel=1e-6)
        assert tdigest == pytest.approx(of["max"], rel=1e-7) and hdr == pytest.approx(of["max"], rel=1e-3)


@pytest.mark.parametrize(
    "pattern, arguments, message",
    [
        ("Nonesuch", [], r"^no benchmark is called \[Nonesuch\]$"),
        ("", ["-qqq"], r"^JMH does not take ARGS: q is not a recognized option$"),
        (
            "",
            ["-rff", "x.csv"],
            r"^ARGS has \[-rff\], which 'make micro' does not pass on; allowed is all else",
        ),
        ("TDigest", ["-f", "0", "-p", "digest=none"], r"^a benchmark failed: .*; see .*\.log$"),
    ],
)
def test_what_cannot_run_is_refused_with_one_line(harness, pattern, arguments, message):
    with pytest.raises(RaceError, match=message):
        harness.run(INPUTS, pattern, arguments, "128m")
    assert not list(harness.work.glob("*.part"))


def test_a_server_that_they_do_not_compile_against_is_refused_with_one_line(harness, tmp_path, monkeypatch):
    (tmp_path / "NoBenchmark.java").write_text("package clustermetrics.micro; class NoBenchmark { Nothing n; }")
    monkeypatch.setattr(jmh, "SOURCES", tmp_path)
    launcher = Launcher(rally.WORK, rally.DOWNLOADS)
    with pytest.raises(InstallError, match=r"^the micro-benchmarks do not compile against Elasticsearch .*NoBench.*$"):
        Harness(DEFAULT_VERSION, launcher.root, tmp_path / "work", launcher.downloads)


def test_classes_are_compiled_once_for_each_version(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(jmh, "install", lambda version, home, downloads: home / version)
    monkeypatch.setattr(jmh, "fetch", lambda coordinates, downloads: downloads / coordinates)
    monkeypatch.setattr(jmh, "compile_java", lambda sources, jars, *_: compiled.append(jars))
    for version in ("8.17.2", "8.19.4"):
        for home in ("home", "again"):
            (tmp_path / home / version / "lib").mkdir(parents=True)
            (tmp_path / home / version / "lib" / f"lucene-core-of-{version}.jar").touch()
            first, *_ = Harness(version, tmp_path / home, tmp_path, tmp_path).classpath.split(os.pathsep)
            assert Path(first).parent == tmp_path and Path(first).name.startswith(f"classes-{version}-")
    assert [jars[-1].name for jars in compiled] == ["lucene-core-of-8.17.2.jar", "lucene-core-of-8.19.4.jar"]


def test_values_are_those_of_the_rows_in_order():
    found = values_of(INPUTS.metrics, 2)
    lines = [json.loads(line) for block in rows(INPUTS.metrics, 2) for line in block.splitlines()]
    for field in FIELDS:
        assert found[field].dtype == np.dtype("<f4")
        assert list(found[field]) == [np.float32(row[field]) for row in lines]


def test_inputs_are_written_whole_and_depend_on_the_corpora(tmp_path):
    folder = INPUTS.write(tmp_path)
    assert (folder / "cpu.bin").stat().st_size == 4 * 2 * 500
    assert (folder / "texts.bin").stat().st_size == 2 * 1000
    order = np.frombuffer((folder / "texts.bin").read_bytes(), dtype="<u2")
    texts = [json.loads(line)["text"] for line in (folder / "texts-value.json").read_text().splitlines()]
    assert texts == [f"text {value:04d}" for value in order]
    for name, encoding in ENCODINGS.items():
        body = (folder / f"bulk-{name}.bin").read_bytes()
        assert len(body) == 500 * encoding.row_format.row_bytes(1) and body.endswith(encoding.separator)
    assert INPUTS.write(tmp_path) == folder
    of_metrics = [replace(INPUTS, metrics=replace(INPUTS.metrics, **{key: 1})) for key in asdict(INPUTS.metrics)]
    other = {"documents": 900, "values": 90, "order": "clustered", "form": "log-line", "seed": 1}
    of_texts = [replace(INPUTS, texts=replace(INPUTS.texts, **{key: of})) for key, of in other.items()]
    assert len({INPUTS.key, *(of.key for of in (*of_metrics, *of_texts))}) == 1 + len(of_metrics) + len(of_texts)
    properties = dict(line.split("=") for line in (folder / "input.properties").read_text().splitlines())
    assert properties == {name: str(value) for name, value in INPUTS.record().items()}


@pytest.mark.parametrize("order", ["even", "clustered", "random"])
def test_inputs_of_one_document_a_text_are_written_where_a_run_was_interrupted(tmp_path, order):
    inputs = Inputs(INPUTS.metrics, TextValues(documents=100, values=100, order=order))
    (left := tmp_path / f"input-{inputs.key}.part").mkdir()
    (left / "cpu.bin").write_bytes(b"half")
    folder = inputs.write(tmp_path)
    values = np.frombuffer((folder / "texts.bin").read_bytes(), dtype="<u2")
    assert sorted(values) == list(range(1, 101))
    assert (folder / "cpu.bin").stat().st_size == 4 * 2 * 500 and not left.exists()


@pytest.mark.parametrize(
    "params, test_mode, documents, of_epoch, bulk_rows",
    [
        ("text_documents:500000,text_distinct_values:1000,rows_per_epoch:5000", False, 100_000, 5000, 1000),
        ("text_documents:50000,text_distinct_values:1000,rows_per_epoch:700", False, 50_000, 700, 700),
        ("text_documents:500000,text_distinct_values:1000,rows_per_epoch:5000", True, 1000, 1000, 1000),
    ],
)
def test_inputs_are_of_the_track_parameters_with_no_more_of_each_text_and_bulk_than_are_read(
    params, test_mode, documents, of_epoch, bulk_rows
):
    found = Inputs.of(check(rally.resolved(params)), test_mode)
    assert (found.texts.documents, found.texts.values) == (documents, 1000)
    assert found.record()["text_documents"] == documents and found.record()["bulk_rows"] == bulk_rows
    assert found.metrics.rows_per_epoch == of_epoch


@pytest.mark.parametrize(
    "option", ["-rf", "-rff", "-o", "-t", "-bm", "-tu", "-foe", "-h", "-l", "-lp", "-lprof", "-lrf"]
)
def test_an_option_that_changes_what_figures_mean_is_not_passed_on(option):
    with pytest.raises(RaceError, match=rf"^ARGS has \[{option}\], which 'make micro' does not pass on"):
        jmh.check_arguments(["-f", "1", option, "x"])
    jmh.check_arguments(["-f", "1", "-wi", "3", "-p", "field=cpu"])


@pytest.mark.parametrize(
    "script, said",
    [
        ("echo Exception in thread main: it broke >&2; exit 3", "Exception in thread main: it broke"),
        ("exit 3", "JMH ended with 3"),
        (f"echo '{jmh.REFUSED}not so'; exit 1", "not so"),
        (f"echo '{jmh.REFUSED}not so'; echo java.lang.Error: it broke, too >&2; exit 1", "not so"),
    ],
)
def test_a_jmh_that_ends_badly_is_an_error_whatever_it_said(tmp_path, script, said):
    with pytest.raises(RaceError, match=f"^{said}$"):
        jmh._watched(["sh", "-c", script], tmp_path / "none.log")


def test_jmh_ends_with_what_started_it(tmp_path, monkeypatch):
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(jmh.subprocess, "Popen", Noted)
    monkeypatch.setattr("builtins.print", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jmh._watched(["sh", "-c", "echo a line; exec sleep 20"], tmp_path / "none.log")
    assert [process.returncode for process in started] == [-signal.SIGTERM]
