"""The night as an asset: what :func:`pipelines.workflows.nights.night` does with a trace as its source has it now, with checks of drift beside it."""

from datetime import UTC, datetime

import dagster as dg

from features.jobs.cleaning import CleanTrace, clean
from pipelines.assets.checks import holds, specs
from pipelines.assets.partitions import traces
from pipelines.sources.traces import read_known
from pipelines.storage.home import home
from pipelines.storage.registry import kept_versions, tracking
from pipelines.workflows.nights import NightConfig
from pipelines.workflows.nights import night as one_night

NIGHT_TAG = "queuecast/night"
"""Run tag with the date of the night; without it, today's (UTC)."""
INGESTED = ("jobs", "rejected_jobs", "user_history")

CHECKS = {
    "champion_serves_this_night": "What consumers load as champion has the histories of this night.",
    "inputs_as_before": "Processors, requested times, hours and users of the last window are like those the champion learned from (a warning if not).",
    "champion_as_good_as_when_promoted": "Accuracy and under-prediction of what was served are no worse than at its promotion (a warning if not).",
}


class NightSettings(dg.Config):
    """What a night does, apart from its rule."""

    seed: int = 0


def _read(name: str) -> CleanTrace:
    trace, missing_request = read_known(name)
    return clean(trace, missing_request=missing_request)


@dg.asset(
    partitions_def=traces,
    group_name="nights",
    kinds={"mlflow", "parquet", "html"},
    check_specs=specs("night", CHECKS),
    description="Accounting read anew, a challenger judged as served, the champion replaced or refreshed, the last month compared, a page: all or nothing.",
)
def night(context: dg.AssetExecutionContext, config: NightSettings) -> dg.MaterializeResult:
    """Do the night, and say what came of it."""
    name = context.partition_key
    label = context.run.tags.get(NIGHT_TAG) or datetime.now(UTC).strftime("%Y-%m-%d")
    store = tracking
    settings = NightConfig(seed=config.seed, keep=kept_versions())
    made = one_night(name, label, lambda: _read(name), store, home(), run_id=context.run_id, config=settings)
    for table in INGESTED:
        context.log_event(
            dg.AssetMaterialization(table, partition=name, metadata={"night": label, "fingerprint": str(made.row["fingerprint"])})
        )
    champion = store().client.get_model_version_by_alias(f"runtime-{name}", "champion")
    alarms = made.performance[made.performance["drifted"]] if len(made.performance) else made.performance
    return dg.MaterializeResult(
        metadata={
            "night": label,
            "why": made.retrained.why,
            "promoted": made.retrained.promoted,
            "champion": f"models:/runtime-{name}/{made.retrained.champion}",
            "new jobs": int(str(made.row["new_jobs"])),
            "fingerprint": str(made.row["fingerprint"]),
            "pruned": made.pruned,
            "accuracy as served": dg.MetadataValue.json(
                {key: value for key, value in made.retrained.accuracies.items() if value == value}
            ),
            "page": dg.MetadataValue.path(str(made.report)),
            "open": dg.MetadataValue.url(made.report.as_uri()),
            "generated": made.clean.generated,
        },
        check_results=[
            holds(
                "champion_serves_this_night",
                champion.tags.get("snapshot_s") == str(made.row["until_s"]) or made.retrained.method == "",
                version=int(champion.version),
            ),
            holds(
                "inputs_as_before",
                not made.drift["drifted"].any(),
                severity=dg.AssetCheckSeverity.WARN,
                drifted=", ".join(made.drift.loc[made.drift["drifted"], "input"]) or "none",
                table=dg.MetadataValue.md(made.drift.to_markdown(index=False, floatfmt=".3f")),
            ),
            holds(
                "champion_as_good_as_when_promoted",
                len(alarms) == 0,
                severity=dg.AssetCheckSeverity.WARN,
                table=dg.MetadataValue.md(
                    made.performance.to_markdown(index=False, floatfmt=".3f") if len(made.performance) else "first champion"
                ),
            ),
        ],
    )
