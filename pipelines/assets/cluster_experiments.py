"""Variability, stage 4: the gain of asking the champion, on the simulated cluster."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from models.registry.variability_registration import VARIABILITY, registered_classifier
from pipelines.assets.described import page_link, picture, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import EXPERIMENTS, check_trials
from pipelines.report.cluster import render_cluster, varied_runs
from pipelines.report.table import markdown_of
from pipelines.sources.system import SIMULATED
from pipelines.storage.provenance import code_version, software
from pipelines.workflows.progress import report_progress
from pipelines.workflows.variability_trials import TRIALS, TRIALS_PAGE, TRIALS_TABLE, over_all, trial_plan, try_model
from sim.cluster.advisers import Adviser


class TrialConfig(dg.Config):
    """The number of trials."""

    trials: int = Field(default=TRIALS, ge=1, description="Trials of each scheduler")
    seed: int = 0


@system_stage(
    deps=["published_system"],
    group_name="trials",
    kinds={"parquet", "numba"},
    checks=EXPERIMENTS,
    description="Trials on the simulated cluster: EASY, EASY that asks the champion, and an oracle.",
)
def cluster_experiments(
    context: dg.AssetExecutionContext, config: TrialConfig, system_lake: LakeResource, registry: RegistryResource
) -> Iterator[dg.MaterializeResult]:
    """Run trials with the champion on the simulated cluster, and keep the differences.

    Without a champion, the trials use the best classifier. A real system gets no trials: no simulated cluster resembles it.
    """
    work, name = system_lake.work(registry), system_lake.name
    if name != SIMULATED:
        context.log.warning(f"{name} is no simulated cluster: there are no trials")
        return
    model = VARIABILITY.registered(name)
    named = work.lake.models(model)
    champion = registered_classifier(work.store, model, named["champion"] or named["simulated"])
    plan = trial_plan(config.trials, config.seed)
    adviser = Adviser(champion.model, champion.scope, champion.thresholds)
    runs, table = try_model(plan, adviser, lambda done, total: report_progress("try the champion", done, total))
    work.lake.write(TRIALS_TABLE, name, table, {"generated": True, "champion": champion.version})
    provenance = {"model": champion.uri, "code": code_version(), "software": software(), "Dagster run": context.run.run_id}
    work.lake.write_page(page := TRIALS_PAGE.format(name), model, render_cluster(plan, runs, table, provenance))

    work.publish()

    means = over_all(table)
    yield written_table(work.lake, TRIALS_TABLE, name).materialized(
        {
            "simulated": True,
            "cluster": plan.cluster.name,
            "champion": champion.uri
            if named["champion"]
            else f"none: {champion.uri} is too weak for one, and simulated all the same",
            "page": page_link(page),
            "trials": plan.trials,
            "jobs a trial": plan.workload.jobs,
            "means over trials": dg.MetadataValue.md(markdown_of(means, ".5g")),
            "runs with variation": picture(varied_runs(table)),
            "by application": dg.MetadataValue.md(markdown_of(table[table["metric"] == "varied"].drop(columns=["metric", "note"]))),
        },
        check_trials(runs, plan, means),
    )
