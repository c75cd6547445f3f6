"""Stage 2: what was known of its user when each job was submitted."""

import dagster as dg

from features.jobs.schema import recorded_end_s
from pipelines.assets.checks import specs
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource
from pipelines.assets.trace_checks import HISTORY, check_history
from pipelines.dated.history import keep_history
from pipelines.workflows.progress import report_progress


@dg.asset(
    name="user_history",
    deps=["jobs"],
    partitions_def=of_traces,
    group_name="features",
    kinds={"parquet", "numba"},
    check_specs=specs("user_history", HISTORY),
    description="Features of Gaussier et al. (table 2) and OKCM (table 1): what had ended, and what ran, of its user at each job's submission.",
)
@stage("making user histories")
def user_history_of_trace(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the user history of a cleaned trace in one pass; keep it with its starts."""
    name, _ = name_and_day(context.partition_key)
    report_progress("user history", 0, 1)
    clean = lake.lake().read_clean(name)
    users = keep_history(lake.lake(), clean)
    of_table = told(lake.lake(), "user_history", name)
    report_progress("user history", 1, 1)

    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "starts": users.source,
            "generated": clean.generated,
        },
        check_results=check_history(clean.jobs, users.table, recorded_end_s(clean.jobs, users.start_s)),
    )
