"""Stage 4: the simulation campaign, schedulers x predictors, in one step.

A step costs seconds and a simulation milliseconds.
"""

import dagster as dg

from models.registry.as_served import CHAMPION
from pipelines.assets.checks import specs
from pipelines.assets.config import config_of
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.trace_checks import SCHEDULES, SIMULATED, check_schedules, check_simulated_model
from pipelines.dated.dated import Split, date_of
from pipelines.dated.policy import policy_schedules
from pipelines.dated.registering import whole_accounting
from pipelines.dated.run_settings import RunSettings
from pipelines.dated.served import served_model
from pipelines.dated.simulate import keep_schedules, kept_schedules, run_schedules
from pipelines.dated.stages import read_history
from pipelines.storage.policies import all_resolved
from pipelines.storage.registry import predict_registered
from pipelines.workflows.progress import progress_reporter


class CampaignConfig(config_of(RunSettings, "schedulers", "weighing", "predictors", "corrections", "seed")):  # type: ignore[misc]
    """The settings of the simulations of a run; a night has its own."""


@dg.asset(
    deps=["jobs", "user_history", "runtime_model", "learned_policy"],
    partitions_def=of_traces,
    group_name="simulation",
    kinds={"parquet", "numba", "mlflow"},
    check_specs=specs("schedules", SCHEDULES | SIMULATED),
    description="When each job starts under every scheduler with the registered model, as served, and with predictors that learn in the simulator.",
)
@stage("simulating")
def schedules(
    context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Simulate every combination, with the registered model; keep schedules and quality.

    After a night, the last days with the champion's answers as served, and with requests.
    """
    name, _ = name_and_day(context.partition_key)
    clean, store = lake.lake().read_clean(name), registry.tracking()
    known = whole_accounting(clean, read_history(lake.lake(), clean))
    _, registered = lake.lake().read_for(clean, "runtime_model")
    date = Split(registered["until_s"], registered["until_note"])
    if "night" in registered:
        made, quality = lake.tonight(store, context.run_id).simulate()
        model, shown = served_model(f"runtime-{name}", registered["simulated"], clean, known, store), CHAMPION
    else:
        ran = run_schedules(
            clean,
            known,
            date,
            registered["simulated"],
            store,
            schedulers=all_resolved(config.schedulers, registry.tracking),
            predictors=config.predictors,
            corrections=config.corrections,
            weighing=config.weighing,
            seed=config.seed,
            progress=progress_reporter("simulate"),
            ask=lambda spec, submitted: predict_registered(spec, submitted, store, lake.place()),
        )
        made = [*ran.schedules, *policy_schedules(lake.lake(), clean, store, config.seed)]
        model, shown = ran.model, ran.model.predictor.name
        facts = {"version": model.version, "method": model.method, "learned_until_s": model.learned_until_s}
        quality = keep_schedules(lake.lake(), clean, made, date, {**facts, "why": registered["why"]}, seed=config.seed)

    of_table = told(lake.lake(), "schedules", name)
    seconds = sum(schedule.simulate_s - schedule.retrain_s for schedule in made)
    overall = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")["value"]
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "generated": clean.generated,
            "schedules": len(made),
            "judged": f"jobs submitted from {date_of(clean, date.at_s)} on",
            "registered model simulated": f"models:/{model.model}/{model.version} ({model.method})",
            **{f"accuracy of {predictor}": float(value) for predictor, value in overall.items()},
            "simulated jobs a second, training apart": round(sum(len(schedule.jobs) for schedule in made) / seconds) if made else 0,
            "clamped predictions": dg.MetadataValue.json({each.label: each.clamped_predictions for each in made}),
        },
        check_results=[
            *check_schedules(made, kept_schedules(lake.lake(), clean)),
            *check_simulated_model(model, shown, overall),
        ],
    )
