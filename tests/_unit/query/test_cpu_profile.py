import asyncio
import gzip
import itertools
import json
import os
import socket
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from fakes import TIMEOUT, FakeEs, Sampling, Script, track_of, values

from _tools.elasticsearch import processes
from _tools.profile import recording
from _tools.profile.control import Control
from _tools.profile.sampler import Node, Sampler, SamplerError, local_nodes
from _tools.race.served import served
from _tools.report.flames import D3
from _tools.report.stacks import FILE
from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.machine import cpu_ms
from cluster_metrics.core.sampler import Sampler as Asked
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.query.configurations import LAYOUTS, PROFILED, VARIANTS
from cluster_metrics.query.cpu_profile import PLAIN, SAMPLED, CpuProfileParams, CpuProfileRunner
from cluster_metrics.wire.questions import TRANSPORTS

NAMES = ["A-serial", "D_td-serial+cached"]
PROFILE = json.loads((Path(__file__).parent / "data" / "profile-8.17.2.json").read_bytes())["profile"]


@pytest.fixture
def source(tmp_path):
    track = track_of(Metrics(nodes=2, tasks=2, rows_per_epoch=10, epochs=3), root=tmp_path)

    def source(sampler="none", seed=42):
        found = values(seed=seed, profiled=NAMES, sampler=sampler)
        return CpuProfileParams(track, {"parameters": found, "warmup-iterations": 1, "iterations": 12})

    return source


def answers(coverage):
    """What Elasticsearch would answer rightly to the searches of a coverage, in their order."""
    found_all = []
    for expected in coverage.expected.values():
        found = {f"{f}_sum": {"value": expected[f]["sum"]} for f in coverage.configuration.summed}
        if coverage.configuration.percentiles is not None:
            for field in coverage.configuration.ranked:
                exact = expected[field]["percentiles"]
                found[f"{field}_pct"] = {"values": {f"{float(p)}": v[0] for p, v in exact.items()}}
        hits = {"total": {"value": expected["cpu"]["count"], "relation": "eq"}}
        shards = {"total": 1, "successful": 1, "failed": 0, "skipped": 0}
        answer = {"took": 1, "timed_out": False, "_shards": shards, "hits": hits, "profile": PROFILE}
        found_all.append(answer | {"aggregations": found})
    return found_all


def target(params):
    """A target that answers a round rightly."""
    told = {}
    for coverage in [c for c, _ in params["coverages"]] + [params["by-api"]]:
        for request, answer in zip(coverage.requests, answers(coverage)):
            told[request.body] = answer
    stats = {
        "_all": {"primaries": {"segments": {"count": 1}}, "total": {"query_cache": {"hit_count": 1, "miss_count": 0}}}
    }
    settings = {"cluster-metrics": {"settings": {}, "defaults": {}}}
    script = Script({"GET": stats})

    def answer(method, path, body):
        if "_settings" in path:
            return settings
        return told.get(body, {"took": 1}) if method == "POST" else script(method, path, body)

    return FakeEs(answer)


def run(params, es=None):
    """The result of a round."""
    return asyncio.run(CpuProfileRunner()(es or target(params), params))


def test_what_is_profiled_are_the_cells_of_query_decomp_the_cache_and_a_planted_difference():
    cells = {f"{v}-{t}" for v in VARIANTS for t in TRANSPORTS}
    assert set(PROFILED) - cells == {"D_td-serial+cached", "D_td-msearch+cached", "D_td-serial+high-accuracy"}
    assert cells < set(PROFILED)
    assert set(values()["profiled"]) == set(PROFILED) - {"D_td-serial+high-accuracy"}
    cached = {name: (of.form, of.layout) for name, of in PROFILED.items() if of.layout}
    assert cached == {f"D_td-{transport}+cached": (transport, "cached") for transport in TRANSPORTS}
    assert LAYOUTS["cached"].primed
    assert PROFILED["D_td-serial+high-accuracy"].percentiles == {"tdigest": {"execution_hint": "high_accuracy"}}


def test_neither_block_comes_first_always(source):
    assert source().params()["blocks"] == source().params()["blocks"]
    one = source()
    assert {tuple(one.params()["blocks"]) for _ in range(12)} == {(SAMPLED, PLAIN), (PLAIN, SAMPLED)}
    epochs = {coverage.epoch for coverage, _ in one.params()["coverages"]}
    assert len(epochs) == 1


