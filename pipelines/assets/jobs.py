"""Stage 1: read and clean a trace; keep dropped and altered jobs beside it."""

import dagster as dg

from features.jobs.cleaning import clean
from features.jobs.schema import fingerprint
from pipelines.assets.checks import specs
from pipelines.assets.described import told
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource
from pipelines.report.table import escaped
from pipelines.sources.traces import read_known
from pipelines.workflows.progress import report_progress
from pipelines.workflows.trace_checks import JOBS, check_jobs


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "jobs", group_name="ingest", kinds={"parquet"}, description="The cleaned jobs of a trace, in order of submission."
        ),
        dg.AssetSpec(
            "rejected_jobs",
            group_name="ingest",
            kinds={"parquet"},
            description="Every job dropped and every value altered, with the rule's name.",
        ),
    ],
    partitions_def=traces,
    check_specs=specs("jobs", JOBS),
    name="ingest",
)
def ingest(context: dg.AssetExecutionContext, lake: LakeResource):
    """Read the trace of this partition by the catalogue, clean it, and keep both tables."""
    name = context.partition_key
    report_progress("ingest", 0, 1)
    trace, missing_request = read_known(name)
    cleaned = clean(trace, missing_request=missing_request)
    lake.lake().write_clean(cleaned)
    jobs, rejected = cleaned.jobs, cleaned.rejected_jobs
    dropped = int((rejected["action"] == "dropped").sum())
    of_jobs, of_rejected = told(lake.lake(), "jobs", name), told(lake.lake(), "rejected_jobs", name)
    report_progress("ingest", 1, 1)
    yield dg.MaterializeResult(
        asset_key="rejected_jobs",
        data_version=of_rejected.version,
        metadata={
            **of_rejected.metadata,
            "rules": dg.MetadataValue.json(cleaned.touched()),
        },
    )
    yield dg.MaterializeResult(
        asset_key="jobs",
        data_version=of_jobs.version,
        metadata={
            **of_jobs.metadata,
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
        check_results=check_jobs(cleaned, lake.lake().read_clean(name)),
    )
