"""Stages of a monitored system: counters, control runs, features, classifiers, trials.

What reads, learns and simulates is imported by the stages that need it: a run of a trace needs none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd
from pydantic import Field

from pipelines.assets.checks import (
    CONTROL_RUNS,
    COUNTERS,
    FEATURES,
    check_control_runs,
    check_counters,
    check_features,
    check_trials,
)
from pipelines.assets.checks import TRIALS as CHECKS
from pipelines.assets.described import (
    COLUMNS,
    LDMS_DIRECTORY,
    RUN_FILES,
    digest,
    models_version,
    registry_link,
    written_table,
)
from pipelines.assets.stages import LakeResource, RegistryResource, simulate_if_needed, system_stage
from pipelines.readers import SIMULATED
from pipelines.report.table import escaped, markdown_of
from pipelines.studies.progress import progress_reporter, report_progress
from pipelines.training.ledger import SYSTEM_NIGHTS, days_arrived
from pipelines.training.promote import RULES

if TYPE_CHECKING:
    pass

_SHOWN = 20


@system_stage(
    checks=COUNTERS,
    deps=[LDMS_DIRECTORY],
    group_name="ingest",
    kinds={"parquet"},
    description="Monitoring counters of every node, LDMS CSV into Parquet by sampler and day; broken files are quarantined, the rest goes on.",
)
def counters(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Read new counters; report them by day."""
    from pipelines.lake.counters import CountersStore
    from pipelines.readers.systems import system
    from pipelines.studies.monitored import read_counters, sampled

    name = system_lake.name
    _simulated_if_needed(system_lake)
    report = read_counters(system_lake.place(), system(system_lake.place(), name), progress_reporter("read counters"))
    store = CountersStore(system_lake.lake().root, name)
    sampled_days = sampled(store, report)
    parts = [part for sampler in sorted(store.samplers) for part in store.parts(sampler)]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(digest([(part.file, part.rows, part.values) for part in parts])),
        metadata={
            "dagster/row_count": sum(part.rows for part in parts),
            "values": sum(part.values for part in parts),
            "days": len({part.day for part in parts}),
            "simulated": name == SIMULATED,
            "files": f"{report.ingested:,} read, {report.continued:,} read on, {report.unchanged:,} known, {len(report.quarantined):,} quarantined",
            "damaged_lines": report.damaged,
            "samples_by_day": dg.MetadataValue.md(markdown_of(sampled_days, empty="no counters")),
            "quarantine": dg.MetadataValue.md("\n".join(f"* {escaped(text)}" for text in report.quarantined[:_SHOWN]) or "empty"),
        },
        check_results=check_counters(report.quarantined),
    )