def test_epochs_configurations_and_blocks_are_in_an_order_by_seed_and_round(source):
    def drawn(seed):
        of = source(seed=seed)
        rounds = [of.params() for _ in range(12)]
        assert all(r["by-api"].epoch == r["coverages"][0][0].epoch for r in rounds)
        names = [[coverage.configuration.name for coverage, _ in r["coverages"]] for r in rounds]
        return [r["by-api"].epoch for r in rounds], names, [r["blocks"] for r in rounds]

    for one, same, other in zip(drawn(42), drawn(42), drawn(1)):
        assert one == same != other and any(found != one[0] for found in one)


def test_filters_of_a_cached_configuration_are_asked_before_its_clock_runs(source):
    primed = {c.configuration.name: requests for c, requests in source().params()["coverages"]}
    assert primed["A-serial"] == [] and len(primed["D_td-serial+cached"]) == 2 * 5


@pytest.mark.parametrize("blocks", [[SAMPLED, PLAIN], [PLAIN, SAMPLED]])
def test_a_round_is_sampled_once_and_asked_twice(source, blocks):
    sampling = Sampling()
    with served(Control(sampling)) as address:
        params = source(address).params() | {"blocks": blocks}
        result = run(params, es := target(params))
        assert sampling.told == ["start", "stop"]
    assert result["success"], result["error-description"]
    assert result["recordings"] == ["/kept/1.jfr"] and "not_sampled" not in result
    assert result["query_cache_hits"] == 0, "of this round, not since the index was opened"
    searches = [path.split("/")[1] for method, path, _ in es.requests if method == "POST"]
    assert (searches.count("cluster-metrics-cached"), searches.count("cluster-metrics")) == (2 * (2 * 5 + 2), 2 * 2 + 2)
    assert {json.loads(request.body)["profile"] for request in params["by-api"].requests} == {True}
    kinds = [t["dependent_timing"]["operation-type"] for t in result["dependent_timing"]]
    assert sorted(kinds) == sorted([SAMPLED] * 2 + [PLAIN] * 2 + ["profiled-coverage"])
    for timing in result["dependent_timing"]:
        if timing["dependent_timing"]["operation-type"] != "profiled-coverage":
            assert timing["target_cpu_ms"] >= 0
            assert timing["started_s"] <= timing["dependent_timing"]["absolute_time"]
            assert timing["window_ms"] > 0


@pytest.mark.parametrize("lost, kind", [(b'"profile"', "profiled-coverage"), (b"_pct", PLAIN)])
@pytest.mark.parametrize("answer, why", [(TIMEOUT, "no-answer"), ({"took": 1, "timed_out": True}, "wrong-answer")])
def test_a_coverage_without_a_right_answer_is_lost_alone(source, lost, kind, answer, why):
    params = source().params()
    right = target(params)._answer

    def respond(method, path, body):
        hit = method == "POST" and lost in body and (b'"profile"' in body) is (kind != PLAIN)
        return answer if hit else right(method, path, body)

    result = run(params, FakeEs(respond))
    found = {
        (t["dependent_timing"]["operation-type"], t["success"], t.get("error-type")) for t in result["dependent_timing"]
    }
    kept = {PLAIN, "profiled-coverage"} if kind == PLAIN else {PLAIN}
    assert found == {(of, True, None) for of in kept} | {(kind, False, why)}
    assert (result["success"], result["error-count"]) == (False, 1)


def test_a_window_is_the_coverage_alone_in_milliseconds(source, monkeypatch):
    seconds = SimpleNamespace(time=itertools.count().__next__)
    monkeypatch.setattr("cluster_metrics.query.cpu_profile.time", seconds)
    with served(Control(Sampling())) as address:
        params = source(address).params()
        es = target(params)
        monkeypatch.setattr("cluster_metrics.core.sampler.cpu_ms", lambda pids: 10.0 * len(es.requests))
        result = run(params, es)
    of = [t for t in result["dependent_timing"] if t["dependent_timing"]["operation-type"] in (SAMPLED, PLAIN)]
    assert [(t["started_s"], t["window_ms"], t["target_cpu_ms"]) for t in of] == [
        (2 * number, 1000, 20) for number in range(4)
    ]


@pytest.mark.parametrize(
    "sampler, why",
    [
        (None, "no sampler; start the race by 'make race' on the machine of the target"),
        (Control(None, "node es-1 does not run on this machine"), "node es-1 does not run on this machine"),
        (Control(Sampling(fails_at=1)), "node target-1, process 7, has ended or was started anew"),
    ],
)
def test_without_a_sampler_the_round_goes_on_and_says_why(source, sampler, why):
    if sampler:
        with served(sampler) as address:
            result = run(source(address).params())
    else:
        result = run(source().params())
    assert result["success"] and result["not_sampled"] == why and "recordings" not in result
    kinds = {t["dependent_timing"]["operation-type"] for t in result["dependent_timing"]}
    assert kinds == {PLAIN, "profiled-coverage"}


