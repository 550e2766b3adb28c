"""Which passes of a capacity race count, and what is said of those that do not."""

import json
import re
from dataclasses import replace

import pytest
from capacities import falling, holds, made, row, sections, text_of

from _tools.report.answer import answer_of
from _tools.report.cells import compared_in
from _tools.report.race import Sample
from _tools.report.write import sheets
from cluster_metrics.capacity._report import cells as capacity_cells
from cluster_metrics.capacity._report.passes import Pass
from cluster_metrics.capacity._report.warnings import drift_check
from cluster_metrics.capacity.challenge import MONITOR


@pytest.mark.parametrize("fall", [1.0, 0.8])
def test_a_rate_that_falls_as_the_index_grows_is_seen(fall):
    def at(i):  # the first half of the documents in one second, the second in 1 / fall
        return round(1000 * (i / 500 if i < 500 else 1 + (i - 500) / 500 / fall))

    def cell(number):
        requests = [Sample("capacity-index", at(i), "index", 5.0, {"success-count": 1}) for i in range(1001)]
        return Pass([], requests[0], requests)

    early, late = cell(1).halves
    found = capacity_cells.Cell("1s-0r", 1, 0, 0, 0, {number: cell(number) for number in range(1, 7)}).trend()
    assert found.value == pytest.approx(late / early) and (found.value < 0.95) is (fall < 1)
    table = row(made("r", "capacity-indexing", 6, spread=0.0), "Indexing", "3s-0r")
    assert table["trend"].value == pytest.approx(1, abs=0.01)


def test_a_pass_without_requests_in_a_half_has_no_trend():
    def cell(*times):
        requests = [Sample("capacity-index", at, "index", 5.0, {"success-count": 1}) for at in times]
        return Pass([], requests[0], requests)

    even, late = cell(0, 400, 500, 1000), cell(0, 800, 900, 1000)
    assert capacity_cells.Cell("1s-0r", 1, 0, 0, 0, {1: even, 2: even}).trend().value == pytest.approx(0.5)
    assert capacity_cells.Cell("1s-0r", 1, 0, 0, 0, {1: even, 2: late}).trend() is None


def test_the_published_statement_that_the_rate_does_not_fall_is_judged_over_all_cells():
    claim = "the rate does not fall as the index grows"
    assert holds(made("r", "capacity-indexing", 6), claim) == "yes"

    def fewer(part):  # of 19 requests 10 are sent in the first half of the time
        return part * 0.95 if part < 10 / 19 else 0.5 + (part - 10 / 19) * 19 / 18

    times = {f"{s}s-{r}r": fewer for s in (1, 2) for r in (0, 1, 2)}
    found = row(made("r", "capacity-indexing", 6, times=times), "published", claim)
    assert found["seen"].value == pytest.approx(0.9 ** (6 / 9), rel=0.01)
    assert (found["holds"], found["n"]) == ("no", 6)
    assert "index grows" not in text_of(made("r", "capacity-query", 6), "published")


@pytest.mark.parametrize("spread, ends", [(0.005, "the bound is ±5.0 %."), (0.05, "and that it is kept is not shown.")])
def test_a_small_change_whose_interval_goes_beyond_the_bound_is_not_shown_to_be_small(spread, ends):
    race = made("r", "capacity-query", passes=6, spread=spread)
    assert not [warning for warning in answer_of(race).warnings if warning.kind == "drift"]
    assert drift_check(race).endswith(ends)


@pytest.mark.parametrize("last, kinds", [(1.03, []), (1.08, ["drift"]), (0.92, ["drift"])])
def test_a_last_pass_that_carries_more_or_less_than_the_first_is_warned_of(last, kinds):
    race = made("r", "capacity-query", passes=6, spread=0.005, of_pass={4: 1.5, 6: last})
    found = [warning for warning in answer_of(race).warnings if warning.kind == "drift"]
    assert [warning.kind for warning in found] == kinds
    text = text_of(race)
    said = re.search(r"rift(?: check)?: from the first pass to the last throughput changed by (.+?) % \[(.+?)\]", text)
    change = float(said[1].replace("−", "-"))
    low, high = (float(bound.removesuffix(" %").replace("−", "-")) for bound in said[2].split(", "))
    assert change == pytest.approx(100 * (last - 1), abs=1) and low < 100 * (last - 1) < high and high - low < 4
    assert "the geometric mean over 9 configurations; the bound is ±5.0 %" in text
    assert text.count("from the first pass to the last") == 1


