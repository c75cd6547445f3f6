"""One partition a trace, one a monitored system; the keys are their names, added when one is first run. Counters also go by day (UTC)."""

import dagster as dg

traces = dg.DynamicPartitionsDefinition(name="traces")
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})
