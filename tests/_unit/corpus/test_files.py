"""Files of a corpus: damaged ones are named and never read, and each is written by one process at a time."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import track_of

from cluster_metrics.capacity.words import Words
from cluster_metrics.core.challenge import corpora
from cluster_metrics.corpus import files, loglines
from cluster_metrics.corpus.encoded import encoded_file, generate_bodies
from cluster_metrics.corpus.files import CorpusError, answers_file, load_answers, locked, problems, seal_of
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.corpus.prepared import Prepared
from cluster_metrics.esql.text_values import TextValues
from cluster_metrics.ingest.weblogs import WebLogs

ROOT = Path(__file__).parents[3]
SMALL = Metrics(nodes=3, tasks=5, rows_per_epoch=101, epochs=2, seed=7)
SLOW = Metrics(rows_per_epoch=400_000, epochs=1)
EXAMPLES = [SMALL, TextValues(documents=60, values=6, order="random"), Words(20), WebLogs(64)]


def flip_a_digit(path):
    """Another count, in a file of the same size."""
    text = path.read_text()
    at = re.search(r'"count": (\d)', text).start(1)
    path.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")


@pytest.mark.parametrize("kind", corpora().values(), ids=lambda kind: kind.name)
def test_the_readme_shows_the_first_document_of_each_corpus(kind):
    section = (ROOT / "corpora" / "README.md").read_text().split(f"\n## {kind.name}\n")[1].split("\n## ")[0]
    shown = re.search(r'\{".*\}', section)[0]
    first = bytes(next(iter(kind().made(0)[0]))).split(b"\n", 1)[0].decode()
    assert re.fullmatch(".*".join(map(re.escape, shown.split("…"))), first)


def test_the_readme_counts_what_the_web_log_is_drawn_from():
    clients, *others = [len(set(table)) for table in loglines._tables(42)]
    section = (ROOT / "corpora" / "README.md").read_text().split("\n## weblogs\n")[1].split("\n## ")[0]
    requests, endings, statuses, referrers, browsers = others
    assert round(clients, -2) == 1500 and "about 1,500 clients" in section
    assert f"{requests} methods and paths by 65,536 ids and {endings} endings, {statuses} statuses" in section
    assert f"{referrers} referrers and {browsers} browsers" in section


DAMAGES = {
    "a flipped digit": flip_a_digit,
    "an empty array": lambda path: path.write_text("[]"),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "empty": lambda path: path.write_bytes(b""),
    "not text": lambda path: path.write_bytes(b"\xff" * 100),
    "sha256 empty": lambda path: seal_of(path).write_bytes(b""),
    "sha256 not text": lambda path: seal_of(path).write_bytes(b"\xff\xfe"),
    "sha256 missing": lambda path: seal_of(path).unlink(),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_answers_are_named_and_made_anew(tmp_path, damage):
    said = []
    path = answers_file(SMALL.generate(0, tmp_path))
    whole = path.read_bytes()
    DAMAGES[damage](path)
    SMALL.generate(0, tmp_path, said.append)
    assert said[0] == f"[{path}] is {'missing' if damage == 'missing' else 'damaged'} and is made anew"
    assert path.read_bytes() == whole and not SMALL.problems(0, tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_race_that_reads_damaged_answers_ends_with_one_line(tmp_path, damage):
    track = track_of(SMALL, root=tmp_path)
    path = answers_file(track.corpora[0].documents[0].document_file)
    prepared = Prepared(track, Metrics)
    assert prepared.answers(1)
    DAMAGES[damage](path)
    with pytest.raises(exceptions.DataError) as refused:
        prepared.answers(0)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).endswith("; race again, which makes them anew")


def test_damaged_bodies_are_named(tmp_path):
    said = []
    rows_file = SMALL.generate(0, tmp_path)
    generate_bodies(SMALL, 0, "json", rows_file, said.append)
    assert said == []
    path = encoded_file(rows_file, "json")
    path.write_bytes(path.read_bytes()[:-1])
    generate_bodies(SMALL, 0, "json", rows_file, said.append)
    assert said == [f"[{path}] is damaged and is made anew"]


def test_there_is_an_example_of_every_corpus():
    assert {type(example) for example in EXAMPLES} == set(corpora().values())


@pytest.mark.parametrize("corpus", EXAMPLES, ids=lambda corpus: corpus.name)
def test_a_corpus_is_that_of_its_parameters_and_whole_once_it_is_made(tmp_path, corpus):
    kind, given = type(corpus), corpus.sizes()
    assert given == {parameter.name: getattr(corpus, name) for name, parameter in corpus.parameters.items()}
    assert kind.of(given, test_mode=False) == corpus and kind.of({}, test_mode=False) == kind()
    said = []
    for _ in range(2):
        corpus.generate(0, tmp_path, said.append)
    assert len(said) == 1 and corpus.problems(0, tmp_path) == []


@pytest.mark.parametrize("kind, counted", [(Metrics, "rows_per_epoch"), (Words, "documents"), (WebLogs, "documents")])
def test_test_mode_bounds_the_documents_of_a_file_and_leaves_fewer(kind, counted):
    for documents, bounded in ((64, 64), (30_000, 1000)):
        given = replace(kind(), **{counted: documents}).sizes()
        assert kind.of(given, test_mode=True) == replace(kind(), **{counted: bounded})


@pytest.mark.parametrize("corpus", EXAMPLES, ids=lambda corpus: corpus.name)
def test_no_parameter_that_changes_a_corpus_finds_the_files_of_another(tmp_path, corpus):
    corpus.generate(0, tmp_path)
    for field, parameter in corpus.parameters.items():
        before = getattr(corpus, field)
        other = next((c for c in getattr(parameter, "choices", ()) if c != before), None)
        # twice as many keep the documents a multiple of their values
        more = not before if isinstance(before, bool) else before // 2 if field == "values" else before * 2
        changed = replace(corpus, **{field: other or more}).check()
        found, fresh = (changed.generate(0, root) for root in (tmp_path, tmp_path / field))
        assert found.read_bytes() == fresh.read_bytes(), f"{field} is no part of the folder's hash"
        assert load_answers(found) == load_answers(fresh), f"{field} is no part of the folder's hash"


GENERATE = """
import os, signal, sys, time
from pathlib import Path
import cluster_metrics.corpus.metrics as metrics
from cluster_metrics.corpus.encoded import generate_bodies
from cluster_metrics.corpus.metrics import Metrics

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let jobs in the background inherit another
made = metrics._write_rows
def pausing(*arguments):
    for block in made(*arguments):
        yield block
        print("writes", flush=True)
        time.sleep(float(sys.argv[2]))

