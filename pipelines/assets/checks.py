"""Asset checks: the claims that must hold, and the numbers that show it.

They look for faults of exports, options and disks, and do not repeat what the previous step enforces (an order, a
clipped range): tests check that. Checks of severity ERROR block the assets after them. What only a monitored system
needs is imported by its checks.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines.lake.tables import Lake
from pipelines.report.table import markdown_of
from sim.schedule import Schedule, busy_procs, recorded

if TYPE_CHECKING:
    from pipelines.studies.monitored import TrainingTable

# partitions of checks are marked as a preview; without them one trace would hide another's failure
warnings.filterwarnings("ignore", "Specifying a partitions_def on an AssetCheckSpec", dg.PreviewWarning)
_WARN = dg.AssetCheckSeverity.WARN


def specs(
    asset: str, claims: Mapping[str, str], partitions: dg.PartitionsDefinition, blocking: bool = True
) -> list[dg.AssetCheckSpec]:
    """Return one check specification per claim (name and text), in the asset's partitions.

    If they are ``blocking``, a check that fails as an error stops everything downstream of the asset.
    """
    return [
        dg.AssetCheckSpec(name, asset=asset, description=text, blocking=blocking, partitions_def=partitions)
        for name, text in claims.items()
    ]


def holds(
    name: str,
    passed: bool,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
    **metadata: Any,
) -> dg.AssetCheckResult:
    """Return a check that passes if ``passed``."""
    return dg.AssetCheckResult(check_name=name, passed=bool(passed), severity=severity, metadata=metadata)


def broken(name: str, count: int, rows: int | None = None) -> dg.AssetCheckResult:
    """Return a check that fails if ``count``, the rows that break its claim, is not 0."""
    counted: dict[str, Any] = {"broken": int(count)} | ({} if rows is None else {"of": int(rows)})
    return holds(name, int(count) == 0, **counted)


def as_before(check: str, drift: pd.DataFrame, name: str) -> dg.AssetCheckResult:
    """Return a check that warns if any row of ``drift`` drifted."""
    drifted = [*drift.loc[drift["drifted"], name]] if len(drift) else []
    table = markdown_of(drift, ".3f", empty="first champion")
    severity = dg.AssetCheckSeverity.WARN
    return holds(check, not drifted, severity=severity, drifted=", ".join(drifted) or "none", table=dg.MetadataValue.md(table))


DROPPED = 0.05
"""Max share of dropped jobs without a warning."""
LOAD = (0.02, 1.2)
"""Min and max offered load of a machine in use. Outside this range, the number of processors is often wrong."""
OVERBOOKED = 0.01
"""Max share of time in which the recorded schedule may hold too many processors: clocks of accounting differ by
seconds."""


JOBS = {
    "reads_back_as_written": "Read back from the lake, the jobs are those that were cleaned, and belong to the rejected ones beside them.",
    "few_jobs_dropped": f"At most {DROPPED:.0%} of the jobs were dropped (a warning if not).",
    "load_is_plausible": f"The jobs ask for {LOAD[0]:.0%} to {LOAD[1]:.0%} of the machine's time (a warning if not: look at the processors).",
    "recorded_schedule_fits": "By the recorded waits, running jobs hold no more processors than there are (a warning if not).",
}
SCHEDULES = {
    "never_more_processors_than_there_are": "At no moment do the running jobs hold more processors than the machine has.",
    "no_start_before_submission": "No job starts before it was submitted.",
}
SIMULATED = {
    "learning_helps": "The registered model and lightgbm are at least as accurate as the requested time (a warning if not).",
}


def check_jobs(cleaned: CleanTrace, stored: CleanTrace) -> list[dg.AssetCheckResult]:
    """Check an ingested trace; ``stored`` is the same trace, read back from the lake."""
    jobs, read = cleaned.jobs, max(cleaned.jobs_read, 1)
    dropped = int((cleaned.rejected_jobs["action"] == "dropped").sum())
    area = float((jobs["runtime_s"].to_numpy(np.float64) * jobs["procs"].to_numpy(np.float64)).sum())
    span = float(jobs["submit_s"].iloc[-1] - jobs["submit_s"].iloc[0])
    load = area / (cleaned.procs * span) if span > 0 else float("inf")
    same = fingerprint(stored.jobs) == fingerprint(jobs) and len(stored.rejected_jobs) == len(cleaned.rejected_jobs)
    share, peak = overbooked(cleaned)
    return [
        holds("reads_back_as_written", same, jobs=len(stored.jobs), rejected=len(stored.rejected_jobs)),
        holds("few_jobs_dropped", dropped <= DROPPED * read, severity=_WARN, dropped=dropped, read=read),
        holds("load_is_plausible", LOAD[0] <= load <= LOAD[1], severity=_WARN, load=load, processors=cleaned.procs),
        holds(
            "recorded_schedule_fits", share <= OVERBOOKED, severity=_WARN, share_of_time=share, peak=peak, processors=cleaned.procs
        ),
    ]


def overbooked(cleaned: CleanTrace) -> tuple[float, int]:
    """Return the share of recorded time with too many processors in use, and the max in use.

    Return 0, 0 if waits are missing.
    """
    if len(cleaned.jobs) == 0 or cleaned.jobs["wait_s"].isna().any():
        return 0.0, 0
    times, values = busy_procs(recorded(cleaned.jobs, cleaned.procs, trace=cleaned.name, generated=cleaned.generated))
    length = np.diff(times)
    return float(length[values[:-1] > cleaned.procs].sum() / max(length.sum(), 1)), int(values.max())


def check_schedules(schedules: Sequence[Schedule]) -> list[dg.AssetCheckResult]:
    """Check the schedules of one trace."""
    over = [int((busy_procs(schedule).values > schedule.procs).sum()) for schedule in schedules]
    early = [int((schedule.jobs["start_s"] < schedule.jobs["submit_s"]).sum()) for schedule in schedules]
    return [
        broken("never_more_processors_than_there_are", sum(over)),
        broken("no_start_before_submission", sum(early), rows=sum(len(schedule.jobs) for schedule in schedules)),
    ]


def check_simulated_model(shown: str, accuracy: pd.Series) -> dg.AssetCheckResult:
    """Check all accuracies; the simulated registered model is the predictor ``shown``."""
    learned = [name for name in (shown, "lightgbm") if name in accuracy]
    accuracies: dict[str, Any] = {str(name): float(accuracy[name]) for name in (*learned, "requested") if name in accuracy}
    helps = bool(accuracy[learned].min() >= accuracy["requested"]) if "requested" in accuracy else True
    return holds("learning_helps", helps, severity=_WARN, **accuracies)


STILL = 0.5
"""Max share of metrics that are constant before all runs. On a sound network, error counters are constant."""


COUNTERS = {
    "nothing_in_quarantine": "Every file could be read (a warning if not).",
}
CONTROL_RUNS = {
    "nothing_contradicts": "No file contradicts an earlier one about a run or probe (a warning if not).",
    "probes_and_types_are_of_runs": "Every probe result is of a known run, every application has a type (a warning if not).",
}
FEATURES = {
    "counters_move": f"At most {STILL:.0%} of the metrics are the same before every run (a warning if not: sensors may be dead).",
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
    from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored

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
    from pipelines.studies.monitored import still_metrics

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
    ]


def check_trials(table: pd.DataFrame) -> dg.AssetCheckResult:
    """Check the comparison ``table`` of all trials."""
    from pipelines.training.trials import RUSH

    asking = table[(table["scheduler"] == f"EASY{RUSH}") & (table["metric"] == "varied_runs")].iloc[0]
    return holds(
        "fewer_runs_vary",
        asking["value"] < asking["baseline"],
        severity=_WARN,
        asked=float(asking["value"]),
        not_asked=float(asking["baseline"]),
    )
