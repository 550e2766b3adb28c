"""The sampler of a race: whose it is, where its recordings go, and that they are read however the race ends."""

import contextlib
import json
from types import SimpleNamespace

import elasticsearch
import pytest

from _tools.race import clusters, rally
from _tools.race.variables import VARIABLES, RaceError

NOWHERE = elasticsearch.ConnectionError("Connection refused")


@pytest.fixture
def sampled(monkeypatch, tmp_path):
    """Samples a race of cpu-profile that is interrupted; returns what was done, in order."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CHALLENGE", "cpu-profile")
    monkeypatch.setattr(rally, "PROFILES", tmp_path)

    def sampled(attached, problem=""):
        done = []

        @contextlib.contextmanager
        def served(control):
            yield f"host:{control.sampler}:{control.problem}"
            done.append("no longer served")

        def convert(folder, downloads):
            done.append(("converted", folder, downloads))
            return problem

        monkeypatch.setattr(clusters, "attached", lambda ask, launcher, kept: done.append(kept) or attached())
        monkeypatch.setattr(clusters.recording, "prepare", lambda downloads: done.append(("prepared", downloads)))
        monkeypatch.setattr(clusters.recording, "convert", convert)
        monkeypatch.setattr(clusters, "served", served)
        launcher = SimpleNamespace(downloads=tmp_path / "downloads")
        with (
            pytest.raises(KeyboardInterrupt),
            clusters.sampled(launcher, "127.0.0.1:1", "", "rounds:2", "x") as params,
        ):
            done.append(json.loads(params))
            raise KeyboardInterrupt
        return done

    return sampled


def test_recordings_of_a_race_are_in_a_folder_of_its_own_and_read_however_it_ends(sampled, tmp_path, capsys):
    done = sampled(lambda: "sampler", "the recordings were not read")
    folder, downloads = tmp_path / "x", tmp_path / "downloads"
    began = [folder, ("prepared", downloads), {"rounds": 2, "sampler": "host:sampler:"}]
    assert [of for of in done if of != "no longer served"] == [*began, ("converted", folder, downloads)]
    assert capsys.readouterr().out == "the recordings were not read\n"


def test_nothing_is_read_where_nothing_was_recorded(sampled, tmp_path, capsys):
    def refused():
        raise clusters.SamplerError("node a runs elsewhere")

    assert sampled(refused) == [tmp_path / "x", {"rounds": 2, "sampler": "host:None:node a runs elsewhere"}]
    assert capsys.readouterr().out == "no CPU profile, the race goes on without: node a runs elsewhere\n"


@pytest.mark.parametrize(
    "answer, refused",
    [(None, None), (elasticsearch.AuthorizationException, None), (elasticsearch.AuthenticationException, "401")]
    + [(NOWHERE, "Connection refused")],
)
def test_a_store_answers_soon_and_lets_us_in_or_is_refused(monkeypatch, tmp_path, answer, refused):
    def info():
        if isinstance(answer, type):
            raise answer("no", SimpleNamespace(status=401), {"error": "401"})
        if answer:
            raise answer

    def options(**given):
        assert given == {"request_timeout": 10, "max_retries": 0}
        return SimpleNamespace(info=info)

    monkeypatch.setattr(clusters, "connect", lambda ini: SimpleNamespace(options=options))
    said = pytest.raises(RaceError, match=f"^the metrics store does not answer: .*{refused}.*; see STORE and INI$")
    with said if refused else contextlib.nullcontext():
        clusters.check_store(tmp_path)
