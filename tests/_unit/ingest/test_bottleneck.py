"""What held an ingest back: each rule made true by figures, and none where nothing was full."""

import json
from dataclasses import replace

import pytest
from fakes import rows
from ingests import bulk, epoch_sample, load, look, of_append, race

from _tools.docs.generated import ROOT
from _tools.report.answer import answer_of
from _tools.report.race import Sample
from _tools.report.text import percent
from cluster_metrics.ingest._report import append_no_conflicts_index_only as append
from cluster_metrics.ingest._report import bottleneck as b
from cluster_metrics.ingest._report import ingest, rates
from cluster_metrics.ingest._report import usage as u
from cluster_metrics.ingest._report.course import over_rounds
from cluster_metrics.ingest.samples import CELL

SECONDS = 20
IDLE_NODE = {"cores": 0.2, "client": 0.1, "process": 0.1, "busy": 0.3}
FULL_QUEUE = {"retries": 1, "repeated_docs": 50, "retry_wait_ms": 30.0}


def loaded(clients=4, took=80, params="", of=None, **seen):
    """A load of 20 s by clients that send every 100 ms each, as the monitor and the requests tell of it.

    :param took: of each request.
    :param of: further metadata of each request.
    """
    meta = {"took": took, "send_ms": took + 5.0, "parse_ms": 0.0} | (of or {})
    requests = [bulk(0, c, i / 10, **meta) for c in range(clients) for i in range(10 * SECONDS)]
    params = f"epochs:2,bulk_indexing_clients:{clients}{params}"
    looks = [look(at, **(IDLE_NODE | seen)) for at in range(SECONDS)]
    return of_append(race(params, [*requests, *looks, epoch_sample(0, clients=clients)]))


def named(of, on_time=False):
    return ingest.held_back(of, on_time).name


@pytest.mark.parametrize(
    "name, options",
    [
        (b.CLIENT, {"process": 0.95}),
        (b.CLIENT, {"cores": 0.8, "client": 1.1, "busy": 0.97}),
        (b.TARGET, {"cores": 1.9}),
        (b.TARGET, {"cores": 1.4, "client": 0.5, "busy": 0.97}),
        (b.THROTTLING, {"throttled": 0.2}),
        (b.DISK, {"disk": 0.95}),
        (b.QUEUE, {"of": FULL_QUEUE}),
        (b.CLIENTS, {"clients": 1, "took": 90}),
        (b.UNKNOWN, {}),
    ],
)
def test_each_limit_is_named_by_its_figure(name, options):
    found = ingest.held_back(loaded(**options))
    assert (found.name, found.of_client) == (name, name in (b.CLIENT, b.CLIENTS))


def test_pauses_are_a_part_of_the_time_of_all_clients():
    assert named(loaded(clients=4, of=FULL_QUEUE | {"retry_wait_ms": 5.0})) == b.UNKNOWN
    assert named(loaded(clients=4, of=FULL_QUEUE | {"retry_wait_ms": 15.0})) == b.QUEUE


def test_full_cpu_goes_before_what_it_causes_and_the_client_before_the_target():
    assert named(loaded(cores=1.95, of=FULL_QUEUE, throttled=0.5)) == b.TARGET
    assert named(loaded(cores=1.9, process=0.95)) == b.CLIENT
    assert named(loaded(clients=1, of=FULL_QUEUE)) == b.QUEUE


def test_a_target_elsewhere_shares_no_machine_with_the_client():
    of = loaded(clients=8, took=95, cores=1.4, client=0.5, busy=0.97)
    assert named(of) == b.TARGET and named(replace(of, local=False)) == b.UNKNOWN


def test_a_machine_that_others_keep_busy_is_neither_sides():
    assert named(loaded(cores=0.5, client=0.3, busy=0.97)) == b.UNKNOWN


