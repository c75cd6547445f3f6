"""The last step of a run: publish its tables, page and registry aliases at once.

It comes after every other asset and so after every blocking check. An asset materialised by itself is a draft: it is checked and
shown in Dagster, and no reader sees it. Materialise it with what comes after it ("Materialize with downstream"), which ends here;
or materialise this asset by itself, which publishes the last draft whose run succeeded. Where there is none, it repairs the
aliases of a run that died while it was published, and says what is current.
"""

from typing import TYPE_CHECKING, Any

import dagster as dg

from features.jobs.schema import fingerprint
from pipelines.assets.checks import broken, holds, specs
from pipelines.assets.partitions import systems, traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import RUN_WAITS_S, alone, finish, lock_of, publish
from pipelines.storage.registry import kept_versions, pruned

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

OF_TRACES = (
    "jobs",
    "rejected_jobs",
    "user_history",
    "runtime_model",
    "schedules",
    "comparison",
    "report",
)
OF_SYSTEMS = ("counters", "control_runs", "variability_features", "variability_model", "cluster_experiments")
_ALIASES = {"aliases_follow": "The registry's aliases point at the versions that were published with the tables."}
CHECKS = {**_ALIASES, "tables_are_of_the_same_jobs": "Every table that was made from jobs was made from those published with it."}


@dg.asset(
    deps=list(OF_TRACES),
    partitions_def=traces,
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    check_specs=specs("published_trace", CHECKS),
    description="What readers see of a trace: one version of its tables, its page and its registered models, put in one step.",
)
def published_trace(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Publish the run's draft."""
    name = context.partition_key
    result, checks = _published(context, f"runtime-{name}", lake.lake(), registry.tracking())
    seen = Lake(lake.lake().root).at_once(f"runtime-{name}")
    jobs = fingerprint(seen.read("jobs", name)[0])
    made_of = {table: seen.read(table, name)[1].get("jobs", jobs) for table in OF_TRACES[:-1] if seen.has(table, name)}
    other = sum(found != jobs for found in made_of.values())
    return dg.MaterializeResult(
        metadata=result, check_results=[*checks, broken("tables_are_of_the_same_jobs", other, of=len(made_of))]
    )


@dg.asset(
    deps=list(OF_SYSTEMS),
    partitions_def=systems,
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    check_specs=specs("published_system", _ALIASES),
    description="What readers see of a monitored system: one version of its tables, its page and its registered models, put in one step.",
)
def published_system(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Publish the run's draft."""
    result, checks = _published(context, f"variability-{context.partition_key}", lake.lake(), registry.tracking())
    return dg.MaterializeResult(metadata=result, check_results=checks)


def _published(
    context: dg.AssetExecutionContext, subject: str, lake: Lake, store: "Tracking"
) -> tuple[dict[str, Any], list[dg.AssetCheckResult]]:
    """Publish the draft, prune old registered versions, and report what is current."""
    from models.registry.versions import aliases

    versions = lake.versions(subject)
    draft = (
        lake.draft
        if versions.draft(lake.draft)
        else _last_that_succeeded(context.instance, [each.id for each in versions.drafts()])
    )
    if draft:
        publish(lake.root.parent, Lake(lake.root, draft), subject, f"run {context.run_id}", store, RUN_WAITS_S)
    with alone(lake.root.parent, lock_of(subject), RUN_WAITS_S):
        finish(lake, store, subject)
        gone = pruned(store, subject, kept_versions())
    current, named = versions.current(), aliases(store, subject)
    off = sum(named.get(alias, "") != number for alias, number in current.models.items())
    found = {
        "version": current.version or "none yet",
        "made by": current.made_by,
        "published now": bool(draft),
        "models": dg.MetadataValue.json(dict(current.models)),
        "files": dg.MetadataValue.json(dict(current.files)),
        "pruned": gone,
    }
    return found, [holds("aliases_follow", off == 0 or not draft, off=off)]


def _last_that_succeeded(instance: dg.DagsterInstance, drafts: list[str]) -> str:
    """Return the last of ``drafts`` whose run succeeded; "" without one.

    Drafts are called like their runs.
    """
    for draft in reversed(drafts):
        run = instance.get_run_by_id(draft)
        if run is not None and run.is_success:
            return draft
    return ""
