"""The last step of a run: publish its tables, page and registry aliases at once.

It comes after every other asset, and so after every blocking check. It publishes what was materialised last by this run, and by
others that succeeded: of each table the file that was made from the other files that are published. What was made from other
files, or by a run that failed, is not published, and the metadata name it with the reason.
"""

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
    """Publish what was materialised."""
    name = lake.name
    result, checks = _published(context, lake, registry.tracking())
    seen = lake.lake().published().at_once(f"runtime-{name}")
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
    """Publish what was materialised."""
    result, checks = _published(context, lake, registry.tracking())
    return dg.MaterializeResult(metadata=result, check_results=checks)


def _published(
    context: dg.AssetExecutionContext, resource: LakeResource, store: "Tracking"
) -> tuple[dict[str, Any], list[dg.AssetCheckResult]]:
    """Publish what was materialised, prune old registered versions, and report what is current."""
    work = resource.work(store, context.run.run_id)
    work.begin()

    def accepted(maker: str) -> bool:
        run = None if maker == work.lake.maker else context.instance.get_run_by_id(maker)
        return maker == work.lake.maker or (run is not None and run.is_success)

    published = work.publish(accepted)
    gone = work.tidy()
    current, named = published.version, aliases(store, work.subject)
    off = sum(named.get(alias, "") != number for alias, number in current.models.items())
    facts = {
        "version": current.version,
        "made by": current.made_by,
        **{f"not published: {entry}": why for entry, why in published.left_out.items()},
        "models": dg.MetadataValue.json(dict(current.models)),
        "files": dg.MetadataValue.json(dict(current.files)),
        "pruned": gone,
    }
    return facts, [holds("aliases_follow", not published.problem, off=off)]
