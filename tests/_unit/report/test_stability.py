"""What a report warns of."""

import math
from dataclasses import replace

import numpy as np
import pytest
from races import COSTS, made

from _tools.report import stability
from _tools.report.answer import RaceWarning
from _tools.report.race import Race, Sample
from _tools.report.stats import ENOUGH, autocorrelation, cv
from cluster_metrics.core.challenge import challenges
from cluster_metrics.esql.esql_stored_fields import QUERY
from cluster_metrics.ingest.load import EPOCH
from cluster_metrics.query._report.query_decomp import WHOLE, drift_check


def told(race, **options):
    (section,) = stability.sections(race, **options)
    return section.text


def spoiled(**meta):
    """A quiet race of which every sample's metadata is changed by functions of it."""
    race = made("x", spread=0.01, seed=7)
    for sample in race.samples:
        sample.meta.update({key: change(sample.meta) for key, change in meta.items() if "wall_ms" in sample.meta})
    return told(race)


def test_a_quiet_race_has_no_warnings():
    assert spoiled().startswith("- No warnings.")


@pytest.mark.parametrize(
    "meta, warning",
    [
        (
            {"wall_ms": lambda m: m["wall_ms"] * (1.2 if m["round"] % 2 else 1)},
            "noisy: in ",
        ),
        ({"wall_ms": lambda m: m["wall_ms"] * (1 + 0.004 * m["round"])}, "drift: configurations together change by +"),
        ({"wall_ms": lambda m: m["wall_ms"] * (1.5 if m["round"] == 3 else 1)}, "severe outliers (A-serial 1, "),
        ({"wall_ms": lambda m: m["wall_ms"] * (0.5 if m["round"] == 3 else 1)}, "severe outliers (A-serial 1, "),
        ({"client_ms": lambda m: 0.3 * m["wall_ms"]}, "the client used 30.0 % of A-serial's wall time"),
    ],
)
def test_a_spoiled_race_is_warned_of(meta, warning):
    assert f"- **Warning:** {warning}" in spoiled(**meta)


def test_a_warning_counts_the_configurations_that_it_is_of_and_names_the_worst():
    race = made("x", spread=0.01, seed=7)
    for sample in race.of("coverage"):
        part = {"A-serial": 0.5, "D_td-serial": 0.3}.get(sample.cell, 0.1)
        sample.meta["client_ms"] = part * sample.meta["wall_ms"]
        if sample.cell == "A-serial":
            sample.meta["wall_ms"] *= 1 + sample.meta["round"] % 2
    text = told(race)
    assert f"noisy: in 1 of {len(COSTS)} configurations, most in A-serial" in text
    assert "the client used 37.5 % of A-serial's wall time, and over 20.0 % of 1 more" in text
    assert {w.kind: w.value for w in stability.warnings(race)}["client"] == pytest.approx(0.375)


def test_a_client_that_was_busy_once_is_no_bottleneck():
    assert spoiled(client_ms=lambda m: (0.9 if m["round"] == 3 else 0.1) * m["wall_ms"]).startswith("- No warnings.")


def test_a_client_that_waits_is_no_bottleneck():
    assert spoiled(client_ms=lambda m: 0.1 * m["wall_ms"]).startswith("- No warnings.")
    assert spoiled(wall_ms=lambda m: 100.0, client_ms=lambda m: 20.0).startswith("- No warnings.")


def test_outliers_of_many_configurations_are_counted_and_not_named():
    for number, seen in ((6, "A 2, B 1, C 1, D 1, E 1, F 1"), (7, "8 in 7 of 8 configurations")):
        race = made("x", spread=0.01, seed=7, costs=dict.fromkeys("ABCDEFGH", 10.0))
        for sample in race.of("coverage"):
            hit = {3} if sample.cell in "ABCDEFGH"[:number] else set()
            if sample.meta["round"] in hit | ({5} if sample.cell == "A" else set()):
                sample.meta["wall_ms"] *= 1.5
        (warning,) = [w for w in stability.warnings(race) if w.kind == "outliers"]
        assert (warning.seen, warning.value) == (f"severe outliers ({seen})", number + 1)


