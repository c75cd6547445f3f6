"""Stage 3: train a trace's predictors up to a date, register them, choose the champion."""

import dagster as dg
from pydantic import Field

from pipelines.assets.checks import holds, specs
from pipelines.assets.described import models_version, registry_link, told
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.report.table import markdown_of
from pipelines.workflows.progress import report_progress
from pipelines.workflows.registering import register_predictors
from pipelines.workflows.split import date_of
from pipelines.workflows.stages import read_history

CHECKS = {
    "champion_carries_its_data": "The champion of the registry says what data it was trained on.",
    "champion_predicts_as_here": "Loaded back from the registry, the champion gives the last submissions the predictions it gives in this process.",
}


class TrainingConfig(dg.Config):
    """The settings of training."""

    until: str = Field(
        default="",
        description="Learn from what had ended by this date (1997-05-01) or second of the trace, simulate what comes after; by default the last third "
        "of the trace's time, at least four weeks, is left",
    )
    seed: int = 0


@dg.asset(
    deps=["jobs", "user_history"],
    partitions_def=traces,
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    check_specs=specs("runtime_model", CHECKS),
    description="Versions runtime-<trace> that learned from what had ended by a date inside the trace; the best by the stated rule is the champion.",
)
def runtime_model(
    context: dg.AssetExecutionContext, config: TrainingConfig, lake: LakeResource, registry: RegistryResource
) -> dg.MaterializeResult:
    """Register the candidates of a trace; keep the results and the version to simulate."""
    name = context.partition_key
    report_progress("register", 0, 1)
    clean = lake.lake().read_clean(name)
    history = read_history(lake.lake(), clean)
    store = registry.tracking()
    made = register_predictors(clean, history, store, lake.place(), context.run_id, until=config.until, seed=config.seed)
    answers = made.answers
    marks = {
        "nothing_new": made.nothing_new,
        "until_s": made.date.at_s,
        "until_note": made.date.note,
        "simulated": made.simulated,
        "why": made.why,
    }
    lake.lake().write_for(clean, "runtime_model", made.versions, marks)
    lake.lake().name_models(f"runtime-{name}", made.models)
    report_progress("register", 1, 1)

    model = f"runtime-{name}"
    champion = store.client.get_model_version(model, made.models["champion"])
    off = (answers["predicted_s"] - answers["expected_s"]).abs().max()
    other = {} if made.simulated == made.models["champion"] else {"simulated": made.simulated}
    return dg.MaterializeResult(
        data_version=models_version(store, model, made.models, **other),
        metadata={
            **told(lake.lake(), "runtime_model", name).metadata,
            "champion once published": f"models:/{model}/{champion.version}",
            "version": int(champion.version),
            "method": champion.tags.get("method", "unknown"),
            "why": champion.description or "",
            "learned from what had ended by": date_of(clean, made.date.at_s),
            "about that date": made.date.note or "the last third of the trace's time, at least four weeks, is left",
            "simulated": f"models:/{model}/{made.simulated}" + (f": {made.why}" if made.why else ""),
            "snapshot of the champion": date_of(clean, int(champion.tags.get("snapshot_s", 0))),
            "MLflow run": champion.run_id or "",
            "MLflow": registry_link(store.uri, model),
            "versions": dg.MetadataValue.md(markdown_of(made.versions.drop(columns="why"), ".4f")),
            "nothing new, nothing registered": made.nothing_new,
            "generated": clean.generated,
        },
        check_results=[
            holds("champion_carries_its_data", champion.tags.get("data_fingerprint", "") != "", version=int(champion.version)),
            # nothing is expected of a champion that was chosen by hand
            holds(
                "champion_predicts_as_here",
                bool(answers["expected_s"].isna().all() or off <= 1e-6),
                rows=len(answers),
                off_s=float(off),
            ),
        ],
    )