def test_a_share_of_the_cpu_is_all_that_a_node_has():
    of = loaded(clients=1, cores=0.39)
    held = {"node": "target-1", "version": "8.17.2", "cores": 1, "cpu_cores": "0.4", "cpu_held_by": "cgroup v1"}
    assert named(of) == b.CLIENTS and named(replace(of, target=[held])) == b.TARGET


def test_nodes_on_the_machine_of_the_client_have_its_cores_together():
    of = loaded(clients=2, took=90)
    node = {"version": "8.17.2", "cores": 2}
    several = replace(of, local=True, target=[node | {"node": f"target-{i}"} for i in (1, 2, 3)])
    assert named(several) == named(replace(of, local=True)) == b.UNKNOWN
    assert named(replace(several, local=None)) == b.CLIENTS, "where it is not known, each has its own"


def test_throttling_is_that_of_the_node_which_is_throttled_most():
    def seen(part):
        looks = [look(at, **IDLE_NODE, throttled=part) for at in range(SECONDS)]
        for sample in looks:
            (node,) = json.loads(sample.meta["nodes"]).values()
            throttled = {i: node["index_throttle_ms"] * (i == 3) for i in (1, 2, 3)}
            nodes = {f"target-{i}": node | {"index_throttle_ms": ms} for i, ms in throttled.items()}
            sample.meta["nodes"] = json.dumps(nodes)
        requests = [bulk(0, c, i / 10, took=90, send_ms=95.0, parse_ms=0.0) for c in range(4) for i in range(200)]
        of = of_append(race("epochs:2,bulk_indexing_clients:4", [*requests, *looks, epoch_sample(0, clients=4)]))
        return named(of)

    assert seen(0.04) != b.THROTTLING and seen(0.12) == b.THROTTLING


def test_shards_keep_more_cores_busy_than_there_are_requests():
    assert named(loaded(clients=1, took=90)) == b.CLIENTS
    assert named(loaded(clients=1, took=90, params=",number_of_shards:4")) == b.UNKNOWN


def test_several_loads_are_held_back_by_what_was_full_over_all_of_them():
    looks = [look(at + begin, **IDLE_NODE, disk=disk) for begin, disk in ((0, 0.95), (100, 0.5)) for at in range(20)]
    of = race(samples=[*load(1, 0), *load(2, 100), *looks, epoch_sample(1), epoch_sample(2)])
    used = rows(ingest.sections(of), "usage by epoch")
    assert [used[epoch]["bottleneck"] for epoch in ("1", "2")] == [b.DISK, b.CLIENTS] and named(of) == b.CLIENTS


def test_a_paced_load_on_time_was_held_back_by_its_rate():
    assert named(loaded(clients=1), on_time=True) == b.RATE


def test_of_a_paced_load_of_which_it_is_not_known_no_more_clients_are_advised():
    """Few of its requests are on their way as few are due."""
    asked = ",paced:true,target_docs_per_second:1000"
    assert named(loaded(clients=1, took=60)) == b.CLIENTS
    assert named(loaded(clients=1, took=60, params=asked)) == b.UNKNOWN


def test_without_two_looks_nothing_is_said():
    of = loaded()
    few = [s for s in of.samples if s.kind != "monitor"] + [look(3)]
    found = ingest.held_back(replace(of, samples=few))
    assert found.name == b.UNKNOWN and "did not look twice" in found.text


OF_DRIVER = ("client_cpu_ms", "processes", "host_busy_ms", "host_idle_ms")


def test_of_several_load_drivers_nothing_is_said_but_of_the_target():
    for used, name in ((1.95, b.TARGET), (0.2, b.UNKNOWN)):
        of = loaded(cores=used, process=0.95)
        for sample in of.samples:
            for key in OF_DRIVER:
                sample.meta.pop(key, None)
        assert named(of) == name
        assert "client" not in ingest.held_back(of, False).text