def test_few_rounds_are_warned_of():
    assert "- **Warning:** 5 rounds are too few for a verdict; an interval" in told(made("x", rounds=5))
    assert stability.sections(made("x", rounds=0)) == []


def test_a_configuration_that_lost_rounds_is_warned_of_though_others_have_them():
    race = made("x", spread=0.01, seed=7)
    race.samples[:] = [s for s in race.samples if s.cell != "A-serial" or s.meta["round"] <= 17]
    assert "- **Warning:** 17 rounds are too few for a verdict; an interval" in told(race)


def test_few_rounds_are_not_noisy_for_being_few():
    few = told(made("x", rounds=5, spread=0.04, seed=1))
    assert "too few for a verdict" in few and "noisy:" not in few


def test_a_check_of_the_challenge_is_a_warning_if_it_says_so():
    quiet = made("x", spread=0.01, seed=7)
    warning = RaceWarning("drift", "it drifts", "wait", "it matters", 0.1)
    assert "- **Warning:** it drifts; it matters; wait\n" in told(quiet, check=warning)
    passed = told(quiet, check="it stays")
    assert passed.startswith("- No warnings.") and "- it stays\n" in passed


@pytest.mark.parametrize(
    "last, drifted, said", [(1.04, False, "+4.0 %"), (1.06, True, "+6.0 %"), (0.9, True, "−10.0 %")]
)
def test_drift_check_of_first_against_last_pass(last, drifted, said):
    samples = []
    for number, wall in ((1, 100.0), (2, 500.0), (3, 100.0 * last)):
        sample = Sample("query-cell", 0, WHOLE, wall, {"pass": number, "wall_ms": wall})
        samples += [sample, sample]
    found = drift_check(Race({}, samples, {}))
    assert isinstance(found, RaceWarning) is drifted
    assert said in (found.text if isinstance(found, RaceWarning) else found)


def test_one_pass_has_no_drift_check():
    sample = Sample("query-cell", 0, WHOLE, 1.0, {"pass": 1, "wall_ms": 1.0})
    assert drift_check(Race({}, [sample], {})) == ""


def test_more_rounds_are_the_advice_against_noise_but_not_against_a_drift():
    noisy = told(made("x", spread=0.1, seed=3))
    assert "race longer: rounds:" in noisy and "(the rounds' CV is 1" in noisy and "- no drift: " in noisy
    drifting = spoiled(wall_ms=lambda m: m["wall_ms"] * 0.9 ** m["round"])
    assert "noisy:" in drifting and "rounds:" not in drifting
    assert "configurations together change by −8" in drifting
    mild = spoiled(wall_ms=lambda m: m["wall_ms"] * (1 + 0.02 * m["round"]))
    assert "noisy:" in mild and "raise warmup_iterations until this goes" in mild and "rounds:" not in mild


def test_the_rounds_that_are_advised_are_those_that_the_base_needs_up_to_200_of_them():
    """Half of the rounds are so much above a level and half as much below it."""
    for off, advice in ((0.152, "race longer: rounds:200 for D_td-serial (15.6 %)"), (0.156, "race each side 5 times")):
        race = made("x")
        for sample in race.of("coverage"):
            apart = off if sample.cell == WHOLE else 2 * off
            sample.meta["wall_ms"] = 100 * (1 + apart * (-1) ** sample.meta["round"])
        (noisy,) = [w for w in stability.warnings(race) if w.kind == "noisy"]
        assert advice in noisy.option and "in 3 of 3 configurations, most in A-serial" in noisy.seen
        assert noisy.value == pytest.approx(2 * off * math.sqrt(20 / 19))


def test_neither_more_units_nor_a_warm_up_is_advised_for_a_load():
    race = made("x", spread=0.09, seed=5, costs={EPOCH: 20.0}, document={"challenge": "ingest"})
    samples = [replace(s, kind=EPOCH, meta=s.meta | {"target_cpu_ms": 1.0}) for s in race.of("coverage")]
    (noisy,) = [w for w in stability.warnings(replace(race, samples=samples)) if w.kind == "noisy"]
    assert noisy.option == "close what else runs on the machine, or race each side 5 times under a tag of its own"
    for sample in samples:
        sample.meta["wall_ms"] = 100 + 0.1 * sample.meta["round"]
    assert [(w.kind, w.option) for w in stability.warnings(replace(race, samples=samples))] == [
        ("drift", "read them one by one: a load has no warm-up")
    ]


