"""Everything Dagster knows of Queuecast: the single place where it all comes together."""

import dagster as dg

from pipelines.assets.comparison import comparison, report
from pipelines.assets.history import user_history_of_trace
from pipelines.assets.jobs import ingest
from pipelines.assets.predictions import predict
from pipelines.assets.runtime_model import runtime_model
from pipelines.assets.schedules import schedules
from pipelines.partitions import traces
from pipelines.resources import LakeResource

full_run = dg.define_asset_job(
    "full_run",
    selection=dg.AssetSelection.all(),
    description="One trace from its source to the report: ingest, features, predictions, registered model, simulations, comparison.",
    # stages are seconds of numpy and numba in one process; a process a stage would cost more than it gains
    executor_def=dg.in_process_executor,
)


@dg.schedule(
    job=full_run,
    cron_schedule="0 2 * * *",
    name="nightly_retraining",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly_retraining(context: dg.ScheduleEvaluationContext):
    """Every night, read each known trace again, retrain, promote the better model and compare anew."""
    names = context.instance.get_dynamic_partitions(str(traces.name))
    if not names:
        return dg.SkipReason("no trace is known yet: queuecast run adds one")
    night = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [dg.RunRequest(run_key=f"{night}/{name}", partition_key=name) for name in names]


defs = dg.Definitions(
    assets=[ingest, user_history_of_trace, predict, runtime_model, schedules, comparison, report],
    jobs=[full_run],
    schedules=[nightly_retraining],
    resources={"lake": LakeResource()},
)
