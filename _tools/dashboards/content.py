"""The dashboards over Rally's metrics store."""

from cluster_metrics.core.challenge import challenges

from .panels import Bucket, Dashboard, DataView, Layer, Marks, Metric, Panel, Terms, Time

METRICS = DataView("cluster-metrics-rally-metrics", "Rally: samples", "rally-metrics-*", "@timestamp")
RESULTS = DataView("cluster-metrics-rally-results", "Rally: results", "rally-results-*", "race-timestamp")

SERVICE_TIME = {"name": "service_time", "sample-type": "normal"}
REQUEST = {"name": "processing_time", "sample-type": "normal"}
"""One sample per request of a task, where service_time has further ones for what a runner timed within it."""
CELL = SERVICE_TIME | {"operation-type": "query-cell"}
PLAN = SERVICE_TIME | {"operation-type": "coverage"}

CONTROLS = (
    ("Race", "race-id"),
    ("Task", "task"),
    ("Operation type", "operation-type"),
    ("Challenge", "challenge"),
)
"""Each is of a field that every race has: Kibana shows a control of any other as broken."""

TIME, TASK, RACE = Time(), Terms("Task", "task"), Terms("Race", "race-id", size=10)
VARIANT, TRANSPORT = Terms("Variant", "meta.variant"), Terms("Transport", "meta.transport")
PASS = Terms("Pass", "meta.pass", type="number")


def percentile(number: int, field: str = "value", label: str = "") -> Metric:
    return Metric(label or f"{number}th percentile", "percentile", field, percentile=number, unit="ms")


def average(label: str, field: str) -> Metric:
    return Metric(label, "average", field, unit="ms")


def figure(title: str, description: str, where: dict[str, str], metric: Metric) -> Panel:
    return Panel("figure", title, description, where, (Layer((metric,)),), width=12, height=6)


def chart(
    title: str,
    description: str,
    where: dict[str, str],
    axis: str,
    metrics: tuple[Metric, ...],
    buckets: tuple[Bucket, ...] = (TIME,),
    marks: Marks = "bar",
    width: int = 24,
) -> Panel:
    return Panel("chart", title, description, where, (Layer(metrics, buckets, marks),), axis, width)


def table(
    title: str,
    description: str,
    where: dict[str, str],
    metrics: tuple[Metric, ...],
    buckets: tuple[Bucket, ...],
    width: int = 24,
    height: int = 12,
) -> Panel:
    return Panel("table", title, description, where, (Layer(metrics, buckets),), width=width, height=height)


SAMPLES = Metric("Samples", "count", decimals=0)
AVERAGE = average("Average", "value")
MEDIAN = percentile(50, label="Median")
LONGEST = Metric("Longest", "max", "value", unit="ms")
ACKNOWLEDGED = Metric("Acknowledged", "sum", "meta.success-count", decimals=0)
ERRORS = Metric("Errors", "sum", "meta.error-count", decimals=0)
DOCUMENTS_PER_SECOND = Metric("Documents per second", "sum", "meta.success-count", decimals=0, per_second=True)
CPU_TIME = average("CPU time", "meta.target_cpu_ms")
ERROR = Metric("Error", "max", "meta.max_percentile_error", unit="%", decimals=3)

BULKS = (
    "bulk",
    *dict.fromkeys(
        kind
        for record in challenges().values()
        for kind, sample in record.samples.items()
        if {"took", "success-count"} <= {key.name for key in sample.keys}
    ),
)
"""Operation types whose samples record ``took`` of one bulk request each; every one gets a panel of its own."""


def bulk(kind: str) -> Panel:
    return chart(
        f"Service time and took of {kind}",
        "Service time is what the client waits for, took what Elasticsearch needs of it; the gap is network, client "
        f"and queues. Requests of operation type {kind}. Elasticsearch may report took in steps of 200 ms: then trust "
        "averages over many requests.",
        SERVICE_TIME | {"operation-type": kind},
        "Average (ms)",
        (average("Service time", "value"), average("took", "meta.took")),
        marks="line",
    )


