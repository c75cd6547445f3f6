"""Variability, stage 3: train and judge classifiers, register them, choose the champion."""

import dagster as dg

from models.variability.classifiers import thresholds_of
from models.variability.evaluation import ClassifierTraining
from pipelines.assets.described import COLUMNS, models_version, registry_link, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import MODEL, check_model
from pipelines.readers.systems import system
from pipelines.report.table import markdown_of
from pipelines.studies.variability_table import FEATURES_TABLE, MODEL_TABLE, unpack_table
from pipelines.training.promote import RULES
from pipelines.training.systems import train

TOP = 25
"""Number of features whose importance is shown."""


class VariabilityConfig(dg.Config):
    """The settings of training that are not in the system's ``systems.toml``.

    That file names the classifiers, the nodes whose counters they read, and whether features are eliminated.
    """

    seed: int = 0


@system_stage(
    checks=MODEL,
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
        check_results=[check_model(str(champion.version), champion.tags)],
    )