def test_what_is_graver_is_warned_of_first():
    """A drift bears on all figures; what was not steady is left out of them."""
    race = made("r", "capacity-query", 7, of_pass={7: 1.3}, busy=0.5)
    other = made("r", "capacity-query", 7, times={"1s-0r": falling})
    unsteady = [s for s in other.samples if (s.meta["cell"], s.meta["pass"]) == ("1s-0r", 3)]
    kept = [s for s in race.samples if (s.meta["cell"], s.meta["pass"]) != ("1s-0r", 3)]
    found = answer_of(replace(race, samples=kept + unsteady)).warnings
    assert [warning.kind for warning in found] == ["drift", "not-saturated", "not-steady"]


def slow_at_first(part):
    """A fifth of the time at half the rate: the first ninth of the requests."""
    return part * 1.8 if part < 1 / 9 else 0.2 + (part - 1 / 9) * 0.9


def fast_at_first(part):
    """A fifth of the time at twice the rate: the first third of the requests."""
    return part * 0.6 if part < 1 / 3 else 0.2 + (part - 1 / 3) * 1.2


def rising(part):
    """A rate that rises to three times what it is at first."""
    return ((1 + 8 * part) ** 0.5 - 1) / 2


@pytest.mark.parametrize(
    "challenge, kind", [("capacity-query", "capacity-query"), ("capacity-indexing", "capacity-index")]
)
def test_a_pass_counts_from_when_its_rate_is_steady(challenge, kind):
    race = made("r", challenge, spread=0.0, times={"3s-0r": slow_at_first})
    slow, even = (capacity_cells.cells_of(of, kind)["3s-0r"] for of in (race, made("r", challenge, spread=0.0)))
    for number, one in slow.passes.items():
        whole = even.passes[number]
        assert one.steady and one.cut_s == pytest.approx(1, abs=0.4) and whole.cut_s == 0
        assert one.rate == pytest.approx(whole.rate / 0.9, rel=0.02)
        assert len(one.looks) < len(whole.looks) and one.looks[0].at >= one.requests[0].at - 400
        assert one.cores() == pytest.approx(whole.cores())
        start = whole.requests[0].at + 1000 * one.cut_s
        of_pass = (s for s in race.of(kind) if (s.meta["cell"], s.meta["pass"]) == ("3s-0r", number))
        assert one.requests[0] == next(s for s in of_pass if s.at >= start)


@pytest.mark.parametrize("times, low, high", [(slow_at_first, 0.98, 1.02), (fast_at_first, 0.7, 0.9)])
def test_the_trend_leaves_out_a_slower_begin_and_takes_in_a_faster_one(times, low, high):
    race = made("r", "capacity-indexing", 6, spread=0.0, times={"3s-0r": times})
    cell = capacity_cells.cells_of(race, "capacity-index")["3s-0r"]
    assert all(one.cut_s > 0.5 for one in cell.passes.values())
    assert low < cell.trend().value < high


def test_requests_of_clients_that_stop_after_the_first_of_them_do_not_count():
    race = made("r", "capacity-query", spread=0.0, parameters={"cell_seconds": 5})
    last = max(s.at for s in race.of("capacity-query"))
    late = [replace(s, at=last + 100 * n) for n, s in enumerate(race.of("capacity-query")[-5:], 1)]
    look = race.of(MONITOR)[-1]  # when the first clients have stopped, a node has nothing more to do
    nodes = {name: of | {"at": of["at"] + 1900} for name, of in json.loads(look.meta["nodes"]).items()}
    late.append(replace(look, at=look.at + 1900, meta=look.meta | {"nodes": json.dumps(nodes)}))
    longer = replace(race, samples=[*race.samples, *late])
    for parameters, same in (({"cell_seconds": 5}, True), ({"cell_seconds": 6}, False)):
        found = [
            capacity_cells.cells_of(replace(r, parameters=r.parameters | parameters), "capacity-query")["3s-2r"]
            for r in (race, longer)
        ]
        assert (found[0].passes[3].rate == found[1].passes[3].rate) is same
        assert (found[0].passes[3].cores() == found[1].passes[3].cores()) is same


