"""Rally's own loader finds the files of a corpus where they were prepared: below the track, or among its data."""

import pytest
from esrally import config, exceptions
from esrally.track import loader
from esrally.track.track import Challenge, DocumentCorpus, Documents, Operation, Task, Track
from fakes import track_of

from cluster_metrics.capacity.words import Words
from cluster_metrics.corpus import prepared
from cluster_metrics.corpus.files import Count, answers_file
from cluster_metrics.corpus.metrics import Metrics

CORPUS = Metrics(nodes=3, tasks=5, rows_per_epoch=101, epochs=2, seed=7)


def cut_short(path):
    """Rally itself raises on a bundled file of another size."""
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "whole": lambda path: None,
    "rows cut short": cut_short,
    "a flipped bit in the rows": flip,
    "answers cut short": lambda path: cut_short(answers_file(path)),
    "no answers": lambda path: answers_file(path).unlink(),
}


@pytest.fixture
def track(tmp_path, monkeypatch):
    """A track as Rally loads it, with the first epoch below its folder."""
    folder = tmp_path / "track"
    monkeypatch.setattr(prepared, "TRACK", folder)
    CORPUS.generate(0, folder)
    (folder / "track.json").write_text("{}")
    documents = Documents(source_format="bulk", document_file="x", number_of_documents=1, target_index=CORPUS.name)
    bulk = Operation("bulk", "bulk", params={"corpora": CORPUS.name, "bulk-size": 10})
    track = Track(
        name="track",
        corpora=[DocumentCorpus(CORPUS.name, [documents])],
        challenges=[Challenge("c", default=True, selected=True, schedule=[Task("bulk", bulk)])],
    )
    prepared.lay_out(track, CORPUS)
    return track


@pytest.mark.parametrize("damage", DAMAGES)
def test_rally_reads_what_was_prepared_and_nothing_damaged(tmp_path, track, damage):
    folder, data, said = tmp_path / "track", tmp_path / "data", []
    first, second = (part.file for part in CORPUS.parts())
    DAMAGES[damage](folder / first)
    cfg = config.Config()
    cfg.add(config.Scope.application, "benchmarks", "local.dataset.cache", str(data))
    cfg.add(config.Scope.application, "track", "track.path", str(folder))
    there = [prepared.is_there(CORPUS, number, data / CORPUS.name, []) for number in range(2)]
    assert there == [damage == "whole", False]
    for number in range(2):
        prepared.generate(CORPUS, number, data / CORPUS.name, [], said.append)
        assert prepared.is_there(CORPUS, number, data / CORPUS.name, [])
    preparator = loader.DefaultTrackPreparator()
    preparator.cfg, preparator.downloader, preparator.decompressor = cfg, loader.Downloader(True, False), None
    work = list(preparator.on_prepare_track(track, str(data)))
    assert work  # of each file, in esrally 2.12 of each corpus
    for function, arguments in work:
        function(**arguments)
    loader.set_absolute_data_path(cfg, track)
    used = prepared.Prepared(track, Metrics)
    assert used.file(0) == str((folder if damage == "whole" else data / CORPUS.name) / first)
    assert used.file(1) == str(data / CORPUS.name / second)
    fresh = [CORPUS.generate(number, tmp_path / "fresh") for number in range(2)]
    for number, path in enumerate(fresh):
        with open(used.file(number), "rb") as found:
            assert found.read() == path.read_bytes()
        assert used.answers(number)
    assert used.corpus == CORPUS
    assert ("is not used, it is now [epoch-1.json.damaged]" in said[0]) == (damage != "whole")


def corpus_of(corpus):
    """A corpus as Rally reads it from the track's JSON: with one document set."""
    documents = Documents("bulk", "x", number_of_documents=1, target_index=f"index-of-{corpus.name}")
    return DocumentCorpus(corpus.name, [documents])


def test_each_file_is_laid_out_as_a_document_set_with_its_size_where_that_is_known(tmp_path):
    words = Words(7)
    track = Track(name="track", corpora=[corpus_of(corpus) for corpus in (CORPUS, words)])
    for corpus in (CORPUS, words):
        prepared.lay_out(track, corpus)
    sizes = [CORPUS.generate(number, tmp_path).stat().st_size for number in range(2)]
    (folder,) = {part.file.rpartition("/")[0] for part in CORPUS.parts()}
    laid_out = [
        [(d.document_file, d.number_of_documents, d.uncompressed_size_in_bytes, d.meta_data) for d in c.documents]
        for c in track.corpora
    ]
    assert laid_out == [
        [(f"{folder}/epoch-{number}.json", 101, sizes[number - 1], {"epoch": number}) for number in (1, 2)],
        [(words.parts()[0].file, 7, None, {})],
    ]
    for corpus in (CORPUS, words):
        assert prepared.corpus_in(track, type(corpus)) == corpus
        assert prepared.index_of(track, corpus) == f"index-of-{corpus.name}"


def test_a_file_that_is_missing_here_is_named_with_what_to_do():
    track = Track(name="track", corpora=[corpus_of(CORPUS)])
    prepared.lay_out(track, CORPUS)
    track.corpora[0].documents[1].document_file = None
    used = prepared.Prepared(track, Metrics)
    assert used.file(0) == CORPUS.parts()[0].file
    with pytest.raises(exceptions.DataError, match=r"epoch-2.json of corpus cluster-metrics is missing on this load"):
        used.file(1)


def test_an_index_with_a_corpus_must_have_all_rows_and_those_of_each_node_and_epoch(tmp_path):
    counts = prepared.Prepared(track_of(CORPUS, root=tmp_path), Metrics).counts({})
    expected = [Count("", {"match_all": {}}, 202)]
    for epoch in (1, 2):
        for node, rows in (("N001", 34), ("N002", 34), ("N003", 33)):
            query = {"bool": {"filter": [{"term": {"node": node}}, {"term": {"epoch": epoch}}]}}
            expected.append(Count(f" of node {node} in epoch {epoch}", query, rows))
    assert counts == expected
