"""Schedules and sensors: nights, and alerts.

Alerts tell of failed nights and drift: lines of JSON in ``alerts.jsonl`` of the home directory. A night is a run with the tag
:data:`pipelines.assets.stages.NIGHT_TAG`.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from pipelines.assets.stages import NIGHT_TAG, applicable, night_of, systems, traces
from pipelines.lake.places import append, home
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import grows
from pipelines.readers.systems import systems as remembered_systems
from pipelines.training.ledger import days_to_come


def alerts_file(home: Path) -> Path:
    """Return the file of alerts; a site's own monitoring may read it."""
    return home / "alerts.jsonl"


def alert(home: Path, kind: str, subject: str, night: str, what: str) -> str:
    """Add a line ``at kind subject night what``; return it. Lines of processes do not mix."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": now, "kind": kind, "subject": subject, "night": night, "what": what})
    append(alerts_file(home), f"{line}\n".encode())
    return line


@dg.schedule(
    job_name="nightly",
    cron_schedule="0 2 * * *",
    name="nightly_retraining",
    description="Does the night of the day of each trace that grows, at 02:00 UTC.",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly_retraining(context: dg.ScheduleEvaluationContext):
    """Start the day's night of each trace that grows.

    Archives and generated workloads do not grow; a log that arrives grows until it has ended.
    """
    names = context.instance.get_dynamic_partitions(str(traces.name))
    if not names:
        return dg.SkipReason("no trace is known yet: queuecast run adds one")
    catalogue = load_catalogue()
    growing = [name for name in names if name in catalogue and grows(catalogue[name])]
    lake, why = Lake(home() / "lake"), []
    if ended := [name for name in growing if catalogue[name].arrives_days and not days_to_come(lake, catalogue[name])]:
        why.append(f"the log has ended, all its days have arrived: {', '.join(ended)}")
    if still := sorted({*names} - {*growing}):
        why.append(f"no trace that grows: {', '.join(still)} (queuecast run --trace NAME --grows says otherwise)")
    if due := [name for name in growing if name not in ended]:
        return _nights(context, "nightly", due)
    return dg.SkipReason("; ".join(why))


# a separate schedule: a job has one kind of partition, systems are not traces, and a trace's night does not wait for counters
@dg.schedule(
    job_name="nightly_variability",
    cron_schedule="30 2 * * *",
    name="nightly_variability_retraining",
    description="Reads what is new of each monitored system and retrains its classifiers, at 02:30 UTC.",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly_variability_retraining(context: dg.ScheduleEvaluationContext):
    """Start the day's night of each known system: read, retrain, promote a better model."""
    context.instance.add_dynamic_partitions(str(systems.name), list(remembered_systems(home())))
    names = context.instance.get_dynamic_partitions(str(systems.name))
    if not names:
        return dg.SkipReason("no system is known yet: queuecast run or queuecast variability ingest adds one")
    return _nights(context, "nightly_variability", names)


def _nights(context: dg.ScheduleEvaluationContext, job: str, names: Sequence[str]) -> list[dg.RunRequest]:
    """Return a run of ``job`` for each trace or system: the night of the tick's day."""
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    definition = context.repository_def.get_job(job)
    return [
        dg.RunRequest(
            run_key=f"{day}/{name}",
            partition_key=name,
            tags={NIGHT_TAG: day},
            asset_selection=applicable(definition, name),
        )
        for name in names
    ]


@dg.run_failure_sensor(
    name="failed_nights",
    description="Alerts for each night that failed.",
    default_status=dg.DefaultSensorStatus.RUNNING,
    monitor_all_code_locations=True,
)
def failed_nights(context: dg.RunFailureSensorContext):
    """Alert for every night that failed."""
    run = context.dagster_run
    subject, night = night_of(run)
    if not night:
        return dg.SkipReason(f"{run.job_name} is not a night")
    errors = [step.step_failure_data.error for step in context.get_step_failure_events() if step.step_failure_data.error]
    what = errors[0].message.strip().splitlines()[0] if errors else context.failure_event.message or "failed"
    context.log.warning(alert(home(), "night failed", subject, night, what))
    return None


@dg.run_status_sensor(
    name="drift",
    description="Alerts for each failed check of a night: inputs that drifted, a champion that became worse.",
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitor_all_code_locations=True,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def drift(context: dg.RunStatusSensorContext):
    """Alert for every failed check of a night: drifted inputs, or a worse champion."""
    run = context.dagster_run
    subject, night = night_of(run)
    if not night:
        return dg.SkipReason(f"{run.job_name} is not a night")
    for entry in context.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
        evaluation = entry.get_dagster_event().asset_check_evaluation_data
        if not evaluation.passed:
            drifted = evaluation.metadata.get("drifted")
            what = f"{evaluation.check_name}: {drifted.value}" if drifted is not None else evaluation.check_name
            context.log.warning(alert(home(), "drift", subject, night, what))
    return None
