import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_metrics.corpus import files, prepared
from cluster_metrics.corpus.encoded import ENCODINGS, encoded_file, generate_bodies
from cluster_metrics.corpus.files import CorpusError, answers_file, load_answers, problems, seal_of
from cluster_metrics.corpus.metrics import FIELDS, Metrics, rows

ROOT = Path(__file__).parents[3]
# the bytes are part of the contract: they must not change with the Python version, the host or a refactoring
EPOCH_1_SHA256 = "dd7ea767fc32872f4889c36574c4d520640bb455bcdc674f571301ed8ec44594"
SMALL = Metrics(nodes=3, tasks=5, rows_per_epoch=101, epochs=2, seed=7)

small_corpora = st.builds(
    Metrics,
    nodes=st.integers(1, 12),
    tasks=st.integers(1, 12),
    rows_per_epoch=st.integers(1, 500),
    epochs=st.integers(1, 12),
    seed=st.integers(0, 2**63 - 1),
    timestamps=st.booleans(),
)


def decoded(corpus, epoch):
    return [json.loads(line) for line in b"".join(rows(corpus, epoch)).splitlines()]


def test_default_epoch_has_the_recorded_bytes():
    digest = hashlib.sha256()
    for block in rows(Metrics(), 1):
        digest.update(block)
    assert digest.hexdigest() == EPOCH_1_SHA256


@settings(max_examples=50)
@given(small_corpora, st.integers(1, 1200))
def test_rows_are_what_the_parameters_say(corpus, epoch):
    data = b"".join(rows(corpus, epoch))
    lines = data.splitlines(keepends=True)
    part = replace(corpus, epochs=epoch).parts()[epoch - 1]
    assert len(data) == part.size
    assert len(lines) == corpus.rows_per_epoch == part.docs
    assert {len(line) for line in lines} == {corpus.row_format().row_bytes(epoch)}
    for i, line in enumerate(lines):
        row = json.loads(line)
        assert list(row) == ["epoch", "node", "task", *FIELDS, *(["@timestamp"] if corpus.timestamps else [])]
        assert row["epoch"] == epoch
        assert row["node"] == f"N{i % corpus.nodes + 1:03d}"
        assert row["task"] == f"T{i // corpus.nodes % corpus.tasks + 1:03d}"
        assert 0 < row["cpu"] < 100
        assert 0 < row["mem"] < 100
        assert row["net"] > 0


@settings(max_examples=30)
@given(small_corpora)
def test_another_seed_or_epoch_gives_other_values(corpus):
    other = Metrics(corpus.nodes, corpus.tasks, 100, corpus.epochs, corpus.seed ^ 1)
    same = Metrics(corpus.nodes, corpus.tasks, 100, corpus.epochs, corpus.seed)
    values = [[row["cpu"] for row in decoded(c, e)] for c, e in ((same, 1), (other, 1), (same, 2))]
    assert values[0] != values[1]
    assert values[0] != values[2]


@settings(max_examples=50)
@given(small_corpora, st.integers(1, 11))
def test_no_node_and_task_have_two_rows_at_one_time(corpus, epoch):
    corpus = replace(corpus, timestamps=True)
    found = [row for e in (epoch, epoch + 1) for row in decoded(corpus, e)]
    assert len({(row["node"], row["task"], row["@timestamp"]) for row in found}) == len(found)
    times = [row["@timestamp"] for row in found]
    assert times == sorted(times) and times[-1] < corpus.time_ms(epoch + 2, 0)