def test_one_client_that_misses_the_target_is_no_slow_cluster():
    of = loaded(clients=1, took=90, params=",target_docs_per_second:100000")
    first, target, *_ = answer_of(of).lines()[1:]
    assert first == (
        "held back by",
        "the clients: 1 client had 0.954 requests on their way at once, the target worked on 0.904 of them and has 2 "
        "cores; the target used 10.0 % of its CPU, the client's busiest process 10.0 % of a core; try "
        "bulk_indexing_clients:2, or bulk_size:10000",
    )
    assert target[1].startswith("not reached by these clients, what the cluster can take is not shown: ")
    (missed,) = [w for w in answer_of(of).warnings if w.kind == "target-missed"]
    assert "the cluster may carry more" in missed.text and "this cluster is not" not in missed.text
    assert "try bulk_indexing_clients:2, or bulk_size:10000" in missed.text
    assert "**Not reached by these clients:** the steady rate is " in told(of)
    assert " What it can take is not shown." in told(of)
    enough = loaded(clients=1, took=90, params=",target_docs_per_second:500")
    assert dict(answer_of(enough).lines())["target"].startswith("reached: ")


def test_a_full_target_that_misses_the_target_is():
    of = loaded(cores=1.95, params=",target_docs_per_second:100000")
    first, target, *_ = answer_of(of).lines()[1:]
    assert first[1].startswith("target's CPU: target-1 used 97.5 % of its CPU; ")
    assert target[1].startswith("not reached: ")
    assert "**Not reached:** the steady rate is " in told(of)
    assert "What it can take" not in told(of)


def told(of):
    return "".join(section.text for section in append.sections(of))


def cell(name, **meta):
    common = dict.fromkeys((key.name for key in CELL), 0.0)
    common |= {"wall_ms": 4000.0, "refresh_wall_ms": 0.0, "clients": 1, "bulk_size": 1000, "rows_per_second": 1.0}
    return Sample("ingest-cell", 1_000_000, name, 4000.0, common | meta)


def test_cells_are_told_by_what_each_counted_itself():
    slow = {"took_ms": 3600.0, "send_ms": 3800.0, "target_cpu_ms": 2000.0, "client_cpu_ms": 200.0}
    of = replace(
        race(),
        samples=[
            *(cell("slow", rows_per_second=rate, **slow) for rate in (1.0, 1.0, 5.0)),
            cell("fast", target_cpu_ms=7800.0, client_cpu_ms=100.0, rows_per_second=2.0, took_ms=8000.0),
            cell("encoding", target_cpu_ms=400.0, client_cpu_ms=3900.0),
            cell("refreshed", target_cpu_ms=7800.0, refresh_wall_ms=2000.0, took_ms=8000.0),
            cell("turned-away", clients=2, retry_wait_ms=4000.0, repeated_docs=9, took_ms=3000.0),
        ],
    )
    found = {name: b.bottleneck(used).name for name, used in u.of_cells(of, ("clients", "size")).items()}
    expected = {"fast": b.TARGET, "slow": b.CLIENTS, "encoding": b.CLIENT, "turned-away": b.QUEUE}
    assert found == expected | {"refreshed": b.UNKNOWN}
    assert list(found)[0] == "fast"
    assert "try clients:2, or size:10000" in b.bottleneck(u.of_cells(of, ("clients", "size"))["slow"]).text


def test_the_page_of_ingest_has_every_rule_in_order():
    page = (ROOT / "docs" / "challenges" / "ingest.md").read_text()
    rows = "".join(f"| {rule.name} | {rule.what} | {percent(rule.least)} |\n" for rule in b.RULES)
    assert f"| held back by | figure | threshold |\n|---|---|---:|\n{rows}\n" in page


IDLE = u.Usage(
    seconds=10.0,
    clients=4.0,
    bulk_size=1000.0,
    cores={"a": 0.2},
    parts={"a": 0.1},
    client=0.1,
    processes={"7": 0.1},
    machine=0.3,
    machine_cores=2.0,
    pauses=0.0,
    rejected=0.0,
    throttled=0.0,
    merge_throttled=0.0,
    disk=0.0,
    sent=2.0,
    worked=2.0,
    threads=1.0,
    target_cores=2.0,
)
OF_BOTH = {"machine": 0.9, "client": 1.0, "cores": {"a": 0.8}}


