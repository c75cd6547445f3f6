"""Stage 3: train a trace's predictors up to a date, register them, choose the champion."""

import dagster as dg

from models.registry.versions import all_or_nothing
from pipelines.assets.checks import holds
from pipelines.assets.config import config_of
from pipelines.assets.described import models_version, registry_link, written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.dated import date_of, dated_of
from pipelines.dated.history import read_history, whole_accounting
from pipelines.dated.run_settings import RunSettings
from pipelines.dated.train import last_answers, train
from pipelines.report.table import markdown_of

CHECKS = {
    "champion_carries_its_data": "The champion of the registry says what data it was trained on.",
    "champion_predicts_as_here": "Loaded back from the registry, the champion gives the last submissions the predictions it gives in this process.",
}


class TrainingConfig(config_of(RunSettings, "until", "warm_up_weeks", "seed")):  # type: ignore[misc]
    """The settings of training; a night uses only the seed."""


@trace_stage(
    "retraining",
    checks=CHECKS,
    progress="register",
    deps=["jobs", "user_history"],
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    description="Versions runtime-<trace>, of a run by a date inside the trace, of a night by the day; the best by the stated rule is the champion.",
)
def runtime_model(
    context: dg.AssetExecutionContext, config: TrainingConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Register candidates of a trace; keep the results and the version to simulate.

    A run learns from jobs that had ended by a date inside the trace. A night judges the champion as served, and learns from all.
    """
    name = lake.name
    work = lake.work(registry.tracking(), context.run.run_id)
    model, store, clean = work.subject, work.store, work.lake.read_clean(name)
    with all_or_nothing(store):
        train(work, clean, until=config.until, warm_up_weeks=config.warm_up_weeks, seed=config.seed, begun=work.begin())
    versions, marks = work.lake.read_for(clean, "runtime_model")
    date, models = dated_of(marks), work.lake.models(model)
    records = whole_accounting(clean, read_history(work.lake, clean))
    answers = last_answers(clean, records, models["champion"], store)

    champion = store.client.get_model_version(model, models["champion"])
    off = (answers["predicted_s"] - answers["expected_s"]).abs().max()
    other = {} if marks["simulated"] == models["champion"] else {"simulated": marks["simulated"]}
    return dg.MaterializeResult(
        data_version=models_version(store, model, models, **other),
        metadata={
            **written_table(work.lake, "runtime_model", name).metadata,
            "champion once published": f"models:/{model}/{champion.version}",
            "version": int(champion.version),
            "method": champion.tags.get("method", "unknown"),
            "why": champion.description or "",
            "simulated from": date_of(clean, date.simulate_from_s),
            "about that date": date.note or "the last third of the trace's time, at least four weeks, is left",
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
            # a champion that was chosen by hand has no expected predictions
            holds(
                "champion_predicts_as_here",
                bool(answers["expected_s"].isna().all() or off <= 1e-6),
                rows=len(answers),
                off_s=float(off),
            ),
        ],
    )
