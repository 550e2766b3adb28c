"""Registers what the records of the challenges name."""

from esrally.track.loader import DefaultTrackPreparator

from .cluster_metrics.core.challenge import operations
from .cluster_metrics.core.experiment import Experiment


def register(registry):
    registry.register_track_processor(Experiment())
    registry.register_track_processor(DefaultTrackPreparator())
    for operation in operations().values():
        registry.register_runner(operation.type, operation.runner(), async_runner=True)
        if operation.params:
            registry.register_param_source(operation.type, operation.params)
        if operation.scheduler:
            registry.register_scheduler(operation.type, operation.scheduler)