def test_a_sampler_that_is_gone_is_said(source):
    with served(Control(Sampling())) as address:
        pass
    assert run(source(address).params())["not_sampled"].startswith(f"the sampler at {address} does not answer")


def test_the_cpu_time_of_a_process_is_its_own():
    before = cpu_ms([os.getpid()])
    sum(i * i for i in range(200_000))
    after = cpu_ms([os.getpid(), os.getpid()])
    assert after > 2 * before > 0
    with pytest.raises(OSError):
        cpu_ms([2**22 + 1])


def test_a_node_runs_here_only_if_its_process_serves_its_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        about = {"name": "a", "process": {"id": os.getpid()}, "http": {"publish_address": f"127.0.0.1:{port}"}}
        (node,) = local_nodes(lambda path: {"nodes": {"x": about}})
        assert (node.name, node.pid, node.runs) == ("a", os.getpid(), True)
        with socket.create_connection(server.getsockname()) as client:  # has a port, and serves nobody there
            host, own = client.getsockname()
            with pytest.raises(SamplerError, match=f"does not serve port {own}"):
                local_nodes(lambda path: {"nodes": {"x": about | {"http": {"publish_address": f"{host}:{own}"}}}})
    with pytest.raises(SamplerError, match=f"node a does not run on this machine: .* does not serve port {port}"):
        local_nodes(lambda path: {"nodes": {"x": about}})


def test_nodes_of_one_user_are_recorded_into_files_of_their_own(tmp_path, monkeypatch):
    (folder := tmp_path / "of-the-user").mkdir()

    def tell(self, node, what):
        if what.startswith("start"):
            Path(what.partition("file=")[2]).write_text(node.name)

    monkeypatch.setattr(Sampler, "_tell", tell)
    started = processes.started(os.getpid())
    nodes = [Node(name, os.getpid(), started, folder=folder) for name in ("a", "b")]
    sampler = Sampler(nodes, tmp_path, tmp_path)
    files = sampler.start()
    sampler.stop()
    assert [(Path(file).name, Path(file).read_text()) for file in files] == [("a-00001.jfr", "a"), ("b-00001.jfr", "b")]


@pytest.mark.parametrize(
    "answer, why",
    [("7:\nreturn code: 0", None), ("7:\nreturn code: 1\nwrong", "return code: 1"), ("", "it says nothing")],
)
def test_a_node_records_its_cpu_time_once_the_profiler_says_so_whatever_jcmd_ends_with(tmp_path, answer, why):
    (tmp_path / "bin").mkdir()
    (jcmd := tmp_path / "bin" / "jcmd").write_text(f"#!/bin/sh\necho \"$*\" >{tmp_path}/told\necho '{answer}'\n")
    jcmd.chmod(0o755)
    node = Node("a", os.getpid(), processes.started(os.getpid()), tmp_path / "library.so", tmp_path)
    refused = pytest.raises(SamplerError, match=f"cannot be attached to: {why}$") if why else nullcontext()
    with refused:
        Sampler([node], tmp_path, tmp_path).start()
    begins = f'{os.getpid()} JVMTI.agent_load {tmp_path}/library.so "start,event=ctimer,'
    assert (tmp_path / "told").read_text().startswith(begins)


