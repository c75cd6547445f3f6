"""Stages of a trace: jobs, features, registered models, simulations, comparison, page."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pandas as pd

from features.jobs.schema import fingerprint
from models.registry.tracking import why_of
from pipelines.assets.checks import (
    JOBS,
    SCHEDULES,
    SIMULATED,
    as_before,
    broken,
    check_jobs,
    check_schedules,
    check_simulated_model,
)
from pipelines.assets.described import COLUMNS, TRACE_FILE, models_version, page_link, picture, registry_link, written_table
from pipelines.assets.stages import LakeResource, RegistryResource, config_of, simulate_if_needed, trace_stage
from pipelines.lake.registry import resolved
from pipelines.lake.tables import keep_features
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import read_known
from pipelines.report import plots
from pipelines.report.table import escaped, markdown_of
from pipelines.report.tables import BASELINE, changes_table, leading
from pipelines.training.compare import keep_comparison
from pipelines.training.ledger import accounting_of, arrived, days_arrived, days_to_come, later_night
from pipelines.training.pages import write_pages
from pipelines.training.policy import learn_by_the_date
from pipelines.training.promote import RULES
from pipelines.training.run_settings import RunSettings
from pipelines.training.simulate import simulate as simulate_all
from pipelines.training.train import train
from pipelines.training.work import cutoff_of, date_of
from sim.metrics.verdict import predictions, verdict
from sim.settings import Learning


@trace_stage(
    ("jobs", "rejected_jobs"),
    deps=[TRACE_FILE],
    group_name="ingest",
    kinds={"parquet"},
    checks=JOBS,
    progress="ingest",
    description={
        "jobs": "The cleaned jobs of a trace, in order of submission.",
        "rejected_jobs": "Every job dropped and every value altered, with the rule's name.",
    },
)
def ingest(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[dg.MaterializeResult]:
    """Read and clean the trace of this partition; keep its jobs and its rejected jobs.

    A night sees what had ended when its day began, even if it runs later; of a log that arrives, one more day than the
    last night. If a later night was published before, nothing is made: a champion does not move back in time, since one
    with less training data would replace it.
    """
    tables, name, night = lake.lake(), lake.name, lake.night
    if last := later_night(tables, name, night):
        context.log.warning(
            f"a later night, {last}, is published: nothing is made for {night}, champion and tables stay those of {last}"
        )
        return
    simulate_if_needed(lake, days_arrived(tables, name, night))
    whole = read_known(name)
    to_come = days_to_come(tables, load_catalogue()[name], night)
    cleaned = tables.write_clean(accounting_of(arrived(whole, to_come), night))
    jobs, rejected = cleaned.jobs, cleaned.rejected_jobs
    dropped = int((rejected["action"] == "dropped").sum())
    rules = {"rules": dg.MetadataValue.json(cleaned.touched())}
    yield written_table(tables, "rejected_jobs", name).materialized(rules, asset="rejected_jobs")
    yield written_table(tables, "jobs", name).materialized(
        {
            "finding": f"{len(jobs):,} of {cleaned.jobs_read:,} jobs are kept: {dropped:,} dropped, {len(rejected) - dropped:,} values altered.",
            "generated": cleaned.generated,
            "processors": cleaned.procs,
            "fingerprint": fingerprint(jobs),
            "source": cleaned.source,
            "notes": dg.MetadataValue.md("\n".join(f"* {escaped(note)}" for note in cleaned.notes) or "none"),
        },
        check_jobs(cleaned, tables.read_clean(name)),
        asset="jobs",
    )


@trace_stage(
    deps=["jobs"],
    group_name="features",
    kinds={"parquet", "numba"},
    progress="runtime features",
    description="What models of runtimes are trained from, a row a job, as known at its submission: what had ended of jobs like it, of "
    "its user (Gaussier et al., table 2; OKCM, table 1), and how variable the user's runtimes are.",
)
def runtime_features(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Compute the features of a cleaned trace in one pass; keep them with its starts."""
    tables = lake.lake()
    clean = tables.read_clean(lake.name)
    kept = keep_features(tables, clean)
    facts = {"starts": kept.source, "generated": clean.generated}
    return written_table(tables, "runtime_features", lake.name).materialized(facts)


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

    A run learns from jobs that had ended by a date inside the trace. A night judges the champion as served, and learns
    from all.
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
            "simulated_from": date_of(clean, date.simulate_from_s),
            "simulated": f"models:/{model}/{marks['simulated']}" + (f": {marks['why']}" if marks["why"] else ""),
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
    overall = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")["value"]
    ranked = overall.sort_values(ascending=False)
    accuracies = [f"{predictions(str(predictor))} {value:.1%}" for predictor, value in ranked.items()]
    return written_table(work.lake, "schedules", name).materialized(
        {
            "finding": f"Accuracy at submission: {', '.join(accuracies)}.",
            "generated": clean.generated,
            "judged": f"jobs submitted from {date_of(clean, simulated.date.simulate_from_s)} on",
            "simulated_model": f"models:/{model.model}/{model.version} ({model.method})",
            **{f"accuracy/{predictor}": float(value) for predictor, value in overall.items()},
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
