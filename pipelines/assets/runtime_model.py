"""Stage 4: the predictors of a trace are registered, and the better one becomes the champion."""

import dagster as dg
import numpy as np

from pipelines.assets.checks import holds, specs
from pipelines.assets.partitions import traces
from pipelines.assets.predictions import PredictionConfig
from pipelines.assets.resources import LakeResource
from pipelines.storage.home import home
from pipelines.storage.registry import tracking
from pipelines.workflows.progress import report_progress
from pipelines.workflows.stages import History, register_predictors

CHECKS = {
    "champion_carries_its_data": "The champion of the registry says what data it was trained on.",
    "champion_predicts_as_here": "Loaded back from the registry, the champion gives the last submissions the predictions it gives in this process.",
}


@dg.asset(
    deps=["jobs", "user_history", "predictions"],
    partitions_def=traces,
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    check_specs=specs("runtime_model", CHECKS),
    description="Registered versions runtime-<trace> of the predictors, self-contained; the better one, by the stated rule, is the champion.",
)
def runtime_model(context: dg.AssetExecutionContext, config: PredictionConfig, lake: LakeResource) -> dg.MaterializeResult:
    """Read jobs, history and predictions, register the candidates, keep what became of them."""
    name = context.partition_key
    report_progress("register", 0, 1)
    clean = lake.lake().read_clean(name)
    table, marks = lake.lake().read_for(clean, "user_history")
    known = History(table.drop(columns="start_s"), table["start_s"].to_numpy(np.int64), marks["starts"])
    predictions, _ = lake.lake().read_for(clean, "predictions")
    store = tracking()
    made = register_predictors(clean, known, predictions, store, home(), context.run_id, config.seed)
    answers = made.answers
    lake.lake().write_for(clean, "runtime_model", made.versions, {"nothing_new": made.nothing_new})
    lake.lake().name_models(f"runtime-{name}", made.models)
    report_progress("register", 1, 1)

    model = f"runtime-{name}"
    champion = store.client.get_model_version(model, made.models["champion"])
    off = (answers["predicted_s"] - answers["expected_s"]).abs().max()
    shown = f"{store.uri}/#/models/{model}" if store.uri.startswith("http") else f"mlflow ui --backend-store-uri {store.uri}"
    return dg.MaterializeResult(
        metadata={
            "champion once published": f"models:/{model}/{champion.version}",
            "version": int(champion.version),
            "method": champion.tags.get("method", "unknown"),
            "why": champion.description or "",
            "MLflow run": champion.run_id or "",
            "MLflow": shown,
            "versions": dg.MetadataValue.md(made.versions.drop(columns="why").to_markdown(index=False, floatfmt=".4f")),
            "nothing new, nothing registered": made.nothing_new,
            "generated": clean.generated,
        },
        check_results=[
            holds("champion_carries_its_data", champion.tags.get("data_fingerprint", "") != "", version=int(champion.version)),
            # a champion chosen by hand or kept from before is not among the models of this run, and nothing is expected of it
            holds(
                "champion_predicts_as_here",
                bool(answers["expected_s"].isna().all() or off <= 1e-6),
                rows=len(answers),
                off_s=float(off),
            ),
        ],
    )