@pytest.mark.parametrize(
    "plant, why",
    [
        (os.mkfifo, "is no file"),
        (Path.mkdir, "Is a directory"),
        (lambda file: file.symlink_to("/etc/hostname"), "Too many levels of symbolic links"),
    ],
)
def test_what_the_user_of_a_node_plants_for_a_recording_is_not_kept(tmp_path, monkeypatch, plant, why):
    (folder := tmp_path / "of-the-user").mkdir()
    (kept := tmp_path / "kept").mkdir()
    monkeypatch.setattr(Sampler, "_tell", lambda self, node, what: None)
    sampler = Sampler([Node("a", os.getpid(), processes.started(os.getpid()), folder=folder)], tmp_path, kept)
    sampler.start()
    plant(folder / "0-00001.jfr")
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(sampler.stop)
        try:
            with pytest.raises(SamplerError, match=rf"a-00001\.jfr of node a was cut off: .*{why}"):
                stopping.result(timeout=10)
        finally:
            if not stopping.done():  # it waits for somebody to write
                (folder / "0-00001.jfr").write_text("")
    assert not list(kept.iterdir())


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Has Java end so in place of reading two recordings; returns the commands it was run by."""
    for name in ("b.jfr", "a.jfr"):
        (tmp_path / name).touch()
    with zipfile.ZipFile(tmp_path / "d3.zip", "w") as z:
        z.writestr(recording.D3_PLACE, "d3")
    monkeypatch.setattr(recording, "fetch", lambda what, downloads: tmp_path / "d3.zip")
    monkeypatch.setattr(recording, "compile_java", lambda *_: None)

    def java(code, out="", said=""):
        commands = []
        ended = subprocess.CompletedProcess([], code, out, said)
        monkeypatch.setattr(recording.subprocess, "run", lambda command, **_: commands.append(command) or ended)
        return commands

    return java


@pytest.mark.parametrize(
    "code, said, why", [(-9, "", "Java ended with -9"), (1, "Exception in main\nno recording\n", "no recording")]
)
def test_recordings_that_java_does_not_read_are_kept_and_a_sentence_says_why(tmp_path, java, code, said, why):
    java(code, "half of the stacks", said)
    assert recording.convert(tmp_path, tmp_path) == f"the recordings in [{tmp_path}] were not read: {why}"
    assert (tmp_path / "a.jfr").exists() and (tmp_path / "b.jfr").exists() and not (tmp_path / FILE).exists()


def test_recordings_that_java_has_read_are_one_file_of_stacks_and_are_removed(tmp_path, java):
    commands = java(0, "the stacks")
    assert recording.convert(tmp_path, tmp_path) == ""
    assert [command[-2:] for command in commands] == [[str(tmp_path / name) for name in ("a.jfr", "b.jfr")]]
    assert gzip.decompress((tmp_path / FILE).read_bytes()) == b"the stacks"
    assert (tmp_path / D3).read_bytes() == b"d3" and not list(tmp_path.glob("*.jfr"))


def test_after_a_problem_a_sampler_is_asked_no_more_and_the_problem_stays():
    sampling = Sampling(fails_at=2)
    control = Control(sampling)
    assert control.answer("start") == {"pids": sampling.pids, "recordings": ["/kept/1.jfr"], "problem": ""}
    assert control.answer("stop") == control.answer("state") == {"pids": sampling.pids, "problem": ""}
    problem = {"pids": sampling.pids, "problem": "node target-1, process 7, has ended or was started anew"}
    assert [control.answer(asked) for asked in ("start", "stop", "start", "state")] == [problem] * 4
    assert sampling.told == ["start", "stop"]


def test_a_recording_that_is_under_way_when_the_race_ends_is_stopped():
    sampling = Sampling()
    control = Control(sampling)
    with served(control):
        control.answer("start")
    assert sampling.told == ["start", "stop"]


def test_where_one_node_cannot_be_recorded_the_others_are_stopped_and_kept(tmp_path, monkeypatch):
    told = []

    def tell(self, node, what):
        told.append((node.name, what.partition(",")[0]))
        if node.name == "b":
            raise SamplerError("node b cannot be attached to")
        Path(what.partition("file=")[2]).touch()

    monkeypatch.setattr(Sampler, "_tell", tell)
    (folder := tmp_path / "of-the-user").mkdir()
    nodes = [Node(name, os.getpid(), processes.started(os.getpid()), folder=folder) for name in ("a", "b", "c")]
    sampler = Sampler(nodes, tmp_path, tmp_path)
    with pytest.raises(SamplerError, match="^node b cannot be attached to$"):
        sampler.start()
    assert told == [("a", "start"), ("b", "start"), ("a", "stop")]
    assert (tmp_path / "a-00001.jfr").exists() and not list(folder.iterdir())


def test_the_cpu_time_of_processes_that_are_not_known_or_have_ended_is_none():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert [Asked("none", pids).cpu_ms() for pids in ([], [ended.pid])] == [None, None]
    assert Asked("none", [os.getpid()]).cpu_ms() > 0


def test_races_are_compared_by_the_coverages_that_were_not_sampled():
    assert challenges()["cpu-profile"].compared.sample == PLAIN


def test_a_process_of_another_user_is_not_said_to_run_elsewhere(monkeypatch):
    def denied(process, kind):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "connections", denied)
    about = {"name": "a", "process": {"id": os.getpid()}, "http": {"publish_address": "127.0.0.1:9200"}}
    said = f"^process {os.getpid()}, if that is node a, is another user's; race as that user or as root$"
    with pytest.raises(SamplerError, match=said):
        local_nodes(lambda path: {"nodes": {"x": about}})
