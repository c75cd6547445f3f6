"""Stage 5: schedules compared with EASY on requested times, week by week; and the page."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg
from pydantic import Field

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from features.statistics import CONFIDENCE
from pipelines.assets.checks import broken, holds, specs
from pipelines.assets.described import told
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.dated import Split, date_of
from pipelines.dated.simulate import judged, judged_schedules, keep_comparison, kept_schedules, kind_of, submitted_from
from pipelines.dated.stages import PRIOR
from pipelines.report import plots
from pipelines.report.html import render_report
from pipelines.report.page import data_uri
from pipelines.report.table import markdown_of
from pipelines.report.wording import takes_correction
from pipelines.storage.lake import Lake
from pipelines.storage.provenance import code_version, software
from pipelines.workflows.progress import report_progress
from sim import evaluate, simulate
from sim.schedule import Schedule


class ComparisonConfig(dg.Config):
    """The settings of intervals."""

    confidence: float = Field(default=CONFIDENCE, gt=0, lt=1)


CHECKS = {
    "baseline_is_what_a_fresh_simulation_gives": "EASY with requested times, simulated once more, has the metrics that everything is compared with.",
    "intervals_hold_their_value": "Every interval contains the change over the whole trace.",
}

LOADS = ('src="http', "src='http", "<link", "url(http", "@import")
"""Marks of a page that loads something from elsewhere."""


def picture(image: bytes, kind: str = "svg+xml") -> dg.MetadataValue:
    """Return an image, SVG or ``png``, as the user interface shows it."""
    return dg.MetadataValue.md(f"![plot]({data_uri(image, kind)})")


@dg.asset(
    deps=["jobs", "schedules"],
    partitions_def=of_traces,
    group_name="comparison",
    kinds={"parquet"},
    check_specs=specs("comparison", CHECKS),
    description="Metrics of every schedule relative to EASY with requested times, with paired intervals over weeks.",
)
@stage("comparing")
def comparison(context: dg.AssetExecutionContext, config: ComparisonConfig, lake: LakeResource) -> dg.MaterializeResult:
    """Read the schedules, compare them, keep the table."""
    name, _ = name_and_day(context.partition_key)
    report_progress("compare", 0, 1)
    clean = lake.lake().read_clean(name)
    table = keep_comparison(lake.lake(), clean, config.confidence)
    of_table = told(lake.lake(), "comparison", name)
    report_progress("compare", 1, 1)
    made = kept_schedules(lake.lake(), clean)
    if not made:
        alike = [broken("baseline_is_what_a_fresh_simulation_gives", 0, of=0), holds("intervals_hold_their_value", True, of=0)]
        return dg.MaterializeResult(data_version=of_table.version, metadata=of_table.metadata, check_results=alike)

    _, marks = lake.lake().read_for(clean, "schedules")
    _, settings = lake.lake().read_for(clean, "comparison")
    replayed, generated = submitted_from(clean, marks["first_s"]), clean.generated
    base = table[(table["scheduler"] == "EASY") & (table["predictor"] == "requested")].set_index("metric")["value"]
    fresh = evaluate(judged(simulate(replayed.jobs, procs=clean.procs, scheduler="EASY"), Split(marks["until_s"])))
    same = [metric for metric in base.index if metric in fresh]
    moved = sum(float(base[metric]) != float(fresh[metric]) for metric in same)
    stated = table.dropna(subset=["low", "high"])
    outside = ((stated["relative"] < stated["low"]) | (stated["relative"] > stated["high"])).sum()
    wide = table.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value", sort=False)
    return dg.MaterializeResult(
        data_version=of_table.version,
        metadata={
            **of_table.metadata,
            "generated": generated,
            "judged": f"{settings['judged_jobs']:,} of {len(clean.jobs):,} jobs, those submitted from {settings['since']} on",
            "weeks": int(table["weeks"].iloc[0]),
            "metrics": dg.MetadataValue.md(markdown_of(wide.reset_index(), ".5g")),
            "relative change": picture(plots.metrics_by_combination(table, ("EASY", "requested"), generated, image="svg")),
        },
        check_results=[
            broken("baseline_is_what_a_fresh_simulation_gives", moved, of=len(same)),
            holds(
                "intervals_hold_their_value",
                outside == 0,
                severity=dg.AssetCheckSeverity.WARN,
                outside=int(outside),
                of=len(stated),
            ),
        ],
    )


@dg.asset(
    deps=["jobs", "rejected_jobs", "schedules", "comparison", "runtime_model"],
    partitions_def=of_traces,
    group_name="comparison",
    kinds={"html"},
    check_specs=specs("report", {"self_contained": "The page loads nothing from anywhere."}),
    description="One self-contained HTML page: what was compared on which trace, metrics with intervals, plots, cleaning, provenance; or that of the night.",
)
@stage("reporting")
def report(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Read what the other stages kept and write the page; after a night, its page and row."""
    name, _ = name_and_day(context.partition_key)
    report_progress("report", 0, 1)
    clean = lake.lake().read_clean(name)
    made, date = judged_schedules(lake.lake(), clean)
    if "night" in lake.lake().read_for(clean, "runtime_model")[1]:
        html = lake.tonight(registry.tracking(), context.run_id).report().html
    else:
        html = page(lake.lake(), clean, made, date, context.run_id)
        lake.lake().write_page(f"{name}.html", f"runtime-{name}", html)
    report_progress("report", 1, 1)

    pictures = {
        "waits and slowdowns": picture(plots.distributions(made[:6], image="svg")),
        "queue and machine over time": picture(plots.over_time(made[:2], image="svg")),
    }
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(lake.place() / "reports" / f"{name}.html")),
            "bytes": len(html.encode()),
            "generated": clean.generated,
            **(pictures if made else {}),
        },
        check_results=[broken("self_contained", sum(html.count(mark) for mark in LOADS))],
    )


