"""Everything Dagster knows of Queuecast: the single place where it all comes together."""

import dagster as dg

from pipelines.assets.cluster_experiments import cluster_experiments
from pipelines.assets.comparison import comparison, report
from pipelines.assets.counters import control_runs, counters, counters_by_day
from pipelines.assets.history import user_history_of_trace
from pipelines.assets.jobs import ingest
from pipelines.assets.night import NIGHT_TAG, night
from pipelines.assets.partitions import systems, traces
from pipelines.assets.predictions import predict
from pipelines.assets.published import published_system, published_trace
from pipelines.assets.resources import LakeResource
from pipelines.assets.runtime_model import runtime_model
from pipelines.assets.schedules import schedules
from pipelines.assets.variability_features import variability_features
from pipelines.assets.variability_model import variability_model
from pipelines.assets.variability_night import variability_night
from pipelines.sources.systems import systems as remembered_systems
from pipelines.storage.home import home

TRACE_STAGES = [ingest, user_history_of_trace, predict, runtime_model, schedules, comparison, report, published_trace]
SYSTEM_STAGES = [counters, control_runs, variability_features, variability_model, cluster_experiments, published_system]

full_run = dg.define_asset_job(
    "full_run",
    selection=dg.AssetSelection.assets(*TRACE_STAGES),
    description="One trace from its source to the report: ingest, features, predictions, registered model, simulations, comparison.",
    # stages are seconds of numpy and numba in one process; a process a stage would cost more than it gains
    executor_def=dg.in_process_executor,
)

variability = dg.define_asset_job(
    "variability",
    selection=dg.AssetSelection.assets(*SYSTEM_STAGES),
    description="One monitored system: counters, control runs, features, registered model, and trials where the system is simulated.",
    executor_def=dg.in_process_executor,
)

nightly = dg.define_asset_job(
    "nightly",
    selection=dg.AssetSelection.assets(night),
    description="One night of one trace: ingest, retrain, judge, promote or refresh, compare, report; all of it or nothing.",
    executor_def=dg.in_process_executor,
)

nightly_variability = dg.define_asset_job(
    "nightly_variability",
    selection=dg.AssetSelection.assets(variability_night),
    description="One night of one monitored system: what is new of counters and control runs, retrain, promote or keep; all of it or nothing.",
    executor_def=dg.in_process_executor,
)


@dg.schedule(
    job=nightly,
    cron_schedule="0 2 * * *",
    name="nightly_retraining",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly_retraining(context: dg.ScheduleEvaluationContext):
    """Every night, read each known trace, retrain, promote or refresh the champion, compare."""
    names = context.instance.get_dynamic_partitions(str(traces.name))
    if not names:
        return dg.SkipReason("no trace is known yet: queuecast run adds one")
    date = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [dg.RunRequest(run_key=f"{date}/{name}", partition_key=name, tags={NIGHT_TAG: date}) for name in names]


# a schedule of its own: a job has one kind of partition, and systems are not traces; and a trace's night does not wait for counters
@dg.schedule(
    job=nightly_variability,
    cron_schedule="30 2 * * *",
    name="nightly_variability_retraining",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly_variability_retraining(context: dg.ScheduleEvaluationContext):
    """Every night, read each known system, retrain, and promote the better model, if any."""
    context.instance.add_dynamic_partitions(str(systems.name), list(remembered_systems(home())))
    names = context.instance.get_dynamic_partitions(str(systems.name))
    if not names:
        return dg.SkipReason("no system is known yet: queuecast run or queuecast variability ingest adds one")
    date = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [dg.RunRequest(run_key=f"{date}/{name}", partition_key=name, tags={NIGHT_TAG: date}) for name in names]


defs = dg.Definitions(
    assets=[*TRACE_STAGES, night, *SYSTEM_STAGES, counters_by_day, variability_night],
    jobs=[full_run, variability, nightly, nightly_variability],
    schedules=[nightly_retraining, nightly_variability_retraining],
    resources={"lake": LakeResource()},
)
