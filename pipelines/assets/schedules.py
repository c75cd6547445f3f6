"""Stage 5: the simulation campaign, schedulers x predictors, in one step: a step costs seconds and a simulation milliseconds."""

import dagster as dg
from pydantic import Field

from pipelines.assets.checks import specs
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource
from pipelines.workflows.progress import progress_reporter
from pipelines.workflows.stages import COMPARED, CORRECTIONS, SCHEDULERS, campaign, pack_schedules, unpack_schedules
from pipelines.workflows.trace_checks import SCHEDULES, check_schedules


class CampaignConfig(dg.Config):
    """What is simulated."""

    schedulers: list[str] = Field(default=list(SCHEDULERS), description="[ORDER-]ALGORITHM[-BACKFILLORDER]")
    predictors: list[str] = Field(default=list(COMPARED), description="Names the simulator knows")
    corrections: list[str] = Field(
        default=list(CORRECTIONS), description="Of predictions that a job outlives; the same for every predictor"
    )
    seed: int = 0


@dg.asset(
    deps=["jobs"],
    partitions_def=traces,
    group_name="simulation",
    kinds={"parquet", "numba"},
    check_specs=specs("schedules", SCHEDULES),
    description="When each job starts under every scheduler with every predictor.",
)
def schedules(context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource) -> dg.MaterializeResult:
    """Read jobs, simulate every combination, keep the schedules."""
    name = context.partition_key
    clean = lake.lake().read_clean(name)
    made = campaign(clean, config.schedulers, config.predictors, config.corrections, config.seed, progress_reporter("simulate"))
    table, settings = pack_schedules(made)
    lake.lake().write_for(clean, "schedules", table, {"schedules": settings})

    kept, marks = lake.lake().read_for(clean, "schedules")
    seconds = sum(schedule.simulate_s - schedule.retrain_s for schedule in made)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(table),
            "generated": clean.generated,
            "schedules": len(made),
            "simulated jobs a second, training apart": round(len(table) / seconds),
            "clamped predictions": dg.MetadataValue.json({schedule.label: schedule.clamped_predictions for schedule in made}),
        },
        check_results=check_schedules(made, unpack_schedules(clean, kept, marks["schedules"])),
    )
