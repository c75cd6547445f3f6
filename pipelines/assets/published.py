"""The last step of a run: publish its tables, page and registry aliases at once.

It comes after every other asset, and so after every blocking check. An asset materialised alone is a draft: Dagster checks and
shows it, but no reader sees it. To publish it, materialise it with all assets after it ("Materialize with downstream"); this step
is the last of them. Or materialise this asset alone: it publishes the last draft whose run succeeded. Without such a draft, it
repairs the aliases of a run that died while publishing, and reports what is current.
"""

from dataclasses import replace
from typing import Any

import dagster as dg

from features.jobs.schema import fingerprint
from models.registry.tracking import Tracking
from models.registry.versions import aliases
from pipelines.assets.checks import broken, holds
from pipelines.assets.nights import system_stage, trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.policy import point_champion
from pipelines.dated.starts import point_start_champion
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import finish

OF_TRACES = (
    "jobs",
    "rejected_jobs",
    "user_history",
    "runtime_model",
    "learned_policy",
    "queue_states",
    "start_model",
    "schedules",
    "comparison",
    "parity",
    "what_if",
    "report",
)
OF_SYSTEMS = ("counters", "control_runs", "variability_features", "variability_model", "cluster_experiments")
_ALIASES = {"aliases_follow": "The registry's aliases point at the versions that were published with the tables."}
CHECKS = {**_ALIASES, "tables_are_of_the_same_jobs": "Every table that was made from jobs was made from those published with it."}


@trace_stage(
    "publishing",
    checks=CHECKS,
    deps=[*OF_TRACES, "night"],
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    description="What readers see of a trace: one version of its tables, its page and its registered models, put in one step.",
)
def published_trace(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Publish the run's draft."""
    name = lake.name
    result, checks = _published(context, lake, registry.tracking())
    seen = Lake(lake.lake().root).at_once(f"runtime-{name}")
    with lake.alone():
        point_champion(seen, name, registry.tracking())
        point_start_champion(seen, name, registry.tracking())
    jobs = fingerprint(seen.read("jobs", name)[0])
    made_of = {table: seen.read(table, name)[1].get("jobs", jobs) for table in OF_TRACES[:-1] if seen.has(table, name)}
    other = sum(each != jobs for each in made_of.values())
    return dg.MaterializeResult(
        metadata=result, check_results=[*checks, broken("tables_are_of_the_same_jobs", other, of=len(made_of))]
    )


@system_stage(
    "publishing",
    checks=_ALIASES,
    deps=[*OF_SYSTEMS, "variability_night"],
    group_name="publishing",
    kinds={"parquet", "mlflow"},
    description="What readers see of a monitored system: one version of its tables, its page and its registered models, put in one step.",
)
def published_system(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Publish the run's draft."""
    result, checks = _published(context, lake, registry.tracking())
    return dg.MaterializeResult(metadata=result, check_results=checks)


def _published(
    context: dg.AssetExecutionContext, resource: LakeResource, store: "Tracking"
) -> tuple[dict[str, Any], list[dg.AssetCheckResult]]:
    """Publish the draft, prune old registered versions, and report what is current."""
    work, versions = resource.work(store, context.run.run_id), resource.lake().versions(resource.subject)
    draft = work.lake.draft
    if not versions.draft(draft):
        draft = _last_that_succeeded(context.instance, [each.id for each in versions.drafts()])
    with resource.alone():
        if draft:
            replace(work, lake=Lake(work.lake.root, draft)).publish()
        finish(work.lake, store, work.subject)
        gone = work.tidy()
    current, named = versions.current(), aliases(store, work.subject)
    off = sum(named.get(alias, "") != number for alias, number in current.models.items())
    facts = {
        "version": current.version or "none yet",
        "made by": current.made_by,
        "published now": bool(draft),
        "models": dg.MetadataValue.json(dict(current.models)),
        "files": dg.MetadataValue.json(dict(current.files)),
        "pruned": gone,
    }
    return facts, [holds("aliases_follow", off == 0 or not draft, off=off)]


def _last_that_succeeded(instance: dg.DagsterInstance, drafts: list[str]) -> str:
    """Return the last of ``drafts`` whose run succeeded; "" without one.

    The name of a draft is the id of its run.
    """
    for draft in reversed(drafts):
        run = instance.get_run_by_id(draft)
        if run is not None and run.is_success:
            return draft
    return ""
