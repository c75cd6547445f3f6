"""One night of a monitored system: ingest, train and judge, replace or keep, try again.

Counters and control runs are kept as ingested, each file whole: they are facts, and reading them again changes nothing. Features,
trials, aliases and the row of the night are published in one step or not at all (:mod:`pipelines.storage.versions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from features.errors import InputError
from features.monitoring.labels import THREE_CLASSES
from pipelines.sources.systems import system
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import NIGHT, aliases_of, alone, begin_night, discarded_on_error
from pipelines.storage.registry import kept_versions, pruned
from pipelines.workflows.progress import report_progress
from pipelines.workflows.variability_ingest import Ingested, ingest
from pipelines.workflows.variability_models import Retrained
from pipelines.workflows.variability_table import FEATURES_TABLE, TrainingTable, pack_table, training_table
from pipelines.workflows.variability_trials import TRIALS, over_all, trial_plan, trials_page, try_model

if TYPE_CHECKING:
    import dagster as dg

    from models.registry.tracking import Tracking

NIGHTS_TABLE, MODEL_TABLE, TRIALS_TABLE = "variability_nights", "variability_model", "cluster_experiments"
TRIALS_PAGE = "variability/{}.html"
"""Under ``reports`` in the home directory."""


@dataclass(frozen=True)
class VariabilityNight:
    """The results of a night.

    ``row`` is its row of the table of nights, ``trials`` means by scheduler (empty for a system that is not simulated).
    """

    row: dict[str, Any]
    ingested: Ingested
    table: TrainingTable
    retrained: Retrained
    checks: list[dg.AssetCheckResult]
    trials: pd.DataFrame = field(default_factory=pd.DataFrame)


def night(
    home: Path, name: str, label: str, connect: Callable[[], Tracking], *, run_id: str = "", seed: int = 0, trials: int = TRIALS
) -> VariabilityNight:
    """Do the night ``label`` of the system ``name``.

    On any error, features, trials and aliases are those of the night before. Raises InputError for bad input and where a check
    fails, and any other error.
    """
    from models.registry.variability_registration import VARIABILITY, load_version
    from models.variability.evaluation import Learning
    from pipelines.workflows import variability_checks as checks
    from pipelines.workflows.variability_models import retrain

    known, model, keep = system(home, name), VARIABILITY.registered(name), kept_versions()
    lake = Lake(home / "lake", f"{NIGHT}{label}")
    versions = lake.versions(model)
    with alone(home, model), discarded_on_error(lake, model):
        store = connect()
        told = begin_night(lake, store, model)
        versions.note(lake.draft, made_by=f"the night {label}", stage="ingesting")
        came = ingest(home, known)
        results = checks.check_counters(came.quarantine, came.days)
        results += checks.check_control_runs(Lake(home / "lake"), name, came.contradicting)
        versions.note(lake.draft, stage="making features")
        report_progress("features of runs", 0, 1)
        table = training_table(home, name)
        lake.write(FEATURES_TABLE, name, *pack_table(table))
        results += checks.check_features(table)
        report_progress("features of runs", 1, 1)
        _stop_at(checks.failed(results), label, name)
        versions.note(lake.draft, stage="retraining")
        report_progress("train and register", 0, 1)
        made = retrain(
            table,
            known.scope,
            store,
            Learning(known.classifiers, THREE_CLASSES, known.elimination, seed=seed),
            tags={"dagster_run_id": run_id, "night": label},
            promote=False,
        )
        lake.write(MODEL_TABLE, name, made.registered, {"generated": table.generated})
        champion = store.client.get_model_version(model, made.champion).tags
        results += checks.check_model(made, *checks.asked_back(made, table.features[known.scope]), champion)
        report_progress("train and register", 1, 1)
        means = pd.DataFrame()
        if known.simulated:
            versions.note(lake.draft, stage="trying the champion")
            report_progress("try the champion", 0, 1)
            plan = trial_plan(trials, seed)
            asked = load_version(model, made.champion)
            conducted, compared = try_model(plan, asked, champion.get("scope", known.scope))
            lake.write(TRIALS_TABLE, name, compared, {"generated": True, "champion": made.champion})
            lake.write_page(
                TRIALS_PAGE.format(name), model, trials_page(plan, conducted, f"models:/{model}/{made.champion}", run_id)
            )
            means = over_all(compared)
            results += checks.check_trials(conducted.runs, plan, means)
            report_progress("try the champion", 1, 1)
        _stop_at(checks.failed(results), label, name)
        row = _row(label, came, table, made, "; ".join(told))
        before = lake.read(NIGHTS_TABLE, name)[0] if lake.has(NIGHTS_TABLE, name) else pd.DataFrame()
        lake.write(NIGHTS_TABLE, name, pd.concat([before, pd.DataFrame([row])], ignore_index=True))
        lake.name_models(model, {"champion": made.champion, "challenger": made.challenger})
        versions.publish(lake.draft, aliases_of(store, model))
        pruned(store, model, keep)
        return VariabilityNight(row, came, table, made, results, means)


def _row(label: str, came: Ingested, table: TrainingTable, made: Retrained, note: str) -> dict[str, Any]:
    return {
        "night": label,
        "files": came.report.ingested + came.report.continued,
        "quarantined": len(came.quarantine),
        "runs": len(table.runs),
        "last_start_s": int(table.runs["start_s"].max()),
        "champion": made.champion,
        "promoted": made.promoted,
        "why": made.why,
        "note": note,
    }


def _stop_at(failed: list[str], label: str, name: str) -> None:
    if failed:
        raise InputError(
            f"night {label} of {name}: what was made fails {', '.join(failed)}; champion and tables stay those of the night before"
        )
