"""Races of the capacity challenges as the metrics store would give them, made of known costs and noise."""

import itertools
import json

import numpy as np

from _tools.report.explained import report_of
from _tools.report.race import Race, Sample
from cluster_metrics.capacity._report import model

COSTS = model.QueryModel(2e-3, 1e-8, 1e-3)
INDEX_COSTS = model.IndexModel(1e-3, 8e-4, 2e-4, 0.0, 0.0, 5e-4)
DOCUMENTS = 10**6
SECONDS = 5
NODES = 3
BULK = 5
"""Documents of a request where they are all that is sent."""
SERVICE_PER_S = 100
"""Requests a second that the queue of a load curve answers at most."""


def parts(table, costs=INDEX_COSTS):
    """The CPU time of each node over that of the busiest one, where documents are indexed."""
    shards = len({shard[:-1] for held in table.values() for shard in held})
    replicas = sum(map(len, table.values())) / shards - 1
    primary_s = costs.primary_s + replicas * costs.copy_s + (1 - 1 / len(table)) * costs.remote_s
    later_s = max(0.0, replicas - 1) * costs.later_s
    with_any = 1 - (1 - 1 / shards) ** costs.at_once
    used = {
        node: sum((primary_s if s.endswith("p") else costs.replica_s) + later_s for s in held) / shards
        + len(held) * with_any / costs.at_once * costs.shard_s
        + costs.request_s / len(table)
        for node, held in table.items()
    }
    return {node: of / max(used.values()) for node, of in used.items()}


def grid(costs, spread=0.0, nodes=NODES):
    """Cells of 1 to 3 shards and up to 2 replicas as a model expects them, each over five passes.

    :param spread: of the rate between passes.
    """
    rng, found = np.random.default_rng(1), []
    for shards, replicas in itertools.product((1, 2, 3), range(min(nodes, 3))):
        table = model.spread(nodes, shards, replicas)
        rate = 1 / costs.seconds(table, shards, DOCUMENTS)
        used = (parts(table, costs), costs.at_once) if isinstance(costs, model.IndexModel) else ({},)
        passes = [model.Counted(rate * np.exp(spread * rng.standard_normal()), table, *used) for _ in range(5)]
        found.append(model.Measured(table, shards, DOCUMENTS, passes))
    return found


def made(race_id, challenge, passes=3, spread=0.02, cores=0.4, held_by="cgroup v1", shape=None, on=NODES, **changes):
    """A race of a grid of 1 to 3 shards and 0 to 2 replicas, as far as the nodes hold them.

    :param on: nodes of the cluster.
    :param shape: factors on throughput by cell.
    :param changes: of its properties: ``parameters``, ``document``, ``failed``, ``busy`` (the part of its share that
        each node uses), ``process`` (cores of the busiest process of Rally), ``of_pass`` (factors on throughput by
        pass), ``compiling`` (by pass, the part of its CPU time in which the first node compiles), ``times`` (by cell,
        when a part of its requests was sent, as part of its time), ``nodes`` (numbers of nodes of its cells; default
        0 for all), ``index_costs`` (of documents), or of capacity-mixed ``docs`` (documents a second of its cells) and
        ``together``.
    """
    rng = np.random.default_rng(3)
    samples, at = [], 0
    rates = changes.get("docs", (50, 150)) if challenge == "capacity-mixed" else (0,)
    for number, nodes, shards in itertools.product(range(passes + 1), changes.get("nodes", (0,)), (1, 2, 3)):
        for replicas, docs in itertools.product(range(min(3, nodes or on)), rates):
            at += 10_000
            noise = np.exp(spread * rng.standard_normal()) * (shape or {}).get(f"{shards}s-{replicas}r", 1.0)
            noise *= changes.get("of_pass", {}).get(number, 1.0)
            of = (challenge, number, shards, replicas, nodes, docs, noise, at)
            table = model.spread(nodes or on, shards, replicas)
            samples += _cell(*of, table, changes.get("busy", 1.0) * cores, changes)
    parameters = {
        "passes": passes,
        "words_mapping": "heavy",
        "capacity_clients": 8,
        "cell_seconds": SECONDS,
    } | changes.get("parameters", {})
    nodes = [
        {"node": f"node {i + 1}", "version": "8.17.2", "jvm": "OpenJDK 21", "cores": 1, "heap_mb": 512}
        | ({"cpu_cores": str(cores), "cpu_held_by": held_by} if cores else {})
        for i in range(on)
    ]
    document = {"race-id": race_id, "challenge": challenge, "results": {"any": 1}} | changes.get("document", {})
    return Race(document, samples, changes.get("failed", {}), parameters, nodes, {}, True)