@pytest.mark.parametrize(
    "name, reached, below",
    [
        (b.RATE, {"on_time": True}, {"on_time": False}),
        (b.CLIENT, {"processes": {"7": 0.9, "8": 0.1}}, {"processes": {"7": 0.899, "8": 0.899}}),
        (b.CLIENT, OF_BOTH, OF_BOTH | {"machine": 0.899}),
        (b.TARGET, {"parts": {"a": 0.1, "b": 0.9}}, {"parts": {"a": 0.1, "b": 0.899}}),
        (b.TARGET, OF_BOTH | {"cores": {"a": 0.6, "b": 0.6}}, {"machine": 0.899}),
        (b.TARGET, {"machine": 0.9, "cores": {"a": 0.5, "b": 0.4}}, {"machine": 0.9, "cores": {"a": 0.5, "b": 0.39}}),
        (b.THROTTLING, {"throttled": 0.1}, {"throttled": 0.099}),
        (b.DISK, {"disk": 0.9}, {"disk": 0.899}),
        (b.QUEUE, {"pauses": 0.1}, {"pauses": 0.099}),
        (b.CLIENTS, {"worked": 1.5}, {"worked": 1.51}),
        (b.CLIENTS, {"worked": 0.3, "threads": 5.0}, {"worked": 0.31, "threads": 5.0}),
        (b.CLIENTS, {"worked": 1.5, "paced": True, "sent": 3.6}, {"worked": 1.5, "paced": True, "sent": 3.59}),
    ],
)
def test_a_limit_is_named_from_its_threshold_on(name, reached, below):
    assert b.bottleneck(replace(IDLE, **reached)).name == name
    assert b.bottleneck(replace(IDLE, **below)).name == b.UNKNOWN


def test_the_share_of_the_target_is_that_of_its_busiest_node():
    busy = replace(IDLE, parts={"a": 0.2, "b": 0.9, "c": 0.1}, worked=3.0, client=0.3)
    (row,) = b.table({"1": busy}, "epoch").rows
    assert (row["client"], row["process"]) == (0.3, 0.1)
    assert (row["target"], row["idle"]) == (0.9, 0), "no fewer cores than none are without a request"


def test_what_was_not_told_and_merges_that_are_slowed_down_by_design_are_no_limit():
    unknown = dict.fromkeys(("client", "machine", "throttled", "merge_throttled", "disk")) | {"processes": {}}
    assert b.bottleneck(replace(IDLE, parts={}, worked=0.0, target_cores=0.0, **unknown)).name == b.UNKNOWN
    assert b.bottleneck(replace(IDLE, merge_throttled=1.0)).name == b.UNKNOWN


@pytest.mark.parametrize(
    "clients, bulk_size, cores, option",
    [
        (1, 1000, 2.0, "try bulk_indexing_clients:2, or bulk_size:10000"),
        (3, 2000, 8.5, "try bulk_indexing_clients:9, or bulk_size:10000"),
        (4, 500, 8.0, "try bulk_indexing_clients:8, or bulk_size:5000"),
        (4, 10_000, 4.0, "try bulk_indexing_clients:8"),
    ],
)
def test_more_clients_are_twice_as_many_or_one_for_each_core_and_requests_ten_times_as_large(
    clients, bulk_size, cores, option
):
    usage = replace(IDLE, clients=clients, bulk_size=bulk_size, target_cores=cores, worked=0.5)
    assert b.bottleneck(usage).option == option


