"""Publish tables, pages and registered models at once, and mark nights.

It comes after every blocking check. It publishes what was materialised last by this run, and by others that succeeded:
of each table the file that was made from the other files that are published. What was made from other files, or by a
run that failed, is not published, and the metadata name it with the reason. What only some subjects need is imported
for them.
"""

import warnings
from datetime import timedelta
from typing import Any

import dagster as dg
import pandas as pd

from models.registry.tracking import aliases
from pipelines.assets.checks import holds
from pipelines.assets.described import page_link
from pipelines.assets.stages import (
    OWNER,
    LakeResource,
    RegistryResource,
    nights_of_systems,
    nights_of_traces,
    system_stage,
    trace_stage,
)
from pipelines.lake.version import OF_BOTH
from pipelines.report.table import escaped, markdown_of
from pipelines.training.ledger import SYSTEM_NIGHTS, nights_before
from pipelines.training.work import Work

warnings.filterwarnings("ignore", "Class `MultiToSingleDimensionPartitionMapping`", dg.BetaWarning)
LATE = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36), warn_window=timedelta(hours=26))
"""A night is late after 26 hours, and missed after 36."""
FOLLOW = {"aliases_follow": "The registry's aliases point at the versions that were published with the tables."}
SERVES = {"a_champion_serves": "In a night: a version is good enough for the alias champion."}


def _night(name: str, published: str, partitions: dg.MultiPartitionsDefinition, dimension: str) -> dg.AssetSpec:
    """Return the mark of a night: a partition is materialised when the night of its day is published."""
    mapping = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name=dimension)
    return dg.AssetSpec(
        name,
        deps=[dg.AssetDep(published, partition_mapping=mapping)],
        partitions_def=partitions,
        group_name="nights",
        kinds={"parquet"},
        owners=[OWNER],
        freshness_policy=LATE,
        description=f"One partition a day, present once its night is published by {published}. queuecast run --night DAY does a missed one.",
    )


night = _night("night", "published_trace", nights_of_traces, "trace")
variability_night = _night("variability_night", "published_system", nights_of_systems, "system")


@trace_stage(
    deps=[
        "jobs",
        "rejected_jobs",
        "runtime_features",
        "runtime_model",
        "learned_policy",
        "schedules",
        "comparison",
        "report",
    ],
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    checks=FOLLOW,
    description="What readers see of a trace: one version of its tables, its page and its registered models, put in one step.",
)
def published_trace(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Publish what was materialised of a trace."""
    work = lake.work(registry)
    facts, checks = _published(context, work)
    if work.night:
        key = dg.MultiPartitionKey({"day": work.night, "trace": work.name})
        context.log_event(dg.AssetMaterialization("night", partition=key, metadata=_of_trace(work)))
    return dg.MaterializeResult(metadata=facts, check_results=checks)


def _of_trace(work: Work) -> dict[str, Any]:
    """Return what a night of a trace decided and what drifted."""
    from pipelines.serving.asked_log import answered

    seen = work.lake.published()
    clean = seen.read_clean(work.name)
    decided = seen.read_for(clean, "runtime_model")[1]["night"]
    row = decided["row"]
    answers = answered(clean)
    return {
        "why": row["why"],
        "page": page_link(f"nights/{work.name}/{work.night}.html"),
        "promoted": row["promoted"],
        "new_jobs": row["new_jobs"],
        "jobs": row["jobs"],
        "champion": f"models:/{work.subject}/{row['champion']}",
        # the UI plots numbers by night
        **{name: value for name, value in row.items() if name.startswith("accuracy_") and value == value},
        **({"http_answers": dg.MetadataValue.json(answers)} if answers else {}),
        "drifted": row["drifted"] or "nothing",
        "notes": dg.MetadataValue.md("\n".join(f"* {escaped(note)}" for note in decided["notes"]) or "none"),
        "generated": clean.generated,
    }


@system_stage(
    deps=["variability_features", "variability_model"],
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    checks=FOLLOW,
    in_nights=SERVES,
    description="What readers see of a monitored system: one version of its tables, its page and its registered models, put in one step.",
)
def published_system(
    context: dg.AssetExecutionContext, system_lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Publish what was materialised of a system; a night adds its row to the table of nights."""
    work = system_lake.work(registry)
    row = _row(work) if work.night else {}
    facts, checks = _published(context, work)
    if row:
        from pipelines.studies.monitored import MODEL_TABLE

        key = dg.MultiPartitionKey({"day": work.night, "system": work.name})
        registered = work.lake.read(MODEL_TABLE, work.name)[0].drop(columns="why")
        metadata = {**row, "candidates": dg.MetadataValue.md(markdown_of(registered, ".4f"))}
        context.log_event(dg.AssetMaterialization("variability_night", partition=key, metadata=metadata))
        warn = dg.AssetCheckSeverity.WARN
        checks.append(holds("a_champion_serves", row["champion"] != "none", severity=warn, why=row["why"]))
    return dg.MaterializeResult(metadata=facts, check_results=checks)


def _row(work: Work) -> dict[str, Any]:
    """Return the row of a system's night, and write it to the table of nights."""
    from pipelines.studies.monitored import FEATURES_TABLE, MODEL_TABLE, unpack_table

    tables, name, model = work.lake, work.name, work.subject
    decided = tables.read(MODEL_TABLE, name)[1]
    champion = tables.models(model).get("champion", "")
    runs = unpack_table(name, *tables.read(FEATURES_TABLE, name)).runs
    row: dict[str, Any] = {
        "night": work.night,
        "why": decided["why"],
        "promoted": decided["promoted"],
        "champion": f"models:/{model}/{champion}" if champion else "none",
        "runs": len(runs),
        "last_start_s": int(runs["start_s"].max()),
        "generated": decided["generated"],
    }
    before = nights_before(tables, name, work.night, SYSTEM_NIGHTS)
    nights = pd.concat([before, pd.DataFrame([row])], ignore_index=True) if len(before) else pd.DataFrame([row])
    tables.write(SYSTEM_NIGHTS, name, nights)
    return row


def _published(context: dg.AssetExecutionContext, work: Work) -> tuple[dict[str, Any], list[dg.AssetCheckResult]]:
    """Publish what was materialised, prune old registered versions, and report what is current."""

    def accepted(maker: str) -> bool:
        run = None if maker == work.lake.maker else context.instance.get_run_by_id(maker)
        return maker == work.lake.maker or (run is not None and run.is_success)

    published = work.publish(accepted)
    gone = work.tidy()
    current, named = published.version, aliases(work.store, work.subject)
    off = sum(named.get(alias, "") != number for alias, number in current.models.items())
    # what follows in this run is made anew, and publishes itself
    to_come = {key.to_user_string() for key in context.run.asset_selection or ()}
    if "system_comparison" in to_come:
        to_come |= OF_BOTH
    left_out = {entry: why for entry, why in published.left_out.items() if entry not in to_come}
    for entry, why in left_out.items():
        context.log.warning(f"not published: {entry}, {why}")
    facts = {
        "version": current.version,
        "made_by": current.made_by,
        **{f"not published: {entry}": why for entry, why in left_out.items()},
        "models": dg.MetadataValue.json(dict(current.models)),
        "files": dg.MetadataValue.json(dict(current.files)),
        "pruned": gone,
    }
    return facts, [holds("aliases_follow", not published.problem, off=off, problem=published.problem or "none")]
