"""Stage 3 of starts: the queue that jobs found, and simulations ahead of it."""

import dagster as dg

from pipelines.assets.checks import holds
from pipelines.assets.described import written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource
from pipelines.dated.dated import dated_of
from pipelines.dated.history import read_history
from pipelines.dated.queue_states import keep_states
from pipelines.workflows.progress import report_progress

CHECKS = {"asked_or_told_why": "Questions about starts were asked, or a note says why there are none."}


@trace_stage(
    "describing the queue",
    checks=CHECKS,
    deps=["jobs", "user_history", "runtime_model"],
    group_name="features",
    kinds={"parquet", "numba"},
    description="What jobs found when they were submitted and while they waited: the state of the queue, and their starts when it is run ahead in scenarios.",
)
def queue_states(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Ask about the last starts before the date, and of a run about those that follow."""
    name = lake.name
    clean = lake.lake().read_clean(name)
    date = dated_of(lake.lake().read_for(clean, "runtime_model")[1])
    users = read_history(lake.lake(), clean)
    why = keep_states(lake.lake(), clean, users, date, lambda done, of: report_progress("states", done, of))
    table, marks = lake.lake().read_for(clean, "queue_states")
    facts = {"asked anew": marks.get("asked_anew", 0), "why none": why, "generated": clean.generated}
    checks = [holds("asked_or_told_why", bool(len(table) or why), questions=len(table), note=why)]
    return written_table(lake.lake(), "queue_states", name).materialized(facts, checks)