def test_the_cpu_of_each_process_that_runs_clients_is_told():
    of = loaded(process=0.3)
    text = {section.title: section.text for section in ingest.sections(of)}["What held it back"]
    assert "\nRally ran the clients in 2 processes: 0.300, 0.0100 CPU cores used.\n" in text
    assert u.of_processes(IDLE) == "Rally ran the clients in one process: 0.100 CPU cores used."
    assert u.of_processes(replace(IDLE, processes={})) == u.of_processes(None) == ""
    two = u.pooled([IDLE, replace(IDLE, seconds=30.0, processes={"7": 0.5, "8": 0.2})])
    assert two.processes == pytest.approx({"7": 0.4, "8": 0.2})


def test_stretches_count_by_their_time_and_what_one_does_not_tell_by_that_of_the_other():
    one = replace(
        IDLE, cores={"a": 1.0}, parts={"a": 0.5}, sent=1.0, disk=None, client=None, rejected=3, on_time=True, pauses=0.4
    )
    two = replace(IDLE, seconds=30.0, cores={"a": 2.0, "b": 4.0}, parts={"a": 1.0, "b": 0.4}, sent=3.0, disk=0.6)
    two = replace(two, client=None, rejected=4, machine=0.7)
    found = u.pooled([one, two])
    assert found.cores == pytest.approx({"a": 1.75, "b": 4.0})
    assert found.parts == pytest.approx({"a": 0.875, "b": 0.4}) and found.busiest == "a"
    known = {"seconds": 40, "clients": 4, "bulk_size": 1000, "process": 0.1, "machine": 0.6, "pauses": 0.1, "sent": 2.5}
    known |= {"disk": 0.6, "rejected": 7, "worked": 2, "threads": 1, "target_cores": 2, "machine_cores": 2}
    assert {key: getattr(found, key) for key in known} == pytest.approx(known)
    assert (found.client, found.on_time, found.knobs) == (None, False, IDLE.knobs)
    assert u.pooled([replace(one, on_time=True), replace(two, on_time=True)]).on_time
    assert u.pooled([]) is None


def test_a_load_is_told_by_what_its_requests_and_the_monitor_counted_in_its_time():
    of = loaded(clients=4, took=80, of={"retry_wait_ms": 5.0, "repeated_docs": 2}, params=",number_of_shards:3")
    of.samples.append(look(25, cores=2.0, client=2.0, process=2.0, busy=1.0, throttled=1.0, disk=1.0))
    (load,) = rates.loads(of)
    found = u.of_load(of, load)
    assert load.seconds == pytest.approx(19.91)
    assert found.cores == pytest.approx({"target-1": 0.2}) and found.parts == pytest.approx({"target-1": 0.1})
    known = {"seconds": 19.91, "clients": 4, "bulk_size": 1000, "client": 0.1, "process": 0.1, "machine": 0.3}
    known |= {"machine_cores": 2, "pauses": 800 * 0.005 / 19.91 / 4, "rejected": 1600, "throttled": 0, "disk": 0.1}
    known |= {"sent": 800 * 0.085 / 19.91, "worked": 800 * 0.08 / 19.91, "threads": 3, "target_cores": 2}
    assert {key: getattr(found, key) for key in known} == pytest.approx(known)
    assert found.merge_throttled is None and u.of_load(replace(of, local=False), load).machine is None


