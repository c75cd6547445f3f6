"""Checks of a system's counters, features, models, trials and replays."""

from collections.abc import Sequence

import dagster as dg
import pandas as pd

from pipelines.assets.checks import holds
from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
from pipelines.lake.tables import Lake
from pipelines.studies.trials import RUSH
from pipelines.studies.variability_table import TrainingTable, coverage, still_metrics

SEEN = 0.9
"""Min share of expected samples, and of nodes, behind the features."""
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
    seen = coverage(table)
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
    ]


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
