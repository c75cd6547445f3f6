"""Everything Dagster knows of Queuecast: the single place where it all comes together."""

import dagster as dg

from pipelines.assets.comparison import comparison, report
from pipelines.assets.history import user_history_of_trace
from pipelines.assets.jobs import ingest
from pipelines.assets.night import NIGHT_TAG, night
from pipelines.assets.predictions import predict
from pipelines.assets.runtime_model import runtime_model
from pipelines.assets.schedules import schedules
from pipelines.partitions import traces
from pipelines.resources import LakeResource

full_run = dg.define_asset_job(
    "full_run",
    selection=dg.AssetSelection.all() - dg.AssetSelection.assets(night),
    description="One trace from its source to the report: ingest, features, predictions, registered model, simulations, comparison.",
    # stages are seconds of numpy and numba in one process; a process a stage would cost more than it gains
    executor_def=dg.in_process_executor,
)

nightly = dg.define_asset_job(
    "nightly",
    selection=dg.AssetSelection.assets(night),
    description="One night of one trace: ingest, retrain, judge, promote or refresh, compare, report; all of it or nothing.",
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
    """Every night, read each known trace again, retrain, promote the better model or refresh the champion, and compare anew."""
    names = context.instance.get_dynamic_partitions(str(traces.name))
    if not names:
        return dg.SkipReason("no trace is known yet: queuecast run adds one")
    date = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return [dg.RunRequest(run_key=f"{date}/{name}", partition_key=name, tags={NIGHT_TAG: date}) for name in names]


defs = dg.Definitions(
    assets=[ingest, user_history_of_trace, predict, runtime_model, schedules, comparison, report, night],
    jobs=[full_run, nightly],
    schedules=[nightly_retraining],
    resources={"lake": LakeResource()},
)