def test_a_pass_whose_requests_end_before_its_time_is_not_steady():
    race = made("r", "capacity-query", 6, spread=0.0)
    begun = {}
    for s in race.of("capacity-query"):
        begun.setdefault((s.meta["cell"], s.meta["pass"]), s.at)
    few = [s for s in race.samples if s.meta["pass"] != 2 or s.at < begun[s.meta["cell"], 2] + 500]
    one = [s for s in race.samples if s.meta["pass"] != 2 or s.at <= begun[s.meta["cell"], 2]]
    for samples, passes in ((few, {1, 2, 3, 4, 5, 6}), (one, {1, 3, 4, 5, 6})):
        cell = capacity_cells.cells_of(replace(race, samples=samples), "capacity-query")["3s-0r"]
        assert set(cell.passes) == passes and set(cell.steady) == {1, 3, 4, 5, 6}


def test_a_cell_that_is_never_steady_counts_for_no_verdict():
    even = {f"{s}s-{r}r": 1.0 for s in (1, 2, 3) for r in (0, 1, 2)}
    race = made("r", "capacity-query", 6, shape=even | {"2s-1r": 0.3}, times={"2s-1r": rising})
    claim = "2 shards with 1 replica on three nodes stay below three nodes"
    assert not any(claim in str(s.tables) for s in sections(race, "published"))
    assert dict(answer_of(race).lines())["published"].startswith("of 6 statements of the articles: ")
    few, warning = answer_of(race).warnings
    assert (few.kind, few.value) == ("too-few", 0)
    assert (warning.kind, warning.seen) == ("not-steady", "the rate was not steady in 2s-1r (6 of 6 passes)")
    assert warning.option == "raise first_pass_seconds and cell_warmup_seconds" and warning.value == 6
    shown = row(race, "Searches: throughput", "2s-1r")
    assert shown["n"] == 0 and shown["rate"].value > 0 and not shown["rate"].known and shown["over_first"].n == 0
    assert {r["steady"] for r in sheets(race)[0].rows if r["cell"] == "2s-1r"} == {False}
    assert "2s-1r" not in compared_in(race).names and len(compared_in(race).names) == 8
    assert len(list(capacity_cells.changes(race))) == 7
    cells = capacity_cells.cells_of(race, "capacity-query")
    assert not capacity_cells.saturated(cells["2s-1r"], race).passes
    limits = [r for s in sections(race, "Bottleneck") for t in s.tables for r in t.rows]
    assert {r["from"] for r in limits if r["cell"] == "2s-1r"} == {"never"}
    expected = [r["cell"] for s in sections(race, "Expected") for t in s.tables for r in t.rows]
    assert expected and "2s-1r" not in expected
    assert {r["from"] for r in limits if r["cell"] != "2s-1r"} == {"0.0 s"}


@pytest.mark.parametrize("challenge", ["capacity-query", "capacity-mixed"])
def test_the_layout_with_most_throughput_is_one_that_was_steady(challenge):
    even, unsteady = (made("r", challenge, spread=0.0, times=times) for times in ({}, {"1s-2r": rising}))
    assert dict(answer_of(even).lines())["most"].startswith("1s-2r")
    assert not dict(answer_of(unsteady).lines())["most"].startswith("1s-2r")


@pytest.mark.parametrize("challenge", ["capacity-query", "capacity-mixed"])
def test_a_race_in_which_no_layout_was_steady_names_the_one_with_most_throughput_all_the_same(challenge):
    times = {f"{shards}s-{replicas}r": rising for shards in (1, 2, 3) for replicas in (0, 1, 2)}
    assert "searches/s" in dict(answer_of(made("r", challenge, times=times)).lines())["most"]