RACE_LIVE = Dashboard(
    "cluster-metrics-race-live",
    "Rally: race live",
    "A race while it runs: how long requests take, what is acknowledged, what fails, and when each task runs. "
    "Choose a race above. Times are in milliseconds as Rally's load driver measures them; warm-up is left out unless a "
    "panel says otherwise.",
    METRICS,
    CONTROLS,
    (
        figure(
            "Samples",
            "Measured requests without warm-up. A coverage of query-decomp (30 searches) counts as one.",
            SERVICE_TIME,
            SAMPLES,
        ),
        figure(
            "99th percentile of service time",
            "99 of 100 requests took at most this long. Choose a task: over several tasks the figure says little.",
            SERVICE_TIME,
            percentile(99, label="99th percentile of service time"),
        ),
        figure(
            "Acknowledged documents",
            "Documents that bulk requests reported as indexed, warm-up left out.",
            SERVICE_TIME,
            ACKNOWLEDGED,
        ),
        figure(
            "Errors",
            "Documents that bulk requests reported as failed, and questions that were not answered or answered wrong.",
            REQUEST,
            ERRORS,
        ),
        Panel(
            "chart",
            "Service time",
            "Bars: average. Lines: half, 95 % and 99 % of the requests took at most this long. An average well above "
            "the median means that few slow requests drag it up. Without a target throughput, latency equals service "
            "time.",
            SERVICE_TIME,
            (Layer((AVERAGE,), (TIME,)), Layer((MEDIAN, percentile(95), percentile(99)), (TIME,), "line")),
            "Service time (ms)",
        ),
        *(bulk(kind) for kind in BULKS),
        chart(
            "Documents acknowledged per second",
            "The true rate, from the documents that each bulk request reported as indexed. Rally's own throughput is "
            "an average since the task began and hides a slow start or end. A time bucket that a task fills only in "
            "part shows too low a rate.",
            SERVICE_TIME,
            "Documents per second",
            (DOCUMENTS_PER_SECOND,),
        ),
        chart(
            "Documents acknowledged, and errors",
            "Errors are documents that bulk requests reported as failed, and questions not answered or answered wrong.",
            REQUEST,
            "Documents, errors",
            (ACKNOWLEDGED, ERRORS),
            marks="bar_stacked",
        ),
        chart(
            "Requests that succeeded and failed",
            "Samples by meta.success. A wrong answer, a timeout, a failed shard or a rejected document makes a sample "
            "a failure.",
            SERVICE_TIME,
            "Samples",
            (SAMPLES,),
            (TIME, Terms("Succeeded", "meta.success", type="boolean")),
            "bar_stacked",
        ),
        chart(
            "CPU time of the target",
            "What all nodes of the target used, averaged over what was measured: a round of a plan, a pass of a cell. "
            "Tasks without this measurement are missing.",
            SERVICE_TIME,
            "CPU time (ms)",
            (CPU_TIME,),
            (TIME, TASK),
            "line",
        ),
        chart(
            "All tasks on one time line",
            "Time that the load driver spent on each task, warm-up included, booked when the request began; added up "
            "over clients. Gaps between tasks are Rally's own.",
            {"name": "processing_time"},
            "Time in requests (ms)",
            (Metric("Time in requests", "sum", "value", unit="ms", decimals=0),),
            (TIME, Terms("Task", "task", by=0)),
            "bar_stacked",
            width=48,
        ),
        table(
            "Time of each task",
            "Service times by task and operation type. A plan's rounds and the coverages within them stand apart.",
            SERVICE_TIME,
            (
                Metric("First began", "min", "@timestamp", is_date=True),
                Metric("Last began", "max", "@timestamp", is_date=True),
                SAMPLES,
                Metric("Together", "sum", "value", unit="ms"),
                AVERAGE,
                MEDIAN,
                percentile(99),
                LONGEST,
            ),
            (TASK, Terms("Operation type", "operation-type")),
            width=48,
            height=16,
        ),
    ),
    since="now-1h",
)

