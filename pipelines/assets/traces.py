"""Read and clean a trace, and compute what was known at each submission."""

from collections.abc import Iterator

import dagster as dg

from features.jobs.schema import fingerprint
from pipelines.assets.described import TRACE_FILE, written_table
from pipelines.assets.resources import LakeResource
from pipelines.assets.stages import trace_stage
from pipelines.assets.trace_checks import JOBS, check_jobs
from pipelines.lake.runtime_features import keep_features
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.traces import read_known
from pipelines.report.table import escaped
from pipelines.studies.variability_ingest import simulate_if_needed
from pipelines.training.ledger import days_arrived, days_to_come, later_night
from pipelines.training.replay import accounting_of, arrived


@trace_stage(
    ("jobs", "rejected_jobs"),
    deps=[TRACE_FILE],
    group_name="ingest",
    kinds={"parquet"},
    checks=JOBS,
    progress="ingest",
    description={
        "jobs": "The cleaned jobs of a trace, in order of submission.",
        "rejected_jobs": "Every job dropped and every value altered, with the rule's name.",
    },
)
def ingest(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[dg.MaterializeResult]:
    """Read and clean the trace of this partition; keep its jobs and its rejected jobs.

    A night sees what had ended when its day began, even if it runs later; of a log that arrives, one more day than the last night.
    If a later night was published before, nothing is made: a champion does not move back in time, since one with less training data
    would replace it.
    """
    tables, name, night = lake.lake(), lake.name, lake.night
    if last := later_night(tables, name, night):
        context.log.warning(
            f"a later night, {last}, is published: nothing is made for {night}, champion and tables stay those of {last}"
        )
        return
    simulate_if_needed(lake.place(), name, days_arrived(tables, name, night))
    whole = read_known(name)
    to_come = days_to_come(tables, load_catalogue()[name], night)
    cleaned = tables.write_clean(accounting_of(arrived(whole, to_come), night))
    jobs, rejected = cleaned.jobs, cleaned.rejected_jobs
    dropped = int((rejected["action"] == "dropped").sum())
    rules = {"rules": dg.MetadataValue.json(cleaned.touched())}
    yield written_table(tables, "rejected_jobs", name).materialized(rules, asset="rejected_jobs")
    yield written_table(tables, "jobs", name).materialized(
        {
            "finding": f"{len(jobs):,} of {cleaned.jobs_read:,} jobs are kept: {dropped:,} dropped, {len(rejected) - dropped:,} values altered.",
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
        check_jobs(cleaned, tables.read_clean(name)),
        asset="jobs",
    )


@trace_stage(
    deps=["jobs"],
    group_name="features",
    kinds={"parquet", "numba"},
    progress="runtime features",
    description="What models of runtimes are trained from, a row a job, as known at its submission: what had ended of jobs like it, of "
    "its user (Gaussier et al., table 2; OKCM, table 1), and how variable the user's runtimes are.",
)
def runtime_features(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the features of a cleaned trace in one pass; keep them with its starts."""
    tables = lake.lake()
    clean = tables.read_clean(lake.name)
    kept = keep_features(tables, clean)
    facts = {"starts": kept.source, "generated": clean.generated}
    return written_table(tables, "runtime_features", lake.name).materialized(facts)
