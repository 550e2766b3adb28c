"""What Rally's names in the JSON files stand for."""

from esrally.track.loader import DefaultTrackPreparator

from .cluster_metrics.capacity import DocumentParams, IndexRunner, Monitor, MonitorParams, QueryParams, QueryRunner
from .cluster_metrics.capacity_indices import (
    BuildWords,
    BuildWordsParams,
    CheckGrid,
    DropWords,
    PrepareCell,
    PrepareCellParams,
)
from .cluster_metrics.coverage import CellParams, CellRunner, PlanParams, PlanRunner
from .cluster_metrics.experiment import Experiment
from .cluster_metrics.frontier import (
    BuildLayouts,
    DropLayouts,
    FrontierCpuParams,
    FrontierCpuRunner,
    FrontierParams,
    FrontierRunner,
    LayoutsParams,
)
from .cluster_metrics.index import CheckIndex, CheckIndexParams, CheckTarget, DeleteOwnIndex
from .cluster_metrics.ingest import IngestBulk, IngestPace, IngestParams
from .cluster_metrics.ingest_account import IngestBegin, IngestEpoch
from .cluster_metrics.ingest_decomp import IngestDecompParams, IngestDecompRunner
from .cluster_metrics.ingest_formats import IngestFormatsParams, IngestFormatsRunner
from .cluster_metrics.profile import ProfileParams, ProfileRunner
from .cluster_metrics.sketch import (
    FloorIngestParams,
    FloorIngestRunner,
    FloorQuestionsParams,
    FloorQuestionsRunner,
)
from .cluster_metrics.stored_fields import CheckEsql, CheckTextParams, StoredFieldsParams, StoredFieldsRunner


def register(registry):
    registry.register_track_processor(Experiment())
    registry.register_track_processor(DefaultTrackPreparator())

    registry.register_runner("delete-own-index", DeleteOwnIndex(), async_runner=True)
    registry.register_runner("check-index", CheckIndex(), async_runner=True)
    registry.register_runner("check-target", CheckTarget(), async_runner=True)
    registry.register_runner("query-cell", CellRunner(), async_runner=True)
    registry.register_runner("query-plan", PlanRunner(), async_runner=True)
    registry.register_runner("query-profile", ProfileRunner(), async_runner=True)
    registry.register_runner("build-layouts", BuildLayouts(), async_runner=True)
    registry.register_runner("frontier", FrontierRunner(), async_runner=True)
    registry.register_runner("frontier-cpu", FrontierCpuRunner(), async_runner=True)
    registry.register_runner("drop-layouts", DropLayouts(), async_runner=True)
    registry.register_runner("check-esql", CheckEsql(), async_runner=True)
    registry.register_runner("esql-stored-fields", StoredFieldsRunner(), async_runner=True)
    registry.register_runner("esql-profile", StoredFieldsRunner(), async_runner=True)
    registry.register_runner("ingest-decomp", IngestDecompRunner(), async_runner=True)
    registry.register_runner("ingest-formats", IngestFormatsRunner(), async_runner=True)
    registry.register_runner("sketch-ingest", FloorIngestRunner(), async_runner=True)
    registry.register_runner("sketch-questions", FloorQuestionsRunner(), async_runner=True)
    registry.register_runner("ingest-begin", IngestBegin(), async_runner=True)
    registry.register_runner("ingest-bulk", IngestBulk(), async_runner=True)
    registry.register_runner("ingest-epoch", IngestEpoch(), async_runner=True)

    registry.register_scheduler("ingest-pace", IngestPace)
    registry.register_runner("capacity-check", CheckGrid(), async_runner=True)
    registry.register_runner("capacity-build", BuildWords(), async_runner=True)
    registry.register_runner("capacity-prepare", PrepareCell(), async_runner=True)
    registry.register_runner("capacity-index", IndexRunner(), async_runner=True)
    registry.register_runner("capacity-query", QueryRunner(), async_runner=True)
    registry.register_runner("capacity-monitor", Monitor(), async_runner=True)
    registry.register_runner("capacity-drop", DropWords(), async_runner=True)

    registry.register_param_source("check-index-params", CheckIndexParams)
    registry.register_param_source("query-cell-params", CellParams)
    registry.register_param_source("query-plan-params", PlanParams)
    registry.register_param_source("query-profile-params", ProfileParams)
    registry.register_param_source("layouts-params", LayoutsParams)
    registry.register_param_source("frontier-params", FrontierParams)
    registry.register_param_source("frontier-cpu-params", FrontierCpuParams)
    registry.register_param_source("check-text-params", CheckTextParams)
    registry.register_param_source("stored-fields-params", StoredFieldsParams)
    registry.register_param_source("ingest-decomp-params", IngestDecompParams)
    registry.register_param_source("ingest-formats-params", IngestFormatsParams)
    registry.register_param_source("sketch-ingest-params", FloorIngestParams)
    registry.register_param_source("sketch-questions-params", FloorQuestionsParams)
    registry.register_param_source("ingest-params", IngestParams)
    registry.register_param_source("capacity-build-params", BuildWordsParams)
    registry.register_param_source("capacity-prepare-params", PrepareCellParams)
    registry.register_param_source("capacity-index-params", DocumentParams)
    registry.register_param_source("capacity-query-params", QueryParams)
    registry.register_param_source("capacity-monitor-params", MonitorParams)
