"""Stage 4: the simulation campaign, schedulers x predictors, in one step.

A step costs seconds and a simulation milliseconds.
"""

import dagster as dg
from pydantic import Field

from pipelines.assets.checks import specs
from pipelines.assets.described import told
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.storage.registry import predict_registered
from pipelines.workflows.progress import progress_reporter
from pipelines.workflows.registering import whole_accounting
from pipelines.workflows.run_schedules import prediction_quality, run_schedules
from pipelines.workflows.split import Split, date_of
from pipelines.workflows.stages import COMPARED, CORRECTIONS, SCHEDULERS, pack_schedules, read_history, unpack_schedules
from pipelines.workflows.trace_checks import SCHEDULES, SIMULATED, check_schedules, check_simulated_model


class CampaignConfig(dg.Config):
    """The settings of the simulations."""

    schedulers: list[str] = Field(default=list(SCHEDULERS), description="[ORDER-]ALGORITHM[-BACKFILLORDER]")
    predictors: list[str] = Field(
        default=list(COMPARED),
        description="Names the simulator knows, and registry:NAME[@ALIAS]; one that has learned from the simulated jobs only with (seen=yes) behind. "
        "The model that the run registered is always there",
    )
    corrections: list[str] = Field(
        default=list(CORRECTIONS), description="Of predictions that a job outlives; the same for every predictor"
    )
    seed: int = 0


@dg.asset(
    deps=["jobs", "user_history", "runtime_model"],
    partitions_def=traces,
    group_name="simulation",
    kinds={"parquet", "numba", "mlflow"},
    check_specs=specs("schedules", SCHEDULES | SIMULATED),
    description="When each job starts under every scheduler with the registered model, as served, and with predictors that learn in the simulator.",
)
def schedules(
    context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Simulate every combination, with the registered model; keep schedules and quality."""
    name = context.partition_key
    clean = lake.lake().read_clean(name)
    known = whole_accounting(clean, read_history(lake.lake(), clean))
    _, registered = lake.lake().read_for(clean, "runtime_model")
    date = Split(registered["until_s"], registered["until_note"])
    store = registry.tracking()
    made = run_schedules(
        clean,
        known,
        date,
        registered["simulated"],
        store,
        schedulers=config.schedulers,
        predictors=config.predictors,
        corrections=config.corrections,
        seed=config.seed,
        progress=progress_reporter("simulate"),
        ask=lambda spec, submitted: predict_registered(spec, submitted, store, lake.place()),
    )
    table, settings = pack_schedules(made.schedules)
    quality = prediction_quality(clean, made.schedules, date, config.seed)
    model = {"version": made.model.version, "method": made.model.method, "learned_until_s": made.model.learned_until_s}
    marks = {"until_s": date.at_s, "until_note": date.note, "model": {**model, "why": registered["why"]}}
    lake.lake().write_for(clean, "schedules", table, {"schedules": settings, **marks})
    lake.lake().write_for(clean, "prediction_quality", quality, marks)

    of_table = told(lake.lake(), "schedules", name)
    kept, kept_marks = lake.lake().read_for(clean, "schedules")
    seconds = sum(schedule.simulate_s - schedule.retrain_s for schedule in made.schedules)
    overall = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")["value"]
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "generated": clean.generated,
            "schedules": len(made.schedules),
            "judged": f"jobs submitted from {date_of(clean, date.at_s)} on",
            "registered model simulated": f"models:/{made.model.model}/{made.model.version} ({made.model.method})",
            **{f"accuracy of {predictor}": float(value) for predictor, value in overall.items()},
            "simulated jobs a second, training apart": round(len(table) / seconds),
            "clamped predictions": dg.MetadataValue.json({each.label: each.clamped_predictions for each in made.schedules}),
        },
        check_results=[
            *check_schedules(made.schedules, unpack_schedules(clean, kept, kept_marks["schedules"])),
            *check_simulated_model(made.model, overall),
        ],
    )
