"""Both predictors in one simulation, on the simulated cluster."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from pipelines.assets.described import COLUMNS, picture, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import TRIALS as CHECKS
from pipelines.assets.variability_checks import check_trials
from pipelines.readers.system import SIMULATED
from pipelines.report.cluster import answer, drawn, overall
from pipelines.studies.progress import report_progress
from pipelines.studies.trials import TRIALS, TrialPlan, published_models, simulate_trials
from pipelines.training.compare import keep_trials


class TrialConfig(dg.Config):
    """The number of trials."""

    trials: int = Field(default=TRIALS, ge=1, description="Trials of each policy")
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

    Without a champion of variability, the best classifier decides. A real system gets no trials: no simulated cluster resembles it.
    """
    work, name = system_lake.work(registry), system_lake.name
    if name != SIMULATED:
        context.log.warning(f"{name} is not a simulated cluster: there are no trials")
        return
    plan = TrialPlan(config.trials, config.seed)
    runtimes, classifier = published_models(plan, system_lake.place(), work.store)
    runs, table = simulate_trials(
        plan, runtimes, classifier, lambda done, total: report_progress("simulate with both", done, total)
    )

    marks = {"generated": True, "variability": classifier.uri, "runtimes": runtimes.name, "seed": config.seed}
    work.lake.models(work.subject)  # what is written is made from them
    keep_trials(work.lake, name, runs, table, marks)
    work.publish()

    yield written_table(work.lake, "comparison", name, COLUMNS).materialized(
        {
            "answer": " ".join(answer(table)),
            "picture": picture(drawn(table)),
            "simulated": True,
            "trials": plan.trials,
            "runtime_model": runtimes.name,
            "variability_model": classifier.uri,
            "comparison": dg.MetadataValue.md(overall(table).markdown()),
        },
        [check_trials(table)],
    )
