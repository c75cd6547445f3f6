"""Stage 5: the simulation campaign, schedulers x predictors, in one step: a step costs seconds and a simulation milliseconds."""

import dagster as dg
import numpy as np
from pydantic import Field

from pipelines.checks import broken, specs
from pipelines.partitions import traces
from pipelines.progress import teller
from pipelines.resources import LakeResource
from pipelines.stages import COMPARED, campaign, pack_schedules
from sim.timeline import busy_procs


class CampaignConfig(dg.Config):
    """What is simulated."""

    schedulers: list[str] = Field(default=["EASY", "EASY-SJBF"], description="[ORDER-]ALGORITHM[-BACKFILLORDER]")
    predictors: list[str] = Field(default=list(COMPARED), description="Names the simulator knows")
    seed: int = 0


CHECKS = {
    "never_more_processors_than_there_are": "At no moment do the running jobs hold more processors than the machine has.",
    "no_start_before_submission": "No job starts before it was submitted.",
    "every_job_starts": "Every schedule starts every job.",
}


@dg.asset(
    deps=["jobs"],
    partitions_def=traces,
    group_name="simulation",
    kinds={"parquet", "numba"},
    check_specs=specs("schedules", CHECKS),
    description="When each job starts under every scheduler with every predictor.",
)
def schedules(context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource) -> dg.MaterializeResult:
    """Read jobs, simulate every combination, keep the schedules."""
    name = context.partition_key
    clean = lake.lake().read_clean(name)
    made = campaign(clean, config.schedulers, config.predictors, config.seed, teller("simulate"))
    table, settings = pack_schedules(made)
    lake.lake().write_for(clean, "schedules", table, {"schedules": settings})

    seconds = sum(schedule.simulate_s for schedule in made)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(table),
            "generated": clean.generated,
            "schedules": len(made),
            "simulated jobs a second": round(len(table) / seconds),
            "clamped predictions": dg.MetadataValue.json({schedule.label: schedule.clamped_predictions for schedule in made}),
        },
        check_results=[
            broken(
                "never_more_processors_than_there_are",
                sum(int((busy_procs(schedule).values > clean.procs).sum()) for schedule in made),
            ),
            broken(
                "no_start_before_submission",
                sum(int((schedule.jobs["start_s"] < schedule.jobs["submit_s"]).sum()) for schedule in made),
                of=len(table),
            ),
            broken("every_job_starts", abs(len(table) - len(made) * len(clean.jobs)) + int(np.sum(table["start_s"].isna()))),
        ],
    )
