"""Checks of a system's counters, features, models, trials and replays."""

from collections.abc import Mapping, Sequence

import dagster as dg
import numpy as np
import pandas as pd

from models.registry.loading import consumer_model
from models.registry.variability_registration import VARIABILITY
from pipelines.assets.checks import broken, holds
from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
from pipelines.lake.tables import Lake
from pipelines.readers.simulated_site import CLUSTER
from pipelines.studies.trials import RUSH, TrialPlan
from pipelines.studies.variability_table import FEWEST_RUNS, TrainingTable, coverage, label_balance, still_metrics
from pipelines.training.systems import Retrained
from sim.cluster.simulate import simulate_on
from sim.policy import Policy

SEEN = 0.9
"""Min share of expected samples, and of nodes, behind the features."""
VARIED = (0.02, 0.2)
"""Plausible shares of runs that vary: with pure noise 6.7 % vary; the max is 31 % (Cantelli's inequality at 1.5)."""
STILL = 0.5
"""Max share of metrics that are constant before all runs. On a sound network, error counters are constant."""
_ASKED = 50
_WARN = dg.AssetCheckSeverity.WARN

COUNTERS = {
    "nothing_in_quarantine": "Every file could be read (a warning if not).",
}
CONTROL_RUNS = {
    "nothing_contradicts": "No file contradicts an earlier one about a run or probe (a warning if not).",
    "probes_and_types_are_of_runs": "Every probe result is of a known run, every application has a type (a warning if not).",
}
FEATURES = {
    "counters_move": f"At most {STILL:.0%} of the metrics are the same before every run (a warning if not: sensors may be dead).",
    "coverage_of_nodes_and_minutes": f"Of the nodes and of the samples expected in the windows before runs at least {SEEN:.0%} are there (a warning if not).",
    "labels_balanced": f"{VARIED[0]:.0%} to {VARIED[1]:.0%} of the runs vary (a warning if not).",
    "every_application_has_runs": f"Every application has at least {FEWEST_RUNS} runs, so that one of them can vary (a warning if not).",
}
MODEL = {
    "predicts_as_here": "Loaded back from the registry, what was trained predicts probabilities, those that it gives in this process.",
    "champion_carries_its_data": "The champion, or the best of the candidates without one, says what data it was trained on, of which nodes' counters.",
}
TRIALS = {
    "a_repeated_trial_is_the_same": "The first trial under EASY, simulated once more, gives every job the same start and runtime.",
    "fewer_runs_vary": "EASY that asks the classifier has fewer runs with variation than EASY (a warning if not).",
}


def check_counters(quarantined: Sequence[str]) -> list[dg.AssetCheckResult]:
    """Check ingested counters by the errors of files that could not be read."""
    first = quarantined[0] if quarantined else "none"
    return [holds("nothing_in_quarantine", not quarantined, severity=_WARN, files=len(quarantined), first=first)]


def check_control_runs(lake: Lake, system: str, contradicting: int) -> list[dg.AssetCheckResult]:
    """Check the stored runs of ``system``; ``contradicting`` rows were not stored."""
    runs, probes = stored(lake, RUNS, system), stored(lake, PROBE_RESULTS, system)
    alone = int((~probes["run_id"].isin(runs["run_id"])).sum())
    typeless = sorted(set(runs["application"]) - set(application_types(lake, system)))
    return [
        holds("nothing_contradicts", contradicting == 0, severity=_WARN, rows=contradicting),
        holds(
            "probes_and_types_are_of_runs",
            alone == 0 and not typeless,
            severity=_WARN,
            probes_without_run=alone,
            without_type=", ".join(typeless) or "none",
        ),
    ]


def check_features(table: TrainingTable) -> list[dg.AssetCheckResult]:
    """Check the features of a training table."""
    seen, balance = coverage(table), label_balance(table.runs)
    share = float(balance["varied"].sum() / balance["runs"].sum())
    least = float(seen[["nodes", "minutes"]].min().min())
    still = still_metrics(table)
    metrics = sum(name.endswith(".max") for name in table.features["own"].columns)
    return [
        holds(
            "counters_move",
            len(still) <= STILL * metrics,
            severity=_WARN,
            still=len(still),
            of=metrics,
            first=", ".join(still[:5]) or "none",
        ),
        holds(
            "coverage_of_nodes_and_minutes",
            least >= SEEN,
            severity=_WARN,
            nodes=float(seen["nodes"].min()),
            minutes=float(seen["minutes"].min()),
            runs_without_samples=int(seen["without"].max()),
        ),
        holds("labels_balanced", VARIED[0] <= share <= VARIED[1], severity=_WARN, share=share, varied=int(balance["varied"].sum())),
        holds(
            "every_application_has_runs",
            bool((balance["runs"] >= FEWEST_RUNS).all()),
            severity=_WARN,
            fewest=int(balance["runs"].min()),
            applications=len(balance),
        ),
    ]


def check_model(retrained: Retrained, off: float, rows: int, champion: Mapping[str, str]) -> list[dg.AssetCheckResult]:
    """Check a retraining.

    ``off`` is the max difference of probabilities, registry against this process, over ``rows`` runs; ``champion`` has the tags.
    """
    carried = champion.get("data_fingerprint", "") != "" and champion.get("scope", "") != ""
    return [
        holds("predicts_as_here", all(retrained.checks.values()) and off <= 1e-9, rows=rows, off=off),
        holds(
            "champion_carries_its_data",
            carried,
            version=int(retrained.champion or retrained.simulated),
            fingerprint=champion.get("data_fingerprint", ""),
        ),
    ]


def check_trials(runs: pd.DataFrame, plan: TrialPlan, table: pd.DataFrame) -> list[dg.AssetCheckResult]:
    """Check the ``runs`` of all trials of ``plan``, and their comparison ``table``.

    It simulates the first trial under the baseline once more.
    """
    seed = plan.seeds[0]
    again = simulate_on(CLUSTER, plan.submitted[seed], Policy(seed=seed)).runs
    first = runs[(runs["scheduler"] == plan.policies[0].scheduler) & (runs["seed"] == seed)]
    moved = sum(int((first[name].to_numpy() != again[name].to_numpy()).sum()) for name in ("start_s", "runtime_s"))
    asking = table[(table["scheduler"] == f"EASY{RUSH}") & (table["metric"] == "varied_runs")].iloc[0]
    return [
        broken("a_repeated_trial_is_the_same", moved, rows=2 * len(first)),
        holds(
            "fewer_runs_vary",
            asking["value"] < asking["baseline"],
            severity=_WARN,
            asked=float(asking["value"]),
            not_asked=float(asking["baseline"]),
        ),
    ]


def asked_back(retrained: Retrained, features: pd.DataFrame) -> tuple[float, int]:
    """Compare the probabilities of the registry's version with those of this process.

    Return the max difference and the number of runs compared, which are the last ones.
    """
    last = features.tail(_ASKED).loc[:, list(retrained.model.columns)].reset_index(drop=True)
    loaded = consumer_model(retrained.name, retrained.model_version, VARIABILITY.name)
    probabilities = pd.DataFrame(loaded.predict(last)).filter(like="probability_").to_numpy(np.float64)
    return float(np.abs(probabilities - retrained.model.predict_proba(last)).max()), len(last)
