"""Partitions: one a trace and one a monitored system; counters and nights also by day.

The keys are names, added when one is first run. Nights have a partition for each trace and day: the UI shows a missed night as a
missing partition, and a backfill does it. Tables have one for each trace alone: a night does not keep the tables of a day, it
publishes the next version of them.
"""

import dagster as dg

from pipelines.sources.traces import first_night

traces = dg.DynamicPartitionsDefinition(name="traces")
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
# a day's night is due on the day itself, at 02:00: the day that has begun is a partition, too
night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
nights = dg.MultiPartitionsDefinition({"day": night_days, "trace": traces})
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})
