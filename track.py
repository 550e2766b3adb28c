"""Registers what the records of the challenges name."""

from esrally.track.loader import DefaultTrackPreparator

from .cluster_metrics.core.challenge import challenges, operations
from .cluster_metrics.core.experiment import Experiment, validate


def register(registry):
    if register_validator := getattr(registry, "register_validator", None):  # which Rally 2.13 has not got
        for name in challenges():
            register_validator(name, validate)
    registry.register_track_processor(Experiment())
    registry.register_track_processor(DefaultTrackPreparator())
    for operation in operations().values():
        registry.register_runner(operation.type, operation.runner(), async_runner=True)
        if operation.params:
            registry.register_param_source(operation.type, operation.params)
        if operation.scheduler:
            registry.register_scheduler(operation.type, operation.scheduler)
