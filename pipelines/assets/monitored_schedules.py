"""Variability, stage 5: replay a system's jobs with start decisions by its counters."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from features.errors import InputError
from models.registry.variability_registration import VARIABILITY, Registered, registered_classifier
from models.variability.unseen import Unseen
from pipelines.assets.checks import specs
from pipelines.assets.comparison import picture as image
from pipelines.assets.described import page_link, written_table
from pipelines.assets.nights import stage
from pipelines.assets.partitions import of_systems
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.variability_checks import MONITORED, check_monitored
from pipelines.report.monitored import picture, render_monitored
from pipelines.report.table import markdown_of
from pipelines.sources.system import System
from pipelines.sources.systems import system
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.provenance import code_version, software
from pipelines.storage.run_store import RUNS, application_types, machine_of, stored
from pipelines.workflows.monitored import MONITORED_TABLE, SCHEDULER, Moments, Monitored, replayed
from pipelines.workflows.progress import report_progress
from pipelines.workflows.variability_table import FEATURES_TABLE, unpack_table
from pipelines.workflows.variability_trials import TRIALS_PAGE


class MonitoredConfig(dg.Config):
    """How the jobs are replayed."""

    scheduler: str = Field(default=SCHEDULER, description="EASY with +RUSH(...), compared with EASY")


@dg.multi_asset(
    name="monitored_schedules",
    specs=[
        dg.AssetSpec(
            "monitored_schedules",
            deps=["jobs", "counters", "control_runs", "variability_model"],
            group_name="variability",
            kinds={"parquet", "numba"},
            description="Replays of a real system's jobs with and without start decisions by its recorded counters, where it states its trace.",
        )
    ],
    partitions_def=of_systems,
    check_specs=specs("monitored_schedules", MONITORED),
    can_subset=True,  # so that its checks are not required without replays
)
@stage("replaying the jobs with their counters")
def monitored_schedules(
    context: dg.AssetExecutionContext, config: MonitoredConfig, lake: LakeResource, registry: RegistryResource
) -> Iterator[dg.MaterializeResult]:
    """Replay the system's trace with the registered model, or report why that is impossible."""
    name = lake.name
    settings, here, model = system(lake.place(), name), lake.lake(), VARIABILITY.registered(name)
    named = here.models(model)
    report_progress("replay the jobs", 0, 1)
    try:
        registered = registered_classifier(registry.tracking(), model, named.get("champion") or named["simulated"])
        monitored, unseen = _replayed(here, settings, registered, config.scheduler)
    except InputError as error:
        # materialised all the same: without it, the publishing step would be skipped, too
        yield dg.MaterializeResult(metadata={"simulated": settings.simulated, "replays": f"none: {error}"})
        return
    here.write(MONITORED_TABLE, name, monitored.table, {"model": registered.version, "trace": monitored.trace})
    provenance = {"model": registered.uri, "trace": monitored.trace, "code": code_version(), "software": software()}
    page = TRIALS_PAGE.format(name)
    here.write_page(page, model, render_monitored(name, monitored, unseen, {**provenance, "Dagster run": context.run.run_id}))
    report_progress("replay the jobs", 1, 1)
    yield written_table(here, MONITORED_TABLE, name).materialized(
        {
            "simulated": settings.simulated,
            "model": registered.uri,
            "page": page_link(page),
            "jobs": monitored.jobs,
            "asked about": len(monitored.runs),
            **monitored.counts,
            "with and without start decisions": dg.MetadataValue.md(markdown_of(monitored.table, ".5g")),
            "varying runs": image(picture(monitored)),
        },
        check_monitored(monitored),
    )


def _replayed(lake: Lake, settings: System, registered: Registered, scheduler: str) -> tuple[Monitored, Unseen]:
    """Replay the trace that ``settings`` names; raise InputError if something is missing."""
    name, trace = settings.name, settings.trace
    if settings.simulated:
        raise InputError("the simulated cluster is simulated whole, in cluster_experiments")
    if not trace:
        raise InputError(f"no trace of its jobs is stated: queuecast variability ingest --system {name} --trace NAME")
    if not lake.has("jobs", trace):
        raise InputError(f"no jobs of {trace} are published: queuecast run --trace {trace}")
    if registered.scope != "all":
        raise InputError(
            "the model reads counters of a job's own nodes, where a delayed job would see itself: scope = 'all' in systems.toml"
        )
    table = unpack_table(name, *lake.read(FEATURES_TABLE, name))
    unseen = Unseen.of(registered.model, table.features["all"], table.runs, registered.thresholds, registered.learned_until_s)
    store, machine = CountersStore(lake.root, name), machine_of(lake, name)
    moments = Moments(store, registered.model.columns, application_types(lake, name), machine, settings.lag_s)
    return replayed(lake.read_clean(trace), stored(lake, RUNS, name), moments, unseen, scheduler), unseen
