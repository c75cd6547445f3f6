"""The simulations of a trace with its predictors, their comparison, and the page."""

from typing import Any

import dagster as dg
import pandas as pd

from pipelines.assets.checks import broken
from pipelines.assets.described import COLUMNS, page_link, picture, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import config_of, trace_stage
from pipelines.assets.trace_checks import SCHEDULES, SIMULATED, check_schedules, check_simulated_model
from pipelines.lake.policies import resolved
from pipelines.report import plots
from pipelines.report.tables import changes_table, leading
from pipelines.training.compare import BASELINE, keep_comparison
from pipelines.training.cutoff import date_of
from pipelines.training.pages import write_pages
from pipelines.training.run_settings import RunSettings
from pipelines.training.simulate import simulate as simulate_all
from sim.metrics.formats import predictions
from sim.metrics.verdict import verdict

LOADS = ('src="http', "src='http", "<link", "url(http", "@import")
"""Strings that show that a page loads something from elsewhere."""


class CampaignConfig(config_of(RunSettings, "schedulers", "predictors", "corrections", "replicates", "seed")):
    """The settings of the simulations of a run; a night has its own."""


@trace_stage(
    deps=["jobs", "runtime_features", "runtime_model", "learned_policy"],
    group_name="simulation",
    kinds={"parquet", "numba", "mlflow"},
    checks=SCHEDULES | SIMULATED,
    description="When each job starts under every scheduler with the registered model, as served, and with predictors that learn in the simulator.",
)
def schedules(
    context: dg.AssetExecutionContext, config: CampaignConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Simulate every combination, with the registered model; keep schedules and quality.

    A night simulates the last days, with the champion's answers as served and with requested times.
    """
    name, work = lake.name, lake.work(registry)
    clean = work.lake.read_clean(name)
    settings: dict[str, Any] = {
        **dict(config),
        "schedulers": [resolved(scheduler, registry.tracking) for scheduler in config.schedulers],
    }
    simulated = simulate_all(work, clean, RunSettings(**settings))
    results, quality, model = simulated.schedules, simulated.quality, simulated.model
    seconds = sum(schedule.simulate_s - schedule.retrain_s for schedule in results)
    replayed = sum(len(schedule.jobs) for schedule in results)
    overall = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")["value"]
    ranked = overall.sort_values(ascending=False)
    accuracies = [f"{predictions(str(predictor))} {value:.1%}" for predictor, value in ranked.items()]
    return written_table(work.lake, "schedules", name).materialized(
        {
            "finding": f"Accuracy at submission: {', '.join(accuracies)}.",
            "generated": clean.generated,
            "schedules": len(results),
            "judged": f"jobs submitted from {date_of(clean, simulated.date.simulate_from_s)} on",
            "simulated_model": f"models:/{model.model}/{model.version} ({model.method})",
            **{f"accuracy/{predictor}": float(value) for predictor, value in overall.items()},
            "jobs_per_second": round(replayed / seconds) if results else 0,
            "clamped_predictions": dg.MetadataValue.json({schedule.label: schedule.clamped_predictions for schedule in results}),
        },
        [
            *check_schedules(results),
            check_simulated_model(simulated.shown, overall),
        ],
    )


def _finding(table: pd.DataFrame, generated: bool) -> dict[str, Any]:
    """Return the verdict of a comparison and its figure, which Dagster shows first."""
    weighed = verdict(table, BASELINE)
    keys = leading(table, weighed)
    figure = picture(plots.figure_of_changes(table, keys, generated))
    # Dagster shows Markdown of less than 1,000 characters at once, and a longer one, such as a figure, after a click
    changes = dg.MetadataValue.md(changes_table(table, keys).markdown())
    return {"verdict": " ".join(weighed.sentences), "relative_change": figure, "changes": changes}


@trace_stage(
    deps=["jobs", "schedules"],
    group_name="comparison",
    kinds={"parquet"},
    progress="compare",
    description="Metrics of every schedule relative to EASY with requested times, with paired intervals over weeks.",
)
def comparison(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Read the schedules, compare them, keep the table."""
    tables, name = lake.lake(), lake.name
    clean = tables.read_clean(name)
    table = keep_comparison(tables, clean)
    if table.empty:
        return written_table(tables, "comparison", name, COLUMNS).materialized({"verdict": "No job that could be compared."})

    _, settings = tables.read_for(clean, "comparison")
    return written_table(tables, "comparison", name, COLUMNS).materialized(
        {
            **_finding(table, clean.generated),
            "generated": clean.generated,
            "judged": f"{settings['judged_jobs']:,} of {len(clean.jobs):,} jobs, those submitted from {settings['since']} on",
            "weeks": int(table["weeks"].iloc[0]),
        }
    )


@trace_stage(
    deps=["jobs", "rejected_jobs", "schedules", "comparison", "runtime_model"],
    group_name="comparison",
    kinds={"html"},
    checks={"self_contained": "The page loads nothing from anywhere."},
    progress="report",
    description="One self-contained HTML page: what was compared on which trace, metrics with intervals, plots, cleaning, provenance; or that of the night.",
)
def report(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Write the page from the tables of the other stages; for a night, its page and row."""
    name, work = lake.name, lake.work(registry)
    clean = work.lake.read_clean(name)
    html = write_pages(work, clean)
    table = work.lake.read_for(clean, "comparison")[0]
    finding = _finding(table, clean.generated) if len(table) else {}
    return dg.MaterializeResult(
        metadata={**finding, "page": page_link(f"{name}.html"), "bytes": len(html.encode()), "generated": clean.generated},
        check_results=[broken("self_contained", sum(html.count(mark) for mark in LOADS))],
    )
