"""Partitions: a trace or monitored system and a day; counters by their own days.

A run makes the partition of its trace and today; a night makes that of its trace and its day. Both make the same assets, and
Dagster requires one partitions definition for all assets of a run. So one partition key starts every stage of a night, a missed
night is missing in the grid of ``night``, and a backfill of the missing days fills it. A partition by trace alone could not show
which day is missing, and a backfill does not keep a tag with the day. A table has one current version, whatever the day: a
partition shows on which day a version was made, not that it still exists. Only nights are expected every day: if a trace does not
grow, its grid has only the days of runs. The first run of a trace or system adds its name.
"""

from datetime import UTC, datetime

import dagster as dg

from pipelines.sources.traces import TRACES, first_night

traces = dg.DynamicPartitionsDefinition(name=TRACES)
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
# a day's night is due on that day, at 02:00: so today is a partition, too
night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
of_traces = dg.MultiPartitionsDefinition({"day": night_days, "trace": traces})
of_systems = dg.MultiPartitionsDefinition({"day": night_days, "system": systems})
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})
JOBS = {"nightly": "night", "nightly_variability": "variability_night"}
"""The jobs of nights, each with the asset that marks its day."""


def trace_on(name: str, day: str = "") -> dg.MultiPartitionKey:
    """Return the partition of a trace and a day, by default today (UTC)."""
    return dg.MultiPartitionKey({"day": day or f"{datetime.now(UTC):%Y-%m-%d}", "trace": name})


def system_on(name: str, day: str = "") -> dg.MultiPartitionKey:
    """Return the partition of a monitored system and a day, by default today (UTC)."""
    return dg.MultiPartitionKey({"day": day or f"{datetime.now(UTC):%Y-%m-%d}", "system": name})


def name_and_day(partition: str) -> tuple[str, str]:
    """Return the trace or system of a partition key, and its day."""
    day, _, name = partition.partition("|")
    return name, day


def is_night(run: dg.DagsterRun) -> bool:
    """Tell whether a run is a night, by the assets that it was asked to make."""
    chosen = {key.to_user_string() for key in run.asset_selection or ()}
    return bool(chosen & {*JOBS.values()}) if chosen else run.job_name in JOBS
