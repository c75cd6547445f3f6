"""Stage 3: train a trace's predictors up to a date, register them, choose the champion."""

import dagster as dg

from models.registry.versions import all_or_nothing
from pipelines.assets.checks import holds, specs
from pipelines.assets.config import config_of
from pipelines.assets.described import models_version, registry_link, told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.dated import date_of
from pipelines.dated.registering import last_answers, register_predictors, whole_accounting
from pipelines.dated.run_settings import RunSettings
from pipelines.dated.stages import read_history
from pipelines.report.table import markdown_of
from pipelines.workflows.progress import report_progress

CHECKS = {
    "champion_carries_its_data": "The champion of the registry says what data it was trained on.",
    "champion_predicts_as_here": "Loaded back from the registry, the champion gives the last submissions the predictions it gives in this process.",
}


class TrainingConfig(config_of(RunSettings, "until", "seed")):  # type: ignore[misc]
    """The settings of training; of a night, the seed alone."""


@dg.asset(
    deps=["jobs", "user_history"],
    partitions_def=of_traces,
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    check_specs=specs("runtime_model", CHECKS),
    description="Versions runtime-<trace>, of a run by a date inside the trace, of a night by the day; the best by the stated rule is the champion.",
)
@stage("retraining")
def runtime_model(
    context: dg.AssetExecutionContext, config: TrainingConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Register candidates of a trace; keep the results and the version to simulate.

    A run learns from what had ended by a date inside the trace; a night judges the champion as served, and learns from everything.
    """
    name, _ = name_and_day(context.partition_key)
    model, store = f"runtime-{name}", registry.tracking()
    report_progress("register", 0, 1)
    clean = lake.lake().read_clean(name)
    history = read_history(lake.lake(), clean)
    if lake.night:
        tonight = lake.tonight(store, context.run_id, config.seed)
        tonight.begin()
        with all_or_nothing(store):
            tonight.retrain()
    else:
        made = register_predictors(clean, history, store, lake.place(), context.run_id, until=config.until, seed=config.seed)
        lake.lake().write_for(clean, "runtime_model", made.versions, made.marks)
        lake.lake().name_models(model, made.models)
    versions, marks = lake.lake().read_for(clean, "runtime_model")
    models = lake.lake().models(model)
    answers = last_answers(clean, whole_accounting(clean, history), models["champion"], store)
    report_progress("register", 1, 1)

    champion = store.client.get_model_version(model, models["champion"])
    off = (answers["predicted_s"] - answers["expected_s"]).abs().max()
    other = {} if marks["simulated"] == models["champion"] else {"simulated": marks["simulated"]}
    return dg.MaterializeResult(
        data_version=models_version(store, model, models, **other),
        metadata={
            **told(lake.lake(), "runtime_model", name).metadata,
            "champion once published": f"models:/{model}/{champion.version}",
            "version": int(champion.version),
            "method": champion.tags.get("method", "unknown"),
            "why": champion.description or "",
            "simulated from": date_of(clean, marks["until_s"]),
            "about that date": marks["until_note"] or "the last third of the trace's time, at least four weeks, is left",
            "simulated": f"models:/{model}/{marks['simulated']}" + (f": {marks['why']}" if marks["why"] else ""),
            "snapshot of the champion": date_of(clean, int(champion.tags.get("snapshot_s", 0))),
            "MLflow run": champion.run_id or "",
            "MLflow": registry_link(store.place, model),
            "versions": dg.MetadataValue.md(markdown_of(versions.drop(columns="why"), ".4f")),
            "nothing new, nothing registered": marks["nothing_new"],
            "generated": clean.generated,
        },
        check_results=[
            holds("champion_carries_its_data", champion.tags.get("data_fingerprint", "") != "", version=int(champion.version)),
            # nothing is expected of a champion that was chosen by hand
            holds(
                "champion_predicts_as_here",
                bool(answers["expected_s"].isna().all() or off <= 1e-6),
                rows=len(answers),
                off_s=float(off),
            ),
        ],
    )
