"""The night of a system as an asset, with the checks of every stage.

It calls :func:`pipelines.workflows.variability_night.night`.
"""

from datetime import UTC, datetime

import dagster as dg

from models.registry.variability_registration import VARIABILITY
from pipelines.assets.checks import specs
from pipelines.assets.counters import counters_version, tell_days
from pipelines.assets.described import DATA_VERSION, models_version, tell_table
from pipelines.assets.night import RETRIES, retried_if_away
from pipelines.assets.partitions import systems
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.report.table import markdown_of
from pipelines.storage.counters_store import CountersStore
from pipelines.workflows.variability_checks import CONTROL_RUNS, COUNTERS, FEATURES, MODEL
from pipelines.workflows.variability_night import MODEL_TABLE, TRIALS_TABLE, night
from pipelines.workflows.variability_table import FEATURES_TABLE

NIGHT_TAG = "queuecast/night"
"""Run tag with the date of the night; without it, today's (UTC)."""


class VariabilityNightSettings(dg.Config):
    """The settings of a night, apart from its rule."""

    seed: int = 0


@dg.asset(
    partitions_def=systems,
    group_name="nights",
    kinds={"mlflow", "parquet"},
    retry_policy=RETRIES,
    check_specs=specs("variability_night", {**COUNTERS, **CONTROL_RUNS, **FEATURES, **MODEL}),
    description="New counters and control runs read, candidates trained and judged, the champion replaced or kept: all or nothing.",
)
def variability_night(
    context: dg.AssetExecutionContext, config: VariabilityNightSettings, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Do the night, and report its results."""
    name = context.partition_key
    label = context.run.tags.get(NIGHT_TAG) or datetime.now(UTC).strftime("%Y-%m-%d")
    with retried_if_away():
        made = night(lake.place(), name, label, registry.tracking, run_id=context.run.run_id, seed=config.seed)
    tell_days(context, name, made.ingested.days)
    published, told = lake.lake().versions(VARIABILITY.registered(name)).current(), {"night": label}
    of_counters = {DATA_VERSION: counters_version(CountersStore(lake.lake().root, name)).value}
    context.log_event(dg.AssetMaterialization("counters", partition=name, metadata=told, tags=of_counters))
    serves = models_version(registry.tracking(), VARIABILITY.registered(name), published.models)
    for table in ("control_runs", FEATURES_TABLE, MODEL_TABLE, TRIALS_TABLE):
        if lake.lake().has(table, name):
            tell_table(context, lake.lake(), table, name, told, serves if table == MODEL_TABLE else None)
    claimed = {*COUNTERS, *CONTROL_RUNS, *FEATURES, *MODEL}
    return dg.MaterializeResult(
        metadata={
            "night": label,
            "why": made.retrained.why,
            "promoted": made.retrained.promoted,
            "champion": f"models:/{VARIABILITY.registered(name)}/{made.retrained.champion}",
            "new files": made.row["files"],
            "quarantined": made.row["quarantined"],
            "runs": made.row["runs"],
            "simulated": made.table.generated,
            "candidates": dg.MetadataValue.md(markdown_of(made.retrained.registered.drop(columns="why"), ".4f")),
            "trials": dg.MetadataValue.md(markdown_of(made.trials, ".5g")),
        },
        check_results=[each for each in made.checks if each.check_name in claimed],
    )