DECOMPOSITION = Dashboard(
    "cluster-metrics-query-decomposition",
    "Rally: query decomposition",
    "The challenge query-decomp: what filter, sums and percentiles cost, by variant of the query and transport. Choose "
    "one race above. Costs of the parts with their intervals are in the report (make report).",
    METRICS,
    CONTROLS,
    (
        chart(
            "Wall time by variant and transport",
            "Median over the rounds of the plan. A: filter alone, B: 3 sums, C: 3 percentiles, D: both, by t-digest "
            "(td) or HDR histogram. A coverage asks for 30 nodes, search by search (serial) or in one request "
            "(msearch).",
            PLAN,
            "Wall time of a coverage (ms)",
            (percentile(50, "meta.wall_ms", "Wall time"),),
            (VARIANT, TRANSPORT),
        ),
        chart(
            "took by variant and transport",
            "Median over the rounds of the plan of what Elasticsearch reports, added up over the 30 searches. With "
            "msearch the searches overlap, so took exceeds wall time.",
            PLAN,
            "took of a coverage (ms)",
            (percentile(50, "meta.took_ms", "took"),),
            (VARIANT, TRANSPORT),
        ),
        chart(
            "Error of the percentiles",
            "Greatest relative error of p50 and p90 against the exact answers, over all nodes and fields; 0 for "
            "variants without percentiles.",
            PLAN,
            "Greatest relative error",
            (ERROR,),
            (VARIANT, TRANSPORT),
        ),
        chart(
            "CPU time of the target by variant and transport",
            "CPU time of all nodes of the target per pass of a headline cell, averaged over the passes.",
            CELL,
            "CPU time of a pass (ms)",
            (CPU_TIME,),
            (VARIANT, TRANSPORT),
        ),
        chart(
            "Drift over the rounds",
            "Average wall time of each cell in each round of the plan. Lines that rise or fall together show a machine "
            "that changes its speed; ratios are formed within rounds, so they do not suffer. Of more than 200 rounds "
            "the first are shown.",
            PLAN,
            "Wall time of a coverage (ms)",
            (average("Wall time", "meta.wall_ms"),),
            (Terms("Round", "meta.round", size=200, type="number"), Terms("Cell", "operation")),
            "line",
        ),
        chart(
            "Headline cells by pass",
            "Median service time of each cell in each pass. Passes that differ show drift between them.",
            CELL,
            "Service time (ms)",
            (MEDIAN,),
            (TASK, PASS),
        ),
        table(
            "Headline cells",
            "The figures of Rally's own summary, over all passes, with Elasticsearch's took and the error beside them.",
            CELL,
            (SAMPLES, AVERAGE, MEDIAN, LONGEST, percentile(50, "meta.took_ms", "Median took"), ERROR),
            (TASK,),
        ),
        table(
            "Samples by pass",
            "How many samples each headline cell has in each pass, and how long they took.",
            CELL,
            (SAMPLES, MEDIAN, LONGEST),
            (TASK, PASS),
        ),
    ),
    since="now-24h",
)


def result(title: str, description: str, name: str, field: str, axis: str, unit: str = "ms") -> Panel:
    """One figure of Rally's results by task and race; there is one document of each, so the average is the figure."""
    metric = Metric(title, "average", f"value.{field}", unit=unit)
    return chart(title, description, {"name": name}, axis, (metric,), (TASK, RACE))


COMPARISON = Dashboard(
    "cluster-metrics-comparison",
    "Rally: comparison of races",
    "Rally's results side by side. Choose two to five races and one challenge above. Whether a difference is more than "
    "noise is for make compare to say. Results hold no operation type, so there is no control for it.",
    RESULTS,
    tuple(control for control in CONTROLS if control[1] != "operation-type"),
    (
        table(
            "Races",
            "The races chosen, by challenge and version of the target.",
            {"active": "true"},
            (Metric("Started", "max", "race-timestamp", is_date=True),),
            (
                RACE,
                Terms("Challenge", "challenge"),
                Terms("Elasticsearch", "distribution-version"),
                Terms("Rally", "rally-version"),
            ),
            width=48,
            height=8,
        ),
        result(
            "Median service time",
            "Tasks with a single sample have none; see the mean.",
            "service_time",
            "50_0",
            "Service time (ms)",
        ),
        result("Mean service time", "Over all samples but warm-up.", "service_time", "mean", "Service time (ms)"),
        result("Slowest request", "The one request that took longest.", "service_time", "100_0", "Service time (ms)"),
        result(
            "Throughput",
            "Median of Rally's throughput, in the unit of each task: documents, searches or operations per second.",
            "throughput",
            "median",
            "Per second",
            unit="",
        ),
        result(
            "Error rate", "Share of requests that failed.", "error_rate", "single", "Requests that failed", unit="%"
        ),
        result(
            "Duration",
            "From the start of a task to its last request, warm-up included; of a task with passes, the longest pass.",
            "duration",
            "single",
            "Time (ms)",
        ),
        chart(
            "Store size",
            "Of all indices of the target at the end of the race, replicas included. Choose no task, since it is the "
            "race that has it.",
            {"name": "store_size"},
            "Store size",
            (Metric("Store size", "average", "value.single", unit="bytes"),),
            (RACE,),
        ),
        table(
            "Service times",
            "The figures behind the charts.",
            {"name": "service_time"},
            (average("Mean", "value.mean"), average("Median", "value.50_0"), average("Slowest", "value.100_0")),
            (TASK, RACE),
        ),
    ),
    since="now-30d",
)

DASHBOARDS = (RACE_LIVE, DECOMPOSITION, COMPARISON)
