"""The nodes' shares of the CPU: free while words are loaded, held however the race ends."""

import json
import types

import pytest

from _tools.elasticsearch.nodes import Cluster
from _tools.race import clusters
from cluster_metrics.core.served import ask


@pytest.fixture
def shared(monkeypatch):
    """A launcher whose target has two data nodes with shares and a coordinator, and which shares groups were given."""
    groups = []
    monkeypatch.setattr(clusters.shares.cpu, "make_group", lambda name, cores: groups.append((name, cores)))
    target = Cluster("target", "8.17.2", [9200, 9202, 9203], coordinator=True, variables={"NODE_CORES": "0.4"})
    return types.SimpleNamespace(running={clusters.TARGET: target}.get), groups


def test_nodes_are_free_until_a_race_has_them_held_and_held_again_however_it_ends(given, shared):
    launcher, groups = shared
    given(CHALLENGE="capacity-query")
    free, held = ([(f"target-{port}", cores) for port in (9200, 9202)] for cores in (0, 0.4))
    with pytest.raises(ZeroDivisionError), clusters.lifted(launcher, "passes:6") as params:
        assert groups == free
        address = json.loads(params).pop("cpu_shares")
        assert json.loads(params) == {"passes": 6, "cpu_shares": address}
        assert ask(address, "hold") == {} and groups == free + held
        raise ZeroDivisionError
    assert groups == free + held + held


@pytest.mark.parametrize(
    "variables, params, cores",
    [
        ({"CHALLENGE": "capacity-query", "HOSTS": "127.0.0.1:1"}, "", "0.4"),
        ({"CHALLENGE": "capacity-query"}, "cpu_shares:none", "0.4"),
        ({"CHALLENGE": "capacity-query"}, "", "0"),
        ({"CHALLENGE": "capacity-indexing"}, "", "0.4"),
        ({}, "", "0.4"),
    ],
)
def test_nodes_stay_as_they_are_where_no_words_are_loaded_or_none_has_a_share(given, shared, variables, params, cores):
    launcher, groups = shared
    launcher.running(clusters.TARGET).variables["NODE_CORES"] = cores
    given(**variables)
    with clusters.lifted(launcher, params) as own:
        assert own == params and not groups
