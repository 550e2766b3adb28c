"""What sampling costs, of times whose ratios are known."""

import pytest
from fakes import rows
from races import made

from _tools.report.race import Sample
from _tools.report.sampling_cost import cost, sections
from cluster_metrics.query._report.cpu_profile import HOW

MS = (400.0, 100.0, 700.0, 200.0, 600.0, 300.0, 500.0)
SLOWED = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)


def raced(*left_out):
    """A race in which the sampler slows A by some factors and B by four times these; CPU time by the half of all.

    :param left_out: kind, configuration, round and key of what was not recorded; without a key the whole sample.
    """
    race = made("cpu", document={"challenge": "cpu-profile"})
    race.samples[:] = []
    for number, (ms, factor) in enumerate(zip(MS, SLOWED), 1):
        for name, times in (("A", 1), ("B", 4)):
            for kind, slowed in ((HOW.plain, 1.0), (HOW.sampled, times * factor)):
                meta = {"round": number, "wall_ms": ms * slowed, "target_cpu_ms": ms * (1 + slowed) / 2}
                for key in [key for *what, key in left_out if what == [kind, name, number]]:
                    meta.pop(key, None)
                if (kind, name, number, "") not in left_out:
                    race.samples.append(Sample(kind, number, name, 1.0, meta))
    return race


def test_the_cost_of_all_is_the_geometric_mean_within_a_round_and_the_median_over_rounds():
    whole = cost(raced(), HOW, "wall_ms")
    assert (whole.n, whole.value) == (7, pytest.approx(2 * 1.3))
    found = rows(sections(raced(), HOW), "cost")
    assert found["A"]["wall_ms plain"].value == found["B"]["wall_ms plain"].value == 400
    walls = {name: row["wall_ms"].value for name, row in found.items()}
    assert walls == pytest.approx({"A": 1.3, "B": 5.2, "geometric mean": 2.6})
    assert [found[name]["target_cpu_ms"].value for name in "AB"] == pytest.approx([1.15, 3.1])


@pytest.mark.parametrize("kind", [HOW.plain, HOW.sampled])
def test_a_round_that_one_side_lacks_is_in_no_ratio_of_its_configuration(kind):
    race = raced((kind, "B", 7, ""))
    found = rows(sections(race, HOW), "cost")
    assert [(found[n]["wall_ms"].n, found[n]["wall_ms"].value) for n in found] == [
        (7, pytest.approx(1.3)),
        (6, pytest.approx(4 * 1.25)),
        (6, pytest.approx(2 * 1.25)),
    ]


@pytest.mark.parametrize("kind", [HOW.plain, HOW.sampled])
def test_a_time_that_was_not_recorded_in_a_round_leaves_the_others_and_no_cost_of_all(kind):
    race = raced((kind, "A", 7, "target_cpu_ms"))
    found = rows(sections(race, HOW), "cost")
    assert [found[name]["target_cpu_ms"].n for name in "AB"] == [6, 7] and found["A"]["wall_ms"].n == 7
    assert "target_cpu_ms" not in found["geometric mean"] and found["geometric mean"]["wall_ms"].n == 7
