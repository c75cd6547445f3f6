"""Stage 2: what was known of each job's user when the job was submitted."""

import dagster as dg

from features.jobs.schema import recorded_end_s
from pipelines.assets.described import written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource
from pipelines.assets.trace_checks import HISTORY, check_history
from pipelines.dated.history import keep_history


@trace_stage(
    "making user histories",
    name="user_history",
    checks=HISTORY,
    progress="user history",
    deps=["jobs"],
    group_name="features",
    kinds={"parquet", "numba"},
    description="Features of Gaussier et al. (table 2) and OKCM (table 1): what had ended, and what ran, of its user at each job's submission.",
)
def user_history_of_trace(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the user history of a cleaned trace in one pass; keep it with its starts."""
    name = lake.name
    clean = lake.lake().read_clean(name)
    users = keep_history(lake.lake(), clean)

    return written_table(lake.lake(), "user_history", name).materialized(
        {
            "starts": users.source,
            "generated": clean.generated,
        },
        check_history(clean.jobs, users.table, recorded_end_s(clean.jobs, users.start_s)),
    )
