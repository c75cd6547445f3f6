"""Variability, stage 2: the counters before each control run and job, as features."""

import dagster as dg

from features.monitoring.rates import KINDS
from pipelines.assets.described import written_table
from pipelines.assets.resources import LakeResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import FEATURES, check_features
from pipelines.report.table import markdown_of
from pipelines.studies.variability_table import FEATURES_TABLE, coverage, label_balance, pack_table, training_table


@system_stage(
    checks=FEATURES,
    progress="features of runs",
    deps=["counters", "control_runs"],
    group_name="features",
    kinds={"parquet", "numba"},
    description="Min, max and mean rate of every counter in the five minutes before each run, and each user's job, over its own nodes and over all; "
    "probes, types, and what ran beside it.",
)
def variability_features(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Compute the features in one pass over the counters, one row per run or job, and scope."""
    name = system_lake.name
    table = training_table(system_lake.place(), name)
    frame, metadata = pack_table(table)
    system_lake.lake().write(FEATURES_TABLE, name, frame, metadata)

    samplers = table.interval_s.index
    kinds = table.counts.rename("values").rename_axis("kind").reset_index()
    kinds = kinds[kinds["kind"].isin([f"{sampler}.{kind}" for sampler in samplers for kind in (*KINDS, "duplicate", "vanished")])]
    return written_table(system_lake.lake(), FEATURES_TABLE, name).materialized(
        {
            "finding": f"{len(table.runs):,} control runs and {len(table.jobs):,} jobs of users have features.",
            "control_runs": len(table.runs),
            "user_jobs": len(table.jobs),
            "features": {scope: len(features.columns) for scope, features in table.features.items()},
            "left_out": dict(table.left_out),
            "simulated": table.generated,
            "coverage": dg.MetadataValue.md(markdown_of(coverage(table))),
            "labels": dg.MetadataValue.md(markdown_of(label_balance(table.runs))),
            "values": dg.MetadataValue.md(markdown_of(kinds)),
        },
        check_features(table),
    )
