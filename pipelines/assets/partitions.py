"""One partition a trace, one a monitored system; the keys are their names, added when one is first run. Counters and nights also go by day (UTC).

Nights have a partition for each trace and day: the UI shows a missed night as a missing partition, and a backfill does it. Tables have one for each
trace alone: a night does not keep the tables of a day, it publishes the next version of them.
"""

import dagster as dg

from pipelines.sources.traces import first_night

traces = dg.DynamicPartitionsDefinition(name="traces")
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
# a day's night is due on the day itself, at two o'clock: the day that has begun is a partition, too
night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
nights = dg.MultiPartitionsDefinition({"day": night_days, "trace": traces})
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})
