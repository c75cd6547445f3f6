"""Variability, stage 2: the counters before each control run, as features."""

import dagster as dg

from features.monitoring.rates import KINDS
from pipelines.assets.checks import specs
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_systems
from pipelines.assets.resources import LakeResource
from pipelines.assets.variability_checks import FEATURES, check_features
from pipelines.report.table import markdown_of
from pipelines.workflows.progress import report_progress
from pipelines.workflows.variability_table import FEATURES_TABLE, coverage, label_balance, pack_table, training_table


@dg.asset(
    deps=["counters", "control_runs"],
    partitions_def=of_systems,
    group_name="variability",
    kinds={"parquet", "numba"},
    check_specs=specs("variability_features", FEATURES),
    description="Min, max and mean rate of every counter in the five minutes before each run, over its own nodes and over all, probes and types.",
)
@stage("making features")
def variability_features(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the features in one pass over the counters, a row a run and scope."""
    name, _ = name_and_day(context.partition_key)
    report_progress("features of runs", 0, 1)
    table = training_table(lake.place(), name)
    frame, metadata = pack_table(table)
    lake.lake().write(FEATURES_TABLE, name, frame, metadata)
    of_table = told(lake.lake(), FEATURES_TABLE, name)
    report_progress("features of runs", 1, 1)

    samplers = table.interval_s.index
    kinds = table.counts.rename("values").rename_axis("kind").reset_index()
    kinds = kinds[kinds["kind"].isin([f"{sampler}.{kind}" for sampler in samplers for kind in (*KINDS, "duplicate", "vanished")])]
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "runs": len(table.runs),
            "features": {scope: len(features.columns) for scope, features in table.features.items()},
            "left out": dict(table.left_out),
            "simulated": table.generated,
            "coverage": dg.MetadataValue.md(markdown_of(coverage(table))),
            "labels": dg.MetadataValue.md(markdown_of(label_balance(table.runs))),
            "what became of every value": dg.MetadataValue.md(markdown_of(kinds)),
        },
        check_results=check_features(table),
    )