def test_a_cell_is_told_by_what_it_counted_and_by_looks_in_its_time():
    counted = {"refresh_wall_ms": 1000.0, "target_cpu_ms": 5000.0, "client_cpu_ms": 400.0, "clients": 2}
    counted |= {"bulk_size": 500, "retry_wait_ms": 800.0, "repeated_docs": 30, "send_ms": 6000.0, "took_ms": 2000.0}
    around = [look(at, throttled=0.9, disk=0.9) for at in (-2, 6)]
    looks = [around[0], *(look(at, throttled=0.2, disk=0.3) for at in (0, 2, 4)), around[1]]
    of = replace(race(), samples=[cell("x", **counted), *looks])
    found = u.of_cells(of, ("clients", "size"))["x"]
    assert found.cores == pytest.approx({"all nodes": 1.0}) and found.parts == pytest.approx({"all nodes": 0.5})
    known = {"seconds": 4, "clients": 2, "bulk_size": 500, "client": 0.1, "process": 0.1, "machine": 0.55}
    known |= {"pauses": 0.1, "rejected": 30, "throttled": 0.2, "disk": 0.3, "sent": 1.5, "worked": 0.5}
    known |= {"threads": 1, "target_cores": 2}
    assert {key: getattr(found, key) for key in known} == pytest.approx(known)
    assert found.merge_throttled is None
    two = [{"node": name, "cores": 2, "version": "8"} for name in ("target-1", "target-2")]
    busiest = u.of_cells(replace(of, target=two), ("clients", "size"))["x"]
    assert busiest.parts == pytest.approx({"target-1": 0.5}), "of several nodes each by itself, as the monitor saw it"
    assert busiest.throttled == pytest.approx(0.2)
    shards = of.parameters | {"number_of_shards": 3, "number_of_replicas": 1}
    held = u.of_cells(replace(of, target=two, parameters=shards), ("clients", "size"))["x"]
    assert held.throttled == pytest.approx(0.2 / 3), "each of the six shards counts its time, three on a node"
    apart = u.of_cells(replace(of, local=False), ("clients", "size"))["x"]
    assert apart.machine is None
    full = u.of_cells(replace(race(), samples=[cell("x", target_cpu_ms=7600.0, client_cpu_ms=800.0)]), ("", ""))["x"]
    assert full.machine == 1


def test_what_cells_use_is_drawn_round_by_round():
    samples = [
        cell("x", round=1, target_cpu_ms=2000.0, client_cpu_ms=400.0),
        replace(cell("y", round=1, target_cpu_ms=4000.0, client_cpu_ms=400.0), at=1_004_000),
        replace(cell("x", round=2, target_cpu_ms=6000.0, client_cpu_ms=400.0), at=1_060_000),
    ]
    (figure,) = over_rounds(replace(race(), samples=samples), ("clients", "size"))
    points = next(v["values"] for v in (layer["data"] for layer in figure.spec["layer"]) if "series" in v["values"][0])
    assert {point["strip"] for point in points} == {"CPU, %"}
    assert {(point["series"], point["at"]): point["value"] for point in points} == pytest.approx(
        {
            ("target, its busiest node", 0): 37.5,
            ("client, its busiest process", 0): 10,
            ("machine of both", 0): 42.5,
            ("target, its busiest node", 60): 75,
            ("client, its busiest process", 60): 10,
            ("machine of both", 60): 80,
        }
    )
    assert over_rounds(replace(race(), samples=samples[:2]), ("clients", "size")) == []
    looks = [look(at, disk=0.005, throttled=0.0) for at in (0, 2, 4, 60, 62, 64)]
    (figure,) = over_rounds(replace(race(), samples=[*samples, *looks]), ("clients", "size"))
    assert '"disk' in json.dumps(figure.spec) and "throttled" not in json.dumps(figure.spec)
    for sample in looks:
        (node,) = json.loads(sample.meta["nodes"]).values()
        grown = {"index_throttle_ms": 0.1 * node["at"], "merge_throttle_ms": 0.3 * node["at"]}
        sample.meta["nodes"] = json.dumps({"target-1": node | grown})
    samples = [replace(s, meta=s.meta | {"retry_wait_ms": 800.0, "repeated_docs": 9}) for s in samples]
    (figure,) = over_rounds(replace(race(), samples=[*samples, *looks]), ("clients", "size"))
    points = next(v["values"] for v in (layer["data"] for layer in figure.spec["layer"]) if "series" in v["values"][0])
    known = {"indexing throttled": 10, "merges throttled, all together": 30, "disk": 0.5, "pauses": 20}
    last = {point["series"]: point["value"] for point in points if point["at"] == 60}
    assert {series: last[series] for series in known} == pytest.approx(known)