def test_single_passes_that_are_not_steady_are_left_out_and_named():
    whole, other = (made("r", "capacity-query", 6, spread=0.0, times=t) for t in ({}, {"1s-0r": falling}))
    samples = [s for s in whole.samples if (s.meta["cell"], s.meta["pass"]) != ("1s-0r", 3)]
    samples += [s for s in other.samples if (s.meta["cell"], s.meta["pass"]) == ("1s-0r", 3)]
    race = replace(whole, samples=samples)
    few, warning = answer_of(race).warnings
    assert few.brief == "5 passes are too few for a verdict; race with passes:7 or more"
    assert warning.seen == "the rate was not steady in 1s-0r (1 of 6 passes)" and warning.option == "raise cell_seconds"
    cells = capacity_cells.cells_of(race, "capacity-query")
    assert set(cells["1s-0r"].steady) == {1, 2, 4, 5, 6} and len(cells["1s-0r"].rates()) == 5
    assert capacity_cells.rate_ratio(cells["3s-0r"], cells["1s-0r"]).n == 5
    assert holds(race, "a second shard on a second node doubles throughput") == "too few passes, it takes 6"


def test_a_race_of_which_no_pass_is_steady_is_reported_all_the_same():
    names = [f"{s}s-{r}r" for s in (1, 2, 3) for r in (0, 1, 2)]
    for challenge in ("capacity-query", "capacity-indexing", "capacity-mixed"):
        race = made("r", challenge, 6, times=dict.fromkeys(names, rising))
        answer = answer_of(race)
        assert "not-steady" in [w.kind for w in answer.warnings] and "most" in dict(answer.lines())
        assert sections(race, "throughput") and not list(compared_in(race).names)


def test_documents_that_are_sent_at_a_rate_of_their_own_count_from_the_first_on():
    race = made("r", "capacity-mixed", times={"1s-0r": slow_at_first})
    assert not capacity_cells.cells_of(race, "capacity-index")["1s-0r-50"].passes[1].cut_s
    assert capacity_cells.cells_of(race, "capacity-query")["1s-0r-50"].passes[1].cut_s


def test_a_node_that_leaves_before_a_pass_counts_is_named():
    race = made("r", "capacity-query", 6, times={"1s-0r": slow_at_first})
    for look in race.of(MONITOR)[-5 * 9 * 6 :][1:4]:  # between the first and the last look of the first that counts
        nodes = json.loads(look.meta["nodes"])
        look.meta["nodes"] = json.dumps({name: of for name, of in nodes.items() if name != "node 2"})
    (left,) = (warning for warning in answer_of(race).warnings if warning.kind == "node-left")
    kinds = {warning.kind for warning in answer_of(race).warnings}
    assert left.seen == "node 2 had left in 1s-0r of pass 1, which counts for no verdict"
    assert set(capacity_cells.main_cells(race)["1s-0r"].steady) == {2, 3, 4, 5, 6} and "not-steady" not in kinds


def test_a_node_that_left_between_two_cells_is_named():
    race = made("r", "capacity-query", 6)
    for look in race.of(MONITOR):
        if look.meta["cell"] == "3s-2r" and look.meta["pass"] in (0, 6):
            nodes = json.loads(look.meta["nodes"])
            look.meta["nodes"] = json.dumps({name: of for name, of in nodes.items() if name == "node 1"})
    (left,) = (warning for warning in answer_of(race).warnings if warning.kind == "node-left")
    assert left.seen == "node 2, node 3 had left in 3s-2r of pass 6, which counts for no verdict" and left.value == 2
    assert set(capacity_cells.main_cells(race)["3s-2r"].steady) == {1, 2, 3, 4, 5}
    assert set(compared_in(race).samples("3s-2r")) == {1, 2, 3, 4, 5}


def test_a_pass_that_counts_for_no_verdict_tells_of_no_drift():
    whole, race = (made("r", "capacity-query", 7, of_pass={1: 0.5}) for _ in range(2))
    for look in race.of(MONITOR):
        if look.meta["pass"] == 1:
            nodes = json.loads(look.meta["nodes"])
            look.meta["nodes"] = json.dumps({name: of for name, of in nodes.items() if name != "node 2"})
    assert "drift" in {warning.kind for warning in answer_of(whole).warnings}
    assert "drift" not in {warning.kind for warning in answer_of(race).warnings}
