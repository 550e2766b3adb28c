"""What a capacity race is warned of, on races made of known costs."""

import json
from dataclasses import replace

import pytest
from capacities import made, row

from _tools.report.answer import answer_of
from _tools.report.write import sheets
from cluster_metrics.capacity._report import cells as capacity_cells
from cluster_metrics.capacity.challenge import CELL_CLIENTS, MONITOR


def test_nodes_that_share_the_cores_freely_are_warned_of():
    assert [w.kind for w in answer_of(made("r", "capacity-query", passes=6, cores=0)).warnings] == ["shared-cores"]
    assert answer_of(made("r", "capacity-query", passes=6, cores=0, on=1)).warnings == []
    assert answer_of(replace(made("r", "capacity-query", passes=6, cores=0), local=False)).warnings == []
    drifting = made("r", "capacity-query", passes=6, held_by="nothing")
    assert [w.kind for w in answer_of(drifting).warnings] == ["shared-cores"]


@pytest.mark.parametrize("process, busy, warned", [(0.95, 0.5, ["client-limited"]), (0.95, 1.0, []),
                                                   (0.85, 0.5, ["not-saturated"])])  # fmt: skip
def test_a_client_at_its_limit_is_told_from_too_few_clients(process, busy, warned):
    race = made("r", "capacity-query", 6, busy=busy, process=process)
    for look in race.of(MONITOR):
        look.meta["processes"] = json.dumps(json.loads(look.meta["processes"]) | {"8": 0.1 * look.at})
    found = answer_of(race).warnings
    assert [w.kind for w in found] == warned
    one = capacity_cells.cells_of(race, "capacity-query")["1s-0r"].passes[1]
    if warned == ["client-limited"]:
        assert "1s-0r, 1s-1r" in found[0].seen and found[0].value == 9
        assert found[0].option.startswith("lower NODE_CORES, or run the load driver")
        assert capacity_cells.bottleneck(one, race) == "the client, a process of which used 95% of a core"
    elif not warned:
        assert capacity_cells.bottleneck(one, race).startswith("node 1 (100%)")


def test_a_machine_that_is_full_before_its_nodes_are_is_a_limit_of_the_client():
    race = made("r", "capacity-query", 6, busy=0.5)
    for look in race.of(MONITOR):
        look.meta["host_idle_ms"] = 0.0
    (warning,) = answer_of(race).warnings
    assert warning.kind == "client-limited"
    free = replace(race, target=[{k: v for k, v in n.items() if "cpu" not in k} for n in race.target])
    assert [w.kind for w in answer_of(free).warnings] == ["shared-cores"]
    (warning,) = answer_of(replace(free, local=False)).warnings
    assert (warning.kind, warning.value) == ("client-limited", 9)
    assert warning.option == "run the load driver on a machine of its own or on several"
    (warning,) = answer_of(replace(race, local=False)).warnings
    assert warning.option == "run the load driver on a machine of its own or on several"


def test_clients_are_told_and_advised_by_cell():
    of = {"cell_clients": {"1s-0r": 5}, "capacity_clients": 20}
    race = made("r", "capacity-query", 6, busy=0.4, parameters=of)
    for look in race.of(MONITOR):  # node 2 has little to do, and one pass is another
        nodes = json.loads(look.meta["nodes"])
        nodes["node 2"]["cpu_ms"] /= 8
        nodes["node 1"]["cpu_ms"] *= 2 if look.meta["pass"] == 3 else 1
        look.meta["nodes"] = json.dumps(nodes)
    shown = {name: row(race, "Searches: throughput", name)["clients"] for name in ("1s-0r", "3s-2r")}
    assert shown == {"1s-0r": 5, "3s-2r": 20}
    assert {r["clients"] for r in sheets(race)[0].rows if r["cell"] == "1s-0r"} == {5}
    (warning,) = answer_of(race).warnings
    advised = json.loads(warning.option[len("raise cell_clients, to ") : -len(" or more, or race with CALIBRATE=1")])
    assert advised["1s-0r"] == 12 and advised["3s-2r"] == 48 and len(advised) == 9
    assert CELL_CLIENTS.check(advised) == advised
    idle = made("r", "capacity-query", 6, busy=0.001)
    assert '"1s-0r": 256' in answer_of(idle).warnings[0].option


def test_what_a_cell_at_its_limit_was_given_stays_in_the_advice_for_others():
    race = made("r", "capacity-query", 6, busy=0.4, parameters={"cell_clients": {"1s-0r": 5, "2s-0r": 7}})
    for look in race.of(MONITOR):
        if look.meta["cell"] == "2s-0r":
            nodes = json.loads(look.meta["nodes"])
            look.meta["nodes"] = json.dumps({n: of | {"cpu_ms": of["cpu_ms"] / 0.4} for n, of in nodes.items()})
    (warning,) = answer_of(race).warnings
    assert "2s-0r" not in warning.seen and '"1s-0r": 12' in warning.option and '"2s-0r": 7' in warning.option


@pytest.mark.parametrize("busy, warned", [(1.0, []), (0.91, []), (0.89, ["not-saturated"])])
def test_cells_that_leave_every_node_idle_are_warned_of(busy, warned):
    found = answer_of(made("r", "capacity-query", passes=6, busy=busy)).warnings
    assert [w.kind for w in found] == warned
    if warned:
        assert "1s-0r, 1s-1r" in found[0].seen and found[0].value == 9
        assert found[0].option.startswith('raise cell_clients, to {"1s-0r": 9, "1s-1r": 9, ')
        assert found[0].option.endswith('"3s-2r": 9} or more, or race with CALIBRATE=1')


def test_a_pass_that_the_monitor_did_not_see_left_no_node_idle():
    race = made("r", "capacity-query", passes=6)
    seen = [s for s in race.samples if s.kind != MONITOR or s.meta["pass"] > 4]
    assert answer_of(replace(race, samples=seen)).warnings == []
