"""Registered predictors of a trace: a model of runtimes and a learned order."""

import dagster as dg
import pandas as pd

from models.registry.versions import why_of
from pipelines.assets.checks import as_before
from pipelines.assets.described import COLUMNS, models_version, registry_link, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import config_of, trace_stage
from pipelines.report.table import markdown_of
from pipelines.training.cutoff import cutoff_of, date_of
from pipelines.training.policy import learn_by_the_date
from pipelines.training.promote import RULES
from pipelines.training.run_settings import RunSettings
from pipelines.training.train import train
from sim.campaigns.learning import Learning

DRIFT = {
    "inputs_as_before": "In a night: processors, requested times, hours and users of the last window are like those the champion learned from.",
    "champion_as_good_as_when_promoted": "In a night: accuracy and under-prediction of what was served are no worse than at its promotion.",
}


class TrainingConfig(config_of(RunSettings, "until", "warm_up_weeks", "seed")):
    """The settings of training; a night uses only the seed."""


@trace_stage(
    deps=["jobs", "runtime_features"],
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    in_nights=DRIFT,
    code_version=RULES["runtime"],
    progress="register",
    description="Versions `runtime-<trace>`, of a run by a date inside the trace, of a night by the day; the best by the stated rule is the champion.",
)
def runtime_model(
    context: dg.AssetExecutionContext, config: TrainingConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Register candidates of a trace; keep the results and the version to simulate.

    A run learns from jobs that had ended by a date inside the trace. A night judges the champion as served, and learns from all.
    """
    work = lake.work(registry)
    model, store, clean = work.subject, work.store, work.lake.read_clean(lake.name)
    train(work, clean, until=config.until, warm_up_weeks=config.warm_up_weeks, seed=config.seed)
    versions, marks = work.lake.read_for(clean, "runtime_model")
    for line in marks["begun"]:
        context.log.warning(line)
    date, models = cutoff_of(marks), work.lake.models(model)
    champion = store.client.get_model_version(model, models["champion"])
    checks = []
    if date.night:
        drift, performance = (pd.DataFrame(marks["night"][name]) for name in ("drift", "performance"))
        checks = [
            as_before("inputs_as_before", drift, "input"),
            as_before("champion_as_good_as_when_promoted", performance, "measure"),
        ]
    other = {} if marks["simulated"] == models["champion"] else {"simulated": marks["simulated"]}
    return dg.MaterializeResult(
        data_version=models_version(store, model, models, **other),
        metadata={
            "why": why_of(champion),
            **written_table(work.lake, "runtime_model", lake.name, COLUMNS).metadata,
            "champion": f"models:/{model}/{champion.version}",
            "version": int(champion.version),
            "method": champion.tags.get("method", "unknown"),
            "simulated_from": date_of(clean, date.simulate_from_s),
            "simulated_from_reason": date.note or "the last third of the trace's time, at least four weeks, is left",
            "simulated": f"models:/{model}/{marks['simulated']}" + (f": {marks['why']}" if marks["why"] else ""),
            "champion_snapshot": date_of(clean, int(champion.tags.get("snapshot_s", 0))),
            "mlflow_run": champion.run_id or "",
            "mlflow": registry_link(store.place, model),
            "versions": dg.MetadataValue.md(markdown_of(versions.drop(columns=["why", "reads"], errors="ignore"), ".4f")),
            "nothing_new": marks["nothing_new"],
            "generated": clean.generated,
        },
        check_results=checks,
    )


class LearningConfig(config_of(Learning, "formula", "budget", "seed")):
    """The settings of the search; ``queuecast policies`` has the same."""


@trace_stage(
    deps=["jobs", "runtime_features", "runtime_model"],
    group_name="predictors",
    kinds={"mlflow", "numba"},
    code_version=RULES["policy"],
    description="A version `policy-<trace>`: an order of the queue, learned on whole weeks before the date, with its gain on weeks held out.",
)
def learned_policy(
    context: dg.AssetExecutionContext, config: LearningConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Learn an order from the jobs that had ended by the date, and register it."""
    work = lake.work(registry)
    clean = work.lake.read_clean(lake.name)
    row = learn_by_the_date(work, clean, Learning(**dict(config))).iloc[0]
    return written_table(work.lake, "learned_policy", lake.name, COLUMNS).materialized(
        {
            "gain": row["note"],
            "version": row["version"] or "none",
            "scheduler": row["scheduler"] or "none",
            "mlflow": registry_link(work.store.place, f"policy-{lake.name}"),
            "generated": clean.generated,
        }
    )