def test_the_advice_names_the_parameter_of_the_challenge():
    race = made("x", spread=0.1, seed=3, costs={"100%": 20.0}, document={"challenge": "esql-stored-fields"})
    samples = [replace(sample, kind=QUERY) for sample in race.of("coverage")]
    assert "race longer: esql_rounds:" in told(replace(race, samples=samples))


@pytest.mark.parametrize("spread, rounds", [(0.05, 20), (0.1, 80), (0.15, 180)])
def test_rounds_needed_grow_with_the_square_of_the_spread(spread, rounds):
    assert stability.rounds_needed(spread, ENOUGH) in (rounds, rounds + 1)


def test_without_a_spread_no_round_is_needed():
    assert stability.rounds_needed(math.nan, ENOUGH) == 0


def test_more_rounds_bear_more_noise():
    short, long = (told(made("x", spread=0.06, rounds=n, seed=1)) for n in (20, 80))
    assert "noisy:" in short and "noisy:" not in long
    hopeless = told(made("x", spread=0.5, seed=3))
    assert "rounds:" not in hopeless and "race each side 5 times under a tag of its own" in hopeless


def test_what_a_round_shares_leaves_the_ratios_steady():
    race = made("x", spread=0.01)
    for sample in race.of("coverage"):
        sample.meta["wall_ms"] *= 1 + sample.meta["round"] % 3
    (table,) = stability.sections(race)[0].tables
    spread = {row["cell"]: row for row in table.rows}
    assert min(row["cv"] for row in spread.values()) > 0.3
    assert "cv_ratio" not in spread[WHOLE]
    walls = {c: np.array([s.meta["wall_ms"] for s in race.of("coverage") if s.cell == c]) for c in ("A-serial", WHOLE)}
    assert spread["A-serial"]["resembling"] == autocorrelation(walls["A-serial"] / walls[WHOLE])
    assert spread["A-serial"]["cv_ratio"] == cv(walls["A-serial"] / walls[WHOLE])
    assert max(row["cv_ratio"] for name, row in spread.items() if name != WHOLE) < 0.03
    assert spread["A-serial"]["median"] == np.median([s.meta["wall_ms"] for s in race.of("coverage")[::3]])


def test_few_epochs_of_one_ingest_are_no_reason_to_race_longer():
    assert stability.too_few(challenges()["ingest"].compared, 1) == []
    (found,) = stability.too_few(challenges()["query-decomp"].compared, 1)
    assert found.seen == "1 round is too few for a verdict" and found.option == "race with rounds:20 or more"


def test_each_check_is_a_line_of_its_own_and_one_that_was_not_made_is_none():
    no_warnings, no_drift, *others = spoiled().splitlines()
    assert no_warnings == "- No warnings." and no_drift.startswith("- no drift: ")
    assert not any(line.startswith("-") for line in others)


def test_samples_without_a_wall_time_say_nothing_of_the_client():
    race = made("x", spread=0.01, seed=7)
    race.samples.extend(
        Sample("query-plan", 1, "plan", 1.0, {"client_ms": 9.0} | wall) for wall in ({}, {"wall_ms": 0})
    )
    assert stability.warnings(race) == []


def test_the_spread_is_told_with_its_outliers():
    race = made("x", spread=0.01, seed=7)
    for sample in race.of("coverage"):
        sample.meta["wall_ms"] *= {3: 1.5, 5: 1 / 1.5}.get(sample.meta["round"], 1)
    (table,) = stability.sections(race)[0].tables
    assert [column.key for column in table.columns] == list(table.rows[0])
    assert all((row["n"], row["low_severe"], row["high_severe"]) == (20, 1, 1) for row in table.rows)


def test_four_rounds_show_no_drift_and_no_lack_of_one():
    for rounds, told_of in ((4, False), (5, True)):
        assert ("drift" in told(made("x", rounds=rounds, spread=0.01))) is told_of