def _waits(clean: CleanTrace) -> list[str]:
    """Return why there is no recorded schedule, if there is none."""
    missing = int(clean.jobs["wait_s"].isna().sum())
    if not missing:
        return []
    return [f"{missing:,} of {len(clean.jobs):,} waits are not recorded, so there is no row for the recorded schedule."]


def _weighing(made: Sequence[Schedule]) -> list[str]:
    """Return what schedulers that take no correction go by instead, if any were simulated."""
    names = dict.fromkeys(each.scheduler for each in made if each.predictor and not takes_correction(each.scheduler))
    return [
        f"{name} weighs the distribution that a predictor tells, and takes no correction. Unless it was asked for by name, it is not simulated with "
        f"predictors that learn a point, and goes by {PRIOR} instead of requests: what a request says of a runtime, without a model."
        for name in names
    ]


def page(lake: Lake, clean: CleanTrace, made: list[Schedule], date: Split, run_id: str) -> str:
    """Return the report of a trace: its schedules, and the lake's tables about them."""
    table, settings = lake.read_for(clean, "comparison")
    quality, marks = lake.read_for(clean, "prediction_quality")
    model, _ = lake.read_for(clean, "runtime_model")
    simulated, since = marks["model"], date_of(clean, date.at_s)
    learned = date_of(clean, simulated["learned_until_s"])
    notes = [
        f"Every policy replays all {len(clean.jobs):,} jobs and is judged on the {len(made[0].jobs):,} submitted from {since} on. {date.note}".strip(),
        f"Registered, as served: version {simulated['version']} of runtime-{clean.name} ({simulated['method']}), loaded back from the registry. "
        f"It learned from jobs that had ended by {learned}, and was chosen by them; each job is answered from the snapshot of the night before its "
        "submission, and by the request before that date, when there was no such model. Of a job that outlives its prediction it says the next of "
        "its quantiles, if it has any, then the request." + (f" {simulated['why']}" if simulated["why"] else ""),
        "Learning in the simulator: these predictors learn inside each schedule, the time before that date included, from what has ended there; those that are "
        "trained are trained anew each midnight of the trace's time zone.",
        "The table of predictions judges what each predictor said at submission in the first of its schedules, on the same jobs.",
        *_weighing(made),
        *_waits(clean),
        *clean.notes,
    ]
    return render_report(
        trace=clean.name,
        comparison=table,
        schedules=made,
        quality=quality,
        kinds={each.predictor: kind_of(each.predictor) for each in made},
        since=since,
        cleaning_counts=clean.counts(),
        provenance={
            "trace": clean.source or clean.name,
            "data fingerprint": fingerprint(clean.jobs),
            "jobs read and kept": f"{clean.jobs_read:,} and {len(clean.jobs):,}",
            "missing requests": clean.missing_request,
            "registered models": "; ".join(
                model["model"] + " version " + model["version"].astype(str) + " (" + model["method"] + ")"
            ),
            "code": code_version(),
            "software": software(),
            "Dagster run": run_id,
            "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        },
        notes=notes,
        generated=clean.generated,
        requests_from_runtimes=clean.touched().get("request-from-runtime altered", 0),
        confidence=settings["confidence"],
    )
