"""Stage 2: what was known of its user when each job was submitted."""

import dagster as dg

from pipelines.checks import broken, holds, specs
from pipelines.partitions import traces
from pipelines.progress import tell
from pipelines.resources import LakeResource
from pipelines.stages import user_history

CHECKS = {
    "one_row_a_job": "There is a row for every job.",
    "first_jobs_know_nothing": "A user's first job has no completed and no running job behind it.",
    "completed_jobs_only_grow": "The number of a user's completed jobs never falls from one submission to the next.",
}


@dg.asset(
    name="user_history",
    deps=["jobs"],
    partitions_def=traces,
    group_name="features",
    kinds={"parquet", "numba"},
    check_specs=specs("user_history", CHECKS),
    description="Features of Gaussier et al. (table 2) and OKCM (table 1): what had ended, and what ran, of its user at each job's submission.",
)
def user_history_of_trace(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Read the cleaned trace, compute its user history in one pass, keep it with the starts it goes by."""
    name = context.partition_key
    tell("user history", 0, 1)
    clean = lake.lake().read_clean(name)
    known = user_history(clean)
    table = known.table.assign(start_s=known.start_s)
    lake.lake().write_for(clean, "user_history", table, {"starts": known.source})
    tell("user history", 1, 1)

    users = clean.jobs["user"].cat.codes
    first = ~users.duplicated() & (users >= 0)
    falls = table["completed_jobs"].groupby(users).diff() < 0
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(table),
            "starts": known.source,
            "columns": len(table.columns),
            "generated": clean.generated,
        },
        check_results=[
            holds("one_row_a_job", len(table) == len(clean.jobs), rows=len(table), jobs=len(clean.jobs)),
            broken(
                "first_jobs_know_nothing", ((table.loc[first, "completed_jobs"] > 0) | (table.loc[first, "running_jobs"] > 0)).sum()
            ),
            broken("completed_jobs_only_grow", falls.sum(), of=len(table)),
        ],
    )