def _cell(challenge, number, shards, replicas, on, docs, noise, at, table, cores, changes):
    name, together = f"{shards}s-{replicas}r", changes.get("together", model.Together())
    behind = (f"-{on}n" if on else "") + (f"-{docs}" if docs else "")
    meta = {"cell": name + behind, "pass": number, "success": True}
    more = {"shards": shards, "replicas": replicas, "data_nodes": on, "rate": docs, "documents": DOCUMENTS}
    yield Sample("capacity-prepare", at, "prepare", 1.0, meta | more | {"shard_table": json.dumps(table)})
    index_costs = changes.get("index_costs", INDEX_COSTS)
    query_s, index_s = COSTS.seconds(table, shards, DOCUMENTS), index_costs.seconds(table)
    rates = {"capacity-index": docs or noise / index_s}
    if challenge == "capacity-query" or challenge == "capacity-mixed" and not docs:
        rates = {"capacity-query": noise / query_s}
    elif docs:
        left = 1 - docs * index_s - model.most_copies(table) * together.copy_s
        rates["capacity-query"] = noise * left / (query_s * (1 + together.longer))
    when, process = changes.get("times", {}).get(name, float), changes.get("process")
    for kind, rate in rates.items():
        answered = BULK if kind == "capacity-index" and not docs else 1
        of_kind = meta | ({"success-count": answered} if kind == "capacity-index" else {})
        paced = docs and kind == "capacity-index"
        for i in range(int(rate / answered * SECONDS) + (not paced)):
            start = at + 1 + round(1000 * SECONDS * when(i * answered / rate / SECONDS))
            yield Sample(kind, start, kind, 5.0, of_kind)
    used = parts(table, index_costs) if challenge == "capacity-indexing" else dict.fromkeys(table, 1.0)
    compiling = changes.get("compiling", {}).get(number)
    for second in range(SECONDS):
        now = at + 1000 * second
        nodes = {
            node: {"at": now, "cpu_ms": 1000 * cores * used[node] * second, "queue": second, "rejected": 0}
            for node in table
        }
        if compiling is not None:
            nodes["node 1"]["compiler_ms"] = compiling * nodes["node 1"]["cpu_ms"]
        looked = {"client_cpu_ms": 200.0 * second, "host_busy_ms": 1500.0 * second, "host_idle_ms": 500.0 * second}
        if process is not None:
            looked["processes"] = json.dumps({"7": process * now})
        yield Sample("capacity-monitor", now, "monitor", 2.0, meta | looked | {"nodes": json.dumps(nodes)})


def curve(race_id="x", rates=(20, 40, 60, 80, 90), passes=6, seconds=60, **parameters):
    """A race of one queue at several rates, each for so many seconds in each pass."""
    rng, samples, latencies = np.random.default_rng(1), [], []
    at = 0
    for number, rate in itertools.product(range(passes + 1), rates):
        at += 100_000
        where = {"cell": f"1s-2r-{rate}", "pass": number, "success": True}
        more = {"shards": 1, "replicas": 2, "rate": rate, "documents": 1000, "shard_table": json.dumps({"a": ["0p"]})}
        samples.append(Sample("capacity-prepare", at, "prepare", 1.0, where | more))
        for i, wait in enumerate(rng.exponential(1000 / (SERVICE_PER_S - rate), rate * seconds)):
            of = ("capacity-query", at + 1 + round(1200 * i / rate), "query")  # a tail of single clients
            samples.append(Sample(*of, 10.0, where))
            latencies.append(Sample(*of, 10 * wait if number == 0 else wait, where))
        for second in (0, seconds):
            nodes = {"a": {"at": 1000 * second, "cpu_ms": 300 * second, "queue": 3, "rejected": 0}}
            figures = {"client_cpu_ms": 1.0 * second, "host_busy_ms": 1.0 * second, "host_idle_ms": 9.0 * second}
            meta = where | figures | {"nodes": json.dumps(nodes)}
            samples.append(Sample("capacity-monitor", at + 1000 * second, "monitor", 1.0, meta))
    known = {"slo_ms": 200, "passes": passes, "capacity_clients": 64, "cell_seconds": seconds} | parameters
    document = {"race-id": race_id, "challenge": "capacity-curve", "results": {"any": 1}}
    return Race(document, samples, {}, known, latencies=latencies)


def sections(race, title=""):
    """The sections of its report with this in their titles."""
    return [s for s in report_of(race).sections(race) if title in s.title]


def text_of(race, title=""):
    """Their text."""
    return "\n".join(s.text for s in sections(race, title))


def row(race, title, name):
    """The row whose first column has this name, in the one table of a section."""
    (table,) = (t for s in sections(race, title) for t in s.tables)
    return next(row for row in table.rows if row[table.columns[0].key] == name)


def holds(race, claim):
    """Whether a published statement does."""
    return row(race, "published", claim)["holds"]


def falling(part):
    """When a part of a cell's requests was sent, at a rate that falls to half of what it was after 60 % of the time."""
    return 0.8 * part if part < 0.75 else 0.6 + 1.6 * (part - 0.75)


def seconds(costs, shards, replicas, documents=DOCUMENTS):
    """Of the busiest of three nodes per request."""
    return costs.seconds(model.spread(3, shards, replicas), shards, documents)
