"""Schedulers that plan, beside those that do not: schedules, plans and a page.

After Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler" (JSSPP 2017). Planning a whole trace
takes minutes, so only the busiest days are simulated, by a job of its own; a night leaves it out.
"""

import dagster as dg
import pandas as pd
from pydantic import Field

from features.jobs.schema import fingerprint
from pipelines.assets.checks import broken, specs
from pipelines.assets.comparison import LOADS
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.trace_checks import SCHEDULES, check_schedules
from pipelines.report.planning import render_planning
from pipelines.report.table import markdown_of
from pipelines.storage.policies import all_resolved
from pipelines.storage.provenance import code_version, software
from pipelines.workers.where import mapped, stated
from pipelines.workflows.planning import PAGE, SCHEDULERS, USERS, busiest, by_label, keep_planned, kept_planned, plan_trace
from pipelines.workflows.progress import progress_reporter
from sim import evaluate

_SHOWN = ["utilization", "mean_wait_s", "mean_bounded_slowdown", "nuwt_mean", "nuwt_sd", "complaints", "predicted_start_error_s"]


class PlanningConfig(dg.Config):
    """What is simulated."""

    schedulers: list[str] = Field(
        default=list(SCHEDULERS), description="[ORDER-]ALGORITHM[-BACKFILLORDER]; the first is the baseline"
    )
    users: list[str] = Field(default=list(USERS), description="How users react: open, closed or semi-open")
    seeds: int = Field(default=3, ge=1, description="Replicates of schedulers that draw at random")
    days: float = Field(default=7.0, ge=0, description="The busiest days of the trace; 0: all of it")


@dg.asset(
    deps=["jobs"],
    partitions_def=of_traces,
    group_name="planning",
    kinds={"parquet", "numba"},
    check_specs=specs("planned_schedules", SCHEDULES),
    description="The busiest days of a trace under schedulers that plan and others: starts, plans told to users, and searches.",
)
@stage("planning")
def planned_schedules(
    context: dg.AssetExecutionContext, config: PlanningConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Simulate the busiest days under every scheduler; keep schedules, plans and searches."""
    name, _ = name_and_day(context.partition_key)
    clean = lake.lake().read_clean(name)
    part = busiest(clean, config.days)
    schedulers = all_resolved(config.schedulers, registry.tracking)
    with mapped(stated(), workers=1, say=context.log.info) as map_policies:  # alone in this process, as the time of each is shown
        made = plan_trace(part, schedulers, config.users, config.seeds, progress_reporter("plan"), map_policies=map_policies)
    keep_planned(lake.lake(), clean, made)
    of_table = told(lake.lake(), "planned_schedules", name)
    rows = [{"scheduler": each.scheduler, "users": each.users, "seed": each.seed, **evaluate(each)[_SHOWN]} for each in made]
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "generated": clean.generated,
            "simulated": f"{len(part.jobs):,} of {len(clean.jobs):,} jobs",
            "metrics": dg.MetadataValue.md(markdown_of(pd.DataFrame(rows), ".5g")),
            "simulate_s": sum(each.simulate_s for each in made),
        },
        check_results=check_schedules(made, kept_planned(lake.lake(), clean)),
    )


@dg.asset(
    deps=["jobs", "planned_schedules"],
    partitions_def=of_traces,
    group_name="planning",
    kinds={"html"},
    check_specs=specs("planning_report", {"self_contained": "The page loads nothing from anywhere."}),
    description="One self-contained HTML page: figures 1 to 8 of Klusáček & Chlumský for the schedules of this trace.",
)
@stage("reporting plans")
def planning_report(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Read the planned schedules and write their page."""
    name, _ = name_and_day(context.partition_key)
    clean = lake.lake().read_clean(name)
    schedules = by_label(kept_planned(lake.lake(), clean))
    provenance = {
        "trace": clean.source or clean.name,
        "data fingerprint": fingerprint(clean.jobs),
        "schedules": {label: f"seeds {', '.join(str(each.seed) for each in made)}" for label, made in schedules.items()},
        "code": code_version(),
        "software": software(),
        "Dagster run": context.run_id,
    }
    html = render_planning(name, schedules, provenance, list(clean.notes), len(clean.jobs))
    path = lake.lake().write_page(PAGE.format(name), lake.subject, html)
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(path)),
            "bytes": len(html.encode()),
            "generated": clean.generated,
        },
        check_results=[broken("self_contained", sum(html.count(mark) for mark in LOADS))],
    )
