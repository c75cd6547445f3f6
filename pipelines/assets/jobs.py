"""Stage 1: read and clean a trace; keep dropped and altered jobs beside it."""

from typing import Any

import dagster as dg

from features.jobs.schema import fingerprint
from pipelines.assets.checks import specs
from pipelines.assets.described import written_table
from pipelines.assets.external import TRACE_FILE
from pipelines.assets.nights import stage
from pipelines.assets.partitions import of_traces
from pipelines.assets.resources import LakeResource
from pipelines.assets.trace_checks import JOBS, check_jobs
from pipelines.dated.replay import accounting_of
from pipelines.report.table import escaped
from pipelines.sources.traces import read_known


def _of_day(name: str, day: str) -> dict[str, Any]:
    """Return metadata of a night that is only recorded: the jobs that it would have read."""
    cleaned = accounting_of(read_known(name), day)
    return {"jobs": len(cleaned.jobs), "fingerprint": fingerprint(cleaned.jobs)}


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "jobs",
            deps=[TRACE_FILE],
            group_name="ingest",
            kinds={"parquet"},
            description="The cleaned jobs of a trace, in order of submission.",
        ),
        dg.AssetSpec(
            "rejected_jobs",
            deps=[TRACE_FILE],
            group_name="ingest",
            kinds={"parquet"},
            description="Every job dropped and every value altered, with the rule's name.",
        ),
    ],
    partitions_def=of_traces,
    check_specs=specs("jobs", JOBS),
    name="ingest",
)
@stage("ingesting", recorded=_of_day, progress="ingest")
def ingest(context: dg.AssetExecutionContext, lake: LakeResource):
    """Read and clean the trace of this partition; keep its jobs and its rejected jobs.

    A night sees what had ended when its day began, even if it runs later.
    """
    name = lake.name
    cleaned = lake.lake().write_clean(accounting_of(read_known(name), lake.night))
    jobs, rejected = cleaned.jobs, cleaned.rejected_jobs
    dropped = int((rejected["action"] == "dropped").sum())
    rules = {"rules": dg.MetadataValue.json(cleaned.touched())}
    yield written_table(lake.lake(), "rejected_jobs", name).materialized(rules, asset="rejected_jobs")
    yield written_table(lake.lake(), "jobs", name).materialized(
        {
            "generated": cleaned.generated,
            "read": cleaned.jobs_read,
            "dropped": dropped,
            "altered": len(rejected) - dropped,
            "processors": cleaned.procs,
            "users": int(jobs["user"].nunique()),
            "days": round((int(jobs["submit_s"].iloc[-1]) - int(jobs["submit_s"].iloc[0])) / 86_400, 1),
            "fingerprint": fingerprint(jobs),
            "source": cleaned.source,
            "notes": dg.MetadataValue.md("\n".join(f"* {escaped(note)}" for note in cleaned.notes) or "none"),
        },
        check_jobs(cleaned, lake.lake().read_clean(name)),
        asset="jobs",
    )
