"""A challenge's schedule without Rally's processes: its reading of the track, param sources, client and execution."""

import time
from pathlib import Path
from types import SimpleNamespace

import esrally
from esrally.driver import driver, runner
from esrally.track import loader, params

try:
    from esrally.utils.error_behavior import OnErrorBehavior
except ImportError:  # esrally 2.12 has them as text
    OnErrorBehavior = SimpleNamespace(ABORT="abort", CONTINUE="continue")

from cluster_metrics.core.challenge import operations
from cluster_metrics.core.experiment import Experiment
from cluster_metrics.core.monitor import MONITOR

ROOT = Path(__file__).parents[2]


def read(folder, challenge, race_id="this", **parameters):
    """The schedule of a challenge as one of Rally's processes reads it, in test mode.

    :param folder: of the corpora, which are generated.
    :return: the track, and the tasks in order, those in parallel one after the other.
    """
    options = {"rally.root": Path(esrally.__file__).parent, "params": parameters, "race.id": race_id}
    options |= {"test.mode.enabled": True, "challenge.name": challenge}
    cfg = SimpleNamespace(opts=lambda section, key, default_value=None, **_: options.get(key, default_value))
    track = loader.TrackFileReader(cfg).read("cluster-metrics", str(ROOT / "track.json"), str(ROOT))
    experiment = Experiment()
    experiment.cfg = cfg
    experiment.on_after_load_track(track)
    for one in track.challenges:
        one.selected = one.name == challenge
    for prepare, of in experiment.on_prepare_track(track, str(folder)):
        prepare(**of)
    for corpus in track.corpora:
        for documents in corpus.documents:
            documents.document_file = str(folder / corpus.name / documents.document_file)
    for operation in operations().values():
        runner.register_runner(operation.type, operation.runner(), async_runner=True)
        if operation.params:
            params.register_param_source_for_name(operation.type, operation.params)
    return track, [task for element in track.selected_challenge.schedule for task in element]


async def run(es, track, task, on_error=OnErrorBehavior.CONTINUE, documents=None):
    """Runs a task as Rally does, as one client without waiting. A monitor, which would look on until the task beside it
    has ended, looks once.

    :param documents: takes those that Rally would write of it to the metrics store.
    :return: what Rally records of each call.
    :raises esrally.exceptions.RallyError: which ends the race.
    """
    source = loader.operation_parameters(track, task).partition(0, 1)
    calls = (task.warmup_iterations or 0) + (task.iterations or 1)
    ends_itself = not getattr(source, "infinite", True) and task.operation.type != MONITOR
    found = []
    while len(found) < calls or ends_itself:
        try:
            called = source.params()
        except StopIteration:
            break
        at = time.time()
        with es.new_request_context() as context:
            of = runner.runner_for(task.operation.type)
            found.append(await driver.execute_single(of, {"default": es}, called, on_error))
            assert context.request_end > context.request_start
        if documents is not None:
            documents += written(task, found[-1][-1], at, context.request_end - context.request_start)
    return found


def written(task, meta, at, seconds):
    """The documents ``service_time`` of one call.

    :param at: when it began, in seconds since the epoch.
    """
    meta = dict(meta)
    timings = [dict(timing) for timing in meta.pop("dependent_timing", ())]
    own = {"absolute_time": at, "service_time": seconds, "operation": task.operation.name}
    own |= {"operation-type": task.operation.type}
    for timing, more in [(own, {}), *((timing.pop("dependent_timing"), timing) for timing in timings)]:
        yield {
            "name": "service_time",
            "sample-type": "normal",
            "task": task.name,
            "@timestamp": round(1000 * timing["absolute_time"]),
            "value": 1000 * timing["service_time"],
            "operation": timing["operation"],
            "operation-type": timing["operation-type"],
            "meta": meta | more,
        }
