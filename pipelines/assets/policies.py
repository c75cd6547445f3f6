"""Mixed policies: each week's best order of the queue, what is learned of it, and a page.

After Legrand, Trystram & Zrigui, "Adapting batch scheduling to workload characteristics" (2018). It is a job of its own; a night leaves
it out. ``queuecast policies`` does the same from the command line, resumably.
"""

import dagster as dg
import pandas as pd
from pydantic import Field

from pipelines.assets.checks import broken, holds, specs
from pipelines.assets.comparison import LOADS, picture
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource
from pipelines.report import policies_plots as plots
from pipelines.report.policies import render_policies
from pipelines.report.table import markdown_of
from pipelines.storage.provenance import software
from pipelines.workers.where import mapped, stated
from pipelines.workflows.policy_study import IN_LAKE, PAGE, Study, asked, keep_study, kept_study, study_of
from pipelines.workflows.progress import progress_reporter
from sim.search.claims import recorded
from sim.search.study import GREEDY, ORACLE, TRAINED
from sim.search.transfer import TESTING, sums

CHECKS = {
    "kept_as_made": "Read back from the lake, the tables are those that were made.",
    "optimum_is_lowest": "In every window, replayed, the optimum of the grid is no worse than what was learned elsewhere.",
}


class PoliciesConfig(dg.Config):
    """What is studied."""

    unit: str = Field(default="weeks", description="weeks or months")
    last: int = Field(default=0, ge=0, description="The last window; 0: the paper's for its traces, else the trace's")
    training: list[int] = Field(
        default=[], description="Windows to learn from; none: the paper's for its traces, else the first half"
    )
    testing: list[int] = Field(default=[], description="Windows to judge by; none: the paper's for its traces, else the others")
    landscapes: list[int] = Field(default=[], description="Windows to draw; none: the first four of testing")
    points: int = Field(default=20, ge=2, le=200, description="Points a dimension of the grid of directions; the paper has 100")
    budget: int = Field(default=300, ge=0, description="Simulations of each search by xNES in a window; 0: no search")
    starvation_s: int = Field(default=200_000, ge=-1, description="Threshold of mixed policies, seconds; -1: none")
    replicates: int = Field(default=10, ge=2, description="Replays with shaken submissions")
    seed: int = Field(default=0, ge=0, description="Seed of the first shake")


@dg.asset(
    deps=["jobs"],
    partitions_def=of_traces,
    group_name="policies",
    kinds={"parquet", "numba"},
    check_specs=specs("mixed_policies", CHECKS),
    description="Every week of a trace under the twelve pure policies and a grid of mixed ones, what is learned on some weeks, and its worth on others.",
)
@stage("mixing policies")
def mixed_policies(context: dg.AssetExecutionContext, config: PoliciesConfig, lake: LakeResource) -> dg.MaterializeResult:
    """Run the study on the trace; keep its tables."""
    name, _ = name_and_day(context.partition_key)
    clean = lake.lake().read_clean(name)
    windows, settings = asked(
        clean,
        config.unit,
        config.last or None,
        config.training or None,
        config.testing or None,
        tuple(config.landscapes) or None,
        starvation_s=None if config.starvation_s < 0 else config.starvation_s,
        points=config.points,
        budget=config.budget,
        replicates=config.replicates,
        seed=config.seed,
    )
    with mapped(stated(), say=context.log.info) as map_steps:
        study = study_of(clean, settings, windows, map_steps=map_steps, progress=progress_reporter("policies"))
    keep_study(lake.lake(), clean, study)
    of_table = told(lake.lake(), IN_LAKE.format("replays"), name)
    transfer = sums(study.tables.replays, settings.split, seed=settings.seed)
    shown = transfer[transfer["part"] == TESTING].drop(columns=["part", "windows", "replicates"])
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "generated": clean.generated,
            "transfer": dg.MetadataValue.md(markdown_of(shown, ".4g")),
            **pictures(study, transfer),
        },
        check_results=_checked(study, kept_study(lake.lake(), clean)),
    )


def pictures(study: Study, transfer: pd.DataFrame) -> dict[str, dg.MetadataValue]:
    """Return the figures of a study as metadata."""
    settings, tables, generated = study.settings, study.tables, bool(study.facts["generated"])
    tau_s = settings.taus_s[0]
    found = {
        "what is learned, against SAF": picture(plots.sums(transfer, generated)),
        "by window": picture(plots.by_window(tables.replays, tau_s, settings.split, settings.unit, generated)),
        "best pure policy": picture(plots.best_pure(tables.replays, tau_s, settings.unit, generated)),
    }
    if len(tables.landscapes):
        found["landscapes"] = picture(plots.landscapes(tables.landscapes, tables.chosen, tau_s, settings.unit, generated), "png")
    return found


def _checked(made: Study, kept: Study) -> list[dg.AssetCheckResult]:
    other = [
        name
        for name, table in made.tables.by_name().items()
        if not table.reset_index(drop=True).equals(kept.tables.by_name()[name])
    ]
    above = 0
    for tau_s in made.settings.taus_s:
        weekly = recorded(made.tables.replays, tau_s)
        above += int((weekly[[TRAINED, GREEDY]].min(axis=1) < weekly[ORACLE] * (1 - 1e-9)).sum())
    return [holds("kept_as_made", not other, tables=", ".join(other)), broken("optimum_is_lowest", above)]


@dg.asset(
    deps=["jobs", "mixed_policies"],
    partitions_def=of_traces,
    group_name="policies",
    kinds={"html"},
    check_specs=specs("policies_report", {"self_contained": "The page loads nothing from anywhere."}),
    description="One self-contained HTML page: the claims of Legrand, Trystram & Zrigui on this trace, tables and figures.",
)
@stage("reporting policies")
def policies_report(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Read the study's tables and write their page."""
    name, _ = name_and_day(context.partition_key)
    clean = lake.lake().read_clean(name)
    study = kept_study(lake.lake(), clean)
    html = render_policies(study, {**study.facts, "software": software(), "Dagster run": context.run_id}, list(clean.notes))
    path = lake.lake().write_page(PAGE.format(name), lake.subject, html)
    return dg.MaterializeResult(
        metadata={"page": dg.MetadataValue.path(str(path)), "bytes": len(html.encode()), "generated": clean.generated},
        check_results=[broken("self_contained", sum(html.count(mark) for mark in LOADS))],
    )
