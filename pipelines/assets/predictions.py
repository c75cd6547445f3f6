"""Stage 3: runtimes predicted walk-forward, and how good the predictions are."""

import dagster as dg
import numpy as np

from pipelines.checks import broken, holds, specs
from pipelines.partitions import traces
from pipelines.progress import teller
from pipelines.resources import LakeResource
from pipelines.stages import PREDICTORS, prediction_metrics, walk_forward_predictions


class PredictionConfig(dg.Config):
    """How the learned predictor is trained."""

    seed: int = 0


CHECKS = {
    "one_prediction_a_job": "Every predictor has a finite prediction for every job.",
    "within_request": "Every prediction lies between one second and the request.",
}
METRIC_CHECKS = {
    "clairvoyant_is_exact": "The clairvoyant predictor has accuracy 1 and no error: the tables are aligned.",
    "learning_helps": "The learned predictor is more accurate than the requested time (a warning if not).",
}


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "predictions",
            deps=["jobs", "user_history"],
            group_name="predictors",
            kinds={"parquet", "lightgbm"},
            description="Runtimes predicted from what was known at submission; the learned ones week by week, each by a model that saw only ended jobs.",
        ),
        dg.AssetSpec(
            "prediction_metrics",
            deps=["jobs", "user_history"],
            group_name="predictors",
            kinds={"parquet"},
            description="Accuracy, under-prediction, absolute error and quantile loss by predictor and by the user's experience.",
        ),
    ],
    partitions_def=traces,
    check_specs=[*specs("predictions", CHECKS), *specs("prediction_metrics", METRIC_CHECKS)],
    name="predict",
)
def predict(context: dg.AssetExecutionContext, config: PredictionConfig, lake: LakeResource):
    """Read jobs and history, predict walk-forward, keep predictions and their measures."""
    name = context.partition_key
    clean = lake.lake().read_clean(name)
    known, _ = lake.lake().read("user_history", name)
    end = known["start_s"].to_numpy(np.int64) + clean.jobs["runtime_s"].to_numpy(np.int64)
    made = walk_forward_predictions(clean, known, end, seed=config.seed, progress=teller("train week by week"))
    metrics = prediction_metrics(clean, made.table, known["completed_jobs"].to_numpy())
    marks = {"generated": clean.generated, "seed": config.seed, "fallback_jobs": made.fallback_jobs}
    lake.lake().write("predictions", name, made.table, marks)
    lake.lake().write("prediction_metrics", name, metrics, marks)

    values = made.table[list(PREDICTORS)].to_numpy()
    requested = made.table["requested"].to_numpy()[:, None]
    yield dg.MaterializeResult(
        asset_key="predictions",
        metadata={
            "dagster/row_count": len(made.table),
            "generated": clean.generated,
            "models": len(made.trained),
            "predicted by the request for want of a model": made.fallback_jobs,
            "seed": config.seed,
        },
        check_results=[
            broken("one_prediction_a_job", (~np.isfinite(values)).sum(), "predictions", of=values.size),
            broken("within_request", ((values < 1) | (values > requested)).sum(), "predictions", of=values.size),
        ],
    )
    overall = metrics[metrics["experience"] == "all"].set_index("predictor")
    accuracy = overall["accuracy"]
    yield dg.MaterializeResult(
        asset_key="prediction_metrics",
        metadata={
            "table": dg.MetadataValue.md(metrics.to_markdown(index=False, floatfmt=".4g")),
            **{f"accuracy of {predictor}": float(accuracy[predictor]) for predictor in PREDICTORS},
            "generated": clean.generated,
        },
        check_results=[
            holds(
                "clairvoyant_is_exact",
                bool(accuracy["clairvoyant"] == 1.0 and overall["mae_s"]["clairvoyant"] == 0),
                "prediction_metrics",
            ),
            holds(
                "learning_helps",
                accuracy["lightgbm"] > accuracy["requested"],
                "prediction_metrics",
                severity=dg.AssetCheckSeverity.WARN,
                lightgbm=float(accuracy["lightgbm"]),
                requested=float(accuracy["requested"]),
            ),
        ],
    )
