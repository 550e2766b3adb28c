"""The sampler of a race: whose it is, where its recordings go, and that they are read however the race ends."""

import contextlib
import json
from types import SimpleNamespace

import elasticsearch
import pytest
import requests

from _tools.race import clusters, rally
from _tools.race.variables import RaceError

NOWHERE = elasticsearch.ConnectionError("Connection refused")


@pytest.fixture
def sampled(given, monkeypatch, tmp_path):
    """Samples a race of cpu-profile that is interrupted; returns what was done, in order."""
    given(CHALLENGE="cpu-profile")
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


def test_a_race_whose_target_cannot_be_sampled_goes_on_and_tells_its_runner_why(given, capsys):
    given(CHALLENGE="cpu-profile")
    with clusters.sampled(None, "127.0.0.1:1", "", "rounds:2", "none") as params:
        found = json.loads(params)
        with requests.post(f"http://{found['sampler']}/start", timeout=5) as answer:
            told = answer.json()
    said = capsys.readouterr().out
    assert found["rounds"] == 2 and told["pids"] == [] and "Connection" in told["problem"]
    assert said == f"no CPU profile, the race goes on without: {told['problem']}\n"


@pytest.mark.parametrize(
    "challenge, params, profile, gets",
    [
        ("query-decomp", "rounds:2", "0", False),
        ("cpu-profile", "sampler:none", "0", False),
        ("cpu-profile", "rounds:2", "0", True),
        ("ingest-decomp", "rounds:2", "0", False),
        ("ingest-decomp", "rounds:2", "1", True),
    ],
)
def test_only_a_race_that_needs_a_sampler_gets_one_unless_one_is_named(given, challenge, params, profile, gets):
    given(CHALLENGE=challenge, PROFILE=profile)
    with clusters.sampled(None, "127.0.0.1:1", "", params, "none") as found:
        assert (found != params) == gets


def test_a_profile_of_a_challenge_that_has_none_is_refused(given):
    given(CHALLENGE="ingest", PROFILE="1")
    with pytest.raises(RaceError, match=r"^PROFILE is \[1\], but ingest has no samples .*; .*ingest-decomp.* have$"):
        clusters.takes_sampler()
