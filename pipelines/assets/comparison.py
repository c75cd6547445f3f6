"""Stage 5: compare schedules with EASY with requested times, by week; write the page."""

import dagster as dg
from matplotlib.figure import Figure

from pipelines.assets.checks import broken, holds
from pipelines.assets.described import page_link, written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.compare import judged, keep_comparison, kept_schedules
from pipelines.dated.pages import keep_evidence, write_pages
from pipelines.report import plots
from pipelines.report.page import data_uri
from pipelines.report.table import markdown_of
from pipelines.report.tables import leading
from pipelines.sources.traces import simulated_on
from sim import evaluate, simulate
from sim.metrics.verdict import verdict

CHECKS = {
    "baseline_is_what_a_fresh_simulation_gives": "EASY with requested times, simulated once more, has the metrics that everything is compared with.",
    "intervals_hold_their_value": "Every interval contains the change over the whole trace.",
}

LOADS = ('src="http', "src='http", "<link", "url(http", "@import")
"""Strings that show that a page loads something from elsewhere."""


def picture(drawing: Figure) -> dg.MetadataValue:
    """Return a figure as Markdown that Dagster's UI shows."""
    return dg.MetadataValue.md(f"![plot]({data_uri(drawing)})")


@trace_stage(
    "comparing",
    checks=CHECKS,
    progress="compare",
    deps=["jobs", "schedules"],
    group_name="comparison",
    kinds={"parquet"},
    description="Metrics of every schedule relative to EASY with requested times, with paired intervals over weeks.",
)
def comparison(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Read the schedules, compare them, keep the table."""
    name = lake.name
    clean = lake.lake().read_clean(name)
    table = keep_comparison(lake.lake(), clean)
    schedules, date = kept_schedules(lake.lake(), clean)
    if not schedules:
        alike = [broken("baseline_is_what_a_fresh_simulation_gives", 0, of=0), holds("intervals_hold_their_value", True, of=0)]
        return written_table(lake.lake(), "comparison", name).materialized({}, alike)

    _, settings = lake.lake().read_for(clean, "comparison")
    generated = clean.generated
    rows, policy = date.judged((jobs := date.replayed(clean).jobs)["submit_s"].to_numpy()), ("EASY", "requested")
    kept = next(each for each in schedules if (each.scheduler, each.predictor) == policy)
    again = simulate(jobs, **simulated_on(clean), seed=kept.seed if kept.shake_s else 0, shake_s=kept.shake_s)
    base, fresh = evaluate(judged(kept, rows)), evaluate(judged(again, rows))
    same = [metric for metric in table["metric"].unique() if metric in fresh]
    moved = sum(float(base[metric]) != float(fresh[metric]) for metric in same)
    bounded = table.dropna(subset=["low", "high"])
    outside = ((bounded["relative"] < bounded["low"]) | (bounded["relative"] > bounded["high"])).sum()
    wide = table.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value", sort=False)
    return written_table(lake.lake(), "comparison", name).materialized(
        {
            "generated": generated,
            "judged": f"{settings['judged_jobs']:,} of {len(clean.jobs):,} jobs, those submitted from {settings['since']} on",
            "weeks": int(table["weeks"].iloc[0]),
            "metrics": dg.MetadataValue.md(markdown_of(wide.reset_index(), ".5g")),
            "relative change": picture(
                plots.figure_of_changes(table, leading(table, verdict(table, ("EASY", "requested"))), generated)
            ),
        },
        [
            broken("baseline_is_what_a_fresh_simulation_gives", moved, of=len(same)),
            holds(
                "intervals_hold_their_value",
                outside == 0,
                severity=dg.AssetCheckSeverity.WARN,
                outside=int(outside),
                of=len(bounded),
            ),
        ],
    )


@trace_stage(
    "reporting",
    checks={"self_contained": "The page loads nothing from anywhere."},
    progress="report",
    deps=["jobs", "rejected_jobs", "schedules", "comparison", "runtime_model", "parity", "what_if"],
    group_name="comparison",
    kinds={"html"},
    description="One self-contained HTML page: what was compared on which trace, metrics with intervals, plots, cleaning, provenance; or that of the night.",
)
def report(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Write the page from the tables of the other stages; for a night, its page and row."""
    name = lake.name
    clean = lake.lake().read_clean(name)
    work = lake.work(registry.tracking(), context.run.run_id)
    html = write_pages(work, clean)
    keep_evidence(work, clean, html)
    return dg.MaterializeResult(
        metadata={"page": page_link(f"{name}.html"), "bytes": len(html.encode()), "generated": clean.generated},
        check_results=[broken("self_contained", sum(html.count(mark) for mark in LOADS))],
    )
