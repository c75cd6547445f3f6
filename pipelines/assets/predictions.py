"""Stage 3: runtimes predicted walk-forward, and how good the predictions are."""

import dagster as dg
import numpy as np

from features.jobs.schema import recorded_end_s
from pipelines.assets.checks import specs
from pipelines.assets.partitions import traces
from pipelines.assets.resources import LakeResource
from pipelines.workflows.progress import progress_reporter
from pipelines.workflows.stages import PREDICTORS, prediction_metrics, walk_forward_predictions
from pipelines.workflows.trace_checks import PREDICTION_METRICS, PREDICTIONS, check_prediction_metrics, check_predictions


class PredictionConfig(dg.Config):
    """How the learned predictor is trained."""

    seed: int = 0


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
    check_specs=[*specs("predictions", PREDICTIONS), *specs("prediction_metrics", PREDICTION_METRICS)],
    name="predict",
)
def predict(context: dg.AssetExecutionContext, config: PredictionConfig, lake: LakeResource):
    """Read jobs and history, predict walk-forward, keep predictions and their measures."""
    name = context.partition_key
    clean = lake.lake().read_clean(name)
    known, _ = lake.lake().read_for(clean, "user_history")
    end = recorded_end_s(clean.jobs, known["start_s"].to_numpy(np.int64))
    made = walk_forward_predictions(clean, known, end, seed=config.seed, progress=progress_reporter("train week by week"))
    metrics = prediction_metrics(clean, made.table, known["completed_jobs"].to_numpy())
    marks = {"seed": config.seed, "fallback_jobs": made.fallback_jobs, "models": len(made.trained)}
    lake.lake().write_for(clean, "predictions", made.table, marks)
    lake.lake().write_for(clean, "prediction_metrics", metrics, marks)

    yield dg.MaterializeResult(
        asset_key="predictions",
        metadata={
            "dagster/row_count": len(made.table),
            "generated": clean.generated,
            "models": len(made.trained),
            "predicted by the request for want of a model": made.fallback_jobs,
            "seed": config.seed,
        },
        check_results=check_predictions(made.table, known["completed_jobs"].to_numpy(), made.fallback_jobs),
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
        check_results=check_prediction_metrics(accuracy),
    )