def test_timestamps_change_nothing_else_of_a_row_across_blocks():
    corpus = Metrics(nodes=7, tasks=11, rows_per_epoch=450_001)
    plain, timed = (b"".join(rows(c, 2)).splitlines() for c in (corpus, replace(corpus, timestamps=True)))
    step = 1000
    for i in [*range(0, len(plain), 9973), len(plain) - 1]:
        time_ms = corpus.time_ms(2, i // 77)
        assert json.loads(timed[i]) == json.loads(plain[i]) | {"@timestamp": time_ms}
        assert time_ms == 1_735_689_600_000 + step * (corpus.sweeps + i // 77)
    assert corpus.parts()[0].file != replace(corpus, timestamps=True).parts()[0].file


def test_in_time_series_mode_an_index_takes_the_times_of_all_rows():
    corpus = replace(SMALL, timestamps=True)
    settings = corpus.in_mode({"settings": {}, "mappings": {"properties": {}}}, "time_series")["settings"]
    first, last = (settings[f"index.time_series.{end}_time"] for end in ("start", "end"))
    times = [row["@timestamp"] / 1000 for epoch in (1, corpus.epochs) for row in decoded(corpus, epoch)]
    told = [datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in (first, last)]
    assert told[0] <= min(times) and max(times) < told[1]


def test_timestamps_of_more_than_13_digits_are_refused():
    with pytest.raises(CorpusError, match="^sweeps are .*, with timestamps allowed is up to 8,264,310,400$"):
        Metrics(nodes=1, tasks=1, rows_per_epoch=10**9, epochs=9, timestamps=True).check()
    most = Metrics(nodes=1, tasks=1, rows_per_epoch=826_431_040, epochs=10, timestamps=True)
    assert most.check() == most
    with pytest.raises(CorpusError, match="sweeps are .8,264,310,410., with timestamps allowed is up to 8,264,310,400"):
        replace(most, rows_per_epoch=826_431_041).check()


def test_values_look_like_a_clusters():
    data = decoded(Metrics(rows_per_epoch=200_000), 1)
    for field in FIELDS:
        assert len({row[field] for row in data}) > 5_000
    levels = [np.mean([r["cpu"] for r in data[node::30]]) for node in range(30)]
    assert max(levels) - min(levels) > 20, "nodes have no character of their own"
    net = np.array([row["net"] for row in data[::30]])
    assert net.max() > 100 * np.median(net), "net has no heavy tail"


@settings(max_examples=30)
@given(small_corpora)
def test_answers_equal_those_computed_from_the_rows(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("corpus")
    answers = load_answers(corpus.generate(0, folder))
    data = decoded(corpus, 1)
    for node, fields in answers.items():
        for field, answer in fields.items():
            values = np.array([row[field] for row in data if row["node"] == node])
            assert answer["count"] == len(values)
            if not len(values):
                continue
            assert answer["sum"] == pytest.approx(values.sum(), rel=1e-12)
            assert (answer["min"], answer["max"]) == (values.min(), values.max())
            for percent, (exact, one_below, one_above, below, above) in answer["percentiles"].items():
                assert exact == pytest.approx(np.percentile(values, float(percent)), rel=1e-12)
                assert below <= one_below <= exact <= one_above <= above


def test_any_number_of_processes_gives_the_same_files(tmp_path):
    digests = []
    for processes in ("1", "3"):
        out = tmp_path / processes
        command = [sys.executable, "generate_corpus.py", "--out", str(out), "--processes", processes]
        command += ["cluster-metrics", "--rows-per-epoch", "20000", "--epochs", "3", "--bodies", "json", "smile-32"]
        subprocess.run(command, cwd=ROOT, check=True)
        found = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
        assert len(found) == 3 * 2 * len(("rows", "answers", "json", "smile-32"))
        digests.append({f: hashlib.sha256((out / f).read_bytes()).hexdigest() for f in found})
    assert digests[0] == digests[1]


def test_a_damaged_epoch_is_made_anew(tmp_path):
    path = SMALL.generate(0, tmp_path)
    whole = path.read_bytes()
    for damage in (whole[:-1], whole[:-2] + b" \n", b""):
        path.write_bytes(damage)
        assert SMALL.problems(0, tmp_path)
        assert SMALL.generate(0, tmp_path).read_bytes() == whole
    answers_file(path).unlink()
    assert SMALL.problems(0, tmp_path)
    SMALL.generate(0, tmp_path)
    assert not SMALL.problems(0, tmp_path)


def flip(path):
    """Changes one bit in the middle of a file, which keeps its size and its time of change."""
    content, times = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def rows_of(rows_file):
    return rows_file


@pytest.mark.parametrize("file_of", [rows_of, answers_file])
def test_a_flipped_bit_in_rows_or_answers_is_noticed_and_they_are_made_anew(tmp_path, file_of):
    damaged = file_of(SMALL.generate(0, tmp_path))
    whole = damaged.read_bytes()
    for path in (damaged, seal_of(damaged)):
        flip(path)
        assert problems(damaged)
        assert SMALL.problems(0, tmp_path)
        SMALL.generate(0, tmp_path)
        assert not SMALL.problems(0, tmp_path)
        assert damaged.read_bytes() == whole


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_flipped_bit_in_bulk_bodies_is_noticed_and_they_are_made_anew(tmp_path, encoding):
    rows_file = SMALL.generate(0, tmp_path)
    bodies = encoded_file(rows_file, encoding)
    generate_bodies(SMALL, 0, encoding, rows_file)
    whole = bodies.read_bytes()
    for path in (bodies, seal_of(bodies)):
        flip(path)
        assert problems(bodies)
        assert not SMALL.problems(0, tmp_path), "rows and answers are as they were"
        generate_bodies(SMALL, 0, encoding, rows_file)
        assert not problems(bodies)
        assert bodies.read_bytes() == whole


def test_sha256sum_finds_all_files_whole(tmp_path):
    rows_file = SMALL.generate(0, tmp_path)
    generate_bodies(SMALL, 0, "json", rows_file)
    seals = sorted(path.name for path in rows_file.parent.glob("*.sha256"))
    checked = subprocess.run(["sha256sum", "--check", *seals], cwd=rows_file.parent, capture_output=True, text=True)
    assert checked.stdout.splitlines() == [f"{seal.removesuffix('.sha256')}: OK" for seal in seals]
    assert len(seals) == 3


@pytest.fixture
def track(tmp_path, monkeypatch):
    """A track folder with the first epoch below it."""
    folder = tmp_path / "track"
    monkeypatch.setattr(prepared, "TRACK", folder)
    SMALL.generate(0, folder)
    return folder


def test_a_whole_copy_below_the_track_is_used(tmp_path, track):
    said, data = [], tmp_path / "data"
    first, second = (part.file for part in SMALL.parts())
    written = (track / first).stat().st_mtime_ns
    prepared.generate(SMALL, 0, data, ["json"], said.append)
    assert (track / first).stat().st_mtime_ns == written
    assert not problems(encoded_file(track / first, "json"))
    assert said == [] and not data.exists()
    prepared.generate(SMALL, 1, data, ["json"], said.append)
    assert not SMALL.problems(1, data) and not problems(encoded_file(data / second, "json"))
    assert not (track / second).exists()


@pytest.mark.parametrize("file_of", [rows_of, answers_file])
def test_a_damaged_copy_below_the_track_is_moved_aside_and_made_among_the_data(tmp_path, track, file_of):
    said, data = [], tmp_path / "data"
    file = SMALL.parts()[0].file
    whole = (track / file).read_bytes()
    flip(file_of(track / file))
    found = (track / file).read_bytes()
    prepared.generate(SMALL, 0, data, ["json"], said.append)
    assert said[0] == (
        f"[{file_of(track / file)}] is damaged; [{track / file}] is not used, it is now [epoch-1.json.damaged]"
    )
    assert not (track / file).exists()
    assert (track / f"{file}.damaged").read_bytes() == found
    assert not SMALL.problems(0, data) and (data / file).read_bytes() == whole
    assert not problems(encoded_file(data / file, "json")) and not encoded_file(track / file, "json").exists()
    said.clear()
    prepared.generate(SMALL, 0, data, ["json"], said.append)
    assert said == []


def test_a_damaged_copy_that_cannot_be_moved_aside_is_told_in_one_line(tmp_path, track):
    bundled = track / SMALL.parts()[0].file
    flip(bundled)
    (track / f"{SMALL.parts()[0].file}.damaged").mkdir()
    with pytest.raises(CorpusError, match=r"epoch-1.json\] is damaged and cannot be moved aside: Is a directory$"):
        prepared.generate(SMALL, 0, tmp_path / "data", [], lambda line: None)


def test_a_whole_epoch_is_not_written_again(tmp_path):
    path = SMALL.generate(0, tmp_path)
    before = path.stat().st_mtime_ns
    SMALL.generate(0, tmp_path)
    assert path.stat().st_mtime_ns == before


def test_a_killed_run_leaves_nothing_that_looks_whole_and_is_resumed(tmp_path):
    killed = (
        "import os, pathlib\n"
        "import cluster_metrics.corpus.metrics as c\n"
        "from cluster_metrics.corpus.metrics import Metrics\n"
        "made = c._write_rows\n"
        "def dying(*a):\n"
        "    yield next(made(*a))\n"
        "    os.kill(os.getpid(), 9)\n"
        f"{SMALL!r}.generate(0, pathlib.Path({str(tmp_path)!r}))\n"
        "c._write_rows = dying\n"
        f"{SMALL!r}.generate(1, pathlib.Path({str(tmp_path)!r}))\n"
    )
    assert subprocess.run([sys.executable, "-c", killed], cwd=ROOT, check=False).returncode == -9
    assert list(tmp_path.rglob("*.part")), "the run was not killed in the middle"
    assert [bool(SMALL.problems(number, tmp_path)) for number in (0, 1)] == [False, True]
    first = tmp_path / SMALL.parts()[0].file
    kept = first.stat().st_mtime_ns
    for number in (0, 1):
        SMALL.generate(number, tmp_path)
    assert not SMALL.problems(1, tmp_path)
    assert not list(tmp_path.rglob("*.part"))
    assert first.stat().st_mtime_ns == kept


def test_disk_too_small(tmp_path, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(CorpusError, match=r"needs 8,\d+ bytes .* free are 10$"):
        SMALL.generate(0, tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_write_error_in_the_middle(tmp_path):
    limited = (
        "import resource, signal, pathlib\n"
        "from cluster_metrics.corpus.metrics import Metrics\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"{SMALL!r}.generate(0, pathlib.Path({str(tmp_path)!r}))\n"
    )
    result = subprocess.run([sys.executable, "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "CorpusError: cannot write corpus cluster-metrics, file 1" in result.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_folder_not_writable(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CorpusError, match="Permission denied"):
        SMALL.generate(0, tmp_path)


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write corpus cluster-metrics, file 1 to .*: Not a directory"):
        SMALL.generate(0, tmp_path / "file")


def test_memory_stays_below_200_mb_at_full_size(tmp_path):
    code = (
        "import pathlib\n"
        "from cluster_metrics.corpus.metrics import Metrics\n"
        f"Metrics().generate(0, pathlib.Path({str(tmp_path)!r}))\n"
        "print(pathlib.Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 200e6


@pytest.mark.parametrize(
    "options, message",
    [
        (["cluster-metrics", "--nodes", "0"], "nodes is [0], allowed is an integer from 1 to 999"),
        (
            ["cluster-metrics", "--nodes", "999", "--tasks", "999"],
            "nodes times tasks are [998,001], allowed is up to 200,000",
        ),
        (["--processes", "0", "cluster-metrics"], "processes is [0], allowed is an integer from 1"),
    ],
)
def test_command_line_refuses_bad_input(tmp_path, options, message):
    command = [sys.executable, "generate_corpus.py", "--out", str(tmp_path), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"[ERROR] {message}\n"


BODY = {"settings": {"a": 1}, "mappings": {"dynamic": "strict", "properties": {"node": {"type": "keyword"}}}}
STAMPED = replace(SMALL, timestamps=True)
"""15 rows a sweep, so 7 sweeps an epoch."""


@pytest.mark.parametrize(
    "corpus, mode, settings, properties",
    [
        (SMALL, "standard", {}, {"node": {"type": "keyword"}}),
        (STAMPED, "standard", {}, {"node": {"type": "keyword"}, "@timestamp": {"type": "date"}}),
        (
            STAMPED,
            "time_series",
            {
                "index.mode": "time_series",
                "index.routing_path": ["node", "task"],
                "index.time_series.start_time": "2025-01-01T00:00:00Z",
                "index.time_series.end_time": "2025-01-01T00:00:14Z",
            },
            {
                "node": {"type": "keyword", "time_series_dimension": True},
                "task": {"time_series_dimension": True},
                **dict.fromkeys(("cpu", "mem", "net"), {"time_series_metric": "gauge"}),
                "@timestamp": {"type": "date"},
            },
        ),
        (
            STAMPED,
            "logsdb",
            {
                "index.mode": "logsdb",
                "index.sort.field": ["node", "@timestamp"],
                "index.sort.order": ["asc", "desc"],
            },
            {"node": {"type": "keyword"}, "@timestamp": {"type": "date"}},
        ),
    ],
)
def test_the_body_of_an_index_is_that_of_its_mode(corpus, mode, settings, properties):
    assert corpus.shape(BODY, {"index_mode": mode}) == {
        "settings": {"a": 1} | settings,
        "mappings": {"dynamic": "strict", "properties": properties},
    }


@pytest.mark.parametrize(
    "given, test_mode, rows",
    [
        ({"rows_per_epoch": 5000}, False, 5000),
        ({"rows_per_epoch": 5000}, True, 1000),
        ({"rows_per_epoch": 7}, True, 7),
        ({"rows_per_epoch": 0, "corpus_bytes": 83 * 2 * 4000}, False, 4000),
        ({"rows_per_epoch": 0, "corpus_bytes": 83 * 2 * 4000 - 1}, False, 3999),
        ({"rows_per_epoch": 0, "corpus_bytes": 83 * 2 * 4000}, True, 1000),
        ({"rows_per_epoch": 0, "corpus_bytes": 1}, False, 1),
    ],
)
def test_the_rows_of_an_epoch_are_those_given_or_what_the_bytes_hold_and_1000_at_most_in_test_mode(
    given, test_mode, rows
):
    values = {"nodes": 2, "tasks": 3, "epochs": 2, "seed": 7, "timestamps": False, "corpus_bytes": 0} | given
    assert Metrics(2, 3, 1, 2, 7).mean_row_bytes == 83
    assert Metrics.of(values, test_mode) == Metrics(2, 3, rows, 2, 7)
