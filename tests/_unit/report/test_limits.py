"""What a report says that its race does not show, line by line."""

from dataclasses import replace

import pytest
from races import TARGET, made

from _tools.report import limits

NODES = [TARGET, TARGET | {"node": "target-2", "cores": 4, "heap_mb": 2048}]
PARAMETERS = {"number_of_shards": 1, "warmup_iterations": 3, "force_merge_max_num_segments": 1, "rounds": 40}


def lines(race):
    return limits.section(race).text.removeprefix("- ").rstrip("\n").split("\n- ")


@pytest.mark.parametrize(
    "rounds, minutes, said",
    [
        (5, {}, ["Intervals come from 5 rounds of one race: "]),
        (6, {"race_minutes": 10}, ["Intervals come from 6 rounds", "6 rounds of 40, cut to fit 10 minutes (`race_"]),
    ],
)
def test_every_limit_has_a_line_of_its_own(rounds, minutes, said):
    race = made("x", rounds=rounds, target=NODES, parameters=PARAMETERS | minutes)
    warmed = replace(race.of("coverage")[0], meta=race.of("coverage")[0].meta | {"round": 0})
    found = lines(replace(race, samples=[*race.samples, warmed]))
    begins = [
        "One primary shard: ",
        "The index was force-merged and has 1 segment; ",
        "Warm caches: 3 coverages of each cell in each pass ran uncounted at first. ",
        "The corpus is generated, 5,000 documents in 1 MB: ",
        "2 nodes with 6 cores in all and a heap of 1,024 MB, 2,048 MB each: ",
        "Whether the load driver ran on the target's machine is not recorded. ",
        *said,
        "The samples were taken within ",
    ]
    assert [line[: len(begin)] for line, begin in zip(found, begins)] == begins and len(found) == len(begins)
    few = [line.endswith("The median of fewer than 6 rounds has none.") for line in found]
    assert any(few) is (rounds < 6)


def test_the_heap_of_one_node_is_its_own():
    assert any(line.startswith("1 node with 2 cores in all and a heap of 1,024 MB: ") for line in lines(made("x")))


def test_the_time_within_which_samples_were_taken_is_in_minutes_whatever_their_order():
    race = made("x", rounds=3)
    at = {1: 90_000, 2: 30_000, 3: 60_000}
    race = replace(race, samples=[replace(s, at=at[s.meta["round"]]) for s in race.samples])
    assert lines(race)[-1].startswith("The samples were taken within 1.0 minutes; ")


def test_a_race_that_was_not_recorded_has_no_line_on_its_samples():
    given = {"race_minutes": 10, "rounds": 40}
    (line,) = lines(replace(made("x"), samples=[], target=[], index={}, parameters=given))
    assert line.startswith("Whether the load driver ran")


def test_samples_of_no_round_have_a_time_and_no_intervals():
    race = made("x", rounds=1)
    race = replace(race, samples=[replace(s, kind="query-cell", meta={"pass": 1}) for s in race.samples])
    found = lines(race)
    assert found[-1].startswith("The samples were taken within 0.0 minutes; ")
    assert not any(line.startswith("Intervals come from") for line in found)
