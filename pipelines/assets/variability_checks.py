"""Checks of a system's counters, features, models, trials and replays."""

from collections.abc import Mapping, Sequence

import dagster as dg
import pandas as pd

from pipelines.assets.checks import holds
from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
from pipelines.lake.tables import Lake
from pipelines.studies.trials import RUSH
from pipelines.studies.variability_table import FEWEST_RUNS, TrainingTable, coverage, label_balance, still_metrics

SEEN = 0.9
"""Min share of expected samples, and of nodes, behind the features."""
VARIED = (0.02, 0.2)
"""Plausible shares of runs that vary: with pure noise 6.7 % vary; the max is 31 % (Cantelli's inequality at 1.5)."""
STILL = 0.5
"""Max share of metrics that are constant before all runs. On a sound network, error counters are constant."""
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
    "champion_carries_its_data": "The champion, or the best of the candidates without one, says what data it was trained on, of which nodes' counters.",
}
TRIALS = {
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


def check_model(version: str, tags: Mapping[str, str]) -> dg.AssetCheckResult:
    """Check the ``tags`` of the champion's ``version``, or of the best candidate's."""
    data, scope = tags.get("data_fingerprint", ""), tags.get("scope", "")
    return holds("champion_carries_its_data", data != "" and scope != "", version=int(version), fingerprint=data)


def check_trials(table: pd.DataFrame) -> dg.AssetCheckResult:
    """Check the comparison ``table`` of all trials."""
    asking = table[(table["scheduler"] == f"EASY{RUSH}") & (table["metric"] == "varied_runs")].iloc[0]
    return holds(
        "fewer_runs_vary",
        asking["value"] < asking["baseline"],
        severity=_WARN,
        asked=float(asking["value"]),
        not_asked=float(asking["baseline"]),
    )
