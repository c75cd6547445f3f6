"""Partitions: a trace or monitored system and a day; counters by their own days.

A run is the partition of its trace and today, a night that of its trace and its day, and both make the same assets. So one
partition key starts every stage of a night, a missed night is missing in the grid of ``night``, and a backfill of the missing days
makes them whole: Dagster wants one partitions definition of all assets of a run. A partition by trace alone could not say which
day is missing, and a tag with the day is not kept by a backfill. A table has one current version whatever the day: a partition
says on which day a version was made, not that it is still there. Only nights are expected every day: of what does not grow the
grid has only the days of runs. The names of traces and systems are added when one is first run.
"""

from datetime import UTC, datetime

import dagster as dg

from pipelines.sources.traces import TRACES, first_night

traces = dg.DynamicPartitionsDefinition(name=TRACES)
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
# a day's night is due on the day itself, at 02:00: the day that has begun is a partition, too
night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
of_traces = dg.MultiPartitionsDefinition({"day": night_days, "trace": traces})
of_systems = dg.MultiPartitionsDefinition({"day": night_days, "system": systems})
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})
JOBS = {"nightly": "night", "nightly_variability": "variability_night"}
"""Jobs of nights, and the asset that each ends with."""


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
    """Tell whether a run is a night, by what it was asked to make."""
    chosen = {key.to_user_string() for key in run.asset_selection or ()}
    return bool(chosen & {*JOBS.values()}) if chosen else run.job_name in JOBS
