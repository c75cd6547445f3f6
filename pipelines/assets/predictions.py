"""Stage 3: runtimes predicted walk-forward, and how good the predictions are."""

import dagster as dg
import numpy as np

from features.schema import recorded_end_s
from pipelines.checks import broken, holds, specs
from pipelines.partitions import traces
from pipelines.progress import teller
from pipelines.resources import LakeResource
from pipelines.stages import BY_USERS, PREDICTORS, prediction_metrics, walk_forward_predictions

LEARNED = (BY_USERS, "lightgbm", "quantile(order=accuracy)")
"""Learned predictors that aim at accuracy."""


class PredictionConfig(dg.Config):
    """How the learned predictor is trained."""

    seed: int = 0


CHECKS = {
    "one_prediction_a_job": "Every predictor has a finite prediction for every job.",
    "within_request": "Every prediction lies between one second and the request.",
}
METRIC_CHECKS = {
    "first_jobs_get_their_request": "Where no two jobs of a user have ended, last2 is the request: predictions and history are aligned.",
    "requests_hold": "The requested time under-predicts no job.",
    "learning_helps": "The learned predictors are at least as accurate as the requested time (a warning if not).",
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
    known, _ = lake.lake().read_for(clean, "user_history")
    end = recorded_end_s(clean.jobs, known["start_s"].to_numpy(np.int64))
    made = walk_forward_predictions(clean, known, end, seed=config.seed, progress=teller("train week by week"))
    metrics = prediction_metrics(clean, made.table, known["completed_jobs"].to_numpy())
    marks = {"seed": config.seed, "fallback_jobs": made.fallback_jobs, "models": len(made.trained)}
    lake.lake().write_for(clean, "predictions", made.table, marks)
    lake.lake().write_for(clean, "prediction_metrics", metrics, marks)

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
    few = (known["completed_jobs"] < 2).to_numpy()
    yield dg.MaterializeResult(
        asset_key="prediction_metrics",
        metadata={
            "table": dg.MetadataValue.md(metrics.to_markdown(index=False, floatfmt=".4g")),
            **{f"accuracy of {predictor}": float(accuracy[predictor]) for predictor in PREDICTORS},
            "generated": clean.generated,
        },
        check_results=[
            broken(
                "first_jobs_get_their_request",
                (made.table["last2"] != made.table["requested"])[few].sum(),
                "prediction_metrics",
                of=few.sum(),
            ),
            holds("requests_hold", overall["underprediction_rate"]["requested"] == 0, "prediction_metrics"),
            holds(
                "learning_helps",
                accuracy[list(LEARNED)].min() >= accuracy["requested"],
                "prediction_metrics",
                severity=dg.AssetCheckSeverity.WARN,
                **{name: float(accuracy[name]) for name in (*LEARNED, "requested")},
            ),
        ],
    )
