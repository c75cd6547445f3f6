"""Stage 3, beside the runtime model: learn an order of the queue and register it."""

import dagster as dg

from pipelines.assets.checks import holds
from pipelines.assets.config import config_of
from pipelines.assets.described import registry_link, written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.dated import dated_of
from pipelines.dated.history import read_history, whole_accounting
from pipelines.dated.policy import keep_learned_policy
from sim.campaigns.learned_order import Learning

CHECKS = {
    "learned_or_told_why": "A version of policy-<trace> was registered and read back, or a note says why nothing was learned."
}


class LearningConfig(config_of(Learning, "formula", "budget", "seed")):  # type: ignore[misc]
    """The settings of the search; ``queuecast policies`` has the same."""


@trace_stage(
    "learning an order",
    checks=CHECKS,
    deps=["jobs", "user_history", "runtime_model"],
    group_name="predictors",
    kinds={"mlflow", "numba"},
    description="A version policy-<trace>: an order of the queue, learned on whole weeks before the date, with its gain on weeks held out.",
)
def learned_policy(
    context: dg.AssetExecutionContext, config: LearningConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Learn an order from the jobs that had ended by the date, and register it."""
    name = lake.name
    clean, store = lake.lake().read_clean(name), registry.tracking()
    accounting = whole_accounting(clean, read_history(lake.lake(), clean))
    until_s = dated_of(lake.lake().read_for(clean, "runtime_model")[1]).until_s
    table = keep_learned_policy(lake.lake(), clean, accounting.end_s, until_s, store, Learning(**dict(config)), context.run.run_id)
    row = table.iloc[0]
    return written_table(lake.lake(), "learned_policy", name).materialized(
        {
            "version": row["version"] or "none",
            "scheduler": row["scheduler"] or "none",
            "gain": row["note"],
            "MLflow": registry_link(store.place, f"policy-{name}"),
            "generated": clean.generated,
        },
        [holds("learned_or_told_why", bool(row["version"] or row["note"]), note=row["note"])],
    )
