"""The night of a trace and day as an asset, with checks of drift.

It calls :func:`pipelines.workflows.nights.night` on the trace as it was when the day's night began: a night that is done late
sees what had ended by 02:00 UTC of its day and nothing else. Where a later night was published, it is recorded here, so that the
day is no longer missing, and publishes nothing: the champion does not move back in time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd

from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import fingerprint
from models.registry.registration import version_at
from pipelines.assets.checks import holds, specs
from pipelines.assets.described import models_version, tell_table
from pipelines.assets.partitions import nights
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.report.table import markdown_of
from pipelines.sources.traces import read_known
from pipelines.storage.registry import kept_versions
from pipelines.workflows.night_day import accounting_of, later_night
from pipelines.workflows.nights import Night, NightConfig
from pipelines.workflows.nights import night as one_night

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

CHECKS = {
    "champion_serves_this_night": "What consumers load as champion has the histories of this night, or of a later one.",
    "inputs_as_before": "Processors, requested times, hours and users of the last window are like those the champion learned from (a warning if not).",
    "champion_as_good_as_when_promoted": "Accuracy and under-prediction of what was served are no worse than at its promotion (a warning if not).",
}
RETRIES = dg.RetryPolicy(max_retries=2, delay=60, backoff=dg.Backoff.EXPONENTIAL)
"""For a registry or disk that did not answer; errors of the accounting are not retried."""


class NightSettings(dg.Config):
    """The settings of a night, apart from its rule."""

    seed: int = 0


@contextmanager
def retried_if_away() -> Iterator[None]:
    """Let the retry policy retry only errors that may be gone in a minute."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (OSError, MlflowException):
        raise
    except Exception as error:
        raise dg.Failure(" ".join(str(error).split()) or type(error).__name__, allow_retries=False) from error


@dg.asset(
    partitions_def=nights,
    group_name="nights",
    kinds={"mlflow", "parquet", "html"},
    check_specs=specs("night", CHECKS),
    retry_policy=RETRIES,
    description="Accounting as of the day, a challenger judged as served, the champion replaced or refreshed, the last month compared, a page: all or nothing.",
)
def night(
    context: dg.AssetExecutionContext, config: NightSettings, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Do the night of a trace and day, and report its results."""
    key = nights.get_partition_key_from_str(context.partition_key).keys_by_dimension
    name, day = key["trace"], key["day"]
    with retried_if_away():
        if last := later_night(lake.lake(), name, day):
            return _recorded(_read(name, day), day, last, registry.tracking())
        settings = NightConfig(seed=config.seed, keep=kept_versions())
        made = one_night(
            name, day, lambda: _read(name, day), registry.tracking, lake.place(), run_id=context.run_id, config=settings
        )
    published = lake.lake().versions(f"runtime-{name}").current()
    night = {"night": day, "fingerprint": str(made.row["fingerprint"]), "version": published.version}
    serves = models_version(registry.tracking(), f"runtime-{name}", published.models)
    for table in (table for table in TABLES if table in published.files):
        tell_table(context, lake.lake(), table, name, night, serves if table == "runtime_model" else None)
    context.log_event(dg.AssetMaterialization("published_trace", partition=name, metadata=night))
    return _done(made, registry.tracking())


TABLES = ("jobs", "rejected_jobs", "user_history", "runtime_model")
"""Assets whose tables a night publishes, too."""


def _read(name: str, day: str) -> CleanTrace:
    trace, missing_request = read_known(name)
    return accounting_of(clean(trace, missing_request=missing_request), day)


def _recorded(known: CleanTrace, day: str, last: str, store: "Tracking") -> dg.MaterializeResult:
    """Return the result of a night that came too late to serve anything."""
    champion = version_at(store, f"runtime-{known.name}")
    why = f"the night {last} was published before: nothing was trained, and champion and tables stay those of that night"
    return dg.MaterializeResult(
        metadata={"night": day, "published": False, "why": why, "jobs": len(known.jobs), "fingerprint": fingerprint(known.jobs)},
        check_results=[
            holds("champion_serves_this_night", champion is not None, later_night=last),
            *(holds(check, True, severity=dg.AssetCheckSeverity.WARN, not_looked_at=why) for check in list(CHECKS)[1:]),
        ],
    )


def _wide(compared: pd.DataFrame) -> str:
    """Return a comparison as Markdown, a row a schedule and a column a metric."""
    if compared.empty:
        return "nothing to compare"
    table = compared.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value", sort=False)
    return markdown_of(table.reset_index(), ".5g")


def _done(made: Night, store: "Tracking") -> dg.MaterializeResult:
    name = made.trace
    champion = store.client.get_model_version_by_alias(f"runtime-{name}", "champion")
    alarms = made.performance[made.performance["drifted"]] if len(made.performance) else made.performance
    return dg.MaterializeResult(
        metadata={
            "night": made.label,
            "published": True,
            "why": made.retrained.why,
            "promoted": made.retrained.promoted,
            "champion": f"models:/runtime-{name}/{made.retrained.champion}",
            "new jobs": int(str(made.row["new_jobs"])),
            "fingerprint": str(made.row["fingerprint"]),
            "pruned": made.pruned,
            "accuracy as served": dg.MetadataValue.json(
                {key: value for key, value in made.retrained.accuracies.items() if value == value}
            ),
            "the last days compared": dg.MetadataValue.md(_wide(made.comparison)),
            "page": dg.MetadataValue.path(str(made.report)),
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
                table=dg.MetadataValue.md(markdown_of(made.drift, ".3f")),
            ),
            holds(
                "champion_as_good_as_when_promoted",
                len(alarms) == 0,
                severity=dg.AssetCheckSeverity.WARN,
                drifted=", ".join(alarms["measure"]) if len(alarms) else "none",
                table=dg.MetadataValue.md(markdown_of(made.performance, ".3f", empty="first champion")),
            ),
        ],
    )
