"""Variability, stage 3: train and judge classifiers, register them, choose the champion."""

import dagster as dg

from models.registry.variability_registration import VARIABILITY
from models.registry.versions import all_or_nothing
from models.variability.classifiers import thresholds_of
from models.variability.evaluation import Learning
from pipelines.assets.checks import specs
from pipelines.assets.comparison import picture
from pipelines.assets.described import models_version, registry_link, told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_systems
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.variability_checks import MODEL, asked_back, check_model
from pipelines.dated.systems import retrain
from pipelines.report.importances import importances
from pipelines.report.table import markdown_of
from pipelines.sources.systems import system
from pipelines.storage.publishing import begin_night, finish
from pipelines.workflows.progress import report_progress
from pipelines.workflows.variability_table import FEATURES_TABLE, MODEL_TABLE, unpack_table


class VariabilityConfig(dg.Config):
    """The settings of training; the system's own are in ``systems.toml``.

    Those are the classifiers, and the nodes' counters and columns that they read.
    """

    seed: int = 0


@dg.asset(
    deps=["variability_features"],
    partitions_def=of_systems,
    group_name="variability",
    kinds={"mlflow", "scikitlearn"},
    check_specs=specs("variability_model", MODEL),
    description="Registered versions variability-<system>, self-contained; judged by F1 on runs they did not see; the champion by the rule.",
)
@stage("retraining")
def variability_model(
    context: dg.AssetExecutionContext, config: VariabilityConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Train and judge classifiers on the features, register, promote or keep; report why."""
    name, _ = name_and_day(context.partition_key)
    known = system(lake.place(), name)
    report_progress("train and register", 0, 1)
    table = unpack_table(name, *lake.lake().read(FEATURES_TABLE, name))
    store = registry.tracking()
    tags, model, notes = {"dagster_run_id": context.run.run_id}, VARIABILITY.registered(name), []
    with lake.alone(), all_or_nothing(store):
        if lake.night:
            tags["night"], notes = lake.night, begin_night(lake.lake(), store, model)
        else:
            finish(lake.lake(), store, model)
        made = retrain(
            table,
            known.scope,
            store,
            Learning(known.classifiers, thresholds_of(known.classifiers), known.elimination, seed=config.seed),
            tags=tags,
            promote=False,
        )
    decided = {"why": made.why, "promoted": made.promoted, "notes": notes}
    lake.lake().write(MODEL_TABLE, name, made.registered, {"generated": table.generated, **decided})
    models = {"champion": made.champion, "challenger": made.challenger}
    lake.lake().name_models(model, models)
    report_progress("train and register", 1, 1)

    champion = store.client.get_model_version(model, made.champion)
    plot = importances(
        made.importance,
        made.model.classifier,
        name,
        permuted=made.model.classifier == "knn",
        generated=table.generated,
        image="svg",
    )
    return dg.MaterializeResult(
        data_version=models_version(store, model, models),
        metadata={
            **told(lake.lake(), MODEL_TABLE, name).metadata,
            "champion once published": f"models:/{model}/{made.champion}",
            "version": int(champion.version),
            "classifier": champion.tags.get("method", "unknown"),
            "why": made.why,
            "promoted": made.promoted,
            "nothing new, nothing registered": made.nothing_new,
            "simulated": table.generated,
            "MLflow run": champion.run_id or "",
            "MLflow": registry_link(store.place, model),
            "candidates": dg.MetadataValue.md(markdown_of(made.registered.drop(columns="why"), ".4f")),
            f"what {made.model.classifier} goes by": picture(plot),
        },
        check_results=check_model(made, *asked_back(made, table.features[known.scope]), champion.tags),
    )
