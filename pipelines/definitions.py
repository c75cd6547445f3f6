"""The Dagster definitions of Queuecast: assets, jobs, schedules, sensors and resources."""

import dagster as dg

from pipelines.assets.cluster_experiments import cluster_experiments
from pipelines.assets.comparison import comparison, report
from pipelines.assets.counters import control_runs, counters, counters_by_day
from pipelines.assets.described import described
from pipelines.assets.external import external
from pipelines.assets.history import user_history_of_trace
from pipelines.assets.jobs import ingest
from pipelines.assets.learned_policy import learned_policy
from pipelines.assets.night import night
from pipelines.assets.parity import parity
from pipelines.assets.published import published_system, published_trace
from pipelines.assets.queue_states import queue_states
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.runtime_model import runtime_model
from pipelines.assets.schedules import schedules
from pipelines.assets.sensors import changed_traces, drift, failed_nights, nightly_retraining, nightly_variability_retraining
from pipelines.assets.start_model import start_model
from pipelines.assets.variability_features import variability_features
from pipelines.assets.variability_model import variability_model
from pipelines.assets.variability_night import variability_night
from pipelines.assets.what_if import what_if
from pipelines.storage.permissions import keep_private

keep_private()

TRACE_STAGES = [
    ingest,
    user_history_of_trace,
    runtime_model,
    learned_policy,
    queue_states,
    start_model,
    schedules,
    comparison,
    parity,
    what_if,
    report,
    published_trace,
]
SYSTEM_STAGES = [
    counters,
    control_runs,
    variability_features,
    variability_model,
    cluster_experiments,
    published_system,
]

full_run = dg.define_asset_job(
    "full_run",
    selection=dg.AssetSelection.assets(*TRACE_STAGES),
    description="One trace from its source to the report: ingest, features, registered model, its simulation, comparison.",
)

variability = dg.define_asset_job(
    "variability",
    selection=dg.AssetSelection.assets(*SYSTEM_STAGES),
    description="One monitored system: counters, control runs, features, registered model, and trials where the system is simulated.",
)

nightly = dg.define_asset_job(
    "nightly",
    selection=dg.AssetSelection.assets(*TRACE_STAGES, night),
    description="The night of a day of one trace: the assets of a run from what had ended by then, the champion judged as served, and the mark of the day.",
)

nightly_variability = dg.define_asset_job(
    "nightly_variability",
    selection=dg.AssetSelection.assets(*SYSTEM_STAGES, variability_night),
    description="One night of one monitored system: the assets of a run with what is new of counters and control runs, and the mark of the day.",
)


defs = dg.Definitions(
    assets=[
        *dg.map_asset_specs(described, [*TRACE_STAGES, night, *SYSTEM_STAGES, counters_by_day, variability_night]),
        *external,
    ],
    jobs=[full_run, variability, nightly, nightly_variability],
    schedules=[nightly_retraining, nightly_variability_retraining],
    sensors=[changed_traces, failed_nights, drift],
    resources={"lake": LakeResource(), "registry": RegistryResource()},
    # stages are seconds of numpy and numba; a process per stage would cost more than it gains, and a night holds a lock
    executor=dg.in_process_executor,
)
