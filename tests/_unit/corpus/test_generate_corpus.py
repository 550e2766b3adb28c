"""The command line of the corpora makes what its options say, where they say."""

import contextlib
import multiprocessing
import sys
from types import SimpleNamespace

import pytest

import generate_corpus
from cluster_metrics.corpus.encoded import encoded_file
from cluster_metrics.corpus.files import CorpusError, problems
from cluster_metrics.corpus.metrics import Metrics

GIVEN = ["--nodes=2", "--tasks=3", "--rows-per-epoch=20", "--epochs=2", "--seed=7"]
CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=20, epochs=2, seed=7)


@pytest.fixture
def generate(monkeypatch):
    """Runs the command line in this process; gives how many it would have taken."""
    taken = []

    def pool(processes):
        taken.append(processes)
        return contextlib.nullcontext(SimpleNamespace(imap=map))

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["generate_corpus.py", *options])
        generate_corpus.main()
        return taken.pop()

    monkeypatch.setattr(multiprocessing, "cpu_count", lambda: 3)
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: SimpleNamespace(Pool=pool))
    return run


@pytest.mark.parametrize("options, timestamps", [([], False), (["--timestamps"], True)])
def test_the_corpus_is_that_of_the_options_and_its_files_are_named(tmp_path, generate, capsys, options, timestamps):
    generate(f"--out={tmp_path}", "cluster-metrics", *GIVEN, *options)
    corpus = Metrics(nodes=2, tasks=3, rows_per_epoch=20, epochs=2, seed=7, timestamps=timestamps)
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / part.file) for part in corpus.parts()]
    assert [corpus.problems(number, tmp_path) for number in range(2)] == [[], []]
    assert not list(tmp_path.rglob("*.bulk-*"))


def test_bodies_are_made_in_each_encoding_that_is_named(tmp_path, generate):
    generate(f"--out={tmp_path}", "cluster-metrics", *GIVEN, "--bodies", "json", "smile-64")
    for part in CORPUS.parts():
        assert [problems(encoded_file(tmp_path / part.file, name)) for name in ("json", "smile-64")] == [[], []]
        assert not encoded_file(tmp_path / part.file, "smile-32").exists()


def test_without_options_it_is_the_default_corpus_below_the_track(tmp_path, generate, monkeypatch):
    made = []
    monkeypatch.setattr(generate_corpus, "__file__", str(tmp_path / "generate_corpus.py"))
    monkeypatch.setattr(generate_corpus, "_generate", lambda *given: made.append(given))
    assert generate("cluster-metrics") == 3
    assert made == [(Metrics(), tmp_path, [], number) for number in range(Metrics().epochs)]


def test_there_are_no_more_processes_than_files_and_than_is_said(tmp_path, generate):
    for processes, taken in ((1, 1), (2, 2), (9, 2)):
        assert generate(f"--out={tmp_path}", f"--processes={processes}", "cluster-metrics", *GIVEN) == taken


def test_a_corpus_that_cannot_be_made_ends_it_with_an_error(tmp_path, generate, monkeypatch):
    def failing(*_):
        raise CorpusError("disk full")

    monkeypatch.setattr(generate_corpus, "_generate", failing)
    with pytest.raises(SystemExit) as ended:
        generate(f"--out={tmp_path}", "cluster-metrics", *GIVEN)
    assert ended.value.code == "[ERROR] disk full"
