"""Variability, stages 2 and 3: features of runs and jobs, and classifiers of them."""

import dagster as dg

from features.monitoring.rates import KINDS
from models.variability.classifiers import thresholds_of
from models.variability.evaluation import ClassifierTraining
from pipelines.assets.described import COLUMNS, models_version, registry_link, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import FEATURES, check_features
from pipelines.readers.systems import system
from pipelines.report.table import markdown_of
from pipelines.studies.variability_table import (
    FEATURES_TABLE,
    MODEL_TABLE,
    coverage,
    label_balance,
    pack_table,
    training_table,
    unpack_table,
)
from pipelines.training.promote import RULES
from pipelines.training.systems import train

TOP = 25
"""Number of features whose importance is shown."""


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


class VariabilityConfig(dg.Config):
    """The settings of training that are not in the system's ``systems.toml``.

    That file names the classifiers, the nodes whose counters they read, and whether features are eliminated.
    """

    seed: int = 0


@system_stage(
    code_version=RULES["variability"],
    progress="train and register",
    deps=["variability_features"],
    group_name="predictors",
    kinds={"mlflow", "scikitlearn"},
    description="Registered versions `variability-<system>`, self-contained; judged by F1 on runs they did not see; the champion by the rule.",
)
def variability_model(
    context: dg.AssetExecutionContext, config: VariabilityConfig, system_lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Train, judge and register classifiers; promote one or keep the champion; report why."""
    name = system_lake.name
    settings = system(system_lake.place(), name)
    work = system_lake.work(registry)
    store, model, table = work.store, work.subject, unpack_table(name, *work.lake.read(FEATURES_TABLE, name))
    learning = ClassifierTraining(settings.classifiers, thresholds_of(settings.classifiers), settings.elimination, seed=config.seed)
    trained = train(work, table, settings.scope, learning)

    champion = store.client.get_model_version(model, trained.champion or trained.simulated)
    importance = trained.importance.head(TOP).rename("importance").rename_axis("feature").reset_index()
    return dg.MaterializeResult(
        data_version=models_version(store, model, trained.serves),
        metadata={
            "why": trained.why,
            **written_table(work.lake, MODEL_TABLE, name, COLUMNS).metadata,
            "champion": f"models:/{model}/{trained.champion}" if trained.champion else "none",
            "version": int(champion.version),
            "classifier": champion.tags.get("method", "unknown"),
            "promoted": trained.promoted,
            "nothing_new": trained.nothing_new,
            "simulated": table.generated,
            "mlflow_run": champion.run_id or "",
            "mlflow": registry_link(store.place, model),
            "candidates": dg.MetadataValue.md(markdown_of(trained.registered.drop(columns="why"), ".4f")),
            "importance": dg.MetadataValue.md(markdown_of(importance, ".3f")),
        },
    )