@system_stage(
    checks=CONTROL_RUNS,
    deps=[RUN_FILES],
    group_name="ingest",
    kinds={"parquet"},
    description="Repeated runs of the same applications, with the waits of two MPI probes beside each, and the type of each application.",
)
def control_runs(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Keep new rows of the system's tables; report the number of runs per application."""
    from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
    from pipelines.readers.systems import system
    from pipelines.studies.monitored import label_balance, read_tables

    name = system_lake.name
    _simulated_if_needed(system_lake)
    tables = read_tables(system_lake.lake(), system(system_lake.place(), name))
    runs = stored(system_lake.lake(), RUNS, name)
    types = application_types(system_lake.lake(), name)
    table = label_balance(runs) if len(runs) else pd.DataFrame({"application": []})
    table.insert(1, "type", table["application"].map(types))
    of_table = written_table(system_lake.lake(), RUNS, name) if len(runs) else None
    return dg.MaterializeResult(
        data_version=of_table.version if of_table else None,
        metadata={
            **(of_table.metadata if of_table else {"dagster/row_count": 0}),
            "simulated": name == SIMULATED,
            "probe_results": len(stored(system_lake.lake(), PROBE_RESULTS, name)),
            "files": dg.MetadataValue.md("\n".join(f"* {escaped(table.line)}" for table in tables) or "none are known"),
            "applications": dg.MetadataValue.md(markdown_of(table)),
        },
        check_results=check_control_runs(system_lake.lake(), name, sum(len(table.kept.contradicting) for table in tables)),
    )


def _simulated_if_needed(system_lake: LakeResource) -> None:
    """Let the simulated cluster run for one more day in each night."""
    nights = days_arrived(system_lake.lake(), system_lake.name, system_lake.night, SYSTEM_NIGHTS)
    simulate_if_needed(system_lake, nights)


@system_stage(
    checks=FEATURES,
    progress="features of runs",
    deps=["counters", "control_runs"],
    group_name="features",
    kinds={"parquet", "numba"},
    description="Min, max and mean rate of every counter in the five minutes before each run, and each user's job, over its own nodes and over all; "
    "probes, types, and what ran beside it.",
)
def variability_features(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Compute the features in one pass over the counters, one row per run or job, and scope."""
    from pipelines.studies.monitored import FEATURES_TABLE, label_balance, pack_table, training_table

    name = system_lake.name
    table = training_table(system_lake.place(), name)
    frame, metadata = pack_table(table)
    system_lake.lake().write(FEATURES_TABLE, name, frame, metadata)
    return written_table(system_lake.lake(), FEATURES_TABLE, name).materialized(
        {
            "finding": f"{len(table.runs):,} control runs and {len(table.jobs):,} jobs of users have features.",
            "control_runs": len(table.runs),
            "user_jobs": len(table.jobs),
            "features": {scope: len(features.columns) for scope, features in table.features.items()},
            "left_out": dict(table.left_out),
            "simulated": table.generated,
            "labels": dg.MetadataValue.md(markdown_of(label_balance(table.runs))),
        },
        check_features(table),
    )


class VariabilityConfig(dg.Config):
    """The settings of training that are not in the system's ``systems.toml``.

    That file names the classifiers, the nodes whose counters they read, and whether features are eliminated.
    """

    seed: int = 0


@system_stage(
    code_version=RULES["variability"],
    progress="train and register",
    deps=["variability_features"],
    group_name="predictors",
    kinds={"mlflow", "scikitlearn"},
    description="Registered versions `variability-<system>`, self-contained; judged by F1 on runs they did not see; the champion by the rule.",
)
def variability_model(
    context: dg.AssetExecutionContext, config: VariabilityConfig, system_lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Train, judge and register classifiers; promote one or keep the champion; report why."""
    from models.variability.classifiers import thresholds_of
    from models.variability.evaluation import ClassifierTraining
    from pipelines.readers.systems import system
    from pipelines.studies.monitored import FEATURES_TABLE, MODEL_TABLE, unpack_table
    from pipelines.training.systems import train

    name = system_lake.name
    settings = system(system_lake.place(), name)
    work = system_lake.work(registry)
    store, model, table = work.store, work.subject, unpack_table(name, *work.lake.read(FEATURES_TABLE, name))
    learning = ClassifierTraining(settings.classifiers, thresholds_of(settings.classifiers), settings.elimination, seed=config.seed)
    trained = train(work, table, settings.scope, learning)

    candidates = work.lake.read(MODEL_TABLE, name)[0]
    return dg.MaterializeResult(
        data_version=models_version(store, model, trained.serves),
        metadata={
            "why": trained.why,
            **written_table(work.lake, MODEL_TABLE, name, COLUMNS).metadata,
            "champion": f"models:/{model}/{trained.champion}" if trained.champion else "none",
            "promoted": trained.promoted,
            "nothing_new": trained.nothing_new,
            "simulated": table.generated,
            "mlflow": registry_link(store.place, model),
            "candidates": dg.MetadataValue.md(markdown_of(candidates.drop(columns="why"), ".4f")),
        },
    )


class TrialConfig(dg.Config):
    """The number of trials."""

    trials: int = Field(default=100, ge=1, description="Trials of each policy")
    seed: int = 0


@system_stage(
    deps=["variability_model", "published_system", dg.AssetDep("runtime_model", partition_mapping=dg.IdentityPartitionMapping())],
    group_name="trials",
    kinds={"parquet", "numba", "mlflow"},
    checks=CHECKS,
    description="What knowing runtimes, variability, or both gives: schedules and comparison of trials on the simulated cluster, with the registered "
    "models `runtime-<system>` and `variability-<system>` as served.",
)
def system_comparison(
    context: dg.AssetExecutionContext, config: TrialConfig, system_lake: LakeResource, registry: RegistryResource
) -> Iterator[dg.MaterializeResult]:
    """Simulate trials with both champions; keep their schedules, and compare them.

    Without a champion of variability, the best classifier decides. A real system gets no trials: no simulated cluster
    resembles it.
    """
    from pipelines.training import trials

    work, name = system_lake.work(registry), system_lake.name
    if name != SIMULATED:
        context.log.warning(f"{name} is not a simulated cluster: there are no trials")
        return
    plan = trials.TrialPlan(config.trials, config.seed)
    runtimes, classifier = trials.published_models(plan, system_lake.place(), work.store)
    runs, table = trials.simulate_trials(
        plan, runtimes, classifier, lambda done, total: report_progress("simulate with both", done, total)
    )

    marks = {"generated": True, "variability": classifier.uri, "runtimes": runtimes.name, "seed": config.seed}
    work.lake.models(work.subject)  # what is written is made from them
    trials.keep_trials(work.lake, name, runs, table, marks)
    work.publish()

    yield written_table(work.lake, "comparison", name, COLUMNS).materialized(
        {
            "answer": " ".join(trials.answer(table)),
            "simulated": True,
            "trials": plan.trials,
            "runtime_model": runtimes.name,
            "variability_model": classifier.uri,
            "comparison": dg.MetadataValue.md(trials.overall(table).markdown()),
        },
        [check_trials(table)],
    )
