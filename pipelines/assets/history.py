"""Stage 2: what was known of its user when each job was submitted."""

import dagster as dg

from features.jobs.schema import recorded_end_s
from pipelines.assets.checks import specs
from pipelines.assets.described import told
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource
from pipelines.workflows.progress import report_progress
from pipelines.workflows.stages import user_history
from pipelines.workflows.trace_checks import HISTORY, check_history


@dg.asset(
    name="user_history",
    deps=["jobs"],
    partitions_def=traces,
    group_name="features",
    kinds={"parquet", "numba"},
    check_specs=specs("user_history", HISTORY),
    description="Features of Gaussier et al. (table 2) and OKCM (table 1): what had ended, and what ran, of its user at each job's submission.",
)
def user_history_of_trace(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the user history of a cleaned trace in one pass; keep it with its starts."""
    name = context.partition_key
    report_progress("user history", 0, 1)
    clean = lake.lake().read_clean(name)
    known = user_history(clean)
    table = known.table.assign(start_s=known.start_s)
    lake.lake().write_for(clean, "user_history", table, {"starts": known.source})
    of_table = told(lake.lake(), "user_history", name)
    report_progress("user history", 1, 1)

    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "starts": known.source,
            "generated": clean.generated,
        },
        check_results=check_history(clean.jobs, table, recorded_end_s(clean.jobs, known.start_s)),
    )