metrics._write_rows = pausing
corpus, root = {corpus!r}, Path(sys.argv[1])
rows = corpus.generate(0, root, lambda line: print(line, flush=True))
generate_bodies(corpus, 0, "json", rows, lambda line: print(line, flush=True))
"""


def generator(root, pause):
    """A process that generates a corpus with its bodies, and rests after each of its blocks."""
    command = [sys.executable, "-c", GENERATE.format(corpus=SLOW), str(root), str(pause)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def said_by(process):
    return process.communicate(timeout=60)[0].splitlines()


def test_of_several_generators_one_writes_and_the_others_wait_for_it(tmp_path):
    said = [said_by(process) for process in [generator(tmp_path, 0.2) for _ in range(4)]]
    rows_file = tmp_path / SLOW.parts()[0].file
    assert not SLOW.problems(0, tmp_path) and problems(encoded_file(rows_file, "json")) == []
    lines = [line for lines in said for line in lines]
    blocks = 2  # of 200,000 rows and a little more
    assert lines.count("writes") == 2 * blocks, "rows and bodies are written once each"
    assert sum("rows in" in line for line in lines) == 1
    assert any("being written by another process, which is waited for" in line for line in lines)
    assert not list(tmp_path.rglob("*.part"))


def test_a_late_generator_leaves_what_a_race_reads(tmp_path):
    first = generator(tmp_path, 0.5)
    assert first.stdout.readline() == "writes\n"
    late = generator(tmp_path, 0)
    assert "is waited for" in late.stdout.readline()
    assert first.wait(timeout=60) == 0
    answers = answers_file(tmp_path / SLOW.parts()[0].file)
    inode = answers.stat().st_ino
    while late.poll() is None:
        assert load_answers(tmp_path / SLOW.parts()[0].file)
    assert late.returncode == 0 and answers.stat().st_ino == inode


@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_holder_of_the_lock_blocks_nobody(tmp_path, ends):
    holder = generator(tmp_path, 60)
    assert holder.stdout.readline() == "writes\n"
    heir = generator(tmp_path, 0)
    assert "is waited for" in heir.stdout.readline()
    time.sleep(0.3)
    assert heir.poll() is None and SLOW.problems(0, tmp_path)
    os.kill(holder.pid, ends)
    assert holder.wait() == -ends
    assert any("rows in" in line for line in said_by(heir)) and heir.returncode == 0
    assert not SLOW.problems(0, tmp_path) and not list(tmp_path.rglob("*.part"))


def test_what_a_killed_holder_left_is_no_part_of_the_next_file(tmp_path):
    path = tmp_path / SMALL.parts()[0].file
    path.parent.mkdir(parents=True)
    (path.parent / "epoch-1.json.part").write_bytes(b"x" * 10**6)
    SMALL.generate(0, tmp_path)
    assert not SMALL.problems(0, tmp_path) and not list(tmp_path.rglob("*.part"))


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / SMALL.parts()[0].file
    victim.write_text("kept")
    path.parent.mkdir(parents=True)
    (path.parent / "epoch-1.json.part").symlink_to(victim)
    with pytest.raises(CorpusError, match="^cannot write corpus cluster-metrics, file 1 to"):
        SMALL.generate(0, tmp_path)
    assert victim.read_text() == "kept"


def test_the_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ValueError), locked(tmp_path / "file", print):
        raise ValueError
    with locked(tmp_path / "file", print) as (part, out):
        out.write(json.dumps({}).encode())
    assert not part.exists()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of 12 MB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", tmp_path], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_disk_that_is_full_meanwhile_leaves_no_file_that_is_taken_for_whole(small_disk):
    corpus = Metrics(rows_per_epoch=100_000, epochs=2)  # 9 MB each, for one of which there is room
    command = [sys.executable, ROOT / "generate_corpus.py", f"--out={small_disk}", "--processes=2", corpus.name]
    command += [f"--rows-per-epoch={corpus.rows_per_epoch}", f"--epochs={corpus.epochs}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    *progress, error = ended.stderr.splitlines()  # the other file may have been made before
    assert ended.returncode == 1 and all(line.startswith("corpus ") for line in progress), ended.stderr
    assert re.fullmatch(r"\[ERROR\] .* (disk full|free are .*)", error), ended.stderr
    assert sum(not corpus.problems(number, small_disk) for number in range(2)) < 2
    for file in small_disk.rglob("*.json"):
        assert seal_of(file).exists(), "what has its name is whole"
    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert not any(corpus.problems(number, small_disk) for number in range(2))
    assert not list(small_disk.rglob("*.part*"))


def test_a_file_that_takes_long_says_every_ten_seconds_how_much_of_it_is_there(tmp_path, monkeypatch):
    seconds = iter([0, 4, 10, 11, 15, 21.5, 30])  # at the start and after each block
    monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    said = []
    files.write_whole(tmp_path / "file", 60, [b"x" * 10] * 6, "it", said.append)
    assert said == ["it: 50 % of 60 bytes", "it: 83 % of 60 bytes"]
    assert (tmp_path / "file").read_bytes() == b"x" * 60 and not problems(tmp_path / "file", 60)


@pytest.mark.parametrize("free, fits", [(60, True), (59, False)])
def test_a_file_is_written_where_the_disk_has_room_for_just_that(tmp_path, monkeypatch, free, fits):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    refused = contextlib.nullcontext() if fits else pytest.raises(CorpusError, match="needs 60 bytes .* free are 59$")
    with refused:
        files.write_whole(tmp_path / "file", 60, [b"x" * 60], "it")
    assert [path.name for path in sorted(tmp_path.iterdir())] == (["file", "file.sha256"] if fits else [])


def test_a_file_has_its_sha256_before_it_has_its_name(tmp_path, monkeypatch):
    path, renamed = tmp_path / "file", []

    def replace(part, to):
        renamed.append((part.read_bytes(), seal_of(path).exists(), path.exists()))
        os.rename(part, to)

    monkeypatch.setattr(files.os, "replace", replace)
    files.write_whole(path, 60, [b"x" * 60], "it")
    assert renamed == [(b"x" * 60, True, False)] and not problems(path)


@pytest.mark.parametrize("size, found", [(None, False), (60, False), (61, True)])
def test_a_file_of_another_size_than_it_should_have_is_damaged(tmp_path, size, found):
    files.write_whole(tmp_path / "file", 60, [b"x" * 60], "it")
    assert problems(tmp_path / "file", size) == ([f"[{tmp_path / 'file'}] is damaged"] if found else [])
