"""Stage 4: the simulation campaign, schedulers x predictors, in one step.

One step for all, since a step costs seconds and a simulation milliseconds.
"""

import dagster as dg

from pipelines.assets.config import config_of
from pipelines.assets.described import written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.trace_checks import SCHEDULES, SIMULATED, check_schedules, check_simulated_model
from pipelines.dated.compare import kept_schedules
from pipelines.dated.dated import date_of
from pipelines.dated.run_settings import RunSettings
from pipelines.dated.simulate import simulate
from pipelines.storage.policies import resolved
from pipelines.storage.registry import predict_registered


class CampaignConfig(config_of(RunSettings, "schedulers", "predictors", "corrections", "replicates", "seed")):  # type: ignore[misc]
    """The settings of the simulations of a run; a night has its own."""


@trace_stage(
    "simulating",
    checks=SCHEDULES | SIMULATED,
    deps=["jobs", "user_history", "runtime_model", "learned_policy"],
    group_name="simulation",
    kinds={"parquet", "numba", "mlflow"},
    description="When each job starts under every scheduler with the registered model, as served, and with predictors that learn in the simulator.",
)
def schedules(
    context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Simulate every combination, with the registered model; keep schedules and quality.

    A night simulates the last days, with the champion's answers as served and with requested times.
    """
    name = lake.name
    work = lake.work(registry.tracking(), context.run.run_id)
    clean = work.lake.read_clean(name)
    settings = {**dict(config), "schedulers": [resolved(name, registry.tracking) for name in config.schedulers]}
    simulated = simulate(
        work,
        clean,
        RunSettings(**settings),
        ask=lambda spec, submitted: predict_registered(spec, submitted, work.store, lake.place()),
    )
    results = simulated.schedules
    seconds = sum(schedule.simulate_s - schedule.retrain_s for schedule in results)
    quality, model = simulated.quality, simulated.model
    overall = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")["value"]
    return written_table(work.lake, "schedules", name).materialized(
        {
            "generated": clean.generated,
            "schedules": len(results),
            "judged": f"jobs submitted from {date_of(clean, simulated.date.simulate_from_s)} on",
            "registered model simulated": f"models:/{model.model}/{model.version} ({model.method})",
            **{f"accuracy of {predictor}": float(value) for predictor, value in overall.items()},
            "simulated jobs a second, training apart": round(sum(len(schedule.jobs) for schedule in results) / seconds)
            if results
            else 0,
            "clamped predictions": dg.MetadataValue.json({each.label: each.clamped_predictions for each in results}),
        },
        [
            *check_schedules(results, kept_schedules(work.lake, clean)[0]),
            *check_simulated_model(model, simulated.shown, overall),
        ],
    )
