"""Rally's own loader finds the files of a corpus where they were prepared: below the track, or among its data."""

import pytest
from esrally import config
from esrally.track import loader
from esrally.track.track import Challenge, DocumentCorpus, Documents, Operation, Task, Track

from cluster_metrics.corpus import prepared
from cluster_metrics.corpus.files import answers_file
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
    for number in range(2):
        prepared.generate(CORPUS, number, data / CORPUS.name, [], said.append)
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
